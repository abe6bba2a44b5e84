//! The page on delayed parity has its four parts: the gain, the possible losses, the measurements,
//! and the comparison of model and volume.

use pantile::Code;
use pantile_lab::delayed::{DelayedError, Options, record, run};
use pantile_lab::exascale::{Device, Scaling};
use pantile_lab::{Report, exascale, page};

/// A cell that loses: the page says so, whatever the last measurement was.
const LOSES: &str = "dcode:9 128 K 3541 3371 6213 0.95 1.75\n";

fn small() -> Options {
    let exascale = exascale::Options {
        devices: vec![Device::hdd()],
        scalings: vec![Scaling::Weak],
        clients: vec![2_000, 250_000],
        seeds: 1,
        events_most: 400_000,
        threads: 2,
        ..exascale::Options::quick()
    };
    let codes = ["raid5:4", "raid6:6"].map(|spec| Code::parse(spec).expect("a code")).to_vec();
    Options { exascale, record: record::COMMITTED.to_owned() + LOSES, codes, folder: None }
}

#[test]
fn one_page_holds_the_answer_the_model_the_record_and_the_cross_check() {
    let reports = run(&small(), &|_, _, _| ()).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = reports.iter().map(|report| report.experiment).collect();
    assert_eq!(names, ["delayed", "exascale", "delayed-record", "cross-check"]);
    let html = page("Delayed parity", "pantile-lab delayed", &[], &reports);
    for words in [
        "What can be lost",
        "epoch, before END",
        "epoch.write((i * PIECE_BYTES) as u64, piece, false)?;",
        "delayed, the paper",
        "Slower with delayed parity than with wcl",
        "raid5:4, one request at a time: operations per write",
        "raid5:4, writers at once: throughput over std",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.replace("http://www.w3.org/", "").contains("://"), "nothing is fetched");
    let found = |report: &Report, case: &str, quantity: &str| {
        report.find(case, quantity).unwrap_or_else(|| panic!("{case} {quantity}"))
    };
    let check = &reports[3];
    let time = |scheme: &str, side: &str| {
        found(check, "raid5:4", &format!("{scheme}/std by device time, one request at a time, {side}"))
    };
    assert!((time("wcl", "model") - 4.0 / 3.0).abs() < 1e-9 && time("wcl", "volume") < 1.0);
    assert!((found(check, "raid5:4", "delayed/std, writers at once, volume") - 3.5).abs() < 0.1);
    let docs = include_str!("../../../../docs/lab.md");
    for (code, scheme) in
        ["raid5:4", "raid6:6"].into_iter().flat_map(|code| [(code, "wcl"), (code, "delayed")])
    {
        let row = ["model", "volume"].map(|side| {
            let quotient = found(check, code, &format!("{scheme}/std, writers at once, {side}"));
            format!("{quotient:.2}")
        });
        let line = format!("| {scheme}, {code} | {} |", row.join(" | "));
        assert!(docs.contains(&line), "docs/lab.md lacks {line}");
    }
    assert_eq!(
        found(&reports[0], "epoch, before END", "bytes without parity at most, by default"),
        268_435_456.0
    );
}

#[test]
fn a_text_that_is_no_record_is_refused_before_anything_is_run() {
    let options = Options { record: "nothing".into(), ..small() };
    let told = |_: &'static str, _: u64, _: u64| panic!("something is run");
    assert!(matches!(run(&options, &told), Err(DelayedError::Record(_))));
}
