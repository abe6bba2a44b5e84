//! Trials of the loss of sets of failure units: devices, or disks that hold several devices.

use pantile_gf::{choose, next_set};

/// The results of trials for the sets of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTally {
    /// The number of sets of this size.
    pub sets: u64,
    /// The number of sets that were tried, in ascending order.
    pub tried: u64,
    /// The number of tried sets whose loss is survived.
    pub survived: u64,
    /// The first fatal sets, at most as many as the caller asked for.
    pub fatal: Vec<Vec<usize>>,
}

impl SetTally {
    /// Tries the sets of `size` out of `things` units, at most `tries_most` sets, and stores the
    /// first `fatal_most` fatal ones.
    ///
    /// Cost: one call of `survives` per set.
    pub fn of(
        things: usize,
        size: usize,
        (tries_most, fatal_most): (u64, usize),
        mut survives: impl FnMut(&[usize]) -> bool,
    ) -> SetTally {
        let sets = choose(things as u64, size as u64);
        let mut tally = SetTally { sets, tried: 0, survived: 0, fatal: Vec::new() };
        let mut set: Vec<usize> = (0..size).collect();
        while tally.tried < sets.min(tries_most) {
            match survives(&set) {
                true => tally.survived += 1,
                false if tally.fatal.len() < fatal_most => tally.fatal.push(set.clone()),
                false => {}
            }
            tally.tried += 1;
            next_set(&mut set, things);
        }
        tally
    }

    /// True if every set was tried.
    pub fn is_complete(&self) -> bool {
        self.tried == self.sets
    }

    /// The number of tried sets whose loss is not survived.
    pub fn lost(&self) -> u64 {
        self.tried - self.survived
    }
}

#[cfg(test)]
mod tests {
    use super::SetTally;

    #[test]
    fn sets_are_counted_up_to_the_bound() {
        let survives = |set: &[usize]| !set.contains(&1);
        let all = SetTally::of(4, 2, (u64::MAX, 2), survives);
        assert_eq!((all.sets, all.survived, all.lost(), all.is_complete()), (6, 3, 3, true));
        assert_eq!(all.fatal, [vec![0, 1], vec![1, 2]]);
        let some = SetTally::of(4, 2, (4, 2), survives);
        assert_eq!((some.tried, some.survived, some.is_complete()), (4, 2, false));
        assert_eq!(SetTally::of(2, 3, (9, 9), survives).sets, 0);
    }
}
