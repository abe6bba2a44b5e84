//! One kind of work of a volume on devices in memory, so that a profiler can tell the share of the
//! processor's time that sums over GF(2^8) take.
//!
//! `perf record cargo run --release -p pantile-host --example sums -- CODE write|degraded|rebuild`
//!
//! `write` writes the volume from begin to end, `degraded` reads it without its first device,
//! `rebuild` gives it a blank device in that place. Each is done several times.

mod disks;

use disks::{MIB, at_once, geometry};
use pantile_code::Code;
use pantile_device::{AlignedBuf, Device, MemoryDevice};
use pantile_format::volume::HistoryId;
use pantile_host::{Host, HostOptions};
use pantile_volume::{BLOCK_BYTES, Birth, Found, Slot, format_volume};
use std::sync::Arc;
use std::time::Duration;

const TIMES: u64 = 6;

fn main() {
    let mut args = std::env::args().skip(1);
    let code = Code::parse(&args.next().expect("CODE")).expect("CODE is a code");
    let work = args.next().expect("write, degraded or rebuild");
    let geometry = geometry(&code);
    let blank = |slot: u32| -> Arc<dyn Device> {
        let len = geometry.device_blocks(Slot(slot)) * BLOCK_BYTES;
        Arc::new(MemoryDevice::with_block_len(format!("device-{slot}"), len, 4096))
    };
    let devices: Vec<Arc<dyn Device>> = (0..geometry.slots() as u32).map(blank).collect();
    let birth = Birth { history: HistoryId([1; 16]), name: "sums".into(), created: 0 };
    for (slot, at, bytes) in format_volume(&geometry, &birth).expect("a format") {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        devices[slot.0 as usize].write_at(at.0 * BLOCK_BYTES, &[buffer.whole()]).expect("written");
    }
    let options = HostOptions::for_devices(devices.len());
    let there = devices.into_iter().map(Some).collect();
    let host = Host::open(geometry.clone(), there, HistoryId([2; 16]), &options).expect("opened");
    let handle = host.handle();
    let pieces = handle.len_bytes() / MIB;
    let data: Vec<u8> = (0..MIB as usize).map(|i| (i % 251) as u8).collect();
    let write_all = || {
        at_once(4, pieces, |i| handle.write(i * MIB, &data, false).expect("written"));
        handle.flush().expect("flushed");
    };
    write_all();
    match work.as_str() {
        "write" => (1..TIMES).for_each(|_| write_all()),
        "degraded" => {
            host.fail(Slot(0)).expect("one can be lost");
            for _ in 0..TIMES {
                at_once(4, pieces, |i| {
                    handle.read(i * MIB, &mut vec![0; MIB as usize]).expect("read");
                });
            }
        }
        "rebuild" => {
            for _ in 0..TIMES {
                host.fail(Slot(0)).expect("one can be lost");
                while host.attach(Slot(0), blank(0), Found::Blank).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                while !host.is_clean().expect("it runs") {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        other => panic!("{other} is none of write, degraded, rebuild"),
    }
    host.kill();
}
