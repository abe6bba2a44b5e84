//! Section IV's writes on real disks: the operations of a standard RAID are done on files or block
//! devices, wave by wave, and destroy their content.
//!
//! A durable write in place reads the old content that it needs, writes elements, and flushes the
//! written disks. The disks hold noise and no volume: reads are not compared, and no parity is
//! computed.

use super::array::{Array, Op};
use super::dcode_disks::{Deed, Disks};
use super::dcode_engine::{Options, requests};
use super::executed::{ExecuteError, STRIPES};
use pantile::Code;
use pantile_device::{AlignedBuf, Segment};
use pantile_format::volume::ChunkHeader;
use pantile_sim::{IoKind, Random};
use pantile_volume::{BLOCK_BYTES, DeviceBlock, Slot};
use std::ops::AddAssign;
use std::sync::Arc;

/// Byte offsets of chunks in a volume on a disk: chunk follows chunk, each after its header.
/// Elements have the requested length.
pub(super) struct Layout {
    header_bytes: u64,
    element_bytes: u64,
    chunk_bytes: u64,
    /// Alignment of the first byte of a volume.
    unit_bytes: u64,
}

impl Layout {
    /// Returns the layout on disks with blocks of a size.
    pub(super) fn new(code: &Code, element_bytes: u64, block_bytes: u64) -> Layout {
        let unit_bytes = block_bytes.max(BLOCK_BYTES);
        let content_bytes = code.rows_max() as u64 * element_bytes;
        let header_bytes = ChunkHeader::blocks(content_bytes / BLOCK_BYTES) * BLOCK_BYTES;
        let header_bytes = header_bytes.next_multiple_of(unit_bytes);
        Layout { header_bytes, element_bytes, chunk_bytes: header_bytes + content_bytes, unit_bytes }
    }

    /// Returns the bytes that the stripes of a volume need on each disk.
    pub(super) fn need_bytes(&self) -> u64 {
        u64::from(STRIPES) * self.chunk_bytes
    }

    /// Returns first byte, length and number of elements of an operation; `None` for blocks
    /// outside chunks.
    fn extent(&self, array: &Array, op: &Op) -> Option<(u64, u64, u64)> {
        let (stripe, row) = array.of_chunk(op.slot, op.at)?;
        let within = row.map_or(0, |row| self.header_bytes + u64::from(row) * self.element_bytes);
        let blocks = op.at.0..op.at.0 + op.blocks;
        let is_element = |at: &u64| array.element(op.slot, DeviceBlock(*at)).is_some();
        let elements = blocks.filter(is_element).count() as u64;
        let len = elements * self.element_bytes + (op.blocks - elements) * self.header_bytes;
        Some((u64::from(stripe) * self.chunk_bytes + within, len, elements))
    }

    /// Returns the operations of the array's last write, wave by wave, in a volume that begins at
    /// `base`; all of them are counted.
    fn waves(
        &self,
        array: &Array,
        base: u64,
        noise: &mut Noise,
        sum: &mut Written,
    ) -> Vec<Vec<(Slot, Deed)>> {
        let mut has_written = false;
        let mut waves = Vec::new();
        for wave in array.waves() {
            let mut deeds = Vec::new();
            for op in wave {
                let deed = match (op.kind, self.extent(array, op)) {
                    (IoKind::Flush, _) if has_written => {
                        sum.flushes += 1;
                        Deed::Flush
                    }
                    (IoKind::Write, Some((at, len, elements))) => {
                        sum.accesses += elements;
                        sum.pieces += 1;
                        sum.bytes += len;
                        Deed::Write(base + at, noise.of(len as usize))
                    }
                    (IoKind::Read | IoKind::ReadBytes, Some((at, len, elements))) => {
                        sum.accesses += elements;
                        Deed::Read(base + at, len)
                    }
                    // Records of the journal and their flush are not counted.
                    _ => continue,
                };
                deeds.push((op.slot, deed));
            }
            has_written |= deeds.iter().any(|(_, deed)| matches!(deed, Deed::Write(..)));
            if !deeds.is_empty() {
                waves.push(deeds);
            }
        }
        waves
    }
}

/// Written content, which no disk can compress.
struct Noise {
    random: Random,
    bytes: Arc<AlignedBuf>,
}

impl Noise {
    fn new(seed: u64) -> Noise {
        Noise { random: Random::new(seed), bytes: Arc::new(AlignedBuf::zeroed(0)) }
    }

    /// Returns `len` bytes of noise.
    fn of(&mut self, len: usize) -> Segment {
        if len > self.bytes.len() {
            let mut bytes = AlignedBuf::zeroed(len);
            bytes.chunks_mut(8).for_each(|word| {
                let bits = self.random.bits().to_le_bytes();
                word.copy_from_slice(&bits[..word.len()]);
            });
            self.bytes = Arc::new(bytes);
        }
        Segment { buffer: Arc::clone(&self.bytes), range: 0..len }
    }
}

/// Operations that were done, and their time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Durable writes of a user.
    pub(super) requests: u64,
    /// Elements that users wrote.
    pub(super) elements: u64,
    /// Elements that were read before and written, data and parity.
    pub(super) accesses: u64,
    /// Pieces that disks wrote, and their bytes.
    pub(super) pieces: u64,
    pub(super) bytes: u64,
    pub(super) flushes: u64,
    pub(super) seconds: f64,
}

impl AddAssign for Written {
    fn add_assign(&mut self, more: Written) {
        self.requests += more.requests;
        self.elements += more.elements;
        self.accesses += more.accesses;
        self.pieces += more.pieces;
        self.bytes += more.bytes;
        self.flushes += more.flushes;
        self.seconds += more.seconds;
    }
}

/// Writes the requests of section IV, each at a random place, equal on all disks.
pub(super) fn run(disks: &Disks, code: &Code, options: &Options) -> Result<Written, ExecuteError> {
    let layout = Layout::new(code, options.element_bytes, disks.block_bytes(code));
    let room = disks.len_bytes(code).saturating_sub(layout.need_bytes()) / layout.unit_bytes;
    let mut array = Array::standard(code, |_, _, blocks| blocks)?;
    let mut random = Random::new(options.seed ^ 5);
    let mut noise = Noise::new(options.seed);
    let mut sum = Written::default();
    for (first, count) in requests(&array, code, options) {
        array.write(first, count)?;
        let base = random.below(room + 1) * layout.unit_bytes;
        let waves = layout.waves(&array, base, &mut noise, &mut sum);
        sum.requests += 1;
        sum.elements += u64::from(count);
        for wave in waves {
            sum.seconds += disks.carry_out(wave)?.as_secs_f64();
        }
    }
    Ok(sum)
}
