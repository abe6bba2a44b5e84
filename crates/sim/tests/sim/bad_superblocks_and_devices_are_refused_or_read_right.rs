//! Devices are damaged before a volume is opened: it must be refused with a reason, or all of it
//! must be read right. It must not panic, return a wrong byte, or write to a device of another
//! volume.

#![allow(clippy::needless_range_loop, reason = "the slot is what is tried, the disks are changed by it")]

use crate::real::hand::Hand;
use crate::real::{Driven, Real, Shape, hush};
use pantile_format::volume::VolumeId;
use pantile_sim::{self as sim, Cause, Content, Disk, Engine, Failure, Kill, Model, Told, Verdict};
use pantile_volume::{BLOCK_BYTES, DeviceBlock, DeviceState, Event, Slot};

const SHAPE: Shape = Shape {
    placement: None,
    code: "raid6:2",
    element_blocks: 1,
    logical_stripes: 3,
    spare_stripes: 2,
    log_rows: 4,
    journal_blocks: 16,
    blocks_most: 4,
};

/// A volume with content in stripes, log and journal.
struct Made {
    real: Real,
    disks: Vec<Disk>,
    model: Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Refused,
    Right,
}

impl Made {
    fn new(code: &'static str) -> Made {
        let mut real = Real::new(&Shape { code, ..SHAPE }, &[]);
        real.config.requests = 60;
        let (disks, model) = sim::prepare(5, |start| real.make(start), &real.config).expect("no fault");
        Made { real, disks, model }
    }

    fn open(&self, disks: Vec<Disk>) -> Result<Vec<Disk>, Box<Failure>> {
        let make = |start: sim::Start<'_>| -> Result<Driven, sim::Refusal> { self.real.make(start) };
        sim::open_and_read(1, make, &self.real.config, disks, self.model.clone()).map_err(Box::new)
    }

    /// Opens the volume and reads everything; panics, naming the damage, unless it is refused or
    /// right.
    fn ends(&self, disks: Vec<Disk>, what: &dyn std::fmt::Debug) -> End {
        match self.open(disks) {
            Ok(_) => End::Right,
            Err(failure) => match failure.cause {
                Cause::NotOpened { ref says } if says.len() > 20 => End::Refused,
                _ => panic!("{what:?}: {failure}"),
            },
        }
    }

    fn places(&self, slot: usize) -> [DeviceBlock; 3] {
        let zones = self.real.geometry.zones(Slot(slot as u32));
        [zones.superblock(0), zones.superblock(1), zones.superblock_copy()]
    }
}

fn bytes_of(disk: &Disk, at: DeviceBlock) -> Vec<u8> {
    let mut bytes = Vec::new();
    disk.newest(at).expect("it can be read").append_to(&mut bytes);
    bytes
}

fn flip(disk: &mut Disk, at: DeviceBlock, byte: usize) {
    let mut bytes = bytes_of(disk, at);
    bytes[byte] ^= 0xff;
    disk.put(at, Content::of_bytes(&bytes));
}

#[test]
fn every_byte_of_the_superblocks_of_one_device() {
    hush();
    let made = Made::new("raid6:2");
    for byte in 0..BLOCK_BYTES as usize {
        let slot = byte % made.disks.len();
        let mut disks = made.disks.clone();
        made.places(slot).iter().for_each(|&at| flip(&mut disks[slot], at, byte));
        assert_eq!(made.ends(disks, &(slot, byte)), End::Right);
    }
}

#[test]
fn every_byte_of_one_place_of_all_devices() {
    hush();
    let made = Made::new("mirror:2");
    for place in 0..3 {
        for byte in (place..BLOCK_BYTES as usize).step_by(3) {
            let mut disks = made.disks.clone();
            for slot in 0..disks.len() {
                flip(&mut disks[slot], made.places(slot)[place], byte);
            }
            assert_eq!(made.ends(disks, &(place, byte)), End::Right);
        }
    }
}

#[test]
fn every_byte_of_all_superblocks_of_all_devices() {
    hush();
    let made = Made::new("mirror:2");
    let mut refused = 0;
    for byte in 0..BLOCK_BYTES as usize {
        let mut disks = made.disks.clone();
        for slot in 0..disks.len() {
            made.places(slot).iter().for_each(|&at| flip(&mut disks[slot], at, byte));
        }
        refused += usize::from(made.ends(disks, &byte) == End::Refused);
    }
    assert_eq!(refused, BLOCK_BYTES as usize, "every byte is under the checksum");
}

/// Makes the blocks from an end on unreadable.
fn truncate(disk: &mut Disk, blocks: u64) {
    (blocks..disk.blocks()).for_each(|at| disk.make_unreadable(DeviceBlock(at)));
}

#[test]
fn truncated_devices() {
    hush();
    let made = Made::new("raid6:2");
    let (mut right, mut refused, mut stale) = (0, 0, 0);
    for blocks in 0..made.disks[0].blocks() {
        for (first, count) in [(0, 1), (1, 2), (2, 2), (0, 3), (0, 4)] {
            let mut disks = made.disks.clone();
            (first..first + count).for_each(|slot| truncate(&mut disks[slot], blocks));
            match (count, made.open(disks)) {
                (_, Ok(_)) => right += 1,
                (..=2, Err(failure)) => panic!("{count} devices end at {blocks}: {failure}"),
                // Beyond the tolerance the volume may be refused, reads may fail block by block, or
                // the last record may count as one that a power failure cut off
                // (docs/simulation.md). Content that was never written must not be returned.
                (_, Err(failure)) => match failure.cause {
                    Cause::NotOpened { .. } | Cause::Wrong(sim::Wrong::Failed { .. }) => refused += 1,
                    Cause::Wrong(sim::Wrong::Content {
                        verdict: Verdict::Stale | Verdict::Zeros, ..
                    }) => {
                        stale += 1;
                    }
                    _ => panic!("{count} devices end at {blocks}: {failure}"),
                },
            }
        }
    }
    println!("{right} right, {refused} refused, {stale} at the state before the last record");
    assert!(right > 0 && refused > 0, "{right} right, {refused} refused");
}

#[test]
fn swapped_devices() {
    hush();
    for code in ["mirror:2", "raid5:2", "raid6:2", "rs:3+3"] {
        let made = Made::new(code);
        for a in 0..made.disks.len() {
            for b in 0..a {
                let mut disks = made.disks.clone();
                disks.swap(a, b);
                made.ends(disks, &(code, a, b));
            }
        }
    }
}

#[test]
fn devices_of_another_volume_are_not_written_to() {
    hush();
    let made = Made::new("raid6:2");
    let mut other = Made::new("raid6:2").real;
    other.geometry.volume = VolumeId(*b"some other volum");
    let mut foreign = made.disks.clone();
    foreign.iter_mut().for_each(|disk| *disk = Disk::new(disk.blocks()));
    other.format(&mut foreign).expect("it can be made");
    for slots in [&[0][..], &[3], &[0, 1], &[1, 3], &[0, 1, 2], &[0, 1, 2, 3]] {
        let mut disks = made.disks.clone();
        slots.iter().for_each(|&slot| disks[slot] = foreign[slot].clone());
        let end = match made.open(disks) {
            Ok(after) => {
                for &slot in slots {
                    let same = |at| bytes_of(&after[slot], at) == bytes_of(&foreign[slot], at);
                    assert!(
                        (0..foreign[slot].blocks()).map(DeviceBlock).all(same),
                        "slot {slot} of {slots:?}"
                    );
                }
                End::Right
            }
            Err(failure) => match failure.cause {
                Cause::NotOpened { .. } => End::Refused,
                _ => panic!("{slots:?}: {failure}"),
            },
        };
        assert_eq!(end, if slots.len() <= 2 { End::Right } else { End::Refused }, "{slots:?}");
    }
}

/// The device is a copy, put back after the others have continued: no record says which blocks it
/// lacks.
#[test]
fn a_device_from_a_backup_is_made_anew_and_more_than_the_code_bears_are_refused() {
    hush();
    for (code, tolerance) in [("mirror:2", 1), ("raid5:2", 1), ("raid6:2", 2), ("rs:3+3", 3)] {
        let mut hand = Hand::new(&Shape { code, ..SHAPE });
        hand.fill(1);
        hand.open_again();
        let backup = hand.world.disks().to_vec();
        hand.fill(2);
        hand.open_again();
        hand.fill(3);
        let devices = backup.len();
        for count in 1..=tolerance {
            hand.world.kill(Kill::Power);
            hand.world.disks_mut()[..count].clone_from_slice(&backup[..count]);
            hand.begin_again();
            while hand.volume.status().is_none() {
                assert!(hand.step(), "{code}: it is opened");
            }
            let status = hand.volume.status().expect("it serves");
            let not_present = status.devices.iter().filter(|device| device.state != DeviceState::Present);
            assert_eq!(not_present.count(), count, "{code}");
            hand.rest(None);
            assert!(hand.volume.is_clean(), "{code}");
            // The device has everything again: any others can be lost.
            (count..devices).take(tolerance).for_each(|slot| hand.world.pull_out(Slot(slot as u32), true));
            assert_eq!(hand.read(), hand.filled_with(3), "{code}, {count} devices from a backup");
            (count..devices).take(tolerance).for_each(|slot| {
                hand.world.put_back(Slot(slot as u32), pantile_volume::Found::Stale);
            });
            hand.open_again();
            hand.rest(None);
        }
        if devices == tolerance + 1 {
            // There would be no device with a newer state.
            continue;
        }
        hand.world.kill(Kill::Power);
        hand.world.disks_mut()[..=tolerance].clone_from_slice(&backup[..=tolerance]);
        hand.open_again();
        let says = hand.volume.refused().unwrap_or_else(|| panic!("{code}: opened"));
        assert!(says.contains("device 0 is of an earlier time"), "{code}: {says}");
    }
}

/// Devices are lost at any moment of an opening: reads return the flushed content, or fail.
#[test]
fn more_devices_than_the_code_bears_go_while_it_is_opened() {
    hush();
    let (mut refused, mut after) = (0, 0);
    for steps in 0.. {
        let mut hand = Hand::new(&SHAPE);
        hand.fill(1);
        hand.fill(2);
        hand.begin_again();
        if !(0..steps).all(|_| hand.step()) {
            break;
        }
        (0..3).map(Slot).for_each(|slot| {
            hand.world.pull_out(slot, false);
            hand.tell(Event::DeviceGone(slot));
        });
        hand.rest(None);
        match hand.volume.refused() {
            Some(says) => {
                assert!(says.contains("are needed"), "{says}");
                refused += 1;
            }
            None => {
                after += 1;
                assert!(matches!(hand.read(), Told::Failed(_)), "after {steps} steps");
            }
        }
    }
    assert!(refused > 20, "{refused} refused, {after} opened before");
}

/// An unfinished session leaves its superblock on a device that is then away, and the next session
/// has the same number. When the device comes back it must not count as one that ran separately, at
/// whatever step the opening that it comes back to is cut off.
#[test]
fn a_device_of_a_session_that_came_to_nothing_has_not_run_separately() {
    for steps in 0.. {
        let mut hand = Hand::new(&Shape { code: "raid5:2", ..SHAPE });
        hand.fill(1);
        hand.world.kill(Kill::Power);
        hand.world.pull_out(Slot(1), false);
        let (before, old) = (hand.world.disks()[0].clone(), hand.world.disks()[2].clone());
        hand.begin_again();
        let is_written = |hand: &Hand| {
            let now = |turn| bytes_of(&hand.world.disks()[2], superblock(hand, turn));
            (0..2).any(|turn| now(turn) != bytes_of(&old, superblock(hand, turn)))
        };
        while !is_written(&hand) {
            assert!(hand.step(), "its superblock is written");
        }
        // The superblock of the session has landed on one device, and not on the other.
        hand.world.kill(Kill::Process);
        hand.world.disks_mut()[0] = before;
        for at in [superblock(&hand, 0), superblock(&hand, 1)] {
            let landed = hand.world.disks()[2].newest(at).expect("it can be read").clone();
            hand.world.disks_mut()[2].put(at, landed);
        }
        hand.world.pull_out(Slot(2), false);
        hand.world.put_back(Slot(1), pantile_volume::Found::Stale);
        hand.open_again();
        assert_eq!(hand.volume.refused(), None);
        hand.fill(2);
        hand.world.kill(Kill::Power);
        hand.world.put_back(Slot(2), pantile_volume::Found::Stale);
        hand.begin_again();
        if !(0..steps).all(|_| hand.step()) {
            assert!(steps > 20, "{steps}");
            break;
        }
        hand.world.kill(Kill::Process);
        hand.open_again();
        assert_eq!(hand.volume.refused(), None, "cut off after {steps} steps");
        assert_eq!(hand.read(), hand.filled_with(2));
    }
}

/// Returns the place in front that the next session writes.
fn superblock(hand: &Hand, turn: u64) -> DeviceBlock {
    hand.real.geometry.zones(Slot(2)).superblock(turn)
}
