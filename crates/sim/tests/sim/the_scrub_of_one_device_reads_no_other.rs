//! The scrub of one device finds its bad content, and reads other devices only to repair it.

use crate::real::Shape;
use crate::real::hand::Hand;
use pantile_format::volume::{EventKind, EventNote};
use pantile_sim::{Ask, Told};
use pantile_volume::{DeviceBlock, DeviceScrub, Event, Found, Scrub, ScrubStatus, Slot, Status, UserBlock};

const SHAPE: Shape = crate::real::usual("raid6:3");

/// The device that is scrubbed.
const ONE: Slot = Slot(1);

/// Makes a volume with stripes on all devices, and one block in the log, as three copies.
fn filled() -> Hand {
    let mut hand = Hand::new(&SHAPE);
    hand.fill(1);
    for at in 0..3 {
        let contents = vec![[2; 16]];
        assert_eq!(hand.ask(&Ask::Write { first: UserBlock(at), contents, durable: true }), Told::Done);
    }
    hand
}

fn status(hand: &Hand) -> Status {
    hand.volume.status().expect("it serves")
}

fn scrub_all(hand: &mut Hand, repair: bool) -> ScrubStatus {
    hand.rest(Some(Event::Scrub(Scrub::Start { repair })));
    status(hand).scrub.expect("it was told to")
}

fn scrub_one(hand: &mut Hand) -> DeviceScrub {
    hand.rest(Some(Event::Scrub(Scrub::Device(ONE))));
    let scrub = status(hand).device_scrub.expect("it was told to");
    assert!(!scrub.running && scrub.done == scrub.total && scrub.slot == ONE, "{scrub:?}");
    scrub
}

/// Returns the blocks of a device in stripes and in the log, with their addresses.
fn content(hand: &Hand, slot: Slot) -> Vec<(DeviceBlock, String)> {
    let zones = hand.real.geometry.zones(slot);
    let runs = [zones.data(), zones.log()];
    let is_in =
        |at: &DeviceBlock| runs.iter().any(|run| (run.first.0..run.first.0 + run.blocks).contains(&at.0));
    let disk = &hand.world.disks()[slot.0 as usize];
    disk.written().filter(is_in).map(|at| (at, format!("{:?}", disk.newest(at)))).collect()
}

fn others(hand: &Hand) -> impl Iterator<Item = Slot> + use<> {
    (0..hand.real.geometry.slots() as u32).map(Slot).filter(|slot| *slot != ONE)
}

fn blocks_read(hand: &Hand, slot: Slot) -> u64 {
    status(hand).devices[slot.0 as usize].counts.blocks_read
}

fn verified(hand: &Hand) -> Vec<EventNote> {
    let events = status(hand).events.into_iter();
    events.filter(|event| event.what == EventKind::COPY_VERIFIED).collect()
}

/// Damages blocks of the device in its log and in three chunks, and its superblocks; returns the
/// number of bad parts.
fn rot(hand: &mut Hand) -> u64 {
    let geometry = hand.real.geometry.clone();
    let (log, header) = (geometry.zones(ONE).log(), u64::from(geometry.header_blocks(ONE)));
    let places = [0, 1].map(|turn| geometry.zones(ONE).superblock(turn));
    let places = [places[0], places[1], geometry.zones(ONE).superblock_copy()];
    let disk = &mut hand.world.disks_mut()[ONE.0 as usize];
    let written: Vec<DeviceBlock> = disk.written().collect();
    let in_log = written.iter().filter(|at| (log.first.0..log.first.0 + log.blocks).contains(&at.0));
    let in_log: Vec<DeviceBlock> = in_log.copied().collect();
    assert!(!in_log.is_empty());
    let chunks = (0..geometry.physical_stripes()).map(|physical| geometry.chunk_start(physical, ONE));
    let chunks: Vec<DeviceBlock> = chunks.filter(|at| written.contains(at)).collect();
    disk.flip(chunks[0], 3);
    disk.flip(DeviceBlock(chunks[1].0 + header), 3);
    disk.make_unreadable(DeviceBlock(chunks[2].0 + header));
    in_log.iter().for_each(|&at| disk.flip(at, 50));
    places.into_iter().for_each(|at| disk.flip(at, 999));
    in_log.len() as u64 + 3 + 3
}

#[test]
fn a_sound_device_is_verified_without_a_read_or_write_of_another() {
    let mut hand = filled();
    let all = scrub_all(&mut hand, false);
    let before: Vec<_> =
        (0..5).map(|slot| (content(&hand, Slot(slot)), blocks_read(&hand, Slot(slot)))).collect();
    let found = scrub_one(&mut hand);
    assert_eq!((found.found, found.left), (0, 0));
    for (slot, (content_before, read_before)) in (0..5).map(Slot).zip(before) {
        assert!(content(&hand, slot) == content_before, "{slot:?} is written to");
        assert_eq!(blocks_read(&hand, slot) > read_before, slot == ONE, "{slot:?}");
    }
    assert_eq!(status(&hand).scrub, Some(all), "that of all devices is the last one");
    assert_eq!(
        verified(&hand).iter().map(|event| (event.slot, event.value)).collect::<Vec<_>>(),
        [(Some(ONE), 0)]
    );
}

#[test]
fn bad_parts_of_the_device_are_rebuilt_and_no_other_stripe_is_written() {
    let mut hand = filled();
    let all = scrub_all(&mut hand, false);
    let parts = rot(&mut hand);
    let mapped = u64::from(hand.real.geometry.logical_stripes());
    let stripes = |hand: &Hand, slot: Slot| {
        let geometry = &hand.real.geometry;
        let starts = (0..geometry.physical_stripes()).map(|physical| geometry.chunk_start(physical, slot));
        let disk = &hand.world.disks()[slot.0 as usize];
        starts.map(|at| format!("{:?}", disk.newest(at))).collect::<Vec<String>>()
    };
    let before: Vec<Vec<String>> = others(&hand).map(|slot| stripes(&hand, slot)).collect();
    let found = scrub_one(&mut hand);
    assert_eq!((found.found, found.left), (parts, 0));
    for (slot, before) in others(&hand).zip(before) {
        let written = stripes(&hand, slot).iter().zip(&before).filter(|(now, before)| now != before).count();
        assert!((1..mapped).contains(&(written as u64)), "{slot:?}: {written} chunks are written");
    }
    let last = status(&hand).scrub.expect("it was scrubbed");
    assert_eq!((last.begun_at, last.clean, last.total), (all.begun_at, all.clean, all.total));
    assert!(!last.is_bad() && !last.running);
    assert_eq!(verified(&hand).iter().map(|event| event.value).collect::<Vec<_>>(), [parts]);
    // As many others as the code tolerates are lost, and everything can still be read.
    for slot in [0, 2] {
        hand.world.pull_out(Slot(slot), true);
        hand.rest(Some(Event::DeviceGone(Slot(slot))));
    }
    assert!(hand.volume.volume.margin().expect("it serves").survives);
    let contents = hand.read_each();
    assert!(contents[..3].iter().all(|block| *block == Some([2; 16])), "{contents:?}");
    assert!(contents[3..].iter().all(|block| *block == Some([1; 16])), "{contents:?}");
}

/// Findings on other devices stay, because nothing was read there.
#[test]
fn known_bad_content_of_other_devices_stays_known() {
    let mut hand = filled();
    let at = hand.real.geometry.chunk_start(0, Slot(3));
    hand.world.disks_mut()[3].flip(at, 3);
    let found = scrub_all(&mut hand, false);
    let standing = hand.volume.volume.standing().expect("it serves");
    assert_eq!((found.checksum, standing.bad_chunks.get(&Slot(3))), (1, Some(&1)));
    scrub_one(&mut hand);
    assert_eq!(hand.volume.volume.standing(), Some(standing));
    assert_eq!(status(&hand).scrub, Some(found));
}

#[test]
fn the_scrub_of_all_devices_waits_for_it_and_goes_on_and_one_with_repair_takes_its_place() {
    for repair in [false, true] {
        let mut hand = filled();
        rot(&mut hand);
        // The command comes while the scrub of all devices reads.
        hand.tell(Event::Scrub(Scrub::Start { repair }));
        for _ in 0..8 {
            assert!(hand.step());
        }
        hand.tell(Event::Scrub(Scrub::Device(ONE)));
        hand.rest(None);
        let (one, all) = (status(&hand).device_scrub.expect("ended"), status(&hand).scrub.expect("ended"));
        assert!(!one.running && !all.running && all.done == all.total, "{one:?} {all:?}");
        assert!(one.left == 0 && verified(&hand).len() == 1);
        assert!(!scrub_all(&mut hand, false).is_bad());

        // The command comes while the scrub of one device reads.
        let mut hand = filled();
        rot(&mut hand);
        hand.tell(Event::Scrub(Scrub::Device(ONE)));
        for _ in 0..4 {
            assert!(hand.step());
        }
        assert!(status(&hand).device_scrub.is_some_and(|one| one.running));
        hand.tell(Event::Scrub(Scrub::Start { repair }));
        hand.rest(None);
        let all = status(&hand).scrub.expect("ended");
        assert!(!all.running && all.repair == repair, "{all:?}");
        assert_eq!(status(&hand).device_scrub.map(|one| one.running), (!repair).then_some(false));
        assert_eq!(verified(&hand).len(), usize::from(!repair));
        assert!(!scrub_all(&mut hand, false).is_bad());
    }
}

#[test]
fn a_device_that_was_lost_meanwhile_is_not_called_verified() {
    let mut hand = filled();
    hand.tell(Event::Scrub(Scrub::Device(ONE)));
    for _ in 0..4 {
        assert!(hand.step());
    }
    hand.world.pull_out(ONE, true);
    hand.rest(Some(Event::DeviceGone(ONE)));
    hand.world.put_back(ONE, Found::Stale);
    hand.rest(Some(Event::DeviceCame(ONE, Found::Stale)));
    assert_eq!((status(&hand).device_scrub, verified(&hand)), (None, Vec::new()));
    assert!(hand.volume.volume.is_clean());
    scrub_one(&mut hand);
    assert_eq!(verified(&hand).len(), 1);
}
