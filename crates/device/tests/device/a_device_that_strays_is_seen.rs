//! Paths and lengths that change below an open device.

use pantile_device::{Device, FileDevice, Standing};

#[test]
fn a_file_deleted_renamed_exchanged_or_cut_under_a_device_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let [path, aside] = ["d", "aside"].map(|name| folder.path().join(name));
    let device = FileDevice::create(&path, 1 << 20).unwrap();
    assert_eq!(device.standing(), Standing::Kept);
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(device.standing(), Standing::NameGone);
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    assert_eq!(device.standing(), Standing::Replaced);
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(device.standing(), Standing::Kept);
    // A link at the path that leads to the file is equivalent to the file.
    std::fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    assert_eq!(device.standing(), Standing::Kept);
    let file = std::fs::OpenOptions::new().write(true).open(&aside).unwrap();
    file.set_len(4096).unwrap();
    assert_eq!(device.standing(), Standing::Truncated { have_bytes: 4096, need_bytes: 1 << 20 });
    file.set_len(1 << 21).unwrap();
    assert_eq!(device.standing(), Standing::Kept, "longer is no harm");
    std::fs::remove_file(&aside).unwrap();
    assert_eq!(device.standing(), Standing::Deleted);
}

/// A device is closed by another thread, but can be opened again as soon as it was dropped.
#[test]
fn a_device_is_closed_when_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d");
    drop(FileDevice::create(&path, 1 << 20).unwrap());
    for _ in 0..50 {
        drop(FileDevice::open(&path).unwrap());
    }
}
