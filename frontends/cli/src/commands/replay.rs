//! `pantile replay` and `generate`: runs the user's own trace on many codes.

use crate::args::{self, Reading, is_file};
use crate::commands::exascale::{DeviceName, measured};
use crate::commands::shown::{Shown, answer, can_write, listing, paragraphs, write_page};
use crate::commands::trace::{Given, Part, Played};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::interrupt;
use crate::render::table::wrap;
use crate::terminal::{Terminal, print};
use clap::{Args, ValueEnum};
use pantile::Code;
use pantile::code::Placement;
use pantile_lab::replay::generate::{Pattern, Synthetic};
use pantile_lab::replay::{BLOCK_BYTES, Circumstances, Format, Options, Writer, report};
use pantile_lab::{Figure, Lay};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Replay a trace on codes, and count the reads and writes of your disks
///
/// Answers: which code suits my workload? Counts the blocks that each device reads and writes, by
/// cause, in the plans that a volume executes.
#[derive(Args)]
#[command(after_long_help = "\
Traces are recognised by content: MSR Cambridge CSV, SPC, Alibaba, Tencent, Systor '17, blkparse, fio iolog 2 and 3, CloudPhysics vscsi 1 \
and 2, also packed by gzip or zstd; any other with a request a line by --columns; '-' is standard input. A line that cannot be read is shown \
with its number, and the status is then 1. With --disks a family may stand alone: its widest code of so many \
disks is taken.

Examples:
  pantile replay trace.csv --codes raid6:6,dcode:8,rdp:8,shec:4,4,3
  pantile replay trace.csv --codes raid5,raid6,raidq,dcode,mirror --disks 8 --element 64K --lost 2 --html replay.html
  pantile replay trace.csv --codes raid6:6,dcode:8 --flush 32 --windows 1,16,256
  pantile replay trace.csv --codes raid6:6 --lost 2 --lost-at 10000 --rebuild-at 20000 --rebuild-pace 64
  pantile replay trace.csv --codes raid6:6,dcode:8,rs:5+3 --device hdd
  pantile replay trace.csv.gz --volume hm_0 --codes raid6:6,dcode:8
  pantile replay own.csv --columns time=1:ms,kind=2,offset=3:sectors,size=4 --codes raid6:6
  pantile-lab generate zipf --requests 1000000 | pantile replay - --codes raid6:6")]
pub struct Replay {
    /// The trace, or '-'.
    trace: PathBuf,
    #[command(flatten)]
    part: Part,
    /// Codes separated by commas, which also separate a code's own arguments:
    /// raid6:6,shec:4,3,2,dcode:7.
    #[arg(long, value_name = "CODES")]
    codes: String,
    #[command(flatten)]
    reading: args::Reading,
    /// Number of disks, for which families need no arguments; codes must have as many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    disks: Option<u32>,
    /// Bytes of an element, a power of two from 4K to 4M.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = args::size)]
    element: u64,
    /// Run the engine of a volume, which logs its writes, instead of counting the plans of writes
    /// in place; also implied by --flush, --lost-at, --rebuild-at and --device.
    #[arg(long)]
    driven: bool,
    /// Assignment of columns to devices: fixed or rotated [default: as 'create' chooses for the
    /// code].
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<Placement>,
    /// Requests between two flushes [default: 1, with --driven 64].
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    flush: Option<u64>,
    /// Lost devices: 2 or 0,3 or 1-2; during the whole trace without the next two options.
    #[arg(long, value_name = "DEVICES", allow_hyphen_values = true)]
    lost: Option<String>,
    /// Number of requests before the loss.
    #[arg(long, value_name = "REQUESTS", requires = "lost", default_value_t = 0)]
    lost_at: u64,
    /// Number of requests before empty devices take their places and are rebuilt.
    #[arg(long, value_name = "REQUESTS", requires = "lost")]
    rebuild_at: Option<u64>,
    /// Blocks of the rebuild per request; by default the rebuild is complete before the next
    /// request.
    #[arg(long, value_name = "BLOCKS", requires = "rebuild_at", value_parser = clap::value_parser!(u64).range(1..))]
    rebuild_pace: Option<u64>,
    /// Model of the devices for latencies: the engine runs in virtual time.
    #[arg(long, value_enum, value_name = "MODEL")]
    device: Option<DeviceName>,
    /// Latencies by measured service times: a latency log of fio (write_lat_log).
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    service: Option<PathBuf>,
    /// Size of the volume in bytes; necessary if the engine runs a trace from standard input.
    #[arg(long, value_name = "BYTES", value_parser = args::size)]
    space: Option<u64>,
    /// Delays, in requests, for which gathered writes are counted; each takes time.
    #[arg(long, value_name = "REQUESTS", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    windows: Vec<u64>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Args)]
pub struct Generate {
    /// Pattern of the requests.
    #[arg(value_enum)]
    pattern: Made,
    /// Number of requests.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    requests: u64,
    /// Size of the address space in bytes.
    #[arg(long, value_name = "BYTES", default_value = "10G", value_parser = args::size)]
    space: u64,
    /// Length of a request in bytes; for tuples, of an element.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = args::size)]
    element: u64,
    /// Share of writes, in per cent.
    #[arg(long, value_name = "PER_CENT", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=100))]
    writes: u64,
    /// Microseconds between two requests.
    #[arg(long, value_name = "US", default_value_t = 1000)]
    gap: u64,
    /// The seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The format.
    #[arg(long, value_enum, default_value_t = Written::Msr)]
    format: Written,
    /// The file; standard output without it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Made {
    Tuples,
    Zipf,
    Sequential,
    Checkpoint,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Written {
    Msr,
    Fio2,
    Fio3,
    Vscsi1,
    Vscsi2,
}

impl Replay {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        check_element(self.element)?;
        let codes = codes(&self.codes, self.disks, self.reading)?;
        if let Some(file) = &self.shown.html {
            can_write(file)?;
        }
        let lost = match &self.lost {
            Some(lost) => args::devices("--lost", lost)?,
            None => Vec::new(),
        };
        let trace = Given::open(&self.trace, &self.part)?;
        let mut options = self.options(lost)?;
        if options.is_driven() {
            options.space_bytes = self.space()?;
        }
        let Played { seen, replayed, content } = trace.play(&codes, &options, terminal)?;
        let mut report = report(&seen, &replayed, &options);
        report.given(self.part.of(&self.trace), content);
        report.given_codes(&codes);
        if self.shown.all || self.shown.json || self.shown.csv {
            answer("One trace, many codes", &self.shown, &[report], terminal)?;
        } else {
            for paragraph in paragraphs(&report) {
                print(&format!("{}\n\n", wrap(paragraph, terminal.width).join("\n")))?;
            }
            let compared = report.figures.iter().find_map(|figure| match figure {
                Figure::Listing(compared) => Some(compared),
                _ => None,
            });
            print(&compared.map_or(String::new(), |compared| listing(compared, terminal)))?;
            print("Every number by cause with --all.\n")?;
            if let Some(file) = &self.shown.html {
                write_page(file, "One trace, many codes", &[report], options.threads)?;
                print(&format!("{} holds the pictures and every number.\n", file.display()))?;
            }
        }
        Ok(if seen.bad > 0 { Verdict::Bad } else { Verdict::Good })
    }
}

impl Replay {
    fn options(&self, lost: Vec<usize>) -> Result<Options, Failure> {
        if let Some(at) = self.rebuild_at.filter(|&at| at <= self.lost_at) {
            return Err(Failure::Input(format!(
                "--rebuild-at: {at} is not after the {} requests of --lost-at; give more",
                self.lost_at
            )));
        }
        let flush_every = self.flush.unwrap_or(if self.driven { 64 } else { 1 });
        Ok(Options {
            element_bytes: self.element,
            lay: self.placement.map_or(Lay::Usual, Lay::As),
            is_driven: self.driven,
            circumstances: Circumstances {
                flush_every,
                lost,
                lost_at: self.lost_at,
                rebuilt_at: self.rebuild_at,
                rebuild_pace: self.rebuild_pace,
            },
            space_bytes: 0,
            windows: self.windows.clone(),
            device: match &self.service {
                Some(log) => Some(measured(log)?),
                None => self.device.map(DeviceName::device),
            },
            threads: self.shown.threads(),
        })
    }

    /// Returns the size of the volume: as given, or up to the last byte of the trace, which is read
    /// once more.
    fn space(&self) -> Result<u64, Failure> {
        if let Some(space) = self.space {
            return Ok(space);
        }
        if !is_file(&self.trace) {
            return Err(Failure::Input(
                "--space: how far standard input reaches is not known at its beginning, nor is what is no file; give the bytes of the volume"
                    .into(),
            ));
        }
        Given::open(&self.trace, &self.part)?.end()
    }
}

/// Refuses lengths of elements that no volume has.
pub fn check_element(bytes: u64) -> Result<(), Failure> {
    if !bytes.is_power_of_two() || !(BLOCK_BYTES..=1 << 22).contains(&bytes) {
        return Err(Failure::Input(format!(
            "--element: {bytes} is no power of two from 4K to 4M, as the elements of volumes are; give 64K, for example"
        )));
    }
    Ok(())
}

/// Reads a list of codes.
pub fn codes(list: &str, disks: Option<u32>, reading: Reading) -> Result<Vec<Code>, Failure> {
    Ok(named_codes(list, disks, reading)?.into_iter().map(|(_, code)| code).collect())
}

/// Reads a list of codes with their names. A part without a colon that is neither a family nor
/// another system's name belongs to the code before it.
pub fn named_codes(list: &str, disks: Option<u32>, reading: Reading) -> Result<Vec<(String, Code)>, Failure> {
    let is_name = |part: &str| {
        let is_family = pantile::code::families().iter().any(|family| family.name == part);
        is_family || Code::parse_typed(part, disks.map(|disks| disks as usize)).is_ok()
    };
    let mut depth = 0;
    // The comma of RS(10,4) separates nothing.
    let between = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    };
    let mut specs: Vec<String> = Vec::new();
    for part in list.split(between).map(str::trim) {
        let begins = part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '/');
        let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let begins = begins || part.split_once('+').is_some_and(|(k, _)| is_count(k));
        let is_new = begins && (part.contains([':', '/', '.']) || is_name(part));
        match specs.last_mut() {
            Some(last) if !is_new => *last = format!("{last},{part}"),
            _ => specs.push(part.to_string()),
        }
    }
    let named = |spec: String| one_code(&spec, disks, reading).map(|code| (spec, code));
    specs.into_iter().map(named).collect()
}

fn one_code(spec: &str, disks: Option<u32>, reading: Reading) -> Result<Code, Failure> {
    let family = pantile::code::families().iter().find(|family| family.name == spec);
    let spec = match disks.zip(family) {
        Some((disks, family)) => family
            .spec_on(disks as usize)
            .map_err(|error| Failure::Input(format!("--codes, --disks: {error}")))?,
        None => spec.to_string(),
    };
    let code = args::code_on(&spec, disks.map(|disks| disks as usize), reading)?;
    let devices =
        (0..code.columns()).filter(|&column| code.role(column) == pantile::code::ColumnRole::Device).count();
    match disks {
        Some(disks) if disks as usize != devices => Err(Failure::Input(format!(
            "--disks: {code} has {devices} disks, not {disks}; name another code, or leave out --disks"
        ))),
        _ => Ok(code),
    }
}

impl Generate {
    pub fn run(self) -> Outcome {
        if self.element == 0 || self.space < self.element {
            return Err(Failure::Input(format!(
                "--space: {} bytes hold no element of {}; give more space or a smaller --element",
                self.space, self.element
            )));
        }
        // Requests of up to 20 elements stay within the limit of 4 GiB of a trace.
        let most = if matches!(self.pattern, Made::Tuples) { (4 << 30) / 20 } else { 1 << 30 };
        if self.element > most {
            return Err(Failure::Input(format!(
                "--element: {} bytes are too many; at most {most} for this pattern",
                self.element
            )));
        }
        // MSR traces have 64-bit times in units of 100 ns from 1601 on.
        const TIME_MOST_US: u64 = 1 << 58;
        if self.requests.checked_mul(self.gap.max(10_000)).is_none_or(|us| us > TIME_MOST_US) {
            return Err(Failure::Input(format!(
                "--requests {} with --gap {} take longer than a trace can tell; give less of one",
                self.requests, self.gap
            )));
        }
        let is_binary = matches!(self.format, Written::Vscsi1 | Written::Vscsi2);
        if is_binary && !self.element.is_multiple_of(512) {
            return Err(Failure::Input(format!(
                "--element: {} bytes are no sectors of 512, which is all that vscsi knows; give a multiple of 512, or another --format",
                self.element
            )));
        }
        if is_binary && self.out.is_none() && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            return Err(Failure::Input("vscsi is binary; name a file with --out".into()));
        }
        let made = Synthetic {
            pattern: match self.pattern {
                Made::Tuples => Pattern::Tuples,
                Made::Zipf => Pattern::Zipf,
                Made::Sequential => Pattern::Sequential,
                Made::Checkpoint => Pattern::Checkpoint,
            },
            requests: self.requests,
            space: self.space,
            element: self.element,
            writes_per_cent: self.writes,
            gap_us: self.gap,
            seed: self.seed,
        };
        let format = match self.format {
            Written::Msr => Format::Msr,
            Written::Fio2 => Format::Fio2,
            Written::Fio3 => Format::Fio3,
            Written::Vscsi1 => Format::Vscsi1,
            Written::Vscsi2 => Format::Vscsi2,
        };
        let (verb, name) = match &self.out {
            Some(path) => ("write", path.as_path()),
            None => ("write to", Path::new("standard output")),
        };
        interrupt::listen();
        let write = |to: &mut dyn Write| {
            let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, to), format)?;
            for request in made.iter() {
                if interrupt::asked() {
                    return Err(std::io::Error::other("interrupted"));
                }
                writer.push(&request)?;
            }
            writer.finish()
        };
        let written = match &self.out {
            Some(path) => files::output(path).and_then(|mut out| write(&mut out).and_then(|()| out.end())),
            None => write(&mut std::io::stdout().lock()),
        };
        match written {
            // A reader that ends early is no fault.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Verdict::Good),
            Err(_) if interrupt::asked() => {
                Err(Failure::Interrupted("interrupted; no file was changed".into()))
            }
            Err(error) => Err(Failure::file(verb, name, &error)),
            Ok(()) => Ok(Verdict::Good),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_alone_has_so_many_disks_or_is_asked_for_its_arguments() {
        for disks in 1..=14 {
            for family in pantile::code::families() {
                match codes(family.name, Some(disks), Reading::default()) {
                    Ok(codes) => {
                        let [code] = &codes[..] else { panic!("{}: {} codes", family.name, codes.len()) };
                        assert_eq!(code.spec().split(':').next(), Some(family.name));
                    }
                    Err(Failure::Input(said)) => assert!(!said.contains(" has "), "another number: {said}"),
                    Err(_) => panic!("{} on {disks} disks is a matter of what was asked for", family.name),
                }
            }
        }
        let takes = |family| codes(family, Some(8), Reading::default()).is_ok();
        let asked: Vec<&str> =
            pantile::code::families().iter().map(|family| family.name).filter(|name| !takes(name)).collect();
        assert_eq!(asked, ["shec", "lrc", "xorbas", "slpg", "clay"], "their groups are a matter of choice");
    }

    #[test]
    fn names_of_other_systems_stand_in_lists() -> Result<(), Failure> {
        let list = "raid6:4,RS-6-3,shec:4,3,c=2,RS(10,4),ceph:plugin=isa k=8 m=3,raid1:2";
        let specs: Vec<String> =
            codes(list, None, Reading::default())?.iter().map(|code| code.spec().to_string()).collect();
        let meant = ["raid6:4", "rs:6+3", "shec:4,3,c=2", "rs:10+4", "rs:8+3,vandermonde", "mirror:2"];
        assert_eq!(specs, meant);
        Ok(())
    }
}
