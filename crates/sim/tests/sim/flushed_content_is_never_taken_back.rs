//! Content that cannot be read because more than t devices are bad is lost, and never becomes older
//! content. Once a flush was answered and the volume was stopped, or had no writes for a moment,
//! its last record is proven durable.

use crate::real::hand::Hand;
use crate::real::{Shape, hush};
use pantile_sim::{Ask, Content, Data, Disk, Engine, Kill, Told};
use pantile_volume::{DeviceBlock, Event, Slot, UserBlock};

const SHAPE: Shape = Shape {
    placement: None,
    code: "",
    element_blocks: 2,
    logical_stripes: 3,
    spare_stripes: 4,
    log_rows: 12,
    journal_blocks: 24,
    blocks_most: 4,
};

const CODES: [&str; 10] = [
    "mirror:2",
    "mirror:3",
    "raid5:2",
    "raid5:3",
    "raid6:2",
    "raid6:4",
    "rs:3+3",
    "dcode:5",
    "lrc:4,2,1",
    "xcode:5",
];

const OLD: Data = [1; 16];
const NEW: Data = [2; 16];

/// The last writes: all stripes; one block, which gets copies in the log; or enough blocks to fill
/// rows of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Stripes,
    Block,
    Row,
}

impl Written {
    const ALL: [Written; 3] = [Written::Stripes, Written::Block, Written::Row];

    fn blocks(self, hand: &Hand) -> u64 {
        match self {
            Written::Stripes => hand.real.config.user_blocks,
            Written::Block => 1,
            Written::Row => hand.real.geometry.stripe_blocks() - 1,
        }
    }
}

/// Makes a volume of [`OLD`] whose last record maps a part of [`NEW`]. Also returns the devices
/// from before that record.
fn written(code: &'static str, written: Written) -> (Hand, Vec<Disk>) {
    let mut hand = Hand::new(&Shape { code, ..SHAPE });
    hand.fill(OLD[0]);
    let before = hand.world.disks().to_vec();
    let contents = vec![NEW; written.blocks(&hand) as usize];
    assert_eq!(hand.ask(&Ask::Write { first: UserBlock(0), contents, durable: true }), Told::Done);
    (hand, before)
}

/// Returns the blocks of users' data and parity that have changed on a device.
fn changed(hand: &Hand, before: &[Disk], slot: usize) -> Vec<DeviceBlock> {
    let zones = hand.real.geometry.zones(Slot(slot as u32));
    let (first, end) = (hand.real.geometry.row_block(0), zones.superblock_copy());
    let (old, new) = (&before[slot], &hand.world.disks()[slot]);
    (first.0..end.0).map(DeviceBlock).filter(|&at| old.newest(at) != new.newest(at)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// The new blocks on t + 1 devices cannot be read.
    Unreadable,
    /// The new blocks on t + 1 devices have other content.
    Rot,
    /// t devices are gone, and one block on one more cannot be read.
    GoneAndOneBlock,
}

impl Damage {
    const ALL: [Damage; 3] = [Damage::Unreadable, Damage::Rot, Damage::GoneAndOneBlock];

    /// Damages the first t + 1 devices that have new blocks; `false`: there are too few, or the
    /// code tolerates it.
    fn strike(self, hand: &mut Hand, before: &[Disk]) -> bool {
        let tolerance = hand.real.geometry.tolerance();
        let found = (0..before.len()).map(|slot| (slot, changed(hand, before, slot)));
        let found: Vec<(usize, Vec<DeviceBlock>)> =
            found.filter(|(_, blocks)| !blocks.is_empty()).take(tolerance + 1).collect();
        if found.len() <= tolerance {
            return false;
        }
        for (index, (slot, blocks)) in found.into_iter().enumerate() {
            let disk = &mut hand.world.disks_mut()[slot];
            match self {
                Damage::Unreadable => blocks.into_iter().for_each(|at| disk.make_unreadable(at)),
                Damage::Rot => blocks.into_iter().for_each(|at| disk.put(at, Content::of_data([9; 16]))),
                Damage::GoneAndOneBlock if index < tolerance => {
                    hand.world.pull_out(Slot(slot as u32), false);
                }
                // This block is behind the header, if there is one.
                Damage::GoneAndOneBlock => disk.make_unreadable(blocks[blocks.len() / 2]),
            }
        }
        true
    }
}

/// Events between the flush and the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// The volume is stopped in order.
    Stop,
    /// No requests come.
    Idle,
    /// Reads come, but no writes.
    Still,
    /// The power fails at once; then the volume is opened, and no writes come.
    CrashAndStill,
}

impl Between {
    const ALL: [Between; 4] = [Between::Stop, Between::Idle, Between::Still, Between::CrashAndStill];

    fn happens(self, hand: &mut Hand) {
        match self {
            Between::Stop => {
                hand.volume.handle(Event::Settle);
                assert_eq!(hand.ask(&Ask::Flush), Told::Done);
            }
            Between::Idle => drop(hand.rest(Some(Event::Idle))),
            Between::Still => {
                hand.volume.handle(Event::Still);
                hand.ask(&Ask::Read { first: UserBlock(0), count: 1 });
            }
            Between::CrashAndStill => {
                hand.open_again();
                hand.rest(Some(Event::Still));
            }
        }
    }
}

#[test]
fn unreadable_blocks_are_lost_and_not_old() {
    hush();
    let (mut tried, mut lost, mut taken_back) = (0, 0, Vec::new());
    for code in CODES {
        for (what, between, damage) in Written::ALL.into_iter().flat_map(|what| {
            Between::ALL.into_iter().flat_map(move |b| Damage::ALL.into_iter().map(move |d| (what, b, d)))
        }) {
            let (mut hand, before) = written(code, what);
            between.happens(&mut hand);
            hand.world.kill(Kill::Power);
            if !damage.strike(&mut hand, &before) {
                continue;
            }
            hand.open_again();
            let case = (code, what, between, damage);
            assert_eq!(hand.volume.refused(), None, "{case:?}");
            let (news, new) = (what.blocks(&hand) as usize, hand.read_each());
            // An idle volume may have merged a stripe from the log.
            let is_old = |content: &Option<Data>| content.is_none_or(|content| content == OLD);
            assert!(new[news..].iter().all(is_old), "{case:?}: {new:?}");
            tried += 1;
            lost += usize::from(new.iter().any(Option::is_none));
            if !new[..news].iter().all(|content| content.is_none_or(|content| content == NEW)) {
                taken_back.push(case);
            }
        }
    }
    println!("{tried} cases, {lost} with something lost, {} taken back", taken_back.len());
    assert_eq!(taken_back, [], "of {tried} cases");
    assert!(tried > 300 && lost > tried / 2, "{tried} cases, {lost} with something lost");
}

/// The damage comes right after the flush: the last record looks like one that a crash cut off, so
/// reads return the state before it.
#[test]
fn a_record_that_nothing_says_was_durable_is_taken_back() {
    hush();
    // The excluded code tolerates any loss of t + 1 neighbours.
    for code in CODES.into_iter().filter(|code| !code.starts_with("lrc")) {
        let (mut hand, before) = written(code, Written::Stripes);
        hand.world.kill(Kill::Power);
        assert!(Damage::Unreadable.strike(&mut hand, &before));
        hand.open_again();
        let contents = hand.read_each();
        assert!(contents.contains(&Some(OLD)), "{code}: {contents:?}");
    }
}

/// The power fails after each step of commits that begin while a proof is wanted, and of the proof.
/// No flushed content is lost, and once the flush was answered all new content is there.
#[test]
fn unflushed_writes_do_not_become_durable() {
    hush();
    let (mut none, mut all) = (0, 0);
    for code in CODES {
        for first in [Event::Still, Event::Idle] {
            for steps in 0.. {
                let mut hand = Hand::new(&Shape { code, ..SHAPE });
                hand.fill(OLD[0]);
                hand.volume.handle(first.clone());
                let contents = vec![NEW; hand.real.config.user_blocks as usize];
                let (_, event) = hand.world.ask(&Ask::Write { first: UserBlock(0), contents, durable: true });
                let mut told = hand.tell(event);
                hand.tell(first.clone());
                let mut done = 0;
                while done < steps
                    && let Some(event) = hand.world.step(pantile_sim::Lie::Honest)
                {
                    told = hand.tell(event).or(told);
                    done += 1;
                }
                hand.open_again();
                let contents = hand.read_each();
                let is_new = contents.iter().all(|content| *content == Some(NEW));
                let is_one = |content: &Option<Data>| [Some(OLD), Some(NEW)].contains(content);
                assert!(contents.iter().all(is_one), "{code}, {first:?}, {steps} steps: {contents:?}");
                assert!(is_new || told.is_none(), "{code}, {first:?}, {steps} steps: it was answered");
                (none, all) = (none + usize::from(!is_new), all + usize::from(is_new));
                if done < steps {
                    break;
                }
            }
        }
    }
    println!("{none} times not all of it, {all} times all");
    assert!(none > 100 && all > 100, "{none} times not all of it, {all} times all");
}

/// The empty record is written once, and not while other records are.
#[test]
fn it_costs_one_write_and_one_flush_of_each_device_and_nothing_while_others_write() {
    hush();
    for code in CODES {
        let (mut hand, _) = written(code, Written::Stripes);
        let ios = |hand: &Hand| -> Vec<[u64; 4]> {
            let counts = hand.world.counts().iter();
            counts.map(|counts| pantile_sim::IoKind::ALL.map(|kind| counts.ios(kind))).collect()
        };
        let before = ios(&hand);
        hand.rest(Some(Event::Still));
        let after = ios(&hand);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after, &[before[0], before[1], before[2] + 1, before[3] + 1], "{code}");
        }
        hand.rest(Some(Event::Still));
        hand.rest(Some(Event::Settle));
        hand.rest(Some(Event::Idle));
        assert_eq!(ios(&hand), after, "{code}");
    }
}
