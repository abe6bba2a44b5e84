//! `pantile-lab exascale`: the Write Cache Layer paper's simulation.

use crate::args;
use crate::args::Reading;
use crate::commands::shown::{Shown, answer};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::progress::Progress;
use crate::terminal::Terminal;
use clap::{Args, ValueEnum};
use pantile_lab::exascale::{Device, Level, Log, Options, Placement, Scaling, ServiceTimes, run, sweep};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Answers: what do a write cache layer and delayed parity gain with hundreds of thousands of
/// clients? Cases are named level, device, scaling, clients; quantities are throughput relative to
/// a standard RAID.
#[derive(Args)]
#[command(after_long_help = "\
Cases: raid5-hdd-weak-80000; quantities: raid0/std, wcl/std, delayed/std, with 95 % intervals over the seeds.

Examples:
  pantile-lab exascale --quick
  pantile-lab exascale --quick --json
  pantile-lab exascale --quick --reads 30 --service my-disk_clat.1.log
  pantile-lab exascale --quick --clients 250000 --write 4K,16K,64K,256K,1M --html blocks.html
  pantile-lab exascale --codes dcode:13,raidq:16+4 --devices hdd --quick --move-back")]
pub struct Exascale {
    /// A sixteenth of servers and clients, and fewer cells: some seconds.
    #[arg(long)]
    quick: bool,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    clients: Vec<u32>,
    /// Levels: raid5 and raid6 have one and two parities over all servers.
    #[arg(long, value_delimiter = ',', value_name = "LEVEL", value_enum)]
    levels: Vec<LevelName>,
    /// Codes instead of levels: stripes as wide as the code, and the parities of its equations.
    #[arg(long, value_name = "CODES")]
    codes: Option<String>,
    /// Devices.
    #[arg(long, value_delimiter = ',', value_name = "DEVICE", value_enum)]
    devices: Vec<DeviceName>,
    /// Ways of scaling.
    #[arg(long, value_delimiter = ',', value_name = "SCALING", value_enum)]
    scalings: Vec<ScalingName>,
    /// Bytes of a write, with any scaling; several sizes are simulated separately, and the names of
    /// cases end in the size.
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = args::size)]
    write: Vec<u64>,
    /// Share of requests that read instead of writing, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    reads: u32,
    /// Devices by measured service times: a latency log of fio (write_lat_log), with reads and
    /// writes.
    #[arg(long, value_name = "FILE", conflicts_with = "devices")]
    service: Option<PathBuf>,
    /// Servers of a stripe's units: the next ones for each stripe (striped), drawn for each stripe
    /// (random), or the same for all stripes of an epoch and one further for the next (aligned), so
    /// that an epoch writes the parities on a server as one.
    #[arg(long, value_enum, default_value_t = PlacementName::Striped)]
    placement: PlacementName,
    /// Cost of writing to the cache zone.
    #[arg(long, value_enum, default_value_t = LogName::Random)]
    log: LogName,
    /// Also move full stripes back from the cache zone, parity included, which the paper leaves
    /// out.
    #[arg(long)]
    move_back: bool,
    /// Writes of an application: checkpoints alone, or FLASH's outputs, each a checkpoint and two
    /// plot files of a twelfth and a little less than an eighth.
    #[arg(long, value_enum, default_value_t = MixName::Checkpoint)]
    mix: MixName,
    /// Seeds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
    /// Limit of the events of a run, in millions; a run ends sooner if its interval is below 2 %.
    #[arg(long, value_name = "MILLIONS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: Option<u64>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LevelName {
    Raid5,
    Raid6,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DeviceName {
    Hdd,
    Ssd,
    /// The virtual disk of the build machine, as fio measured it.
    VirtualDisk,
}

impl DeviceName {
    /// Returns the model of the device.
    pub fn device(self) -> Device {
        match self {
            DeviceName::Hdd => Device::hdd(),
            DeviceName::Ssd => Device::ssd(),
            DeviceName::VirtualDisk => Device::virtual_disk(),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScalingName {
    Weak,
    Strong,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PlacementName {
    Random,
    Striped,
    Aligned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MixName {
    Checkpoint,
    Flash,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogName {
    /// The cost of writing anywhere on the device.
    Random,
    /// No positioning after another such write; waiting neighbours are merged.
    Sequential,
}

/// Reads devices from a latency log of fio.
pub fn measured(path: &Path) -> Result<Device, Failure> {
    let say = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let file = files::input(path).map_err(|error| say(&error))?;
    ServiceTimes::parse(BufReader::new(file)).map(Device::measured).map_err(|error| say(&error))
}

impl Exascale {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let base = if self.quick { Options::quick() } else { Options::paper() };
        if let Some(bytes) = self.write.iter().find(|bytes| !(1..=1 << 20).contains(*bytes)) {
            return Err(Failure::Input(format!(
                "--write: {bytes} bytes; a write is at least one byte and at most a stripe unit, 1M"
            )));
        }
        let sizes: Vec<u32> = self.write.iter().map(|&bytes| bytes as u32).collect();
        let levels = match &self.codes {
            Some(list) => {
                super::replay::codes(list, None, Reading::default())?.iter().map(Level::of).collect()
            }
            None if self.levels.is_empty() => base.levels.clone(),
            None => self
                .levels
                .iter()
                .map(|level| match level {
                    LevelName::Raid5 => Level::raid5(),
                    LevelName::Raid6 => Level::raid6(),
                })
                .collect(),
        };
        let devices = self.devices.iter().map(|device| device.device());
        let scalings = self.scalings.iter().map(|scaling| match scaling {
            ScalingName::Weak => Scaling::Weak,
            ScalingName::Strong => Scaling::Strong,
        });
        let options = Options {
            levels,
            devices: match &self.service {
                Some(path) => vec![measured(path)?],
                None if self.devices.is_empty() => base.devices.clone(),
                None => devices.collect(),
            },
            reads_per_mille: self.reads * 10,
            scalings: if self.scalings.is_empty() { base.scalings.clone() } else { scalings.collect() },
            clients: if self.clients.is_empty() { base.clients.clone() } else { self.clients.clone() },
            seeds: self.seeds.unwrap_or(base.seeds),
            write_bytes: sizes.first().copied(),
            placement: match self.placement {
                PlacementName::Random => Placement::Random,
                PlacementName::Striped => Placement::Striped,
                PlacementName::Aligned => Placement::Aligned,
            },
            log: match self.log {
                LogName::Random => Log::Random,
                LogName::Sequential => Log::Sequential,
            },
            move_back: self.move_back,
            has_plots: self.mix == MixName::Flash,
            events_most: self.events.map_or(base.events_most, |millions| millions * 1_000_000),
            threads: self.shown.threads(),
            ..base
        };
        let progress = Progress::start(terminal, "simulating");
        let tell = |done, of| progress.set("simulating", "runs", done, of);
        let report = if sizes.len() > 1 { sweep(&options, &sizes, &tell) } else { run(&options, &tell) };
        drop(progress);
        answer("Write cache layer at exascale", &self.shown, &[report], terminal)?;
        Ok(Verdict::Good)
    }
}
