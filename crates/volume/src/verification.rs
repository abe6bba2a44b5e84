//! Verification of the last record while a volume is opened: the headers that it wrote, and its
//! lost blocks.

use crate::Slot;
use pantile_format::Crc64;
use std::collections::BTreeMap;

/// The last record, of which a device can lack a part.
#[derive(Debug, Default)]
pub(crate) struct Verification {
    /// The first generation of the record; `None` once the volume is open.
    since: Option<u64>,
    /// The digests of the headers that the record wrote.
    digests: BTreeMap<(u32, Slot), Crc64>,
    lost: usize,
}

impl Verification {
    /// Begins the verification of the last record, which has this first generation.
    pub(crate) fn begin(&mut self, since: u64) {
        self.since = Some(since);
    }

    /// Returns the first generation of the last record, until the volume is open.
    pub(crate) fn since(&self) -> Option<u64> {
        self.since
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.since.is_some()
    }

    /// Notes the digest of a chunk's header that the last record wrote.
    pub(crate) fn expect(&mut self, physical: u32, slot: Slot, digest: Crc64) {
        self.digests.insert((physical, slot), digest);
    }

    /// Returns the digest of a chunk's header, if the last record wrote it.
    pub(crate) fn digest(&self, physical: u32, slot: Slot) -> Option<&Crc64> {
        self.digests.get(&(physical, slot))
    }

    /// Notes that a block of the last record was read, or could not be.
    pub(crate) fn read(&mut self, is_there: bool) {
        self.lost += usize::from(!is_there);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Believes the record: the digests are not needed any more.
    pub(crate) fn believe(&mut self) {
        self.digests.clear();
    }

    /// Ends the opening of the volume.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }

    /// Forgets all of it: a read-only volume does not need it.
    pub(crate) fn forget(&mut self) {
        *self = Verification::default();
    }
}
