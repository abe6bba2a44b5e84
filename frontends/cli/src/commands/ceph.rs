//! `pantile ceph`: what becomes of the pools of a Ceph cluster, and which shards are wrong.

use crate::args::no_file;
use crate::commands::ceph_verify::{ScanCommand, VerifyCommand};
use crate::commands::prove::threads;
use crate::commands::shown;
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::json::{OUTPUT_VERSION, rounded};
use crate::progress::Progress;
use crate::render::table::{Table, hanging, wrap};
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, Subcommand};
use pantile_lab::ceph::reads::Recovery;
use pantile_lab::ceph::{
    Dump, DumpError, EFFORT_STEPS, Examined, Findings, LEN_BYTES_MAX, NoWayOut, Options, Pool, PoolKind,
    Tree, TreeError, durability_inputs, examine, share, ways_out,
};
use pantile_lab::figure::{Figure, Listing, Quote};
use serde::Serialize;
use std::fmt::Write;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Report on the erasure-coded pools of a Ceph cluster, and find their wrong shards
#[derive(Args)]
pub struct Ceph {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Report(Report),
    Scan(ScanCommand),
    Verify(VerifyCommand),
}

/// Which pools a release of Ceph strands, what each tolerates and costs, and how to leave
///
/// Answers, from the output of 'ceph osd dump -f json' or 'ceph report -f json' alone: which pools
/// use a plug-in or technique that Ceph 21 warns of and Ceph 22 has no more; how many OSDs of a
/// placement group may be lost, proved; the space; what a recovery reads, with Ceph's own plug-in
/// and at the least; how likely a loss is; and the commands that take the data elsewhere. Nothing
/// is installed, and no cluster is asked.
#[derive(Args)]
#[command(after_long_help = "\
Exit status 1: some pool is stranded by a release to come.

Columns:
  stranded  the release without what the pool needs
  lost      OSDs that can fail, proved; '+': at least so many, as many as there was time for
  space     bytes stored per byte of data
  1 lost    read when one OSD is lost, as a share of the object, mean: by Ceph's own plug-in, and at the least
  2 lost    when two are
  nines     how certain it is that a placement group loses nothing within a year, by the model of 'durability'

Examples:
  ceph osd dump -f json > dump.json; pantile ceph report dump.json
  ceph osd dump -f json | pantile ceph report -
  ceph osd tree -f json > tree.json; pantile ceph report dump.json --tree tree.json --html pools.html
  pantile ceph report dump.json --json")]
struct Report {
    /// The output of 'ceph osd dump -f json' or 'ceph report -f json'; '-' is standard input.
    dump: PathBuf,
    /// Hosts, racks and the size of disks for the nines, as 'ceph osd tree -f json' has them.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
    /// How much work all profiles of the dump may make together, in steps of about a microsecond;
    /// what would take more is left out, and said to be.
    #[arg(long, value_name = "STEPS", default_value_t = EFFORT_STEPS, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    effort: u64,
    /// Write a self-contained page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Ceph {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        match self.what {
            What::Report(report) => report.run(terminal),
            What::Scan(scan) => scan.run(terminal),
            What::Verify(verify) => verify.run(terminal),
        }
    }
}

#[derive(Serialize)]
struct ReportJson {
    output_version: u32,
    release: Option<String>,
    durability_inputs: String,
    pools: Vec<PoolJson>,
    unused_stranded_profiles: Vec<String>,
    suffices_steps: u64,
}

#[derive(Serialize)]
struct PoolJson {
    name: String,
    id: i64,
    copies: Option<u64>,
    profile: Option<String>,
    stranded: Option<String>,
    examined: Option<ExaminedJson>,
    not_examined: Option<String>,
    commands: Vec<String>,
    no_commands: Option<String>,
}

#[derive(Serialize)]
struct ExaminedJson {
    code: String,
    claimed: usize,
    proved: usize,
    overhead: f64,
    one_lost: ReadsJson,
    two_lost: ReadsJson,
    mttdl_years: Option<f64>,
    nines: Option<f64>,
    durability_of: Option<String>,
    left_out: Vec<&'static str>,
}

#[derive(Serialize)]
struct ReadsJson {
    ceph: Option<f64>,
    least: Option<f64>,
    is_least: bool,
}

/// A pool and its findings.
struct Row<'d> {
    pool: &'d Pool,
    profile: Option<&'d str>,
    stranded: Option<String>,
    /// The examination of an erasure-coded pool, or why it failed; `None` for a replicated pool.
    examined: Option<Result<Examined, String>>,
    commands: Result<Vec<String>, NoWayOut>,
}

impl Report {
    fn run(self, terminal: &Terminal) -> Outcome {
        if [Some(&self.dump), self.tree.as_ref()].iter().all(|path| *path == Some(&PathBuf::from("-"))) {
            return Err(Failure::Input(
                "dump and tree cannot both be standard input; give one of them as a file".into(),
            ));
        }
        if let Some(file) = &self.html {
            shown::can_write(file)?;
        }
        let text = text_of(&self.dump, "ceph osd dump -f json")?;
        let dump = Dump::parse(&text).map_err(|error| {
            Failure::Input(format!("{}: {error}", sets::name(&self.dump.to_string_lossy())))
        })?;
        drop(text);
        let tree = self.tree.as_deref().map(tree_of).transpose()?;
        let options = Options { effort_steps: self.effort, tree, threads: threads() };
        let progress = Progress::start(terminal, "examining profiles");
        let profiles = dump.pools.iter().filter_map(|pool| match &pool.kind {
            PoolKind::Erasure { profile, .. } => profile.as_ref(),
            PoolKind::Replicated { .. } => None,
        });
        let found = examine(profiles, &options, &|done, of| {
            progress.set("examining profiles", "steps", done as u64, of as u64);
        });
        drop(progress);
        let rows: Vec<Row<'_>> = dump.pools.iter().map(|pool| row(pool, &found)).collect();
        let inputs = durability_inputs(options.tree.as_ref());
        if let Some(file) = &self.html {
            let report = page(&dump, &rows, &inputs, found.suffices_steps);
            shown::write_page(file, &report.title.clone(), &[report], options.threads)?;
        }
        match self.json {
            true => print_json(&in_json(&dump, &rows, inputs, found.suffices_steps))?,
            false => print(&in_words(&dump, &rows, &inputs, found.suffices_steps, terminal))?,
        }
        match rows.iter().any(|row| row.stranded.is_some()) {
            true => Ok(Verdict::Bad),
            false => Ok(Verdict::Good),
        }
    }
}

/// Returns the output of a command of Ceph, from a file or standard input, read up to its limit.
pub fn text_of(path: &Path, command: &str) -> Result<Vec<u8>, Failure> {
    let most = LEN_BYTES_MAX as u64 + 1;
    let mut text = Vec::new();
    let name = sets::name(&path.to_string_lossy());
    if path == Path::new("-") {
        let read = files::stdin().and_then(|file| file.take(most).read_to_end(&mut text));
        read.map_err(|error| Failure::file("read", Path::new("standard input"), &error))?;
    } else {
        if let Some(what) = no_file(path) {
            return Err(Failure::Input(format!(
                "{name} is {what}, not a file; give the output of '{command}', or - for standard input"
            )));
        }
        let read = files::input(path).and_then(|file| file.take(most).read_to_end(&mut text));
        read.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                Failure::Input(format!("there is no file {name}; make it with '{command} > {name}'"))
            }
            ErrorKind::IsADirectory => {
                Failure::Input(format!("{name} is a directory; give the output of '{command}'"))
            }
            _ => Failure::file("read", path, &error),
        })?;
    }
    match text.len() > LEN_BYTES_MAX {
        true => Err(Failure::Input(format!("{name}: {}", DumpError::TooLong))),
        false => Ok(text),
    }
}

/// Returns the tree of a cluster; some host of it has an OSD.
pub fn tree_of(path: &Path) -> Result<Tree, Failure> {
    let named =
        |error: TreeError| Failure::Input(format!("{}: {error}", sets::name(&path.to_string_lossy())));
    let tree = Tree::parse(&text_of(path, "ceph osd tree -f json")?).map_err(named)?;
    match tree.hosts {
        0 => Err(named(TreeError::NoBucket("host"))),
        _ => Ok(tree),
    }
}

fn row<'d>(pool: &'d Pool, found: &Findings) -> Row<'d> {
    let (profile, examined) = match &pool.kind {
        PoolKind::Replicated { .. } => (None, None),
        PoolKind::Erasure { name, profile: None } => {
            let missing = "the dump has no profile of this name, or one that is longer than any";
            (Some(name.as_str()), Some(Err(missing.to_string())))
        }
        PoolKind::Erasure { name, profile: Some(profile) } => {
            (Some(name.as_str()), Some(found.of(profile).cloned()))
        }
    };
    Row { stranded: pool.stranded(), commands: ways_out(pool), pool, profile, examined }
}

fn in_json(dump: &Dump, rows: &[Row<'_>], durability_inputs: String, suffices_steps: u64) -> ReportJson {
    let reads = |recovery: &Recovery| ReadsJson {
        ceph: recovery.ceph.map(|reads| rounded(reads.share)),
        least: recovery.planner.map(|reads| rounded(reads.share)),
        is_least: recovery.planner.is_some_and(|reads| reads.is_exact),
    };
    let examined = |found: &Examined| ExaminedJson {
        code: found.code.spec().to_string(),
        claimed: found.code.claim().tolerance,
        proved: found.proved,
        overhead: rounded(found.overhead),
        one_lost: reads(&found.one),
        two_lost: reads(&found.two),
        mttdl_years: found.durability.as_ref().map(|found| rounded(found.mttdl_years)),
        nines: found.durability.as_ref().map(|found| rounded(found.nines)),
        durability_of: found.durability.as_ref().map(|durability| {
            let other = durability.stands_for_it.clone();
            other.unwrap_or_else(|| found.code.spec().to_string())
        }),
        left_out: found.left_out.clone(),
    };
    let pools = rows.iter().map(|row| PoolJson {
        name: row.pool.name.clone(),
        id: row.pool.id,
        copies: match row.pool.kind {
            PoolKind::Replicated { size } => Some(size),
            PoolKind::Erasure { .. } => None,
        },
        profile: row.profile.map(str::to_string),
        stranded: row.stranded.clone(),
        examined: row.examined.as_ref().and_then(|found| found.as_ref().ok()).map(examined),
        not_examined: row.examined.as_ref().and_then(|found| found.as_ref().err()).cloned(),
        commands: row.commands.clone().unwrap_or_default(),
        no_commands: row.commands.as_ref().err().map(NoWayOut::to_string),
    });
    ReportJson {
        output_version: OUTPUT_VERSION,
        release: dump.release.clone(),
        durability_inputs,
        pools: pools.collect(),
        unused_stranded_profiles: dump.unused_stranded.clone(),
        suffices_steps,
    }
}

/// Returns the part of a name that fits a column.
fn short(text: &str, most: usize) -> String {
    let text = sets::name(text);
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text,
    }
}

/// Returns the name of a code; for a code without a spec, without its fingerprint.
fn code_name(code: &str) -> &str {
    let custom = code.strip_prefix("custom:").and_then(|name| name.rsplit_once('-'));
    custom.map_or(code, |(name, _)| name)
}

/// Headings of the table of pools.
const HEAD: [&str; 10] = [
    "pool",
    "code",
    ">stranded",
    ">lost",
    ">space",
    ">1 lost: Ceph",
    ">least",
    ">2 lost: Ceph",
    ">least",
    ">nines",
];

/// Returns the line of a pool, its name in at most so many letters.
fn cells(row: &Row<'_>, name_most: usize) -> Vec<String> {
    let by = if row.stranded.is_some() { "22" } else { "-" };
    let mut cells = vec![short(&row.pool.name, name_most)];
    match &row.examined {
        Some(Ok(found)) => {
            let is_less = found.proved < found.code.claim().tolerance;
            cells.push(short(code_name(found.code.spec()), 20));
            cells.push(by.into());
            cells.push(format!("{}{}", found.proved, if is_less { "+" } else { "" }));
            cells.push(format!("{:.3}", found.overhead));
            for recovery in [found.one, found.two] {
                cells.extend([share(recovery.ceph), share(recovery.planner)]);
            }
            let nines = found.durability.as_ref().map(|found| format!("{:.1}", found.nines));
            cells.push(nines.unwrap_or("-".into()));
        }
        _ => {
            cells.extend(["?", by].map(str::to_string));
            cells.extend(["-"; 7].map(str::to_string));
        }
    }
    cells
}

/// Returns why numbers of a pool are missing, if some are.
fn missing(row: &Row<'_>, suffices_steps: u64) -> Option<String> {
    match &row.examined {
        Some(Err(why)) => Some(sets::name(why)),
        Some(Ok(found)) if !found.left_out.is_empty() => Some(format!(
            "left out, for it is too much work for a dump of another cluster; --effort {suffices_steps} does it: {}",
            found.left_out.join(", ")
        )),
        _ => None,
    }
}

/// Explanation of the columns of reads.
const READS: &str = "lost: OSDs of a placement group that can fail, proved. Reads are shares of an object, the mean over all sets of \
     so many lost chunks; ~: perhaps not the least. Ceph reads parts of chunks (clay) only in pools without \
     allow_ec_optimizations.";

/// Explanation of the nines.
fn nines_of(inputs: &str) -> String {
    format!(
        "nines: of no loss within a year of one placement group on disks of its own; a code of many rows counts as rs:k+m. {inputs}"
    )
}

/// Returns the profiles without a pool that Ceph 22 does not have.
fn unused(dump: &Dump) -> Option<String> {
    let shown: Vec<String> = dump.unused_stranded.iter().take(20).map(|name| short(name, 40)).collect();
    (!shown.is_empty())
        .then(|| format!("Profiles without a pool that Ceph 22 does not have: {}.", shown.join(", ")))
}

/// When to leave a stranded pool.
const BEFORE: &str = "Run these before the upgrade to Ceph 22, with 'ceph health' clean. docs/ceph.md has a plug-in that keeps such pools.";

/// Returns the numbers of pools.
fn counts(dump: &Dump, rows: &[Row<'_>]) -> String {
    let release =
        dump.release.as_deref().map_or(String::new(), |name| format!(", release {}", short(name, 20)));
    format!(
        "{} pools{release}: {} erasure-coded, {} of them stranded by Ceph 22.",
        rows.len(),
        rows.iter().filter(|row| row.profile.is_some()).count(),
        rows.iter().filter(|row| row.stranded.is_some()).count()
    )
}

/// Returns the findings as a report for a page: which pools are stranded, the table, and the
/// commands that move the data.
fn page(dump: &Dump, rows: &[Row<'_>], inputs: &str, suffices_steps: u64) -> pantile_lab::Report {
    const NAME_MOST: usize = 40;
    let mut report = pantile_lab::Report::new("ceph-report", "Erasure-coded pools of Ceph");
    let of_code: Vec<&Row<'_>> = rows.iter().filter(|row| row.profile.is_some()).collect();
    report.answer = counts(dump, rows);
    report.figures.push(Figure::Listing(Listing {
        title: "The pools".into(),
        caption: READS.into(),
        head: HEAD.map(String::from).to_vec(),
        rows: of_code.iter().map(|row| cells(row, NAME_MOST)).collect(),
    }));
    for row in rows {
        let Some(why) = &row.stranded else { continue };
        report.figures.push(Figure::Quote(Quote {
            title: format!("{}: {}", short(&row.pool.name, 60), sets::name(why)),
            caption: if report.figures.len() == 1 { BEFORE.into() } else { String::new() },
            lines: match &row.commands {
                Err(why) => vec![format!("No commands: {why}.")],
                Ok(commands) => commands.clone(),
            },
        }));
    }
    let left_out = of_code.iter().filter_map(|row| {
        missing(row, suffices_steps).map(|why| format!("{}: {why}.", short(&row.pool.name, NAME_MOST)))
    });
    report.text.extend(left_out.chain([nines_of(inputs)]).chain(unused(dump)));
    report
}

fn in_words(dump: &Dump, rows: &[Row<'_>], inputs: &str, suffices_steps: u64, terminal: &Terminal) -> String {
    let width = terminal.width;
    let of_code: Vec<&Row<'_>> = rows.iter().filter(|row| row.profile.is_some()).collect();
    let mut out = format!("{}\n\n", counts(dump, rows));
    let mut table = Table::new(&HEAD);
    of_code.iter().for_each(|row| table.row(cells(row, 18)));
    if !of_code.is_empty() {
        out += &table.render(terminal);
        out.push('\n');
    }
    for row in &of_code {
        let Some(why) = missing(row, suffices_steps) else { continue };
        out += &hanging(&format!("{}: ", short(&row.pool.name, 40)), &why, 2, width);
    }
    if of_code.is_empty() {
        // The lines that follow would explain the columns of a missing table.
        out.truncate(out.trim_end().len() + 1);
        return out;
    }
    let mut say = |text: &str| {
        wrap(text, width).iter().for_each(|line| {
            out.push_str(line);
            out.push('\n');
        });
    };
    say(READS);
    say(&nines_of(inputs));
    if let Some(unused) = unused(dump) {
        say(&unused);
    }
    for row in rows {
        let Some(why) = &row.stranded else { continue };
        out +=
            &format!("\n{}\n", terminal.bold(format!("{}: {}.", short(&row.pool.name, 60), sets::name(why))));
        match &row.commands {
            Err(why) => out += &format!("  No commands: {why}.\n"),
            Ok(commands) => commands.iter().for_each(|command| out += &format!("  {command}\n")),
        }
    }
    if rows.iter().any(|row| row.stranded.is_some()) {
        let _ = writeln!(out, "\n{BEFORE}");
    }
    out
}
