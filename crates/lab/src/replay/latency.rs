//! Latencies of requests: the engine's operations on devices of a model, in virtual time.
//!
//! Each device runs as many operations at once as its model has channels, in order of arrival; one
//! that begins where the last one ended needs no positioning. The engine waits for an operation as
//! a real volume does: it receives the end when the clock has reached it. Arithmetic, memory and
//! links take no time.

use crate::exascale::Device;
use pantile_sim::Random;
use pantile_volume::Event;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::counts::BLOCK_BYTES;

/// Virtual time and the devices in it.
pub(super) struct Clock {
    device: Device,
    random: Random,
    now_ns: u64,
    slots: Vec<Busy>,
    /// End of each operation under way, with its number.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    /// Event that the engine receives at the end of an operation.
    events: HashMap<u64, Event>,
    numbered: u64,
}

/// Occupancy of one device.
struct Busy {
    /// Time from which each channel is free.
    free_at_ns: Vec<u64>,
    /// The block after the last operation.
    behind: Option<u64>,
}

/// Constant seed: every run has the same delays.
const SEED: u64 = 1;

impl Clock {
    /// Returns a clock with `slots` idle devices.
    pub fn new(device: Device, slots: usize) -> Clock {
        let channels = device.channels.max(1) as usize;
        let idle = || Busy { free_at_ns: vec![0; channels], behind: None };
        Clock {
            slots: (0..slots).map(|_| idle()).collect(),
            device,
            random: Random::new(SEED),
            now_ns: 0,
            ends: BinaryHeap::new(),
            events: HashMap::new(),
            numbered: 0,
        }
    }

    /// Returns the nanoseconds since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Begins an operation as soon as its device is free; `then` is the event of its end.
    pub fn begin(&mut self, slot: usize, at: u64, blocks: u64, is_write: bool, then: Event) {
        let busy = &mut self.slots[slot];
        let follows = busy.behind == Some(at);
        busy.behind = Some(at + blocks);
        let ns = self.device.service_ns(is_write, blocks * BLOCK_BYTES, follows, &mut self.random);
        if let Some(channel) = busy.free_at_ns.iter_mut().min() {
            *channel = (*channel).max(self.now_ns).saturating_add(ns);
            let end = *channel;
            self.at(end, then);
        }
    }

    /// Begins a flush, which ends when all earlier operations of the device have ended.
    pub fn flush(&mut self, slot: usize, then: Event) {
        let all = self.slots[slot].free_at_ns.iter().copied().max().unwrap_or(0);
        self.at(all.max(self.now_ns), then);
    }

    fn at(&mut self, ns: u64, then: Event) {
        self.events.insert(self.numbered, then);
        self.ends.push(Reverse((ns, self.numbered)));
        self.numbered += 1;
    }

    /// Advances to the next end.
    pub fn next(&mut self) -> Option<Event> {
        let Reverse((ns, number)) = self.ends.pop()?;
        self.now_ns = ns;
        self.events.remove(&number)
    }
}

/// Frequencies of times, each within a sixty-fourth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    reads: Times,
    writes: Times,
}

impl Latencies {
    pub(super) fn new() -> Latencies {
        Latencies { reads: Times::new(), writes: Times::new() }
    }

    pub(super) fn add(&mut self, is_write: bool, ns: u64) {
        if is_write { self.writes.add(ns) } else { self.reads.add(ns) }
    }

    /// Returns the nanoseconds within which a share of all reads or writes is answered; `None` if
    /// there was none.
    pub fn within(&self, is_write: bool, share: f64) -> Option<u64> {
        if is_write { self.writes.within(share) } else { self.reads.within(share) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Times {
    /// Frequencies by class. Each time below 64 ns has its own class; longer times of equal length
    /// in bits share a class if their upper seven bits are equal.
    classes: Vec<u64>,
    count: u64,
}

const CLASS_BITS: u32 = 6;

impl Times {
    fn new() -> Times {
        let classes = (u64::BITS - CLASS_BITS + 1) << CLASS_BITS;
        Times { classes: vec![0; classes as usize], count: 0 }
    }

    fn add(&mut self, ns: u64) {
        let shift = (u64::BITS - (ns >> CLASS_BITS).leading_zeros()).saturating_sub(1);
        let class = (u64::from(shift) << CLASS_BITS) + (ns >> shift);
        self.classes[class as usize] += 1;
        self.count += 1;
    }

    /// Returns the largest time of the class in which the share is reached.
    fn within(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let class = self.classes.iter().position(|&n| {
            sum += n;
            sum >= wanted
        })? as u64;
        let shift = (class >> CLASS_BITS).saturating_sub(1);
        let least = (class - (shift << CLASS_BITS)) << shift;
        Some(least + ((1 << shift) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_found_within_a_sixty_fourth() {
        let mut times = Times::new();
        assert_eq!(times.within(0.5), None);
        let all: Vec<u64> = (0..10_000).map(|i: u64| 50 + i * i * 37).collect();
        all.iter().for_each(|&ns| times.add(ns));
        for share in [0.0001f64, 0.1, 0.5, 0.9, 0.99, 1.0] {
            let exact = all[((share * 10_000.0).ceil() as usize).max(1) - 1];
            let found = times.within(share).expect("there are some");
            assert!(found >= exact && found - exact <= exact / 64 + 1, "{share}: {found} for {exact}");
        }
        for ns in [0, 1, 63, 64, 127, 128, u64::MAX / 2, u64::MAX] {
            let mut one = Times::new();
            one.add(ns);
            let found = one.within(0.5).expect("one");
            assert!(found >= ns && found - ns <= ns / 64, "{found} for {ns}");
        }
    }
}
