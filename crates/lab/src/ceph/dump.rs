//! Pools and profiles of `ceph osd dump -f json`, or of `ceph report -f json`, which contains it.

use super::{STRANDS, WARNS};
use pantile::code::foreign::{ceph_plugin, is_plain_mapping};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a dump; the dump of a cluster of ten thousand OSDs has some 15 MB.
pub const LEN_BYTES_MAX: usize = 64 << 20;
/// The most pools of a dump.
pub const POOLS_MAX: usize = 10_000;
/// The most bytes of one profile, keys and values.
const PROFILE_BYTES_MAX: usize = 16 << 10;

/// Reason why a text cannot be read as a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// The text has more than [`LEN_BYTES_MAX`] bytes.
    TooLong,
    /// The text is not JSON of the shape that Ceph writes.
    Shape(String),
    /// The dump lacks the list of this name.
    Missing(&'static str),
    /// The dump has this many pools, more than [`POOLS_MAX`].
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

/// The pools of a cluster, and its unused profiles that Ceph will drop.
#[derive(Clone, Debug)]
pub struct Dump {
    /// The oldest release that an OSD of the cluster can have, by Ceph's name.
    pub release: Option<String>,
    /// The pools, in the order of the dump.
    pub pools: Vec<Pool>,
    /// Names of the profiles that Ceph will drop and that no pool uses.
    pub unused_stranded: Vec<String>,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name, as in the dump.
    pub name: String,
    /// Its number in Ceph.
    pub id: i64,
    /// The number of placement groups.
    pub pg_num: u64,
    /// True if parts of objects can be overwritten: the flag `ec_overwrites`.
    pub has_overwrites: bool,
    /// True if Ceph 20 reads and writes parts of stripes in it: the flag `ec_optimizations`.
    pub is_optimised: bool,
    /// Bytes of user data in one stripe; 0 if the dump does not state them.
    pub stripe_bytes: u64,
    /// The applications that use it, such as `rbd`.
    pub applications: Vec<String>,
    /// Its redundancy: copies, or an erasure code.
    pub kind: PoolKind,
}

/// Redundancy of a pool.
#[derive(Clone, Debug)]
pub enum PoolKind {
    /// Copies of each object.
    Replicated {
        /// The number of copies.
        size: u64,
    },
    /// An erasure code, by the plug-in that a profile names.
    Erasure {
        /// The name of the profile.
        name: String,
        /// The profile; `None` if the dump has no profile of this name, or a profile that is too
        /// long.
        profile: Option<Profile>,
    },
}

/// An erasure-code profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    words: BTreeMap<String, String>,
}

impl Profile {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(String::as_str)
    }

    /// Returns the value of a key as a number; `None` if it is not a number.
    pub fn number(&self, key: &str) -> Option<usize> {
        self.get(key)?.parse().ok()
    }

    /// Returns the plug-in that the profile names, without the name of a processor at its end,
    /// which old profiles have.
    pub fn plugin(&self) -> Option<&str> {
        self.get("plugin").map(ceph_plugin)
    }

    /// Returns the type of CRUSH bucket over which the chunks of an object are spread, one in each
    /// bucket; by default `host`.
    pub fn failure_domain(&self) -> &str {
        self.get("crush-failure-domain").unwrap_or("host")
    }

    /// Returns the plug-in or technique that Ceph will drop, in words; `None` if it drops neither.
    pub fn stranded(&self) -> Option<String> {
        match self.plugin()? {
            plugin @ ("shec" | "clay") => Some(format!("plug-in {plugin}")),
            "jerasure" => dropped_technique(self.get("technique")),
            "lrc" => self.get("layers").and_then(stranded_layer),
            _ => None,
        }
    }

    /// Returns the name that selects chunks of this profile in the option `--as`.
    ///
    /// Errors: the reason, in words, why the profile has no such name.
    pub fn name_of_chunks(&self) -> Result<String, String> {
        let Some(plugin) = self.plugin() else { return Err("the profile names no plugin".into()) };
        // Layers are JSON, which the words of a name cannot contain, so the error for them says so.
        // Ceph's shec ignores `mapping`.
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
        // The words of a name end at a comma, but those of Pantile's plug-in contain a spec with
        // commas.
        let separates = |c: char| c.is_whitespace() || c == ',' && plugin != "pantile";
        let is_word = |text: &str| !text.is_empty() && !text.contains(separates);
        let words = self.words.iter().filter(|(key, _)| !key.starts_with("crush-") && *key != "mapping");
        let mut name = String::from("ceph:");
        let is_text = |key: &str| plugin == "pantile" && key == "equations";
        let (texts, words): (Vec<_>, Vec<_>) = words.partition(|(key, _)| is_text(key));
        for (i, (key, value)) in words.into_iter().chain(texts).enumerate() {
            if !is_text(key) && (!is_word(key) || !is_word(value)) {
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

/// Returns the plug-in or technique of a layer of lrc that Ceph will drop. A layer that names none
/// uses jerasure with reed_sol_van.
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

/// The JSON of an OSD map, or of a cluster report, which contains the map in `osdmap`.
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

/// Ceph's number of a pool's type: 3 is an erasure code, 1 is replication.
const ERASURE: i64 = 3;

impl Dump {
    /// Reads a dump.
    ///
    /// Errors: [`DumpError`]. An invalid profile is not an error of the dump; it is reported for
    /// the pools that use it. Cost: one pass, and memory for pools and profiles.
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
    /// Returns a sentence about the plug-in or technique that Ceph will drop, with the releases;
    /// `None` if it drops neither.
    pub fn stranded(&self) -> Option<String> {
        let PoolKind::Erasure { profile: Some(profile), .. } = &self.kind else { return None };
        profile.stranded().map(|what| format!("{what}: Ceph {WARNS} warns, Ceph {STRANDS} has it no more"))
    }
}
