//! Ctrl-C, SIGTERM and SIGHUP: a long run is asked to end at its next safe point.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// Set by the first of them. A signal has no other way into the program than a static.
static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on the first of them asks, and the second ends the process at once.
///
/// Each signal that this process was started to ignore stays ignored: hangups under `nohup`, and
/// Ctrl-C where a shell script ran the command in the background. Where no handler can be had the
/// default stays: that signal ends the process.
pub fn listen() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        for &signal in SIGNALS.iter().filter(|&&signal| !is_ignored(signal)) {
            // In this order: the first signal does not find the flag set.
            let second = flag::register_conditional_shutdown(signal, 130, Arc::clone(&ASKED));
            let _ = second.and_then(|_| flag::register(signal, Arc::clone(&ASKED)));
        }
    });
}

#[cfg(unix)]
const SIGNALS: &[i32] = &[SIGINT, SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const SIGNALS: &[i32] = &[SIGINT, SIGTERM];

/// A file that would be longer than this process may write ends the write, and not the process: the
/// fault says so, and what was begun is removed.
pub fn outlive_limits() {
    #[cfg(unix)]
    if !is_ignored(signal_hook::consts::SIGXFSZ) {
        // Whoever is told by the write need not know of the signal.
        let _ = flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    }
}

/// Whether this process was started so that it ignores a signal; where the system does not tell,
/// it was not.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of signal 1.
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Tests whether the user asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
