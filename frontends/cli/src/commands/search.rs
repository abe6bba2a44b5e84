//! `pantile-lab search`: finds better generators by exhaustion.

use crate::commands::prove::threads;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, Subcommand};
use pantile::plan::search_fourth_generators;
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Search for constructions with more columns
///
/// Answers: is there a better generator than the one in the paper? Every candidate is tried, so the
/// answer is final.
#[derive(Args)]
pub struct Search {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fourth generators of RAIDq: X with X^2 = bX + c
    ///
    /// Rows [1, a, a^1/2, X] give four parities whose first two are RAID-6's P and Q. The number of
    /// data columns depends on X in GF(2^16), that is on b and c in GF(2^8). The paper's X^2 = a^3
    /// X + 1 allows 92; this search tries all irreducible polynomials and lists the best. The best
    /// allow 164, and 125 with c = 1.
    #[command(after_long_help = "\
Units: data columns, at most so many with any 4 of all columns lost. Takes about a second, on all cores.

Examples:
  pantile-lab search raidq4 --norm-one --top 3
  pantile-lab search raidq4 --json
  pantile show raidq:164+4,x=fe.72")]
    Raidq4(Raidq4),
}

#[derive(Args)]
struct Raidq4 {
    /// Search only X of norm one: c = 1, so that multiplication by X moves one byte plane
    /// unchanged.
    #[arg(long)]
    norm_one: bool,
    /// Number of results to list.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=32640))]
    top: u64,
    /// Print JSON: {"tried", "found": [{"b", "c", "limit", "spec"}]}.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SearchJson {
    output_version: u32,
    search: &'static str,
    norm_one: bool,
    tried: usize,
    found: Vec<FoundJson>,
}

#[derive(Serialize)]
struct FoundJson {
    b: u8,
    c: u8,
    limit: usize,
    spec: String,
}

impl Search {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        match self.what {
            What::Raidq4(command) => command.run(terminal),
        }
    }
}

impl Raidq4 {
    fn run(self, terminal: &Terminal) -> Outcome {
        interrupt::listen();
        let progress = Progress::start(terminal, "searching");
        let (tried, pairs) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let found = search_fourth_generators(self.norm_one, self.top as usize, threads(), &|_, all| {
            pairs.store(all, Ordering::Relaxed);
            let done = tried.fetch_add(1, Ordering::Relaxed) + 1;
            progress.set("searching", "pairs", done as u64, all as u64);
            !interrupt::asked()
        });
        drop(progress);
        let Some(found) = found else {
            return Err(Failure::Interrupted(
                "the search was ended before it had tried all; nothing is listed".into(),
            ));
        };
        let tried = pairs.into_inner();
        let found: Vec<FoundJson> = found
            .iter()
            .map(|f| FoundJson {
                b: f.b.0,
                c: f.c.0,
                limit: f.limit,
                spec: format!("raidq:{}+4,x={:02x}.{:02x}", f.limit, f.b.0, f.c.0),
            })
            .collect();
        if self.json {
            let answer = SearchJson {
                output_version: OUTPUT_VERSION,
                search: "raidq4",
                norm_one: self.norm_one,
                tried,
                found,
            };
            print_json(&answer)?;
        } else {
            let mut table = Table::new(&["X^2 = bX + c", ">data columns", "code"]);
            for f in &found {
                let polynomial = format!("X^2 = 0x{:02x} X + 0x{:02x}", f.b, f.c);
                table.row(vec![polynomial, f.limit.to_string(), f.spec.clone()]);
            }
            let mut out = table.render(terminal);
            let _ = writeln!(out, "\nTried all {} pairs of b and c.", tried);
            print(&out)?;
        }
        Ok(Verdict::Good)
    }
}
