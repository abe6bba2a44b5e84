//! Inputs and outputs from the moment that the volume wants them to their end.
//!
//! * *Wanted*: not given to devices yet, because a neighbour may follow.
//! * *Joined*: a device does several as one, under the name of the first.
//! * *Background*: waits for its turn in the throttle.
//! * *Again*: a device or the system was short of something; it is tried again.
//!
//! Every one has an entry until the volume has been told its end.

use super::transfers::{Flight, len_bytes};
use crate::gather::Wanted;
use crate::throttle::Throttle;
use pantile_device::Request as IoRequest;
use pantile_volume::{IoId, Slot};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::time::Instant;

/// Everything that the volume waits for from devices.
pub(super) struct Flights {
    all: FxHashMap<u64, Flight>,
    wanted: Vec<Wanted>,
    /// By the name of the first, in the order of the device.
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

    /// Ends one; `false`: it has ended before.
    pub(super) fn end(&mut self, io: IoId) -> bool {
        self.all.remove(&io.0).is_some()
    }

    /// Gives one to its device when its neighbours are known.
    pub(super) fn want(&mut self, wanted: Wanted) {
        self.wanted.push(wanted);
    }

    pub(super) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(super) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wanted)
    }

    /// A device does several as one, under the name of the first.
    pub(super) fn join(&mut self, ios: Vec<IoId>) {
        if let [first, _, ..] = ios[..] {
            self.joined.insert(first.0, ios);
        }
    }

    /// Takes those that a device does as one with others; `None`: it is alone.
    pub(super) fn take_joined(&mut self, token: u64) -> Option<Vec<IoId>> {
        self.joined.remove(&token)
    }

    /// Takes all that a device does under one name.
    pub(super) fn take_parts(&mut self, token: u64) -> Vec<IoId> {
        self.take_joined(token).unwrap_or_else(|| vec![IoId(token)])
    }

    /// Those that wait for their turn in the throttle.
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

    /// Lets a request wait for its turn.
    pub(super) fn put_in_background(&mut self, request: IoRequest) {
        self.background.push_back(request);
    }

    /// Takes a request whose turn has come.
    pub(super) fn next_in_background(&mut self, now: Instant) -> Option<IoRequest> {
        if self.throttle.next_at() > now {
            return None;
        }
        let request = self.background.pop_front()?;
        self.throttle.begin(len_bytes(&request.op), now);
        Some(request)
    }

    /// Tries a request again at a later time.
    pub(super) fn try_again(&mut self, at: Instant, request: IoRequest) {
        self.again.push_back((at, request));
    }

    /// Takes a request that is to be tried again now.
    pub(super) fn next_again(&mut self, now: Instant) -> Option<IoRequest> {
        let is_due = self.again.front().is_some_and(|(at, _)| *at <= now);
        if is_due { self.again.pop_front().map(|(_, request)| request) } else { None }
    }

    /// When the next request that waits is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let background = (!self.background.is_empty()).then(|| self.throttle.next_at());
        let again = self.again.front().map(|(at, _)| *at);
        background.into_iter().chain(again).min()
    }

    /// Gives a device up and forgets what waits for it; the names of all that are pending at its
    /// slot.
    pub(super) fn give_up(&mut self, slot: Slot, device: usize) -> Vec<u64> {
        self.background.retain(|request| request.device != device);
        self.again.retain(|(_, request)| request.device != device);
        let owed = self.all.iter().filter(|(_, flight)| flight.slot == slot);
        let mut owed: Vec<u64> = owed.map(|(&token, _)| token).collect();
        owed.sort_unstable();
        owed
    }

    /// Forgets what was joined of those that have ended.
    pub(super) fn forget_ended(&mut self) {
        self.joined.retain(|token, _| self.all.contains_key(token));
    }
}
