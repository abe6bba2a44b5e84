//! Bytes: encoding, reconstruction, small writes, whole objects.

use crate::answer::{
    Answer, Fault, NONE, PantileError, PantileStatus, answer, check_struct_bytes, free, given, list, put,
};
use crate::code::{PantileCode, check_below, hand_out};
use crate::stripe::{Access, Columns, Given, Span, Stripe};
use pantile::{CellIndex, Checker, Code, Codec, Stores, Use};
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// `pantile_codec`.
pub struct PantileCodec {
    pub(crate) codec: Codec,
    /// The checks of a whole stripe, once they were needed.
    pub(crate) whole: OnceLock<Arc<Checker>>,
}

/// `pantile_stores`.
pub type PantileStores = c_uint;

/// `pantile_codec_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PantileCodecOptions {
    pub struct_bytes: usize,
    pub cache_bytes: usize,
    pub stores: PantileStores,
}

/// `pantile_column_state`.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const WANTED: u8 = 2;

fn codec_of(code: &Code, options: Option<&PantileCodecOptions>) -> Result<Codec, Fault> {
    code.check_stores().map_err(|error| Fault::new(PantileStatus::StudyOnly, error.to_string()))?;
    let mut codec = Codec::new(code);
    let Some(options) = options else { return Ok(codec) };
    check_struct_bytes(options.struct_bytes, size_of::<PantileCodecOptions>(), "pantile_codec_options")?;
    codec = match options.stores {
        0 => codec,
        1 => codec.with_stores(Stores::Cached),
        2 => codec.with_stores(Stores::Streaming),
        other => {
            let message = format!("stores is {other}; give one of pantile_stores, 0 to 2");
            return Err(Fault::bad_argument(message));
        }
    };
    match options.cache_bytes {
        NONE => Ok(codec),
        bytes => Ok(codec.with_cache_bytes(bytes)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_codec_new(
    code: *const PantileCode,
    options: *const PantileCodecOptions,
    codec: *mut *mut PantileCodec,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code; options or NULL; a place for the handle.
        unsafe {
            hand_out(codec, "codec", || {
                let codec = codec_of(&given(code, "code")?.code, options.as_ref())?;
                Ok(PantileCodec { codec, whole: OnceLock::new() })
            })
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_codec_free(codec: *mut PantileCodec) {
    // SAFETY: the header.
    unsafe { free(codec) }
}

/// Whether a column has cells of parity.
fn has_parity(code: &Code, column: usize) -> bool {
    code.column_cells(column).any(|cell| code.is_parity(cell))
}

fn encode(codec: &Codec, stripe: &Stripe<'_>, beside: &[Span]) -> Answer {
    let code = codec.code();
    let access = |column| if has_parity(code, column) { Access::Write } else { Access::Read };
    stripe.check(access, beside)?;
    let give = |cell, _| if code.is_parity(cell) { Given::Write } else { Given::Read };
    stripe.run(0..stripe.element(), give, |cells, _| Ok(codec.encode_given(cells)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_encode(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a codec; so many columns.
    answer(error, || unsafe {
        let codec = &given(codec, "codec")?.codec;
        encode(codec, &Stripe::new(codec.code(), columns, column_count, element_bytes)?, &[])
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_reconstruct(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    states: *const u8,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; so many columns, and as many states.
        let (codec, stripe, states) = unsafe {
            let codec = &given(codec, "codec")?.codec;
            let stripe = Stripe::new(codec.code(), columns, column_count, element_bytes)?;
            (codec, stripe, list(states, column_count, "states")?)
        };
        if let Some(column) = states.iter().position(|&state| state > WANTED) {
            return Err(Fault::bad_argument(format!(
                "the state of column {column} is {}; give one of pantile_column_state, 0 to 2",
                states[column]
            )));
        }
        let access = |column| match states[column] {
            ABSENT => Access::None,
            PRESENT => Access::Read,
            _ => Access::Write,
        };
        stripe.check(access, &[])?;
        let those = |is_so: fn(u8) -> bool| -> Columns<usize> {
            (0..column_count).filter(|&column| is_so(states[column])).collect()
        };
        let (lost, wanted) = (those(|state| state != PRESENT), those(|state| state == WANTED));
        let recovery = codec.decoder_of(&lost, &wanted)?;
        let give = |cell, column| match (recovery.use_of(cell), states[column]) {
            (Use::Unused, _) => Given::Nothing,
            (Use::Read, _) => Given::Read,
            (Use::Written, WANTED) => Given::Write,
            (Use::Written, _) => Given::Aside,
        };
        stripe.run(0..element_bytes, give, |cells, _| Ok(recovery.run_given(cells)?))
    })
}

/// A small write: where it goes, and what it needs.
struct Change<'c> {
    codec: &'c Codec,
    stripe: Stripe<'c>,
    position: usize,
    cell: CellIndex,
    /// Of the element.
    within: Range<usize>,
    content: &'c [u8],
}

impl<'c> Change<'c> {
    /// # Safety
    ///
    /// As the header says of `pantile_update`.
    #[allow(clippy::too_many_arguments, reason = "those of the calls")]
    unsafe fn new(
        codec: *const PantileCodec,
        columns: *const *mut c_void,
        column_count: usize,
        element_bytes: usize,
        position: usize,
        offset: usize,
        content: *const c_void,
        bytes: usize,
    ) -> Result<Change<'c>, Fault> {
        // SAFETY: the caller's promise.
        let codec = unsafe { &given(codec, "codec")?.codec };
        let code = codec.code();
        // SAFETY: the caller's promise.
        let stripe = unsafe { Stripe::new(code, columns, column_count, element_bytes) }?;
        check_below(position, code.data().len(), "data cell")?;
        let within = match offset.checked_add(bytes) {
            Some(end) if end <= element_bytes => offset..end,
            _ => {
                return Err(Fault::bad_argument(format!(
                    "{bytes} bytes at {offset} reach beyond elements of {element_bytes} bytes"
                )));
            }
        };
        // SAFETY: the caller's promise.
        let content = unsafe { list(content.cast::<u8>(), bytes, "the content") }?;
        let cell = code.data()[position];
        Ok(Change { codec, stripe, position, cell, within, content })
    }

    /// Whether the element reaches a cell of parity.
    fn reaches(&self, cell: CellIndex) -> bool {
        let code = self.codec.code();
        let row = code.parity().iter().position(|&parity| parity == cell);
        row.is_some_and(|row| !code.generator().get(row, self.position).is_zero())
    }

    /// The columns that it reaches, ascending, each as often as it has cells of these parities.
    fn reached(&self) -> Columns<usize> {
        let code = self.codec.code();
        let row_reaches = |&row: &usize| !code.generator().get(row, self.position).is_zero();
        let rows = (0..code.parity().len()).filter(row_reaches);
        rows.map(|row| code.column_of(code.parity()[row])).collect()
    }

    fn beside(&self) -> Span {
        Span::beside(self.content.as_ptr().cast(), self.content.len(), false)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_update(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    position: usize,
    offset: usize,
    new_content: *const c_void,
    bytes: usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header.
        let change = unsafe {
            Change::new(codec, columns, column_count, element_bytes, position, offset, new_content, bytes)?
        };
        let (code, reached) = (change.codec.code(), change.reached());
        let own = code.column_of(change.cell);
        let is_needed = |column| column == own || reached.contains(&column);
        let access = |column| if is_needed(column) { Access::Write } else { Access::None };
        change.stripe.check(access, &[change.beside()])?;
        let give = |cell, column| match is_needed(column) && (cell == change.cell || code.is_parity(cell)) {
            true => Given::Write,
            false => Given::Nothing,
        };
        change.stripe.run(change.within.clone(), give, |cells, _| {
            Ok(change.codec.update_given(cells, position, change.content)?)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_update_parity(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    position: usize,
    offset: usize,
    change: *const c_void,
    bytes: usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header.
        let change = unsafe {
            Change::new(codec, columns, column_count, element_bytes, position, offset, change, bytes)?
        };
        let reached = change.reached();
        let is_there = |column| change.stripe.is_there(column) && reached.contains(&column);
        if !reached.is_empty() && !(0..column_count).any(is_there) {
            return Err(Fault::new(
                PantileStatus::NullPointer,
                format!(
                    "every column of the parities that data cell {position} reaches is NULL; pass one of \
                     {reached:?}"
                ),
            ));
        }
        let access = |column| if is_there(column) { Access::Write } else { Access::None };
        change.stripe.check(access, &[change.beside()])?;
        let give = |cell, column| match (change.reaches(cell), is_there(column)) {
            (false, _) => Given::Nothing,
            (true, true) => Given::Write,
            (true, false) => Given::Aside,
        };
        let start = change.within.start;
        change.stripe.run(change.within.clone(), give, |cells, part| {
            let content = &change.content[part.start - start..part.end - start];
            Ok(change.codec.add_change_given(cells, position, content)?)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_split_bytes(
    codec: *const PantileCodec,
    data_bytes: usize,
    element_bytes: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a codec; a place for the number.
    answer(error, || unsafe {
        put(element_bytes, "element_bytes", given(codec, "codec")?.codec.element_len_for(data_bytes))
    })
}

/// Refuses more bytes of data than a stripe holds.
fn check_holds(code: &Code, element: usize, data_bytes: usize) -> Answer {
    let have = code.data().len() * element;
    match data_bytes <= have {
        true => Ok(()),
        false => Err(Fault::bad_argument(format!(
            "a stripe of elements of {element} bytes holds {have} bytes of data, not {data_bytes}; ask \
             pantile_split_bytes for the length"
        ))),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_split(
    codec: *const PantileCodec,
    data: *const c_void,
    data_bytes: usize,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; so many bytes of data; so many columns.
        let (codec, stripe, mut rest) = unsafe {
            let codec = &given(codec, "codec")?.codec;
            let stripe = Stripe::new(codec.code(), columns, column_count, element_bytes)?;
            (codec, stripe, list(data.cast::<u8>(), data_bytes, "data")?)
        };
        check_holds(codec.code(), element_bytes, data_bytes)?;
        stripe.check(|_| Access::Write, &[Span::beside(data, data_bytes, false)])?;
        for &cell in codec.code().data() {
            let at = codec.code().cell(cell);
            // SAFETY: all columns were checked to be written; each cell comes once.
            let target = unsafe { stripe.write(at.column, at.row, &(0..element_bytes)) };
            let (here, later) = rest.split_at(rest.len().min(element_bytes));
            target[..here.len()].copy_from_slice(here);
            target[here.len()..].fill(0);
            rest = later;
        }
        encode(codec, &stripe, &[])
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_join(
    codec: *const PantileCodec,
    columns: *const *const c_void,
    column_count: usize,
    element_bytes: usize,
    data: *mut c_void,
    data_bytes: usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; so many columns.
        let (code, stripe) = unsafe {
            let code = given(codec, "codec")?.codec.code();
            (code, Stripe::new(code, columns.cast(), column_count, element_bytes)?)
        };
        check_holds(code, element_bytes, data_bytes)?;
        let has_data = |column| code.column_cells(column).any(|cell| !code.is_parity(cell));
        let access = |column| if has_data(column) { Access::Read } else { Access::None };
        stripe.check(access, &[Span::beside(data, data_bytes, true)])?;
        if data_bytes > 0 && data.is_null() {
            return Err(Fault::new(PantileStatus::NullPointer, "data is NULL; pass a buffer"));
        }
        let mut done = 0;
        for &cell in code.data() {
            let at = code.cell(cell);
            let here = element_bytes.min(data_bytes - done);
            // SAFETY: the column was checked to be read, and is apart from the data; these have
            // `data_bytes` bytes, of which `done` are before.
            unsafe {
                let bytes = stripe.read(at.column, at.row, &(0..here));
                data.cast::<u8>().wrapping_add(done).copy_from_nonoverlapping(bytes.as_ptr(), here);
            }
            done += here;
        }
        Ok(())
    })
}
