//! Names for what a code contains: groups, labels, symbols, and the equations behind a step.
//!
//! The papers draw an array code with a number for one set of parity groups and a letter for
//! another: two equations of one set have no cell in common, so within a set a label says
//! everything. [`Labels`] finds such sets for any code: equations whose parity lies in one column
//! of parities belong together, and a set takes in whatever has no cell in common with what it
//! holds, first come first served. A code of one row per column has one letter per equation
//! instead, as nobody thinks of P and Q in any other way.

use pantile::code::Equation;
use pantile::gf::{Gf, Matrix};
use pantile::plan::Step;
use pantile::{CellIndex, Code};

/// A label for each equation.
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
    /// What is drawn.
    pub text: String,
    /// The set it belongs to.
    pub set: usize,
    /// Its place within the set.
    pub index: usize,
}

impl Labels {
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

/// Which parity cell each equation defines: its own where the construction says so, else the first
/// that is free.
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

/// `D[1][3]` or `P[5][1]`, as the papers write it.
pub fn symbol(code: &Code, cell: CellIndex) -> String {
    let kind = if code.is_parity(cell) { 'P' } else { 'D' };
    format!("{kind}{}", code.cell(cell))
}

/// One term: the symbol, after its coefficient in hex where that is not 1.
pub fn term(code: &Code, &(cell, coefficient): &(CellIndex, Gf)) -> String {
    match coefficient {
        Gf::ONE => symbol(code, cell),
        Gf(value) => format!("0x{value:02x}*{}", symbol(code, cell)),
    }
}

/// A sum of at most `most` terms; a longer one keeps its beginning and its end.
pub fn sum(code: &Code, terms: &[(CellIndex, Gf)], most: usize) -> String {
    let written =
        |part: &[(CellIndex, Gf)]| part.iter().map(|t| term(code, t)).collect::<Vec<_>>().join(" + ");
    match terms.len() {
        0 => "0".to_string(),
        count if count <= most => written(terms),
        count => {
            let head = most.saturating_sub(2).max(1);
            format!("{} + ... + {} ({count} terms)", written(&terms[..head]), written(&terms[count - 1..]))
        }
    }
}

/// An equation solved for the cell that it defines: that cell and the sum, data first; else zero
/// and the sum.
///
/// Data comes in user order, because that is how a reader looks for it in the drawing.
pub fn solved(
    code: &Code,
    equation: &Equation,
    defines: Option<CellIndex>,
) -> (String, Vec<(CellIndex, Gf)>) {
    let scale = match defines {
        Some(cell) => Gf::ONE / equation.coefficient(cell),
        None => Gf::ONE,
    };
    let mut terms: Vec<(CellIndex, Gf)> = equation
        .terms()
        .iter()
        .filter(|t| Some(t.0) != defines)
        .map(|&(cell, c)| (cell, c * scale))
        .collect();
    terms.sort_by_key(|t| (code.data_position(t.0).unwrap_or(usize::MAX), t.0));
    (defines.map_or_else(|| "0".to_string(), |cell| symbol(code, cell)), terms)
}

/// Says which equations of the code a step of a plan adds up.
///
/// The equations determine the parity cells, so what a step has on them decides the combination:
/// the step's coefficients on the parity cells times the inverse of the equations' coefficients
/// there.
pub struct Behind<'c> {
    code: &'c Code,
    inverse: Option<Matrix>,
}

impl<'c> Behind<'c> {
    pub fn new(code: &'c Code) -> Behind<'c> {
        // Beyond this the elimination takes longer than anybody waits for a sentence.
        const EQUATIONS_MOST: usize = 600;
        let (equations, parity) = (code.equations(), code.parity());
        let inverse = (equations.len() <= EQUATIONS_MOST)
            .then(|| {
                Matrix::from_fn(equations.len(), parity.len(), |e, p| equations[e].coefficient(parity[p]))
            })
            .and_then(|square| square.inverse());
        Behind { code, inverse }
    }

    /// The equations with their factors, ascending; `None` if the code is too large to say.
    pub fn step(&self, step: &Step) -> Option<Vec<(usize, Gf)>> {
        let inverse = self.inverse.as_ref()?;
        let on = |cell: CellIndex| match cell == step.target {
            true => Gf::ONE,
            false => step.terms.iter().find(|t| t.0 == cell).map_or(Gf::ZERO, |t| t.1),
        };
        let on_parity: Vec<Gf> = self.code.parity().iter().map(|&p| on(p)).collect();
        let factor = |e: usize| {
            on_parity.iter().enumerate().map(|(p, &x)| x * inverse.get(p, e)).fold(Gf::ZERO, |a, b| a + b)
        };
        Some((0..self.code.equations().len()).map(|e| (e, factor(e))).filter(|f| !f.1.is_zero()).collect())
    }
}

/// Parity cells that change when one data cell does: mean and most over all data cells.
pub fn update_cost(code: &Code) -> (f64, usize) {
    let generator = code.generator();
    let per_cell: Vec<usize> = (0..code.data().len())
        .map(|d| (0..code.parity().len()).filter(|&p| !generator.get(p, d).is_zero()).count())
        .collect();
    let sum: usize = per_cell.iter().sum();
    (sum as f64 / per_cell.len().max(1) as f64, per_cell.into_iter().max().unwrap_or(0))
}

/// Rows in words: one number, or the least and the most.
pub fn rows(code: &Code) -> String {
    let most = code.rows_max();
    let least = (0..code.columns()).map(|c| code.rows(c)).min().unwrap_or(0);
    if least == most { count(most, "row") } else { format!("{least} to {most} rows") }
}

/// The claim in words.
pub fn claim(code: &Code) -> String {
    let mds = if code.claim().mds { " (MDS: no code does better at this rate)" } else { "" };
    match code.claim().tolerance {
        0 => "no column may be lost".to_string(),
        1 => format!("any 1 column may be lost{mds}"),
        t => format!("any {t} columns may be lost{mds}"),
    }
}

/// What an equation of the code does with its members.
pub fn sum_word(code: &Code) -> &'static str {
    if code.is_xor() { "sum" } else { "weighted sum" }
}

/// "1 column", "2 columns".
pub fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

pub fn directories(number: u64) -> String {
    if number == 1 { "1 directory".into() } else { format!("{number} directories") }
}

/// Columns as `{0-3,5}`, in the form that `--lost` reads.
pub fn ranges(columns: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &column in columns {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == column => *last = column,
            _ => parts.push((column, column)),
        }
    }
    let words: Vec<String> = parts
        .iter()
        .map(|&(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    format!("{{{}}}", words.join(","))
}

/// Columns as `{0,3,5}`.
pub fn set(columns: &[usize]) -> String {
    format!("{{{}}}", columns.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_in_a_row_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 7, 8]), "{0-3,5,7,8}");
        assert_eq!((ranges(&[]), ranges(&[4])), ("{}".into(), "{4}".into()));
    }

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
