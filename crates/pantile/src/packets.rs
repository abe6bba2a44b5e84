//! Columns in which the elements of an array code are interleaved.
//!
//! If each element is contiguous, a stripe of D-Code(13) has 169 buffers, and a pass goes through
//! all of them at once. With packets it has 13. Each column contains a packet of its first element,
//! one of its second, and so on, then the next packet of the first element. Equations hold byte by
//! byte, so the code is the same and only the position of bytes differs. Bit-matrix codes of other
//! libraries have this layout, too, with the same meaning of packet size; Pantile's bit-matrix
//! codes (`crs`) are fast in it.
//!
//! Use it to store whole columns (an object store, a file of shards). A block device wants each
//! block in one piece: a write to a block that is spread over many packets updates many elements.

use crate::cache::Cache;
use crate::codec::{Codec, Decoders, RecoverError, Recoveries, data_cell};
use crate::recovery::{PacketRecovery, laid_out};
use crate::stripe::StripeError;
use pantile_code::{CellIndex, Code};
use pantile_kernel::{PacketProgram, Packets};
use pantile_plan::{CellSet, Costs, PlanError};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

/// The default number of bytes of a packet.
///
/// On Ice Lake, stripes in a second-level cache are fastest with 512 to 1024 bytes: 82 to 92 GB/s
/// of D-Code(13) and RDP(14), against 59 to 94 with 128 bytes. Stripes from memory are fastest with
/// 128 bytes: 13 to 16 GB/s, against 11 to 13 with 512. On Zen 3 (AVX2) 64 bytes are as good or
/// better, mainly for stripes from memory. Machine code is made for multiples of 128 bytes; with
/// AVX2, of 64; for bit matrices (`crs`), of half as much. Other lengths work; shorter ones run at
/// 1 or 2 GB/s.
pub const DEFAULT_PACKET_BYTES: usize = 512;

/// Encodes, reconstructs and updates stripes of one code whose columns are packets.
///
/// A stripe is one buffer per column: its rows times a whole number of packets, the same number for
/// every row. The codec stores its programs for each pattern of losses, within limits like those of
/// [`Codec`]; it is cheap to clone and share.
///
/// ```
/// use pantile::Codec;
///
/// let codec = Codec::parse("dcode:5")?.in_packets(512)?;
/// let mut columns = vec![vec![7u8; 5 * 512 * 3]; 5]; // five rows, three packets of each
/// let mut stripe: Vec<&mut [u8]> = columns.iter_mut().map(Vec::as_mut_slice).collect();
/// codec.encode(&mut stripe)?;
///
/// stripe[1].fill(0);
/// stripe[4].fill(0);
/// codec.reconstruct(&mut stripe, &[1, 4])?;
/// assert!(columns[4].iter().take(512).all(|&byte| byte == 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PacketCodec {
    inner: Arc<Inner>,
}

struct Inner {
    codec: Codec,
    packets: Packets,
    encode: OnceLock<PacketProgram>,
    columns: Decoders<PacketRecovery>,
    recoveries: Recoveries<PacketRecovery>,
}

impl PacketCodec {
    pub(crate) fn new(codec: &Codec, packet_bytes: usize) -> Result<PacketCodec, StripeError> {
        let Some(bytes) = NonZeroUsize::new(packet_bytes) else { return Err(StripeError::NoPacket) };
        let code = codec.code();
        let rows: Vec<usize> = (0..code.columns()).map(|column| code.rows(column)).collect();
        let packets = match Packets::new(&rows, bytes) {
            Ok(packets) => packets,
            Err(error) => unreachable!("no code has so many cells: {error}"),
        };
        Ok(PacketCodec {
            inner: Arc::new(Inner {
                codec: codec.clone(),
                packets,
                encode: OnceLock::new(),
                columns: Decoders::new(codec.cache_bytes()),
                recoveries: Cache::new(codec.cache_bytes()),
            }),
        })
    }

    /// The code.
    pub fn code(&self) -> &Code {
        self.inner.codec.code()
    }

    /// Returns the codec of stripes with contiguous cells, which makes the plans of this one. Use
    /// it on the cells of [`PacketCodec::cells`].
    pub fn codec(&self) -> &Codec {
        &self.inner.codec
    }

    /// Returns the number of bytes of a packet.
    pub fn packet_bytes(&self) -> usize {
        self.inner.packets.bytes()
    }

    /// Computes every parity cell from the data cells, in place.
    ///
    /// Errors: buffers that are not columns of packets of this code; nothing is then written.
    pub fn encode(&self, columns: &mut [&mut [u8]]) -> Result<(), StripeError> {
        self.encoder().run(columns).map_err(StripeError::of_columns)
    }

    pub(crate) fn encoder(&self) -> &PacketProgram {
        let Inner { codec, packets, encode, .. } = &*self.inner;
        encode.get_or_init(|| {
            let program = laid_out(codec.encoder_anew(codec.encode_plan()), packets);
            program.prepare();
            program
        })
    }

    /// Works like [`Codec::recovery`], for columns of packets.
    pub fn recovery(
        &self,
        lost: &CellSet,
        wanted: &[CellIndex],
        costs: &Costs,
    ) -> Result<Arc<PacketRecovery>, PlanError> {
        let Inner { codec, packets, recoveries, .. } = &*self.inner;
        let key = (lost.clone(), wanted.to_vec(), costs.clone());
        recoveries.get(key, |(lost, wanted, costs)| {
            Ok(codec.recovery_anew(lost, wanted, costs)?.in_packets(packets))
        })
    }

    /// Works like [`Codec::decoder`], for columns of packets.
    pub fn decoder(&self, lost: &[usize]) -> Result<Arc<PacketRecovery>, PlanError> {
        self.inner.columns.get(lost, |lost| self.decoder_anew(lost))
    }

    /// Works like [`Codec::decoder_anew`], for columns of packets.
    pub fn decoder_anew(&self, lost: &[usize]) -> Result<PacketRecovery, PlanError> {
        Ok(self.inner.codec.decoder_anew(lost)?.in_packets(&self.inner.packets))
    }

    /// Recomputes the given columns from the others, in place.
    ///
    /// Errors: too many are lost, the code lacks one of them, or the buffers are not its columns;
    /// nothing is then written.
    pub fn reconstruct(&self, columns: &mut [&mut [u8]], lost: &[usize]) -> Result<(), RecoverError> {
        self.inner.packets.groups(columns).map_err(StripeError::of_columns)?;
        match self.inner.columns.known(lost) {
            Some(known) => known.run(columns)?,
            None => self.decoder(lost)?.run(columns)?,
        }
        Ok(())
    }

    /// Works like [`Codec::update`]. `new` is the new content of the cell, contiguous: its first
    /// packet, its second, and so on.
    pub fn update(&self, columns: &mut [&mut [u8]], position: usize, new: &[u8]) -> Result<(), StripeError> {
        let Inner { codec, packets, .. } = &*self.inner;
        let cell = data_cell(codec.code(), position)?;
        codec.updating(position, cell).run_packets(packets, columns, new).map_err(StripeError::of_columns)
    }

    /// Returns one packet of each cell. They are a stripe of [`PacketCodec::codec`], for other
    /// operations: checks, changes of a part, the recovery of single cells.
    ///
    /// Errors: buffers that are not columns of packets of this code, or that have fewer packets.
    pub fn cells<'b>(
        &self,
        columns: &'b mut [&mut [u8]],
        packet: usize,
    ) -> Result<Vec<&'b mut [u8]>, StripeError> {
        let packets = &self.inner.packets;
        let groups = packets.groups(columns).map_err(StripeError::of_columns)?;
        if packet >= groups {
            return Err(StripeError::NoSuchPacket { packet, packets: groups });
        }
        let groups_of = columns.iter_mut().enumerate().map(|(column, buffer)| {
            let group = packets.group_bytes(column);
            &mut buffer[packet * group..][..group]
        });
        Ok(groups_of.flat_map(|group| group.chunks_exact_mut(packets.bytes())).collect())
    }
}

impl fmt::Debug for PacketCodec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PacketCodec({}, {} bytes)", self.code(), self.packet_bytes())
    }
}
