//! The end of calls that can neither give the right bytes nor report that they do not.

use std::io::Write;

/// Says on standard error what is wrong with a call and what to do.
pub fn say(what: std::fmt::Arguments<'_>) {
    // A program without standard error cannot be told.
    let _ = writeln!(std::io::stderr(), "pantile-isal: {what}");
}

/// Ends the process: ISA-L's function returns nothing, and wrong parity would be found when it is
/// too late.
pub fn abort(what: std::fmt::Arguments<'_>) -> ! {
    say(what);
    std::process::abort()
}
