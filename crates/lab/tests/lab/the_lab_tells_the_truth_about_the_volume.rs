//! `replay` predicts the blocks read and written on each device of a real volume, number for
//! number.

use pantile_code::{Code, Placement};
use pantile_device::{AlignedBuf, Device, DeviceError, FileDevice, Layer, Layered, OpKind, Operation};
use pantile_format::volume::{HistoryId, VolumeId};
use pantile_host::{Host, HostOptions};
use pantile_lab::replay::generate::{Pattern, Synthetic};
use pantile_lab::replay::{BLOCK_BYTES, Blocks, Cause, Circumstances, Counts, Driven, Request};
use pantile_volume::{Birth, DeviceState, DeviceStatus, Found, Geometry, NewVolume, Slot, format_volume};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A file whose blocks are counted.
type Watched = Layered<FileDevice, Watch>;

/// Blocks read and written.
#[derive(Default)]
struct Watch([AtomicU64; 2]);

impl Layer for Watch {
    fn around(
        &self,
        _within: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Operation { kind, len_bytes, .. } = operation;
        if matches!(kind, OpKind::Read | OpKind::Write) {
            self.0[usize::from(kind == OpKind::Write)].fetch_add(len_bytes / BLOCK_BYTES, SeqCst);
        }
        does(len_bytes)
    }
}

impl Watch {
    /// Returns the counts since the last call.
    fn take(&self) -> Blocks {
        let [read, written] = &self.0;
        Blocks { read: read.swap(0, SeqCst), written: written.swap(0, SeqCst) }
    }
}

const STRIPES: u32 = 12;

fn geometry(code: &str) -> Geometry {
    let code = Code::parse(code).expect("a code");
    Geometry::new(NewVolume {
        volume: VolumeId([3; 16]),
        placement: Placement::spread(&code),
        code,
        element_blocks: 4,
        logical_stripes: STRIPES,
        spare_stripes: 8,
        log_rows: 24,
        journal_blocks: 64,
    })
    .expect("a volume may have this shape")
}

fn devices(geometry: &Geometry, folder: &Path) -> Vec<Arc<Watched>> {
    let devices: Vec<Arc<Watched>> = (0..geometry.slots() as u32)
        .map(|slot| {
            let slot = Slot(slot);
            let path = folder.join(format!("device-{}", slot.0));
            let file = FileDevice::create(&path, geometry.device_blocks(slot) * BLOCK_BYTES).expect("a file");
            Arc::new(Layered::with(file, Watch::default()))
        })
        .collect();
    let birth = Birth { history: HistoryId([1; 16]), name: "lab".into(), created: 0 };
    for (slot, at, bytes) in format_volume(geometry, &birth).expect("formatted") {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        devices[slot.0 as usize].write_at(at.0 * BLOCK_BYTES, &[buffer.whole()]).expect("written");
    }
    devices
}

fn trace(geometry: &Geometry, requests: u64, seed: u64) -> Vec<Request> {
    let blocks = geometry.user_blocks();
    let made = Synthetic {
        pattern: Pattern::Tuples,
        requests,
        space: blocks * BLOCK_BYTES,
        element: BLOCK_BYTES,
        writes_per_cent: 50,
        gap_us: 1,
        seed,
    };
    // Some requests begin or end within a block.
    let cut = |(i, request): (usize, Request)| match i % 7 {
        3 if request.len > BLOCK_BYTES => {
            Request { offset: request.offset + 512, len: request.len - 1024, ..request }
        }
        5 => Request { len: 100, ..request },
        _ => request,
    };
    made.iter().enumerate().map(cut).collect()
}

/// Options without read-ahead, and with an idle time longer than any wait for a processor: writes
/// of an idle volume are not predicted.
fn options(devices: usize) -> HostOptions {
    let idle_after = Duration::from_secs(3600);
    HostOptions {
        reads_more: false,
        goes_around_slow: false,
        idle_after,
        ..HostOptions::for_devices(devices)
    }
}

const CODES: [&str; 14] = [
    "raid5:3",
    "raid6:4",
    "mirror:3",
    "rs:4+2",
    "raidq:4+3",
    "raidq:3+4",
    "cauchy:3+2",
    "shec:4,3,2",
    "lrc:4,2,1",
    "dcode:5",
    "xcode:5",
    "rdp:6",
    "hdp:4",
    "raidp:4",
];

/// Waits until the volume is idle; the next request then finds it in the same state as the lab's.
fn rest(host: &Host) {
    loop {
        let report = host.report().expect("it runs");
        let is_rebuilding = |device: &DeviceStatus| matches!(device.state, DeviceState::Rebuilding { .. });
        if report.ios + report.computations == 0 && !report.status.devices.iter().any(is_rebuilding) {
            return;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Writes every stripe of a new volume, then replays a trace on it: from the first write on every
/// block of every device counts, including those of the journal.
fn check_driven(code: &str, circumstances: &Circumstances, requests: u64) -> Counts {
    let geometry = geometry(code);
    let folder = tempfile::tempdir().expect("a folder");
    let devices = devices(&geometry, folder.path());
    let there = devices.iter().map(|device| Some(Arc::clone(device) as Arc<dyn Device>)).collect();
    let options = options(devices.len());
    let host = Host::open(geometry.clone(), there, HistoryId([1; 16]), &options).expect("opened");
    let handle = host.handle();
    rest(&host);
    devices.iter().for_each(|device| _ = device.layer().take());
    let mut driven = Driven::on_nothing(geometry.clone(), circumstances.clone()).expect("survivable");
    let stripe_bytes = geometry.stripe_blocks() * BLOCK_BYTES;
    let fill =
        |stripe: u64| Request { at_us: 0, offset: stripe * stripe_bytes, len: stripe_bytes, is_write: true };
    let filling = (0..u64::from(STRIPES)).map(fill);
    let mut model = vec![0u8; (geometry.user_blocks() * BLOCK_BYTES) as usize];
    let slots: Vec<Slot> = circumstances.lost.iter().map(|&slot| Slot(slot as u32)).collect();
    for (i, request) in filling.chain(trace(&geometry, requests, 5)).enumerate() {
        driven.push(&request);
        let number = i as u64;
        if number == circumstances.lost_at {
            for &slot in &slots {
                host.fail(slot).expect("failed");
                rest(&host);
            }
        }
        if circumstances.rebuilt_at == Some(number) {
            handle.flush().expect("flushed");
            rest(&host);
            for &slot in &slots {
                let device = &devices[slot.0 as usize];
                // Records of the attached device are written before the rebuild, as on a slow
                // disk: if the rebuild ended before its beginning is recorded, one record would
                // hold both.
                host.set_throttle(Some(1)).expect("it runs");
                host.attach(slot, Arc::clone(device) as Arc<dyn Device>, Found::Blank).expect("it comes");
                while host.report().is_ok_and(|report| report.ios > report.ios_waiting) {
                    std::thread::sleep(Duration::from_micros(20));
                }
                host.set_throttle(None).expect("it runs");
                rest(&host);
            }
        }
        let range = request.offset as usize..(request.offset + request.len) as usize;
        if request.is_write {
            let content: Vec<u8> = range.clone().map(|at| (at * 31 + i * 13) as u8).collect();
            handle.write(request.offset, &content, false).expect("written");
            model[range].copy_from_slice(&content);
        } else {
            let mut content = vec![0; request.len as usize];
            handle.read(request.offset, &mut content).expect("read");
            assert!(content == model[range], "{code}: wrong bytes");
        }
        rest(&host);
        if (number + 1).is_multiple_of(circumstances.flush_every) {
            handle.flush().expect("flushed");
            rest(&host);
        }
    }
    handle.flush().expect("flushed");
    rest(&host);
    let (counts, _) = driven.finish();
    assert_eq!(counts.refused, 0, "{code}");
    let found: Vec<Blocks> = devices.iter().map(|device| device.layer().take()).collect();
    assert_eq!(counts.per_device(), found, "{code}, {circumstances:?}: predicted, found");
    host.stop().expect("stopped");
    counts
}

fn all_the_time(flush_every: u64) -> Circumstances {
    Circumstances { flush_every, lost: Vec::new(), lost_at: 0, rebuilt_at: None, rebuild_pace: None }
}

#[test]
fn a_volume_that_moves_what_is_written_does_what_was_predicted() {
    for code in CODES {
        let counts = check_driven(code, &all_the_time(7), 300);
        let moved = counts.of(Cause::MoveBack);
        assert!(moved.read > 0 && moved.written > 0, "{code}: the log has been emptied: {moved:?}");
    }
}

#[test]
fn a_volume_that_is_rebuilt_during_a_trace_does_what_was_predicted() {
    let circumstances = Circumstances {
        flush_every: 3,
        lost: vec![1],
        lost_at: 60,
        rebuilt_at: Some(170),
        rebuild_pace: None,
    };
    for code in CODES {
        let counts = check_driven(code, &circumstances, 250);
        let rebuilt = counts.of(Cause::Rebuild);
        assert!(rebuilt.read > 0 && rebuilt.written > 0, "{code}: {rebuilt:?}");
    }
    let two = Circumstances { lost: vec![0, 2], ..circumstances.clone() };
    for code in ["raid6:4", "dcode:5", "raidp:4"] {
        check_driven(code, &two, 250);
    }
}

#[test]
fn a_volume_that_is_degraded_all_the_time_does_what_was_predicted() {
    let circumstances = Circumstances { lost: vec![1], lost_at: u64::from(STRIPES), ..all_the_time(5) };
    CODES.iter().for_each(|code| _ = check_driven(code, &circumstances, 150));
}

/// Runs everything at length: `-- --ignored`.
#[test]
#[ignore = "takes some ten minutes"]
fn ten_thousand_requests_on_every_code() {
    let rebuilt = Circumstances {
        flush_every: 16,
        lost: vec![1],
        lost_at: 2000,
        rebuilt_at: Some(6000),
        rebuild_pace: None,
    };
    for code in CODES {
        check_driven(code, &all_the_time(16), 10_000);
        check_driven(code, &rebuilt, 10_000);
    }
}
