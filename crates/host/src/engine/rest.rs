//! Detection of times without requests and of times without writes, which are reported to the
//! volume as events.
//!
//! The event of an idle time follows some time without a request, to the engine or direct, and is
//! repeated each hour, because blocks of the log become old. The event of a time without writes is
//! sent once.

use pantile_volume::{LOG_AGE, RequestId};
use std::time::{Duration, Instant};

/// A time without requests.
struct Quiet {
    since: Instant,
    /// Number of requests at its beginning.
    requests: u64,
    /// Time of its event, if it was sent.
    told: Option<Instant>,
}

impl Quiet {
    fn since(now: Instant, requests: u64) -> Quiet {
        Quiet { since: now, requests, told: None }
    }
}

/// Counters of requests, and the present times without them.
pub(super) struct Rest {
    requests: u64,
    /// Number of requests that do not read.
    writes: u64,
    idle: Quiet,
    still: Quiet,
    after: Duration,
}

impl Rest {
    /// Begins without requests. `after`: the time after which a volume is idle.
    pub(super) fn new(after: Duration, now: Instant) -> Rest {
        Rest { requests: 0, writes: 0, idle: Quiet::since(now, 0), still: Quiet::since(now, 0), after }
    }

    /// Counts a request, and returns its id.
    pub(super) fn asked(&mut self, is_read: bool) -> RequestId {
        self.requests += 1;
        self.writes += u64::from(!is_read);
        RequestId(self.requests)
    }

    /// Returns true if an idle time is to be reported now, and the time of the next check.
    /// `others`: direct requests. `is_asked`: a request is under way.
    pub(super) fn is_idle(&mut self, now: Instant, others: u64, is_asked: bool) -> (bool, Instant) {
        let requests = self.requests + others;
        if self.idle.requests != requests || is_asked {
            self.idle = Quiet::since(now, requests);
        }
        let again = Duration::from_secs(LOG_AGE.unsigned_abs());
        let at = self.idle.told.map_or(self.idle.since + self.after, |told| told + again);
        if at > now {
            return (false, at);
        }
        self.idle.told = Some(now);
        (true, now + again)
    }

    /// Returns true if a time without writes is to be reported now; otherwise the time of the next
    /// check, if there is one.
    pub(super) fn is_still(&mut self, now: Instant, is_opening: bool) -> (bool, Option<Instant>) {
        if self.still.requests != self.writes || is_opening {
            self.still = Quiet::since(now, self.writes);
        }
        let at = self.still.since + self.after;
        if self.still.told.is_some() {
            return (false, None);
        }
        if at > now {
            return (false, Some(at));
        }
        self.still.told = Some(now);
        (true, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_writes_are_reported_once_and_idle_ones_each_hour() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let hour = Duration::from_secs(LOG_AGE.unsigned_abs());
        let mut rest = Rest::new(second, now);
        rest.asked(true);
        assert_eq!(rest.is_idle(now, 0, false), (false, now + second));
        assert_eq!(rest.is_idle(now + second, 0, false), (true, now + second + hour));
        assert_eq!(rest.is_idle(now + second + hour, 0, false), (true, now + second + 2 * hour));
        // A direct read counts, too.
        assert_eq!(rest.is_idle(now + second + hour, 1, false), (false, now + 2 * second + hour));
        assert_eq!(rest.is_still(now + second, false), (true, None));
        assert_eq!(rest.is_still(now + hour, false), (false, None));
        rest.asked(false);
        assert_eq!(rest.is_still(now + hour, false), (false, Some(now + hour + second)));
    }
}
