//! The RAIDP paper: layout, recovery time, network and storage, what stacked and weighted add-ons
//! bear.
//!
//! Reads are those of plans. Times are bytes through the recovering node over a bandwidth: the
//! calculation that reproduces the slides' table; it is inferred, the paper's own model is not
//! public.

use crate::Report;
use crate::figure::{Figure, Heat, HeatRow};
use pantile::plan::{Planner, ProveOptions, Request, prove};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};
use pantile_code::{Claim, CodeBuilder};
use std::collections::BTreeMap;

/// The name of the experiment.
pub const NAME: &str = "raidp";

/// Nodes and superchunk of the slides' evaluation.
const NODES: usize = 16;
const SUPERCHUNK_BYTES: f64 = 6.0 * 1024.0 * 1024.0 * 1024.0;

/// Bytes per second: a TCP stream's share of 1 Gb/s, and the one constant that is fitted, at 10
/// Gb/s.
const BYTES_PER_S_1: f64 = 0.941e9 / 8.0;
const BYTES_PER_S_10: f64 = 6.2e9 / 8.0;

fn parse(spec: &str) -> Code {
    match Code::parse(spec) {
        Ok(code) => code,
        Err(error) => unreachable!("the codes of the experiment exist: {error}"),
    }
}

/// The cells cheapest to read for these while columns are lost.
fn reads(code: &Code, columns: &[usize], wanted: &[CellIndex]) -> Option<Vec<CellIndex>> {
    let lost = CellSet::of_columns(code, columns);
    let request = Request { lost: &lost, wanted, costs: &Costs::uniform(), effort: Effort::Fast };
    Planner::new(code).recover(&request).ok().map(|plan| plan.reads)
}

/// The two holders of each superchunk, from the equations: a copy is an equation of two cells.
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
        let n = disks as f64;
        report.measure(&case, "superchunks", holders.len() as f64, Some(n * (n - 1.0) / 2.0));
        let (least, most) = (of_disk.iter().min(), of_disk.iter().max());
        report.measure(&case, "superchunks per disk, least", least.map_or(0.0, |&x| x as f64), Some(n - 1.0));
        report.measure(&case, "superchunks per disk, most", most.map_or(0.0, |&x| x as f64), Some(n - 1.0));
        let pairs_of_one = shared.values().filter(|&&count| count == 1).count() as f64;
        report.measure(
            &case,
            "pairs of disks that share exactly one",
            pairs_of_one,
            Some(n * (n - 1.0) / 2.0),
        );
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
    report.measure(&case, "superchunks read for the shared one, least", least as f64, Some(n1));
    report.measure(&case, "superchunks read for the shared one, most", most as f64, Some(n1));
    report.measure(&case, "pairs recovered", counts.len() as f64, Some(n1 * NODES as f64 / 2.0));
    let single = (0..NODES).filter_map(|i| {
        let wanted: Vec<CellIndex> = code.column_cells(i).collect();
        reads(&code, &[i], &wanted).map(|reads| reads.len())
    });
    report
        .measure(
            "one disk lost",
            "superchunks read, all of them copied",
            single.max().unwrap_or(0) as f64,
            Some(n1),
        )
        .note = Some("plain replication: one read per superchunk, from N - 1 disks at once".into());
    let addon = reads(&code, &[NODES], &code.column_cells(NODES).collect::<Vec<_>>()).unwrap_or_default();
    let local = addon.iter().filter(|&&cell| code.column_of(cell) == 0).count();
    report.measure("an add-on lost alone", "superchunks read", addon.len() as f64, Some(n1)).note =
        Some(format!("{local} of them may be read from the disk beside it, without the network"));
    let bytes = most as f64 * SUPERCHUNK_BYTES;
    for (network, bandwidth, raidp, raid6) in
        [("1 Gb/s", BYTES_PER_S_1, 827.0, 12_300.0), ("10 Gb/s", BYTES_PER_S_10, 125.0, 1_823.0)]
    {
        report.measure(format!("RAIDP, {network}"), "recovery, s", bytes / bandwidth, Some(raidp));
        let disk = bytes * n1 / bandwidth;
        report.measure(format!("RAID-6, {network}"), "recovery, s", disk, Some(raid6));
    }
    // The same disk as a plan of our own RAID-6 would rebuild it.
    let raid6 = parse(&format!("raid6:{}", NODES - 2));
    let planned = reads(&raid6, &[0], &[CellIndex(0)]).map_or(0, |reads| reads.len());
    report
        .measure(
            "RAID-6, 1 Gb/s",
            "recovery by the plan of raid6:14, s",
            planned as f64 * n1 * SUPERCHUNK_BYTES / BYTES_PER_S_1,
            Some(12_300.0),
        )
        .note = Some(
        "14 reads per chunk instead of 15: the slides' system fetched one more, or lost 6 % elsewhere".into(),
    );
    report.measure("RAID-6 : RAIDP, 1 Gb/s", "recovery time", n1, Some(12_300.0 / 827.0)).note =
        Some("the quotient of the table; the slides round it down to 14".into());
    report.measure("RAID-6 : RAIDP, 10 Gb/s", "recovery time", n1, Some(1_823.0 / 125.0)).note =
        Some("the quotient of the table; the slides round it down to 14".into());
}

fn traffic(report: &mut Report) {
    let code = parse(&format!("raidp:{NODES}"));
    let n = NODES as f64;
    // Stored bytes per user byte.
    report.measure("RAIDP", "stored bytes per byte", 1.0 / code.rate(), None).note =
        Some(format!("two copies and 1/(N-1) on each of two add-ons: 2 + 2/{}", NODES - 1));
    report
        .measure("RAIDP : three replicas", "storage saved, disks alone", 1.0 - 2.0 / 3.0, Some(0.33))
        .note =
        Some(format!("with the add-ons' memory counted as storage: {:.3}", 1.0 - 1.0 / code.rate() / 3.0));
    let capacity = NODES as f64 * (n - 1.0) / 2.0 * SUPERCHUNK_BYTES / 1e9;
    report.measure("16 nodes, superchunks of 6 GiB", "capacity, GB", capacity, Some(800.0)).note =
        Some("the slides: about 800 GB".into());
    report.measure("two replicas", "stored bytes per byte", 2.0, None);
    report.measure("three replicas", "stored bytes per byte", 3.0, None);
    // 100 GB written: each replica but the first goes over the network, with the slides' overhead
    // of 5 %.
    for (name, replicas, published) in
        [("RAIDP", 2.0, Some(105.0)), ("three replicas", 3.0, Some(209.0)), ("two replicas", 2.0, None)]
    {
        let measure = report.measure(
            name,
            "network, GB for 100 GB written",
            (replicas - 1.0) * 100.0 * 1.05,
            published,
        );
        if published.is_some() {
            measure.note = Some("published: a bar of the figure; the slides' text has no number".into());
        }
    }
    report.measure("RAIDP : three replicas", "network when writing", 0.5, Some(105.0 / 209.0));
    // One block, by the plan: what an update in place reads and writes; what is appended has no old
    // content.
    let nothing = CellSet::empty(&code);
    if let Ok(plan) = Planner::new(&code).update(&code.data()[..1], &nothing, &Costs::uniform()) {
        let on_disk = |cell: &&CellIndex| code.column_of(**cell) < NODES;
        let reads = plan.old.reads.iter().filter(on_disk).count() as f64;
        let writes = plan.writes.iter().filter(on_disk).count() as f64;
        let of_addons = (plan.old.reads.len() + plan.writes.len()) as f64 - reads - writes;
        report.measure("update in place", "disk reads per block", reads, None).note =
            Some("one copy is read for the change; in HDFS each node reads its own: 2".into());
        report.measure("update in place", "disk writes per block", writes, None);
        report.measure("append only", "disk reads per block", 0.0, None);
        report.measure("append only", "disk writes per block", writes, None);
        report.measure("update in place", "add-on accesses per block", of_addons, None);
        report.measure("append only", "add-on accesses per block", of_addons, None);
        let ratio = (2.0 * writes) / writes;
        report.measure("update in place : append only", "disk accesses, each node reading its own", ratio, Some(1.21 / 0.78)).note =
            Some("published: run times of writing 100 GB relative to three replicas, 1.21 and 0.78, labels of a figure; disks were not the only limit".into());
    }
    let share = 1.0 / (n - 1.0);
    report.measure("RAIDP", "size of an add-on over its disk", share, None);
}

/// Which sets survive, add-ons counted as columns of their own.
fn tolerance(report: &mut Report, threads: usize) {
    let mut rows = Vec::new();
    let claims = [("raidp:16", Some(2.0)), ("raidp:16,weighted", None), ("raidp:16,stack=2", None)];
    for (spec, published) in claims {
        let code = parse(spec);
        let options =
            ProveOptions { lost_most: Some(5), sets_most: 3_000_000, threads, ..ProveOptions::default() };
        let certificate = prove(&code, &options, &|_, _, _| true);
        report
            .measure(spec, "any so many columns may be lost", certificate.tolerance() as f64, published)
            .note = Some("disks and add-ons, in every combination".into());
        let mut shares = Vec::new();
        for level in &certificate.levels {
            let (of, share) = (level.looked_at(), level.survived_share());
            let kind = if of == level.sets { "exact" } else { "sampled" };
            report.measure(spec, format!("share of sets of {} that survive", level.lost), share, None).note =
                Some(format!("{} of {of}, {kind}", level.survived));
            shares.push(Some(share));
        }
        shares.resize(5, None);
        rows.push(HeatRow { name: spec.to_string(), values: shares.clone(), shades: shares });
    }
    report.figures.push(Figure::Heat(Heat {
        title: "Share of sets of columns that survive".into(),
        caption: "16 disks and their add-ons. Plain add-ons bear any two, weighted ones any three at the same cost, two stacked ones any four.".into(),
        columns: (1..=5).map(|lost| format!("{lost} lost")).collect(),
        rows,
    }));
}

/// Fewer than N - 1 superchunks per disk: only some classes of the circulant layout, so that disks
/// share at most one.
fn partial(report: &mut Report) {
    for classes in 1..=4usize {
        let code = circulant(9, classes);
        let options = ProveOptions { lost_most: Some(3), ..ProveOptions::default() };
        let certificate = prove(&code, &options, &|_, _, _| true);
        let case = format!("N=9, {} superchunks per disk", 2 * classes);
        report.measure(&case, "any so many columns may be lost", certificate.tolerance() as f64, None).note =
            Some(
                "at least two, as the paper says of layouts in which disks share at most one superchunk"
                    .into(),
            );
        if let Some(level) = certificate.levels.get(2) {
            let share = level.survived as f64 / level.sets as f64;
            report.measure(&case, "share of sets of 3 that survive", share, None).note =
                Some("the fewer superchunks are shared, the more triples survive".into());
        }
        report.measure(&case, "size of an add-on over its disk", 1.0 / (2 * classes) as f64, None);
    }
}

/// RAIDP on an odd number of disks with superchunks (t, i), t = 1 .. classes, on disks i and i + t.
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
