//! `pantile check-config`: checks the configuration of this machine.

use crate::failure::{Outcome, Verdict};
use crate::machine::all::{Task, jobs, shown};
use crate::machine::config::{Config, PATH};
use crate::machine::deliver;
use crate::sets;
use crate::terminal::print;
use crate::volumes;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Check the configuration of this machine, and print its commands
///
/// Answers: what will run tonight? Reads the file, names the first wrong line or value, prints the
/// commands of 'seal --all', 'verify --all' and 'scrub --all', and lists missing paths. Nothing is
/// written or sent.
#[derive(Args)]
#[command(after_long_help = "\
A configuration; every table can be left out:
  [set.photos]
  paths = [\"/home/photos\"]          # or disks = { films = \"/mnt/disk1\", music = \"/mnt/disk2\" }
  out = [\"/parity\"]
  code = \"rs:4+2\"
  exclude = [\"*.tmp\"]               # also: beside = true, one_file_system = true
  [volume.tank]
  folder = \"/srv/tank\"
  [thresholds]
  removed_max = \"5%\"                # more gone files than that stop a seal
  changed_max = \"20%\"               # more changed files, as after malware
  seal_age = \"3d\"                   # also verify_age, scrub_age: \"0\" is never
  [monitor]
  every = \"60s\"                    # patience = \"30s\" is what one message can take
  listen = \"127.0.0.1:9877\"         # http://127.0.0.1:9877/, for Prometheus /metrics
  [mail]
  to = [\"root\"]                     # by sendmail, or with smtp = \"smtp://localhost:25\", from, netrc
  [hooks]
  command = [\"/usr/local/bin/on-change\"]
  webhook = \"https://chat.example.org/hook\"

Exit status: 0 right, 1 a place is not there, 2 the file is wrong.

Examples:
  pantile check-config
  pantile check-config pantile.toml")]
pub struct CheckConfig {
    /// The configuration; /etc/pantile/pantile.toml unless given.
    #[arg(value_name = "CONFIG", default_value = PATH)]
    config: PathBuf,
}

impl CheckConfig {
    pub fn run(self) -> Outcome {
        let config = Config::load(&self.config)?;
        config.check_values()?;
        let mut out = String::new();
        for task in [Task::Seal, Task::Verify, Task::Scrub] {
            for (_, words) in jobs(&config, task) {
                let _ = writeln!(out, "pantile {}", shown(&words));
            }
        }
        let channels: Vec<&str> =
            deliver::channels(&config).into_iter().map(deliver::Channel::name).collect();
        let by = if channels.is_empty() { "the log alone".into() } else { channels.join(", ") };
        let _ = writeln!(out, "Changes are sent by: {by}.");
        let missing = missing(&config);
        missing.iter().for_each(|line| {
            let _ = writeln!(out, "{line}");
        });
        print(&out)?;
        Ok(if missing.is_empty() { Verdict::Good } else { Verdict::Bad })
    }
}

/// Returns a line for each missing path.
fn missing(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = |path: &Path| sets::name(&path.to_string_lossy());
    for (name, set) in &config.set {
        for path in set.out.iter().chain(&set.paths).chain(set.disks.values()).filter(|path| !path.exists()) {
            lines.push(format!("[set.{}]: {} is not there.", sets::name(name), shown(path)));
        }
    }
    for (name, volume) in &config.volume {
        if !volumes::is_volume(&volume.folder) {
            let folder = shown(&volume.folder);
            lines.push(format!("[volume.{}]: {folder} is not the folder of a volume.", sets::name(name)));
        }
    }
    let command = config.hooks.command.first().filter(|program| program.starts_with('/'));
    if let Some(program) = command.filter(|program| !Path::new(program).exists()) {
        lines.push(format!("[hooks]: {} is not there.", sets::name(program)));
    }
    lines
}
