//! Clean, or where the lie is: checks over every byte, a search where they fail, repair where it is certain.

use crate::cache::{Cache, TERM_BYTES, VALUE_BYTES, Weight};
use crate::stripe::{StripeError, element_len};
use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;
use pantile_kernel::{Arena, Dot, first_nonzero_any, xor_into};
use pantile_plan::{CellSet, CheckCombination, Explanation, Locator, PlanError};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of every cell that are checked at a time.
const TILE_BYTES: usize = 32 * 1024;

/// Two wrong bytes closer than this belong to one stretch.
const GRANULE_BYTES: usize = 64;

/// The longest stretch that one unexplained sample stands for.
const SAMPLE_BYTES_MOST: usize = 4096;

/// What is known of a byte range that does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These columns, and no others, explain every byte of the range.
    Located {
        /// The columns, ascending.
        columns: Vec<usize>,
        /// Whether so many wrong columns are always found rightly: 2e + f <= d - 1.
        certain: bool,
    },
    /// Different columns would explain it equally well.
    Ambiguous {
        /// Two of the explanations.
        examples: [Vec<usize>; 2],
    },
    /// More columns are wrong than can be told apart.
    Unlocatable,
}

/// A byte range, the same in every element, in which the stripe does not satisfy its equations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offsets within an element. The first and the last byte fail a check; bytes between may be clean.
    pub range: Range<usize>,
    /// What explains it.
    pub verdict: Verdict,
}

/// The checks of one code with some cells erased, compiled.
#[derive(Debug)]
pub struct Checker {
    locator: Locator,
    sources: Vec<usize>,
    checks: Dot,
    /// At most as many bytes as the rest, or [`HYPOTHESES_BYTES_LEAST`].
    explanations: Cache<Vec<usize>, Hypothesis>,
}

/// A set of columns under suspicion.
#[derive(Debug)]
struct Hypothesis {
    /// Zero exactly where the columns explain the checks.
    residual: Dot,
    /// What to add to each of their cells.
    corrections: Option<(Vec<usize>, Dot)>,
    /// Of both.
    terms: usize,
}

/// Room for the hypotheses of a small code: all pairs of columns of a code of one row and 10 of them.
const HYPOTHESES_BYTES_LEAST: usize = 64 * 1024;

/// Of a locator: the coefficient of each cell in each check, and the terms of the checks, here and compiled.
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
    /// With all the hypotheses that it may come to.
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

    /// The search behind it.
    pub fn locator(&self) -> &Locator {
        &self.locator
    }

    /// The offset of the first byte at which the stripe does not satisfy its equations; `None` if it does.
    ///
    /// Erased cells are not looked at. A code without a check left finds nothing.
    pub fn first_fault(&self, cells: &[&[u8]]) -> Result<Option<usize>, StripeError> {
        let len = element_len(self.locator.code(), cells)?;
        let mut syndromes = Arena::new(self.checks.outputs(), TILE_BYTES.min(len));
        for start in (0..len).step_by(TILE_BYTES) {
            let end = len.min(start + TILE_BYTES);
            self.syndromes(cells, start..end, &mut syndromes);
            if let Some(at) = first_nonzero_any(&heads(&syndromes, end - start), 0) {
                return Ok(Some(start + at));
            }
        }
        Ok(None)
    }

    /// Every byte range that does not satisfy the equations, ascending, with its verdict; empty if the stripe is clean.
    ///
    /// The checks are computed over every byte. The search for columns runs once per stretch; its answer is checked on
    /// every byte of the stretch, and a new search begins where it fails. Only stretches that nothing explains are
    /// sampled, at least once per 4 KiB.
    pub fn locate(&self, cells: &[&[u8]]) -> Result<Vec<Finding>, StripeError> {
        let len = element_len(self.locator.code(), cells)?;
        let count = self.checks.outputs();
        let mut syndromes = Arena::new(count, TILE_BYTES.min(len));
        let mut residues = Arena::new(count, TILE_BYTES.min(len));
        let mut findings: Vec<Finding> = Vec::new();
        for start in (0..len).step_by(TILE_BYTES) {
            let end = len.min(start + TILE_BYTES);
            self.syndromes(cells, start..end, &mut syndromes);
            let heads = heads(&syndromes, end - start);
            let mut from = 0;
            while let Some(first) = first_nonzero_any(&heads, from) {
                let stretch = first..stretch_end(&heads, first);
                self.explain_stretch(&heads, stretch.clone(), start, &mut residues, &mut findings);
                from = stretch.end;
            }
        }
        Ok(findings)
    }

    /// Corrects the located findings in place; those of which `accept` says no are left alone.
    ///
    /// Each range is checked anew, 32 KiB at a time: where the columns do not explain every byte, because the stripe was written
    /// since or is another one, nothing is changed. Nor is it where the columns' cells are not determined by the checks.
    /// Returns the number of bytes of elements in the ranges, or parts of them, in which something was corrected.
    /// Errors: buffers that are not a stripe, or a finding that lies outside them; nothing is then written.
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
            for start in finding.range.clone().step_by(TILE_BYTES) {
                let tile = start..finding.range.end.min(start + TILE_BYTES);
                let views: Vec<&[u8]> = cells.iter().map(|cell| &**cell).collect();
                let Some(errors) = self.errors(&views, &tile, &hypothesis.residual, dot) else { continue };
                for (i, &cell) in targets.iter().enumerate() {
                    xor_into(&mut cells[cell][tile.clone()], errors.get(i));
                }
                corrected += tile.len();
            }
        }
        Ok(corrected)
    }

    /// What was added to the cells that `corrections` are for; `None` if that is nothing, or not all that is wrong.
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
        let errors = is_explained.then(|| made(corrections, &syndromes))?;
        first_nonzero_any(&errors.all(), 0).is_some().then_some(errors)
    }

    fn syndromes(&self, cells: &[&[u8]], range: Range<usize>, syndromes: &mut Arena) {
        let sources: Vec<&[u8]> = self.sources.iter().map(|&cell| &cells[cell][range.clone()]).collect();
        apply(&self.checks, &sources, syndromes, range.len());
    }

    fn explain_stretch(
        &self,
        syndromes: &[&[u8]],
        stretch: Range<usize>,
        tile_start: usize,
        residues: &mut Arena,
        findings: &mut Vec<Finding>,
    ) {
        let mut at = stretch.start;
        let mut sample_bytes = GRANULE_BYTES;
        while at < stretch.end {
            let values: Vec<Gf> = syndromes.iter().map(|s| Gf(s[at])).collect();
            let (verdict, end) = match self.locator.explain(&values) {
                Explanation::Clean => unreachable!("a stretch starts at a byte that fails a check"),
                Explanation::Located { columns, certain } => {
                    sample_bytes = GRANULE_BYTES;
                    let hypothesis = self.hypothesis(&columns);
                    let views: Vec<&[u8]> = syndromes.iter().map(|s| &s[at..stretch.end]).collect();
                    apply(&hypothesis.residual, &views, residues, stretch.end - at);
                    let left = &heads(residues, stretch.end - at)[..hypothesis.residual.outputs()];
                    let end = first_nonzero_any(left, 0).map_or(stretch.end, |offset| at + offset);
                    (Verdict::Located { columns, certain }, end)
                }
                unexplained => {
                    let end = stretch.end.min(at + sample_bytes);
                    sample_bytes = (sample_bytes * 2).min(SAMPLE_BYTES_MOST);
                    let verdict = match unexplained {
                        Explanation::Ambiguous { examples, .. } => Verdict::Ambiguous { examples },
                        _ => Verdict::Unlocatable,
                    };
                    (verdict, end)
                }
            };
            // The range ends at its last byte that fails a check.
            let last = (at..end).rev().find(|&i| syndromes.iter().any(|s| s[i] != 0)).unwrap_or(at);
            add(findings, Finding { range: tile_start + at..tile_start + last + 1, verdict });
            match first_nonzero_any(syndromes, end) {
                Some(next) => at = next,
                None => return,
            }
        }
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

/// The end of the stretch of granules from `first` in each of which some byte fails a check.
fn stretch_end(syndromes: &[&[u8]], first: usize) -> usize {
    let len = syndromes[0].len();
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

/// Appends a finding, joined to the one before if they touch and one explains both.
fn add(findings: &mut Vec<Finding>, new: Finding) {
    let Some(last) = findings.last_mut() else {
        findings.push(new);
        return;
    };
    let near = last.range.end + GRANULE_BYTES >= new.range.start;
    let joined = match (&last.verdict, &new.verdict) {
        (Verdict::Located { columns: a, certain: x }, Verdict::Located { columns: b, certain: y })
            if x == y =>
        {
            let within = |small: &[usize], large: &[usize]| small.iter().all(|c| large.contains(c));
            match (within(a, b), within(b, a)) {
                (true, _) => Some(new.verdict.clone()),
                (_, true) => Some(last.verdict.clone()),
                _ => None,
            }
        }
        (Verdict::Ambiguous { .. }, Verdict::Ambiguous { .. })
        | (Verdict::Unlocatable, Verdict::Unlocatable) => Some(last.verdict.clone()),
        _ => None,
    };
    match joined {
        Some(verdict) if near => *last = Finding { range: last.range.start..new.range.end, verdict },
        _ => findings.push(new),
    }
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
