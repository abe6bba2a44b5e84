//! A volume of many files needs no more threads than one of few.
//!
//! A separate program, because it counts the threads of its process.

#[path = "host/common/mod.rs"]
mod common;

use common::folders::{new, start};
use common::painted;
use pantile_host::{Folder, NewDevices};

const MIB: usize = 1 << 20;

/// Returns the number of threads whose names begin with `named`.
fn threads(named: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(named)).count()
}

/// True if the pool of an open volume uses io_uring.
fn has_io_uring() -> bool {
    let files = std::fs::read_dir("/proc/self/fd").expect("files").flatten();
    let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| target.to_string_lossy().contains("io_uring"))
}

/// Most threads of a pool: those that flush the first eight devices, and some for operations that
/// the ring does not do.
const THREADS_MOST: usize = 8 + 4;

/// Returns true if a volume of so many devices has few threads. A busy disk makes the system refuse
/// requests that must not wait, which threads then do: so the volume gets three attempts.
fn has_few_threads(spec: &str, devices: usize) -> bool {
    for _ in 0..3 {
        let mut most = 0;
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("v");
        let devices_of = NewDevices::Made { user_bytes: 64 << 20 };
        drop(Folder::create(&folder, &new(spec, devices_of)).expect("it is created"));
        let service = start(&folder);
        if !has_io_uring() {
            eprintln!("the system has no io_uring for this process: nothing to see");
            return true;
        }
        let flushed = painted(6, 8 * MIB);
        let mut found = vec![0; flushed.len()];
        for _ in 0..4 {
            service.handle().write(4096, &flushed, true).expect("it writes");
            service.handle().flush().expect("it flushes");
            service.handle().read(4096, &mut found).expect("it reads");
            assert!(found == flushed);
            most = most.max(threads("io-"));
        }
        service.stop().expect("it stops");
        if most <= THREADS_MOST {
            return true;
        }
        eprintln!("{most} threads for {devices} devices");
    }
    false
}

/// The system does reads and writes of files without threads of the pool, and flushes except those
/// of a few devices.
#[test]
fn threads_do_not_grow_with_devices_that_the_system_serves_by_itself() {
    assert!(has_few_threads("raid6:4", 6));
    assert!(has_few_threads("raidq:60+4", 64));
}
