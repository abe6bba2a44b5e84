//! Numbers on which the papers and an independent program agree, from `vectors/facts.json`, and the
//! closed forms.

use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, Costs, Effort, Optimality, Planner, ProveOptions, Request, prove};
use serde_json::Value;

fn facts() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/facts.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("vectors/facts.json is there"))
        .expect("it is JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Returns the number of reads that rebuild the given columns.
fn reads(code: &Code, lost: &[usize], effort: Effort) -> Option<(usize, Optimality)> {
    let lost = CellSet::of_columns(code, lost);
    let wanted: Vec<CellIndex> = lost.iter().collect();
    let request = Request { lost: &lost, wanted: &wanted, costs: &Costs::uniform(), effort };
    let plan = Planner::new(code).recover(&request).ok()?;
    assert!(plan.is_sound(code, &lost), "{code}");
    Some((plan.reads.len(), plan.optimality))
}

#[test]
fn an_effort_without_end_is_as_good_as_a_large_one() {
    for spec in ["dcode:5", "evenodd:5", "shec:6,4,3"] {
        let code = Code::parse(spec).unwrap();
        let with = |nodes: usize| reads(&code, &[0], Effort::Thorough { nodes });
        assert_eq!(with(usize::MAX), with(1_000_000), "{spec}");
        assert_eq!(with(1 << 58), with(1_000_000), "{spec}");
    }
}

#[test]
fn tolerance_counts_and_smallest_fatal_sets() {
    let facts = facts();
    let all = facts["tolerance"].as_array().unwrap();
    assert!(all.len() >= 20);
    for fact in all {
        let spec = fact["spec"].as_str().unwrap();
        let code = Code::parse(spec).unwrap();
        let options =
            ProveOptions { counts_all: true, fatal_most: usize::MAX, threads: 2, ..ProveOptions::default() };
        let certificate = prove(&code, &options, &|_, _, _| true);
        assert!(certificate.is_exact(), "{spec}");
        for level in fact["tolerance"].as_array().unwrap() {
            let lost = number(&level["lost"]) as usize;
            let Some(ours) = certificate.levels.get(lost - 1) else {
                assert_eq!(number(&level["survived"]), 0, "{spec}, {lost} columns");
                continue;
            };
            assert_eq!(ours.sets, number(&level["sets"]), "{spec}, {lost} columns");
            assert_eq!(ours.survived, number(&level["survived"]), "{spec}, {lost} columns");
        }
        let fatal: Vec<Vec<usize>> = serde_json::from_value(fact["fatal"].clone()).unwrap();
        assert_eq!(certificate.fatal, fatal, "{spec}");
    }
}

#[test]
fn the_counts_that_the_design_names() {
    let survived = |spec: &str, lost: usize| {
        let options =
            ProveOptions { counts_all: true, lost_most: Some(lost), threads: 2, ..ProveOptions::default() };
        let certificate = prove(&Code::parse(spec).unwrap(), &options, &|_, _, _| true);
        let level = &certificate.levels[lost - 1];
        (level.sets - level.survived, level.sets)
    };
    assert_eq!(survived("dcode:9,raw", 2), (9, 36));
    assert_eq!(survived("dcode:9", 2), (0, 36));
    assert_eq!(survived("shec:6,4,3", 2), (0, 45));
    assert_eq!(survived("shec:6,4,3", 3), (10, 120));
    assert_eq!(survived("shec:6,4,3", 4), (76, 210));
    assert_eq!(survived("slpg:6,4,3", 3), (20, 120));
    assert_eq!(survived("lrc:12,2,2", 4), (1820 - 1568, 1820));
    for n in [5, 7, 11, 13] {
        assert_eq!(survived(&format!("dcode:{n}"), 2).0, 0);
    }
    // At its limit a RAIDq code still has the claimed tolerance, counted over all sets by shift
    // invariance.
    assert_eq!(survived("raidq:92+4", 4), (0, 3_321_960));
    assert_eq!(survived("raidq:21+4,powers", 4), (0, 12_650));
}

#[test]
fn raidp_over_its_disks_alone() {
    for fact in facts()["raidp_disks_only"].as_array().unwrap() {
        let spec = fact["spec"].as_str().unwrap();
        let lost = number(&fact["lost"]) as usize;
        let code = Code::parse(spec).unwrap();
        let disks = code.rows(0) + 1;
        if disks > 8 && lost > 3 {
            continue;
        }
        let mut survived = 0;
        let mut set: Vec<usize> = (0..lost).collect();
        let planner = Planner::new(&code);
        loop {
            let gone = CellSet::of_columns(&code, &set);
            let wanted: Vec<CellIndex> = gone.iter().collect();
            let request =
                Request { lost: &gone, wanted: &wanted, costs: &Costs::uniform(), effort: Effort::Fast };
            survived += u64::from(planner.recover(&request).is_ok());
            let Some(i) = (0..lost).rev().find(|&i| set[i] < disks - lost + i) else { break };
            set[i] += 1;
            (i + 1..lost).for_each(|j| set[j] = set[j - 1] + 1);
        }
        assert_eq!(survived, number(&fact["survived"]), "{spec}, {lost} disks");
    }
}

#[test]
fn mean_reads_of_shingled_and_local_codes() {
    for fact in facts()["mean_reads"].as_array().unwrap() {
        let spec = fact["spec"].as_str().unwrap();
        let lost = number(&fact["lost"]) as usize;
        let code = Code::parse(spec).unwrap();
        let columns = code.columns();
        let (mut sum, mut recoverable) = (0, 0);
        let mut set: Vec<usize> = (0..lost).collect();
        loop {
            if let Some((reads, optimality)) = reads(&code, &set, Effort::THOROUGH) {
                assert_eq!(optimality, Optimality::Exact, "{spec} {set:?}");
                sum += reads as u64;
                recoverable += 1;
            }
            let Some(i) = (0..lost).rev().find(|&i| set[i] < columns - lost + i) else { break };
            set[i] += 1;
            (i + 1..lost).for_each(|j| set[j] = set[j - 1] + 1);
        }
        assert_eq!((sum, recoverable), (number(&fact["reads"]), number(&fact["recoverable"])), "{spec}");
    }
}

#[test]
fn fewest_reads_to_rebuild_a_column() {
    for fact in facts()["rebuild_reads"].as_array().unwrap() {
        let spec = fact["spec"].as_str().unwrap();
        let code = Code::parse(spec).unwrap();
        for (column, expected) in fact["reads"].as_array().unwrap().iter().enumerate() {
            let Some(expected) = expected.as_u64() else { continue };
            let Some((reads, _)) = reads(&code, &[column], Effort::Fast) else {
                panic!("{spec}: column {column}")
            };
            assert!(
                reads as u64 <= expected,
                "{spec}, column {column}: {reads} reads, {expected} are known to do"
            );
        }
    }
    for p in [5, 7, 11, 13, 17] {
        let fewest = |spec: String, column: usize| {
            reads(&Code::parse(&spec).unwrap(), &[column], Effort::Fast).unwrap().0
        };
        assert_eq!(fewest(format!("dcode:{p}"), 0), (3 * p * p - 8 * p + 13) / 4);
        assert_eq!(fewest(format!("xcode:{p}"), 0), (3 * p * p - 8 * p + 13) / 4);
        assert_eq!(fewest(format!("rdp:{}", p + 1), 0), 3 * (p - 1) * (p - 1) / 4);
        assert_eq!(fewest(format!("hcode:{}", p + 1), 1), 3 * (p - 1) * (p - 1) / 4);
        assert_eq!(fewest(format!("hdp:{}", p - 1), 0), (3 * p * p - 12 * p + 13) / 4);
        assert_eq!(fewest(format!("evenodd:{}", p + 2), 1), (3 * p + 1) * (p - 1) / 4);
    }
}

#[test]
fn no_plan_of_any_form_reads_less_for_p_of_seven() {
    // The search over all equations runs to its end and confirms the hybrid plans.
    for (spec, column, expected) in [
        ("dcode:7", 0, 26),
        ("xcode:7", 3, 26),
        ("rdp:8", 0, 27),
        ("hcode:8", 1, 27),
        ("hdp:6", 0, 19),
        ("evenodd:7", 1, 16),
    ] {
        let code = Code::parse(spec).unwrap();
        assert_eq!(reads(&code, &[column], Effort::THOROUGH), Some((expected, Optimality::Exact)), "{spec}");
    }
}

#[test]
fn an_expensive_column_is_avoided_when_that_is_cheaper() {
    let code = Code::parse("rs:4+2").unwrap();
    let planner = Planner::new(&code);
    let lost = CellSet::of_columns(&code, &[1]);
    let wanted: Vec<CellIndex> = lost.iter().collect();
    let mut costs = Costs::uniform();
    costs.set(0, 5);
    let request = Request { lost: &lost, wanted: &wanted, costs: &costs, effort: Effort::Fast };
    let plan = planner.recover(&request).unwrap();
    assert_eq!(plan.reads_per_column(&code), [0, 0, 1, 1, 1, 1]);
    assert_eq!(plan.optimality, Optimality::Exact);
    // A wanted cell that survives is computed if its column costs more than the others together.
    let nothing = CellSet::empty(&code);
    let wanted = [code.data()[0]];
    for (cost, read) in [(3, true), (9, false)] {
        costs.set(0, cost);
        let request = Request { lost: &nothing, wanted: &wanted, costs: &costs, effort: Effort::Fast };
        let plan = planner.recover(&request).unwrap();
        assert_eq!(plan.reads.contains(&wanted[0]), read, "at cost {cost}: {plan:?}");
        assert!(plan.is_sound(&code, &nothing));
    }
}
