//! Sections IV and V of the D-Code paper on the volume's engine: it does what plans were counted to
//! do, and disks that are given are read and nothing else.

use pantile_lab::papers::dcode_engine::{Disk, NAME, Options, run};
use pantile_lab::papers::dcode_read::{ReadPlanner, Reads};
use pantile_lab::papers::executed::ExecuteError;
use pantile_lab::papers::{Rival, dcode_disks, dcode_load};
use pantile_lab::{Figure, Kind, Report};

fn small(disk: Disk) -> Options {
    Options {
        primes: vec![5],
        disks: vec![disk],
        reads: 400,
        reads_lost: 60,
        threads: 2,
        ..Options::default()
    }
}

fn value(report: &Report, case: &str, quantity: &str) -> f64 {
    report.find(case, quantity).unwrap_or_else(|| panic!("no {case}: {quantity}"))
}

/// Every request of section IV once, as a read and as a write: what is read for users and written
/// is what the paper's convention counts, and with what writes read before it is the cheapest
/// plan's.
#[test]
fn the_engine_accesses_what_was_counted() {
    let report = run(&small(Disk::Element)).expect("it runs");
    let counted = dcode_load::run(&dcode_load::Options { runs: 1, ..dcode_load::Options::default() });
    for rival in Rival::ALL {
        for (workload, convention) in
            ["1:0", "7:3", "1:1"].into_iter().flat_map(|workload| [(workload, ""), (workload, " min")])
        {
            let case = format!("{} p=5 {workload}{convention}", rival.name());
            let of = |report| value(report, &case, "cost per request");
            assert!((of(&report) - of(&counted)).abs() < 1e-9, "{case}: {} {}", of(&report), of(&counted));
            let factor = |report: &Report| report.find(&case, "load factor");
            let (ours, theirs) = (factor(&report), factor(&counted));
            assert_eq!(ours.is_none(), theirs.is_none(), "{case}: a disk that nobody asks anything");
            assert!(
                (ours.unwrap_or(0.0) - theirs.unwrap_or(0.0)).abs() < 1e-9,
                "{case}: {ours:?} {theirs:?}"
            );
        }
    }
    assert!(
        report.measures.iter().all(|measure| measure.experiment == NAME && measure.kind == Kind::Measured)
    );
}

/// Where each element costs the same, the engine is as fast as the model: but for chance, and the
/// requests that go on in a stripe that is turned.
#[test]
fn the_engine_is_as_fast_as_its_plans() {
    let report = run(&small(Disk::Element)).expect("it runs");
    for rival in Rival::ALL {
        let code = rival.code(5);
        let reads = Reads::new(&code);
        let case = format!("{} p=5 element", rival.name());
        let healthy = value(&report, &case, "healthy, elements per service time") / reads.normal();
        assert!((0.93..=1.15).contains(&healthy), "{case}: {healthy}");
        let lost = value(&report, &case, "one disk lost, elements per service time");
        // Fewest reads are not the least busy disk, nor the first chain.
        let (first, balanced) = (reads.degraded(ReadPlanner::First), reads.degraded(ReadPlanner::Balanced));
        assert!(0.9 * first < lost && lost < 1.15 * balanced, "{case}: {first} {lost} {balanced}");
    }
}

/// The paper's disk has a position and a rate, so that elements in one piece cost less than apart.
#[test]
fn a_disk_with_positions_is_another_disk() {
    let savvio = run(&small(Disk::savvio())).expect("it runs");
    let speed = value(&savvio, "RDP p=5 savvio", "healthy, MB/s");
    // A request of 10.5 elements on 4 disks of data takes one position, half to one and a half of
    // 7 ms, or a few.
    assert!((15.0..=110.0).contains(&speed), "{speed}");
    let again = run(&small(Disk::savvio())).expect("it runs");
    assert_eq!(savvio.measures, again.measures, "virtual time has no chance in it");
}

#[test]
fn disks_are_read_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        primes: vec![5],
        disks: vec![Disk::Element],
        reads: 10,
        reads_lost: 2,
        requests: 1,
        element_bytes: 4096,
        ..Options::default()
    };
    let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    let files: Vec<_> = (0..5).map(|i| folder.path().join(format!("disk-{i}"))).collect();
    files.iter().for_each(|file| std::fs::write(file, &content).expect("written"));
    let mut report = run(&options).expect("it runs");
    dcode_disks::add(&mut report, &options, &files, &|_, _| ()).expect("they are read");
    for (case, is_there) in [("HDP p=5 disks", true), ("D-Code p=5 disks", true), ("RDP p=5 disks", false)] {
        for quantity in ["healthy, MB/s", "one disk lost, MB/s"] {
            assert_eq!(report.find(case, quantity).is_some_and(|speed| speed > 0.0), is_there, "{case}");
        }
    }
    assert!(files.iter().all(|file| std::fs::read(file).expect("read") == content));
    // Too few, too short, or not there: said before anything is read.
    let add = |files: &[std::path::PathBuf], element_bytes| {
        let options = Options { element_bytes, ..options.clone() };
        dcode_disks::add(&mut run(&options).expect("it runs"), &options, files, &|_, _| ())
    };
    assert!(matches!(add(&files[..3], 4096), Err(ExecuteError::Few { have: 3, need: 4 })));
    let short = add(&files, 1 << 20).expect_err("1 MiB is too short for 16 stripes of such elements");
    assert!(matches!(&short, ExecuteError::Short { have, need, .. } if have < need), "{short}");
    assert!(short.to_string().contains("--element"), "{short}");
    let gone = add(&[&files[..4], &[folder.path().join("gone")]].concat(), 4096);
    assert!(matches!(gone, Err(ExecuteError::Device(_))));
}

/// As `lab papers` runs it.
#[test]
fn the_docs_say_at_which_primes_the_texts_order_holds() {
    let report = run(&Options { threads: 2, ..Options::quick() }).expect("it runs");
    let listing = report.figures.iter().find_map(|figure| match figure {
        Figure::Listing(listing) => Some(listing),
        _ => None,
    });
    let rows = &listing.expect("a listing").rows;
    assert_eq!(rows.len(), 13);
    let counts = ["element", "savvio", "virtual-disk"].map(|disk| {
        format!("{}", value(&report, disk, "D-Code before or behind another code as the text says"))
    });
    let count = format!("| statements that hold, of 48 | {} |", counts.join(" | "));
    let docs = include_str!("../../../../docs/lab.md");
    for line in rows.iter().map(|row| format!("| {} |", row.join(" | "))).chain([count]) {
        assert!(docs.contains(&line), "docs/lab.md lacks {line}");
    }
}
