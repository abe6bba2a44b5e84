//! `--all`: one command for each set or volume of the configuration, and the result of each.

use crate::commands::{self, Cli};
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::machine::config::{Config, PATH};
use crate::sets;
use crate::terminal::Terminal;
use crate::typed;
use clap::{Args, Parser};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Option of the commands that can work on all sets or volumes.
#[derive(Args)]
pub struct AllArgs {
    /// All sets or volumes of /etc/pantile/pantile.toml, or of another file.
    ///
    /// One that fails does not stop the others; the exit status is the worst of them.
    #[arg(long, value_name = "CONFIG", num_args = 0..=1, require_equals = true, default_missing_value = PATH)]
    #[arg(exclusive = true)]
    pub all: Option<PathBuf>,
}

/// A command that schedules run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Seal,
    Verify,
    Scrub,
}

impl Task {
    pub fn word(self) -> &'static str {
        match self {
            Task::Seal => "seal",
            Task::Verify => "verify",
            Task::Scrub => "scrub",
        }
    }
}

/// Result of the last run of a task on a set or volume, stored in the folder `state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// Seconds since 1970.
    pub ended_at: u64,
    /// The exit status.
    pub status: u8,
    /// The reason of a status that is not 0.
    pub text: String,
    /// True if this run or one before it did its work, with status 0 or 1.
    pub is_done_once: bool,
}

impl LastRun {
    fn path(state: &Path, task: Task, name: &str) -> PathBuf {
        state.join("runs").join(format!("{}.{name}", task.word()))
    }

    /// Returns the last run; `None` if there was none.
    pub fn read(state: &Path, task: Task, name: &str) -> Option<LastRun> {
        serde_json::from_slice(&fs::read(LastRun::path(state, task, name)).ok()?).ok()
    }

    fn write(&self, state: &Path, task: Task, name: &str) -> Result<(), Failure> {
        write_whole(&LastRun::path(state, task, name), &crate::json::text(self))
    }
}

/// Writes a file of the state. At any moment it has either the complete old or the complete new
/// content.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.part"));
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| Failure::file("write", path, &error))
}

/// Returns the seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Runs a task with some more options on each set or volume of a configuration, and returns the
/// worst outcome.
pub fn run(task: Task, path: &Path, more: &[OsString], terminal: &Terminal) -> Outcome {
    let config = Config::load(path)?;
    let jobs = jobs(&config, task);
    if jobs.is_empty() {
        let table = if task == Task::Scrub { "volume" } else { "set" };
        return Err(Failure::Input(format!(
            "{} has no [{table}.NAME]; 'pantile check-config --help' shows one",
            sets::name(&path.to_string_lossy())
        )));
    }
    let count = jobs.len();
    let mut failed: Vec<(String, Outcome)> = Vec::new();
    for (name, mut words) in jobs {
        words.extend_from_slice(more);
        let outcome = match missing_shards(&config, task, &name, &words) {
            Some(failure) => Err(failure),
            None => run_one(&words, terminal),
        };
        let (status, text) = match &outcome {
            Ok(Verdict::Interrupted) => return outcome,
            Err(Failure::Interrupted(_)) => return outcome,
            Ok(Verdict::Good) => (0, String::new()),
            Ok(_) => (1, format!("found a problem; 'pantile {}' says more", shown(&words))),
            Err(failure) => (failure.status(), failure.text().to_string()),
        };
        if let Err(failure) = &outcome {
            note(&format!("{}: {}", sets::name(&name), failure.text()));
        }
        let before = LastRun::read(&config.state, task, &name);
        let is_done_once = status <= 1 || before.is_some_and(|before| before.is_done_once);
        let last = LastRun { ended_at: now(), status, text, is_done_once };
        if let Err(failure) = last.write(&config.state, task, &name) {
            note(failure.text());
        }
        if status != 0 {
            failed.push((name, outcome));
        }
    }
    let Some(worst) = failed.iter().map(|(_, outcome)| rank(outcome)).max() else { return Ok(Verdict::Good) };
    let names: Vec<String> = failed.iter().map(|(name, _)| sets::name(name)).collect();
    let text =
        format!("{}: {} of {count} ended with a fault: {}", task.word(), names.len(), names.join(", "));
    Err(match worst {
        0 | 1 => Failure::Damage(text),
        2 => Failure::Losses(text),
        _ => Failure::System(text),
    })
}

/// Refuses to seal a set again of which no shard is there: its disks are not mounted, and a new set
/// on the bare mount points would know nothing of the files that are gone.
fn missing_shards(config: &Config, task: Task, name: &str, words: &[OsString]) -> Option<Failure> {
    let was_sealed = || LastRun::read(&config.state, task, name).is_some_and(|last| last.is_done_once);
    let out = &config.set.get(name).filter(|_| task == Task::Seal)?.out;
    if out.is_empty() || out.iter().any(|folder| typed::holds_shards(folder)) || !was_sealed() {
        return None;
    }
    let folders: Vec<String> = out.iter().map(|folder| sets::name(&folder.to_string_lossy())).collect();
    Some(Failure::System(format!(
        "none of its shards is in {}: is it mounted? If they are gone for good, 'pantile {}' begins it again",
        folders.join(", "),
        shown(words)
    )))
}

fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Ok(verdict) => u8::from(*verdict != Verdict::Good),
        Err(failure) => failure.status(),
    }
}

/// Returns the arguments of each run with the name of its set or volume.
pub fn jobs(config: &Config, task: Task) -> Vec<(String, Vec<OsString>)> {
    let sets = config.set.iter();
    match task {
        Task::Seal => {
            sets.map(|(name, set)| (name.clone(), set.seal_words(name, &config.thresholds))).collect()
        }
        Task::Verify => sets.map(|(name, set)| (name.clone(), set.verify_words(name))).collect(),
        Task::Scrub => {
            let words =
                |folder: &PathBuf| vec!["scrub".into(), folder.into(), "--repair".into(), "--wait".into()];
            config.volume.iter().map(|(name, volume)| (name.clone(), words(&volume.folder))).collect()
        }
    }
}

/// Returns arguments in shell syntax.
pub fn shown(words: &[OsString]) -> String {
    words.iter().map(sets::quoted).collect::<Vec<_>>().join(" ")
}

fn run_one(words: &[OsString], terminal: &Terminal) -> Outcome {
    commands::run(parsed(words)?.command, terminal)
}

/// Reads arguments as a command. Errors: the first that its options refuse.
pub fn parsed(words: &[OsString]) -> Result<Cli, Failure> {
    let arguments = std::iter::once(OsString::from("pantile")).chain(words.iter().cloned());
    Cli::try_parse_from(arguments).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Failure::Input(format!("'pantile {}': {}", shown(words), first.trim_start_matches("error: ")))
    })
}
