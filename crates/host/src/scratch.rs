//! Devices for an experiment, which writes anywhere and makes them part of no volume.
//!
//! A device for a volume only needs a blank front, because a volume knows which blocks it has
//! written. An experiment writes anywhere, so more is checked.

use crate::FolderError;
use crate::folder::{check_once, check_to_make};
use pantile_device::{AlignedBuf, Device, FileDevice};
use std::path::PathBuf;

/// Length of the checked parts at the front and at the end.
const EDGE_BYTES: u64 = 1 << 20;

/// Number of checked places in between.
const PLACES: u64 = 256;

/// Length of each of these places.
const PLACE_BYTES: u64 = 64 << 10;

/// Opens files and block devices for writes at any offset, each locked exclusively. Nothing is
/// written here.
///
/// Without `overwrite` each device must be blank: no superblock of a volume, and only zeros or
/// holes in the first and the last MiB and in 256 places of 64 KiB in between. A device of up to 18
/// MiB is checked as a whole.
///
/// Errors: a device cannot be opened, is in use, is named twice or is not blank.
pub fn open_scratch(paths: &[PathBuf], overwrite: bool) -> Result<Vec<FileDevice>, FolderError> {
    let mut devices = Vec::with_capacity(paths.len());
    for (nth, path) in paths.iter().enumerate() {
        check_once(path, &paths[..nth])?;
        let device = FileDevice::open(path)?;
        check_to_make(&device, overwrite)?;
        if !overwrite && !is_blank(&device)? {
            return Err(FolderError::HoldsData { path: path.clone(), holds: None });
        }
        devices.push(device);
    }
    Ok(devices)
}

/// True if all checked places of a device contain only zeros.
fn is_blank(device: &FileDevice) -> Result<bool, FolderError> {
    let mut buffer = AlignedBuf::zeroed(EDGE_BYTES as usize);
    for (at, len) in places(device.len_bytes(), u64::from(device.block_len_bytes())) {
        let len = len as usize;
        device.read_at(at, buffer.part_mut(0..len))?;
        if buffer[..len].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the checked places of a device of this length: offsets and lengths, in whole blocks and
/// none longer than [`EDGE_BYTES`].
fn places(len: u64, block: u64) -> Vec<(u64, u64)> {
    if len <= 2 * EDGE_BYTES + PLACES * PLACE_BYTES {
        let at = (0..len).step_by(EDGE_BYTES as usize);
        return at.map(|at| (at, EDGE_BYTES.min(len - at))).collect();
    }
    let stride = (len - 2 * EDGE_BYTES) / PLACES;
    let between = (0..PLACES).map(|nth| EDGE_BYTES + nth * stride);
    let between = between.map(|at| (at - at % block, PLACE_BYTES.next_multiple_of(block)));
    [(0, EDGE_BYTES), (len - EDGE_BYTES, EDGE_BYTES)].into_iter().chain(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    #[test]
    fn places_are_whole_blocks_of_the_device_and_reach_both_ends() {
        for (len, block) in
            [(512, 512), (5 << 20, 4096), (18 << 20, 4096), ((18 << 20) + 512, 512), (7 << 40, 4096)]
        {
            let places = places(len, block);
            let is_within = |&(at, bytes): &(u64, u64)| {
                at % block == 0 && bytes % block == 0 && bytes <= EDGE_BYTES && at + bytes <= len
            };
            assert!(places.iter().all(is_within), "{len} {places:?}");
            assert_eq!(places.iter().map(|(at, _)| at).min(), Some(&0));
            assert_eq!(places.iter().map(|(at, bytes)| at + bytes).max(), Some(len));
        }
    }

    /// Puts one non-zero byte into each checked place. A device with one behind the front is still
    /// accepted for a volume.
    #[test]
    fn a_byte_in_a_place_that_is_looked_at_is_enough_to_refuse() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let len = 1 << 30;
        let file = File::create(&path).expect("a file");
        file.set_len(len).expect("a length");
        let open =
            |overwrite| open_scratch(std::slice::from_ref(&path), overwrite).map(|devices| devices.len());
        assert_eq!(open(false), Ok(1));
        for at in
            [0, EDGE_BYTES - 1, len - EDGE_BYTES, len - 1, EDGE_BYTES + (len - 2 * EDGE_BYTES) / PLACES * 100]
        {
            file.write_all_at(&[1], at).expect("a byte");
            let holds = FolderError::HoldsData { path: path.clone(), holds: None };
            assert_eq!(open(false), Err(holds), "{at}");
            assert_eq!(open(true), Ok(1));
            file.write_all_at(&[0], at).expect("a byte");
        }
        assert_eq!(open(false), Ok(1));
        let held = FileDevice::open(&path).expect("a device");
        assert!(matches!(open(true), Err(FolderError::Device(_))), "it is in use");
        drop(held);
        let twice = open_scratch(&[path.clone(), folder.path().join("./disk")], true);
        assert!(twice.is_err_and(|error| error.to_string().contains("name each device once")));
    }
}
