//! Words of other tools that people type here, each with the words of this command.

use crate::sets;
use crate::volumes;
use pantile::Code;
use std::path::Path;

/// Verbs of other tools, and the commands that stand for them.
const VERBS: &[(&[&str], &str)] = &[
    (
        &["delete", "destroy", "remove", "rm", "drop"],
        "to delete a volume, run 'pantile stop VOL' and remove its folder; a sealed set is its shards",
    ),
    (
        &["grow", "expand", "extend", "resize", "shrink"],
        "a volume keeps its size; create a larger one and copy the data with nbdcopy",
    ),
    (
        &["mount", "map"],
        "'pantile attach VOL' makes it a block device, 'pantile serve VOL' prints a URI for NBD clients",
    ),
    (
        &["umount", "unmount", "unmap", "export", "close"],
        "'pantile detach VOL' takes its block device away, 'pantile stop VOL' ends its server",
    ),
    (&["start", "run", "open", "up", "enable"], "'pantile serve VOL' lets clients use a volume"),
    (&["down", "disable", "kill", "end"], "'pantile stop VOL' ends the server of a volume"),
    (
        &["import", "discover", "find"],
        "'pantile assemble --scan' finds the volumes on all disks, 'pantile assemble DEVICE... --into VOL' one",
    ),
    (
        &["protect", "backup", "sync", "parity", "save"],
        "'pantile seal PATH --code rs:6+3 --out DIR' protects files, 'pantile seal --out DIR' seals what changed since",
    ),
    (
        &["check", "test", "fsck", "audit", "validate"],
        "'pantile verify DIR' checks a sealed set, 'pantile scrub VOL' a volume",
    ),
    (
        &["fix", "repair", "mend"],
        "'pantile heal DIR' repairs a sealed set, 'pantile scrub VOL --repair' a volume",
    ),
    (
        &["restore", "recover", "extract", "unpack"],
        "'pantile unseal DIR --to PATH' gives sealed files back, 'pantile heal DIR' repairs them",
    ),
    (&["resilver", "resync", "reconstruct"], "'pantile rebuild VOL' rebuilds a volume"),
    (&["offline", "faulty"], "'pantile fail VOL DEVICE' takes a device out of a volume"),
    (&["online", "readd", "re-add"], "'pantile rebuild VOL' tries lost devices again"),
    (&["add", "hotspare", "spare"], "'pantile add-spare VOL DEVICE' keeps a device ready for the next loss"),
    (
        &["list", "ls", "files"],
        "'pantile info DIR --files' lists the files of a sealed set, 'pantile status VOL' shows a volume, \
         'pantile assemble --scan --dry-run' finds all",
    ),
    (&["diff", "changes"], "'pantile seal PATH --out DIR --dry-run' shows the changes since the last seal"),
    (&["init", "mkfs", "format", "new", "make"], "'pantile create VOL DEVICE...' makes a volume"),
    (&["state", "health", "stat", "detail", "details", "query"], "'pantile status VOL' shows a volume"),
    (&["history", "log", "journal"], "'pantile events VOL' prints what happened to a volume"),
    (&["version"], "'pantile --version' prints it"),
    (&["benchmark", "speed", "perf"], "'pantile bench CODE' measures a code"),
    (&["draw", "print", "describe"], "'pantile show CODE' draws a code"),
    (
        &["recommend", "choose", "suggest", "plan-disks"],
        "'pantile advise --help' explains how a code is chosen",
    ),
    (
        &["papers", "generate", "exascale", "search", "recovery", "raidq", "shec", "raidp"],
        "it is a command of the program 'pantile-lab'",
    ),
    (&["report", "pools"], "'pantile ceph report' looks at the pools of a cluster"),
];

/// Returns the answer to a word in the place of a command.
pub fn command(word: &str) -> Option<String> {
    let plain = word.to_ascii_lowercase();
    let known = VERBS.iter().find(|(words, _)| words.contains(&plain.as_str()));
    if let Some((_, answer)) = known {
        return Some(format!("there is no command '{word}'; {answer}"));
    }
    let (path, quoted) = (Path::new(word), sets::quoted(word));
    if volumes::is_volume(path) {
        return Some(format!("{word} is a volume; name a command first, such as 'pantile status {quoted}'"));
    }
    if holds_shards(path) {
        return Some(format!(
            "{word} is a sealed set; name a command first, such as 'pantile verify {quoted}'"
        ));
    }
    Code::is_named(word)
        .then(|| format!("{word} is a code; name a command first, such as 'pantile show {quoted}'"))
}

/// Options of other tools, and the options here with the same purpose, of which the command may
/// have one.
const OPTIONS: &[(&[&str], &[&str])] = &[
    (&["--force", "-f", "-y", "--overwrite", "--assume-yes"], &["yes"]),
    (&["--level", "-l", "--raid", "--raid-level", "--parity", "--copies", "--redundancy", "--ec"], &["code"]),
    (&["--raid-devices", "-n", "--disks", "--drives", "--device"], &["devices"]),
    (
        &["--output", "-o", "--dest", "--destination", "--target", "--to", "--into", "--out"],
        &["out", "to", "into"],
    ),
    (&["--fix", "--mend"], &["repair"]),
    (&["--port", "--listen", "--host", "--address"], &["tcp"]),
    (&["--block-size", "--blocksize", "-b"], &["block", "chunk"]),
    (&["--chunk-size", "--stripe-size"], &["chunk", "element"]),
    (&["--capacity", "--volume-size"], &["size"]),
    (&["--trace-file", "--input", "-i"], &["trace"]),
    (&["--readonly", "--ro"], &["read-only"]),
    (&["-n", "--dryrun", "--simulate", "--test"], &["dry-run"]),
    (&["-q", "--silent"], &["quiet"]),
    (&["-d", "--background", "--daemon"], &["foreground"]),
];

/// Arguments that need an option, and the form to write.
const ARGUMENTS: &[(&str, &str)] = &[
    ("pantile advise", "the trace follows --trace"),
    ("pantile serve", "an address follows --tcp, a socket --socket"),
    ("pantile scrub", "what to do with the scrub is an option: --pause, --resume, --stop or --repair"),
    ("pantile rebuild", "a volume is rebuilt as a whole; 'pantile replace VOL DEVICE NEW' puts a device in"),
    ("pantile add-spare", "one device is added at a time"),
    ("pantile fail", "one device is taken out at a time"),
    ("pantile status", "all devices of the volume are shown"),
    ("pantile show", "one code is shown; 'pantile compare' takes several"),
    ("pantile prove", "one code is proved; 'pantile compare --prove' takes several"),
];

/// Returns the answer to an argument that a command does not accept.
pub fn argument(path: &str, command: &clap::Command, word: &str) -> Option<String> {
    if !word.starts_with('-') {
        let (_, answer) = ARGUMENTS.iter().find(|(of, _)| *of == path)?;
        return Some(format!("'{word}' is not expected here; {answer}"));
    }
    let (option, _) = word.split_once('=').unwrap_or((word, ""));
    let has = |name: &&&str| command.get_arguments().any(|arg| arg.get_long() == Some(**name));
    let (typed, name) = OPTIONS
        .iter()
        .filter(|(words, _)| words.contains(&option))
        .find_map(|(_, names)| Some((option, names.iter().find(has)?)))?;
    Some(match *name {
        "foreground" => format!("there is no {typed}; the server is in the background without --foreground"),
        name => format!("there is no {typed} here; write --{name}"),
    })
}

/// Messages of the standard library for values, and the sentences that replace them.
const REASONS: &[(&str, &str)] = &[
    ("invalid digit found in string", "a whole number is expected"),
    ("cannot parse integer from empty string", "a whole number is expected"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "a number is expected"),
    ("cannot parse float from empty string", "a number is expected"),
];

/// Returns a message with the sentences of the standard library replaced.
pub fn reasons(text: &str) -> String {
    let replaced = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    REASONS.iter().fold(text.to_string(), replaced)
}

/// True if a directory holds shards of a sealed set.
pub fn holds_shards(path: &Path) -> bool {
    names_of(path).iter().any(|name| name.ends_with(".shard"))
}

/// True if a directory holds only shards of sealed sets.
pub fn holds_only_shards(path: &Path) -> bool {
    let names = names_of(path);
    !names.is_empty() && names.iter().all(|name| name.ends_with(".shard") || name.starts_with('.'))
}

/// True if a directory holds nothing.
pub fn is_empty(path: &Path) -> bool {
    names_of(path).is_empty()
}

fn names_of(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn no_word_of_others_is_a_command_here() {
        let root = crate::commands::Cli::command();
        for word in VERBS.iter().flat_map(|(words, _)| words.iter()) {
            assert!(root.find_subcommand(word).is_none(), "{word}");
        }
    }

    /// Every command and option that an answer names exists.
    #[test]
    fn every_command_that_an_answer_names_is_there() {
        let root = crate::commands::Cli::command();
        let of_verbs = VERBS.iter().map(|(_, answer)| answer);
        for answer in of_verbs.chain(ARGUMENTS.iter().map(|(_, answer)| answer)) {
            for named in answer.split("'pantile ").skip(1) {
                let word = named.split([' ', '\'']).next().unwrap_or_default();
                assert!(word.starts_with('-') || root.find_subcommand(word).is_some(), "{answer}");
            }
        }
        for (path, _) in ARGUMENTS {
            assert!(root.find_subcommand(path.trim_start_matches("pantile ")).is_some(), "{path}");
        }
    }
}
