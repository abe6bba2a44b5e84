//! `pantile prove`: counts the losses that a code survives.

use crate::args;
use crate::commands::shown;
use crate::describe;
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::files::{self, Output};
use crate::interrupt;
use crate::json::{self, ClaimJson, OUTPUT_VERSION};
use crate::progress::Progress;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::code::{ColumnRole, Placement};
use pantile::gf::Gf;
use pantile::plan::{
    Certificate, Evidence, EvidenceError, EvidenceLimits, Level, Method, ProveOptions, Witnesses, codeword,
    evidence, prove,
};
use pantile::{CellIndex, Code};
use pantile_lab::Report;
use pantile_lab::bars::{Share, Shares};
use pantile_lab::figure::{Figure, Listing};
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::fmt::Write;
use std::io::{self, BufWriter};
use std::num::NonZero;
use std::path::{Path, PathBuf};

/// Count which sets of lost columns a code survives
///
/// Answers: how many columns may I lose, and which sets are fatal? Level by level, from one lost
/// column up, every set of columns is decided from the equations alone, independent of the code's
/// claim: one by one, or, if the coefficients are a Cauchy matrix, by a theorem. A level with too
/// many sets is sampled, and says so, with the share of fatal sets that the sample cannot rule out.
#[derive(Args)]
#[command(after_long_help = "\
Units: sets of columns. A fatal set of the smallest size is a witness: losing exactly these columns loses data. \
The result depends on the code and the options only, not on the number of cores.

Ctrl-C ends the proof and prints what was decided until then, with status 130.

Exit status 1: the proof contradicts the claim of the code.

Examples:
  pantile prove shec:6,4,3                   how far a code goes beyond its claim
  pantile prove shec:6,4,3 --placement rotated    the same of a volume whose columns rotate
  pantile prove rs:100+50                    a Cauchy matrix: proved without counting
  pantile prove lrc:12,2,2 --max-lost 4      stop after four lost columns
  pantile prove raidq:164+4,x164 --json      counted exactly, with shift invariance
  pantile prove dcode:9,raw --witnesses 9    a construction that fails, and where
  pantile prove shec:6,4,3 --html shec.html    the same as a page with a picture
  pantile prove rs:10+4 --certificate rs.json    for reference/check_certificate.py, or a program of yours")]
pub struct Prove {
    /// The code: a spec such as dcode:7, or the path of a code file.
    code: String,
    #[command(flatten)]
    reading: args::Reading,
    /// Assignment of columns to devices: fixed, or rotated (rotated:STEP) as in volumes with that
    /// placement. Sets are then sets of devices, and survive if their columns do in every stripe.
    #[arg(long, value_name = "PLACEMENT", default_value_t = Placement::Fixed)]
    placement: Placement,
    /// Stop after this many lost columns (default: until nothing survives).
    #[arg(long, allow_negative_numbers = true, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    max_lost: Option<u64>,
    /// Also count the sets that a theorem decides.
    #[arg(long)]
    count: bool,
    /// Sample a level with more sets than this.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 20_000_000)]
    sets: u64,
    /// Sample a level with more work than this, in steps of about a nanosecond of one core; a
    /// sample also ends there.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 20_000_000_000)]
    work: u64,
    /// Number of sets to draw for a sampled level, if --work allows them.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    sample: u64,
    /// The seed of the samples.
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of witnesses to keep (the text shows the first twenty; JSON shows all).
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    witnesses: u64,
    /// Write a certificate that an auditor checks with another program: matrix, claim, and a
    /// witness for each set of columns.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Longest evidence of a certificate.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = args::size)]
    certificate_bytes: u64,
    /// Write a self-contained page with a picture.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON: levels, witnesses, method, verdict.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ProveJson<'c> {
    code: &'c str,
    columns: usize,
    method: &'static str,
    tolerance: Vec<LevelJson>,
    fatal: &'c [Vec<usize>],
    fatal_count: u64,
    proved_tolerance: usize,
    placement: String,
    claim: ClaimJson,
    holds: bool,
    by_cauchy: bool,
    by_shift: bool,
    by_inclusion: bool,
    complete: bool,
    output_version: u32,
}

#[derive(Serialize)]
struct LevelJson {
    lost: usize,
    sets: u64,
    survived: u64,
    method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    drawn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fatal_share_most: Option<f64>,
}

impl Prove {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let code = args::code(&self.code, self.reading)?;
        if let Some(file) = &self.html {
            shown::can_write(file)?;
        }
        let progress = Progress::start(terminal, format!("{code}: setting up the proof"));
        let mut certificate = run(&code, &self.options(), &progress);
        drop(progress);
        certificate.fatal.truncate(self.witnesses as usize);
        let holds = !certificate.contradicts(code.claim());
        if let Some(path) = &self.certificate {
            let (claimed, proved) = (code.claim().tolerance, certificate.tolerance());
            if holds && proved < claimed {
                return Err(Failure::Input(format!(
                    "--certificate: {code} claims that any {} may be lost, and {} proved exactly; \
                     raise --sets, --work or --max-lost",
                    describe::count(claimed, "column"),
                    if proved == 1 { "1 is".to_string() } else { format!("{proved} are") }
                )));
            }
            match write_certificate(path, (&code, self.placement), certificate.tolerance(), &self.limits()) {
                // The levels decided before the interruption are printed.
                Err(Failure::Interrupted(fact)) => note(&format!("{fact}.")),
                done => done?,
            }
        }
        if let Some(file) = &self.html {
            let report = page(&code, &certificate, holds, self.witnesses);
            let title = report.title.clone();
            shown::write_page(file, &title, &[report], threads())?;
        }
        match self.json {
            true => print_json(&answer(&code, &certificate, holds))?,
            false => print(&report(&code, &certificate, holds, self.witnesses, terminal))?,
        }
        Ok(match (holds, interrupt::asked()) {
            (false, _) => Verdict::Bad,
            (true, true) => Verdict::Interrupted,
            (true, false) => Verdict::Good,
        })
    }

    fn limits(&self) -> EvidenceLimits {
        EvidenceLimits { sets_most: self.sets, work_most: self.work, text_bytes_most: self.certificate_bytes }
    }

    fn options(&self) -> ProveOptions {
        ProveOptions {
            placement: self.placement,
            lost_most: self.max_lost.map(|t| t as usize),
            counts_all: self.count,
            sets_most: self.sets,
            work_most: self.work,
            work_all: u64::MAX,
            sample: self.sample,
            seed: self.seed,
            // One witness is always kept: it marks the level of the smallest fatal sets, whose
            // number is reported.
            fatal_most: (self.witnesses as usize).max(1),
            threads: threads(),
        }
    }
}

/// A certificate for an independent program; `docs/certificate.md` describes each field.
#[derive(Serialize)]
struct AuditJson<'c> {
    format: &'static str,
    version: u32,
    code: &'c str,
    rows: Vec<usize>,
    data: Vec<[usize; 2]>,
    equations: Vec<Vec<[usize; 3]>>,
    placement: String,
    tolerance: usize,
    evidence: EvidenceJson<'c>,
    #[serde(skip_serializing_if = "Option::is_none")]
    codeword: Option<CodewordJson>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum EvidenceJson<'c> {
    Cauchy { parities: Vec<[u8; 2]>, data: Vec<[u8; 2]> },
    Sets { equations: EachSet<'c> },
    SquareSets,
}

/// The witnesses of all sets, computed while they are written: there can be millions.
struct EachSet<'c> {
    witnesses: Witnesses<'c>,
    /// The error that ended the witnesses.
    fault: &'c RefCell<Option<EvidenceError>>,
}

impl Serialize for EachSet<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for witness in self.witnesses.clone() {
            let witness = witness.map_err(|error| {
                let said = S::Error::custom(&error);
                self.fault.replace(Some(error));
                said
            })?;
            list.serialize_element(&witness)?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct CodewordJson {
    columns: Vec<usize>,
    cells: Vec<[usize; 3]>,
}

/// Writes the certificate of a proved tolerance to a new file, then renames it. Sets are written
/// one by one, so that memory does not grow with their number.
///
/// Errors: `Interrupted` after the user asks to end; no file is then made or replaced.
fn write_certificate(
    path: &Path,
    (code, placement): (&Code, Placement),
    tolerance: usize,
    limits: &EvidenceLimits,
) -> Result<(), Failure> {
    let goes_on = || !interrupt::asked();
    let fault = RefCell::new(None);
    let evidence = match evidence(code, tolerance, limits, &goes_on).map_err(no_evidence)? {
        Evidence::Cauchy { parities, data } => {
            let bytes = |vectors: Vec<[Gf; 2]>| vectors.into_iter().map(|v| v.map(|x| x.0)).collect();
            EvidenceJson::Cauchy { parities: bytes(parities), data: bytes(data) }
        }
        Evidence::Sets(witnesses) => EvidenceJson::Sets { equations: EachSet { witnesses, fault: &fault } },
        Evidence::SquareSets => EvidenceJson::SquareSets,
    };
    let codeword = codeword(code, tolerance + 1, limits, &goes_on);
    if interrupt::asked() {
        return Err(no_evidence(EvidenceError::Ended));
    }
    let place = |cell: CellIndex| [code.cell(cell).row, code.cell(cell).column];
    let term = |&(cell, value): &(CellIndex, Gf)| {
        let [row, column] = place(cell);
        [row, column, usize::from(value.0)]
    };
    let audit = AuditJson {
        format: "pantile-certificate",
        version: 1,
        code: code.spec(),
        rows: (0..code.columns()).map(|column| code.rows(column)).collect(),
        data: code.data().iter().map(|&cell| place(cell)).collect(),
        equations: code.equations().iter().map(|e| e.terms().iter().map(term).collect()).collect(),
        placement: placement.to_string(),
        tolerance,
        evidence,
        codeword: codeword
            .map(|word| CodewordJson { cells: word.cells.iter().map(term).collect(), columns: word.columns }),
    };
    let failed = |error: io::Error| Failure::file("write", path, &error);
    let mut out = BufWriter::with_capacity(1 << 16, files::output(path).map_err(failed)?);
    if let Err(error) = serde_json::to_writer(&mut out, &audit) {
        // The buffered rest is dropped, since the file is not complete.
        drop(out.into_parts());
        return Err(fault.take().map_or_else(|| failed(error.into()), no_evidence));
    }
    out.into_inner().map_err(io::IntoInnerError::into_error).and_then(Output::end).map_err(failed)
}

/// Returns the reason for a missing certificate, with the option that raises the limit.
fn no_evidence(error: EvidenceError) -> Failure {
    let (option, suffices) = match &error {
        EvidenceError::Ended => {
            return Failure::Interrupted("ended by Ctrl-C: no certificate was written".into());
        }
        EvidenceError::Fatal { .. } => return Failure::Input(format!("--certificate: {error}")),
        EvidenceError::TooManySets { have, .. } => ("--sets", have),
        EvidenceError::TooMuchWork { suffices, .. } => ("--work", suffices),
        EvidenceError::TooLong { suffices, .. } => ("--certificate-bytes", suffices),
    };
    Failure::Input(format!("--certificate: {error}; {option} {suffices} allows it"))
}

/// Returns the number of cores.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Proves on all cores; after Ctrl-C the completed levels are returned.
pub fn run(code: &Code, options: &ProveOptions, progress: &Progress) -> Certificate {
    interrupt::listen();
    prove(code, options, &|lost, done, of| {
        progress.set(format!("{code}: {}", describe::count(lost, "lost column")), "sets", done, of);
        !interrupt::asked()
    })
}

fn method(method: &Method) -> &'static str {
    match method {
        Method::Exact => "exact",
        Method::Sampled { .. } => "sampled",
    }
}

fn answer<'c>(code: &'c Code, certificate: &'c Certificate, holds: bool) -> ProveJson<'c> {
    let levels = certificate
        .levels
        .iter()
        .map(|level| {
            let (drawn, fatal_share_most) = match level.method {
                Method::Exact => (None, None),
                Method::Sampled { drawn, fatal_share_most } => {
                    (Some(drawn), Some((fatal_share_most * 1e9).round() / 1e9))
                }
            };
            LevelJson {
                lost: level.lost,
                sets: level.sets,
                survived: level.survived,
                method: method(&level.method),
                drawn,
                fatal_share_most,
            }
        })
        .collect();
    ProveJson {
        code: &certificate.code,
        columns: certificate.columns,
        method: if certificate.is_exact() { "exact" } else { "sampled" },
        tolerance: levels,
        fatal: &certificate.fatal,
        fatal_count: certificate.fatal_count,
        proved_tolerance: certificate.tolerance(),
        placement: certificate.placement.to_string(),
        claim: json::claim(code),
        holds,
        by_cauchy: certificate.tolerance_by_cauchy > 0,
        by_shift: certificate.by_shift,
        by_inclusion: certificate.by_inclusion,
        complete: !certificate.cut,
        output_version: OUTPUT_VERSION,
    }
}

/// Returns the certificate as a report: the verdict, the share of sets that survive by their size,
/// the counts, and the smallest fatal sets.
fn page(code: &Code, certificate: &Certificate, holds: bool, witnesses: u64) -> Report {
    let mut report = Report::new("prove", format!("What {code} survives"));
    report.answer = verdict(code, certificate, holds);
    report.given_codes([code]);
    let share = |level: &Level| Share {
        group: code.spec().to_string(),
        name: format!("{} lost", level.lost),
        share: level.survived_share(),
        remark: format!("{} of {} sets", number(level.survived), number(level.looked_at())),
    };
    // Of the levels that all survive only the highest ones are drawn.
    const LEVELS_MOST: usize = 16;
    let drawn = certificate.levels.iter().rev().take(LEVELS_MOST).rev();
    report.figures.push(Figure::Shares(Shares {
        title: format!("Sets of lost {}s that survive", unit(certificate)),
        caption: "The share of all sets of this size that lose no data.".into(),
        head: ["lost", "share that survives", "sets"].map(String::from),
        rows: drawn.map(share).collect(),
    }));
    report.figures.push(Figure::Listing(Listing {
        title: "Counted level by level".into(),
        caption: format!(
            "{}; the claim: {}.",
            describe::count(code.columns(), "column"),
            describe::claim(code)
        ),
        head: HEAD.map(String::from).to_vec(),
        rows: rows(certificate),
    }));
    report.text.extend(
        sets_of(code, certificate).into_iter().chain(notes(certificate).into_iter().map(String::from)),
    );
    report.say(match certificate.fatal.is_empty() {
        false => fatal_sets(certificate),
        true if witnesses > 0 && !certificate.cut => "No fatal set was met.".into(),
        true => return report,
    });
    report
}

/// Headings of the table of levels.
const HEAD: [&str; 6] = [">lost", ">sets", ">survived", ">share", ">fatal", "method"];

/// Returns what the sets are sets of, where that is not plain.
fn sets_of(code: &Code, certificate: &Certificate) -> Vec<String> {
    let placement = certificate.placement;
    let placed = (placement != Placement::Fixed).then(|| {
        format!(
            "Placement {placement}: columns move from device to device by stripe. Sets are sets of devices, and\n\
             survive if the columns on them do in every stripe."
        )
    });
    let has_others = (0..code.columns()).any(|c| code.role(c) != ColumnRole::Device);
    let all = has_others.then(|| "Sets are sets of all columns, add-ons included.".to_string());
    placed.into_iter().chain(all).collect()
}

/// Returns the notes on levels that were decided without counting, or not decided.
fn notes(certificate: &Certificate) -> Vec<&'static str> {
    let mut notes = Vec::new();
    let mut say = |is_said: bool, note: &'static str| notes.extend(is_said.then_some(note));
    say(
        certificate.tolerance_by_cauchy > 0,
        "The coefficients are a Cauchy matrix, up to factors of rows and columns: no minor of it is\nzero, which decides all levels up to the number of parities; --count counts them all the same.",
    );
    say(certificate.by_shift, "Sets that a shift of the data columns makes equal were decided once.");
    say(certificate.by_inclusion, "A level of fewer sets, all of which survive, decided those below it.");
    say(
        !certificate.is_exact(),
        "Sampled levels: random sets, the same orders of columns for all levels; raise --sets and --work to count them.",
    );
    say(
        certificate.cut,
        match interrupt::asked() {
            true => "Ended by Ctrl-C; this is what was decided until then.",
            false => "Higher levels were left out, as asked.",
        },
    );
    notes
}

fn report(
    code: &Code,
    certificate: &Certificate,
    holds: bool,
    witnesses: u64,
    terminal: &Terminal,
) -> String {
    let mut out = format!(
        "{}, {}; the claim: {}\n\n",
        terminal.bold(code.spec()),
        describe::count(code.columns(), "column"),
        describe::claim(code)
    );
    for note in sets_of(code, certificate) {
        let _ = writeln!(out, "{note}\n");
    }
    let mut table = Table::new(&HEAD);
    rows(certificate).into_iter().for_each(|row| table.row(row));
    out.push_str(&table.render(terminal));
    for note in notes(certificate) {
        let _ = writeln!(out, "\n{note}");
    }
    if !certificate.fatal.is_empty() {
        out.push_str(&fatal_sets(certificate));
    } else if witnesses > 0 && !certificate.cut {
        out.push_str("\nNo fatal set was met.\n");
    }
    let _ = writeln!(out, "\n{}", verdict(code, certificate, holds));
    out
}

/// Returns a row per level. In a long run of levels without fatal sets, only the first and the last
/// are shown.
fn rows(certificate: &Certificate) -> Vec<Vec<String>> {
    const RUN_MOST: usize = 16;
    let whole = certificate.levels.iter().take_while(|level| level.all_survive()).count();
    let mut rows: Vec<Vec<String>> = certificate.levels.iter().map(row).collect();
    if whole > RUN_MOST {
        rows.splice(
            4..whole - 1,
            [["...", "...", "...", "100 %", "0", "exact"].map(str::to_string).to_vec()],
        );
    }
    rows
}

/// Returns a number of sets; the largest stands for all larger ones.
fn number(sets: u64) -> String {
    if sets == u64::MAX { "over 10^19".to_string() } else { sets.to_string() }
}

fn row(level: &Level) -> Vec<String> {
    let method = match level.method {
        Method::Exact => "exact".to_string(),
        Method::Sampled { drawn, fatal_share_most } => {
            format!("sample of {drawn}: at most {:.4} % fatal (95 % confidence)", 100.0 * fatal_share_most)
        }
    };
    let (of, share) = (level.looked_at(), 100.0 * level.survived_share());
    // Only an exact 0 % or 100 % is printed as such.
    let share = match level.survived {
        survived if survived == of => "100 %".to_string(),
        0 => "0 %".to_string(),
        _ => format!("{:.4} %", share.clamp(0.0001, 99.9999)),
    };
    vec![
        level.lost.to_string(),
        number(level.sets),
        number(level.survived),
        share,
        number(of - level.survived),
        method,
    ]
}

/// Returns the noun for the members of a set.
fn unit(certificate: &Certificate) -> &'static str {
    if certificate.placement == Placement::Fixed { "column" } else { "device" }
}

fn fatal_sets(certificate: &Certificate) -> String {
    const SHOWN: usize = 20;
    let sets: Vec<String> = certificate.fatal.iter().take(SHOWN).map(|set| describe::set(set)).collect();
    let size = certificate.fatal[0].len();
    let more = match certificate.fatal_count.saturating_sub(sets.len() as u64) {
        0 => String::new(),
        _ if certificate.fatal_count == u64::MAX => format!(" and {} more", number(u64::MAX)),
        more => format!(" and {more} more"),
    };
    let lines = crate::render::table::wrap(&sets.join(" "), 90).join("\n  ");
    let met = match certificate.levels.iter().any(|level| level.lost <= size && level.method != Method::Exact)
    {
        true => " that were met",
        false => "",
    };
    format!(
        "\nThe smallest fatal sets{met} have {}:\n  {lines}{more}\n",
        describe::count(size, unit(certificate))
    )
}

fn verdict(code: &Code, certificate: &Certificate, holds: bool) -> String {
    let (claimed, proved) = (code.claim().tolerance, certificate.tolerance());
    let (first_open, unit) = (certificate.levels.get(proved), unit(certificate));
    match (holds, first_open) {
        (false, _) => format!(
            "CONTRADICTED: it claims that any {} may be lost, but a smaller or equal loss above is fatal.",
            describe::count(claimed, unit)
        ),
        (true, _) if proved > claimed => {
            format!("Proved: any {} may be lost, more than is claimed.", describe::count(proved, unit))
        }
        (true, _) if proved == claimed && proved == 0 => "Proved: no loss is promised.".to_string(),
        (true, _) if proved == claimed => {
            format!("Proved: any {} may be lost, as claimed.", describe::count(proved, unit))
        }
        (true, Some(_)) => format!(
            "Not contradicted: exact up to {}, sampled beyond; raise --sets and --work for a proof.",
            describe::count(proved, &format!("lost {unit}"))
        ),
        (true, None) => format!(
            "Not contradicted: proved up to {}, the claim is {}.",
            describe::count(proved, &format!("lost {unit}")),
            claimed
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(survived: u64, method: Method) -> Certificate {
        Certificate {
            code: "raid6:4".into(),
            placement: Placement::Fixed,
            columns: 6,
            levels: vec![Level { lost: 2, sets: 15, survived, method }],
            fatal: Vec::new(),
            fatal_count: 0,
            tolerance_by_cauchy: 0,
            by_shift: false,
            by_inclusion: false,
            cut: true,
            work: 0,
        }
    }

    /// No shipped code contradicts its claim, so the certificate of this test is made up.
    #[test]
    fn a_fatal_set_within_the_claim_contradicts_it() {
        let code = Code::parse("raid6:4").expect("a spec");
        let sampled = Method::Sampled { drawn: 10, fatal_share_most: 0.3 };
        assert!(!certificate(15, Method::Exact).contradicts(code.claim()));
        assert!(certificate(14, Method::Exact).contradicts(code.claim()));
        assert!(!certificate(10, sampled).contradicts(code.claim()));
        assert!(certificate(9, sampled).contradicts(code.claim()));
        assert!(verdict(&code, &certificate(14, Method::Exact), false).starts_with("CONTRADICTED"));
    }

    #[test]
    fn a_share_that_only_rounds_to_all_is_not_all() {
        let level = Level { lost: 2, sets: 10_000_000, survived: 9_999_999, method: Method::Exact };
        assert_eq!(row(&level)[3..5], ["99.9999 %", "1"]);
    }
}
