//! Comparison of devices: late ones are reported to the volume, so that reads avoid them; slow ones
//! are given up if the operator permits that.
//!
//! Now and then the first block of a late or slow device is read as a probe, to detect its
//! recovery.

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

/// The lowest token of probes. The volume's tokens count from 1.
pub(super) const PROBE: u64 = 1 << 62;

/// Shortest median read for which a slow device is given up: below that, its loss would cost more
/// margin than its slowness costs time.
const EVICTED_US: u32 = 100_000;

/// Lateness of a device at this moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Duration of its reads divided by that of the other devices, as reported to the volume; 1:
    /// not late.
    pub(super) times: u32,
    probed: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { times: 1, probed: false }
    }
}

/// Durations of the devices' operations, and the reactions to slow ones.
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

    /// Returns the durations of the last operations of a kind, if there were enough.
    pub(super) fn of(&self, slot: Slot, kind: Kind) -> Option<Latency> {
        self.latencies.of(slot, kind)
    }

    /// Returns the device of a slot, if it has been far slower than the others for long.
    pub(super) fn slow(&self, slot: Slot) -> Option<Slow> {
        self.watch.slow(slot)
    }

    pub(super) fn note(&self, slot: Slot, kind: Kind, service: Duration) {
        self.latencies.note(slot, kind, service);
    }

    /// Forgets the durations of a slot, because its device has changed.
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

    /// Compares the durations of all devices.
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
            // A small change of the ratio is not reported, since it changes no plan.
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

    /// Starts a probe of a device, unless one is under way.
    fn probe(&mut self, slot: Slot) {
        let member = &mut self.members[slot.0 as usize];
        let Some(device) = member.number.filter(|_| !member.pace.probed) else { return };
        let op = Op::Read { offset_bytes: 0, buffer: self.memory.buffers.take(1), range: 0..BLOCK };
        let token = PROBE | u64::from(slot.0);
        let request = IoRequest { token, device, priority: Priority::User, op };
        member.pace.probed = self.pool.submit(request).is_ok();
    }

    /// Records the duration of a probe; its device may have left the slot.
    pub(super) fn probed(&mut self, token: u64, service: Duration) {
        let slot = Slot((token & !PROBE) as u32);
        if let Some(member) = self.members.get_mut(slot.0 as usize) {
            member.pace.probed = false;
            self.speeds.note(slot, Kind::Read, service);
        }
    }

    /// Gives up a device that is called slow, if the operator permits that and the volume can spare
    /// it and one more.
    fn evict_if_slow(&mut self, slot: Slot) {
        let is_late = self.speeds.slow(slot).is_some_and(|slow| slow.median_us >= EVICTED_US);
        if !is_late || !self.speeds.evicts_slow {
            return;
        }
        let mut others = (0..self.members.len() as u32).map(Slot).filter(|&other| other != slot);
        if others.all(|other| self.volume.can_spare(&[slot, other]) == Some(true)) {
            self.drop_device_for(slot, Reason::SLOW, 0, None);
            self.members[slot.0 as usize].was_slow = true;
        }
    }
}
