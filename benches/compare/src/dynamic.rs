//! Libraries that are opened at run time, so that two versions of one stand side by side.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

pub struct Library(*mut c_void);

impl Library {
    pub fn open(path: &str) -> Result<Library, String> {
        let name = CString::new(path).map_err(|error| error.to_string())?;
        // SAFETY: a C string; the library is trusted to start up.
        let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: dlopen has just failed, so there is a message.
            let message = unsafe { CStr::from_ptr(dlerror()) };
            return Err(message.to_string_lossy().into_owned());
        }
        Ok(Library(handle))
    }

    /// The function of this name.
    ///
    /// # Safety
    ///
    /// F is the type of a C function with its signature.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is open, the name a C string.
        let found = unsafe { dlsym(self.0, name.as_ptr()) };
        // SAFETY: the caller's promise; a function pointer has the size of a pointer.
        (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
    }
}
