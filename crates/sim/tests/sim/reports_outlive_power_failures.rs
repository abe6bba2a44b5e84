//! Reports of a volume survive power failures: losses and their reasons, the progress of a scrub,
//! lost and suspect data.

use crate::real::hand::Hand;
use crate::real::{Shape, usual};
use pantile_sim::{Ask, Data, Engine, Lie, Told};
use pantile_volume::{
    Action, DeviceBlock, DeviceState, Event, EventKind, Found, Reason, Scrub, Slot, Status, UserBlock,
};

const CODES: [&str; 4] = ["raid6:3", "mirror:3", "dcode:5", "raid5:2"];

fn status(hand: &Hand) -> Status {
    hand.volume.status().expect("it serves")
}

/// Returns the blocks that a status reports as lost.
fn called(status: &Status) -> Vec<u64> {
    status.ranges.iter().flat_map(|range| range.first.0..range.first.0 + range.count).collect()
}

/// Flips bits of a stripe on more devices than the code tolerates.
fn spoil(hand: &mut Hand, losses: usize) {
    spoil_some(hand, losses, 1);
}

/// Flips a bit in each `every`th block of the stripe's chunks on the first `losses` devices.
fn spoil_some(hand: &mut Hand, losses: usize, every: usize) {
    let geometry = hand.real.geometry.clone();
    for slot in (0..losses as u32).map(Slot) {
        let zone = geometry.zones(slot).data();
        let disk = &mut hand.world.disks_mut()[slot.0 as usize];
        let there: Vec<DeviceBlock> =
            disk.written().filter(|at| (zone.first.0..zone.first.0 + zone.blocks).contains(&at.0)).collect();
        // The blocks of the first chunk, without its header.
        let span = geometry.zones(slot).shape().chunk_span();
        let of_first =
            there.iter().filter(|at| (at.0 - zone.first.0) / span == (there[0].0 - zone.first.0) / span);
        let elements: Vec<DeviceBlock> = of_first.skip(1).step_by(every).copied().collect();
        elements.into_iter().for_each(|at| disk.flip(at, 77));
    }
}

#[test]
fn lost_blocks_are_listed_exactly_until_they_are_written_again_whatever_fails_meanwhile() {
    for (code, losses) in [("raid6:3", 3), ("raid5:2", 2), ("mirror:3", 3), ("dcode:5", 3)] {
        let mut hand = Hand::new(&Shape { log_rows: 100, ..usual(code) });
        hand.volume.volume.tell_time(1000);
        hand.fill(1);
        hand.rest(Some(Event::Still));
        spoil(&mut hand, losses);
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
        let scrub = status(&hand).scrub.expect("a scrub");
        assert!(!scrub.running && scrub.left > 0, "{code}: {scrub:?}");
        let contents = hand.read_each();
        let lost: Vec<u64> =
            (0..).zip(&contents).filter(|(_, had)| had.is_none()).map(|(at, _)| at).collect();
        assert!(!lost.is_empty() && lost.len() < contents.len(), "{code}: {lost:?}");
        assert_eq!(called(&status(&hand)), lost, "{code}");
        assert!(status(&hand).ranges.iter().all(|range| range.since == 1000), "{code}");
        for _ in 0..2 {
            hand.open_again();
            assert_eq!(called(&status(&hand)), lost, "{code}");
        }
        let events = status(&hand).events;
        assert!(events.iter().any(|event| event.what == EventKind::DATA_LOST && event.at == 1000), "{code}");
        for (nth, &block) in lost.iter().enumerate() {
            let write = Ask::Write { first: UserBlock(block), contents: vec![[3; 16]], durable: true };
            assert_eq!(hand.ask(&write), Told::Done, "{code}");
            hand.open_again();
            assert_eq!(called(&status(&hand)), lost[nth + 1..], "{code}, after {block}");
        }
        assert!(matches!(hand.read(), Told::Blocks(_)), "{code}: all of it can be read");
    }
}

/// Makes a volume with a stripe that was damaged beyond the tolerance, so that a scrub could not
/// repair it; also returns the lost blocks.
fn with_a_broken_stripe(code: &'static str, losses: usize) -> (Hand, Vec<u64>) {
    let mut hand = Hand::new(&Shape { spare_stripes: 3, log_rows: 100, ..usual(code) });
    hand.fill(1);
    hand.rest(Some(Event::Settle));
    spoil(&mut hand, losses);
    hand.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
    let status = status(&hand);
    assert_eq!(status.broken_stripes, 1, "{code}");
    (hand, called(&status))
}

/// Blocks that users have written again do not count as repaired by the scrub.
#[test]
fn a_scrub_calls_repaired_what_it_has_repaired_itself() {
    for whole in [false, true] {
        let (mut hand, lost) = with_a_broken_stripe("raid6:3", 3);
        let outcome = |hand: &Hand| {
            let scrub = status(hand).scrub.expect("a scrub");
            (scrub.running, scrub.repaired, scrub.left)
        };
        assert_eq!(outcome(&hand), (false, 0, 1), "{whole}");
        match whole {
            true => hand.fill(4),
            false => {
                for (nth, &block) in lost.iter().enumerate() {
                    let (first, durable) = (UserBlock(block), nth + 1 == lost.len());
                    hand.ask(&Ask::Write { first, contents: vec![[3; 16]], durable });
                }
            }
        }
        assert_eq!(status(&hand).broken_stripes, 0, "{whole}");
        assert_eq!(outcome(&hand), (false, 0, 0), "{whole}");
        hand.open_again();
        assert_eq!(outcome(&hand).1, 0, "{whole}");
    }
}

/// The next scrub tries to repair such a stripe again, and ends.
#[test]
fn a_second_scrub_with_repair_ends_and_says_the_same() {
    for (code, losses) in LOSSES {
        let (mut hand, lost) = with_a_broken_stripe(code, losses);
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
        let again = status(&hand);
        let scrub = again.scrub.clone().expect("a scrub");
        assert_eq!((scrub.running, scrub.repaired, scrub.left), (false, 0, 1), "{code}");
        assert_eq!((again.broken_stripes, again.suspect_stripes), (1, 0), "{code}");
        assert_eq!(called(&again), lost, "{code}");
        // The bits are flipped back on all devices but one: the lost blocks can be computed.
        spoil(&mut hand, losses - 1);
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
        let mended = status(&hand).scrub.expect("a scrub");
        assert_eq!((mended.running, mended.repaired, mended.left), (false, 1, 0), "{code}");
        has_lost_nothing(&mut hand, code);
    }
}

const LOSSES: [(&str, usize); 5] =
    [("raid6:3", 3), ("raid5:2", 2), ("mirror:3", 3), ("dcode:5", 3), ("raidq:2+4", 5)];

/// The volume is not opened again, and no stripe is written as a whole.
#[test]
fn a_stripe_of_which_every_lost_block_is_written_again_has_lost_nothing_in_the_same_session() {
    for (code, losses) in LOSSES {
        let (mut hand, lost) = with_a_broken_stripe(code, losses);
        for (nth, &block) in lost.iter().enumerate() {
            let write = Ask::Write { first: UserBlock(block), contents: vec![[3; 16]], durable: true };
            assert_eq!(hand.ask(&write), Told::Done, "{code}");
            let now = status(&hand);
            assert_eq!(called(&now), lost[nth + 1..], "{code}, after {block}");
            assert_eq!(now.broken_stripes > 0, nth + 1 < lost.len(), "{code}, after {block}");
        }
        has_lost_nothing(&mut hand, code);
    }
}

fn has_lost_nothing(hand: &mut Hand, code: &str) {
    let after = status(hand);
    assert_eq!((after.broken_stripes, after.suspect_stripes), (0, 0), "{code}: {after:?}");
    assert!(after.ranges.is_empty() && !after.failed, "{code}: {after:?}");
    assert!(matches!(hand.read(), Told::Blocks(_)), "{code}: all of it can be read");
    hand.rest(Some(Event::Scrub(Scrub::Start { repair: false })));
    let scrub = status(hand).scrub.expect("a scrub");
    assert!(!scrub.running && !scrub.is_bad(), "{code}: {scrub:?}");
}

/// Unreadable blocks can be read again, and the next read notices it.
#[test]
fn a_stripe_of_which_every_lost_block_could_be_read_after_all_has_lost_nothing() {
    for (code, losses) in LOSSES {
        let (mut hand, lost) = with_a_broken_stripe(code, losses);
        // The same bits are flipped back.
        spoil(&mut hand, losses);
        assert_eq!(status(&hand).broken_stripes, 1, "{code}");
        for &block in &lost {
            let read = Ask::Read { first: UserBlock(block), count: 1 };
            assert!(matches!(hand.ask(&read), Told::Blocks(_)), "{code}");
        }
        hand.rest(Some(Event::Settle));
        has_lost_nothing(&mut hand, code);
    }
}

/// A scrub with repair ends when its findings are written again, and reports repaired and lost
/// blocks.
#[test]
fn a_scrub_says_apart_what_it_repaired_and_what_it_could_not() {
    for (losses, repaired, left) in [(1, 1, 0), (2, 1, 0), (3, 0, 1)] {
        let mut hand = Hand::new(&usual("raid6:3"));
        hand.fill(1);
        hand.rest(Some(Event::Still));
        spoil(&mut hand, losses);
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: false })));
        let found = status(&hand).scrub.expect("a scrub");
        assert_eq!((found.checksum, found.repaired, found.left), (1, 0, 0), "{losses}: {found:?}");
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
        let scrub = status(&hand).scrub.expect("a scrub");
        assert_eq!((scrub.running, scrub.checksum), (false, 1), "{losses}: {scrub:?}");
        assert_eq!((scrub.repaired, scrub.left), (repaired, left), "{losses}: {scrub:?}");
        hand.open_again();
        let kept = status(&hand).scrub.expect("it is kept");
        assert_eq!((kept.repaired, kept.left, kept.running), (repaired, left, false), "{losses}: {kept:?}");
    }
}

#[test]
fn a_scrub_goes_on_where_it_was_and_its_result_and_date_are_kept() {
    let shape = Shape { logical_stripes: 600, spare_stripes: 20, ..usual("raid6:3") };
    let mut hand = Hand::new(&shape);
    hand.volume.volume.tell_time(500);
    hand.fill(1);
    hand.tell(Event::Scrub(Scrub::Start { repair: false }));
    while status(&hand).scrub.is_none_or(|scrub| scrub.done < 80) {
        assert!(hand.step(), "it goes on");
    }
    hand.rest(Some(Event::Scrub(Scrub::Pause)));
    let paused = status(&hand).scrub.expect("a scrub");
    assert!(paused.paused && paused.running && paused.done < 600, "{paused:?}");
    hand.rest(Some(Event::Settle));
    hand.open_again();
    hand.volume.volume.tell_time(600);
    let kept = status(&hand).scrub.expect("it is kept");
    assert_eq!(
        (kept.done, kept.begun_at, kept.running, kept.paused),
        (paused.done, 500, true, true),
        "{kept:?}"
    );
    hand.rest(Some(Event::Scrub(Scrub::Resume)));
    let ended = status(&hand).scrub.expect("it has ended");
    assert_eq!((ended.done, ended.clean, ended.running), (600, 600, false), "{ended:?}");
    assert_eq!((ended.begun_at, ended.ended_at), (500, 600));
    hand.open_again();
    let kept = status(&hand).scrub.expect("it is kept");
    assert_eq!((kept.done, kept.clean, kept.begun_at, kept.ended_at), (600, 600, 500, 600), "{kept:?}");
    // A scrub that a power failure cuts off begins again or continues without a command.
    hand.tell(Event::Scrub(Scrub::Start { repair: false }));
    (0..40).for_each(|_| _ = hand.step());
    hand.open_again();
    let again = status(&hand).scrub.expect("it has gone on");
    assert_eq!((again.done, again.running), (600, false), "{again:?}");
}

#[test]
fn why_and_when_a_device_was_lost_and_what_it_did_wrong_is_kept() {
    for code in CODES {
        let mut hand = Hand::new(&usual(code));
        hand.fill(1);
        hand.volume.volume.tell_time(100);
        let zone = hand.real.geometry.zones(Slot(1)).data();
        let at =
            hand.world.disks()[1].written().find(|at| at.0 > zone.first.0).expect("something is written");
        hand.world.disks_mut()[1].make_unreadable(at);
        hand.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
        let erred = status(&hand).devices[1].known;
        assert!(erred.media_errors > 0, "{code}: {erred:?}");
        hand.open_again();
        assert_eq!(status(&hand).devices[1].known.media_errors, erred.media_errors, "{code}");
        hand.volume.volume.tell_time(200);
        hand.volume.volume.tell_why(Slot(1), Reason::WRITE_FAILED, 5);
        hand.world.pull_out(Slot(1), true);
        hand.rest(Some(Event::DeviceGone(Slot(1))));
        hand.open_again();
        let device = status(&hand).devices[1];
        assert_eq!(device.state, DeviceState::Lost, "{code}");
        let known = device.known;
        assert_eq!((known.reason, known.errno, known.since), (Reason::WRITE_FAILED, 5, 200), "{code}");
        // The same device comes back, and its errors are not forgotten; another device has none.
        for (found, errors) in [(Found::Stale, erred.media_errors), (Found::Blank, 0)] {
            hand.world.put_back(Slot(1), found);
            hand.rest(Some(Event::DeviceCame(Slot(1), found)));
            hand.open_again();
            let device = status(&hand).devices[1];
            assert_eq!((device.state, device.known.media_errors), (DeviceState::Present, errors), "{code}");
            hand.volume.volume.tell_why(Slot(1), Reason::OPERATOR, 0);
            hand.world.pull_out(Slot(1), true);
            hand.rest(Some(Event::DeviceGone(Slot(1))));
        }
        let whats: Vec<EventKind> = status(&hand).events.iter().map(|event| event.what).collect();
        for what in [EventKind::LOST, EventKind::BACK, EventKind::NEW, EventKind::WHOLE] {
            assert!(whats.contains(&what), "{code}: {what:?} of {whats:?}");
        }
    }
}

/// The log has two rows, and frees one while a user is still reading a block of it.
#[test]
fn no_device_is_blamed_for_a_row_of_the_log_that_was_written_again_while_it_was_read() {
    for code in CODES {
        let mut hand = Hand::new(&Shape { log_rows: 2, ..usual(code) });
        hand.fill(1);
        let write = |at, byte| Ask::Write { first: UserBlock(at), contents: vec![[byte; 16]], durable: true };
        hand.ask(&write(0, 2));
        let (_, event) = hand.world.ask(&Ask::Read { first: UserBlock(0), count: 1 });
        hand.volume.handle(event);
        let late: Vec<Action> = std::iter::from_fn(|| hand.volume.next_action()).collect();
        assert!(late.iter().any(|action| matches!(action, Action::Read { .. })), "{code}: {late:?}");
        for at in 1..hand.real.config.user_blocks {
            assert_eq!(hand.ask(&write(at, 3)), Told::Done, "{code}");
        }
        for action in late {
            hand.world.perform(action).expect("no rule is broken");
        }
        assert_eq!(hand.rest(None), Some(Told::Blocks(vec![Some([2; 16])])), "{code}");
        for device in status(&hand).devices {
            assert_eq!((device.counts.checksum_errors, device.known.checksum_errors), (0, 0), "{code}");
        }
    }
}

/// The log has two rows, and frees one while a scrub is still reading it.
#[test]
fn no_device_is_blamed_for_a_row_of_the_log_that_was_written_again_while_it_was_scrubbed() {
    for code in CODES {
        let mut hand = Hand::new(&Shape { log_rows: 2, ..usual(code) });
        hand.fill(1);
        let write = |at, byte| Ask::Write { first: UserBlock(at), contents: vec![[byte; 16]], durable: true };
        hand.ask(&write(0, 2));
        let rows = [0, 1].map(|row| hand.real.geometry.row_block(row));
        let mut late = Vec::new();
        let mut event = Event::Scrub(Scrub::Start { repair: false });
        while late.is_empty() {
            hand.volume.handle(event);
            while let Some(action) = hand.volume.next_action() {
                match &action {
                    Action::Read { at, .. } if rows.contains(at) => late.push(action),
                    _ => drop(hand.world.perform(action).expect("no rule is broken")),
                }
            }
            event = match hand.world.step(Lie::Honest) {
                Some(next) if late.is_empty() => next,
                Some(next) => {
                    hand.rest(Some(next));
                    break;
                }
                None => break,
            };
        }
        assert!(!late.is_empty(), "{code}: the scrub reads the log");
        for at in 1..hand.real.config.user_blocks {
            assert_eq!(hand.ask(&write(at, 3)), Told::Done, "{code}");
        }
        for action in late {
            hand.world.perform(action).expect("no rule is broken");
        }
        hand.rest(None);
        for device in status(&hand).devices {
            assert_eq!((device.counts.checksum_errors, device.known.checksum_errors), (0, 0), "{code}");
        }
    }
}

/// A clean report is true: if nothing is listed, everything can be read.
#[test]
fn a_rebuild_does_not_call_whole_what_it_could_not_make_again() {
    let mut hand = Hand::new(&usual("raid6:3"));
    hand.fill(1);
    hand.rest(Some(Event::Still));
    spoil(&mut hand, 2);
    // The third loss is a whole device, which is replaced.
    hand.world.pull_out(Slot(2), true);
    hand.rest(Some(Event::DeviceGone(Slot(2))));
    hand.world.put_back(Slot(2), Found::Blank);
    hand.rest(Some(Event::DeviceCame(Slot(2), Found::Blank)));
    let rebuilt = status(&hand);
    assert!(rebuilt.devices.iter().all(|device| device.state == DeviceState::Present), "{rebuilt:?}");
    assert!(rebuilt.broken_stripes > 0, "{rebuilt:?}");
    let contents: Vec<Option<Data>> = hand.read_each();
    let lost: Vec<u64> = (0..).zip(&contents).filter(|(_, had)| had.is_none()).map(|(at, _)| at).collect();
    assert!(!lost.is_empty());
    assert_eq!(called(&rebuilt), lost);
}
