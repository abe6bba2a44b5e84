//! Counts and enumeration of the sets of k out of n numbers.

/// n over k: the sets of `k` out of `n`, saturating at 2^64 - 1; none if there are fewer than `k`.
///
/// Cost: min(k, n - k) products, fewer if it saturates. Not more than the smaller of the two: n
/// over i grows up to the middle and falls past it, and a saturated value in between would seem to
/// fall, too.
pub fn choose(n: u64, k: u64) -> u64 {
    if k > n {
        return 0;
    }
    let mut sets: u128 = 1;
    for i in 0..u128::from(k.min(n - k)) {
        // Exact: the product of i + 1 numbers in a row is divisible by (i + 1)!.
        sets = sets * (u128::from(n) - i) / (i + 1);
        if sets > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    sets as u64
}

/// Makes the next set of `set`, ascending numbers below `n`; false after the last, `n - k` to `n -
/// 1`.
///
/// The first set of a size is `0..size`.
pub fn next_set(set: &mut [usize], n: usize) -> bool {
    let size = set.len();
    let Some(at) = (0..size).rev().find(|&at| set[at] < n - size + at) else { return false };
    set[at] += 1;
    (at + 1..size).for_each(|next| set[next] = set[next - 1] + 1);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_the_sum_of_the_two_above_it() {
        for n in 1..=130u64 {
            assert_eq!((choose(n, 0), choose(n, n), choose(n, n + 1)), (1, 1, 0));
            for k in 1..n {
                let sum = choose(n - 1, k - 1).saturating_add(choose(n - 1, k));
                assert_eq!(choose(n, k), sum, "{n} over {k}");
                assert_eq!(choose(n, k), choose(n, n - k), "{n} over {k}");
            }
        }
    }

    #[test]
    fn saturation_past_the_middle_stays_large() {
        assert_eq!((choose(104, 99), choose(104, 60)), (91_962_520, u64::MAX));
        assert_eq!((choose(u64::MAX, u64::MAX - 1), choose(u64::MAX, 9)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn every_set_comes_once_and_in_order() {
        for (n, size) in (0..=7).flat_map(|n| (0..=n).map(move |size| (n, size))) {
            let mut all: Vec<Vec<usize>> = vec![(0..size).collect()];
            let mut set = all[0].clone();
            while next_set(&mut set, n) {
                all.push(set.clone());
            }
            assert_eq!(all.len() as u64, choose(n as u64, size as u64), "{size} of {n}");
            assert!(all.windows(2).all(|two| two[0] < two[1]), "{size} of {n}");
        }
    }
}
