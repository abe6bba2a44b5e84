//! Superblocks of devices, and the text of a code.
//!
//! A superblock is stored twice at the front of a device and once behind its last chunk; each of
//! the three suffices. docs/volume-format.md has the zones.

use crate::FolderError;
use crate::geometry::{self, Misfit};
use crate::memory::BLOCK;
use pantile_device::{AlignedBuf, Device};
use pantile_format::volume::{Superblock, VolumeId};
use pantile_volume::{Geometry, Slot};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Offset of the text of a code that no family names.
pub(crate) const DEFINITION_AT: u64 = 2 * BLOCK as u64;

/// Number of blocks at the end of a device that are searched for the copy of a superblock: 8 MiB.
/// Between that copy and the end of the device, a volume leaves less than a stripe and at most 4
/// MiB.
pub(crate) const TAIL_BLOCKS: u64 = 2048;

/// Returns the newest superblock of a device, from any of its three places. If a volume is given,
/// superblocks of other volumes are ignored.
pub(crate) fn newest_superblock(device: &dyn Device, volume: Option<VolumeId>) -> Option<Superblock> {
    let found = superblocks(device).into_iter().map(|(_, found)| found);
    let found = found.filter(|found| volume.is_none_or(|volume| found.volume == volume));
    found.max_by_key(|found| (found.session, found.update))
}

/// Returns the superblock of a device that is under construction as the copy of a member: one
/// marked superblock in the three places is enough.
///
/// At the end of the copy the marks are overwritten one after another, the one behind the last
/// chunk last. So an interrupted copy keeps a mark until it is complete.
pub(crate) fn copy_under_way(device: &dyn Device) -> Option<Superblock> {
    let copies = all_superblocks(device).into_iter().filter(|(_, found)| is_of_copy(found));
    copies.map(|(_, found)| found).next()
}

fn is_of_copy(found: &Superblock) -> bool {
    found.copy_begun > 0
}

/// Does the same as [`newest_superblock`], and also searches the place behind the last chunk of a
/// device of this geometry. A device can be longer than its volume needs, and without its front it
/// does not say by how much.
pub(crate) fn newest_superblock_of(device: &dyn Device, geometry: &Geometry) -> Option<Superblock> {
    newest_superblock(device, Some(geometry.volume)).or_else(|| {
        if superblock_at(device, 0).or_else(|| superblock_at(device, 1)).is_some() {
            // The device belongs to another volume now, or is a copy under construction.
            return None;
        }
        let slots = (0..geometry.slots() as u32).map(Slot);
        let ends: BTreeSet<u64> = slots.map(|slot| geometry.device_blocks(slot) - 1).collect();
        let copies = ends.into_iter().filter_map(|block| copy_at(device, block));
        copies
            .filter(|found| found.volume == geometry.volume && !is_of_copy(found))
            .max_by_key(|found| (found.session, found.update))
    })
}

/// Returns the superblocks of a member with their block numbers; none for a copy under
/// construction.
fn superblocks(device: &dyn Device) -> Vec<(u64, Superblock)> {
    let found = all_superblocks(device);
    match found.iter().any(|(_, found)| is_of_copy(found)) {
        true => Vec::new(),
        false => found,
    }
}

/// Returns the superblocks of a device with their block numbers, also for a copy under
/// construction. One at the front gives the place of the last one; without it the end of the device
/// is searched.
pub(crate) fn all_superblocks(device: &dyn Device) -> Vec<(u64, Superblock)> {
    let at = |block: u64| Some((block, superblock_at(device, block)?));
    let mut found: Vec<(u64, Superblock)> = [0, 1].into_iter().filter_map(at).collect();
    let last = (device.len_bytes() / BLOCK as u64).checked_sub(1);
    let copies: BTreeSet<u64> = found.iter().filter_map(|(_, found)| copy_of(found)).chain(last).collect();
    found.extend(copies.into_iter().filter_map(|block| Some((block, copy_at(device, block)?))));
    if found.is_empty() {
        found.extend(copy_near_end(device));
    }
    found
}

fn superblock_at(device: &dyn Device, block: u64) -> Option<Superblock> {
    if block >= device.len_bytes() / BLOCK as u64 {
        return None;
    }
    let mut buffer = AlignedBuf::zeroed(BLOCK);
    device.read_at(block * BLOCK as u64, buffer.whole_mut()).ok()?;
    decode_any(&buffer)
}

fn decode_any(bytes: &[u8]) -> Option<Superblock> {
    Superblock::decode(bytes).or_else(|_| Superblock::decode_copy(bytes)).ok()
}

/// Returns the reason why a device has no superblock of a member, as text.
pub(crate) fn nothing_on(device: &dyn Device) -> String {
    if let Some(copy) = copy_under_way(device) {
        return format!("it is an unfinished copy of device {} of the volume '{}'", copy.slot.0, copy.name);
    }
    let mut front = AlignedBuf::zeroed(BLOCK.min(device.len_bytes() as usize));
    match device.read_at(0, front.whole_mut()) {
        Err(error) => format!("whether it is of this volume cannot be read: {error}"),
        Ok(()) => "it holds nothing of this volume".into(),
    }
}

/// Returns the block number of a superblock's copy, which is behind the last chunk. It is the last
/// block of the device only if no space is unused.
fn copy_of(superblock: &Superblock) -> Option<u64> {
    superblock.shape.device_blocks_needed()?.checked_sub(1)
}

/// Returns the superblock in a block, if it is the copy that belongs there.
fn copy_at(device: &dyn Device, block: u64) -> Option<Superblock> {
    superblock_at(device, block).filter(|found| is_copy(device, block, found))
}

/// True if a superblock is the copy that belongs in this block. User data can look like a
/// superblock, but then it names another block.
fn is_copy(device: &dyn Device, block: u64, found: &Superblock) -> bool {
    copy_of(found) == Some(block)
        || (block + 1) * BLOCK as u64 > device.len_bytes().saturating_sub(BLOCK as u64)
}

/// Returns the last copy of a superblock on a device, and its block number.
pub(crate) fn copy_near_end(device: &dyn Device) -> Option<(u64, Superblock)> {
    let blocks = device.len_bytes() / BLOCK as u64;
    if blocks == 0 {
        // The device is shorter than a block.
        return None;
    }
    let first = blocks.saturating_sub(TAIL_BLOCKS);
    let mut tail = AlignedBuf::zeroed((blocks - first) as usize * BLOCK);
    device.read_at(first * BLOCK as u64, tail.whole_mut()).ok()?;
    let places = (first..blocks).rev().zip(tail.chunks_exact(BLOCK).rev());
    places
        .filter_map(|(block, bytes)| Some((block, decode_any(bytes)?)))
        .find(|(block, found)| is_copy(device, *block, found))
}

/// Returns the geometry of a superblock. The text of a code that no family names is stored on each
/// device; the first intact one is used.
pub(crate) fn geometry_of<'d>(
    superblock: &Superblock,
    devices: impl IntoIterator<Item = &'d dyn Device>,
) -> Result<Geometry, FolderError> {
    let mut tried: Vec<PathBuf> = Vec::new();
    let areas = devices.into_iter().map(|device| {
        tried.push(device.path().to_path_buf());
        definition_of(superblock, device)
    });
    let area = areas.flatten().next();
    let area = area.ok_or_else(|| FolderError::NoDefinition { devices: tried.clone() })?;
    geometry::of(superblock, &area).map_err(|misfit| match misfit {
        Misfit::Code(error) => FolderError::Code(error),
        Misfit::Equations => FolderError::OtherCode { spec: superblock.spec.clone() },
        Misfit::Format(error) => FolderError::Format(error),
        Misfit::Numbers => FolderError::OtherNumbers { path: tried.into_iter().next().unwrap_or_default() },
    })
}

/// Returns the definition area of a device, if it matches the superblock; zeros if the code needs
/// no text.
pub(crate) fn definition_of(superblock: &Superblock, device: &dyn Device) -> Option<AlignedBuf> {
    let Some(definition) = superblock.definition else { return Some(AlignedBuf::zeroed(BLOCK)) };
    let blocks = u64::from(definition.len).div_ceil(BLOCK as u64);
    let mut area = AlignedBuf::zeroed(blocks as usize * BLOCK);
    device.read_at(DEFINITION_AT, area.whole_mut()).ok()?;
    superblock.code(&area).is_ok().then_some(area)
}
