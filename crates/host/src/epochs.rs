//! Epochs of delayed parity, for writers of checkpoints, and their time limits.
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
//! The engine only counts writes; this module adds times. Parity that is pending for longer than an
//! epoch allows is written, and an epoch without requests is sealed or aborted.

use crate::inbox::Answer;
use crate::memory::BLOCK;
use crate::{Handle, HostError};
use pantile_volume::{EpochId, EpochState, EpochStatus, Failure, RequestId, UserBlock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::time::{Duration, Instant};

/// Default limit of the data whose parity is pending, in bytes.
const OWED_BYTES_MAX: u64 = 256 << 20;

/// Most times of writes that are recorded of an epoch.
const SAMPLES: usize = 4096;

/// The way in which an epoch ends if its owner does not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// It is sealed, or aborted if that fails.
    Seal,
    /// It is aborted: the state before it is restored.
    Abort,
}

/// Range, limits and policy of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochOptions {
    /// Offset and length in bytes, extended to whole stripes; `None`: the whole volume.
    pub range: Option<(u64, u64)>,
    /// Most bytes of data whose parity may be pending; above it writers wait until parity is
    /// written.
    pub owed_bytes_max: u64,
    /// Age at which pending parity is written in advance; `None`: no limit.
    pub age_max: Option<Duration>,
    /// Time without a request after which the epoch ends by its policy; `None`: no limit.
    pub idle_max: Option<Duration>,
    /// Policy: the way in which the epoch ends then, or when the program that began it has gone.
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

/// An open epoch: reads, writes and flushes of its [`Handle`] belong to it. When dropped without an
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

    /// Returns its id, with which other programs can write in it ([`Handle::within`]).
    pub fn id(&self) -> EpochId {
        self.id
    }

    /// Returns offset and length of its range in bytes.
    pub fn range(&self) -> (u64, u64) {
        (self.offset, self.len)
    }

    /// Writes the pending parity and seals the epoch: either all of its writes survive a crash and
    /// become visible to all readers, or none.
    ///
    /// Errors: `EpochLost` with the ranges that were lost with a device. The epoch stays open:
    /// write these ranges again, or abort it.
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

    /// Drops this value, but leaves the epoch open.
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

/// Parameters of a new epoch.
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

/// State of an epoch at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Its number.
    pub epoch: u64,
    /// The offset of its range in bytes.
    pub offset: u64,
    /// The length of its range in bytes.
    pub len_bytes: u64,
    /// `beginning`, `open`, `ending` or `sealing`.
    pub state: String,
    /// Number of stripes that it has written.
    pub stripes: u64,
    /// Number of these stripes whose parity is pending.
    pub owed_stripes: u64,
    /// Bytes of data in these stripes: the most that the loss of a device can cost.
    pub owed_bytes: u64,
    /// Limit of `owed_bytes`.
    pub owed_bytes_max: u64,
    /// Seconds since the oldest write whose parity is pending; none: no parity is.
    pub oldest_s: Option<u64>,
    /// Seconds since its last request.
    pub idle_s: u64,
    /// Seconds without a request after which it ends by its policy.
    pub idle_max_s: Option<u64>,
    /// The way in which it ends then.
    pub on_timeout: OnTimeout,
    /// Number of stripes whose parity was written in advance and then not needed.
    pub wasted_stripes: u64,
    /// Ranges lost with devices before their parity was written.
    pub lost: Vec<LostRange>,
}

/// A range that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRange {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its length in bytes.
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
    /// Observations of the epoch, the oldest first: a time, and the number of its newest write
    /// then.
    samples: VecDeque<(Instant, u64)>,
    closing: bool,
}

type Begun = Answer<(EpochId, UserBlock, u64)>;

/// The time limits of all epochs.
#[derive(Default)]
pub(crate) struct Watches {
    beginning: BTreeMap<RequestId, (Rules, Begun)>,
    open: BTreeMap<EpochId, Watch>,
    /// Ends of epochs by policy: no caller waits for these requests. True: to be sealed.
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

    /// Handles the failure of a beginning, or of an end by policy; returns any other failure.
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

    /// Returns true if an epoch is to be sealed when its owner has gone; `None`: there is no such
    /// epoch, or it is ending.
    pub(crate) fn seals(&self, epoch: EpochId) -> Option<bool> {
        let watch = self.open.get(&epoch).filter(|watch| !watch.closing)?;
        Some(watch.rules.on_timeout == OnTimeout::Seal)
    }

    /// Records the progress of each epoch. Returns the epochs with a write that is too old, each
    /// with the number of its newest such write.
    pub(crate) fn aged(&mut self, open: &[EpochStatus], now: Instant) -> Vec<(EpochId, u64)> {
        self.open.retain(|epoch, _| open.iter().any(|status| status.epoch == *epoch));
        let mut aged = Vec::new();
        for status in open {
            let Some(watch) = self.open.get_mut(&status.epoch) else { continue };
            if watch.samples.back().is_none_or(|&(_, newest)| newest < status.newest) {
                watch.samples.push_back((now, status.newest));
            }
            let oldest = status.oldest.unwrap_or(u64::MAX);
            // The first sample whose number is not below the oldest pending write gives that
            // write's age. Earlier samples are dropped.
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

    /// Returns the epochs that had no request for too long; true: to be sealed.
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
