//! Names of a code and its parts in words: cells, sums, shapes, claims and numbers.

use pantile::code::{ColumnRole, Equation};
use pantile::gf::Gf;
use pantile::{CellIndex, Code};

/// Returns `D[1][3]` or `P[5][1]`, as the papers write it.
pub fn symbol(code: &Code, cell: CellIndex) -> String {
    let kind = if code.is_parity(cell) { 'P' } else { 'D' };
    format!("{kind}{}", code.cell(cell))
}

/// Returns one term: the symbol, after its coefficient in hex unless that is 1.
pub fn term(code: &Code, &(cell, coefficient): &(CellIndex, Gf)) -> String {
    match coefficient {
        Gf::ONE => symbol(code, cell),
        Gf(value) => format!("0x{value:02x}*{}", symbol(code, cell)),
    }
}

/// Returns a sum of at most `most` terms; a longer one keeps its beginning and its end.
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

/// Returns an equation solved for the cell that it defines: that cell and the sum, data first;
/// otherwise zero and the sum.
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

/// Returns the heading of a column: its number, or the device that an add-on belongs to.
pub fn heading(code: &Code, column: usize) -> String {
    match code.role(column) {
        ColumnRole::Device => column.to_string(),
        ColumnRole::AddOn { of } => format!("{column}+{of}"),
    }
}

/// Returns the parity cells that change with one data cell: mean and maximum over all data cells.
pub fn update_cost(code: &Code) -> (f64, usize) {
    let generator = code.generator();
    let per_cell: Vec<usize> = (0..code.data().len())
        .map(|d| (0..code.parity().len()).filter(|&p| !generator.get(p, d).is_zero()).count())
        .collect();
    let sum: usize = per_cell.iter().sum();
    (sum as f64 / per_cell.len().max(1) as f64, per_cell.into_iter().max().unwrap_or(0))
}

/// Returns the rows in words: one number, or the least and the most.
pub fn rows(code: &Code) -> String {
    let most = code.rows_max();
    let least = (0..code.columns()).map(|c| code.rows(c)).min().unwrap_or(0);
    if least == most { count(most, "row") } else { format!("{least} to {most} rows") }
}

/// Returns the claim in words.
pub fn claim(code: &Code) -> String {
    let mds = if code.claim().mds { " (MDS: no code does better at this rate)" } else { "" };
    match code.claim().tolerance {
        0 => "no column may be lost".to_string(),
        1 => format!("any 1 column may be lost{mds}"),
        t => format!("any {t} columns may be lost{mds}"),
    }
}

/// Returns the operation of the code's equations.
pub fn sum_word(code: &Code) -> &'static str {
    if code.is_xor() { "sum" } else { "weighted sum" }
}

/// Returns "1 column" or "2 columns".
pub fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

/// Returns a number rounded to six digits after the point, for JSON.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
