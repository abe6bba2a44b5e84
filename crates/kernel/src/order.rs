//! The order in which kernels read their sources.
//!
//! A loop over sources reads all of them by the same few instructions. Processors watch the
//! addresses that an instruction reads. If these rise by equal steps, they prefetch the next one.
//! The buffers of a stripe mostly begin at equal distances. Read in that order they look like one
//! such stride: the prefetcher then fetches from buffers that are read anyway, or from outside any
//! buffer, and the next lines of the sources come late. So sources are read in an order without
//! equal steps, as in Welch's Costas arrays: the powers of a primitive root modulo a prime, without
//! those that are not the number of a source. From memory that is up to three times as fast
//! (NOTES.md, Zen 5), and costs nothing.
//!
//! Invariants: each source occurs once, source 0 first; no step occurs twice in a row, whether a
//! loop takes one source per round or two.

use crate::engine::MAX_SOURCES;

/// Returns the numbers below `count` in the order in which sources are read. Long lists are ordered
/// in pieces of [`MAX_SOURCES`].
pub(crate) fn reading_order(count: usize) -> impl Iterator<Item = usize> + Clone {
    (0..count).map(move |i| {
        let (before, at) = (i / MAX_SOURCES * MAX_SOURCES, i % MAX_SOURCES);
        before + usize::from(ORDERS[(count - before).min(MAX_SOURCES)][at])
    })
}

/// For each number of sources, their order.
static ORDERS: [[u8; MAX_SOURCES]; MAX_SOURCES + 1] = orders();

const fn orders() -> [[u8; MAX_SOURCES]; MAX_SOURCES + 1] {
    let mut orders = [[0; MAX_SOURCES]; MAX_SOURCES + 1];
    let mut count = 0;
    while count <= MAX_SOURCES {
        orders[count] = order(count);
        count += 1;
    }
    orders
}

/// Returns the order from the least prime and the least primitive root whose powers give an order
/// without equal steps.
const fn order(count: usize) -> [u8; MAX_SOURCES] {
    let mut prime = count + 1;
    loop {
        let mut root = 1;
        while root < prime {
            if let Some(order) = powers(prime, root, count)
                && !has_equal_steps(&order, count, 1)
                && !has_equal_steps(&order, count, 2)
            {
                return order;
            }
            root += 1;
        }
        prime += 1;
    }
}

/// Returns those powers of `root` modulo `modulus` that are at most `count`, each minus one. `None`
/// if the powers are not all numbers below the modulus, as they are for a primitive root of a
/// prime.
const fn powers(modulus: usize, root: usize, count: usize) -> Option<[u8; MAX_SOURCES]> {
    let mut order = [0; MAX_SOURCES];
    let (mut power, mut found, mut exponent) = (1, 0, 0);
    while exponent < modulus - 1 {
        if power == 0 || power == 1 && exponent > 0 {
            return None;
        }
        if power <= count && found < count {
            order[found] = (power - 1) as u8;
            found += 1;
        }
        power = power * root % modulus;
        exponent += 1;
    }
    if power == 1 && found == count { Some(order) } else { None }
}

/// True if among entries at the distance `lag` two consecutive steps are equal.
const fn has_equal_steps(order: &[u8; MAX_SOURCES], count: usize, lag: usize) -> bool {
    let mut i = 2 * lag;
    while i < count {
        if order[i] as isize - order[i - lag] as isize
            == order[i - lag] as isize - order[i - 2 * lag] as isize
        {
            return true;
        }
        i += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With equal steps kernels would give the same bytes but be slow: only this test detects that.
    #[test]
    fn each_source_is_read_once_the_first_first_and_no_step_twice_in_a_row() {
        for count in 0..=3 * MAX_SOURCES + 7 {
            let order: Vec<usize> = reading_order(count).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            assert!(count == 0 || order[0] == 0);
            for (piece, lag) in order.chunks(MAX_SOURCES).flat_map(|piece| [(piece, 1), (piece, 2)]) {
                let step = |i: usize| piece[i + lag] as isize - piece[i] as isize;
                let repeats = (lag..piece.len().saturating_sub(lag)).any(|i| step(i) == step(i - lag));
                assert!(!repeats, "{lag} {piece:?}");
            }
        }
        assert_eq!(
            reading_order(6).collect::<Vec<_>>(),
            [0, 2, 1, 5, 3, 4],
            "powers of 3 modulo 7, less one"
        );
    }
}
