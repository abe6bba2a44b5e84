//! Text formats of traces with one request a line, in fields between commas or blanks.
//!
//! Each line names the volume of its request: MSR's host and disk (`hm_0`, the name of its files),
//! or a device, unit or LUN in the other formats.

use super::trace::{Format, number};

/// Content of a line: a time in its format's unit, and the rest.
pub(super) struct Line {
    pub time: u64,
    pub offset: u64,
    pub len: u64,
    pub is_write: bool,
}

/// Bytes of a sector, where a format counts in sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Units of a format's time in a microsecond.
pub(super) fn times_per_us(format: Format) -> u64 {
    if format == Format::Msr { 10 } else { 1 }
}

/// Returns the format of a first line, if it has a known one.
pub(super) fn recognise(line: &[u8]) -> Option<Format> {
    let is_letter = |field: &[u8]| matches!(field, b"R" | b"W" | b"r" | b"w");
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let is_number = |i: usize| fields.get(i).is_some_and(|field| number(field).is_some());
    match fields.len() {
        5 if is_letter(fields[1]) => Some(Format::Alibaba),
        5 if is_letter(fields[3]) && is_number(1) => Some(Format::Spc),
        5 if (0..5).all(is_number) && matches!(fields[3], b"0" | b"1") => Some(Format::Tencent),
        6 if is_letter(fields[2]) || fields[2].eq_ignore_ascii_case(b"iotype") => Some(Format::Systor),
        count if count >= 6 => Some(Format::Msr),
        _ => None,
    }
}

/// `8,0 1 1 0.000000000 697 Q W 223490 + 8 [kjournald]`: the first field contains a comma, so that
/// it is tested before fields are split at commas.
pub(super) fn is_blkparse(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let device = words.next().unwrap_or_default();
    let mut halves = device.split(|&byte| byte == b',');
    let is_device = halves.clone().count() == 2 && halves.all(|half| number(half).is_some());
    is_device
        && (0..2).all(|_| words.next().is_some_and(|word| number(word).is_some()))
        && words.next().is_some_and(|time| micros(time).is_some())
}

/// Returns the microseconds of seconds with a decimal point.
fn micros(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let seconds = number(parts.next()?)?.checked_mul(1_000_000)?;
    let Some(part) = parts.next() else { return Some(seconds) };
    if part.is_empty() || !part.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |i: usize| u64::from(part.get(i).map_or(0, |digit| digit - b'0'));
    seconds.checked_add((0..6).fold(0, |sum, i| sum * 10 + digit(i)))
}

fn is_write(kind: &[u8]) -> Result<bool, &'static str> {
    match kind.trim_ascii() {
        b"Read" | b"read" | b"R" | b"r" => Ok(false),
        b"Write" | b"write" | b"W" | b"w" => Ok(true),
        _ => Err("it is neither a read nor a write"),
    }
}

/// Reads a line, and the name of its volume; `None` if it requests nothing. `is_first`: it can be
/// a heading.
pub(super) fn parse(
    format: Format,
    line: &[u8],
    is_first: bool,
    volume: &mut Vec<u8>,
) -> Result<Option<Line>, &'static str> {
    volume.clear();
    if format == Format::Blkparse {
        let device = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        volume.extend_from_slice(device);
        return blkparse(line);
    }
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let (least, few) = match format {
        Format::Msr | Format::Systor => (6, "it has fewer than 6 fields"),
        _ => (5, "it has fewer than 5 fields"),
    };
    if fields.len() < least {
        return Err(few);
    }
    if is_first && fields[0].eq_ignore_ascii_case(b"timestamp") {
        return Ok(None);
    }
    // Positions of time, kind, offset and size; seconds with a point, and sectors.
    let ((time, kind, offset, len), has_point, unit, len_unit) = match format {
        Format::Alibaba => ((4, 1, 2, 3), false, 1, 1),
        Format::Spc => ((4, 3, 1, 2), true, SECTOR_BYTES, 1),
        Format::Tencent => ((0, 3, 1, 2), true, SECTOR_BYTES, SECTOR_BYTES),
        Format::Systor => ((0, 2, 4, 5), true, 1, 1),
        _ => ((0, 3, 4, 5), false, 1, 1),
    };
    match format {
        Format::Alibaba | Format::Spc => volume.extend_from_slice(fields[0]),
        Format::Tencent => volume.extend_from_slice(fields[4]),
        Format::Systor => volume.extend_from_slice(fields[3]),
        _ => [fields[1], b"_", fields[2]].iter().for_each(|part| volume.extend_from_slice(part)),
    }
    let time = if has_point { micros(fields[time]) } else { number(fields[time]) };
    let time = time.ok_or("its time is no number")?;
    let is_write = match (format, fields[kind]) {
        (Format::Tencent, b"0") => false,
        (Format::Tencent, b"1") => true,
        (_, kind) => is_write(kind)?,
    };
    let offset = number(fields[offset]).ok_or("its offset is no number")?;
    let offset = offset.checked_mul(unit).ok_or("its sector is beyond 2^64 bytes")?;
    let len = number(fields[len]).ok_or("its size is no number")?;
    let len = len.checked_mul(len_unit).ok_or("its size is beyond 2^64 bytes")?;
    Ok(Some(Line { time, offset, len, is_write }))
}

/// Reads an event of blkparse. Queued events (`Q`) are requests; other events are later states of
/// the same request, and the lines of the summary are none.
fn blkparse(line: &[u8]) -> Result<Option<Line>, &'static str> {
    if !is_blkparse(line) {
        return Ok(None);
    }
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(3);
    let time = words.next().and_then(micros).ok_or("its time is no number")?;
    let (_process, event) = (words.next(), words.next());
    if event != Some(b"Q") {
        return Ok(None);
    }
    let kind = words.next().unwrap_or_default();
    let is_write = match (kind.contains(&b'W'), kind.contains(&b'R')) {
        // A flush or a discard moves no data.
        _ if kind.contains(&b'D') => return Ok(None),
        (true, _) => true,
        (false, true) => false,
        _ => return Ok(None),
    };
    let sector = words.next().and_then(number);
    let (plus, count) = (words.next(), words.next().and_then(number));
    let (Some(sector), Some(b"+"), Some(count)) = (sector, plus, count) else {
        // A flush without data.
        return Ok(None);
    };
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or("its sector is beyond 2^64 bytes")?;
    let len = count.checked_mul(SECTOR_BYTES).ok_or("its size is beyond 2^64 bytes")?;
    Ok(Some(Line { time, offset, len, is_write }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::trace::{Request, Trace};

    fn requests(text: &str) -> (Format, Vec<Request>) {
        let mut trace = Trace::open(text.as_bytes()).expect("a trace");
        let mut all = Vec::new();
        while let Some(item) = trace.next_item().expect("memory") {
            all.push(item.unwrap_or_else(|bad| panic!("{bad}")));
        }
        (trace.format(), all)
    }

    /// A write of 8 KiB at 1 MiB, and half a second later a read of 4 KiB at 4 KiB.
    fn two() -> Vec<Request> {
        vec![
            Request { at_us: 0, offset: 1 << 20, len: 8192, is_write: true },
            Request { at_us: 500_000, offset: 4096, len: 4096, is_write: false },
        ]
    }

    #[test]
    fn the_formats_that_people_have_are_read() {
        for (format, text) in [
            (Format::Msr, "100,hm,0,Write,1048576,8192,1\n5000100,hm,0,Read,4096,4096,1\n"),
            (Format::Spc, "0,2048,8192,W,0.250000\n0,8,4096,r,0.750000\n"),
            (Format::Alibaba, "419,W,1048576,8192,1577808000000046\n419,R,4096,4096,1577808000500046\n"),
            (Format::Tencent, "1538323200,2048,16,1,1283\n1538323200,8,8,0,1283\n"),
            (
                Format::Systor,
                "Timestamp,Response,IOType,LUN,Offset,Size\n1455592257.006301,0.1,W,3,1048576,8192\n\
                 1455592257.506301000,,R,3,4096,4096\n",
            ),
            (
                Format::Blkparse,
                "  8,0    1        1     0.100000000   697  Q   W 2048 + 16 [kjournald]\n\
                 8,0    1        2     0.100000100   697  G   W 2048 + 16 [kjournald]\n\
                 8,0    1        3     0.200000000   697  Q FWS [jbd2]\n\
                 8,0    3        4     0.600000000   697  Q  RA 8 + 8 [cat]\n\
                 8,0    3        5     0.700000000     0  C  RA 8 + 8 [0]\n\
                 CPU3 (8,0):\n Reads Queued:           1,        4KiB\n",
            ),
        ] {
            let (found, requests) = requests(text);
            assert_eq!(found, format);
            let mut expected = two();
            if format == Format::Tencent {
                // The format has whole seconds.
                expected[1].at_us = 0;
            }
            assert_eq!(requests, expected, "{format:?}");
        }
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_with_it() {
        let reason = |text: &str| {
            let mut trace = Trace::open(text.as_bytes()).expect("a trace");
            loop {
                match trace.next_item().expect("memory") {
                    Some(Err(bad)) => return (bad.number, bad.reason),
                    Some(Ok(_)) => {}
                    None => panic!("nothing is wrong with {text:?}"),
                }
            }
        };
        let good = "0,2048,8192,W,0.25\n";
        assert_eq!(reason(&format!("{good}0,1,1,W\n")), (2, "it has fewer than 5 fields"));
        assert_eq!(reason(&format!("{good}0,1,1,X,1\n")), (2, "it is neither a read nor a write"));
        assert_eq!(reason(&format!("{good}0,1,1,W,1.x\n")), (2, "its time is no number"));
        let far = format!("{good}0,{},1,W,1\n", u64::MAX);
        assert_eq!(reason(&far), (2, "its sector is beyond 2^64 bytes"));
    }
}
