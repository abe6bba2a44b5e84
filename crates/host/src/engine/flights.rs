//! I/Os from the volume's request to their end.
//!
//! * *Wanted*: not given to a device yet, because an adjacent I/O may follow.
//! * *Joined*: one of several that a device does as one, under the token of the first.
//! * *Background*: waits for the throttle.
//! * *Again*: waits to be repeated, because a device or the system was short of something.
//!
//! Every I/O has an entry until its end was reported to the volume.

use super::transfers::{Flight, len_bytes};
use crate::gather::Wanted;
use crate::throttle::Throttle;
use pantile_device::Request as IoRequest;
use pantile_volume::{IoId, Slot};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::time::Instant;

/// All I/Os that the volume waits for.
pub(super) struct Flights {
    all: FxHashMap<u64, Flight>,
    wanted: Vec<Wanted>,
    /// By the token of the first, I/Os that are joined, in the order of offsets.
    joined: FxHashMap<u64, Vec<IoId>>,
    throttle: Throttle,
    background: VecDeque<IoRequest>,
    again: VecDeque<(Instant, IoRequest)>,
}

impl Flights {
    pub(super) fn new(background_bytes_per_s: Option<u64>, now: Instant) -> Flights {
        Flights {
            all: FxHashMap::default(),
            wanted: Vec::new(),
            joined: FxHashMap::default(),
            throttle: Throttle::new(background_bytes_per_s, now),
            background: VecDeque::new(),
            again: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn add(&mut self, io: IoId, flight: Flight) {
        self.all.insert(io.0, flight);
    }

    pub(super) fn get(&self, token: u64) -> Option<&Flight> {
        self.all.get(&token)
    }

    pub(super) fn get_mut(&mut self, io: IoId) -> Option<&mut Flight> {
        self.all.get_mut(&io.0)
    }

    /// Removes an I/O; `false`: it has ended before.
    pub(super) fn end(&mut self, io: IoId) -> bool {
        self.all.remove(&io.0).is_some()
    }

    /// Adds an I/O that is given to its device when its neighbours are known.
    pub(super) fn want(&mut self, wanted: Wanted) {
        self.wanted.push(wanted);
    }

    pub(super) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(super) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wanted)
    }

    /// Joins I/Os, which their device does as one under the token of the first.
    pub(super) fn join(&mut self, ios: Vec<IoId>) {
        if let [first, _, ..] = ios[..] {
            self.joined.insert(first.0, ios);
        }
    }

    /// Removes the I/Os that are joined under a token; `None`: the I/O is alone.
    pub(super) fn take_joined(&mut self, token: u64) -> Option<Vec<IoId>> {
        self.joined.remove(&token)
    }

    /// Removes all I/Os that a device does under one token.
    pub(super) fn take_parts(&mut self, token: u64) -> Vec<IoId> {
        self.take_joined(token).unwrap_or_else(|| vec![IoId(token)])
    }

    /// Returns the number of I/Os that wait for the throttle.
    pub(super) fn waiting(&self) -> usize {
        let parts = |request: &IoRequest| self.joined.get(&request.token).map_or(1, Vec::len);
        self.background.iter().map(parts).sum()
    }

    pub(super) fn bytes_per_s_max(&self) -> Option<u64> {
        self.throttle.bytes_per_s_max()
    }

    pub(super) fn set_bytes_per_s_max(&mut self, bytes_per_s_max: Option<u64>, now: Instant) {
        self.throttle.set(bytes_per_s_max, now);
    }

    /// Makes a request wait for the throttle.
    pub(super) fn put_in_background(&mut self, request: IoRequest) {
        self.background.push_back(request);
    }

    /// Returns a request that the throttle permits now.
    pub(super) fn next_in_background(&mut self, now: Instant) -> Option<IoRequest> {
        if self.throttle.next_at() > now {
            return None;
        }
        let request = self.background.pop_front()?;
        self.throttle.begin(len_bytes(&request.op), now);
        Some(request)
    }

    /// Makes a request wait until it is repeated at this time.
    pub(super) fn try_again(&mut self, at: Instant, request: IoRequest) {
        self.again.push_back((at, request));
    }

    /// Returns a request that is due to be repeated.
    pub(super) fn next_again(&mut self, now: Instant) -> Option<IoRequest> {
        let is_due = self.again.front().is_some_and(|(at, _)| *at <= now);
        if is_due { self.again.pop_front().map(|(_, request)| request) } else { None }
    }

    /// Returns the time at which the next waiting request is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let background = (!self.background.is_empty()).then(|| self.throttle.next_at());
        let again = self.again.front().map(|(at, _)| *at);
        background.into_iter().chain(again).min()
    }

    /// Removes the waiting requests of a device that is given up. Returns the tokens of all I/Os
    /// that are pending in its slot.
    pub(super) fn give_up(&mut self, slot: Slot, device: usize) -> Vec<u64> {
        self.background.retain(|request| request.device != device);
        self.again.retain(|(_, request)| request.device != device);
        let owed = self.all.iter().filter(|(_, flight)| flight.slot == slot);
        let mut owed: Vec<u64> = owed.map(|(&token, _)| token).collect();
        owed.sort_unstable();
        owed
    }

    /// Forgets the joined I/Os of tokens that have ended.
    pub(super) fn forget_ended(&mut self) {
        self.joined.retain(|token, _| self.all.contains_key(token));
    }
}
