//! A volume that a test drives step by step.

use super::{Driven, Real, Shape};
use pantile_sim::{self as sim, Ask, Data, Engine, Kill, Lie, Told, World};
use pantile_volume::{Event, UserBlock};

/// A volume that gets events one by one, without faults.
pub struct Hand {
    pub real: Real,
    pub world: World,
    pub volume: Driven,
    sessions: u32,
}

impl Hand {
    pub fn new(shape: &Shape) -> Hand {
        Hand::of(Real::new(shape, &[]))
    }

    pub fn of(real: Real) -> Hand {
        let mut world = World::new(&real.config.world, 3);
        let volume = real.make(sim::Start { disks: world.disks_mut(), session: 0 }).expect("it is made");
        let mut hand = Hand { real, world, volume, sessions: 0 };
        hand.rest(None);
        hand
    }

    /// Begins to open the volume after a power failure.
    pub fn begin_again(&mut self) {
        self.world.kill(Kill::Power);
        self.sessions += 1;
        let start = sim::Start { disks: self.world.disks_mut(), session: self.sessions };
        self.volume = self.real.make(start).expect("it is made");
        self.perform_all();
    }

    pub fn open_again(&mut self) {
        self.begin_again();
        self.rest(None);
    }

    /// Opens the volume read only after a power failure.
    pub fn open_to_read(&mut self) {
        self.world.kill(Kill::Power);
        self.volume = self.real.make_to_read(self.world.disks());
        self.perform_all();
        self.rest(None);
    }

    fn perform_all(&mut self) -> Option<Told> {
        let mut told = None;
        while let Some(action) = self.volume.next_action() {
            let answer = self.world.perform(action).expect("no rule is broken");
            told = answer.map(|answer| answer.told).or(told);
        }
        told
    }

    pub fn tell(&mut self, event: Event) -> Option<Told> {
        self.volume.handle(event);
        self.perform_all()
    }

    /// Performs one step; `false` if none is left.
    pub fn step(&mut self) -> bool {
        let event = self.world.step(Lie::Honest);
        event.is_some_and(|event| {
            self.tell(event);
            true
        })
    }

    pub fn rest(&mut self, event: Option<Event>) -> Option<Told> {
        let mut told = event.and_then(|event| self.tell(event));
        while let Some(event) = self.world.step(Lie::Honest) {
            told = self.tell(event).or(told);
        }
        told
    }

    pub fn ask(&mut self, ask: &Ask) -> Told {
        let (_, event) = self.world.ask(ask);
        self.rest(Some(event)).expect("it is answered")
    }

    /// Writes this byte to all blocks, and makes that durable.
    pub fn fill(&mut self, byte: u8) {
        let contents = vec![[byte; 16]; self.real.config.user_blocks as usize];
        let written = self.ask(&Ask::Write { first: UserBlock(0), contents, durable: true });
        assert_eq!(written, Told::Done);
    }

    pub fn read(&mut self) -> Told {
        self.ask(&Ask::Read { first: UserBlock(0), count: self.real.config.user_blocks as u32 })
    }

    /// Returns the content of each block; `None`: it cannot be recovered.
    pub fn read_each(&mut self) -> Vec<Option<Data>> {
        let one = |told| match told {
            Told::Blocks(blocks) => Some(blocks[0].unwrap_or([0; 16])),
            _ => None,
        };
        let blocks = 0..self.real.config.user_blocks;
        blocks.map(|at| one(self.ask(&Ask::Read { first: UserBlock(at), count: 1 }))).collect()
    }

    pub fn filled_with(&self, byte: u8) -> Told {
        Told::Blocks(vec![Some([byte; 16]); self.real.config.user_blocks as usize])
    }
}
