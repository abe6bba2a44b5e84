//! A world to fail in: virtual time, fake devices, faults, and one seed that decides everything.
//!
//! [`run_seed`] drives an [`Engine`] through a random load of requests, faults and crashes, and
//! checks every answer with a [`Model`] of the user's expectations. The same seed gives the same
//! run, byte for byte, as the hash of its [`Trace`] shows.
//!
//! The idea is that of FoundationDB's simulation and TigerBeetle's simulated storage: the engine
//! does no I/O. So the world around it can be as bad as real ones, thousands of times a minute, and
//! each run can be repeated for examination.
//!
//! The promise is never exceeded: faults are drawn within a [`Promise`]. Everything else that is
//! possible happens: writes in flight tear between sectors, unflushed ones are dropped and
//! reordered, flushes cover no more than they must.
//!
//! Deliberately not here: bytes of real size (16 stand for 4096), the engine's own formats, and any
//! knowledge of stripes.
#![forbid(unsafe_code)]

mod breach;
mod content;
mod crash;
mod direct;
mod disk;
mod epochs;
mod exhaust;
mod faults;
mod memory;
mod model;
mod random;
mod report;
mod run;
mod trace;
mod workload;
mod world;

use pantile_volume::{Action, Event, Lookup, Margin, ScrubStatus, UserBlock};

pub use breach::Breach;
pub use content::{Content, Data, SECTORS};
pub use crash::{CrashStates, Grain, TooManyStates};
pub use disk::{Disk, FlushMark, Ticket, Unreadable};
pub use exhaust::{Exhausted, exhaust};
pub use faults::{Fault, Promise};
pub use memory::FIRST_ENGINE_BUFFER;
pub use model::{Model, Verdict, Wrong};
pub use random::Random;
pub use report::{Cause, Failure, Stats};
pub use run::{Config, Refusal, Start, each_seed, open_and_read, prepare, run_seed, run_seeds};
pub use trace::Trace;
pub use workload::Load;
pub use world::{Answer, Ask, Counts, IoKind, Kill, Lie, Told, World, WorldConfig};

/// An engine in the world: events in, actions out.
pub trait Engine {
    /// Takes an event.
    fn handle(&mut self, event: Event);

    /// The next action; `None` if there is none.
    fn next_action(&mut self) -> Option<Action>;

    /// True if requests may come. An engine that reads its maps first returns false for a while.
    fn is_ready(&self) -> bool {
        true
    }

    /// True if every possible repair is done and durable: no rebuild, catch-up or rewrite is left.
    fn is_clean(&self) -> bool {
        true
    }

    /// The reason why it will never be ready, if any.
    fn refused(&self) -> Option<String> {
        None
    }

    /// Progress and findings of a scrub; `None` if there was none.
    fn scrubbed(&self) -> Option<ScrubStatus> {
        None
    }

    /// The number of further devices that can fail; `None` if unknown.
    fn margin(&self) -> Option<Margin> {
        None
    }

    /// Places of blocks, for users who read devices themselves; `None` sends them to the engine.
    fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        let _ = (first, count);
        None
    }

    /// Its own description, for reports of failed runs.
    fn describe(&self) -> String {
        String::new()
    }
}
