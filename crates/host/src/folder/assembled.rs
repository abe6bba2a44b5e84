//! A volume that is assembled from its devices alone, given under any names and in any order.

use super::ran_separately;
use crate::opening::{CLOSING, open_to_look};
use crate::superblocks::{copy_under_way, geometry_of, newest_superblock, newest_superblock_of};
use crate::timely::Timely;
use crate::{FolderError, HostError};
use pantile_device::{Device, absolute_path};
use pantile_format::volume::Superblock;
use pantile_volume::{Bearing, Slot, choose_side, histories_are_forgotten};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The devices of a volume, as their superblocks identify them.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The newest superblock.
    pub superblock: Superblock,
    /// Columns of the code.
    pub slots: usize,
    /// Paths of the devices, by slot.
    pub devices: BTreeMap<u32, PathBuf>,
    /// By slot, devices under construction as copies of the device there; the latest one of each
    /// slot.
    pub replacing: BTreeMap<u32, PathBuf>,
    /// Slots whose device lacks writes and will be caught up.
    pub stale: Vec<u32>,
    /// True if the code tolerates the missing and stale devices, so that the volume can be opened.
    pub enough: bool,
    /// Devices that belong to no slot, with the reason.
    pub left_out: Vec<(PathBuf, String)>,
}

/// Keeps the newest device of each slot and leaves out older copies. Of two devices of one slot,
/// the one with the higher session and update is the newer if its history continues that of the
/// other.
///
/// Errors: `SlotTwice` if neither of two devices is known to be newer.
fn without_older_copies(
    found: Vec<(PathBuf, Arc<dyn Device>, Superblock)>,
    left_out: &mut Vec<(PathBuf, String)>,
) -> Result<Vec<(PathBuf, Superblock)>, FolderError> {
    let order = |superblock: &Superblock| (superblock.session, superblock.update);
    let mut found: Vec<(PathBuf, Superblock)> =
        found.into_iter().map(|(path, _, superblock)| (path, superblock)).collect();
    found.sort_by_key(|(_, superblock)| (superblock.slot, std::cmp::Reverse(order(superblock))));
    let mut newest: Vec<(PathBuf, Superblock)> = Vec::new();
    for (path, superblock) in found {
        let Some((first, used)) = newest.last().filter(|(_, used)| used.slot == superblock.slot) else {
            newest.push((path, superblock));
            continue;
        };
        let goes_on = used.history == superblock.history || used.ancestors.contains(&superblock.history);
        if !goes_on || order(used) == order(&superblock) {
            return Err(FolderError::SlotTwice { slot: used.slot, first: first.clone(), second: path });
        }
        let why =
            format!("it is an older copy of device {}, as which {} is used", used.slot.0, first.display());
        left_out.push((path, why));
    }
    Ok(newest)
}

/// An opened device, and its newest superblock.
pub(crate) type Looked = (PathBuf, Arc<dyn Device>, Option<Superblock>);

/// The problem of a device without a superblock.
pub(crate) const NOTHING: &str = "it holds no superblock of a volume";

/// Reads the superblocks of devices, under any names and in any order. The newest superblock
/// identifies the volume.
pub(super) fn scan(paths: &[PathBuf]) -> Result<Assembled, FolderError> {
    let (mut looked, mut left_out): (Vec<Looked>, _) = (Vec::new(), Vec::new());
    let closed = Instant::now() + CLOSING;
    for path in paths {
        match open_to_look(path, closed) {
            Err(error) => left_out.push((path.clone(), error.to_string())),
            Ok(device) => {
                let superblock = newest_superblock(&Timely::of(&device), None);
                looked.push((path.clone(), device, superblock));
            }
        }
    }
    of_devices(looked, left_out)
}

/// Assembles devices of one volume, and devices on which no superblock was found yet, which may
/// belong to it.
pub(crate) fn of_devices(
    looked: Vec<Looked>,
    mut left_out: Vec<(PathBuf, String)>,
) -> Result<Assembled, FolderError> {
    let mut found: Vec<(PathBuf, Arc<dyn Device>, Superblock)> = Vec::new();
    let mut without = Vec::new();
    for (path, device, superblock) in looked {
        match superblock {
            None => without.push((path, device)),
            Some(superblock) => found.push((path, device, superblock)),
        }
    }
    let order = |superblock: &Superblock| (superblock.session, superblock.update);
    let Some((_, _, newest)) = found.iter().max_by_key(|(_, _, superblock)| order(superblock)) else {
        left_out.extend(without.into_iter().map(|(path, _)| (path, NOTHING.into())));
        return Err(FolderError::NothingFound { first: left_out.into_iter().next() });
    };
    let newest = newest.clone();
    if let Some((_, _, other)) = found.iter().find(|(_, _, superblock)| superblock.volume != newest.volume) {
        return Err(FolderError::SeveralVolumes { first: newest.volume, second: other.volume });
    }
    let asked: Vec<Timely> = found.iter().map(|(_, device, _)| Timely::of(device)).collect();
    let geometry = geometry_of(&newest, asked.iter().map(|device| device as &dyn Device))?;
    let mut copies: BTreeMap<u32, (u64, PathBuf)> = BTreeMap::new();
    for (path, device) in without {
        if let Some(copy) = copy_under_way(&Timely::of(&device)) {
            let slot = copy.slot.0;
            let begun = copy.copy_begun;
            if copy.volume == newest.volume && copies.get(&slot).is_none_or(|(before, _)| *before < begun) {
                let path = absolute_path(&path).unwrap_or_else(|_| path.clone());
                copies.insert(slot, (begun, path));
            }
            let why = format!("it is an unfinished copy of device {slot} of the volume '{}'", copy.name);
            left_out.push((path, why));
            continue;
        }
        match newest_superblock_of(&Timely::of(&device), &geometry) {
            Some(superblock) => found.push((path, device, superblock)),
            None => left_out.push((path, NOTHING.into())),
        }
    }
    let mut devices: BTreeMap<u32, PathBuf> = BTreeMap::new();
    let mut stale = Vec::new();
    let found = without_older_copies(found, &mut left_out)?;
    let superblocks: Vec<Superblock> = found.iter().map(|(_, superblock)| superblock.clone()).collect();
    let (newest, apart) = choose_side(&superblocks, &geometry).map_err(HostError::Open)?;
    let are_forgotten = histories_are_forgotten(&newest);
    for (path, superblock) in &found {
        let slot = superblock.slot;
        if let Some((_, history)) = apart.iter().find(|(apart, _)| *apart == slot) {
            left_out.push((
                path.clone(),
                format!(
                    "as device {} {}, and is left as it is",
                    slot.0,
                    ran_separately(*history, are_forgotten)
                ),
            ));
            continue;
        }
        // A device that was away when the volume last ran has an older history or session.
        if superblock.history != newest.history || superblock.session < newest.session {
            stale.push(slot.0);
        }
        devices.insert(slot.0, path.clone());
    }
    let is_whole = |slot: &u32| devices.contains_key(slot) && !stale.contains(slot);
    let lost: Vec<Slot> = (0..geometry.slots() as u32).filter(|slot| !is_whole(slot)).map(Slot).collect();
    let enough = Bearing::new(&geometry.code, geometry.placement).bears(&lost);
    // Without the device of its slot a copy cannot be continued.
    let here = copies.into_iter().filter(|(slot, _)| devices.contains_key(slot));
    let replacing = here.map(|(slot, (_, path))| (slot, path)).collect();
    let slots = geometry.slots();
    Ok(Assembled { superblock: newest, slots, devices, replacing, stale, enough, left_out })
}
