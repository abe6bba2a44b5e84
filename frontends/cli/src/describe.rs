//! Names for what a code contains: symbols, sums, and the equations behind a step.

use pantile::code::Equation;
pub use pantile::code::Labels;
use pantile::gf::{Gf, Matrix};
use pantile::plan::Step;
use pantile::{CellIndex, Code};

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
}
