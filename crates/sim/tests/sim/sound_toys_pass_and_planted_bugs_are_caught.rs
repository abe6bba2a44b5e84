//! Tests of the simulation: a sound toy passes every seed, and each planted bug is caught within a
//! stated number of seeds.

use crate::common::{Bug, Toy};
use pantile_sim::{Breach, Cause, Config, Failure, Fault, Stats, Verdict, Wrong, run_seed, run_seeds};
use std::ops::Range;

/// Returns the seeds of a sound toy. `PANTILE_SEED=7` runs that one, `PANTILE_SEEDS=1000000` that
/// many.
fn seeds() -> Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    match number("PANTILE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PANTILE_SEEDS").unwrap_or(500),
    }
}

fn config(devices: u32) -> Config {
    let test = ["a_sound_toy_on_one_device", "a_sound_mirror_of_two", "a_sound_mirror_of_three"];
    let replay = format!("--release --package pantile-sim --test sim {}", test[devices as usize - 1]);
    Config { replay: format!("PANTILE_SEED={{seed}} cargo test {replay}"), ..Toy::config(devices) }
}

fn run(seed: u64, devices: u32, bug: Option<Bug>) -> Result<Stats, Box<Failure>> {
    run_seed(seed, |start| Toy::start(start, bug), &config(devices)).map_err(Box::new)
}

fn all_pass(devices: u32) -> Stats {
    let before = std::time::Instant::now();
    match run_seeds(seeds(), 2, |start| Toy::start(start, None), &config(devices)) {
        Ok(total) => {
            println!("{} seeds on {devices} devices in {:?}:\n{total}", seeds().count(), before.elapsed());
            total
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_sound_toy_on_one_device_passes() {
    let total = all_pass(1);
    let seeds = seeds().count() as u32;
    assert!(seeds < 100 || (total.kills > 3 * seeds && total.kills_in_recovery > seeds / 10));
    assert_eq!(total.faults.keys().filter(|&&fault| fault != Fault::Slow).count(), 0);
}

#[test]
fn a_sound_mirror_of_two_passes() {
    let total = all_pass(2);
    assert!(seeds().count() < 100 || total.faults.len() == config(2).faults.len(), "every fault happens");
}

#[test]
fn a_sound_mirror_of_three_passes() {
    all_pass(3);
}

/// Returns the failure of the first seed that fails.
fn first_failure(bug: Bug, devices: u32, seeds: u64) -> Box<Failure> {
    let failure = (0..seeds).find_map(|seed| run(seed, devices, Some(bug)).err());
    let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not caught within {seeds} seeds"));
    println!("{bug:?} on {devices}: seed {}: {}", failure.seed, failure.cause);
    failure
}

fn wrong_content(failure: &Failure) -> Option<Verdict> {
    match &failure.cause {
        Cause::Wrong(Wrong::Content { verdict, .. }) => Some(*verdict),
        _ => None,
    }
}

#[test]
fn an_answer_before_the_flush_is_caught_within_50_seeds() {
    assert!(wrong_content(&first_failure(Bug::AnswersBeforeFlush, 1, 50)).is_some());
    assert!(wrong_content(&first_failure(Bug::AnswersBeforeFlush, 2, 50)).is_some());
}

#[test]
fn a_device_that_is_not_flushed_is_caught_within_100_seeds() {
    assert!(wrong_content(&first_failure(Bug::ForgetsOneFlush, 2, 100)).is_some());
}

#[test]
fn a_stale_mirror_is_caught_within_20_seeds_and_a_trusted_one_within_200() {
    assert!(wrong_content(&first_failure(Bug::ReadsStaleMirror, 2, 20)).is_some());
    assert!(wrong_content(&first_failure(Bug::TrustsStaleDevice, 2, 200)).is_some());
}

#[test]
fn another_blocks_content_is_caught_within_10_seeds() {
    let failure = first_failure(Bug::GivesOtherBlock, 1, 10);
    assert!(matches!(wrong_content(&failure), Some(Verdict::Foreign { .. })));
}

#[test]
fn a_torn_block_is_caught_within_50_seeds() {
    let torn = (0..50).filter_map(|seed| run(seed, 1, Some(Bug::TakesTornBlock)).err());
    assert!(torn.filter_map(|failure| wrong_content(&failure)).any(|verdict| verdict == Verdict::Torn));
}

#[test]
fn a_dropped_checksum_is_caught_within_100_seeds() {
    assert!(wrong_content(&first_failure(Bug::DropsChecksum, 2, 100)).is_some());
}

#[test]
fn a_write_in_place_is_caught_within_20_seeds() {
    assert!(wrong_content(&first_failure(Bug::WritesInPlace, 1, 20)).is_some());
}

#[test]
fn a_skipped_catch_up_is_caught_within_100_seeds() {
    assert!(wrong_content(&first_failure(Bug::SkipsCatchUp, 2, 100)).is_some());
}

#[test]
fn an_early_release_and_a_leak_are_caught_within_2_seeds() {
    let early = first_failure(Bug::ReleasesTooEarly, 1, 2);
    assert!(matches!(early.cause, Cause::Breach(Breach::ReleasedInUse { .. })));
    let leak = first_failure(Bug::Leaks, 1, 2);
    assert!(matches!(leak.cause, Cause::Breach(Breach::BuffersLeaked { .. })));
}

#[test]
fn waiting_for_a_device_that_is_gone_is_caught_within_50_seeds() {
    assert!(matches!(first_failure(Bug::WaitsForever, 2, 50).cause, Cause::Stuck { .. }));
}

#[test]
fn a_seed_gives_the_same_run_again_and_other_seeds_give_others() {
    let hash = |seed, bug| match run(seed, 2, bug) {
        Ok(stats) => stats.trace_hash,
        Err(failure) => panic!("{failure}"),
    };
    let hashes: Vec<u64> = (0..50).map(|seed| hash(seed, None)).collect();
    assert_eq!(hashes, (0..50).map(|seed| hash(seed, None)).collect::<Vec<_>>());
    assert_eq!(hashes.iter().collect::<std::collections::BTreeSet<_>>().len(), 50);
    // Failures are equal too, down to the last line of the trace.
    let failure = first_failure(Bug::ReadsStaleMirror, 2, 100);
    assert_eq!(run(failure.seed, 2, Some(Bug::ReadsStaleMirror)), Err(failure));
    // An engine that depends on more than its events is detected.
    assert!((0..5).any(|seed| hash(seed, Some(Bug::HashOrder)) != hash(seed, Some(Bug::HashOrder))));
}
