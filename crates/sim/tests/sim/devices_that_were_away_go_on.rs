//! A device that was away comes back after any number of openings. A device that ran separately is
//! not written to, if the volume can do without it. If writes may have been flushed on both sides,
//! no volume is opened.

use crate::real::hand::Hand;
use crate::real::sides::{SHAPE, all, halves_are_refused, open_alone, put_in};
use crate::real::{Shape, hush};
use pantile_sim::{Disk, Engine, Kill, Told};
use pantile_volume::{DeviceBlock, DeviceState, Event, Found, Slot};

/// Far more openings than a superblock has room for histories.
const OPENINGS: u32 = 300;

fn content(disk: &Disk) -> Vec<String> {
    (0..disk.blocks()).map(|at| format!("{:?}", disk.newest(DeviceBlock(at)))).collect()
}

#[test]
fn a_device_is_caught_up_however_often_the_volume_was_opened_without_it() {
    for (code, tolerance) in [("mirror:2", 1), ("raid5:2", 1), ("raid6:2", 2)] {
        let mut hand = Hand::new(&Shape { code, ..SHAPE });
        hand.fill(1);
        let here: Vec<u32> = all(&hand).map(|slot| slot.0).filter(|slot| *slot != 1).collect();
        for opening in 0..OPENINGS {
            open_alone(&mut hand, &here);
            hand.fill(2 + (opening % 100) as u8);
        }
        hand.world.kill(Kill::Power);
        hand.world.put_back(Slot(1), Found::Stale);
        hand.open_again();
        assert_eq!(hand.volume.refused(), None, "{code}");
        assert!(hand.volume.status().is_some_and(|status| status.apart.is_empty()), "{code}");
        assert!(hand.volume.is_clean(), "{code}");
        let (newest, others) =
            (hand.filled_with(2 + ((OPENINGS - 1) % 100) as u8), here.iter().take(tolerance));
        others.for_each(|&slot| hand.world.pull_out(Slot(slot), true));
        assert_eq!(hand.read(), newest, "{code}: it has what it missed");
    }
}

/// While one device is away another one is lost and returns, again and again. Each loss is a
/// history, and all of them are remembered.
#[test]
fn the_losses_of_others_are_remembered_while_a_device_is_away() {
    let mut hand = Hand::new(&SHAPE);
    hand.fill(1);
    lose_another(&mut hand, 100);
    assert!(!hand.volume.status().expect("it serves").histories_forgotten);
    hand.fill(2);
    hand.world.kill(Kill::Power);
    hand.world.put_back(Slot(1), Found::Stale);
    hand.open_again();
    assert!(hand.volume.is_clean(), "{:?}", hand.volume.refused());
    assert_eq!(hand.read(), hand.filled_with(2));
}

/// Loses device 2 and brings it back this many times while device 1 is away.
fn lose_another(hand: &mut Hand, times: u32) {
    for _ in 0..times {
        open_alone(hand, &[0, 3]);
        hand.world.kill(Kill::Power);
        hand.world.put_back(Slot(2), Found::Stale);
        hand.open_again();
        assert!(hand.volume.refused().is_none());
    }
}

/// The superblocks have no room for more histories: the returned device is not written to, and can
/// be rebuilt.
#[test]
fn a_device_that_more_losses_than_are_remembered_made_a_stranger_keeps_nobody_from_the_volume() {
    let mut hand = Hand::new(&SHAPE);
    hand.fill(1);
    lose_another(&mut hand, 130);
    hand.fill(2);
    hand.world.kill(Kill::Power);
    hand.world.put_back(Slot(1), Found::Stale);
    let stranger = content(&hand.world.disks()[1]);
    hand.open_again();
    assert_eq!(hand.volume.refused(), None);
    let status = hand.volume.status().expect("it serves");
    let apart: Vec<u32> = status.apart.iter().map(|(slot, _)| slot.0).collect();
    assert_eq!((apart, status.histories_forgotten), (vec![1], true));
    assert_eq!(hand.read(), hand.filled_with(2));
    assert!(content(&hand.world.disks()[1]) == stranger, "nothing is written to it");
    // A device that its operator calls blank is admitted.
    hand.world.put_back(Slot(1), Found::Blank);
    hand.rest(Some(Event::DeviceCame(Slot(1), Found::Blank)));
    hand.open_again();
    assert!(hand.volume.is_clean(), "{:?}", hand.volume.status());
    assert_eq!(hand.read(), hand.filled_with(2));
}

/// Side A has devices 0 to 2, side B has 2 and 3. Each could be opened alone, but only device 3 of
/// B is put in.
#[test]
fn a_volume_opens_without_a_device_that_ran_separately_and_leaves_it_as_it_is() {
    for b_is_opened_more_often in [false, true] {
        let mut hand = Hand::new(&SHAPE);
        hand.fill(1);
        hand.world.kill(Kill::Power);
        let before = hand.world.disks().to_vec();
        open_alone(&mut hand, &[0, 1, 2]);
        hand.fill(2);
        hand.world.kill(Kill::Power);
        let a = hand.world.disks().to_vec();
        (0..4).for_each(|slot| put_in(&mut hand, slot, &before[slot as usize]));
        for _ in 0..if b_is_opened_more_often { 9 } else { 1 } {
            open_alone(&mut hand, &[2, 3]);
            hand.fill(3);
        }
        hand.world.kill(Kill::Power);
        let stranger = hand.world.disks()[3].clone();
        (0..3).for_each(|slot| put_in(&mut hand, slot, &a[slot as usize]));
        hand.open_again();
        assert_eq!(hand.volume.refused(), None);
        assert_eq!(hand.read(), hand.filled_with(2));
        hand.fill(4);
        let apart = hand.volume.status().expect("it serves").apart;
        assert_eq!(apart.iter().map(|(slot, _)| slot.0).collect::<Vec<u32>>(), [3]);
        assert!(content(&hand.world.disks()[3]) == content(&stranger), "nothing is written to it");
    }
}

#[test]
fn sides_that_could_both_have_been_flushed_to_are_refused() {
    assert!(halves_are_refused());
}

/// A device is admitted after it was away, and everything stops after each step of that. Then each
/// half is opened alone. If both have durable changes, they are refused together; if one could not
/// be written alone, the other counts.
#[test]
fn no_step_of_letting_a_device_in_hides_that_halves_ran_separately() {
    hush();
    let (mut refused, mut opened) = (0, 0);
    for kill in [Kill::Power, Kill::Process] {
        for steps in 0.. {
            let mut hand = Hand::new(&Shape { code: "mirror:2", ..SHAPE });
            hand.fill(1);
            for byte in [2, 3] {
                open_alone(&mut hand, &[0]);
                hand.fill(byte);
            }
            hand.world.kill(Kill::Power);
            hand.world.put_back(Slot(1), Found::Stale);
            hand.begin_again();
            let is_over = !(0..steps).all(|_| hand.step());
            hand.world.kill(kill);
            let between = hand.world.disks().to_vec();
            open_alone(&mut hand, &[0]);
            assert_eq!(hand.volume.refused(), None);
            assert_eq!(hand.read(), hand.filled_with(3), "after {steps} steps");
            hand.fill(4);
            hand.world.kill(Kill::Power);
            let a = hand.world.disks()[0].clone();
            (0..2).for_each(|slot| put_in(&mut hand, slot, &between[slot as usize]));
            open_alone(&mut hand, &[1]);
            let was_written = hand.volume.refused().is_none() && try_to_fill(&mut hand, 5);
            put_in(&mut hand, 0, &a);
            hand.open_again();
            match (was_written, hand.volume.refused()) {
                (true, None) => {
                    panic!("{kill:?} after {steps} steps: opened, and both sides were flushed to")
                }
                (_, Some(says)) => {
                    assert!(
                        was_written && says.contains("ran separately"),
                        "{kill:?} after {steps} steps: {says}"
                    );
                    refused += 1;
                }
                (false, None) => {
                    assert_eq!(hand.read(), hand.filled_with(4), "{kill:?} after {steps} steps");
                    opened += 1;
                }
            }
            if is_over {
                assert!(steps > 40, "{steps}");
                break;
            }
        }
    }
    assert!(refused > 20, "{refused} refused, {opened} opened");
}

fn try_to_fill(hand: &mut Hand, byte: u8) -> bool {
    let contents = vec![[byte; 16]; hand.real.config.user_blocks as usize];
    let written = pantile_sim::Ask::Write { first: pantile_volume::UserBlock(0), contents, durable: true };
    hand.ask(&written) == Told::Done
}

/// Content that a rebuild cannot read while too many devices are away is not lost: one of these has
/// it.
#[test]
fn a_rebuild_waits_for_a_device_that_it_needs() {
    for code in ["raid6:2", "dcode:5", "raidp:4"] {
        let mut hand = Hand::new(&Shape { code, ..SHAPE });
        hand.fill(1);
        for slot in [Slot(0), Slot(1)] {
            hand.world.pull_out(slot, true);
            hand.rest(Some(Event::DeviceGone(slot)));
        }
        for slot in [Slot(0), Slot(1)] {
            hand.world.put_back(slot, Found::Blank);
            hand.tell(Event::DeviceCame(slot, Found::Blank));
        }
        hand.world.pull_out(Slot(2), true);
        hand.rest(Some(Event::DeviceGone(Slot(2))));
        let status = hand.volume.status().expect("it serves");
        let is_whole = |slot: usize| status.devices[slot].state == DeviceState::Present;
        assert!(!is_whole(0) && !is_whole(1) && status.broken_stripes == 0, "{code}: {status:?}");
        hand.world.put_back(Slot(2), Found::Stale);
        hand.rest(Some(Event::DeviceCame(Slot(2), Found::Stale)));
        assert!(hand.volume.is_clean(), "{code}");
        let ranges = hand.volume.status().expect("it serves").ranges;
        assert_eq!(ranges, [], "{code}: data that came back count as lost");
        assert!(hand.read() == hand.filled_with(1), "{code}");
    }
}
