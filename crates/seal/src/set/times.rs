//! Compares mtimes of file systems of different resolution.
//!
//! A copy on a file system that stores whole or even seconds gets a truncated time. That is not a
//! change of the file. So two times count as equal if one is the other, truncated to a resolution
//! that file systems or programs use. The coarsest possible resolution can be read from the time
//! itself: all digits below it are zero.

use pantile_format::Timestamp;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Nanoseconds of common resolutions: NTFS; programs with microseconds and milliseconds; exFAT;
/// ext3, HFS+, tar, rsync's protocol; FAT.
const RESOLUTIONS: [i128; 6] = [100, 1000, 1_000_000, 10_000_000, NANOS_PER_SECOND, 2 * NANOS_PER_SECOND];

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * NANOS_PER_SECOND + i128::from(time.nanos)
}

/// True if `now` can be the mtime `sealed`, on a file system that may truncate times.
pub(crate) fn is_same_time(sealed: Timestamp, now: Timestamp) -> bool {
    let (sealed, now) = (nanos(sealed), nanos(now));
    let cut = |resolution: &i128| sealed.div_euclid(*resolution) * resolution;
    sealed == now || RESOLUTIONS.iter().any(|resolution| cut(resolution) == now)
}

/// True if a change with the ctime `changed` can have happened at or after another time. A
/// truncated ctime may hide a later moment.
pub(crate) fn is_since(changed: Timestamp, at: Timestamp) -> bool {
    let (changed, at) = (nanos(changed), nanos(at));
    let is_cut = |resolution: &&i128| changed.rem_euclid(**resolution) == 0;
    changed >= at || RESOLUTIONS.iter().filter(is_cut).any(|resolution| changed + resolution > at)
}

/// Limit of the share of blocks that differ in a file that may be either rotten or changed: one in
/// this many.
const FEW_OF: u64 = 16;

/// True if a file was written after it was sealed, so that its mtime is later. A truncated time is
/// earlier.
pub(crate) fn is_later(sealed: Timestamp, now: Timestamp) -> bool {
    nanos(now) > nanos(sealed)
}

/// True if so few blocks of a file of the sealed size differ that damage and change look alike.
pub(crate) fn is_rot_or_change(different: u64, blocks: u64) -> bool {
    different > 0 && different.saturating_mul(FEW_OF) <= blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_were_cut_are_the_same_and_others_are_not() {
        let time = |seconds, nanos| Timestamp { seconds, nanos };
        let sealed = time(1_700_000_001, 123_456_789);
        for now in [
            sealed,
            time(1_700_000_001, 123_456_700),
            time(1_700_000_001, 123_456_000),
            time(1_700_000_001, 123_000_000),
            time(1_700_000_001, 120_000_000),
            time(1_700_000_001, 0),
            time(1_700_000_000, 0),
        ] {
            assert!(is_same_time(sealed, now), "{now:?}");
        }
        for now in [
            time(1_700_000_001, 123_456_788),
            time(1_700_000_001, 123_456_790),
            time(1_700_000_001, 200_000_000),
            time(1_700_000_002, 0),
            time(1_700_000_000, 123_456_789),
            time(1_699_999_999, 0),
        ] {
            assert!(!is_same_time(sealed, now), "{now:?}");
        }
        // A time of whole seconds cannot have been truncated to another second.
        assert!(!is_same_time(time(1_700_000_000, 0), time(1_700_000_001, 0)));
        // Before 1970 a time is truncated downwards, too.
        assert!(is_same_time(time(-3, 500_000_000), time(-3, 0)) && is_same_time(time(-3, 5), time(-4, 0)));
    }

    #[test]
    fn a_cut_time_may_hide_a_later_change() {
        let time = |seconds, nanos| Timestamp { seconds, nanos };
        let at = time(1_700_000_001, 123_456_789);
        for changed in [at, time(1_700_000_001, 123_456_700), time(1_700_000_001, 0), time(1_700_000_000, 0)]
        {
            assert!(is_since(changed, at), "{changed:?}");
        }
        for changed in
            [time(1_700_000_001, 123_456_788), time(1_700_000_001, 120_000_001), time(1_699_999_999, 0)]
        {
            assert!(!is_since(changed, at), "{changed:?}");
        }
    }

    #[test]
    fn few_is_one_block_in_sixteen() {
        assert!(!is_rot_or_change(0, 100) && !is_rot_or_change(1, 15) && !is_rot_or_change(4, 49));
        assert!(is_rot_or_change(1, 16) && is_rot_or_change(3, 49));
    }
}
