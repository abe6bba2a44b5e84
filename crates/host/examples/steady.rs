//! Random writes of 4 KiB on devices that behave like disks. Measured are the first burst and the
//! steady state, with the number of I/Os and bytes.
//!
//! `cargo run --release -p pantile-host --example steady -- [CODE] [WRITES-PER-LOG]`
//!
//! A disk here is memory that does one operation at a time: half a millisecond for a seek, 1 GB/s
//! for the transfer, half a millisecond for a flush. It is ten times as fast as a rotating disk; so
//! the processor time still does not matter, and a run ends. The volume has 512 MiB, more than the
//! engine's cache of writes (64 MiB), and is filled before. For the steady state, WRITES-PER-LOG
//! times (default: four) the bytes of the log are overwritten. The blocks are chosen uniformly or
//! by Zipf's law (exponent 1 over the blocks, places scattered), 32 at a time, and all are durable
//! at the end.

mod disks;

use disks::{Disk, MIB, at_once, disks_of, geometry, measured};
use pantile_code::Code;
use pantile_device::Device;
use pantile_format::volume::HistoryId;
use pantile_host::{Host, HostOptions};
use pantile_volume::{BLOCK_BYTES, Birth, Geometry, Slot, format_volume};
use std::sync::Arc;
use std::time::Duration;

const BURST: u64 = 4096;

/// Returns the block of the i-th write.
fn place(zipf: bool, i: u64, blocks: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    if !zipf {
        return random.u64(..blocks);
    }
    // The inverse of the distribution with density 1 / x on 1..blocks. Blocks of adjacent rank are
    // not adjacent.
    let rank = (blocks as f64).powf(random.f64()) as u64;
    rank.wrapping_mul(0x9e37_79b1) % blocks
}

fn main() {
    let mut args = std::env::args().skip(1);
    let code = args.next().unwrap_or_else(|| "raid6:6".into());
    let times: u64 = args.next().map_or(4, |text| text.parse().expect("WRITES-PER-LOG is a number"));
    let code = Code::parse(&code).expect("CODE is a code");
    let log = u64::from(geometry(&code).log_rows()) * code.data().len() as u64;
    println!(
        "{}: 512 MiB, a log of {} blocks; {} blocks of 4 KiB are written",
        code.spec(),
        log,
        log * times
    );
    println!("{:28} {:>9} {:>9} {:>9} {:>9}", "", "writes/s", "reads/w", "writes/w", "KiB/w");
    for zipf in [false, true] {
        let geometry = geometry(&code);
        let disks = disks_of(&geometry);
        let birth = Birth { history: HistoryId([1; 16]), name: "steady".into(), created: 0 };
        for (slot, at, bytes) in format_volume(&geometry, &birth).expect("a format") {
            let mut buffer = pantile_device::AlignedBuf::zeroed(bytes.len());
            buffer.copy_from_slice(&bytes);
            disks[slot.0 as usize].write_at(at.0 * BLOCK_BYTES, &[buffer.whole()]).expect("written");
        }
        let devices = disks.iter().map(|disk| Some(disk.clone() as Arc<dyn Device>)).collect();
        let options = HostOptions::for_devices(geometry.slots());
        let host = Host::open(geometry.clone(), devices, HistoryId([2; 16]), &options).expect("opened");
        let handle = host.handle();
        let filled: Vec<u8> = (0..MIB).map(|i| (i % 251) as u8).collect();
        at_once(4, handle.len_bytes() / MIB, |i| handle.write(i * MIB, &filled, false).expect("written"));
        handle.flush().expect("flushed");
        disks.iter().for_each(|disk| disk.inner().set_slow(true));
        let write = |i: u64| {
            let at = place(zipf, i, geometry.user_blocks()) * BLOCK_BYTES;
            handle.write(at, &filled[..BLOCK_BYTES as usize], false).expect("written");
        };
        let run = |from: u64, count: u64| {
            measured(&disks, || {
                at_once(32, count, |i| write(from + i));
                handle.flush().expect("flushed");
            })
        };
        let law = if zipf { "Zipf" } else { "uniform" };
        for (what, writes, cost) in
            [("burst", BURST, run(0, BURST)), ("steady", log * times, run(BURST, log * times))]
        {
            let name = format!("{what}, {law}");
            let rate = writes as f64 / cost.seconds;
            let each = |n: u64| n as f64 / writes as f64;
            println!(
                "{name:28} {rate:>9.0} {:>9.2} {:>9.2} {:>9.1}",
                each(cost.reads),
                each(cost.writes),
                each(cost.bytes_read + cost.bytes_written) / 1024.0
            );
        }
        if !zipf {
            sequential(&geometry, &disks, &handle, "all devices");
        }
        host.kill();
        if !zipf {
            let mut devices: Vec<Option<Arc<dyn Device>>> =
                disks.iter().map(|disk| Some(disk.clone() as Arc<dyn Device>)).collect();
            devices[0] = None;
            let host = Host::open(geometry.clone(), devices, HistoryId([3; 16]), &options).expect("opened");
            sequential(&geometry, &disks, &host.handle(), "one lost");
            host.stop().expect("stopped");
            let devices = disks.iter().map(|disk| Some(disk.clone() as Arc<dyn Device>)).collect();
            let host = Host::open(geometry.clone(), devices, HistoryId([4; 16]), &options).expect("opened");
            let blank = disks_of(&geometry).swap_remove(0);
            host.fail(Slot(0)).expect("declared failed");
            let worked = || disks[1..].iter().map(|disk| disk.inner().worked()).collect::<Vec<_>>();
            let (before, cpu_before) = (worked(), processor_time());
            let cost = measured(&disks[1..], || {
                host.attach(Slot(0), blank.clone(), pantile_volume::Found::Blank).expect("attached");
                while !host.is_clean().expect("served") {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let busiest = worked().iter().zip(before).map(|(&after, before)| after - before).max();
            println!(
                "{:28} {:>9.0} MiB/s of the new device, which does not slow it; {:.0} KiB a read",
                "rebuild of one device",
                (blank.counts().write.bytes / MIB) as f64 / cost.seconds,
                cost.bytes_read as f64 / cost.reads as f64 / 1024.0
            );
            println!(
                "{:28} {:>9.2} of the time the busiest disk works, {:.2} a processor",
                "",
                busiest.unwrap_or_default().as_secs_f64() / cost.seconds,
                (processor_time() - cpu_before).as_secs_f64() / cost.seconds
            );
            host.stop().expect("stopped");
        }
    }
}

/// Returns the processor time of all threads, in steps of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    Duration::from_millis(
        numbers.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10,
    )
}

/// Reads the volume in order, 1 MiB at a time, by four threads.
fn sequential(geometry: &Geometry, disks: &[Arc<Disk>], handle: &pantile_host::Handle, what: &str) {
    let mibs = geometry.user_blocks() * BLOCK_BYTES / MIB;
    let cost = measured(disks, || {
        at_once(4, mibs, |i| handle.read(i * MIB, &mut vec![0; MIB as usize]).expect("read"));
    });
    println!(
        "{:28} {:>9.0} MiB/s, {:.2} bytes and {:.1} reads of 1 MiB's read for each",
        format!("sequential read, {what}"),
        mibs as f64 / cost.seconds,
        cost.bytes_read as f64 / (mibs * MIB) as f64,
        cost.reads as f64 / mibs as f64
    );
}
