//! Times of first plans, next to the bound for a read path.
//!
//! `cargo bench -p pantile-plan --bench plans`. It prints a table of medians over repeats on one
//! core, and tests nothing.

use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, Costs, Effort, Optimality, Planner, Request};
use std::time::Instant;

fn main() {
    println!("{:<22} {:<14} {:>12} {:>12} {:>8}  optimality", "code", "lost", "first plan", "bound", "reads");
    let cases: &[(&str, &[usize], &str)] = &[
        ("raid6:8", &[0], "50 us"),
        ("raid6:8", &[0, 3], "50 us"),
        ("rs:10+4", &[2], "50 us"),
        ("rs:10+4", &[0, 5, 9, 12], "50 us"),
        ("shec:6,4,3", &[0], "50 us"),
        ("shec:6,4,3", &[0, 3], "50 us"),
        ("dcode:13", &[0], "10 ms"),
        ("dcode:13", &[0, 5], ""),
        ("dcode:23", &[0], ""),
        ("dcode:23", &[0, 5], "1 s"),
        ("raidp:32", &[0], ""),
        ("raidp:32", &[0, 1], "1 s"),
        ("raidp:32,weighted", &[0, 1], "1 s"),
        ("raidq:92+4", &[0], ""),
        ("raidq:16+4", &[0, 5, 9, 16], ""),
        ("lrc:12,2,2", &[0, 1, 2, 6], ""),
        ("evenodd:13", &[1], ""),
        ("crs:6+3,w=4", &[0, 2, 4], "3 us"),
        ("crs:10+4,w=4", &[0, 3, 6, 9], "4 us"),
        ("crs:16+4", &[0, 5, 10, 15], "40 us"),
        ("crs:8+2", &[0, 3], ""),
        ("crs:6+3,w=4", &[0, 2], ""),
        ("decode crs:6+3,w=4", &[0, 2], "10 us"),
        ("decode crs:10+4,w=4", &[0, 3], "10 us"),
        ("decode crs:16+4", &[0, 5], "60 us"),
        ("decode crs:16+4", &[0, 5, 10], "60 us"),
        ("rdp:6", &[0, 3], "2 us"),
        ("rdp:18", &[0, 15], "15 us"),
        ("dcode:13", &[0, 6], "12 us"),
        ("evenodd:13", &[0, 6], ""),
        ("liberation:7", &[0, 3], ""),
    ];
    for &(name, lost, bound) in cases {
        // `decode` plans for callers that have all survivors in memory; other plans are for callers
        // that want few reads.
        let decoded = name.strip_prefix("decode ");
        let spec = decoded.unwrap_or(name);
        let code = Code::parse(spec).expect("the specs of this table are good");
        // The generator belongs to the code and is made once.
        code.generator();
        let planner = Planner::new(&code);
        let set = CellSet::of_columns(&code, lost);
        let wanted: Vec<CellIndex> = set.iter().collect();
        let request = Request { lost: &set, wanted: &wanted, costs: &Costs::uniform(), effort: Effort::Fast };
        let mut times = Vec::new();
        let mut plan = None;
        let begin = Instant::now();
        while times.len() < 5 || (times.len() < 1001 && begin.elapsed().as_millis() < 500) {
            let start = Instant::now();
            plan = match decoded {
                Some(_) => planner.decode(&set).ok(),
                None => planner.recover(&request).ok(),
            };
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let Some(plan) = plan else {
            println!("{name:<22} {lost:?} is not survivable");
            continue;
        };
        let optimality = match plan.optimality {
            Optimality::Exact => "exact".to_string(),
            Optimality::Bound { at_least } => format!("at least {at_least}"),
        };
        let lost = format!("{lost:?}");
        let median = format!("{:.1?}", times[times.len() / 2]);
        println!("{name:<22} {lost:<14} {median:>12} {bound:>12} {:>8}  {optimality}", plan.reads.len());
    }
}
