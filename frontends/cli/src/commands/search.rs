//! `pantile search`: better generators, by exhaustion.

use crate::commands::prove::threads;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pantile::code::plank::limit_of_fourth_generator_from;
use pantile::gf::Gf;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Search for constructions that hold more columns
///
/// Answers: is there a better generator than the one in the paper? Every candidate is tried, so the answer is final.
#[derive(Args)]
pub struct Search {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Fourth generators of RAIDq: X with X^2 = bX + c
    ///
    /// Rows [1, a, a^1/2, X] give four parities whose first two are RAID-6's P and Q. How many data columns they hold
    /// depends on X in GF(2^16), that is on b and c in GF(2^8). The paper's X^2 = a^3 X + 1 holds 92; this search tries
    /// all irreducible polynomials and lists those that hold the most. The best hold 164, and 125 with c = 1.
    #[command(after_long_help = "\
Units: data columns, at most so many with any 4 of all columns lost. Takes about a second, on all cores.

Examples:
  pantile search raidq4 --norm-one --top 3
  pantile search raidq4 --json
  pantile show raidq:164+4,x=fe.72")]
    Raidq4(Raidq4),
}

#[derive(Args)]
struct Raidq4 {
    /// Only X of norm one: c = 1, so that multiplying by X moves one byte plane unchanged.
    #[arg(long)]
    norm_one: bool,
    /// How many to list.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=32640))]
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
        let candidates: Vec<(u8, u8)> = match self.norm_one {
            true => (1..=255).map(|b| (b, 1)).collect(),
            false => (1..=255).flat_map(|b| (1..=255).map(move |c| (b, c))).collect(),
        };
        let mut found = exhaust(&candidates, self.top as usize, terminal);
        if interrupt::asked() {
            return Err(Failure::Interrupted(
                "the search was ended before it had tried all; nothing is listed".into(),
            ));
        }
        found.sort_by_key(|f| (std::cmp::Reverse(f.limit), f.b, f.c));
        found.truncate(self.top as usize);
        if self.json {
            let answer = SearchJson {
                output_version: OUTPUT_VERSION,
                search: "raidq4",
                norm_one: self.norm_one,
                tried: candidates.len(),
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
            let _ = writeln!(out, "\nTried all {} pairs of b and c.", candidates.len());
            print(&out)?;
        }
        Ok(Verdict::Good)
    }
}

/// Tries every candidate on all cores; keeps those that are among the best `top` so far, which include the best.
fn exhaust(candidates: &[(u8, u8)], top: usize, terminal: &Terminal) -> Vec<FoundJson> {
    let bar = match terminal.progress {
        true => ProgressBar::with_draw_target(Some(candidates.len() as u64), ProgressDrawTarget::stderr()),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} tried, {eta} left") {
        bar.set_style(style);
    }
    let next = AtomicUsize::new(0);
    let least = AtomicUsize::new(1);
    let found: Mutex<Vec<FoundJson>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= candidates.len() || interrupt::asked() {
                return;
            }
            let (b, c) = candidates[i];
            if let Some(limit) = limit_of_fourth_generator_from(Gf(b), Gf(c), least.load(Ordering::Relaxed)) {
                let mut found = found.lock().unwrap_or_else(|e| e.into_inner());
                found.push(FoundJson { b, c, limit, spec: format!("raidq:{limit}+4,x={b:02x}.{c:02x}") });
                found.sort_by_key(|f| std::cmp::Reverse(f.limit));
                if let Some(last) = found.get(top - 1) {
                    // Equals of the last one stay, so that the order of b and c decides and not that of the cores.
                    let bound = last.limit;
                    found.retain(|f| f.limit >= bound);
                    least.store(bound, Ordering::Relaxed);
                }
            }
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        (1..threads()).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    bar.finish_and_clear();
    found.into_inner().unwrap_or_else(|e| e.into_inner())
}
