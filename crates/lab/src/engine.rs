//! The volume's own engine over devices in virtual time: it is asked, acts, and is answered.
//!
//! There is one driver, [`Engine`]; what it drives is a value: a volume, or the
//! [standard](crate::standard) RAID that volumes are compared with. So are the devices. [`Held`]
//! devices keep contents, so that what is read can be compared: those of `pantile_sim`'s world, one
//! queue each, and how long an operation takes, the caller says. The [ledger](crate::replay) of a
//! trace has none, so that a volume may be long. Computing takes no time in either. So every number
//! found here is exact and the same on every machine.

use pantile_format::FormatError;
use pantile_format::volume::HistoryId;
use pantile_sim::{Answer, Ask, Content, Data, IoKind, Lie, Told, World, WorldConfig};
use pantile_volume::{
    Action, BLOCK_BYTES, Birth, DeviceBlock, EpochId, Event, Geometry, RequestId, Slot, UserBlock, Volume,
    format_volume,
};
use std::collections::HashMap;
use std::fmt;

/// Devices, and whoever asked: they take the actions of a volume.
pub(crate) trait Devices {
    /// Why an action cannot be performed.
    type Fault;

    /// Takes an action; gives the event of what takes no time.
    fn perform(&mut self, action: Action) -> Result<Option<Event>, Self::Fault>;

    /// Goes on until the next operation ends; `None` if nothing is under way.
    fn step(&mut self) -> Option<Event>;

    /// Virtual time: nanoseconds since the beginning.
    fn now_ns(&self) -> u64;
}

/// A machine that is told events and gives actions.
pub(crate) trait Machine {
    /// Takes an event.
    fn handle(&mut self, event: Event);

    /// Returns the next action, until there is none.
    fn next_action(&mut self) -> Option<Action>;
}

impl Machine for Volume {
    fn handle(&mut self, event: Event) {
        Volume::handle(self, event);
    }

    fn next_action(&mut self) -> Option<Action> {
        Volume::next_action(self)
    }
}

impl Machine for Box<dyn Machine> {
    fn handle(&mut self, event: Event) {
        (**self).handle(event);
    }

    fn next_action(&mut self) -> Option<Action> {
        (**self).next_action()
    }
}

/// Returns a volume, all of whose devices are there: [`Engine::rest`] lets it be opened.
pub(crate) fn opened(geometry: &Geometry) -> Volume {
    let there = vec![true; geometry.slots()];
    Volume::open(geometry.clone(), &there, HistoryId([2; 16]))
}

/// A volume, or another machine, on its devices.
pub(crate) struct Engine<D, M = Volume> {
    pub(crate) volume: M,
    pub(crate) devices: D,
}

impl<D: Devices, M: Machine> Engine<D, M> {
    /// Tells the volume what happened, and performs what it wants at once.
    pub(crate) fn tell(&mut self, event: Event) -> Result<(), D::Fault> {
        self.volume.handle(event);
        self.act()
    }

    fn act(&mut self) -> Result<(), D::Fault> {
        while let Some(action) = self.volume.next_action() {
            if let Some(event) = self.devices.perform(action)? {
                self.volume.handle(event);
            }
        }
        Ok(())
    }

    /// Goes on until the next thing has happened; false if nothing is under way.
    fn step(&mut self) -> Result<bool, D::Fault> {
        match self.devices.step() {
            Some(event) => self.tell(event).map(|()| true),
            None => Ok(false),
        }
    }

    /// Goes on until nothing is under way.
    pub(crate) fn rest(&mut self) -> Result<(), D::Fault> {
        self.act()?;
        while self.step()? {}
        Ok(())
    }
}

/// The engine did what it may not do, or refused what it should do: a fault of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFault(pub String);

impl fmt::Display for EngineFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the volume's engine failed in the lab: {}; report this", self.0)
    }
}

impl std::error::Error for EngineFault {}

/// Sees every action before it is performed.
pub(crate) trait Watch {
    fn sees(&mut self, action: &Action);
}

/// Nobody looks.
impl Watch for () {
    fn sees(&mut self, _: &Action) {}
}

/// Devices with contents, who asked for what, and who watches.
pub(crate) struct Held<W> {
    pub(crate) world: World,
    pub(crate) watch: W,
    /// Requests under way, and whose they are.
    waiting: HashMap<RequestId, u64>,
    /// Who was answered since somebody last looked.
    pub(crate) answered: Vec<u64>,
    /// The epoch that was begun last.
    pub(crate) begun: Option<EpochId>,
    /// The blocks that were read last.
    pub(crate) blocks: Vec<Option<Data>>,
}

impl<W: Watch> Devices for Held<W> {
    type Fault = EngineFault;

    fn perform(&mut self, action: Action) -> Result<Option<Event>, EngineFault> {
        self.watch.sees(&action);
        let answer = self.world.perform(action).map_err(|breach| EngineFault(breach.to_string()))?;
        let Some(Answer { request, told }) = answer else { return Ok(None) };
        self.answered.extend(self.waiting.remove(&request));
        match told {
            Told::Failed(failure) => return Err(EngineFault(format!("{failure:?}"))),
            Told::Begun { epoch, .. } => self.begun = Some(epoch),
            Told::Blocks(blocks) => self.blocks = blocks,
            Told::Done => {}
        }
        Ok(None)
    }

    fn step(&mut self) -> Option<Event> {
        self.world.step(Lie::Honest)
    }

    fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }
}

impl<W: Watch, M: Machine> Engine<Held<W>, M> {
    /// Returns a machine on devices that hold a volume that nobody has written to.
    ///
    /// `service_ns` says how long a device takes for so many blocks from one on.
    ///
    /// Errors: no volume has this shape.
    pub(crate) fn new(
        geometry: &Geometry,
        volume: M,
        watch: W,
        service_ns: impl FnMut(Slot, IoKind, DeviceBlock, u64) -> u64 + 'static,
    ) -> Result<Engine<Held<W>, M>, FormatError> {
        let slots = geometry.slots() as u32;
        let config = WorldConfig {
            volume: geometry.volume.0,
            devices: slots,
            device_blocks: (0..slots).map(|slot| geometry.device_blocks(Slot(slot))).max().unwrap_or(0),
            tears: false,
        };
        let mut world = World::new(&config, 1);
        let birth = Birth { history: HistoryId([1; 16]), name: "lab".into(), created: 0 };
        for (slot, at, bytes) in format_volume(geometry, &birth)? {
            for (at, block) in (at.0..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
                world.disks_mut()[slot.0 as usize].put(DeviceBlock(at), Content::of_bytes(block));
            }
        }
        world.serve(service_ns);
        let devices = Held {
            world,
            watch,
            waiting: HashMap::new(),
            answered: Vec::new(),
            begun: None,
            blocks: Vec::new(),
        };
        Ok(Engine { volume, devices })
    }

    /// Writes all of it once, whole stripes at a time, each block with what `content` says.
    pub(crate) fn fill(
        &mut self,
        geometry: &Geometry,
        content: impl Fn(u64) -> Data,
    ) -> Result<(), EngineFault> {
        let per_stripe = geometry.stripe_blocks();
        for stripe in 0..u64::from(geometry.logical_stripes()) {
            let first = stripe * per_stripe;
            let contents = (first..first + per_stripe).map(&content).collect();
            self.ask(0, &Ask::Write { first: UserBlock(first), contents, durable: true })?;
            self.answers()?;
        }
        self.rest()
    }

    /// Asks for something in somebody's name.
    pub(crate) fn ask(&mut self, who: u64, ask: &Ask) -> Result<(), EngineFault> {
        let (id, event) = self.devices.world.ask(ask);
        self.devices.waiting.insert(id, who);
        self.tell(event)
    }

    /// Whether nobody waits.
    pub(crate) fn is_answered(&self) -> bool {
        self.devices.waiting.is_empty()
    }

    /// Goes on until the next thing happens.
    pub(crate) fn step_on(&mut self) -> Result<(), EngineFault> {
        match self.step()? {
            true => Ok(()),
            false => Err(EngineFault("a request is not answered and nothing is under way".into())),
        }
    }

    /// Goes on until everybody is answered.
    pub(crate) fn answers(&mut self) -> Result<(), EngineFault> {
        while !self.is_answered() {
            self.step_on()?;
        }
        self.devices.answered.clear();
        Ok(())
    }
}
