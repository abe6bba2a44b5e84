//! The RAIDP paper: layout, recovery time, network and storage, and the tolerance of stacked and
//! weighted add-ons.
//!
//! Reads are those of plans. Times are bytes through the recovering node over a bandwidth. This
//! calculation reproduces the slides' table; it is inferred, since the paper's own model is not
//! public.

use super::raidp_hdfs;
use crate::figure::{Figure, Heat, HeatRow};
use crate::{Kind, Report, printed};
use pantile::plan::{Planner, ProveOptions, Request, prove};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};
use pantile_code::{Claim, CodeBuilder};
use std::collections::BTreeMap;

/// The name of the experiment.
pub const NAME: &str = "raidp";

/// Nodes and superchunk of the slides' evaluation.
const NODES: usize = 16;
const SUPERCHUNK_BYTES: f64 = 6.0 * 1024.0 * 1024.0 * 1024.0;

/// Bytes per second: a TCP stream's share of 1 Gb/s, and the one fitted constant, at 10 Gb/s.
const BYTES_PER_S_1: f64 = 0.941e9 / 8.0;
const BYTES_PER_S_10: f64 = 6.2e9 / 8.0;

fn parse(spec: &str) -> Code {
    match Code::parse(spec) {
        Ok(code) => code,
        Err(error) => unreachable!("the codes of the experiment exist: {error}"),
    }
}

/// Returns the cells cheapest to read for the wanted ones while columns are lost.
fn reads(code: &Code, columns: &[usize], wanted: &[CellIndex]) -> Option<Vec<CellIndex>> {
    let lost = CellSet::of_columns(code, columns);
    let request = Request { lost: &lost, wanted, costs: &Costs::uniform(), effort: Effort::Fast };
    Planner::new(code).recover(&request).ok().map(|plan| plan.reads)
}

/// Returns the two holders of each superchunk, from the equations: a copy is an equation of two
/// cells.
fn holders(code: &Code) -> Vec<(CellIndex, usize, usize)> {
    let pairs = code.equations().iter().filter(|equation| equation.terms().len() == 2);
    pairs
        .filter_map(|equation| match equation.terms() {
            [(a, _), (b, _)] => Some((*a, code.column_of(*a), code.column_of(*b))),
            _ => None,
        })
        .collect()
}

/// Runs the experiment.
pub fn run(threads: usize) -> Report {
    let mut report = Report::new(NAME, "RAIDP: two replicas and an add-on per disk");
    report.say(
        "Does two-copy storage with one small parity per disk survive two failures, and what does it cost? The layout is counted from the code's equations, recovery \
         from the plans of the volume.",
    );
    report.say(
        "Recovery time: bytes through the recovering node over its bandwidth. After a double failure RAIDP rebuilds one superchunk from N - 2 mirrors and one add-on, (N - 1) S bytes; \
         RAID-6 over the network rebuilds a disk of N - 1 superchunks at that price each. 1 Gb/s carries 0.941 Gb/s of payload; at 10 Gb/s one constant, 6.2 Gb/s, is fitted to RAIDP and \
         then predicts RAID-6. GiB, not GB, fits. This calculation is inferred; the paper's is not public.",
    );
    layout(&mut report);
    recovery(&mut report);
    traffic(&mut report);
    tolerance(&mut report, threads);
    partial(&mut report);
    raidp_hdfs::report(&mut report);
    report
}

fn layout(report: &mut Report) {
    for disks in [5, 8, NODES] {
        let code = parse(&format!("raidp:{disks}"));
        let holders = holders(&code);
        let mut shared: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut of_disk = vec![0; disks];
        for &(_, a, b) in &holders {
            *shared.entry((a.min(b), a.max(b))).or_default() += 1;
            of_disk[a] += 1;
            of_disk[b] += 1;
        }
        let case = format!("N={disks}");
        report.counted(&case, "superchunks", holders.len() as f64, None).note =
            Some(format!("N (N - 1) / 2 = {}", disks * (disks - 1) / 2));
        let (least, most) = (of_disk.iter().min(), of_disk.iter().max());
        let by_text = Some(format!("N - 1 = {}", disks - 1));
        report.counted(&case, "superchunks per disk, least", least.map_or(0.0, |&x| x as f64), None).note =
            by_text.clone();
        report.counted(&case, "superchunks per disk, most", most.map_or(0.0, |&x| x as f64), None).note =
            by_text;
        let most_shared = shared.values().max().map_or(0.0, |&count| count as f64);
        report.counted(
            &case,
            "superchunks that two disks share, most",
            most_shared,
            printed(1.0, "Any two disks share at most one superchunk"),
        );
        let pairs_of_one = shared.values().filter(|&&count| count == 1).count() as f64;
        report.counted(&case, "pairs of disks that share exactly one", pairs_of_one, None);
    }
}

fn recovery(report: &mut Report) {
    let code = parse(&format!("raidp:{NODES}"));
    let holders = holders(&code);
    let shared = |i: usize, j: usize| {
        let found = holders.iter().find(|&&(_, a, b)| (a.min(b), a.max(b)) == (i, j));
        found.map(|&(cell, ..)| cell)
    };
    let mut counts = Vec::new();
    for i in 0..NODES {
        for j in i + 1..NODES {
            let wanted = shared(i, j).into_iter().collect::<Vec<_>>();
            counts.extend(reads(&code, &[i, j], &wanted).map(|reads| reads.len()));
        }
    }
    let (least, most) =
        (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let n1 = (NODES - 1) as f64;
    let case = format!("two disks of {NODES} lost");
    report.counted(&case, "superchunks read for the shared one, least", least as f64, None);
    report.counted(&case, "superchunks read for the shared one, most", most as f64, None);
    report.counted(&case, "pairs recovered", counts.len() as f64, None);
    let single = (0..NODES).filter_map(|i| {
        let wanted: Vec<CellIndex> = code.column_cells(i).collect();
        reads(&code, &[i], &wanted).map(|reads| reads.len())
    });
    report
        .counted(
            "one disk lost",
            "superchunks read, all of them copied",
            single.max().unwrap_or(0) as f64,
            None,
        )
        .note = Some("plain replication: one read per superchunk, from N - 1 disks at once".into());
    let addon = reads(&code, &[NODES], &code.column_cells(NODES).collect::<Vec<_>>()).unwrap_or_default();
    let local = addon.iter().filter(|&&cell| code.column_of(cell) == 0).count();
    report.counted("an add-on lost alone", "superchunks read", addon.len() as f64, None).note =
        Some(format!("{local} of them may be read from the disk beside it, without the network"));
    let bytes = most as f64 * SUPERCHUNK_BYTES;
    const RAIDP: &str = "RAIDP 827 s 125 s";
    const RAID6: &str = "RAID-6 12,300 s 1,823 s";
    for (kind, network, bandwidth, raidp, raid6) in [
        (Kind::Computed, "1 Gb/s", BYTES_PER_S_1, 827.0, 12_300.0),
        (Kind::Fitted, "10 Gb/s", BYTES_PER_S_10, 125.0, 1_823.0),
    ] {
        let seconds = bytes / bandwidth;
        report.row(kind, format!("RAIDP, {network}"), "recovery, s", seconds, printed(raidp, RAIDP));
        let disk = bytes * n1 / bandwidth;
        report.row(kind, format!("RAID-6, {network}"), "recovery, s", disk, printed(raid6, RAID6));
    }
    // The same disk, rebuilt by a plan of our own RAID-6.
    let raid6 = parse(&format!("raid6:{}", NODES - 2));
    let planned = reads(&raid6, &[0], &[CellIndex(0)]).map_or(0, |reads| reads.len());
    report
        .computed(
            "RAID-6, 1 Gb/s",
            "recovery by the plan of raid6:14, s",
            planned as f64 * n1 * SUPERCHUNK_BYTES / BYTES_PER_S_1,
            None,
        )
        .note = Some(
        "14 reads per chunk instead of 15: the slides' system fetched one more, or lost 6 % elsewhere".into(),
    );
    // The layout alone: RAIDP rebuilds each superchunk of a disk by reading one superchunk.
    report
        .computed("RAID-6 : RAIDP", "recovery time", n1, printed(14.0, "RAIDP recovers 14x faster!"))
        .note = Some("N - 1, by the calculation above; the quotients of the table are 14.9 and 14.6".into());
}

fn traffic(report: &mut Report) {
    let code = parse(&format!("raidp:{NODES}"));
    // Stored bytes per user byte.
    report.counted("RAIDP", "stored bytes per byte", 1.0 / code.rate(), None).note =
        Some(format!("two copies and 1/(N-1) on each of two add-ons: 2 + 2/{}", NODES - 1));
    let on_disks = code.cells().filter(|&cell| code.column_of(cell) < NODES).count() as f64;
    let replicas = parse("mirror:3");
    let of_replicas = replicas.cell_count() as f64 / replicas.data().len() as f64;
    let saved = |stored: f64| 100.0 * (1.0 - stored / of_replicas);
    report
        .counted(
            "RAIDP : three replicas",
            "storage saved, disks alone, per cent",
            saved(on_disks / code.data().len() as f64),
            printed(33.0, "Requires 33% less storage"),
        )
        .note = Some(format!("with the add-ons' memory counted as storage: {:.1}", saved(1.0 / code.rate())));
    let capacity = holders(&code).len() as f64 * SUPERCHUNK_BYTES / 1e9;
    report
        .computed(
            "16 nodes, superchunks of 6 GiB",
            "capacity, GB",
            capacity,
            printed(800.0, "6GB superchunks, ~800GB cluster capacity"),
        )
        .note = Some("superchunks as counted, times their size".into());
    report.counted("three replicas", "stored bytes per byte", of_replicas, None);
    // Each copy but the first goes over the network.
    for (name, copies) in [("RAIDP", 2.0), ("three replicas", of_replicas)] {
        let sent = 100.0 * (copies - 1.0);
        report.computed(name, "network, GB for 100 GB written", sent, None).note = Some(
            "every copy but the first, no overhead; the slides show bars without numbers in their text"
                .into(),
        );
    }
    // Reads and writes of an update of one block in place, by the plan; an appended block has no
    // old content.
    let nothing = CellSet::empty(&code);
    if let Ok(plan) = Planner::new(&code).update(&code.data()[..1], &nothing, &Costs::uniform()) {
        let on_disk = |cell: &&CellIndex| code.column_of(**cell) < NODES;
        let reads = plan.old.reads.iter().filter(on_disk).count() as f64;
        let writes = plan.writes.iter().filter(on_disk).count() as f64;
        let of_addons = (plan.old.reads.len() + plan.writes.len()) as f64 - reads - writes;
        report.counted("update in place", "disk reads per block", reads, None).note =
            Some("one copy is read for the change; in HDFS each node reads its own: 2".into());
        report.counted("update in place", "disk writes per block", writes, None);
        report.computed("append only", "disk reads per block", 0.0, None);
        report.counted("append only", "disk writes per block", writes, None);
        report.counted("update in place", "add-on accesses per block", of_addons, None);
        report.counted("append only", "add-on accesses per block", of_addons, None);
    }
    let share = 1.0 / (NODES as f64 - 1.0);
    report.computed("RAIDP", "size of an add-on over its disk", share, None);
}

/// Adds the sets that survive; add-ons count as columns.
fn tolerance(report: &mut Report, threads: usize) {
    let mut rows = Vec::new();
    const ANY_TWO: &str = "Recovers quickly** from a simultaneous failure of any two disks";
    let claims =
        [("raidp:16", Some(printed(2.0, ANY_TWO))), ("raidp:16,weighted", None), ("raidp:16,stack=2", None)];
    for (spec, published) in claims {
        let code = parse(spec);
        let options =
            ProveOptions { lost_most: Some(5), sets_most: 3_000_000, threads, ..ProveOptions::default() };
        let certificate = prove(&code, &options, &|_, _, _| true);
        report
            .counted(spec, "any so many columns may be lost", certificate.tolerance() as f64, published)
            .note = Some("disks and add-ons, in every combination".into());
        let mut shares = Vec::new();
        for level in &certificate.levels {
            let (of, share) = (level.looked_at(), level.survived_share());
            let kind = if of == level.sets { "exact" } else { "sampled" };
            report.counted(spec, format!("share of sets of {} that survive", level.lost), share, None).note =
                Some(format!("{} of {of}, {kind}", level.survived));
            shares.push(Some(share));
        }
        shares.resize(5, None);
        rows.push(HeatRow { name: spec.to_string(), values: shares.clone(), shades: shares });
    }
    report.figures.push(Figure::Heat(Heat {
        title: "Share of sets of columns that survive".into(),
        caption: "16 disks and their add-ons. Plain add-ons tolerate any two lost columns, weighted ones any three at the same cost, two stacked ones any four.".into(),
        columns: (1..=5).map(|lost| format!("{lost} lost")).collect(),
        rows,
    }));
}

/// Adds layouts of fewer than N - 1 superchunks per disk: some classes of the circulant layout, so
/// that disks share at most one.
fn partial(report: &mut Report) {
    for classes in 1..=4usize {
        let code = circulant(9, classes);
        let options = ProveOptions { lost_most: Some(3), ..ProveOptions::default() };
        let certificate = prove(&code, &options, &|_, _, _| true);
        let case = format!("N=9, {} superchunks per disk", 2 * classes);
        report.counted(&case, "any so many columns may be lost", certificate.tolerance() as f64, None).note =
            Some(
                "at least two, as the paper says of layouts in which disks share at most one superchunk"
                    .into(),
            );
        if let Some(level) = certificate.levels.get(2) {
            let share = level.survived as f64 / level.sets as f64;
            report.counted(&case, "share of sets of 3 that survive", share, None).note =
                Some("the fewer superchunks are shared, the more triples survive".into());
        }
        report.computed(&case, "size of an add-on over its disk", 1.0 / (2 * classes) as f64, None);
    }
}

/// Returns RAIDP on an odd number of disks with superchunks (t, i), t = 1 .. classes, on disks i
/// and i + t.
fn circulant(disks: usize, classes: usize) -> Code {
    let rows: Vec<usize> =
        (0..2 * disks).map(|column| if column < disks { 2 * classes } else { 1 }).collect();
    let mut builder = CodeBuilder::ragged(&rows);
    for t in 1..=classes {
        for i in 0..disks {
            builder.define_xor((2 * t - 1, (i + t) % disks), [(2 * (t - 1), i)]);
        }
    }
    for i in 0..disks {
        builder.define_xor((0, disks + i), (0..2 * classes).map(|row| (row, i)));
        builder.add_on(disks + i, i);
    }
    let claim = Claim { tolerance: 2, mds: false };
    builder.finish(format!("raidp of {classes} classes on {disks} disks"), "raidp", claim)
}
