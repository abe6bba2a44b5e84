//! Checks of a stripe, and location of errors in it.

use crate::answer::{Fault, List, PantileError, PantileStatus, answer, list, put};
use crate::codec::{PantileCodec, stripe_of};
use crate::stripe::{Access, Columns, Span, Stripe};
use pantile::{CellSet, Checker, Finding, Verdict};
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

/// `pantile_verdict`.
pub type PantileVerdict = c_uint;

const LOCATED: PantileVerdict = 0;
const AMBIGUOUS: PantileVerdict = 1;
const UNLOCATABLE: PantileVerdict = 2;

/// Half of the columns that a code has at most: no more can be located.
const COLUMNS_MOST: usize = 129;

/// `pantile_finding`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PantileFinding {
    pub offset: usize,
    pub bytes: usize,
    pub verdict: PantileVerdict,
    pub evidence_bits: u32,
    pub is_certain: c_int,
    pub column_count: u16,
    pub columns: [u16; COLUMNS_MOST],
}

impl PantileFinding {
    fn of(finding: &Finding) -> PantileFinding {
        let (verdict, listed, evidence_bits) = match &finding.verdict {
            Verdict::Located { columns, evidence_bits, .. } => (LOCATED, &columns[..], *evidence_bits),
            Verdict::Ambiguous { examples } => (AMBIGUOUS, &examples[0][..], 0),
            Verdict::Unlocatable => (UNLOCATABLE, &[][..], 0),
        };
        let mut columns = [0; COLUMNS_MOST];
        columns.iter_mut().zip(listed).for_each(|(to, &column)| *to = column as u16);
        PantileFinding {
            offset: finding.range.start,
            bytes: finding.range.len(),
            verdict,
            evidence_bits,
            is_certain: c_int::from(finding.verdict.is_certain()),
            column_count: listed.len().min(COLUMNS_MOST) as u16,
            columns,
        }
    }

    /// Reads the finding for a stripe of `columns` columns and elements of `element` bytes.
    fn read(&self, columns: usize, element: usize) -> Result<Finding, Fault> {
        let count = usize::from(self.column_count);
        let listed = self.columns.get(..count).filter(|listed| {
            listed.is_sorted_by(|a, b| a < b) && listed.iter().all(|&column| usize::from(column) < columns)
        });
        let end = self.offset.checked_add(self.bytes).filter(|&end| end <= element);
        let (Some(listed), Some(end)) = (listed, end) else {
            let message = "a finding is not one of this stripe; pass what pantile_locate gave";
            return Err(Fault::bad_argument(message));
        };
        let verdict = match self.verdict {
            LOCATED => Verdict::Located {
                columns: listed.iter().map(|&column| usize::from(column)).collect(),
                evidence_bits: self.evidence_bits,
                certain: self.is_certain != 0,
            },
            _ => Verdict::Unlocatable,
        };
        Ok(Finding { range: self.offset..end, verdict })
    }
}

/// The checks of a stripe without the columns that are NULL.
fn checker(codec: &PantileCodec, stripe: &Stripe<'_>) -> Result<Arc<Checker>, Fault> {
    let code = codec.codec.code();
    let checker = match (stripe.absent().next(), codec.whole.get()) {
        (None, Some(whole)) => whole.clone(),
        (None, None) => {
            let made = codec.codec.checker(&CellSet::empty(code))?;
            codec.whole.get_or_init(|| made).clone()
        }
        (Some(_), _) => {
            let mut absent = Columns::new();
            absent.extend(stripe.absent());
            codec.codec.checker(&CellSet::of_columns(code, &absent))?
        }
    };
    if checker.locator().checks().is_empty() {
        return Err(Fault::new(
            PantileStatus::NothingToCheck,
            format!(
                "{} columns are absent, and no equation is left to check the others",
                stripe.absent().count()
            ),
        ));
    }
    stripe.check(|column| if stripe.is_there(column) { Access::Read } else { Access::None }, &[])?;
    Ok(checker)
}

/// Adds the cells of a stripe. An absent column is replaced by a present one, because its bytes are
/// never read.
fn add_cells<'s>(stripe: &Stripe<'s>, to: &mut Vec<&'s [u8]>) {
    let whole = 0..stripe.element();
    let any = stripe.cells().find(|&(_, column, _)| stripe.is_there(column));
    let Some((_, any, row)) = any else { unreachable!("what can be checked is there") };
    to.extend(stripe.cells().map(|(_, column, own)| {
        let (column, row) = if stripe.is_there(column) { (column, own) } else { (any, row) };
        // SAFETY: `checker` has had every column that is there checked to be read.
        unsafe { stripe.read(column, row, &whole) }
    }));
}

thread_local! {
    /// A list that keeps its capacity, so that verifying allocates nothing.
    static CELLS: Cell<Vec<&'static [u8]>> = const { Cell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_verify(
    codec: *const PantileCodec,
    columns: *const *const c_void,
    column_count: usize,
    element_bytes: usize,
    fault: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; `column_count` columns.
        let (codec, stripe) = unsafe { stripe_of(codec, columns.cast(), column_count, element_bytes)? };
        let checker = checker(codec, &stripe)?;
        let mut cells: Vec<&[u8]> = CELLS.try_with(Cell::take).unwrap_or_default();
        add_cells(&stripe, &mut cells);
        let found = checker.first_fault(&cells);
        cells.clear();
        // The list is empty, so no element is converted; collecting in place keeps its capacity.
        let room: Vec<&'static [u8]> = cells.into_iter().map(|_| -> &[u8] { &[] }).collect();
        let _ = CELLS.try_with(|kept| kept.set(room));
        // SAFETY: the header: a place for the offset.
        unsafe { put(fault, "fault", found?.unwrap_or(crate::NONE)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_locate(
    codec: *const PantileCodec,
    columns: *const *const c_void,
    column_count: usize,
    element_bytes: usize,
    findings: *mut PantileFinding,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; `column_count` columns.
        let (codec, stripe) = unsafe { stripe_of(codec, columns.cast(), column_count, element_bytes)? };
        let checker = checker(codec, &stripe)?;
        let mut cells = Vec::new();
        add_cells(&stripe, &mut cells);
        let found = checker.locate(&cells)?;
        // SAFETY: the header: room for `room` findings.
        unsafe { List { to: findings, room, need }.give(found.iter().map(PantileFinding::of), "findings") }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_correct(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    findings: *const PantileFinding,
    finding_count: usize,
    corrected: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; `column_count` columns; `finding_count` findings.
        let (codec, stripe, findings) = unsafe {
            let (codec, stripe) = stripe_of(codec, columns, column_count, element_bytes)?;
            (codec, stripe, list(findings, finding_count, "findings")?)
        };
        let checker = checker(codec, &stripe)?;
        let access = |column| if stripe.is_there(column) { Access::Write } else { Access::None };
        stripe.check(access, &[Span::of(findings)])?;
        let findings: Vec<Finding> = findings
            .iter()
            .map(|finding| finding.read(column_count, element_bytes))
            .collect::<Result<_, _>>()?;
        let bytes = correct(&checker, &stripe, &findings)?;
        if corrected.is_null() {
            return Ok(());
        }
        // SAFETY: the header: NULL, or a place for the number.
        unsafe { put(corrected, "corrected", bytes) }
    })
}

/// Corrects the certain findings; absent cells are zeros here, because they are never read.
fn correct(checker: &Checker, stripe: &Stripe<'_>, findings: &[Finding]) -> Result<usize, Fault> {
    let absent = stripe.cells().filter(|&(_, column, _)| !stripe.is_there(column)).count();
    let mut stand_in = vec![0; absent * stripe.element()];
    let mut stand_ins = stand_in.chunks_exact_mut(stripe.element());
    let whole = 0..stripe.element();
    let mut cells: Vec<&mut [u8]> = Vec::new();
    for (_, column, row) in stripe.cells() {
        cells.push(match stripe.is_there(column) {
            // SAFETY: the column was checked to be written; each cell comes once.
            true => unsafe { stripe.write(column, row, &whole) },
            false => match stand_ins.next() {
                Some(stand_in) => stand_in,
                None => unreachable!("there is one for each"),
            },
        });
    }
    Ok(checker.correct(&mut cells, findings, |finding| finding.verdict.is_certain())?)
}
