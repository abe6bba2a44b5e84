//! `pantile show`: draws a code.

use crate::args;
use crate::describe::{self, Labels};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::json::{self, CellJson, ClaimJson, OUTPUT_VERSION, TermJson};
use crate::render::stripe;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::Code;
use pantile::code::{ColumnRole, Purpose};
use pantile_lab::drawing;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Draw the stripe of a code, with its equations
///
/// Answers: where are my data and parity, and which elements does each parity protect? Columns are
/// devices, rows are the elements of one chunk. A data cell shows its place in user order and the
/// labels of its parity groups; a parity cell shows P= and the label of its own group. Cells with
/// the same label add up to zero.
#[derive(Args)]
#[command(after_long_help = "\
Sets of groups that have no cell in common are numbered 1 2 3, lettered A B C, then a b c; coefficients other than 1 \
are written in hex and multiply in GF(2^8) with the polynomial 0x11d.

Examples:
  pantile show dcode:7                     the drawing of the D-Code paper
  pantile show raid6:255                   a wide stripe, abbreviated; --all draws every column
  pantile show dcode:7 --svg dcode7.svg    a picture for a document or a talk
  pantile show rdp:8 --text > mine.code    the code as a file to edit: pantile prove ./mine.code")]
pub struct Show {
    /// The code: a spec such as dcode:7, or the path of a code file.
    code: String,
    #[command(flatten)]
    reading: args::Reading,
    /// Write the drawing as a standalone SVG picture to this file ('-' for standard output).
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the code file: shape and equations as text that can be edited and read back.
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Draw every column and list every equation, however many there are.
    #[arg(long)]
    all: bool,
    /// Print JSON: shape, claim, user order and equations.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ShowJson<'c> {
    output_version: u32,
    code: &'c str,
    family: &'static str,
    version: u16,
    columns: usize,
    rows: Vec<usize>,
    add_on_of: Vec<Option<usize>>,
    cells: usize,
    data: usize,
    parity: usize,
    rate: f64,
    claim: ClaimJson,
    is_xor: bool,
    storage: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    study_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'c str>,
    parities_updated: Spread,
    fingerprint: String,
    order: Vec<CellJson>,
    equations: Vec<EquationJson>,
}

#[derive(Serialize)]
struct Spread {
    mean: f64,
    most: usize,
}

#[derive(Serialize)]
struct EquationJson {
    label: String,
    set: usize,
    parity: Option<CellJson>,
    terms: Vec<TermJson>,
}

impl Show {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let code = args::code(&self.code, self.reading)?;
        let labels = Labels::new(&code);
        if let Some(path) = &self.svg {
            let picture = drawing::stripe(&code);
            if path.as_os_str() == "-" {
                print(&picture)?;
                return Ok(Verdict::Good);
            }
            files::write_whole(path, picture.as_bytes())
                .map_err(|error| Failure::file("write", path, &error))?;
        }
        if self.text {
            print(&code.to_text())?;
            return Ok(Verdict::Good);
        }
        match self.json {
            true => print_json(&answer(&code, &labels))?,
            false => print(&self.drawing(&code, &labels, terminal))?,
        }
        Ok(Verdict::Good)
    }

    fn drawing(&self, code: &Code, labels: &Labels, terminal: &Terminal) -> String {
        let mut out = format!("{}\n\n", terminal.bold(code.spec()));
        summary(code, &mut out);
        out.push('\n');
        out.push_str(&stripe::grid(code, labels, terminal, self.all));
        if !code.equations().is_empty() {
            let _ = writeln!(out, "\n{}", reading(code, labels));
            out.push_str(&stripe::legend(code, labels, terminal, self.all));
        }
        if let Some(path) = &self.svg {
            let _ = writeln!(out, "\nThe drawing is in {}.", sets::name(&path.to_string_lossy()));
        }
        out
    }
}

/// Returns the explanation of the drawing.
fn reading(code: &Code, labels: &Labels) -> String {
    let who = match (code.rows_max(), labels.sets.len()) {
        (1, _) => {
            return format!(
                "Letters name the parity groups; the parity is the {} of the members:",
                describe::sum_word(code)
            );
        }
        (_, 1) => "Cells with the same number",
        (_, 2) => "Cells with the same number, and cells with the same letter,",
        _ => "Cells with the same label",
    };
    let what = if code.is_xor() { "add up to zero" } else { "add up to zero with their coefficients" };
    format!("{who} {what}; solved for the parity:")
}

/// Adds the lines above every drawing.
fn summary(code: &Code, out: &mut String) {
    let (mean, most) = describe::update_cost(code);
    let (data, parity) = (code.data().len(), code.parity().len());
    let _ = writeln!(
        out,
        "  shape    {} of {}, {} ({data} data, {parity} parity)",
        describe::count(code.columns(), "column"),
        describe::rows(code),
        describe::count(code.cell_count(), "cell"),
    );
    let _ = writeln!(
        out,
        "  rate     {:.1} % of what is stored is user data ({:.3} bytes stored per byte)",
        100.0 * code.rate(),
        1.0 / code.rate()
    );
    let _ = writeln!(out, "  claim    {}", describe::claim(code));
    let _ = writeln!(
        out,
        "  update   one data element changes {mean:.2} parity elements on average, at most {most}"
    );
    let add_ons = (0..code.columns()).filter(|&c| code.role(c) != ColumnRole::Device).count();
    if add_ons > 0 {
        let _ = writeln!(out, "  add-ons  {add_ons}; a column headed 9+2 is the add-on of column 2");
    }
    if let Some(remark) = code.remark() {
        let _ = writeln!(out, "  meaning  {remark}");
    }
    if let Purpose::Study(reason) = code.purpose() {
        let _ = writeln!(out, "  study    not for storing data: {reason}");
    }
}

fn answer<'c>(code: &'c Code, labels: &Labels) -> ShowJson<'c> {
    let (mean, most) = describe::update_cost(code);
    let study_reason = match code.purpose() {
        Purpose::Storage => None,
        Purpose::Study(reason) => Some(*reason),
    };
    let equations = code
        .equations()
        .iter()
        .enumerate()
        .map(|(i, equation)| EquationJson {
            label: labels.of[i].text.clone(),
            set: labels.of[i].set,
            parity: labels.defines[i].map(|cell| json::cell(code, cell)),
            terms: json::terms(code, equation.terms()),
        })
        .collect();
    ShowJson {
        output_version: OUTPUT_VERSION,
        code: code.spec(),
        family: code.family(),
        version: code.version(),
        columns: code.columns(),
        rows: (0..code.columns()).map(|c| code.rows(c)).collect(),
        add_on_of: (0..code.columns())
            .map(|c| match code.role(c) {
                ColumnRole::Device => None,
                ColumnRole::AddOn { of } => Some(of),
            })
            .collect(),
        cells: code.cell_count(),
        data: code.data().len(),
        parity: code.parity().len(),
        rate: json::rounded(code.rate()),
        claim: json::claim(code),
        is_xor: code.is_xor(),
        storage: study_reason.is_none(),
        study_reason,
        remark: code.remark(),
        parities_updated: Spread { mean: json::rounded(mean), most },
        fingerprint: format!("{:016x}", code.fingerprint()),
        order: json::cells(code, code.data()),
        equations,
    }
}
