//! Sections IV and V of the D-Code paper on the volume's engine: it does the operations of the
//! counted plans. Given disks are read, and written only on request.

use pantile_lab::papers::dcode_disks::{self, Disks, Use};
use pantile_lab::papers::dcode_engine::{Disk, NAME, Options, run};
use pantile_lab::papers::dcode_read::{ReadPlanner, Reads};
use pantile_lab::papers::executed::ExecuteError;
use pantile_lab::papers::{Rival, dcode_load};
use pantile_lab::{Figure, Kind, Report};
use std::fs::File;
use std::path::{Path, PathBuf};

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

/// Every request of section IV runs once, as a read and as a write. Reads for users and writes
/// follow the paper's convention; with the reads that writes need, they follow the cheapest plan.
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

/// With a constant cost of elements, the engine is as fast as the model, except for chance and for
/// requests that go on in a turned stripe.
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
        // The fewest reads are neither the least busy disk nor the first chain.
        let (first, balanced) = (reads.degraded(ReadPlanner::First), reads.degraded(ReadPlanner::Balanced));
        assert!(0.9 * first < lost && lost < 1.15 * balanced, "{case}: {first} {lost} {balanced}");
    }
}

/// The paper's disk has a position and a rate, so that adjacent elements cost less than scattered
/// ones.
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

/// A few requests of short elements.
fn few(requests: usize) -> Options {
    Options {
        primes: vec![5],
        disks: vec![Disk::Element],
        reads: 10,
        reads_lost: 2,
        requests,
        element_bytes: 4096,
        ..Options::default()
    }
}

#[test]
fn disks_are_read_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = few(1);
    let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    let files: Vec<_> = (0..5).map(|i| folder.path().join(format!("disk-{i}"))).collect();
    files.iter().for_each(|file| std::fs::write(file, &content).expect("written"));
    let mut report = run(&options).expect("it runs");
    let disks = Disks::open(&files, &options, Use::Read).expect("they are there");
    dcode_disks::add(&mut report, &options, &disks, &|_, _| ()).expect("they are read");
    assert!(report.text.iter().any(|text| text.contains("5 were read, and nothing was written")));
    for (case, is_there) in [("HDP p=5 disks", true), ("D-Code p=5 disks", true), ("RDP p=5 disks", false)] {
        for quantity in ["healthy, MB/s", "one disk lost, MB/s"] {
            assert_eq!(report.find(case, quantity).is_some_and(|speed| speed > 0.0), is_there, "{case}");
        }
        assert_eq!(report.find(case, "durable writes, MB/s"), None);
    }
    assert!(files.iter().all(|file| std::fs::read(file).expect("read") == content));
    // Too few, too short, or missing disks are refused before anything is read.
    let open = |files: &[PathBuf], element_bytes| {
        Disks::open(files, &Options { element_bytes, ..options.clone() }, Use::Read).map(|_| ())
    };
    assert!(matches!(open(&files[..3], 4096), Err(ExecuteError::Few { have: 3, need: 4 })));
    let short = open(&files, 1 << 20).expect_err("1 MiB is too short for 16 stripes of such elements");
    assert!(matches!(&short, ExecuteError::Short { have, need, .. } if have < need), "{short}");
    assert!(short.to_string().contains("--element"), "{short}");
    let gone = open(&[&files[..4], &[folder.path().join("gone")]].concat(), 4096);
    assert!(matches!(gone, Err(ExecuteError::Device(_))));
}

/// Five sparse files.
fn sparse(folder: &Path, len: u64) -> Vec<PathBuf> {
    let make = |i: u32| {
        let path = folder.join(format!("disk-{i}"));
        File::create(&path).and_then(|file| file.set_len(len)).expect("a file");
        path
    };
    (0..5).map(make).collect()
}

fn write(files: &[PathBuf], options: &Options, overwrite: bool) -> Result<Report, ExecuteError> {
    let disks = Disks::open(files, options, Use::Write { overwrite })?;
    let mut report = run(options).expect("it runs");
    dcode_disks::add(&mut report, options, &disks, &|_, _| ()).map(|()| report)
}

#[test]
fn blank_disks_are_written_as_was_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let len = (64 << 20) + 512;
    let files = sparse(folder.path(), len);
    let options = few(40);
    let report = write(&files, &options, false).expect("they are written");
    for rival in [Rival::DCode, Rival::XCode, Rival::Hdp] {
        let case = format!("{} p=5", rival.name());
        let of = |rest: &str, quantity: &str| value(&report, &format!("{case} {rest}"), quantity);
        assert!(of("disks", "durable writes, MB/s") > 0.0 && of("disks", "healthy, MB/s") > 0.0);
        // Half of the requests of 1:1 are reads.
        let counted = 2.0 * of("1:1 min", "cost per request") - of("1:0", "cost per request");
        let done = of("disks", "elements per durable write");
        assert!((done - counted).abs() < 1e-9, "{case}: {done}, counted {counted}");
    }
    assert!(report.text.iter().any(|text| text.contains("5 were read and written: 120 durable writes")));
    for file in &files {
        let content = std::fs::read(file).expect("read");
        assert_eq!(content.len() as u64, len);
        let written = content.chunks(4096).filter(|block| block.iter().any(|&byte| byte != 0)).count();
        assert!((100..4000).contains(&written), "{written}");
    }
    let again = write(&files, &options, false).expect_err("they hold noise");
    assert!(again.to_string().contains("is not empty") && again.to_string().contains("--yes"), "{again}");
    write(&files, &options, true).expect("it may be destroyed");
}

/// Four disks, which are enough for HDP alone, and just as long as its stripes need: every request
/// goes to their beginning.
#[test]
fn a_write_goes_to_whole_elements_and_to_no_header() {
    let folder = tempfile::tempdir().expect("a folder");
    // A header of a block, and four rows.
    let chunk = 4096 + 4 * 8192;
    let options = Options { element_bytes: 8192, ..few(3) };
    let files = &sparse(folder.path(), 16 * chunk)[..4];
    let short = Options { element_bytes: 12288, ..options.clone() };
    let refused = write(files, &short, true).expect_err("they are too short");
    assert!(matches!(&refused, ExecuteError::Short { have, need, .. } if have < need), "{refused}");
    write(files, &options, false).expect("they are written");
    let is_written = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
    let mut chunks = 0;
    for file in files {
        for chunk in std::fs::read(file).expect("read").chunks(chunk as usize) {
            let (header, elements) = chunk.split_at(4096);
            assert!(!is_written(header), "a standard RAID has no headers");
            for element in elements.chunks(8192) {
                assert_eq!(is_written(&element[..4096]), is_written(&element[4096..]), "elements are whole");
            }
            chunks += usize::from(is_written(elements));
        }
    }
    // Three requests touch one to three stripes each.
    assert!((6..4 * 12).contains(&chunks), "{chunks}");
}

#[test]
fn disks_that_are_not_empty_are_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = sparse(folder.path(), 64 << 20);
    let mut content = vec![0; 64 << 20];
    content[50] = 1;
    std::fs::write(&files[4], &content).expect("a file");
    let error = write(&files, &few(3), false).expect_err("the last one holds something");
    assert!(error.to_string().contains("disk-4 is not empty"), "{error}");
    assert_eq!(std::fs::read(&files[4]).expect("read"), content);
    assert!(files[..4].iter().all(|file| std::fs::read(file).expect("read").iter().all(|&byte| byte == 0)));
    write(&files, &few(3), true).expect("it may be destroyed");
    assert_eq!(std::fs::read(&files[4]).expect("read")[50], 0, "the signature is cleared first");
    let twice = [&files[..4], &files[..1]].concat();
    let error = write(&twice, &few(3), true).expect_err("one is named twice");
    assert!(error.to_string().contains("name each device once"), "{error}");
}

/// Runs as in `pantile-lab papers`.
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
