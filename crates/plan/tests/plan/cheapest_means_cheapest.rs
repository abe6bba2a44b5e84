//! Compares plans marked "exact" with a brute-force search over every set of cells that could be
//! read.

use pantile_code::{CellIndex, Code};
use pantile_gf::{Echelon, Gf};
use pantile_plan::{CellSet, Costs, Effort, Optimality, PlanError, Planner, Request};

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }
}

/// Every cell as a vector over the data cells.
fn vectors(code: &Code) -> Vec<Vec<Gf>> {
    let mut all = vec![Vec::new(); code.cell_count()];
    for (i, &cell) in code.data().iter().enumerate() {
        all[cell.usize()] = (0..code.data().len()).map(|j| if i == j { Gf::ONE } else { Gf::ZERO }).collect();
    }
    for (row, &cell) in code.parity().iter().enumerate() {
        all[cell.usize()] = code.generator().row(row).to_vec();
    }
    all
}

/// The cheapest set of cells outside `lost` that spans the wanted ones; `None` if none does.
pub(crate) fn brute_force(code: &Code, lost: &CellSet, wanted: &[CellIndex], costs: &Costs) -> Option<u64> {
    let vectors = vectors(code);
    let there: Vec<CellIndex> = code.cells().filter(|&c| !lost.contains(c)).collect();
    let mut best = None;
    for set in 0u32..1 << there.len() {
        let read = there.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, &c)| c);
        let cost: u64 = read.clone().map(|c| costs.of(code.column_of(c))).sum();
        if best.is_some_and(|b| b <= cost) {
            continue;
        }
        let mut span = Echelon::new(code.data().len());
        read.for_each(|c| {
            span.insert(vectors[c.usize()].clone());
        });
        if wanted.iter().all(|w| span.contains(&vectors[w.usize()])) {
            best = Some(cost);
        }
    }
    best
}

fn check(code: &Code, random: &mut Random, trials: usize, exact_only: bool) -> usize {
    let planner = Planner::new(code);
    let mut exact = 0;
    for _ in 0..trials {
        let mut lost = CellSet::empty(code);
        for _ in 0..1 + random.below(code.parity().len().max(1)) {
            lost.insert(CellIndex(random.below(code.cell_count()) as u32));
        }
        let wanted: Vec<CellIndex> = code
            .cells()
            .filter(|&c| if lost.contains(c) { random.below(4) > 0 } else { random.below(6) == 0 })
            .collect();
        let mut costs = Costs::uniform();
        if random.below(2) == 0 {
            (0..code.columns()).for_each(|c| costs.set(c, 1 + random.below(5) as u32));
        }
        let truth = brute_force(code, &lost, &wanted, &costs);
        for effort in [Effort::Fast, Effort::THOROUGH] {
            let request = Request { lost: &lost, wanted: &wanted, costs: &costs, effort };
            let what = || format!("{code}: lost {lost:?}, wanted {wanted:?}, costs {costs:?}, {effort:?}");
            match (planner.recover(&request), truth) {
                (Err(error), None) => {
                    let PlanError::NotRecoverable(error) = error else { panic!("{error}") };
                    assert!(!error.unrecoverable.is_empty());
                }
                (Ok(plan), Some(least)) => {
                    assert!(plan.is_sound(code, &lost), "{}", what());
                    assert!(plan.cost >= least, "{}: cheaper than possible", what());
                    match plan.optimality {
                        Optimality::Exact => {
                            assert_eq!(plan.cost, least, "{}: not exact", what());
                            exact += 1;
                        }
                        Optimality::Bound { at_least } => {
                            assert!(at_least <= least, "{}: bound {at_least} above {least}", what());
                            assert!(!exact_only, "{}: not even claimed exact", what());
                        }
                    }
                }
                (Ok(_), None) => panic!("{}: recovered what cannot be", what()),
                (Err(_), Some(_)) => panic!("{}: refused what can be recovered", what()),
            }
        }
    }
    exact
}

#[test]
fn exact_plans_are_exact_and_bounds_hold() {
    let mut random = Random(2026);
    for spec in [
        "raid5:5",
        "raid6:5",
        "rs:6+3",
        "rs:4+4",
        "shec:6,4,3",
        "shec:4,3,3",
        "shec:7,4,3",
        "lrc:6,2,2",
        "lrc:4,2,2",
        "slpg:6,4,3",
        "xorbas:4,4,2",
        "raidq:2+4",
        "raidq:3+3",
        "mirror:4",
        "evenodd:4",
        "rdp:4",
        "raidp:3",
        "raidp:3,weighted",
        "cauchy:4+4",
        "lch:4+4",
        "crs:2+2,w=2",
        "liberation:2",
        "clay:2,1,2",
        "clay:2,2,2",
        "clay:2,2,3",
    ] {
        let code = Code::parse(spec).unwrap();
        let exact = check(&code, &mut random, 12, false);
        assert!(exact > 0, "{spec}: nothing was called exact");
    }
}

#[test]
fn random_codes_have_no_cheaper_plan_than_the_one_called_exact() {
    let mut random = Random(7);
    for seed in 0..60 {
        let columns = 3 + random.below(5);
        let rows: Vec<usize> = (0..columns).map(|_| 1 + random.below(2)).collect();
        let cells: Vec<(usize, usize)> =
            rows.iter().enumerate().flat_map(|(c, &r)| (0..r).map(move |row| (row, c))).collect();
        if cells.len() > 11 {
            continue;
        }
        let parity = 1 + random.below(cells.len() / 2);
        let xor = random.below(2) == 0;
        let mut text = format!("pantile-code 1\nname r{seed}\ncolumns {columns}\nrows ");
        text += &rows.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        for p in 0..parity {
            let (row, column) = cells[cells.len() - 1 - p];
            let terms: Vec<String> = cells[..cells.len() - parity]
                .iter()
                .filter(|_| random.below(3) > 0)
                .collect::<Vec<_>>()
                .into_iter()
                .map(|(r, c)| format!("{}*[{r}][{c}]", if xor { 1 } else { 1 + random.below(255) }))
                .collect();
            let sum = if terms.is_empty() { "[0][0]".to_string() } else { terms.join(" + ") };
            text += &format!("\n[{row}][{column}] = {sum}");
        }
        let code = Code::from_text(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        check(&code, &mut random, 8, false);
    }
}
