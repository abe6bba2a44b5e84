//! `pantile plan`: reads, computations and writes of a recovery or a small write.

use crate::args::{self, Named};
use crate::commands::explain;
use crate::commands::plan_nodes::{self, Nodes, NodesJson};
use crate::describe;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::{self, CellJson, OUTPUT_VERSION, StepJson};
use crate::progress::Progress;
use crate::render::table::{Table, hanging};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::gf::Gf;
use pantile::plan::{Content, Planner, Request, UpdatePlan};
use pantile::{CellIndex, CellSet, Code, Costs, Effort, Optimality, Plan, PlanError};
use serde::Serialize;
use std::fmt::Write;

/// Count the reads and sums of a recovery or a small write
///
/// Answers: with these columns gone and those slow, which elements do I read for the wanted ones,
/// at what cost, and is there a cheaper way? Or, with --write: a user writes these elements; what
/// is read, computed and written to update the parity, and which strategy costs least?
#[derive(Args)]
#[command(after_long_help = "\
Units: elements; reading one costs 1 unless --cost says otherwise. A dear column is avoided where that is cheaper in \
sum; a cost of 0 makes reads free. \"exact\" means that no plan of any form costs less; otherwise a proven lower bound \
is given. Writing one element costs what reading one of its column does.

Examples:
  pantile plan dcode:7 --lost 1                      rebuild one column
  pantile plan dcode:7 --lost 1 --cost 0=5,3=2       column 0 is slow: go around it
  pantile plan shec:6,4,3 --lost 2,7 --want data     a degraded read of the whole stripe
  pantile plan rdp:8 --lost 3.0 --want 3.0 --json    one bad element
  pantile plan raidp:12 --lost 3,8 --nodes each      bytes of each link, by partial sums
  pantile plan raid6:8 --write 0-3                   write the first four elements
  pantile plan raid6:8 --write 0 --lost 2            the same on a degraded array")]
pub struct PlanCommand {
    /// The code: a spec such as dcode:7, or the path of a code file.
    code: String,
    /// Unreadable columns (1,4 or 0-2), cells (row.column, such as 3.0), or both.
    #[arg(long, value_name = "LIST", required_unless_present_any = ["write", "want"], allow_hyphen_values = true)]
    lost: Option<String>,
    /// Wanted elements: 'lost' (all lost cells, the default), 'data' (all data cells: present ones
    /// are read, lost ones computed, lost parity is not), or a list of columns and cells, lost or
    /// not.
    #[arg(long, value_name = "LIST", conflicts_with = "write", allow_hyphen_values = true)]
    want: Option<String>,
    /// Cost of reading one element of a column, where not 1: whole numbers from 0 to 1000000, such
    /// as 0=5,3-4=2.
    #[arg(long, value_name = "COLUMN=COST", allow_hyphen_values = true)]
    cost: Option<String>,
    /// Cut the plan by node into partial sums, and count the bytes of each link: 'each' for one
    /// node per column, or the nodes of columns, such as 0-3=0,4-7=1; other columns are nodes of
    /// their own.
    #[arg(long, value_name = "COLUMN=NODE", conflicts_with = "write", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// The size of an element, for --nodes.
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = plan_nodes::element)]
    element: u64,
    /// Effort of the search for a cheaper plan: fast, thorough, or a number of search steps.
    #[arg(long, value_name = "EFFORT", default_value = "thorough", value_parser = args::effort)]
    effort: Effort,
    /// Plan a write instead: the written data elements by their place in user order, such as 0-3 or
    /// 5,9.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    write: Option<String>,
    /// Print JSON: reads, cost, optimality, steps.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PlanJson<'c> {
    code: &'c str,
    lost: Vec<CellJson>,
    reads: usize,
    reads_per_column: Vec<usize>,
    cost: u64,
    optimality: OptimalityJson,
    read_cells: Vec<CellJson>,
    steps: Vec<StepJson>,
    outputs: Vec<CellJson>,
    additions: usize,
    multiplications: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<NodesJson>,
    output_version: u32,
}

#[derive(Serialize)]
pub struct OptimalityJson {
    kind: &'static str,
    /// Lower bound of the cost of any plan; the cost itself if the plan is exact.
    at_least: u64,
}

#[derive(Serialize)]
struct UpdateJson<'c> {
    code: &'c str,
    written: Vec<CellJson>,
    lost: Vec<CellJson>,
    strategy: String,
    reads: usize,
    reads_per_column: Vec<usize>,
    writes: usize,
    writes_per_column: Vec<usize>,
    cost: u64,
    read_cells: Vec<CellJson>,
    recovery: Vec<StepJson>,
    steps: Vec<UpdateStepJson>,
    write_cells: Vec<CellJson>,
    output_version: u32,
}

#[derive(Serialize)]
struct UpdateStepJson {
    target: CellJson,
    terms: Vec<UpdateTermJson>,
}

#[derive(Serialize)]
struct UpdateTermJson {
    cell: CellJson,
    content: &'static str,
    coefficient: u8,
}

impl PlanCommand {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let code = args::code(&self.code, self.effort.into())?;
        let lost = match &self.lost {
            Some(text) => args::cells("--lost", text, &code)?,
            None => Named { columns: Vec::new(), cells: Vec::new() },
        };
        let costs = match &self.cost {
            Some(text) => args::costs(text, &code)?,
            None => Costs::uniform(),
        };
        match &self.write {
            Some(text) => self.update(&code, &lost, &costs, text, terminal),
            None => self.recover(&code, &lost, &costs, terminal),
        }
    }

    fn recover(&self, code: &Code, lost: &Named, costs: &Costs, terminal: &Terminal) -> Outcome {
        let wanted: Vec<CellIndex> = match self.want.as_deref() {
            Some("lost") if lost.cells.is_empty() => {
                return Err(Failure::Input(
                    "--want lost asks for what --lost names, and it names nothing".into(),
                ));
            }
            None | Some("lost") => lost.cells.clone(),
            Some("data") => code.data().to_vec(),
            Some(list) => args::cells("--want", list, code)?.cells,
        };
        let nodes = match &self.nodes {
            Some(text) => Some(Nodes::parse(text, self.element, code)?),
            None => None,
        };
        let set = lost.set(code);
        let request = Request { lost: &set, wanted: &wanted, costs, effort: self.effort };
        let plan = recovery(code, &request, terminal)?;
        match self.json {
            true => {
                let nodes = nodes.map(|nodes| nodes.answer(code, &plan));
                print_json(&PlanJson { nodes, ..answer(code, lost, &plan) })?;
            }
            false => {
                let by_node = nodes.map(|nodes| nodes.report(code, &plan, terminal)).unwrap_or_default();
                print(&(report(code, lost, costs, &plan, terminal) + &by_node))?;
            }
        }
        Ok(Verdict::Good)
    }

    fn update(&self, code: &Code, lost: &Named, costs: &Costs, text: &str, terminal: &Terminal) -> Outcome {
        let written = args::positions("--write", text, code)?;
        let set = lost.set(code);
        let planner = Planner::new(code);
        let plan = {
            let _progress = Progress::start(terminal, format!("{code}: planning the write"));
            planner.update(&written, &set, costs)
        };
        let plan = plan.map_err(|error| {
            // The old content of the lost cells is sufficient for any strategy, so that is what the
            // message is about.
            let request = Request { lost: &set, wanted: &lost.cells, costs, effort: Effort::Fast };
            refused(&planner, &request, &error)
        })?;
        match self.json {
            true => print_json(&update_answer(code, lost, &written, &plan))?,
            false => print(&update_report(code, lost, costs, text, &plan, terminal))?,
        }
        Ok(Verdict::Good)
    }
}

/// Plans the recovery. Errors: the columns that would have to come back for a plan.
pub fn recovery(code: &Code, request: &Request<'_>, terminal: &Terminal) -> Result<Plan, Failure> {
    let _progress = Progress::start(terminal, format!("{code}: planning the recovery"));
    let planner = Planner::new(code);
    planner.recover(request).map_err(|error| refused(&planner, request, &error))
}

/// Describes a loss beyond the tolerance: its extent, and the largest parts of it that can be
/// recovered.
fn refused(planner: &Planner, request: &Request<'_>, error: &PlanError) -> Failure {
    const SHOWN: usize = 3;
    let code = planner.code();
    let (PlanError::NotRecoverable(error), Ok(out)) = (error, planner.way_out(request)) else {
        return Failure::Input(error.to_string());
    };
    let (lost, back) = (out.lost.len(), out.back);
    let stay = lost - back;
    let of_lost = describe::count(lost, "column");
    let way = if stay == 0 && out.is_exact {
        match lost {
            1 => "The loss of this column alone is fatal: bring it back".to_string(),
            _ => format!("Not one of the {of_lost} with losses can be missed: bring back all of them"),
        }
    } else if out.any {
        format!(
            "Survivable is the loss of any {stay} of the {of_lost}: bring back any {}",
            describe::count(back, "column")
        )
    } else {
        let sets: Vec<String> =
            out.enough.iter().take(SHOWN).map(|back| describe::ranges(&out.survivable(back))).collect();
        let more = match out.enough_count.saturating_sub(sets.len() as u64) {
            0 => String::new(),
            more => format!(" ({more} more sets of {stay} are)"),
        };
        let first = out.enough.first().map_or(String::new(), |back| describe::ranges(back));
        format!(
            "Survivable is the loss of {}{more}: bring back {}, such as {first}",
            sets.join(" or "),
            describe::count(back, "column"),
        )
    };
    Failure::Losses(format!(
        "{} of {} do not follow from what is left: {} are lost, and the equations determine {} of them. {way}; \
         'pantile prove {code}' counts the survivable sets",
        error.unrecoverable.len(),
        describe::count(request.wanted.len(), "wanted element"),
        error.lost.len(),
        error.rank,
    ))
}

pub fn optimality(plan: &Plan) -> OptimalityJson {
    match plan.optimality {
        Optimality::Exact => OptimalityJson { kind: "exact", at_least: plan.cost },
        Optimality::Bound { at_least } => OptimalityJson { kind: "bound", at_least },
    }
}

fn answer<'c>(code: &'c Code, lost: &Named, plan: &Plan) -> PlanJson<'c> {
    PlanJson {
        code: code.spec(),
        lost: json::cells(code, &lost.cells),
        reads: plan.reads.len(),
        reads_per_column: plan.reads_per_column(code),
        cost: plan.cost,
        optimality: optimality(plan),
        read_cells: json::cells(code, &plan.reads),
        steps: json::steps(code, &plan.steps),
        outputs: json::cells(code, &plan.outputs),
        additions: plan.additions(),
        multiplications: plan.multiplications(),
        nodes: None,
        output_version: OUTPUT_VERSION,
    }
}

fn lost_words(code: &Code, lost: &Named) -> String {
    let whole = CellSet::of_columns(code, &lost.columns);
    let mut words: Vec<String> = lost.columns.iter().map(|c| format!("column {c}")).collect();
    words.extend(lost.cells.iter().filter(|&&c| !whole.contains(c)).map(|&c| describe::symbol(code, c)));
    if words.is_empty() { "nothing".to_string() } else { words.join(", ") }
}

fn report(code: &Code, lost: &Named, costs: &Costs, plan: &Plan, terminal: &Terminal) -> String {
    let mut out = format!(
        "{}, lost: {}; wanted: {}\n\n",
        terminal.bold(code.spec()),
        lost_words(code, lost),
        describe::count(plan.outputs.len(), "element")
    );
    let mut table = Table::new(&[">column", ">reads", ">of", ">cost each", "elements read"]);
    let reads = plan.reads_per_column(code);
    for column in (0..code.columns()).filter(|&c| reads[c] > 0) {
        let of_column = plan.reads.iter().filter(|&&cell| code.column_of(cell) == column);
        let names: Vec<String> = of_column.map(|&cell| describe::symbol(code, cell)).collect();
        table.row(vec![
            column.to_string(),
            reads[column].to_string(),
            code.rows(column).to_string(),
            costs.of(column).to_string(),
            names.join(" "),
        ]);
    }
    out.push_str(&table.render(terminal));
    let _ = writeln!(out, "\nCost: {}.", plan.cost);
    let _ = writeln!(out, "{}", explain::work(code, plan));
    let _ = writeln!(out, "{}", explain::optimality(plan, "in all"));
    if !plan.steps.is_empty() {
        let _ = writeln!(out, "\n{}", terminal.bold("Steps"));
        for step in &plan.steps {
            let first = format!("  {} = ", describe::symbol(code, step.target));
            out.push_str(&hanging(
                &first,
                &describe::sum(code, &step.terms, 24),
                first.len(),
                terminal.width,
            ));
        }
    }
    out
}

fn content(code: &Code, &(content, coefficient): &(Content, Gf)) -> String {
    let (name, cell) = match content {
        Content::Old(cell) => ("old", cell),
        Content::New(cell) => ("new", cell),
    };
    format!("{name} {}", describe::term(code, &(cell, coefficient)))
}

fn update_report(
    code: &Code,
    lost: &Named,
    costs: &Costs,
    text: &str,
    plan: &UpdatePlan,
    terminal: &Terminal,
) -> String {
    let mut out = format!(
        "{}, written: data elements {text}; lost: {}\n\n",
        terminal.bold(code.spec()),
        lost_words(code, lost)
    );
    let _ = writeln!(
        out,
        "Strategy: {}; {}, {}, cost {}.\n",
        plan.strategy,
        describe::count(plan.old.reads.len(), "read"),
        describe::count(plan.writes.len(), "write"),
        plan.cost
    );
    let mut table =
        Table::new(&[">column", ">reads", ">writes", ">cost each", "elements (r read, w written)"]);
    let set = |cells: &[CellIndex]| CellSet::of_cells(code, cells);
    let (read, written) = (set(&plan.old.reads), set(&plan.writes));
    for column in 0..code.columns() {
        let count = |set: &CellSet| code.column_cells(column).filter(|&cell| set.contains(cell)).count();
        let names: Vec<String> = code
            .column_cells(column)
            .filter(|&cell| read.contains(cell) || written.contains(cell))
            .map(|cell| {
                let r = if read.contains(cell) { "r" } else { "" };
                let w = if written.contains(cell) { "w" } else { "" };
                format!("{}:{r}{w}", describe::symbol(code, cell))
            })
            .collect();
        if !names.is_empty() {
            table.row(vec![
                column.to_string(),
                count(&read).to_string(),
                count(&written).to_string(),
                costs.of(column).to_string(),
                names.join(" "),
            ]);
        }
    }
    out.push_str(&table.render(terminal));
    if !plan.old.steps.is_empty() {
        let _ = writeln!(out, "\n{}", terminal.bold("Recover the old content of lost elements"));
        for step in &plan.old.steps {
            let first = format!("  old {} = ", describe::symbol(code, step.target));
            out.push_str(&hanging(
                &first,
                &describe::sum(code, &step.terms, 24),
                first.len(),
                terminal.width,
            ));
        }
    }
    if !plan.steps.is_empty() {
        let _ = writeln!(out, "\n{}", terminal.bold("Steps"));
        for (target, terms) in &plan.steps {
            let first = format!("  new {} = ", describe::symbol(code, *target));
            let words: Vec<String> = terms.iter().map(|term| content(code, term)).collect();
            out.push_str(&hanging(&first, &words.join(" + "), first.len(), terminal.width));
        }
    }
    out
}

fn update_answer<'c>(
    code: &'c Code,
    lost: &Named,
    written: &[CellIndex],
    plan: &UpdatePlan,
) -> UpdateJson<'c> {
    let mut writes_per_column = vec![0; code.columns()];
    plan.writes.iter().for_each(|&cell| writes_per_column[code.column_of(cell)] += 1);
    let steps = plan
        .steps
        .iter()
        .map(|(target, terms)| UpdateStepJson {
            target: json::cell(code, *target),
            terms: terms
                .iter()
                .map(|&(content, coefficient)| {
                    let (content, cell) = match content {
                        Content::Old(cell) => ("old", cell),
                        Content::New(cell) => ("new", cell),
                    };
                    UpdateTermJson { cell: json::cell(code, cell), content, coefficient: coefficient.0 }
                })
                .collect(),
        })
        .collect();
    UpdateJson {
        code: code.spec(),
        written: json::cells(code, written),
        lost: json::cells(code, &lost.cells),
        strategy: plan.strategy.to_string(),
        reads: plan.old.reads.len(),
        reads_per_column: plan.old.reads_per_column(code),
        writes: plan.writes.len(),
        writes_per_column,
        cost: plan.cost,
        read_cells: json::cells(code, &plan.old.reads),
        recovery: json::steps(code, &plan.old.steps),
        steps,
        write_cells: json::cells(code, &plan.writes),
        output_version: OUTPUT_VERSION,
    }
}
