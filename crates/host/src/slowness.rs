//! Slow devices: a warning that is reliable enough for an operator to act on.
//!
//! Reads avoid a late device within milliseconds ([`crate::latency`]), because a wrong decision
//! costs little there. This warning alarms an operator or, with `--evict-slow`, costs a device, so
//! it needs more evidence:
//!
//! * Reads are compared over whole periods, a sixth of [`Rule::after`] each. A period does not
//!   judge a device with fewer than [`ENOUGH`] reads, unless these took half of the period.
//! * A device is late in a period if its median read takes at least [`SLOW_TIMES`] times as long as
//!   those of three quarters of the other devices, and at least [`LATE_US`] longer. So it is not
//!   called late if a quarter of the others are as slow, as when several share a busy disk.
//! * It is slow if it was late for [`Rule::after`] without a good period in between, in at least
//!   [`LATE_PERIODS`] periods, with at least [`SURE`] reads or reads that took a third of the time.
//! * The warning ends when the device was good for twice [`Rule::after`] without a late period.
//!
//! The caller passes the time; the same samples give the same result.

use pantile_volume::Slot;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of reads for which a period can judge a device.
const ENOUGH: u64 = 8;

/// Number of reads in all late periods together for which a warning is certain.
const SURE: u64 = 48;

/// Fewest late periods before a warning, and fewest good periods before its end.
const LATE_PERIODS: u32 = 3;

/// Microseconds by which a late read exceeds those of other devices, at least. Smaller differences
/// come from schedulers and caches and delay no work.
pub(crate) const LATE_US: u32 = 2000;

/// Lower bound of the usual duration in microseconds: below it, measured durations are not stable.
pub(crate) const FLOOR_US: u32 = 100;

/// Factor by which the reads of a late device take longer than those of the others, at least. A
/// device that is called slow counts as late down to [`AGAIN_TIMES`].
pub(crate) const SLOW_TIMES: u32 = 4;
pub(crate) const AGAIN_TIMES: u32 = 2;

/// Number of classes of the histogram, four for each doubling.
const CLASSES: usize = 128;

/// Histogram of the durations of a device's reads in the present period.
pub(crate) struct Tally {
    classes: [AtomicU32; CLASSES],
    total_us: AtomicU64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { classes: [const { AtomicU32::new(0) }; CLASSES], total_us: AtomicU64::new(0) }
    }
}

impl Tally {
    /// Counts a read.
    pub(crate) fn note(&self, us: u32) {
        self.classes[class_of(us)].fetch_add(1, Relaxed);
        self.total_us.fetch_add(us.into(), Relaxed);
    }

    /// Returns the reads so far, and begins a new period.
    pub(crate) fn take(&self) -> Period {
        let counts = self.classes.each_ref().map(|count| count.swap(0, Relaxed));
        let count: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let mut before = 0;
        let median = counts.iter().position(|&in_class| {
            before += u64::from(in_class);
            before * 2 > count
        });
        let total = Duration::from_micros(self.total_us.swap(0, Relaxed));
        Period { count, total, median_us: median.map_or(0, least_of) }
    }
}

fn class_of(us: u32) -> usize {
    if us < 4 {
        return us as usize;
    }
    let octave = us.ilog2();
    (4 * (octave - 1) + ((us >> (octave - 2)) & 3)) as usize
}

/// Returns the shortest duration of a class.
fn least_of(class: usize) -> u32 {
    match class {
        0..4 => class as u32,
        _ => (4 | (class as u32 % 4)) << (class / 4 - 1),
    }
}

/// Reads of a device in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Period {
    count: u64,
    total: Duration,
    median_us: u32,
}

/// A device that is called slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Median duration of its reads divided by that of the other devices, in its last late period.
    pub times: u32,
    /// Median duration of its reads in that period, in microseconds.
    pub median_us: u32,
    /// Time for which it has been late.
    pub for_time: Duration,
}

/// Time for which a device is late before it is called slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) after: Duration,
}

/// State of all devices, by slot.
pub(crate) struct Watch {
    rule: Rule,
    /// Beginning of the present period.
    begun: Duration,
    slots: Vec<Watched>,
}

#[derive(Clone, Default)]
struct Watched {
    /// The median of the last period with enough reads.
    usual_us: Option<u32>,
    late: Option<Streak>,
    slow: Option<Called>,
}

/// A series of late periods without a good one in between.
#[derive(Clone, Copy)]
struct Streak {
    since: Duration,
    last: Duration,
    periods: u32,
    count: u64,
    total: Duration,
}

#[derive(Clone, Copy)]
struct Called {
    slow: Slow,
    since: Duration,
    late_last: Duration,
    good_periods: u32,
}

/// Judgement of a device after a period.
enum Verdict {
    Nothing,
    Good,
    Late(u32),
}

impl Watch {
    pub(crate) fn new(slots: usize, rule: Rule) -> Watch {
        Watch { rule, begun: Duration::ZERO, slots: vec![Watched::default(); slots] }
    }

    /// Forgets the state of a slot, because its device was exchanged.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(watched) = self.slots.get_mut(slot.0 as usize) {
            *watched = Watched::default();
        }
    }

    /// Returns the slow device of a slot, if it is called slow.
    pub(crate) fn slow(&self, slot: Slot) -> Option<Slow> {
        self.slots.get(slot.0 as usize)?.slow.map(|called| called.slow)
    }

    /// Ends the present period if it is long enough, and judges each device by it.
    pub(crate) fn look(&mut self, now: Duration, tallies: &mut dyn Iterator<Item = &Tally>) {
        let usual_len = self.rule.after / 6;
        let len = now.saturating_sub(self.begun);
        if len < usual_len {
            return;
        }
        // After a long time without a call, the reads can be of any moment of that time.
        let len = len.min(usual_len * 2);
        self.begun = now;
        let periods: Vec<Period> = tallies.map(Tally::take).collect();
        let fresh: Vec<Option<u32>> =
            periods.iter().map(|period| says_something(period, len).then_some(period.median_us)).collect();
        for (slot, period) in periods.iter().enumerate().take(self.slots.len()) {
            let verdict = self.verdict(slot, &fresh);
            self.slots[slot].judge(verdict, period, (now - len, now), self.rule);
        }
        for (watched, median) in self.slots.iter_mut().zip(fresh) {
            watched.usual_us = median.or(watched.usual_us);
        }
    }

    fn verdict(&self, slot: usize, fresh: &[Option<u32>]) -> Verdict {
        let Some(own) = fresh[slot] else { return Verdict::Nothing };
        let others = |of: &dyn Fn(usize) -> Option<u32>| {
            let others = (0..fresh.len()).filter(|&other| other != slot);
            let mut medians: Vec<u32> = others.filter_map(of).collect();
            medians.sort_unstable();
            medians.get(medians.len() * 3 / 4).copied()
        };
        let least = if self.slots[slot].slow.is_some() { AGAIN_TIMES } else { SLOW_TIMES };
        let late = |usual: u32| {
            let times = own / usual.max(FLOOR_US);
            (times >= least && own.saturating_sub(usual) >= LATE_US).then_some(times)
        };
        match others(&|other| fresh[other]).map(late) {
            Some(Some(times)) => return Verdict::Late(times),
            Some(None) => return Verdict::Good,
            None => {}
        }
        // The other devices are idle. If the device is as fast as they were, it is good; otherwise
        // it may just be busy.
        let before = others(&|other| self.slots[other].usual_us);
        if before.is_some_and(|usual| late(usual).is_none()) { Verdict::Good } else { Verdict::Nothing }
    }
}

fn says_something(period: &Period, len: Duration) -> bool {
    period.count >= ENOUGH || (period.count > 0 && period.total * 2 >= len)
}

impl Watched {
    fn judge(&mut self, verdict: Verdict, period: &Period, (begun, now): (Duration, Duration), rule: Rule) {
        match verdict {
            Verdict::Nothing => {
                self.late = self.late.filter(|late| now - late.last <= rule.after / 2);
            }
            Verdict::Good => {
                self.late = None;
                if let Some(called) = &mut self.slow {
                    called.good_periods += 1;
                    let is_over =
                        called.good_periods >= LATE_PERIODS && now - called.late_last >= rule.after * 2;
                    self.slow = self.slow.filter(|_| !is_over);
                }
            }
            Verdict::Late(times) => {
                let new = Streak { since: begun, last: now, periods: 0, count: 0, total: Duration::ZERO };
                let late = self.late.get_or_insert(new);
                late.last = now;
                late.periods += 1;
                late.count += period.count;
                late.total += period.total;
                let lasted = now - late.since;
                let is_sure = late.count >= SURE || late.total * 3 >= lasted;
                let is_slow = lasted >= rule.after && late.periods >= LATE_PERIODS && is_sure;
                let since = self.slow.map_or(late.since, |called| called.since);
                if is_slow || self.slow.is_some() {
                    let slow = Slow { times, median_us: period.median_us, for_time: now - since };
                    self.slow = Some(Called { slow, since, late_last: now, good_periods: 0 });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
