//! What the loss of a source, or of a device with all that lies on it, would cost where the files
//! themselves are the data.

use crate::disk::Disk;
use crate::grid::{Geometry, stretches};
use crate::names::{path_of, shown};
use crate::report::DiskLoss;
use pantile::{CellIndex, CellSet, Costs};
use pantile_format::{Entry, EntryKind, Extent, Manifest, Mode};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What the loss of each source would cost, and of each device on which more than one source or
/// shard lies. Shards are those that are known, with their columns.
///
/// Cost: linear in the extents for each source, and a plan for each set of lanes that files of it
/// have in a stripe.
pub(crate) fn disk_losses(
    disk: &dyn Disk,
    geometry: &Geometry,
    manifest: &Manifest,
    places: &[PathBuf],
    shards: &[(usize, PathBuf)],
) -> Vec<DiskLoss> {
    if manifest.mode == Mode::Full {
        return Vec::new();
    }
    let mut losses: Vec<DiskLoss> =
        (0..manifest.sources.len()).map(|source| loss(geometry, manifest, &[source], &[])).collect();
    let device = |path: &Path| disk.meta(path).ok().map(|meta| meta.id.device);
    let mut devices: BTreeMap<u64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (source, path) in places.iter().enumerate() {
        if let Some(device) = device(path) {
            devices.entry(device).or_default().0.push(source);
        }
    }
    for (column, path) in shards {
        let to = crate::disk::resolve(disk, path).unwrap_or_else(|_| path.clone());
        if let Some(device) = device(&to) {
            devices.entry(device).or_default().1.push(*column);
        }
    }
    for (device, (sources, columns)) in devices {
        if !sources.is_empty() && sources.len() + columns.len() > 1 {
            let loss = loss(geometry, manifest, &sources, &columns);
            losses.push(DiskLoss { device: Some(device), shards: columns.len() as u64, ..loss });
        }
    }
    losses
}

fn loss(geometry: &Geometry, manifest: &Manifest, sources: &[usize], columns: &[usize]) -> DiskLoss {
    let is_lost = |entry: &&Entry| sources.contains(&(entry.source as usize));
    let files: Vec<&[Extent]> = manifest
        .entries
        .iter()
        .filter(is_lost)
        .filter_map(|entry| match &entry.kind {
            EntryKind::File { extents, .. } => Some(extents.as_slice()),
            _ => None,
        })
        .collect();
    let all: Vec<Extent> = files.iter().flat_map(|extents| extents.iter().copied()).collect();
    let parity: Vec<CellIndex> =
        columns.iter().flat_map(|&column| geometry.parity[column].iter().copied()).collect();
    let mut known: HashMap<Vec<u32>, Vec<u32>> = HashMap::new();
    let mut gone_of =
        |lanes: &[u32]| known.entry(lanes.to_vec()).or_insert_with(|| gone(geometry, lanes, &parity)).clone();
    // By lane the stripes whose block does not come back, ascending.
    let mut gone: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
    for (stripes, lanes) in stretches(&all) {
        for lane in gone_of(&lanes) {
            gone.entry(lane).or_default().push(stripes.clone());
        }
    }
    let is_gone = |extent: &Extent| {
        let Some(ranges) = gone.get(&extent.lane.0) else { return false };
        let next = ranges.partition_point(|range| range.end <= extent.first.0);
        ranges.get(next).is_some_and(|range| range.start < extent.first.0 + extent.count)
    };
    DiskLoss {
        sources: sources
            .iter()
            .map(|&source| shown(path_of(&manifest.sources[source].path).as_os_str().as_encoded_bytes()))
            .collect(),
        device: None,
        shards: 0,
        files: files.len() as u64,
        files_lost: files.iter().filter(|extents| extents.iter().any(is_gone)).count() as u64,
    }
}

/// Those of some lanes that do not follow from the rest of a stripe, if parity cells are lost with
/// them.
fn gone(geometry: &Geometry, lanes: &[u32], parity: &[CellIndex]) -> Vec<u32> {
    let mut lost = CellSet::empty(geometry.codec.code());
    let cell = |lane: u32| geometry.lanes[lane as usize];
    lanes.iter().for_each(|&lane| lost.insert(cell(lane)));
    parity.iter().for_each(|&cell| lost.insert(cell));
    let comes_back = |lane: &u32| geometry.codec.recovery(&lost, &[cell(*lane)], &Costs::uniform()).is_ok();
    lanes.iter().copied().filter(|lane| !comes_back(lane)).collect()
}
