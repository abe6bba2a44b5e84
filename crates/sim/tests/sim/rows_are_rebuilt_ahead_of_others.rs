//! If a few rows make every stripe tolerate one more loss, they are rebuilt before all others.
//! After a power failure at any moment the volume tolerates what the margin said.

use crate::real::hand::Hand;
use crate::real::pairs::{LOST, any_more, content, one_more_is_lost_at_every_step, with_new_disks};
use crate::real::{Shape, usual};
use pantile_sim::Engine;
use pantile_volume::{DeviceState, Event, Found, Slot};

const SHAPE: Shape = Shape { logical_stripes: 8, ..usual("raidp:5") };

fn rebuilt_blocks(hand: &Hand) -> u64 {
    hand.volume.volume.status().expect("it serves").rebuilt_blocks
}

#[test]
fn one_more_disk_can_fail_after_a_fourth_of_the_rebuild() {
    let mut hand = with_new_disks(&SHAPE, Found::Blank);
    let (mut first, mut all) = (None, 0);
    while hand.step() {
        all = all.max(rebuilt_blocks(&hand));
        let is_ahead = hand.volume.volume.status().is_some_and(|status| {
            let state = status.devices[LOST[0].0 as usize].state;
            matches!(state, DeviceState::Rebuilding { done_stripes: 0, .. })
        });
        if any_more(&hand) > 0 && first.is_none() {
            assert!(is_ahead, "the first pass is over, and the second has not begun");
            first = Some(rebuilt_blocks(&hand));
        }
    }
    let first = first.expect("it is safe at some time");
    assert!(4 * first <= all, "{first} of {all} blocks");
    assert_eq!(any_more(&hand), 2);
    assert!(hand.volume.is_clean());
    assert!(hand.read() == content(&hand));
    // The new disks have everything, so others can be lost.
    for slot in [Slot(1), Slot(2)] {
        hand.world.pull_out(slot, true);
        hand.rest(Some(Event::DeviceGone(slot)));
    }
    assert!(hand.read() == content(&hand));
}

#[test]
fn a_power_failure_at_any_step_leaves_what_the_margin_said() {
    for (found, least) in [(Found::Blank, 20), (Found::Stale, 2)] {
        let (taken, lost) = one_more_is_lost_at_every_step(found);
        assert!(taken > least && lost.is_empty(), "{found:?}: {taken} taken, lost at {lost:?}");
    }
}

/// The third loss comes during the second pass, which still completes.
#[test]
fn a_rebuild_goes_on_with_its_rows_ahead_when_one_more_disk_is_lost() {
    let mut hand = with_new_disks(&SHAPE, Found::Blank);
    while any_more(&hand) == 0 {
        assert!(hand.step());
    }
    hand.world.pull_out(Slot(1), true);
    hand.rest(Some(Event::DeviceGone(Slot(1))));
    assert!(hand.read() == content(&hand));
    let states = hand.volume.volume.status().expect("it serves").devices;
    assert!(LOST.iter().all(|slot| states[slot.0 as usize].state == DeviceState::Present));
}
