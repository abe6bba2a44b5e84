//! Ctrl-C, SIGTERM and SIGHUP: a long run ends at its next safe point.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// Set by the first signal. A handler can reach the program only through a static.
static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Installs the handlers: the first signal sets the flag, the second one ends the process at once.
///
/// Each signal that this process was started to ignore stays ignored: hangups under `nohup`, and
/// Ctrl-C where a shell script ran the command in the background. A signal whose handler cannot be
/// installed keeps its default and ends the process.
pub fn listen() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        for &signal in SIGNALS.iter().filter(|&&signal| !is_ignored(signal)) {
            // In this order, the first signal finds the flag not yet set.
            let second = flag::register_conditional_shutdown(signal, 130, Arc::clone(&ASKED));
            let _ = second.and_then(|_| flag::register(signal, Arc::clone(&ASKED)));
        }
    });
}

#[cfg(unix)]
const SIGNALS: &[i32] = &[SIGINT, SIGTERM, signal_hook::consts::SIGHUP];
#[cfg(not(unix))]
const SIGNALS: &[i32] = &[SIGINT, SIGTERM];

/// Turns the signal of a file beyond the size limit into a failed write, so that the message names
/// it and unfinished files are removed.
pub fn outlive_limits() {
    #[cfg(unix)]
    if !is_ignored(signal_hook::consts::SIGXFSZ) {
        // The write fails with EFBIG; the signal itself carries no more information.
        let _ = flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    }
}

/// True if this process was started with a signal ignored; false if the system does not report it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of signal 1.
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// True if the user asked to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
