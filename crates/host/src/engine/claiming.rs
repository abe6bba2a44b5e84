//! The claim, written again every period: read first, in case another has taken the volume, and no
//! flush. It goes to the devices like all else and is waited for by nobody, so that a device that
//! hangs keeps the others' claims from nothing.

use super::Engine;
use super::transfers::write_op;
use crate::claim::{Beating, PERIOD};
use crate::memory::BLOCK;
use pantile_device::{Completion, Op, Priority, Request as IoRequest};
use pantile_format::volume::Session;
use pantile_volume::{Piece, Slot};
use std::time::Instant;

/// Names of these I/Os begin here; the volume's stay below.
const CLAIM_TOKENS: u64 = 1 << 63;

impl Engine {
    /// From now on the claim is written every period. It is on all devices that are here.
    pub(crate) fn claim(&mut self, beating: Beating) {
        self.claiming = Some(beating);
        self.members.iter_mut().for_each(|member| member.is_claimed = true);
    }

    /// Begins to look at the claims, if it is time; when it is again.
    pub(super) fn beat(&mut self, now: Instant) -> Option<Instant> {
        let claiming = self.claiming.as_mut()?;
        if claiming.next > now {
            return Some(claiming.next);
        }
        claiming.next = now + PERIOD;
        let (at, next) = (claiming.at, claiming.next);
        let offset_bytes = at.0 * BLOCK as u64;
        for (slot, member) in (0..).zip(&self.members) {
            let Some(device) = member.number else { continue };
            let buffer = self.buffers.take(1);
            let op = Op::Read { offset_bytes, range: 0..BLOCK, buffer };
            // One that is full of work is looked at the next time.
            let token = CLAIM_TOKENS + slot;
            let _ = self.pool.submit(IoRequest { token, device, priority: Priority::User, op });
        }
        Some(next)
    }

    /// A claim was read: it is written again, unless it is another's; or it was written. Gives back
    /// what is no claim.
    pub(super) fn claim_done(&mut self, completion: Completion) -> Option<Completion> {
        if completion.token < CLAIM_TOKENS {
            return Some(completion);
        }
        let slot = Slot((completion.token - CLAIM_TOKENS) as u32);
        let Op::Read { buffer, .. } = &completion.op else { return None };
        let claiming = self.claiming.as_mut()?;
        // A device that came since may hold what a server before this one claimed: another that is
        // alive is found the next time, or finds our claim.
        let member = self.members.get_mut(slot.0 as usize)?;
        let device = member.number.filter(|&number| number == completion.device)?;
        let was_claimed = std::mem::replace(&mut member.is_claimed, true);
        if was_claimed
            && completion.result.is_ok()
            && let Some(other) = claiming.other(&buffer[..BLOCK])
        {
            // Nothing more is written: what this server holds of the volume is not how it is any
            // more.
            let _ = self.taken.set(other);
            self.stop = true;
            return None;
        }
        let bytes = claiming.beat(Session(0));
        let at = claiming.at;
        let segments = self.segments(vec![Piece::Bytes(bytes)]);
        let (op, priority) = (write_op(at, segments), Priority::User);
        let _ = self.pool.submit(IoRequest { token: completion.token, device, priority, op });
        None
    }
}
