//! What becomes of the pools of a Ceph cluster, from `ceph osd dump -f json` alone: which release
//! strands them, what they bear, what they cost, and how to leave.
//!
//! * [`Dump`]: the part of the dump that is about pools and profiles;
//! * [`Examiner`]: what a profile is, once for each profile;
//! * [`reads`]: what Ceph's own plug-ins read for a recovery;
//! * [`Tree`]: hosts, racks and the size of disks, from `ceph osd tree -f json`;
//! * [`ways_out`]: the commands that take the data of a pool elsewhere.
//!
//! Stranded: Ceph 21 (Umbrella) deprecates the plug-ins shec and clay and all techniques of
//! jerasure but reed_sol_van, with a health warning; Ceph 22 (Vampire) has them no more
//! (ceph/ceph#69026). The plug-ins isa and lrc stay.

mod dump;
pub mod reads;
mod tree;
mod way_out;

pub use dump::{Dump, DumpError, LEN_BYTES_MAX, POOLS_MAX, Pool, PoolKind, Profile};
pub use tree::{Tree, TreeError};
pub(crate) use way_out::is_vandermonde_safe;
pub use way_out::ways_out;

use crate::durability;
use pantile::Code;
use pantile::code::foreign;
use pantile::plan::{ProveOptions, prove};
use reads::{Reads, Recovery};
use std::collections::BTreeMap;

/// The release that warns of what it is about to drop.
pub const WARNS: u32 = 21;
/// The first release without it.
pub const STRANDS: u32 = 22;

/// So many different profiles are examined, each of which may take seconds; what comes then is
/// listed without its numbers.
pub const EXAMINED_MAX: usize = 64;

/// What a code is worth to a pool.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The code here.
    pub code: Code,
    /// Any so many OSDs may be lost, proved by trying all sets; at most the claim.
    pub proved: usize,
    /// Stored bytes per byte of user data.
    pub overhead: f64,
    /// What is read when one OSD is lost.
    pub one: Recovery,
    /// What is read when two are.
    pub two: Recovery,
    /// How likely a loss is.
    pub durability: Durability,
}

/// How likely one set of disks loses data, by the estimator of the lab.
#[derive(Clone, Debug)]
pub struct Durability {
    /// Mean years to a loss.
    pub mttdl_years: f64,
    /// How far no loss within a year is certain: 4 for 99.99 %.
    pub nines: f64,
    /// The code that stands for one of many rows, of which as many columns may be lost, and a
    /// rebuild reads as many whole columns.
    pub stands_for_it: Option<String>,
}

/// Examines profiles, each once.
pub struct Examiner {
    threads: usize,
    known: BTreeMap<String, Result<Examined, String>>,
}

impl Examiner {
    /// So many threads; they change no number.
    pub fn new(threads: usize) -> Examiner {
        Examiner { threads, known: BTreeMap::new() }
    }

    /// What is known of a profile, or why nothing is.
    ///
    /// Cost: up to some seconds for a profile that was not seen before.
    pub fn examine(&mut self, profile: &Profile) -> Result<Examined, String> {
        let name = profile.name_of_chunks()?;
        if let Some(known) = self.known.get(&name) {
            return known.clone();
        }
        if self.known.len() >= EXAMINED_MAX {
            return Err(format!(
                "not examined: the dump has more than {EXAMINED_MAX} different profiles in use"
            ));
        }
        let found = foreign::Profile::parse(&name)
            .map_err(|error| error.to_string())
            .and_then(|chunks| examined(&chunks, profile, self.threads));
        self.known.insert(name, found.clone());
        found
    }
}

fn examined(chunks: &foreign::Profile, profile: &Profile, threads: usize) -> Result<Examined, String> {
    let code = &chunks.code;
    let limits = ProveOptions {
        lost_most: Some(code.claim().tolerance),
        sets_most: 2_000_000,
        work_most: 500_000_000,
        sample: 1000,
        threads,
        ..ProveOptions::default()
    };
    let proved = prove(code, &limits, &|_, _, _| true).tolerance().min(code.claim().tolerance);
    Ok(Examined {
        proved,
        overhead: 1.0 / code.rate(),
        one: reads::of_lost(chunks, profile, 1),
        two: reads::of_lost(chunks, profile, 2),
        durability: durability_of(code, threads)?,
        code: code.clone(),
    })
}

fn durability_of(code: &Code, threads: usize) -> Result<Durability, String> {
    let options = durability::Options { cycles: 0, threads, ..durability::Options::default() };
    let one_row = durability::stand_in(code);
    let found = durability::examine(one_row.as_ref().unwrap_or(code), &options);
    let found = found.map_err(|refusal| refusal.to_string())?;
    Ok(Durability {
        mttdl_years: found.hours / durability::HOURS_PER_YEAR,
        nines: found.nines(),
        stands_for_it: one_row.map(|code| code.spec().to_string()),
    })
}

/// The disks of the estimate, as a sentence.
pub fn durability_inputs() -> String {
    durability::assumptions(&durability::Options::default())
}

/// A recovery as the share of an object that is read.
pub fn share(reads: Option<Reads>) -> String {
    match reads {
        None => "-".into(),
        Some(Reads { share, is_exact }) => format!("{}{share:.3}", if is_exact { "" } else { "~" }),
    }
}
