//! Which state of a set counts, where its shards tell of several.
//!
//! The newest does that what is there suffices for. Of shards that somebody else put among those of
//! this user, or of one user among those of another, that would be whatever the former says, where
//! one shard suffices (beside originals, mirrors): such a state is disputed, and does not count
//! until a person says which shards do.

use super::owners::told_by;
use crate::SealError;
use crate::bounds::{Bounds, Codes};
use crate::copies::combined;
use crate::disk::{Disk, resolve};
use crate::names::parent;
use crate::pin::{Pin, digest_of_manifest};
use crate::records::kept_manifest;
use crate::shard::Candidate;
use pantile::{CellSet, Codec};
use pantile_format::{DIGEST_BYTES, FormatError, Manifest, Mode, Part};
use pantile_trust::{Caller, SOMEBODY};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The state that counts.
pub(super) struct Newest {
    pub(super) manifest: Manifest,
    /// Why a person has to say whether it does.
    pub(super) disputed: Option<SealError>,
}

/// Shards that say the same.
struct State<'c> {
    generation: u64,
    /// The digest of their manifest, where that was compared and can be read.
    manifest: Option<[u8; DIGEST_BYTES as usize]>,
    shards: Vec<&'c Candidate>,
    /// Who can have put them where they are.
    putters: BTreeSet<u32>,
}

/// The state whose manifest is pinned, if one of the shards has that; the newest that what is there
/// suffices for, or the newest if that is so of none.
pub(super) fn newest(
    disk: &dyn Disk,
    shards: &[&Candidate],
    (bounds, pin, records): (Bounds, Option<&Pin>, Option<&Path>),
    codes: &mut Codes,
) -> Result<Newest, FormatError> {
    // What a forger made of some of the shards is no reason to refuse the others.
    let is_pinned = |manifest: &Manifest| pin.is_some_and(|pin| pin.is_of(manifest));
    let mut own = shards.iter().filter(|_| pin.is_some()).filter_map(|shard| shard.manifest(bounds).ok());
    if let Some(manifest) = own.find(is_pinned) {
        return Ok(Newest { manifest, disputed: None });
    }
    let caller = Caller::or_by_sudo();
    let states = states(shards, (disk, &caller), bounds);
    let is_one_generation = states.windows(2).all(|pair| pair[0].generation == pair[1].generation);
    let mut best = None;
    let mut error = FormatError::NotPantile { part: Part::Manifest };
    for state in &states {
        let found = state.shards.iter().find_map(|shard| match shard.manifest(bounds) {
            Ok(manifest) => Some(manifest),
            Err(e) => {
                error = e;
                None
            }
        });
        let kept = || {
            let headers = state.shards.iter().filter_map(|shard| shard.header.as_ref().ok());
            let headers: Vec<_> = headers.map(|(header, _)| header).collect();
            kept_manifest(disk, records?, &headers, bounds)
        };
        let Some(manifest) = found.or_else(|| combined(&state.shards)).or_else(kept) else { continue };
        if is_one_generation || suffices(&manifest, &state.shards, codes) {
            best = Some((state, manifest));
            break;
        }
        best = best.or(Some((state, manifest)));
    }
    let (state, manifest) = best.ok_or(error)?;
    Ok(Newest { manifest, disputed: states.iter().find_map(|other| state.dispute(other, &caller)) })
}

/// The states of which there are shards, the newest first; of one generation that comes first of
/// which a shard was put there by somebody whom the caller trusts, then that of most shards.
///
/// Shards of one generation say the same if one user put them all there, or several whom the caller
/// trusts. Otherwise their manifests are compared, all of them: a header tells one from another by
/// nothing that cannot be forged.
fn states<'c>(
    shards: &[&'c Candidate],
    (disk, caller): (&dyn Disk, &Caller),
    bounds: Bounds,
) -> Vec<State<'c>> {
    let told = |shard: &Candidate| {
        let file = shard.file.as_ref()?.meta().ok()?;
        let dir = || Some(parent(&resolve(disk, &shard.path).ok()?));
        Some(if caller.trusts(file.owner) { told_by(disk, caller, &file, &dir()?) } else { file.owner })
    };
    // Whose it is that cannot be told any more: somebody exchanges what led there.
    let putters: Vec<u32> = shards.iter().map(|shard| told(shard).unwrap_or(SOMEBODY)).collect();
    let others: BTreeSet<Option<u32>> =
        putters.iter().map(|&putter| Some(putter).filter(|&putter| !caller.trusts(putter))).collect();
    let is_of_one = others.len() <= 1;
    let mut by_generation: BTreeMap<u64, Vec<State<'c>>> = BTreeMap::new();
    for (&shard, putter) in shards.iter().zip(putters) {
        let Ok((header, _)) = &shard.header else { continue };
        let manifest = || shard.manifest(bounds).ok().map(|manifest| digest_of_manifest(&manifest));
        let manifest = if is_of_one { None } else { manifest() };
        let states = by_generation.entry(header.generation.0).or_default();
        let at = states.iter().position(|state| state.manifest == manifest).unwrap_or_else(|| {
            let (generation, putters) = (header.generation.0, BTreeSet::new());
            states.push(State { generation, manifest, shards: Vec::new(), putters });
            states.len() - 1
        });
        states[at].shards.push(shard);
        states[at].putters.extend(Some(putter).filter(|_| !is_of_one));
    }
    let mut states: Vec<State<'c>> = by_generation.into_values().flatten().collect();
    states.sort_by_key(|state| Reverse((state.generation, state.is_backed_by(caller), state.shards.len())));
    states
}

impl State<'_> {
    /// Whether one of its shards was put there by somebody whom the caller trusts.
    fn is_backed_by(&self, caller: &Caller) -> bool {
        self.putters.iter().any(|&putter| caller.trusts(putter))
    }

    /// Why this state does not count beside another, if somebody else has put that one's shards
    /// there.
    fn dispute(&self, other: &State<'_>, caller: &Caller) -> Option<SealError> {
        // Of the same generation, without a manifest, it says nothing else.
        let is_other = other.generation != self.generation || other.manifest.is_some();
        if !is_other || self.is_backed_by(caller) || other.putters.is_subset(&self.putters) {
            return None;
        }
        let path = |state: &State<'_>| state.shards.first().map(|shard| shard.path.clone());
        Some(SealError::StateOfAnother {
            path: path(self).unwrap_or_default(),
            owner: self.putters.first().copied().unwrap_or(SOMEBODY),
            generation: self.generation,
            other: path(other).unwrap_or_default(),
            other_generation: other.generation,
        })
    }
}

fn suffices(manifest: &Manifest, shards: &[&Candidate], codes: &mut Codes) -> bool {
    let Ok(code) = codes.make(&manifest.code) else { return false };
    let column = |shard: &&Candidate| shard.header.as_ref().ok().map(|(header, _)| header.column.0 as usize);
    let present: Vec<usize> = shards.iter().filter_map(column).collect();
    let stored = |column: usize| {
        manifest.mode == Mode::Full || code.column_cells(column).any(|cell| code.is_parity(cell))
    };
    let missing: Vec<usize> = (0..code.columns()).filter(|c| !present.contains(c) && stored(*c)).collect();
    let lost = CellSet::of_columns(&code, &missing);
    let wanted: Vec<_> = lost.iter().collect();
    let codec = Codec::new(&code);
    manifest.mode == Mode::Beside || codec.recovery(&lost, &wanted, &pantile::Costs::uniform()).is_ok()
}
