//! Measures the speed of a volume and of plain positioned I/O on a file of the same file system, in
//! one run. Both run in turns, some operations at a time, because disks and processors that others
//! use, too, change their speed within seconds.
//!
//! `cargo run --release -p pantile-host --example speed -- DIR [CODE] [ROUNDS]`
//!
//! Plain is a loop over one `FileDevice`, with four threads for sequential and 32 for random work,
//! and buffers in huge pages like those of the volume. The last column is the share of the possible
//! speed. For a write of the whole volume only k of n bytes are the user's, and here all devices
//! are on one disk, so plain is multiplied by k / n. That write is also compared with plain writes
//! of as many files as there are devices, which is the limit of the devices.

use pantile_code::Code;
use pantile_device::{AlignedBuf, BufferPool, Device, FileDevice};
use pantile_format::volume::{HistoryId, VolumeId};
use pantile_host::{Handle, Host, HostOptions, usual_geometry};
use pantile_volume::{BLOCK_BYTES, Birth, Slot, format_volume};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const MIB: u64 = 1 << 20;
const SEQUENTIAL: u64 = MIB;

/// Number of writes that fit into the log of such a volume.
const BURST: u64 = 8000;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("DIR: a folder on the file system to measure");
    let code = args.next().unwrap_or_else(|| "raid6:6".into());
    let rounds: usize = args.next().map_or(3, |text| text.parse().expect("ROUNDS is a number"));
    let dir = Path::new(&dir);
    let code = Code::parse(&code).expect("CODE is a code");
    let (k, n) = (code.data().len() as f64, code.cell_count() as f64);
    let geometry = usual_geometry(&code, VolumeId([9; 16]), 1024 * MIB).expect("a geometry");
    let user = geometry.user_blocks() * BLOCK_BYTES / SEQUENTIAL * SEQUENTIAL;
    let devices: Vec<Option<Arc<dyn Device>>> = (0..geometry.slots() as u32)
        .map(|slot| {
            let path = dir.join(format!("speed-{slot}"));
            let _ = std::fs::remove_file(&path);
            let len = geometry.device_blocks(Slot(slot)) * BLOCK_BYTES;
            Some(Arc::new(FileDevice::create(&path, len).expect("a device")) as Arc<dyn Device>)
        })
        .collect();
    let birth = Birth { history: HistoryId([1; 16]), name: "speed".into(), created: 0 };
    for (slot, at, bytes) in format_volume(&geometry, &birth).expect("a format") {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        let device = devices[slot.0 as usize].as_ref().expect("there");
        device.write_at(at.0 * BLOCK_BYTES, &[buffer.whole()]).expect("written");
    }
    let plain_path = dir.join("speed-plain");
    let _ = std::fs::remove_file(&plain_path);
    let plain = FileDevice::create(&plain_path, user).expect("a file");
    let beside_path = |slot: usize| dir.join(format!("speed-beside-{slot}"));
    let beside: Vec<FileDevice> = (0..geometry.slots())
        .map(|slot| {
            let _ = std::fs::remove_file(beside_path(slot));
            FileDevice::create(beside_path(slot), user / k as u64 + SEQUENTIAL).expect("a file")
        })
        .collect();
    let buffers = BufferPool::new(64 << 20);
    let buffer_of = |len: usize| buffers.take(len).expect("32 at a time, and few of them long");
    let open = |missing: &[usize]| {
        let mut there = devices.clone();
        missing.iter().for_each(|&slot| there[slot] = None);
        let options = HostOptions::for_devices(there.len());
        Host::open(geometry.clone(), there, HistoryId([fastrand::u8(1..); 16]), &options).expect("opened")
    };
    println!("{} on {}: {} MiB, medians of {rounds}", geometry.code.spec(), dir.display(), user / MIB);
    println!("{:40} {:>12} {:>12} {:>7} {:>9}", "", "plain", "volume", "ratio", "of limit");
    let mut rows: Vec<(&str, Vec<f64>, Vec<f64>, f64)> = Vec::new();
    let mut note = |name: &'static str, plain: f64, volume: f64, limit: f64| match rows
        .iter_mut()
        .find(|row| row.0 == name)
    {
        Some(row) => {
            row.1.push(plain);
            row.2.push(volume);
        }
        None => rows.push((name, vec![plain], vec![volume], limit)),
    };
    for round in 0..rounds {
        let pattern: Vec<u8> = (0..SEQUENTIAL).map(|i| (i * 31 + round as u64 + (i >> 9)) as u8).collect();
        let write_to = |file: &FileDevice, offset: u64, bytes: &[u8]| {
            let mut buffer = buffer_of(bytes.len());
            buffer.copy_from_slice(bytes);
            file.write_at(offset, &[buffer.whole()]).expect("written");
        };
        let plain_read = |offset: u64, len: usize| {
            let mut buffer = buffer_of(len);
            plain.read_at(offset, buffer.whole_mut()).expect("read");
            look_at(&buffer);
        };
        let host = open(&[]);
        let handle = host.handle();
        let count = user / SEQUENTIAL;
        let files = beside.len() as u64;
        let base = |i| write_to(&plain, i * SEQUENTIAL, &pattern);
        let many = |i| write_to(&beside[(i % files) as usize], i / files * SEQUENTIAL, &pattern);
        let volume = |i| handle.write(i * SEQUENTIAL, &pattern, false).expect("written");
        let [base, many, volume] = in_turns(
            count,
            256,
            [
                Users::new(4, &base).end(&|| plain.flush().expect("flushed")),
                Users::new(files, &many)
                    .end(&|| beside.iter().for_each(|file| file.flush().expect("flushed"))),
                Users::new(4, &volume).end(&|| handle.flush().expect("flushed")),
            ],
        );
        note("sequential write, MiB/s", base, volume, k / n);
        note("the same, beside as many files", many, volume, k / n);
        let into = |handle: &Handle, offset: u64, len: usize| {
            let mut buffer = buffer_of(len);
            handle.read(offset, &mut buffer).expect("read");
            look_at(&buffer);
        };
        let sequential_reads = |handle: &Handle| {
            let one = SEQUENTIAL as usize;
            let plainly = |i: u64| plain_read(i * SEQUENTIAL, one);
            let unseen = |i: u64| plain.read_at(i * SEQUENTIAL, buffer_of(one).whole_mut()).expect("read");
            let copied = |i: u64| into(handle, i * SEQUENTIAL, one);
            let volume = |i: u64| look_at(&handle.read_buffer(i * SEQUENTIAL, buffer_of(one)).expect("read"));
            in_turns(
                count,
                64,
                [&plainly as Work<'_>, &unseen, &volume, &copied].map(|work| Users::new(4, work)),
            )
        };
        let [base, unseen, volume, copied] = sequential_reads(&handle);
        note("sequential read, MiB/s", base, volume, 1.0);
        note("the same, beside what nobody looks at", unseen, volume, 1.0);
        note("sequential read, copied, MiB/s", base, copied, 1.0);
        host.fail(Slot(0)).expect("it is there");
        let [base, unseen, volume, copied] = sequential_reads(&handle);
        note("a device dies: sequential read, MiB/s", base, volume, 1.0);
        note("that, beside what nobody looks at", unseen, volume, 1.0);
        note("a device dies: copied, MiB/s", base, copied, 1.0);
        host.stop().expect("stopped");
        let host = open(&[0]);
        let handle = host.handle();
        let [base, _, volume, _] = sequential_reads(&handle);
        note("opened without it: the first read, MiB/s", base, volume, 1.0);
        // The whole volume is written again, so that the device lacks everything when the next
        // opening takes it back.
        let again = |i| handle.write(i * SEQUENTIAL, &pattern, false).expect("written");
        let base = speed(4, user / SEQUENTIAL, |i| plain_read(i * SEQUENTIAL, SEQUENTIAL as usize), || ());
        speed(4, user / SEQUENTIAL, again, || handle.flush().expect("flushed"));
        host.kill();
        let begun = Instant::now();
        let host = open(&[]);
        while !host.is_clean().expect("served") {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let bytes = user as f64 / k * (n / geometry.slots() as f64);
        // For each rebuilt block k blocks are read and one is written.
        let rebuilt = bytes / MIB as f64 / begun.elapsed().as_secs_f64();
        note("rebuild of one device, MiB/s", base, rebuilt, 1.0 / (k + 1.0));
        host.stop().expect("stopped");
        let host = open(&[]);
        let handle = host.handle();
        let places = |i: u64| fastrand::Rng::with_seed(i).u64(..user / 4096) * 4096;
        let plainly = |i| plain_read(places(i), 4096);
        let volume = |i| into(&handle, places(i), 4096);
        // The first of these reads in each chunk also reads the header of the chunk.
        let [base, cold] =
            in_turns(20_000, 2_500, [&plainly as Work<'_>, &volume].map(|work| Users::new(32, work)));
        note("random 4 KiB read, cold, op/s", base, cold, 1.0);
        (0..user / SEQUENTIAL).for_each(|i| into(&handle, i * SEQUENTIAL, SEQUENTIAL as usize));
        let [base, warm] =
            in_turns(20_000, 2_500, [&plainly as Work<'_>, &volume].map(|work| Users::new(32, work)));
        note("random 4 KiB read, warm, 32 at once", base, warm, 1.0);
        let block = &pattern[..4096];
        let plain_durable = |count: u64| {
            let write = |i| {
                write_to(&plain, places(i), block);
                plain.flush().expect("flushed");
            };
            speed(8, count, write, || ())
        };
        let durable =
            |count: u64| speed(8, count, |i| handle.write(places(i), block, true).expect("written"), || ());
        let (base, volume) = (plain_durable(2000), durable(2000));
        note("random 4 KiB FUA, op/s, 8 at once", base, volume, 1.0);
        let base =
            speed(32, BURST, |i| write_to(&plain, places(i), block), || plain.flush().expect("flushed"));
        let volume = speed(
            32,
            BURST,
            |i| handle.write(places(i), block, false).expect("written"),
            || {
                handle.flush().expect("flushed");
            },
        );
        note("random 4 KiB write, op/s, burst", base, volume, 1.0);
        let (base, volume) = (plain_durable(500), durable(500));
        note("random 4 KiB FUA behind those", base, volume, 1.0);
        host.stop().expect("stopped");
        // Blocks that are in the log are not adjacent to their neighbours.
        for (name, missing) in
            [("sequential read after those, MiB/s", &[][..]), ("the same, degraded, MiB/s", &[0][..])]
        {
            let host = open(missing);
            let [base, _, volume, _] = sequential_reads(&host.handle());
            note(name, base, volume, 1.0);
            host.stop().expect("stopped");
        }
    }
    for (name, mut base, mut volume, limit) in rows {
        let ratio = median(&mut volume) / median(&mut base);
        println!(
            "{name:40} {:>12.0} {:>12.0} {ratio:>7.2} {:>9.2}",
            median(&mut base),
            median(&mut volume),
            ratio / limit
        );
    }
    (0..geometry.slots()).for_each(|slot| {
        let _ = std::fs::remove_file(dir.join(format!("speed-{slot}")));
        let _ = std::fs::remove_file(beside_path(slot));
    });
    let _ = std::fs::remove_file(plain_path);
}

/// Returns the operations a second of `count` operations on some threads, including the end. With
/// operations of 1 MiB that is MiB/s.
fn speed(threads: u64, count: u64, operation: impl Fn(u64) + Sync, end: impl Fn()) -> f64 {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    operation(i);
                }
            });
        }
    });
    end();
    count as f64 / begun.elapsed().as_secs_f64()
}

/// A repeated task; its argument is the number of the repetition.
type Work<'w> = &'w (dyn Fn(u64) + Sync);

/// Threads that repeat one task, and a task for their end.
#[derive(Clone, Copy)]
struct Users<'w> {
    threads: u64,
    work: Work<'w>,
    end: &'w dyn Fn(),
}

impl<'w> Users<'w> {
    fn new(threads: u64, work: Work<'w>) -> Users<'w> {
        Users { threads, work, end: &|| () }
    }

    fn end(self, end: &'w dyn Fn()) -> Users<'w> {
        Users { end, ..self }
    }
}

/// Returns the operations a second of each of several tasks. They run in turns: `some` operations
/// of the first, as many of each other one, and so on, each time with the end.
fn in_turns<const N: usize>(count: u64, some: u64, users: [Users<'_>; N]) -> [f64; N] {
    let mut seconds = [0.0; N];
    for first in (0..count).step_by(some as usize) {
        let some = some.min(count - first);
        for (seconds, users) in seconds.iter_mut().zip(users) {
            *seconds += some as f64 / speed(users.threads, some, |i| (users.work)(first + i), users.end);
        }
    }
    seconds.map(|seconds| count as f64 / seconds)
}

/// Touches one byte of each cache line, as a reader would.
fn look_at(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(64).fold(0, |sum, byte| sum ^ byte));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
