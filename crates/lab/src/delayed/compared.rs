//! Tables that compare the simulation with the volume: [`crate::exascale::cross_check`].

use crate::Report;
use crate::exascale::Scheme;
use crate::exascale::cross_check::{
    CheckError, Coming, Layout, Memory, Ran, Setup, Totals, Use, driven, executed, simulated,
};
use crate::figure::{Figure, Listing, number};
use pantile::Code;
use std::path::Path;

/// The name of the experiment.
pub const NAME: &str = "cross-check";

/// Seeds of the simulation, which draw the servers.
const SEEDS: u64 = 5;

/// Throughput relative to std.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Throughput of the cache layer.
    pub wcl: f64,
    /// Throughput of delayed parity.
    pub delayed: f64,
}

/// Results of one code, in the model and on the volume.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The code.
    pub code: String,
    setup: Setup,
    /// One request at a time: the model and the volume, by scheme.
    single: Vec<(Scheme, Ran, Ran)>,
    /// Concurrent writers, in the model.
    pub model: Ratios,
    /// Concurrent writers, on the volume, by the uses that take time.
    charged: Vec<(&'static str, Ratios)>,
    /// Throttled files: the devices' counts, and the seconds of this machine.
    files: Vec<(Scheme, Totals, f64)>,
}

/// Uses that take no time in each case: first all that the model lacks, at last none.
const FREE: [(&str, &[Use]); 4] = [
    ("volume, data and parity charged", &[Use::Header, Use::Record, Use::Flush]),
    ("and headers", &[Use::Record, Use::Flush]),
    ("and records", &[Use::Flush]),
    ("and flushes: everything", &[]),
];

impl Compared {
    /// Runs the model and the volume. With a folder it also runs real volumes on throttled files
    /// there, which takes seconds of this machine.
    ///
    /// Errors: those of [`driven`] and [`executed`].
    pub fn new(code: &Code, folder: Option<&Path>) -> Result<Compared, CheckError> {
        let setup = Setup::small(code.clone());
        let mut single = Vec::new();
        for scheme in Scheme::ALL {
            // This comes first: it refuses an unsuitable code before anything slow begins.
            let volume = driven(&setup, scheme, Coming::OneByOne, Layout::Together, Memory::None)?;
            let model = simulated(&setup, scheme, Coming::OneByOne, 1);
            single.push((scheme, model, volume));
        }
        let modelled = |scheme| {
            let runs =
                (1..=SEEDS).map(|seed| simulated(&setup, scheme, Coming::AtOnce, seed).elapsed_ns as f64);
            runs.sum::<f64>()
        };
        let std = modelled(Scheme::Std);
        let model = Ratios { wcl: std / modelled(Scheme::Wcl), delayed: std / modelled(Scheme::Delayed) };
        let mut charged = Vec::new();
        for (name, free) in FREE {
            let setup = Setup { free: free.to_vec(), ..setup.clone() };
            let run = |scheme, layout| -> Result<f64, CheckError> {
                Ok(driven(&setup, scheme, Coming::AtOnce, layout, Memory::Kept)?.elapsed_ns as f64)
            };
            let (wcl, delayed) = (run(Scheme::Wcl, Layout::Apart)?, run(Scheme::Delayed, Layout::Together)?);
            let std = run(Scheme::Std, Layout::Apart)?;
            charged.push((name, Ratios { wcl: std / wcl, delayed: std / delayed }));
        }
        let mut files = Vec::new();
        for scheme in [Scheme::Wcl, Scheme::Delayed].into_iter().filter(|_| folder.is_some()) {
            let Some(folder) = folder else { break };
            let (totals, seconds) = executed(&setup, scheme, folder)?;
            files.push((scheme, totals, seconds));
        }
        Ok(Compared { code: code.spec().to_string(), setup, single, model, charged, files })
    }

    /// Returns the ratios of the volume with everything charged.
    pub fn volume(&self) -> Ratios {
        self.charged.last().map_or(self.model, |(_, ratios)| *ratios)
    }

    fn add_to(&self, report: &mut Report) {
        let writes = self.setup.writes() as f64;
        let each = |ops: u64| number((1000.0 * ops as f64 / writes).round() / 1000.0);
        let mut rows: Vec<Vec<String>> = Vec::new();
        for of in Use::ALL {
            let ops = self.single.iter().flat_map(|(_, model, volume)| [model.of(of).ops, volume.of(of).ops]);
            let ops: Vec<u64> = ops.collect();
            if ops.iter().any(|&ops| ops > 0) {
                rows.push([of.name().to_string()].into_iter().chain(ops.into_iter().map(each)).collect());
            }
        }
        let ms = |ns: u64| number((ns as f64 / writes / 1e3).round() / 1e3);
        let time =
            self.single.iter().flat_map(|(_, model, volume)| [ms(model.device_ns), ms(volume.device_ns)]);
        rows.push(["device time, ms".to_string()].into_iter().chain(time).collect());
        let std = self.single.iter().find(|(scheme, ..)| *scheme == Scheme::Std);
        if let Some((_, model_std, volume_std)) = std {
            let ratio = |std: &Ran, of: &Ran| std.device_ns as f64 / of.device_ns as f64;
            let ratios = self
                .single
                .iter()
                .map(|(_, model, volume)| [ratio(model_std, model), ratio(volume_std, volume)]);
            let ratios: Vec<[f64; 2]> = ratios.collect();
            for ((scheme, ..), [model, volume]) in self.single.iter().zip(&ratios) {
                let name = scheme.name();
                report.simulated(
                    &self.code,
                    format!("{name}/std by device time, one request at a time, model"),
                    *model,
                    None,
                );
                report.measured(
                    &self.code,
                    format!("{name}/std by device time, one request at a time, volume"),
                    *volume,
                    None,
                );
            }
            let cells = ratios.iter().flatten().map(|ratio| format!("{ratio:.2}"));
            rows.push(["over std".to_string()].into_iter().chain(cells).collect());
        }
        let heads = self
            .single
            .iter()
            .flat_map(|(scheme, ..)| [format!(">{}, model", scheme.name()), ">volume".to_string()]);
        report.figures.push(Figure::Listing(Listing {
            title: format!("{}, one request at a time: operations per write", self.code),
            caption: format!(
                "{} writers, a block of 4 KiB each, {} rounds, an epoch for each round, whose end reads its data back; each write durable before the next; devices of {} us for positioning and for a flush. Data and parity equal the model's, to the last \
                 block, except for old parity: wcl reads it in the model only. An operation that moves data and an adjacent header counts as data.",
                self.setup.writers(),
                self.setup.rounds(),
                self.setup.throttle.positioning.as_micros()
            ),
            head: ["per write".to_string()].into_iter().chain(heads).collect(),
            rows,
        }));
        self.add_at_once(report);
        self.add_files(report);
    }

    fn add_at_once(&self, report: &mut Report) {
        let two = |ratio: f64| format!("{ratio:.2}");
        let Ratios { wcl, delayed } = self.model;
        let mut rows = vec![["model".to_string(), two(wcl), two(delayed)].to_vec()];
        for (scheme, ratio) in [("wcl", wcl), ("delayed", delayed)] {
            report.simulated(&self.code, format!("{scheme}/std, writers at once, model"), ratio, None);
        }
        for (name, ratios) in &self.charged {
            let cells = [ratios.wcl, ratios.delayed];
            rows.push([name.to_string()].into_iter().chain(cells.map(two)).collect());
        }
        let volume = self.volume();
        for (scheme, ratio) in [("wcl", volume.wcl), ("delayed", volume.delayed)] {
            report.measured(&self.code, format!("{scheme}/std, writers at once, volume"), ratio, None);
        }
        report.figures.push(Figure::Listing(Listing {
            title: format!("{}, writers at once: throughput over std", self.code),
            caption: "The same writes, each writer continuing when it is answered; with std and wcl each writer has its own stripe. The volume gathers waiting writes into one commit, and in the model every write makes its own parity: \
                      this is the difference between the first line and the second. The other writes of a volume reduce it."
                .into(),
            head: ["what takes time", ">wcl", ">delayed"].map(String::from).to_vec(),
            rows,
        }));
    }

    fn add_files(&self, report: &mut Report) {
        if self.files.is_empty() {
            return;
        }
        let mut rows = Vec::new();
        for (scheme, totals, seconds) in &self.files {
            let counts = [
                totals.reads.ops,
                totals.writes.ops,
                totals.reads.blocks + totals.writes.blocks,
                totals.flushes,
            ];
            let cells = counts.map(|count| count.to_string());
            rows.push(
                [scheme.name().to_string()].into_iter().chain(cells).chain([number(*seconds)]).collect(),
            );
            report.measured(
                &self.code,
                format!("{} on throttled files, seconds of this machine", scheme.name()),
                *seconds,
                None,
            );
        }
        report.figures.push(Figure::Listing(Listing {
            title: format!("{}, one request at a time, on throttled files", self.code),
            caption: "Real volumes on files as slow as the devices above: counts of the devices, with epochs that keep their data in memory. A test compares the counts with those of the engine in virtual time; the seconds are of this machine.".into(),
            head: ["scheme", ">reads", ">writes", ">blocks", ">flushes", ">seconds"].map(String::from).to_vec(),
            rows,
        }));
    }
}

/// Returns the tables of all codes.
pub fn report(all: &[Compared]) -> Report {
    let mut report = Report::new(NAME, "The simulation against the volume");
    report.say(
        "One small configuration runs twice: in the simulation, and on the volume's own engine over devices of the same service times, in virtual time. So every number here is exact and the same on every \
         machine. std and raid0 are standard RAIDs: they write in place, and have no checksums and no journal. Moving data back is not compared: no log fills here.",
    );
    all.iter().for_each(|compared| compared.add_to(&mut report));
    report
}
