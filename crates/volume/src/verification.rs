//! The last record while a volume is opened: the headers that it wrote, and its lost blocks.

use crate::Slot;
use pantile_format::Crc64;
use std::collections::BTreeMap;

/// The last record, which a device can lack.
#[derive(Debug, Default)]
pub(crate) struct Verification {
    /// Its first generation; `None` once the volume is open.
    since: Option<u64>,
    /// The headers of the chunks that it wrote.
    digests: BTreeMap<(u32, Slot), Crc64>,
    lost: usize,
}

impl Verification {
    /// The volume is opened, and its last record has this first generation.
    pub(crate) fn begin(&mut self, since: u64) {
        self.since = Some(since);
    }

    /// The first generation of the last record, until the volume is open.
    pub(crate) fn since(&self) -> Option<u64> {
        self.since
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.since.is_some()
    }

    /// The last record wrote the header of a chunk.
    pub(crate) fn expect(&mut self, physical: u32, slot: Slot, digest: Crc64) {
        self.digests.insert((physical, slot), digest);
    }

    /// Returns the header of a chunk, if the last record wrote it.
    pub(crate) fn digest(&self, physical: u32, slot: Slot) -> Option<&Crc64> {
        self.digests.get(&(physical, slot))
    }

    /// A block of the last record was read, or could not be.
    pub(crate) fn read(&mut self, is_there: bool) {
        self.lost += usize::from(!is_there);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Believes the record: the digests of its headers are not needed any more.
    pub(crate) fn believe(&mut self) {
        self.digests.clear();
    }

    /// The volume is open.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }

    /// Forgets all of it: nothing of a volume that is only read hangs on it.
    pub(crate) fn forget(&mut self) {
        *self = Verification::default();
    }
}
