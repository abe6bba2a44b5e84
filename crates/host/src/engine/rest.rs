//! Times without requests, and without writes, and the events that report them to the volume.
//!
//! A volume gets the event of an idle time after some time without a request, to the engine or past
//! it, and again each hour, because blocks of its log become old. It gets the event of a time
//! without writes once.

use pantile_volume::{LOG_AGE, RequestId};
use std::time::{Duration, Instant};

/// A time without requests.
struct Quiet {
    since: Instant,
    /// Requests that had come then.
    requests: u64,
    /// Time of the event that reported it to the volume, if one did.
    told: Option<Instant>,
}

impl Quiet {
    fn since(now: Instant, requests: u64) -> Quiet {
        Quiet { since: now, requests, told: None }
    }
}

/// The requests that have come, and the times without them.
pub(super) struct Rest {
    requests: u64,
    /// Those of them that do not read.
    writes: u64,
    idle: Quiet,
    still: Quiet,
    after: Duration,
}

impl Rest {
    /// Begins without requests; a volume is idle after so long.
    pub(super) fn new(after: Duration, now: Instant) -> Rest {
        Rest { requests: 0, writes: 0, idle: Quiet::since(now, 0), still: Quiet::since(now, 0), after }
    }

    /// Counts a request, and names it.
    pub(super) fn asked(&mut self, is_read: bool) -> RequestId {
        self.requests += 1;
        self.writes += u64::from(!is_read);
        RequestId(self.requests)
    }

    /// Tests whether an idle time is reported now, and when to look again. `others`: requests past
    /// the engine. `is_asked`: a request is under way.
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

    /// Tests whether a time without writes is reported now; until then, when to look again.
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
        // A reader without the engine counts, too.
        assert_eq!(rest.is_idle(now + second + hour, 1, false), (false, now + 2 * second + hour));
        assert_eq!(rest.is_still(now + second, false), (true, None));
        assert_eq!(rest.is_still(now + hour, false), (false, None));
        rest.asked(false);
        assert_eq!(rest.is_still(now + hour, false), (false, Some(now + hour + second)));
    }
}
