//! The margin of further device failures takes account of known bad chunks and of the log.

use crate::real::hand::Hand;
use crate::real::usual;
use pantile_sim::{Ask, Told};
use pantile_volume::{DeviceBlock, Event, Scrub, Slot, UserBlock};

fn any_more(hand: &Hand) -> u32 {
    hand.volume.volume.margin().expect("it serves").any_more
}

fn bad_chunks(hand: &Hand, slot: u32) -> u64 {
    let standing = hand.volume.volume.standing().expect("it serves");
    standing.bad_chunks.get(&Slot(slot)).copied().unwrap_or(0)
}

fn can_spare(hand: &Hand, slot: u32) -> bool {
    hand.volume.volume.can_spare(&[Slot(slot)]).expect("it serves")
}

/// Flips a bit of every block in the stripes of a device.
fn overwrite(hand: &mut Hand, slot: u32) {
    let data = hand.real.geometry.zones(Slot(slot)).data();
    let range = data.first.0..data.first.0 + data.blocks;
    let disk = &mut hand.world.disks_mut()[slot as usize];
    let written: Vec<DeviceBlock> = disk.written().filter(|at| range.contains(&at.0)).collect();
    assert!(!written.is_empty());
    written.into_iter().for_each(|at| disk.flip(at, 5));
}

#[test]
fn a_device_that_a_scrub_found_bad_counts_as_lost_until_it_is_repaired() {
    for code in ["raid6:3", "mirror:3", "dcode:5", "rs:3+3"] {
        let mut hand = Hand::new(&usual(code));
        hand.fill(1);
        let all = any_more(&hand);
        overwrite(&mut hand, 1);
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: false })));
        assert_eq!(any_more(&hand), all - 1, "{code}");
        assert_eq!(bad_chunks(&hand, 1), u64::from(hand.real.geometry.logical_stripes()), "{code}");
        // As many others as can be lost, and one more.
        for slot in 2..=all {
            assert!(can_spare(&hand, slot), "{code}");
            hand.world.pull_out(Slot(slot), true);
            hand.rest(Some(Event::DeviceGone(Slot(slot))));
        }
        assert_eq!(any_more(&hand), 0, "{code}");
        assert!(!can_spare(&hand, 0) && can_spare(&hand, 1), "{code}: the bad one may go");
        // A restart still knows the bad chunks.
        hand.ask(&Ask::Flush);
        hand.open_again();
        assert!(any_more(&hand) == 0 && bad_chunks(&hand, 1) > 0, "{code}");
        assert_eq!(hand.read(), hand.filled_with(1), "{code}");
    }
}

#[test]
fn content_written_again_is_good() {
    for code in ["raid6:3", "mirror:3", "dcode:5", "rs:3+3"] {
        let mut hand = Hand::new(&usual(code));
        hand.fill(1);
        let all = any_more(&hand);
        for repair in [true, false] {
            overwrite(&mut hand, 1);
            hand.rest(Some(Event::Scrub(Scrub::Start { repair: false })));
            assert_eq!(any_more(&hand), all - 1, "{code}");
            match repair {
                true => _ = hand.rest(Some(Event::Scrub(Scrub::Start { repair: true }))),
                false => hand.fill(1),
            }
            assert_eq!((any_more(&hand), bad_chunks(&hand, 1)), (all, 0), "{code}");
            hand.open_again();
            assert_eq!((any_more(&hand), bad_chunks(&hand, 1)), (all, 0), "{code}");
        }
    }
}

/// The log holds single blocks, and tolerates t losses, whatever the stripes tolerate.
#[test]
fn blocks_in_the_log_count() {
    let mut hand = Hand::new(&usual("raidp:4"));
    hand.fill(1);
    let stripes = any_more(&hand);
    let one = Ask::Write { first: UserBlock(3), contents: vec![[2; 16]], durable: true };
    assert_eq!(hand.ask(&one), Told::Done);
    let margin = hand.volume.volume.margin().expect("it serves");
    assert_eq!(margin.log_any_more, Some(hand.real.geometry.tolerance() as u32));
    assert_eq!(margin.any_more, stripes.min(2));
    // One copy of the block is bad: the log tolerates one loss less.
    let log = hand.real.geometry.zones(Slot(0)).log();
    let of_log = |at: &DeviceBlock| (log.first.0..log.first.0 + log.blocks).contains(&at.0);
    let copy = (0..).zip(hand.world.disks_mut()).find_map(|(slot, disk)| {
        let at = disk.written().find(of_log)?;
        disk.flip(at, 9);
        Some(slot)
    });
    hand.rest(Some(Event::Scrub(Scrub::Start { repair: false })));
    let slot: u32 = copy.expect("it is in the log");
    assert_eq!((any_more(&hand), bad_chunks(&hand, slot)), (1, 1));
}
