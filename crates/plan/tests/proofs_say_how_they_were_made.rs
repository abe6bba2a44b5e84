//! Samples, cuts, shift invariance and threads: a certificate says which, and none changes a count.

use pantile_code::Code;
use pantile_plan::{Method, ProveOptions, prove};
use std::sync::atomic::{AtomicU64, Ordering};

fn certificate(spec: &str, options: &ProveOptions) -> pantile_plan::Certificate {
    prove(&Code::parse(spec).unwrap(), options, &|_, _, _| true)
}

#[test]
fn shift_invariance_counts_what_the_full_walk_counts() {
    // A custom copy of the code has another spec but the same equations; scaling one parity hides the invariance.
    for spec in ["raidq:12+4", "raidq:24+4,x=08.01", "raidq:9+4,cbrt", "raidq:14+3", "raidq:9+4,powers"] {
        let code = Code::parse(spec).unwrap();
        let by_shift = prove(&code, &ProveOptions::default(), &|_, _, _| true);
        assert!(by_shift.by_shift, "{spec}");
        let text = code.to_text();
        let columns = code.columns();
        let last = text.lines().rev().find(|l| l.starts_with('[')).unwrap().to_string();
        let doubled = text.replace(&last, &double(&last));
        let walked = prove(&Code::from_text(&doubled).unwrap(), &ProveOptions::default(), &|_, _, _| true);
        assert!(!walked.by_shift, "{spec}");
        assert_eq!(by_shift.levels, walked.levels, "{spec}");
        assert_eq!((by_shift.fatal, by_shift.fatal_count), (walked.fatal, walked.fatal_count), "{spec}");
        assert_eq!(walked.columns, columns);
    }
}

/// The same equation with every term on the right-hand side multiplied by a: another parity, the same code.
fn double(line: &str) -> String {
    let (left, right) = line.split_once(" = ").unwrap();
    let terms: Vec<String> = right
        .split(" + ")
        .map(|term| {
            let (coefficient, cell) = term.split_once('*').map_or((1, term), |(c, cell)| (parse(c), cell));
            format!("{}*{cell}", (pantile_gf::Gf(coefficient) * pantile_gf::ALPHA).0)
        })
        .collect();
    format!("{left} = {}", terms.join(" + "))
}

fn parse(text: &str) -> u8 {
    match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for spec in ["shec:6,4,3", "raidp:6", "lrc:12,2,2", "raidq:20+4", "dcode:7"] {
        let one = certificate(spec, &ProveOptions { threads: 1, ..ProveOptions::default() });
        let three = certificate(spec, &ProveOptions { threads: 3, ..ProveOptions::default() });
        assert_eq!(one, three, "{spec}");
    }
}

#[test]
fn a_level_too_large_is_sampled_and_says_so() {
    let options = ProveOptions { sets_most: 100, sample: 20_000, ..ProveOptions::default() };
    let exact = certificate("shec:6,4,3", &ProveOptions::default());
    let sampled = certificate("shec:6,4,3", &options);
    assert!(!sampled.is_exact());
    assert!(sampled.levels.iter().all(|level| level.sets < 100 || !level.all_survive()));
    // The interval holds the truth in about 95 of 100 samples, and its end is near.
    let truth =
        |lost: usize| 1.0 - exact.levels[lost - 1].survived as f64 / exact.levels[lost - 1].sets as f64;
    let mut held = [0; 2];
    for seed in 0..100 {
        let certificate = certificate("shec:6,4,3", &ProveOptions { seed, ..options.clone() });
        for (lost, held) in [3, 4].into_iter().zip(&mut held) {
            let Method::Sampled { drawn: 20_000, fatal_share_most } = certificate.levels[lost - 1].method
            else {
                panic!("level {lost} has more than 100 sets");
            };
            assert!((fatal_share_most - truth(lost)).abs() < 0.02, "seed {seed}, level {lost}");
            *held += usize::from(truth(lost) <= fatal_share_most);
        }
    }
    assert!(held.iter().all(|&h| (88..=99).contains(&h)), "{held:?} of 100");
    assert_eq!(sampled, certificate("shec:6,4,3", &options), "the same seed draws the same sample");
    let none =
        certificate("rs:10+4", &ProveOptions { sets_most: 10, sample: 3_000, ..ProveOptions::default() });
    assert_eq!(none.levels[3].method, Method::Sampled { drawn: 3_000, fatal_share_most: 0.001 });
    assert_eq!(none.tolerance(), 0, "a sample proves nothing; the one level below the limit has 14 sets");
}

#[test]
fn a_proof_can_be_limited_and_ended() {
    let cut = certificate("rs:6+3", &ProveOptions { lost_most: Some(2), ..ProveOptions::default() });
    assert!(cut.cut && cut.levels.len() == 2);
    let calls = AtomicU64::new(0);
    let ended = prove(&Code::parse("raidq:60+4").unwrap(), &ProveOptions::default(), &|lost, done, sets| {
        assert!(done <= sets);
        calls.fetch_add(1, Ordering::Relaxed);
        lost < 3
    });
    assert!(ended.cut && ended.levels.len() == 2);
    assert!(calls.load(Ordering::Relaxed) >= 3);
}

#[test]
fn a_code_without_redundancy_survives_nothing() {
    let certificate = certificate("raid0:3", &ProveOptions::default());
    assert_eq!(certificate.levels.len(), 1);
    assert_eq!((certificate.levels[0].survived, certificate.tolerance()), (0, 0));
    assert_eq!(certificate.fatal, [[0], [1], [2]]);
}
