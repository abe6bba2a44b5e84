//! Reads everything once, and finds missing, wrong and changed blocks, and which of them can be
//! recovered.

use crate::Fault;
use crate::first::names_exposed;
use crate::options::Progress;
use crate::report::{
    BlockPlace, FileReport, FileStatus, Losses, Renamed, ShardReport, ShardStatus, StripeFinding,
    StripeVerdict, VerifyReport,
};
use crate::set::grid::Geometry;
use crate::set::names::shown;
use crate::set::renamed::find_renamed;
use crate::set::tree::{Own, Tree};
use crate::set::window::{Window, join};
use crate::set::{Original, Set, mode_name};
use pantile::gf::choose;
use pantile::plan::SetTally;
use pantile::{CellIndex, CellSet, Finding, Verdict};
use pantile_format::{Entry, EntryKind, Extent, LeftOut, Mode};
use rangemap::{RangeMap, RangeSet};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

const FINDINGS_SHOWN: usize = 1000;
const FILES_SHOWN: usize = 100;

/// Damage that a scan found, except for lost columns.
///
/// Memory: damage is stored by runs of stripes with equal damage, since losses come in long runs.
#[derive(Default)]
pub(crate) struct Damage {
    /// By stripe: the wrong and unreadable cells of existing shards and originals.
    pub(crate) cells: RangeMap<u64, CellSet>,
    /// Without checksums: stripes with an error that the equations cannot locate.
    pub(crate) doubtful: RangeSet<u64>,
    /// Without checksums: stripes whose losses were located by a requested guess.
    guessed: RangeSet<u64>,
    /// By stripe: cells whose content is needed and cannot be computed from the rest.
    unrecoverable: RangeMap<u64, Vec<CellIndex>>,
    /// By entry: the number of lost blocks, and of the unrecoverable ones among them.
    pub(crate) files: BTreeMap<usize, (u64, u64)>,
    /// By column: the number of wrong blocks, and the first one.
    shards: BTreeMap<usize, (u64, BlockPlace)>,
    findings: Vec<StripeFinding>,
    finding_count: u64,
    /// True if all stripes were read.
    pub(crate) is_of_all: bool,
    /// The cells of the last query for recoverable cells, and the unrecoverable ones among them.
    asked: Option<(CellSet, Vec<CellIndex>)>,
}

/// Stripes that a scan reads.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'p> {
    /// All stripes of the set.
    Whole,
    /// The stripes of some entries, in mode beside.
    Entries(&'p [usize]),
    /// Some runs of stripes, ascending.
    Stripes(&'p [Range<u64>]),
}

impl<'p> Scope<'p> {
    pub(crate) fn of(entries: Option<&'p [usize]>) -> Scope<'p> {
        entries.map_or(Scope::Whole, Scope::Entries)
    }

    fn entries(self) -> Option<&'p [usize]> {
        match self {
            Scope::Entries(entries) => Some(entries),
            Scope::Whole | Scope::Stripes(_) => None,
        }
    }
}

/// Reads the whole set and reports.
pub(crate) fn scan(set: &mut Set<'_>, progress: &mut dyn Progress) -> Result<(VerifyReport, Damage), Fault> {
    scan_part(set, Scope::Whole, progress)
}

/// As [`scan`], but `part` can limit it to some originals beside their parity: only their stripes
/// are read.
pub(crate) fn scan_part(
    set: &mut Set<'_>,
    part: Scope<'_>,
    progress: &mut dyn Progress,
) -> Result<(VerifyReport, Damage), Fault> {
    let chosen = part.entries();
    if set.manifest.mode == Mode::Full {
        set.look_at_originals();
    }
    if chosen.is_none() {
        find_renamed(set, progress)?;
    }
    let mut damage = find_damage(set, part, progress)?;
    if let Some(chosen) = chosen {
        damage.keep(set, chosen);
    }
    Ok((report(set, &damage, part), damage))
}

/// Reads the whole set, or the stripes of some entries, and returns all damage.
pub(crate) fn find_damage(
    set: &Set<'_>,
    part: Scope<'_>,
    progress: &mut dyn Progress,
) -> Result<Damage, Fault> {
    let lost = set.lost_cells();
    let cells: Vec<CellIndex> =
        set.geometry.codec.code().cells().filter(|&cell| !lost.contains(cell)).collect();
    let ranges = match part {
        Scope::Stripes(runs) => runs.to_vec(),
        _ => set.stripes_of(part.entries()),
    };
    let stripes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    progress.phase("verifying", ranges.iter().map(|range| bytes_to_read(set, &cells, range)).sum());
    let step = set.geometry.window_stripes();
    let mut window = Window::new(&set.geometry, step.min(stripes));
    let mut damage = Damage { is_of_all: matches!(part, Scope::Whole), ..Damage::default() };
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let windows = ranges.iter().flat_map(|range| {
        let end = range.end;
        range.clone().step_by(step).map(move |at| at..end.min(at + step as u64))
    });
    for stripes in windows {
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        window.move_to(stripes, &lost);
        let all = 0..window.count();
        let before = set.bytes_read();
        set.read(&mut window, &cells, all);
        if !set.knows_blocks() {
            damage.locate(set, &mut window)?;
        }
        damage.take(set, &window, &lost);
        progress.advance(set.bytes_read() - before);
    }
    Ok(damage)
}

/// Returns the bytes in some cells of some stripes: the blocks of shards and originals, but not the
/// zeros of free blocks.
fn bytes_to_read(set: &Set<'_>, cells: &[CellIndex], stripes: &Range<u64>) -> u64 {
    let blocks =
        |cell: &CellIndex| match (set.geometry.place[cell.usize()], set.geometry.lane_of[cell.usize()]) {
            ((_, None), Some(lane)) => set.grid.runs(lane, stripes.clone()).map(|run| run.count).sum(),
            _ => stripes.end - stripes.start,
        };
    cells.iter().map(blocks).sum::<u64>() * set.manifest.block_len.bytes()
}

impl Damage {
    /// Drops the losses of other entries from the findings. Their lost cells still limit what can
    /// be computed.
    fn keep(&mut self, set: &Set<'_>, entries: &[usize]) {
        self.files.retain(|entry, _| entries.binary_search(entry).is_ok());
        let own = |stripe: u64, cell: &CellIndex| {
            let lane = set.geometry.lane_of[cell.usize()];
            let owner = lane.and_then(|lane| set.grid.owner(lane, stripe));
            owner.is_some_and(|(entry, _)| entries.binary_search(&entry).is_ok())
        };
        for (stripes, cells) in std::mem::take(&mut self.unrecoverable) {
            for stripe in stripes {
                let own: Vec<CellIndex> = cells.iter().copied().filter(|cell| own(stripe, cell)).collect();
                if !own.is_empty() {
                    self.unrecoverable.insert(stripe..stripe + 1, own);
                }
            }
        }
        self.shards.clear();
    }

    /// Returns the runs of stripes with damage.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = Range<u64>> {
        let runs = self.cells.iter().map(|(run, _)| run).chain(self.doubtful.iter());
        runs.cloned()
    }

    /// Without checksums: returns the first stripe of a file that has an error that cannot be
    /// located.
    pub(crate) fn doubt(&self, set: &Set<'_>, entry: usize) -> Option<u64> {
        let EntryKind::File { extents, .. } = &set.manifest.entries[entry].kind else { return None };
        let first = |extent: &Extent| {
            let stripes = extent.first.0..extent.first.0 + extent.count;
            let doubtful = self.doubtful.overlapping(&stripes).next()?;
            Some(doubtful.start.max(stripes.start))
        };
        extents.iter().filter_map(first).min()
    }

    /// Marks the wrong cells of a window as lost.
    pub(crate) fn add_to(&self, window: &mut Window) {
        for (run, wrong) in self.cells.overlapping(&window.stripes.clone()) {
            let places = window.places(&within(run, &window.stripes));
            for lost in &mut window.lost[places] {
                wrong.iter().for_each(|cell| lost.insert(cell));
            }
        }
    }

    /// Returns the stripes among these with an error that cannot be located, as runs.
    pub(crate) fn doubtful_in(&self, stripes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let overlapping = self.doubtful.overlapping(stripes.clone());
        overlapping.map(move |run| within(run, &stripes))
    }

    /// Returns the number of stripes with no other damage than a guessed one.
    pub(crate) fn stripes_guessed(&self) -> u64 {
        self.guessed.iter().flat_map(|run| self.doubtful.gaps(run)).map(|run| length(&run)).sum()
    }

    /// Returns the number of unrecoverable blocks plus that of stripes with an unlocated error.
    pub(crate) fn blocks_left(&self) -> u64 {
        let gone = self.unrecoverable.iter().map(|(run, cells)| length(run) * cells.len() as u64);
        gone.sum::<u64>() + self.doubtful.iter().map(length).sum::<u64>()
    }

    /// Returns the number of stripes with an unrecoverable cell that satisfies `is_so`.
    pub(crate) fn stripes_gone(&self, is_so: impl Fn(&CellIndex) -> bool) -> u64 {
        let gone = self.unrecoverable.iter().filter(|(_, cells)| cells.iter().any(&is_so));
        gone.map(|(run, _)| length(run)).sum()
    }

    /// Without checksums: marks cells as lost that the equations locate with certainty; with
    /// `set.guess`, also those that they locate without.
    fn locate(&mut self, set: &Set<'_>, window: &mut Window) -> Result<(), Fault> {
        for group in window.groups(|i| window.lost[i].clone()) {
            let erased = window.lost[group.start].clone();
            let checker = set.geometry.checker(&erased);
            let block = window.block;
            let mut cells = window.cells(group.clone());
            let views: Vec<&[u8]> = cells.iter().map(|cell| &**cell).collect();
            let findings = checker
                .locate_in_stripes(&views, block)
                .unwrap_or_else(|e| unreachable!("a window is a stripe: {e}"));
            if findings.is_empty() {
                continue;
            }
            let accepted: Vec<Finding> = findings
                .chunk_by(|a, b| a.range.start / block == b.range.start / block)
                .filter(|of_stripe| of_stripe.iter().all(|finding| is_accepted(set, finding)))
                .flatten()
                .cloned()
                .collect();
            let before = blocks_of(&set.geometry, &views, &accepted);
            checker
                .correct(&mut cells, &accepted, |_| true)
                .unwrap_or_else(|e| unreachable!("a window is a stripe: {e}"));
            for ((i, cell), bytes) in before {
                if *window.block(cell, group.start + i) != *bytes {
                    window.lost[group.start + i].insert(cell);
                    window.have[group.start + i].remove(cell);
                }
            }
            let first = window.stripes.start + group.start as u64;
            findings.iter().for_each(|finding| self.note(set, finding, first, block));
            let accepted =
                |stripe: &u64| accepted.iter().any(|f| first + (f.range.start / block) as u64 == *stripe);
            let mut stripes: Vec<u64> =
                findings.iter().map(|finding| first + (finding.range.start / block) as u64).collect();
            stripes.dedup();
            let doubtful = stripes.iter().filter(|stripe| !accepted(stripe));
            self.doubtful.extend(doubtful.map(|&stripe| stripe..stripe + 1));
        }
        Ok(())
    }

    /// Notes a finding in one stripe.
    fn note(&mut self, set: &Set<'_>, finding: &Finding, first_stripe: u64, block: usize) {
        let verdict = match &finding.verdict {
            Verdict::Located { columns, evidence_bits, certain } => StripeVerdict::Located {
                columns: wide(columns),
                evidence_bits: *evidence_bits,
                certain: *certain,
            },
            Verdict::Ambiguous { examples: [a, b] } => {
                StripeVerdict::Ambiguous { examples: [wide(a), wide(b)] }
            }
            Verdict::Unlocatable => StripeVerdict::Unlocatable,
        };
        let i = finding.range.start / block;
        let stripe = first_stripe + i as u64;
        if !finding.verdict.is_certain() && is_accepted(set, finding) {
            self.guessed.insert(stripe..stripe + 1);
        }
        self.finding_count += 1;
        if self.findings.len() < FINDINGS_SHOWN {
            let (start, end) =
                ((finding.range.start - i * block) as u64, (finding.range.end - i * block) as u64);
            self.findings.push(StripeFinding { stripe, start, end, verdict });
        }
    }

    /// Records the lost cells of a window, the files and shards that they belong to, and which
    /// cells are unrecoverable.
    fn take(&mut self, set: &Set<'_>, window: &Window, lost_columns: &CellSet) {
        for group in window.groups(|i| window.lost[i].clone()) {
            let lost = &window.lost[group.start];
            if lost.is_empty() {
                continue;
            }
            let wrong = *lost != *lost_columns;
            let known = set.recoverable(lost, lost.iter().collect());
            let stripes = window.stripes.start + group.start as u64..window.stripes.start + group.end as u64;
            if wrong {
                let mut cells = set.geometry.no_cells();
                lost.iter().filter(|&cell| !lost_columns.contains(cell)).for_each(|cell| cells.insert(cell));
                self.cells.insert(stripes.clone(), cells);
            }
            stripes.for_each(|stripe| self.take_stripe(set, stripe, lost, lost_columns, &known));
        }
    }

    fn take_stripe(
        &mut self,
        set: &Set<'_>,
        stripe: u64,
        lost: &CellSet,
        lost_columns: &CellSet,
        known: &[CellIndex],
    ) {
        let mut gone = Vec::new();
        for cell in lost.iter() {
            let owner = set.geometry.lane_of[cell.usize()].and_then(|lane| set.grid.owner(lane, stripe));
            let is_changed = |entry: usize| {
                matches!(&set.originals[entry], Some(Original { status: FileStatus::Changed, .. }))
            };
            let beside = set.manifest.mode == Mode::Beside;
            // The old content of a changed file is not needed.
            let wanted = !(beside && owner.is_some_and(|(entry, _)| is_changed(entry)));
            let unrecoverable = wanted && known.binary_search(&cell).is_err();
            if let Some((entry, _)) = owner {
                let counts = self.files.entry(entry).or_default();
                counts.0 += 1;
                counts.1 += u64::from(unrecoverable);
            }
            if let ((column, Some(row)), false) =
                (set.geometry.place[cell.usize()], lost_columns.contains(cell))
            {
                let offset = set.shards[column].as_ref().map_or(0, |s| s.header.block_offset(stripe, row));
                let place =
                    BlockPlace { stripe, row: set.geometry.codec.code().cell(cell).row as u64, offset };
                self.shards.entry(column).or_insert((0, place)).0 += 1;
            }
            if unrecoverable {
                gone.push(cell);
            }
        }
        if !gone.is_empty() {
            self.unrecoverable.insert(stripe..stripe + 1, gone);
        }
    }

    /// Records unrecoverable blocks that the restoration of a file met, as [`Damage::take`] would
    /// have.
    pub(crate) fn take_gone(&mut self, set: &Set<'_>, entry: usize, gone: &[(Range<u64>, CellSet)]) {
        for (stripes, lost) in gone {
            if self.asked.as_ref().is_none_or(|(asked, _)| asked != lost) {
                let known = set.recoverable(lost, lost.iter().collect());
                let gone = lost.iter().filter(|cell| known.binary_search(cell).is_err()).collect();
                self.asked = Some((lost.clone(), gone));
            }
            let Some((_, gone)) = &self.asked else { continue };
            let counts = self.files.entry(entry).or_default();
            counts.0 += stripes.end - stripes.start;
            counts.1 += stripes.end - stripes.start;
            self.cells.insert(stripes.clone(), lost.clone());
            let new: Vec<Range<u64>> = self.unrecoverable.gaps(stripes).collect();
            self.unrecoverable.extend(new.into_iter().map(|run| (run, gone.clone())));
        }
    }

    /// Returns the unrecoverable blocks, and the remedies; `None` if there are no such blocks.
    pub(crate) fn losses(&self, set: &Set<'_>) -> Option<Losses> {
        let (first, _) = self.unrecoverable.first_range_value()?;
        let files: Vec<usize> = self.files.iter().filter(|(_, n)| n.1 > 0).map(|(&entry, _)| entry).collect();
        let shown_files = files.iter().take(FILES_SHOWN).map(|&entry| shown(&set.restored_path(entry)));
        let (holders, patterns) = self.holders(set);
        let advice = advice(set, &patterns, holders.len());
        let columns = |cells: &mut dyn Iterator<Item = CellIndex>| {
            let columns: BTreeSet<usize> = cells.map(|cell| set.geometry.place[cell.usize()].0).collect();
            wide(&columns.into_iter().collect::<Vec<usize>>())
        };
        let columns_of = |picks: &Vec<usize>| {
            let lost = patterns.iter().flatten().filter(|(_, holder)| picks.contains(holder));
            columns(&mut lost.map(|&(cell, _)| cell))
        };
        let names = |picks: &Vec<usize>| picks.iter().map(|&i| holders[i].clone()).collect();
        let beside = set.manifest.mode == Mode::Beside;
        let shown_advice = advice.iter().take(16);
        Some(Losses {
            columns: columns(&mut patterns.iter().flatten().map(|&(cell, _)| cell)),
            stripes: self.unrecoverable.iter().map(|(run, _)| length(run)).sum(),
            first_stripe: first.start,
            files: shown_files.collect(),
            file_count: files.len() as u64,
            bring_back: advice.first().map_or(0, |set| set.len() as u64),
            any: is_any(&advice, holders.len()),
            enough: shown_advice.clone().map(columns_of).collect(),
            enough_count: advice.len() as u64,
            enough_holders: if beside { shown_advice.map(names).collect() } else { Vec::new() },
            holders: if beside { holders.clone() } else { Vec::new() },
            unfinished: set.unfinished(),
        })
    }

    /// Returns the names of the holders of lost blocks in the stripes with unrecoverable ones, and
    /// the patterns of loss in these stripes, each once.
    ///
    /// A holder is a shard, or in mode beside a file, or a disk with several such files if the set
    /// has several disks, or too many such files to try their combinations.
    fn holders(&self, set: &Set<'_>) -> (Vec<String>, BTreeSet<Pattern>) {
        const FILES_MOST: usize = 16;
        let beside = set.manifest.mode == Mode::Beside;
        let lane = |cell: &CellIndex| set.geometry.lane_of[cell.usize()].filter(|_| beside);
        let columns = set.lost_cells();
        let mut patterns: BTreeSet<Vec<(CellIndex, Result<usize, usize>)>> = BTreeSet::new();
        for (run, _) in self.unrecoverable.iter() {
            let damaged = self.cells.overlapping(run).map(|(part, cells)| (within(part, run), Some(cells)));
            let whole = self.cells.gaps(run).map(|part| (part, None));
            for (stripes, cells) in damaged.chain(whole) {
                let mut lost = columns.clone();
                cells.into_iter().flat_map(CellSet::iter).for_each(|cell| lost.insert(cell));
                // The owners of the cells change at the ends of files alone.
                let owned = lost.iter().filter_map(|cell| lane(&cell));
                let runs = owned.flat_map(|lane| set.grid.runs(lane, stripes.clone()));
                let ends = runs.flat_map(|run| [run.first, run.first + run.count]);
                let begins: BTreeSet<u64> =
                    ends.chain([stripes.start]).filter(|at| *at < stripes.end).collect();
                patterns.extend(begins.into_iter().map(|stripe| {
                    let entry = |cell: &CellIndex| Some(set.grid.owner(lane(cell)?, stripe)?.0);
                    let holder = |cell: CellIndex| entry(&cell).ok_or(set.geometry.place[cell.usize()].0);
                    lost.iter().map(|cell| (cell, holder(cell))).collect()
                }));
            }
        }
        let mut files: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for &entry in patterns.iter().flatten().filter_map(|(_, holder)| holder.as_ref().ok()) {
            files.entry(set.manifest.entries[entry].source).or_default().insert(entry);
        }
        let is_few = files.values().map(BTreeSet::len).sum::<usize>() <= FILES_MOST;
        let disks = set.disk_names();
        let is_joined = |source: u32| files[&source].len() > 1 && (disks.len() > 1 || !is_few);
        // The files of a disk have one name together.
        let named = |holder: Result<usize, usize>| {
            holder.map(|entry| {
                let source = set.manifest.entries[entry].source;
                (source, Some(entry).filter(|_| !is_joined(source)))
            })
        };
        let all: BTreeSet<_> = patterns.iter().flatten().map(|(_, holder)| named(*holder)).collect();
        let name = |holder: &Result<(u32, Option<usize>), usize>| match *holder {
            Err(column) => format!("shard {column}"),
            Ok((_, Some(entry))) => shown(&set.restored_path(entry)),
            Ok((source, None)) => format!("{} ({} files)", disks[source as usize], files[&source].len()),
        };
        let number: BTreeMap<_, usize> = all.iter().copied().zip(0..).collect();
        let numbered = |pattern: &Vec<(CellIndex, Result<usize, usize>)>| {
            pattern.iter().map(|(cell, holder)| (*cell, number[&named(*holder)])).collect()
        };
        (all.iter().map(name).collect(), patterns.iter().map(numbered).collect())
    }
}

/// Lost cells of a stripe, each with the number of its holder.
type Pattern = Vec<(CellIndex, usize)>;

/// Returns the number of stripes in a run.
fn length(run: &Range<u64>) -> u64 {
    run.end - run.start
}

/// Returns the part of a run that overlaps some stripes.
pub(crate) fn within(run: &Range<u64>, stripes: &Range<u64>) -> Range<u64> {
    run.start.max(stripes.start)..run.end.min(stripes.end)
}

/// Returns the losses of a few cells that were found outside a scan.
pub(crate) fn losses_of(set: &Set<'_>, lost: &CellSet, stripe: u64, files: &[usize]) -> Losses {
    let mut damage = Damage::default();
    damage.cells.insert(stripe..stripe + 1, lost.clone());
    damage.unrecoverable.insert(stripe..stripe + 1, lost.iter().collect());
    files.iter().for_each(|&entry| {
        damage.files.insert(entry, (1, 1));
    });
    damage.losses(set).unwrap_or_else(|| unreachable!("a stripe was given"))
}

/// Returns the smallest sets of holders that suffice in every pattern. If the limited number of
/// tries finds none, it returns one sufficient set of which no holder can be omitted, or if that
/// takes too long, all holders.
fn advice(set: &Set<'_>, patterns: &BTreeSet<Pattern>, holders: usize) -> Vec<Vec<usize>> {
    const TRIES_MOST: u64 = 4000;
    // One try solves as many equations as there are lost cells in each pattern; all tries together
    // take about a second.
    const PRODUCTS_MOST: u64 = 1 << 32;
    let products = |pattern: &Pattern| (pattern.len() as u64).saturating_pow(3);
    let products = patterns.iter().map(products).fold(1, u64::saturating_add);
    let is_enough = |back: &[usize]| {
        patterns.iter().all(|pattern| {
            let mut still = set.geometry.no_cells();
            let lost = pattern.iter().filter(|(_, holder)| !back.contains(holder));
            lost.for_each(|&(cell, _)| still.insert(cell));
            let wanted: Vec<CellIndex> = still.iter().collect();
            set.recoverable(&still, wanted.clone()).len() == wanted.len()
        })
    };
    let tries_most = (PRODUCTS_MOST / products).clamp(1, TRIES_MOST);
    let mut tries = 0;
    for size in 1..=holders {
        let limits = (tries_most - tries, usize::MAX);
        let tally = SetTally::of(holders, size, limits, |back| !is_enough(back));
        tries += tally.tried;
        match tally.fatal.is_empty() {
            false => return tally.fatal,
            true if tries >= tries_most => break,
            true => {}
        }
    }
    let mut all: Vec<usize> = (0..holders).collect();
    let is_quick = products.saturating_mul(holders as u64) <= 16 * PRODUCTS_MOST;
    for i in (0..holders).rev().filter(|_| is_quick) {
        let without: Vec<usize> = all.iter().copied().filter(|&other| other != i).collect();
        if is_enough(&without) {
            all = without;
        }
    }
    vec![all]
}

/// True if these are all the sets of their size.
fn is_any(enough: &[Vec<usize>], columns: usize) -> bool {
    let Some(size) = enough.first().map(Vec::len) else { return false };
    enough.len() as u64 == choose(columns as u64, size as u64)
}

fn wide(columns: &[usize]) -> Vec<u64> {
    columns.iter().map(|&column| column as u64).collect()
}

/// True if a finding may be repaired, unless another one in its stripe contradicts it.
fn is_accepted(set: &Set<'_>, finding: &Finding) -> bool {
    finding.verdict.is_certain() || (set.guess && matches!(finding.verdict, Verdict::Located { .. }))
}

/// Returns copies of the blocks that findings may change. Their bytes are compared later, not
/// checksums, which a forger may have adapted.
fn blocks_of(
    geometry: &Geometry,
    cells: &[&[u8]],
    findings: &[Finding],
) -> BTreeMap<(usize, CellIndex), Vec<u8>> {
    let block = geometry.block();
    let mut blocks = BTreeMap::new();
    for finding in findings {
        let Verdict::Located { columns, .. } = &finding.verdict else { continue };
        let i = finding.range.start / block;
        for cell in columns.iter().flat_map(|&column| geometry.codec.code().column_cells(column)) {
            let bytes = || cells[cell.usize()][i * block..(i + 1) * block].to_vec();
            blocks.entry((i, cell)).or_insert_with(bytes);
        }
    }
    blocks
}

fn report(set: &Set<'_>, damage: &Damage, part: Scope<'_>) -> VerifyReport {
    let chosen = part.entries();
    let mut shards = set.shard_reports();
    for shard in &mut shards {
        if let Some(&(count, first)) = damage.shards.get(&(shard.column as usize)) {
            (shard.wrong_blocks, shard.first_wrong) = (count, Some(first));
        }
    }
    let beside = set.manifest.mode == Mode::Beside;
    let disk = set.world.disk;
    // In mode beside a source that is a file is an original like any other.
    let is_file = |index: usize| {
        let of_source = |entry: &&Entry| entry.source as usize == index && entry.path.is_empty();
        let top = set.manifest.entries.iter().find(of_source);
        top.is_some_and(|entry| matches!(entry.kind, EntryKind::File { .. }))
    };
    let missing = set.sources.iter().enumerate().filter(|(_, source)| disk.meta(source).is_err());
    let missing = missing.filter(|(index, _)| !beside || !is_file(*index));
    let sources_missing: Vec<String> =
        missing.map(|(_, source)| crate::set::names::shown_path(source)).collect();
    let sources_seen = beside || sources_missing.is_empty();
    let mut files = Vec::new();
    let mut files_unchanged = 0;
    let is_chosen = |index: &usize| chosen.is_none_or(|chosen| chosen.binary_search(index).is_ok());
    for (index, entry) in set.manifest.entries.iter().enumerate().filter(|(index, _)| is_chosen(index)) {
        let (lost_blocks, unrecoverable_blocks) = damage.files.get(&index).copied().unwrap_or((0, 0));
        let seen = set.originals[index].as_ref().map(|original| original.status).filter(|_| sources_seen);
        let status = match seen {
            Some(FileStatus::Unchanged) if beside && lost_blocks > 0 => FileStatus::Rotten,
            Some(FileStatus::Changed) if beside && set.is_rot_or_change(index, lost_blocks) => {
                FileStatus::RotOrChange
            }
            Some(status) => status,
            None => FileStatus::Unchanged,
        };
        let is_file = matches!(entry.kind, EntryKind::File { .. } | EntryKind::HardLink { .. });
        if status != FileStatus::Unchanged || lost_blocks > 0 {
            let path = shown(&set.restored_path(index));
            files.push(FileReport { path, status, lost_blocks, unrecoverable_blocks });
        }
        files_unchanged += u64::from(is_file && sources_seen && status == FileStatus::Unchanged);
    }
    if sources_seen && chosen.is_none() {
        files.extend(new_files(set));
    }
    let losses = damage.losses(set);
    let recoverable = losses.is_none() && damage.doubtful.is_empty();
    let is_good =
        |s: &ShardReport| s.status == ShardStatus::Good && s.wrong_blocks == 0 && s.misnamed.is_none();
    let shards_good = chosen.is_some() || shards.iter().all(is_good);
    let originals_good = !beside
        || files
            .iter()
            .all(|f| matches!(f.status, FileStatus::Unchanged | FileStatus::New) && f.lost_blocks == 0);
    let is_rotten = |f: &FileReport| match f.status {
        FileStatus::Missing | FileStatus::Rotten => true,
        FileStatus::Unchanged => f.lost_blocks > 0,
        FileStatus::Changed | FileStatus::RotOrChange | FileStatus::Renamed | FileStatus::New => false,
    };
    let needs_heal = !shards_good || !damage.doubtful.is_empty() || (beside && files.iter().any(is_rotten));
    let is_changed = |f: &FileReport| {
        matches!(f.status, FileStatus::Changed | FileStatus::RotOrChange | FileStatus::Renamed)
    };
    let needs_seal = beside && files.iter().any(is_changed);
    let (exposed, exposed_count) = match set.manifest.mode {
        Mode::Beside => names_exposed(&set.geometry, &set.manifest),
        Mode::Full => Default::default(),
    };
    VerifyReport {
        needs_heal,
        needs_seal,
        renamed: renamed(set),
        newer: set.newer_state(),
        sources_missing,
        sources_known: set.places.are_known(),
        sources_emptied: if beside { sources_emptied(set) } else { Vec::new() },
        sources_replaced: if beside { sources_replaced(set) } else { Vec::new() },
        folders_unmounted: folders_unmounted(set),
        sources: set.sources.iter().map(crate::set::names::shown_path).collect(),
        disk_names: set.disk_names(),
        partial: chosen.is_some(),
        exposed,
        exposed_count,
        survival: set.survival(Some(damage).filter(|_| chosen.is_none())),
        share: None,
        set: set.manifest.set.to_string(),
        name: shown(&set.manifest.name),
        code: set.manifest.code.spec.clone(),
        mode: mode_name(set.manifest.mode).into(),
        generation: set.manifest.generation.0,
        by_checksums: set.judge,
        by_pin: set.pin.is_some(),
        // If blocks contradict the equations, the set is not clean, even without another finding.
        clean: shards_good
            && originals_good
            && (chosen.is_some() || damage.cells.is_empty())
            && damage.finding_count == 0,
        shards,
        superfluous: set.superfluous.clone(),
        files,
        files_unchanged,
        sources_seen,
        sources_searched: sources_seen && chosen.is_none() && set.places.are_known(),
        findings: damage.findings.clone(),
        finding_count: damage.finding_count,
        stripes: match part {
            Scope::Stripes(runs) => runs.iter().map(length).sum(),
            _ => set.manifest.stripes,
        },
        bytes_read: set.bytes_read(),
        recoverable,
        losses,
    }
}

/// Returns the present tree, if it may be listed and is readable.
pub(crate) fn tree_now(set: &Set<'_>) -> Option<Tree> {
    if !set.places.are_known() {
        return None;
    }
    let own = |left_out| Own::new(set.shard_dirs(), set.names.name.clone(), left_out).ok();
    // If the patterns are unreadable, new files are still found without them.
    let own = own(set.manifest.left_out()).or_else(|| own(LeftOut::default()))?;
    let mut sources = set.manifest.sources.clone();
    for (source, path) in sources.iter_mut().zip(&set.sources) {
        source.path = path.as_os_str().as_encoded_bytes().to_vec();
    }
    Tree::walk(set.world.disk, sources, &own).ok()
}

/// Returns the sources that have no sealed file at its place.
fn sources_emptied(set: &Set<'_>) -> Vec<String> {
    let emptied = set.sources.iter().zip(set.emptied()).filter(|(_, is_emptied)| *is_emptied);
    emptied.map(|(source, _)| crate::set::names::shown_path(source)).collect()
}

/// Returns the emptied sources that are mount points, where a disk is mounted.
fn sources_replaced(set: &Set<'_>) -> Vec<String> {
    let is_new = |source: &&PathBuf| {
        let place = crate::disk::spelt_one_way(source);
        set.world.disk.mount_point(&place) == place && set.unmounted(&place).is_none()
    };
    let sources = set.sources.iter().zip(set.gone());
    let gone = sources.filter(|(_, is_gone)| *is_gone).map(|(source, _)| source);
    gone.filter(is_new).map(crate::set::names::shown_path).collect()
}

/// Returns the folders of lost shards whose disk is most likely not mounted.
fn folders_unmounted(set: &Set<'_>) -> Vec<String> {
    let dirs = (0..set.shards.len()).filter_map(|column| set.unmounted_folder(column));
    let dirs: BTreeSet<PathBuf> = dirs.map(|(dir, _)| dir).collect();
    dirs.iter().map(crate::set::names::shown_path).collect()
}

/// Returns the renamed originals, with both names.
fn renamed(set: &Set<'_>) -> Vec<Renamed> {
    let all = set.originals.iter().enumerate();
    all.filter_map(|(index, original)| match original {
        Some(Original { path, status: FileStatus::Renamed }) => {
            Some(Renamed::new(&set.original_path(index), path))
        }
        _ => None,
    })
    .collect()
}

/// Returns the files in the sources that were not sealed.
fn new_files(set: &Set<'_>) -> Vec<FileReport> {
    let Some(tree) = tree_now(set) else { return Vec::new() };
    let known: HashSet<(u32, &[u8])> =
        set.manifest.entries.iter().map(|entry| (entry.source, entry.path.as_slice())).collect();
    let is_renamed = |original: &&Original| original.status == FileStatus::Renamed;
    let recognised: HashSet<&Path> =
        set.originals.iter().flatten().filter(is_renamed).map(|original| original.path.as_path()).collect();
    let is_new = |entry: &&pantile_format::Entry| {
        !known.contains(&(entry.source, entry.path.as_slice()))
            && !recognised.contains(join(&set.sources[entry.source as usize], &entry.path).as_path())
    };
    let report = |entry: &pantile_format::Entry| {
        let prefix = &set.manifest.sources[entry.source as usize].prefix;
        let parts: Vec<&[u8]> =
            [prefix.as_slice(), &entry.path].into_iter().filter(|p| !p.is_empty()).collect();
        let path = shown(&parts.join(&b'/'));
        FileReport { path, status: FileStatus::New, lost_blocks: 0, unrecoverable_blocks: 0 }
    };
    tree.entries.iter().filter(is_new).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{SealOptions, SetPaths, Silent, System};
    use crate::set::{Opening, Pending};

    /// A set of 64 stripes with three truncated columns, which keep one block in the middle.
    #[test]
    fn losses_in_many_stripes_are_kept_as_few_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (dir.path().join("f"), dir.path().join("s"));
        std::fs::write(&file, vec![7; 4 * 64 * 4096]).unwrap();
        let mut options = SealOptions::new(vec![file], out.clone());
        options.code = Some(pantile::Code::parse("raid6:4").unwrap());
        options.block_len = Some(4096);
        crate::seal(&options, &mut Silent).unwrap();
        let system = System::new();
        let paths = SetPaths { paths: vec![out], ..SetPaths::default() };
        let open = || {
            let opening = Opening::to_read(&paths, Pending::Refused);
            Set::open(system.world(), &opening, &Silent).unwrap()
        };
        for column in [1, 3, 5] {
            let set = open();
            let shard = set.shards[column].as_ref().unwrap();
            let file = std::fs::File::options().write(true).open(&shard.path).unwrap();
            for stripe in (0..64).filter(|&stripe| stripe != 40) {
                let at = shard.header.block_offset(stripe, 0);
                std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], at).unwrap();
            }
        }
        let damage = find_damage(&open(), Scope::Whole, &mut Silent).unwrap();
        let runs: Vec<Range<u64>> = damage.cells.iter().map(|(run, _)| run.clone()).collect();
        assert_eq!(runs, [0..40, 41..64]);
        assert_eq!((damage.unrecoverable.iter().count(), damage.blocks_left()), (2, 3 * 63));
        assert_eq!(damage.stripes_gone(|cell| cell.usize() == 1), 63);
        let mut window = Window::new(&open().geometry, 3);
        window.move_to(39..42, &open().geometry.no_cells());
        damage.add_to(&mut window);
        assert_eq!(window.lost.iter().map(|lost| lost.iter().count()).collect::<Vec<_>>(), [3, 0, 3]);
    }
}
