//! Measures the cost of [`IoPool`]: the same direct I/O through threads, through the ring, and
//! through plain loops of pread and pwrite.
//!
//!   cargo run --release -p pantile-device --example io [-- DIR [ROUNDS [WORKERS]]]
//!
//! One file of 256 MiB in DIR, opened with O_DIRECT and written once. Rounds are interleaved; each
//! measures plain, then threads, then the ring, for half a second each, and computes the ratios to
//! plain. The output has medians, and the processor time for each operation. A device in memory has
//! no file, so both pools serve it with threads. 4 KiB: random, 32 at a time (plain: 32 threads
//! that loop). 1 MiB: sequential, 4 at a time (plain: 4 threads that take the next offset). 1 at a
//! time: one thread.

use pantile_device::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 256 << 20;
const MEASURED: Duration = Duration::from_millis(500);

/// Most threads of the pool for a device; never more than operations at a time.
static WORKERS: AtomicU64 = AtomicU64::new(32);

#[derive(Clone, Copy)]
struct Work {
    name: &'static str,
    write: bool,
    len: usize,
    random: bool,
    at_a_time: usize,
}

/// Operations a second, and microseconds of processor time for each operation.
type Rate = (f64, f64);

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(std::env::temp_dir, Into::into);
    let rounds: usize = args.next().map_or(9, |rounds| rounds.parse().expect("ROUNDS is a number"));
    if let Some(workers) = args.next() {
        WORKERS.store(workers.parse().expect("WORKERS is a number"), Relaxed);
    }
    let path = dir.join(format!("pantile-io-{}.img", std::process::id()));
    let file =
        FileDevice::create_with(&path, FILE_BYTES, true, OpenOptions::default()).expect("a file in DIR");
    // The name is removed at once, so that no file is left, however the program ends.
    std::fs::remove_file(&path).expect("it was just made");
    println!("{:?}, blocks of {} bytes, {rounds} rounds", file.mode(), file.block_len_bytes());
    let file = Arc::new(file);
    let filler = painted(1 << 20);
    (0..FILE_BYTES >> 20).for_each(|i| file.write_at(i << 20, &[filler.whole()]).expect("filling the file"));
    file.flush().expect("filling the file");
    let works = [
        Work {
            name: "4 KiB random read, 32 at a time",
            write: false,
            len: 4096,
            random: true,
            at_a_time: 32,
        },
        Work {
            name: "4 KiB random write, 32 at a time",
            write: true,
            len: 4096,
            random: true,
            at_a_time: 32,
        },
        Work { name: "4 KiB random read, 1 at a time", write: false, len: 4096, random: true, at_a_time: 1 },
        Work { name: "4 KiB random write, 1 at a time", write: true, len: 4096, random: true, at_a_time: 1 },
        Work {
            name: "1 MiB sequential read, 4 at a time",
            write: false,
            len: 1 << 20,
            random: false,
            at_a_time: 4,
        },
        Work {
            name: "1 MiB sequential write, 4 at a time",
            write: true,
            len: 1 << 20,
            random: false,
            at_a_time: 4,
        },
    ];
    println!("| work | plain op/s | threads / plain | ring / plain | plain CPU us/op | threads | ring |");
    println!("|---|---|---|---|---|---|---|");
    let memory: Arc<dyn Device> = Arc::new(filled_memory());
    compare("file", &works, file, rounds);
    compare("memory", &works, memory, rounds);
}

fn filled_memory() -> MemoryDevice {
    let (memory, filler) = (MemoryDevice::new("memory", FILE_BYTES), painted(1 << 20));
    (0..FILE_BYTES >> 20).for_each(|i| memory.write_at(i << 20, &[filler.whole()]).expect("memory"));
    memory
}

fn compare(on: &str, works: &[Work], device: Arc<dyn Device>, rounds: usize) {
    for work in works {
        let [mut plains, mut threads, mut rings] = [(); 3].map(|()| Vec::new());
        for _ in 0..rounds {
            plains.push(plain(*work, &*device));
            threads.push(pool(*work, device.clone(), false));
            rings.push(pool(*work, device.clone(), true));
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let ratio =
            |of: &[Rate]| median(of.iter().zip(&plains).map(|(rate, plain)| rate.0 / plain.0).collect());
        let cost = |of: &[Rate]| median(of.iter().map(|rate| rate.1).collect());
        println!(
            "| {on}: {} | {:.0} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} |",
            work.name,
            median(plains.iter().map(|rate| rate.0).collect()),
            ratio(&threads),
            ratio(&rings),
            cost(&plains),
            cost(&threads),
            cost(&rings),
        );
    }
}

fn painted(len: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(len);
    buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8);
    buffer
}

/// Returns the offset of the next operation.
fn place(work: Work, rng: &mut fastrand::Rng, next: &AtomicU64) -> u64 {
    let places = FILE_BYTES / work.len as u64;
    let index = if work.random { rng.u64(0..places) } else { next.fetch_add(1, Relaxed) % places };
    index * work.len as u64
}

/// Measures the plain loop: threads with a buffer each, which do one operation after another.
fn plain(work: Work, device: &dyn Device) -> Rate {
    let (next, ops) = (AtomicU64::new(0), AtomicU64::new(0));
    let (cpu, begun) = (cpu_time(), Instant::now());
    std::thread::scope(|scope| {
        for seed in 0..work.at_a_time as u64 {
            let (next, ops) = (&next, &ops);
            scope.spawn(move || {
                let (mut rng, mut buffer, mut count) = (fastrand::Rng::with_seed(seed), painted(work.len), 0);
                while begun.elapsed() < MEASURED {
                    let offset = place(work, &mut rng, next);
                    let result = match work.write {
                        true => device.write_at(offset, &[buffer.whole()]),
                        false => device.read_at(offset, buffer.whole_mut()),
                    };
                    result.expect("plain I/O");
                    count += 1;
                }
                ops.fetch_add(count, Relaxed);
            });
        }
    });
    rate(ops.into_inner(), begun.elapsed(), cpu_time() - cpu)
}

/// Measures the same work with one thread that submits and takes completions, as a volume does.
fn pool(work: Work, device: Arc<dyn Device>, ring: bool) -> Rate {
    let (next, mut rng, buffers) =
        (AtomicU64::new(0), fastrand::Rng::with_seed(1), BufferPool::new(64 << 20));
    let (cpu, begun) = (cpu_time(), Instant::now());
    let workers = work.at_a_time.min(WORKERS.load(Relaxed) as usize).max(2);
    let pool = IoPool::new(PoolOptions {
        workers_per_device: workers,
        background_workers_per_device: 1,
        depth_per_device: 64,
        ring,
    });
    pool.attach(device).expect("a device");
    let (mut done, mut count) = (Vec::new(), 0);
    let start =
        |op| pool.submit(Request { token: 0, device: 0, priority: Priority::User, op }).expect("room");
    for _ in 0..work.at_a_time {
        let (offset_bytes, mut buffer) =
            (place(work, &mut rng, &next), buffers.take(work.len).expect("room"));
        start(match work.write {
            true => {
                buffer.copy_from_slice(&painted(work.len));
                Op::Write { offset_bytes, parts: vec![Segment::whole(buffer)] }
            }
            false => Op::Read { offset_bytes, buffer, range: 0..work.len },
        });
    }
    while begun.elapsed() < MEASURED {
        pool.wait(&mut done, Instant::now() + MEASURED);
        count += done.len() as u64;
        for completion in done.drain(..) {
            completion.result.expect("I/O through the pool");
            let mut op = completion.op;
            if let Op::Read { offset_bytes, .. } | Op::Write { offset_bytes, .. } = &mut op {
                *offset_bytes = place(work, &mut rng, &next);
            }
            start(op);
        }
    }
    let left = pool.shutdown(Instant::now() + Duration::from_secs(60));
    rate(count + left.completions.len() as u64, begun.elapsed(), cpu_time() - cpu)
}

fn rate(ops: u64, elapsed: Duration, cpu: Duration) -> Rate {
    (ops as f64 / elapsed.as_secs_f64(), cpu.as_secs_f64() * 1e6 / ops as f64)
}

/// Returns the processor time of this process, user and system, in steps of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
