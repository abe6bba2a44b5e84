//! Names for the equations of a code, as drawings have them.
//!
//! The papers draw an array code with a number for one set of parity groups and a letter for
//! another: two equations of one set have no cell in common, so within a set a label identifies its
//! equation. [`Labels`] finds such sets for any code: equations whose parity lies in one column of
//! parities belong together. A set then takes in further equations that share no cell with it, in
//! order. A code of one row per column has one letter per equation instead, as is usual for P and
//! Q.

use crate::{CellIndex, Code};

/// A label for each equation.
#[derive(Clone, Debug)]
pub struct Labels {
    /// Per equation.
    pub of: Vec<Label>,
    /// The number of equations in each set.
    pub sets: Vec<usize>,
    /// For each cell, the equations that contain it, ascending.
    pub touching: Vec<Vec<usize>>,
    /// For each equation, the parity cell that it defines.
    pub defines: Vec<Option<CellIndex>>,
    /// For each parity cell the equation that defines it (indexed by cell).
    pub defined_by: Vec<Option<usize>>,
}

/// The name of one equation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Text that is drawn.
    pub text: String,
    /// The set it belongs to.
    pub set: usize,
    /// Its place within the set.
    pub index: usize,
}

impl Labels {
    /// Labels of all equations of a code. Cost: their cells, for each set of them.
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

    /// The equations that contain a cell, as drawn in it: the defining one first, the others by
    /// their labels.
    pub fn in_cell(&self, cell: CellIndex) -> Vec<usize> {
        let own = self.defined_by[cell.usize()];
        own.into_iter()
            .chain(self.touching[cell.usize()].iter().copied().filter(|&e| Some(e) != own))
            .collect()
    }
}

/// Parity cell that each equation defines: its own if the construction names one, otherwise the
/// first free one.
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

/// Sets of equations without a common cell, as far as the parity columns allow.
fn disjoint_sets(code: &Code, defines: &[Option<CellIndex>]) -> Vec<Vec<usize>> {
    let only_parity: Vec<bool> =
        (0..code.columns()).map(|c| code.column_cells(c).all(|cell| code.is_parity(cell))).collect();
    // A unit is kept together: all equations whose parity lies in one column of nothing but
    // parities.
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

/// Numbers, then capitals, then small letters, then Greek; sets beyond that carry their number.
fn name(set: usize, index: usize) -> String {
    match set {
        0 => (index + 1).to_string(),
        1 => letters('A', 26, index),
        2 => letters('a', 26, index),
        3 => letters('α', 17, index),
        _ => format!("{set}/{}", index + 1),
    }
}

/// A, B, ... Z, AA, AB, ... as the columns of a spreadsheet are named.
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
