//! Functions for checksums, compression and the search for zeros, which are passed on to the real
//! library. Each is looked up at its first call.
//!
//! Each function is a jump through a slot; the first call fills the slot and leaves arguments as
//! they were. The real library is, in this order: the file that `PANTILE_ISAL_REAL` names, the next
//! library that the loader has with functions of these names, `libisal.so.2` in the folders of the
//! system. Without one the process ends with a sentence: a checksum cannot be made up.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::arch::naked_asm;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::refuse;
use crate::trace::{Call, count};

/// Paths at which Debian, Fedora, Arch and `make install` put the real library.
const PLACES: [&CStr; 4] = [
    c"/usr/lib/x86_64-linux-gnu/libisal.so.2",
    c"/usr/lib64/libisal.so.2",
    c"/usr/lib/libisal.so.2",
    c"/usr/local/lib/libisal.so.2",
];

macro_rules! passed_on {
    ($($name:ident)*) => {
        /// The index of each function's slot.
        #[allow(non_camel_case_types, reason = "ISA-L's own names")]
        enum Slot { $($name),* }

        const NAMES: &[&CStr] = &[$(c_name(concat!(stringify!($name), "\0"))),*];

        static SLOTS: [AtomicPtr<c_void>; NAMES.len()] =
            [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

        $(
            /// ISA-L's function of this name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "lea r11, [rip + {slots}]",
                    "mov rax, [r11 + 8 * {slot}]",
                    "test rax, rax",
                    "jz 2f",
                    "jmp rax",
                    "2:",
                    "mov eax, {slot}",
                    "jmp {first}",
                    slots = sym SLOTS,
                    slot = const Slot::$name as usize,
                    first = sym first_call,
                )
            }
        )*
    };
}

/// Returns a name that ends with zero as a C string.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name without zeros"),
    }
}

passed_on! {
    crc16_t10dif crc16_t10dif_base crc16_t10dif_copy crc16_t10dif_copy_base crc32_gzip_refl
    crc32_gzip_refl_base crc32_ieee crc32_ieee_base crc32_iscsi crc32_iscsi_base crc64_ecma_norm
    crc64_ecma_norm_base crc64_ecma_norm_by8 crc64_ecma_refl crc64_ecma_refl_base
    crc64_ecma_refl_by8 crc64_iso_norm crc64_iso_norm_base crc64_iso_norm_by8 crc64_iso_refl
    crc64_iso_refl_base crc64_iso_refl_by8 crc64_jones_norm crc64_jones_norm_base
    crc64_jones_norm_by8 crc64_jones_refl crc64_jones_refl_base crc64_jones_refl_by8
    crc64_rocksoft_norm crc64_rocksoft_norm_base crc64_rocksoft_norm_by8 crc64_rocksoft_refl
    crc64_rocksoft_refl_base crc64_rocksoft_refl_by8 isal_adler32 isal_create_hufftables
    isal_create_hufftables_subset isal_deflate isal_deflate_init isal_deflate_process_dict
    isal_deflate_reset isal_deflate_reset_dict isal_deflate_set_dict isal_deflate_set_hufftables
    isal_deflate_stateless isal_deflate_stateless_init isal_gzip_header_init isal_inflate
    isal_inflate_init isal_inflate_reset isal_inflate_set_dict isal_inflate_stateless
    isal_read_gzip_header isal_read_zlib_header isal_update_histogram isal_write_gzip_header
    isal_write_zlib_header isal_zero_detect isal_zlib_header_init
}

/// Saves the six registers of arguments (none of these functions has more or others), and jumps to
/// the address that `find` returns for the slot in eax.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "mov edi, eax",
        "call {find}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        find = sym find,
    )
}

extern "C" fn find(slot: u32) -> *mut c_void {
    count(Call::passed_on);
    let name = NAMES[slot as usize];
    let function = real_function(name).unwrap_or_else(|| {
        refuse::abort(format_args!(
            "{} belongs to the part of ISA-L that is passed on, and no real libisal.so.2 has it; install libisal2 \
             or name the file in PANTILE_ISAL_REAL",
            name.to_string_lossy()
        ))
    });
    SLOTS[slot as usize].store(function, Relaxed);
    function
}

fn real_function(name: &CStr) -> Option<*mut c_void> {
    static REAL: OnceLock<usize> = OnceLock::new();
    // A handle of the loader as a number, which threads may share. RTLD_NEXT is one, too.
    let real = *REAL.get_or_init(|| real_library().addr());
    // SAFETY: a handle that is never closed, and a name that ends with zero.
    let function = unsafe { libc::dlsym(std::ptr::with_exposed_provenance_mut(real), name.as_ptr()) };
    (!function.is_null()).then_some(function)
}

/// Returns a handle of the real library: the named file, the next loaded one, or one from the
/// folders of the system.
fn real_library() -> *mut c_void {
    // SAFETY: a path that ends with zero; loading a library runs its initialisers, which is asked
    // for.
    let open = |path: &CStr| unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if let Some(path) = std::env::var_os("PANTILE_ISAL_REAL")
        && let Ok(path) = CString::new(path.as_bytes())
    {
        let library = open(&path);
        if library.is_null() {
            refuse::abort(format_args!("PANTILE_ISAL_REAL names {path:?}, which cannot be loaded"));
        }
        return library;
    }
    // SAFETY: a name that ends with zero.
    if !unsafe { libc::dlsym(libc::RTLD_NEXT, c"crc32_ieee".as_ptr()) }.is_null() {
        return libc::RTLD_NEXT;
    }
    let libraries = PLACES.iter().map(|path| open(path));
    libraries.into_iter().find(|library| !library.is_null()).unwrap_or(libc::RTLD_NEXT)
}
