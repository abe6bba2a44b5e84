//! A bug in each mechanism that keeps flushed content.

use crate::real::{Real, SHAPES, Shape, WEATHERS, hush};
use crate::{is_caught, meant, run};
use pantile_sim::Fault;
use pantile_volume::Bug;
use std::ops::Range;

/// Where bugs are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worlds {
    /// The shapes of short runs in every weather.
    Usual,
    /// Few places, a crash every few requests, and devices that lose writes.
    Forgetful,
    /// Runs them with devices that come and go.
    Restless,
}

impl Worlds {
    fn of(bug: Bug) -> Worlds {
        match bug {
            Bug::GivesGenerationsAgain => Worlds::Forgetful,
            Bug::MovesCursorBeforeFlush => Worlds::Restless,
            _ => Worlds::Usual,
        }
    }

    fn all(self) -> Vec<Real> {
        match self {
            Worlds::Usual => {
                let shapes = || SHAPES.iter().filter(|shape| shape.element_blocks < 64);
                WEATHERS.iter().flat_map(|faults| shapes().map(|shape| Real::new(shape, faults))).collect()
            }
            Worlds::Forgetful => RESTLESS.map(|code| restless(code, &[Fault::Lost])).into(),
            Worlds::Restless => {
                RESTLESS.map(|code| restless(code, &[Fault::Gone, Fault::Returns, Fault::Replaced])).into()
            }
        }
    }
}

/// Codes of restless worlds.
const RESTLESS: [&str; 4] = ["mirror:2", "raid5:2", "mirror:3", "raid6:2"];

/// Few places, whole stripes only, and a crash every few requests. On devices that lose writes,
/// blocks of a forgotten record stay where the next session writes the same stripe. With devices
/// that come and go, every step of a rebuild can be the last.
fn restless(code: &'static str, faults: &[Fault]) -> Real {
    let shape = Shape {
        placement: None,
        code,
        element_blocks: 1,
        logical_stripes: 3,
        spare_stripes: 1,
        log_rows: 0,
        journal_blocks: 16,
        blocks_most: 6,
    };
    let mut real = Real::new(&shape, faults);
    real.config.kills_most = 120;
    real
}

/// Seeds within which a bug is caught: its chance is one in hundreds, or in some thousands of quick
/// runs. The search for a rare bug begins near a seed that found it.
fn seeds(bug: Bug) -> Range<u64> {
    match bug {
        Bug::GivesGenerationsAgain => 1350..9000,
        Bug::MovesCursorBeforeFlush => 0..8000,
        Bug::ForgetsGeneration => 400..2400,
        Bug::TakesEarlierDevice => 1100..3100,
        _ => 0..2000,
    }
}

#[test]
fn bugs_are_caught_and_without_them_the_same_seeds_pass() {
    hush();
    if let Some(seed) = std::env::var("SIM_FIRST").ok().and_then(|seed| seed.parse::<u64>().ok()) {
        let bug = meant(&Bug::ALL)[0];
        return match run(&Worlds::of(bug).all(), Some(bug), seed) {
            Ok(stats) => println!("seed {seed}: {stats:?}"),
            Err(failure) => panic!("{failure}"),
        };
    }
    let missed = |bug: &Bug| !is_caught(*bug, Worlds::of(*bug).all(), seeds(*bug));
    assert_eq!(meant(&Bug::ALL).into_iter().filter(missed).collect::<Vec<Bug>>(), [], "not caught");
}
