//! `pantile advise`: ranks codes for a workload.

use crate::args;
use crate::commands::exascale::{DeviceName, measured};
use crate::commands::prove::threads;
use crate::commands::replay::{check_element, named_codes};
use crate::commands::shown;
use crate::commands::trace::{Given, Part, Played};
use crate::csv;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::{OUTPUT_VERSION, rounded};
use crate::progress::Progress;
use crate::render::table::{Table, hanging, wrap};
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, ValueEnum};
use pantile::Code;
use pantile_lab::advise::{
    Advice, Asked, Candidates, Criterion, Options, Ranked, Target, Timed, Timing, Weights, notes, report,
};
use pantile_lab::durability;
use pantile_lab::replay::generate::Workload;
use pantile_lab::replay::{self, BLOCK_BYTES, Latencies, Seen};
use pantile_lab::{Figure, Lay, Report};
use serde::Serialize;
use std::path::PathBuf;

/// Choose a code for a workload, disks and losses to survive
///
/// Answers: which code suits my requests and disks? The requests are replayed on every code of this
/// many disks that tolerates the losses, of any family. Codes are ranked by space, by blocks moved
/// for the requests, by hours of a rebuild and by durability, with reasons and the command that
/// makes the first. A code that another beats in every column is not proposed. Without --survive it
/// is a calculator: the usable space, the losses survived and the nines of the disks, for one, two
/// and three lost disks.
#[derive(Args)]
#[command(after_long_help = "\
Without --trace, made-up requests stand for a workload. Traces are those of 'pantile replay'. Requests are counted one by one, in place: the blocks of 'replay', \
'rebuild' as 'compare' plans it, 'nines' by 'durability'. Ranked by the weighted geometric mean of how many times worse than the best \
candidate a code is; with --weights what is not named does not count.

Columns:
  space    bytes stored per byte                  I/O    blocks moved per block that the trace asks for
  rebuild  hours to rebuild one lost disk         nines  certainty that an array loses nothing within a year
  score    1.00 is the best in every criterion
  usable   what the disks store; survives: how many of them can be lost, whichever they are
With --device: milliseconds, p50 / p99 of reads and of writes, simulated, of at most the first 20,000 requests of the trace. They do not \
count for the score.

Exit status 1: lines of the trace could not be read.

Examples:
  pantile advise --disks 6 --disk-size 16TB
  pantile advise --disks 8 --survive 2
  pantile advise --disks 8 --survive 2 --html advice.html
  pantile advise --disks 8 --survive 2 --workload database
  pantile advise --trace trace.csv --disks 8 --survive 2
  pantile advise --trace trace.csv.gz --volume hm_0 --disks 8 --survive 2 --codes mine.code
  pantile advise --trace trace.csv --disks 9 --survive 2 --weights io=1,rebuild=1 --top 3
  pantile advise --trace trace.csv --disks 8 --survive 2 --device hdd
  pantile advise --trace trace.csv --disks 14 --survive 3 --for ceph
  pantile advise --trace trace.csv --disks 9 --survive 3 --for hdfs --json")]
pub struct Advise {
    /// A trace of your requests, or '-' for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    part: Part,
    /// Without a trace: the named workload that is most like yours [default: files].
    #[arg(long, value_enum, value_name = "NAME")]
    workload: Option<Named>,
    /// Disks of an array; OSDs of a placement group, blocks of a group.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    disks: u32,
    /// Number of them that can fail at the same time without data loss [default: 1, 2 and 3 beside
    /// each other].
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=255))]
    survive: Option<u32>,
    /// Further candidates beside the codes of the families: your code files, or specs.
    #[arg(long, value_name = "CODES")]
    codes: Option<String>,
    #[command(flatten)]
    reading: args::Reading,
    /// Purpose of the code.
    #[arg(long = "for", value_enum, value_name = "WHAT", default_value_t = For::Volume)]
    target: For,
    /// Weights of the criteria: numbers from 0 to 100 for space, io, rebuild and durability.
    #[arg(long, value_name = "WEIGHTS", default_value_t = Weights::default(), value_parser = weights)]
    weights: Weights,
    /// Bytes of an element, a power of two from 4K to 4M.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = args::size)]
    element: u64,
    /// Capacity of a disk, which determines the time of a rebuild.
    #[arg(long, alias = "size", value_name = "SIZE", default_value = "16T", value_parser = args::some_bytes)]
    disk_size: f64,
    /// Bytes per second that all reads of a rebuild may take together; 'none': only the disks are
    /// the limit [default: none for a volume, whose disks are in one machine; else 600M, half of a
    /// link of 10 Gb/s].
    #[arg(long, value_name = "SIZE", value_parser = args::bandwidth)]
    repair_bandwidth: Option<args::Bandwidth>,
    /// Model of the devices for latencies: the beginning of the trace is run in virtual time.
    #[arg(long, value_enum, value_name = "MODEL")]
    device: Option<DeviceName>,
    /// Latencies by measured service times: a latency log of fio (write_lat_log).
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    service: Option<PathBuf>,
    /// Number of codes in the table, without --survive for each number of lost disks; JSON has all.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    top: u32,
    /// Write a self-contained page with pictures.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print a line of comma-separated values for each code.
    #[arg(long)]
    csv: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum For {
    /// 'pantile create'.
    Volume,
    /// An erasure-coded pool of Ceph.
    Ceph,
    /// An erasure-coding policy of HDFS.
    Hdfs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Named {
    /// A file server: 16 to 320 KiB anywhere, 30 % writes.
    Files,
    /// Virtual machines: 16 KiB, half of them writes, hot places.
    Vm,
    /// 8 KiB, 30 % writes, hot places.
    Database,
    /// Films and music: 1 MiB, one stream, 2 % writes.
    Media,
    /// 1 MiB, one stream, 95 % writes.
    Backup,
    /// 16 writers at once with 1 MiB, single reads between.
    Checkpoints,
}

impl Named {
    fn workload(self) -> Workload {
        match self {
            Named::Files => Workload::Files,
            Named::Vm => Workload::Machines,
            Named::Database => Workload::Database,
            Named::Media => Workload::Media,
            Named::Backup => Workload::Backup,
            Named::Checkpoints => Workload::Checkpoints,
        }
    }
}

fn weights(text: &str) -> Result<Weights, String> {
    Weights::parse(text).map_err(|error| error.to_string())
}

#[derive(Serialize)]
struct AdviceJson {
    output_version: u32,
    trace: TraceJson,
    disks: u32,
    survive: Option<u32>,
    weights: WeightsJson,
    disk_assumptions: String,
    timed: Option<TimedJson>,
    codes: Vec<CodeJson>,
    skipped: Vec<SkippedJson>,
}

#[derive(Serialize)]
struct TraceJson {
    content: String,
    requests: u64,
    writes: u64,
    bytes_read: u64,
    bytes_written: u64,
    end_bytes: u64,
    bad_lines: u64,
}

#[derive(Serialize)]
struct WeightsJson {
    space: f64,
    io: f64,
    rebuild: f64,
    durability: f64,
}

#[derive(Serialize)]
struct TimedJson {
    device: &'static str,
    requests: usize,
}

#[derive(Serialize)]
struct LatencyJson {
    read_p50_ms: Option<f64>,
    read_p99_ms: Option<f64>,
    write_p50_ms: Option<f64>,
    write_p99_ms: Option<f64>,
}

#[derive(Serialize)]
struct CodeJson {
    rank: usize,
    code: String,
    same: Vec<String>,
    score: f64,
    space: f64,
    io: f64,
    user_share: f64,
    busiest: f64,
    rebuild_hours: f64,
    rebuild_disks: f64,
    rebuild_is_least: bool,
    nines: f64,
    mttdl_years: f64,
    durability_of: Option<String>,
    nines_sampled: bool,
    tolerance: usize,
    proved: bool,
    placement: String,
    next: Option<NextJson>,
    latency: Option<LatencyJson>,
    latency_missing: Option<String>,
    beaten_by: Option<String>,
    reasons: Vec<String>,
    commands: Vec<String>,
}

/// Sets with one disk more than the code tolerates.
#[derive(Serialize)]
struct NextJson {
    devices: usize,
    sets: u64,
    survived: u64,
}

#[derive(Serialize)]
struct SkippedJson {
    code: String,
    why: String,
}

impl Advise {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        check_element(self.element)?;
        let target = match self.target {
            For::Volume => Target::Volume,
            For::Ceph => Target::Ceph,
            For::Hdfs => Target::Hdfs,
        };
        if let Some(file) = &self.html {
            shown::can_write(file)?;
        }
        let (disks, survive) = (self.disks as usize, self.survive.map_or(1, |survive| survive as usize));
        let progress = Progress::start(terminal, "making the candidates");
        let candidates = match self.survive {
            Some(_) => Candidates::of(target, disks, survive),
            None => Candidates::of_each(target, disks, 1..=LOST_MOST),
        };
        drop(progress);
        let mut candidates = candidates.map_err(Failure::input)?;
        if let Some(list) = &self.codes {
            for (name, code) in named_codes(list, Some(self.disks), self.reading)? {
                let name = if code.definition().is_some() { name } else { code.spec().to_string() };
                let added = candidates.add(name, code, target, (disks, survive));
                added.map_err(|why| Failure::Input(format!("--codes: {why}")))?;
            }
        }
        let codes: Vec<Code> = candidates.candidates.iter().map(|one| one.code.clone()).collect();
        let threads = threads();
        // Placement as the proposed command makes it: a pool or a set of files has many groups.
        let lay = match self.target {
            For::Volume => Lay::Usual,
            For::Ceph | For::Hdfs => Lay::Spread,
        };
        let how = replay::Options { element_bytes: self.element, lay, threads, ..replay::Options::default() };
        if let Some(option) = self.part.option().filter(|_| self.trace.is_none()) {
            let said = format!("{option}: there is no trace that it is of; add --trace FILE");
            return Err(Failure::Input(said));
        }
        let given = match &self.trace {
            Some(path) => Given::open(path, &self.part)?,
            None => Given::named(self.named_workload())?,
        };
        let Played { seen, replayed, content } = given.play(&codes, &how, terminal)?;
        let mut durability = durability::Options { cycles: 0, ..durability::Options::default() };
        durability.disks.len_bytes = self.disk_size;
        durability.disks.repair_bytes_per_s = match (self.repair_bandwidth, self.target) {
            (Some(given), _) => given,
            (None, For::Volume) => None,
            (None, For::Ceph | For::Hdfs) => durability.disks.repair_bytes_per_s,
        };
        let device = match &self.service {
            Some(log) => Some(measured(log)?),
            None => self.device.map(DeviceName::device),
        };
        let timed = device.map(|device| Timed { device, element_bytes: self.element });
        let has_groups = self.target != For::Volume;
        let options = Options { weights: self.weights, durability, threads, has_groups, timed };
        let progress = Progress::start(terminal, "examining codes");
        let count = codes.len() as u64;
        let advice = Advice::of(candidates, &seen, &replayed, &options, &|done| {
            progress.set("examining codes", "codes", done as u64, count);
            !interrupt::asked()
        });
        drop(progress);
        let advice = advice.ok_or_else(|| {
            Failure::Interrupted(
                "the advice was ended before every code was examined; nothing is printed".into(),
            )
        })?;
        let asked = Asked {
            disks,
            survive: self.survive.map(|survive| survive as usize),
            codes_most: self.top as usize,
        };
        let report = || report(&advice, asked, &options);
        if let Some(file) = &self.html {
            let mut report = report();
            report.given("requests", self.opening(&seen, count));
            report.given_codes(&codes);
            let title = report.title.clone();
            shown::write_page(file, &title, &[report], threads)?;
        }
        match (self.json, self.csv) {
            (true, _) => print_json(&self.in_json(&advice, &seen, content, &options))?,
            (false, true) => print(&in_csv(&advice))?,
            (false, false) if self.survive.is_none() => {
                // A number of losses that some code tolerates: two, if any does.
                let tolerated = advice.ranked.iter().map(|one| one.tolerance);
                let survive = tolerated.min_by_key(|&losses| losses.abs_diff(2)).unwrap_or(1);
                print(&calculated(&report(), &self.opening(&seen, count), survive, terminal))?;
            }
            (false, false) => print(&self.in_words(&advice, &seen, count, &options, terminal))?,
        }
        if let Some(file) = self.html.as_ref().filter(|_| !self.json && !self.csv) {
            print(&format!("{} has the page.\n", file.display()))?;
        }
        Ok(if seen.bad > 0 { Verdict::Bad } else { Verdict::Good })
    }

    fn named_workload(&self) -> Workload {
        self.workload.map(Named::workload).unwrap_or_default()
    }

    /// Returns the description of the requests and of the candidates.
    fn opening(&self, seen: &Seen, candidates: u64) -> String {
        let made_up = match &self.trace {
            Some(_) => String::new(),
            None => format!(
                "Made-up requests of the workload '{}'; --trace FILE takes your own, --workload another.\n",
                self.named_workload().name()
            ),
        };
        made_up + &described(seen, candidates, self.disks, self.survive.unwrap_or(1))
    }

    fn in_json(&self, advice: &Advice, seen: &Seen, content: String, options: &Options) -> AdviceJson {
        let weight = |of| self.weights.of(of);
        let codes = advice.ranked.iter().enumerate().map(|(place, one)| CodeJson {
            rank: place + 1,
            code: one.candidate.name.clone(),
            same: one.same.clone(),
            score: rounded(one.score),
            space: rounded(one.space),
            io: rounded(one.io),
            user_share: rounded(one.user_share),
            busiest: rounded(one.busiest),
            rebuild_hours: rounded(one.rebuild_hours),
            rebuild_disks: rounded(one.rebuild_disks),
            rebuild_is_least: one.rebuild_is_least,
            nines: rounded(one.nines),
            mttdl_years: rounded(one.mttdl_years),
            durability_of: one.durability_of.clone(),
            nines_sampled: one.is_sampled,
            tolerance: one.tolerance,
            proved: one.is_proved,
            placement: one.placement.to_string(),
            next: one.next.as_ref().map(|level| NextJson {
                devices: level.lost,
                sets: level.looked_at(),
                survived: level.survived,
            }),
            latency: match &one.timing {
                Timing::Found(found) => Some(LatencyJson::of(found)),
                Timing::NotAsked | Timing::NotComputed(_) => None,
            },
            beaten_by: one.beaten_by.clone(),
            latency_missing: match &one.timing {
                Timing::NotComputed(why) => Some(why.clone()),
                Timing::NotAsked | Timing::Found(_) => None,
            },
            reasons: advice.reasons(place),
            commands: one.candidate.commands.clone(),
        });
        AdviceJson {
            output_version: OUTPUT_VERSION,
            trace: TraceJson {
                content,
                requests: seen.requests,
                writes: seen.writes,
                bytes_read: seen.bytes_read,
                bytes_written: seen.bytes_written,
                end_bytes: seen.end,
                bad_lines: seen.bad,
            },
            disks: self.disks,
            survive: self.survive,
            weights: WeightsJson {
                space: weight(Criterion::Space),
                io: weight(Criterion::Io),
                rebuild: weight(Criterion::Rebuild),
                durability: weight(Criterion::Durability),
            },
            disk_assumptions: durability::assumptions(&options.durability),
            timed: options
                .timed
                .as_ref()
                .map(|timed| TimedJson { device: timed.device.name, requests: timed.sample(seen).len() }),
            codes: codes.collect(),
            skipped: advice
                .skipped
                .iter()
                .map(|one| SkippedJson { code: one.name.clone(), why: one.why.clone() })
                .collect(),
        }
    }

    fn in_words(
        &self,
        advice: &Advice,
        seen: &Seen,
        candidates: u64,
        options: &Options,
        terminal: &Terminal,
    ) -> String {
        let width = terminal.width;
        let mut out = String::new();
        let say = |out: &mut String, text: &str| {
            wrap(text, width).iter().for_each(|line| {
                out.push_str(line);
                out.push('\n');
            });
        };
        for line in self.opening(seen, candidates).lines() {
            say(&mut out, line);
        }
        out.push('\n');
        let proposed = || advice.ranked.iter().enumerate().filter(|(_, one)| one.beaten_by.is_none());
        let shown: Vec<(usize, &Ranked)> = proposed().take(self.top as usize).collect();
        out += &table(&shown, options.timed.is_some(), terminal);
        let (all, others) = (proposed().count(), proposed().count() - shown.len());
        if others > 0 {
            out += &format!("{others} more with --top {all}.\n");
        }
        let beaten: Vec<String> = advice.ranked.iter().filter_map(beaten).collect();
        if !beaten.is_empty() {
            say(
                &mut out,
                &format!(
                    "Not proposed, for another is no worse in any column and better in one: {}.",
                    beaten.join(", ")
                ),
            );
        }
        for (_, one) in shown.iter().filter(|(_, one)| !one.same.is_empty()) {
            let alike = format!("{} stands for {}.", one.candidate.name, one.same.join(", "));
            say(&mut out, &sets::name(&alike));
        }
        out.push('\n');
        for &(place, one) in shown.iter().take(3) {
            let name = sets::name(&one.candidate.name);
            let reasons = advice.reasons(place);
            match place {
                0 => {
                    out += &format!("{}\n", terminal.bold(format!("{name} comes first.")));
                    reasons.iter().for_each(|reason| out += &hanging("  ", reason, 4, width));
                }
                _ => out += &hanging(&format!("{name}: "), &format!("{}.", reasons.join(" ")), 2, width),
            }
        }
        if let Some(first) = advice.ranked.first() {
            out.push_str("\nTo make it:\n");
            first.candidate.commands.iter().for_each(|command| out += &format!("  {command}\n"));
        }
        out.push('\n');
        for skipped in &advice.skipped {
            say(&mut out, &format!("Left out: {}: {}.", sets::name(&skipped.name), skipped.why));
        }
        notes(advice, &options.weights).iter().for_each(|note| say(&mut out, note));
        if let Some(timed) = &options.timed {
            say(&mut out, &how_timed(timed, seen));
            untimed(advice).iter().for_each(|note| say(&mut out, note));
        }
        say(&mut out, &durability::assumptions(&options.durability));
        out
    }
}

/// The most lost disks that the calculator counts with.
const LOST_MOST: usize = 3;

/// Returns what the disks store and survive, for each number of losses.
fn calculated(report: &Report, opening: &str, survive: usize, terminal: &Terminal) -> String {
    let mut out = format!("{}\n", terminal.bold(format!("{}.", report.title)));
    let say = |out: &mut String, text: &str| {
        wrap(text, terminal.width).iter().for_each(|line| *out += &format!("{line}\n"));
    };
    say(&mut out, &report.answer);
    out.push('\n');
    for figure in &report.figures {
        if let Figure::Listing(table) = figure {
            out += &shown::listing(table, terminal);
        }
    }
    let command = shown::command();
    say(
        &mut out,
        &format!("'{command} --survive {survive}' gives the reasons, and the command that makes the first."),
    );
    opening.lines().chain(report.text.iter().map(String::as_str)).for_each(|text| say(&mut out, text));
    out
}

/// Returns the description of the trace, and the number of candidates.
fn described(seen: &Seen, candidates: u64, disks: u32, survive: u32) -> String {
    let share = 100.0 * seen.writes as f64 / seen.requests.max(1) as f64;
    let mean = (seen.bytes_read + seen.bytes_written) / seen.requests.max(1);
    let bad = match seen.bad {
        0 => String::new(),
        bad => format!(" {bad} lines could not be read."),
    };
    format!(
        "{} requests of {} in the mean, {share:.0} % of them writes, within {}.{bad} {candidates} codes have {disks} disks and tolerate any \
         {survive} lost; those that are alike in every number share a line.",
        seen.requests,
        sets::bytes(mean.max(1)),
        sets::bytes(seen.end.max(BLOCK_BYTES))
    )
}

impl LatencyJson {
    fn of(found: &Latencies) -> LatencyJson {
        let ms = |is_write, share| found.within(is_write, share).map(|ns| rounded(ns as f64 / 1e6));
        LatencyJson {
            read_p50_ms: ms(false, 0.5),
            read_p99_ms: ms(false, 0.99),
            write_p50_ms: ms(true, 0.5),
            write_p99_ms: ms(true, 0.99),
        }
    }
}

/// Returns the source of the latencies.
fn how_timed(timed: &Timed, seen: &Seen) -> String {
    let requests = timed.sample(seen).len() as u64;
    let which = match requests == seen.requests {
        true => format!("all {requests} requests"),
        false => format!("the first {requests} of {} requests", seen.requests),
    };
    format!(
        "ms: p50 / p99 of {which}, simulated: each alone on devices of the model {}, in place, a write until it is durable; no part of the score.",
        timed.device.name
    )
}

/// Returns the codes without latencies, by reason.
fn untimed(advice: &Advice) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &advice.ranked {
        let Timing::NotComputed(why) = &one.timing else { continue };
        let name = sets::name(&one.candidate.name);
        match by_reason.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((why, vec![name])),
        }
    }
    let sentence = |(why, names): (&str, Vec<String>)| {
        format!("Latencies that were not computed: {}: {why}.", names.join(", "))
    };
    by_reason.into_iter().map(sentence).collect()
}

/// Returns the median and the 99th percentile of the reads or writes in milliseconds, with two
/// digits: times are known within a sixty-fourth.
fn milliseconds(timing: &Timing, is_write: bool) -> String {
    let of = |found: &Latencies, share| {
        let ms = found.within(is_write, share)? as f64 / 1e6;
        let digits = (1.0 - ms.max(1e-4).log10().floor()).clamp(0.0, 5.0) as usize;
        Some(format!("{ms:.digits$}"))
    };
    let both = match timing {
        Timing::Found(found) => of(found, 0.5).zip(of(found, 0.99)),
        Timing::NotAsked | Timing::NotComputed(_) => None,
    };
    both.map_or("-".into(), |(half, most)| format!("{half} / {most}"))
}

/// Returns the name of a code, with the better code if there is one.
fn beaten(one: &Ranked) -> Option<String> {
    let better = one.beaten_by.as_ref()?;
    Some(format!("{} by {}", sets::name(&one.candidate.name), sets::name(better)))
}

fn table(shown: &[(usize, &Ranked)], is_timed: bool, terminal: &Terminal) -> String {
    let mut head = vec![">", "code", ">space", ">I/O", ">rebuild", ">nines", ">score"];
    if is_timed {
        head.extend([">read ms", ">write ms"]);
    }
    let mut table = Table::new(&head);
    for (place, (_, one)) in shown.iter().enumerate() {
        let mut row = vec![
            (place + 1).to_string(),
            sets::name(&one.candidate.name),
            format!("{:.3}", one.space),
            format!("{:.2}", one.io),
            one.rebuild_shown(),
            one.nines_shown(),
            format!("{:.2}", one.score),
        ];
        if is_timed {
            row.extend([false, true].map(|is_write| milliseconds(&one.timing, is_write)));
        }
        table.row(row);
    }
    table.render(terminal)
}

fn in_csv(advice: &Advice) -> String {
    let mut out = String::from(
        "rank,code,space,io,busiest,rebuild_hours,rebuild_disks,nines,mttdl_years,tolerance,score,\
         read_p50_ms,read_p99_ms,write_p50_ms,write_p99_ms,beaten_by,same\n",
    );
    for (place, one) in advice.ranked.iter().enumerate() {
        let numbers = [
            one.space,
            one.io,
            one.busiest,
            one.rebuild_hours,
            one.rebuild_disks,
            one.nines,
            one.mttdl_years,
            one.tolerance as f64,
            one.score,
        ];
        let numbers = numbers.map(|value| rounded(value).to_string()).join(",");
        let latency = match &one.timing {
            Timing::Found(found) => {
                let LatencyJson { read_p50_ms, read_p99_ms, write_p50_ms, write_p99_ms } =
                    LatencyJson::of(found);
                [read_p50_ms, read_p99_ms, write_p50_ms, write_p99_ms]
            }
            Timing::NotAsked | Timing::NotComputed(_) => [None; 4],
        };
        let latency = latency.map(|ms| ms.map_or(String::new(), |ms| ms.to_string())).join(",");
        let (code, same) = (csv::field(&one.candidate.name), csv::field(&one.same.join(" ")));
        let beaten_by = csv::field(one.beaten_by.as_deref().unwrap_or_default());
        out += &format!("{},{code},{numbers},{latency},{beaten_by},{same}\n", place + 1);
    }
    out
}
