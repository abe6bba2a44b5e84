//! Shapes that several answers share. Every JSON answer begins with `output_version`. A change that
//! can break a reader raises it; a new field does not.

use pantile::gf::Gf;
use pantile::{CellIndex, Code};
pub use pantile_lab::words::rounded;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};

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

/// Returns the value as JSON that people can read too: one line per field, and one per entry of a
/// list of objects or lists; deeper values stay on their line.
pub fn text(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Lines { open: Vec::new() });
    match value.serialize(&mut serializer) {
        Ok(()) => format!("{}\n", String::from_utf8_lossy(&out)),
        Err(error) => unreachable!("every answer has a JSON form: {error}"),
    }
}

/// Open brackets around the current position, outermost first.
struct Lines {
    open: Vec<Open>,
}

#[derive(PartialEq, Eq)]
enum Open {
    Object,
    /// An array; true if each entry has a line of its own.
    Array {
        has_lines: bool,
    },
}

impl Lines {
    /// Begins an entry. An entry of an array in a field of the answer gets its own line if it is a
    /// list or an object.
    fn begin(&mut self, out: &mut (impl Write + ?Sized), opened: Open) -> io::Result<()> {
        if let [Open::Object, Open::Array { has_lines }] = &mut self.open[..] {
            *has_lines = true;
            out.write_all(b"\n    ")?;
        }
        out.write_all(if opened == Open::Object { b"{" } else { b"[" })?;
        self.open.push(opened);
        Ok(())
    }
}

impl Formatter for Lines {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, Open::Object)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, Open::Array { has_lines: false })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        let comma: &[u8] = if first { b"" } else { b"," };
        out.write_all(comma)?;
        match (self.open.len(), first) {
            (1, _) => out.write_all(b"\n  "),
            (_, true) => Ok(()),
            (_, false) => out.write_all(b" "),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        let has_lines = self.open.last() == Some(&Open::Array { has_lines: true });
        out.write_all(match (first, has_lines) {
            (true, _) => b"",
            (false, true) => b",",
            (false, false) => b", ",
        })
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let has_lines = self.open.pop() == Some(Open::Array { has_lines: true });
        out.write_all(if has_lines { b"\n  ]" } else { b"]" })
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open.pop();
        out.write_all(if self.open.is_empty() { b"\n}" } else { b"}" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_field_and_per_entry() {
        #[derive(Serialize)]
        struct Answer {
            code: &'static str,
            cells: Vec<CellJson>,
            reads: Vec<usize>,
            none: Vec<CellJson>,
            claim: ClaimJson,
            terms: Vec<TermJson>,
        }
        let answer = Answer {
            code: "a",
            cells: vec![[0, 1], [2, 3]],
            reads: vec![1, 2],
            none: vec![],
            claim: ClaimJson { tolerance: 2, mds: true },
            terms: vec![TermJson { cell: [0, 1], coefficient: 2 }],
        };
        let expected = "{\n  \"code\": \"a\",\n  \"cells\": [\n    [0, 1],\n    [2, 3]\n  ],\n  \"reads\": [1, 2],\n  \
                        \"none\": [],\n  \"claim\": {\"tolerance\": 2, \"mds\": true},\n  \"terms\": [\n    \
                        {\"cell\": [0, 1], \"coefficient\": 2}\n  ]\n}\n";
        assert_eq!(text(&answer), expected);
        assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
    }
}
