//! Bugs that show in small volumes.

use crate::real::{hush, pairs, sides, small};
use pantile_volume::{Bug, Found, with};

#[test]
fn bugs_are_caught_by_every_crash_of_a_small_volume() {
    hush();
    for bug in [Bug::AnswersBeforeFlush, Bug::BelievesLastRecord, Bug::ReusesFreedTooEarly] {
        let failure = (0..8).find_map(|seed| with(Some(bug), || small::run("mirror:2", seed, 16)).err());
        let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?}: seed {}: {}", failure.seed, failure.cause);
    }
}

#[test]
fn a_history_that_is_never_drawn_anew_shows_nothing() {
    assert!(with(None, sides::halves_are_refused));
    assert!(!with(Some(Bug::KeepsHistory), sides::halves_are_refused));
}

#[test]
fn rows_ahead_that_count_before_they_are_written_are_caught() {
    let lost = || pairs::one_more_is_lost_at_every_step(Found::Blank).1;
    assert_eq!(with(None, lost), []);
    assert_ne!(with(Some(Bug::CountsRowsAheadTooEarly), lost), []);
}
