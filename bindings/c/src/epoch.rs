//! Epochs of delayed parity in a volume that another process serves.

use crate::answer::{
    Answer, Fault, List, PantileError, PantileStatus, answer, check_struct_bytes, free, given, path, put,
};
use crate::code::hand_out;
use pantile_host::{EpochError, EpochOptions, OnTimeout, ServedEpoch};
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// `pantile_epoch`.
pub struct PantileEpoch {
    epoch: Mutex<ServedEpoch>,
}

/// `pantile_epoch_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PantileEpochOptions {
    pub struct_bytes: usize,
    pub offset: u64,
    pub bytes: u64,
    pub pending_bytes_most: u64,
    pub age_most_s: u32,
    pub idle_most_s: u32,
    pub seals_when_idle: c_int,
}

/// `PANTILE_NEVER`.
const NEVER: u32 = u32::MAX;

impl From<EpochError> for Fault {
    fn from(error: EpochError) -> Fault {
        let status = match error {
            EpochError::NotServed { .. } => PantileStatus::NotServed,
            EpochError::Refused { .. } => PantileStatus::Refused,
            EpochError::Over { .. } => PantileStatus::EpochOver,
            EpochError::Lost { .. } => PantileStatus::EpochLost,
            EpochError::Gone { .. } => PantileStatus::ServerGone,
        };
        Fault::new(status, error.to_string())
    }
}

fn options_of(asked: &PantileEpochOptions) -> Result<EpochOptions, Fault> {
    check_struct_bytes(asked.struct_bytes, size_of::<PantileEpochOptions>(), "pantile_epoch_options")?;
    if asked.bytes == 0 && asked.offset > 0 {
        return Err(Fault::bad_argument(format!(
            "offset is {} and bytes is 0, which is the whole volume; say how many bytes",
            asked.offset
        )));
    }
    let usual = EpochOptions::default();
    let limit = |seconds: u32, usual| match seconds {
        0 => usual,
        NEVER => None,
        seconds => Some(Duration::from_secs(seconds.into())),
    };
    Ok(EpochOptions {
        range: (asked.bytes > 0).then_some((asked.offset, asked.bytes)),
        owed_bytes_max: match asked.pending_bytes_most {
            0 => usual.owed_bytes_max,
            most => most,
        },
        age_max: limit(asked.age_most_s, usual.age_max),
        idle_max: limit(asked.idle_most_s, usual.idle_max),
        on_timeout: if asked.seals_when_idle == 0 { OnTimeout::Abort } else { OnTimeout::Seal },
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_epoch_begin(
    volume: *const c_char,
    options: *const PantileEpochOptions,
    epoch: *mut *mut PantileEpoch,
    error: *mut PantileError,
) -> PantileStatus {
    let make = || {
        // SAFETY: the header: a text; options or NULL.
        let (volume, options) = unsafe { (path(volume, "volume")?, options.as_ref()) };
        let options = options.map_or_else(|| Ok(EpochOptions::default()), options_of)?;
        Ok(PantileEpoch { epoch: Mutex::new(ServedEpoch::begin(volume, &options)?) })
    };
    // SAFETY: the header: a place for the handle.
    answer(error, || unsafe { hand_out(epoch, "epoch", make) })
}

/// Makes a call with an epoch that is a handle.
///
/// # Safety
///
/// NULL, or a handle that is not freed.
unsafe fn with_epoch(
    epoch: *const PantileEpoch,
    error: *mut PantileError,
    call: impl FnOnce(&mut ServedEpoch) -> Answer,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the caller's promise.
        let epoch = unsafe { given(epoch, "epoch") }?;
        call(&mut epoch.epoch.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_epoch_range(
    epoch: *const PantileEpoch,
    number: *mut u64,
    offset: *mut u64,
    bytes: *mut u64,
    error: *mut PantileError,
) -> PantileStatus {
    let call = |epoch: &mut ServedEpoch| {
        let (first, len) = epoch.range();
        for (to, value) in [(number, epoch.id().0), (offset, first), (bytes, len)] {
            if !to.is_null() {
                // SAFETY: the header: NULL, or a place for a number.
                unsafe { put(to, "a number", value) }?;
            }
        }
        Ok(())
    };
    // SAFETY: the header: an epoch.
    unsafe { with_epoch(epoch, error, call) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_epoch_uri(
    epoch: *const PantileEpoch,
    uri: *mut c_char,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: an epoch, and room for `room` bytes.
    unsafe { with_epoch(epoch, error, |epoch| List { to: uri, room, need }.give_text(&epoch.uri()?)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_epoch_end(
    epoch: *const PantileEpoch,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: an epoch.
    unsafe { with_epoch(epoch, error, |epoch| Ok(epoch.end()?)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_epoch_abort(
    epoch: *const PantileEpoch,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: an epoch.
    unsafe { with_epoch(epoch, error, |epoch| Ok(epoch.abort()?)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_epoch_free(epoch: *mut PantileEpoch) {
    // SAFETY: the header: NULL, or an epoch that is not used any more.
    unsafe { free(epoch) }
}
