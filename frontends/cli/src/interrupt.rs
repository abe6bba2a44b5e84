//! Ctrl-C: a long run is asked to end at its next safe point.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first Ctrl-C. A signal has no other way into the program than a static.
static ASKED: AtomicBool = AtomicBool::new(false);

/// From here on the first Ctrl-C asks, and the second ends the process at once.
///
/// Where no handler can be had the default stays: Ctrl-C ends the process.
pub fn listen() {
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether the user asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
