//! Which losses are survivable, counted.

use crate::answer::{Fault, List, PantileError, PantileStatus, answer, check_struct_bytes, given, put};
use crate::code::PantileCode;
use pantile::plan::{Method, ProveOptions, prove};
use std::ffi::c_int;

/// `pantile_level`.
#[repr(C)]
pub struct PantileLevel {
    pub lost: usize,
    pub sets: u64,
    pub looked_at: u64,
    pub survived: u64,
    pub is_exact: c_int,
}

/// `pantile_prove_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PantileProveOptions {
    pub struct_bytes: usize,
    pub lost_most: usize,
    pub threads: usize,
    pub work_most: u64,
}

/// More than any machine has, and few enough to be started.
const THREADS_MOST: usize = 1024;

fn options_of(asked: &PantileProveOptions) -> Result<ProveOptions, Fault> {
    check_struct_bytes(asked.struct_bytes, size_of::<PantileProveOptions>(), "pantile_prove_options")?;
    if asked.threads > THREADS_MOST {
        let message = format!("{} threads; give at most {THREADS_MOST}", asked.threads);
        return Err(Fault::bad_argument(message));
    }
    let usual = ProveOptions::default();
    Ok(ProveOptions {
        lost_most: (asked.lost_most > 0).then_some(asked.lost_most),
        threads: asked.threads.max(1),
        work_most: if asked.work_most > 0 { asked.work_most } else { usual.work_most },
        ..usual
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "two lists, and what goes with them")]
pub unsafe extern "C" fn pantile_prove(
    code: *const PantileCode,
    options: *const PantileProveOptions,
    tolerance: *mut usize,
    levels: *mut PantileLevel,
    room: usize,
    need: *mut usize,
    fatal: *mut usize,
    fatal_room: usize,
    fatal_need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a code; options or NULL.
        let (code, options) = unsafe { (&given(code, "code")?.code, options.as_ref()) };
        let options = options.map_or_else(|| Ok(ProveOptions::default()), options_of)?;
        let proof = prove(code, &options, &|_, _, _| true);
        if !tolerance.is_null() {
            // SAFETY: the header: NULL, or a place for the number.
            unsafe { put(tolerance, "tolerance", proof.tolerance()) }?;
        }
        let of_fatal = proof.fatal.first().map_or(&[][..], Vec::as_slice).iter().copied();
        let all = proof.levels.iter().map(|level| PantileLevel {
            lost: level.lost,
            sets: level.sets,
            looked_at: level.looked_at(),
            survived: level.survived,
            is_exact: c_int::from(level.method == Method::Exact),
        });
        // Both say how much they need before either refuses.
        // SAFETY: the header: room for `room` levels.
        let of_levels = unsafe { List { to: levels, room, need }.give(all, "levels") };
        if fatal.is_null() && fatal_need.is_null() {
            return of_levels;
        }
        // SAFETY: the header: room for `fatal_room` columns.
        let of_columns =
            unsafe { List { to: fatal, room: fatal_room, need: fatal_need }.give(of_fatal, "columns") };
        of_levels.and(of_columns)
    })
}
