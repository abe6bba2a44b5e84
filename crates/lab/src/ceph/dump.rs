//! Pools and profiles of `ceph osd dump -f json`, or of `ceph report -f json`, which has it inside.

use super::{STRANDS, WARNS};
use pantile::code::foreign::{ceph_plugin, is_plain_mapping};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a dump: those of ten thousand OSDs take some 15 MB.
pub const LEN_BYTES_MAX: usize = 64 << 20;
/// The most pools of a dump.
pub const POOLS_MAX: usize = 10_000;
/// The most bytes of one profile, keys and values.
const PROFILE_BYTES_MAX: usize = 16 << 10;

/// Why a text is no dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// It is longer than any dump.
    TooLong,
    /// It is no JSON, or not of this shape.
    Shape(String),
    /// A list that a dump has is not there.
    Missing(&'static str),
    /// More pools than any cluster has.
    TooManyPools(usize),
}

impl fmt::Display for DumpError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::TooLong => {
                write!(out, "it has more than {LEN_BYTES_MAX} bytes, the most of a dump that is read")
            }
            DumpError::Shape(error) => {
                write!(out, "it is not what 'ceph osd dump -f json' writes: {error}")
            }
            DumpError::Missing(what) => write!(
                out,
                "it has no '{what}'; the report needs all of 'ceph osd dump -f json', not of another command"
            ),
            DumpError::TooManyPools(pools) => {
                write!(out, "it has {pools} pools, and at most {POOLS_MAX} are read")
            }
        }
    }
}

impl std::error::Error for DumpError {}

/// The pools of a cluster, and the profiles that there are.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The release that all OSDs have at the least, as Ceph calls it.
    pub release: Option<String>,
    /// In the order of the dump.
    pub pools: Vec<Pool>,
    /// Profiles that no pool has and that Ceph will drop, by name.
    pub unused_stranded: Vec<String>,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name, as in the dump.
    pub name: String,
    /// Its number.
    pub id: i64,
    /// Placement groups.
    pub pg_num: u64,
    /// Whether parts of objects may be written.
    pub has_overwrites: bool,
    /// True if Ceph 20 reads and writes parts of stripes there.
    pub is_optimised: bool,
    /// Bytes of data of a stripe; 0 if the dump does not say it.
    pub stripe_bytes: u64,
    /// What it is used for, such as `rbd`.
    pub applications: Vec<String>,
    /// How it keeps data.
    pub kind: PoolKind,
}

/// How a pool keeps data.
#[derive(Clone, Debug)]
pub enum PoolKind {
    /// So many copies.
    Replicated {
        /// Copies.
        size: u64,
    },
    /// By the plug-in of a profile.
    Erasure {
        /// The name of the profile.
        name: String,
        /// The profile; `None` if the dump has none of the name.
        profile: Option<Profile>,
    },
}

/// An erasure-code profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    words: BTreeMap<String, String>,
}

impl Profile {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(String::as_str)
    }

    /// A number of the profile.
    pub fn number(&self, key: &str) -> Option<usize> {
        self.get(key)?.parse().ok()
    }

    /// The plug-in that the profile names, without the processor in old names.
    pub fn plugin(&self) -> Option<&str> {
        self.get("plugin").map(ceph_plugin)
    }

    /// What no two chunks of an object are to have in common, `host` unless it says otherwise.
    pub fn failure_domain(&self) -> &str {
        self.get("crush-failure-domain").unwrap_or("host")
    }

    /// What of it will be dropped, in words; `None` if nothing is.
    pub fn stranded(&self) -> Option<String> {
        match self.plugin()? {
            plugin @ ("shec" | "clay") => Some(format!("plug-in {plugin}")),
            "jerasure" => dropped_technique(self.get("technique")),
            "lrc" => self.get("layers").and_then(stranded_layer),
            _ => None,
        }
    }

    /// What `--as` would call its chunks.
    ///
    /// Errors: in words, what cannot be said so.
    pub fn name_of_chunks(&self) -> Result<String, String> {
        let Some(plugin) = self.plugin() else { return Err("the profile names no plugin".into()) };
        // Layers are JSON; what cannot be a word of a name is said for what it is. Ceph's shec
        // ignores a mapping.
        let is_layered = plugin == "lrc" && self.get("mapping").is_some();
        if self.get("layers").is_some() || is_layered {
            return Err(
                "layers= and mapping= are not read here; Ceph keeps the plug-in lrc, and nobody replaces it"
                    .into(),
            );
        }
        if let Some(mapping) = self.get("mapping")
            && plugin != "shec"
            && !is_plain_mapping(mapping, self.number("k").unwrap_or(0))
        {
            return Err(
                "with this mapping= Ceph's own plug-in writes parity over data, and Pantile's refuses it"
                    .into(),
            );
        }
        // Commas of a spec separate no words.
        let separates = |c: char| c.is_whitespace() || c == ',' && plugin != "pantile";
        let is_word = |text: &str| !text.is_empty() && !text.contains(separates);
        let words = self.words.iter().filter(|(key, _)| !key.starts_with("crush-") && *key != "mapping");
        let mut name = String::from("ceph:");
        for (i, (key, value)) in words.enumerate() {
            if !is_word(key) || !is_word(value) {
                return Err(format!("the profile has {key}='{value}', which is no word"));
            }
            name += &format!("{}{key}={value}", if i == 0 { "" } else { " " });
        }
        Ok(name)
    }
}

fn dropped_technique(technique: Option<&str>) -> Option<String> {
    match technique {
        None | Some("reed_sol_van") => None,
        Some(other) => Some(format!("technique {other} of jerasure")),
    }
}

/// What a layer of lrc will lack: its own plug-in or technique, jerasure's reed_sol_van if it names
/// none.
fn stranded_layer(layers: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Text(String),
        Map(BTreeMap<String, String>),
    }
    let layers: Vec<(String, Words)> = serde_json::from_str(layers).ok()?;
    layers.into_iter().find_map(|(_, words)| {
        let words = match words {
            Words::Map(words) => words,
            Words::Text(text) => text
                .split_whitespace()
                .filter_map(|word| word.split_once('='))
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        };
        let words = Profile { words };
        let dropped = match words.plugin() {
            None | Some("jerasure") => dropped_technique(words.get("technique")),
            _ => words.stranded(),
        };
        dropped.map(|what| format!("a layer with {what}"))
    })
}

/// The map of OSDs, alone or in the report of a whole cluster.
#[derive(Deserialize)]
struct RawDump {
    osdmap: Option<Box<RawDump>>,
    pools: Option<Vec<RawPool>>,
    erasure_code_profiles: Option<BTreeMap<String, BTreeMap<String, String>>>,
    require_osd_release: Option<String>,
}

#[derive(Deserialize)]
struct RawPool {
    pool: i64,
    pool_name: String,
    #[serde(rename = "type")]
    kind: i64,
    size: u64,
    pg_num: u64,
    #[serde(default)]
    flags_names: String,
    #[serde(default)]
    stripe_width: u64,
    #[serde(default)]
    erasure_code_profile: String,
    #[serde(default)]
    application_metadata: BTreeMap<String, IgnoredAny>,
}

/// Ceph's number for pools of an erasure code; 1 is replication.
const ERASURE: i64 = 3;

impl Dump {
    /// Reads a dump.
    ///
    /// Errors: [`DumpError`]; of a profile that makes no sense the pool says so, not the dump.
    /// Cost: one pass, and memory for pools and profiles.
    pub fn parse(text: &[u8]) -> Result<Dump, DumpError> {
        if text.len() > LEN_BYTES_MAX {
            return Err(DumpError::TooLong);
        }
        let raw: RawDump =
            serde_json::from_slice(text).map_err(|error| DumpError::Shape(error.to_string()))?;
        let raw = match raw.osdmap {
            Some(map) => *map,
            None => raw,
        };
        let pools = raw.pools.ok_or(DumpError::Missing("pools"))?;
        let profiles = raw.erasure_code_profiles.ok_or(DumpError::Missing("erasure_code_profiles"))?;
        if pools.len() > POOLS_MAX {
            return Err(DumpError::TooManyPools(pools.len()));
        }
        let mut profiles: BTreeMap<String, (Profile, bool)> = profiles
            .into_iter()
            .filter(|(_, words)| {
                words.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() <= PROFILE_BYTES_MAX
            })
            .map(|(name, words)| (name, (Profile { words }, false)))
            .collect();
        let pools = pools
            .into_iter()
            .map(|raw| Pool {
                kind: match raw.kind {
                    ERASURE => {
                        let found = profiles.get_mut(&raw.erasure_code_profile);
                        let profile = found.map(|(profile, is_used)| {
                            *is_used = true;
                            profile.clone()
                        });
                        PoolKind::Erasure { name: raw.erasure_code_profile, profile }
                    }
                    _ => PoolKind::Replicated { size: raw.size },
                },
                name: raw.pool_name,
                id: raw.pool,
                pg_num: raw.pg_num,
                has_overwrites: raw.flags_names.split(',').any(|flag| flag == "ec_overwrites"),
                is_optimised: raw.flags_names.split(',').any(|flag| flag == "ec_optimizations"),
                stripe_bytes: raw.stripe_width,
                applications: raw.application_metadata.into_keys().collect(),
            })
            .collect();
        let unused =
            profiles.into_iter().filter(|(_, (profile, is_used))| !is_used && profile.stranded().is_some());
        let unused_stranded = unused.map(|(name, _)| name).collect();
        Ok(Dump { release: raw.require_osd_release, pools, unused_stranded })
    }
}

impl Pool {
    /// Why a release will not have what the pool needs, as a sentence; `None` if nothing is
    /// dropped.
    pub fn stranded(&self) -> Option<String> {
        let PoolKind::Erasure { profile: Some(profile), .. } = &self.kind else { return None };
        profile.stranded().map(|what| format!("{what}: Ceph {WARNS} warns, Ceph {STRANDS} has it no more"))
    }
}
