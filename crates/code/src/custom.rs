//! Code files: a user defines a code in a short text file with its shape and equations.
//!
//! ```text
//! pantile-code 1
//! name my-code                 # letters, digits, '.', '_' and '-', up to 64
//! columns 4
//! rows 2                       # or one number per column: rows 2 2 1 1
//! order [0][0] [0][1] [1][0] [1][1]    # optional; without it row-major over the data cells
//! [0][2] = [0][0] + [0][1]
//! [1][2] = [1][0] + 0x8e*[1][1]
//! [0][3] = [0][0] + 2*[1][1]
//! [1][3] = [1][0] + [0][1]
//! ```
//!
//! A cell is \[row\]\[column\]. `cell = sum` makes the cell parity. `0 = sum` is a free equation;
//! lines `parity [r][c] ...` name the parity cells that free equations determine. Coefficients are
//! 1..255, decimal or hexadecimal, over GF(2^8) with polynomial 0x11d. `#` starts a comment; lines
//! are independent, except that `columns` and `rows` precede the first cell.
//!
//! The parity cells are in the order of their definitions; if some are only named by `parity`
//! lines, equations are not assigned to cells, and all parity cells are ordered column by column.
//!
//! The claim of a file is proven when it is read: its tolerance is counted by trying sets of
//! columns, up to [`PROOF_WORK_MAX`] products; for a larger code the highest proven level is
//! claimed. The spec of the code is `custom:NAME-FINGERPRINT`: it identifies the code, but only the
//! file defines it.
//!
//! Limits: 258 columns (as many as the widest named code has), 65,536 cells, 4 MiB of text, and
//! parity cells times cells up to 2^25, because the equations are solved as one dense matrix.
//! Solving them is limited by a [`Budget`], by default less than a second; reading a file takes
//! less than 256 MB of memory.

use crate::error::FileFault;
use crate::parts::MOST_COLUMNS;
use crate::{Budget, CellIndex, Code, CodeBuilder, CodeError, Equation};
use pantile_gf::Gf;
use std::collections::HashSet;
use std::fmt::Write;

/// The longest text that is read, in bytes.
pub const TEXT_LEN_BYTES_MAX: usize = 4 << 20;

/// The most cells of a code file.
pub const CELLS_MAX: usize = 65536;

/// The most parity cells times cells, which is the size in bytes of the matrix that is solved.
pub const MATRIX_SYMBOLS_MAX: usize = 1 << 25;

/// The most products of two symbols that the proof of a code's tolerance takes, in a fraction of a
/// second.
pub const PROOF_WORK_MAX: u64 = 200_000_000;

const NAME_LEN_MAX: usize = 64;

impl Code {
    /// Reads a code file within the default [`Budget`].
    ///
    /// Errors: [`CodeError::File`] with the line, or line 0 for a fault of the whole file. Cost:
    /// one elimination of parity x cells symbols, and a proof of the tolerance with at most
    /// [`PROOF_WORK_MAX`] products.
    ///
    /// ```
    /// use pantile_code::Code;
    ///
    /// let text = "pantile-code 1\nname pair\ncolumns 2\nrows 1\n[0][1] = 7*[0][0]\n";
    /// let code = Code::from_text(text).unwrap();
    /// assert_eq!(code.claim().tolerance, 1);
    /// assert!(code.spec().starts_with("custom:pair-"));
    /// ```
    pub fn from_text(text: &str) -> Result<Code, CodeError> {
        Code::from_text_within(text, &mut Budget::default())
    }

    /// Reads a code file, and takes the cost of solving its equations from the budget.
    ///
    /// Errors: those of [`Code::from_text`], and [`FileFault::TooMuchWork`] as soon as the budget
    /// is spent. Cost: at most the budget, plus time linear in the text, plus [`PROOF_WORK_MAX`].
    pub fn from_text_within(text: &str, budget: &mut Budget) -> Result<Code, CodeError> {
        if text.len() > TEXT_LEN_BYTES_MAX {
            let fault = FileFault::TooLarge {
                what: "the length of the text in bytes",
                given: text.len(),
                most: TEXT_LEN_BYTES_MAX,
            };
            return Err(CodeError::File { line: 0, fault });
        }
        if text.starts_with('\u{feff}') {
            return Err(CodeError::File { line: 1, fault: FileFault::ByteOrderMark });
        }
        let mut file = File::default();
        let mut header = false;
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            let at_line = |fault| CodeError::File { line: i + 1, fault };
            match line {
                "" => {}
                _ if header => file.read(i + 1, line).map_err(at_line)?,
                _ if line.split_whitespace().eq(["pantile-code", "1"]) => header = true,
                _ => return Err(at_line(FileFault::NotACodeFile)),
            }
        }
        match header {
            true => file.code(text, budget),
            false => Err(CodeError::File { line: 0, fault: FileFault::NotACodeFile }),
        }
    }

    /// Writes any code as a code file, to be read back by [`Code::from_text`] or edited.
    ///
    /// The code read back has the same shape, user order and equations. But its family is `custom`,
    /// its add-ons are plain columns, and its claim is the level that the proof reaches when it is
    /// read.
    pub fn to_text(&self) -> String {
        let mut out = format!("pantile-code 1\nname {}\ncolumns {}\n", file_name(self), self.columns());
        let heights: Vec<String> = (0..self.columns()).map(|c| self.rows(c).to_string()).collect();
        match heights.iter().all(|height| *height == heights[0]) {
            true => writeln!(out, "rows {}", heights[0]),
            false => writeln!(out, "rows {}", heights.join(" ")),
        }
        .expect("a String takes all that is written");
        let mut row_major: Vec<CellIndex> = self.data().to_vec();
        row_major.sort_by_key(|&index| (self.cell(index).row, self.cell(index).column));
        if row_major != self.data() {
            out += &format!("order {}\n", cells_text(self, self.data()));
        }
        // A parity cell that is alone in its equation is zero, and no sum of other cells.
        let defined = |(equation, &parity): (&Equation, &CellIndex)| {
            equation.coefficient(parity) == Gf::ONE && equation.terms().len() > 1
        };
        if self.equations().iter().zip(self.parity()).all(defined) {
            for (equation, &parity) in self.equations().iter().zip(self.parity()) {
                out += &format!("{} = {}\n", self.cell(parity), sum_text(self, equation, Some(parity)));
            }
        } else {
            self.equations().iter().for_each(|e| out += &format!("0 = {}\n", sum_text(self, e, None)));
            out += &format!("parity {}\n", cells_text(self, self.parity()));
        }
        out
    }
}

/// Returns the name for a code file: that of a custom code, or the spec of a named code with
/// dashes.
fn file_name(code: &Code) -> String {
    match code.spec().strip_prefix("custom:").and_then(|rest| rest.rsplit_once('-')) {
        Some((name, _)) => name.into(),
        None => code.spec().replace([':', ',', '+', '='], "-"),
    }
}

fn cells_text(code: &Code, cells: &[CellIndex]) -> String {
    let cells: Vec<String> = cells.iter().map(|&index| code.cell(index).to_string()).collect();
    cells.join(" ")
}

fn sum_text(code: &Code, equation: &Equation, without: Option<CellIndex>) -> String {
    let term = |&(index, coefficient): &(CellIndex, Gf)| match coefficient {
        Gf::ONE => code.cell(index).to_string(),
        _ => format!("0x{coefficient}*{}", code.cell(index)),
    };
    let terms: Vec<String> = equation.terms().iter().filter(|t| Some(t.0) != without).map(term).collect();
    terms.join(" + ")
}

/// A sum of terms: (row, column) and coefficient.
type Sum = Vec<((usize, usize), Gf)>;

/// State of a file that is read line by line.
#[derive(Default)]
struct File {
    name: Option<String>,
    columns: Option<usize>,
    rows: Option<Vec<usize>>,
    /// The `order` line: its line number and its cells.
    order: Option<(usize, Vec<(usize, usize)>)>,
    equations: Vec<Sum>,
    /// Parity cells in the order of the text.
    parity: Vec<(usize, usize)>,
    is_parity: HashSet<(usize, usize)>,
    some_are_only_named: bool,
}

impl File {
    fn read(&mut self, number: usize, line: &str) -> Result<(), FileFault> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "name" => once(&mut self.name, "name", name(rest)?),
            "columns" => {
                once(&mut self.columns, "columns", count(rest.trim(), "the number of columns", MOST_COLUMNS)?)
            }
            "rows" => self.read_rows(rest),
            "order" => {
                let cells = rest.split_whitespace().map(|text| self.cell(text)).collect::<Result<_, _>>()?;
                once(&mut self.order, "order", (number, cells))
            }
            "parity" => self.read_parity(rest),
            _ if line.starts_with('[') || line.starts_with('0') => self.read_equation(line),
            _ => Err(FileFault::UnknownLine(clipped(line))),
        }
    }

    fn read_rows(&mut self, text: &str) -> Result<(), FileFault> {
        let columns = self.columns.ok_or(FileFault::Missing("columns"))?;
        let given = text
            .split_whitespace()
            .map(|word| count(word, "the number of rows", CELLS_MAX))
            .collect::<Result<Vec<usize>, FileFault>>()?;
        let rows = match given.len() {
            1 => vec![given[0]; columns],
            n if n == columns => given,
            _ => return Err(unreadable(text, "one number of rows, or one for each column")),
        };
        // At most 258 columns of 65,536 rows: the sum cannot overflow.
        let cells = rows.iter().sum();
        if cells > CELLS_MAX {
            return Err(FileFault::TooLarge { what: "the number of cells", given: cells, most: CELLS_MAX });
        }
        once(&mut self.rows, "rows", rows)
    }

    fn read_parity(&mut self, text: &str) -> Result<(), FileFault> {
        if text.trim().is_empty() {
            return Err(unreadable("parity", "followed by cells"));
        }
        self.some_are_only_named = true;
        text.split_whitespace().try_for_each(|word| {
            let cell = self.cell(word)?;
            self.make_parity(cell)
        })
    }

    fn read_equation(&mut self, line: &str) -> Result<(), FileFault> {
        let Some((left, right)) = line.split_once('=') else {
            return Err(unreadable(line, "an equation, such as [0][2] = [0][0] + 2*[0][1]"));
        };
        let mut sum: Sum = Vec::new();
        for part in right.split('+') {
            sum.push(self.term(part.trim())?);
        }
        if left.trim() != "0" {
            let cell = self.cell(left.trim())?;
            self.make_parity(cell)?;
            sum.push((cell, Gf::ONE));
        }
        let mut cells: Vec<(usize, usize)> = sum.iter().map(|t| t.0).collect();
        cells.sort_unstable();
        if let Some(twice) = cells.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FileFault::CellTwice { row: twice[0].0, column: twice[0].1 });
        }
        self.equations.push(sum);
        Ok(())
    }

    fn make_parity(&mut self, cell: (usize, usize)) -> Result<(), FileFault> {
        if !self.is_parity.insert(cell) {
            return Err(FileFault::RoleConflict { row: cell.0, column: cell.1 });
        }
        self.parity.push(cell);
        Ok(())
    }

    /// Reads a term: a cell, or coefficient * cell.
    fn term(&self, text: &str) -> Result<((usize, usize), Gf), FileFault> {
        match text.split_once('*') {
            Some((factor, cell)) => Ok((self.cell(cell.trim_start())?, coefficient(factor.trim_end())?)),
            None => Ok((self.cell(text)?, Gf::ONE)),
        }
    }

    /// Reads a cell \[row\]\[column\], which must be within the shape.
    fn cell(&self, text: &str) -> Result<(usize, usize), FileFault> {
        let rows = self.rows.as_ref().ok_or(FileFault::Missing(match self.columns {
            None => "columns",
            Some(_) => "rows",
        }))?;
        let parts = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).and_then(|t| t.split_once("]["));
        let Some((row, column)) = parts.and_then(|(r, c)| Some((decimal(r)?, decimal(c)?))) else {
            return Err(unreadable(text, "a cell [row][column]"));
        };
        match rows.get(column) {
            Some(&height) if row < height => Ok((row, column)),
            _ => Err(FileFault::NoSuchCell { row, column }),
        }
    }

    fn code(self, text: &str, budget: &mut Budget) -> Result<Code, CodeError> {
        let at_line = |line| move |fault| CodeError::File { line, fault };
        let whole = at_line(0);
        let missing = |word| whole(FileFault::Missing(word));
        let name = self.name.ok_or_else(|| missing("name"))?;
        let Some(rows) = self.rows else {
            return Err(missing(if self.columns.is_none() { "columns" } else { "rows" }));
        };
        let mut code = CodeBuilder::ragged(&rows);
        let mut parity = self.parity;
        if self.some_are_only_named {
            parity.sort_unstable_by_key(|&(row, column)| (column, row));
        }
        parity.into_iter().for_each(|cell| code.parity_cell(cell));
        self.equations.into_iter().for_each(|sum| code.equation(sum));
        code.check_limits().map_err(whole)?;
        if let Some((line, order)) = self.order {
            code.user_order(order);
            code.check_order().map_err(at_line(line))?;
        }
        code.checked(&name, Some(text.into()), budget).map_err(whole)
    }
}

fn once<T>(place: &mut Option<T>, word: &'static str, value: T) -> Result<(), FileFault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(FileFault::Repeated(word)),
    }
}

pub(crate) fn name(text: &str) -> Result<String, FileFault> {
    let text = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match (1..=NAME_LEN_MAX).contains(&text.len()) && text.chars().all(plain) {
        true => Ok(text.into()),
        false => Err(unreadable(text, "a name of 1 to 64 letters, digits, '.', '_' and '-'")),
    }
}

fn count(text: &str, what: &'static str, most: usize) -> Result<usize, FileFault> {
    match decimal(text) {
        Some(0) | None => Err(unreadable(text, "a whole number from 1 on")),
        Some(given) if given > most => Err(FileFault::TooLarge { what, given, most }),
        Some(given) => Ok(given),
    }
}

/// Reads a decimal number of up to nine digits without a leading zero.
fn decimal(text: &str) -> Option<usize> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    (plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

fn coefficient(text: &str) -> Result<Gf, FileFault> {
    let hexadecimal = |digits: &str| {
        let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        plain.then(|| usize::from_str_radix(digits, 16).ok()).flatten()
    };
    let value = match text.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits),
        None => decimal(text),
    };
    match value {
        Some(value @ 1..=255) => Ok(Gf(value as u8)),
        _ => Err(unreadable(text, "a coefficient from 1 to 255, decimal or hexadecimal such as 0x8e")),
    }
}

fn unreadable(text: &str, expected: &'static str) -> FileFault {
    FileFault::Unreadable { text: clipped(text), expected }
}

/// Returns the beginning of a text, for an error message of one line.
fn clipped(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}
