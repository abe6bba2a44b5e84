//! Replacements with a crash after every operation, on two simulated devices. After a crash each
//! device has any subset of the writes that were not flushed.

use super::*;
use pantile_device::{Fault, Faulty, MemoryDevice, OpKind};
use std::collections::BTreeMap;

const BLOCKS: u64 = 3 * (STEP_BYTES / BLOCK) as u64;
const WITHHELD: [u64; 3] = [0, 1, BLOCKS - 1];
/// The byte that fills a block of a mark, and no other block.
const MARK: u8 = 251;
const OLD: usize = 0;
const NEW: usize = 1;

/// Events of a test, in order.
#[derive(Clone, Copy, Debug)]
enum Did {
    /// A block was written: the device, the block, its content.
    Wrote(usize, u64, u8),
    Flushed(usize),
    /// The volume requested the write of a block, which is not acknowledged yet.
    Asked(u64, u8),
    /// A flush was acknowledged: all writes acknowledged before it are durable.
    Told,
    Named,
}

/// A device whose blocks each consist of one repeated byte. It records its operations.
struct Told {
    number: usize,
    device: MemoryDevice,
    history: Arc<Mutex<Vec<Did>>>,
}

impl Told {
    fn tell(&self, did: impl IntoIterator<Item = Did>) {
        self.history.lock().expect("a history").extend(did);
    }
}

impl Device for Told {
    fn path(&self) -> &Path {
        self.device.path()
    }
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }
    fn block_len_bytes(&self) -> u32 {
        self.device.block_len_bytes()
    }
    fn identity(&self) -> Identity {
        self.device.identity()
    }
    fn read_at(&self, offset_bytes: u64, into: PartMut<'_>) -> Result<(), DeviceError> {
        self.device.read_at(offset_bytes, into)
    }
    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        self.device.write_at(offset_bytes, parts)?;
        let blocks = parts.iter().flat_map(|part| part.bytes().chunks_exact(BLOCK)).map(|block| block[0]);
        self.tell(
            (offset_bytes / BLOCK as u64..).zip(blocks).map(|(at, byte)| Did::Wrote(self.number, at, byte)),
        );
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.tell([Did::Flushed(self.number)]);
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let zeros = AlignedBuf::zeroed(len_bytes as usize);
        self.write_at(offset_bytes, &[zeros.whole()])
    }
}

/// A bug on purpose, to prove that the test of crashes detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The volume's writes during the copy do not reach the new device.
    ForgetsTheCopy,
    /// The new device is recorded as the member before it is flushed.
    NamesUnflushed,
    /// Superblocks are copied together with everything else.
    CopiesSuperblocksFirst,
    /// The new device gets no mark before the copy.
    MarksNothing,
    /// The new device is not read back. This is part of every other bug, too.
    VerifiesNothing,
    /// Writes to the copied part do not reach the old device, as if it had been removed.
    DropsTheOld,
}

/// Actions of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// A step of the copy.
    Step,
    /// A write or flush of the volume during the copy.
    Beside,
    Finish,
    /// A use of the volume with the new device as the member.
    After,
}

/// A device with a bug: it drops some of the operations.
struct Buggy {
    bug: Bug,
    is_new: bool,
    device: Arc<dyn Device>,
    old: Arc<dyn Device>,
    /// The present action, and the end of the part that was copied.
    moment: Arc<Mutex<(Moment, u64)>>,
}

impl Buggy {
    /// Wraps both devices of a pair with a bug.
    fn pair(
        bug: Bug,
        old: Arc<dyn Device>,
        new: Arc<dyn Device>,
        moment: &Arc<Mutex<(Moment, u64)>>,
    ) -> Both {
        let with = |is_new, device: &Arc<dyn Device>| -> Arc<dyn Device> {
            Arc::new(Buggy { bug, is_new, device: device.clone(), old: old.clone(), moment: moment.clone() })
        };
        (with(false, &old), with(true, &new))
    }
}

type Both = (Arc<dyn Device>, Arc<dyn Device>);

impl Device for Buggy {
    fn path(&self) -> &Path {
        self.device.path()
    }
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }
    fn block_len_bytes(&self) -> u32 {
        self.device.block_len_bytes()
    }
    fn identity(&self) -> Identity {
        self.device.identity()
    }
    fn read_at(&self, offset_bytes: u64, into: PartMut<'_>) -> Result<(), DeviceError> {
        // Reads of more than a block are those of the verification.
        let verifies = into.len() > BLOCK;
        if verifies { &self.old } else { &self.device }.read_at(offset_bytes, into)
    }
    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let mut moment = self.moment.lock().expect("a moment");
        let len: usize = parts.iter().map(|part| part.bytes().len()).sum();
        let end = offset_bytes + len as u64;
        let is_lost = match (self.bug, self.is_new, moment.0) {
            (Bug::ForgetsTheCopy, true, Moment::Beside) => true,
            (Bug::DropsTheOld, false, Moment::Beside) => end <= moment.1,
            (Bug::MarksNothing, true, Moment::Step) => parts.iter().all(|part| part.bytes()[0] == MARK),
            _ => false,
        };
        if self.is_new && moment.0 == Moment::Step && len > BLOCK {
            moment.1 = end;
        }
        drop(moment);
        if is_lost { Ok(()) } else { self.device.write_at(offset_bytes, parts) }
    }
    fn flush(&self) -> Result<(), DeviceError> {
        let moment = self.moment.lock().expect("a moment").0;
        let is_lost = (self.bug, self.is_new, moment) == (Bug::NamesUnflushed, true, Moment::Finish);
        if is_lost { Ok(()) } else { self.device.flush() }
    }
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.device.discard(offset_bytes, len_bytes)
    }
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.device.zero(offset_bytes, len_bytes)
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn fill(byte: u8, blocks: u64) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(blocks as usize * BLOCK);
    buffer.fill(byte);
    buffer
}

/// Runs a replacement with writes and flushes between its steps. Returns all events.
fn replaced(seed: u64, bug: Option<Bug>) -> Vec<Did> {
    let mut random = Random(seed);
    let history: Arc<Mutex<Vec<Did>>> = Arc::default();
    let device = |number: usize| {
        let device = MemoryDevice::with_block_len(format!("{number}"), BLOCKS * BLOCK as u64, BLOCK as u32);
        Arc::new(Told { number, device, history: history.clone() })
    };
    let (old, new) = (device(OLD), device(NEW));
    let tell = |did: Did| history.lock().expect("a history").push(did);
    let write = |on: &dyn Device, at: u64, byte: u8, blocks: u64| {
        (at..at + blocks).for_each(|at| tell(Did::Asked(at, byte)));
        on.write_at(at * BLOCK as u64, &[fill(byte, blocks).whole()]).expect("memory");
    };
    // The old device has data in some blocks and in all superblocks.
    for at in 0..BLOCKS {
        if WITHHELD.contains(&at) || random.below(3) == 0 {
            write(&*old, at, 1 + random.below(250) as u8, 1);
        }
    }
    old.flush().expect("memory");
    tell(Did::Told);
    let mut withheld = WITHHELD.map(|block| block * BLOCK as u64).to_vec();
    if bug == Some(Bug::CopiesSuperblocksFirst) {
        withheld.clear();
    }
    let mark = [MARK; BLOCK];
    let moment = Arc::new(Mutex::new((Moment::Step, 0)));
    let now = |at: Moment| moment.lock().expect("a moment").0 = at;
    let both: Both = match bug {
        Some(bug) => Buggy::pair(bug, old, new, &moment),
        None => (old, new),
    };
    let twin = Twin::new(both, BLOCKS * BLOCK as u64, withheld, &mark, Patience::USUAL);
    let use_it = |random: &mut Random, twin: &Twin| {
        for _ in 0..random.below(6) {
            match random.below(4) {
                0 => {
                    twin.flush().expect("memory");
                    tell(Did::Told);
                }
                1 => write(twin, WITHHELD[random.below(3) as usize], 1 + random.below(250) as u8, 1),
                _ => {
                    let (at, byte) = (random.below(BLOCKS - 4), random.below(251) as u8);
                    write(twin, at, byte, 1 + random.below(4));
                }
            }
        }
    };
    loop {
        now(Moment::Beside);
        use_it(&mut random, &twin);
        now(Moment::Step);
        match twin.step().expect("memory") {
            Step::Copied(_) => {}
            Step::Ready => break,
            Step::Over => panic!("nothing fails here"),
        }
    }
    now(Moment::Beside);
    use_it(&mut random, &twin);
    now(Moment::Finish);
    let name = || {
        tell(Did::Named);
        Ok::<(), ()>(())
    };
    assert_eq!(twin.finish(name), Ok(true));
    now(Moment::After);
    use_it(&mut random, &twin);
    drop(twin);
    Arc::into_inner(history).expect("the devices are gone").into_inner().expect("a history")
}

/// Judges the two devices after a crash behind these events, for the member that is recorded then.
fn judge(history: &[Did], keeps: &mut impl FnMut() -> bool) -> Result<(), String> {
    let mut devices: [BTreeMap<u64, Vec<u8>>; 2] = Default::default();
    // Possible content of each block: the last durable write, and all writes requested since.
    let mut may_be: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut named = OLD;
    for did in history {
        match *did {
            Did::Wrote(device, at, byte) => devices[device].entry(at).or_insert_with(|| vec![0]).push(byte),
            Did::Flushed(device) => {
                devices[device].values_mut().for_each(|all| drop(all.drain(..all.len() - 1)))
            }
            Did::Asked(at, byte) => may_be.entry(at).or_insert_with(|| vec![0]).push(byte),
            Did::Told => may_be.values_mut().for_each(|all| drop(all.drain(..all.len() - 1))),
            Did::Named => named = NEW,
        }
    }
    let left = devices.map(|blocks| {
        let mut end = |all: Vec<u8>| {
            // Any of the unflushed writes of a block may be the last that reached the medium.
            let kept = 1 + all[1..].iter().filter(|_| keeps()).count();
            all[kept - 1]
        };
        blocks.into_iter().map(|(at, all)| (at, end(all))).collect::<BTreeMap<u64, u8>>()
    });
    let is_right = |device: usize| {
        let wrong = may_be.iter().find(|(at, all)| !all.contains(left[device].get(at).unwrap_or(&0)));
        wrong.map_or(Ok(()), |(at, all)| {
            Err(format!("block {at} of {device} is {:?} and not of {all:?}", left[device].get(at)))
        })
    };
    is_right(named)?;
    let is_marked = WITHHELD.iter().any(|at| left[NEW].get(at) == Some(&MARK));
    let says_something = WITHHELD.iter().any(|at| left[NEW].get(at).is_some_and(|&byte| byte != 0));
    let last_copy = history.iter().rev().find_map(|did| match did {
        Did::Wrote(NEW, at, byte) if *at == WITHHELD[2] => Some(*byte),
        _ => None,
    });
    let has_some = history.iter().any(|did| matches!(did, Did::Wrote(NEW, at, _) if !WITHHELD.contains(at)));
    if has_some && last_copy.is_none_or(|byte| byte == MARK) && !is_marked {
        return Err("a copy under way has no mark".into());
    }
    if named == OLD && says_something && !is_marked {
        // A new device with a superblock but without a mark must be a complete copy.
        let is_copy = |(at, all): (&u64, &Vec<u8>)| {
            WITHHELD.contains(at) || all.contains(left[NEW].get(at).unwrap_or(&0))
        };
        if !may_be.iter().all(is_copy) {
            return Err("a device in part says that it is the volume's".into());
        }
    }
    Ok(())
}

/// Returns the first fault that a crash shows with one of these seeds.
fn first_fault(seeds: std::ops::Range<u64>, bug: Option<Bug>) -> Option<String> {
    for seed in seeds {
        let history = replaced(seed, bug);
        let mut random = Random(!seed);
        // Copies are many similar events. So crashes are tested at every other event, and at a
        // sample of the copies.
        for end in 1..=history.len() {
            let near = history[end.saturating_sub(2)..(end + 2).min(history.len())].iter();
            if !near.clone().any(|did| !matches!(did, Did::Wrote(..))) && random.below(64) > 0 {
                continue;
            }
            for bias in [0, 1, 2] {
                let mut keeps = || bias == 2 || (bias == 1 && random.below(2) == 0);
                if let Err(why) = judge(&history[..end], &mut keeps) {
                    return Some(format!("seed {seed}, event {end}: {why}"));
                }
            }
        }
    }
    None
}

#[test]
fn a_crash_at_any_moment_of_a_replacement_leaves_the_old_device_or_the_new_one() {
    assert_eq!(first_fault(0..20, None), None);
}

#[test]
fn bugs_planted_in_a_replacement_are_caught() {
    let bugs = [
        Bug::ForgetsTheCopy,
        Bug::NamesUnflushed,
        Bug::CopiesSuperblocksFirst,
        Bug::DropsTheOld,
        Bug::MarksNothing,
    ];
    for bug in bugs {
        assert_ne!(first_fault(0..20, Some(bug)), None, "{bug:?}");
    }
    // With only this bug, a crash shows no fault.
    assert_eq!(first_fault(0..2, Some(Bug::VerifiesNothing)), None);
}

fn pair() -> (Arc<Faulty<MemoryDevice>>, Arc<Faulty<MemoryDevice>>, Twin) {
    pair_with(None)
}

fn pair_with(bug: Option<Bug>) -> (Arc<Faulty<MemoryDevice>>, Arc<Faulty<MemoryDevice>>, Twin) {
    let device = |name: &str| {
        Arc::new(Faulty::new(MemoryDevice::with_block_len(name, BLOCKS * BLOCK as u64, BLOCK as u32)))
    };
    let (old, new) = (device("old"), device("new"));
    for at in 0..BLOCKS {
        old.write_at(at * BLOCK as u64, &[fill(at as u8, 1).whole()]).expect("memory");
    }
    let withheld = WITHHELD.map(|block| block * BLOCK as u64).to_vec();
    let both: Both = match bug {
        Some(bug) => Buggy::pair(bug, old.clone(), new.clone(), &Arc::new(Mutex::new((Moment::Step, 0)))),
        None => (old.clone(), new.clone()),
    };
    let twin = Twin::new(both, BLOCKS * BLOCK as u64, withheld, &[], Patience::USUAL);
    (old, new, twin)
}

fn byte_at(device: &dyn Device, block: u64) -> Result<u8, DeviceError> {
    let mut found = AlignedBuf::zeroed(BLOCK);
    device.read_at(block * BLOCK as u64, found.whole_mut()).map(|()| found[0])
}

const EIO: i32 = 5;

/// The number of writes with which the copy marks the new device.
const MARKS: u64 = WITHHELD.len() as u64;

fn steps_until_ready(twin: &Twin) -> bool {
    loop {
        match twin.step().expect("the old device works") {
            Step::Copied(_) => {}
            step => return step == Step::Ready,
        }
    }
}

#[test]
fn a_copy_is_marked_as_one_until_it_is_finished_and_not_any_more_when_it_is_cancelled() {
    let marked = |device: &dyn Device| WITHHELD.map(|at| byte_at(device, at).expect("memory"));
    for is_cancelled in [false, true] {
        let (old, new, twin) = pair();
        let withheld = WITHHELD.map(|block| block * BLOCK as u64).to_vec();
        // The new device has superblocks, as after a crash at the end of an earlier copy.
        WITHHELD
            .iter()
            .for_each(|&at| new.write_at(at * BLOCK as u64, &[fill(9, 1).whole()]).expect("memory"));
        let both: Both = (old.clone(), new.clone());
        let twin = Twin::new(both, twin.len_bytes, withheld, &[MARK; BLOCK], Patience::USUAL);
        assert_eq!(twin.step(), Ok(Step::Copied(0)));
        assert_eq!(marked(&*new), [MARK; 3]);
        assert!(steps_until_ready(&twin));
        assert_eq!(marked(&*new), [MARK; 3], "a write of the volume to a superblock or a copy took it");
        if is_cancelled {
            twin.cancel();
            assert_eq!(twin.progress().0, Phase::Abandoned(Ended::Cancelled));
            twin.let_go_of_new();
            assert_eq!(marked(&*new), [0; 3]);
            twin.write_at(BLOCK as u64 * 99, &[fill(90, 1).whole()]).expect("memory");
            assert_eq!((byte_at(&*old, 99), byte_at(&*new, 99)), (Ok(90), Ok(99)));
            assert_eq!(byte_at(&*new, 9), Ok(0), "its front is blank again");
            assert_eq!((twin.step(), twin.finish(|| Ok::<(), ()>(()))), (Ok(Step::Over), Ok(false)));
        } else {
            assert_eq!(twin.finish(|| Ok::<(), ()>(())), Ok(true));
            assert_eq!(marked(&*new), marked(&*old));
        }
    }
}

#[test]
fn a_copy_that_lost_writes_is_found_and_the_old_device_stays() {
    let at = |block: u64| block * BLOCK as u64..(block + 1) * BLOCK as u64;
    // The lost write is of a copied block, of a block written during the copy, or of a superblock.
    for lost in [BLOCKS / 2, 5, 1] {
        for bug in [None, Some(Bug::VerifiesNothing)] {
            let (old, new, twin) = pair_with(bug);
            assert_eq!(twin.step(), Ok(Step::Copied(0)), "the mark");
            if lost == 5 {
                assert_eq!(twin.step(), Ok(Step::Copied(STEP_BYTES as u64)));
                new.fail_within(OpKind::Write, at(lost), Fault::Lost);
                twin.write_at(lost * BLOCK as u64, &[fill(77, 1).whole()]).expect("memory");
                new.heal();
            } else {
                new.fail_within(OpKind::Write, at(lost), Fault::Lost);
            }
            let is_ready = steps_until_ready(&twin);
            let finished = twin.finish(|| Ok::<(), ()>(())).expect("it is named");
            let is_superblock = lost == 1;
            assert_eq!(is_ready, is_superblock || bug.is_some(), "block {lost}, {bug:?}");
            assert_eq!(finished, !is_superblock && bug.is_some(), "block {lost}, {bug:?}");
            if finished {
                continue;
            }
            let Phase::Abandoned(Ended::Differs { at: differs }) = twin.progress().0 else {
                panic!("{:?}", twin.progress())
            };
            // A step of the copy is one write, and was lost as a whole.
            assert!((at(lost).start.saturating_sub(STEP_BYTES as u64)..at(lost).end).contains(&differs));
            let want = if lost == 5 { 77 } else { lost as u8 };
            assert_eq!((byte_at(&twin, lost), byte_at(&*old, lost)), (Ok(want), Ok(want)));
            assert!(WITHHELD.iter().all(|&at| byte_at(&*new, at) == Ok(0)), "it passes for a member");
        }
    }
}

#[test]
fn a_new_device_that_fails_leaves_the_old_one_alone() {
    let (old, new, twin) = pair();
    assert_eq!(twin.step(), Ok(Step::Copied(0)), "the mark");
    assert_eq!(twin.step(), Ok(Step::Copied(STEP_BYTES as u64)));
    new.fail_from(OpKind::Write, 1, Fault::Errno(EIO));
    twin.write_at(2 * BLOCK as u64, &[fill(77, 1).whole()]).expect("the old device writes");
    assert!(matches!(twin.progress().0, Phase::Abandoned(Ended::Failed(_))));
    assert_eq!((byte_at(&*old, 2), byte_at(&twin, 2)), (Ok(77), Ok(77)));
    assert_eq!(twin.step(), Ok(Step::Over));
    assert_eq!(twin.finish(|| Ok::<(), ()>(())), Ok(false));
}

#[test]
fn blocks_unreadable_on_the_old_device_are_read_from_the_copy() {
    let (old, new, twin) = pair();
    let bad = |block: u64| block * BLOCK as u64..(block + 1) * BLOCK as u64;
    old.fail_within(OpKind::Read, bad(5), Fault::Errno(EIO));
    while !matches!(twin.step().expect("it copies around it"), Step::Ready) {}
    assert_eq!((twin.unreadable_blocks(), byte_at(&*new, 5), byte_at(&*new, 6)), (1, Ok(0), Ok(6)));
    old.fail_within(OpKind::Read, bad(7), Fault::Errno(EIO));
    assert_eq!((byte_at(&twin, 7), byte_at(&twin, 8)), (Ok(7), Ok(8)));
    assert!(byte_at(&*old, 7).is_err());
}

#[test]
fn a_new_device_that_cannot_be_named_is_wiped_and_the_old_one_goes_on() {
    let (old, new, twin) = pair();
    while !matches!(twin.step().expect("memory"), Step::Ready) {}
    assert_eq!(twin.finish(|| Err("no room")), Err("no room"));
    assert_eq!(twin.progress().0, Phase::Abandoned(Ended::NotNamed));
    assert!(WITHHELD.iter().all(|&at| byte_at(&*new, at) == Ok(0)));
    twin.write_at(0, &[fill(9, 1).whole()]).expect("memory");
    assert_eq!((byte_at(&*old, 0), byte_at(&*new, 0)), (Ok(9), Ok(0)));
}

/// Checks that a device that hangs delays neither `finish` nor other writers.
#[test]
fn a_finish_does_not_wait_for_a_write_that_does_not_end() {
    let (old, new, twin) = pair();
    while !matches!(twin.step().expect("memory"), Step::Ready) {}
    old.fail_nth(OpKind::Write, BLOCKS + 1, Fault::Delay(WRITES_END * 2));
    std::thread::scope(|scope| {
        let hangs = scope.spawn(|| twin.write_at(BLOCK as u64 * 9, &[fill(90, 1).whole()]));
        while twin.lock().writes.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(twin.finish(|| Ok::<(), ()>(())), Ok(false));
        assert_eq!(twin.progress().0, Phase::Copies);
        twin.write_at(BLOCK as u64 * 10, &[fill(91, 1).whole()]).expect("it is let in");
        hangs.join().expect("a thread").expect("it ends at last");
    });
    assert_eq!(twin.finish(|| Ok::<(), ()>(())), Ok(true));
    assert_eq!((byte_at(&*new, 9), byte_at(&*new, 10)), (Ok(90), Ok(91)));
}

#[test]
fn writers_beside_the_copy_lose_nothing() {
    let (_, new, twin) = pair();
    let (twin, rounds) = (&twin, 400u64);
    let mut last = vec![0; BLOCKS as usize];
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                scope.spawn(move || {
                    let mut random = Random(writer);
                    let mut own = BTreeMap::new();
                    for round in 0..rounds {
                        // Each writer has its own blocks, so that the expected content is known.
                        let at = 4 * random.below(BLOCKS / 4) + writer;
                        let byte = (round % 251) as u8;
                        twin.write_at(at * BLOCK as u64, &[fill(byte, 1).whole()]).expect("memory");
                        own.insert(at, byte);
                    }
                    own
                })
            })
            .collect();
        while !matches!(twin.step().expect("memory"), Step::Ready) {}
        assert_eq!(twin.finish(|| Ok::<(), ()>(())), Ok(true));
        (0..BLOCKS).for_each(|at| last[at as usize] = at as u8);
        for writer in writers {
            writer.join().expect("it writes").into_iter().for_each(|(at, byte)| last[at as usize] = byte);
        }
    });
    for at in 0..BLOCKS {
        assert_eq!(byte_at(&*new, at), Ok(last[at as usize]), "block {at}");
    }
}

/// Returns a pair of devices with short time limits.
fn impatient_pair() -> (Arc<Faulty<MemoryDevice>>, Arc<Faulty<MemoryDevice>>, Twin) {
    let (old, new, twin) = pair();
    let brief = Duration::from_millis(200);
    let patience = Patience { hangs: brief, held: brief, copy_flushed: brief };
    let len_bytes = twin.len_bytes;
    drop(twin);
    let withheld = WITHHELD.map(|block| block * BLOCK as u64).to_vec();
    let both: Both = (old.clone(), new.clone());
    let twin = Twin::new(both, len_bytes, withheld, &[], patience);
    (old, new, twin)
}

/// A device hangs for longer than this test waits.
const LONG: Fault = Fault::Delay(Duration::from_secs(2));

#[test]
fn a_new_device_that_hangs_is_left_behind_before_the_volume_gives_both_up() {
    let (old, new, twin) = impatient_pair();
    assert_eq!(twin.step(), Ok(Step::Copied(0)), "the mark");
    assert_eq!(twin.step(), Ok(Step::Copied(STEP_BYTES as u64)));
    new.fail_from(OpKind::Write, MARKS + 2, LONG);
    let begun = Instant::now();
    twin.write_at(2 * BLOCK as u64, &[fill(77, 1).whole()]).expect("the old device writes");
    assert!(begun.elapsed() < Duration::from_secs(2), "it waited for the new one");
    assert!(matches!(twin.progress().0, Phase::Abandoned(Ended::Failed(DeviceError::Gone { .. }))));
    twin.write_at(3 * BLOCK as u64, &[fill(78, 1).whole()]).expect("it goes on");
    assert_eq!((byte_at(&*old, 2), byte_at(&*old, 3), byte_at(&twin, 2)), (Ok(77), Ok(78), Ok(77)));
    assert_eq!(twin.step(), Ok(Step::Over));
}

#[test]
fn a_new_device_that_hangs_while_it_gets_superblocks_ends_without_them() {
    // The first two flushes are those of the mark and of the copy.
    for (kind, nth) in [(OpKind::Flush, 3), (OpKind::Write, MARKS + 2), (OpKind::Flush, 4)] {
        let (old, new, twin) = impatient_pair();
        while !matches!(twin.step().expect("memory"), Step::Ready) {}
        let copied = BLOCKS / (STEP_BYTES / BLOCK) as u64;
        // The first and the last step each leave out superblocks at one end, so they are one write
        // each.
        new.fail_nth(kind, if kind == OpKind::Write { copied + nth } else { nth }, LONG);
        let begun = Instant::now();
        assert_eq!(twin.finish(|| -> Result<(), ()> { panic!("it is no copy") }), Ok(false), "{kind:?}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{kind:?}: it waited for the new device");
        assert!(matches!(twin.progress().0, Phase::Abandoned(Ended::Failed(DeviceError::Gone { .. }))));
        twin.write_at(0, &[fill(9, 1).whole()]).expect("the old one goes on");
        assert_eq!(byte_at(&*old, 0), Ok(9));
        // When the late write ends, the superblocks of the new device are wiped.
        while !WITHHELD.iter().all(|&at| byte_at(&*new, at) == Ok(0)) || begun.elapsed().as_secs() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{kind:?}: it passes for a member");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn an_old_device_that_hangs_when_superblocks_are_read_is_tried_again() {
    let (old, new, twin) = impatient_pair();
    while !matches!(twin.step().expect("memory"), Step::Ready) {}
    old.fail_within(OpKind::Read, 0..BLOCK as u64, LONG);
    assert_eq!(twin.finish(|| -> Result<(), ()> { panic!("it is no copy") }), Ok(false));
    assert_eq!((twin.progress().0, byte_at(&*new, 1)), (Phase::Copies, Ok(0)));
    old.heal();
    let begun = Instant::now();
    while twin.finish(|| Ok::<(), ()>(())) == Ok(false) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is not tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((byte_at(&*new, 1), byte_at(&*new, 9)), (Ok(1), Ok(9)));
}
