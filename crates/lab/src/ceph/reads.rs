//! What a recovery reads: by Ceph's own plug-ins, and by the planner.
//!
//! The share of an object, all chunks that are read in bytes over the bytes of the data, as a mean
//! over all sets of so many lost chunks that can be recovered.
//!
//! Ceph's own, release 16 to 20: jerasure and isa read the first k chunks left. shec tries all sets
//! of parities and takes the least for the lost data alone ([`shec_minimum`]). lrc reads the other
//! chunks of the smallest layer for one chunk; for two nothing is said here. clay reads its rows of
//! d chunks for one, k chunks for two. shec with words of 16 and 32 bits recovers nothing: it ends
//! its OSD.

use super::{Profile, work};
use pantile::code::foreign::{self, Rows, outline};
use pantile::gf::{Gf, Matrix};
use pantile::plan::{Planner, Request};
use pantile::{CellIndex, CellSet, Code, Costs, Effort, Optimality};

/// A mean share of the object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    /// Of the bytes of the data.
    pub share: f64,
    /// Whether nothing reads less.
    pub is_exact: bool,
}

/// Ceph's own reads and the planner's; `None` where it is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// Of Ceph's plug-in. Exact in that it is what Ceph does.
    pub ceph: Option<Reads>,
    /// Of the planner.
    pub planner: Option<Reads>,
}

impl Recovery {
    /// Of what nothing is known.
    pub const UNKNOWN: Recovery = Recovery { ceph: None, planner: None };
}

/// The widest code for which pairs of columns are planned.
const PAIRS_COLUMNS_MAX: usize = 24;
/// The widest code for which single columns are.
const COLUMNS_MAX: usize = 64;
/// The largest stripe whose columns are planned, in cells.
const CELLS_MAX: usize = 4096;

const WHOLE: Reads = Reads { share: 1.0, is_exact: true };

/// Nodes of the search for a plan of a code of one row.
const NODES_MOST: usize = 5_000;

/// What [`of_lost`] takes, in steps of about a nanosecond.
pub(super) fn work_of(chunks: &foreign::Profile, profile: &Profile, lost: usize) -> u64 {
    let code = &read_like(chunks);
    let (columns, parities) = (code.columns(), code.parity().len() / code.rows_max());
    let sets = work::sets(columns, lost);
    let ceph = match profile.plugin() {
        // An elimination of k columns for each set of parities, at the most.
        Some("shec") => sets.saturating_mul((20 + columns.pow(3) as u64 / 10) << parities),
        _ => 0,
    };
    let planner = match is_whole(chunks) || lost > 1 && code.claim().mds || is_too_large(code, lost) {
        true => 0,
        false if code.rows_max() > 1 => sets.saturating_mul(of_parts(code)),
        false => work::of_plans(code, sets, lost, NODES_MOST as u64),
    };
    if lost > chunks.code.claim().tolerance { 0 } else { ceph.saturating_add(planner) }
}

/// One plan of a code of several rows: an elimination over the equations of the rows that are read,
/// or of all where other rows may read less.
fn of_parts(code: &Code) -> u64 {
    let reads_all_others =
        |column| code.partial_repair(column).is_some_and(|part| part.helpers + 1 == code.columns());
    let rows = code
        .partial_repair(0)
        .filter(|_| reads_all_others(0))
        .map_or(code.rows_max(), |part| part.rows.len());
    let equations = (code.equations().len() * rows).div_ceil(code.rows_max()) as u64;
    equations.pow(2).saturating_mul(code.cell_count() as u64) / 8
}

/// The reads where `lost` chunks, one or two, are lost.
pub fn of_lost(chunks: &foreign::Profile, profile: &Profile, lost: usize) -> Recovery {
    if lost > chunks.code.claim().tolerance {
        return Recovery::UNKNOWN;
    }
    let code = &read_like(chunks);
    let planner = match is_whole(chunks) {
        true => Some(WHOLE),
        false if lost == 1 => planned(code, 1),
        // Any k columns do, and of coupled ones nothing less is known.
        false if code.claim().mds => Some(Reads { share: 1.0, is_exact: false }),
        false => planned(code, lost),
    };
    let is_of_words = chunks.rows == Rows::Words;
    // The coefficients are others, by which more or less may suffice.
    let planner = planner.map(|reads| match is_of_words && !chunks.code.claim().mds {
        true => Reads { is_exact: false, ..reads },
        false => reads,
    });
    let ceph = match profile.plugin() {
        Some("shec") if is_of_words => None,
        // The plug-in of Pantile reads what the planner says.
        Some("pantile") => planner,
        _ => of_ceph(code, profile, lost),
    };
    Recovery { ceph, planner }
}

/// The code of which the same columns are read: of words it is one of bytes.
fn read_like(chunks: &foreign::Profile) -> Code {
    let is_of_words = chunks.rows == Rows::Words;
    is_of_words.then(|| outline(&chunks.code)).flatten().unwrap_or_else(|| chunks.code.clone())
}

/// Whether chunks are read whole or not at all: any k do, or packets of the rows lie in turn in
/// them.
fn is_whole(chunks: &foreign::Profile) -> bool {
    let code = &chunks.code;
    match chunks.rows {
        Rows::Packets(_) => true,
        Rows::Words => code.claim().mds,
        Rows::Pieces => code.claim().mds && code.rows_max() == 1,
    }
}

/// Whether nothing is planned.
fn is_too_large(code: &Code, lost: usize) -> bool {
    let most = if lost == 1 { COLUMNS_MAX } else { PAIRS_COLUMNS_MAX };
    code.columns() > most || code.cell_count() > CELLS_MAX
}

fn of_ceph(code: &Code, profile: &Profile, lost: usize) -> Option<Reads> {
    match profile.plugin()? {
        "jerasure" | "isa" => Some(WHOLE),
        "shec" => mean_of(code, lost, |lost| shec_minimum(code, lost).map(|read| (read, true))),
        "lrc" if lost == 1 => {
            let share = profile.number("l")? as f64 / profile.number("k")? as f64;
            Some(Reads { share, is_exact: true })
        }
        "clay" if lost == 1 => {
            let (k, m) = (profile.number("k")?, profile.number("m")?);
            let d = profile.number("d").unwrap_or(k + m - 1);
            Some(Reads { share: d as f64 / ((d - k + 1) * k) as f64, is_exact: true })
        }
        "clay" => Some(WHOLE),
        _ => None,
    }
}

fn planned(code: &Code, lost: usize) -> Option<Reads> {
    if is_too_large(code, lost) {
        return None;
    }
    let effort = match code.rows_max() {
        1 => Effort::Thorough { nodes: NODES_MOST },
        _ => Effort::Fast,
    };
    let (planner, costs) = (Planner::new(code), Costs::uniform());
    mean_of(code, lost, |columns| {
        let lost = CellSet::of_columns(code, columns);
        let wanted: Vec<CellIndex> = lost.iter().collect();
        let plan = planner.recover(&Request { lost: &lost, wanted: &wanted, costs: &costs, effort }).ok()?;
        Some((plan.reads.len(), plan.optimality == Optimality::Exact))
    })
}

/// The mean over all sets of so many columns that can be recovered.
fn mean_of(code: &Code, lost: usize, reads: impl Fn(&[usize]) -> Option<(usize, bool)>) -> Option<Reads> {
    let n = code.columns();
    let sets: Vec<Vec<usize>> = match lost {
        1 => (0..n).map(|a| vec![a]).collect(),
        _ => (0..n).flat_map(|a| (a + 1..n).map(move |b| vec![a, b])).collect(),
    };
    let found: Vec<(usize, bool)> = sets.iter().filter_map(|set| reads(set)).collect();
    let sum: usize = found.iter().map(|(reads, _)| reads).sum();
    (!found.is_empty()).then(|| Reads {
        share: sum as f64 / (found.len() * code.data().len()) as f64,
        is_exact: found.iter().all(|(_, is_exact)| *is_exact),
    })
}

/// How many chunks Ceph's shec reads for the lost ones, which alone are wanted: its
/// `minimum_to_decode`. `None` if it gives up.
///
/// The code has one row and its data columns first.
///
/// Cost: an elimination for each of 2^m sets of parities, at the most.
pub fn shec_minimum(code: &Code, lost: &[usize]) -> Option<usize> {
    let (k, m) = (code.data().len(), code.parity().len());
    let matrix = code.generator();
    let covers = |parity: usize, data: usize| !matrix.get(parity, data).is_zero();
    let is_there = |column: usize| !lost.contains(&column);
    let mut wanted = vec![false; k];
    for &column in lost {
        match column.checked_sub(k) {
            None => wanted[column] = true,
            Some(parity) => (0..k).filter(|&data| covers(parity, data)).for_each(|data| wanted[data] = true),
        }
    }
    let mut best: Option<(Vec<usize>, u32)> = None;
    for set in 0u32..1 << m {
        let parities: Vec<usize> = (0..m).filter(|i| set >> i & 1 == 1).collect();
        let is_larger = best.as_ref().is_some_and(|(_, count)| set.count_ones() > *count);
        if is_larger || !parities.iter().all(|i| is_there(k + i)) {
            continue;
        }
        let covered = |data: usize| parities.iter().any(|&parity| covers(parity, data));
        let columns: Vec<usize> =
            (0..k).filter(|&data| wanted[data] && !is_there(data) || covered(data)).collect();
        let data_rows = (0..k).filter(|&data| covered(data) && is_there(data));
        let rows: Vec<usize> = data_rows.chain(parities.iter().map(|i| k + i)).collect();
        let is_better = best.as_ref().is_none_or(|(read, _)| rows.len() < read.len());
        if rows.len() != columns.len() || !is_better {
            continue;
        }
        if rows.is_empty() {
            best = Some((rows, 0));
            break;
        }
        let square = Matrix::from_fn(rows.len(), columns.len(), |r, c| match rows[r].checked_sub(k) {
            None if rows[r] == columns[c] => Gf::ONE,
            None => Gf::ZERO,
            Some(parity) => matrix.get(parity, columns[c]),
        });
        if square.rank() == rows.len() {
            best = Some((rows, set.count_ones()));
        }
    }
    let (mut read, _) = best?;
    read.extend((0..k).filter(|&data| wanted[data] && is_there(data)));
    read.sort_unstable();
    read.dedup();
    Some(read.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The means that were counted with Ceph 16 itself.
    #[test]
    fn ceph_reads_more_than_the_least_for_two_chunks_of_shec() {
        let chunks = foreign::Profile::parse("ceph:plugin=shec k=6 m=4 c=2 technique=single").unwrap();
        let ceph = mean_of(&chunks.code, 2, |lost| shec_minimum(&chunks.code, lost).map(|read| (read, true)));
        assert_eq!(format!("{:.3}", ceph.unwrap().share), "0.778");
        let least = planned(&chunks.code, 2).unwrap();
        assert_eq!((format!("{:.3}", least.share), least.is_exact), ("0.748".into(), true));
        let one = mean_of(&chunks.code, 1, |lost| shec_minimum(&chunks.code, lost).map(|read| (read, true)));
        assert_eq!((one, planned(&chunks.code, 1)), (Some(Reads { share: 0.5, is_exact: true }), one));
    }
}
