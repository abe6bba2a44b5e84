//! Two hosts at the same devices: writes that one host flushed are visible to the next. It does not
//! matter how the first one ended, or whether it did.

use super::tests::{Devices, open, stranger, volume};
use super::*;
use crate::Host;
use pantile_volume::Geometry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

const BLOCKS: u64 = 200;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Ways in which the first host ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    InOrder,
    Killed,
    /// Its process is stopped for longer than the claim is watched, and then continues.
    StandsStill,
    /// Its process is stopped until the next host has served the volume and ended in order.
    SleepsThroughAll,
}

/// Possible content of each block: the last durable write and the writes requested since, by
/// number. A host that was stopped can learn late that its write was durable, although the other
/// host has overwritten the block since.
#[derive(Default)]
struct Model {
    blocks: Mutex<BTreeMap<u64, Vec<(u64, u8)>>>,
    writes: AtomicU64,
}

impl Model {
    fn with<T>(&self, what: impl FnOnce(&mut BTreeMap<u64, Vec<(u64, u8)>>) -> T) -> T {
        what(&mut self.blocks.lock().expect("a model"))
    }

    /// Writes random blocks one after another, each durably, until `ends` or until the volume ends.
    fn write(&self, host: &Host, seed: u64, ends: &AtomicBool) -> u64 {
        let (mut random, handle, mut done) = (Random(seed), host.handle(), 0);
        while !ends.load(Ordering::Acquire) {
            let (at, byte) = (random.below(BLOCKS), random.below(256) as u8);
            let number = 1 + self.writes.fetch_add(1, Ordering::Relaxed);
            self.with(|blocks| blocks.entry(at).or_insert_with(|| vec![(0, 0)]).push((number, byte)));
            if handle.write(at * BLOCK as u64, &[byte; BLOCK], true).is_err() {
                return done;
            }
            self.with(|blocks| {
                let may_be = blocks.entry(at).or_default();
                if let Some(own) = may_be.iter().position(|(other, _)| *other == number) {
                    may_be.drain(..own);
                }
            });
            done += 1;
        }
        done
    }

    /// Checks that each block has one of its possible contents, which is its only possible content
    /// afterwards.
    fn check(&self, host: &Host, what: &str) {
        let mut all = vec![0; BLOCKS as usize * BLOCK];
        host.handle().read(0, &mut all).unwrap_or_else(|error| panic!("{what}: {error}"));
        self.with(|blocks| {
            for (at, found) in (0..).zip(all.chunks_exact(BLOCK)) {
                let may_be = blocks.entry(at).or_insert_with(|| vec![(0, 0)]);
                assert!(found.iter().all(|byte| *byte == found[0]), "{what}: block {at} is torn");
                let before = may_be.clone();
                may_be.retain(|(_, byte)| *byte == found[0]);
                assert!(!may_be.is_empty(), "{what}: block {at} is {} of {before:?}", found[0]);
            }
        });
    }
}

struct World {
    geometry: Geometry,
    devices: Devices,
    superblock: Superblock,
    model: Model,
}

impl World {
    fn take(&self, own: &Own) -> Result<Duration, FolderError> {
        let begun = Instant::now();
        take(&self.devices, &self.superblock, own, WATCH).map(|_| begun.elapsed())
    }

    fn open(&self, own: &Own) -> Host {
        open(self.geometry.clone(), &self.devices, &self.superblock, own)
    }

    fn stop(&self, host: &Host, own: &Own) {
        host.stop().expect("it stops");
        assert_eq!(host.taken_by(), None);
        give_back(&self.devices, &self.superblock, own);
    }

    /// Writes to the volume for a moment.
    fn use_it(&self, host: &Host, seed: u64) {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.model.write(host, seed, &ends));
            std::thread::sleep(Duration::from_millis(300));
            ends.store(true, Ordering::Release);
            assert!(writer.join().expect("it writes") > 0, "seed {seed}: nothing was written");
        });
    }

    fn ends(&self, end: End, seed: u64) {
        let what = format!("{end:?}, seed {seed}");
        let (first, second) = (stranger(), stranger());
        self.take(&first).expect("no host serves it");
        let host = self.open(&first);
        self.use_it(&host, seed);
        assert!(self.take(&second).is_err(), "{what}: two serve it");
        match end {
            End::InOrder => {
                self.stop(&host, &first);
                let took = self.take(&second).expect("it was given back");
                assert!(took < WATCH, "{what}: it was watched, {took:?}");
            }
            End::Killed => {
                host.kill();
                let took = self.take(&second).expect("it does not beat");
                assert!(took >= WATCH, "{what}: {took:?}");
            }
            End::StandsStill | End::SleepsThroughAll => return self.goes_on(end, seed, host, &second),
        }
        let host = self.open(&second);
        self.model.check(&host, &what);
        self.use_it(&host, !seed);
        self.model.check(&host, &what);
        self.stop(&host, &second);
    }

    /// Stops the engine of the first host while it has writers, lets another host take the volume,
    /// and then continues the first one.
    fn goes_on(&self, end: End, seed: u64, first: Host, second: &Own) {
        let what = format!("{end:?}, seed {seed}");
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (go_on, still) = channel();
            let writers = [1, 2].map(|of| {
                let (model, first, ends) = (&self.model, &first, &ends);
                scope.spawn(move || model.write(first, seed + 1000 * of, ends))
            });
            std::thread::sleep(Duration::from_millis(50 + seed % 50));
            first.stand_still(still);
            let took = self.take(second).expect("it does not beat");
            assert!(took >= WATCH, "{what}: {took:?}");
            let host = self.open(second);
            self.model.check(&host, &what);
            // Requests that the first host has not done yet must not be done any more.
            self.use_it(&host, !seed);
            if end == End::SleepsThroughAll {
                self.model.check(&host, &what);
                self.stop(&host, second);
            }
            drop(go_on);
            let begun = Instant::now();
            for writer in writers {
                writer.join().expect("it is told");
            }
            ends.store(true, Ordering::Release);
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: it goes on");
            assert!(first.taken_by().is_some(), "{what}: it does not know");
            let host = if end == End::SleepsThroughAll { self.again(&what) } else { host };
            self.model.check(&host, &what);
            self.use_it(&host, seed + 5);
            self.model.check(&host, &what);
            host.stop().expect("it stops");
        });
    }

    fn again(&self, what: &str) -> Host {
        let third = stranger();
        let took = self.take(&third).expect("it was given back");
        assert!(took < WATCH, "{what}: the first one has claimed it again, {took:?}");
        self.open(&third)
    }
}

#[test]
fn of_two_hosts_one_has_the_volume_and_loses_nothing_whatever_the_other_does() {
    let ends = [End::InOrder, End::Killed, End::StandsStill, End::SleepsThroughAll];
    let seeds = std::env::var("HOST_SEEDS").ok().and_then(|said| said.parse().ok()).unwrap_or(8);
    std::thread::scope(|scope| {
        for (seed, end) in (0..seeds).zip(ends.into_iter().cycle()) {
            scope.spawn(move || {
                let (geometry, devices, superblock) = volume();
                let world = World { geometry, devices, superblock, model: Model::default() };
                world.ends(end, seed);
            });
        }
    });
}
