//! The volume's own engine over devices in virtual time: it takes requests and returns answers.
//!
//! [`Engine`] drives a machine on devices. The machine is a volume, or the
//! [standard](crate::standard) RAID that volumes are compared with. There are two kinds of devices.
//! [`Held`] devices keep contents, so that reads can be verified; they are those of `pantile_sim`'s
//! world, with one queue each and service times set by the caller. The [ledger](crate::replay) of a
//! trace keeps no contents, so that a volume can be large. On both, computing takes no time, so
//! that every number is exact and the same on every machine.

use pantile_format::FormatError;
use pantile_format::volume::HistoryId;
use pantile_sim::{Answer, Ask, Content, Data, IoKind, Lie, Told, World, WorldConfig};
use pantile_volume::{
    Action, BLOCK_BYTES, Birth, DeviceBlock, EpochId, Event, Geometry, RequestId, Slot, UserBlock, Volume,
    format_volume,
};
use std::collections::HashMap;
use std::fmt;

/// Devices that perform the actions of a volume, and the receiver of its answers.
pub(crate) trait Devices {
    /// Reason why an action cannot be performed.
    type Fault;

    /// Performs an action; returns the event of an action that takes no time.
    fn perform(&mut self, action: Action) -> Result<Option<Event>, Self::Fault>;

    /// Advances to the end of the next operation; `None` if nothing is under way.
    fn step(&mut self) -> Option<Event>;

    /// Virtual time: nanoseconds since the beginning.
    fn now_ns(&self) -> u64;
}

/// A machine that handles events and returns actions.
pub(crate) trait Machine {
    /// Handles an event.
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

/// Returns a volume with all of its devices present; [`Engine::rest`] completes its opening.
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
    /// Passes an event to the machine and performs the actions that follow at once.
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

    /// Advances to the next event; false if nothing is under way.
    fn step(&mut self) -> Result<bool, D::Fault> {
        match self.devices.step() {
            Some(event) => self.tell(event).map(|()| true),
            None => Ok(false),
        }
    }

    /// Advances until nothing is under way.
    pub(crate) fn rest(&mut self) -> Result<(), D::Fault> {
        self.act()?;
        while self.step()? {}
        Ok(())
    }
}

/// A fault of the engine: it did something forbidden, or refused something valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFault(pub String);

impl fmt::Display for EngineFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the volume's engine failed in the lab: {}; report this", self.0)
    }
}

impl std::error::Error for EngineFault {}

/// Observer of every action before it is performed.
pub(crate) trait Watch {
    fn sees(&mut self, action: &Action);
}

/// Observes nothing.
impl Watch for () {
    fn sees(&mut self, _: &Action) {}
}

/// Devices with contents, the requests under way, and an observer of the devices' actions.
pub(crate) struct Held<W> {
    pub(crate) world: World,
    pub(crate) watch: W,
    /// Requests under way, each with its requester.
    waiting: HashMap<RequestId, u64>,
    /// Requesters answered since the list was last taken.
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
    /// Returns a machine on devices that hold a fresh volume.
    ///
    /// `service_ns` returns the nanoseconds of an operation: of a device, a kind, a first block and
    /// a number of blocks.
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

    /// Writes the whole volume once, in whole stripes, each block with the value of `content`.
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

    /// Submits a request of requester `who`.
    pub(crate) fn ask(&mut self, who: u64, ask: &Ask) -> Result<(), EngineFault> {
        let (id, event) = self.devices.world.ask(ask);
        self.devices.waiting.insert(id, who);
        self.tell(event)
    }

    /// Returns true if no request is waiting.
    pub(crate) fn is_answered(&self) -> bool {
        self.devices.waiting.is_empty()
    }

    /// Advances to the next event.
    pub(crate) fn step_on(&mut self) -> Result<(), EngineFault> {
        match self.step()? {
            true => Ok(()),
            false => Err(EngineFault("a request is not answered and nothing is under way".into())),
        }
    }

    /// Advances until every request is answered.
    pub(crate) fn answers(&mut self) -> Result<(), EngineFault> {
        while !self.is_answered() {
            self.step_on()?;
        }
        self.devices.answered.clear();
        Ok(())
    }
}
