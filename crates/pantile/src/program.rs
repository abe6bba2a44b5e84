//! A plan made ready to run: its steps as dot products over the cells of a stripe.

use pantile_code::CellIndex;
use pantile_kernel::Dot;
use pantile_plan::Step;
use std::mem::take;

/// Bytes of every cell that are worked on before the next: what a group of steps writes is still near when the next
/// group reads it.
const TILE_BYTES: usize = 16 * 1024;

/// Steps that need nothing of each other, computed in one pass over their sources.
#[derive(Debug)]
struct Group {
    dot: Dot,
    sources: Vec<usize>,
    outputs: Vec<usize>,
}

/// Immutable once made; runs on any stripe of the code.
#[derive(Debug)]
pub(crate) struct Program {
    groups: Vec<Group>,
}

impl Program {
    pub(crate) fn new(steps: &[Step]) -> Program {
        let mut groups: Vec<Vec<&Step>> = Vec::new();
        for step in steps {
            let joins = groups.last().is_some_and(|group: &Vec<&Step>| belong_together(group, step));
            match groups.last_mut() {
                Some(group) if joins => group.push(step),
                _ => groups.push(vec![step]),
            }
        }
        Program { groups: groups.iter().map(|group| Group::new(group)).collect() }
    }

    /// Runs on cells of one common length; the caller has checked that they are a stripe.
    pub(crate) fn run(&self, cells: &mut [&mut [u8]]) {
        let len = cells.first().map_or(0, |cell| cell.len());
        let tile = if self.groups.len() > 1 { TILE_BYTES } else { usize::MAX };
        let mut start = 0;
        while start < len {
            let end = len.min(start.saturating_add(tile));
            for group in &self.groups {
                group.run(cells, start, end);
            }
            start = end;
        }
    }
}

/// Whether a step may be computed with a group: it uses none of its results, and mostly its sources.
fn belong_together(group: &[&Step], step: &Step) -> bool {
    let uses = |cell: CellIndex| step.terms.iter().any(|t| t.0 == cell);
    if group.iter().any(|other| uses(other.target)) {
        return false;
    }
    let shared = group[0].terms.iter().filter(|t| uses(t.0)).count();
    2 * shared >= step.terms.len()
}

impl Group {
    fn new(steps: &[&Step]) -> Group {
        let mut sources: Vec<usize> =
            steps.iter().flat_map(|s| s.terms.iter().map(|t| t.0.usize())).collect();
        sources.sort_unstable();
        sources.dedup();
        let place = |cell: CellIndex| sources.partition_point(|&s| s < cell.usize());
        let rows: Vec<Vec<(usize, u8)>> =
            steps.iter().map(|s| s.terms.iter().map(|&(cell, c)| (place(cell), c.0)).collect()).collect();
        let Ok(dot) = Dot::new(sources.len(), &rows) else {
            unreachable!("sources are numbered by the line above")
        };
        Group { dot, outputs: steps.iter().map(|s| s.target.usize()).collect(), sources }
    }

    fn run(&self, cells: &mut [&mut [u8]], start: usize, end: usize) {
        let mut taken: Vec<&mut [u8]> = self.outputs.iter().map(|&cell| take(&mut cells[cell])).collect();
        let sources: Vec<&[u8]> = self.sources.iter().map(|&cell| &cells[cell][start..end]).collect();
        let mut outputs: Vec<&mut [u8]> = taken.iter_mut().map(|cell| &mut cell[start..end]).collect();
        let Ok(()) = self.dot.apply(&sources, &mut outputs) else {
            unreachable!("all cells have one length")
        };
        for (&cell, buffer) in self.outputs.iter().zip(taken) {
            cells[cell] = buffer;
        }
    }
}
