//! What a reader reads, what it leaves to a pool, and what it does when nobody answers.

use pantile_device::{Device, Faulty, FileDevice, Layer, Layered, MemoryDevice, Mode, NotRead, Reader};
use std::io::{PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_reader_reads_what_is_there_and_leaves_the_rest_to_a_pool() {
    let dir = tempfile::tempdir().unwrap();
    let file = FileDevice::create(dir.path().join("file"), 1 << 20).unwrap();
    assert_eq!(file.mode(), Mode::Direct, "{}: the test has to lie on a disk", dir.path().display());
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 512 * 7 + i) as u8).collect();
    std::fs::write(dir.path().join("file"), &content).unwrap();
    let file: Arc<dyn Device> = Arc::new(file);
    let mut reader = Reader::new(8 * 4096).expect("the system has io_uring");
    for (at, len) in [(0, 4096), (4096 * 3, 8 * 4096), ((1 << 20) - 4096, 4096)] {
        let found = reader.read(&file, at, len, SOON).unwrap();
        assert!(found == &content[at as usize..at as usize + len], "{at} + {len}");
    }
    for (at, len) in [(1, 4096), (0, 100), (0, 0), (0, 9 * 4096), (1 << 20, 4096), (u64::MAX - 4095, 4096)] {
        assert_eq!(reader.read(&file, at, len, SOON), Err(NotRead::Refused), "{at} + {len}");
    }
    // A file that has become shorter ends before the device does.
    std::fs::OpenOptions::new().write(true).open(dir.path().join("file")).unwrap().set_len(4096).unwrap();
    assert_eq!(reader.read(&file, 4096, 4096, SOON), Err(NotRead::Refused));
    assert!(reader.read(&file, 0, 4096, SOON).unwrap() == &content[..4096]);
    let others: [Arc<dyn Device>; 2] =
        [Arc::new(MemoryDevice::new("memory", 1 << 20)), Arc::new(Faulty::new(file))];
    for other in others {
        assert_eq!(reader.read(&other, 0, 4096, SOON), Err(NotRead::Refused));
    }
}

/// The file is a pipe.
struct Silent(PipeReader);

impl Layer for Silent {
    fn direct_file<'a>(&'a self, _: &'a dyn Device) -> Option<BorrowedFd<'a>> {
        Some(self.0.as_fd())
    }
}

#[test]
fn a_reader_that_gave_up_is_free_when_the_device_has_answered() {
    let (pipe, mut writer) = std::io::pipe().unwrap();
    let silent = Arc::new(Layered::with(MemoryDevice::new("silent", 1 << 20), Silent(pipe)));
    let device: Arc<dyn Device> = silent.clone();
    let mut reader = Reader::new(4096).expect("the system has io_uring");
    let begun = Instant::now();
    let late = reader.read(&device, 0, 4096, Duration::from_millis(50));
    assert_eq!(late, Err(NotRead::Late));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(!reader.is_free());
    assert_eq!(reader.read(&device, 0, 4096, Duration::ZERO), Err(NotRead::Late), "one at a time");
    writer.write_all(&[7; 4096]).unwrap();
    while !reader.is_free() {
        assert!(begun.elapsed() < SOON);
        std::thread::yield_now();
    }
    writer.write_all(&[8; 4096]).unwrap();
    assert!(reader.read(&device, 0, 4096, SOON).unwrap() == [8; 4096]);
    drop(device);
    assert_eq!(Arc::strong_count(&silent), 1, "a reader that is free has no device");
    // One that is dropped before keeps what the system may still write to.
    let device: Arc<dyn Device> = silent.clone();
    assert_eq!(reader.read(&device, 0, 4096, Duration::ZERO), Err(NotRead::Late));
    drop((reader, device));
    assert_eq!(Arc::strong_count(&silent), 2);
    writer.write_all(&[9; 4096]).unwrap();
}
