//! Devices that are short of space below them, or of memory of the system. Their content can be
//! read, so they are not lost.
//!
//! An operation that fails for want of space or memory is tried again after a pause, for as long as
//! it takes. A device is given up only if the volume can spare it together with all others that are
//! short, and could for as long as the patience with a device: then writes go on without it.
//! Otherwise writers and flushes wait for space, and reads go on. A full file system below all
//! devices is the usual case: giving them up one after another would lose what each of them holds.
//!
//! Invariant: giving up a device here loses no durable data that could be read before. Openings and
//! stops are excepted, which do not wait for ever: each device gets its patience and no more. That
//! harms no data: a volume that has failed records nothing, and the next opening finds the state of
//! a crash. An opening that needs a device that is short is refused after a moment, before any
//! device is given up: it can end at any step, as by a crash.

use super::{Engine, Member};
use crate::HostError;
use pantile_device::{DeviceError, Remedy};
use pantile_volume::{Bearing, Slot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest wait of an opening for space on devices that it needs: ten tries. A file system that is
/// full for longer needs its operator, who gets the error.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// The requests of a device that wait for space or memory.
#[derive(Default)]
pub(super) struct Shortage {
    /// Start of the failures of each request.
    since: BTreeMap<u64, Instant>,
    /// Time since which the volume can spare the device.
    spared_since: Option<Instant>,
}

impl Shortage {
    pub(super) fn is_over(&self) -> bool {
        self.since.is_empty()
    }

    /// Returns the time of the first failure.
    fn began(&self) -> Option<Instant> {
        self.since.values().copied().min()
    }

    /// Returns the time since which the device is short and could be spared.
    fn tries_since(&mut self, now: Instant) -> Instant {
        let spared_since = *self.spared_since.get_or_insert(now);
        self.began().unwrap_or(now).max(spared_since)
    }
}

impl Member {
    /// Notes the failure of a request for want of space or memory.
    pub(super) fn falls_short(&mut self, token: u64, error: DeviceError) {
        self.error = Some(error);
        self.shortage.since.entry(token).or_insert_with(Instant::now);
    }

    /// True if it is short of something, or was when it was given up.
    pub(super) fn fell_short(&self) -> bool {
        let remedy = self.error.as_ref().map(DeviceError::remedy);
        matches!(remedy, Some(Remedy::MakeSpace | Remedy::Retry))
    }

    /// Notes another end of a request.
    pub(super) fn ends(&mut self, token: u64) {
        if self.shortage.since.remove(&token).is_some() && self.shortage.is_over() {
            (self.shortage, self.error) = (Shortage::default(), None);
        }
    }
}

impl Engine {
    /// Limits the wait for devices that are short to their patience, because a caller waits for the
    /// end.
    pub(crate) fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Gives up devices that have been short of something for long enough and can be spared.
    pub(super) fn look_at_shortages(&mut self, now: Instant) {
        let members = (0..).map(Slot).zip(&self.members);
        let short: Vec<Slot> =
            members.filter(|(_, member)| !member.shortage.is_over()).map(|(slot, _)| slot).collect();
        if short.is_empty() {
            return;
        }
        if self.opened.is_some() && !self.opens_without(&short) {
            return self.refuse_to_open(&short, now);
        }
        let waits_for_ever = self.opened.is_none() && !self.hurries;
        let can_go = !waits_for_ever || self.volume.can_spare(&short).unwrap_or(true);
        for slot in short {
            let member = &mut self.members[slot.0 as usize];
            if !can_go {
                // The patience begins when the others have space: this one will get some soon, too.
                member.shortage.spared_since = None;
            } else if now.saturating_duration_since(member.shortage.tries_since(now)) > self.deadline {
                let error = member.error.clone();
                self.drop_device(slot, error);
            }
        }
    }

    /// True if a volume that is being opened can do without these, as far as its code decides.
    fn opens_without(&self, short: &[Slot]) -> bool {
        self.volume.can_spare(short).unwrap_or_else(|| {
            let slots = (0..).map(Slot).zip(&self.members);
            let gone = slots.filter(|(slot, member)| member.number.is_none() || short.contains(slot));
            let gone: Vec<Slot> = gone.map(|(slot, _)| slot).collect();
            Bearing::new(&self.geometry.code, self.geometry.placement).bears(&gone)
        })
    }

    /// Ends an opening for want of space, when it has waited for a moment.
    fn refuse_to_open(&mut self, short: &[Slot], now: Instant) {
        let members = short.iter().map(|slot| &self.members[slot.0 as usize]);
        let Some(began) = members.clone().filter_map(|member| member.shortage.began()).min() else { return };
        let Some(error) = members.clone().find_map(|member| member.error.clone()) else { return };
        if now.saturating_duration_since(began) <= OPENING_PATIENCE.min(self.deadline) {
            return;
        }
        let devices = short.iter().zip(members).map(|(&slot, member)| (slot, member.path.clone())).collect();
        if let Some(answer) = self.opened.take() {
            answer.give(Err(HostError::NoRoom { devices, error }));
        }
        self.stop = true;
    }
}
