//! Blocks stay in the log while it has room for them and they are young.

use crate::real::hand::Hand;
use crate::real::{Real, Shape, usual};
use pantile_sim::{Ask, IoKind, Told};
use pantile_volume::{Event, LOG_AGE, UserBlock};

const SHAPE: Shape =
    Shape { element_blocks: 16, logical_stripes: 40, log_rows: 160, journal_blocks: 256, ..usual("raid6:4") };

/// Makes a volume at rest whose blocks are all written.
fn filled() -> Hand {
    let mut hand = Hand::new(&SHAPE);
    hand.volume.volume.tell_time(1_000_000);
    hand.fill(7);
    hand.rest(Some(Event::Idle));
    hand
}

/// Writes single blocks, each to another stripe than the one before, and flushes after every eight.
fn burst(hand: &mut Hand, first: u64, blocks: u64) {
    let per_stripe = hand.real.geometry.stripe_blocks();
    let all = hand.real.config.user_blocks;
    for nth in first..first + blocks {
        let at = UserBlock((nth * (per_stripe + 3)) % all);
        let write = Ask::Write { first: at, contents: vec![[nth as u8; 16]], durable: false };
        assert_eq!(hand.ask(&write), Told::Done);
        if nth % 8 == 7 {
            assert_eq!(hand.ask(&Ask::Flush), Told::Done);
        }
    }
    assert_eq!(hand.ask(&Ask::Flush), Told::Done);
}

fn written(hand: &Hand) -> u64 {
    hand.world.counts().iter().map(|counts| counts.blocks(IoKind::Write)).sum()
}

fn rows_used(hand: &Hand) -> u64 {
    hand.volume.status().expect("it serves").log_rows_used
}

/// Returns the number of blocks that are written when a volume comes to rest.
fn cost_of_rest(hand: &mut Hand) -> u64 {
    let before = written(hand);
    hand.rest(Some(Event::Idle));
    written(hand) - before
}

#[test]
fn an_idle_volume_keeps_a_burst_that_fits() {
    let mut hand = filled();
    for first in [0, 100, 200] {
        burst(&mut hand, first, 100);
        let used = rows_used(&hand);
        // The only write is a record on each device, which proves the one before.
        let devices = hand.world.disks().len() as u64;
        assert_eq!(cost_of_rest(&mut hand), devices, "{used} rows were in use");
        assert_eq!(rows_used(&hand), used);
    }
}

#[test]
fn an_idle_volume_makes_room_for_half_of_the_next_burst_and_no_more() {
    let mut hand = filled();
    // 80 of 160 rows are used; 40 must always be free, and so must 40 for half of the burst.
    burst(&mut hand, 0, 320);
    assert!((70..=80).contains(&rows_used(&hand)), "{}", rows_used(&hand));
    hand.rest(Some(Event::Idle));
    let kept = rows_used(&hand);
    assert!(kept >= 60, "{kept} rows are in use: more was cleaned than needed");
    burst(&mut hand, 320, 120);
    assert!(rows_used(&hand) > 80, "{}", rows_used(&hand));
    hand.rest(Some(Event::Idle));
    assert!((40..=100).contains(&rows_used(&hand)), "{}", rows_used(&hand));
    assert_eq!(cost_of_rest(&mut hand), 0, "what is clean is left");
}

#[test]
fn blocks_that_are_an_hour_old_go_home_at_rest_and_younger_ones_stay() {
    let mut hand = filled();
    burst(&mut hand, 0, 160);
    hand.rest(Some(Event::Idle));
    let used = rows_used(&hand);
    hand.volume.volume.tell_time(1_000_000 + LOG_AGE - 1);
    assert_eq!(cost_of_rest(&mut hand), 0);
    assert_eq!(rows_used(&hand), used);
    hand.volume.volume.tell_time(1_000_000 + LOG_AGE);
    hand.rest(Some(Event::Idle));
    // The mark of the age is from before the burst.
    assert_eq!(rows_used(&hand), used);
    hand.volume.volume.tell_time(1_000_000 + 2 * LOG_AGE);
    hand.rest(Some(Event::Idle));
    assert_eq!(rows_used(&hand), 0);
    let per_stripe = hand.real.geometry.stripe_blocks();
    let at = UserBlock(159 * (per_stripe + 3) % hand.real.config.user_blocks);
    assert_eq!(hand.ask(&Ask::Read { first: at, count: 1 }), Told::Blocks(vec![Some([159; 16])]));
}

/// Wide stripes: a patch of a few blocks costs less than a merge, including operations.
const WIDE: Shape = Shape {
    element_blocks: 16,
    logical_stripes: 40,
    log_rows: 20,
    journal_blocks: 512,
    ..usual("raidq:28+4")
};

/// Returns the blocks written to devices per user block when the log is full, and the number of
/// patched stripes.
fn cost_of_full_log(real: Real) -> (f64, Option<u64>) {
    let mut hand = Hand::of(real);
    hand.volume.checks = false;
    hand.fill(7);
    burst(&mut hand, 0, 1000);
    let before = written(&hand);
    burst(&mut hand, 1000, 1000);
    ((written(&hand) - before) as f64 / 1000.0, hand.volume.volume.patched_stripes())
}

#[test]
fn a_full_log_patches_where_that_is_cheaper() {
    let (each, patched) = cost_of_full_log(Real::new(&WIDE, &[]));
    println!("{each:.2} blocks written for one");
    assert!(patched > Some(0), "{patched:?} stripes were patched");
    // An update in place writes the block, four parity blocks and five headers; a merge writes
    // about 600 blocks.
    assert!(each < 2.5 * 10.0, "{each:.2} blocks written for one");
}
