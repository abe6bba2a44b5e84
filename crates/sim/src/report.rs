//! The result of a run: counts, or a failure and the way to repeat it.

use std::collections::BTreeMap;
use std::fmt;

use pantile_volume::{ScrubStatus, Slot};

use crate::{Breach, Counts, Fault, IoKind, Wrong};

/// Counts of a run without failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of actions performed.
    pub steps: u64,
    /// The number of requests.
    pub requests: u64,
    /// The number of these requests that end epochs.
    pub ends: u64,
    /// Reads that found the expected content on the devices, without the engine.
    pub direct_reads: u64,
    /// The number of these reads that computed blocks of lost devices.
    pub direct_mixtures: u64,
    /// The number of kills: times that everything ended at once.
    pub kills: u32,
    /// The number of kills before the engine was ready again.
    pub kills_in_recovery: u32,
    /// Times that devices were removed which could fail according to the engine, and everything was
    /// read.
    pub margins: u32,
    /// The number of devices that were removed for these tests.
    pub margin_devices: u32,
    /// The number of faults by kind.
    pub faults: BTreeMap<Fault, u32>,
    /// Steps from the last fault until the engine was clean.
    pub steps_to_clean: u64,
    /// The largest number of buffers that existed at a time.
    pub buffers_most: u64,
    /// Virtual time.
    pub virtual_ns: u64,
    /// The I/O of each device.
    pub counts: Vec<Counts>,
    /// The hash of the trace.
    pub trace_hash: u64,
}

impl Stats {
    /// Adds the counts of another run; maxima stay maxima, and hashes are added.
    pub fn add(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.requests += other.requests;
        self.ends += other.ends;
        self.direct_reads += other.direct_reads;
        self.direct_mixtures += other.direct_mixtures;
        self.kills += other.kills;
        self.kills_in_recovery += other.kills_in_recovery;
        self.margins += other.margins;
        self.margin_devices += other.margin_devices;
        other.faults.iter().for_each(|(&fault, &count)| *self.faults.entry(fault).or_default() += count);
        self.steps_to_clean = self.steps_to_clean.max(other.steps_to_clean);
        self.buffers_most = self.buffers_most.max(other.buffers_most);
        self.virtual_ns += other.virtual_ns;
        self.counts.resize(self.counts.len().max(other.counts.len()), Counts::default());
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| mine.add(theirs));
        self.trace_hash = self.trace_hash.wrapping_add(other.trace_hash);
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats {
            steps, requests, kills, kills_in_recovery, steps_to_clean, buffers_most, trace_hash, ..
        } = self;
        writeln!(
            out,
            "{requests} requests, {steps} steps, {} ms of virtual time",
            self.virtual_ns / 1_000_000
        )?;
        writeln!(out, "{kills} kills, {kills_in_recovery} of them in recovery; faults {:?}", self.faults)?;
        writeln!(out, "at most {steps_to_clean} steps to clean, {buffers_most} buffers")?;
        for (slot, counts) in self.counts.iter().enumerate() {
            write!(out, "slot {slot}:")?;
            for kind in IoKind::ALL {
                write!(out, " {kind:?} {} ({} blocks)", counts.ios(kind), counts.blocks(kind))?;
            }
            writeln!(out)?;
        }
        write!(out, "trace {trace_hash:016x}")
    }
}

/// Reasons why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The engine broke a rule towards its driver.
    Breach(Breach),
    /// A user got a wrong answer.
    Wrong(Wrong),
    /// Requests are open, or the engine is not ready, although nothing is under way.
    Stuck {
        /// The number of open requests.
        open: usize,
        /// True if the engine took requests.
        ready: bool,
    },
    /// The engine does not come to rest.
    Endless {
        /// The number of steps, or of actions in one step.
        steps: u64,
    },
    /// The engine is at rest with all devices present and is not clean, or wrongly says that it is.
    NotClean,
    /// A scrub did not end, although nothing is under way.
    ScrubNotDone(Option<Box<ScrubStatus>>),
    /// A scrub with repair has ended, and the next one finds bad parts.
    LeftBad(Box<ScrubStatus>),
    /// Data was lost when devices failed, although no more failed than the engine said it
    /// tolerates.
    FalseMargin {
        /// The number of further devices that can fail, as the engine said.
        any_more: u32,
        /// The devices that were removed.
        taken: Vec<Slot>,
        /// The failure after their removal.
        cause: Box<Cause>,
    },
    /// The volume was not opened although the promise was kept.
    NotOpened {
        /// The reason that the maker of engines gave.
        says: String,
    },
    /// The engine panicked.
    Panicked {
        /// The message of the panic.
        says: String,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Breach(breach) => breach.fmt(out),
            Cause::Wrong(wrong) => wrong.fmt(out),
            Cause::Stuck { open, ready } => {
                let ready = if *ready { "ready" } else { "not ready" };
                write!(out, "nothing is under way, but {open} requests are open and the engine is {ready}")
            }
            Cause::Endless { steps } => write!(out, "no rest after {steps} steps"),
            Cause::NotClean => {
                out.write_str("all devices are there and nothing is under way, but not all is good on them")
            }
            Cause::ScrubNotDone(status) => {
                write!(out, "nothing is under way, and the scrub is at {status:?}")
            }
            Cause::LeftBad(status) => {
                write!(out, "a scrub repaired what is bad, and the next finds {status:?}")
            }
            Cause::FalseMargin { any_more, taken, cause } => {
                let taken: Vec<u32> = taken.iter().map(|slot| slot.0).collect();
                write!(out, "any {any_more} more devices can fail, and without {taken:?}: {cause}")
            }
            Cause::NotOpened { says } => write!(out, "the volume was not opened: {says}"),
            Cause::Panicked { says } => write!(out, "the engine panicked: {says}"),
        }
    }
}

/// A failed run, and the way to repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The number of the last action, counted from 1.
    pub step: u64,
    /// The number of the engine, 0 for the first; each restart makes another one.
    pub session: u32,
    /// The virtual time.
    pub at_ns: u64,
    /// The reason.
    pub cause: Cause,
    /// The last lines of the trace.
    pub tail: String,
    /// A command that repeats this run.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, step, session, at_ns, cause, tail, replay } = self;
        writeln!(out, "seed {seed} fails in step {step}, session {session}, at {at_ns} ns: {cause}")?;
        writeln!(out, "{tail}")?;
        write!(out, "again: {replay}")
    }
}

impl std::error::Error for Failure {}
