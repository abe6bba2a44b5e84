//! Threads that wait for a device when the volume is put away.
//!
//! The system ends no thread that waits for an answer of FUSE or of a disk, and no process that has
//! such a thread. All that is left to do is to say so.

/// The line of a server that has put its volume away and cannot end.
pub const LEFT_BEHIND: &str =
    "pantile: a device does not answer; this process ends when it does, and does nothing more";

/// The beginnings of the names of threads that call the system for a device.
const NAMES: [&str; 7] = ["io-", "timely", "opening", "closing", "look", "late", "copy-"];

/// Counts the threads of this process that wait for a device; 0 where the system does not say.
pub fn threads_waiting_for_devices() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| NAMES.iter().any(|known| name.starts_with(known))).count()
}
