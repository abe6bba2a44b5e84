//! The users' expectations: for each block, the contents that a read may return now and after a
//! crash.
//!
//! Every write and trim makes a *version* of each of its blocks, with the time when it was
//! requested and the time when it was answered. Version w *follows* v if v was over before w was
//! requested. A read may return v unless some w follows v and was over before the read was
//! requested. A crash may leave v unless some durable w follows v. So requests may overlap in any
//! way.
//!
//! A version is durable once a flush is answered that was requested after the version was answered,
//! or once its own durable write is answered. After a crash it is unknown which of the remaining
//! versions is on the devices, until a read returns one, which then stays. That version is then
//! over, and follows all versions that were answered before the read was requested.
//!
//! Blocks are independent: an unanswered request of many blocks may be done in part.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pantile_volume::{Failure, RequestId, UserBlock};

use crate::epochs::Epochs;
use crate::random::mix;
use crate::{Ask, Data, Kill, Told};

const ZEROS: Data = [0; 16];

/// The user's view of a volume.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) blocks: Vec<Vec<Version>>,
    pub(crate) open: BTreeMap<RequestId, Open>,
    /// Blocks with a version that is not durable.
    pub(crate) dirty: BTreeSet<usize>,
    pub(crate) epochs: Epochs,
    pub(crate) now: Tick,
    pub(crate) salt: u64,
    pub(crate) made: BTreeMap<Data, UserBlock>,
}

/// A clock of events. Its ticks are even, so that there is room between two.
pub(crate) type Tick = u64;

pub(crate) const NEVER: Tick = Tick::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) content: Data,
    pub(crate) request: Option<RequestId>,
    pub(crate) asked: Tick,
    pub(crate) answered: Tick,
    /// When it was over: when it was answered, or first seen by a read.
    pub(crate) over: Tick,
    pub(crate) durable: bool,
    /// It was on the devices after a power failure: if it is the remaining version, it is durable.
    pub(crate) survived: bool,
    /// The request that ended an epoch with this version. The versions of one end are there
    /// together or not at all.
    pub(crate) end: Option<RequestId>,
    /// It was written after such a request, whether that was answered or not, so it may be there
    /// whatever became of the end.
    pub(crate) since: bool,
}

impl Version {
    /// Returns true if it was written after an undecided end of an epoch, and does not decide it.
    pub(crate) fn is_since(&self) -> bool {
        self.request.is_some() || self.since
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) asked: Tick,
    pub(crate) ask: Ask,
}

/// An answer that a user must not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A block has an impossible content.
    Content {
        /// The block.
        block: UserBlock,
        /// The content that the read returned.
        got: Data,
        /// The possible contents.
        may: Vec<Data>,
        /// Kind of wrong content.
        verdict: Verdict,
    },
    /// A request within the volume and within the promise failed.
    Failed {
        /// The request.
        request: RequestId,
        /// The reason given by the engine.
        failure: Failure,
    },
    /// A request from outside wrote to a block of an open epoch.
    LetIn {
        /// The request.
        request: RequestId,
    },
    /// An epoch reports the loss of a block that it has not written.
    LostOfOthers {
        /// The block.
        block: UserBlock,
    },
    /// A request beyond the end of the volume was not refused for that reason.
    NotRefused {
        /// The request.
        request: RequestId,
    },
}

/// Kind of wrong content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An older version of the block, or one that was lost.
    Stale,
    /// Zeros instead of data.
    Zeros,
    /// A version of another block.
    Foreign {
        /// The other block.
        of: UserBlock,
    },
    /// Sectors of several versions of the block.
    Torn,
    /// A content that was never written.
    Garbage,
}

impl Model {
    /// Makes the model of a new volume: all zeros, durable.
    pub fn new(blocks: u64, seed: u64) -> Model {
        let zeros = Version {
            content: ZEROS,
            request: None,
            asked: 0,
            answered: 0,
            over: 0,
            durable: true,
            survived: false,
            end: None,
            since: false,
        };
        Model {
            blocks: vec![vec![zeros]; blocks as usize],
            open: BTreeMap::new(),
            dirty: BTreeSet::new(),
            epochs: Epochs::default(),
            now: 0,
            salt: mix(seed),
            made: BTreeMap::new(),
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns a new, unique content for a block.
    pub fn fresh(&mut self, block: UserBlock) -> Data {
        let number = self.made.len() as u64 + 1;
        let mut content = ZEROS;
        content[..8].copy_from_slice(&mix(self.salt ^ number).to_le_bytes());
        content[8..].copy_from_slice(&mix(!self.salt ^ mix(number)).to_le_bytes());
        assert!(self.made.insert(content, block).is_none(), "the first half is one to one");
        content
    }

    /// Notes a request.
    pub fn asked(&mut self, id: RequestId, ask: &Ask) {
        let asked = self.tick();
        if self.is_within(ask) {
            match ask {
                Ask::Write { first, contents, .. } => {
                    for (block, &content) in (first.0 as usize..).zip(contents) {
                        self.add_version(block, content, id, asked);
                    }
                }
                &Ask::Trim { first, count } => {
                    for block in first.0..first.0 + count {
                        self.add_version(block as usize, ZEROS, id, asked);
                    }
                }
                Ask::Read { .. } | Ask::Flush => {}
                _ => self.asked_of_epoch(id, ask, asked),
            }
        }
        self.open.insert(id, Open { asked, ask: ask.clone() });
    }

    /// Takes the answer to a request. Panics if the request was not made; the world prevents that.
    pub fn answered(&mut self, id: RequestId, told: &Told) -> Result<(), Wrong> {
        let now = self.tick();
        let open = self.open.remove(&id).expect("the request is open");
        let within = self.is_within(&open.ask);
        if let Some(done) = self.answered_of_epoch(id, &open, told, now) {
            return done;
        }
        match told {
            Told::Failed(Failure::OutOfRange { end }) if !within && end.0 == self.blocks() => return Ok(()),
            _ if !within => return Err(Wrong::NotRefused { request: id }),
            Told::Failed(failure) => return Err(Wrong::Failed { request: id, failure: failure.clone() }),
            _ => {}
        }
        match (&open.ask, told) {
            (Ask::Read { first, .. }, Told::Blocks(contents)) => {
                for (block, content) in (first.0..).zip(contents) {
                    self.seen(UserBlock(block), content.unwrap_or(ZEROS), open.asked)?;
                }
            }
            (Ask::Write { first, contents, durable }, _) => {
                (first.0..).zip(contents).for_each(|(block, _)| self.over(block as usize, id, now, *durable));
            }
            (&Ask::Trim { first, count }, _) => {
                (first.0..first.0 + count).for_each(|block| self.over(block as usize, id, now, false));
            }
            _ => self.flushed(open.asked),
        }
        Ok(())
    }

    /// Ends everything at once; open requests get no answer.
    pub fn crashed(&mut self, kill: Kill) {
        let now = self.tick();
        self.forget_epochs();
        self.open.clear();
        for (block, versions) in self.blocks.iter_mut().enumerate() {
            if let [only] = &versions[..]
                && only.durable
            {
                continue;
            }
            let mut left: Vec<Version> = Vec::new();
            // If an end wrote the same content as before it, a read of that content does not decide
            // it.
            let mut is_clear = true;
            let end_asked = versions.iter().filter(|version| version.end.is_some()).map(|v| v.asked).min();
            for version in versions.iter() {
                let replaced = versions.iter().any(|later| later.durable && version.over < later.asked);
                let survived = kill == Kill::Power || version.survived;
                let is_late = version.end.is_none() && end_asked.is_some_and(|end| version.asked > end);
                let since = version.since || is_late;
                match left.iter_mut().find(|other| other.content == version.content) {
                    _ if replaced => {}
                    Some(other) => {
                        other.survived |= survived;
                        other.since |= since;
                        is_clear &= other.end == version.end;
                    }
                    None => left.push(Version {
                        request: None,
                        asked: 0,
                        answered: now,
                        over: now,
                        durable: false,
                        survived,
                        end: version.end,
                        since,
                        content: version.content,
                    }),
                }
            }
            left.iter_mut().filter(|_| !is_clear).for_each(|version| version.end = None);
            // If a single version has survived, it is known without a read.
            if let [only] = &mut left[..] {
                only.durable = true;
                self.dirty.remove(&block);
            } else {
                self.dirty.insert(block);
            }
            *versions = left;
        }
    }

    pub(crate) fn tick(&mut self) -> Tick {
        self.now += 2;
        self.now
    }

    fn is_within(&self, ask: &Ask) -> bool {
        let end = match ask {
            Ask::Read { first, count } => first.0.checked_add(u64::from(*count)),
            Ask::Write { first, contents, .. } => first.0.checked_add(contents.len() as u64),
            Ask::Trim { first, count } => first.0.checked_add(*count),
            _ => Some(0),
        };
        end.is_some_and(|end| end <= self.blocks())
    }

    pub(crate) fn add_version(&mut self, block: usize, content: Data, request: RequestId, asked: Tick) {
        self.blocks[block].push(Version {
            content,
            request: Some(request),
            asked,
            answered: NEVER,
            over: NEVER,
            durable: false,
            survived: false,
            end: None,
            since: false,
        });
        self.dirty.insert(block);
    }

    fn over(&mut self, block: usize, request: RequestId, now: Tick, durable: bool) {
        if let Some(version) = self.blocks[block].iter_mut().find(|version| version.request == Some(request))
        {
            version.answered = now;
            version.over = version.over.min(now);
            version.durable |= durable;
        }
        self.prune(block);
    }

    fn flushed(&mut self, asked: Tick) {
        for block in std::mem::take(&mut self.dirty) {
            for version in self.blocks[block].iter_mut().filter(|version| version.answered < asked) {
                version.durable = true;
            }
            if self.blocks[block].iter().any(|version| !version.durable) {
                self.dirty.insert(block);
            }
            self.prune(block);
        }
    }

    /// Forgets versions that no read under way and no crash can bring back.
    pub(crate) fn prune(&mut self, block: usize) {
        let reads = self.open.values().filter(|open| matches!(open.ask, Ask::Read { .. }));
        let oldest = reads.map(|open| open.asked).min().unwrap_or(NEVER);
        let versions = &mut self.blocks[block];
        if versions.len() > 1 {
            let durable: Vec<(Tick, Tick)> = versions
                .iter()
                .filter(|version| version.durable && version.over < oldest)
                .map(|version| (version.asked, version.over))
                .collect();
            versions.retain(|version| !durable.iter().any(|&(asked, _)| version.over < asked));
        }
    }

    /// Takes the content that a read returned which was requested at a time.
    fn seen(&mut self, block: UserBlock, got: Data, asked: Tick) -> Result<(), Wrong> {
        let versions = &self.blocks[block.0 as usize];
        let acceptable = |version: &Version, all: &[Version]| {
            !all.iter().any(|later| version.over < later.asked && later.over < asked)
        };
        let fitting: Vec<usize> = (0..versions.len())
            .filter(|&i| versions[i].content == got && acceptable(&versions[i], versions))
            .collect();
        let Some(&which) = fitting.first() else {
            let may = versions.iter().filter(|version| acceptable(version, versions));
            let may = may.map(|version| version.content).collect();
            return Err(Wrong::Content { block, got, may, verdict: self.verdict(block, got) });
        };
        if self.decided_by(block, which) {
            return Ok(());
        }
        // Two trims have the same content, and then their order is unknown.
        if fitting.len() == 1 {
            self.put_last(block, which, asked);
        }
        Ok(())
    }

    /// Makes a version follow every other that was over at a time: those were over before it was
    /// requested.
    fn put_last(&mut self, block: UserBlock, which: usize, time: Tick) {
        let now = self.now;
        let versions = &mut self.blocks[block.0 as usize];
        let over = versions[which].over.min(now);
        let mut before = 0;
        for (_, other) in
            versions.iter_mut().enumerate().filter(|(i, other)| *i != which && other.over < time)
        {
            other.over = other.over.min(over - 1);
            before = before.max(other.over + 1);
        }
        let version = &mut versions[which];
        version.over = over;
        version.asked = version.asked.max(before);
        version.durable |= version.survived;
        self.prune(block.0 as usize);
    }

    fn verdict(&self, block: UserBlock, got: Data) -> Verdict {
        match self.made.get(&got) {
            Some(&of) if of == block => return Verdict::Stale,
            Some(&of) => return Verdict::Foreign { of },
            None if got == ZEROS => return Verdict::Zeros,
            None => {}
        }
        let own: Vec<&Data> =
            self.made.iter().filter(|&(_, &of)| of == block).map(|(content, _)| content).collect();
        let known =
            |at: usize, two: &[u8]| two == [0, 0] || own.iter().any(|content| content[at * 2..][..2] == *two);
        if got.chunks(2).enumerate().all(|(at, two)| known(at, two)) {
            Verdict::Torn
        } else {
            Verdict::Garbage
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Content { block, got, may, verdict } => {
                write!(out, "user block {} reads as {} ({verdict}); it may be", block.0, Hex(got))?;
                may.iter().try_for_each(|content| write!(out, " {}", Hex(content)))
            }
            Wrong::Failed { request, failure } => {
                write!(out, "request {} failed within the promise: {failure:?}", request.0)
            }
            Wrong::LetIn { request } => {
                write!(out, "request {} wrote to what an open epoch holds", request.0)
            }
            Wrong::LostOfOthers { block } => {
                write!(out, "block {} is called lost by an epoch that never wrote it", block.0)
            }
            Wrong::NotRefused { request } => {
                write!(out, "request {} reaches beyond the volume and was not refused as such", request.0)
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Stale => out.write_str("an older or lost version of it"),
            Verdict::Zeros => out.write_str("zeros"),
            Verdict::Foreign { of } => write!(out, "a version of block {}", of.0),
            Verdict::Torn => out.write_str("sectors of several versions of it"),
            Verdict::Garbage => out.write_str("written by nobody"),
        }
    }
}

struct Hex<'a>(&'a Data);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct User {
        model: Model,
        next: u64,
    }

    impl User {
        fn new() -> User {
            User { model: Model::new(4, 1), next: 0 }
        }

        fn ask(&mut self, ask: Ask) -> RequestId {
            self.next += 1;
            self.model.asked(RequestId(self.next), &ask);
            RequestId(self.next)
        }

        fn write(&mut self, block: u64, durable: bool) -> (RequestId, Data) {
            let content = self.model.fresh(UserBlock(block));
            (self.ask(Ask::Write { first: UserBlock(block), contents: vec![content], durable }), content)
        }

        fn read(&mut self, block: u64) -> RequestId {
            self.ask(Ask::Read { first: UserBlock(block), count: 1 })
        }

        fn done(&mut self, id: RequestId) {
            self.model.answered(id, &Told::Done).unwrap();
        }

        fn gives(&mut self, id: RequestId, content: Data) -> Result<(), Wrong> {
            self.model.answered(id, &Told::Blocks(vec![Some(content)]))
        }

        /// Returns true if a read made now may return it; the model is unchanged.
        fn may(&self, block: u64, content: Data) -> bool {
            let mut user = User { model: self.model.clone(), next: self.next };
            let read = user.read(block);
            user.gives(read, content).is_ok()
        }

        fn may_after(&self, kill: Kill, block: u64, content: Data) -> bool {
            let mut user = User { model: self.model.clone(), next: self.next };
            user.model.crashed(kill);
            user.may(block, content)
        }
    }

    #[test]
    fn a_read_gives_the_last_write_answered_or_one_under_way() {
        let mut user = User::new();
        let (first, a) = user.write(0, false);
        assert!(user.may(0, ZEROS) && user.may(0, a));
        user.done(first);
        assert!(!user.may(0, ZEROS) && user.may(0, a));
        let (second, b) = user.write(0, false);
        assert!(user.may(0, a) && user.may(0, b));
        // Once a read has returned it, it stays.
        let read = user.read(0);
        user.gives(read, b).unwrap();
        assert!(!user.may(0, a) && user.may(0, b));
        user.done(second);
        assert!(!user.may(1, b) && user.may(1, ZEROS));
    }

    #[test]
    fn a_read_that_began_before_a_write_was_answered_may_give_the_old() {
        let mut user = User::new();
        let read = user.read(0);
        let (write, _) = user.write(0, true);
        user.done(write);
        user.gives(read, ZEROS).unwrap();
    }

    #[test]
    fn a_crash_leaves_what_a_flush_covered_or_anything_later() {
        let mut user = User::new();
        let (first, a) = user.write(0, false);
        user.done(first);
        let (second, b) = user.write(0, false);
        let flush = user.ask(Ask::Flush);
        user.done(second);
        assert!(user.may_after(Kill::Power, 0, ZEROS));
        user.done(flush);
        let (_, c) = user.write(0, false);
        assert!([a, b, c].into_iter().all(|content| user.may_after(Kill::Power, 0, content)));
        assert!(!user.may_after(Kill::Power, 0, ZEROS));
        let flush = user.ask(Ask::Flush);
        user.done(flush);
        assert!(!user.may_after(Kill::Power, 0, a));
        let (fourth, d) = user.write(0, true);
        user.done(fourth);
        assert!(user.may_after(Kill::Power, 0, d) && !user.may_after(Kill::Power, 0, b));
    }

    #[test]
    fn content_read_after_a_power_failure_stays() {
        let mut user = User::new();
        let (first, a) = user.write(0, false);
        user.done(first);
        user.model.crashed(Kill::Power);
        assert!(user.may(0, ZEROS) && user.may(0, a));
        let unread = user.model.clone();
        let read = user.read(0);
        user.gives(read, ZEROS).unwrap();
        assert!(!user.may(0, a) && !user.may_after(Kill::Power, 0, a));
        user.model = unread;
        user.model.crashed(Kill::Power);
        assert!(user.may(0, ZEROS) && user.may(0, a));
    }

    #[test]
    fn content_read_after_a_dead_process_can_be_lost_with_the_power() {
        let mut user = User::new();
        let (first, a) = user.write(0, false);
        user.done(first);
        user.model.crashed(Kill::Process);
        let read = user.read(0);
        user.gives(read, a).unwrap();
        assert!(!user.may(0, ZEROS) && user.may_after(Kill::Power, 0, ZEROS));
        let flush = user.ask(Ask::Flush);
        user.done(flush);
        assert!(!user.may_after(Kill::Power, 0, ZEROS) && user.may_after(Kill::Power, 0, a));
    }

    #[test]
    fn of_two_writes_at_a_time_the_one_seen_stays() {
        let mut user = User::new();
        let (first, a) = user.write(0, false);
        let (second, b) = user.write(0, false);
        user.done(first);
        user.done(second);
        assert!(user.may(0, a) && user.may(0, b) && !user.may(0, ZEROS));
        let read = user.read(0);
        user.gives(read, a).unwrap();
        assert!(user.may(0, a) && !user.may(0, b));
        assert!(user.may_after(Kill::Power, 0, b));
        let flush = user.ask(Ask::Flush);
        user.done(flush);
        assert!(user.may_after(Kill::Power, 0, a) && !user.may_after(Kill::Power, 0, b));
    }

    #[test]
    fn trimmed_blocks_are_zeros() {
        let mut user = User::new();
        let (write, a) = user.write(1, true);
        user.done(write);
        let trim = user.ask(Ask::Trim { first: UserBlock(0), count: 3 });
        assert!(user.may(1, a));
        user.done(trim);
        assert!(user.may(1, ZEROS) && !user.may(1, a));
        assert!(user.may_after(Kill::Power, 1, ZEROS) && user.may_after(Kill::Power, 1, a));
    }

    #[test]
    fn a_wrong_content_is_named() {
        let mut user = User::new();
        let [old, other, new] = [0, 1, 0].map(|block| {
            let (write, content) = user.write(block, false);
            user.done(write);
            content
        });
        let mut torn = old;
        torn[8..].copy_from_slice(&new[8..]);
        let cases = [
            (old, Verdict::Stale),
            (other, Verdict::Foreign { of: UserBlock(1) }),
            (torn, Verdict::Torn),
            (ZEROS, Verdict::Zeros),
            ([1; 16], Verdict::Garbage),
        ];
        for (got, expected) in cases {
            let read = user.read(0);
            match user.gives(read, got) {
                Err(Wrong::Content { verdict, may, .. }) => assert_eq!((verdict, may), (expected, vec![new])),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn requests_beyond_the_end_are_to_be_refused() {
        let mut user = User::new();
        let read = user.ask(Ask::Read { first: UserBlock(3), count: 2 });
        user.model.answered(read, &Told::Failed(Failure::OutOfRange { end: UserBlock(4) })).unwrap();
        let trim = user.ask(Ask::Trim { first: UserBlock(u64::MAX), count: 2 });
        assert_eq!(user.model.answered(trim, &Told::Done), Err(Wrong::NotRefused { request: trim }));
        let flush = user.ask(Ask::Flush);
        assert!(user.model.answered(flush, &Told::Failed(Failure::NotDurable)).is_err());
    }
}
