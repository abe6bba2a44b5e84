//! Chooses the state of a set whose shards have several: the newest recoverable one, or the pinned
//! one.

use crate::disk::Disk;
use crate::pin::Pin;
use crate::records::kept_manifest;
use crate::set::bounds::{Bounds, Codes};
use crate::set::copies::combined;
use crate::set::shard::Candidate;
use pantile::{CellSet, Codec};
use pantile_format::{FormatError, Manifest, Mode, Part};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// The shards of one generation and manifest.
struct State<'c> {
    generation: u64,
    shards: Vec<&'c Candidate>,
}

/// Returns the manifest of the pinned state, if a shard has it; else that of the newest recoverable
/// state, or of the newest state if none is recoverable.
pub(super) fn newest(
    disk: &dyn Disk,
    shards: &[&Candidate],
    (bounds, pin, records): (Bounds, Option<&Pin>, Option<&Path>),
    codes: &mut Codes,
) -> Result<Manifest, FormatError> {
    // If some shards are forged, the others are still used.
    let is_pinned = |manifest: &Manifest| pin.is_some_and(|pin| pin.is_of(manifest));
    let mut own = shards.iter().filter(|_| pin.is_some()).filter_map(|shard| shard.manifest(bounds).ok());
    if let Some(manifest) = own.find(is_pinned) {
        return Ok(manifest);
    }
    let states = states(shards);
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
            return Ok(manifest);
        }
        best = best.or(Some(manifest));
    }
    best.ok_or(error)
}

/// Returns the states that shards have, the newest first; within a generation the one with most
/// shards first.
///
/// The header identifies the manifest of a shard. Another manifest of the same generation belongs
/// to another state: that of a forger, or of a copy of the set that was sealed separately.
fn states<'c>(shards: &[&'c Candidate]) -> Vec<State<'c>> {
    let mut by_manifest: BTreeMap<(u64, u64, u64), Vec<&'c Candidate>> = BTreeMap::new();
    for &shard in shards {
        let Ok((header, _)) = &shard.header else { continue };
        let key = (header.generation.0, header.manifest_len, header.manifest_crc.0);
        by_manifest.entry(key).or_default().push(shard);
    }
    let mut states: Vec<State<'c>> =
        by_manifest.into_iter().map(|((generation, ..), shards)| State { generation, shards }).collect();
    states.sort_by_key(|state| Reverse((state.generation, state.shards.len())));
    states
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
