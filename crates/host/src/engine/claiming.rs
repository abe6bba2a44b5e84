//! The engine's part of the claim: it is checked and written again every period, without a flush.
//! Its I/O goes to the devices like all other I/O, so a device that is gone is detected even
//! without requests of clients.
//!
//! Another host takes a volume whose claim did not beat for [`crate::claim::WATCH`]. So a host that
//! was stopped for longer (a stopped process, a machine that swaps) and continues must not perform
//! its old writes. Nothing is written or flushed, the claim included, unless checks begun within
//! the last [`FENCE`] found the claim on enough devices, and it was written there again since.
//! Enough are one more than the tolerance t: of any t + 1 devices one is among those that another
//! host needs to open the volume.

use super::Engine;
use super::transfers::write_op;
use crate::claim::{Beating, PERIOD, WATCH, Whose};
use crate::memory::BLOCK;
use pantile_device::{Completion, DeviceError, Op, OpKind, Priority, Request as IoRequest, Site};
use pantile_format::volume::{CLAIM_BLOCK, Session};
use pantile_volume::{Piece, Slot};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The lowest token of these I/Os; those of the volume are lower. The lowest byte is the slot, the
/// bits above it are the number of the check.
const CLAIM_TOKENS: u64 = 1 << 63;

/// Time for which a check of the claim is valid. An opening watches a claim for longer before it
/// takes the volume.
const FENCE: Duration = Duration::from_secs(4);

const _: () = assert!(FENCE.as_secs() < WATCH.as_secs() && FENCE.as_secs() >= 2 * PERIOD.as_secs());

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

/// The claim of this host, and the writes that wait for a check of it.
pub(super) struct Claiming {
    beating: Beating,
    /// Start of the last checks that found the claim on enough devices; `None`: none did.
    found_at: Option<Instant>,
    /// The last checks: their number, their start, the devices that had the claim, and those on
    /// which it has been written again since.
    look: u64,
    looked_at: Instant,
    seen_on: BTreeSet<Slot>,
    found_on: BTreeSet<Slot>,
    /// Writes that wait for a check, and the start of their wait.
    held: Vec<IoRequest>,
    held_since: Option<Instant>,
}

impl Claiming {
    fn is_fresh(&self, now: Instant) -> bool {
        self.found_at.is_some_and(|at| now.saturating_duration_since(at) < FENCE)
    }
}

impl Engine {
    /// Begins to write the claim every period. The caller has written it to all present devices.
    pub(crate) fn claim(&mut self, beating: Beating) {
        self.claim.under_way = Some(Claiming {
            beating,
            found_at: None,
            look: 0,
            looked_at: Instant::now(),
            seen_on: BTreeSet::new(),
            found_on: BTreeSet::new(),
            held: Vec::new(),
            held_since: None,
        });
        self.members.iter_mut().for_each(|member| member.is_claimed = true);
    }

    /// Begins checks of the claim, if they are due. Returns the time of the next ones.
    pub(super) fn beat(&mut self, now: Instant) -> Option<Instant> {
        let claiming = self.claim.under_way.as_mut()?;
        if claiming.beating.next > now {
            return Some(claiming.beating.next);
        }
        claiming.beating.next = now + PERIOD;
        (claiming.look, claiming.looked_at) = (claiming.look + 1, now);
        (claiming.seen_on, claiming.found_on) = (BTreeSet::new(), BTreeSet::new());
        let (next, look) = (claiming.beating.next, claiming.look);
        let offset_bytes = CLAIM_BLOCK.0 * BLOCK as u64;
        for (slot, member) in (0..).zip(&self.members) {
            let Some(device) = member.number else { continue };
            let buffer = self.memory.buffers.take(1);
            let op = Op::Read { offset_bytes, range: 0..BLOCK, buffer };
            // A device whose queue is full is checked in the next period.
            let token = CLAIM_TOKENS | look << 8 | slot;
            let _ = self.pool.submit(IoRequest { token, device, priority: Priority::User, op });
        }
        Some(next)
    }

    /// Returns a request that may go to its device. A write that needs a newer check of the claim
    /// is kept.
    pub(super) fn past_fence(&mut self, request: IoRequest, now: Instant) -> Option<IoRequest> {
        if matches!(request.op, Op::Read { .. }) {
            return Some(request);
        }
        if self.claim.taken.get().is_some() {
            return None;
        }
        let Some(claiming) = &mut self.claim.under_way else { return Some(request) };
        if claiming.is_fresh(now) {
            return Some(request);
        }
        claiming.held.push(request);
        claiming.held_since.get_or_insert(now);
        if now.saturating_duration_since(claiming.looked_at) >= FENCE {
            // The last checks are too old, so new ones begin at once.
            claiming.beating.next = now;
            self.pool.wake();
        }
        None
    }

    /// Gives up devices on which the claim was not found while a write has waited for longer than
    /// the deadline: they get no other requests.
    pub(super) fn look_at_fence(&mut self, now: Instant) {
        let Some(claiming) = &self.claim.under_way else { return };
        let is_long = |since| now.saturating_duration_since(since) > self.deadline;
        if !claiming.held_since.is_some_and(is_long) {
            return;
        }
        let members = (0..).map(Slot).zip(&self.members).filter(|(_, member)| member.number.is_some());
        let silent = members.filter(|(slot, _)| !claiming.found_on.contains(slot));
        let silent: Vec<Slot> = silent.map(|(slot, _)| slot).collect();
        for slot in silent {
            let device = self.members[slot.0 as usize].path.clone().unwrap_or_default();
            let at = Site { device, op: OpKind::Read, offset_bytes: 0, len_bytes: 0 };
            self.drop_device(slot, Some(DeviceError::Gone { at, errno: TIMED_OUT }));
        }
        self.let_held_go(now);
    }

    /// True if a write waits for the claim.
    pub(super) fn holds_writes(&self) -> bool {
        self.claim.under_way.as_ref().is_some_and(|claiming| !claiming.held.is_empty())
    }

    /// Submits the waiting writes, if the claim was found on enough devices.
    fn let_held_go(&mut self, now: Instant) {
        let here = self.members.iter().filter(|member| member.number.is_some()).count();
        let need = here.min(self.geometry.tolerance() + 1);
        let Some(claiming) = &mut self.claim.under_way else { return };
        if claiming.found_on.len() < need {
            return;
        }
        claiming.found_at = Some(claiming.looked_at);
        if claiming.is_fresh(now) {
            claiming.held_since = None;
            std::mem::take(&mut claiming.held).into_iter().for_each(|request| self.submit(request));
        }
    }

    /// Handles the end of an I/O of the claim: a claim that was read is written again, unless
    /// another host's is there. Returns any other completion.
    pub(super) fn claim_done(&mut self, completion: Completion) -> Option<Completion> {
        if completion.token < CLAIM_TOKENS {
            return Some(completion);
        }
        let (slot, look) = (Slot(completion.token as u32 & 0xff), (completion.token & !CLAIM_TOKENS) >> 8);
        let is_its = self.members.get(slot.0 as usize)?.number == Some(completion.device);
        if let (true, Err(error @ DeviceError::Gone { .. })) = (is_its, &completion.result) {
            // Otherwise a loss of the device could remain undetected for hours without requests.
            self.drop_device(slot, Some(error.clone()));
            return None;
        }
        let claiming = self.claim.under_way.as_mut()?;
        let Op::Read { buffer, .. } = &completion.op else {
            if completion.result.is_ok() && look == claiming.look && claiming.seen_on.contains(&slot) {
                claiming.found_on.insert(slot);
                self.let_held_go(Instant::now());
            }
            return None;
        };
        // A device that was attached since can have the claim of an earlier server. If that server
        // is alive, the next check finds its claim, or it finds this one.
        let member = self.members.get_mut(slot.0 as usize)?;
        let device = member.number.filter(|&number| number == completion.device)?;
        let was_claimed = std::mem::replace(&mut member.is_claimed, true);
        let found = match completion.result {
            Ok(()) if was_claimed => claiming.beating.whose(&buffer[..BLOCK]),
            _ => Whose::Nobodys,
        };
        match found {
            Whose::Anothers(other) => {
                // From here on nothing is written: this server does not have the newest state of
                // the volume.
                let _ = self.claim.taken.set(other);
                self.life.stop = true;
                return None;
            }
            // A check that began before this host was stopped shows old claims. Writing the claim
            // now would overwrite that of another host.
            _ if look != claiming.look || claiming.looked_at.elapsed() >= FENCE => return None,
            Whose::Ours => drop(claiming.seen_on.insert(slot)),
            Whose::Nobodys => {}
        }
        let bytes = claiming.beating.beat(Session(0));
        let segments = self.segments(vec![Piece::Bytes(bytes)]);
        let (op, priority) = (write_op(CLAIM_BLOCK, segments), Priority::User);
        let _ = self.pool.submit(IoRequest { token: completion.token, device, priority, op });
        None
    }
}
