//! Tests a small world exhaustively: a power failure after every step, with every subset of
//! unflushed writes.
//!
//! If a point has more states than the bound, subsets of blocks are tried instead of subsets of
//! sectors, and then a random sample. [`Exhausted`] counts these points separately, so that no
//! sample looks like a proof. If the promise allows a loss, the tests are repeated with each device
//! lost in turn.

use crate::run::Run;
use crate::{Config, Disk, Engine, Failure, Grain, Kill, Random, Refusal, Start};

/// Counts of the crashes that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exhausted {
    /// Power failures at which every subset of sectors was tried.
    pub points_by_sector: u64,
    /// Power failures for which every subset of blocks was tried.
    pub points_by_block: u64,
    /// Power failures for which only a sample was tried.
    pub points_sampled: u64,
    /// The number of states that were opened and read.
    pub states: u64,
}

impl std::ops::AddAssign for Exhausted {
    fn add_assign(&mut self, other: Exhausted) {
        self.points_by_sector += other.points_by_sector;
        self.points_by_block += other.points_by_block;
        self.points_sampled += other.points_sampled;
        self.states += other.states;
    }
}

/// Runs the requests of one seed without faults, and opens every state that a power failure could
/// leave after each step.
///
/// Cost: up to `states_most` openings for each step; if a device may be lost, this times one more
/// than the number of devices.
#[allow(clippy::result_large_err, reason = "one a run")]
pub fn exhaust<E: Engine>(
    seed: u64,
    make: impl Fn(Start<'_>) -> Result<E, Refusal>,
    config: &Config,
    states_most: u64,
) -> Result<Exhausted, Failure> {
    let mut run = Run::new(seed, &make, config);
    let mut done = Exhausted::default();
    let mut random = Random::new(seed);
    if let Err(cause) = run.begin_in_peace() {
        return Err(run.failure(cause));
    }
    loop {
        match run.go_on_in_peace() {
            Ok(true) => {}
            Ok(false) => return Ok(done),
            Err(cause) => return Err(run.failure(cause)),
        }
        let mut model = run.model().clone();
        model.crashed(Kill::Power);
        for disks in states(run.disks(), states_most, &mut random, &mut done) {
            for disks in losses(disks, config, &mut random) {
                done.states += 1;
                crate::open_and_read(seed, &make, config, disks, model.clone())?;
            }
        }
    }
}

/// Returns every state that a power failure could leave of these devices, or a sample. Devices that
/// do not tear blocks are not torn.
fn states(disks: &[Disk], most: u64, random: &mut Random, done: &mut Exhausted) -> Vec<Vec<Disk>> {
    let tear = disks.iter().all(Disk::tears);
    if let Some(states) = product(disks, Grain::Sector, most).filter(|_| tear) {
        done.points_by_sector += 1;
        return states;
    }
    if let Some(states) = product(disks, Grain::Block, most) {
        done.points_by_block += 1;
        return states;
    }
    done.points_sampled += 1;
    let crashed = |_| {
        let mut disks = disks.to_vec();
        disks.iter_mut().for_each(|disk| disk.crash(random));
        disks
    };
    (0..most).map(crashed).collect()
}

fn product(disks: &[Disk], grain: Grain, most: u64) -> Option<Vec<Vec<Disk>>> {
    let mut all = vec![Vec::new()];
    for disk in disks {
        let states = disk.crash_states(grain, most / all.len() as u64).ok()?;
        let extended = states.flat_map(|state| {
            all.iter().map(move |before| before.iter().cloned().chain([state.clone()]).collect::<Vec<Disk>>())
        });
        all = extended.collect();
    }
    Some(all)
}

/// Returns the devices as they are, and also with each of them lost if one may be lost.
fn losses(disks: Vec<Disk>, config: &Config, random: &mut Random) -> Vec<Vec<Disk>> {
    let mut all = Vec::new();
    if config.promise.tolerance > 0 {
        for slot in 0..disks.len() {
            all.push(disks.clone());
            all[slot][slot].vanish(random);
        }
    }
    all.push(disks);
    all
}
