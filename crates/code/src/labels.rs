//! Names for the equations of a code, as drawings use them.
//!
//! Papers draw an array code with numbers for one set of equations and letters for another. Two
//! equations of one set have no cell in common, so each cell has at most one label per set.
//! [`Labels`] finds such sets for any code: equations whose parity cells are in one column of
//! parities belong to one set. Then further equations are added, in order, to a set with which they
//! share no cell. A code of one row per column instead has one letter per equation, as is usual for
//! P and Q.

use crate::{CellIndex, Code};

/// The labels of the equations of a code.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The label of each equation.
    pub of: Vec<Label>,
    /// The number of equations in each set.
    pub sets: Vec<usize>,
    /// For each cell, the equations that contain it, ascending.
    pub touching: Vec<Vec<usize>>,
    /// For each equation, the parity cell that it defines.
    pub defines: Vec<Option<CellIndex>>,
    /// For each cell, by index, the equation that defines it, if it is parity.
    pub defined_by: Vec<Option<usize>>,
}

/// The name of one equation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The text that is drawn.
    pub text: String,
    /// The index of its set.
    pub set: usize,
    /// Its index within the set.
    pub index: usize,
}

impl Labels {
    /// Returns the labels of all equations of a code. Cost: the number of their terms times the
    /// number of sets.
    pub fn new(code: &Code) -> Labels {
        let equations = code.equations();
        let mut touching = vec![Vec::new(); code.cell_count()];
        for (i, equation) in equations.iter().enumerate() {
            equation.terms().iter().for_each(|t| touching[t.0.usize()].push(i));
        }
        let defines = defined_cells(code);
        let mut defined_by = vec![None; code.cell_count()];
        for (i, cell) in defines.iter().enumerate() {
            cell.iter().for_each(|cell| defined_by[cell.usize()] = Some(i));
        }
        let sets = match code.rows_max() {
            1 => vec![(0..equations.len()).collect()],
            _ => disjoint_sets(code, &defines),
        };
        let mut of = vec![Label { text: String::new(), set: 0, index: 0 }; equations.len()];
        for (set, members) in sets.iter().enumerate() {
            for (index, &equation) in members.iter().enumerate() {
                let alphabet = if code.rows_max() == 1 { 1 } else { set };
                of[equation] = Label { text: name(alphabet, index), set, index };
            }
        }
        Labels { of, sets: sets.iter().map(Vec::len).collect(), touching, defines, defined_by }
    }

    /// The equations that contain a cell, in the order in which a drawing shows them: the defining
    /// one first, then the others by their labels.
    pub fn in_cell(&self, cell: CellIndex) -> Vec<usize> {
        let own = self.defined_by[cell.usize()];
        own.into_iter()
            .chain(self.touching[cell.usize()].iter().copied().filter(|&e| Some(e) != own))
            .collect()
    }
}

/// Returns the parity cell that each equation defines: the one that the construction names,
/// otherwise the first free one.
fn defined_cells(code: &Code) -> Vec<Option<CellIndex>> {
    let equations = code.equations();
    let own = |i: usize| {
        let cell = code.parity().get(i).copied()?;
        (!equations[i].coefficient(cell).is_zero()).then_some(cell)
    };
    let mut defines: Vec<Option<CellIndex>> = (0..equations.len()).map(own).collect();
    for i in 0..equations.len() {
        if defines[i].is_none() {
            let free = |cell: &CellIndex| code.is_parity(*cell) && !defines.contains(&Some(*cell));
            let first = equations[i].terms().iter().map(|t| t.0).find(free);
            defines[i] = first;
        }
    }
    defines
}

/// Returns sets of equations. Equations of one set have no common cell, except where they have
/// their parity in one column.
fn disjoint_sets(code: &Code, defines: &[Option<CellIndex>]) -> Vec<Vec<usize>> {
    let only_parity: Vec<bool> =
        (0..code.columns()).map(|c| code.column_cells(c).all(|cell| code.is_parity(cell))).collect();
    // A unit is not split: all equations whose parity cells are in one column of parities only.
    let mut units: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (i, cell) in defines.iter().enumerate() {
        let column = cell.map(|cell| code.column_of(cell)).filter(|&c| only_parity[c] && code.rows(c) > 1);
        match units.iter_mut().find(|(of, _)| of.is_some() && *of == column) {
            Some((_, unit)) => unit.push(i),
            None => units.push((column, vec![i])),
        }
    }
    let mut sets: Vec<(Vec<usize>, Vec<bool>)> = Vec::new();
    for (_, unit) in units {
        let cells: Vec<usize> =
            unit.iter().flat_map(|&e| code.equations()[e].terms()).map(|t| t.0.usize()).collect();
        let place = match sets.iter().position(|(_, taken)| cells.iter().all(|&cell| !taken[cell])) {
            Some(place) => place,
            None => {
                sets.push((Vec::new(), vec![false; code.cell_count()]));
                sets.len() - 1
            }
        };
        sets[place].0.extend(unit);
        cells.iter().for_each(|&cell| sets[place].1[cell] = true);
    }
    sets.into_iter().map(|(members, _)| members).collect()
}

/// Returns the label of an equation: sets use numbers, capitals, small letters, then Greek letters;
/// later sets include the number of the set.
fn name(set: usize, index: usize) -> String {
    match set {
        0 => (index + 1).to_string(),
        1 => letters('A', 26, index),
        2 => letters('a', 26, index),
        3 => letters('α', 17, index),
        _ => format!("{set}/{}", index + 1),
    }
}

/// Returns A, B, ... Z, AA, AB, ... like the columns of a spreadsheet.
fn letters(first: char, count: usize, index: usize) -> String {
    let letter = char::from_u32(first as u32 + (index % count) as u32).unwrap_or('?');
    match index / count {
        0 => letter.to_string(),
        rounds => format!("{}{letter}", letters(first, count, rounds - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_go_on_after_z() {
        let capitals: Vec<String> = [0, 25, 26, 27, 52, 701, 702].iter().map(|&i| name(1, i)).collect();
        assert_eq!(capitals, ["A", "Z", "AA", "AB", "BA", "ZZ", "AAA"]);
        assert_eq!(
            (name(0, 9), name(2, 1), name(3, 16), name(4, 0)),
            ("10".into(), "b".into(), "ρ".into(), "4/1".into())
        );
    }
}
