//! What a scrub says of what it finds: where it lies, and whether it is wrong or cannot be read.

mod real;

use pantile_sim::{Ask, Disk, Engine, Told};
use pantile_volume::{DeviceBlock, Event, Scrub, ScrubStatus, Slot, UserBlock};
use real::Shape;
use real::hand::Hand;

const SHAPE: Shape = Shape {
    code: "raid6:3",
    element_blocks: 2,
    logical_stripes: 6,
    spare_stripes: 3,
    log_rows: 12,
    journal_blocks: 24,
    blocks_most: 16,
};

/// Six stripes, and one block in the log, which is three copies.
fn filled() -> Hand {
    let mut hand = Hand::new(&SHAPE);
    hand.fill(1);
    let written = hand.ask(&Ask::Write { first: UserBlock(5), contents: vec![[2; 16]], durable: true });
    assert_eq!(written, Told::Done);
    hand
}

fn scrub(hand: &mut Hand, repair: bool) -> ScrubStatus {
    hand.rest(Some(Event::Scrub(Scrub::Start { repair })));
    let status = hand.volume.scrubbed().expect("it was told to");
    assert!(!status.running && status.done == status.total, "{status:?}");
    status
}

/// The blocks of a device that were written between two places.
fn written(disk: &Disk, first: DeviceBlock, blocks: u64) -> Vec<DeviceBlock> {
    disk.written().filter(|at| (first.0..first.0 + blocks).contains(&at.0)).collect()
}

#[test]
fn blocks_of_the_log_and_of_stripes_are_counted_apart_and_so_are_wrong_and_unreadable_ones() {
    let mut hand = filled();
    let sound = scrub(&mut hand, false);
    assert_eq!((sound.total, sound.clean, sound.log_blocks), (6, 6, 3));
    assert!(!sound.is_bad(), "{sound:?}");

    let geometry = hand.real.geometry.clone();
    let in_log = |hand: &Hand, slot: usize| {
        let zone = geometry.zones(Slot(slot as u32)).log();
        written(&hand.world.disks()[slot], zone.first, zone.blocks)
    };
    let copies: Vec<(usize, DeviceBlock)> = (0..geometry.slots())
        .flat_map(|slot| in_log(&hand, slot).into_iter().map(move |at| (slot, at)))
        .collect();
    assert_eq!(copies.len(), 3);
    hand.world.disks_mut()[copies[0].0].flip(copies[0].1, 77);
    hand.world.disks_mut()[copies[1].0].make_unreadable(copies[1].1);
    let found = scrub(&mut hand, false);
    assert_eq!((found.clean, found.checksum, found.unreadable), (6, 0, 0), "nothing is wrong with stripes");
    assert_eq!((found.log_blocks, found.log_checksum, found.log_unreadable), (3, 1, 1));
    assert!(found.is_bad());

    // The last blocks of two chunks: both hold data or parity, not a header.
    let ends: Vec<DeviceBlock> = [0, 1]
        .map(|slot| {
            let zone = geometry.zones(Slot(slot)).data();
            *written(&hand.world.disks()[slot as usize], zone.first, zone.blocks).last().expect("a chunk")
        })
        .to_vec();
    hand.world.disks_mut()[0].flip(ends[0], 77);
    hand.world.disks_mut()[1].make_unreadable(DeviceBlock(ends[1].0));
    let found = scrub(&mut hand, false);
    assert_eq!((found.clean, found.checksum, found.unreadable), (5, 1, 0), "the worst of a stripe counts");
    let chunk = geometry.zones(Slot(1)).shape().chunk_blocks() + 1;
    hand.world.disks_mut()[1].make_unreadable(DeviceBlock(ends[1].0 - chunk));
    let found = scrub(&mut hand, false);
    assert_eq!((found.clean, found.checksum, found.unreadable), (4, 1, 1));

    scrub(&mut hand, true);
    let left = scrub(&mut hand, false);
    assert_eq!((left.clean, left.is_bad()), (6, false), "{left:?}");
    assert!(matches!(hand.read(), Told::Blocks(_)));
}
