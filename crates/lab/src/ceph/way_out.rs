//! Commands that move a pool's data to a new pool, whose plug-in stays in Ceph.

use super::{Pool, PoolKind};
use std::fmt;

/// Reason why there are no commands for a pool whose plug-in will be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWayOut {
    /// The pool's name has a control character or more than 1024 bytes.
    Name,
    /// The pool's name begins with `-`; Ceph takes it for an option, even in quotes.
    NameOfOption,
    /// The name of an application of the pool begins with `-`.
    ApplicationOfOption,
    /// The profile does not state a valid number of chunks.
    Profile,
}

impl fmt::Display for NoWayOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NoWayOut::Name => "its name is none to give to a shell",
            NoWayOut::NameOfOption => {
                "its name begins with '-', and Ceph takes that for an option; rename the pool first"
            }
            NoWayOut::ApplicationOfOption => {
                "the name of an application of it begins with '-', and Ceph takes that for an option"
            }
            NoWayOut::Profile => "its profile does not say how many chunks there are",
        })
    }
}

/// Returns the commands for a shell, in their order; none for a pool whose plug-in stays.
///
/// The new pool has as many data chunks as the old one, and tolerates as many lost OSDs as the old
/// one was meant to: `c` with shec, otherwise `m`. Nothing is deleted.
///
/// Errors: no safe command can be made with the names, or none with the profile.
pub fn ways_out(pool: &Pool) -> Result<Vec<String>, NoWayOut> {
    let PoolKind::Erasure { profile: Some(profile), .. } = &pool.kind else { return Ok(Vec::new()) };
    if profile.stranded().is_none() {
        return Ok(Vec::new());
    }
    if !is_plain(&pool.name) {
        return Err(NoWayOut::Name);
    }
    if pool.name.starts_with('-') {
        return Err(NoWayOut::NameOfOption);
    }
    if pool.applications.iter().any(|name| name.starts_with('-')) {
        return Err(NoWayOut::ApplicationOfOption);
    }
    let meant = profile.number("c").or(profile.number("m"));
    let (Some(k), Some(m)) = (profile.number("k"), meant) else { return Err(NoWayOut::Profile) };
    if k == 0 || m == 0 || k > 255 || m > 255 {
        return Err(NoWayOut::Profile);
    }
    let technique = if is_vandermonde_safe(k, m) { "reed_sol_van" } else { "cauchy" };
    let crush =
        ["crush-failure-domain", "crush-device-class", "crush-root"].map(|key| (key, profile.get(key)));
    let crush: String = crush
        .iter()
        .filter_map(|&(key, value)| Some((key, value.filter(|value| !value.is_empty() && is_plain(value))?)))
        .map(|(key, value)| format!(" {key}={}", quoted(value)))
        .collect();
    // Ceph refuses characters in the name of a new pool that it accepts when a pool is renamed.
    let of_ceph = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let new = match pool.name.chars().all(of_ceph) {
        true => quoted(&format!("{}-isa", pool.name)),
        false => format!("pool-{}-isa", pool.id),
    };
    let old = quoted(&pool.name);
    let mut commands = vec![
        format!(
            "ceph osd erasure-code-profile set {new} plugin=isa technique={technique} k={k} m={m}{crush}"
        ),
        format!("ceph osd pool create {new} {pgs} {pgs} erasure {new}", pgs = pool.pg_num),
    ];
    if pool.has_overwrites {
        commands.push(format!("ceph osd pool set {new} allow_ec_overwrites true"));
    }
    for application in pool.applications.iter().filter(|name| is_plain(name)) {
        commands.push(format!("ceph osd pool application enable {new} {}", quoted(application)));
    }
    let used_for = |name: &str| pool.applications.iter().any(|application| application == name);
    if used_for("rbd") {
        commands.push(format!(
            "rbd migration prepare IMAGE_POOL/IMAGE IMAGE_POOL/IMAGE --data-pool {new}   # each image, closed by its clients"
        ));
        commands
            .push("rbd migration execute IMAGE_POOL/IMAGE && rbd migration commit IMAGE_POOL/IMAGE".into());
    } else if used_for("cephfs") {
        commands.push(format!("ceph fs add_data_pool FILE_SYSTEM {new}"));
        commands.push(format!(
            "setfattr -n ceph.dir.layout.pool -v {new} DIRECTORY   # for files to come; copy those on {old}"
        ));
    } else {
        let kept = quoted(&format!("{}-old", pool.name));
        commands.push(format!("rados cppool {old} {new}   # with clients stopped; no snapshots are copied"));
        commands.push(format!("ceph osd pool rename {old} {kept} && ceph osd pool rename {new} {old}"));
    }
    Ok(commands)
}

/// Returns true if Ceph accepts isa's Vandermonde matrix of this size: only where it is MDS.
pub(crate) fn is_vandermonde_safe(k: usize, m: usize) -> bool {
    m <= 3 && k <= 32 || m == 4 && k <= 21
}

/// Returns true if a text has no control characters and at most 1024 bytes.
fn is_plain(text: &str) -> bool {
    text.len() <= 1024 && !text.chars().any(char::is_control)
}

/// Returns a text as one word for a shell, quoted if necessary.
fn quoted(text: &str) -> String {
    let needs_none = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(needs_none) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dump;
    use super::*;

    #[test]
    fn a_shell_is_given_one_word() {
        for (text, word) in [
            ("cold", "cold"),
            ("a b", "'a b'"),
            ("it's; rm -r /", r"'it'\''s; rm -r /'"),
            ("-f", "'-f'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), word);
        }
        assert!(!is_plain("two\nlines") && !is_plain("\u{1b}[2J"));
    }

    /// Quotes make a name one word, but Ceph still takes it for an option if it begins with `-`.
    #[test]
    fn no_command_has_a_name_for_an_option() {
        let pool = |name: &str, application: &str| {
            let dump = serde_json::json!({
                "pools": [{ "pool": 7, "pool_name": name, "type": 3, "size": 6, "pg_num": 32, "erasure_code_profile": "p",
                            "application_metadata": { application: {} } }],
                "erasure_code_profiles": { "p": { "plugin": "shec", "k": "4", "m": "3", "c": "2", "crush-root": "--x" } },
            });
            Dump::parse(dump.to_string().as_bytes()).expect("a dump").pools.remove(0)
        };
        for name in ["--help", "-f", "-", "-isa; x"] {
            assert_eq!(ways_out(&pool(name, "rgw")), Err(NoWayOut::NameOfOption), "{name}");
            assert_eq!(ways_out(&pool("cold", name)), Err(NoWayOut::ApplicationOfOption), "{name}");
        }
        assert_eq!(ways_out(&pool("two\nlines", "rgw")), Err(NoWayOut::Name));
        for name in ["cold", "a -f", "co-ld", "'--help", "\u{2014}x"] {
            let commands = ways_out(&pool(name, "rgw")).expect("a name like others");
            assert!(commands.len() > 3, "{name}");
            // No word that came from the dump begins with `-`.
            assert!(
                commands.iter().all(|line| !line.contains(" '-") && !line.contains(" --")),
                "{commands:?}"
            );
        }
    }
}
