//! The version of ISA-L whose interface this is.

use std::ffi::{c_char, c_uint};

/// The version as a text.
#[unsafe(no_mangle)]
pub extern "C" fn isal_get_version_str() -> *const c_char {
    c"2.32.1".as_ptr()
}

/// The version as a number, a byte for each part.
#[unsafe(no_mangle)]
pub extern "C" fn isal_get_version() -> c_uint {
    0x02_20_01
}
