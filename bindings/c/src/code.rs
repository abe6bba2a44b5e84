//! Codes, as numbers and texts.

use crate::answer::{
    Answer, Fault, List, NONE, PantileError, PantileStatus, answer, check_struct_bytes, free, given, list,
    put, text, utf8,
};
use pantile::code::{Budget, Labels};
use pantile::{CellIndex, Code};
use std::ffi::{c_char, c_int};
use std::mem::offset_of;

/// `pantile_code`.
pub struct PantileCode {
    pub(crate) code: Code,
}

/// `pantile_shape`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PantileShape {
    pub struct_bytes: usize,
    pub columns: usize,
    pub cells: usize,
    pub data_cells: usize,
    pub parity_cells: usize,
    pub equations: usize,
    pub rows_most: usize,
    pub tolerance: usize,
    pub fingerprint: u64,
    pub is_mds: c_int,
    pub is_xor: c_int,
    pub may_store: c_int,
    pub version: u32,
}

/// `pantile_cell`.
#[repr(C)]
pub struct PantileCell {
    pub column: usize,
    pub row: usize,
    pub position: usize,
}

/// `pantile_term`.
#[repr(C)]
pub struct PantileTerm {
    pub cell: usize,
    pub coefficient: u8,
}

/// Gives a new handle.
///
/// # Safety
///
/// `to` is NULL or valid for a write.
pub(crate) unsafe fn hand_out<T>(
    to: *mut *mut T,
    what: &str,
    make: impl FnOnce() -> Result<T, Fault>,
) -> Answer {
    // SAFETY: the caller's promise. After an error the handle is NULL.
    unsafe { put(to, what, std::ptr::null_mut()) }?;
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: as above.
    unsafe { put(to, what, made) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_parse(
    spec: *const c_char,
    code: *mut *mut PantileCode,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a text that ends with a zero; a place for the handle.
        unsafe { hand_out(code, "code", || Ok(PantileCode { code: Code::parse(text(spec, "spec")?)? })) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_from_text(
    text: *const c_char,
    text_bytes: usize,
    steps: u64,
    code: *mut *mut PantileCode,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: `text_bytes` bytes of text; a place for the handle.
        unsafe {
            hand_out(code, "code", || {
                let text = utf8(list(text.cast::<u8>(), text_bytes, "text")?, "the text")?;
                let mut budget = if steps == 0 { Budget::default() } else { Budget::of_steps(steps) };
                Ok(PantileCode { code: Code::from_text_within(text, &mut budget)? })
            })
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_free(code: *mut PantileCode) {
    // SAFETY: the header.
    unsafe { free(code) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_text(
    code: *const PantileCode,
    text: *mut c_char,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a code; room for `room` bytes.
    answer(error, || unsafe { List { to: text, room, need }.give_text(&given(code, "code")?.code.to_text()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_spec(
    code: *const PantileCode,
    text: *mut c_char,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a code; room for `room` bytes.
    answer(error, || unsafe { List { to: text, room, need }.give_text(given(code, "code")?.code.spec()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_shape(
    code: *const PantileCode,
    shape: *mut PantileShape,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code; a shape of which the first field is set.
        let (code, asked) = unsafe { (&given(code, "code")?.code, given(shape, "shape")?.struct_bytes) };
        check_struct_bytes(asked, offset_of!(PantileShape, version) + size_of::<u32>(), "pantile_shape")?;
        let claim = code.claim();
        let filled = PantileShape {
            struct_bytes: asked,
            columns: code.columns(),
            cells: code.cell_count(),
            data_cells: code.data().len(),
            parity_cells: code.parity().len(),
            equations: code.equations().len(),
            rows_most: code.rows_max(),
            tolerance: claim.tolerance,
            fingerprint: code.fingerprint(),
            is_mds: c_int::from(claim.mds),
            is_xor: c_int::from(code.is_xor()),
            may_store: c_int::from(code.check_stores().is_ok()),
            version: u32::from(code.version()),
        };
        // SAFETY: the header; the caller has all of its fields.
        unsafe { put(shape, "shape", filled) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_rows(
    code: *const PantileCode,
    column: usize,
    rows: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code.
        let code = unsafe { &given(code, "code")?.code };
        check_below(column, code.columns(), "column")?;
        // SAFETY: the header: a place for the number.
        unsafe { put(rows, "rows", code.rows(column)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_cell(
    code: *const PantileCode,
    cell: usize,
    place: *mut PantileCell,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code.
        let code = unsafe { &given(code, "code")?.code };
        check_below(cell, code.cell_count(), "cell")?;
        let index = CellIndex(cell as u32);
        let pantile::Cell { row, column } = code.cell(index);
        let position = code.data_position(index).unwrap_or(NONE);
        // SAFETY: the header: a place for it.
        unsafe { put(place, "place", PantileCell { column, row, position }) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_data(
    code: *const PantileCode,
    cells: *mut usize,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a code; room for `room` cells.
    answer(error, || unsafe {
        let data = given(code, "code")?.code.data();
        List { to: cells, room, need }.give(data.iter().map(|cell| cell.usize()), "cells")
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_equation(
    code: *const PantileCode,
    equation: usize,
    terms: *mut PantileTerm,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code.
        let code = unsafe { &given(code, "code")?.code };
        check_below(equation, code.equations().len(), "equation")?;
        let all = code.equations()[equation].terms().iter();
        let all = all.map(|&(cell, c)| PantileTerm { cell: cell.usize(), coefficient: c.0 });
        // SAFETY: the header: room for `room` terms.
        unsafe { List { to: terms, room, need }.give(all, "terms") }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_code_label(
    code: *const PantileCode,
    equation: usize,
    text: *mut c_char,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code.
        let code = unsafe { &given(code, "code")?.code };
        check_below(equation, code.equations().len(), "equation")?;
        // SAFETY: the header: room for `room` bytes.
        unsafe { List { to: text, room, need }.give_text(&Labels::new(code).of[equation].text) }
    })
}

/// Refuses a number of something that the code lacks.
pub(crate) fn check_below(number: usize, count: usize, what: &str) -> Answer {
    match number < count {
        true => Ok(()),
        false => Err(Fault::bad_argument(format!(
            "the code has no {what} {number}: its {count} {what}s count from 0"
        ))),
    }
}
