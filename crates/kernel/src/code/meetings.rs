//! Chooses the sums to hold in registers, and finds where the other sums meet them.
//!
//! An array code adds most buffers to two sums each. Computed sum by sum, every buffer is fetched
//! twice. So the sums are split into two sets such that a buffer is in one sum of each set, if
//! possible. *Held* sums are all in registers at once; *swept* sums are computed one after the
//! other. Where a held and a swept sum share a buffer, they meet: the buffer is loaded once and
//! added to both ([`super::braid`]).

use std::collections::HashMap;

use crate::sum_graph::SumGraph;
use crate::sums::NONE;

impl SumGraph<'_> {
    pub(crate) fn needs(&self, sum: usize) -> bool {
        self.sums[sum].terms.iter().any(|&t| self.made_by[t as usize].is_some())
    }

    /// Returns, for each sum, true if it is to be held. Sums with a common source are neighbours;
    /// as far as possible, neighbours of swept sums are held.
    pub(crate) fn held(&self) -> Vec<bool> {
        let mut neighbours = vec![Vec::new(); self.sums.len()];
        for place in (0..self.buffers).filter(|&place| self.made_by[place as usize].is_none()) {
            let users = self.users(place);
            for &a in users {
                neighbours[a].extend(users.iter().copied().filter(|&b| b != a));
            }
        }
        let mut side: Vec<Option<bool>> = vec![None; self.sums.len()];
        for root in 0..self.sums.len() {
            if side[root].is_some() || neighbours[root].is_empty() {
                continue;
            }
            side[root] = Some(false);
            let mut component = vec![root];
            let mut at = 0;
            while let Some(&sum) = component.get(at) {
                at += 1;
                for &neighbour in &neighbours[sum] {
                    if side[neighbour].is_none() {
                        side[neighbour] = side[sum].map(|held| !held);
                        component.push(neighbour);
                    }
                }
            }
            cut(&neighbours, &component, &mut side);
            // Sums that need other sums are better held: a swept sum is finished with its row.
            let weight = |held: bool| {
                let of_side = component.iter().filter(|&&sum| side[sum] == Some(held));
                of_side.map(|&sum| if self.needs(sum) { 1 } else { -1i64 }).sum::<i64>()
            };
            if weight(false) > weight(true) {
                component.iter().for_each(|&sum| side[sum] = side[sum].map(|held| !held));
            }
        }
        side.into_iter().map(|side| side == Some(true)).collect()
    }

    /// Returns where the sources of swept and held sums are added.
    pub(crate) fn meetings(&self, held: &[usize], swept: &[usize]) -> Meetings {
        let column: HashMap<usize, usize> = held.iter().enumerate().map(|(j, &sum)| (sum, j)).collect();
        let sources =
            |sum: usize| self.sums[sum].terms.iter().copied().filter(|&t| self.made_by[t as usize].is_none());
        let mut rest: Vec<Vec<u32>> = held.iter().map(|&sum| sources(sum).collect()).collect();
        let mut meetings = Meetings { cells: vec![], plain: vec![], rest: vec![] };
        for &sum in swept {
            let mut row = vec![NONE; held.len()];
            let mut plain = Vec::new();
            for term in sources(sum) {
                let columns = self.users(term).iter().filter_map(|user| column.get(user).copied());
                match columns.into_iter().find(|&j| row[j] == NONE && rest[j].contains(&term)) {
                    Some(j) => {
                        row[j] = term;
                        rest[j].retain(|&t| t != term);
                    }
                    None => plain.push(term),
                }
            }
            meetings.cells.push(row);
            meetings.plain.push(plain);
        }
        meetings.rest = rest;
        meetings
    }
}

/// Moves sums of a component to the other side as long as this raises the number of buffers that
/// are in a sum of each side. The result is a local maximum cut. If two sides suffice, no sum
/// moves, and each buffer is met once.
///
/// Cost: each move meets one buffer more, so there are no more moves than shared buffers.
fn cut(neighbours: &[Vec<usize>], component: &[usize], side: &mut [Option<bool>]) {
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for &sum in component {
            let of = &neighbours[sum];
            let same = of.iter().filter(|&&other| side[other] == side[sum]).count();
            if 2 * same > of.len() {
                side[sum] = side[sum].map(|held| !held);
                has_moved = true;
            }
        }
    }
}

/// The sources of the sums, by the cell in which they are added.
pub(crate) struct Meetings {
    /// For each swept sum, one cell for each held sum.
    pub(crate) cells: Vec<Vec<u32>>,
    /// The sources of each swept sum that are in no cell.
    pub(crate) plain: Vec<Vec<u32>>,
    /// The sources of each held sum that are in no cell of a swept sum.
    pub(crate) rest: Vec<Vec<u32>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum_graph::tests::steps;
    use crate::sums::SharedSums;

    /// Returns sums of which every two share a buffer, like the parities of P-Code.
    fn complete(sums: usize) -> Vec<(usize, Vec<usize>)> {
        let pairs: Vec<(usize, usize)> = (0..sums).flat_map(|a| (a + 1..sums).map(move |b| (a, b))).collect();
        let of = |sum: usize| (0..pairs.len()).filter(|&i| pairs[i].0 == sum || pairs[i].1 == sum).collect();
        (0..sums).map(|sum| (pairs.len() + sum, of(sum))).collect()
    }

    #[test]
    fn sums_are_held_so_that_as_many_buffers_as_can_be_are_met() {
        let met = |steps: &[(usize, Vec<usize>)]| {
            let shared = SharedSums::new(steps);
            let graph = SumGraph::new(&shared);
            let held = graph.held();
            let places = (0..graph.buffers).filter(|&place| graph.users(place).len() == 2);
            places.filter(|&place| held[graph.users(place)[0]] != held[graph.users(place)[1]]).count()
        };
        // The best cut of a complete graph splits the sums into two halves.
        for sums in 2..=14 {
            assert_eq!(met(&complete(sums)), (sums / 2) * sums.div_ceil(2), "{sums} sums");
        }
        // Two families of sums meet at every buffer.
        assert_eq!(met(&steps(4, 7, false)), 28);
    }
}
