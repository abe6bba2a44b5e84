//! The volume itself in the world that fails on purpose: nothing that was flushed is lost, and every run ends clean.

use pantile_code::Code;
use pantile_format::volume::{HistoryId, VolumeId};
use pantile_sim::{self as sim, Config, Content, Fault, Promise, Refusal, Start};
use pantile_volume::{
    Action, Birth, DeviceBlock, Event, Geometry, NewVolume, Slot, State, Volume, format_volume,
};

struct Driven(Volume);

impl sim::Engine for Driven {
    fn handle(&mut self, event: Event) {
        self.0.handle(event);
        self.0.check();
        if let State::Refused(error) = self.0.state() {
            panic!("not opened: {error}");
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.0.next_action()
    }

    fn is_ready(&self) -> bool {
        self.0.state() == State::Serving
    }

    fn is_clean(&self) -> bool {
        self.0.is_clean()
    }
}

const CODES: [&str; 8] =
    ["mirror:3", "raid5:2", "raid6:3", "rs:3+3", "dcode:5", "raidp:4", "raidq:2+4", "lrc:4,2,1"];

fn geometry(spec: &str) -> Geometry {
    Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-sim-test"),
        code: Code::parse(spec).unwrap(),
        element_blocks: 2,
        logical_stripes: 6,
        spare_stripes: 3,
        log_rows: 12,
        journal_blocks: 24,
    })
    .unwrap()
}

fn config(geometry: &Geometry, faults: &[Fault]) -> Config {
    let blocks = (0..geometry.slots() as u32).map(|s| geometry.device_blocks(Slot(s))).max().unwrap();
    let (devices, tolerance) = (geometry.slots() as u32, geometry.tolerance() as u32);
    let mut config = Config::small(devices, blocks, geometry.user_blocks(), tolerance);
    config.promise = Promise::whole_devices(tolerance);
    config.load.blocks_most = 16;
    config.faults = faults.to_vec();
    config.replay = "FIRST_SEED={seed} SEEDS=1 cargo test --release --package pantile-sim --test the_volume_loses_nothing".into();
    config
}

fn make(geometry: &Geometry, start: Start<'_>) -> Result<Driven, Refusal> {
    if start.session == 0 {
        let birth = Birth { history: HistoryId([7; 16]), name: "sim".into(), created: 0 };
        for (slot, at, bytes) in format_volume(geometry, &birth)? {
            for (i, block) in bytes.chunks(4096).enumerate() {
                let at = DeviceBlock(at.0 + i as u64);
                start.disks[slot.0 as usize].put(at, Content::of_bytes(block));
            }
        }
    }
    let there: Vec<bool> = start.disks.iter().map(sim::Disk::is_present).collect();
    let mut fresh = [1; 16];
    fresh[..4].copy_from_slice(&start.session.to_le_bytes());
    Ok(Driven(Volume::open(geometry.clone(), &there, HistoryId(fresh))))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn run(faults: &[Fault]) {
    std::panic::set_hook(Box::new(|_| {}));
    let (first, seeds) = (number("FIRST_SEED", 0), number("SEEDS", 60));
    let only = std::env::var("CODE").ok();
    let mut failures = String::new();
    for spec in CODES.into_iter().filter(|spec| only.as_ref().is_none_or(|only| only == spec)) {
        let geometry = geometry(spec);
        let config = config(&geometry, faults);
        let make = |start: Start<'_>| make(&geometry, start);
        match sim::run_seeds(first..first + seeds, 2, make, &config) {
            Ok(stats) => println!("{spec}: {} steps, {} kills, {:?}", stats.steps, stats.kills, stats.faults),
            Err(failure) => failures += &format!("\n{spec}: {failure}"),
        }
    }
    println!("{failures}");
    assert!(failures.is_empty());
}

#[test]
fn when_power_fails() {
    run(&[]);
}

#[test]
fn when_devices_go_and_come_back() {
    run(&[Fault::Gone, Fault::Slow]);
}

#[test]
fn when_blocks_rot() {
    run(&[Fault::Unreadable, Fault::Flip]);
}

#[test]
fn when_devices_lie() {
    run(&[Fault::Lost, Fault::Misdirected, Fault::Refused]);
}

#[test]
fn when_everything_goes_wrong_at_once() {
    run(&Fault::ALL);
}
