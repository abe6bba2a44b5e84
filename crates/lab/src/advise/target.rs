//! The target of a code: a volume here, a pool of Ceph, a policy of HDFS. Each has the codes that
//! it accepts, and the commands that make it.

use crate::ceph::is_vandermonde_safe;
use pantile::Code;
use pantile::code::{ColumnRole, Placement};

/// The target that a code is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `pantile create`.
    Volume,
    /// An erasure-coded pool.
    Ceph,
    /// An erasure-coding policy.
    Hdfs,
}

/// The target's own name of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// The words of a profile.
    Profile(String),
    /// A policy of k + m units by a codec.
    Policy {
        /// The codec.
        codec: &'static str,
        /// Units of data.
        k: usize,
        /// Units of parity.
        m: usize,
    },
}

/// Maximum of chunks of a stripe in Ceph, see docs/ceph.md.
const CEPH_CHUNKS_MOST: usize = 128;

/// Maximum of blocks of a group in HDFS, see docs/hdfs.md.
const HDFS_BLOCKS_MOST: usize = 16;

/// Policies that every Hadoop installation has, with cells of 1024k.
const HDFS_BUILT_IN: [(&str, usize, usize); 4] = [("rs", 6, 3), ("rs", 3, 2), ("rs", 10, 4), ("xor", 2, 1)];

impl Target {
    /// Returns its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Target::Volume => "a volume",
            Target::Ceph => "Ceph",
            Target::Hdfs => "HDFS",
        }
    }

    /// Returns its limits, in words.
    pub(super) fn limits(self) -> &'static str {
        match self {
            Target::Volume => "no family goes so far",
            Target::Ceph => "a stripe has at most 128 chunks there",
            Target::Hdfs => "a group has at most 16 blocks there",
        }
    }

    /// Returns the maximum of disks in a stripe.
    pub(super) fn disks_most(self) -> usize {
        match self {
            Target::Volume => usize::MAX,
            Target::Ceph => CEPH_CHUNKS_MOST,
            Target::Hdfs => HDFS_BLOCKS_MOST,
        }
    }

    /// Returns true if it accepts codes of every family, except for [`Target::refusal`]s.
    pub(super) fn takes_any_code(self) -> bool {
        self != Target::Hdfs
    }

    /// Returns codes that it has itself or by a codec of Pantile's, by the name that
    /// [`Code::parse`] reads.
    pub(super) fn own(self, disks: usize, survive: usize) -> Vec<(String, Use)> {
        let k = disks.saturating_sub(survive);
        match self {
            Target::Volume => Vec::new(),
            Target::Ceph => {
                let technique = if is_vandermonde_safe(k, survive) { "reed_sol_van" } else { "cauchy" };
                let isa = format!("plugin=isa technique={technique} k={k} m={survive}");
                let lrc = cephs_lrc(disks, survive);
                std::iter::once(isa).chain(lrc).map(|words| (words.clone(), Use::Profile(words))).collect()
            }
            Target::Hdfs => {
                let m = survive;
                let mut all = vec![(format!("RS-{k}-{m}-1024k"), "rs")];
                match m {
                    1 => all.push((format!("XOR-{k}-1-1024k"), "xor")),
                    3 => all.push((format!("raidq:{k}+3"), "raidq")),
                    4 => all.push((format!("raidq:{k}+4,powers"), "raidq")),
                    _ => {}
                }
                all.into_iter().map(|(name, codec)| (name, Use::Policy { codec, k, m })).collect()
            }
        }
    }

    /// Returns the reason why it cannot use a code; `None` if it can.
    pub(super) fn refusal(self, code: &Code) -> Option<String> {
        let has_add_ons = (0..code.columns()).any(|c| code.role(c) != ColumnRole::Device);
        if has_add_ons {
            return Some("it needs a small add-on beside every disk, which fails by itself".into());
        }
        let shape = crate::replay::geometry((code, Placement::spread(code)), 64 << 10).err();
        match self {
            Target::Volume => shape.map(|error| error.to_string()),
            Target::Ceph => {
                let is_mixed = (0..code.columns()).any(|column| {
                    let parities = code.column_cells(column).filter(|&cell| code.is_parity(cell)).count();
                    parities != 0 && parities != code.rows(column)
                });
                let is_ragged = (0..code.columns()).any(|column| code.rows(column) != code.rows_max());
                (is_mixed || is_ragged).then(|| {
                    "Ceph reads an object as its first k chunks, and this code keeps parity in columns of data or has columns of unlike length"
                        .into()
                })
            }
            Target::Hdfs => None,
        }
    }

    /// Returns the commands that make it, with placeholders in capitals.
    pub(super) fn commands(self, name: &str, code: &Code, own: Option<Use>) -> Vec<String> {
        match (self, own) {
            (_, Some(Use::Policy { codec, k, m })) => of_hdfs(codec, k, m),
            (_, Some(Use::Profile(words))) => of_ceph(&words),
            (Target::Ceph, None) if code.data().len() == code.rows_max() => vec![
                "ceph osd pool create POOL replicated".into(),
                format!("ceph osd pool set POOL size {}", code.columns()),
            ],
            (Target::Ceph, None) => {
                let mut commands = of_ceph(&format!("plugin=pantile code={name}"));
                commands.insert(0, "# libec_pantile.so must be on every host first: docs/ceph.md".into());
                commands
            }
            (_, None) => {
                vec![format!(
                    "pantile create VOL --code {name} --devices DEVICE...   # {} devices",
                    code.columns()
                )]
            }
        }
    }
}

fn of_ceph(words: &str) -> Vec<String> {
    vec![
        format!("ceph osd erasure-code-profile set PROFILE {words}"),
        "ceph osd pool create POOL erasure PROFILE".into(),
    ]
}

fn of_hdfs(codec: &'static str, k: usize, m: usize) -> Vec<String> {
    let policy = format!("{}-{k}-{m}-1024k", codec.to_uppercase());
    let mut commands = Vec::new();
    if !HDFS_BUILT_IN.contains(&(codec, k, m)) {
        if codec == "raidq" {
            commands.push("# pantile-hdfs.jar must be on every node first: docs/hdfs.md".into());
        }
        let schema = format!("<schema id=\"s\"><codec>{codec}</codec><k>{k}</k><m>{m}</m></schema>");
        let own = "<policy><schema>s</schema><cellsize>1048576</cellsize></policy>";
        commands.push(format!(
            "echo '<configuration><layoutversion>1</layoutversion><schemas>{schema}</schemas><policies>{own}</policies></configuration>' > policy.xml"
        ));
        commands.push("hdfs ec -addPolicies -policyFile policy.xml".into());
    }
    commands.push(format!("hdfs ec -enablePolicy -policy {policy}"));
    commands.push(format!("hdfs ec -setPolicy -path DIRECTORY -policy {policy}"));
    commands
}

/// Returns Ceph's lrc on a number of OSDs: two groups or more, with the fewest global parities
/// that tolerate the losses.
fn cephs_lrc(disks: usize, survive: usize) -> Vec<String> {
    /// Limit of OSDs: every set of losses is counted, which takes too long for more.
    const OSDS_MOST: usize = 24;
    const GROUPS_MOST: usize = 4;
    if disks > OSDS_MOST {
        return Vec::new();
    }
    let of_groups = |groups: usize| {
        let others = disks.checked_sub(groups).filter(|others| others.is_multiple_of(groups))?;
        let l = others / groups;
        let parities = (1..l).map(|each| each * groups).filter(|m| m * 2 <= others);
        let words = |m: usize| format!("plugin=lrc k={} m={m} l={l}", others - m);
        parities
            .map(words)
            .find(|words| Code::parse(words).is_ok_and(|code| code.claim().tolerance >= survive))
    };
    (2..=GROUPS_MOST).filter_map(of_groups).collect()
}
