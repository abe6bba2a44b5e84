//! How a run ended.

use std::collections::BTreeMap;
use std::fmt;

use pantile_volume::{ScrubStatus, Slot};

use crate::{Breach, Counts, Fault, IoKind, Wrong};

/// Counts of a run without failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Actions performed.
    pub steps: u64,
    /// Requests made.
    pub requests: u64,
    /// Of these, ends of epochs.
    pub ends: u64,
    /// Of these, reads that found the expected content on a device without the engine.
    pub direct_reads: u64,
    /// Those of them that computed blocks of lost devices.
    pub direct_mixtures: u64,
    /// Times that everything ended at once.
    pub kills: u32,
    /// Of these, before the engine was ready again.
    pub kills_in_recovery: u32,
    /// Times that devices which could fail by the engine's word were taken away, and all was read.
    pub margins: u32,
    /// Devices that were taken away then.
    pub margin_devices: u32,
    /// Faults.
    pub faults: BTreeMap<Fault, u32>,
    /// Steps from the last fault to clean.
    pub steps_to_clean: u64,
    /// The most buffers at a time.
    pub buffers_most: u64,
    /// Virtual time.
    pub virtual_ns: u64,
    /// Inputs and outputs of each device.
    pub counts: Vec<Counts>,
    /// The hash of the trace.
    pub trace_hash: u64,
}

impl Stats {
    /// Adds those of another run; maxima stay maxima, and hashes add up.
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
    /// Requests are open, or the engine is not ready, and nothing is under way.
    Stuck {
        /// Requests open.
        open: usize,
        /// True if the engine took requests.
        ready: bool,
    },
    /// It does not come to rest.
    Endless {
        /// Steps, or actions in one step.
        steps: u64,
    },
    /// At rest, with all devices present, the engine is not clean, or is so only by its own word.
    NotClean,
    /// A scrub did not come to its end, although nothing is under way.
    ScrubNotDone(Option<Box<ScrubStatus>>),
    /// A scrub with repair has ended, and the next finds something bad.
    LeftBad(Box<ScrubStatus>),
    /// The engine said that any this many more devices can fail; these did, and data was lost.
    FalseMargin {
        /// The number of devices that it said.
        any_more: u32,
        /// Those that were taken away.
        taken: Vec<Slot>,
        /// The failure without them.
        cause: Box<Cause>,
    },
    /// The volume was not opened although the promise was kept.
    NotOpened {
        /// The reason of the maker of engines.
        says: String,
    },
    /// The engine panicked.
    Panicked {
        /// With these words.
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
    /// The action performed last, counted from 1.
    pub step: u64,
    /// The engine's number, 0 for the first; each restart makes one.
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
