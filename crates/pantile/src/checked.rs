//! Stripes of chunks that are checked as they are read, before a byte of them is passed on.
//!
//! Chunks have no checksums. If more chunks are available than decoding needs, the equations of the
//! code show whether they are consistent. They also locate e wrong chunks, with f lost ones, as
//! long as 2e + f <= d - 1 ([`Checker`]). A certain error is corrected in memory and reported;
//! anything else is a [`Doubt`], and its stripe is not returned.
//!
//! # Exchanged chunks
//!
//! The evidence of [`Checker`] is about errors that do not depend on each other. Errors of
//! exchanged chunks do. Example: two data columns of rs:4+2 have equal coefficients in the first
//! parity, so their errors cancel there and the second parity looks wrong at every byte. Such
//! errors depend on at most e + 2 columns, so they cannot look like e wrong columns where e + 2 <=
//! d - 1 - f. Otherwise a column is reported as wrong only if its bytes are not a fixed linear
//! combination of the other columns. After an exchange they always are.

use crate::codec::Codec;
use crate::coder::{Coder, Decoder};
use crate::fragments;
use crate::locate::{Checker, Finding, Verdict};
use crate::shards::ShardError;
use pantile_code::Code;
use pantile_gf::{Echelon, Gf};
use pantile_plan::{CellSet, PlanError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// The treatment of chunks that do not satisfy the equations of their code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Chunks are checked; only errors that are located with certainty are corrected.
    #[default]
    Certain,
    /// As `Certain`, and errors whose location is only probable are corrected, too.
    Probable,
    /// Chunks are not checked, and only those that decoding needs are read: for callers that have
    /// checksums.
    Off,
}

/// A column whose content was wrong, and was computed from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongColumn {
    /// The column.
    pub column: usize,
    /// The offset of the first wrong byte in the column's chunk.
    pub first: u64,
    /// The number of wrong bytes.
    pub bytes: u64,
}

/// A stripe that does not satisfy its equations and whose error was not located with certainty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The offset of the stripe in each chunk.
    pub from: u64,
    /// The columns that explain the error, but not with certainty; empty if there are none.
    pub columns: Vec<usize>,
    /// The reason why they are not certain.
    pub reason: DoubtReason,
}

/// The reason why an error is not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtReason {
    /// Several sets of columns explain the error, or none does.
    NotLocated,
    /// Too few bytes are wrong: a larger error looks the same with a chance of one in 2 to this
    /// power.
    FewBytes {
        /// The power.
        evidence_bits: u32,
    },
    /// An exchange of other columns would look the same.
    Exchange,
}

impl fmt::Display for Doubt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doubt { from, columns, reason } = self;
        write!(out, "the shards do not fit one another in the stripe at byte {from} of each; ")?;
        match reason {
            DoubtReason::NotLocated => write!(out, "the wrong one cannot be located"),
            DoubtReason::FewBytes { evidence_bits } => {
                write!(
                    out,
                    "columns {columns:?} are probably wrong, but a larger error looks so once in 2^{evidence_bits}"
                )
            }
            DoubtReason::Exchange => {
                write!(out, "columns {columns:?} are wrong, or others of them were exchanged")
            }
        }
    }
}

/// The result of reading all stripes of some chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Columns that were wrong, ascending.
    pub wrong: Vec<WrongColumn>,
    /// The first stripe whose error was not located. Only verification continues after it.
    pub first_doubt: Option<Doubt>,
    /// The number of stripes whose error was not located.
    pub doubts: u64,
    /// True if every chunk that was read is in some equation that could be checked.
    pub is_complete: bool,
}

/// The most cells of other columns with which the test for a linear combination is run.
const SUM_CELLS_MOST: usize = 400;

/// The number of bytes per test beyond the number of cells. With it, a cell that is not a linear
/// combination looks like one with a chance of one in 2^128.
const SUM_BYTES_MORE: usize = 16;

/// The state of a check of stripes, one after the other.
struct Watch {
    coder: Coder,
    lost: Vec<usize>,
    check: Check,
    /// `None` if no check is done.
    checker: Option<Arc<Checker>>,
    /// Columns that are known not to be a linear combination of the others, so that their errors
    /// are not from an exchange.
    no_sums: BTreeSet<usize>,
    wrong: BTreeMap<usize, WrongColumn>,
}

impl Watch {
    fn new(coder: &Coder, lost: Vec<usize>, check: Check) -> Result<Watch, PlanError> {
        let codec = coder.codec();
        let checker = match check {
            Check::Off => None,
            Check::Certain | Check::Probable => {
                Some(codec.checker(&CellSet::of_columns(codec.code(), &lost))?)
            }
        };
        let checker = checker.filter(|checker| !checker.locator().checks().is_empty());
        Ok(Watch {
            coder: coder.clone(),
            lost,
            check,
            checker,
            no_sums: BTreeSet::new(),
            wrong: BTreeMap::new(),
        })
    }

    /// True if every cell of the available columns is in some check.
    fn is_complete(&self) -> bool {
        let Some(checker) = &self.checker else { return false };
        let code = self.coder.codec().code();
        let mut open = CellSet::of_columns(code, &(0..code.columns()).collect::<Vec<_>>());
        CellSet::of_columns(code, &self.lost).iter().for_each(|cell| open.remove(cell));
        checker.locator().checks().iter().flatten().for_each(|&(cell, _)| open.remove(cell));
        open.is_empty()
    }

    /// Checks a stripe that begins at this offset of each chunk, and corrects located errors.
    fn stripe(&mut self, columns: &mut [&mut [u8]], at: u64) -> Result<(), ShardError> {
        let Some(checker) = self.checker.clone() else { return Ok(()) };
        let coder = self.coder.clone();
        let mut is_clean = true;
        coder.on_cells(columns, |cells| -> Result<bool, ShardError> {
            is_clean = checker.first_fault(&shared(cells))?.is_none();
            Ok(false)
        })?;
        if is_clean {
            return Ok(());
        }
        let before: Vec<Vec<u8>> = columns.iter().map(|column| column.to_vec()).collect();
        coder.on_cells(columns, |cells| self.correct(&checker, cells, at))?;
        for (column, (before, after)) in before.iter().zip(&*columns).enumerate() {
            let differs = || before.iter().zip(&**after).enumerate().filter(|(_, (x, y))| x != y);
            let is_lost = self.lost.contains(&column);
            if let Some((first, _)) = differs().next().filter(|_| !is_lost) {
                self.note(column, at + first as u64, differs().count() as u64);
            }
        }
        Ok(())
    }

    /// Notes wrong bytes of a column, of which the first has this offset.
    fn note(&mut self, column: usize, first: u64, bytes: u64) {
        self.wrong.entry(column).or_insert(WrongColumn { column, first, bytes: 0 }).bytes += bytes;
    }

    fn correct(&mut self, checker: &Checker, cells: &mut [&mut [u8]], at: u64) -> Result<bool, ShardError> {
        let codec = self.coder.codec().clone();
        let findings = checker.locate(&shared(cells))?;
        let doubt = self.doubt(codec.code(), &self.lost.clone(), cells, &findings);
        if doubt.is_none() {
            checker.correct(cells, &findings, |_| true)?;
            if checker.first_fault(&shared(cells))?.is_none() {
                return Ok(true);
            }
        }
        if self.correct_without_the_known(&codec, cells)? {
            return Ok(true);
        }
        let (columns, reason) = doubt.unwrap_or((Vec::new(), DoubtReason::NotLocated));
        Err(ShardError::Doubt(Doubt { from: at, columns, reason }))
    }

    /// Corrects a stripe; columns that were wrong in other stripes are taken as lost. For errors in
    /// other columns that leaves more checks than errors at unknown places would. Returns true if
    /// the stripe is corrected.
    fn correct_without_the_known(
        &mut self,
        codec: &Codec,
        cells: &mut [&mut [u8]],
    ) -> Result<bool, ShardError> {
        let mut erased = self.lost.clone();
        erased.extend(self.wrong.keys());
        if self.wrong.is_empty() {
            return Ok(false);
        }
        let set = CellSet::of_columns(codec.code(), &erased);
        let (Ok(decoder), Ok(checker)) = (codec.decoder(&erased), codec.checker(&set)) else {
            return Ok(false);
        };
        let findings = checker.locate(&shared(cells))?;
        if checker.locator().checks().is_empty()
            || self.doubt(codec.code(), &erased, cells, &findings).is_some()
        {
            return Ok(false);
        }
        checker.correct(cells, &findings, |_| true)?;
        if checker.first_fault(&shared(cells))?.is_some() {
            return Ok(false);
        }
        decoder.run(cells)?;
        Ok(true)
    }

    /// Returns the first reason not to correct the findings of a stripe, with the columns
    /// concerned; `None` if there is none.
    fn doubt(
        &mut self,
        code: &Code,
        erased: &[usize],
        cells: &[&mut [u8]],
        findings: &[Finding],
    ) -> Option<(Vec<usize>, DoubtReason)> {
        let spare = code.claim().tolerance.saturating_sub(erased.len());
        for finding in findings {
            let Verdict::Located { columns, evidence_bits, certain } = &finding.verdict else {
                return Some((Vec::new(), DoubtReason::NotLocated));
            };
            let evidence_bits = *evidence_bits;
            match self.check {
                _ if evidence_bits == 0 => return Some((Vec::new(), DoubtReason::NotLocated)),
                Check::Probable => continue,
                _ if !certain => return Some((columns.clone(), DoubtReason::FewBytes { evidence_bits })),
                _ => {}
            }
            let may_be_others = columns.len() + 2 > spare;
            for &column in columns.iter().filter(|_| may_be_others) {
                if self.no_sums.contains(&column) {
                    continue;
                }
                if is_sum_of_others(code, erased, cells, column, findings) {
                    return Some((columns.clone(), DoubtReason::Exchange));
                }
                self.no_sums.insert(column);
            }
        }
        None
    }
}

/// True if every cell of the column may be a linear combination of the cells of other columns, with
/// the same coefficients at every byte of the stripe.
///
/// Bytes inside and outside the findings are tested. If only a part of the stripe is wrong, the
/// bytes outside prove that there is no such combination.
fn is_sum_of_others(
    code: &Code,
    erased: &[usize],
    cells: &[&mut [u8]],
    column: usize,
    findings: &[Finding],
) -> bool {
    let is_other = |of: &usize| *of != column && !erased.contains(of);
    let others: Vec<usize> = (0..code.columns())
        .filter(is_other)
        .flat_map(|other| code.column_cells(other).map(|cell| cell.usize()))
        .collect();
    if others.len() > SUM_CELLS_MOST {
        return true;
    }
    let is_wrong = |at: &usize| findings.iter().any(|finding| finding.range.contains(at));
    let len = cells.first().map_or(0, |cell| cell.len());
    let (wrong, right): (Vec<usize>, Vec<usize>) = (0..len).partition(is_wrong);
    let most = others.len() + SUM_BYTES_MORE;
    let some = |all: &[usize]| -> Vec<usize> { all.iter().copied().step_by(all.len() / most + 1).collect() };
    let places = [some(&right), some(&wrong)].concat();
    code.column_cells(column).all(|cell| {
        let mut echelon = Echelon::new(others.len() + 1);
        for &at in &places {
            let values = others.iter().copied().chain([cell.usize()]);
            echelon.insert(values.map(|cell| Gf(cells[cell][at])).collect());
        }
        let mut contradiction = vec![Gf::ZERO; others.len() + 1];
        contradiction[others.len()] = Gf::ONE;
        !echelon.contains(&contradiction)
    })
}

fn shared<'c>(cells: &'c [&mut [u8]]) -> Vec<&'c [u8]> {
    cells.iter().map(|cell| &**cell).collect()
}

/// Reads chunks stripe by stripe, checks each and computes the lost columns.
pub(crate) struct Stripes {
    watch: Watch,
    /// `None` if no column is lost, or if lost columns are not wanted.
    decoder: Option<Decoder>,
    is_read: Vec<bool>,
    at: u64,
    checked: Checked,
}

/// The purpose of reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Data,
    Columns,
    Verification,
}

/// The bytes of each column in a stripe: those stored in its chunk, and those that are coded, which
/// are zeros after the stored ones.
pub(crate) struct Lengths<'l> {
    pub(crate) stored: &'l dyn Fn(usize) -> usize,
    pub(crate) coded: &'l dyn Fn(usize) -> usize,
    /// The header before them; empty if there is none.
    pub(crate) header: &'l dyn Fn(usize) -> Vec<u8>,
}

/// No header.
pub(crate) fn bare(_column: usize) -> Vec<u8> {
    Vec::new()
}

impl Stripes {
    /// Errors: the number of entries in `chunks` is not that of the columns; too much is lost.
    pub(crate) fn new(
        coder: &Coder,
        chunks: &[Option<&mut dyn Read>],
        check: Check,
        purpose: Purpose,
    ) -> Result<Stripes, ShardError> {
        let code = coder.codec().code();
        let (have, need) = (chunks.len(), code.columns());
        if have != need {
            return Err(ShardError::Count { have, need });
        }
        let lost: Vec<usize> = (0..need).filter(|&column| chunks[column].is_none()).collect();
        let decoder = match lost.is_empty() || purpose == Purpose::Verification {
            true => None,
            false => Some(coder.decoder(&lost).map_err(ShardError::Plan)?),
        };
        let is_needed = |column: usize| {
            let is_data = code.column_cells(column).any(|cell| !code.is_parity(cell));
            let is_wanted = is_data || purpose != Purpose::Data;
            check != Check::Off
                || is_wanted
                || decoder.as_ref().is_some_and(|decoder| decoder.reads(code, column))
        };
        let is_read = (0..need).map(is_needed).collect();
        let watch = Watch::new(coder, lost, check).map_err(ShardError::Plan)?;
        let checked = Checked { is_complete: watch.is_complete(), ..Checked::default() };
        Ok(Stripes { watch, decoder, is_read, at: 0, checked })
    }

    /// Reads the next stripe into `stripe`, the columns of the code.
    ///
    /// Errors: a chunk cannot be read or ends too soon; an error in the stripe is not located.
    pub(crate) fn next(
        &mut self,
        chunks: &mut [Option<&mut dyn Read>],
        stripe: &mut [Vec<u8>],
        lengths: &Lengths<'_>,
    ) -> Result<(), ShardError> {
        let mut from = self.at;
        for (column, (chunk, buffer)) in chunks.iter_mut().zip(&mut *stripe).enumerate() {
            let Some(chunk) = chunk.as_mut().filter(|_| self.is_read[column]) else { continue };
            let expected = (lengths.header)(column);
            let mut header = vec![0; expected.len()];
            let (part, rest) = buffer.split_at_mut((lengths.stored)(column));
            let read = chunk.read_exact(&mut header).and_then(|()| chunk.read_exact(part));
            read.map_err(|error| ShardError::Shard { column, error })?;
            rest.fill(0);
            let is_checked = self.watch.check != Check::Off;
            if let Some((first, bytes)) = fragments::differs(&header, &expected).filter(|_| is_checked) {
                self.watch.note(column, self.at + first as u64, bytes as u64);
            }
            from = self.at + header.len() as u64;
        }
        self.at = from;
        self.at += (0..stripe.len()).map(|column| (lengths.coded)(column)).max().unwrap_or(0) as u64;
        let views = stripe.iter_mut().enumerate();
        let mut views: Vec<&mut [u8]> =
            views.map(|(column, buffer)| &mut buffer[..(lengths.coded)(column)]).collect();
        self.watch.stripe(&mut views, from)?;
        match &self.decoder {
            Some(decoder) => decoder.run(&mut views),
            None => Ok(()),
        }
    }

    /// Works like `next`, but counts errors that are not located instead of returning them.
    pub(crate) fn verify_next(
        &mut self,
        chunks: &mut [Option<&mut dyn Read>],
        stripe: &mut [Vec<u8>],
        lengths: &Lengths<'_>,
    ) -> Result<(), ShardError> {
        match self.next(chunks, stripe, lengths) {
            Err(ShardError::Doubt(doubt)) => {
                self.checked.doubts += 1;
                self.checked.first_doubt.get_or_insert(doubt);
                Ok(())
            }
            other => other,
        }
    }

    pub(crate) fn end(self) -> Checked {
        Checked { wrong: self.watch.wrong.into_values().collect(), ..self.checked }
    }
}
