//! ISA-L's erasure-code functions: tables, sums of products, updates.
//!
//! Lengths, counts and numbers are C's `int`; a negative one is taken for 0. Any length is
//! computed, also those for which ISA-L's own forms for one instruction set do nothing.

use std::ffi::c_int;
use std::slice;

use pantile_kernel::Grid;

use crate::compiled::{self, Matrix, Origin};
use crate::refuse;
use crate::tables::{self, SLOT_BYTES};
use crate::trace::{Call, count};

/// A number of C that should not be negative.
fn size(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Returns the caller's list of pointers, or its table, as a slice.
///
/// # Safety
///
/// `start` is null or valid for reads of `count` values for as long as the result is used.
unsafe fn list<'a, T>(call: &str, what: &str, start: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    if start.is_null() {
        refuse::abort(format_args!("{call}: the {what} are a null pointer; give {count} of them"));
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { slice::from_raw_parts(start, count) }
}

/// # Safety
///
/// `a` is valid for reads of k * rows bytes, `tables` for writes of 32 * k * rows, or null.
unsafe fn init_tables(call: &str, count: usize, a: *const u8, tables: *mut u8) {
    // SAFETY: the caller's promise.
    let coefficients = unsafe { list(call, "coefficients", a, count) };
    if count > 0 && tables.is_null() {
        let bytes = SLOT_BYTES * count;
        refuse::abort(format_args!("{call}: the table is a null pointer; give {bytes} bytes"));
    }
    for (number, &coefficient) in coefficients.iter().enumerate() {
        // SAFETY: below 32 * count, and a slot has no alignment.
        let slot = unsafe { &mut *tables.add(SLOT_BYTES * number).cast() };
        tables::write(coefficient, slot);
    }
}

/// # Safety
///
/// The contract of `ec_encode_data`.
unsafe fn encode(
    call: &'static str,
    [len, k, rows]: [c_int; 3],
    table: *const u8,
    data: *const *mut u8,
    coding: *const *mut u8,
) {
    let (sources, outputs) = (size(k), size(rows));
    if size(len) == 0 || outputs == 0 {
        return;
    }
    // SAFETY: by contract so many pointers, and a table of so many bytes.
    let (data, coding, table) = unsafe {
        (
            list(call, "sources", data.cast::<*const u8>(), sources),
            list(call, "outputs", coding, outputs),
            list(call, "bytes of the table", table, SLOT_BYTES * sources * outputs),
        )
    };
    // SAFETY: by contract every buffer is `len` bytes long.
    unsafe { Matrix { call, sources, outputs, origin: Origin::Table(table) }.apply(data, coding, size(len)) }
}

/// # Safety
///
/// The contract of `ec_encode_data_update`.
unsafe fn update(
    call: &'static str,
    [len, k, rows, vec_i]: [c_int; 4],
    table: *const u8,
    data: *const u8,
    coding: *const *mut u8,
) {
    let (sources, outputs) = (size(k), size(rows));
    if size(len) == 0 || outputs == 0 {
        return;
    }
    if vec_i < 0 || size(vec_i) >= sources {
        refuse::abort(format_args!(
            "{call}: source {vec_i} of {k} does not exist; sources count from 0 to k - 1"
        ));
    }
    // SAFETY: by contract so many pointers, and a table of so many bytes.
    let (coding, table) = unsafe {
        (
            list(call, "outputs", coding, outputs),
            list(call, "bytes of the table", table, SLOT_BYTES * sources * outputs),
        )
    };
    let source = size(vec_i);
    let (slots, _) = table.as_chunks::<SLOT_BYTES>();
    // If the first slot of the table has nibbles, only the slots of the source are read.
    let mut column = slots[source..].iter().step_by(sources);
    if tables::starts_with_nibbles(&slots[0]) && column.all(|slot| tables::from_nibbles(slot).is_some()) {
        let grid = Grid {
            bytes: &table[SLOT_BYTES * source + 1..],
            output_step: SLOT_BYTES * sources,
            source_step: 0,
        };
        // SAFETY: by contract every buffer is `len` bytes long.
        return unsafe { compiled::add_product(call, grid, data, coding, size(len)) };
    }
    let coefficients = tables::coefficients_for(call, table);
    let grid = Grid { bytes: &coefficients[source..], output_step: sources, source_step: 0 };
    // SAFETY: as above.
    unsafe { compiled::add_product(call, grid, data, coding, size(len)) }
}

macro_rules! tables {
    ($($name:ident)*) => {$(
        /// Writes the table of k * rows coefficients: 32 bytes for each.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(k: c_int, rows: c_int, a: *const u8, gftbls: *mut u8) {
            count(Call::ec_init_tables);
            // SAFETY: the contract of ISA-L's function.
            unsafe { init_tables(stringify!($name), size(k) * size(rows), a, gftbls) }
        }
    )*};
}
tables!(ec_init_tables ec_init_tables_base);

macro_rules! tables_of_one {
    ($($name:ident)*) => {$(
        /// Writes the table of one coefficient: 32 bytes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(c: u8, gftbl: *mut u8) {
            count(Call::gf_vect_mul_init);
            // SAFETY: the contract of ISA-L's function.
            unsafe { init_tables(stringify!($name), 1, &c, gftbl) }
        }
    )*};
}
tables_of_one!(gf_vect_mul_init gf_vect_mul_init_base);

macro_rules! encoders {
    ($($name:ident)*) => {$(
        /// Computes `coding[r]` = sum over j < k of the table's coefficient (r, j) times `data[j]`,
        /// for r < rows.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            len: c_int,
            k: c_int,
            rows: c_int,
            gftbls: *const u8,
            data: *const *mut u8,
            coding: *const *mut u8,
        ) {
            count(Call::ec_encode_data);
            // SAFETY: the contract of ISA-L's function.
            unsafe { encode(stringify!($name), [len, k, rows], gftbls, data, coding) }
        }
    )*};
}
encoders!(ec_encode_data ec_encode_data_base ec_encode_data_sse ec_encode_data_avx ec_encode_data_avx2);

macro_rules! updaters {
    ($($name:ident)*) => {$(
        /// Computes `coding[r]` += the table's coefficient (r, vec_i) times `data`, for r < rows.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            len: c_int,
            k: c_int,
            rows: c_int,
            vec_i: c_int,
            gftbls: *const u8,
            data: *const u8,
            coding: *const *mut u8,
        ) {
            count(Call::ec_encode_data_update);
            // SAFETY: the contract of ISA-L's function.
            unsafe { update(stringify!($name), [len, k, rows, vec_i], gftbls, data, coding) }
        }
    )*};
}
updaters!(ec_encode_data_update ec_encode_data_update_base ec_encode_data_update_sse
          ec_encode_data_update_avx ec_encode_data_update_avx2);

macro_rules! dots {
    ($($name:ident)*) => {$(
        /// Computes `dest` = sum over j < vlen of the table's coefficient j times `src[j]`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            len: c_int,
            vlen: c_int,
            gftbls: *const u8,
            src: *const *mut u8,
            dest: *mut u8,
        ) {
            count(Call::gf_vect_dot_prod);
            // SAFETY: the contract of ISA-L's function.
            unsafe { encode(stringify!($name), [len, vlen, 1], gftbls, src, &dest) }
        }
    )*};
}
dots!(gf_vect_dot_prod gf_vect_dot_prod_base gf_vect_dot_prod_sse gf_vect_dot_prod_avx
      gf_vect_dot_prod_avx2);

macro_rules! dots_of_many {
    ($($rows:literal: $($name:ident)*;)*) => {$($(
        /// Computes as `ec_encode_data` with the number of rows in the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            len: c_int,
            vlen: c_int,
            gftbls: *const u8,
            src: *const *mut u8,
            dest: *const *mut u8,
        ) {
            count(Call::gf_vect_dot_prod);
            // SAFETY: the contract of ISA-L's function.
            unsafe { encode(stringify!($name), [len, vlen, $rows], gftbls, src, dest) }
        }
    )*)*};
}
dots_of_many! {
    2: gf_2vect_dot_prod_sse gf_2vect_dot_prod_avx gf_2vect_dot_prod_avx2;
    3: gf_3vect_dot_prod_sse gf_3vect_dot_prod_avx gf_3vect_dot_prod_avx2;
    4: gf_4vect_dot_prod_sse gf_4vect_dot_prod_avx gf_4vect_dot_prod_avx2;
    5: gf_5vect_dot_prod_sse gf_5vect_dot_prod_avx gf_5vect_dot_prod_avx2;
    6: gf_6vect_dot_prod_sse gf_6vect_dot_prod_avx gf_6vect_dot_prod_avx2;
}

macro_rules! mads {
    ($($name:ident)*) => {$(
        /// Computes `dest` += the table's coefficient `vec_i` of `vec` times `src`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            len: c_int,
            vec: c_int,
            vec_i: c_int,
            gftbls: *const u8,
            src: *const u8,
            dest: *mut u8,
        ) {
            count(Call::gf_vect_mad);
            // SAFETY: the contract of ISA-L's function.
            unsafe { update(stringify!($name), [len, vec, 1, vec_i], gftbls, src, &dest) }
        }
    )*};
}
mads!(gf_vect_mad gf_vect_mad_base gf_vect_mad_sse gf_vect_mad_avx gf_vect_mad_avx2);

macro_rules! mads_of_many {
    ($($rows:literal: $($name:ident)*;)*) => {$($(
        /// Computes as `ec_encode_data_update` with the number of rows in the name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            len: c_int,
            vec: c_int,
            vec_i: c_int,
            gftbls: *const u8,
            src: *const u8,
            dest: *const *mut u8,
        ) {
            count(Call::gf_vect_mad);
            // SAFETY: the contract of ISA-L's function.
            unsafe { update(stringify!($name), [len, vec, $rows, vec_i], gftbls, src, dest) }
        }
    )*)*};
}
mads_of_many! {
    2: gf_2vect_mad_sse gf_2vect_mad_avx gf_2vect_mad_avx2;
    3: gf_3vect_mad_sse gf_3vect_mad_avx gf_3vect_mad_avx2;
    4: gf_4vect_mad_sse gf_4vect_mad_avx gf_4vect_mad_avx2;
    5: gf_5vect_mad_sse gf_5vect_mad_avx gf_5vect_mad_avx2;
    6: gf_6vect_mad_sse gf_6vect_mad_avx gf_6vect_mad_avx2;
}

/// # Safety
///
/// The contract of `gf_vect_mul`.
unsafe fn multiply(call: &'static str, len: c_int, table: *const u8, src: *const u8, dest: *mut u8) -> bool {
    count(Call::gf_vect_mul);
    if len % 32 != 0 {
        return false;
    }
    if size(len) == 0 {
        return true;
    }
    if table.is_null() || src.is_null() || dest.is_null() {
        refuse::say(format_args!("{call}: the table or a buffer is a null pointer; nothing is written"));
        return false;
    }
    // SAFETY: by contract 32 bytes.
    let table: &[u8; SLOT_BYTES] = unsafe { &*table.cast() };
    let Some(coefficient) = tables::from_slot(table) else {
        refuse::say(format_args!(
            "{call}: the table is of no form that is known; make it with gf_vect_mul_init of this library"
        ));
        return false;
    };
    // SAFETY: not null, and by contract `len` bytes each.
    unsafe { compiled::multiply(coefficient, src, dest, size(len)) };
    true
}

macro_rules! products {
    ($refused:literal: $($name:ident)*) => {$(
        /// Computes `dest` = the table's coefficient times `src`; returns not 0 if `len` is no
        /// multiple of 32.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(len: c_int, gftbl: *const u8, src: *const u8, dest: *mut u8) -> c_int {
            // SAFETY: the contract of ISA-L's function.
            if unsafe { multiply(stringify!($name), len, gftbl, src, dest) } { 0 } else { $refused }
        }
    )*};
}
products!(1: gf_vect_mul gf_vect_mul_sse gf_vect_mul_avx);
products!(-1: gf_vect_mul_base);
