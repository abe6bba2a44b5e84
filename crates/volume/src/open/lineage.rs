//! Histories of devices: which devices are still of one volume, and when a volume gets another
//! history.
//!
//! Each superblock names the history of its device and the histories before it. A device whose
//! history is neither the newest one nor among those before it has run separately: it and the
//! others have written different things, which nothing can merge.
//!
//! *When a new history is drawn.* Only when the volume is opened without a device that may have the
//! present history, because only such a device could be opened elsewhere and continue this history
//! too. A device that was away when the history was drawn, and has been away since, cannot. So a
//! volume that is opened a thousand times without that device keeps one history, and the device
//! finds its own history among the ancestors when it comes back. There is one ancestor for each
//! time that a device was lost, not for each opening. The list has room for 126 as long as any of
//! these devices is away; after that a device that comes back is taken for one that ran separately.
//!
//! *Proof that no absent device has a history.* While no device has been lost or admitted since a
//! history was drawn, its list of ancestors begins with the same ancestor twice ([`is_closed`]),
//! and all superblocks name the absent devices as lost. Every superblock of this history on every
//! device that is present must say so. The duplicate is removed ([`open_up`]) with the first
//! superblock that names another loss, and before any device is admitted.
//!
//! Example: 6 devices, history A. Opened without device 3: B is drawn, with ancestors `A A`, and 3
//! is lost. Opened 300 times like this: the history stays B. Device 3 comes, with history A, which
//! is an ancestor, so it is caught up: first a superblock with the ancestors `A` is made durable,
//! then device 3 gets one. Opened without device 5: C is drawn, with ancestors `B B A`.
//!
//! *Devices that ran separately.* If exactly one of the sides could be opened alone, it is opened;
//! the devices of the others are not changed, and are reported. If several could be opened alone,
//! each may have flushed writes, and an operator must choose: nothing is opened.

use super::OpenError;
use crate::{Bearing, Geometry, Slot};
use pantile_format::volume::{HistoryId, Session, Superblock};

/// Returns true if no absent device can have the history of a superblock. This is so if since the
/// history was drawn no device was admitted, and none was lost but those that the superblock calls
/// lost.
pub(crate) fn is_closed(superblock: &Superblock) -> bool {
    matches!(&superblock.ancestors[..], [first, second, ..] if first == second)
}

/// Notes that a device may have the history from now on: one that is lost, or about to be admitted.
pub(crate) fn open_up(superblock: &mut Superblock) {
    if is_closed(superblock) {
        superblock.ancestors.remove(0);
    }
}

/// Returns the history and ancestors of a session that begins without some devices, one of which
/// may have the history from before.
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
    /// Returns the order in which superblocks count: by the newest session that has changed
    /// something, then by the newest that was begun.
    fn level(&self) -> (Session, Session, u64) {
        let Superblock { session, base, update, .. } = self.superblock;
        (if self.is_established { session } else { base }, session, update)
    }

    /// Returns true if this device continues from everything that another one has written. A device
    /// that has changed nothing belongs to every side.
    fn goes_on_from(&self, other: &Known) -> bool {
        let (own, history) = (&self.superblock, &other.superblock.history);
        !other.is_established || own.history == *history || own.ancestors.contains(history)
    }
}

/// Returns the newest superblock of the side that an opening would use, and the devices of the
/// other sides. It is for callers that have superblocks alone, so every session counts as one that
/// changed something.
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

/// Returns true if a superblock may have dropped older ancestors: a device that seems to have run
/// separately may then only have been away.
pub fn histories_are_forgotten(superblock: &Superblock) -> bool {
    // The list is one shorter once the duplicate of the first ancestor is removed.
    superblock.ancestors.len() + 1 >= Superblock::ANCESTORS_MOST
}

/// Returns a test whether a volume can be opened with only these devices.
pub(super) fn can_do_with(geometry: &Geometry) -> impl Fn(&[Slot]) -> bool + use<> {
    let bearing = Bearing::new(&geometry.code, geometry.placement);
    let slots = geometry.slots() as u32;
    move |side| {
        let others = (0..slots).map(Slot).filter(|slot| !side.contains(slot));
        bearing.bears(&others.collect::<Vec<Slot>>())
    }
}

/// The superblock that a volume continues from.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) newest: Superblock,
    /// The newest session that has changed anything.
    pub(super) base_session: Session,
    /// Devices that ran separately, and their histories.
    pub(super) apart: Vec<(Slot, HistoryId)>,
}

/// Chooses the side that a volume is opened from. `bears`: true if the volume can be opened with
/// only these devices.
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
