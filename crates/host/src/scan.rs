//! Recovery of a volume whose superblocks or maps are lost on more devices than its code tolerates,
//! from the headers of its chunks.
//!
//! First only the superblocks are reconstructed, in memory: chunks identify their device, and any
//! remaining superblock has all other numbers. If the journal and a snapshot can then be read, only
//! superblocks are written. Otherwise the maps are rebuilt from the chunks, without the blocks of
//! the log ([`pantile_volume::maps_anew`]).
//!
//! Invariant: only [`Plan::carry_out`] writes, and only to the devices that were scanned, which
//! stay open until then. If it is killed, it can begin again: the remaining superblock is
//! overwritten last on its device, and the maps that it refers to are never overwritten.

use crate::folder::fresh_history;
use crate::memory::BLOCK;
use crate::opening::{CLOSING, open_as, open_soon};
use crate::superblocks::{copy_under_way, geometry_of, newest_superblock, newest_superblock_of, nothing_on};
use crate::{FolderError, Host, HostError, HostOptions};
use pantile_device::{Access, AlignedBuf, Device, DeviceError, Identity, OpKind, Part, PartMut, Site};
use pantile_format::volume::{ChunkHeader, Superblock};
use pantile_volume::{
    Anew, Bearing, ChunkFound, DeviceBlock, Geometry, OpenError, Slot, maps_anew, superblocks_again,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A planned recovery.
pub struct Plan {
    /// The newest remaining superblock.
    pub superblock: Superblock,
    /// Paths of the devices, by slot.
    pub devices: BTreeMap<u32, PathBuf>,
    /// Slots whose device was identified by its chunks alone, and gets a superblock.
    pub without_superblock: Vec<u32>,
    /// True if journal and snapshots are unreadable, so that the maps are rebuilt from the chunks.
    pub maps_are_lost: bool,
    /// The writes, in steps.
    pub anew: Anew,
    /// Columns of the code.
    pub slots: usize,
    /// Devices that belong to no slot, with the reason.
    pub left_out: Vec<(PathBuf, String)>,
    /// The open devices.
    open: BTreeMap<Slot, Open>,
}

/// A device, opened for writing if possible.
struct Open {
    device: Arc<dyn Device>,
    /// The error for which it cannot be written.
    only_reads: Option<DeviceError>,
}

/// A device that was scanned.
struct Looked {
    path: PathBuf,
    open: Open,
    has_superblock: bool,
    chunks: Vec<ChunkFound>,
}

impl Plan {
    /// Scans devices, under any names and in any order. Nothing is written.
    ///
    /// Errors: no superblock is left, two devices have the same slot, or too few devices are
    /// available. Cost: reads the header of every chunk of every device.
    pub fn of(paths: &[PathBuf]) -> Result<Plan, FolderError> {
        let mut left_out = Vec::new();
        let mut opened: Vec<(PathBuf, Open)> = Vec::new();
        for path in paths {
            match Open::by(path) {
                Ok(open) => opened.push((path.clone(), open)),
                Err(error) => left_out.push((path.clone(), error.to_string())),
            }
        }
        let order = |superblock: &Superblock| (superblock.session, superblock.update);
        let left = opened.iter().filter_map(|(_, open)| newest_superblock(&*open.device, None));
        let Some(left) = left.max_by_key(order) else { return Err(FolderError::NoSuperblockLeft) };
        let geometry = geometry_of(&left, opened.iter().map(|(_, open)| &*open.device))?;
        let mut here: BTreeMap<Slot, Looked> = BTreeMap::new();
        for (path, open) in opened {
            if copy_under_way(&*open.device).is_some() {
                // A copy under construction has chunks of the device that it is a copy of.
                left_out.push((path, nothing_on(&*open.device)));
                continue;
            }
            match look_at(&path, open, &geometry) {
                Err(why) => left_out.push((path, why)),
                Ok((slot, looked)) => {
                    if let Some(first) = here.get(&slot) {
                        let (first, second) = (first.path.clone(), looked.path);
                        return Err(FolderError::SlotTwice { slot, first, second });
                    }
                    here.insert(slot, looked);
                }
            }
        }
        let all = (0..geometry.slots() as u32).map(Slot);
        let missing: Vec<Slot> = all.filter(|slot| !here.contains_key(slot)).collect();
        if !Bearing::new(&geometry.code, geometry.placement).bears(&missing) {
            let (have, need) = (here.len(), geometry.slots() - geometry.tolerance());
            let error = OpenError::TooFewDevices { have, need: need.max(have + 1), older: Vec::new() };
            return Err(HostError::Open(error).into());
        }
        let without: Vec<Slot> =
            here.iter().filter(|(_, looked)| !looked.has_superblock).map(|(slot, _)| *slot).collect();
        let again = superblocks_again(&geometry, &left, &without);
        let maps_are_lost = !tells_all(&geometry, &here, &again);
        let anew = match maps_are_lost {
            false => again,
            true => {
                let found: Vec<ChunkFound> =
                    here.values().flat_map(|looked| looked.chunks.iter().copied()).collect();
                let slots: BTreeSet<Slot> = here.keys().copied().collect();
                maps_anew(&geometry, &left, &slots, &found, fresh_history()?)
            }
        };
        Ok(Plan {
            superblock: left,
            devices: here.iter().map(|(slot, looked)| (slot.0, looked.path.clone())).collect(),
            without_superblock: without.into_iter().map(|slot| slot.0).collect(),
            maps_are_lost,
            anew,
            slots: geometry.slots(),
            left_out,
            open: here.into_iter().map(|(slot, looked)| (slot, looked.open)).collect(),
        })
    }

    /// True if there is something to write.
    pub fn is_needed(&self) -> bool {
        self.maps_are_lost || !self.without_superblock.is_empty()
    }

    /// Writes to the scanned devices, even if their paths have changed. Each step is durable on all
    /// devices before the next.
    ///
    /// Errors: a device cannot be written; then nothing is written.
    pub fn carry_out(&self) -> Result<(), FolderError> {
        let mut devices: BTreeMap<Slot, &dyn Device> = BTreeMap::new();
        for (&slot, open) in &self.open {
            if let Some(error) = &open.only_reads {
                return Err(error.clone().into());
            }
            devices.insert(slot, &*open.device);
        }
        for step in &self.anew.steps {
            for (slot, at, bytes) in step {
                let Some(device) = devices.get(slot) else { continue };
                let mut buffer = AlignedBuf::zeroed(bytes.len());
                buffer.copy_from_slice(bytes);
                device.write_at(at.0 * BLOCK as u64, &[buffer.whole()])?;
            }
            devices.values().try_for_each(|device| device.flush())?;
        }
        Ok(())
    }
}

impl Open {
    fn by(path: &Path) -> Result<Open, DeviceError> {
        let until = Instant::now() + CLOSING;
        match open_soon(path, until) {
            Ok(device) => Ok(Open { device, only_reads: None }),
            Err(error @ (DeviceError::ReadOnly { .. } | DeviceError::NotThere { .. })) => {
                let device = open_as(path, Access::ReadOnly, until)?;
                Ok(Open { device, only_reads: Some(error) })
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the slot of a device, from its superblock or from most of its chunks.
fn look_at(path: &Path, open: Open, geometry: &Geometry) -> Result<(Slot, Looked), String> {
    let device = &*open.device;
    let own = newest_superblock_of(device, geometry);
    if let Some(other) = newest_superblock(device, None).filter(|found| found.volume != geometry.volume) {
        return Err(format!("it belongs to the volume '{}' ({})", other.name, other.volume));
    }
    let refuse_if_short = |slot| {
        let (have, need) = (device.len_bytes(), geometry.device_blocks(slot) * BLOCK as u64);
        let error = || format!("it has {have} bytes and had {need}: its end is missing");
        if have < need { Err(error()) } else { Ok(slot) }
    };
    let own = match own.map(|superblock| superblock.slot) {
        Some(slot) if (slot.0 as usize) < geometry.slots() => Some(refuse_if_short(slot)?),
        Some(_) => return Err("the volume has no such device".into()),
        None => None,
    };
    let mut by_slot = chunks_of(device, geometry);
    let slot = match own {
        Some(slot) => slot,
        None => {
            let most = by_slot.iter().max_by_key(|(slot, chunks)| (chunks.len(), std::cmp::Reverse(**slot)));
            refuse_if_short(*most.ok_or("it holds neither a superblock nor chunks of the volume")?.0)?
        }
    };
    let chunks = by_slot.remove(&slot).unwrap_or_default();
    let (path, has_superblock) = (path.to_path_buf(), own.is_some());
    Ok((slot, Looked { path, open, has_superblock, chunks }))
}

/// Returns the chunks of a device that are stored at the place that they name, by their slot.
fn chunks_of(device: &dyn Device, geometry: &Geometry) -> BTreeMap<Slot, Vec<ChunkFound>> {
    let mut found: BTreeMap<Slot, Vec<ChunkFound>> = BTreeMap::new();
    // If columns have chunks of different lengths, chunks can be at the places of each length.
    let mut layouts: BTreeMap<(DeviceBlock, u32), Slot> = BTreeMap::new();
    for slot in (0..geometry.slots() as u32).map(Slot) {
        layouts.entry((geometry.chunk_start(1, slot), geometry.header_blocks(slot))).or_insert(slot);
    }
    for ((_, blocks), like) in layouts {
        let mut header = AlignedBuf::zeroed(blocks as usize * BLOCK);
        for physical in 0..geometry.physical_stripes() {
            let at = geometry.chunk_start(physical, like);
            // The following places are beyond the device, too. A forged superblock can have any
            // number of stripes.
            if at.0.saturating_mul(BLOCK as u64) >= device.len_bytes() {
                break;
            }
            if device.read_at(at.0 * BLOCK as u64, header.whole_mut()).is_err() {
                continue;
            }
            let Ok(chunk) = ChunkHeader::decode(&header, geometry.volume) else { continue };
            let slot = chunk.slot;
            let is_right = (slot.0 as usize) < geometry.slots()
                && chunk.physical.0 == u64::from(physical)
                && chunk.logical.0 < u64::from(geometry.logical_stripes())
                && geometry.chunk_start(physical, slot) == at
                && geometry.column(physical, slot) as u32 == chunk.column.0
                && chunk.is_whole();
            if is_right {
                let (logical, generation) = (chunk.logical.0 as u32, chunk.generation.0);
                found.entry(slot).or_default().push(ChunkFound { slot, physical, logical, generation });
            }
        }
    }
    found
}

/// True if the volume opens after these writes, with maps that are as new as its chunks.
fn tells_all(geometry: &Geometry, here: &BTreeMap<Slot, Looked>, again: &Anew) -> bool {
    let mut devices: Vec<Option<Arc<dyn Device>>> = vec![None; geometry.slots()];
    for (slot, looked) in here {
        let writes = again.steps.iter().flatten().filter(|(of, ..)| of == slot);
        let blocks = writes.flat_map(|(_, at, bytes)| (at.0..).zip(bytes.chunks(BLOCK).map(<[u8]>::to_vec)));
        devices[slot.0 as usize] =
            Some(Arc::new(Thought { below: looked.open.device.clone(), blocks: blocks.collect() }));
    }
    let Ok(host) = Host::look(geometry.clone(), devices, &HostOptions::for_devices(geometry.slots())) else {
        return false;
    };
    let Ok(report) = host.report() else { return false };
    // A session begins with a generation above all that earlier sessions can have used, and a
    // session that wrote nothing leaves no chunks. So the newest chunk may exceed the maps by at
    // most `most`.
    let most = 2 * (u64::from(geometry.physical_stripes()) + u64::from(geometry.log_rows()));
    let chunks = here.values().flat_map(|looked| &looked.chunks).filter(|chunk| chunk.is_possible());
    let newest = chunks.map(|chunk| chunk.generation).max().unwrap_or(0);
    !report.status.failed
        && report.status.apart.is_empty()
        && newest < report.status.next_generation.saturating_add(most)
}

/// A read-only view of a device, in which some blocks have other contents.
struct Thought {
    below: Arc<dyn Device>,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Thought {
    fn refused(&self, op: OpKind, offset_bytes: u64, len_bytes: u64) -> DeviceError {
        let device = self.below.path().to_path_buf();
        DeviceError::ReadOnly { at: Site { device, op, offset_bytes, len_bytes }, errno: 0 }
    }
}

impl Device for Thought {
    fn path(&self) -> &Path {
        self.below.path()
    }

    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_len_bytes(&self) -> u32 {
        self.below.block_len_bytes()
    }

    fn identity(&self) -> Identity {
        self.below.identity()
    }

    fn read_at(&self, offset_bytes: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        self.below.read_at(offset_bytes, into.again())?;
        let first = offset_bytes / BLOCK as u64;
        for (at, block) in (first..).zip(into.chunks_exact_mut(BLOCK)) {
            if let Some(thought) = self.blocks.get(&at) {
                block.copy_from_slice(thought);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        Err(self.refused(OpKind::Write, offset_bytes, len))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        Err(self.refused(OpKind::Discard, offset_bytes, len_bytes))
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        Err(self.refused(OpKind::Zero, offset_bytes, len_bytes))
    }
}
