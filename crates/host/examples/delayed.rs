//! A checkpoint of many small writes, in which each writer waits until its last write is durable.
//! It is measured without delayed parity, with it, and on bare disks.
//!
//! `cargo run --release -p pantile-host --example delayed -- [CODE..]`
//!
//! The disks are those of `disks`. 32 writers write pieces of 4 or 128 KiB to a range that was
//! never written. Every write is durable when it is acknowledged: *wcl* with parity; *delayed*
//! without parity until the end of the epoch, whose time is included; *bare* writes the pieces to
//! the same disks in turn and flushes that disk, as RAID-0 would. Ratios are relative to wcl, and
//! medians of three runs.

mod disks;

use disks::{at_once, disks_of, geometry, measured};
use pantile_code::Code;
use pantile_device::{AlignedBuf, Device};
use pantile_format::volume::HistoryId;
use pantile_host::{EpochOptions, Host, HostOptions};
use pantile_volume::{BLOCK_BYTES, Birth, format_volume};
use std::sync::Arc;

const WRITERS: u64 = 32;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Strict,
    Delayed,
    Bare,
}

fn main() {
    let mut codes: Vec<String> = std::env::args().skip(1).collect();
    if codes.is_empty() {
        codes = ["raid5:5", "raid6:6", "raidq:8+4", "dcode:7"].map(String::from).to_vec();
    }
    println!(
        "{:12} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "code", "piece", "wcl /s", "delayed /s", "bare /s", "delayed/wcl", "bare/wcl"
    );
    for code in &codes {
        let code = Code::parse(code).unwrap_or_else(|error| panic!("{error}"));
        for (piece, count) in [(4096, 2048), (128 << 10, 384)] {
            let rate = |way| {
                let mut rates: Vec<f64> = (0..3).map(|_| run(&code, way, piece, count)).collect();
                rates.sort_by(f64::total_cmp);
                rates[1]
            };
            let [strict, delayed, bare] = [Way::Strict, Way::Delayed, Way::Bare].map(rate);
            println!(
                "{:12} {:>6} K {strict:>12.0} {delayed:>12.0} {bare:>12.0} {:>12.2} {:>12.2}",
                code.spec(),
                piece >> 10,
                delayed / strict,
                bare / strict
            );
        }
    }
}

/// Returns pieces a second.
fn run(code: &Code, way: Way, piece: usize, count: u64) -> f64 {
    let geometry = geometry(code);
    let disks = disks_of(&geometry);
    let slow = || disks.iter().for_each(|disk| disk.inner().set_slow(true));
    let data: Vec<u8> = (0..piece).map(|i| (i % 251) as u8).collect();
    if way == Way::Bare {
        slow();
        let cost = measured(&disks, || {
            at_once(WRITERS, count, |i| {
                let disk = &disks[(i % disks.len() as u64) as usize];
                let mut buffer = AlignedBuf::zeroed(piece);
                buffer.copy_from_slice(&data);
                disk.write_at(i / disks.len() as u64 * piece as u64, &[buffer.whole()]).expect("written");
                disk.flush().expect("flushed");
            });
        });
        return count as f64 / cost.seconds;
    }
    let birth = Birth { history: HistoryId([1; 16]), name: "delayed".into(), created: 0 };
    for (slot, at, bytes) in format_volume(&geometry, &birth).expect("a volume") {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        disks[slot.0 as usize].write_at(at.0 * BLOCK_BYTES, &[buffer.whole()]).expect("written");
    }
    let options = HostOptions::for_devices(disks.len());
    let devices = disks.iter().map(|disk| Some(disk.clone() as Arc<dyn Device>)).collect();
    let host = Host::open(geometry, devices, HistoryId([2; 16]), &options).expect("opened");
    let handle = host.handle();
    slow();
    let cost = measured(&disks, || {
        if way == Way::Delayed {
            let range = Some((0, count * piece as u64));
            let epoch = EpochOptions { range, age_max: None, ..EpochOptions::default() };
            let mut epoch = handle.begin(&epoch).expect("begun");
            at_once(WRITERS, count, |i| epoch.write(i * piece as u64, &data, true).expect("written"));
            epoch.end().expect("sealed");
        } else {
            at_once(WRITERS, count, |i| handle.write(i * piece as u64, &data, true).expect("written"));
        }
    });
    host.kill();
    count as f64 / cost.seconds
}
