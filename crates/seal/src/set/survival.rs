//! Computes what the loss of real disks costs, from the present places of shards and sources.
//!
//! A disk is one device of the system: two shards in one folder are lost together, and so are a
//! shard and the source beside it. The tolerance is computed from the equations of the code for
//! every combination of disks, from the manifest and the known damage; no content is read. Files
//! that changed or are missing since they were sealed are damage too: their blocks do not help to
//! recover others. Without damage, a combination that takes no more columns than the code claims to
//! tolerate needs no computation.

use crate::disk::Disk;
use crate::report::{DiskContent, DiskLoss, FileStatus, Survival};
use crate::set::Set;
use crate::set::bound::Bound;
use crate::set::grid::{Geometry, stretches};
use crate::set::names::{parent, shown_path};
use crate::set::verify::Damage;
use pantile::plan::SetTally;
use pantile::{CellIndex, CellSet, Costs};
use pantile_format::{EntryKind, Extent, Manifest, Mode};
use rangemap::RangeMap;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most combinations of disks that are tried: about a second in all.
const TRIES_MOST: u64 = 4000;
/// The most losses that are reported.
const SHOWN: usize = 16;
/// The most different sets of damaged cells; with more of them no tolerance is reported.
const DAMAGE_MOST: usize = 256;

/// The present places of the parts of a set.
pub(crate) struct Lying<'p> {
    /// By source; `None` if it is lost.
    pub(crate) sources: Vec<Option<&'p Path>>,
    /// By stored column; `None` if the shard is lost.
    pub(crate) shards: Vec<(usize, Option<PathBuf>)>,
    /// The damage of the parts that are present.
    pub(crate) damage: Damaged,
}

/// Runs of stripes in which cells are damaged.
#[derive(Default)]
pub(crate) struct Damaged {
    /// The damaged cells, by ascending runs of stripes.
    pub(crate) cells: Vec<(Range<u64>, CellSet)>,
    /// The lanes of files that were changed on purpose, by ascending runs of stripes: their sealed
    /// content is not needed.
    pub(crate) changed: Vec<Stretch>,
    /// The number of sealed files that are changed or missing, although their sources are present.
    pub(crate) files: u64,
}

impl Damaged {
    /// Returns the findings of a scan of a set; without one the damage that sizes and times of
    /// files show.
    pub(crate) fn of(set: &Set<'_>, scanned: Option<&Damage>) -> Damaged {
        let beside = set.manifest.mode == Mode::Beside;
        let extents = |is: fn(FileStatus) -> bool| -> Vec<Extent> {
            let all = set.manifest.entries.iter().zip(&set.originals).filter(|_| beside);
            let own = all.filter(|(_, original)| original.as_ref().is_some_and(|found| is(found.status)));
            own.flat_map(|(entry, _)| extents_of(&entry.kind).iter().copied()).collect()
        };
        let is_unsealed = |status| matches!(status, FileStatus::Missing | FileStatus::Changed);
        let mut cells: RangeMap<u64, CellSet> = RangeMap::new();
        if scanned.is_none_or(|damage| !damage.is_of_all) {
            for (run, lanes) in stretches(&extents(is_unsealed)) {
                let mut lost = set.geometry.no_cells();
                lanes.iter().for_each(|&lane| lost.insert(set.geometry.lanes[lane as usize]));
                cells.insert(run, lost);
            }
        }
        for (run, lost) in scanned.into_iter().flat_map(|damage| damage.cells.iter()) {
            cells.insert(run.clone(), lost.clone());
        }
        let gone = set.gone();
        let unsealed = set.manifest.entries.iter().zip(&set.originals).filter(|(entry, original)| {
            let is_unsealed = original.as_ref().is_some_and(|found| is_unsealed(found.status));
            beside && is_unsealed && !gone[entry.source as usize]
        });
        Damaged {
            cells: cells.into_iter().collect(),
            changed: stretches(&extents(|status| status == FileStatus::Changed)),
            files: unsealed.count() as u64,
        }
    }
}

/// Returns the extents of a file; an empty list for any other kind.
fn extents_of(kind: &EntryKind) -> &[Extent] {
    match kind {
        EntryKind::File { extents, .. } => extents,
        _ => &[],
    }
}

/// Returns how many disks can fail, and the smallest combinations whose failure loses files.
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
    model.take(&lying.damage);
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
        unsealed: lying.damage.files,
        losses: Vec::new(),
        loss_count: 0,
    };
    if model.cases.len() > DAMAGE_MOST {
        survival.is_complete = false;
        return survival;
    }
    if files == 0 || !model.comes_back(&gone) {
        // No loss is possible, or too much is lost already, which `verify` reports.
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

/// Returns the disks that store parts of a set, each with the first path on it, and the parts that
/// are lost already.
fn disks(disk: &dyn Disk, manifest: &Manifest, lying: &Lying<'_>) -> (Vec<(PathBuf, Loss)>, Loss) {
    /// The device number; parts on an unknown device are grouped by their directory.
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

/// The layout of a set, from which the effect of losses is computed for every stripe.
struct Model<'a> {
    geometry: &'a Geometry,
    manifest: &'a Manifest,
    bound: Option<Bound>,
    /// By lost sources: the runs of stripes that store their files or are damaged.
    spots: HashMap<Vec<usize>, Vec<Spot>>,
    /// The distinct cases of damage.
    cases: Vec<Case>,
    /// The runs of damaged stripes, each with the index of its case.
    damaged: Vec<(Range<u64>, usize)>,
}

/// A run of stripes, and the lanes that have files there.
pub(crate) type Stretch = (Range<u64>, Vec<u32>);

/// The damage of a stripe.
#[derive(PartialEq, Eq, Hash, Clone)]
struct Case {
    lost: CellSet,
    /// The lanes of `lost` whose content is still needed.
    wanted: Vec<u32>,
}

/// A run of stripes with equal losses: the lanes of lost sources, and the index of a case of
/// damage.
type Spot = (Range<u64>, (Vec<u32>, Option<usize>));

/// Cuts two lists of ascending runs into runs over which both values are constant. Stripes in
/// neither list are omitted.
fn overlay<'a, A, B>(
    one: &'a [(Range<u64>, A)],
    two: &'a [(Range<u64>, B)],
) -> Vec<(Range<u64>, Option<&'a A>, Option<&'a B>)> {
    let bounds = |run: &Range<u64>| [run.start, run.end];
    let mut cuts: Vec<u64> = one.iter().flat_map(|(run, _)| bounds(run)).collect();
    cuts.extend(two.iter().flat_map(|(run, _)| bounds(run)));
    cuts.sort_unstable();
    cuts.dedup();
    let (mut at_one, mut at_two) = (0, 0);
    let mut all = Vec::new();
    for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
        at_one += one[at_one..].iter().take_while(|(run, _)| run.end <= start).count();
        at_two += two[at_two..].iter().take_while(|(run, _)| run.end <= start).count();
        let a = one.get(at_one).filter(|(run, _)| run.start <= start).map(|(_, a)| a);
        let b = two.get(at_two).filter(|(run, _)| run.start <= start).map(|(_, b)| b);
        if a.is_some() || b.is_some() {
            all.push((start..end, a, b));
        }
    }
    all
}

impl<'a> Model<'a> {
    fn new(geometry: &'a Geometry, manifest: &'a Manifest) -> Model<'a> {
        let bound = Bound::of(geometry, manifest.mode, &manifest.sources);
        let (cases, damaged) = (Vec::new(), Vec::new());
        Model { geometry, manifest, bound, spots: HashMap::new(), cases, damaged }
    }

    /// Takes some damage into account from here on.
    fn take(&mut self, damage: &Damaged) {
        self.spots.clear();
        let mut known: HashMap<Case, usize> = HashMap::new();
        for (run, lost, changed) in overlay(&damage.cells, &damage.changed) {
            let Some(lost) = lost else { continue };
            let is_wanted = |lane: &u32| {
                lost.contains(self.geometry.lanes[*lane as usize])
                    && changed.is_none_or(|changed| !changed.contains(lane))
            };
            let wanted = (0..self.geometry.lanes.len() as u32).filter(is_wanted).collect();
            let case = Case { lost: lost.clone(), wanted };
            let next = known.len();
            let at = *known.entry(case.clone()).or_insert(next);
            if at == next {
                self.cases.push(case);
            }
            self.damaged.push((run, at));
        }
    }

    /// Returns the files with blocks, each with its source and its extents.
    fn files(&self) -> impl Iterator<Item = (usize, &'a [Extent])> + use<'a> {
        self.manifest.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { extents, .. } if !extents.is_empty() => {
                Some((entry.source as usize, extents.as_slice()))
            }
            _ => None,
        })
    }

    /// Returns the lanes that a loss of sources can take.
    fn lanes(&self, loss: &Loss) -> Vec<u32> {
        match &self.bound {
            Some(bound) => {
                loss.sources.iter().flat_map(|&source| bound.lanes(source as u32)).copied().collect()
            }
            None if loss.sources.is_empty() => Vec::new(),
            None => (0..self.geometry.lanes.len() as u32).collect(),
        }
    }

    /// Returns the cells that are lost with the shards of a loss, and with some lanes.
    fn cells(&self, loss: &Loss, lanes: &[u32]) -> CellSet {
        let mut lost = self.geometry.no_cells();
        for &column in &loss.columns {
            self.geometry.stored[column].iter().for_each(|&cell| lost.insert(cell));
        }
        lanes.iter().for_each(|&lane| lost.insert(self.geometry.lanes[lane as usize]));
        lost
    }

    /// Returns the columns of which a loss can take something.
    fn columns(&self, loss: &Loss) -> Vec<usize> {
        self.cells(loss, &self.lanes(loss)).columns(self.geometry.codec.code())
    }

    fn follows(&self, lost: &CellSet) -> bool {
        let wanted: Vec<CellIndex> = lost.iter().collect();
        wanted.is_empty() || self.geometry.codec.recovery(lost, &wanted, &Costs::uniform()).is_ok()
    }

    /// Returns the runs of stripes that store files of lost sources, or are damaged.
    fn spots(&mut self, sources: &[usize]) -> &[Spot] {
        let files = self.files();
        let (full, damaged) = (self.manifest.mode == Mode::Full, &self.damaged);
        let stripes = self.manifest.stripes;
        self.spots.entry(sources.to_vec()).or_insert_with(|| {
            let stretches = match full {
                // All files are in the shards.
                true => vec![(0..stripes, Vec::new())],
                false => {
                    let own = files.filter(|(source, _)| sources.contains(source));
                    let all: Vec<Extent> = own.flat_map(|(_, extents)| extents.iter().copied()).collect();
                    stretches(&all)
                }
            };
            let spot = |(run, lanes, case): (Range<u64>, Option<&Vec<u32>>, Option<&usize>)| {
                (run, (lanes.cloned().unwrap_or_default(), case.copied()))
            };
            overlay(&stretches, damaged).into_iter().map(spot).collect()
        })
    }

    /// True if all files come back after a loss.
    fn comes_back(&mut self, loss: &Loss) -> bool {
        let tolerance = self.geometry.codec.code().claim().tolerance;
        let worst = self.cells(loss, &self.lanes(loss));
        let is_easy = |case: Option<&Case>| {
            let mut lost = worst.clone();
            case.into_iter().flat_map(|case| case.lost.iter()).for_each(|cell| lost.insert(cell));
            lost.columns(self.geometry.codec.code()).len() <= tolerance || self.follows(&lost)
        };
        if is_easy(None) && self.cases.iter().all(|case| is_easy(Some(case))) {
            return true;
        }
        let mut spots: Vec<(Vec<u32>, Option<usize>)> =
            self.spots(&loss.sources).iter().map(|(_, what)| what.clone()).collect();
        spots.sort_unstable();
        spots.dedup();
        spots.iter().all(|spot| self.gone(loss, spot).is_empty())
    }

    /// Returns the lanes whose content is needed and does not come back, in stripes where `lanes`
    /// are lost and a case of damage applies.
    fn gone(&self, loss: &Loss, (lanes, case): &(Vec<u32>, Option<usize>)) -> Vec<u32> {
        let case = case.map(|case| &self.cases[case]);
        let mut lost = self.cells(loss, lanes);
        let cell = |lane: u32| self.geometry.lanes[lane as usize];
        let mut wanted = match self.manifest.mode {
            Mode::Full => {
                (0..self.geometry.lanes.len() as u32).filter(|&lane| lost.contains(cell(lane))).collect()
            }
            Mode::Beside => lanes.clone(),
        };
        if let Some(case) = case {
            wanted.retain(|&lane| !case.lost.contains(cell(lane)));
            wanted.extend(&case.wanted);
            case.lost.iter().for_each(|cell| lost.insert(cell));
        }
        let comes_back = |cells: &[CellIndex]| {
            cells.is_empty() || self.geometry.codec.recovery(&lost, cells, &Costs::uniform()).is_ok()
        };
        if comes_back(&wanted.iter().map(|&lane| cell(lane)).collect::<Vec<_>>()) {
            return Vec::new();
        }
        wanted.retain(|&lane| !comes_back(&[cell(lane)]));
        wanted
    }

    /// Returns how many files do not come back after a loss.
    fn files_lost(&mut self, loss: &Loss) -> u64 {
        let mut gone: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
        let mut known: HashMap<(Vec<u32>, Option<usize>), Vec<u32>> = HashMap::new();
        for (stripes, spot) in self.spots(&loss.sources).to_vec() {
            let lost = known.entry(spot).or_insert_with_key(|spot| self.gone(loss, spot));
            lost.iter().for_each(|&lane| gone.entry(lane).or_default().push(stripes.clone()));
        }
        let is_gone = |extent: &Extent| {
            let Some(ranges) = gone.get(&extent.lane.0) else { return false };
            let next = ranges.partition_point(|range| range.end <= extent.first.0);
            ranges.get(next).is_some_and(|range| range.start < extent.first.0 + extent.count)
        };
        self.files().filter(|(_, extents)| extents.iter().any(is_gone)).count() as u64
    }

    /// Finds the smallest number of disks of which some combination loses files.
    fn search(&mut self, disks: &[Loss], gone: &Loss, survival: &mut Survival) {
        let columns: Vec<usize> = disks.iter().map(|loss| self.columns(loss).len()).collect();
        let of_case = |case: &Case| case.lost.columns(self.geometry.codec.code()).len();
        let damaged = self.cases.iter().map(of_case).max().unwrap_or(0);
        let tries_most = (TRIES_MOST / (1 + self.cases.len() as u64)).max(16);
        // Disks with most columns come first: the first combinations are then the worst.
        let mut order: Vec<usize> = (0..disks.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(columns[index]));
        let mut tries = 0;
        for size in 1..=disks.len().min(survival.promised as usize) {
            let worst: usize = order[..size].iter().map(|&index| columns[index]).sum();
            if worst + damaged <= survival.promised as usize {
                survival.survives = size as u64;
                continue;
            }
            let lost = |pick: &[usize]| {
                let mut loss = gone.clone();
                pick.iter().for_each(|&at| loss.add(&disks[order[at]]));
                loss.sources.sort_unstable();
                loss
            };
            let limits = (tries_most - tries, SHOWN);
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
