//! Faults of a spec or a code file, each with the limit and the remedy.

use crate::Overspent;
use std::fmt;

/// Reasons why a text does not name a code, or names one that would not keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// The text does not follow the grammar `family:argument,argument,...`.
    Syntax {
        /// The whole text.
        spec: String,
        /// The part that could not be read.
        part: String,
        /// Text that was expected there.
        expected: &'static str,
    },
    /// No family has this name.
    UnknownFamily {
        /// The name given.
        family: String,
        /// The nearest known name, if one is near.
        nearest: Option<&'static str>,
    },
    /// The family lacks an argument that it needs.
    MissingArgument {
        /// The family.
        family: &'static str,
        /// Name of the missing argument.
        argument: &'static str,
        /// The forms the family takes.
        forms: &'static [&'static str],
    },
    /// The family does not know this argument, or not together with the others.
    UnexpectedArgument {
        /// The family.
        family: &'static str,
        /// The argument as given.
        argument: String,
        /// The forms the family takes.
        forms: &'static [&'static str],
    },
    /// A number is outside the range of the construction.
    OutOfRange {
        /// The family.
        family: &'static str,
        /// Name of the number.
        what: &'static str,
        /// The number given.
        given: usize,
        /// The smallest allowed.
        least: usize,
        /// The largest allowed.
        most: usize,
        /// Reason, or a replacement.
        hint: &'static str,
    },
    /// Numbers are each in range but not together.
    Unsuitable {
        /// The family.
        family: &'static str,
        /// The rule that is broken, as a sentence.
        rule: String,
    },
    /// The matrix loses data within its own promise for so many data columns.
    NotMds {
        /// The spec as given.
        spec: String,
        /// The generators or rows in words.
        rows: String,
        /// Data columns asked for.
        k: usize,
        /// The largest number of data columns for which it keeps its promise.
        limit: usize,
        /// A certificate: columns whose loss is within the promise and yet fatal at `limit + 1`
        /// data columns.
        fatal: Vec<usize>,
        /// Suggested replacement.
        instead: String,
    },
    /// The name of a code in another system's words that cannot be understood.
    Foreign {
        /// The name as it was read.
        name: String,
        /// Fault as a sentence without its full stop.
        fault: String,
    },
    /// This names something that other systems have, where a code of Pantile's own serves.
    OtherName {
        /// The name given.
        name: String,
        /// Name of the number.
        what: &'static str,
        /// The number of disks that was meant, or one to speak of.
        disks: usize,
        /// Any so many of them can be lost.
        tolerance: usize,
        /// Codes on as many disks that survive no less, the nearest first.
        instead: Vec<String>,
    },
    /// The spec of a code file identifies a code that only the file defines.
    NeedsFile {
        /// The spec as given.
        spec: String,
    },
    /// A code file is wrong at a line.
    File {
        /// 1-based; 0 when the fault is of the whole file.
        line: usize,
        /// Fault at that line.
        fault: FileFault,
    },
    /// A code that was built, not read, is wrong.
    Built {
        /// Fault of the code.
        fault: FileFault,
    },
}

/// Fault of a code file, or of a code that was built as a file would describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The first line is not `pantile-code 1`.
    NotACodeFile,
    /// A line that starts with none of the known words.
    UnknownLine(String),
    /// A keyword that may stand once stands twice.
    Repeated(&'static str),
    /// A keyword that must be there is not.
    Missing(&'static str),
    /// Something that should be a number, a cell or a coefficient is not.
    Unreadable {
        /// Text at that place.
        text: String,
        /// Text that was expected.
        expected: &'static str,
    },
    /// A number over the limit.
    TooLarge {
        /// Name of the number.
        what: &'static str,
        /// The number given.
        given: usize,
        /// The largest allowed.
        most: usize,
    },
    /// The work that reading it costs is over the budget.
    TooMuchWork(Overspent),
    /// A cell outside the shape.
    NoSuchCell {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// A cell twice in one equation.
    CellTwice {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// The text begins with a byte order mark.
    ByteOrderMark,
    /// A cell twice in the user order.
    TwiceInOrder {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// A parity cell in the user order.
    ParityInOrder {
        /// Row.
        row: usize,
        /// Column.
        column: usize,
    },
    /// A cell is said to be parity twice.
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
        /// Parity cells.
        parity: usize,
        /// Independent equations on them.
        rank: usize,
        /// Equations given.
        equations: usize,
    },
    /// There is no data cell at all.
    NoData,
    /// A column has no rows.
    EmptyColumn {
        /// The column.
        column: usize,
    },
    /// A column is said to be the add-on of one that is not there, or of itself, or is not there.
    NoSuchAddOn {
        /// The column.
        column: usize,
        /// The column that it is to belong to.
        of: usize,
        /// The number of columns.
        columns: usize,
    },
}

/// Excerpt of foreign text as a message quotes it. Control characters are escaped, so that it stays
/// on one line and no zero ends it early in C; a long text is cut.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

/// Longer than any name that is right.
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
                // The name of an argument ends with the comma of an apposition, for a verb to
                // follow.
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
