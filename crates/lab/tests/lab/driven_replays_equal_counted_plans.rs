//! Two methods of replaying reads agree, cause by cause: multiplied plans, and the driven engine.
//! A volume that begins as written equals one that was written.

use pantile_code::{Code, Placement};
use pantile_lab::exascale::Device;
use pantile_lab::replay::generate::{Pattern, Synthetic};
use pantile_lab::replay::{
    BLOCK_BYTES, Blocks, Cause, Circumstances, Counter, Counts, Driven, Request, driven,
};

const ELEMENT_BYTES: u64 = 4 * BLOCK_BYTES;
const SPACE_BYTES: u64 = 2 << 20;

fn trace(space: u64, requests: u64) -> Vec<Request> {
    let made = Synthetic {
        pattern: Pattern::Tuples,
        requests,
        space,
        element: BLOCK_BYTES,
        writes_per_cent: 50,
        gap_us: 1,
        seed: 3,
    };
    let cut = |(i, request): (usize, Request)| match i % 5 {
        2 => Request { offset: request.offset + 100, len: 700, ..request },
        _ => request,
    };
    made.iter().enumerate().map(cut).collect()
}

fn run(mut driven: Driven, requests: &[Request]) -> Counts {
    requests.iter().for_each(|request| driven.push(request));
    driven.finish().0
}

/// Returns the blocks by device and cause, without the journal and without reads of headers that
/// are not yet in memory: the counted plans assume them in memory.
fn by_cause(counts: &Counts) -> Vec<Vec<(Cause, Blocks)>> {
    let of = |device: &std::collections::BTreeMap<Cause, Blocks>| {
        let known = |(&cause, &blocks): (&Cause, &Blocks)| match cause {
            Cause::Checksums => (cause, Blocks { read: 0, ..blocks }),
            _ => (cause, blocks),
        };
        device
            .iter()
            .map(known)
            .filter(|&(cause, blocks)| cause != Cause::Journal && blocks != Blocks::default())
            .collect()
    };
    counts.devices.iter().map(of).collect()
}

#[test]
fn plans_of_reads_multiplied_are_what_the_engine_executes() {
    let reads = trace(SPACE_BYTES, 400).into_iter().map(|request| Request { is_write: false, ..request });
    let requests: Vec<Request> = reads.collect();
    for code in
        ["raid5:3", "raid6:4", "mirror:3", "cauchy:3+2", "shec:4,3,2", "lrc:4,2,1", "dcode:5", "raidp:4"]
    {
        let code = Code::parse(code).expect("a code");
        let geometry =
            driven::geometry((&code, Placement::spread(&code)), ELEMENT_BYTES, SPACE_BYTES).expect("a shape");
        for lost in [vec![], vec![1]] {
            let mut counter = Counter::new(&geometry, &lost).expect("survivable");
            requests.iter().for_each(|request| counter.push(request));
            let circumstances = Circumstances { lost: lost.clone(), ..Circumstances::default() };
            let executed = run(Driven::new(geometry.clone(), circumstances).expect("survivable"), &requests);
            let counted = by_cause(&counter.finish());
            assert_eq!(counted, by_cause(&executed), "{}, lost {lost:?}: counted, executed", code.spec());
        }
    }
}

#[test]
fn volumes_that_begin_as_written_equal_written_ones() {
    // The trace writes more than the log holds.
    let space_bytes = 16 * SPACE_BYTES;
    let code = Code::parse("raid6:4").expect("a code");
    let geometry =
        driven::geometry((&code, Placement::spread(&code)), ELEMENT_BYTES, space_bytes).expect("a shape");
    let stripe_bytes = geometry.stripe_blocks() * BLOCK_BYTES;
    let fill = |stripe: u32| Request {
        at_us: 0,
        offset: u64::from(stripe) * stripe_bytes,
        len: stripe_bytes,
        is_write: true,
    };
    let filling: Vec<Request> = (0..geometry.logical_stripes()).map(fill).collect();
    let circumstances = Circumstances { flush_every: 1, ..Circumstances::default() };
    let open = || Driven::on_nothing(geometry.clone(), circumstances.clone()).expect("nothing is lost");
    let requests = trace(space_bytes, 4000);
    let both: Vec<Request> = filling.iter().chain(&requests).copied().collect();
    let (filled, all) = (run(open(), &filling), run(open(), &both));
    let at_once =
        run(Driven::new(geometry.clone(), circumstances.clone()).expect("nothing is lost"), &requests);
    assert!(at_once.of(Cause::MoveBack).read > 0, "the log has been emptied");
    for cause in Cause::ALL.into_iter().filter(|&cause| !matches!(cause, Cause::Journal | Cause::Checksums)) {
        let (all, filled, at_once) = (all.of(cause), filled.of(cause), at_once.of(cause));
        let after = Blocks { read: all.read - filled.read, written: all.written - filled.written };
        assert_eq!(after, at_once, "{}", cause.name());
    }
}

#[test]
fn a_rebuild_that_takes_turns_makes_the_same_device() {
    let code = Code::parse("raid6:4").expect("a code");
    let geometry =
        driven::geometry((&code, Placement::spread(&code)), ELEMENT_BYTES, SPACE_BYTES).expect("a shape");
    let read_only: Vec<Request> =
        trace(SPACE_BYTES, 300).into_iter().map(|request| Request { is_write: false, ..request }).collect();
    let rebuilt = |rebuild_pace| {
        let circumstances =
            Circumstances { lost: vec![2], rebuilt_at: Some(10), rebuild_pace, ..Circumstances::default() };
        let mut driven = Driven::new(geometry.clone(), circumstances).expect("survivable");
        read_only.iter().for_each(|request| driven.push(request));
        driven.finish()
    };
    let (at_once, ending) = rebuilt(None);
    assert_eq!(ending.requests_while_rebuilding, 0);
    let (paced, ending) = rebuilt(Some(5));
    assert!(ending.requests_while_rebuilding > 50, "{ending:?}");
    assert_eq!(at_once.of(Cause::Rebuild), paced.of(Cause::Rebuild));
    // Reads of a stripe are degraded until the rebuild has passed it.
    assert!(paced.of(Cause::Degraded).read > at_once.of(Cause::Degraded).read);
    // One device's stripes, with their headers.
    let written = at_once.of(Cause::Rebuild).written;
    assert_eq!(written, u64::from(geometry.logical_stripes()) * (4 + 1));
}

#[test]
fn devices_that_take_time_do_the_same_work() {
    let requests = trace(SPACE_BYTES, 400);
    for (spec, flush_every) in [("raid6:4", 1), ("dcode:5", 16), ("shec:4,3,2", 8)] {
        let code = Code::parse(spec).expect("a code");
        let geometry =
            driven::geometry((&code, Placement::spread(&code)), ELEMENT_BYTES, SPACE_BYTES).expect("a shape");
        for lost in [vec![], vec![1]] {
            let circumstances = Circumstances { flush_every, lost, ..Circumstances::default() };
            let open = || Driven::new(geometry.clone(), circumstances.clone()).expect("survivable");
            let at_once = run(open(), &requests);
            let mut timed = open().timed(&Device::hdd());
            requests.iter().for_each(|request| timed.push(request));
            let latencies = timed.latencies().expect("a clock").clone();
            assert_eq!(timed.finish().0, at_once, "{spec} {circumstances:?}");
            for is_write in [false, true] {
                let within = |share| latencies.within(is_write, share).expect("there are some");
                assert!(within(0.5) <= within(0.99) && within(0.99) <= within(1.0));
            }
        }
    }
}

#[test]
fn a_latency_is_what_the_devices_take_one_after_the_other() {
    let code = Code::parse("raid5:3").expect("a code");
    let geometry =
        driven::geometry((&code, Placement::spread(&code)), ELEMENT_BYTES, SPACE_BYTES).expect("a shape");
    let apart = |i: u64, is_write| Request {
        at_us: i,
        // Few elements, so that memory soon has the checksums of all.
        offset: i * 7919 % 20 * ELEMENT_BYTES,
        len: BLOCK_BYTES,
        is_write,
    };
    let of = |device: Device, is_write: bool| {
        let open = Driven::new(geometry.clone(), Circumstances::default()).expect("nothing is lost");
        let mut timed = open.timed(&device);
        (0..2000).for_each(|i| timed.push(&apart(i, is_write)));
        let latencies = timed.latencies().expect("a clock");
        assert_eq!(latencies.within(!is_write, 0.5), None);
        [0.5, 0.99].map(|share| latencies.within(is_write, share).expect("some") as f64 / 1e6)
    };
    // A position is uniform between half of 13.07 ms and one and a half of it; 4 KiB at 100 MB/s.
    let [middle, slow] = of(Device::hdd(), false);
    assert!((12.5..13.7).contains(&middle) && (19.0..21.0).contains(&slow), "{middle} {slow}");
    // The block, its copy and the record on every device, of which the slowest counts.
    let [middle, _] = of(Device::hdd(), true);
    assert!((15.0..40.0).contains(&middle), "{middle}");
    // Four channels make no difference to a request alone on an idle device.
    let four = Device { channels: 4, ..Device::hdd() };
    let [with_four, _] = of(four, false);
    assert!((12.5..13.7).contains(&with_four), "{with_four}");
    let [read, _] = of(Device::virtual_disk(), false);
    let [write, _] = of(Device::virtual_disk(), true);
    assert!(read > 0.0 && write > read, "{read} {write}");
}
