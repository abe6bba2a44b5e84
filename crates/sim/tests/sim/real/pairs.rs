//! Volumes that lose two disks, get new ones, and lose a third while these are rebuilt.

use super::hand::Hand;
use super::{Shape, usual};
use pantile_sim::{Ask, Engine, Kill, Told};
use pantile_volume::{Event, Found, Slot, UserBlock};

pub const SMALL: Shape = Shape { logical_stripes: 3, element_blocks: 1, ..usual("raidp:4") };
pub const LOST: [Slot; 2] = [Slot(0), Slot(3)];

pub fn any_more(hand: &Hand) -> u32 {
    hand.volume.volume.margin().map_or(0, |margin| margin.any_more)
}

/// Returns the content: that of the stripes, with one block from the log.
pub fn content(hand: &Hand) -> Told {
    match hand.filled_with(1) {
        Told::Blocks(mut blocks) => {
            blocks[3] = Some([2; 16]);
            Told::Blocks(blocks)
        }
        other => other,
    }
}

/// Loses two disks that share copies, and puts `found` ones in their place.
pub fn with_new_disks(shape: &Shape, found: Found) -> Hand {
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

/// Removes a disk together with a power failure after some steps, and opens the volume without it.
/// Returns the margin before, and the volume; `None`: the rebuild ends in fewer steps.
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

/// Removes a disk together with a power failure at every step at which the margin allows it: a
/// different disk at each step. Returns the number of steps at which one was removed, and those of
/// them at which content was lost.
pub fn one_more_is_lost_at_every_step(found: Found) -> (usize, Vec<usize>) {
    let (mut taken, mut lost) = (0, Vec::new());
    for (steps, (margin, mut hand)) in (0..).map_while(|steps| without_one_more(found, steps)).enumerate() {
        if margin > 0 {
            taken += 1;
            let is_whole = hand.volume.refused().is_none() && hand.read() == content(&hand);
            lost.extend((!is_whole).then_some(steps));
        }
    }
    (taken, lost)
}
