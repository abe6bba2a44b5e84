//! `pantile durability`: the probability that codes lose data on the user's own disks.

use crate::args;
use crate::commands::ceph::tree_of;
use crate::commands::shown::{Shown, answer};
use crate::failure::{Failure, Outcome, Verdict};
use crate::progress::Progress;
use crate::sets;
use crate::terminal::Terminal;
use clap::{Args, ValueEnum};
use pantile::Code;
use pantile::code::Placement;
use pantile_lab::Report;
use pantile_lab::ceph::{Tree, TreeError};
use pantile_lab::durability::{Disks, Domains, HOURS_PER_YEAR, Options, run};
use std::path::{Path, PathBuf};

/// Compute the probability of data loss on your disks
///
/// Answers: which code is safe enough on my disks? Each column of a code is a disk. Fatal sets are
/// counted by proof, and rebuild times come from plans. From both, a Markov chain computes the mean
/// time to data loss and the probability of a loss; a Monte Carlo with importance sampling does the
/// same from the sets themselves. Failures with a common cause are left out: the numbers compare
/// codes, they promise nothing.
#[derive(Args)]
#[command(after_long_help = "\
Sizes are powers of 1024 (16T) or of 1000, as disks are sold (16TB). Times are written 90m, 24h, 14d or 1y.

Examples:
  pantile durability raid6:8 rs:10+4 lrc:12,2,2 mirror:3
  pantile durability shec:6,4,3 rs:6+4 --repair-bandwidth 120M    where a link of 1 Gb/s is the limit
  pantile durability rs:4+2 lrc:4,2,2 --hosts 4    several columns on a host
  pantile durability raid5:7 --scrub never --lse 0.01/TB
  pantile durability rs:6+3 --spares 1 --replace 3d --json")]
pub struct Durability {
    /// Codes: specs such as rs:10+4, or paths of code files.
    #[arg(required = true, value_name = "CODE")]
    codes: Vec<String>,
    #[command(flatten)]
    reading: args::Reading,
    /// Assignment of columns to disks: fixed, or rotated as in volumes with that placement.
    #[arg(long, value_name = "PLACEMENT", default_value_t = Placement::Fixed)]
    placement: Placement,
    /// Share of disks that fail per year: 1.5% or 0.015.
    #[arg(long, value_name = "SHARE", default_value = "1.5%", allow_negative_numbers = true, value_parser = share)]
    disk_afr: f64,
    /// Capacity of a disk [default: 16T, or with --tree the mean weight of its OSDs].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = args::some_bytes)]
    disk_size: Option<f64>,
    /// Bytes per second that a disk reads or writes for a rebuild.
    #[arg(long, value_name = "SIZE", default_value = "150M", allow_negative_numbers = true, value_parser = args::some_bytes)]
    speed: f64,
    /// Bytes per second that all reads of a rebuild may take together, by default half of 10 Gb/s;
    /// 'none': only the disks are the limit.
    #[arg(long, value_name = "SIZE", default_value = "600M", allow_negative_numbers = true, value_parser = args::bandwidth)]
    repair_bandwidth: args::Bandwidth,
    /// Hosts over which the columns are spread: a host can fail with all its disks.
    #[arg(long, value_name = "N", conflicts_with_all = ["racks", "tree"], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    hosts: Option<u32>,
    /// Racks over which the columns are spread, which fail as hosts do.
    #[arg(long, value_name = "N", conflicts_with = "tree", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    racks: Option<u32>,
    /// Hosts, disks and their capacity in the output of 'ceph osd tree -f json'; '-' is standard
    /// input.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
    /// Failure domain of --tree.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Domain::Host, requires = "tree")]
    domain: Domain,
    /// Share of hosts or racks that are lost for good per year, with all their disks: 0.1% or
    /// 0.001.
    #[arg(long, value_name = "SHARE", default_value = "0.1%", allow_negative_numbers = true, value_parser = share)]
    domain_loss: f64,
    /// Number of hot spares; 'immediate': unlimited.
    #[arg(long, value_name = "N", default_value = "immediate", allow_negative_numbers = true, value_parser = spares)]
    spares: Spares,
    /// Mean time until a failed disk or a used spare is replaced, if spares are limited.
    #[arg(long, value_name = "TIME", default_value = "24h", allow_negative_numbers = true, value_parser = some_hours)]
    replace: f64,
    /// Unreadable bits per bit read, 1e-15, or sectors per 10^12 bytes read, 0.008/TB; 0: none.
    #[arg(long, value_name = "RATE", default_value = "1e-15", allow_negative_numbers = true, value_parser = unreadable)]
    lse: f64,
    /// Interval in which every sector is read once and repaired; 'never'.
    #[arg(long, value_name = "TIME", default_value = "14d", allow_negative_numbers = true, value_parser = scrub)]
    scrub: Scrub,
    /// Bytes that users read from each disk per year: a read finds a bad sector, but only scrubbing
    /// repairs it.
    #[arg(long, value_name = "SIZE", default_value = "100T", allow_negative_numbers = true, value_parser = args::size)]
    disk_reads: u64,
    /// Period in which a loss counts.
    #[arg(long, value_name = "YEARS", default_value = "1", allow_negative_numbers = true, value_parser = years)]
    years: f64,
    /// Cycles of the Monte Carlo; 0 omits it.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    cycles: u32,
    /// Its seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Domain {
    Host,
    Rack,
}

impl Domain {
    fn name(self) -> &'static str {
        match self {
            Domain::Host => "host",
            Domain::Rack => "rack",
        }
    }
}

/// Number of hot spares; `None`: unlimited.
type Spares = Option<usize>;
/// Hours between scrubs; `None`: never.
type Scrub = Option<f64>;

/// Reads a number above 0 and at most `most`, in the usual decimal forms only.
fn above_zero(text: &str, most: f64, expected: &str) -> Result<f64, String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    match text.parse::<f64>() {
        Ok(value) if is_plain && value > 0.0 && value <= most => Ok(value),
        _ => Err(format!("expected {expected}")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let expected = "a share above 0 and at most 99.9 %, such as 1.5% or 0.015";
    match text.strip_suffix('%') {
        Some(percent) => Ok(above_zero(percent, 99.9, expected)? / 100.0),
        None => above_zero(text, 0.999, expected),
    }
    .and_then(|share| {
        if share >= 1e-12 { Ok(share) } else { Err(format!("expected {expected}; at least 1e-12")) }
    })
}

fn spares(text: &str) -> Result<Spares, String> {
    match text.parse::<usize>() {
        _ if text == "immediate" => Ok(None),
        Ok(spares) if spares <= 100 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(spares)),
        _ => Err("expected 'immediate' or a number of disks from 0 to 100".into()),
    }
}

fn some_hours(text: &str) -> Result<f64, String> {
    let expected = "a time above 0 and at most 100 years, such as 90m, 24h, 14d or 1y";
    let (digits, hours) = match text.char_indices().last() {
        Some((i, 'm')) => (&text[..i], 1.0 / 60.0),
        Some((i, 'h')) => (&text[..i], 1.0),
        Some((i, 'd')) => (&text[..i], 24.0),
        Some((i, 'y')) => (&text[..i], HOURS_PER_YEAR),
        _ => return Err(format!("expected {expected}")),
    };
    let most = 100.0 * HOURS_PER_YEAR / hours;
    let time = above_zero(digits, most, expected)? * hours;
    if time >= 1e-6 { Ok(time) } else { Err(format!("expected {expected}; at least 0.0001m")) }
}

fn scrub(text: &str) -> Result<Scrub, String> {
    match text {
        "never" => Ok(None),
        _ => some_hours(text).map(Some).map_err(|error| format!("{error}, or 'never'")),
    }
}

fn unreadable(text: &str) -> Result<f64, String> {
    let expected = "unreadable bits per bit read up to 1e-6, such as 1e-15, or sectors per TB read up to 1000000, such as 0.008/TB; 0 is none";
    match text.strip_suffix("/TB") {
        _ if text == "0" => Ok(0.0),
        Some(sectors) => Ok(above_zero(sectors, 1e6, expected)? / 8e12),
        None => above_zero(text, 1e-6, expected),
    }
}

fn years(text: &str) -> Result<f64, String> {
    let expected = "years from 0.001 to 1000, such as 1 or 0.5";
    above_zero(text, 1000.0, expected)
        .and_then(|years| if years >= 0.001 { Ok(years) } else { Err(format!("expected {expected}")) })
}

/// Reads the disks of a tree, and its failure domains.
fn tree(path: &Path, domain: Domain, lost_per_year: f64) -> Result<(Tree, Domains), Failure> {
    let tree = tree_of(path)?;
    let named =
        |error: TreeError| Failure::Input(format!("{}: {error}", sets::name(&path.to_string_lossy())));
    let domains = tree.domains(domain.name(), lost_per_year).map_err(named)?;
    Ok((tree, domains))
}

/// Adds the losses of a whole cluster, whose disks form arrays side by side.
fn whole_cluster(report: &mut Report, codes: &[Code], tree: &Tree, what: &str) {
    let Tree { osds, mean_tib, hosts, racks } = *tree;
    report.say(format!(
        "The tree has {osds} OSDs with a weight, {mean_tib:.2} in the mean, on {hosts} hosts and {racks} racks; all of them are taken for arrays of a \
         code side by side. CRUSH puts no two chunks on one {what} unless a rule of its own says so."
    ));
    for code in codes {
        let arrays = osds as f64 / code.columns() as f64;
        if let Some(years) = report.find(code.spec(), "MTTDL, years") {
            report.computed(code.spec(), format!("losses a year on all {osds} OSDs"), arrays / years, None);
        }
    }
}

impl Durability {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        // More codes do not fit a table or a picture.
        const CODES_MOST: usize = 100;
        if self.codes.len() > CODES_MOST {
            return Err(Failure::Input(format!(
                "{} codes are named, and at most {CODES_MOST} are possible; compare fewer at once",
                self.codes.len()
            )));
        }
        let codes =
            self.codes.iter().map(|code| args::code(code, self.reading)).collect::<Result<Vec<_>, _>>()?;
        for (i, code) in codes.iter().enumerate() {
            if codes[..i].iter().any(|other| other.spec() == code.spec()) {
                return Err(Failure::Input(format!("{code} is named twice; name each code once")));
            }
        }
        let tree = self.tree.as_deref().map(|path| tree(path, self.domain, self.domain_loss)).transpose()?;
        let given = |what, count: Option<u32>| {
            count.map(|count| Domains { what, count: count as usize, lost_per_year: self.domain_loss })
        };
        let domains = match &tree {
            Some((_, domains)) => Some(domains.clone()),
            None => given("host", self.hosts).or(given("rack", self.racks)),
        };
        let usual = Disks::default();
        let of_tree = tree.as_ref().map(|(tree, _)| tree.mean_tib * (1u64 << 40) as f64);
        let options = Options {
            placement: self.placement,
            disks: Disks {
                failed_per_year: self.disk_afr,
                len_bytes: self.disk_size.or(of_tree).unwrap_or(usual.len_bytes),
                bytes_per_s: self.speed,
                repair_bytes_per_s: self.repair_bandwidth,
                spares: self.spares,
                replace_hours: self.replace,
                unreadable_per_bit: self.lse,
                scrub_hours: self.scrub,
                user_bytes_per_year: self.disk_reads as f64,
                domains,
            },
            years: self.years,
            cycles: self.cycles as usize,
            seed: self.seed,
            threads: self.shown.threads(),
            haste: 1,
        };
        let progress = Progress::start(terminal, "examining codes");
        let of = codes.len() as u64;
        let found = run(&codes, &options, &|done| {
            progress.set("examining codes", "codes", done as u64, of);
        });
        drop(progress);
        let mut report = found.map_err(Failure::input)?;
        if let Some((tree, domains)) = &tree {
            whole_cluster(&mut report, &codes, tree, domains.what);
        }
        report.given_codes(&codes);
        answer("Durability", &self.shown, &[report], terminal)?;
        Ok(Verdict::Good)
    }
}
