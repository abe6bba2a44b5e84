//! Faults of a spec or a code file, each with the limit and the remedy.

use crate::Overspent;
use std::fmt;

/// Reasons why a text does not name a code, or names one that would not have its claimed tolerance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// The text does not follow the grammar `family:argument,argument,...`.
    Syntax {
        /// The whole text.
        spec: String,
        /// The part that could not be read.
        part: String,
        /// A description of the expected text.
        expected: &'static str,
    },
    /// No family has this name.
    UnknownFamily {
        /// The name given.
        family: String,
        /// The most similar known name, if there is one.
        nearest: Option<&'static str>,
    },
    /// The family lacks an argument that it needs.
    MissingArgument {
        /// The family.
        family: &'static str,
        /// The name of the missing argument.
        argument: &'static str,
        /// The forms of specs of the family.
        forms: &'static [&'static str],
    },
    /// The family does not accept this argument, at all or together with the others.
    UnexpectedArgument {
        /// The family.
        family: &'static str,
        /// The argument as given.
        argument: String,
        /// The forms of specs of the family.
        forms: &'static [&'static str],
    },
    /// A number is outside the range of the construction.
    OutOfRange {
        /// The family.
        family: &'static str,
        /// The name of the number.
        what: &'static str,
        /// The number given.
        given: usize,
        /// The smallest allowed.
        least: usize,
        /// The largest allowed.
        most: usize,
        /// The reason for the limit, or a replacement.
        hint: &'static str,
    },
    /// Each number is in range, but not the combination.
    Unsuitable {
        /// The family.
        family: &'static str,
        /// The rule that is broken, as a sentence.
        rule: String,
    },
    /// For this many data columns the matrix loses data within its claimed tolerance.
    NotMds {
        /// The spec as given.
        spec: String,
        /// The generators or rows, described in words.
        rows: String,
        /// The number of data columns that was requested.
        k: usize,
        /// The largest number of data columns for which it has its claimed tolerance.
        limit: usize,
        /// A certificate: columns whose loss is within the claimed tolerance but fatal with
        /// `limit + 1` data columns.
        fatal: Vec<usize>,
        /// A spec to use instead.
        instead: String,
    },
    /// A name in another system's notation that cannot be interpreted.
    Foreign {
        /// The name as it was given.
        name: String,
        /// The fault, as a sentence without the full stop.
        fault: String,
    },
    /// A name from other systems, for which Pantile has codes with other names.
    OtherName {
        /// The name given.
        name: String,
        /// The name of the number.
        what: &'static str,
        /// The number of disks that was given, or one as an example.
        disks: usize,
        /// The number of disks that can be lost, whichever they are.
        tolerance: usize,
        /// Codes on as many disks with at least that tolerance, the most similar first.
        instead: Vec<String>,
    },
    /// The spec of a code file identifies a code that only the file defines.
    NeedsFile {
        /// The spec as given.
        spec: String,
    },
    /// A code file is wrong at a line.
    File {
        /// The line number from 1; 0 for a fault of the whole file.
        line: usize,
        /// The fault at that line.
        fault: FileFault,
    },
    /// A code that was built with [`CodeBuilder`](crate::CodeBuilder) is wrong.
    Built {
        /// The fault of the code.
        fault: FileFault,
    },
}

/// A fault of a code file, or of a code that was built with [`CodeBuilder`](crate::CodeBuilder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The first line is not `pantile-code 1`.
    NotACodeFile,
    /// A line that starts with none of the known words.
    UnknownLine(String),
    /// A keyword that may occur once occurs twice.
    Repeated(&'static str),
    /// A required keyword is missing.
    Missing(&'static str),
    /// Something that should be a number, a cell or a coefficient is not.
    Unreadable {
        /// The text at that place.
        text: String,
        /// A description of the expected text.
        expected: &'static str,
    },
    /// A number over the limit.
    TooLarge {
        /// The name of the number.
        what: &'static str,
        /// The number given.
        given: usize,
        /// The largest allowed.
        most: usize,
    },
    /// Reading the code takes more work than the budget allows.
    TooMuchWork(Overspent),
    /// A cell outside the shape.
    NoSuchCell {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// A cell occurs twice in one equation.
    CellTwice {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// The text begins with a byte order mark.
    ByteOrderMark,
    /// A cell occurs twice in the user order.
    TwiceInOrder {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// A parity cell occurs in the user order.
    ParityInOrder {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// A cell is declared as parity twice.
    RoleConflict {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// The user order leaves out a data cell.
    NotInOrder {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// The equations do not determine every parity cell from the data, or constrain the data.
    NotSystematic {
        /// The number of parity cells.
        parity: usize,
        /// The number of independent equations on the parity cells.
        rank: usize,
        /// The number of equations given.
        equations: usize,
    },
    /// There is no data cell at all.
    NoData,
    /// A column has no rows.
    EmptyColumn {
        /// The column.
        column: usize,
    },
    /// A column is declared as an add-on of itself or of a column that does not exist, or does not
    /// exist itself.
    NoSuchAddOn {
        /// The column.
        column: usize,
        /// The column to which it would belong.
        of: usize,
        /// The number of columns.
        columns: usize,
    },
}

/// An excerpt of untrusted text, as quoted in a message. Control characters are escaped, so that it
/// stays on one line and a zero byte does not end it early in C. A long text is cut.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

/// The most characters that are quoted; no valid name is longer.
const QUOTED_CHARS_MOST: usize = 120;

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(QUOTED_CHARS_MOST) {
            match c.is_control() {
                true => write!(out, "{}", c.escape_default())?,
                false => write!(out, "{c}")?,
            }
        }
        let is_cut = self.0.chars().nth(QUOTED_CHARS_MOST).is_some();
        out.write_str(if is_cut { " .." } else { "" })
    }
}

impl fmt::Display for CodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeError::Syntax { spec, part, expected } => write!(
                out,
                "'{}' is not a code: at '{}' {expected} was expected. \
                 A code is written family:arguments, such as raid6:8 or shec:6,4,3; 'pantile codes' lists them all.",
                Quoted(spec),
                Quoted(part)
            ),
            CodeError::UnknownFamily { family, nearest } => {
                write!(out, "there is no code family '{}'", Quoted(family))?;
                if let Some(nearest) = nearest {
                    write!(out, "; did you mean '{nearest}'? ")?;
                } else {
                    write!(out, "; ")?;
                }
                write!(out, "'pantile codes' lists them all; a code file of your own is named by its path.")
            }
            CodeError::MissingArgument { family, argument, forms } => {
                // The name of an argument ends with a comma, for messages in which a verb follows.
                let argument = argument.trim_end_matches(',');
                write!(out, "{family} needs {argument}; write it as {}.", forms.join(" or "))
            }
            CodeError::UnexpectedArgument { family, argument, forms } => {
                write!(
                    out,
                    "{family} does not take '{}' here; write it as {}.",
                    Quoted(argument),
                    forms.join(" or ")
                )
            }
            CodeError::OutOfRange { family, what, given, least, most, hint } => {
                write!(out, "{family}: {what} is {given}, but {least} to {most} is possible")?;
                if hint.is_empty() { write!(out, ".") } else { write!(out, "; {hint}.") }
            }
            CodeError::Unsuitable { family, rule } => write!(out, "{family}: {rule}."),
            CodeError::NotMds { spec, rows, k, limit, fatal, instead } => {
                let fatal: Vec<String> = fatal.iter().map(usize::to_string).collect();
                write!(
                    out,
                    "{spec} would lose data within its promise: {rows} holds up to {limit} data columns, not {k} \
                     (with {} data columns the loss of columns {{{}}} is fatal). {instead}",
                    limit + 1,
                    fatal.join(",")
                )
            }
            CodeError::Foreign { name, fault } => {
                write!(out, "'{}' is not understood: {fault}.", Quoted(name))
            }
            CodeError::OtherName { name, what, disks, tolerance, instead } => write!(
                out,
                "'{}' is {what} (any {tolerance} {} can fail); for {disks} disks write {}.",
                Quoted(name),
                if *tolerance == 1 { "disk" } else { "disks" },
                instead.join(" or ")
            ),
            CodeError::NeedsFile { spec } => write!(
                out,
                "'{}' is defined by a code file, of which this is only the name and fingerprint; give the path of the file.",
                Quoted(spec)
            ),
            CodeError::File { line: 0, fault } => write!(out, "code file: {fault}."),
            CodeError::File { line, fault } => write!(out, "code file, line {line}: {fault}."),
            CodeError::Built { fault } => write!(out, "code as built: {fault}."),
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileFault::NotACodeFile => write!(out, "the first line must be 'pantile-code 1'"),
            FileFault::UnknownLine(text) => write!(
                out,
                "'{}' starts with none of name, columns, rows, order, parity, a cell such as [0][2], or 0",
                Quoted(text)
            ),
            FileFault::Repeated(word) => {
                write!(out, "'{word}' stands a second time; leave one of the two out")
            }
            FileFault::Missing(word) => write!(out, "the line '{word} ...' is missing"),
            FileFault::Unreadable { text, expected } => write!(out, "'{}' is not {expected}", Quoted(text)),
            FileFault::TooLarge { what, given, most } => {
                write!(out, "{what} is {given}, but at most {most} is possible")
            }
            FileFault::TooMuchWork(overspent) => write!(out, "{overspent}"),
            FileFault::NoSuchCell { row, column } => {
                write!(
                    out,
                    "the cell [{row}][{column}] lies outside the rows and columns given; both count from 0"
                )
            }
            FileFault::CellTwice { row, column } => {
                write!(out, "the cell [{row}][{column}] stands twice; add its coefficients into one")
            }
            FileFault::RoleConflict { row, column } => {
                write!(out, "the cell [{row}][{column}] is parity already; it can be defined only once")
            }
            FileFault::ByteOrderMark => {
                write!(out, "the text begins with a byte order mark (BOM); save it as UTF-8 without one")
            }
            FileFault::TwiceInOrder { row, column } => {
                write!(
                    out,
                    "the cell [{row}][{column}] stands twice in the user order; name each data cell once"
                )
            }
            FileFault::ParityInOrder { row, column } => {
                write!(
                    out,
                    "the cell [{row}][{column}] is parity, and the user order names data cells only; leave it out"
                )
            }
            FileFault::NotInOrder { row, column } => {
                write!(
                    out,
                    "the user order leaves out the data cell [{row}][{column}]; name each data cell once"
                )
            }
            FileFault::NotSystematic { parity, rank, equations } => write!(
                out,
                "the {equations} equations must determine the {parity} parity cells from the data and nothing \
                 else, but have rank {rank} on them; give one independent equation per parity cell"
            ),
            FileFault::NoData => write!(out, "every cell is parity; at least one must hold data"),
            FileFault::EmptyColumn { column } => {
                write!(out, "column {column} has no rows; give every column at least one, or leave it out")
            }
            FileFault::NoSuchAddOn { column, of, columns } => write!(
                out,
                "column {column} cannot be an add-on of column {of}: the {columns} columns count from 0, and an \
                 add-on belongs to another column"
            ),
        }
    }
}

impl std::error::Error for CodeError {}
