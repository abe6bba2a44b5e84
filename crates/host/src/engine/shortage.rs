//! Devices for which the file system has no space left, or the system no memory. Their content can
//! be read, so they are not lost.
//!
//! An operation that fails for lack of space or memory is repeated after a pause, without a limit.
//! A device is given up only if the volume can spare it together with all other such devices, and
//! could for as long as the deadline of a device: then writes continue without it. Otherwise
//! writers and flushes wait for space, and reads continue. Usually one full file system is below
//! all devices: giving them up one after another would lose the content of each.
//!
//! Invariant: giving up a device here makes no durable data unreadable. Openings and stops are
//! excepted, because they do not wait for ever: each device is given up after its deadline. That
//! harms no data: a volume that has failed records nothing, and the next opening finds the state of
//! a crash. An opening that needs such a device is refused after a moment, before any device is
//! given up: like a crash, it can end at any step.

use super::{Engine, Member};
use crate::HostError;
use pantile_device::{DeviceError, Remedy};
use pantile_volume::{Bearing, Slot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest wait of an opening for space on devices that it needs: ten tries. If the file system
/// stays full for longer, the operator gets the error.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// Requests of a device that wait for space or memory.
#[derive(Default)]
pub(super) struct Shortage {
    /// Time of the first failure of each request.
    since: BTreeMap<u64, Instant>,
    /// Time since which the volume could spare the device without a break.
    spared_since: Option<Instant>,
}

impl Shortage {
    pub(super) fn is_over(&self) -> bool {
        self.since.is_empty()
    }

    /// Returns the time of the first failure of all waiting requests.
    fn began(&self) -> Option<Instant> {
        self.since.values().copied().min()
    }

    /// Returns the time since which the device lacks space or memory and could be spared.
    fn tries_since(&mut self, now: Instant) -> Instant {
        let spared_since = *self.spared_since.get_or_insert(now);
        self.began().unwrap_or(now).max(spared_since)
    }
}

impl Member {
    /// Records that a request failed for lack of space or memory.
    pub(super) fn falls_short(&mut self, token: u64, error: DeviceError) {
        self.error = Some(error);
        self.shortage.since.entry(token).or_insert_with(Instant::now);
    }

    /// True if the device lacks space or memory, or did when it was given up.
    pub(super) fn fell_short(&self) -> bool {
        let remedy = self.error.as_ref().map(DeviceError::remedy);
        matches!(remedy, Some(Remedy::MakeSpace | Remedy::Retry))
    }

    /// Records any other end of a request.
    pub(super) fn ends(&mut self, token: u64) {
        if self.shortage.since.remove(&token).is_some() && self.shortage.is_over() {
            (self.shortage, self.error) = (Shortage::default(), None);
        }
    }
}

impl Engine {
    /// Limits the wait for devices that lack space or memory to their deadline, because a caller
    /// waits for the end.
    pub(crate) fn hurry(&mut self) {
        self.life.hurries = true;
    }

    /// Gives up devices that have lacked space or memory for longer than their deadline and can be
    /// spared.
    pub(super) fn look_at_shortages(&mut self, now: Instant) {
        let members = (0..).map(Slot).zip(&self.members);
        let short: Vec<Slot> =
            members.filter(|(_, member)| !member.shortage.is_over()).map(|(slot, _)| slot).collect();
        if short.is_empty() {
            return;
        }
        if self.life.opened.is_some() && !self.opens_without(&short) {
            return self.refuse_to_open(&short, now);
        }
        let waits_for_ever = self.life.opened.is_none() && !self.life.hurries;
        let can_go = !waits_for_ever || self.volume.can_spare(&short).unwrap_or(true);
        for slot in short {
            let member = &mut self.members[slot.0 as usize];
            if !can_go {
                // The deadline begins when other devices have space again, because this one is then
                // likely to get some soon.
                member.shortage.spared_since = None;
            } else if now.saturating_duration_since(member.shortage.tries_since(now)) > self.deadline {
                let error = member.error.clone();
                self.drop_device(slot, error);
            }
        }
    }

    /// True if the volume under opening can be opened without these devices, as far as its code
    /// decides.
    fn opens_without(&self, short: &[Slot]) -> bool {
        self.volume.can_spare(short).unwrap_or_else(|| {
            let slots = (0..).map(Slot).zip(&self.members);
            let gone = slots.filter(|(slot, member)| member.number.is_none() || short.contains(slot));
            let gone: Vec<Slot> = gone.map(|(slot, _)| slot).collect();
            Bearing::new(&self.geometry.code, self.geometry.placement).bears(&gone)
        })
    }

    /// Ends an opening for lack of space, after a short wait.
    fn refuse_to_open(&mut self, short: &[Slot], now: Instant) {
        let members = short.iter().map(|slot| &self.members[slot.0 as usize]);
        let Some(began) = members.clone().filter_map(|member| member.shortage.began()).min() else { return };
        let Some(error) = members.clone().find_map(|member| member.error.clone()) else { return };
        if now.saturating_duration_since(began) <= OPENING_PATIENCE.min(self.deadline) {
            return;
        }
        let devices = short.iter().zip(members).map(|(&slot, member)| (slot, member.path.clone())).collect();
        if let Some(answer) = self.life.opened.take() {
            answer.give(Err(HostError::NoRoom { devices, error }));
        }
        self.life.stop = true;
    }
}
