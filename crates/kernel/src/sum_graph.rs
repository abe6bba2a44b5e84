//! Sums as a graph: the sum that computes each place, and the sums that read it.

use crate::sums::{NONE, SharedSums, Sum};

/// Sums, with the sum that computes each place and those that read it.
pub(crate) struct SumGraph<'s> {
    pub(crate) sums: &'s [Sum],
    /// The number of buffers: places below it are buffers.
    pub(crate) buffers: u32,
    /// For each place, the sum that computes it.
    pub(crate) made_by: Vec<Option<usize>>,
    /// For all places, one after the other: the sums that use it, ascending.
    users: Vec<usize>,
    /// For each place, the end of its users in `users`.
    users_end: Vec<usize>,
    /// For each sum that is not a buffer and needs a slot, its slot.
    slot_of: Vec<u32>,
    pub(crate) slots: u32,
}

impl<'s> SumGraph<'s> {
    pub(crate) fn new(shared: &'s SharedSums) -> SumGraph<'s> {
        let (sums, places) = (shared.sums(), shared.places());
        let mut made_by = vec![None; places];
        // Users are counted first. Filling then moves each end from the start of the place's users
        // to their end.
        let mut users_end = vec![0; places + 1];
        for (i, sum) in sums.iter().enumerate() {
            made_by[sum.out as usize] = Some(i);
            sum.terms.iter().for_each(|&t| users_end[t as usize + 1] += 1);
        }
        (0..places).for_each(|place| users_end[place + 1] += users_end[place]);
        let mut users = vec![0; users_end[places]];
        for (i, sum) in sums.iter().enumerate() {
            for &term in &sum.terms {
                users[users_end[term as usize]] = i;
                users_end[term as usize] += 1;
            }
        }
        let buffers = shared.buffers().len() as u32;
        SumGraph { slot_of: vec![NONE; sums.len()], sums, buffers, made_by, users, users_end, slots: 0 }
    }

    /// The sums that use a place, ascending.
    pub(crate) fn users(&self, place: u32) -> &[usize] {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.users_end[place - 1] };
        &self.users[start..self.users_end[place]]
    }

    /// Returns the slot of a sum, as a place.
    pub(crate) fn slot(&mut self, sum: usize) -> u32 {
        if self.slot_of[sum] == NONE {
            self.slot_of[sum] = self.slots;
            self.slots += 1;
        }
        self.buffers + self.slot_of[sum]
    }

    /// Returns the place of the finished sum.
    pub(crate) fn result(&mut self, sum: usize) -> u32 {
        if self.sums[sum].out < self.buffers { self.sums[sum].out } else { self.slot(sum) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! Sums for several tests.

    use std::collections::{BTreeMap, BTreeSet};

    /// Returns sums of rows, and of diagonals that include the row sums, as in the encoding of RDP.
    /// With `chain`, each sum needs the one before.
    pub(crate) fn steps(rows: usize, columns: usize, chain: bool) -> Vec<(usize, Vec<usize>)> {
        let first = rows * columns;
        let mut steps: Vec<(usize, Vec<usize>)> =
            (0..rows).map(|r| (first + r, (0..columns).map(|c| r * columns + c).collect())).collect();
        for d in 0..columns {
            let on = (0..rows)
                .flat_map(|r| (0..columns).map(move |c| (r, c)))
                .filter(|(r, c)| (r + c) % columns == d);
            let mut terms: Vec<usize> = on.map(|(r, c)| r * columns + c).collect();
            terms.push(if chain && d > 0 { first + rows + d - 1 } else { first + d % rows });
            steps.push((first + rows + d, terms));
        }
        steps
    }

    /// Returns a generator of random numbers below its argument.
    pub(crate) fn below(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |n| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        }
    }

    /// Returns buffers of 3 bytes before some steps, and the expected content after them.
    pub(crate) fn contents(steps: &[(usize, Vec<usize>)]) -> (Vec<[u8; 3]>, Vec<[u8; 3]>) {
        let buffers =
            1 + steps.iter().flat_map(|(target, terms)| terms.iter().chain([target])).max().unwrap();
        let have: Vec<[u8; 3]> = (0..buffers).map(|i| [i as u8, (i * 7 + 1) as u8, (i * i) as u8]).collect();
        let mut wanted = have.clone();
        for (target, terms) in steps {
            wanted[*target] =
                terms.iter().fold([0; 3], |sum, &t| std::array::from_fn(|i| sum[i] ^ wanted[t][i]));
        }
        (have, wanted)
    }

    /// Returns dense sums that compute `m` columns from `k`, each of `rows` buffers. The last sum
    /// has one more term, the sum before it.
    pub(crate) fn dense(k: usize, m: usize, rows: usize) -> Vec<(usize, Vec<usize>)> {
        let mixed = |number: usize| (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_term = |target: usize, source: usize| {
            (mixed(target) ^ mixed(source).rotate_left(29)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 63 == 1
        };
        let mut steps: Vec<(usize, Vec<usize>)> = (0..m * rows)
            .map(|t| (k * rows + t, (0..k * rows).filter(|&source| is_term(t, source)).collect()))
            .collect();
        if let [.., before, last] = &mut steps[..] {
            last.1.push(before.0);
        }
        steps
    }

    /// Returns each target, with the original buffers of which it is the sum.
    pub(crate) fn evaluated(steps: &[(usize, Vec<usize>)]) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut made: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (target, terms) in steps {
            let of_term = |term: &usize| made.get(term).cloned().unwrap_or_else(|| BTreeSet::from([*term]));
            let sum = terms.iter().map(of_term).fold(BTreeSet::new(), |sum, of_term| &sum ^ &of_term);
            assert!(made.insert(*target, sum).is_none(), "nothing is written twice");
        }
        made
    }
}
