//! Rate of background I/O: bytes a second, changed at any time.

use std::time::{Duration, Instant};

/// Longest delay that one step causes for the next: a large I/O under a low rate must not stop
/// everything.
const STEP_MAX: Duration = Duration::from_secs(10);

/// A rate, and the earliest time of the next step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttle {
    bytes_per_s_max: Option<u64>,
    next_at: Instant,
}

impl Throttle {
    pub(crate) fn new(bytes_per_s_max: Option<u64>, now: Instant) -> Throttle {
        Throttle { bytes_per_s_max, next_at: now }
    }

    pub(crate) fn bytes_per_s_max(&self) -> Option<u64> {
        self.bytes_per_s_max
    }

    /// Sets the rate; `None`: no limit.
    pub(crate) fn set(&mut self, bytes_per_s_max: Option<u64>, now: Instant) {
        *self = Throttle::new(bytes_per_s_max, now);
    }

    /// Returns the time from which the next step may begin.
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Begins a step of this many bytes. An unused rate is not accumulated.
    pub(crate) fn begin(&mut self, bytes: u64, now: Instant) {
        if let Some(rate) = self.bytes_per_s_max {
            let step = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64).min(STEP_MAX);
            self.next_at = self.next_at.max(now) + step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_over_many_steps_and_nothing_is_saved_up() {
        let start = Instant::now();
        let mut throttle = Throttle::new(Some(1_000_000), start);
        (0..10).for_each(|_| throttle.begin(100_000, start));
        assert_eq!(throttle.next_at() - start, Duration::from_secs(1));
        let later = start + Duration::from_secs(60);
        throttle.begin(500_000, later);
        assert_eq!(throttle.next_at() - later, Duration::from_millis(500));
        throttle.set(None, later);
        throttle.begin(u64::MAX, later);
        assert_eq!(throttle.next_at(), later);
    }
}
