//! The end of calls that can neither give the right bytes nor report that they do not.

use std::io::Write;

/// Prints a message on standard error: the fault of a call and its remedy.
pub fn say(what: std::fmt::Arguments<'_>) {
    // An error here has no other place to be reported.
    let _ = writeln!(std::io::stderr(), "pantile-isal: {what}");
}

/// Ends the process: ISA-L's function returns nothing, and wrong parity would be found when it is
/// too late.
pub fn abort(what: std::fmt::Arguments<'_>) -> ! {
    say(what);
    std::process::abort()
}
