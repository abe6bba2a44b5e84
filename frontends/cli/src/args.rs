//! Arguments that need more than clap: codes, sets of columns and cells, costs, effort, sizes.
//!
//! Columns are written `1,4` or `0-2`, cells `row.column` as in `3.0`; nothing may be named twice.

use crate::failure::Failure;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::{Color, Terminal};
use clap::Args;
use pantile::code::Budget;
use pantile::code::custom::TEXT_LEN_BYTES_MAX;
use pantile::{Cell, CellIndex, CellSet, Code, CodeError, Costs, Effort};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Reads the code that an argument names: a spec, or the path of a code file.
///
/// A text is a path if it contains a slash, ends in `.code`, or names an existing file and is no
/// spec.
///
/// A file costs no more than `reading` allows.
pub fn code(text: &str, reading: Reading) -> Result<Code, Failure> {
    code_on(text, None, reading)
}

/// Reads a code for a number of disks: `raid6` on six of them is `raid6:4`.
pub fn code_on(text: &str, disks: Option<usize>, reading: Reading) -> Result<Code, Failure> {
    let path = Path::new(text);
    // A slash in rs:6/3 separates numbers.
    let has_slash = text.contains('/') && (path.exists() || !Code::is_named(text));
    if has_slash || text.ends_with(".code") || (!text.contains(':') && is_file(path)) {
        return code_file(path, reading);
    }
    // A large code is checked for some seconds.
    let _progress = Progress::start(
        &Terminal::of_environment(Color::Auto),
        format!("{}: making the code", sets::name(text)),
    );
    Code::parse_typed(text, disks).map_err(Failure::input)
}

/// True if a path leads to an existing file.
pub fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
}

/// Limit of the work for a text that another user may have written.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Reading {
    /// How much work a code file or a set may make, in steps of about a microsecond; 1000000 unless
    /// more is given.
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub effort: Option<u64>,
}

impl Reading {
    fn budget(self) -> Budget {
        Budget::of_steps(self.effort.unwrap_or(0).max(Budget::DEFAULT_STEPS))
    }
}

/// Reading a text may take as long as the search that the user allows, if that is longer than
/// usual.
impl From<Effort> for Reading {
    fn from(effort: Effort) -> Reading {
        let steps = match effort {
            Effort::Fast | Effort::THOROUGH => None,
            Effort::Thorough { nodes } => Some(nodes as u64),
        };
        Reading { effort: steps }
    }
}

/// Reads the code that a file describes, within the limits of `reading`.
pub fn code_file(path: &Path, reading: Reading) -> Result<Code, Failure> {
    let name = path.display();
    // A descriptor of the shell can keep its reader waiting, and a large code takes time to check.
    let says = format!("reading the code file {}", sets::name(&path.to_string_lossy()));
    let _progress = Progress::start(&Terminal::of_environment(Color::Auto), says);
    let text = code_text(path)?;
    Code::from_text_within(&text, &mut reading.budget()).map_err(|error| match error {
        CodeError::File { line: 0, fault } => Failure::Input(format!("{name}: {fault}")),
        CodeError::File { line, fault } => Failure::Input(format!("{name}, line {line}: {fault}")),
        other => Failure::Input(format!("{name}: {other}")),
    })
}

/// Returns the kind of a path that is neither a file nor a directory. Opening it can block for
/// ever, or trigger an action of the device.
pub fn no_file(path: &Path) -> Option<&'static str> {
    // An open descriptor, as of <(command), has a writer already.
    if ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|opened| path.starts_with(opened)) {
        return None;
    }
    let kind = std::fs::metadata(path).ok()?.file_type();
    match kind {
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        _ => None,
    }
}

/// Returns the text of a file, read up to the limit of a code file.
fn code_text(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let most = TEXT_LEN_BYTES_MAX as u64;
    if let Some(what) = no_file(path) {
        return Err(Failure::Input(format!(
            "{name} is {what}, not a file; a code file is a text file, or a shell's <(command)"
        )));
    }
    let mut bytes = Vec::new();
    let read = crate::files::input(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            return Err(Failure::Input(format!("{name} is a directory; a code file is a text file")));
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
            ) =>
        {
            return Err(Failure::Input(format!(
                "there is no code file {name}; name one that is there, or a code such as dcode:7"
            )));
        }
        Err(error) => return Err(Failure::file("read", path, &error)),
    }
    if bytes.len() as u64 > most {
        return Err(Failure::Input(format!("{name} has more than {most} bytes, the most of a code file")));
    }
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    String::from_utf8(bytes).map_err(|_| {
        Failure::Input(match is_utf16 {
            true => {
                format!("{name} begins with a byte order mark (BOM) of UTF-16; save it as UTF-8 without one")
            }
            false => format!(
                "{name} is not UTF-8 text; 'pantile show CODE --text' writes a code file to start from"
            ),
        })
    })
}

/// Columns and cells that were named, in order.
#[derive(Clone, Debug)]
pub struct Named {
    /// The columns that were named as a whole, ascending.
    pub columns: Vec<usize>,
    /// All cells, those of the columns included, ascending.
    pub cells: Vec<CellIndex>,
}

impl Named {
    pub fn set(&self, code: &Code) -> CellSet {
        CellSet::of_cells(code, &self.cells)
    }
}

/// Reads `1,4`, `0-2` and `3.0`, alone and mixed.
pub fn cells(what: &str, text: &str, code: &Code) -> Result<Named, Failure> {
    let mut set = CellSet::empty(code);
    let mut columns = Vec::new();
    for item in text.split(',') {
        match item.split_once('.') {
            Some((row, column)) => {
                let cell = Cell {
                    row: number(what, Form::Columns, item, row)?,
                    column: number(what, Form::Columns, item, column)?,
                };
                let index = code.index(cell).ok_or_else(|| no_such_cell(what, item, cell, code))?;
                if set.contains(index) {
                    return Err(twice(what, &format!("cell {item}")));
                }
                set.insert(index);
            }
            None => {
                for column in range(what, Form::Columns, item)? {
                    if column >= code.columns() {
                        return Err(Failure::Input(format!(
                            "{what} names column {column}, but {code} has columns 0 to {}",
                            code.columns() - 1
                        )));
                    }
                    if code.column_cells(column).any(|cell| set.contains(cell)) {
                        return Err(twice(what, &format!("column {column}")));
                    }
                    columns.push(column);
                    code.column_cells(column).for_each(|cell| set.insert(cell));
                }
            }
        }
    }
    columns.sort_unstable();
    Ok(Named { columns, cells: set.iter().collect() })
}

fn no_such_cell(what: &str, item: &str, cell: Cell, code: &Code) -> Failure {
    Failure::Input(match cell.column < code.columns() {
        true => format!(
            "{what} names cell {item}, but column {} of {code} has rows 0 to {}; a cell is written row.column",
            cell.column,
            code.rows(cell.column) - 1
        ),
        false => format!(
            "{what} names cell {item}, but {code} has columns 0 to {}; a cell is written row.column",
            code.columns() - 1
        ),
    })
}

fn twice(what: &str, name: &str) -> Failure {
    Failure::Input(format!("{what} names {name} twice; name everything once"))
}

/// Reads `0,3` and `1-2` as devices. Codes may differ in their number of devices; each code checks
/// the numbers itself.
pub fn devices(what: &str, text: &str) -> Result<Vec<usize>, Failure> {
    /// No code has more columns.
    const MOST: usize = 1 << 16;
    let mut devices = std::collections::BTreeSet::new();
    for item in text.split(',') {
        let named = range(what, Form::Columns, item)?;
        if *named.end() > MOST {
            return Err(Failure::Input(format!(
                "{what} names device {}; no code has more than {MOST}",
                named.end()
            )));
        }
        for device in named {
            if !devices.insert(device) {
                return Err(twice(what, &format!("device {device}")));
            }
        }
    }
    Ok(devices.into_iter().collect())
}

/// Reads `0-3,7` as data cells by their place in user order.
pub fn positions(what: &str, text: &str, code: &Code) -> Result<Vec<CellIndex>, Failure> {
    let mut cells: Vec<CellIndex> = Vec::new();
    let mut named = CellSet::empty(code);
    for item in text.split(',') {
        for position in range(what, Form::Elements, item)? {
            let Some(&cell) = code.data().get(position) else {
                return Err(Failure::Input(format!(
                    "{what} names data element {position}, but {code} has elements 0 to {} in user order",
                    code.data().len() - 1
                )));
            };
            if named.contains(cell) {
                return Err(twice(what, &format!("element {position}")));
            }
            named.insert(cell);
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// Reads `0=5,3=1`: the cost of reading one element of each named column.
pub fn costs(text: &str, code: &Code) -> Result<Costs, Failure> {
    let mut costs = Costs::uniform();
    for (column, cost) in of_columns("--cost", "cost", Costs::MOST, text, code)? {
        costs.set(column, cost);
    }
    Ok(costs)
}

/// Reads `0-2=5,3=1`: a number from 0 to `most` for each named column.
pub fn of_columns(
    what: &str,
    noun: &str,
    most: u32,
    text: &str,
    code: &Code,
) -> Result<BTreeMap<usize, u32>, Failure> {
    let mut numbers = BTreeMap::new();
    for item in text.split(',') {
        let Some((columns, number)) = item.split_once('=') else {
            return Err(Failure::Input(format!(
                "{what}: '{item}' is not COLUMN={}; write for example {what} 0=5,3=2",
                noun.to_uppercase()
            )));
        };
        let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let Some(number) = number.parse::<u32>().ok().filter(|&number| digits && number <= most) else {
            return Err(Failure::Input(format!(
                "{what}: '{number}' in '{item}' is no {noun}; a {noun} is a whole number from 0 to {most}, \
                 such as 0=5"
            )));
        };
        for column in range(what, Form::Columns, columns)? {
            if column >= code.columns() {
                return Err(Failure::Input(format!(
                    "{what} names column {column}, but {code} has columns 0 to {}",
                    code.columns() - 1
                )));
            }
            if numbers.insert(column, number).is_some() {
                return Err(twice(what, &format!("column {column}")));
            }
        }
    }
    Ok(numbers)
}

/// Reads `fast`, `thorough`, or a number of search steps.
pub fn effort(text: &str) -> Result<Effort, String> {
    match text {
        "fast" => Ok(Effort::Fast),
        "thorough" => Ok(Effort::THOROUGH),
        _ => match text.parse::<usize>() {
            Ok(nodes) if (1..=1_000_000_000_000).contains(&nodes) => Ok(Effort::Thorough { nodes }),
            _ => Err("expected 'fast', 'thorough' or a number of steps from 1 to 1000000000000".into()),
        },
    }
}

/// Forms of sizes, for messages.
const SIZES: &str = "such as 4096, 64M, 10GiB or 1.5T (powers of 1024), or 20TB (powers of 1000)";

/// Reads a number of bytes: `4096`, `16K`, `10GiB` and `1.5T` are powers of 1024, `20TB` of 1000,
/// as disks are sold.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size {SIZES}");
    let plain = text.trim().to_ascii_lowercase();
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = plain.split_at(plain.find(|c| !is_of_number(c)).unwrap_or(plain.len()));
    let (letter, base) = match unit.trim() {
        "" | "b" | "byte" | "bytes" => ("", 1),
        "k" | "m" | "g" | "t" | "p" => (unit.trim(), 1024),
        unit if unit.ends_with("ib") => (unit.trim_end_matches("ib"), 1024),
        unit if unit.ends_with('b') => (unit.trim_end_matches('b'), 1000),
        _ => return Err(wrong()),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == letter).ok_or_else(wrong)?;
    let (whole, parts) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(parts) || parts.len() > 9 || (parts != "0" && power == 0) {
        return Err(wrong());
    }
    let factor = u128::pow(base, power as u32);
    let parts_of = u128::pow(10, parts.len() as u32);
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let parts: u64 = parts.parse().map_err(|_| wrong())?;
    let bytes = u128::from(whole) * factor + u128::from(parts) * factor / parts_of;
    bytes.try_into().map_err(|_| wrong())
}

/// Reads bytes per second: a size, with or without `/s`.
pub fn rate(text: &str) -> Result<u64, String> {
    size(text.trim().strip_suffix("/s").unwrap_or(text))
}

/// Reads a size of more than 0 bytes.
pub fn some_bytes(text: &str) -> Result<f64, String> {
    match rate(text)? {
        0 => Err(format!("expected more than 0 bytes, {SIZES}")),
        bytes => Ok(bytes as f64),
    }
}

/// Bytes per second; `None`: unlimited.
pub type Bandwidth = Option<f64>;

/// Reads a limit of bytes per second, or `none`.
pub fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    match text {
        "none" => Ok(None),
        _ => some_bytes(text).map(Some).map_err(|error| format!("{error}, or 'none'")),
    }
}

/// Reads a time: `30s`, `5m` or `5min`, `1h`, `2d`, or seconds.
pub fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "expected a time such as 30s, 5m, 1h, 2d or 0".to_string();
    let plain = text.trim().to_ascii_lowercase();
    let (digits, unit) = plain.split_at(plain.find(|c: char| !c.is_ascii_digit()).unwrap_or(plain.len()));
    let unit = match unit.trim() {
        "" | "s" | "sec" | "seconds" => 1,
        "m" | "min" | "minutes" => 60,
        "h" | "hours" => 3600,
        "d" | "days" => 86400,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|seconds| *seconds <= 366 * 86400).ok_or_else(wrong)
}

/// Forms of the entries that an option lists.
#[derive(Clone, Copy)]
enum Form {
    Columns,
    Elements,
}

fn range(what: &str, form: Form, item: &str) -> Result<std::ops::RangeInclusive<usize>, Failure> {
    match item.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (number(what, form, item, first)?, number(what, form, item, last)?);
            match first <= last {
                true => Ok(first..=last),
                false => Err(Failure::Input(format!(
                    "{what}: the range {item} runs backwards; write {last}-{first}"
                ))),
            }
        }
        None => number(what, form, item, item).map(|n| n..=n),
    }
}

fn number(what: &str, form: Form, item: &str, text: &str) -> Result<usize, Failure> {
    // The largest number that a stripe can have; a larger one would only make a long message.
    const MOST: usize = 10_000_000;
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<usize>() {
        Ok(value) if digits && value <= MOST => Ok(value),
        _ if digits => Err(Failure::Input(format!(
            "{what}: {text} in '{item}' is too large; at most {MOST} is possible"
        ))),
        _ if item.is_empty() => Err(Failure::Input(format!(
            "{what} has an empty entry; write numbers and ranges with commas between them, such as 1,4 or 0-2"
        ))),
        _ => Err(Failure::Input(format!(
            "{what}: '{item}' is not a number; {}",
            match form {
                Form::Columns =>
                    "columns are counted from 0 and written 1,4 or 0-2, cells row.column, such as 3.0",
                Form::Elements => "data elements are counted from 0 in user order and written 5,9 or 0-3",
            }
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, time) in
            [("5m", 300), ("5min", 300), ("30", 30), ("30 s", 30), ("2h", 7200), ("1d", 86400), ("0", 0)]
        {
            assert_eq!(seconds(text), Ok(time), "{text}");
        }
        for wrong in ["", "s", "5w", "-1", "1.5h", "99999999999h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_as_programs_write_and_shops_sell_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4096B", 4096),
            ("16K", 16384),
            ("16KiB", 16384),
            ("16kb", 16000),
            ("1m", 1 << 20),
            ("2G", 2 << 30),
            ("10GiB", 10 << 30),
            ("10 GiB", 10 << 30),
            ("10GB", 10_000_000_000),
            ("3T", 3 << 40),
            ("1.5T", 3 << 39),
            ("1.5TB", 1_500_000_000_000),
            ("20TB", 20_000_000_000_000),
            ("0.5G", 1 << 29),
            ("1P", 1 << 50),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in
            ["", "K", "-1", "1.5", "1,5T", "1.T", ".5T", "16X", "ib", "iB", "99999999999G", "１", "1e9"]
        {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (rate("50M/s"), rate("50MB/s"), rate("50M")),
            (Ok(50 << 20), Ok(50_000_000), Ok(50 << 20))
        );
    }

    #[test]
    fn columns_and_cells_mix() -> Result<(), Failure> {
        let code = Code::parse("raid6:4").map_err(Failure::input)?;
        let named = cells("--lost", "4-5,0.1", &code)?;
        assert_eq!(named.columns, [4, 5]);
        assert_eq!(named.cells.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 4, 5]);
        assert!(cells("--lost", "1,0.1", &code).is_err());
        assert!(cells("--lost", "0.1,0-2", &code).is_err());
        Ok(())
    }
}
