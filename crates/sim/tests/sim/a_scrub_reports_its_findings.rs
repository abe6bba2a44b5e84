//! Findings of a scrub: where they are, and whether a block is wrong or cannot be read.

use crate::real::Shape;
use crate::real::hand::Hand;
use pantile_sim::{Ask, Disk, Engine, Told};
use pantile_volume::{
    BadMetadata, DeviceBlock, DeviceState, Event, Found, Scrub, ScrubStatus, Slot, UserBlock,
};

const SHAPE: Shape = crate::real::usual("raid6:3");

/// Makes a volume of six stripes, with one block in the log, as three copies.
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

/// Returns the blocks of a range that were written on a device.
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

    // The last block of a chunk on two devices: it holds data or parity, not a header.
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

fn places(hand: &Hand, slot: u32) -> [DeviceBlock; 3] {
    let zones = hand.real.geometry.zones(Slot(slot));
    [zones.superblock(0), zones.superblock(1), zones.superblock_copy()]
}

const fn bad(slot: u32) -> BadMetadata {
    BadMetadata { slot: Slot(slot), superblocks: 0, journal: false, snapshot: false, definition: false }
}

/// A way to damage one device, and the scrub's report of it.
type Damage = (fn(&mut Hand), BadMetadata);

#[test]
fn bad_metadata_is_judged_by_device_and_written_again() {
    let rot_superblocks = |hand: &mut Hand| {
        places(hand, 2).iter().for_each(|&at| hand.world.disks_mut()[2].flip(at, 999));
    };
    let lose_copy = |hand: &mut Hand| {
        let [.., copy] = places(hand, 0);
        hand.world.disks_mut()[0].make_unreadable(copy);
    };
    let rot_journal = |hand: &mut Hand| {
        let journal = hand.real.geometry.zones(Slot(1)).journal();
        let first = written(&hand.world.disks()[1], journal.first, journal.blocks)[0];
        hand.world.disks_mut()[1].flip(first, 4321);
    };
    let rot_snapshots = |hand: &mut Hand| {
        for area in 0..2 {
            let area = hand.real.geometry.zones(Slot(4)).snapshot(area);
            for at in written(&hand.world.disks()[4], area.first, area.blocks) {
                hand.world.disks_mut()[4].make_unreadable(at);
            }
        }
    };
    let damages: [(Damage, bool); 4] = [
        ((rot_superblocks, BadMetadata { superblocks: 3, ..bad(2) }), false),
        ((lose_copy, BadMetadata { superblocks: 1, ..bad(0) }), false),
        ((rot_journal, BadMetadata { journal: true, ..bad(1) }), false),
        ((rot_snapshots, BadMetadata { snapshot: true, ..bad(4) }), true),
    ];
    for ((damage, expected), with_snapshot) in damages {
        let mut hand = filled();
        if with_snapshot {
            scrub(&mut hand, true);
        }
        assert!(!scrub(&mut hand, false).is_bad());
        damage(&mut hand);
        let found = scrub(&mut hand, false);
        assert_eq!(found.metadata, [expected]);
        assert!(
            found.is_bad() && found.clean == 6 && found.log_checksum + found.log_unreadable == 0,
            "{found:?}"
        );
        assert_eq!(scrub(&mut hand, false).metadata, [expected], "nobody has mended it");
        assert_eq!(scrub(&mut hand, true).metadata, [expected]);
        // The repair is durable when it ends, and does not depend on a later snapshot.
        let left = scrub(&mut hand, false);
        assert!(!left.is_bad(), "{left:?}");
        hand.begin_again();
        while hand.volume.status().is_none() {
            assert!(hand.step(), "it is opened");
        }
        let devices = hand.volume.status().expect("it serves").devices;
        assert!(devices.iter().all(|device| device.state == DeviceState::Present), "{expected:?}");
        hand.rest(None);
        let left = scrub(&mut hand, false);
        assert!(!left.is_bad(), "{left:?}");
    }
}

/// A torn superblock beside a newer one is not a fault of the device.
#[test]
fn a_place_of_a_superblock_that_was_torn_before_is_not_called_bad() {
    for torn in 0..3 {
        // The places are torn while no engine runs; one place stays whole.
        let mut hand = filled();
        hand.world.kill(pantile_sim::Kill::Power);
        for (place, at) in places(&hand, 3).into_iter().enumerate() {
            if place != torn {
                hand.world.disks_mut()[3].flip(at, 100);
            }
        }
        hand.begin_again();
        hand.rest(None);
        let found = scrub(&mut hand, false);
        assert!(!found.is_bad(), "{torn} is left at an opening: {found:?}");

        // The place is torn while the device is away.
        let mut hand = filled();
        hand.world.pull_out(Slot(3), true);
        hand.tell(Event::DeviceGone(Slot(3)));
        hand.rest(None);
        let at = places(&hand, 3)[torn];
        hand.world.put_back(Slot(3), Found::Stale);
        hand.world.disks_mut()[3].flip(at, 100);
        hand.rest(Some(Event::DeviceCame(Slot(3), Found::Stale)));
        assert!(hand.volume.is_clean());
        let found = scrub(&mut hand, false);
        assert!(!found.is_bad(), "{torn} was torn when it came: {found:?}");
    }
}

/// The text of a code without a family is stored beside the maps.
#[test]
fn the_text_of_a_code_is_judged_and_written_anew() {
    let code = crate::real::SHAPES
        .iter()
        .find(|shape| shape.code.starts_with("pantile-code"))
        .expect("there is one");
    let mut hand = Hand::new(code);
    hand.fill(1);
    assert!(!scrub(&mut hand, false).is_bad());
    let at = hand.real.geometry.zones(Slot(5)).definition().first;
    let whole = hand.world.disks()[5].newest(at).expect("it can be read").clone();
    hand.world.disks_mut()[5].flip(at, 8);
    let expected = [BadMetadata { definition: true, ..bad(5) }];
    assert_eq!(scrub(&mut hand, false).metadata, expected);
    assert_eq!(scrub(&mut hand, true).metadata, expected);
    assert!(*hand.world.disks()[5].newest(at).expect("it can be read") == whole);
    assert!(!scrub(&mut hand, false).is_bad());
}
