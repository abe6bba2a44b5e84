//! States of devices after a crash: a random one, or every possible one in turn.
//!
//! Each sector of a block keeps its durable content or gets that of any unflushed write,
//! independently of all other sectors. So writes are torn between sectors, dropped, and reordered
//! where they overlap; a sector is never torn.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::SECTORS;
use crate::disk::{Disk, Version};
use crate::{Content, Random};

/// How unflushed writes are treated in a crash. All ways are possible; each finds faults that
/// others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Nothing,
    Everything,
    WholeWrites,
    WholeBlocks,
    Sectors,
    /// Like `Sectors`, but a sector may also get an older write although a newer one is kept in
    /// another sector.
    Reordered,
}

const MANNERS: [Manner; 6] = [
    Manner::Nothing,
    Manner::Everything,
    Manner::WholeWrites,
    Manner::WholeBlocks,
    Manner::Sectors,
    Manner::Reordered,
];

/// The unit that is kept or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Each sector of each block: all possible states.
    Sector,
    /// Each block as a whole: no block is torn.
    Block,
}

/// There are more states than the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStates {
    /// The number of states; `None`: beyond u64.
    pub states: Option<u64>,
}

impl Disk {
    /// Loses a random part of the unflushed writes.
    pub fn crash(&mut self, random: &mut Random) {
        let candidates = self.take_candidates();
        let manner = *random.pick(&MANNERS).expect("there are manners");
        let stamps: BTreeSet<u64> = candidates.values().flatten().map(|version| version.stamp).collect();
        let kept: BTreeMap<u64, bool> =
            stamps.into_iter().map(|stamp| (stamp, random.chance(1, 2))).collect();
        for (at, versions) in candidates {
            let last = versions.len() - 1;
            let manner = match manner {
                Manner::Sectors | Manner::Reordered if !self.tears() => Manner::WholeBlocks,
                manner => manner,
            };
            let chosen = match manner {
                Manner::Nothing => [None; SECTORS],
                Manner::Everything => [Some(last); SECTORS],
                Manner::WholeWrites => [versions.iter().rposition(|version| kept[&version.stamp]); SECTORS],
                Manner::WholeBlocks => [any_of(&versions, random); SECTORS],
                Manner::Sectors => {
                    [(); SECTORS].map(|()| (0..versions.len()).rev().find(|_| random.chance(1, 2)))
                }
                Manner::Reordered => [(); SECTORS].map(|()| any_of(&versions, random)),
            };
            self.settle_sectors(at, &versions, chosen);
        }
    }

    /// Returns every different state that a crash could leave; fails with their number if it is
    /// above `most`.
    pub fn crash_states(&self, grain: Grain, most: u64) -> Result<CrashStates, TooManyStates> {
        let mut base = self.clone();
        let candidates = base.take_candidates();
        let mut choices = Vec::new();
        for (&at, versions) in &candidates {
            choices.extend(choices_of(&base, at, versions, grain));
        }
        let states =
            choices.iter().try_fold(1u64, |all, choice| all.checked_mul(choice.options.len() as u64));
        match states {
            Some(states) if states <= most => Ok(CrashStates { base, candidates, choices, next: 0, states }),
            states => Err(TooManyStates { states }),
        }
    }
}

fn any_of(versions: &[Version], random: &mut Random) -> Option<usize> {
    let nth = random.below(versions.len() as u64 + 1) as usize;
    (nth < versions.len()).then_some(nth)
}

/// The devices that a crash could leave.
#[derive(Clone, Debug)]
pub struct CrashStates {
    base: Disk,
    candidates: BTreeMap<u64, Vec<Version>>,
    choices: Vec<Choice>,
    next: u64,
    states: u64,
}

/// Sectors of a block that are decided together, and their possible versions, all different.
#[derive(Clone, Debug)]
struct Choice {
    at: u64,
    sectors: std::ops::Range<usize>,
    options: Vec<Option<usize>>,
}

fn choices_of(base: &Disk, at: u64, versions: &[Version], grain: Grain) -> Vec<Choice> {
    let width = if grain == Grain::Sector { 1 } else { SECTORS };
    let durable = base.newest(pantile_volume::DeviceBlock(at)).ok();
    let look = |option: Option<usize>| option.map_or(durable, |version| Some(&versions[version].content));
    let alike =
        |a: Option<usize>, b: Option<usize>, sectors: &std::ops::Range<usize>| match (look(a), look(b)) {
            (Some(a), Some(b)) => sectors.clone().all(|sector| Content::same_sector(a, b, sector)),
            _ => false,
        };
    (0..SECTORS)
        .step_by(width)
        .map(|first| {
            let sectors = first..first + width;
            let mut options: Vec<Option<usize>> = vec![None];
            for version in (0..versions.len()).map(Some) {
                if !options.iter().any(|&option| alike(option, version, &sectors)) {
                    options.push(version);
                }
            }
            Choice { at, sectors, options }
        })
        .collect()
}

impl Iterator for CrashStates {
    type Item = Disk;

    fn next(&mut self) -> Option<Disk> {
        if self.next == self.states {
            return None;
        }
        let mut number = self.next;
        self.next += 1;
        let mut chosen: BTreeMap<u64, [Option<usize>; SECTORS]> = BTreeMap::new();
        for choice in &self.choices {
            let option = choice.options[(number % choice.options.len() as u64) as usize];
            number /= choice.options.len() as u64;
            chosen.entry(choice.at).or_default()[choice.sectors.clone()].fill(option);
        }
        let mut disk = self.base.clone();
        for (at, chosen) in chosen {
            disk.settle_sectors(at, &self.candidates[&at], chosen);
        }
        Some(disk)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.states - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for CrashStates {}

#[cfg(test)]
mod tests {
    use pantile_volume::DeviceBlock;

    use super::*;

    /// Makes a block whose sectors are all different.
    fn data(value: u8) -> Content {
        Content::of_data(std::array::from_fn(|i| value * 16 + i as u8))
    }

    fn write(disk: &mut Disk, at: u64, values: &[u8]) {
        let ticket = disk.begin_write(DeviceBlock(at), values.iter().map(|&value| data(value)).collect());
        disk.land(ticket);
    }

    fn looks(states: impl Iterator<Item = Disk>) -> BTreeSet<Vec<[u8; 16]>> {
        states.map(|disk| (0..3).map(|at| disk.newest(DeviceBlock(at)).unwrap().data()).collect()).collect()
    }

    #[test]
    fn enumeration_has_every_subset_once() {
        let mut disk = Disk::new(3);
        write(&mut disk, 0, &[1]);
        let mark = disk.begin_flush();
        disk.end_flush(mark);
        write(&mut disk, 0, &[2, 3]);
        write(&mut disk, 0, &[4]);
        let blocks = disk.crash_states(Grain::Block, 100).unwrap();
        assert_eq!(blocks.len(), 3 * 2);
        assert_eq!(looks(blocks).len(), 6);
        let sectors = disk.crash_states(Grain::Sector, 1 << 21).unwrap();
        assert_eq!(sectors.len(), 3usize.pow(8) * (1 << 8));
        assert_eq!(looks(sectors.take(100_000)).len(), 100_000);
        let too_many = disk.crash_states(Grain::Sector, 1000).unwrap_err();
        assert_eq!(too_many.states, Some(3u64.pow(8) << 8));
    }

    #[test]
    fn chance_gives_only_states_of_the_enumeration_and_all_at_the_grain_of_blocks() {
        let mut disk = Disk::new(3);
        write(&mut disk, 0, &[1, 1, 1]);
        write(&mut disk, 1, &[2]);
        disk.begin_write(DeviceBlock(2), vec![data(3)]);
        let mut random = Random::new(3);
        let mut seen = BTreeSet::new();
        for _ in 0..5000 {
            let mut crashed = disk.clone();
            crashed.crash(&mut random);
            assert!(!crashed.has_unflushed());
            seen.extend(looks(std::iter::once(crashed)));
        }
        let blocks = looks(disk.crash_states(Grain::Block, 100).unwrap());
        assert_eq!(blocks.len(), 2 * 3 * 3);
        assert!(blocks.is_subset(&seen));
        let sector_is_possible = |at: usize, i: usize, two: &[u8]| {
            let values: &[u8] = [&[1][..], &[1, 2], &[1, 3]][at];
            two == [0, 0] || values.iter().any(|&v| two == &data(v).data()[i * 2..][..2])
        };
        for look in &seen {
            for (at, block) in look.iter().enumerate() {
                assert!(block.chunks(2).enumerate().all(|(i, two)| sector_is_possible(at, i, two)));
            }
        }
    }

    #[test]
    fn equal_content_is_one_state() {
        let mut disk = Disk::new(3);
        write(&mut disk, 0, &[1]);
        let mark = disk.begin_flush();
        disk.end_flush(mark);
        write(&mut disk, 0, &[1]);
        assert_eq!(disk.crash_states(Grain::Sector, 100).unwrap().len(), 1);
    }
}
