//! The commands that take a pool's data to one whose plug-in stays.

use super::{Pool, PoolKind};

/// Commands for a shell, in their order; empty for a pool that stays, or whose name or profile is
/// none that a shell should be given.
///
/// The new pool has as many data chunks and bears what the old one was meant to bear: `c` lost OSDs
/// with shec, else `m`. Nothing is deleted.
pub fn ways_out(pool: &Pool) -> Vec<String> {
    let PoolKind::Erasure { profile: Some(profile), .. } = &pool.kind else { return Vec::new() };
    if profile.stranded().is_none() || !is_plain(&pool.name) {
        return Vec::new();
    }
    let meant = profile.number("c").or(profile.number("m"));
    let (Some(k), Some(m)) = (profile.number("k"), meant) else { return Vec::new() };
    if k == 0 || m == 0 || k > 255 || m > 255 {
        return Vec::new();
    }
    let technique = if is_vandermonde_safe(k, m) { "reed_sol_van" } else { "cauchy" };
    let crush =
        ["crush-failure-domain", "crush-device-class", "crush-root"].map(|key| (key, profile.get(key)));
    let crush: String = crush
        .iter()
        .filter_map(|&(key, value)| Some((key, value.filter(|value| !value.is_empty() && is_plain(value))?)))
        .map(|(key, value)| format!(" {key}={}", quoted(value)))
        .collect();
    // Ceph takes more in the name of a pool that is renamed than in those that it makes.
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
            "rbd migration prepare IMAGE_POOL/IMAGE IMAGE_POOL/IMAGE --data-pool {new}   # each image"
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
    commands
}

/// Of isa's Vandermonde matrix Ceph takes no more than what is MDS.
pub(crate) fn is_vandermonde_safe(k: usize, m: usize) -> bool {
    m <= 3 && k <= 32 || m == 4 && k <= 21
}

/// Whether nothing in it moves a cursor or ends a line.
fn is_plain(text: &str) -> bool {
    text.len() <= 1024 && !text.chars().any(char::is_control)
}

/// A word as a shell takes it.
fn quoted(text: &str) -> String {
    let needs_none = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(needs_none) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
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
}
