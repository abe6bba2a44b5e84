//! Synthetic traces: the D-Code paper's tuples, hot spots, streams, checkpoint bursts.
//!
//! Equal options and seed give equal requests on every machine: there is no floating point here.

use super::trace::Request;
use pantile_sim::Random;

/// Pattern of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The D-Code paper's <S, L, T>: S uniform, L uniform from 1 to 20 elements, done T times in a
    /// row, T uniform from 1 to 10 (the paper's 1000 only scales its sums).
    Tuples,
    /// Places by Zipf's law with exponent 1: every order of magnitude of the space is hit equally
    /// often.
    Zipf,
    /// One stream from the first byte to the last, repeated.
    Sequential,
    /// Every 10 seconds 16 writers write their own region from its start, side by side; single
    /// reads in between.
    Checkpoint,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 4] = [Pattern::Tuples, Pattern::Zipf, Pattern::Sequential, Pattern::Checkpoint];

    /// Returns the name that the option takes.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Tuples => "tuples",
            Pattern::Zipf => "zipf",
            Pattern::Sequential => "sequential",
            Pattern::Checkpoint => "checkpoint",
        }
    }
}

/// Number, size and places of requests.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Pattern of the requests.
    pub pattern: Pattern,
    /// Number of requests.
    pub requests: u64,
    /// Bytes of the address space; at least 20 elements.
    pub space: u64,
    /// Bytes of an element, and of a request of the other patterns.
    pub element: u64,
    /// Writes among a hundred requests; checkpoints have their own share.
    pub writes_per_cent: u64,
    /// Microseconds from request to request.
    pub gap_us: u64,
    /// The seed.
    pub seed: u64,
}

/// Named workloads, for users without a trace of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// A file server: requests of 16 to 320 KiB anywhere, 30 % of them writes.
    #[default]
    Files,
    /// Virtual machines: 16 KiB, half of them writes, hot places.
    Machines,
    /// A database: 8 KiB, 30 % writes, hot places.
    Database,
    /// Films and music: 1 MiB, one stream, 2 % writes.
    Media,
    /// Backups: 1 MiB, one stream, 95 % writes.
    Backup,
    /// Checkpoints of a computation: 16 writers at once, single reads between.
    Checkpoints,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 6] = [
        Workload::Files,
        Workload::Machines,
        Workload::Database,
        Workload::Media,
        Workload::Backup,
        Workload::Checkpoints,
    ];

    /// Returns the name that the option takes.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Files => "files",
            Workload::Machines => "vm",
            Workload::Database => "database",
            Workload::Media => "media",
            Workload::Backup => "backup",
            Workload::Checkpoints => "checkpoints",
        }
    }

    /// Returns requests that represent it: 20,000 within 4 GiB, equal at each call.
    pub fn requests(self) -> Synthetic {
        let (pattern, element, writes_per_cent) = match self {
            Workload::Files => (Pattern::Tuples, 16 << 10, 30),
            Workload::Machines => (Pattern::Zipf, 16 << 10, 50),
            Workload::Database => (Pattern::Zipf, 8 << 10, 30),
            Workload::Media => (Pattern::Sequential, 1 << 20, 2),
            Workload::Backup => (Pattern::Sequential, 1 << 20, 95),
            Workload::Checkpoints => (Pattern::Checkpoint, 1 << 20, 100),
        };
        Synthetic {
            pattern,
            requests: 20_000,
            space: 4 << 30,
            element,
            writes_per_cent,
            gap_us: 1000,
            seed: 1,
        }
    }
}

const LEN_MOST: u64 = 20;
const TIMES_MOST: u64 = 10;
const WRITERS: u64 = 16;
const ROUND_US: u64 = 10_000_000;
/// Requests of each writer in a round, and reads between rounds.
const BURST: u64 = 64;
const READS: u64 = 128;

impl Synthetic {
    /// Returns the requests, one after another.
    pub fn iter(&self) -> impl Iterator<Item = Request> + use<> {
        let this = self.clone();
        let mut random = Random::new(this.seed);
        let slots = (this.space / this.element).max(1);
        let mut repeated: Option<(Request, u64)> = None;
        (0..this.requests).map(move |i| {
            let at_us = i * this.gap_us;
            let one = |place: u64, len: u64, is_write: bool, at_us: u64| Request {
                at_us,
                offset: place * this.element,
                len: len * this.element,
                is_write,
            };
            match this.pattern {
                Pattern::Tuples => {
                    if let Some((request, left)) = repeated.take().filter(|(_, left)| *left > 0) {
                        repeated = Some((request, left - 1));
                        return Request { at_us, ..request };
                    }
                    let len = random.between(1, LEN_MOST.min(slots));
                    let place = random.below(slots - len + 1);
                    let request = one(place, len, random.chance(this.writes_per_cent, 100), at_us);
                    repeated = Some((request, random.between(1, TIMES_MOST) - 1));
                    request
                }
                Pattern::Zipf => {
                    // Hot places are spread over the space.
                    let place = random.skewed(slots).wrapping_mul(0x9e37_79b9_7f4a_7c15) % slots;
                    one(place, 1, random.chance(this.writes_per_cent, 100), at_us)
                }
                Pattern::Sequential => one(i % slots, 1, random.chance(this.writes_per_cent, 100), at_us),
                Pattern::Checkpoint => {
                    let per_round = WRITERS * BURST + READS;
                    let (round, step) = (i / per_round, i % per_round);
                    let region = (slots / WRITERS).max(1);
                    if step < WRITERS * BURST {
                        let (writer, at) = (step % WRITERS, step / WRITERS);
                        let place = (writer * region + (round * BURST + at) % region) % slots;
                        return one(place, 1, true, round * ROUND_US + step * this.gap_us);
                    }
                    let spread = (step - WRITERS * BURST) * (ROUND_US / 2 / READS);
                    one(random.below(slots), 1, false, round * ROUND_US + ROUND_US / 2 + spread)
                }
            }
        })
    }
}
