//! The mapping of logical stripes to their places.

use super::Mapping;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The number of logical stripes in one part of the table.
const PART_STRIPES: u32 = 256;

/// Parts with at most this many mapped stripes are a sorted list; others are an array with an entry
/// for every stripe.
const FEW_STRIPES: usize = 64;

/// The mapping of each logical stripe. Memory is proportional to the mapped stripes: a small
/// multiple of their size in a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct StripeTable {
    len: usize,
    /// The parts with mapped stripes, by number.
    pub(super) parts: FxHashMap<u32, Part>,
    /// The numbers of the parts in order.
    order: BTreeSet<u32>,
}

/// Consecutive stripes, indexed by their number within the part.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// Mapped stripes only, ascending.
    Few(Vec<(u8, Option<Mapping>)>),
    All {
        mapped: usize,
        stripes: Box<[Option<Mapping>; PART_STRIPES as usize]>,
    },
}

impl Part {
    fn get(&self, place: u8) -> &Option<Mapping> {
        match self {
            Part::Few(few) => {
                few.binary_search_by_key(&place, |&(place, _)| place).map_or(&None, |at| &few[at].1)
            }
            Part::All { stripes, .. } => &stripes[place as usize],
        }
    }

    fn set(&mut self, place: u8, mapping: Option<Mapping>) -> Option<Mapping> {
        match self {
            Part::Few(few) => match (few.binary_search_by_key(&place, |&(place, _)| place), mapping) {
                (Ok(at), Some(_)) => std::mem::replace(&mut few[at].1, mapping),
                (Ok(at), None) => few.remove(at).1,
                (Err(at), Some(_)) if few.len() < FEW_STRIPES => {
                    few.insert(at, (place, mapping));
                    None
                }
                (Err(_), Some(_)) => {
                    let mut stripes = Box::new([None; PART_STRIPES as usize]);
                    few.iter().for_each(|&(place, mapping)| stripes[place as usize] = mapping);
                    stripes[place as usize] = mapping;
                    *self = Part::All { mapped: few.len() + 1, stripes };
                    None
                }
                (Err(_), None) => None,
            },
            Part::All { mapped, stripes } => {
                let before = std::mem::replace(&mut stripes[place as usize], mapping);
                *mapped = *mapped + usize::from(mapping.is_some()) - usize::from(before.is_some());
                before
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Part::Few(few) => few.is_empty(),
            Part::All { mapped, .. } => *mapped == 0,
        }
    }

    /// Returns the first mapped stripe at or after a number.
    fn mapped_from(&self, first: u8) -> Option<(u8, Mapping)> {
        match self {
            Part::Few(few) => {
                let at = few.partition_point(|&(place, _)| place < first);
                few.get(at).and_then(|&(place, mapping)| Some((place, mapping?)))
            }
            Part::All { stripes, .. } => {
                let mut there = (first..=u8::MAX).zip(&stripes[first as usize..]);
                there.find_map(|(place, mapping)| Some((place, (*mapping)?)))
            }
        }
    }
}

impl StripeTable {
    pub(super) fn new(len: usize) -> StripeTable {
        StripeTable { len, parts: FxHashMap::default(), order: BTreeSet::new() }
    }

    pub(super) fn get(&self, logical: u32) -> Option<Mapping> {
        assert!((logical as usize) < self.len, "stripe {logical} of {}", self.len);
        let (number, place) = (logical / PART_STRIPES, (logical % PART_STRIPES) as u8);
        self.parts.get(&number).and_then(|part| *part.get(place))
    }

    /// Maps or unmaps a stripe; returns its mapping from before.
    pub(super) fn set(&mut self, logical: u32, mapping: Option<Mapping>) -> Option<Mapping> {
        assert!((logical as usize) < self.len, "stripe {logical} of {}", self.len);
        let (number, place) = (logical / PART_STRIPES, (logical % PART_STRIPES) as u8);
        let Some(part) = self.parts.get_mut(&number) else {
            if mapping.is_some() {
                self.parts.insert(number, Part::Few(vec![(place, mapping)]));
                self.order.insert(number);
            }
            return None;
        };
        let before = part.set(place, mapping);
        if part.is_empty() {
            self.parts.remove(&number);
            self.order.remove(&number);
        }
        before
    }

    /// Returns the first mapped stripe at or after a number.
    pub(crate) fn mapped_from(&self, first: u32) -> Option<(u32, Mapping)> {
        let number = first / PART_STRIPES;
        let within = |number: u32, first: u8| {
            let (place, mapping) = self.parts.get(&number)?.mapped_from(first)?;
            Some((number * PART_STRIPES + u32::from(place), mapping))
        };
        let behind = || within(*self.order.range(number.checked_add(1)?..).next()?, 0);
        within(number, (first % PART_STRIPES) as u8).or_else(behind)
    }

    /// Returns every mapped stripe of a range, ascending; `last` is included.
    pub(crate) fn mapped_within(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, Mapping)> {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let found = self.mapped_from(next?).filter(|&(logical, _)| logical <= last)?;
            next = found.0.checked_add(1);
            Some(found)
        })
    }

    /// Returns every mapped stripe, ascending.
    pub(crate) fn mapped(&self) -> impl Iterator<Item = (u32, Mapping)> {
        self.mapped_within(0, u32::MAX)
    }
}

/// Compares mapped stripes: equal tables may hold a part as a list or as an array.
impl PartialEq for StripeTable {
    fn eq(&self, other: &StripeTable) -> bool {
        self.len == other.len && self.mapped().eq(other.mapped())
    }
}

impl Eq for StripeTable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_parts_is_a_table() {
        let len = 3 * PART_STRIPES - 5;
        let (mut table, mut model) = (StripeTable::new(len as usize), vec![None; len as usize]);
        let mut state = 3u32;
        for step in 0..4000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let logical = (state >> 12) % len;
            // The table fills in the first half and empties in the second.
            let full = (state >> 8) % 4 < if step < 2000 { 3 } else { 1 };
            let mapping = full.then_some(Mapping { physical: step, generation: u64::from(state) });
            assert_eq!(table.set(logical, mapping), std::mem::replace(&mut model[logical as usize], mapping));
            assert_eq!(table.get(logical), mapping);
            let next = (logical..len).find_map(|l| Some((l, model[l as usize]?)));
            assert_eq!(table.mapped_from(logical), next);
        }
        for logical in 0..len {
            table.set(logical, None);
        }
        assert!(table.parts.is_empty() && table.order.is_empty() && table.mapped().next().is_none());
    }
}
