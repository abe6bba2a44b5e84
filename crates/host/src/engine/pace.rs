//! Comparison of devices: late ones are reported to the volume, which reads around them, and slow
//! ones are taken out if that is wanted.
//!
//! A late or slow device still gets a read of a block of its superblock now and then, which shows
//! its recovery.

use super::Engine;
use crate::HostOptions;
use crate::latency::{Kind, Latencies, Latency};
use crate::memory::BLOCK;
use crate::slowness::{Rule, Slow, Watch};
use pantile_device::{Op, Priority, Request as IoRequest};
use pantile_format::volume::Reason;
use pantile_volume::{Event, Slot};
use std::sync::Arc;
use std::time::Duration;

/// First name of reads that only measure a device. Names of the volume are counted from 1.
pub(super) const PROBE: u64 = 1 << 62;

/// A device is taken out for being slow only if it takes this long for a read: below that its loss
/// costs more margin than its slowness costs time.
const EVICTED_US: u32 = 100_000;

/// Lateness of a device at this moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Duration of its reads divided by that of the others, as reported to the volume; 1: as long.
    pub(super) times: u32,
    probed: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { times: 1, probed: false }
    }
}

/// How long devices take, and what is done about it.
pub(super) struct Speeds {
    latencies: Arc<Latencies>,
    watch: Watch,
    goes_around_slow: bool,
    evicts_slow: bool,
}

impl Speeds {
    pub(super) fn new(latencies: Arc<Latencies>, slots: usize, options: &HostOptions) -> Speeds {
        let watch = Watch::new(slots, Rule { after: options.slow_after });
        let (goes_around_slow, evicts_slow) = (options.goes_around_slow, options.evicts_slow);
        Speeds { latencies, watch, goes_around_slow, evicts_slow }
    }

    /// How long the last of a kind took, if there were enough.
    pub(super) fn of(&self, slot: Slot, kind: Kind) -> Option<Latency> {
        self.latencies.of(slot, kind)
    }

    /// A device that has been far slower than the others for long.
    pub(super) fn slow(&self, slot: Slot) -> Option<Slow> {
        self.watch.slow(slot)
    }

    pub(super) fn note(&self, slot: Slot, kind: Kind, service: Duration) {
        self.latencies.note(slot, kind, service);
    }

    /// Forgets how long the device of a slot took, which is another from now on.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.latencies.forget(slot);
        self.watch.forget(slot);
    }
}

impl Engine {
    /// True if a device is late or slow, so that it is probed now and then.
    pub(super) fn has_slow(&self) -> bool {
        let slots = (0..).map(Slot).zip(&self.members);
        slots.into_iter().any(|(slot, member)| member.pace.times > 1 || self.speeds.slow(slot).is_some())
    }

    /// Sets [`crate::HostOptions::evicts_slow`].
    pub(crate) fn set_evicts_slow(&mut self, evicts_slow: bool) {
        self.speeds.evicts_slow = evicts_slow;
    }

    /// Compares devices.
    pub(crate) fn look_at_pace(&mut self) {
        if !self.speeds.goes_around_slow {
            return;
        }
        let Speeds { latencies, watch, .. } = &mut self.speeds;
        watch.look(latencies.age(), &mut latencies.tallies());
        let here = |engine: &Engine| -> Vec<Slot> {
            let attached = (0..).map(Slot).zip(&engine.members).filter(|(_, member)| member.number.is_some());
            attached.map(|(slot, _)| slot).collect()
        };
        for slot in here(self) {
            let pace = self.members[slot.0 as usize].pace;
            let times = self.speeds.latencies.times(slot, here(self).into_iter(), pace.times > 1);
            // What changes a little changes no plan.
            let is_other =
                (times > 1) != (pace.times > 1) || times / 2 >= pace.times || times <= pace.times / 2;
            let told = if is_other { times } else { pace.times };
            self.members[slot.0 as usize].pace = Pace { times: told, ..pace };
            if is_other && told != pace.times {
                self.volume.handle(Event::Pace(slot, told));
            }
            if times > 1 || self.speeds.slow(slot).is_some() {
                self.probe(slot);
                self.evict_if_slow(slot);
            }
        }
    }

    /// Reads a block of a device to measure it.
    fn probe(&mut self, slot: Slot) {
        let member = &mut self.members[slot.0 as usize];
        let Some(device) = member.number.filter(|_| !member.pace.probed) else { return };
        let op = Op::Read { offset_bytes: 0, buffer: self.buffers.take(1), range: 0..BLOCK };
        let token = PROBE | u64::from(slot.0);
        let request = IoRequest { token, device, priority: Priority::User, op };
        member.pace.probed = self.pool.submit(request).is_ok();
    }

    /// Notes the end of a probe; its device may have left the slot.
    pub(super) fn probed(&mut self, token: u64, service: Duration) {
        let slot = Slot((token & !PROBE) as u32);
        if let Some(member) = self.members.get_mut(slot.0 as usize) {
            member.pace.probed = false;
            self.speeds.note(slot, Kind::Read, service);
        }
    }

    /// Takes a device out that is called slow, if that is wanted and the volume can spare it and
    /// one more.
    fn evict_if_slow(&mut self, slot: Slot) {
        let is_late = self.speeds.slow(slot).is_some_and(|slow| slow.median_us >= EVICTED_US);
        if !is_late || !self.speeds.evicts_slow {
            return;
        }
        let mut others = (0..self.members.len() as u32).map(Slot).filter(|&other| other != slot);
        if others.all(|other| self.volume.can_spare(&[slot, other]) == Some(true)) {
            self.drop_device_for(slot, Reason::SLOW, 0, None);
        }
    }
}
