//! Checks of every byte of a stripe, the search for wrong columns where checks fail, and the repair
//! of certain findings.
//!
//! Evidence is judged over a whole stretch of bytes that fail a check, never per byte. One set of
//! columns must explain every byte of the stretch; a single byte that it does not explain refutes
//! it. The module of [`pantile_plan::Locator`] derives the evidence of a set that explains a given
//! number of bytes. A finding with less than [`EVIDENCE_BITS_LEAST`] bits is reported as not
//! certain. If one finding in a stripe is not certain, none in that stripe is.
//!
//! A stretch ends before [`GRANULE_BYTES`] or more consecutive bytes that satisfy the checks, and
//! at the end of a stripe: in buffers with several consecutive stripes each stripe is judged by
//! itself ([`Checker::locate_in_stripes`]).

use crate::cache::{Cache, TERM_BYTES, VALUE_BYTES, Weight};
use crate::stripe::{StripeError, element_len};
use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;
use pantile_kernel::{Arena, Dot, first_nonzero, first_nonzero_any, xor_into};
use pantile_plan::{
    CellSet, CheckCombination, EVIDENCE_BITS_LEAST, Explanation, Locator, PlanError, SEARCH_PRODUCTS_MOST,
};
use std::cell::Cell;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

/// The number of bytes of every cell that are checked at a time.
const TILE_BYTES: usize = 32 * 1024;

/// Two wrong bytes of a stripe closer than this belong to one stretch.
const GRANULE_BYTES: usize = 64;

/// The most products that a search takes, per byte of all cells. A stretch of 64 bytes of 254
/// columns of one row allows a million products. All pairs of these columns with four checks take
/// an eighth of that.
const SEARCH_PRODUCTS_PER_BYTE: u64 = 64;

/// The explanation of a byte range that fails a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These columns, and no others, explain every byte of the range.
    Located {
        /// The columns, ascending.
        columns: Vec<usize>,
        /// The evidence: a larger error looks the same with a chance of at most one in 2 to this
        /// power. Zero if 2e + f > d - 1, where as many other columns can always be the wrong ones.
        evidence_bits: u32,
        /// True if the evidence of this finding, and of every other one in the stripe, is at least
        /// [`EVIDENCE_BITS_LEAST`].
        certain: bool,
    },
    /// Several sets of columns of one size explain the range.
    Ambiguous {
        /// Two of the explanations.
        examples: [Vec<usize>; 2],
    },
    /// No set of columns that is small enough to be unique explains the whole range, or the search
    /// reached its limit.
    Unlocatable,
}

impl Verdict {
    /// True if the range can be repaired without a guess.
    pub fn is_certain(&self) -> bool {
        matches!(self, Verdict::Located { certain: true, .. })
    }
}

/// A byte range, the same in every element, in which the stripe does not satisfy its equations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offsets within an element. The first and the last byte fail a check; bytes in between may be
    /// correct.
    pub range: Range<usize>,
    /// The explanation, if there is one.
    pub verdict: Verdict,
}

/// The checks of one code with some cells erased, compiled.
#[derive(Debug)]
pub struct Checker {
    locator: Locator,
    sources: Vec<usize>,
    checks: Dot,
    /// The programs of sets of columns. They take at most as many bytes as the rest of the checker,
    /// or [`HYPOTHESES_BYTES_LEAST`] if that is more.
    explanations: Cache<Vec<usize>, Hypothesis>,
}

/// The buffers in which a thread checks a tile, reused from tile to tile.
#[derive(Default)]
struct Room {
    syndromes: Option<Arena>,
    sources: Vec<&'static [u8]>,
    outputs: Vec<&'static mut [u8]>,
}

thread_local! {
    static ROOM: Cell<Room> = const { Cell::new(Room { syndromes: None, sources: Vec::new(), outputs: Vec::new() }) };
}

impl Room {
    /// Returns the first byte at which a check is not zero. The cells have one length, at most that
    /// of a tile.
    fn first_nonzero<'c>(&mut self, checks: &Dot, cells: impl Iterator<Item = &'c [u8]>) -> Option<usize> {
        let count = checks.outputs();
        if self.syndromes.as_ref().is_none_or(|syndromes| syndromes.count() < count) {
            self.syndromes = Some(Arena::new(count, TILE_BYTES));
        }
        let syndromes = self.syndromes.as_mut()?;
        let mut sources: Vec<&[u8]> = take(&mut self.sources);
        sources.extend(cells);
        let len = sources.first().map_or(0, |source| source.len());
        let mut outputs: Vec<&mut [u8]> = take(&mut self.outputs);
        syndromes.heads_mut(count, len, &mut outputs);
        let Ok(()) = checks.apply(&sources, &mut outputs) else {
            unreachable!("cells were cut to one length")
        };
        let found = outputs.iter().filter_map(|output| first_nonzero(output, 0)).min();
        // The lists are empty, so no element is converted; collecting in place keeps their
        // capacity.
        sources.clear();
        self.sources = sources.into_iter().map(|_| -> &[u8] { &[] }).collect();
        outputs.clear();
        self.outputs = outputs.into_iter().map(|_| -> &mut [u8] { &mut [] }).collect();
        found
    }
}

/// The programs of a set of columns that may be wrong.
#[derive(Debug)]
struct Hypothesis {
    /// Computes values that are all zero exactly where the columns explain the checks.
    residual: Dot,
    /// The cells of the columns, and the program that computes their corrections.
    corrections: Option<(Vec<usize>, Dot)>,
    /// The number of terms of both programs.
    terms: usize,
}

/// The bytes for hypotheses of a small code: enough for all pairs of columns of a code of one row
/// and 10 columns.
const HYPOTHESES_BYTES_LEAST: usize = 64 * 1024;

/// Returns the bytes of a locator with its compiled checks: a coefficient of each cell in each
/// check, and the terms of the checks.
fn locator_bytes(locator: &Locator) -> usize {
    const CELL_BYTES: usize = 48;
    let terms: usize = locator.checks().iter().map(Vec::len).sum();
    let cells = locator.code().cell_count();
    VALUE_BYTES + terms * TERM_BYTES + cells * (locator.checks().len() + CELL_BYTES)
}

fn hypotheses_bytes_most(locator: &Locator) -> usize {
    locator_bytes(locator).max(HYPOTHESES_BYTES_LEAST)
}

impl Weight for Checker {
    /// Includes the most bytes that its hypotheses can take.
    fn weight_bytes(&self) -> usize {
        locator_bytes(&self.locator) + hypotheses_bytes_most(&self.locator)
    }
}

impl Weight for Hypothesis {
    fn weight_bytes(&self) -> usize {
        VALUE_BYTES + self.terms * TERM_BYTES
    }
}

impl Checker {
    pub(crate) fn new(code: &Code, erased: &CellSet) -> Result<Checker, PlanError> {
        let locator = Locator::new(code, code.claim().tolerance, erased)?;
        let sources: Vec<usize> =
            code.cells().filter(|&cell| !erased.contains(cell)).map(CellIndex::usize).collect();
        let place = |cell: CellIndex| sources.partition_point(|&s| s < cell.usize());
        let rows: Vec<Vec<(usize, u8)>> = locator
            .checks()
            .iter()
            .map(|check| check.iter().map(|&(cell, c)| (place(cell), c.0)).collect())
            .collect();
        let Ok(checks) = Dot::new(sources.len(), &rows) else {
            unreachable!("sources are numbered by `place`")
        };
        let explanations = Cache::new(hypotheses_bytes_most(&locator));
        Ok(Checker { locator, sources, checks, explanations })
    }

    /// Returns the locator that searches for the columns.
    pub fn locator(&self) -> &Locator {
        &self.locator
    }

    /// The offset of the first byte at which the stripe does not satisfy its equations; `None` if
    /// it satisfies them at every byte.
    ///
    /// Erased cells are not read. If the erased cells leave no check, nothing is found. Cost: no
    /// allocation after the first run on a thread; each thread keeps 32 KiB per check.
    pub fn first_fault(&self, cells: &[&[u8]]) -> Result<Option<usize>, StripeError> {
        let len = element_len(self.locator.code(), cells)?;
        let mut room = ROOM.try_with(Cell::take).unwrap_or_default();
        let found = (0..len).step_by(TILE_BYTES).find_map(|start| {
            let tile = start..len.min(start + TILE_BYTES);
            let at = room.first_nonzero(&self.checks, self.sources.iter().map(|&s| &cells[s][tile.clone()]));
            at.map(|at| start + at)
        });
        // While the thread ends, the buffers are dropped.
        let _ = ROOM.try_with(|cell| cell.set(room));
        Ok(found)
    }

    /// Every byte range that does not satisfy the equations, ascending, with its verdict; empty if
    /// the stripe is clean.
    ///
    /// The checks are computed over every byte. The search for columns runs once per stretch, and
    /// its result is checked on every byte of the stretch. Cost: that of encoding if the stripe is
    /// clean; otherwise also a search per stretch. For sets of several columns all searches of a
    /// call share one limit: [`SEARCH_PRODUCTS_MOST`] plus 64 products per given byte. So the time
    /// is proportional to the bytes; with many parities some errors that the code could locate are
    /// not located.
    pub fn locate(&self, cells: &[&[u8]]) -> Result<Vec<Finding>, StripeError> {
        self.locate_in_stripes(cells, usize::MAX)
    }

    /// Works like [`Checker::locate`] on buffers with several consecutive stripes. Each stripe has
    /// `stripe_bytes` bytes of every cell and is judged by itself. No range crosses the end of a
    /// stripe.
    ///
    /// Panics if `stripe_bytes` is zero.
    pub fn locate_in_stripes(
        &self,
        cells: &[&[u8]],
        stripe_bytes: usize,
    ) -> Result<Vec<Finding>, StripeError> {
        assert!(stripe_bytes > 0, "a stripe has bytes");
        let len = element_len(self.locator.code(), cells)?;
        // Most stripes are clean, which is found with buffers that the thread keeps: mapping arenas
        // in each call took several times as long as the checks.
        let Some(first_fault) = self.first_fault(cells)? else { return Ok(Vec::new()) };
        let count = self.checks.outputs();
        let mut syndromes = Arena::new(count, TILE_BYTES.min(len));
        let mut residues = Arena::new(count, TILE_BYTES.min(len));
        let mut found = Found {
            checker: self,
            stripe_bytes,
            open: None,
            findings: Vec::new(),
            products_left: SEARCH_PRODUCTS_MOST,
        };
        for start in (0..len).step_by(TILE_BYTES) {
            let end = len.min(start + TILE_BYTES);
            let bytes = (cells.len() * (end - start)) as u64;
            found.products_left = found.products_left.saturating_add(bytes * SEARCH_PRODUCTS_PER_BYTE);
            if end <= first_fault {
                continue;
            }
            self.syndromes(cells, start..end, &mut syndromes);
            let heads = heads(&syndromes, end - start);
            let mut from = 0;
            while let Some(first) = first_nonzero_any(&heads, from) {
                // A part ends at the end of its stripe.
                let stripe_end =
                    ((start + first) / stripe_bytes).saturating_add(1).saturating_mul(stripe_bytes);
                let part = first..part_end(&heads, first, stripe_end - start);
                found.take(&heads, part.clone(), start, &mut residues);
                from = part.end;
            }
        }
        found.close();
        Ok(without_doubtful_stripes(found.findings, stripe_bytes))
    }

    /// Corrects the located findings that `accept` approves, in place. Accepting an uncertain
    /// finding is a guess, and the caller should report it as one.
    ///
    /// Each range is checked again as a whole. It is left unchanged if the columns no longer
    /// explain every byte of it, because the stripe has changed or is another one, or if the checks
    /// do not determine the cells of the columns. Returns the number of bytes, per element, of the
    /// ranges (or tiles of them) in which a byte was corrected. Errors: buffers that are not a
    /// stripe, or a finding outside them; nothing is then written.
    pub fn correct(
        &self,
        cells: &mut [&mut [u8]],
        findings: &[Finding],
        accept: impl Fn(&Finding) -> bool,
    ) -> Result<usize, StripeError> {
        let len = element_len(self.locator.code(), cells)?;
        if let Some(outside) = findings.iter().find(|finding| finding.range.end > len) {
            return Err(StripeError::FindingOutside { end: outside.range.end, len });
        }
        let mut corrected = 0;
        for finding in findings {
            let Verdict::Located { columns, .. } = &finding.verdict else { continue };
            if !accept(finding) {
                continue;
            }
            let hypothesis = self.hypothesis(columns);
            let Some((targets, dot)) = &hypothesis.corrections else { continue };
            let tiles = || {
                let starts = finding.range.clone().step_by(TILE_BYTES);
                starts.map(|start| start..finding.range.end.min(start + TILE_BYTES))
            };
            let views: Vec<&[u8]> = cells.iter().map(|cell| &**cell).collect();
            let explained = |tile: Range<usize>| self.errors(&views, &tile, &hypothesis.residual, dot);
            // A single tile is checked once. Of several tiles none is written before all are
            // checked.
            let mut first = match tiles().count() {
                1 => explained(finding.range.clone()),
                _ if tiles().all(|tile| explained(tile).is_some()) => None,
                _ => continue,
            };
            for tile in tiles() {
                let views: Vec<&[u8]> = cells.iter().map(|cell| &**cell).collect();
                let again = || self.errors(&views, &tile, &hypothesis.residual, dot);
                let Some(errors) = first.take().or_else(again) else { continue };
                if first_nonzero_any(&errors.all(), 0).is_none() {
                    continue;
                }
                for (i, &cell) in targets.iter().enumerate() {
                    xor_into(&mut cells[cell][tile.clone()], errors.get(i));
                }
                corrected += tile.len();
            }
        }
        Ok(corrected)
    }

    /// Returns the errors in the cells of `corrections`; `None` if they do not explain every wrong
    /// byte of the tile.
    fn errors(
        &self,
        cells: &[&[u8]],
        tile: &Range<usize>,
        residual: &Dot,
        corrections: &Dot,
    ) -> Option<Arena> {
        let len = tile.len();
        let made = |dot: &Dot, sources: &[&[u8]]| {
            let mut outputs = Arena::new(dot.outputs(), len);
            apply(dot, sources, &mut outputs, len);
            outputs
        };
        let mut syndromes = Arena::new(self.checks.outputs(), len);
        self.syndromes(cells, tile.clone(), &mut syndromes);
        let syndromes = syndromes.all();
        let is_explained = first_nonzero_any(&made(residual, &syndromes).all(), 0).is_none();
        is_explained.then(|| made(corrections, &syndromes))
    }

    fn syndromes(&self, cells: &[&[u8]], range: Range<usize>, syndromes: &mut Arena) {
        let sources: Vec<&[u8]> = self.sources.iter().map(|&cell| &cells[cell][range.clone()]).collect();
        apply(&self.checks, &sources, syndromes, range.len());
    }

    /// Returns the first byte of a part that the columns do not explain.
    fn first_unexplained(
        &self,
        columns: &[usize],
        syndromes: &[&[u8]],
        part: Range<usize>,
        residues: &mut Arena,
    ) -> Option<usize> {
        let hypothesis = self.hypothesis(columns);
        let views: Vec<&[u8]> = syndromes.iter().map(|s| &s[part.clone()]).collect();
        apply(&hypothesis.residual, &views, residues, part.len());
        let left = &heads(residues, part.len())[..hypothesis.residual.outputs()];
        first_nonzero_any(left, 0).map(|offset| part.start + offset)
    }

    fn hypothesis(&self, columns: &[usize]) -> Arc<Hypothesis> {
        if let Some(known) = self.explanations.find(columns) {
            return known;
        }
        let checks = self.checks.outputs();
        let mut terms = 0;
        let mut compile = |rows: Vec<CheckCombination>| {
            terms += rows.iter().map(Vec::len).sum::<usize>();
            let rows: Vec<Vec<(usize, u8)>> =
                rows.iter().map(|row| row.iter().map(|&(check, c)| (check, c.0)).collect()).collect();
            match Dot::new(checks, &rows) {
                Ok(dot) => dot,
                Err(error) => unreachable!("combinations of checks name checks: {error}"),
            }
        };
        let corrections = self.locator.corrections(columns).map(|all| {
            let (cells, rows): (Vec<usize>, Vec<CheckCombination>) =
                all.into_iter().map(|(cell, row)| (cell.usize(), row)).unzip();
            (cells, compile(rows))
        });
        let residual = compile(self.locator.residual(columns));
        let made = Hypothesis { residual, corrections, terms };
        self.explanations.keep(columns.to_vec(), Arc::new(made))
    }
}

/// The findings of one pass, and the stretch that is still open.
struct Found<'c> {
    checker: &'c Checker,
    stripe_bytes: usize,
    open: Option<Stretch>,
    findings: Vec<Finding>,
    products_left: u64,
}

/// A range of bytes that fail a check, with fewer than [`GRANULE_BYTES`] consecutive correct bytes
/// between them.
struct Stretch {
    range: Range<usize>,
    /// The number of bytes of the range that fail a check.
    bytes: usize,
    known: Known,
}

/// The columns that explain all bytes of a stretch so far.
enum Known {
    /// These columns, few enough that no other set of their size explains any byte of the stretch.
    Columns(Vec<usize>),
    /// These columns, but other sets of their size could explain such bytes, too.
    Perhaps(Vec<usize>),
    /// Several sets of columns, two of which are given.
    Several([Vec<usize>; 2]),
    /// No set of columns.
    Nothing,
}

impl Found<'_> {
    /// Adds a part of a tile, all in one stripe, in which every granule has a byte that fails a
    /// check.
    fn take(&mut self, syndromes: &[&[u8]], part: Range<usize>, tile_start: usize, residues: &mut Arena) {
        let (bytes, last) = failing(syndromes, part.clone());
        let range = tile_start + part.start..tile_start + last + 1;
        let goes_on = |open: &Stretch| {
            let (before, next) = (open.range.end - 1, range.start);
            before / self.stripe_bytes == next / self.stripe_bytes
                && next / GRANULE_BYTES <= before / GRANULE_BYTES + 1
        };
        if !self.open.as_ref().is_some_and(goes_on) {
            self.close();
        }
        let (locator, products_left) = (&self.checker.locator, &mut self.products_left);
        let mut explain = |at: usize| {
            let values: Vec<Gf> = syndromes.iter().map(|s| Gf(s[at])).collect();
            locator.explain_within(&values, products_left)
        };
        let stretch = self.open.get_or_insert_with(|| {
            let known = match explain(part.start) {
                Explanation::Located { columns, certain: true } => Known::Columns(columns),
                Explanation::Located { columns, certain: false } => Known::Perhaps(columns),
                Explanation::Ambiguous { examples, .. } => Known::Several(examples),
                Explanation::Clean | Explanation::Unlocatable => Known::Nothing,
            };
            Stretch { range: range.clone(), bytes: 0, known }
        });
        stretch.range.end = range.end;
        stretch.bytes += bytes;
        loop {
            let (Known::Columns(columns) | Known::Perhaps(columns)) = &stretch.known else { return };
            let Some(at) = self.checker.first_unexplained(columns, syndromes, part.clone(), residues) else {
                return;
            };
            // The wrong columns may differ between parts of the stretch, as long as they are few
            // enough together.
            stretch.known = match (&stretch.known, explain(at)) {
                (Known::Columns(columns), Explanation::Located { columns: more, certain: true }) => {
                    let mut all = [columns.clone(), more].concat();
                    all.sort_unstable();
                    all.dedup();
                    match all.len() <= self.checker.locator.errors_certain() {
                        true => Known::Columns(all),
                        false => Known::Nothing,
                    }
                }
                _ => Known::Nothing,
            };
        }
    }

    /// Ends the open stretch and adds its finding.
    fn close(&mut self) {
        let Some(Stretch { range, bytes, known }) = self.open.take() else { return };
        let verdict = match known {
            Known::Columns(columns) => {
                let evidence_bits = self.checker.locator.evidence_bits(columns.len(), bytes);
                let certain = evidence_bits >= EVIDENCE_BITS_LEAST;
                Verdict::Located { columns, evidence_bits, certain }
            }
            Known::Perhaps(columns) => Verdict::Located { columns, evidence_bits: 0, certain: false },
            Known::Several(examples) => Verdict::Ambiguous { examples },
            Known::Nothing => Verdict::Unlocatable,
        };
        self.findings.push(Finding { range, verdict });
    }
}

/// Returns the number of bytes of a part that fail a check, and the offset of the last one.
fn failing(syndromes: &[&[u8]], part: Range<usize>) -> (usize, usize) {
    let (mut count, mut last) = (0, part.start);
    for at in part.clone().step_by(GRANULE_BYTES) {
        let mut any = [0u8; GRANULE_BYTES];
        for syndrome in syndromes {
            let granule = &syndrome[at..part.end.min(at + GRANULE_BYTES)];
            any.iter_mut().zip(granule).for_each(|(any, byte)| *any |= byte);
        }
        count += any.iter().filter(|&&byte| byte != 0).count();
        last = any.iter().rposition(|&byte| byte != 0).map_or(last, |i| at + i);
    }
    (count, last)
}

/// Returns the end of the part that starts at `first` and in which every granule has a byte that
/// fails a check; at most `most`.
fn part_end(syndromes: &[&[u8]], first: usize, most: usize) -> usize {
    let len = syndromes[0].len().min(most);
    let mut end = len.min((first / GRANULE_BYTES + 1) * GRANULE_BYTES);
    while end < len {
        let granule: Vec<&[u8]> = syndromes.iter().map(|s| &s[end..len.min(end + GRANULE_BYTES)]).collect();
        if first_nonzero_any(&granule, 0).is_none() {
            break;
        }
        end = len.min(end + GRANULE_BYTES);
    }
    end
}

/// Marks all findings in a stripe as not certain if one of them is not.
fn without_doubtful_stripes(mut findings: Vec<Finding>, stripe_bytes: usize) -> Vec<Finding> {
    let stripe = |finding: &Finding| finding.range.start / stripe_bytes;
    for same in findings.chunk_by_mut(|a, b| stripe(a) == stripe(b)) {
        if same.iter().all(|finding| finding.verdict.is_certain()) {
            continue;
        }
        for finding in same {
            if let Verdict::Located { certain, .. } = &mut finding.verdict {
                *certain = false;
            }
        }
    }
    findings
}

fn heads(arena: &Arena, len: usize) -> Vec<&[u8]> {
    (0..arena.count()).map(|i| &arena.get(i)[..len]).collect()
}

fn apply(dot: &Dot, sources: &[&[u8]], outputs: &mut Arena, len: usize) {
    let mut outputs: Vec<&mut [u8]> = outputs.all_mut();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().take(dot.outputs()).map(|o| &mut o[..len]).collect();
    let Ok(()) = dot.apply(sources, &mut outputs) else { unreachable!("buffers were cut to one length") };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypotheses_fill_no_more_than_their_checker() {
        for spec in ["raidq:40+4", "dcode:17"] {
            let code = Code::parse(spec).unwrap();
            let checker = Checker::new(&code, &CellSet::empty(&code)).unwrap();
            let most = hypotheses_bytes_most(&checker.locator);
            let mut all = 0;
            for b in 0..code.columns() {
                for a in 0..b {
                    let made = checker.hypothesis(&[a, b]);
                    assert!(Arc::ptr_eq(&made, &checker.hypothesis(&[a, b])), "{spec}: made again");
                    all += made.weight_bytes();
                    assert!(checker.explanations.bytes() <= most, "{spec}");
                }
            }
            assert!(all > 2 * most, "{spec}: {all} bytes in all, of which {most} may be kept");
            assert!(checker.weight_bytes() >= 2 * locator_bytes(&checker.locator), "{spec}");
        }
    }
}
