//! Histories of devices: which devices are still of one volume, and when a volume gets another
//! history.
//!
//! Each superblock names the history of its device and the histories before it. A device whose
//! history is neither the newest one nor among those before it has run separately: it and the
//! others have written different things, which nothing can merge.
//!
//! *When a new history is drawn.* Only when the volume is opened without a device that may have the
//! present one, because only such a device could be opened elsewhere and go on from it, too. A
//! device that was away when the history was drawn, and has been since, cannot. So a volume that is
//! opened a thousand times without it keeps one history, and a device that comes back finds its own
//! among the ancestors. There is one ancestor for each time that a device was lost, not for each
//! opening; 126 of them have room while any of these devices is away. Beyond that a device is taken
//! for one that ran separately.
//!
//! *Proof that no device that is away has a history.* While no device has been lost or let in since
//! a history was drawn, the first ancestor stands twice ([`is_closed`]), and all superblocks name
//! those that were away as lost. Every superblock of this history on every device that is here has
//! to say it. The double is taken away ([`open_up`]) with the first superblock that names another
//! loss, and before any device is let in.
//!
//! Example: 6 devices, history A. Opened without 3: B is drawn, ancestors `A A`, and 3 is lost.
//! Opened so 300 times: B all the while. Device 3 comes, with history A: it goes on, and is caught
//! up. First a superblock with the ancestors `A` is durable, then 3 gets one. Opened without 5: C,
//! `B B A`.
//!
//! *Devices that ran separately.* If exactly one of the sides could be opened alone, it is, and the
//! devices of the others are left as they are and named. If several could, each may have been
//! flushed to, and a person has to choose: nothing is opened.

use super::OpenError;
use crate::{Bearing, Geometry, Slot};
use pantile_format::volume::{HistoryId, Session, Superblock};

/// Returns true if no device that is away can have the history of a superblock: none was lost or
/// let in since it was drawn but those that it calls lost.
pub(crate) fn is_closed(superblock: &Superblock) -> bool {
    matches!(&superblock.ancestors[..], [first, second, ..] if first == second)
}

/// A device is lost, or about to be let in, that may have the history from now on.
pub(crate) fn open_up(superblock: &mut Superblock) {
    if is_closed(superblock) {
        superblock.ancestors.remove(0);
    }
}

/// History and ancestors of a session that begins without some devices, one of which may have the
/// history before it.
pub(super) fn drawn(before: &Superblock, fresh: HistoryId) -> (HistoryId, Vec<HistoryId>) {
    let mut before = before.clone();
    open_up(&mut before);
    let mut ancestors = vec![before.history; 2];
    ancestors.append(&mut before.ancestors);
    ancestors.truncate(Superblock::ANCESTORS_MOST);
    (fresh, ancestors)
}

/// The claims of a device about itself.
pub(super) struct Known {
    pub(super) superblock: Superblock,
    /// True if it has something that the session of its superblock wrote.
    pub(super) is_established: bool,
}

impl Known {
    /// The newest counts: of sessions that have changed something, then of those that were begun.
    fn level(&self) -> (Session, Session, u64) {
        let Superblock { session, base, update, .. } = self.superblock;
        (if self.is_established { session } else { base }, session, update)
    }

    /// Returns true if this device goes on from all that another one has written; a device that has
    /// changed nothing is of every side.
    fn goes_on_from(&self, other: &Known) -> bool {
        let (own, history) = (&self.superblock, &other.superblock.history);
        !other.is_established || own.history == *history || own.ancestors.contains(history)
    }
}

/// Returns the newest superblock of the side that an opening would use, and the devices of the
/// others. For callers that have superblocks alone, and take every session for one that changed
/// something.
///
/// Errors: those of an opening.
pub fn choose_side(
    superblocks: &[Superblock],
    geometry: &Geometry,
) -> Result<(Superblock, Vec<(Slot, HistoryId)>), OpenError> {
    let known = superblocks.iter().cloned().map(|superblock| Known { superblock, is_established: true });
    let chosen = choose(&known.collect::<Vec<Known>>(), can_do_with(geometry))?;
    Ok((chosen.newest, chosen.apart))
}

/// Returns true if histories older than a superblock names may have been forgotten: a device that
/// seems to have run separately may have been away all the while.
pub fn histories_are_forgotten(superblock: &Superblock) -> bool {
    // The list is one shorter where the first ancestor does not stand twice any more.
    superblock.ancestors.len() + 1 >= Superblock::ANCESTORS_MOST
}

/// Returns a test for a volume that can be opened with some devices alone.
pub(super) fn can_do_with(geometry: &Geometry) -> impl Fn(&[Slot]) -> bool + use<> {
    let bearing = Bearing::new(&geometry.code, geometry.placement);
    let slots = geometry.slots() as u32;
    move |side| {
        let others = (0..slots).map(Slot).filter(|slot| !side.contains(slot));
        bearing.bears(&others.collect::<Vec<Slot>>())
    }
}

/// The superblock that a volume goes on from.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) newest: Superblock,
    /// The newest session that has changed anything.
    pub(super) base_session: Session,
    /// Devices that ran separately, and their histories.
    pub(super) apart: Vec<(Slot, HistoryId)>,
}

/// Chooses the side that a volume is opened from. `bears`: true if the code tolerates the loss of
/// all devices but these.
///
/// Errors: `NotThere` without any superblock, `RanSeparately` if no side could be opened alone, or
/// several could.
pub(super) fn choose(known: &[Known], bears: impl Fn(&[Slot]) -> bool) -> Result<Chosen, OpenError> {
    let mut heads: Vec<&Known> = Vec::new();
    let mut by_level: Vec<&Known> = known.iter().collect();
    by_level.sort_by_key(|known| std::cmp::Reverse(known.level()));
    for head in by_level {
        if !heads.iter().any(|newer| newer.goes_on_from(head)) {
            heads.push(head);
        }
    }
    let Some(newest) = heads.first() else { return Err(OpenError::NotThere) };
    let others = |head: &Known| -> Vec<(Slot, HistoryId)> {
        let apart = known.iter().filter(|other| !head.goes_on_from(other));
        apart.map(|other| (other.superblock.slot, other.superblock.history)).collect()
    };
    let chosen =
        |head: &Known, apart| Chosen { newest: head.superblock.clone(), base_session: head.level().0, apart };
    if heads.len() == 1 {
        return Ok(chosen(newest, Vec::new()));
    }
    let can_be_opened = |head: &&&Known| {
        let side = known.iter().filter(|other| head.goes_on_from(other));
        bears(&side.map(|other| other.superblock.slot).collect::<Vec<Slot>>())
    };
    let able: Vec<&Known> = heads.iter().filter(can_be_opened).copied().collect();
    match able[..] {
        [only] => Ok(chosen(only, others(only))),
        _ => Err(OpenError::RanSeparately { newest: newest.superblock.history, others: others(newest) }),
    }
}
