//! The equations behind a step of a plan, and lists in words. Names of codes and their parts come
//! from the laboratory.

pub use pantile::code::Labels;
use pantile::gf::{Gf, Matrix};
use pantile::plan::Step;
use pantile::{CellIndex, Code};
pub use pantile_lab::words::*;

/// Finds the equations of the code that a step of a plan adds up.
///
/// The equations determine the parity cells, so a step's coefficients there decide the combination:
/// they are multiplied by the inverse of the equations' coefficients on the parity cells.
pub struct Behind<'c> {
    code: &'c Code,
    inverse: Option<Matrix>,
}

impl<'c> Behind<'c> {
    pub fn new(code: &'c Code) -> Behind<'c> {
        // With more equations the elimination takes longer than a user waits for one sentence.
        const EQUATIONS_MOST: usize = 600;
        let (equations, parity) = (code.equations(), code.parity());
        let inverse = (equations.len() <= EQUATIONS_MOST)
            .then(|| {
                Matrix::from_fn(equations.len(), parity.len(), |e, p| equations[e].coefficient(parity[p]))
            })
            .and_then(|square| square.inverse());
        Behind { code, inverse }
    }

    /// Returns the equations with their factors, ascending; `None` if the code is too large.
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

pub fn directories(number: u64) -> String {
    if number == 1 { "1 directory".into() } else { format!("{number} directories") }
}

/// Returns columns as `{0-3,5}`, the form that `--lost` reads.
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

/// Returns columns as `{0,3,5}`.
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
