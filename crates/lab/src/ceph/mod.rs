//! Report on the pools of a Ceph cluster, from `ceph osd dump -f json` alone: the release that
//! drops their plug-in, the losses that they tolerate, their cost, and the commands to move their
//! data.
//!
//! * [`Dump`]: pools and profiles of the dump;
//! * [`examine`]: tolerance, cost and durability of profiles, within the allowed work;
//! * [`reads`]: the chunks that Ceph's own plug-ins read for a recovery;
//! * [`Tree`]: hosts, racks and the size of disks, from `ceph osd tree -f json`;
//! * [`ways_out`]: the commands that move the data of a pool to another one.
//!
//! Stranded: Ceph 21 (Umbrella) deprecates the plug-ins shec and clay, and all techniques of
//! jerasure but reed_sol_van, with a health warning; Ceph 22 (Vampire) removes them
//! (ceph/ceph#69026). The plug-ins isa and lrc stay.

mod dump;
pub mod export;
pub mod fold;
pub mod lies;
pub mod reads;
mod tree;
mod way_out;
mod work;

pub use dump::{Dump, DumpError, LEN_BYTES_MAX, POOLS_MAX, Pool, PoolKind, Profile};
pub use tree::{Tree, TreeError};
pub(crate) use way_out::is_vandermonde_safe;
pub use way_out::{NoWayOut, ways_out};
pub use work::EFFORT_STEPS;

use crate::durability;
use pantile::Code;
use pantile::code::foreign;
use pantile::plan::{ProveOptions, prove};
use reads::{Reads, Recovery};
use std::collections::BTreeMap;
use work::Purse;

/// The release of Ceph that warns of the plug-ins and techniques that the next one removes.
pub const WARNS: u32 = 21;
/// The first release without these plug-ins and techniques.
pub const STRANDS: u32 = 22;

/// The most profiles that are examined; later ones are listed without numbers.
pub const EXAMINED_MAX: usize = 64;

/// How pools are examined.
#[derive(Clone, Debug)]
pub struct Options {
    /// The work allowed for all profiles together, in steps of about a microsecond.
    pub effort_steps: u64,
    /// The disks and failure domains of the cluster, if they are known.
    pub tree: Option<Tree>,
    /// Threads; they change no number.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { effort_steps: EFFORT_STEPS, tree: None, threads: 1 }
    }
}

/// Findings for one profile.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The code of the profile.
    pub code: Code,
    /// The proved tolerance: any set of this many OSDs can be lost. It is at most the claim.
    pub proved: usize,
    /// Stored bytes per byte of user data.
    pub overhead: f64,
    /// Bytes read to recover one lost OSD.
    pub one: Recovery,
    /// Bytes read to recover two lost OSDs.
    pub two: Recovery,
    /// Durability of the code; `None` if computing it would exceed the allowed work.
    pub durability: Option<Durability>,
    /// Names of the numbers that were not computed, because they would exceed the allowed work.
    pub left_out: Vec<&'static str>,
}

/// Probability that one set of disks loses data, by the estimator of the lab.
#[derive(Clone, Debug)]
pub struct Durability {
    /// Mean years to a loss.
    pub mttdl_years: f64,
    /// The nines of the probability that a year brings no loss: 4 for 99.99 %.
    pub nines: f64,
    /// Spec of the code of one row that was examined in place of a code of many rows, see
    /// [`durability::stand_in`]; `None` if the code itself was examined.
    pub stands_for_it: Option<String>,
}

/// Findings for the profiles of a dump.
#[derive(Debug)]
pub struct Findings {
    options: Options,
    known: BTreeMap<String, Result<Examined, String>>,
    /// The effort that would suffice for all numbers, including those that were not computed.
    pub suffices_steps: u64,
}

/// A profile that is being examined.
struct Open<'p> {
    key: String,
    profile: &'p Profile,
    chunks: foreign::Profile,
}

/// Examines profiles, each once, within the work that the options allow for all of them.
///
/// Small codes come first, so that a large one cannot use up the work that they need. `progress`
/// receives the number of parts done and of all parts, two for each profile.
pub fn examine<'p>(
    profiles: impl IntoIterator<Item = &'p Profile>,
    options: &Options,
    progress: &dyn Fn(usize, usize),
) -> Findings {
    let mut known = BTreeMap::new();
    let mut open: Vec<Open<'p>> = Vec::new();
    for profile in profiles {
        let Ok(name) = profile.name_of_chunks() else { continue };
        let key = key(&name, profile, options);
        if known.len() + open.len() >= EXAMINED_MAX
            || known.contains_key(&key)
            || open.iter().any(|o| o.key == key)
        {
            continue;
        }
        match foreign::Profile::parse(&name) {
            Ok(chunks) => open.push(Open { key, profile, chunks }),
            Err(error) => _ = known.insert(key, Err(error.to_string())),
        }
    }
    open.sort_by_key(|open| open.chunks.code.equations().len() * open.chunks.code.cell_count());
    let mut purse = Purse::new(options.effort_steps);
    let of = 2 * open.len();
    let found: Vec<Result<Examined, String>> = open
        .iter()
        .enumerate()
        .map(|(i, open)| {
            progress(i, of);
            open.examined(options, &mut purse)
        })
        .collect();
    for (i, (open, mut found)) in open.into_iter().zip(found).enumerate() {
        progress(of / 2 + i, of);
        if let Ok(found) = &mut found {
            found.prove(options.threads, &mut purse, of / 2 - i);
        }
        known.insert(open.key, found);
    }
    Findings { options: options.clone(), known, suffices_steps: purse.suffices() }
}

/// Returns a key; profiles with equal keys have equal findings.
fn key(name: &str, profile: &Profile, options: &Options) -> String {
    match &options.tree {
        None => name.to_string(),
        Some(_) => format!("{name} {}", profile.failure_domain()),
    }
}

impl Findings {
    /// Returns the findings for a profile, or the reason why there are none.
    pub fn of(&self, profile: &Profile) -> Result<&Examined, String> {
        let name = profile.name_of_chunks()?;
        match self.known.get(&key(&name, profile, &self.options)) {
            Some(found) => found.as_ref().map_err(String::clone),
            None => {
                Err(format!("not examined: the dump has more than {EXAMINED_MAX} different profiles in use"))
            }
        }
    }
}

impl Open<'_> {
    /// Returns the findings without the proof of the claim.
    fn examined(&self, options: &Options, purse: &mut Purse) -> Result<Examined, String> {
        let code = &self.chunks.code;
        let mut left_out = Vec::new();
        let mut reads = |lost: usize, what: &'static str| match purse.pays(reads::work_of(
            &self.chunks,
            self.profile,
            lost,
        )) {
            true => reads::of_lost(&self.chunks, self.profile, lost),
            false => {
                left_out.push(what);
                Recovery::UNKNOWN
            }
        };
        let (one, two) = (reads(1, "what one lost chunk reads"), reads(2, "what two lost chunks read"));
        let durability = self.durability(options, purse)?;
        if durability.is_none() {
            left_out.push("nines");
        }
        Ok(Examined {
            proved: 0,
            overhead: 1.0 / code.rate(),
            one,
            two,
            durability,
            code: code.clone(),
            left_out,
        })
    }

    fn durability(&self, options: &Options, purse: &mut Purse) -> Result<Option<Durability>, String> {
        let one_row = durability::stand_in(&self.chunks.code);
        let code = one_row.as_ref().unwrap_or(&self.chunks.code);
        let disks = disks(options.tree.as_ref(), self.profile.failure_domain());
        if !purse.pays(work::of_durability(code, &disks)) {
            return Ok(None);
        }
        let usual = durability::Options::default();
        let found = durability::examine(
            code,
            &durability::Options { disks, cycles: 0, threads: options.threads, ..usual },
        );
        let found = found.map_err(|refusal| refusal.to_string())?;
        Ok(Some(Durability {
            mttdl_years: found.hours / durability::HOURS_PER_YEAR,
            nines: found.nines(),
            stands_for_it: one_row.map(|code| code.spec().to_string()),
        }))
    }
}

impl Examined {
    /// Proves the claim as far as one of `shares` equal shares of the remaining work allows.
    fn prove(&mut self, threads: usize, purse: &mut Purse, shares: usize) {
        let claimed = self.code.claim().tolerance;
        let limits = ProveOptions {
            lost_most: Some(claimed),
            sets_most: 2_000_000,
            work_all: purse.share(shares),
            // A sample proves nothing.
            sample: 0,
            threads,
            ..ProveOptions::default()
        };
        let certificate = prove(&self.code, &limits, &|_, _, _| true);
        purse.paid(certificate.work);
        self.proved = certificate.tolerance().min(claimed);
    }
}

/// Returns the disks of a pool, with the domains whose disks are lost together.
///
/// Without a tree these are the default disks, which fail one by one. A pool whose failure domain
/// is the OSD counts as spread over the hosts as evenly as possible.
fn disks(tree: Option<&Tree>, failure_domain: &str) -> durability::Disks {
    let usual = durability::Disks::default();
    let Some(tree) = tree else { return usual };
    let domains = match failure_domain {
        "rack" if tree.racks > 0 => tree.domains("rack", LOST_PER_YEAR),
        _ => tree.domains("host", LOST_PER_YEAR),
    };
    durability::Disks { len_bytes: tree.mean_tib * (1u64 << 40) as f64, domains: domains.ok(), ..usual }
}

/// The probability that a host or a rack is lost for good within a year.
const LOST_PER_YEAR: f64 = 0.001;

/// Returns the assumptions about disks and domains in words.
pub fn durability_inputs(tree: Option<&Tree>) -> String {
    // `assumptions` would describe the domains of one pool; the sentence below is about all pools.
    let disks = durability::Disks { domains: None, ..disks(tree, "") };
    let of_disks = durability::assumptions(&durability::Options { disks, ..durability::Options::default() });
    let Some(Tree { osds, hosts, racks, .. }) = tree else { return of_disks };
    format!(
        "{of_disks} The tree has {osds} OSDs with a weight on {hosts} hosts and {racks} racks. Chunks lie on different \
         hosts, or racks where crush-failure-domain says so, as evenly as they can, and each host or rack is lost for good \
         with all its disks with a probability of {} % a year.",
        LOST_PER_YEAR * 100.0
    )
}

/// Returns the bytes that a recovery reads as a share of the object, in text; `~` marks a share
/// that is not exact.
pub fn share(reads: Option<Reads>) -> String {
    match reads {
        None => "-".into(),
        Some(Reads { share, is_exact }) => format!("{}{share:.3}", if is_exact { "" } else { "~" }),
    }
}
