//! Volumes in folders: served, and controlled by orders.
#![allow(dead_code, reason = "each test uses its part")]

use pantile_code::Code;
use pantile_device::FileDevice;
use pantile_host::{Answer, Folder, NewDevices, NewFolder, Order, Service, StatusReport, Verdict};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Returns the parameters of a new volume of a code.
pub fn new(code: &str, devices: NewDevices) -> NewFolder {
    NewFolder::new(Code::parse(code).expect("a spec"), devices)
}

/// Makes a new volume of 8 MiB.
pub fn create(root: &Path) {
    let made = Folder::create(root, &new("raid6:4", NewDevices::Made { user_bytes: 8 << 20 }));
    drop(made.expect("a volume"));
}

/// Opens the volume of a folder.
pub fn start(root: &Path) -> Service {
    Service::start(Folder::open(root).expect("a folder"), None).expect("it opens")
}

/// Returns a temporary folder, and a volume that is served in it.
pub fn served() -> (TempDir, PathBuf, Service) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let service = start(&root);
    (folder, root, service)
}

/// Returns the status of a volume.
pub fn status(service: &Service) -> StatusReport {
    match service.obey(&Order::Status) {
        Answer::Status(report) => *report,
        other => panic!("no status: {other:?}"),
    }
}

/// Checks that an order was executed.
pub fn done(answer: Answer) {
    assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
}

/// Reads the first bytes of a volume.
pub fn read(service: &Service, len: usize) -> Vec<u8> {
    let mut found = vec![0; len];
    service.handle().read(0, &mut found).expect("it reads");
    found
}

/// Removes these devices and reads everything.
pub fn is_read_without(service: &Service, devices: [u32; 2], data: &[u8]) {
    for device in devices {
        done(service.obey(&Order::Fail { device, lose_data: false }));
    }
    assert!(read(service, data.len()) == data);
}

/// Waits until the volume is clean: no other time limit applies to a rebuild.
pub fn until_clean(service: &Service) {
    until(service, |status| status.verdict == Verdict::Clean && status.rebuild.is_none());
}

/// Waits until the status fulfils a condition.
pub fn until(service: &Service, is_so: impl Fn(&StatusReport) -> bool) {
    let begun = Instant::now();
    while !is_so(&status(service)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", status(service));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a file to be used as a device.
pub fn file(path: PathBuf, len: u64) -> PathBuf {
    drop(FileDevice::create(&path, len).expect("a file"));
    path
}

/// Returns the path of the device of a slot in the folder of a volume.
pub fn device_path(root: &Path, slot: usize) -> PathBuf {
    root.join(format!("device-{slot:02}.pantile"))
}
