//! `pantile-lab dcode-engine`: the D-Code paper's requests on the volume's engine, and on disks.

use crate::args;
use crate::commands::shown::{Shown, answer, can_write, only};
use crate::failure::{Failure, Outcome, Verdict};
use crate::progress::Progress;
use crate::terminal::Terminal;
use crate::volumes;
use clap::{Args, ValueEnum};
use pantile_lab::papers::PRIMES;
use pantile_lab::papers::dcode_disks::{self, Disks, Use};
use pantile_lab::papers::dcode_engine::{self, Disk};
use pantile_lab::papers::executed::ExecuteError;
use std::path::PathBuf;

/// Answers: which operations do the paper's requests cause on the devices of a volume, and how long
/// do they take? Times are virtual, except with --devices.
#[derive(Args)]
pub struct Engine {
    #[command(flatten)]
    shown: Shown,
    /// Models of the array's disks: the same time for each element, the paper's formula, or the
    /// build machine's disk as fio measured it.
    #[arg(long, value_delimiter = ',', value_name = "DISK", value_enum)]
    disks: Vec<DiskName>,
    /// Primes of the codes.
    #[arg(long, value_delimiter = ',', value_name = "P", value_parser = prime)]
    primes: Vec<usize>,
    /// Number of reads of a healthy array; a tenth of it with each disk lost; and the number of
    /// section IV's requests, of which at most 2860 differ. The paper has 2000 and 200.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    reads: u32,
    /// Bytes of an element, a multiple of 4K.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = element)]
    element: u64,
    /// Seed of the requests.
    #[arg(long, value_name = "N", default_value_t = 2015)]
    seed: u64,
    /// Also read these files or block devices, as an array of each code with at most as many disks.
    /// Nothing is written to them without --write.
    #[arg(long, num_args = 1.., value_name = "FILES")]
    devices: Vec<PathBuf>,
    /// Also write the devices: section IV's requests as durable writes of noise, each to a random
    /// place. That destroys their content, so they must be blank: no part of a volume, zeros or
    /// holes in the first and last MiB and in 256 places between.
    #[arg(long, requires = "devices")]
    write: bool,
    /// Destroy the content of the devices.
    #[arg(long, requires = "write")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DiskName {
    /// Equal times for all elements.
    Element,
    /// The paper's Seagate Savvio 10K.3: 7 ms for positioning, 95.5 MB/s.
    Savvio,
    /// The virtual disk of the build machine, as fio measured it.
    VirtualDisk,
}

fn prime(text: &str) -> Result<usize, String> {
    let known = text.parse().ok().filter(|p| PRIMES.contains(p));
    known.ok_or_else(|| format!("{text:?} is none of the paper's primes; use 5, 7, 11 or 13"))
}

fn element(text: &str) -> Result<u64, String> {
    let bytes = args::size(text)?;
    match bytes.is_multiple_of(4096) && (4096..=16 << 20).contains(&bytes) {
        true => Ok(bytes),
        false => Err("an element has 4K to 16M bytes, a multiple of 4K".into()),
    }
}

impl Engine {
    fn options(&self) -> dcode_engine::Options {
        let [element, savvio, virtual_disk] = Disk::all();
        let named = self.disks.iter().map(|name| match name {
            DiskName::Element => element.clone(),
            DiskName::Savvio => savvio.clone(),
            DiskName::VirtualDisk => virtual_disk.clone(),
        });
        let mut options = dcode_engine::Options {
            reads: self.reads as usize,
            reads_lost: self.reads as usize / 10,
            requests: self.reads as usize,
            element_bytes: self.element,
            seed: self.seed,
            threads: self.shown.threads(),
            ..dcode_engine::Options::default()
        };
        if !self.disks.is_empty() {
            options.disks = named.collect();
        }
        if !self.primes.is_empty() {
            options.primes.clone_from(&self.primes);
            options.primes.sort_unstable();
            options.primes.dedup();
        }
        options
    }

    fn disks_are_for(&self) -> Use {
        match self.write {
            true => Use::Write { overwrite: self.yes },
            false => Use::Read,
        }
    }

    pub fn run(self, terminal: &Terminal) -> Outcome {
        if let Some(file) = &self.shown.html {
            can_write(file)?;
        }
        let options = self.options();
        let disks = match self.devices.is_empty() {
            true => None,
            false => Some(Disks::open(&self.devices, &options, self.disks_are_for()).map_err(of_disks)?),
        };
        let progress = Progress::start(terminal, "asking volumes");
        let mut report = dcode_engine::run(&options).map_err(failed)?;
        if let Some(disks) = &disks {
            let doing = if self.write { "reading and writing disks" } else { "reading disks" };
            let told = |done, of| progress.set(doing, "states", done, of);
            dcode_disks::add(&mut report, &options, disks, &told).map_err(of_disks)?;
        }
        drop(progress);
        answer("Array codes on the engine", &self.shown, &[report.clone()], terminal)?;
        if disks.is_some() {
            only(report, "disks", "Disks", &self.shown, terminal)?;
        }
        Ok(Verdict::Good)
    }
}

/// Returns the failure for disks that could not be read or written.
fn of_disks(error: ExecuteError) -> Failure {
    let text = format!("--devices: {error}.");
    match error {
        ExecuteError::Folder(error) => volumes::fault(error.kind(), text),
        _ => Failure::Input(text),
    }
}

/// Returns the failure for an error of the engine itself.
pub fn failed(error: ExecuteError) -> Failure {
    Failure::System(format!("{error}."))
}
