//! Every fault of a device is reported to the caller as the error with the right remedy.

use pantile_device::*;
use std::path::Path;
use std::time::{Duration, Instant};

const EIO: i32 = 5;
const ENXIO: i32 = 6;
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENODATA: i32 = 61;
const ENOTCONN: i32 = 107;
const EDQUOT: i32 = 122;

fn device() -> Faulty<MemoryDevice> {
    Faulty::new(MemoryDevice::new("disk 3", 1 << 20))
}

fn painted(len: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(len);
    buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251 + 1) as u8);
    buffer
}

#[test]
fn numbers_of_the_system_become_remedies() {
    let expected = [
        (EIO, Remedy::RepairRange),
        (ENODATA, Remedy::RepairRange),
        (ENXIO, Remedy::DropDevice),
        (ENODEV, Remedy::DropDevice),
        (ENOTCONN, Remedy::DropDevice),
        (EROFS, Remedy::DropDevice),
        (ENOSPC, Remedy::MakeSpace),
        (EDQUOT, Remedy::MakeSpace),
        (ENOMEM, Remedy::Retry),
        (9999, Remedy::DropDevice),
    ];
    let (device, mut buffer) = (device(), painted(8192));
    for (nth, (errno, remedy)) in (1..).zip(expected) {
        for kind in [OpKind::Read, OpKind::Write, OpKind::Zero, OpKind::Discard, OpKind::Flush] {
            device.fail_nth(kind, nth, Fault::Errno(errno));
        }
        let results = [
            device.read_at(4096, buffer.whole_mut()),
            device.write_at(4096, &[buffer.whole()]),
            device.zero(4096, 8192),
            device.discard(4096, 8192),
        ];
        for (result, op) in
            results.into_iter().zip([OpKind::Read, OpKind::Write, OpKind::Zero, OpKind::Discard])
        {
            let error = result.unwrap_err();
            assert_eq!(error.remedy(), remedy, "{error}");
            let site = Site { device: "disk 3".into(), op, offset_bytes: 4096, len_bytes: 8192 };
            assert_eq!(*error.at(), site);
            let words = error.to_string();
            assert!(words.contains("disk 3") && words.contains("4096") && words.contains(';'), "{words}");
        }
        // After a failed flush, with any error number, every later flush fails.
        let error = device.flush().unwrap_err();
        assert_eq!(
            (error.remedy(), matches!(error, DeviceError::FlushFailed { .. })),
            (Remedy::DropDevice, true)
        );
    }
}

#[test]
fn only_the_planned_operation_fails() {
    let (device, mut buffer) = (device(), painted(4096));
    device.fail_nth(OpKind::Write, 3, Fault::Errno(EIO));
    let results: Vec<_> = (0..5).map(|_| device.write_at(0, &[buffer.whole()]).is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
    device.fail_from(OpKind::Read, 2, Fault::Errno(ENODEV));
    let mut read = || device.read_at(0, buffer.whole_mut()).is_ok();
    assert_eq!([read(), read(), read()], [true, false, false]);
    device.heal();
    assert!(device.read_at(0, buffer.whole_mut()).is_ok());
}

#[test]
fn torn_short_lost_and_late_writes_leave_what_they_say() {
    let buffer = painted(8192);
    let written = |device: &Faulty<MemoryDevice>| {
        let mut found = AlignedBuf::zeroed(8192);
        device.inner().read_at(0, found.whole_mut()).unwrap();
        let same = found.chunks(512).zip(buffer.chunks(512)).take_while(|(new, old)| new == old).count();
        assert!(found[same * 512..].iter().all(|&byte| byte == 0));
        same * 512
    };
    for (fault, left) in
        [(Fault::Torn(1536), 1536), (Fault::Short(4608), 4608), (Fault::Lost, 0), (Fault::Errno(EIO), 0)]
    {
        let device = device();
        device.fail_nth(OpKind::Write, 1, fault);
        let parts = [buffer.part(0..1024), buffer.part(1024..8192)];
        let result = device.write_at(0, &parts);
        match fault {
            Fault::Torn(_) => assert!(matches!(result, Err(DeviceError::Media { errno: EIO, .. }))),
            Fault::Short(_) => assert!(matches!(result, Err(DeviceError::Truncated { end_bytes: 4608, .. }))),
            Fault::Lost => assert!(result.is_ok()),
            _ => assert!(matches!(result, Err(DeviceError::Media { .. }))),
        }
        assert_eq!(written(&device), left, "{fault:?}");
    }
    let device = device();
    device.fail_nth(OpKind::Write, 1, Fault::Delay(Duration::from_millis(30)));
    let begun = Instant::now();
    device.write_at(0, &[buffer.whole()]).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(30));
    assert_eq!(written(&device), 8192);
}

#[test]
fn errors_reach_the_completion_with_the_buffer() {
    let device = device();
    device.fail_nth(OpKind::Read, 1, Fault::Errno(EIO));
    let pool = IoPool::new(PoolOptions::default());
    pool.attach(std::sync::Arc::new(device)).unwrap();
    let op = Op::Read { offset_bytes: 512, buffer: painted(4096), range: 1024..2048 };
    pool.submit(Request { token: 77, device: 0, priority: Priority::User, op }).unwrap();
    let mut done = Vec::new();
    pool.wait(&mut done, Instant::now() + Duration::from_secs(10));
    let Completion { token, result, op, .. } = done.pop().unwrap();
    assert!(
        matches!(&result, Err(DeviceError::Media { at, .. }) if (at.offset_bytes, at.len_bytes) == (512, 1024))
    );
    let Op::Read { buffer, .. } = op else { panic!("it was a read") };
    assert_eq!((token, buffer.len()), (77, 4096));
}

fn every_kind(dir: &Path) -> Vec<Box<dyn Device>> {
    let buffered = OpenOptions { caching: Caching::Buffered, ..Default::default() };
    vec![
        Box::new(FileDevice::create(dir.join("direct"), 1 << 20).unwrap()),
        Box::new(FileDevice::create_with(dir.join("buffered"), 1 << 20, false, buffered).unwrap()),
        Box::new(MemoryDevice::with_block_len("memory", 1 << 20, 4096)),
    ]
}

#[test]
fn requests_off_the_blocks_or_the_device_are_refused_untried() {
    let dir = tempfile::tempdir().unwrap();
    for device in every_kind(dir.path()) {
        let (block, end) = (device.block_len_bytes() as usize, device.len_bytes());
        let mut buffer = painted(4 * block);
        let misaligned =
            |result| assert!(matches!(result, Err(DeviceError::Misaligned { .. })), "{result:?}");
        let outside = |result| assert!(matches!(result, Err(DeviceError::OutOfRange { .. })), "{result:?}");
        misaligned(device.read_at(1, buffer.part_mut(0..block)));
        misaligned(device.read_at(0, buffer.part_mut(0..block - 1)));
        misaligned(device.read_at(0, buffer.part_mut(256..block + 256)));
        misaligned(device.write_at(0, &[buffer.part(0..block / 2), buffer.part(block / 2..block)]));
        misaligned(device.write_at(block as u64 / 2, &[buffer.part(0..block)]));
        misaligned(device.zero(0, 100));
        misaligned(device.discard(100, block as u64));
        outside(device.read_at(end, buffer.part_mut(0..block)));
        outside(device.write_at(end - block as u64, &[buffer.part(0..block), buffer.part(0..block)]));
        outside(device.zero(0, end + block as u64));
        outside(device.discard(u64::MAX - (block as u64 - 1), block as u64));
        outside(device.read_at(u64::MAX - (block as u64 - 1), buffer.part_mut(0..block)));
        // None of these operations had an effect. An operation of length 0 succeeds.
        device.read_at(0, buffer.whole_mut()).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0));
        device.read_at(end, buffer.part_mut(0..0)).unwrap();
        device.write_at(0, &[]).unwrap();
        device.zero(end, 0).unwrap();
        device.discard(0, 0).unwrap();
    }
}

#[test]
fn a_file_cut_under_us_is_an_error_and_never_zeros() {
    let dir = tempfile::tempdir().unwrap();
    for caching in [Caching::Auto, Caching::Buffered] {
        let path = dir.path().join(format!("{caching:?}"));
        let device =
            FileDevice::create_with(&path, 1 << 20, false, OpenOptions { caching, ..Default::default() })
                .unwrap();
        let mut buffer = painted(65536);
        device.write_at(0, &[buffer.whole()]).unwrap();
        device.flush().unwrap();
        // The file is truncated within a block, as by a faulty program.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(40_000).unwrap();
        device.read_at(0, buffer.part_mut(0..36_864)).unwrap();
        for (offset, len) in [(32_768, 32_768), (36_864, 4096), (40_960, 4096), (1 << 19, 65_536)] {
            let error = device.read_at(offset, buffer.part_mut(0..len)).unwrap_err();
            let DeviceError::Truncated { end_bytes, device_len_bytes, .. } = error else { panic!("{error}") };
            assert!(end_bytes <= offset.max(40_000) && device_len_bytes == 1 << 20, "{end_bytes}");
            assert_eq!(error.remedy(), Remedy::DropDevice);
        }
        let error = device.flush().unwrap_err();
        assert!(matches!(error, DeviceError::Truncated { end_bytes: 40_000, .. }), "{error}");
    }
}

#[test]
fn a_full_file_system_is_no_space() {
    // A separate file system of 1 MiB; needs root.
    let dir = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: may not mount");
    }
    let device = FileDevice::create(dir.path().join("disk"), 1 << 22).unwrap();
    let result = device.write_at(0, &[painted(1 << 22).whole()]);
    drop(device);
    assert!(std::process::Command::new("umount").arg(dir.path()).status().unwrap().success());
    let error = result.unwrap_err();
    assert!(matches!(error, DeviceError::NoSpace { errno: ENOSPC, .. }), "{error}");
}
