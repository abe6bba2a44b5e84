//! Blocks that a trace reads and writes, by device and cause.

use std::collections::BTreeMap;

/// Bytes of a block of a device.
pub const BLOCK_BYTES: u64 = 4096;

/// Cause of a read or write of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The user's data.
    User,
    /// Old content read to make parity.
    ReadModifyWrite,
    /// Parity.
    Parity,
    /// Reads in place of lost data; data that is read and rewritten because its stripe lacks a
    /// device.
    Degraded,
    /// Content that a new device lacks: read from the others, computed, and written to it.
    Rebuild,
    /// Data that moves from the log to its stripe, and data that is read and rewritten because it
    /// shares that stripe.
    MoveBack,
    /// Checksums of written chunks, and reads of checksums that are no longer in memory.
    Checksums,
    /// Records, snapshots of the maps, and superblocks, which contain the addresses of all other
    /// blocks.
    Journal,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 8] = [
        Cause::User,
        Cause::ReadModifyWrite,
        Cause::Parity,
        Cause::Degraded,
        Cause::Rebuild,
        Cause::MoveBack,
        Cause::Checksums,
        Cause::Journal,
    ];

    /// Returns the name that tables use.
    pub fn name(self) -> &'static str {
        match self {
            Cause::User => "user",
            Cause::ReadModifyWrite => "read-modify-write",
            Cause::Parity => "parity",
            Cause::Degraded => "degraded",
            Cause::Rebuild => "rebuild",
            Cause::MoveBack => "move-back",
            Cause::Checksums => "checksums",
            Cause::Journal => "journal",
        }
    }
}

/// Blocks read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Blocks read.
    pub read: u64,
    /// Blocks written.
    pub written: u64,
}

impl std::ops::AddAssign for Blocks {
    fn add_assign(&mut self, other: Blocks) {
        self.read += other.read;
        self.written += other.written;
    }
}

/// Counts of a trace on the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Blocks by device and cause.
    pub devices: Vec<BTreeMap<Cause, Blocks>>,
    /// Requests that failed because they need lost content.
    pub refused: u64,
    /// Requests by their cost in blocks, as powers of two: `[i]` counts those of less than 2^i
    /// blocks and at least half.
    pub blocks_per_request: [u64; 32],
    /// Number of offsets that writes changed in stripes, by the strategy of their plan.
    pub strategies: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Returns empty counts of `devices` devices.
    pub fn new(devices: usize) -> Counts {
        Counts {
            devices: vec![BTreeMap::new(); devices],
            refused: 0,
            blocks_per_request: [0; 32],
            strategies: BTreeMap::new(),
        }
    }

    /// Adds a request that cost `blocks` blocks to its class.
    pub fn note_request(&mut self, blocks: u64) {
        let class = (u64::BITS - blocks.leading_zeros()).min(31) as usize;
        self.blocks_per_request[class] += 1;
    }

    /// Returns the sum over all devices of one cause.
    pub fn of(&self, cause: Cause) -> Blocks {
        let mut sum = Blocks::default();
        self.devices.iter().filter_map(|device| device.get(&cause)).for_each(|&blocks| sum += blocks);
        sum
    }

    /// Returns the sum over all causes of each device.
    pub fn per_device(&self) -> Vec<Blocks> {
        let total = |device: &BTreeMap<Cause, Blocks>| {
            let mut sum = Blocks::default();
            device.values().for_each(|&blocks| sum += blocks);
            sum
        };
        self.devices.iter().map(total).collect()
    }

    /// Returns the sum over all devices and causes.
    pub fn total(&self) -> Blocks {
        let mut sum = Blocks::default();
        self.per_device().into_iter().for_each(|blocks| sum += blocks);
        sum
    }
}
