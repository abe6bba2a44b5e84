//! If a code has copies of its data, the devices of both copies are read.

use crate::real::hand::Hand;
use crate::real::{Shape, usual};
use pantile_volume::{Event, Slot};

const SHAPE: Shape = Shape { logical_stripes: 8, ..usual("raidp:6") };

/// Returns the number of blocks that were read from each of the six disks.
fn blocks_read(hand: &Hand) -> Vec<u64> {
    let status = hand.volume.volume.status().expect("it serves");
    status.devices.iter().take(6).map(|device| device.counts.blocks_read).collect()
}

#[test]
fn reads_of_all_blocks_read_each_disk_equally_much() {
    let mut hand = Hand::new(&SHAPE);
    hand.fill(1);
    hand.open_again();
    assert!(hand.read_each().iter().all(|block| *block == Some([1; 16])));
    let read = blocks_read(&hand);
    let (most, least) = (read.iter().max().expect("disks"), read.iter().min().expect("disks"));
    assert!(10 * most <= 12 * least, "{read:?}");
    // A lost disk is skipped, at no other cost.
    hand.open_again();
    hand.world.pull_out(Slot(1), true);
    hand.rest(Some(Event::DeviceGone(Slot(1))));
    assert!(hand.read_each().iter().all(|block| *block == Some([1; 16])));
    let without: u64 = blocks_read(&hand).iter().sum();
    assert!(without <= read.iter().sum::<u64>() + 16, "{without} blocks, {read:?} with all disks");
}
