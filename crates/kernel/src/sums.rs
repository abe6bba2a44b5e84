//! Sums of buffers, with what several of them have in common computed once (EVENODD's adjuster).
//!
//! Places are numbers: the buffers in use first, then sums that are no buffers.

use crate::weave::NONE;

/// A place to be computed as the sum of buffers and of earlier sums.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) out: u32,
    pub(crate) terms: Vec<u32>,
}

/// The steps of a program of XORs alone.
#[derive(Debug)]
pub(crate) struct SharedSums {
    buffers: Vec<usize>,
    sums: Vec<Sum>,
}

impl SharedSums {
    /// `steps`: each a target and the buffers whose sum it is, in an order in which they can be done.
    pub(crate) fn new(steps: &[(usize, Vec<usize>)]) -> SharedSums {
        let named = || steps.iter().flat_map(|(target, terms)| terms.iter().chain([target])).copied();
        let mut place_of = vec![NONE; named().max().map_or(0, |most| most + 1)];
        named().for_each(|buffer| place_of[buffer] = 0);
        let mut buffers = Vec::new();
        for (buffer, place) in place_of.iter_mut().enumerate().filter(|(_, place)| **place != NONE) {
            *place = buffers.len() as u32;
            buffers.push(buffer);
        }
        let place = |buffer: usize| place_of[buffer];
        let sums: Vec<Sum> = steps
            .iter()
            .map(|(target, terms)| Sum {
                out: place(*target),
                terms: odd(terms.iter().map(|&t| place(t)).collect()),
            })
            .collect();
        let first_new = buffers.len() as u32;
        SharedSums { buffers, sums: shared(sums, first_new) }
    }

    /// The buffers in use, ascending: the first places.
    pub(crate) fn buffers(&self) -> &[usize] {
        &self.buffers
    }

    /// In an order in which they can be computed.
    pub(crate) fn sums(&self) -> &[Sum] {
        &self.sums
    }

    /// Buffers, and sums that are none.
    pub(crate) fn places(&self) -> usize {
        let outs = self.sums.iter().map(|sum| sum.out as usize + 1);
        outs.max().unwrap_or(0).max(self.buffers.len())
    }
}

/// Terms that stand an odd number of times, ascending.
fn odd(mut terms: Vec<u32>) -> Vec<u32> {
    terms.sort_unstable();
    let mut kept = 0;
    for i in 0..terms.len() {
        match kept > 0 && terms[kept - 1] == terms[i] {
            true => kept -= 1,
            false => {
                terms[kept] = terms[i];
                kept += 1;
            }
        }
    }
    terms.truncate(kept);
    terms
}

/// Work on common parts that a program is worth, in comparisons of 64 buffers.
const SHARING_EFFORT: usize = 1 << 24;

/// Computes once what several sums have in common, the largest common part first. New sums are numbered from `next`.
///
/// Cost: O(sums^2) comparisons of bit sets per common part.
fn shared(mut sums: Vec<Sum>, mut next: u32) -> Vec<Sum> {
    let bits = |terms: &[u32], next: u32| {
        let mut set = vec![0u64; next as usize / 64 + 1];
        terms.iter().for_each(|&t| set[t as usize / 64] |= 1 << (t % 64));
        set
    };
    let common = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(x, y)| (x & y).count_ones()).sum::<u32>();
    let mut effort = 0;
    loop {
        let sets: Vec<Vec<u64>> = sums.iter().map(|sum| bits(&sum.terms, next)).collect();
        effort += sums.len() * sums.len() / 2 * (next as usize / 64 + 1);
        if effort > SHARING_EFFORT {
            return sums;
        }
        let (mut size, mut pair) = (1, (0, 0));
        for b in 1..sets.len() {
            for a in 0..b {
                let found = common(&sets[a], &sets[b]);
                if found > size {
                    (size, pair) = (found, (a, b));
                }
            }
        }
        if size < 2 {
            return sums;
        }
        let part: Vec<u64> = sets[pair.0].iter().zip(&sets[pair.1]).map(|(x, y)| x & y).collect();
        let users: Vec<usize> = (0..sets.len()).filter(|&s| common(&sets[s], &part) == size).collect();
        let is_in = |t: u32| part[t as usize / 64] >> (t % 64) & 1 == 1;
        // A sum that is the common part already lends its own result, if it comes first.
        let first = users[0];
        let lends = sums[first].terms.len() as u32 == size;
        let out = if lends { sums[first].out } else { next };
        for &user in users.iter().skip(usize::from(lends)) {
            sums[user].terms.retain(|&t| !is_in(t));
            // It may have been there already: what is added twice is gone.
            sums[user].terms.push(out);
            sums[user].terms = odd(std::mem::take(&mut sums[user].terms));
        }
        if !lends {
            let terms: Vec<u32> = (0..next).filter(|&t| is_in(t)).collect();
            sums.insert(first, Sum { out, terms });
            next += 1;
        }
    }
}
