//! Openings of a device: those that are allowed, and the messages of those that are refused.
//!
//! A separate program: it starts processes all the time, and each of them has all of its open files
//! until it executes another program.

use pantile_device::*;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn a_file_in_use_is_refused_under_every_name() {
    let dir = tempfile::tempdir().unwrap();
    let [first, link, symlink] = ["first", "link", "symlink"].map(|name| dir.path().join(name));
    let device = FileDevice::create(&first, 1 << 20).unwrap();
    std::fs::hard_link(&first, &link).unwrap();
    std::os::unix::fs::symlink(&first, &symlink).unwrap();
    for name in [&first, &link, &symlink] {
        let error = FileDevice::open(name).unwrap_err();
        assert!(matches!(error, DeviceError::InUse { .. }), "{error}");
        assert_eq!(error.remedy(), Remedy::ChooseDevice);
        assert!(error.to_string().contains("in use") && error.to_string().contains(name.to_str().unwrap()));
        let look = OpenOptions { access: Access::ReadOnly, ..Default::default() };
        assert!(matches!(FileDevice::open_with(name, look), Err(DeviceError::InUse { .. })));
    }
    let identity = device.identity();
    drop(device);
    assert_eq!(FileDevice::open(&link).unwrap().identity(), identity);
}

#[test]
fn another_process_is_refused_too_and_its_death_frees_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    drop(FileDevice::create(&path, 1 << 20).unwrap());
    // `--no-fork`: the lock is held by the process that is killed.
    let mut holder = Command::new("flock");
    holder.arg("--no-fork").arg(&path).args(["sh", "-c", "echo held; exec sleep 60"]).stdout(Stdio::piped());
    let Ok(mut holder) = holder.spawn() else { return eprintln!("skipped: no flock command") };
    let mut held = [0; 4];
    holder.stdout.as_mut().unwrap().read_exact(&mut held).unwrap();
    let while_held = FileDevice::open(&path);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(matches!(while_held, Err(DeviceError::InUse { .. })));
    FileDevice::open(&path).unwrap();
}

#[test]
fn a_closed_device_is_free_at_once_although_others_start_processes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    drop(FileDevice::create(&path, 1 << 20).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                // Until it executes another program, the child holds all open files of this
                // process, and with them their locks.
                Command::new("true").status().unwrap();
            }
        });
        let end = Instant::now() + Duration::from_millis(500);
        let mut refused = 0;
        while Instant::now() < end {
            refused += u32::from(FileDevice::open(&path).is_err());
        }
        over.store(true, Relaxed);
        assert_eq!(refused, 0);
    });
}

#[test]
fn lookers_share_and_cannot_change_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    drop(FileDevice::create(&path, 1 << 20).unwrap());
    let look = OpenOptions { access: Access::ReadOnly, ..Default::default() };
    let [one, two] = [(); 2].map(|()| FileDevice::open_with(&path, look).unwrap());
    assert!(matches!(FileDevice::open(&path), Err(DeviceError::InUse { .. })));
    let mut buffer = AlignedBuf::zeroed(4096);
    for device in [&one, &two] {
        device.read_at(0, buffer.whole_mut()).unwrap();
        for refused in [device.write_at(0, &[buffer.whole()]), device.zero(0, 4096), device.discard(0, 4096)]
        {
            assert!(matches!(refused, Err(DeviceError::ReadOnly { errno: 0, .. })));
        }
    }
}

#[test]
fn a_pool_takes_each_device_once() {
    let pool = IoPool::new(PoolOptions::default());
    let memory = Arc::new(MemoryDevice::new("disk 0", 1 << 20));
    assert_eq!(pool.attach(memory.clone()).unwrap(), 0);
    let error = pool.attach(Arc::new(Counted::new(memory.clone()))).unwrap_err();
    assert!(
        matches!(&error, DeviceError::SameDevice { known_as, .. } if known_as == Path::new("disk 0")),
        "{error}"
    );
    pool.detach(0);
    // A number is not used twice, and the device can be attached again.
    assert_eq!(pool.attach(memory).unwrap(), 1);
}

#[test]
fn other_kinds_of_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("empty"), "").unwrap();
    std::fs::write(at("tiny"), [1; 511]).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let begun = Instant::now();
    assert!(matches!(FileDevice::open(at("absent")), Err(DeviceError::NotThere { errno: 2, .. })));
    assert!(matches!(FileDevice::open(at("empty")), Err(DeviceError::TooSmall { len_bytes: 0, .. })));
    assert!(matches!(FileDevice::open(at("tiny")), Err(DeviceError::TooSmall { len_bytes: 511, .. })));
    for path in [at("pipe"), dir.path().to_path_buf(), "/dev/null".into()] {
        assert!(matches!(FileDevice::open(path), Err(DeviceError::NotADevice { .. })));
    }
    assert!(begun.elapsed().as_secs() < 5, "a pipe was waited for");
}

/// The system reports them as regular files, and some of them act when they are written.
#[test]
fn kernel_files_are_no_devices() {
    let files = ["/proc/self/mem", "/proc/cpuinfo", "/sys/kernel/uevent_seqnum", "/sys/kernel/mm/ksm/run"];
    let read_only = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
    for path in files.map(Path::new).into_iter().filter(|path| path.is_file()) {
        let opened = FileDevice::open_with(path, read_only);
        assert!(matches!(opened, Err(DeviceError::NotADevice { .. })), "{}", path.display());
    }
}

#[test]
fn making_never_overwrites_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(FileDevice::create(&path, 1 << 20), Err(DeviceError::AlreadyThere { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let [none, vast] = ["none", "vast"].map(|name| dir.path().join(name));
    assert!(matches!(FileDevice::create(&none, 0), Err(DeviceError::TooSmall { .. })));
    // The length exceeds that of any file. The error number shows that free space is checked first:
    // otherwise it would be EFBIG. No space is taken in either case.
    let error = FileDevice::create_with(&vast, 1 << 62, true, OpenOptions::default()).unwrap_err();
    assert!(matches!(error, DeviceError::NoSpace { errno: 28, .. }), "{error}");
    assert!(!none.exists() && !vast.exists());
}

#[test]
fn a_made_file_is_sparse_or_reserved_as_told() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let [sparse, full] = ["sparse", "full"].map(|name| dir.path().join(name));
    let device = FileDevice::create(&sparse, (16 << 20) + 100).unwrap();
    assert_eq!(device.len_bytes(), 16 << 20, "whole blocks");
    FileDevice::create_with(&full, 16 << 20, true, OpenOptions::default()).unwrap();
    let taken = |path: &Path| std::fs::metadata(path).unwrap().blocks() * 512;
    assert!(taken(&sparse) < 1 << 20 && taken(&full) >= 16 << 20);
    // Zeroing allocates or keeps space, discarding frees it.
    device.zero(0, 8 << 20).unwrap();
    assert!(taken(&sparse) >= 8 << 20);
    device.discard(0, 16 << 20).unwrap();
    assert!(taken(&sparse) < 1 << 20);
}
