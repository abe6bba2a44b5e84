//! Reference counts of buffers: a buffer goes back to the driver when its last holder releases it.
//!
//! Every block that is read or written passes here several times, so the buffers that the engine
//! names are in a table. Indexes into it are used again, names are not: the upper half of a name is
//! a number that is used once. So a stale name panics instead of naming another buffer.

use crate::{BufferId, ENGINE_BUFFERS};
use rustc_hash::FxHashMap;

/// The number of holders of each buffer.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// The name and count of each buffer that the engine named, by the lower half of the name.
    own: Vec<(BufferId, u32)>,
    /// Free indexes of `own`.
    free: Vec<u32>,
    /// Buffers that the driver named.
    given: FxHashMap<BufferId, u32>,
}

impl Holders {
    /// Returns a new name with one holder. `number` was never used for another name.
    pub(crate) fn name(&mut self, number: u64) -> BufferId {
        let place = self.free.pop().unwrap_or(self.own.len() as u32);
        let buffer = BufferId(ENGINE_BUFFERS | number << 32 & (ENGINE_BUFFERS - 1) | u64::from(place));
        match self.own.get_mut(place as usize) {
            Some(own) => *own = (buffer, 1),
            None => self.own.push((buffer, 1)),
        }
        buffer
    }

    /// Adds a buffer of the driver's, with one holder.
    pub(crate) fn adopt(&mut self, buffer: BufferId) {
        self.given.insert(buffer, 1);
    }

    /// Adds a holder.
    pub(crate) fn hold(&mut self, buffer: BufferId) {
        *self.count(buffer) += 1;
    }

    /// Removes a holder; `true`: it was the last.
    pub(crate) fn release(&mut self, buffer: BufferId) -> bool {
        let count = self.count(buffer);
        *count -= 1;
        if *count > 0 {
            return false;
        }
        if buffer.0 < ENGINE_BUFFERS {
            self.given.remove(&buffer);
        } else {
            self.free.push(buffer.0 as u32);
        }
        true
    }

    fn count(&mut self, buffer: BufferId) -> &mut u32 {
        let count = if buffer.0 < ENGINE_BUFFERS {
            self.given.get_mut(&buffer)
        } else {
            let own = self.own.get_mut(buffer.0 as u32 as usize);
            own.filter(|(name, count)| *name == buffer && *count > 0).map(|(_, count)| count)
        };
        match count {
            Some(count) => count,
            None => unreachable!("{buffer:?} is used by one who does not hold it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn places_are_used_again_and_names_are_not() {
        let mut holders = Holders::default();
        let [a, b] = [1, 2].map(|number| holders.name(number));
        holders.hold(a);
        assert!(!holders.release(a) && holders.release(a));
        let c = holders.name(3);
        assert!(a != b && b != c && a != c && c.0 as u32 == a.0 as u32);
        assert!(catch_unwind(AssertUnwindSafe(|| holders.hold(a))).is_err(), "the place is another's");
        assert!(holders.release(c) && holders.release(b));
        assert!(catch_unwind(AssertUnwindSafe(|| holders.release(b))).is_err(), "nobody holds it");
    }

    #[test]
    fn buffers_of_the_driver_are_counted_apart() {
        let mut holders = Holders::default();
        let (given, own) = (BufferId(0), holders.name(1));
        holders.adopt(given);
        holders.hold(given);
        assert!(holders.release(own) && !holders.release(given) && holders.release(given));
    }
}
