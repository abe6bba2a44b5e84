//! Ends the process in calls that can neither give the right bytes nor report a fault, and writes
//! diagnostic sentences if the environment asks for them.
//!
//! Descriptor 2 of a daemon can be a file of data: nothing is written to it unless the environment
//! says so.

use std::ffi::CString;
use std::io::Write;
use std::sync::OnceLock;

/// Returns true where sentences are asked for: `PANTILE_ISAL_WARN=1`, or the trace.
pub fn is_asked() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    let is_one = |name| std::env::var_os(name).is_some_and(|value| value == "1");
    *ASKED.get_or_init(|| is_one("PANTILE_ISAL_WARN") || is_one("PANTILE_ISAL_TRACE"))
}

/// Writes a sentence about a call to standard error, if sentences are asked for.
pub fn say(what: std::fmt::Arguments<'_>) {
    if is_asked() {
        // Some programs have no standard error.
        let _ = writeln!(std::io::stderr(), "pantile-isal: {what}");
    }
}

/// Ends the process: ISA-L's function returns nothing, and wrong parity would be found when it is
/// too late. The system's log has the reason.
#[cold]
pub fn abort(what: std::fmt::Arguments<'_>) -> ! {
    say(what);
    if let Ok(text) = CString::new(format!("pantile-isal: {what}")) {
        // SAFETY: a format that takes one text, and texts that end with zero.
        unsafe { libc::syslog(libc::LOG_USER | libc::LOG_CRIT, c"%s".as_ptr(), text.as_ptr()) };
    }
    std::process::abort()
}
