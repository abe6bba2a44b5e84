//! Superblocks that are lost on more devices than tolerated are made again from one that is left.
//! Maps that are lost on all devices are made again from the headers of chunks.

use crate::real::Shape;
use crate::real::hand::Hand;
use pantile_format::volume::{ChunkHeader, HistoryId, Superblock};
use pantile_sim::{Ask, Content, Disk, Engine, Kill, Told};
use pantile_volume::{
    Anew, ChunkFound, DeviceBlock, OpenError, Slot, UserBlock, maps_anew, superblocks_again,
};
use std::collections::BTreeSet;

const SHAPE: Shape = Shape {
    placement: None,
    code: "raid6:2",
    element_blocks: 2,
    logical_stripes: 4,
    spare_stripes: 3,
    log_rows: 6,
    journal_blocks: 16,
    blocks_most: 4,
};

const CODES: [&str; 6] = ["mirror:3", "raid5:3", "raid6:2", "rs:3+3", "lrc:4,2,1", "dcode:5"];

fn bytes_of(disk: &Disk, at: DeviceBlock, blocks: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in at.0..at.0 + blocks {
        disk.newest(DeviceBlock(at)).expect("it can be read").append_to(&mut bytes);
    }
    bytes
}

fn wipe(disk: &mut Disk, at: DeviceBlock, blocks: u64) {
    for at in at.0..at.0 + blocks {
        disk.put(DeviceBlock(at), Content::of_bytes(&[0; 4096]));
    }
}

fn places(hand: &Hand, slot: Slot) -> [DeviceBlock; 3] {
    let zones = hand.real.geometry.zones(slot);
    [zones.superblock(0), zones.superblock(1), zones.superblock_copy()]
}

/// Removes the superblocks of all devices but the last, and returns the valid one of that device.
fn without_superblocks(hand: &mut Hand) -> Superblock {
    let slots = hand.world.disks().len();
    for slot in 0..slots - 1 {
        let places = places(hand, Slot(slot as u32));
        places.into_iter().for_each(|at| wipe(&mut hand.world.disks_mut()[slot], at, 1));
    }
    let last = &hand.world.disks()[slots - 1];
    let of = places(hand, Slot(slots as u32 - 1)).map(|at| Superblock::decode(&bytes_of(last, at, 1)));
    let found = of.into_iter().filter_map(Result::ok);
    found.max_by_key(|found| (found.session, found.update)).expect("one is left")
}

fn chunks(hand: &Hand) -> Vec<ChunkFound> {
    let geometry = &hand.real.geometry;
    let mut found = Vec::new();
    for (slot, disk) in (0..).map(Slot).zip(hand.world.disks()) {
        for physical in 0..geometry.physical_stripes() {
            let at = geometry.chunk_start(physical, slot);
            let bytes = bytes_of(disk, at, geometry.header_blocks(slot).into());
            if let Some(header) =
                ChunkHeader::decode(&bytes, geometry.volume).ok().filter(ChunkHeader::is_whole)
            {
                let (logical, generation) = (header.logical.0 as u32, header.generation.0);
                found.push(ChunkFound { slot, physical, logical, generation });
            }
        }
    }
    found
}

fn write(hand: &mut Hand, anew: &Anew) {
    for (slot, at, bytes) in anew.steps.iter().flatten() {
        for (at, block) in (at.0..).zip(bytes.chunks(4096)) {
            hand.world.disks_mut()[slot.0 as usize].put(DeviceBlock(at), Content::of_bytes(block));
        }
    }
}

fn all(hand: &Hand) -> Vec<Slot> {
    (0..hand.world.disks().len() as u32).map(Slot).collect()
}

#[test]
fn superblocks_are_made_again_from_one_that_is_left_and_the_log_is_kept() {
    // Mirrors are excluded: the device with the superblock is enough to open them.
    for code in CODES.into_iter().filter(|code| !code.starts_with("mirror")) {
        let mut hand = Hand::new(&Shape { code, ..SHAPE });
        hand.fill(1);
        // One block that is in the log alone.
        let one = Ask::Write { first: UserBlock(1), contents: vec![[9; 16]], durable: true };
        assert_eq!(hand.ask(&one), Told::Done);
        let read = hand.read();
        hand.world.kill(Kill::Power);
        let left = without_superblocks(&mut hand);
        hand.open_again();
        assert!(hand.volume.refused().is_some(), "{code}: more is gone than it tolerates");
        hand.world.kill(Kill::Power);
        let of = all(&hand);
        let anew = superblocks_again(&hand.real.geometry, &left, &of[..of.len() - 1]);
        write(&mut hand, &anew);
        hand.open_again();
        assert_eq!(hand.volume.refused(), None, "{code}");
        assert_eq!(hand.read(), read, "{code}");
    }
}

#[test]
fn maps_are_made_of_chunks_where_nothing_else_tells_of_them() {
    for code in CODES {
        for stale in [false, true] {
            let mut hand = Hand::new(&Shape { code, ..SHAPE });
            (1..=3).for_each(|byte| hand.fill(byte));
            if stale {
                // A device that lacks the newest writes.
                hand.world.kill(Kill::Power);
                hand.world.pull_out(Slot(0), false);
                hand.open_again();
                hand.fill(4);
            }
            let read = hand.read();
            hand.world.kill(Kill::Power);
            if stale {
                hand.world.put_back(Slot(0), pantile_volume::Found::Stale);
            }
            let left = without_superblocks(&mut hand);
            let zones = *hand.real.geometry.zones(Slot(0));
            let (from, to) = (zones.journal().first, zones.data().first);
            hand.world.disks_mut().iter_mut().for_each(|disk| wipe(disk, from, to.0 - from.0));
            let (found, here): (_, BTreeSet<Slot>) = (chunks(&hand), all(&hand).into_iter().collect());
            let anew = maps_anew(&hand.real.geometry, &left, &here, &found, HistoryId([77; 16]));
            assert_eq!(anew.stripes, u64::from(SHAPE.logical_stripes), "{code}");
            assert!(
                anew.lost.is_empty() && anew.behind == if stale { vec![Slot(0)] } else { vec![] },
                "{code}: {:?}",
                anew.behind
            );
            write(&mut hand, &anew);
            hand.open_again();
            assert_eq!(hand.volume.refused(), None, "{code}");
            assert_eq!(hand.read(), read, "{code}");
            assert!(hand.volume.is_clean(), "{code}");
            hand.fill(7);
            let tolerance = hand.real.geometry.tolerance() as u32;
            (0..tolerance).for_each(|slot| hand.world.pull_out(Slot(slot + 1), true));
            assert_eq!(hand.read(), hand.filled_with(7), "{code}");
        }
    }
}

/// A single header with a right checksum, and a superblock that is left, may have any number.
#[test]
fn numbers_that_no_volume_counts_to_make_none_that_cannot_be_opened() {
    let mut hand = Hand::new(&SHAPE);
    (1..=3).for_each(|byte| hand.fill(byte));
    let read = hand.read();
    hand.world.kill(Kill::Power);
    let honest = without_superblocks(&mut hand);
    let zones = *hand.real.geometry.zones(Slot(0));
    let (from, to) = (zones.journal().first, zones.data().first);
    hand.world.disks_mut().iter_mut().for_each(|disk| wipe(disk, from, to.0 - from.0));
    let (found, here): (_, BTreeSet<Slot>) = (chunks(&hand), all(&hand).into_iter().collect());
    let last = Slot(here.len() as u32 - 1);
    for number in [1 << 48, (1 << 61) - 1, 1 << 61, (1 << 62) - 1, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX] {
        for of_superblock in [false, true] {
            let (mut left, mut found) = (honest.clone(), found.clone());
            match of_superblock {
                true => {
                    (left.session.0, left.update) = (number, number);
                    (left.first_record.0, left.generation_floor.0) = (number, number);
                    left.snapshot.iter_mut().for_each(|snapshot| snapshot.record.0 = number);
                    // The device has the same superblock.
                    let block = left.encode();
                    let places = places(&hand, last);
                    let disk = &mut hand.world.disks_mut()[last.0 as usize];
                    places.into_iter().for_each(|at| disk.put(at, Content::of_bytes(&block)));
                }
                false => found[0].generation = number,
            }
            let of: Vec<Slot> = here.iter().copied().filter(|slot| *slot != last).collect();
            let again = superblocks_again(&hand.real.geometry, &left, &of);
            let is_known = !of_superblock || number < 1 << 62;
            assert_eq!(again.steps.is_empty(), !is_known, "{number}");
            let anew = maps_anew(&hand.real.geometry, &left, &here, &found, HistoryId([77; 16]));
            assert_eq!(anew.stripes, u64::from(SHAPE.logical_stripes), "{number}");
            write(&mut hand, &anew);
            // The second session continues from the writes of the first.
            for _ in 0..2 {
                hand.open_again();
                assert_eq!(hand.volume.refused(), None, "{number}, of a superblock: {of_superblock}");
                assert_eq!(hand.read(), read, "{number}, of a superblock: {of_superblock}");
                hand.world.kill(Kill::Power);
            }
        }
    }
}

/// A superblock that would be refused is not written, and the old ones stay.
#[test]
fn no_session_begins_whose_superblock_would_be_refused() {
    let mut hand = Hand::new(&SHAPE);
    hand.fill(1);
    hand.world.kill(Kill::Power);
    let mut left = without_superblocks(&mut hand);
    left.generation_floor.0 = (1 << 62) - 1;
    let anew = superblocks_again(&hand.real.geometry, &left, &all(&hand));
    write(&mut hand, &anew);
    for _ in 0..2 {
        hand.open_again();
        assert_eq!(hand.volume.refused(), Some(OpenError::Counted.to_string()));
        hand.world.kill(Kill::Power);
    }
}
