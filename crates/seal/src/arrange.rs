//! Sources that are added to a set or forgotten, if each source has separate columns.
//!
//! A named source that is not known gets a column without a source. If no such column is left, the
//! code first gets more data columns. A separate commit does that, and changes only the columns of
//! the shards: old parity is right for the wider code, whose new columns hold zeros. Then the new
//! source is sealed like new files of any source. A forgotten source is emptied as if its files
//! were removed, and leaves the list by a last commit. After a kill between these commits the next
//! seal continues.

use crate::Fault;
use crate::apply::commit::{Commit, appended, metas};
use crate::first::check_free;
use crate::options::{Progress, SealOptions};
use crate::report::SealReport;
use crate::set::bound::{Bound, bind, data_columns, widened};
use crate::set::grid::Geometry;
use crate::set::names::{path_of, shown};
use crate::set::settle::Listed;
use crate::set::tree::Tree;
use crate::set::{Set, disk_name, record_of};
use crate::update::size_of;
use pantile::{Code, Codec};
use pantile_format::{Manifest, Source, Timestamp};

/// Changes of the list of sources and of the code, beside the changes of content.
#[derive(Default)]
pub(crate) struct Arrangement {
    /// The wider code that the set must get first.
    pub(crate) wider: Option<Code>,
    /// Sources that leave the set, ascending.
    pub(crate) forgotten: Vec<usize>,
}

/// Orders the sources of a tree as the set has them: known sources first, then new ones, which get
/// columns. Sources that share columns stay as they are.
///
/// Errors: a source of the set is missing and is not to be forgotten; the code cannot have more
/// columns.
pub(crate) fn arrange(set: &Set<'_>, options: &SealOptions, tree: &mut Tree) -> Result<Arrangement, Fault> {
    let known = &set.manifest.sources;
    if Bound::of(&set.geometry, set.manifest.mode, known).is_none() {
        return Ok(Arrangement::default());
    }
    let mut all: Vec<Source> = known.clone();
    let mut named = vec![false; known.len()];
    let mut place = Vec::new();
    for source in &tree.sources {
        match known.iter().position(|known| known.prefix == source.prefix) {
            Some(at) => {
                named[at] = true;
                all[at].path = source.path.clone();
                place.push(at as u32);
            }
            None => {
                place.push(all.len() as u32);
                all.push(source.clone());
            }
        }
    }
    let forgotten: Vec<usize> = (0..known.len()).filter(|&at| !named[at]).collect();
    if let Some(&first) = forgotten.first().filter(|_| !options.forget) {
        let name = shown(&disk_name(&known[first]));
        let new = all.get(known.len()).map(|new| path_of(&new.path).to_path_buf());
        let sealed = path_of(&known[first].path);
        let what = format!("disk {name} of the set, sealed from {}, was not named", sealed.display());
        let (what, hint) = match new.map(|new| new.display().to_string()) {
            None => (
                what,
                format!(
                    "name it, say where it is now (--disk {name}=PATH), or that it is to be forgotten (--forget)"
                ),
            ),
            Some(new) => (
                format!("{what}, and {new} is not known"),
                format!(
                    "if they are the same, say --disk {name}={new} in the place of that path; if not, name both, or say \
                     --forget"
                ),
            ),
        };
        return Err(Fault::request(what).at(sealed).hint(hint));
    }
    tree.entries.iter_mut().for_each(|entry| entry.source = place[entry.source as usize]);
    tree.unreadable.iter_mut().for_each(|unread| unread.source = place[unread.source as usize]);
    tree.sources = all;
    let code = set.geometry.codec.code();
    let need = tree.sources.len();
    if need > data_columns(code).len() {
        return Ok(Arrangement { wider: Some(widened(code, need)?), forgotten });
    }
    bind(code, &mut tree.sources)?;
    Ok(Arrangement { wider: None, forgotten })
}

/// Refuses new sources that lack free space, before the set gets columns for them.
pub(crate) fn check_room(set: &Set<'_>, code: &Code, tree: &Tree) -> Result<(), Fault> {
    const CRC_BYTES: u64 = 8;
    let now = &set.manifest;
    let lanes = data_columns(code).into_iter().map(|column| {
        let cells = code.column_cells(column as usize);
        cells.filter(|&cell| !code.is_parity(cell)).count() as u64
    });
    let lanes = lanes.min().unwrap_or(1);
    let mut blocks = vec![0; tree.sources.len()];
    for entry in &tree.entries {
        blocks[entry.source as usize] += now.block_len.blocks(size_of(entry));
    }
    let stripes = blocks.iter().map(|blocks: &u64| blocks.div_ceil(lanes)).fold(now.stripes, u64::max);
    let next = Manifest { entries: tree.entries.clone(), ..now.clone() };
    let crcs = if now.checksums { CRC_BYTES * blocks.iter().sum::<u64>() } else { 0 };
    let widening = metas(set, now.encode().len() as u64, now.stripes);
    let sealing = metas(set, next.encode().len() as u64 + crcs, stripes);
    check_free(set.world.disk, appended(set, stripes - now.stripes).chain(widening).chain(sealing))
}

/// Gives the set a code with more data columns. The set must be opened again afterwards: its shards
/// have other columns.
pub(crate) fn widen(
    set: &mut Set<'_>,
    code: &Code,
    before: &Manifest,
    began: Timestamp,
    progress: &mut dyn Progress,
) -> Result<(), Fault> {
    let geometry = Geometry::new(&Codec::new(code), before.mode, before.block_len);
    let mut manifest = before.clone();
    manifest.generation.0 += 1;
    manifest.lanes = geometry.lanes.len() as u32;
    manifest.code = record_of(code);
    let began = set.sealed_at.unwrap_or(began);
    let commit = Commit {
        slots: &[],
        reserve_stripes: before.stripes,
        began,
        read: Listed::NONE,
        wider: Some(&geometry),
    };
    commit.run(set, manifest, &mut SealReport::default(), progress)
}

/// Removes sources without entries from the set.
pub(crate) fn forget(
    set: &mut Set<'_>,
    forgotten: &[usize],
    began: Timestamp,
    report: &mut SealReport,
    progress: &mut dyn Progress,
) -> Result<(), Fault> {
    if forgotten.is_empty() {
        return Ok(());
    }
    let stays = |at: usize| !forgotten.contains(&at);
    let mut manifest = set.manifest.clone();
    manifest.generation.0 += 1;
    let kept: Vec<usize> = (0..manifest.sources.len()).filter(|&at| stays(at)).collect();
    manifest.sources = kept.iter().map(|&at| set.manifest.sources[at].clone()).collect();
    for entry in &mut manifest.entries {
        entry.source = kept.partition_point(|&at| at < entry.source as usize) as u32;
    }
    set.sources = kept.iter().map(|&at| set.sources[at].clone()).collect();
    let commit =
        Commit { slots: &[], reserve_stripes: manifest.stripes, began, read: Listed::NONE, wider: None };
    commit.run(set, manifest, report, progress)
}
