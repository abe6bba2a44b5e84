//! Properties of disks, as rates: failures, rebuilds, unreadable sectors.

/// Hours of a mean year.
pub const HOURS_PER_YEAR: f64 = 8766.0;

/// Mean age of an unreadable sector without scrubs: half of five years, the life of a disk.
const UNSCRUBBED_HOURS: f64 = 5.0 * HOURS_PER_YEAR / 2.0;

/// The disks of an array, all alike, and the repair of a failed one.
///
/// Each column of a code is a disk of its own that fails independently; a column of fewer rows
/// than the longest is a proportionally smaller disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disks {
    /// Probability that a disk fails within a year, above 0 and below 1.
    pub failed_per_year: f64,
    /// Capacity of a disk, in bytes.
    pub len_bytes: f64,
    /// Speed at which a rebuild reads or writes a disk.
    pub bytes_per_s: f64,
    /// Limit of all reads of a rebuild together; `None`: the disks are the only limit.
    ///
    /// By default 600 MiB/s, half of a link of 10 Gb/s: all reads go to one host, and users have
    /// the other half. A rebuild that reads up to four disks' contents then takes as long as
    /// writing the new disk; one that reads more takes longer.
    pub repair_bytes_per_s: Option<f64>,
    /// Hot spares; `None`: unlimited.
    pub spares: Option<usize>,
    /// Mean time until a failed disk, or a used spare, is replaced.
    pub replace_hours: f64,
    /// Unreadable bits per bit read.
    pub unreadable_per_bit: f64,
    /// Interval in which every sector is read, and rewritten if unreadable; `None`: never.
    pub scrub_hours: Option<f64>,
    /// Bytes that users read from a disk in a year.
    pub user_bytes_per_year: f64,
    /// Failure domains that can be lost as a whole; `None`: disks fail one by one.
    pub domains: Option<Domains>,
}

/// Failure domains: hosts, or racks. The columns of an array are spread over them evenly,
/// neighbours apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Domains {
    /// Name of one domain: `host`.
    pub what: &'static str,
    /// Number of domains, at least one.
    pub count: usize,
    /// Probability that one is lost for good within a year, with all disks in it.
    pub lost_per_year: f64,
}

impl Domains {
    /// Returns the losses per hour of one domain.
    pub fn losses_per_hour(&self) -> f64 {
        -(-self.lost_per_year).ln_1p() / HOURS_PER_YEAR
    }
}

impl Default for Disks {
    fn default() -> Disks {
        Disks {
            failed_per_year: 0.015,
            len_bytes: 16.0 * (1u64 << 40) as f64,
            bytes_per_s: 150.0 * (1u64 << 20) as f64,
            repair_bytes_per_s: Some(600.0 * (1u64 << 20) as f64),
            spares: None,
            replace_hours: 24.0,
            unreadable_per_bit: 1e-15,
            scrub_hours: Some(14.0 * 24.0),
            user_bytes_per_year: 100.0 * (1u64 << 40) as f64,
            domains: None,
        }
    }
}

impl Disks {
    /// Returns the failures per hour of one working disk.
    pub fn failures_per_hour(&self) -> f64 {
        -(-self.failed_per_year).ln_1p() / HOURS_PER_YEAR
    }

    /// Returns the hours to read or write a share of a disk.
    pub fn pass_hours(&self, share: f64) -> f64 {
        share * self.len_bytes / self.bytes_per_s / 3600.0
    }

    /// Returns the hours in which the contents of `disks` disks pass the limit of all reads; 0 if
    /// there is none.
    pub fn traffic_hours(&self, disks: f64) -> f64 {
        self.repair_bytes_per_s.map_or(0.0, |limit| disks * self.len_bytes / limit / 3600.0)
    }

    /// Returns the mean number of unreadable sectors that a rebuild meets on the contents of one
    /// whole disk.
    ///
    /// They come from the rebuild's own read, and from users' reads since the last scrub, on
    /// average half an interval ago (Elerath and Pecht, IEEE Trans. Computers 58(3), 2009: errors
    /// per byte read times bytes read per hour). A sector counts as one bit of the rate, as the
    /// rate is specified.
    pub fn unreadable_per_disk(&self) -> f64 {
        let age_hours =
            self.scrub_hours.map_or(UNSCRUBBED_HOURS, |hours| (hours / 2.0).min(UNSCRUBBED_HOURS));
        let read_bytes = self.user_bytes_per_year * age_hours / HOURS_PER_YEAR + self.len_bytes;
        read_bytes * 8.0 * self.unreadable_per_bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_units() {
        let disks = Disks { failed_per_year: 0.5, ..Disks::default() };
        assert!((disks.failures_per_hour() * HOURS_PER_YEAR - 2f64.ln()).abs() < 1e-12);
        // 16 TiB at 150 MiB/s: 31 hours.
        assert!((disks.pass_hours(1.0) - 16.0 * 1024.0 * 1024.0 / 150.0 / 3600.0).abs() < 1e-9);
        assert_eq!(Disks { repair_bytes_per_s: None, ..disks.clone() }.traffic_hours(3.0), 0.0);
        assert!((disks.traffic_hours(4.0) / disks.pass_hours(1.0) - 1.0).abs() < 1e-12);
        let limited = Disks { repair_bytes_per_s: Some(disks.bytes_per_s), ..disks };
        assert!((limited.traffic_hours(3.0) / limited.pass_hours(3.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn scrubbing_lessens_unreadable_sectors_down_to_those_of_the_rebuild() {
        let at = |scrub| Disks { scrub_hours: scrub, ..Disks::default() }.unreadable_per_disk();
        assert!(at(None) > at(Some(720.0)) && at(Some(720.0)) > at(Some(24.0)));
        let least = 16.0 * (1u64 << 40) as f64 * 8.0 * 1e-15;
        assert!((at(Some(0.0)) / least - 1.0).abs() < 1e-12);
        // Half of five years at 100 TiB a year on 16 TiB: 15.6 readings of the disk.
        assert!((at(None) / least - (1.0 + 250.0 / 16.0)).abs() < 1e-9);
    }
}
