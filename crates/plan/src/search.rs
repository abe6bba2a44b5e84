//! Exhaustive search for better generators of Plank-type codes.
//!
//! RAIDq's fourth parity is the sum of X^i d_i with X^2 = bX + c over GF(2^8); the number of data
//! columns for which it is MDS together with the generators [1, a, a^1/2] depends on b and c alone.
//! The paper chose X^2 = a^3 X + 1 (92 columns). All 65,025 pairs are tried here, on all cores;
//! pairs that define no field are skipped.

use crate::prove::on_threads;
use pantile_code::plank::limit_of_fourth_generator_from;
use pantile_gf::Gf;
use std::cmp::Reverse;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A polynomial X^2 = bX + c, with the number of data columns that it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourthGenerator {
    /// The coefficient of X.
    pub b: Gf,
    /// The constant.
    pub c: Gf,
    /// The largest number of data columns for which the code is MDS.
    pub limit: usize,
}

/// Finds the `top` best polynomials, the best first, among equals ordered by b and c; `norm_one`
/// limits the search to c = 1.
///
/// `progress` gets the number tried and the number in all, from several threads. If it returns
/// `false`, the search ends without a result. The result does not depend on the number of threads.
/// Cost: about a second and a half of one core for all pairs.
pub fn search_fourth_generators(
    norm_one: bool,
    top: usize,
    threads: usize,
    progress: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Option<Vec<FourthGenerator>> {
    let constants = if norm_one { 1..=1 } else { 1..=255u8 };
    let candidates: Vec<(Gf, Gf)> =
        (1..=255u8).flat_map(|b| constants.clone().map(move |c| (Gf(b), Gf(c)))).collect();
    let next = AtomicUsize::new(0);
    let least = AtomicUsize::new(1);
    let ended = AtomicBool::new(false);
    let found: Mutex<Vec<FourthGenerator>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= candidates.len() || ended.load(Ordering::Relaxed) {
                return;
            }
            let (b, c) = candidates[i];
            if let Some(limit) = limit_of_fourth_generator_from(b, c, least.load(Ordering::Relaxed)) {
                let mut found = found.lock().unwrap_or_else(|e| e.into_inner());
                found.push(FourthGenerator { b, c, limit });
                found.sort_by_key(|f| Reverse(f.limit));
                if let Some(bound) = top.checked_sub(1).and_then(|last| found.get(last)).map(|f| f.limit) {
                    // Polynomials equal to the last one are kept, so that b and c decide between
                    // them, not the order in which cores find them.
                    found.retain(|f| f.limit >= bound);
                    least.store(bound, Ordering::Relaxed);
                }
            }
            if !progress(i + 1, candidates.len()) {
                ended.store(true, Ordering::Relaxed);
            }
        }
    };
    on_threads(threads, &work);
    if ended.load(Ordering::Relaxed) {
        return None;
    }
    let mut found = found.into_inner().unwrap_or_else(|e| e.into_inner());
    found.sort_by_key(|f| (Reverse(f.limit), f.b, f.c));
    found.truncate(top);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_those_known_whatever_the_threads() {
        let best = |norm_one, threads| search_fourth_generators(norm_one, 2, threads, &|_, _| true);
        let all = best(false, 2).expect("not ended");
        assert_eq!(all, best(false, 1).expect("not ended"));
        assert!(all.contains(&FourthGenerator { b: Gf(0xfe), c: Gf(0x72), limit: 164 }));
        let one = best(true, 1).expect("not ended");
        assert_eq!(one[0], FourthGenerator { b: Gf::alpha_pow(77), c: Gf::ONE, limit: 125 });
        assert!(search_fourth_generators(false, 2, 2, &|tried, _| tried < 100).is_none());
    }
}
