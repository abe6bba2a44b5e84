//! Epochs of delayed parity, for writers of checkpoints, and the clock that the engine lacks.
//!
//! ```no_run
//! # fn write(handle: &pantile_host::Handle, bytes: &[u8]) -> Result<(), pantile_host::HostError> {
//! let mut epoch = handle.begin(&pantile_host::EpochOptions::default())?;
//! epoch.write(0, bytes, false)?;
//! epoch.end()?;
//! # Ok(())
//! # }
//! ```
//!
//! The engine counts writes; this module gives the counts times. Parity that is pending for longer
//! than an epoch allows is written, and an epoch without requests is sealed or aborted.

use crate::inbox::Answer;
use crate::memory::BLOCK;
use crate::{Handle, HostError};
use pantile_volume::{EpochId, EpochState, EpochStatus, Failure, RequestId, UserBlock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::time::{Duration, Instant};

/// Default limit of the data whose parity is pending.
const OWED_BYTES_MAX: u64 = 256 << 20;

/// Times that are kept of an epoch's writes.
const SAMPLES: usize = 4096;

/// The end of an epoch that its owner does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// It is sealed as it is, or aborted if that fails.
    Seal,
    /// It leaves everything as it was.
    Abort,
}

/// Range, limits and policy of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochOptions {
    /// Offset and length in bytes; `None`: the volume. It holds whole stripes.
    pub range: Option<(u64, u64)>,
    /// Bytes of data whose parity may be pending; above it writers wait until parity is written.
    pub owed_bytes_max: u64,
    /// Age of pending parity that is written in advance.
    pub age_max: Option<Duration>,
    /// Time without a request after which it ends by its policy.
    pub idle_max: Option<Duration>,
    /// Its end then, and when the program that began it has gone.
    pub on_timeout: OnTimeout,
}

impl Default for EpochOptions {
    fn default() -> EpochOptions {
        EpochOptions {
            range: None,
            owed_bytes_max: OWED_BYTES_MAX,
            age_max: Some(Duration::from_secs(30)),
            idle_max: Some(Duration::from_secs(300)),
            on_timeout: OnTimeout::Abort,
        }
    }
}

/// An open epoch: reads, writes and flushes of its [`Handle`] are within it. Dropped without an
/// end, it is aborted.
pub struct Epoch {
    inner: Handle,
    id: EpochId,
    offset: u64,
    len: u64,
    closed: bool,
}

impl Epoch {
    pub(crate) fn new(inner: Handle, id: EpochId, first: UserBlock, count: u64) -> Epoch {
        let (offset, len) = (first.0 * BLOCK as u64, count * BLOCK as u64);
        Epoch { inner, id, offset, len, closed: false }
    }

    /// Its name, for other programs that write in it ([`Handle::within`]).
    pub fn id(&self) -> EpochId {
        self.id
    }

    /// Offset and length of its range.
    pub fn range(&self) -> (u64, u64) {
        (self.offset, self.len)
    }

    /// Writes the pending parity and seals the epoch: all of it survives a crash and becomes
    /// visible to all readers, or nothing.
    ///
    /// Errors: `EpochLost` with the ranges lost with a device; the epoch is open again, to be
    /// written there or aborted.
    pub fn end(&mut self) -> Result<(), HostError> {
        self.inner.close_epoch(self.id, true)?;
        self.closed = true;
        Ok(())
    }

    /// Restores the state before the epoch.
    pub fn abort(mut self) -> Result<(), HostError> {
        self.closed = true;
        self.inner.close_epoch(self.id, false)
    }

    /// Drops this value, but not the epoch.
    pub fn detach(mut self) -> EpochId {
        self.closed = true;
        self.id
    }
}

impl Deref for Epoch {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.inner
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        if !self.closed {
            // No caller is left for an error.
            let _ = self.inner.close_epoch(self.id, false);
        }
    }
}

/// The request for a new epoch.
pub(crate) struct EpochWish {
    pub(crate) first: UserBlock,
    pub(crate) count: u64,
    pub(crate) owed_blocks_max: u64,
    pub(crate) rules: Rules,
}

/// Time limits of an epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) age_max: Option<Duration>,
    pub(crate) idle_max: Option<Duration>,
    pub(crate) on_timeout: OnTimeout,
}

/// An epoch at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Its number.
    pub epoch: u64,
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub len_bytes: u64,
    /// `beginning`, `open`, `ending` or `sealing`.
    pub state: String,
    /// Stripes that it has written.
    pub stripes: u64,
    /// Those of them whose parity is pending.
    pub owed_stripes: u64,
    /// Data in them: the most that the loss of a device can cost.
    pub owed_bytes: u64,
    /// Limit of these data.
    pub owed_bytes_max: u64,
    /// Seconds since the oldest write whose parity is pending; none: no parity is.
    pub oldest_s: Option<u64>,
    /// Seconds since its last request.
    pub idle_s: u64,
    /// Seconds without a request after which it ends by its policy.
    pub idle_max_s: Option<u64>,
    /// Its end then.
    pub on_timeout: OnTimeout,
    /// Stripes whose parity was written and then not needed.
    pub wasted_stripes: u64,
    /// Ranges lost with devices before their parity was written.
    pub lost: Vec<LostRange>,
}

/// A range that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRange {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Converts ranges of blocks to bytes.
pub(crate) fn lost_ranges(ranges: &[(UserBlock, u64)]) -> Vec<LostRange> {
    let range = |&(first, count): &(UserBlock, u64)| LostRange {
        offset: first.0 * BLOCK as u64,
        len_bytes: count * BLOCK as u64,
    };
    ranges.iter().map(range).collect()
}

struct Watch {
    rules: Rules,
    last: Instant,
    /// Times and numbers of the newest writes then, the oldest first.
    samples: VecDeque<(Instant, u64)>,
    closing: bool,
}

type Begun = Answer<(EpochId, UserBlock, u64)>;

/// The clock of all epochs.
#[derive(Default)]
pub(crate) struct Watches {
    beginning: BTreeMap<RequestId, (Rules, Begun)>,
    open: BTreeMap<EpochId, Watch>,
    /// Ends by policy, which no caller waits for.
    by_policy: BTreeMap<RequestId, (EpochId, bool)>,
    hopeless: Vec<EpochId>,
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn beginning(&mut self, id: RequestId, rules: Rules, answer: Begun) {
        self.beginning.insert(id, (rules, answer));
    }

    pub(crate) fn begun(&mut self, id: RequestId, epoch: EpochId, first: UserBlock, count: u64) {
        let Some((rules, answer)) = self.beginning.remove(&id) else { return };
        let last = Instant::now();
        self.open.insert(epoch, Watch { rules, last, samples: VecDeque::new(), closing: false });
        answer.give(Ok((epoch, first, count)));
    }

    /// Takes a failure of a begin, or of an end by policy; returns any other.
    pub(crate) fn not_begun(&mut self, id: RequestId, failure: Failure) -> Option<Failure> {
        if let Some((_, answer)) = self.beginning.remove(&id) {
            answer.give(Err(HostError::Failed(failure)));
            return None;
        }
        if let Some((epoch, seal)) = self.by_policy.remove(&id) {
            self.hopeless.extend(seal.then_some(epoch));
            return None;
        }
        if let Failure::EpochLost { epoch, .. } = &failure
            && let Some(watch) = self.open.get_mut(epoch)
        {
            watch.closing = false;
        }
        Some(failure)
    }

    pub(crate) fn asked(&mut self, epoch: EpochId, now: Instant) {
        if let Some(watch) = self.open.get_mut(&epoch) {
            watch.last = now;
        }
    }

    pub(crate) fn closing(&mut self, epoch: EpochId) {
        if let Some(watch) = self.open.get_mut(&epoch) {
            watch.closing = true;
            watch.last = Instant::now();
        }
    }

    pub(crate) fn closed_by_policy(&mut self, id: RequestId, epoch: EpochId, seal: bool) {
        self.by_policy.insert(id, (epoch, seal));
    }

    pub(crate) fn hopeless(&mut self) -> Vec<EpochId> {
        std::mem::take(&mut self.hopeless)
    }

    /// True if an epoch is to be sealed when its owner has gone; `None`: no such epoch, or it is
    /// ending.
    pub(crate) fn seals(&self, epoch: EpochId) -> Option<bool> {
        let watch = self.open.get(&epoch).filter(|watch| !watch.closing)?;
        Some(watch.rules.on_timeout == OnTimeout::Seal)
    }

    /// Notes the progress of each epoch. Returns those with a write that is too old, each with the
    /// number of the newest such write.
    pub(crate) fn aged(&mut self, open: &[EpochStatus], now: Instant) -> Vec<(EpochId, u64)> {
        self.open.retain(|epoch, _| open.iter().any(|status| status.epoch == *epoch));
        let mut aged = Vec::new();
        for status in open {
            let Some(watch) = self.open.get_mut(&status.epoch) else { continue };
            if watch.samples.back().is_none_or(|&(_, newest)| newest < status.newest) {
                watch.samples.push_back((now, status.newest));
            }
            let oldest = status.oldest.unwrap_or(u64::MAX);
            // The age of the oldest write is that of the first sample that has it; earlier samples
            // are dropped.
            while watch.samples.front().is_some_and(|&(_, newest)| newest < oldest) && watch.samples.len() > 1
            {
                watch.samples.pop_front();
            }
            if watch.samples.len() > SAMPLES {
                watch.samples.pop_front();
            }
            let Some(age_max) = watch.rules.age_max else { continue };
            let old =
                watch.samples.iter().take_while(|(at, _)| now.saturating_duration_since(*at) >= age_max);
            let old = old.map(|&(_, newest)| newest).filter(|&newest| newest >= oldest).max();
            aged.extend(old.map(|through| (status.epoch, through)));
        }
        aged
    }

    /// Returns the epochs without a request for too long; true: to be sealed.
    pub(crate) fn silent(&self, now: Instant) -> Vec<(EpochId, bool)> {
        let is_silent = |watch: &Watch| {
            let silent = now.saturating_duration_since(watch.last);
            !watch.closing && watch.rules.idle_max.is_some_and(|most| silent >= most)
        };
        let silent = self.open.iter().filter(|(_, watch)| is_silent(watch));
        silent.map(|(&epoch, watch)| (epoch, watch.rules.on_timeout == OnTimeout::Seal)).collect()
    }

    pub(crate) fn reports(&self, open: &[EpochStatus], now: Instant) -> Vec<EpochReport> {
        let report = |status: &EpochStatus| {
            let watch = self.open.get(&status.epoch);
            let owes = status.oldest.is_some();
            let oldest = watch.filter(|_| owes).and_then(|watch| watch.samples.front()).map(|&(at, _)| at);
            let seconds = |since: Instant| now.saturating_duration_since(since).as_secs();
            EpochReport {
                epoch: status.epoch.0,
                offset: status.first.0 * BLOCK as u64,
                len_bytes: status.count * BLOCK as u64,
                state: match status.state {
                    EpochState::Beginning => "beginning",
                    EpochState::Open => "open",
                    EpochState::Ending => "ending",
                    EpochState::Sealing => "sealing",
                }
                .to_owned(),
                stripes: status.stripes,
                owed_stripes: status.owed_stripes,
                owed_bytes: status.owed_blocks * BLOCK as u64,
                owed_bytes_max: status.owed_blocks_max.saturating_mul(BLOCK as u64),
                oldest_s: oldest.map(seconds).or(owes.then_some(0)),
                idle_s: watch.map_or(0, |watch| seconds(watch.last)),
                idle_max_s: watch.and_then(|watch| watch.rules.idle_max).map(|most| most.as_secs()),
                on_timeout: watch.map_or(OnTimeout::Abort, |watch| watch.rules.on_timeout),
                wasted_stripes: status.wasted_stripes,
                lost: lost_ranges(&status.lost),
            }
        };
        open.iter().map(report).collect()
    }
}
