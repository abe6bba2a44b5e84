//! Requests per second of replays on one core, by the time of this thread: `cargo run --release -p
//! pantile-lab --example replay`.
//!
//! Counted: plans multiplied, requests in memory. Read: the same from the bytes of a trace.
//! Driven: the engine, policy wcl.

use pantile_code::{Code, Placement};
use pantile_kernel::measure::thread_cpu_ns;
use pantile_lab::replay::generate::{Pattern, Synthetic};
use pantile_lab::replay::{Circumstances, Counter, Driven, Format, Request, Trace, Writer, driven, geometry};
use std::io::Cursor;

const ELEMENT_BYTES: u64 = 64 << 10;
const SPACE_BYTES: u64 = 16 << 30;

fn requests(count: u64) -> Vec<Request> {
    let (pattern, element) = (Pattern::Zipf, 8192);
    let made = Synthetic {
        pattern,
        requests: count,
        space: SPACE_BYTES,
        element,
        writes_per_cent: 30,
        gap_us: 100,
        seed: 1,
    };
    made.iter().collect()
}

/// Millions of `count` a second.
fn rate(count: u64, what: impl FnOnce()) -> f64 {
    let start = thread_cpu_ns();
    what();
    count as f64 / ((thread_cpu_ns() - start) as f64 / 1e3)
}

fn main() {
    const COUNTED: u64 = 5_000_000;
    const DRIVEN: u64 = 200_000;
    let all = requests(COUNTED);
    let traces: Vec<(Format, Vec<u8>)> = [Format::Vscsi2, Format::Msr]
        .map(|format| {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes, format).expect("memory takes all");
            all.iter().for_each(|request| writer.push(request).expect("memory takes all"));
            writer.finish().expect("memory takes all");
            (format, bytes)
        })
        .into();
    println!("millions of requests a second; 30 % writes of 8 KiB, Zipf over 16 GiB, elements of 64 KiB\n");
    println!("{:12} {:>8} {:>12} {:>12} {:>12}", "code", "counted", "read vscsi2", "read msr", "driven, wcl");
    for spec in ["raid5:7", "raid6:6", "rs:10+4", "dcode:7"] {
        let code = Code::parse(spec).expect("a code");
        let shape = geometry((&code, Placement::spread(&code)), ELEMENT_BYTES).expect("a shape");
        let counter = || Counter::new(&shape, &[]).expect("nothing is lost");
        let counted = rate(COUNTED, || {
            let mut counter = counter();
            all.iter().for_each(|request| counter.push(request));
            std::hint::black_box(counter.finish());
        });
        let read = traces.iter().map(|(_, bytes)| {
            rate(COUNTED, || {
                let mut counter = counter();
                let mut trace = Trace::open(Cursor::new(bytes)).expect("a trace");
                while let Some(item) = trace.next_item().expect("memory can be read") {
                    counter.push(&item.expect("a good line"));
                }
                std::hint::black_box(counter.finish());
            })
        });
        let read: Vec<f64> = read.collect();
        let driven = rate(DRIVEN, || {
            let shape = driven::geometry((&code, Placement::spread(&code)), ELEMENT_BYTES, SPACE_BYTES)
                .expect("a shape");
            let circumstances = Circumstances { flush_every: 64, ..Circumstances::default() };
            let mut driven = Driven::new(shape, circumstances).expect("nothing is lost");
            all[..DRIVEN as usize].iter().for_each(|request| driven.push(request));
            std::hint::black_box(driven.finish());
        });
        println!("{spec:12} {counted:>8.1} {:>12.1} {:>12.1} {driven:>12.3}", read[0], read[1]);
    }
}
