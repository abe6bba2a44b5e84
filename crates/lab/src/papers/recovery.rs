//! Fewest elements to read to rebuild one column, by family and prime, against closed forms.

use super::rivals::{PRIMES, Rival};
use crate::figure::{Figure, Heat, HeatRow, Listing};
use crate::{Report, parallel, printed};
use pantile::plan::{Optimality, Planner, Request};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};

/// The name of the experiment.
pub const NAME: &str = "recovery";

/// Returns the reads to rebuild each column, and true if every one is proved minimal.
pub fn reads_of(code: &Code, effort: Effort) -> (Vec<usize>, bool) {
    let planner = Planner::new(code);
    let mut is_exact = true;
    let reads = (0..code.columns()).map(|column| {
        let lost = CellSet::of_columns(code, &[column]);
        let wanted: Vec<CellIndex> = lost.iter().collect();
        let request = Request { lost: &lost, wanted: &wanted, costs: &Costs::uniform(), effort };
        match planner.recover(&request) {
            Ok(plan) => {
                is_exact &= plan.optimality == Optimality::Exact;
                plan.reads.len()
            }
            Err(_) => 0,
        }
    });
    let reads = reads.collect();
    (reads, is_exact)
}

/// Returns the closed form for a column that holds data, known to be the fewest reads, and that of
/// the conventional method (one family of chains).
fn closed_forms(rival: Rival, p: usize) -> Option<(usize, usize)> {
    Some(match rival {
        Rival::DCode | Rival::XCode => ((3 * p * p + 13 - 8 * p) / 4, p * p + 3 - 3 * p),
        Rival::Rdp | Rival::HCode => (3 * (p - 1) * (p - 1) / 4, (p - 1) * (p - 1)),
        Rival::Hdp => ((3 * p * p + 13 - 12 * p) / 4, (p - 1) * (p - 2)),
        Rival::EvenOdd => ((3 * p + 1) * (p - 1) / 4, p * (p - 1)),
    })
}

/// Clay codes with the reads d q^(t-1) of their closed form, and codes of equal space and about as
/// many disks.
const AT_EQUAL_SPACE: [(&str, Option<usize>); 14] = [
    ("clay:4,2,5", Some(20)),
    ("dcode:6", None),
    ("shec:4,2,4", None),
    ("rs:4+2", None),
    ("clay:6,3,8", Some(72)),
    ("shec:6,3,4", None),
    ("lrc:6,2,1", None),
    ("rs:6+3", None),
    ("clay:8,4,11", Some(176)),
    ("shec:8,4,c=3", None),
    ("lrc:8,2,2", None),
    ("rs:8+4", None),
    ("clay:3,3,5", Some(15)),
    ("rs:3+3", None),
];

/// Adds the reads of Clay, SHEC, LRC, D-Code and Reed-Solomon at equal overhead.
fn at_equal_space(report: &mut Report, threads: usize) {
    let counted = parallel::map(threads, &AT_EQUAL_SPACE, |&(spec, closed_form)| {
        let Ok(code) = Code::parse(spec) else { unreachable!("{spec} is a code") };
        let (reads, is_exact) = reads_of(&code, Effort::Fast);
        (code, closed_form, reads, is_exact)
    });
    let mut rows = Vec::new();
    for (code, closed_form, reads, is_exact) in counted {
        let data = code.data().len() as f64;
        let mean = reads.iter().sum::<usize>() as f64 / reads.len() as f64;
        let worst = reads.iter().copied().max().unwrap_or(0);
        report.counted(code.spec(), "reads for disk 0", reads[0] as f64, None);
        if let Some(fewest) = closed_form {
            report.computed(code.spec(), "reads for disk 0, closed form", fewest as f64, None);
        }
        report.counted(
            code.spec(),
            "share of the stripe's data read, mean over all disks",
            mean / data,
            None,
        );
        rows.push(vec![
            code.spec().to_string(),
            format!("{:.2}", 1.0 / code.rate()),
            code.claim().tolerance.to_string(),
            format!("{}{:.1} %", if is_exact { "" } else { "~" }, 100.0 * mean / data),
            format!("{:.1} %", 100.0 * worst as f64 / data),
        ]);
    }
    report.figures.push(Figure::Listing(Listing {
        title: "Reads to rebuild one disk at equal space".into(),
        caption: "As shares of the stripe's data; ~: not proved least for every disk.".into(),
        head: ["code", ">overhead", ">may be lost", ">mean", ">worst"].map(String::from).to_vec(),
        rows,
    }));
}

/// Runs the experiment.
pub fn run(threads: usize) -> Report {
    const LINE: &str = "X-Code can reduce about 25% disk reads compared to the conventional approach, our D-Code can reduce about 25% read accesses as well";
    let mut report = Report::new(NAME, "Fewest reads to rebuild one disk");
    report.say(
        "How many elements must be read to rebuild a lost disk? The plans of the volume, beside the closed forms for the hybrid recovery (each lost element from one of \
         its two chains) and the conventional recovery from one family of chains. The closed forms are from the literature and are computed beside the counts; EVENODD's is for its disk 0. \
         The D-Code paper prints one number, for itself and X-Code: about 25 % fewer reads, which is the limit for large p.",
    );
    let tasks: Vec<(Rival, usize)> =
        Rival::ALL.into_iter().flat_map(|rival| PRIMES.map(|p| (rival, p))).collect();
    let counted = parallel::map(threads, &tasks, |&(rival, p)| reads_of(&rival.code(p), Effort::Fast));
    let mut rows = Vec::new();
    for ((rival, p), (reads, is_exact)) in tasks.into_iter().zip(counted) {
        let code = rival.code(p);
        let case = format!("{} p={p}", rival.name());
        let first = reads[0];
        let forms = closed_forms(rival, p);
        let note =
            if is_exact { "proved least" } else { "the best plan found; not proved least for every disk" };
        report.counted(&case, "reads for disk 0", first as f64, None).note = Some(note.into());
        if let Some((fewest, _)) = forms {
            report.computed(&case, "reads for disk 0, closed form", fewest as f64, None);
        }
        let mean = reads.iter().sum::<usize>() as f64 / reads.len() as f64;
        report.counted(&case, "reads, mean over all disks", mean, None);
        report.counted(
            &case,
            "share of the stripe's data read for disk 0",
            first as f64 / code.data().len() as f64,
            None,
        );
        if let Some((_, conventional)) = forms {
            let saved = 100.0 * (1.0 - first as f64 / conventional as f64);
            let is_of_paper = p == 13 && matches!(rival, Rival::DCode | Rival::XCode);
            let measure = report.counted(
                &case,
                "saved against one family of chains, per cent",
                saved,
                is_of_paper.then_some(printed(25.0, LINE)),
            );
            if is_of_paper {
                measure.note = Some(format!(
                    "the paper: about 25 %, the limit for large p; against reading p - 2 whole disks it is {:.1} % here",
                    100.0 * (1.0 - first as f64 / ((p - 2) * p) as f64)
                ));
            }
        }
        for (disk, &n) in reads.iter().enumerate() {
            report.counted(&case, format!("reads for disk {disk}"), n as f64, None);
        }
        rows.push((case, reads.iter().map(|&n| Some(n as f64)).collect::<Vec<_>>(), code.data().len()));
    }
    at_equal_space(&mut report, threads);
    // Each quantity is listed once: disk 0 has its own line above.
    report.measures.dedup_by(|b, a| a.case == b.case && a.quantity == b.quantity);
    let columns = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
    report.figures.push(Figure::Heat(Heat {
        title: "Elements read to rebuild each disk".into(),
        caption: "Darker: a larger share of the stripe's data. Disks of parity alone save nothing.".into(),
        columns: (0..columns).map(|disk| disk.to_string()).collect(),
        rows: rows
            .into_iter()
            .map(|(case, mut reads, data)| {
                let shades = reads.iter().map(|n| n.map(|n| n / data as f64)).collect::<Vec<_>>();
                reads.resize(columns, None);
                HeatRow { name: case, values: reads, shades }
            })
            .collect(),
    }));
    report
}
