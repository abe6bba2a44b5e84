//! The cost of losing real disks, by where shards and sources are stored now.
//!
//! A disk is what the system numbers as one device: two shards in one folder are lost together, and
//! a shard with the source beside it. How many disks can fail is computed from the equations of the
//! code for every choice of disks, from the manifest alone; no content is read. A choice that holds
//! no more columns than the code claims to tolerate needs no computation.

use crate::disk::Disk;
use crate::report::{DiskContent, DiskLoss, Survival};
use crate::set::bound::Bound;
use crate::set::grid::{Geometry, stretches};
use crate::set::names::{parent, shown_path};
use pantile::plan::SetTally;
use pantile::{CellIndex, CellSet, Costs};
use pantile_format::{EntryKind, Extent, Manifest, Mode};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Choices of disks that are tried, at most: a second or so in all.
const TRIES_MOST: u64 = 4000;
/// Losses that are reported.
const SHOWN: usize = 16;

/// Where the parts of a set are.
pub(crate) struct Lying<'p> {
    /// By source; `None` if it is lost.
    pub(crate) sources: Vec<Option<&'p Path>>,
    /// By stored column; `None` if the shard is lost.
    pub(crate) shards: Vec<(usize, Option<PathBuf>)>,
}

/// Returns how many disks can fail, and which first losses cost files.
pub(crate) fn survival(
    disk: &dyn Disk,
    geometry: &Geometry,
    manifest: &Manifest,
    lying: &Lying<'_>,
) -> Survival {
    let mut model = Model::new(geometry, manifest);
    let tolerance = geometry.codec.code().claim().tolerance;
    let shares = manifest.mode == Mode::Beside && model.bound.is_none();
    let is_unborne = shares
        && manifest.sources.len() > 1
        && tolerance > 0
        && (0..manifest.sources.len()).any(|source| {
            let alone = Loss { sources: vec![source], columns: Vec::new() };
            !model.comes_back(&alone)
        });
    let (disks, gone) = disks(disk, manifest, lying);
    let files = model.files().count() as u64;
    let mut survival = Survival {
        disks: disks.iter().map(|(path, loss)| content(path, loss, lying)).collect(),
        is_unborne,
        is_one_source: shares && manifest.sources.len() == 1,
        gone: gone.parts(),
        promised: tolerance.saturating_sub(model.columns(&gone).len()) as u64,
        survives: 0,
        is_complete: true,
        files,
        losses: Vec::new(),
        loss_count: 0,
    };
    if files == 0 || !model.comes_back(&gone) {
        // Nothing can be lost, or too much is lost already, which is for `verify` to say.
        survival.disks.clear();
        return survival;
    }
    let losses: Vec<Loss> = disks.into_iter().map(|(_, loss)| loss).collect();
    model.search(&losses, &gone, &mut survival);
    survival
}

/// Sources and columns of shards that are lost together.
#[derive(Clone, Default)]
struct Loss {
    sources: Vec<usize>,
    columns: Vec<usize>,
}

impl Loss {
    fn parts(&self) -> u64 {
        (self.sources.len() + self.columns.len()) as u64
    }

    fn add(&mut self, other: &Loss) {
        self.sources.extend(&other.sources);
        self.columns.extend(&other.columns);
    }
}

/// The disks on which parts of a set lie, each with its first path, and what is lost already.
fn disks(disk: &dyn Disk, manifest: &Manifest, lying: &Lying<'_>) -> (Vec<(PathBuf, Loss)>, Loss) {
    /// By the device; what lies at an unknown one counts by its directory.
    type Key = (Option<u64>, PathBuf);
    let device = |path: &Path| disk.meta(path).ok().map(|meta| meta.id.device);
    let mut gone = Loss::default();
    let mut found: Vec<(Key, PathBuf, Loss)> = Vec::new();
    let mut take = |device: Option<u64>, dir: PathBuf, part: &Loss| {
        let key = (device, if device.is_some() { PathBuf::new() } else { dir.clone() });
        match found.iter_mut().find(|(known, _, _)| *known == key) {
            Some((_, _, loss)) => loss.add(part),
            None => found.push((key, dir, part.clone())),
        }
    };
    for (source, path) in lying.sources.iter().enumerate().filter(|_| manifest.mode == Mode::Beside) {
        let part = Loss { sources: vec![source], columns: Vec::new() };
        match path {
            Some(path) => take(device(path), path.to_path_buf(), &part),
            None => gone.add(&part),
        }
    }
    for (column, path) in &lying.shards {
        let part = Loss { sources: Vec::new(), columns: vec![*column] };
        let Some(path) = path else {
            gone.add(&part);
            continue;
        };
        let to = crate::disk::resolve(disk, path).unwrap_or_else(|_| path.clone());
        let dir = parent(&to);
        take(device(&to).or_else(|| device(&dir)), dir, &part);
    }
    (found.into_iter().map(|(_, path, loss)| (path, loss)).collect(), gone)
}

fn content(path: &Path, loss: &Loss, lying: &Lying<'_>) -> DiskContent {
    let source = |&source: &usize| lying.sources[source].map(|path| shown_path(&path));
    DiskContent {
        path: shown_path(&path),
        sources: loss.sources.iter().filter_map(source).collect(),
        shards: loss.columns.iter().map(|&column| column as u64).collect(),
    }
}

/// The layout of a set, by which the result of losses is computed in any stripe.
struct Model<'a> {
    geometry: &'a Geometry,
    manifest: &'a Manifest,
    bound: Option<Bound>,
    /// By lost sources the stripes on which their files lie, with the lanes.
    stretches: HashMap<Vec<usize>, Vec<Stretch>>,
}

/// A run of stripes, and the lanes on which files lie there.
type Stretch = (Range<u64>, Vec<u32>);

impl<'a> Model<'a> {
    fn new(geometry: &'a Geometry, manifest: &'a Manifest) -> Model<'a> {
        let bound = Bound::of(geometry, manifest.mode, &manifest.sources);
        Model { geometry, manifest, bound, stretches: HashMap::new() }
    }

    /// The files with blocks: each with its source and its extents.
    fn files(&self) -> impl Iterator<Item = (usize, &'a [Extent])> + use<'a> {
        self.manifest.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { extents, .. } if !extents.is_empty() => {
                Some((entry.source as usize, extents.as_slice()))
            }
            _ => None,
        })
    }

    /// The lanes that a loss of sources takes at most.
    fn lanes(&self, loss: &Loss) -> Vec<u32> {
        match &self.bound {
            Some(bound) => {
                loss.sources.iter().flat_map(|&source| bound.lanes(source as u32)).copied().collect()
            }
            None if loss.sources.is_empty() => Vec::new(),
            None => (0..self.geometry.lanes.len() as u32).collect(),
        }
    }

    /// The cells that are lost with shards, and with some lanes.
    fn cells(&self, loss: &Loss, lanes: &[u32]) -> CellSet {
        let mut lost = self.geometry.no_cells();
        for &column in &loss.columns {
            self.geometry.stored[column].iter().for_each(|&cell| lost.insert(cell));
        }
        lanes.iter().for_each(|&lane| lost.insert(self.geometry.lanes[lane as usize]));
        lost
    }

    /// The columns of which a loss may take something.
    fn columns(&self, loss: &Loss) -> Vec<usize> {
        self.cells(loss, &self.lanes(loss)).columns(self.geometry.codec.code())
    }

    fn follows(&self, lost: &CellSet) -> bool {
        let wanted: Vec<CellIndex> = lost.iter().collect();
        wanted.is_empty() || self.geometry.codec.recovery(lost, &wanted, &Costs::uniform()).is_ok()
    }

    /// The stretches of stripes on which files of lost sources lie.
    fn stretches(&mut self, sources: &[usize]) -> &[Stretch] {
        let files = self.files();
        self.stretches.entry(sources.to_vec()).or_insert_with(|| {
            let own = files.filter(|(source, _)| sources.contains(source));
            let all: Vec<Extent> = own.flat_map(|(_, extents)| extents.iter().copied()).collect();
            stretches(&all)
        })
    }

    /// True if everything comes back after a loss.
    fn comes_back(&mut self, loss: &Loss) -> bool {
        let tolerance = self.geometry.codec.code().claim().tolerance;
        let worst = self.cells(loss, &self.lanes(loss));
        if worst.columns(self.geometry.codec.code()).len() <= tolerance || self.follows(&worst) {
            return true;
        }
        if loss.sources.is_empty() {
            // Of parity alone no file is lost.
            return self.manifest.mode == Mode::Beside;
        }
        let mut lanes: Vec<Vec<u32>> =
            self.stretches(&loss.sources).iter().map(|(_, lanes)| lanes.clone()).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes.iter().all(|lanes| self.gone(loss, lanes).is_empty())
    }

    /// Those of some lanes that do not come back.
    fn gone(&self, loss: &Loss, lanes: &[u32]) -> Vec<u32> {
        let lost = self.cells(loss, lanes);
        let cell = |lane: u32| self.geometry.lanes[lane as usize];
        let comes_back =
            |lane: &u32| self.geometry.codec.recovery(&lost, &[cell(*lane)], &Costs::uniform()).is_ok();
        let mut lanes: Vec<u32> = lanes.to_vec();
        if self.manifest.mode == Mode::Full {
            lanes = (0..self.geometry.lanes.len() as u32).filter(|&lane| lost.contains(cell(lane))).collect();
        }
        lanes.retain(|lane| !comes_back(lane));
        lanes
    }

    /// How many files do not come back after a loss.
    fn files_lost(&mut self, loss: &Loss) -> u64 {
        let mut gone: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
        if self.manifest.mode == Mode::Full {
            let everywhere = 0..self.manifest.stripes;
            for lane in self.gone(loss, &[]) {
                gone.insert(lane, vec![everywhere.clone()]);
            }
        } else {
            let mut known: HashMap<Vec<u32>, Vec<u32>> = HashMap::new();
            for (stripes, lanes) in self.stretches(&loss.sources).to_vec() {
                let lost = known.entry(lanes).or_insert_with_key(|lanes| self.gone(loss, lanes));
                lost.iter().for_each(|&lane| gone.entry(lane).or_default().push(stripes.clone()));
            }
        }
        let is_gone = |extent: &Extent| {
            let Some(ranges) = gone.get(&extent.lane.0) else { return false };
            let next = ranges.partition_point(|range| range.end <= extent.first.0);
            ranges.get(next).is_some_and(|range| range.start < extent.first.0 + extent.count)
        };
        self.files().filter(|(_, extents)| extents.iter().any(is_gone)).count() as u64
    }

    /// Finds the smallest number of disks of which some choice costs files.
    fn search(&mut self, disks: &[Loss], gone: &Loss, survival: &mut Survival) {
        let columns: Vec<usize> = disks.iter().map(|loss| self.columns(loss).len()).collect();
        // Those with most on them first: the first choices are the worst.
        let mut order: Vec<usize> = (0..disks.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(columns[index]));
        let mut tries = 0;
        for size in 1..=disks.len().min(survival.promised as usize) {
            let worst: usize = order[..size].iter().map(|&index| columns[index]).sum();
            if worst <= survival.promised as usize {
                survival.survives = size as u64;
                continue;
            }
            let lost = |pick: &[usize]| {
                let mut loss = gone.clone();
                pick.iter().for_each(|&at| loss.add(&disks[order[at]]));
                loss.sources.sort_unstable();
                loss
            };
            let limits = (TRIES_MOST - tries, SHOWN);
            let tally = SetTally::of(disks.len(), size, limits, |pick| self.comes_back(&lost(pick)));
            tries += tally.tried;
            survival.loss_count += tally.lost();
            survival.is_complete = tally.is_complete();
            if !tally.fatal.is_empty() {
                let named = |pick: &Vec<usize>| {
                    let mut on: Vec<u64> = pick.iter().map(|&at| order[at] as u64).collect();
                    on.sort_unstable();
                    DiskLoss { disks: on, files_lost: self.files_lost(&lost(pick)) }
                };
                survival.losses = tally.fatal.iter().map(named).collect();
                survival.losses.sort_by_key(|loss| std::cmp::Reverse(loss.files_lost));
                return;
            }
            if !survival.is_complete {
                return;
            }
            survival.survives = size as u64;
        }
    }
}
