//! Reads of a reader, its limits, and its behaviour if a device does not answer.
//!
//! On a system without io_uring there is no reader, and a temporary folder without direct I/O has
//! no file for it. Then a test prints that and ends.

use pantile_device::{
    AlignedBuf, Device, Faulty, FileDevice, Layer, Layered, MemoryDevice, Mode, NotRead, READER_PARTS_MAX,
    ReadPart, Reader,
};
use std::io::{PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// A time limit that no test reaches.
const NEVER: Duration = Duration::MAX;

/// Content of a reader's buffers before it reads.
const UNREAD: u8 = 0xee;

/// Returns a reader and a device that it can read; `None`, with a message, if the system has none.
fn reader_of(path: &Path, len_bytes: u64) -> Option<(Reader, FileDevice)> {
    let file = FileDevice::create(path, len_bytes).unwrap();
    let reader = Reader::new();
    if reader.is_none() {
        println!("left out: the system has no io_uring for us");
    }
    let is_direct = file.mode() == Mode::Direct;
    if !is_direct {
        println!("left out: {} is not on a disk with direct I/O", path.display());
    }
    reader.filter(|_| is_direct).map(|reader| (reader, file))
}

fn buffers(lens: &[usize]) -> Vec<AlignedBuf> {
    let buffer = |&len: &usize| {
        let mut buffer = AlignedBuf::zeroed(len);
        buffer.fill(UNREAD);
        buffer
    };
    lens.iter().map(buffer).collect()
}

/// Reads some ranges of a device into 32 blocks, one after another.
fn read(
    reader: &mut Reader,
    device: &Arc<dyn Device>,
    places: &[(u64, usize)],
    at_most: Duration,
) -> Result<Vec<u8>, NotRead> {
    let mut end = 0;
    let part = |&(offset_bytes, len): &(u64, usize)| {
        let from = end;
        end += len;
        ReadPart { device, offset_bytes, len, buffer: 0, from }
    };
    let parts: Vec<ReadPart<'_>> = places.iter().map(part).collect();
    let mut buffers = buffers(&[32 * 4096]);
    let mut found: Vec<Option<Vec<u8>>> = vec![None; parts.len()];
    let begins = reader.is_free();
    let read = reader.read(&mut buffers, &parts, at_most, |part, bytes| {
        assert!(found[part].replace(bytes.to_vec()).is_none(), "each is shown once");
    });
    let has_them = begins && matches!(read, Err(NotRead::Late { .. }));
    assert_eq!(buffers.len(), usize::from(!has_them), "{read:?}");
    read?;
    let found = found.into_iter().map(|part| part.expect("all are shown")).collect::<Vec<_>>().concat();
    assert!(buffers[0][..end] == found && buffers[0][end..].iter().all(|&byte| byte == UNREAD));
    Ok(found)
}

#[test]
fn a_reader_reads_what_is_there_and_leaves_the_rest_to_a_pool() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut reader, file)) = reader_of(&dir.path().join("file"), 1 << 20) else { return };
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 512 * 7 + i) as u8).collect();
    std::fs::write(dir.path().join("file"), &content).unwrap();
    let file: Arc<dyn Device> = Arc::new(file);
    let all: Vec<(u64, usize)> =
        (0..READER_PARTS_MAX as u64).map(|i| ((i * 37 % 200) * 4096, 4096 << (i % 2))).collect();
    for places in [&[(0, 4096)][..], &[(4096 * 3, 8 * 4096)], &[((1 << 20) - 4096, 4096), (0, 4096)], &all] {
        let wanted: Vec<u8> =
            places.iter().flat_map(|&(at, len)| content[at as usize..at as usize + len].to_vec()).collect();
        assert!(read(&mut reader, &file, places, SOON).unwrap() == wanted, "{places:?}");
    }
    let good = (0, 4096);
    for bad in [(1, 4096), (0, 100), (0, 0), (0, 33 * 4096), (1 << 20, 4096), (u64::MAX - 4095, 4096)] {
        for places in [&[bad][..], &[good, bad], &[bad, good]] {
            assert_eq!(read(&mut reader, &file, places, SOON), Err(NotRead::Refused), "{places:?}");
        }
    }
    for places in [&[][..], &[good; READER_PARTS_MAX + 1], &[(0, 16 * 4096), good, (0, 16 * 4096)]] {
        assert_eq!(read(&mut reader, &file, places, SOON), Err(NotRead::Refused), "{places:?}");
    }
    // A file that has become shorter ends before its device.
    std::fs::OpenOptions::new().write(true).open(dir.path().join("file")).unwrap().set_len(4096).unwrap();
    assert_eq!(read(&mut reader, &file, &[good, (4096, 4096), good], SOON), Err(NotRead::Refused));
    assert!(read(&mut reader, &file, &[good], SOON).unwrap() == content[..4096]);
    let others: [Arc<dyn Device>; 2] =
        [Arc::new(MemoryDevice::new("memory", 1 << 20)), Arc::new(Faulty::new(file))];
    for other in others {
        assert_eq!(read(&mut reader, &other, &[good], SOON), Err(NotRead::Refused));
    }
}

#[test]
fn parts_go_where_they_belong_and_never_to_one_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let content: Vec<u8> = (0..16 * 4096).map(|i: u32| (i / 4096) as u8).collect();
    let Some((mut reader, file)) = reader_of(&path, 16 * 4096) else { return };
    let file: Arc<dyn Device> = Arc::new(file);
    std::fs::write(&path, &content).unwrap();
    let mut buffers = buffers(&[4 * 4096, 3 * 4096]);
    let part = |block: u64, blocks: usize, buffer, at: usize| ReadPart {
        device: &file,
        offset_bytes: block * 4096,
        len: blocks * 4096,
        buffer,
        from: at * 4096,
    };
    let parts = [part(9, 1, 1, 2), part(3, 2, 0, 1), part(12, 1, 0, 0), part(3, 1, 1, 1)];
    reader.read(&mut buffers, &parts, SOON, |_, _| ()).unwrap();
    let first_bytes = |buffer: &AlignedBuf| buffer.iter().step_by(4096).copied().collect::<Vec<u8>>();
    let found: Vec<Vec<u8>> = buffers.iter().map(first_bytes).collect();
    assert_eq!(found, [vec![12, 3, 4, UNREAD], vec![UNREAD, 3, 9]]);
    let off_a_block = ReadPart { from: 1, ..part(1, 1, 0, 0) };
    let bad: [&[ReadPart<'_>]; 6] = [
        &[part(1, 2, 0, 0), part(5, 1, 0, 1)],
        &[part(5, 1, 0, 1), part(1, 2, 0, 0)],
        &[part(1, 4, 1, 0)],
        &[part(1, 1, 0, 4)],
        &[part(1, 1, 2, 0)],
        &[off_a_block],
    ];
    for (number, bad) in bad.into_iter().enumerate() {
        let shown = |_, _: &[u8]| panic!("nothing is read");
        assert_eq!(reader.read(&mut buffers, bad, SOON, shown), Err(NotRead::Refused), "{number}");
        assert!(buffers.iter().map(first_bytes).eq(found.iter().cloned()), "{number}");
    }
}

/// A device whose file is a pipe.
struct Silent(PipeReader);

impl Layer for Silent {
    fn direct_file<'a>(&'a self, _: &'a dyn Device) -> Option<BorrowedFd<'a>> {
        Some(self.0.as_fd())
    }
}

#[test]
fn a_reader_that_gave_up_is_free_when_the_device_has_answered() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut reader, quick)) = reader_of(&dir.path().join("quick"), 4096) else { return };
    std::fs::write(dir.path().join("quick"), [5; 4096]).unwrap();
    let quick: Arc<dyn Device> = Arc::new(quick);
    let (pipe, mut writer) = std::io::pipe().unwrap();
    let silent = Arc::new(Layered::with(MemoryDevice::new("silent", 1 << 20), Silent(pipe)));
    let device: Arc<dyn Device> = silent.clone();
    let begun = Instant::now();
    let parts = [
        ReadPart { device: &quick, offset_bytes: 0, len: 4096, buffer: 0, from: 0 },
        ReadPart { device: &device, offset_bytes: 0, len: 4096, buffer: 1, from: 4096 },
    ];
    let mut buffers = buffers(&[4096, 2 * 4096]);
    let mut shown = Vec::new();
    let wait = Duration::from_millis(50);
    let late = reader.read(&mut buffers, &parts, wait, |part, bytes| shown.push((part, bytes[0])));
    assert_eq!((late, shown), (Err(NotRead::Late { part: 1 }), vec![(0, 5)]));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(!reader.is_free() && buffers.is_empty(), "the system may write to them");
    let again = read(&mut reader, &quick, &[(0, 4096)], Duration::ZERO);
    assert_eq!(again, Err(NotRead::Late { part: 1 }), "one at a time");
    writer.write_all(&[7; 4096]).unwrap();
    while !reader.is_free() {
        assert!(begun.elapsed() < SOON);
        std::thread::yield_now();
    }
    writer.write_all(&[8; 4096]).unwrap();
    assert!(read(&mut reader, &device, &[(0, 4096)], NEVER).unwrap() == [8; 4096]);
    drop(device);
    assert_eq!(Arc::strong_count(&silent), 1, "a reader that is free has no device");
    // A reader that is dropped earlier keeps the memory that the system may still write to.
    let device: Arc<dyn Device> = silent.clone();
    assert_eq!(read(&mut reader, &device, &[(0, 4096)], Duration::ZERO), Err(NotRead::Late { part: 0 }));
    drop((reader, device));
    assert_eq!(Arc::strong_count(&silent), 2);
    writer.write_all(&[9; 4096]).unwrap();
}
