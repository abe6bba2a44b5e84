//! Bytes: encoding, reconstruction, small writes, whole objects.

use crate::answer::{
    Fault, NONE, PantileError, PantileStatus, answer, check_struct_bytes, free, given, list, list_to_write,
    put,
};
use crate::code::{PantileCode, check_below, hand_out};
use crate::stripe::{Access, Columns, Given, Span, Stripe};
use pantile::{CellIndex, Checker, Code, Codec, Stores, StripeError, Use};
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

/// Returns true for a column with cells of parity.
#[inline]
fn has_parity(code: &Code, column: usize) -> bool {
    code.column_cells(column).any(|cell| code.is_parity(cell))
}

/// The codec of a call, and the stripe that it is about.
///
/// # Safety
///
/// As in the header: NULL or a codec; NULL or `count` columns.
pub(crate) unsafe fn stripe_of<'c>(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
) -> Result<(&'c PantileCodec, Stripe<'c>), Fault> {
    // SAFETY: the caller's promise.
    unsafe {
        let codec = given(codec, "codec")?;
        Ok((codec, Stripe::new(codec.codec.code(), columns, column_count, element_bytes)?))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_encode(
    codec: *const PantileCodec,
    columns: *const *mut c_void,
    column_count: usize,
    element_bytes: usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; `column_count` columns.
        let (codec, stripe) = unsafe { stripe_of(codec, columns, column_count, element_bytes)? };
        let (codec, code) = (&codec.codec, codec.codec.code());
        stripe.check(|column| if has_parity(code, column) { Access::Write } else { Access::Read }, &[])?;
        let give = |cell, _| if code.is_parity(cell) { Given::Write } else { Given::Read };
        stripe.run(0..element_bytes, false, give, |cells, _| Ok(codec.encode_given(cells)?))
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
        // SAFETY: the header: a codec; `column_count` columns and states.
        let (codec, stripe, states) = unsafe {
            let (codec, stripe) = stripe_of(codec, columns, column_count, element_bytes)?;
            (&codec.codec, stripe, list(states, column_count, "states")?)
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
        stripe.check(access, &[Span::of(states)])?;
        let (mut lost, mut wanted) = (Columns::new(), Columns::new());
        for (column, &state) in states.iter().enumerate() {
            if state != PRESENT {
                lost.push(column);
            }
            if state == WANTED {
                wanted.push(column);
            }
        }
        let recovery = codec.decoder_of(&lost, &wanted)?;
        let give = |cell, column| match (recovery.use_of(cell), states[column]) {
            (Use::Unused, _) => Given::Nothing,
            (Use::Read, _) => Given::Read,
            (Use::Written, WANTED) => Given::Write,
            (Use::Written, _) => Given::Aside,
        };
        let may_be_aside = lost.len() != wanted.len();
        stripe.run(0..element_bytes, may_be_aside, give, |cells, _| Ok(recovery.run_given(cells)?))
    })
}

/// A small write: its place, and the program that it needs.
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
        let (codec, stripe) = unsafe { stripe_of(codec, columns, column_count, element_bytes) }?;
        let (codec, code) = (&codec.codec, codec.codec.code());
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

    /// True if the element reaches a cell of parity.
    fn reaches(&self, cell: CellIndex) -> bool {
        let code = self.codec.code();
        let row = || code.parity().iter().position(|&parity| parity == cell);
        let reaches = |row| !code.generator().get(row, self.position).is_zero();
        code.is_parity(cell) && row().is_some_and(reaches)
    }

    /// Appends the columns that it reaches, ascending, each as often as it has cells of these
    /// parities.
    fn add_reached(&self, to: &mut Columns) {
        let code = self.codec.code();
        for (row, &parity) in code.parity().iter().enumerate() {
            if !code.generator().get(row, self.position).is_zero() {
                to.push(code.column_of(parity));
            }
        }
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
        let (code, mut reached) = (change.codec.code(), Columns::new());
        change.add_reached(&mut reached);
        let own = code.column_of(change.cell);
        let is_needed = |column| column == own || reached.contains(&column);
        let access = |column| if is_needed(column) { Access::Write } else { Access::None };
        change.stripe.check(access, &[Span::of(change.content)])?;
        let give = |cell, column| match is_needed(column) && (cell == change.cell || code.is_parity(cell)) {
            true => Given::Write,
            false => Given::Nothing,
        };
        change.stripe.run(change.within.clone(), false, give, |cells, _| {
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
        let mut reached = Columns::new();
        change.add_reached(&mut reached);
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
        change.stripe.check(access, &[Span::of(change.content)])?;
        let give = |cell, column| match (change.reaches(cell), is_there(column)) {
            (false, _) => Given::Nothing,
            (true, true) => Given::Write,
            (true, false) => Given::Aside,
        };
        let start = change.within.start;
        change.stripe.run(change.within.clone(), true, give, |cells, part| {
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

/// Refuses more bytes of data than a stripe holds, before its memory is looked at.
fn check_holds(code: &Code, element: usize, need: usize) -> Result<(), StripeError> {
    let have = code.data().len() * element;
    if need <= have { Ok(()) } else { Err(StripeError::Holds { have, need }) }
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
        // SAFETY: the header: a codec; `data_bytes` bytes of data; `column_count` columns.
        let (codec, stripe, data) = unsafe {
            let (codec, stripe) = stripe_of(codec, columns, column_count, element_bytes)?;
            (&codec.codec, stripe, list(data.cast::<u8>(), data_bytes, "data")?)
        };
        check_holds(codec.code(), element_bytes, data_bytes)?;
        stripe.check(|_| Access::Write, &[Span::of(data)])?;
        stripe.run(
            0..element_bytes,
            false,
            |_, _| Given::Write,
            |cells, _| Ok(codec.split_given(data, cells)?),
        )
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
        // SAFETY: the header: a codec; `column_count` columns.
        let (codec, stripe) = unsafe { stripe_of(codec, columns.cast(), column_count, element_bytes)? };
        let (codec, code) = (&codec.codec, codec.codec.code());
        check_holds(code, element_bytes, data_bytes)?;
        let has_data = |column| code.column_cells(column).any(|cell| !code.is_parity(cell));
        let access = |column| if has_data(column) { Access::Read } else { Access::None };
        stripe.check(access, &[Span::beside(data, data_bytes, true)])?;
        // SAFETY: the header: `data_bytes` bytes, which were found apart from every column.
        let data = unsafe { list_to_write(data.cast::<u8>(), data_bytes, "data") }?;
        let give = |_, column| if has_data(column) { Given::Read } else { Given::Nothing };
        stripe.run(0..element_bytes, false, give, |cells, _| Ok(codec.join_given(cells, data)?))
    })
}
