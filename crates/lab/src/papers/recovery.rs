//! Fewest elements to read to rebuild one column, by family and prime, against closed forms.

use super::rivals::{PRIMES, Rival};
use crate::figure::{Figure, Heat, HeatRow};
use crate::{Report, parallel, printed};
use pantile::plan::{Optimality, Planner, Request};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};

/// The name of the experiment.
pub const NAME: &str = "recovery";

/// Reads to rebuild each column, and whether every one is proved to be the least.
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

/// The closed form for a column that holds data, known to be the fewest reads, and that of the
/// conventional way (one family of chains).
fn closed_forms(rival: Rival, p: usize) -> Option<(usize, usize)> {
    Some(match rival {
        Rival::DCode | Rival::XCode => ((3 * p * p + 13 - 8 * p) / 4, p * p + 3 - 3 * p),
        Rival::Rdp | Rival::HCode => (3 * (p - 1) * (p - 1) / 4, (p - 1) * (p - 1)),
        Rival::Hdp => ((3 * p * p + 13 - 12 * p) / 4, (p - 1) * (p - 2)),
        Rival::EvenOdd => ((3 * p + 1) * (p - 1) / 4, p * (p - 1)),
    })
}

/// Runs the experiment.
pub fn run(threads: usize) -> Report {
    const LINE: &str = "X-Code can reduce about 25% disk reads compared to the conventional approach, our D-Code can reduce about 25% read accesses as well";
    let mut report = Report::new(NAME, "Fewest reads to rebuild one disk");
    report.say(
        "How many elements must be read to rebuild a lost disk? The plans of the volume, beside the closed forms for the hybrid recovery (each lost element from one of \
         its two chains) and the conventional recovery from one family of chains. The closed forms are of the literature and stand computed beside the counts; EVENODD's is for its disk 0. \
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
    // The same quantity is listed once: disk 0 has its own line above.
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
