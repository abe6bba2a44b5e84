//! Claim: a certificate states whether sampling, a cut or shift invariance was used, and neither
//! these nor threads change a count.

use pantile_code::Code;
use pantile_plan::{Method, ProveOptions, prove};
use std::sync::atomic::{AtomicU64, Ordering};

fn certificate(spec: &str, options: &ProveOptions) -> pantile_plan::Certificate {
    prove(&Code::parse(spec).unwrap(), options, &|_, _, _| true)
}

#[test]
fn shift_invariance_counts_what_the_full_walk_counts() {
    // A custom copy of the code has another spec but the same equations; scaling one parity hides
    // the invariance.
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

/// Multiplies every term on the right-hand side of an equation by a, which changes the parity and
/// gives an equivalent code.
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
fn all_levels_together_take_what_was_allowed_and_no_more() {
    let of = |work_all: u64, threads: usize| {
        let options =
            ProveOptions { lost_most: Some(3), sample: 0, work_all, threads, ..ProveOptions::default() };
        certificate("clay:6,3,8", &options)
    };
    let whole = of(u64::MAX, 1);
    assert_eq!((whole.tolerance(), whole.clone()), (3, of(u64::MAX, 3)));
    // A test exceeds its limit by at most one vector. A vector costs twice as many symbols as there
    // are equations, for each vector before it.
    let vector = 2 * 81 * 81;
    for allowed in [0, 10_000, whole.work / 10, whole.work / 2] {
        let found = of(allowed, 1);
        assert!(
            found.tolerance() < 3 && found.cut && found.work <= allowed + 2 * vector,
            "{allowed}: {}",
            found.work
        );
        assert_eq!(found, of(allowed, 3), "{allowed}");
    }
    assert_eq!(of(2 * whole.work, 1).tolerance(), 3);
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
    // The interval contains the true share in about 95 of 100 samples, and its end is close to it.
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
    let none = certificate(
        "rs:10+4",
        &ProveOptions { counts_all: true, sets_most: 10, sample: 3_000, ..ProveOptions::default() },
    );
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

/// Each part of the level is too little work for a report, yet their sum is reported.
#[test]
fn progress_is_told_within_a_level_of_many_small_parts() {
    let within = AtomicU64::new(0);
    let options = ProveOptions { lost_most: Some(3), ..ProveOptions::default() };
    prove(&Code::parse("raidp:24").unwrap(), &options, &|lost, done, sets| {
        within.fetch_add(u64::from(lost == 3 && done > 0 && done < sets), Ordering::Relaxed);
        true
    });
    assert!(within.into_inner() > 0);
}

#[test]
fn a_code_without_redundancy_survives_nothing() {
    let certificate = certificate("raid0:3", &ProveOptions::default());
    assert_eq!(certificate.levels.len(), 1);
    assert_eq!((certificate.levels[0].survived, certificate.tolerance()), (0, 0));
    assert_eq!(certificate.fatal, [[0], [1], [2]]);
}

#[test]
fn wide_codes_are_proven_through_a_higher_level_with_fewer_sets() {
    // Level 100 has far too many sets to count, but the last level that can survive has only as
    // many sets as columns.
    for (spec, tolerance) in [("mirror:258", 257), ("rs:1+255", 255), ("mirror:3", 2), ("rs:2+200", 200)] {
        let certificate = certificate(spec, &ProveOptions { counts_all: true, ..ProveOptions::default() });
        assert_eq!((certificate.tolerance(), certificate.is_exact()), (tolerance, true), "{spec}");
        assert!(!certificate.cut && certificate.by_inclusion == (spec != "mirror:3"), "{spec}");
        assert_eq!(certificate.fatal[0], (0..=tolerance).collect::<Vec<_>>(), "{spec}");
    }
    // A higher level with fatal sets decides no lower level; it is counted only once.
    let text = "pantile-code 1\nname weak-mirror\ncolumns 12\nrows 1\n[0][2] = [0][0]\n".to_string();
    let copies: String = (3..12).map(|c| format!("[0][{c}] = [0][1]\n")).collect();
    let weak = Code::from_text(&(text + &copies)).unwrap();
    let walked =
        prove(&weak, &ProveOptions { lost_most: Some(10), ..ProveOptions::default() }, &|_, _, _| true);
    assert!(walked.is_exact() && walked.tolerance() == 1 && !walked.by_inclusion);
    assert_eq!((walked.fatal, walked.fatal_count), (vec![vec![0, 2]], 1));
    // All but one of the ten equal columns can be lost, and one of the two others: 2 * 10 sets of
    // ten columns.
    assert_eq!((walked.levels[9].sets, walked.levels[9].survived), (66, 20));
}

#[test]
fn a_level_that_would_cost_too_much_is_sampled_whatever_the_threads() {
    let options = ProveOptions { counts_all: true, work_most: 1_000_000, ..ProveOptions::default() };
    for spec in ["rs:20+20", "raidp:12", "xorbas:60,20,6", "raidq:60+4"] {
        let one = certificate(spec, &options);
        assert_eq!(one, certificate(spec, &ProveOptions { threads: 3, ..options.clone() }), "{spec}");
        let sampled: Vec<u64> = one
            .levels
            .iter()
            .filter_map(|level| match level.method {
                Method::Sampled { drawn, .. } => Some(drawn),
                Method::Exact => None,
            })
            .collect();
        assert_eq!(one.levels[0].method, Method::Exact, "{spec}: the first level is small");
        assert!(
            !sampled.is_empty() && sampled.iter().all(|drawn| (512..200_000).contains(drawn)),
            "{spec}: {sampled:?}"
        );
    }
}

#[test]
fn progress_is_told_before_anything_is_counted() {
    let first = std::sync::Mutex::new(None);
    let code = Code::parse("raidp:12").unwrap();
    let ended = prove(&code, &ProveOptions::default(), &|lost, done, _| {
        first.lock().unwrap().get_or_insert((lost, done));
        false
    });
    assert_eq!((first.into_inner().unwrap(), ended.levels.len(), ended.cut), (Some((1, 0)), 0, true));
}

#[test]
fn a_sample_that_draws_nothing_proves_nothing() {
    let code = Code::parse("shec:6,4,3").unwrap();
    let none = [
        ProveOptions { sets_most: 0, sample: 0, ..ProveOptions::default() },
        ProveOptions { work_most: 0, ..ProveOptions::default() },
    ];
    for options in none {
        let proof = prove(&code, &options, &|_, _, _| true);
        assert!(proof.cut && proof.levels.is_empty(), "{proof:?}");
        assert_eq!((proof.tolerance(), proof.fatal_count), (0, 0), "{proof:?}");
    }
}
