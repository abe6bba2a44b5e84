//! Columns of traces of any program, named by the user.

use super::super::lines::{self, Line};
use super::number;
use std::fmt;
use std::str::FromStr;

/// Columns of a line that hold a request, such as `time=1:ms,kind=2,offset=3:sectors,size=4`.
///
/// Columns have numbers from 1 on, or the names in the first line. They are separated by the first
/// of these that occurs in the first line: comma, semicolon, tab, blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    time: Option<Column>,
    kind: Column,
    offset: Column,
    size: Column,
    volume: Option<Column>,
}

/// A column, and the size of its unit: nanoseconds or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    place: Place,
    unit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Index of the column, from 0.
    Number(usize),
    Name(String),
}

/// Text that names no columns, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnsError(String);

impl fmt::Display for ColumnsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}; write time=1:ms,kind=2,offset=3:sectors,size=4,volume=5 with numbers of columns, or their names in the first line. \
             Time and volume can be missing. Times are in s, ms, us, ns or 100ns; offset and size in bytes, sectors, or units of so \
             many bytes",
            self.0
        )
    }
}

impl std::error::Error for ColumnsError {}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let [mut time, mut kind, mut offset, mut size, mut volume] = [const { None }; 5];
        for part in text.split(',') {
            let wrong = |what: &str| ColumnsError(format!("'{part}' {what}"));
            let (name, place) = part.split_once('=').ok_or_else(|| wrong("names no column"))?;
            let (place, unit) = match place.rsplit_once(':') {
                Some((place, unit)) => (place, Some(unit)),
                None => (place, None),
            };
            let (slot, unit) = match (name.trim(), unit) {
                ("time", unit) => (&mut time, unit.map_or(Some(1_000_000_000), nanoseconds)),
                ("kind", None) => (&mut kind, Some(1)),
                ("offset", unit) => (&mut offset, unit.map_or(Some(1), bytes)),
                ("size" | "length", unit) => (&mut size, unit.map_or(Some(1), bytes)),
                ("volume", None) => (&mut volume, Some(1)),
                ("kind" | "volume", Some(_)) => return Err(wrong("has no unit")),
                _ => return Err(wrong("is no part of a request")),
            };
            let unit = unit.ok_or_else(|| wrong("has an unknown unit"))?;
            let place = match (place.trim(), number(place.as_bytes())) {
                ("", _) => return Err(wrong("names no column")),
                (_, Some(0)) => return Err(wrong("counts columns from 0, and the first is 1")),
                (_, Some(place)) => Place::Number(usize::try_from(place - 1).unwrap_or(usize::MAX)),
                (name, None) => Place::Name(name.to_string()),
            };
            if slot.replace(Column { place, unit }).is_some() {
                return Err(wrong("comes a second time"));
            }
        }
        let needed = |slot: Option<Column>, name: &str| {
            slot.ok_or_else(|| ColumnsError(format!("the column '{name}' is missing")))
        };
        Ok(Columns {
            time,
            kind: needed(kind, "kind")?,
            offset: needed(offset, "offset")?,
            size: needed(size, "size")?,
            volume,
        })
    }
}

fn nanoseconds(unit: &str) -> Option<u64> {
    match unit {
        "s" => Some(1_000_000_000),
        "ms" => Some(1_000_000),
        "us" => Some(1000),
        "100ns" => Some(100),
        "ns" => Some(1),
        _ => None,
    }
}

fn bytes(unit: &str) -> Option<u64> {
    match unit {
        "bytes" => Some(1),
        "sectors" => Some(lines::SECTOR_BYTES),
        _ => number(unit.as_bytes()).filter(|&bytes| bytes > 0),
    }
}

/// Columns by their numbers, of a trace whose first line is known.
#[derive(Clone, Debug)]
pub(super) struct Places {
    columns: Columns,
    separator: u8,
}

impl Columns {
    /// Finds the columns in the first line of a trace.
    ///
    /// Errors: the name of a column that the line does not have.
    pub(super) fn places(&self, first: &[u8]) -> Result<Places, String> {
        let separator = b",;\t".iter().copied().find(|byte| first.contains(byte)).unwrap_or(b' ');
        let names: Vec<String> = fields(first, separator)
            .map(|name| String::from_utf8_lossy(name).trim_matches(char::from(QUOTE)).to_ascii_lowercase())
            .collect();
        let mut columns = self.clone();
        let Columns { time, kind, offset, size, volume } = &mut columns;
        for column in [Some(kind), Some(offset), Some(size), time.as_mut(), volume.as_mut()] {
            let Some(column) = column else { continue };
            if let Place::Name(name) = &column.place {
                let found = names.iter().position(|known| *known == name.to_ascii_lowercase());
                column.place = Place::Number(found.ok_or_else(|| name.clone())?);
            }
        }
        Ok(Places { columns, separator })
    }

    /// Returns true if lines say which volume they are of.
    pub(super) fn have_volumes(&self) -> bool {
        self.volume.is_some()
    }
}

impl Places {
    /// Reads a line, and the name of its volume; `None` if it requests nothing.
    pub(super) fn parse(
        &self,
        line: &[u8],
        is_first: bool,
        volume: &mut Vec<u8>,
    ) -> Result<Option<Line>, &'static str> {
        if line.is_empty() || line[0] == b'#' {
            return Ok(None);
        }
        let of = |column: &Column| match column.place {
            Place::Number(place) => fields(line, self.separator).nth(place),
            Place::Name(_) => None,
        };
        let Columns { time, kind, offset, size, volume: of_volume } = &self.columns;
        let missing = "it has too few columns";
        let offset = (of(offset).ok_or(missing)?, offset.unit);
        if is_first && number(offset.0).is_none() {
            // Names of columns.
            return Ok(None);
        }
        volume.clear();
        if let Some(name) = of_volume {
            volume.extend_from_slice(of(name).ok_or(missing)?);
        }
        let time = match time {
            Some(column) => micros(of(column).ok_or(missing)?, column.unit).ok_or("its time is no number")?,
            None => 0,
        };
        let is_write = is_write(of(kind).ok_or(missing)?)?;
        let length = (of(size).ok_or(missing)?, size.unit);
        let offset = number(offset.0).ok_or("its offset is no number")?.checked_mul(offset.1);
        let len = number(length.0).ok_or("its size is no number")?.checked_mul(length.1);
        let offset = offset.ok_or("its offset is beyond 2^64 bytes")?;
        let len = len.ok_or("its size is beyond 2^64 bytes")?;
        Ok(Some(Line { time, offset, len, is_write }))
    }
}

/// Double quote, which programs write around text.
const QUOTE: u8 = 0x22;

/// Returns the columns of a line; any number of blanks separates two.
fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let is_separator = move |byte: &u8| *byte == separator || separator == b' ' && *byte == b'\t';
    let all = line.split(is_separator).map(<[u8]>::trim_ascii);
    all.filter(move |field| separator != b' ' || !field.is_empty())
}

/// Returns true for a write: `W`, `Write`, `WS` and 1; `R`, `Read`, `read`, `RA` and 0 read.
fn is_write(kind: &[u8]) -> Result<bool, &'static str> {
    match kind.iter().find(|&&byte| byte != QUOTE).map(u8::to_ascii_lowercase) {
        Some(b'r' | b'0') => Ok(false),
        Some(b'w' | b'1') => Ok(true),
        _ => Err("it is neither a read nor a write"),
    }
}

/// Returns the microseconds of a number with or without a point, of `unit` nanoseconds each.
fn micros(text: &[u8], unit: u64) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let whole = u128::from(number(parts.next()?)?) * u128::from(unit);
    let part = parts.next().unwrap_or(b"0");
    if part.is_empty() || !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |i: usize| u128::from(part.get(i).map_or(0, |digit| digit - b'0'));
    let billionths = (0..9).fold(0, |sum, i| sum * 10 + digit(i));
    u64::try_from((whole + billionths * u128::from(unit) / 1_000_000_000) / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_points() {
        assert_eq!(micros(b"1.5", 1_000_000_000), Some(1_500_000));
        assert_eq!(micros(b"1577808000.000046", 1_000_000_000), Some(1_577_808_000_000_046));
        assert_eq!(micros(b"2.25", 1_000_000), Some(2250));
        assert_eq!(micros(b"128166372003061629", 100), Some(12_816_637_200_306_162));
        assert_eq!(micros(b"1.", 1000), None);
        assert_eq!(micros(b"-1", 1000), None);
    }

    #[test]
    fn columns_that_are_not_understood_say_why() {
        for (text, why) in [
            ("time=1", "the column 'kind' is missing"),
            ("kind=1,offset=2", "the column 'size' is missing"),
            ("kind=1,offset=0,size=3", "counts columns from 0"),
            ("kind=1,offset=2:miles,size=3", "unknown unit"),
            ("kind=1:s,offset=2,size=3", "has no unit"),
            ("kind=1,offset=2,size=3,size=4", "second time"),
            ("what=1", "is no part of a request"),
            ("offset", "names no column"),
            ("offset=", "names no column"),
        ] {
            let error = text.parse::<Columns>().expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
