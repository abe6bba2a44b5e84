//! Ctrl-C, SIGTERM and SIGHUP: a long run is asked to end at its next safe point.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the first of them. A signal has no other way into the program than a static.
static ASKED: AtomicBool = AtomicBool::new(false);

/// From here on the first of them asks, and the second ends the process at once.
///
/// Where no handler can be had the default stays: each ends the process. So it does where hangups
/// are ignored, as `nohup` has it: they stay so.
pub fn listen() {
    if ignores_hangups() {
        return;
    }
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether this process was started so that it outlives its terminal; where the system does not
/// tell, it was not.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of signal 1, SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Whether the user asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
