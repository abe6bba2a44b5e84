//! Volumes of which some devices are opened without the others.

use super::Shape;
use super::hand::Hand;
use pantile_sim::{Disk, Engine, Kill};
use pantile_volume::{Found, Slot};

pub const SHAPE: Shape = Shape {
    placement: None,
    code: "raid6:2",
    element_blocks: 1,
    logical_stripes: 3,
    spare_stripes: 2,
    log_rows: 4,
    journal_blocks: 16,
    blocks_most: 4,
};

pub fn all(hand: &Hand) -> impl Iterator<Item = Slot> + use<> {
    (0..hand.world.disks().len() as u32).map(Slot)
}

/// Opens the volume with these devices alone.
pub fn open_alone(hand: &mut Hand, side: &[u32]) {
    hand.world.kill(Kill::Power);
    let others: Vec<Slot> = all(hand).filter(|slot| !side.contains(&slot.0)).collect();
    for slot in others {
        if hand.world.disks()[slot.0 as usize].is_present() {
            hand.world.pull_out(slot, false);
        }
    }
    hand.open_again();
}

/// Replaces a device by one from elsewhere.
pub fn put_in(hand: &mut Hand, slot: u32, disk: &Disk) {
    hand.world.kill(Kill::Power);
    hand.world.disks_mut()[slot as usize] = disk.clone();
    if !disk.is_present() {
        hand.world.put_back(Slot(slot), Found::Stale);
    }
}

/// Returns true if two halves of a mirror that ran separately are refused.
pub fn halves_are_refused() -> bool {
    let mut hand = Hand::new(&Shape { code: "mirror:2", ..SHAPE });
    hand.fill(1);
    hand.world.kill(Kill::Power);
    let before = hand.world.disks().to_vec();
    open_alone(&mut hand, &[0]);
    hand.fill(2);
    hand.world.kill(Kill::Power);
    let a = hand.world.disks()[0].clone();
    (0..2).for_each(|slot| put_in(&mut hand, slot, &before[slot as usize]));
    open_alone(&mut hand, &[1]);
    hand.fill(3);
    put_in(&mut hand, 0, &a);
    hand.open_again();
    hand.volume.refused().is_some_and(|says| says.contains("ran separately"))
}
