//! Looks which devices are slow beside the others, tells the volume, which reads around them, and
//! takes them out if that is wished.
//!
//! A device that is gone around is read now and then all the same, a block of its superblock, or
//! nobody would see that it is well again.

use super::Engine;
use crate::latency::Kind;
use crate::memory::BLOCK;
use pantile_device::{Op, Priority, Request as IoRequest};
use pantile_format::volume::Reason;
use pantile_volume::{Event, Slot};
use std::time::{Duration, Instant};

/// What the names of reads begin with that are only there to see how long they take. Names of the
/// volume are counted from 1.
pub(super) const PROBE: u64 = 1 << 62;

/// A device is taken out for being slow only if it takes this long for a read: less is nobody's
/// reason to lose a margin.
const EVICTED_US: u32 = 100_000;

/// How slow a device is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How many times as long as the others it takes, as the volume was told; 1: as long.
    pub(super) times: u32,
    slow_since: Option<Instant>,
    probed: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { times: 1, slow_since: None, probed: false }
    }
}

impl Engine {
    /// Whether some device is known to be slow, and is to be looked at now and then.
    pub(super) fn has_slow(&self) -> bool {
        self.members.iter().any(|member| member.pace.times > 1)
    }

    /// A device that is far slower than the others for so long is given up.
    pub(crate) fn set_evicts_slow_after(&mut self, after: Option<Duration>) {
        self.evicts_slow_after = after;
    }

    /// Compares devices.
    pub(crate) fn look_at_pace(&mut self) {
        if !self.goes_around_slow {
            return;
        }
        let now = Instant::now();
        let here = |engine: &Engine| -> Vec<Slot> {
            let attached = (0..).map(Slot).zip(&engine.members).filter(|(_, member)| member.number.is_some());
            attached.map(|(slot, _)| slot).collect()
        };
        for slot in here(self) {
            let pace = self.members[slot.0 as usize].pace;
            let times = self.latencies.times(slot, here(self).into_iter(), pace.times > 1);
            let slow_since = (times > 1).then(|| pace.slow_since.unwrap_or(now));
            // What changes a little changes no plan.
            let is_other =
                (times > 1) != (pace.times > 1) || times / 2 >= pace.times || times <= pace.times / 2;
            let told = if is_other { times } else { pace.times };
            self.members[slot.0 as usize].pace = Pace { times: told, slow_since, ..pace };
            if is_other && told != pace.times {
                self.volume.handle(Event::Pace(slot, told));
            }
            if times > 1 {
                self.probe(slot);
                self.evict_if_slow(slot, now);
            }
        }
    }

    /// Reads a block of a device to see how long it takes.
    fn probe(&mut self, slot: Slot) {
        let member = &mut self.members[slot.0 as usize];
        let Some(device) = member.number.filter(|_| !member.pace.probed) else { return };
        let op = Op::Read { offset_bytes: 0, buffer: self.buffers.take(1), range: 0..BLOCK };
        let token = PROBE | u64::from(slot.0);
        let request = IoRequest { token, device, priority: Priority::User, op };
        member.pace.probed = self.pool.submit(request).is_ok();
    }

    /// A probe has ended, of a device that may not be in the slot any more.
    pub(super) fn probed(&mut self, token: u64, service: Duration) {
        let slot = Slot((token & !PROBE) as u32);
        if let Some(member) = self.members.get_mut(slot.0 as usize) {
            member.pace.probed = false;
            self.latencies.note(slot, Kind::Read, service);
        }
    }

    /// Takes a device out that has been slow for long enough, if that is wished and the volume can
    /// spare it and one more.
    fn evict_if_slow(&mut self, slot: Slot, now: Instant) {
        let Some(after) = self.evicts_slow_after else { return };
        let member = &self.members[slot.0 as usize];
        let is_long = member.pace.slow_since.is_some_and(|since| now.duration_since(since) >= after);
        let is_late =
            self.latencies.of(slot, Kind::Read).is_some_and(|latency| latency.median_us >= EVICTED_US);
        if !is_long || !is_late {
            return;
        }
        let mut others = (0..self.members.len() as u32).map(Slot).filter(|&other| other != slot);
        if others.all(|other| self.volume.can_spare(&[slot, other]) == Some(true)) {
            self.drop_device_for(slot, Reason::SLOW, 0, None);
        }
    }
}
