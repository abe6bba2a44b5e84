//! Devices that are short of something: of space below them, or of memory that the system has none
//! of. What is on them can be read, so they are not lost.
//!
//! What fails for want of something is tried again after a pause, for as long as it takes. A device
//! is given up only if the volume can spare it together with all others that are short, and could
//! for as long as a device may take: then writes go on without it. Beyond that whoever writes or
//! flushes waits until there is room, and what is there is read meanwhile. A full file system below
//! all devices is the usual case: to give them up one after another would take away what every one
//! of them holds.
//!
//! Invariant: what is durable and could be had before a device is given up here can be had
//! afterwards, unless somebody opens or stops the volume. They do not wait for ever: a device gets
//! its patience then and no more. That harms nothing that is there: a volume that has failed
//! records nothing, and the next opening finds what a crash would have left. Whoever opens a volume
//! that cannot do without those that are short is refused after a moment, before any of them is
//! given up: an opening may end at any step, as by a crash.

use super::{Engine, Member};
use crate::HostError;
use pantile_device::{DeviceError, Remedy};
use pantile_volume::{Bearing, Slot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long whoever opens a volume waits for room that the volume cannot be opened without: ten
/// tries. What is full for longer is full until somebody sees to it, who wants to know.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// What a device is short of something for.
#[derive(Default)]
pub(super) struct Shortage {
    /// By request, since when it fails.
    since: BTreeMap<u64, Instant>,
    /// Since when the volume can spare the device.
    spared_since: Option<Instant>,
}

impl Shortage {
    pub(super) fn is_over(&self) -> bool {
        self.since.is_empty()
    }

    /// Since when something fails.
    fn began(&self) -> Option<Instant> {
        self.since.values().copied().min()
    }

    /// Since when something fails that the volume could do without.
    fn tries_since(&mut self, now: Instant) -> Instant {
        let spared_since = *self.spared_since.get_or_insert(now);
        self.began().unwrap_or(now).max(spared_since)
    }
}

impl Member {
    /// A request failed for want of something.
    pub(super) fn falls_short(&mut self, token: u64, error: DeviceError) {
        self.error = Some(error);
        self.shortage.since.entry(token).or_insert_with(Instant::now);
    }

    /// Whether it was short of something when it was given up, or is.
    pub(super) fn fell_short(&self) -> bool {
        let remedy = self.error.as_ref().map(DeviceError::remedy);
        matches!(remedy, Some(Remedy::MakeSpace | Remedy::Retry))
    }

    /// A request ended otherwise.
    pub(super) fn ends(&mut self, token: u64) {
        if self.shortage.since.remove(&token).is_some() && self.shortage.is_over() {
            (self.shortage, self.error) = (Shortage::default(), None);
        }
    }
}

impl Engine {
    /// From now on devices that are short of something get their patience and no more: somebody
    /// waits for the end.
    pub(crate) fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Gives up devices that are short of something, if that is long enough and they can be spared.
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
                // The patience begins when the others have room: this one is about to have some,
                // too.
                member.shortage.spared_since = None;
            } else if now.saturating_duration_since(member.shortage.tries_since(now)) > self.deadline {
                let error = member.error.clone();
                self.drop_device(slot, error);
            }
        }
    }

    /// Whether a volume that is being opened can be without these, as far as its code tells.
    fn opens_without(&self, short: &[Slot]) -> bool {
        self.volume.can_spare(short).unwrap_or_else(|| {
            let slots = (0..).map(Slot).zip(&self.members);
            let gone = slots.filter(|(slot, member)| member.number.is_none() || short.contains(slot));
            let gone: Vec<Slot> = gone.map(|(slot, _)| slot).collect();
            Bearing::new(&self.geometry.code, self.geometry.placement).bears(&gone)
        })
    }

    /// Ends an opening for want of room, when it has waited for a moment.
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
