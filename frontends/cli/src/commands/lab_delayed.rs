//! `pantile-lab delayed`: gains and risks of delayed parity.

use crate::args::Reading;
use crate::commands::shown::{Shown, answer, can_write};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::progress::Progress;
use crate::terminal::Terminal;
use clap::Args;
use pantile_host::ScratchFolder;
use pantile_lab::delayed::{Options, record, run};
use pantile_lab::exascale;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Answers: how much faster is delayed parity, which data can be lost, and for how long? By the
/// paper's model (figure 3) and by a real volume (the measured record), with the cases in which the
/// two agree and those in which they do not.
#[derive(Args)]
#[command(after_long_help = "\
Cases: raid5-hdd-weak-80000 of the simulation; 'raid5:5 4 KiB' of the record; codes of the cross-check.

Examples:
  pantile-lab delayed --quick
  pantile-lab delayed --quick --html delayed.html
  pantile-lab delayed --quick --execute /tmp --json
  cargo run --release -p pantile-host --example delayed > mine.txt; pantile-lab delayed --quick --record mine.txt")]
pub struct LabDelayed {
    /// Simulate a sixteenth of servers and clients, and fewer cells: some seconds.
    #[arg(long)]
    quick: bool,
    /// Codes of one row and at most 16 devices for which simulation and volume are compared.
    #[arg(long, value_name = "CODES", default_value = "raid5:4,raid6:6")]
    codes: String,
    /// A measured record in place of the committed one: the output of the example 'delayed'.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Also run real volumes on throttled files in this folder, and remove them: about 10 s and 300
    /// MB.
    #[arg(long, value_name = "FOLDER")]
    execute: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

/// Reads the text of a record, up to the greatest length of any.
fn record_text(path: &Path) -> std::io::Result<String> {
    const RECORD_BYTES_MAX: u64 = 16 << 20;
    let mut text = String::new();
    files::input(path)?.take(RECORD_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > RECORD_BYTES_MAX {
        true => Err(std::io::Error::other("it has more than 16 MiB, the most of a record")),
        false => Ok(text),
    }
}

impl LabDelayed {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if let Some(file) = &self.shown.html {
            can_write(file)?;
        }
        let say =
            |path: &PathBuf, error: std::io::Error| Failure::Input(format!("{}: {error}", path.display()));
        let record = match &self.record {
            Some(path) => record_text(path).map_err(|error| say(path, error))?,
            None => record::COMMITTED.to_string(),
        };
        let folder = match &self.execute {
            Some(within) => {
                let path = within.join(format!("pantile-delayed-{}", std::process::id()));
                Some((ScratchFolder::make(&path).map_err(Failure::input)?, path))
            }
            None => None,
        };
        let base = if self.quick { exascale::Options::quick() } else { exascale::Options::paper() };
        let options = Options {
            exascale: exascale::Options { threads: self.shown.threads(), ..base },
            record,
            codes: super::replay::codes(&self.codes, None, Reading::default())?,
            folder: folder.as_ref().map(|(folder, _)| folder.path()),
        };
        let progress = Progress::start(terminal, "simulating");
        let found = run(&options, &|what, done, of| progress.set("simulating", what, done, of));
        drop(progress);
        let reports = found.map_err(|error| {
            let text = error.to_string();
            // The name that the user gave, not the descriptor behind it.
            Failure::Input(match &folder {
                Some((folder, path)) => {
                    let at = folder.path().display().to_string();
                    text.replace(&at, &path.join("").display().to_string())
                }
                None => text,
            })
        });
        drop(folder);
        let reports = reports?;
        answer(
            "Delayed parity: its gains, possible losses, and how long they last",
            &self.shown,
            &reports,
            terminal,
        )?;
        Ok(Verdict::Good)
    }
}
