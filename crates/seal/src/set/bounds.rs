//! Limits of memory and work for reading a set of unknown origin.
//!
//! A shard states its code and the length of its manifest. A forger chooses both, so both are
//! compared with a limit, and with the stored bytes, before memory or time is spent.

use crate::Fault;
use crate::disk::DiskFile;
use pantile::Code;
use pantile::code::Budget;
use pantile_format::{CodeRecord, FormatError, Part};

/// The longest manifest that is read: enough for some seven million files. In memory it takes up to
/// five times as much.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Limit of the bytes of tables and manifest copies, together, whose good parts are combined. After
/// a failure of the disk they may have holes, so the stored bytes are no limit.
pub const COMBINED_BYTES_MAX: u64 = 256 << 20;

/// The longest stripe, which is held in memory as a whole: 64 times the default.
pub const STRIPE_BYTES_MAX: u64 = 4 << 30;

/// The most bytes of all blocks of a set, lost ones included. Shards with holes can be this long,
/// and the sum of several such lengths must not overflow.
pub const SET_BYTES_MAX: u64 = 1 << 60;

/// The limits of one set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Steps of a [`Budget`]; the other limits are proportional to them.
    steps: u64,
}

impl Bounds {
    pub(crate) fn new(effort: Option<u64>) -> Bounds {
        Bounds { steps: effort.unwrap_or(0).max(Budget::DEFAULT_STEPS) }
    }

    /// Returns a limit in proportion to the effort.
    fn of(self, usual: u64) -> u64 {
        usual.saturating_mul(self.steps.div_ceil(Budget::DEFAULT_STEPS))
    }

    fn suffices_steps(need: u64, usual: u64) -> u64 {
        need.div_ceil(usual).saturating_mul(Budget::DEFAULT_STEPS)
    }

    pub(crate) fn budget(self) -> Budget {
        Budget::of_steps(self.steps)
    }

    pub(crate) fn check_manifest(self, len_bytes: u64) -> Result<(), FormatError> {
        let most_bytes = self.of(MANIFEST_BYTES_MAX);
        let suffices_steps = Bounds::suffices_steps(len_bytes, MANIFEST_BYTES_MAX);
        let part = Part::Manifest;
        match len_bytes <= most_bytes {
            true => Ok(()),
            false => Err(FormatError::TooLong { part, len_bytes, most_bytes, suffices_steps }),
        }
    }

    pub(crate) fn check_stripe(self, cells: usize, block_len_bytes: u64) -> Result<(), Fault> {
        let need = (cells as u64).saturating_mul(block_len_bytes);
        let most = self.of(STRIPE_BYTES_MAX);
        let suffices_steps = Bounds::suffices_steps(need, STRIPE_BYTES_MAX);
        match need <= most {
            true => Ok(()),
            false => Err(Fault::request(format!(
                "a stripe of the set has {need} bytes, and no more than {most} are held in memory for a set of unknown \
                 origin"
            ))
            .hint(format!("if you trust it, --effort {suffices_steps} allows that"))),
        }
    }

    /// Refuses more stripes than disks can hold.
    pub(crate) fn check_stripes(stripes: u64, cells: usize, block_len_bytes: u64) -> Result<(), FormatError> {
        let stripe_bytes = (cells as u64).checked_mul(block_len_bytes);
        let all_bytes = stripe_bytes.and_then(|bytes| bytes.checked_mul(stripes));
        let rule = "must come to at most 2^60 bytes of blocks";
        let error = FormatError::Invalid { part: Part::Manifest, field: "stripes", rule };
        all_bytes.filter(|&bytes| bytes <= SET_BYTES_MAX).map(drop).ok_or(error)
    }
}

/// The codes of sets, each constructed once, all within one budget.
pub(crate) struct Codes {
    budget: Budget,
    made: Vec<(CodeRecord, Code)>,
}

impl Codes {
    pub(crate) fn new(bounds: Bounds) -> Codes {
        Codes { budget: bounds.budget(), made: Vec::new() }
    }

    /// Constructs the code of a set, and compares it with the set's record of it.
    pub(crate) fn make(&mut self, record: &CodeRecord) -> Result<Code, Fault> {
        if let Some((_, code)) = self.made.iter().find(|(made, _)| made == record) {
            return Ok(code.clone());
        }
        let made = match &record.definition {
            Some(definition) => Code::from_text_within(definition, &mut self.budget),
            None => Code::parse(&record.spec),
        };
        let spec = &record.spec;
        let code = made.map_err(|error| {
            Fault::request(format!("the set's code {spec} cannot be made by this program: {error}"))
        })?;
        let here = (u32::from(code.version()), code.fingerprint());
        let set = (record.version, record.fingerprint);
        if here != set {
            return Err(Fault::request(format!(
                "the set was sealed by construction {} of {spec} (fingerprint {:016x}), this program has construction {} \
                 ({:016x})",
                set.0, set.1, here.0, here.1
            ))
            .hint("use the version of pantile that sealed it"));
        }
        code.check_stores().map_err(|error| Fault::request(error.to_string()))?;
        self.made.push((record.clone(), code.clone()));
        Ok(code)
    }
}

/// Reads the stored bytes of a part of a file; never allocates more memory than these.
pub(crate) fn read_stored(
    file: &dyn DiskFile,
    (at, len): (u64, u64),
    file_len: u64,
    part: Part,
) -> Result<Vec<u8>, FormatError> {
    let truncated = FormatError::Truncated { part, have: file_len, need: at.saturating_add(len) };
    if at.checked_add(len).is_none_or(|end| end > file_len) {
        return Err(truncated);
    }
    if !file.is_stored(at, len) {
        return Err(FormatError::NotStored { part, len_bytes: len });
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| truncated.clone())?];
    let have = file.read_at(&mut bytes, at).unwrap_or(0);
    if have == bytes.len() { Ok(bytes) } else { Err(truncated) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_lengths_are_numbers() {
        for (stripes, cells, block_len) in [(1 << 49, 10, 4096), (u64::MAX, 1, 1), (1, 65536, u64::MAX)] {
            assert!(Bounds::check_stripes(stripes, cells, block_len).is_err(), "{stripes}");
        }
        assert!(Bounds::check_stripes(1 << 48, 1, 4096).is_ok());
    }

    #[test]
    fn the_effort_that_is_named_is_enough() {
        for len in [MANIFEST_BYTES_MAX + 1, MANIFEST_BYTES_MAX * 5, MANIFEST_BYTES_MAX * 5 + 1] {
            let Err(FormatError::TooLong { suffices_steps, .. }) = Bounds::new(None).check_manifest(len)
            else {
                panic!("{len} bytes are read")
            };
            assert!(Bounds::new(Some(suffices_steps)).check_manifest(len).is_ok());
            assert!(Bounds::new(Some(suffices_steps - Budget::DEFAULT_STEPS)).check_manifest(len).is_err());
        }
        let refused = Bounds::new(None).check_stripe(65536, 1 << 20).unwrap_err();
        let number = |word: &str| word.parse::<u64>().ok();
        let suffices_steps = refused.hint.split(' ').find_map(number).expect("64 GiB need an effort");
        assert!(Bounds::new(Some(suffices_steps)).check_stripe(65536, 1 << 20).is_ok());
    }
}
