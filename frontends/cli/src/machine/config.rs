//! `/etc/pantile/pantile.toml`: the sets and volumes of this machine, thresholds, and recipients of
//! messages.

use crate::args;
use crate::commands;
use crate::failure::Failure;
use crate::machine::all::{self, Task, jobs};
use crate::sets;
use pantile_seal::{DiskAt, LeftOut, SetPaths, check_left_out};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Path of the configuration.
pub const PATH: &str = "/etc/pantile/pantile.toml";

/// Longest configuration that is read.
const BYTES_MOST: u64 = 1 << 20;

/// The configuration of a machine; without a file only attached volumes are watched.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The file, unless it is the usual one.
    #[serde(skip)]
    pub path: Option<PathBuf>,
    /// The folder of the state that is kept between runs.
    pub state: PathBuf,
    /// Sealed sets by their names.
    pub set: BTreeMap<String, SetConfig>,
    /// Volumes by names of the user's choice.
    pub volume: BTreeMap<String, VolumeConfig>,
    pub thresholds: Thresholds,
    pub monitor: MonitorConfig,
    /// Mail; none is sent without this table.
    pub mail: Option<Mail>,
    pub hooks: Hooks,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            path: None,
            state: "/var/lib/pantile".into(),
            set: BTreeMap::new(),
            volume: BTreeMap::new(),
            thresholds: Thresholds::default(),
            monitor: MonitorConfig::default(),
            mail: None,
            hooks: Hooks::default(),
        }
    }
}

/// A sealed set: the options of `pantile seal` with the same names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SetConfig {
    /// The directories of the shards.
    pub out: Vec<PathBuf>,
    /// Files and directories to protect.
    pub paths: Vec<PathBuf>,
    /// Disks to protect by their names.
    pub disks: BTreeMap<String, PathBuf>,
    /// The code, for the first seal.
    pub code: Option<String>,
    pub beside: bool,
    pub exclude: Vec<String>,
    pub one_file_system: bool,
}

/// A volume.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// The folder of the volume.
    pub folder: PathBuf,
}

/// Limits: beyond them a run is refused or a message is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Files of a set that can be gone at a seal: a number or a share, as for `seal --removed-max`.
    pub removed_max: Option<String>,
    /// Files of a set that can be changed at a seal: a number or a share, as for `seal
    /// --changed-max`.
    pub changed_max: Option<String>,
    /// Age of the last seal, verification or scrub above which a message is sent; `0`: never.
    #[serde(deserialize_with = "seconds")]
    pub seal_age: u64,
    #[serde(deserialize_with = "seconds")]
    pub verify_age: u64,
    #[serde(deserialize_with = "seconds")]
    pub scrub_age: u64,
}

const DAY: u64 = 86_400;

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            removed_max: None,
            changed_max: None,
            seal_age: 3 * DAY,
            verify_age: 16 * DAY,
            scrub_age: 40 * DAY,
        }
    }
}

/// Settings of the monitor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MonitorConfig {
    /// Seconds between two looks.
    #[serde(deserialize_with = "seconds")]
    pub every: u64,
    /// The address of the status page and of `/metrics`; without it there are none.
    pub listen: Option<SocketAddr>,
    /// Seconds that the delivery of one message may take.
    #[serde(deserialize_with = "seconds")]
    pub patience: u64,
}

impl Default for MonitorConfig {
    fn default() -> MonitorConfig {
        MonitorConfig { every: 60, listen: None, patience: 30 }
    }
}

/// Recipients of mail.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    pub to: Vec<String>,
    pub from: Option<String>,
    /// `smtp://HOST:PORT` or `smtps://HOST`; the machine's `sendmail` without it.
    pub smtp: Option<String>,
    /// A netrc file with user and password for that server.
    pub netrc: Option<PathBuf>,
}

/// Programs and servers that receive each message.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// A program and its arguments; the message is its standard input, as JSON.
    pub command: Vec<String>,
    /// A URL to which the message is posted as JSON.
    pub webhook: Option<String>,
}

impl Config {
    /// Reads a configuration. Errors: `Input` with line, column and the expected form.
    pub fn load(path: &Path) -> Result<Config, Failure> {
        let len = fs::metadata(path).map(|meta| meta.len());
        let text = len.and_then(|len| match len > BYTES_MOST {
            true => Err(std::io::Error::other("it is longer than 1 MiB")),
            false => fs::read_to_string(path),
        });
        let text = text.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::Input(format!(
                "there is no {}; 'man pantile-check-config' shows one to begin with",
                sets::name(&path.to_string_lossy())
            )),
            _ => Failure::file("read", path, &error),
        })?;
        let wrong =
            |why: String| Failure::Input(format!("{}: {}", sets::name(&path.to_string_lossy()), why.trim()));
        let mut config = Config::parse(&text).map_err(wrong)?;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        config.path = Some(absolute).filter(|path| path != Path::new(PATH));
        Ok(config)
    }

    /// Returns the option by which commands work on all sets or volumes of this configuration.
    pub fn all_word(&self) -> String {
        self.path.as_ref().map_or("--all".into(), |path| format!("--all={}", sets::quoted(path)))
    }

    /// Reads the configuration; without a file the default.
    pub fn load_or_default(path: Option<&Path>) -> Result<Config, Failure> {
        match path {
            Some(path) => Config::load(path),
            None if Path::new(PATH).exists() => Config::load(Path::new(PATH)),
            None => Ok(Config::default()),
        }
    }

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", error.message().replace('\n', " "))
        })?;
        config.check()?;
        Ok(config)
    }

    /// Checks each value as the command does that takes it. Errors: the first that it would refuse.
    pub fn check_values(&self) -> Result<(), Failure> {
        let wrong = |place: String, why: &str| Failure::Input(format!("{place}: {why}"));
        for (name, set) in &self.set {
            let at = |field: &str| format!("[set.{}] {field}", sets::name(name));
            if let Some(code) = &set.code {
                let sources = set.beside.then_some(set.paths.len() + set.disks.len());
                commands::set_code(code, sources).map_err(|why| wrong(at("code"), why.text()))?;
            }
            let left_out = LeftOut { patterns: set.exclude.clone(), other_systems: set.one_file_system };
            let checked = check_left_out(&left_out).map_err(|why| sets::failure(&why));
            checked.map_err(|why| wrong(at("exclude"), why.text()))?;
            for disk in set.disks.keys() {
                if let Some(why) = no_disk_name(disk) {
                    return Err(wrong(at(&format!("disks, {}", sets::name(disk))), why));
                }
            }
        }
        let thresholds =
            [("removed_max", &self.thresholds.removed_max), ("changed_max", &self.thresholds.changed_max)];
        for (field, most) in thresholds {
            let read = most.as_deref().map(commands::files_max).transpose();
            read.map_err(|why| wrong(format!("[thresholds] {field}"), &why))?;
        }
        let has_host = |url: &str, schemes: &[&str]| {
            let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
            rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':', '?']))
        };
        let is_url = |url: &str, schemes: &[&str]| {
            has_host(url, schemes) && !url.contains(|c: char| c.is_control() || c == ' ')
        };
        if let Some(mail) = &self.mail {
            if mail.smtp.as_ref().is_some_and(|url| !is_url(url, &["smtp://", "smtps://"])) {
                return Err(wrong("[mail] smtp".into(), "write smtp://HOST:PORT or smtps://HOST"));
            }
            if mail.netrc.as_ref().is_some_and(|path| path.is_relative()) {
                return Err(wrong("[mail] netrc".into(), "give an absolute path"));
            }
        }
        if self.hooks.webhook.as_ref().is_some_and(|url| !is_url(url, &["http://", "https://"])) {
            return Err(wrong("[hooks] webhook".into(), "write http://HOST/PATH or https://HOST/PATH"));
        }
        if self.hooks.command.first().is_some_and(String::is_empty) {
            return Err(wrong("[hooks] command".into(), "the first word is the program"));
        }
        // What is left is what the options of the commands refuse.
        for task in [Task::Seal, Task::Verify, Task::Scrub] {
            for (_, words) in jobs(self, task) {
                all::parsed(&words)?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let names = self.set.keys().map(|name| ("set", name));
        for (table, name) in names.chain(self.volume.keys().map(|name| ("volume", name))) {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
                return Err(format!("[{table}.{name:?}]: a name has no '/' and does not begin with '.'"));
            }
        }
        for (name, set) in &self.set {
            if set.out.is_empty() {
                return Err(format!("[set.{name}]: out is missing; give the directories of the shards"));
            }
            if set.paths.is_empty() && set.disks.is_empty() {
                return Err(format!("[set.{name}]: give what to protect with paths or disks"));
            }
        }
        let relative = |path: &&PathBuf| path.is_relative();
        let of_sets =
            self.set.values().flat_map(|set| set.out.iter().chain(&set.paths).chain(set.disks.values()));
        let of_volumes = self.volume.values().map(|volume| &volume.folder);
        if let Some(path) = of_sets.chain(of_volumes).chain([&self.state]).find(relative) {
            return Err(format!(
                "{} is relative; give an absolute path",
                sets::name(&path.to_string_lossy())
            ));
        }
        if self.monitor.every == 0 || self.monitor.patience == 0 {
            return Err("[monitor]: every and patience are at least 1s".into());
        }
        if let Some(mail) = &self.mail {
            let is_one_line = |text: &String| !text.is_empty() && !text.contains(char::is_control);
            if mail.to.is_empty() || !mail.to.iter().chain(&mail.from).all(is_one_line) {
                return Err("[mail]: give addresses of one line in to and from".into());
            }
        }
        Ok(())
    }
}

impl SetConfig {
    /// Returns the arguments of `pantile seal` for this set.
    pub fn seal_words(&self, name: &str, thresholds: &Thresholds) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["seal".into()];
        words.extend(self.paths.iter().map(OsString::from));
        words.extend(self.disk_words());
        words.extend(self.out.iter().flat_map(|out| ["--out".into(), OsString::from(out)]));
        words.extend(["--name".into(), name.into()]);
        words.extend(self.code.iter().flat_map(|code| ["--code".into(), OsString::from(code)]));
        words.extend(self.beside.then(|| "--beside".into()));
        words.extend(self.exclude.iter().flat_map(|pattern| ["--exclude".into(), OsString::from(pattern)]));
        words.extend(self.one_file_system.then(|| "--one-file-system".into()));
        let removed = thresholds.removed_max.iter();
        words.extend(removed.flat_map(|most| ["--removed-max".into(), OsString::from(most)]));
        let changed = thresholds.changed_max.iter();
        words.extend(changed.flat_map(|most| ["--changed-max".into(), OsString::from(most)]));
        words
    }

    /// Returns the arguments of `pantile verify` for this set.
    pub fn verify_words(&self, name: &str) -> Vec<OsString> {
        [vec!["verify".into(), "--ignore-changes".into()], self.set_words(name)].concat()
    }

    /// Returns the set as commands name it.
    pub fn set_paths(&self, name: &str) -> SetPaths {
        let disks = self.disks.iter().map(|(name, path)| DiskAt { name: name.into(), path: path.clone() });
        SetPaths {
            paths: self.out.clone(),
            name: Some(name.into()),
            disks: disks.collect(),
            records: sets::records(),
            ..SetPaths::default()
        }
    }

    /// Returns the arguments by which commands name this set.
    pub fn set_words(&self, name: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        words.extend(self.out.iter().map(OsString::from));
        words.extend(["--name".into(), name.into()]);
        words.extend(self.disk_words());
        words
    }

    fn disk_words(&self) -> impl Iterator<Item = OsString> {
        let word = |(name, path): (&String, &PathBuf)| {
            let mut word = OsString::from(format!("{name}="));
            word.push(path);
            ["--disk".into(), word]
        };
        self.disks.iter().flat_map(word)
    }
}

/// Returns why a text names no disk of a set.
fn no_disk_name(name: &str) -> Option<&'static str> {
    let is_name = !name.is_empty() && name != "." && name != ".." && name.len() <= 255;
    let is_plain = is_name && !name.contains(['/', '=', '\0']);
    (!is_plain).then_some("the name of a disk becomes a folder: no '/' or '=', and at most 255 bytes")
}

/// Reads a time such as `30s` or `40d`.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    args::seconds(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_sealed_as_the_command_would() {
        let text = "[thresholds]\nremoved_max = '5%'\nchanged_max = '20%'\n[set.pool]\nout = ['/parity']\nbeside = true\ncode = 'raid6'\n\
                    disks = { films = '/mnt/1', music = '/mnt/2' }\nexclude = ['*.tmp']\n";
        let config = Config::parse(text).expect("a configuration");
        let words = config.set["pool"].seal_words("pool", &config.thresholds);
        let text: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        assert_eq!(
            text.join(" "),
            "seal --disk films=/mnt/1 --disk music=/mnt/2 --out /parity --name pool --code raid6 --beside \
             --exclude *.tmp --removed-max 5% --changed-max 20%"
        );
    }

    #[test]
    fn a_value_that_no_command_would_take_is_named_with_its_field() {
        let of_set = |more: &str| format!("[set.a]\nout = ['/p']\npaths = ['/x']\n{more}\n");
        for (text, says) in [
            (of_set("code = 'rs:4+'"), "[set.a] code: "),
            (of_set("code = 'nosuch:7'"), "[set.a] code: "),
            (of_set("code = 'raid6'"), "[set.a] code: "),
            (of_set("exclude = ['a', '[z-a]']"), "[set.a] exclude: the pattern '[z-a]'"),
            (of_set("disks = { 'a=b' = '/d' }"), "[set.a] disks, a=b: "),
            ("[thresholds]\nremoved_max = '101%'\n".into(), "[thresholds] removed_max: expected a number"),
            ("[thresholds]\nchanged_max = 'few'\n".into(), "[thresholds] changed_max: expected a number"),
            ("[mail]\nto = ['root']\nsmtp = 'localhost'\n".into(), "[mail] smtp: write smtp://"),
            ("[mail]\nto = ['root']\nsmtp = 'smtp://'\n".into(), "[mail] smtp: write smtp://"),
            ("[mail]\nto = ['root']\nnetrc = 'n'\n".into(), "[mail] netrc: give an absolute path"),
            ("[hooks]\nwebhook = 'chat'\n".into(), "[hooks] webhook: write http://"),
            ("[hooks]\ncommand = ['']\n".into(), "[hooks] command: the first word"),
        ] {
            let config = Config::parse(&text).expect("its form is right");
            let said = config.check_values().expect_err(&text);
            assert!(said.text().contains(says), "{text}: {}", said.text());
        }
        for text in [
            of_set("code = 'rs:4+2'"),
            of_set("code = 'raid6'\nbeside = true\ndisks = { b = '/d' }\nexclude = ['*.tmp']"),
            "[mail]\nto = ['root']\nsmtp = 'smtp://h:25'\n[hooks]\nwebhook = 'https://h/x'\n".into(),
        ] {
            let checked = Config::parse(&text).expect("its form is right").check_values();
            assert!(checked.is_ok(), "{text}: {:?}", checked.err().map(|why| why.text().to_string()));
        }
    }

    #[test]
    fn a_wrong_line_is_named_with_what_is_expected() {
        for (text, says) in [
            ("[set.a]\nout = ['/p']\npath = ['/x']\n", "line 3: unknown field `path`, expected one of `out`"),
            ("[set.a]\nout = '/p'\n", "line 2: invalid type: string \"/p\", expected a sequence"),
            ("[set.a]\nout = ['/p']\n", "give what to protect"),
            ("[set.a]\npaths = ['/x']\n", "out is missing"),
            ("[set.a]\nout = ['p']\npaths = ['/x']\n", "p is relative"),
            ("\n\n[volume.a]\n", "line 3: missing field `folder`"),
            ("[monitor]\nevery = 'often'\n", "line 2: expected a time such as 30s"),
            ("[monitor]\nlisten = 'here'\n", "line 2: invalid socket address"),
            ("[monitor]\nevery = '0'\n", "at least 1s"),
            ("[mail]\nto = [\"a\\nb\"]\n", "addresses of one line"),
            ("[volume.'a/b']\nfolder = '/x'\n", "a name has no '/'"),
            ("[set.a\n", "line 1"),
        ] {
            let said = Config::parse(text).expect_err(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
