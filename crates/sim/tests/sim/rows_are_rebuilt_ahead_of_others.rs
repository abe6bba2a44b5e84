//! Where a few rows make every stripe tolerate one more loss, they are rebuilt before all others,
//! and a power failure at any moment leaves what the margin said.

use crate::real::hand::Hand;
use crate::real::{Shape, usual};
use pantile_sim::{Ask, Engine, Kill, Told};
use pantile_volume::{DeviceState, Event, Found, Slot, UserBlock};

const SHAPE: Shape = Shape { logical_stripes: 8, ..usual("raidp:5") };
const SMALL: Shape = Shape { logical_stripes: 3, element_blocks: 1, ..usual("raidp:4") };
const LOST: [Slot; 2] = [Slot(0), Slot(3)];

fn any_more(hand: &Hand) -> u32 {
    hand.volume.volume.margin().map_or(0, |margin| margin.any_more)
}

/// The content of stripes and of one block in the log.
fn content(hand: &Hand) -> Told {
    match hand.filled_with(1) {
        Told::Blocks(mut blocks) => {
            blocks[3] = Some([2; 16]);
            Told::Blocks(blocks)
        }
        other => other,
    }
}

/// Loses two disks that share copies, and puts blank ones in their places.
fn with_new_disks(shape: &Shape, found: Found) -> Hand {
    let mut hand = Hand::new(shape);
    hand.fill(1);
    for slot in LOST {
        hand.world.pull_out(slot, true);
        hand.rest(Some(Event::DeviceGone(slot)));
    }
    let one = Ask::Write { first: UserBlock(3), contents: vec![[2; 16]], durable: true };
    assert_eq!(hand.ask(&one), Told::Done);
    assert_eq!(any_more(&hand), 0);
    for slot in LOST {
        hand.world.put_back(slot, found);
        hand.tell(Event::DeviceCame(slot, found));
    }
    hand
}

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
    // The new disks have everything: others can be lost.
    for slot in [Slot(1), Slot(2)] {
        hand.world.pull_out(slot, true);
        hand.rest(Some(Event::DeviceGone(slot)));
    }
    assert!(hand.read() == content(&hand));
}

/// Takes a disk away with the power after some steps, and opens the volume without it. Returns the
/// margin before, and the volume; `None`: the rebuild ends in fewer steps.
fn without_one_more(found: Found, steps: usize) -> Option<(u32, Hand)> {
    let mut hand = with_new_disks(&SMALL, found);
    if !(0..steps).all(|_| hand.step()) {
        return None;
    }
    let margin = any_more(&hand);
    let others: Vec<Slot> = (0..8).map(Slot).filter(|slot| !LOST.contains(slot)).collect();
    hand.world.kill(Kill::Power);
    hand.world.pull_out(others[steps % others.len()], false);
    hand.begin_again();
    let ends = (0..20_000).any(|_| !hand.step());
    assert!(ends, "{found:?}, step {steps}: it does not come to rest");
    Some((margin, hand))
}

/// At every step one of the disks that the margin gives away is taken, with the power: another one
/// at each step.
#[test]
fn a_power_failure_at_any_step_leaves_what_the_margin_said() {
    for (found, least) in [(Found::Blank, 20), (Found::Stale, 2)] {
        let mut taken = 0;
        for (steps, (margin, mut hand)) in (0..).map_while(|steps| without_one_more(found, steps)).enumerate()
        {
            if margin > 0 {
                assert_eq!(hand.volume.refused(), None, "{found:?}, step {steps}");
                assert!(hand.read() == content(&hand), "{found:?}, step {steps}");
                taken += 1;
            }
        }
        assert!(taken > least, "{found:?}: {taken}");
    }
}

/// The third loss comes while the second pass runs: it ends all the same.
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
