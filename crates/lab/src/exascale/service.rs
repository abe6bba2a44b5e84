//! Measured service times: a latency log of fio, read into one distribution for each direction and
//! block size.
//!
//! The paper's devices were tables of this kind. A log has lines of `time, nanoseconds, direction,
//! bytes, ..` (fio's `write_lat_log`; 0 reads, 1 writes, others are skipped). A time between two
//! measured sizes is interpolated, quantile by quantile. Beyond the largest size it grows as
//! between the two largest, or in proportion if only one was measured. Below the smallest size it
//! is the smallest's.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Read};

/// Steps of a distribution.
const QUANTILES: u64 = 256;

/// Minimum of samples of one direction and size: fewer say nothing of a tail.
const SAMPLES_LEAST: usize = 100;

/// Maximum of a line; other files may have no line ends.
const LINE_BYTES_MOST: u64 = 4096;

/// Maximum of samples kept of one log, of 8 bytes each; growing lists reserve up to twice as many:
/// 320 MB.
const SAMPLES_MOST: usize = 20_000_000;

/// Maximum of sizes in one log, reads and writes counted apart: each costs a list, and 2 KiB as a
/// distribution. A log of blocks of up to 4 MiB in steps of 512 bytes has 8,192 of each.
const SIZES_MOST: usize = 16_384;

/// Maximum of a time, one hour: longer ones in a log, or beyond its sizes, could overflow a sum.
const NS_MOST: u64 = 3_600_000_000_000;

/// Times that reads and writes of a device take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    reads: Sizes,
    writes: Sizes,
}

/// Nanoseconds at each quantile for each measured size, ascending.
type Sizes = Vec<(u64, Vec<u64>)>;

/// Reason why a log gives no service times.
#[derive(Debug)]
pub enum ServiceError {
    /// A line that is not of such a log.
    Line {
        /// Its number, from 1.
        number: u64,
        /// Its text, or the beginning of it.
        text: String,
    },
    /// A direction with too few samples.
    TooFew {
        /// "reads" or "writes".
        what: &'static str,
        /// The most samples of one size.
        have: usize,
    },
    /// More lines than the maximum.
    TooMany,
    /// More sizes than the maximum.
    TooManySizes,
    /// The log cannot be read.
    Io(io::Error),
}

impl fmt::Display for ServiceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceError::Line { number, text } => write!(
                out,
                "line {number}, {text:?}, is not of a latency log of fio; its lines are: time, nanoseconds, direction, bytes"
            ),
            ServiceError::TooFew { what, have } => write!(
                out,
                "{have} {what} of one size were measured, {SAMPLES_LEAST} are needed; log more of them (fio --rw=randrw --write_lat_log=FILE)"
            ),
            ServiceError::TooMany => {
                write!(out, "the log has more than {SAMPLES_MOST} samples; give a part of it")
            }
            ServiceError::TooManySizes => write!(
                out,
                "the log has reads and writes of more than {SIZES_MOST} sizes; give one of fewer (fio --bs or --bssplit)"
            ),
            ServiceError::Io(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for ServiceError {}

impl ServiceTimes {
    /// Reads a log.
    ///
    /// Errors: a line that is not of a log; fewer than 100 reads or writes of every size; more
    /// than 20 million samples, or more than 16,384 sizes of reads and of writes together.
    /// Cost: one pass; 8 to 16 bytes of memory for each sample, and some 2 KiB for each size.
    pub fn parse(mut log: impl BufRead) -> Result<ServiceTimes, ServiceError> {
        let mut samples: [BTreeMap<u64, Vec<u64>>; 2] = Default::default();
        let (mut count, mut different) = (0, 0);
        for number in 1.. {
            let mut line = Vec::new();
            let read = log.by_ref().take(LINE_BYTES_MOST).read_until(b'\n', &mut line);
            if read.map_err(ServiceError::Io)? == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            let field = |i: usize| fields.get(i).and_then(|field| field.parse::<u64>().ok());
            let (Some(_), Some(ns), Some(direction), Some(bytes)) = (field(0), field(1), field(2), field(3))
            else {
                return Err(ServiceError::Line { number, text: text.chars().take(60).collect() });
            };
            if let Some(of) = samples.get_mut(direction as usize).filter(|_| bytes > 0) {
                count += 1;
                if count > SAMPLES_MOST {
                    return Err(ServiceError::TooMany);
                }
                let times = of.entry(bytes).or_default();
                different += usize::from(times.is_empty());
                if different > SIZES_MOST {
                    return Err(ServiceError::TooManySizes);
                }
                times.push(ns.clamp(1, NS_MOST));
            }
        }
        let [reads, writes] = samples;
        Ok(ServiceTimes { reads: sizes("reads", reads)?, writes: sizes("writes", writes)? })
    }

    /// Returns the time at a quantile, in 1/65536, of an operation of `bytes` bytes.
    pub(super) fn at(&self, is_write: bool, bytes: u64, quantile: u64) -> u64 {
        let sizes = if is_write { &self.writes } else { &self.reads };
        let place = (quantile.min(65_535) * (QUANTILES - 1) / 65_535) as usize;
        let above = sizes.partition_point(|(size, _)| *size < bytes);
        let point = |i: usize| (sizes[i].0, sizes[i].1[place]);
        let ns = match above {
            0 => return point(0).1,
            _ if above < sizes.len() => between(point(above - 1), point(above), bytes),
            1 => u128::from(point(0).1) * u128::from(bytes) / u128::from(point(0).0),
            _ => between(point(above - 2), point(above - 1), bytes),
        };
        ns.clamp(1, u128::from(NS_MOST)) as u64
    }

    /// Returns the mean time of an operation of `bytes` bytes.
    pub(super) fn mean(&self, is_write: bool, bytes: u64) -> u64 {
        let all = (0..QUANTILES).map(|i| self.at(is_write, bytes, i * 65_535 / (QUANTILES - 1)));
        all.sum::<u64>() / QUANTILES
    }
}

/// Returns the time on the line through two points; not below the first.
fn between((a, ta): (u64, u64), (b, tb): (u64, u64), bytes: u64) -> u128 {
    let growth = u128::from(tb.saturating_sub(ta)) * u128::from(bytes - a) / u128::from((b - a).max(1));
    u128::from(ta) + growth
}

fn sizes(what: &'static str, samples: BTreeMap<u64, Vec<u64>>) -> Result<Sizes, ServiceError> {
    let have = samples.values().map(Vec::len).max().unwrap_or(0);
    let enough = samples.into_iter().filter(|(_, times)| times.len() >= SAMPLES_LEAST);
    let sizes: Sizes = enough
        .map(|(bytes, mut times)| {
            times.sort_unstable();
            let at = |i: u64| times[(i as usize * (times.len() - 1)) / (QUANTILES - 1) as usize];
            (bytes, (0..QUANTILES).map(at).collect())
        })
        .collect();
    if sizes.is_empty() { Err(ServiceError::TooFew { what, have }) } else { Ok(sizes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(sizes: &[(u64, u64)]) -> String {
        let lines = |(bytes, ns): &(u64, u64)| {
            (0..200).map(|i| format!("{i}, {}, {}, {bytes}, 0, 0\n", ns + i / 2, i % 2)).collect::<String>()
        };
        sizes.iter().map(lines).collect()
    }

    #[test]
    fn times_are_those_of_the_log_and_lie_between_what_was_measured() {
        let times = ServiceTimes::parse(log(&[(4096, 1000), (65536, 9000)]).as_bytes()).expect("a log");
        assert_eq!((times.at(false, 4096, 0), times.at(true, 4096, 65_535)), (1000, 1099));
        assert_eq!(times.at(false, 512, 0), 1000, "below the smallest");
        assert_eq!(times.at(false, 34_816, 0), 5000, "half way");
        assert_eq!(times.at(false, 126_976, 0), 17_000, "as between the two largest");
        assert!((1040..=1060).contains(&times.mean(true, 4096)));
        let one = ServiceTimes::parse(log(&[(4096, 1000)]).as_bytes()).expect("a log");
        assert_eq!(one.at(true, 8192, 0), 2000, "in proportion");
    }

    /// A size costs more than a sample: without a limit of sizes, 20 million of them took 2.4 GB.
    #[test]
    fn no_more_sizes_are_kept_than_a_log_has() {
        let of = |sizes: u64| -> String {
            let line = |i: u64| format!("{i}, 5, {}, {}\n", i % 2, 512 * (1 + i / 2));
            (0..sizes).map(line).collect::<String>() + &log(&[(512, 10)])
        };
        let most = SIZES_MOST as u64;
        assert!(ServiceTimes::parse(of(most).as_bytes()).is_ok());
        let error = ServiceTimes::parse(of(most + 1).as_bytes()).expect_err("one more");
        assert!(matches!(error, ServiceError::TooManySizes), "{error}");
        assert!(error.to_string().contains("16384 sizes"), "{error}");
    }

    #[test]
    fn bad_logs_are_refused_with_the_bad_line() {
        let bad = format!("{}1, x, 0, 4096\n", log(&[(4096, 10)]));
        assert!(matches!(ServiceTimes::parse(bad.as_bytes()), Err(ServiceError::Line { number: 201, .. })));
        let few = "1, 5, 0, 4096\n";
        let error = ServiceTimes::parse(few.as_bytes()).expect_err("too few");
        assert!(matches!(error, ServiceError::TooFew { what: "reads", have: 1 }), "{error}");
        assert!(matches!(ServiceTimes::parse(&b""[..]), Err(ServiceError::TooFew { have: 0, .. })));
        assert!(matches!(ServiceTimes::parse(&[0xff, 0, 7][..]), Err(ServiceError::Line { number: 1, .. })));
        let huge = log(&[(u64::MAX, u64::MAX - 200)]);
        let times = ServiceTimes::parse(huge.as_bytes()).expect("odd, and a log");
        assert!(times.at(true, u64::MAX, 65_535) > 0 && times.at(false, 1, 0) > 0);
        let tiny = ServiceTimes::parse(log(&[(1, u64::MAX - 200)]).as_bytes()).expect("odd, and a log");
        assert_eq!(tiny.at(false, 1 << 40, 0), NS_MOST, "what many such times add up to is a number");
    }
}
