//! Conditions: faults by a key that stays the same in all looks, and the changes between looks.

use crate::failure::Failure;
use crate::machine::all::{Task, write_whole};
use crate::machine::config::Thresholds;
use crate::machine::look::{Looked, SetLook, ShardsFound, VolumeFound, VolumeLook};
use crate::sets;
use pantile_host::{Finding, FindingKind, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A fault that is present now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The volume's folder, or the set's name.
    pub about: String,
    /// One word for the state; a new word is reported as a change, a new text is not.
    pub word: String,
    pub text: String,
    /// True if a message waits for the next look to confirm the fault: a server can be restarting.
    pub can_pass: bool,
}

/// The conditions of a look, by their keys.
pub type Conditions = BTreeMap<String, Condition>;

/// Extent of what a look found out about a volume or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Complete: a condition that was not found is over.
    All,
    /// None, since the server did not answer: the volume keeps its conditions.
    Nothing,
}

/// Word of a condition of a volume that has no server.
pub const NOT_SERVED: &str = "not-served";
const NO_ANSWER: &str = "no-answer";

/// A change that an operator must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Seconds since 1970.
    pub at: u64,
    pub about: String,
    /// `wrong` or `mended`.
    pub is: String,
    pub text: String,
}

/// Reported conditions and pending messages, kept over restarts in the folder `state`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The reported conditions.
    pub reported: Conditions,
    /// Conditions that can pass, seen once.
    #[serde(default)]
    seen_once: Conditions,
    /// Changes by the channel that has not accepted them yet.
    #[serde(default)]
    pub pending: BTreeMap<String, Vec<Change>>,
}

impl Memory {
    /// Reads the memory. A missing or damaged file is an empty memory; every fault is then reported
    /// again.
    pub fn read(path: &Path) -> Memory {
        std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Returns the number of messages that a channel has not accepted yet.
    pub fn undelivered(&self) -> usize {
        self.pending.values().map(Vec::len).sum()
    }

    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        write_whole(path, &crate::json::text(self))
    }

    /// Takes the conditions of a look at the volumes and sets of `watched`, and returns the changes
    /// since the last one. A volume or set that is no longer watched is forgotten.
    pub fn take(&mut self, at: u64, found: Conditions, watched: &BTreeMap<String, Known>) -> Vec<Change> {
        let mut changes = Vec::new();
        let change = |condition: &Condition, is: &str, text: String| Change {
            at,
            about: condition.about.clone(),
            is: is.into(),
            text,
        };
        let mut reported = Conditions::new();
        let (mut seen_once, mut kept) = (Conditions::new(), Conditions::new());
        for (key, condition) in found {
            match self.reported.get(&key) {
                // The reported text stays: it is quoted when the condition is over.
                Some(known) if known.word == condition.word => {
                    reported.insert(key, known.clone());
                }
                None if condition.can_pass && !self.seen_once.contains_key(&key) => {
                    seen_once.insert(key, condition);
                }
                _ => {
                    changes.push(change(&condition, "wrong", condition.text.clone()));
                    reported.insert(key, condition);
                }
            }
        }
        for (key, condition) in &self.reported {
            if reported.contains_key(key) {
                continue;
            }
            let is_of_server = [NOT_SERVED, NO_ANSWER].contains(&condition.word.as_str());
            match watched.get(&condition.about) {
                None => {}
                Some(Known::Nothing) if !is_of_server => {
                    kept.insert(key.clone(), condition.clone());
                }
                Some(_) => {
                    changes.push(change(condition, "mended", format!("No longer: {}", condition.text)))
                }
            }
        }
        reported.append(&mut kept);
        (self.reported, self.seen_once) = (reported, seen_once);
        changes
    }
}

/// Returns the volumes and sets of a look.
pub fn watched(looked: &Looked) -> BTreeMap<String, Known> {
    let volumes = looked.volumes.iter().map(|volume| {
        let known = match volume.found {
            VolumeFound::Served(_) | VolumeFound::Closed(_) => Known::All,
            VolumeFound::NotServed | VolumeFound::NoAnswer(_) => Known::Nothing,
        };
        (volume.folder.to_string_lossy().into_owned(), known)
    });
    let set = |set: &SetLook| {
        let is_known = set.shards != ShardsFound::Unknown;
        (set.name.clone(), if is_known { Known::All } else { Known::Nothing })
    };
    volumes.chain(looked.sets.iter().map(set)).collect()
}

/// Returns all faults.
pub fn conditions(looked: &Looked, thresholds: &Thresholds) -> Conditions {
    let mut found = Conditions::new();
    looked.volumes.iter().for_each(|volume| of_volume(&mut found, volume, looked.at, thresholds));
    looked.sets.iter().for_each(|set| of_set(&mut found, set, (looked.at, &looked.all), thresholds));
    found
}

/// Returns the conditions, those of failed volumes and of losses first.
pub fn worst_first(conditions: &Conditions) -> Vec<&Condition> {
    let mut all: Vec<&Condition> = conditions.values().collect();
    let rank = |condition: &&Condition| match condition.word.rsplit(' ').next() {
        Some("failed") => 0,
        Some("degraded" | "failing") => 1,
        _ => 2,
    };
    all.sort_by_key(rank);
    all
}

fn of_volume(found: &mut Conditions, volume: &VolumeLook, now: u64, thresholds: &Thresholds) {
    let about = volume.folder.to_string_lossy().into_owned();
    let word = sets::quoted(&volume.folder);
    let mut add = |key: String, word: String, text: String, can_pass: bool| {
        found.insert(
            format!("volume {about} {key}"),
            Condition { about: about.clone(), word, text, can_pass },
        );
    };
    if matches!(volume.found, VolumeFound::Closed(_)) {
        let text = format!("The volume is not served; 'pantile serve {word}' serves it.");
        add("served".into(), NOT_SERVED.into(), text, true);
    }
    match &volume.found {
        VolumeFound::NotServed => {
            let text = format!("The volume is not served; 'pantile status {word}' says how it is.");
            add("served".into(), NOT_SERVED.into(), text, true);
        }
        VolumeFound::NoAnswer(why) => {
            let text = format!("The server of the volume does not answer: {why}");
            add("served".into(), NO_ANSWER.into(), text, true);
        }
        VolumeFound::Served(report) | VolumeFound::Closed(report) => {
            for finding in &report.findings {
                add(key(finding), word_of(finding), finding.text.clone(), false);
            }
            for disk in &volume.smart {
                for (kind, said, text) in disk.sentences(&volume.folder) {
                    add(format!("smart {} {kind}", disk.disk), said, text, false);
                }
            }
            let scrub = report.scrub.as_ref().filter(|scrub| scrub.ended_at > 0 && !scrub.stopped);
            let age = scrub.map(|scrub| now.saturating_sub(scrub.ended_at.unsigned_abs()));
            if let Some(age) = age.filter(|age| thresholds.scrub_age > 0 && *age > thresholds.scrub_age) {
                let text =
                    format!("The last scrub ended {} ago; run 'pantile scrub {word} --repair'.", days(age));
                add("scrub-age".into(), "old".into(), text, false);
            }
        }
    }
}

/// Returns the part of a finding that stays the same while its text and numbers change.
fn key(finding: &Finding) -> String {
    let kind = match finding.kind {
        FindingKind::DeviceRebuilding => FindingKind::DeviceLost,
        kind => kind,
    };
    let device = finding.device.map(|device| format!(" {device}")).unwrap_or_default();
    format!("{kind:?}{device}")
}

fn word_of(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Clean | Verdict::Warned => "warned",
        Verdict::Degraded => "degraded",
        Verdict::Failed => "failed",
    };
    format!("{:?} {verdict}", finding.kind)
}

fn of_set(found: &mut Conditions, set: &SetLook, (now, all): (u64, &str), thresholds: &Thresholds) {
    of_shards(found, set, all);
    let has_shards = matches!(set.shards, ShardsFound::Shards { .. });
    for (task, last) in &set.runs {
        let (age_max, did) = match task {
            Task::Seal => (thresholds.seal_age, "sealed"),
            Task::Verify => (thresholds.verify_age, "verified"),
            Task::Scrub => (thresholds.scrub_age, "scrubbed"),
        };
        let mut add = |key: &str, word: String, text: String| {
            let condition = Condition { about: set.name.clone(), word, text, can_pass: false };
            found.insert(format!("set {} {} {key}", set.name, task.word()), condition);
        };
        let Some(last) = last else {
            if *task == Task::Verify && age_max > 0 && has_shards {
                let text = format!(
                    "The set was never verified by '--all'; run 'pantile verify {all}', or see 'systemctl status pantile-verify.timer'."
                );
                add("age", "never".into(), text);
            }
            continue;
        };
        if last.status != 0 {
            let text =
                format!("'pantile {} {all}' ended with status {}: {}", task.word(), last.status, last.text);
            add("status", format!("status {}", last.status), text);
        }
        let age = now.saturating_sub(last.ended_at);
        if age_max > 0 && age > age_max {
            let text = format!(
                "The set was {did} {} ago; run 'pantile {} {all}', or 'systemctl status pantile-{}.timer'.",
                days(age),
                task.word(),
                task.word()
            );
            add("age", "old".into(), text);
        }
    }
}

/// Most shards that a text names.
const SHARDS_NAMED: usize = 3;

fn of_shards(found: &mut Conditions, set: &SetLook, all: &str) {
    let SetLook { words, .. } = set;
    let was_sealed = set.runs.iter().any(|(task, last)| *task == Task::Seal && last.is_some());
    let (word, text) = match &set.shards {
        ShardsFound::Unknown => return,
        ShardsFound::Shards { bad, .. } if bad.is_empty() => return,
        ShardsFound::Shards { total, bad } => {
            let named = bad.iter().take(SHARDS_NAMED);
            let named = named.map(|shard| format!("{} ({})", shard.path, sets::shard_status(&shard.status)));
            let mut named: Vec<String> = named.collect();
            if bad.len() > SHARDS_NAMED {
                named.push(format!("{} more", bad.len() - SHARDS_NAMED));
            }
            let columns: Vec<String> = bad.iter().map(|shard| shard.column.to_string()).collect();
            let text = format!(
                "{} of {total} shards are missing or bad: {}; 'pantile heal {words}' repairs them.",
                bad.len(),
                named.join(", ")
            );
            (format!("bad {}", columns.join(",")), text)
        }
        ShardsFound::NoShards if was_sealed => {
            let text = format!(
                "None of its shards is there: mount their disks, and look with 'pantile verify {words}'."
            );
            ("none".into(), text)
        }
        ShardsFound::NoShards => {
            ("never-sealed".into(), format!("The set is not sealed; 'pantile seal {all}' seals it."))
        }
        ShardsFound::Fault(why) => ("fault".into(), format!("Its shards cannot be looked at: {why}")),
    };
    // A seal under way can be between two shards.
    let condition = Condition { about: set.name.clone(), word, text, can_pass: true };
    found.insert(format!("set {} shards", set.name), condition);
}

fn days(seconds: u64) -> String {
    match seconds / 86_400 {
        0 => format!("{} hours", seconds / 3600),
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(word: &str, text: &str, can_pass: bool) -> Conditions {
        let condition =
            Condition { about: "/srv/tank".into(), word: word.into(), text: text.into(), can_pass };
        Conditions::from([("volume /srv/tank DeviceLost 2".to_string(), condition)])
    }

    fn take(memory: &mut Memory, found: Conditions) -> Vec<Change> {
        memory.take(1, found, &BTreeMap::from([("/srv/tank".into(), Known::All)]))
    }

    fn said(changes: &[Change]) -> Vec<(&str, &str)> {
        changes.iter().map(|change| (change.is.as_str(), change.text.as_str())).collect()
    }

    #[test]
    fn a_condition_is_reported_once_and_when_it_is_mended() {
        let mut memory = Memory::default();
        let lost = one("lost", "Device 2 is lost.", false);
        assert_eq!(said(&take(&mut memory, lost.clone())), [("wrong", "Device 2 is lost.")]);
        assert_eq!(take(&mut memory, lost), []);
        let rebuilt = one("rebuilding", "Device 2 is rebuilt (1 %).", false);
        assert_eq!(said(&take(&mut memory, rebuilt)), [("wrong", "Device 2 is rebuilt (1 %).")]);
        assert_eq!(take(&mut memory, one("rebuilding", "Device 2 is rebuilt (2 %).", false)), []);
        assert_eq!(
            said(&take(&mut memory, Conditions::new())),
            [("mended", "No longer: Device 2 is rebuilt (1 %).")]
        );
        assert_eq!(take(&mut memory, Conditions::new()), []);
    }

    #[test]
    fn a_server_that_is_away_for_one_look_is_not_reported() {
        let mut memory = Memory::default();
        let away = one("not-served", "It is not served.", true);
        assert_eq!(take(&mut memory, away.clone()), []);
        assert_eq!(take(&mut memory, Conditions::new()), []);
        assert_eq!(take(&mut memory, away.clone()), []);
        assert_eq!(take(&mut memory, away.clone()).len(), 1);
        assert_eq!(take(&mut memory, away), []);
    }

    #[test]
    fn a_server_that_does_not_answer_mends_nothing() {
        let mut memory = Memory::default();
        assert_eq!(take(&mut memory, one("lost", "Device 2 is lost.", false)).len(), 1);
        let silent = BTreeMap::from([("/srv/tank".into(), Known::Nothing)]);
        assert_eq!(memory.take(2, Conditions::new(), &silent), []);
        assert_eq!(take(&mut memory, one("lost", "Device 2 is lost.", false)), [], "it is known");
        assert_eq!(said(&take(&mut memory, Conditions::new())), [("mended", "No longer: Device 2 is lost.")]);
        take(&mut memory, one("lost", "Device 2 is lost.", false));
        assert_eq!(memory.take(5, Conditions::new(), &BTreeMap::new()), [], "it is watched no more");
        assert_eq!(memory, Memory::default());
    }

    #[test]
    fn a_memory_outlives_a_restart_and_a_damaged_one_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/monitor.json");
        let mut memory = Memory::default();
        take(&mut memory, one("lost", "Device 2 is lost.", false));
        memory.write(&path).expect("it writes");
        assert_eq!(Memory::read(&path), memory);
        std::fs::write(&path, "{").expect("it writes");
        assert_eq!(Memory::read(&path), Memory::default());
    }
}
