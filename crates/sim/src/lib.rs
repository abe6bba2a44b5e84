//! A world to fail in: virtual time, fake devices, faults, and one seed that decides everything.
//!
//! [`run_seed`] drives an [`Engine`] through a random load of requests, faults and crashes and
//! holds every answer to a [`Model`] of what the user may expect. The same seed gives the same run,
//! byte for byte; the hash of its [`Trace`] says so.
//!
//! The idea is that of FoundationDB's simulation and TigerBeetle's simulated storage: the engine
//! does no I/O, so the world that does it for the engine may be as bad as real ones are, thousands
//! of times a minute, and can be had back for a look.
//!
//! What is promised is never exceeded: faults are drawn within a [`Promise`]. Everything else a
//! device may do, it does: writes in flight tear between sectors, unflushed ones are dropped and
//! reordered, flushes cover nothing that they need not.
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

/// What the world drives: events in, actions out.
pub trait Engine {
    /// Takes an event.
    fn handle(&mut self, event: Event);

    /// The next thing to be done, until there is none.
    fn next_action(&mut self) -> Option<Action>;

    /// Whether requests may come. One that has to read its maps first may say no for a while.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether all that it can repair is repaired and durable: nothing to rebuild, to catch up or
    /// to write anew.
    fn is_clean(&self) -> bool {
        true
    }

    /// Why it will never be ready, if so.
    fn refused(&self) -> Option<String> {
        None
    }

    /// How far a scrub is and what it has found; `None` if there was none.
    fn scrubbed(&self) -> Option<ScrubStatus> {
        None
    }

    /// How many more devices can fail; `None`: it does not say.
    fn margin(&self) -> Option<Margin> {
        None
    }

    /// Where blocks lie, for users who read devices themselves; `None`: they are to ask.
    fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        let _ = (first, count);
        None
    }

    /// What it says of itself, for reports of runs that fail.
    fn describe(&self) -> String {
        String::new()
    }
}
