//! `pantile codes`: lists the families.

use crate::failure::{Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::code::families;
use serde::Serialize;

/// List the code families
///
/// Answers: which codes are there, what is each good for, and how is it written? One line per
/// family: its name, an example to try with the other commands, the forms of its arguments, and its
/// purpose.
#[derive(Args)]
#[command(after_long_help = "\
In the forms, k counts data columns, m parity columns, n all columns of an array code.

Examples:
  pantile codes
  pantile codes --json | jq -r '.families[].examples[]'")]
pub struct Codes {
    /// Print JSON: {"families": [{"name", "summary", "forms", "examples", "source"}]}.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CodesJson {
    output_version: u32,
    families: Vec<FamilyJson>,
}

#[derive(Serialize)]
struct FamilyJson {
    name: &'static str,
    summary: &'static str,
    forms: &'static [&'static str],
    examples: &'static [&'static str],
    source: &'static str,
}

impl Codes {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if self.json {
            let families = families()
                .iter()
                .map(|f| FamilyJson {
                    name: f.name,
                    summary: f.summary,
                    forms: f.forms,
                    examples: f.examples,
                    source: f.source,
                })
                .collect();
            print_json(&CodesJson { output_version: OUTPUT_VERSION, families })?;
            return Ok(Verdict::Good);
        }
        let mut table = Table::new(&["family", "example", "what it is for"]);
        for family in families() {
            let example = family.examples.first().copied().unwrap_or_default();
            let forms = family.forms.join("  ");
            table.row(vec![
                family.name.to_string(),
                example.to_string(),
                format!("{}. Forms: {forms}", family.summary),
            ]);
        }
        let mut out = table.render(terminal);
        out.push_str("\nA code file of your own is named by its path. Next: 'pantile show CODE', 'pantile prove CODE'.\n");
        print(&out)?;
        Ok(Verdict::Good)
    }
}
