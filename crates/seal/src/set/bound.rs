//! Sources that are disks: beside the originals, each of several sources has separate data columns.
//!
//! A lost disk loses only its own blocks, so t lost sources cost at most t columns. A code of
//! tolerance t therefore recovers any t sources, whatever their sizes; parity is as long as the
//! longest of them. Columns without a source are blocks of zeros: free space for later sources.
//!
//! Invariant: the blocks of a file are on lanes of its source's columns, and no two sources share a
//! column.
//!
//! Deliberately not here: sources that share all columns, as one source does, are placed by
//! [`Apart`](crate::set::grid::Apart).

use crate::Fault;
use crate::set::grid::Geometry;
use pantile::Code;
use pantile_format::{Mode, Source};

/// The lanes of each source, by the index of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    lanes: Vec<Vec<u32>>,
}

impl Bound {
    /// Returns the lanes of each source; `None` if the sources share all columns. A set with
    /// contradictory columns counts as one that shares them.
    pub(crate) fn of(geometry: &Geometry, mode: Mode, sources: &[Source]) -> Option<Bound> {
        let code = geometry.codec.code();
        let mut taken = vec![false; code.columns()];
        let mut lanes = Vec::new();
        for source in sources {
            let columns = source.fields.columns();
            for &column in &columns {
                let free = taken.get_mut(column as usize).filter(|taken| !**taken)?;
                *free = true;
            }
            let is_own = |cell: pantile::CellIndex| columns.contains(&(code.column_of(cell) as u32));
            let own: Vec<u32> = (0u32..)
                .zip(&geometry.lanes)
                .filter(|(_, cell)| is_own(**cell))
                .map(|(lane, _)| lane)
                .collect();
            if own.is_empty() {
                return None;
            }
            lanes.push(own);
        }
        (mode == Mode::Beside).then_some(Bound { lanes })
    }

    pub(crate) fn lanes(&self, source: u32) -> &[u32] {
        &self.lanes[source as usize]
    }
}

/// Returns the columns of a code that hold data, ascending.
pub(crate) fn data_columns(code: &Code) -> Vec<u32> {
    let holds_data = |column: &usize| code.column_cells(*column).any(|cell| !code.is_parity(cell));
    (0..code.columns()).filter(holds_data).map(|column| column as u32).collect()
}

/// Gives every source without a column the next free one.
///
/// Errors: there are too few columns; then no source gets one.
pub(crate) fn bind(code: &Code, sources: &mut [Source]) -> Result<(), Fault> {
    let taken: Vec<u32> = sources.iter().flat_map(|source| source.fields.columns()).collect();
    let mut free = data_columns(code).into_iter().filter(|column| !taken.contains(column));
    let without: Vec<usize> =
        (0..sources.len()).filter(|&index| sources[index].fields.columns().is_empty()).collect();
    let given: Vec<u32> = free.by_ref().take(without.len()).collect();
    if given.len() < without.len() {
        return Err(too_few(code, sources.len()));
    }
    for (index, column) in without.into_iter().zip(given) {
        sources[index].fields.set_columns(&[column]);
    }
    Ok(())
}

fn too_few(code: &Code, sources: usize) -> Fault {
    let columns = data_columns(code).len();
    let spec = code.spec();
    let what = format!(
        "beside the originals each of {sources} sources has a data column of its own, and {spec} has {columns}, which cannot \
         be more without computing all parity again"
    );
    let such = match sources {
        0..=255 => format!("raid6:{sources}"),
        _ => "one of several sets".into(),
    };
    Fault::request(what).hint(format!(
        "seal to another directory with a code of {sources} data columns or more, such as {such}"
    ))
}

/// Returns a code with more data columns for which old parity stays right: all coefficients stay
/// the same, and the new columns follow the old data columns.
///
/// Errors: the code has no form with more columns, or that form has other coefficients.
pub(crate) fn widened(code: &Code, columns: usize) -> Result<Code, Fault> {
    let have = data_columns(code).len();
    let wider = || {
        let spec = code.spec();
        let (family, numbers) = spec.split_once(':')?;
        let digits = numbers.bytes().take_while(u8::is_ascii_digit).count();
        let wider = Code::parse(&format!("{family}:{columns}{}", &numbers[digits..])).ok()?;
        continues(code, &wider, columns - have).then_some(wider)
    };
    (columns > have).then(wider).flatten().ok_or_else(|| too_few(code, columns))
}

/// True if `wider` is the code with more data columns behind its own, and the same coefficients.
fn continues(code: &Code, wider: &Code, more: usize) -> bool {
    let have = data_columns(code);
    let is_ahead = have.iter().enumerate().all(|(i, &column)| column as usize == i);
    let same_shape = wider.columns() == code.columns() + more
        && wider.parity().len() == code.parity().len()
        && wider.claim().tolerance >= code.claim().tolerance
        && data_columns(wider).len() == have.len() + more;
    if !is_ahead || !same_shape {
        return false;
    }
    // Compares cell by cell: a data cell stays where it is, a parity cell moves behind the new
    // columns.
    let place = |code: &Code, cell| (code.column_of(cell), code.cell(cell).row);
    let same_parity = code.parity().iter().zip(wider.parity()).all(|(&old, &new)| {
        let (column, row) = place(code, old);
        place(wider, new) == (column + more, row)
    });
    let (old, new) = (code.generator(), wider.generator());
    let data = code.cells().filter(|&cell| !code.is_parity(cell));
    same_parity
        && data.into_iter().all(|cell| {
            let there = wider.cells().find(|&other| place(wider, other) == place(code, cell));
            let positions = code.data_position(cell).zip(there.and_then(|other| wider.data_position(other)));
            positions.is_some_and(|(at, to)| {
                (0..code.parity().len()).all(|row| old.get(row, at) == new.get(row, to))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::grid::{Allocator, Grid};
    use pantile::{CellSet, Codec, Costs};
    use pantile_format::{BlockLen, Entry, EntryKind, Fields, Timestamp};

    fn sources(count: usize) -> Vec<Source> {
        let source = |i: usize| Source {
            path: format!("/disk{i}").into_bytes(),
            prefix: format!("disk{i}").into_bytes(),
            fields: Fields::default(),
        };
        (0..count).map(source).collect()
    }

    fn geometry(spec: &str) -> Geometry {
        Geometry::new(&Codec::new(&Code::parse(spec).unwrap()), Mode::Beside, BlockLen::LEAST)
    }

    fn file(source: u32, extents: Vec<pantile_format::Extent>) -> Entry {
        let kind = EntryKind::File { size: 0, extents, crcs: vec![] };
        let mtime = Timestamp { seconds: 0, nanos: 0 };
        Entry { source, path: vec![], mode: 0, mtime, kind, fields: Fields::default() }
    }

    /// Returns all combinations of `size` numbers below n.
    fn choices(n: usize, size: usize) -> Vec<Vec<usize>> {
        (0..1u32 << n)
            .filter(|bits| bits.count_ones() as usize == size)
            .map(|bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
            .collect()
    }

    /// Any t lost sources and shards are recovered, whatever files were added and removed before.
    #[test]
    fn any_t_sources_and_shards_that_are_lost_come_back() {
        for (spec, count) in [
            ("raid5:3", 3),
            ("raid6:3", 3),
            ("raid6:8", 6),
            ("raidq:6+3", 6),
            ("cauchy:6+3", 6),
            ("rs:6+3", 5),
            ("rdp:7", 5),
            ("evenodd:5", 4),
            ("dcode:7", 6),
            ("xcode:5", 5),
        ] {
            let geometry = geometry(spec);
            let code = geometry.codec.code();
            let count = data_columns(code).len().min(count);
            let mut sources = sources(count);
            bind(code, &mut sources).unwrap();
            let bound = Bound::of(&geometry, Mode::Beside, &sources).unwrap();
            for seed in 1..6u64 {
                let mut state = seed;
                let mut number = |below: u64| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) % below
                };
                let (mut entries, mut stripes): (Vec<Entry>, u64) = (Vec::new(), 0);
                for _ in 0..6 {
                    let new: Vec<(u32, u64)> = (0..10)
                        .map(|_| (number(count as u64) as u32, number(20) * (1 + number(6))))
                        .collect();
                    let grid = Grid::new(geometry.lanes.len(), &entries);
                    let mut allocator = Allocator::new_bound(&grid, stripes, &bound, &new);
                    for &(source, blocks) in &new {
                        let extents = allocator.take_on(blocks, bound.lanes(source));
                        assert_eq!(extents.iter().map(|extent| extent.count).sum::<u64>(), blocks);
                        entries.push(file(source, extents));
                    }
                    stripes = allocator.stripes;
                    let gone = number(entries.len() as u64) as usize;
                    entries[gone] = file(0, vec![]);
                }
                // No blocks overlap, and each source has separate lanes.
                let mut taken = std::collections::HashSet::new();
                for entry in &entries {
                    let EntryKind::File { extents, .. } = &entry.kind else { unreachable!() };
                    for extent in extents {
                        assert!(bound.lanes(entry.source).contains(&extent.lane.0), "{spec} {seed}");
                        for stripe in extent.first.0..extent.first.0 + extent.count {
                            assert!(stripe < stripes && taken.insert((extent.lane, stripe)), "{spec} {seed}");
                        }
                    }
                }
            }
            // A source has at most all its lanes in a stripe; a shard has the parity of its column.
            let shards: Vec<usize> = geometry.stored_columns().collect();
            let tolerance = code.claim().tolerance;
            for lost in choices(count + shards.len(), tolerance) {
                let mut cells = CellSet::empty(code);
                for which in lost {
                    match which.checked_sub(count) {
                        None => bound.lanes[which]
                            .iter()
                            .for_each(|&lane| cells.insert(geometry.lanes[lane as usize])),
                        Some(shard) => {
                            geometry.parity[shards[shard]].iter().for_each(|&cell| cells.insert(cell))
                        }
                    }
                }
                let wanted: Vec<_> = cells.iter().collect();
                assert!(
                    geometry.codec.recovery(&cells, &wanted, &Costs::uniform()).is_ok(),
                    "{spec}: {wanted:?}"
                );
            }
        }
    }

    #[test]
    fn parity_is_as_long_as_the_longest_source() {
        for (spec, rows) in [("raid6:4", 1), ("rdp:5", 4)] {
            let geometry = geometry(spec);
            let mut sources = sources(3);
            bind(geometry.codec.code(), &mut sources).unwrap();
            let bound = Bound::of(&geometry, Mode::Beside, &sources).unwrap();
            let files: Vec<(u32, u64)> = [(0, 7), (1, 100), (1, 301), (2, 50)].into();
            let empty = Grid::new(geometry.lanes.len(), &[]);
            let allocator = Allocator::new_bound(&empty, 0, &bound, &files);
            assert_eq!(allocator.stripes, 401u64.div_ceil(rows), "{spec}");
        }
    }

    #[test]
    fn a_code_is_widened_only_where_old_parity_stays_right() {
        for (spec, wider) in [
            ("raid5:3", "raid5:4"),
            ("raid6:3", "raid6:6"),
            ("raidq:4+3", "raidq:7+3"),
            ("raidq:4+4,x125", "raidq:5+4,x125"),
            ("cauchy:3+3", "cauchy:9+3"),
        ] {
            let (code, wider) = (Code::parse(spec).unwrap(), Code::parse(wider).unwrap());
            let columns = data_columns(&wider).len();
            assert_eq!(widened(&code, columns).unwrap().fingerprint(), wider.fingerprint(), "{spec}");
        }
        for spec in ["rs:3+2", "rdp:5", "evenodd:5", "dcode:5", "lrc:6,2,2", "shec:4,3,2", "mirror:3"] {
            let code = Code::parse(spec).unwrap();
            let columns = data_columns(&code).len() + 1;
            let refused = widened(&code, columns).map_err(|fault| fault.what);
            assert!(refused.unwrap_err().contains("has a data column of its own"), "{spec}");
        }
        let refused = widened(&Code::parse("raid6:255").unwrap(), 256).map_err(|fault| fault.hint);
        assert!(refused.unwrap_err().ends_with("one of several sets"));
    }

    #[test]
    fn columns_that_cannot_be_are_no_ones() {
        let geometry = geometry("raid6:3");
        for columns in [[vec![0], vec![0]], [vec![0], vec![]], [vec![0], vec![3]], [vec![0], vec![99]]] {
            let mut sources = sources(2);
            sources.iter_mut().zip(&columns).for_each(|(source, columns)| source.fields.set_columns(columns));
            assert_eq!(Bound::of(&geometry, Mode::Beside, &sources), None, "{columns:?}");
        }
    }
}
