//! Shapes that several answers share. Every JSON answer starts with `output_version`; a change that could break a
//! reader raises it, a new field does not.

use pantile::gf::Gf;
use pantile::{CellIndex, Code};
use serde::Serialize;

pub const OUTPUT_VERSION: u32 = 1;

/// A cell as `[row, column]`.
pub type CellJson = [usize; 2];

#[derive(Serialize)]
pub struct TermJson {
    pub cell: CellJson,
    pub coefficient: u8,
}

#[derive(Serialize)]
pub struct StepJson {
    pub target: CellJson,
    pub terms: Vec<TermJson>,
}

#[derive(Serialize)]
pub struct ClaimJson {
    pub tolerance: usize,
    pub mds: bool,
}

pub fn cell(code: &Code, cell: CellIndex) -> CellJson {
    let cell = code.cell(cell);
    [cell.row, cell.column]
}

pub fn cells(code: &Code, all: &[CellIndex]) -> Vec<CellJson> {
    all.iter().map(|&c| cell(code, c)).collect()
}

pub fn terms(code: &Code, all: &[(CellIndex, Gf)]) -> Vec<TermJson> {
    all.iter().map(|&(c, coefficient)| TermJson { cell: cell(code, c), coefficient: coefficient.0 }).collect()
}

pub fn steps(code: &Code, all: &[pantile::plan::Step]) -> Vec<StepJson> {
    all.iter().map(|s| StepJson { target: cell(code, s.target), terms: terms(code, &s.terms) }).collect()
}

pub fn claim(code: &Code) -> ClaimJson {
    ClaimJson { tolerance: code.claim().tolerance, mds: code.claim().mds }
}

/// A number as people want to read it in JSON: six digits after the point are more than any of them means.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
