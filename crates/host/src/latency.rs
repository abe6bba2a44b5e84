//! Durations of the last few reads and writes of each device, which decide whether reads avoid it.
//!
//! The median of the last [`KEPT`] counts, so that reads avoid a late device within milliseconds,
//! and return soon after it has recovered. Under load a few reads take only a moment, in which a
//! healthy device can be late, too. So this is a hint for reads and not a warning
//! ([`crate::slowness`]). If reads avoid a device, its recovery would remain undetected, so the
//! engine reads one of its blocks now and then ([`crate::engine`]).
//!
//! Cost: an atomic addition and a store for each operation on a device.

use crate::slowness::{AGAIN_TIMES, FLOOR_US, LATE_US, SLOW_TIMES, Tally};
use pantile_volume::Slot;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Number of operations of a kind whose durations are recorded for each device.
const KEPT: usize = 16;

/// Fewest operations for which a median is computed.
const LEAST: u64 = 8;

/// Shortest time between two alarms on late reads.
const ALARM_EVERY_MS: u64 = 200;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// Durations of the last operations of a kind, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The median.
    pub median_us: u32,
    /// The longest duration.
    pub worst_us: u32,
}

#[derive(Default)]
struct Last {
    us: [AtomicU32; KEPT],
    count: AtomicU64,
}

/// Durations of all devices, by slot.
pub(crate) struct Latencies {
    slots: Vec<[Last; 2]>,
    /// Reads of the present period, by slot.
    tallies: Vec<Tally>,
    begun: Instant,
    alarmed_ms: AtomicU64,
}

impl Latencies {
    pub(crate) fn new(slots: usize) -> Latencies {
        let tallies = (0..slots).map(|_| Tally::default()).collect();
        let slots = (0..slots).map(|_| Default::default()).collect();
        Latencies { slots, tallies, begun: Instant::now(), alarmed_ms: AtomicU64::new(0) }
    }

    /// Records the duration of an operation. True if it was a late read, and the last alarm was
    /// long enough ago.
    pub(crate) fn note(&self, slot: Slot, kind: Kind, took: Duration) -> bool {
        let Some(kinds) = self.slots.get(slot.0 as usize) else { return false };
        let last = &kinds[kind as usize];
        let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let place = last.count.fetch_add(1, Relaxed) as usize % KEPT;
        last.us[place].store(us, Relaxed);
        if kind != Kind::Read {
            return false;
        }
        self.tallies[slot.0 as usize].note(us);
        if us < LATE_US {
            return false;
        }
        let now = self.begun.elapsed().as_millis() as u64 + ALARM_EVERY_MS;
        let before = self.alarmed_ms.load(Relaxed);
        let is_first = || self.alarmed_ms.compare_exchange(before, now, Relaxed, Relaxed).is_ok();
        now >= before + ALARM_EVERY_MS && is_first()
    }

    /// Forgets the durations of a slot, because its device was exchanged.
    pub(crate) fn forget(&self, slot: Slot) {
        self.slots.get(slot.0 as usize).into_iter().flatten().for_each(|last| last.count.store(0, Relaxed));
        if let Some(tally) = self.tallies.get(slot.0 as usize) {
            tally.take();
        }
    }

    /// Returns the reads of the present period, by slot.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.tallies.iter()
    }

    /// Returns the time since this value was created.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the durations of the last operations of a kind, if there are enough.
    pub(crate) fn of(&self, slot: Slot, kind: Kind) -> Option<Latency> {
        let last = &self.slots.get(slot.0 as usize)?[kind as usize];
        let count = last.count.load(Relaxed);
        if count < LEAST {
            return None;
        }
        let mut us: Vec<u32> =
            last.us[..KEPT.min(count as usize)].iter().map(|us| us.load(Relaxed)).collect();
        us.sort_unstable();
        Some(Latency { median_us: us[us.len() / 2], worst_us: us[us.len() - 1] })
    }

    /// Returns the duration of a device's reads divided by that of the others. 1: reads need not
    /// avoid it, or there were too few.
    ///
    /// `others`: the devices of the volume, without this one. `was_slow`: true if the last result
    /// was above 1; then the limit is lower, so that the result of a device near the limit is
    /// stable.
    pub(crate) fn times(&self, slot: Slot, others: impl Iterator<Item = Slot>, was_slow: bool) -> u32 {
        let median = |slot| self.of(slot, Kind::Read).map(|latency| latency.median_us);
        let Some(own) = median(slot) else { return 1 };
        let mut usual: Vec<u32> = others.filter(|&other| other != slot).filter_map(median).collect();
        usual.sort_unstable();
        let Some(&usual) = usual.get(usual.len() / 2) else { return 1 };
        let times = own / usual.max(FLOOR_US);
        let least = if was_slow { AGAIN_TIMES } else { SLOW_TIMES };
        if times >= least && own.saturating_sub(usual) >= LATE_US { times } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 4;

    fn noted_times(latencies: &Latencies, slot: Slot, times: u64, us: u64) {
        for _ in 0..times {
            let _ = latencies.note(slot, Kind::Read, Duration::from_micros(us));
        }
    }

    fn noted(us: [u64; SLOTS]) -> Latencies {
        let latencies = Latencies::new(SLOTS);
        for (slot, us) in (0..).map(Slot).zip(us) {
            noted_times(&latencies, slot, LEAST, us);
        }
        latencies
    }

    fn times(latencies: &Latencies, was_slow: bool) -> Vec<u32> {
        let all = || (0..SLOTS as u32).map(Slot);
        all().map(|slot| latencies.times(slot, all(), was_slow)).collect()
    }

    #[test]
    fn a_device_is_slow_beside_the_others_and_not_by_itself() {
        assert_eq!(times(&noted([300, 500_000, 250, 200]), false), [1, 2000, 1, 1]);
        assert_eq!(times(&noted([9000, 8000, 9500, 9100]), false), [1, 1, 1, 1], "all are disks");
        assert_eq!(times(&noted([10, 900, 20, 10]), false), [1, 1, 1, 1], "too little to matter");
        let edge = noted([9000, 27_000, 9000, 9000]);
        assert_eq!((times(&edge, false)[1], times(&edge, true)[1]), (1, 3), "it does not come and go");
    }

    #[test]
    fn one_late_read_is_forgotten_and_a_device_that_recovers_is_seen_to() {
        let latencies = noted([200, 200, 200, 200]);
        assert!(latencies.note(Slot(2), Kind::Read, Duration::from_secs(1)), "the first alarm");
        assert!(!latencies.note(Slot(2), Kind::Read, Duration::from_secs(1)), "an alarm was just raised");
        assert_eq!(times(&latencies, false), [1; SLOTS]);
        noted_times(&latencies, Slot(2), KEPT as u64, 1_000_000);
        assert_eq!(times(&latencies, false)[2], 5000);
        noted_times(&latencies, Slot(2), KEPT as u64 / 2 + 1, 200);
        assert_eq!(times(&latencies, true)[2], 1);
        latencies.forget(Slot(2));
        assert_eq!(latencies.of(Slot(2), Kind::Read), None);
    }
}
