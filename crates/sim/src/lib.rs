//! A simulation for volumes: virtual time, fake devices, faults, and one seed that decides
//! everything.
//!
//! [`run_seed`] drives an [`Engine`] through a random load of requests, faults and crashes, and
//! checks every answer with a [`Model`] of the user's expectations. The same seed gives the same
//! run, byte for byte, as the hash of its [`Trace`] shows.
//!
//! The idea is that of FoundationDB's simulation and TigerBeetle's simulated storage: the engine
//! does no I/O. So the world around it can be as bad as real ones, thousands of times a minute, and
//! each run can be repeated to examine it.
//!
//! Faults are drawn within a [`Promise`], which is never exceeded. Everything else that is possible
//! happens: writes in flight tear between sectors, unflushed ones are dropped and reordered, and
//! flushes cover no more than they must.
//!
//! The simulation has no blocks of real size (16 bytes stand for 4096), and knows neither the
//! engine's formats nor stripes.
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

use pantile_volume::{Action, Event, Found, Lookup, Margin, ScrubStatus, Slot, UserBlock};

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

/// An engine that the simulation drives: events in, actions out.
pub trait Engine {
    /// Takes an event.
    fn handle(&mut self, event: Event);

    /// Returns the next action; `None` if there is none.
    fn next_action(&mut self) -> Option<Action>;

    /// Returns true if requests may come; false while the engine still reads its maps.
    fn is_ready(&self) -> bool {
        true
    }

    /// Returns true if every possible repair is done and durable: no rebuild, catch-up or rewrite
    /// is left.
    fn is_clean(&self) -> bool {
        true
    }

    /// Returns the reason why the engine will never be ready, if there is one.
    fn refused(&self) -> Option<String> {
        None
    }

    /// Returns progress and findings of a scrub; `None` if there was none.
    fn scrubbed(&self) -> Option<ScrubStatus> {
        None
    }

    /// Returns the content of a device that comes to a slot, by blocks that identify it; `None`:
    /// the engine does not know yet.
    fn found(&self, slot: Slot, heads: &[Vec<u8>]) -> Option<Found> {
        let _ = (slot, heads);
        None
    }

    /// Returns the number of further devices that can fail; `None`: unknown.
    fn margin(&self) -> Option<Margin> {
        None
    }

    /// Returns the places of blocks, for users who read devices themselves; `None`: they must ask
    /// the engine.
    fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        let _ = (first, count);
        None
    }

    /// Returns the engine's description of itself, for reports of failed runs.
    fn describe(&self) -> String {
        String::new()
    }
}
