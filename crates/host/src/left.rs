//! Threads that still wait for a device after the volume was closed.
//!
//! The system does not end a thread that waits for an answer of FUSE or of a disk, nor the process
//! of such a thread. The server can only report that.

/// Line that a server prints if it has closed its volume but cannot end.
pub const LEFT_BEHIND: &str =
    "pantile: a device does not answer; this process ends when it does, and does nothing more";

/// Beginnings of the names of threads that make system calls on a device.
const NAMES: [&str; 7] = ["io-", "timely", "opening", "closing", "look", "late", "copy-"];

/// Returns the number of threads of this process that wait for a device; 0 if the system does not
/// report it.
pub fn threads_waiting_for_devices() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| NAMES.iter().any(|known| name.starts_with(known))).count()
}
