//! `pantile explain`: shows a recovery step by step.

use crate::args;
use crate::describe::{self, Behind, Labels};
use crate::failure::{Outcome, Verdict};
use crate::json::{self, CellJson, OUTPUT_VERSION, TermJson};
use crate::progress::Progress;
use crate::render::stripe;
use crate::render::table::{bar, hanging};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::gf::Gf;
use pantile::plan::{Request, Step};
use pantile::{Code, Costs, Effort, Optimality, Plan};
use serde::Serialize;
use std::fmt::Write;

/// Explain a recovery step by step, in words and symbols
///
/// Answers: if these columns are gone, how does each of their elements come back, from which
/// elements, and in which order? Each step names its parity groups (see 'pantile show') and uses
/// only elements that were read or computed by an earlier step.
#[derive(Args)]
#[command(after_long_help = "\
Units: elements. An element of any length is recovered alike, byte by byte.

Examples:
  pantile explain dcode:7 --lost 2,3       two lost disks: a chain that zig-zags through the groups
  pantile explain rdp:8 --lost 0           one lost disk: row and diagonal groups mixed to read less
  pantile explain rs:4+2 --lost 0,5 --json")]
pub struct Explain {
    /// The code: a spec such as dcode:7, or the path of a code file.
    code: String,
    /// Lost columns (1,4 or 0-2), cells (row.column, such as 3.0), or both.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    lost: String,
    /// Effort of the search for fewer reads: fast, thorough, or a number of search steps.
    #[arg(long, value_name = "EFFORT", default_value = "thorough", value_parser = args::effort)]
    effort: Effort,
    /// Print JSON: the plan, each step with the equations behind it.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ExplainJson<'c> {
    output_version: u32,
    code: &'c str,
    lost: Vec<CellJson>,
    reads: usize,
    reads_per_column: Vec<usize>,
    additions: usize,
    multiplications: usize,
    optimality: super::plan::OptimalityJson,
    steps: Vec<ExplainStepJson>,
}

#[derive(Serialize)]
struct ExplainStepJson {
    target: CellJson,
    terms: Vec<TermJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    equations: Option<Vec<FactorJson>>,
    words: String,
}

#[derive(Serialize)]
struct FactorJson {
    equation: usize,
    label: String,
    factor: u8,
}

impl Explain {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let code = args::code(&self.code, self.effort.into())?;
        let lost = args::cells("--lost", &self.lost, &code)?;
        let costs = Costs::uniform();
        let set = lost.set(&code);
        let request = Request { lost: &set, wanted: &lost.cells, costs: &costs, effort: self.effort };
        let plan = super::plan::recovery(&code, &request, terminal)?;
        // The equations behind each step take one inversion of all of them.
        let progress = Progress::start(terminal, format!("{code}: finding the equations behind each step"));
        let labels = Labels::new(&code);
        let behind = Behind::new(&code);
        drop(progress);
        if self.json {
            print_json(&answer(&code, &labels, &behind, &lost.cells, &plan))?;
            return Ok(Verdict::Good);
        }
        let mut out = format!("{}, lost: {}\n\n", terminal.bold(code.spec()), self.lost);
        let _ = writeln!(
            out,
            "{} come back in {} from {} read.\n",
            describe::count(lost.cells.len(), "element"),
            describe::count(plan.steps.len(), "step"),
            describe::count(plan.reads.len(), "element"),
        );
        steps(&code, &labels, &behind, &plan, terminal, &mut out);
        let _ = writeln!(out, "\n{}", terminal.bold("Elements read from each column"));
        out.push_str(&reads_chart(&code, &plan, &lost.columns, terminal));
        let _ = writeln!(out, "\n{}", work(&code, &plan));
        let _ = writeln!(out, "{}", optimality(&plan, "elements"));
        print(&out)?;
        Ok(Verdict::Good)
    }
}

fn steps(
    code: &Code,
    labels: &Labels,
    behind: &Behind<'_>,
    plan: &Plan,
    terminal: &Terminal,
    out: &mut String,
) {
    let digits = plan.steps.len().to_string().len();
    for (i, step) in plan.steps.iter().enumerate() {
        let equations = behind.step(step);
        let symbol = describe::symbol(code, step.target);
        let target = match equations.as_deref() {
            Some([(e, _)]) => terminal.paint(stripe::style(labels, *e).bold(), &symbol),
            _ => terminal.bold(&symbol),
        };
        let indent = digits + 3;
        let _ = writeln!(out, " {:>digits$}. {target}: {}", i + 1, words(labels, step, equations.as_deref()));
        let mut terms = step.terms.clone();
        terms.sort_by_key(|t| (code.data_position(t.0).unwrap_or(usize::MAX), t.0));
        let first = format!("{}{symbol} = ", " ".repeat(indent));
        let rest = indent + symbol.chars().count() + 3;
        out.push_str(&hanging(&first, &describe::sum(code, &terms, 40), rest, terminal.width));
    }
}

/// Returns a step in words.
fn words(labels: &Labels, step: &Step, equations: Option<&[(usize, Gf)]>) -> String {
    let name = |&(e, _): &(usize, Gf)| labels.of[e].text.clone();
    let is_sum = step.terms.iter().all(|t| t.1 == Gf::ONE);
    let operation = if is_sum { "sum" } else { "weighted sum" };
    match equations {
        Some([one]) => {
            format!(
                "the {operation} of the other {} of group {}",
                describe::count(step.terms.len(), "cell"),
                name(one)
            )
        }
        Some(several) if several.len() <= 8 => {
            let names: Vec<String> = several.iter().map(name).collect();
            let (last, head) = names.split_last().expect("a step follows from at least one equation");
            format!(
                "groups {} and {last} added{} so that the other lost cells cancel",
                head.join(", "),
                if several.iter().all(|f| f.1 == Gf::ONE) { "" } else { " with weights" }
            )
        }
        Some(several) => {
            format!("a combination of {} groups in which the other lost cells cancel", several.len())
        }
        None => format!(
            "a {operation} of {} that follows from the equations",
            describe::count(step.terms.len(), "cell")
        ),
    }
}

/// Returns a bar for each column.
pub fn reads_chart(code: &Code, plan: &Plan, lost: &[usize], terminal: &Terminal) -> String {
    const BAR_WIDTH: usize = 40;
    const COLUMNS_MOST: usize = 64;
    let reads = plan.reads_per_column(code);
    let most = reads.iter().copied().max().unwrap_or(0);
    let digits = (code.columns() - 1).to_string().len().max(2);
    let mut out = String::new();
    for (column, &count) in reads.iter().enumerate().take(COLUMNS_MOST) {
        let drawn = match lost.contains(&column) {
            true => "lost".to_string(),
            false => format!("{} {count}", bar(count as f64, most as f64, BAR_WIDTH.min(terminal.width / 2))),
        };
        let _ = writeln!(out, "  {column:>digits$}  {}", drawn.trim_start());
    }
    if reads.len() > COLUMNS_MOST {
        let rest: usize = reads[COLUMNS_MOST..].iter().sum();
        let _ = writeln!(out, "  and {rest} from the {} columns after these", reads.len() - COLUMNS_MOST);
    }
    out
}

/// Returns the reads and computations of a plan as a sentence.
pub fn work(code: &Code, plan: &Plan) -> String {
    let per = |count: usize| match plan.steps.len() {
        0 => String::new(),
        steps => format!(" ({:.2} per step)", count as f64 / steps as f64),
    };
    let additions = plan.additions();
    let xors = format!("{}{}", describe::count(additions, "XOR"), per(additions));
    let share = plan.reads.len() as f64 / code.data().len() as f64;
    format!(
        "Work: {} read ({:.0} % of the stripe's data), {xors}, {}.",
        describe::count(plan.reads.len(), "element"),
        100.0 * share,
        describe::count(plan.multiplications(), "multiplication"),
    )
}

/// Returns the optimality of a plan as a sentence.
pub fn optimality(plan: &Plan, unit: &str) -> String {
    match plan.optimality {
        Optimality::Exact => "Optimality: exact; no recovery of any form costs less.".to_string(),
        Optimality::Bound { at_least } => format!(
            "Optimality: cost {} {unit}, within {} of the bound {at_least}; more --effort may find less or prove more.",
            plan.cost,
            plan.cost - at_least.min(plan.cost)
        ),
    }
}

fn answer<'c>(
    code: &'c Code,
    labels: &Labels,
    behind: &Behind<'_>,
    lost: &[pantile::CellIndex],
    plan: &Plan,
) -> ExplainJson<'c> {
    let steps = plan
        .steps
        .iter()
        .map(|step| {
            let equations = behind.step(step);
            ExplainStepJson {
                target: json::cell(code, step.target),
                terms: json::terms(code, &step.terms),
                words: words(labels, step, equations.as_deref()),
                equations: equations.map(|all| {
                    all.iter()
                        .map(|&(equation, factor)| FactorJson {
                            equation,
                            label: labels.of[equation].text.clone(),
                            factor: factor.0,
                        })
                        .collect()
                }),
            }
        })
        .collect();
    ExplainJson {
        output_version: OUTPUT_VERSION,
        code: code.spec(),
        lost: json::cells(code, lost),
        reads: plan.reads.len(),
        reads_per_column: plan.reads_per_column(code),
        additions: plan.additions(),
        multiplications: plan.multiplications(),
        optimality: super::plan::optimality(plan),
        steps,
    }
}
