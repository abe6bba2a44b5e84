//! Codes on whole columns, whatever order the rows of a column have in its chunk.

use crate::codec::{Codec, RecoverError};
use crate::packets::PacketCodec;
use crate::recovery::{PacketRecovery, Recovery};
use crate::shards::ShardError;
use crate::stripe::{StripeError, split_columns};
use crate::words::Words;
use pantile_code::Code;
use pantile_kernel::Use;
use pantile_plan::PlanError;
use std::sync::Arc;

/// A code on whole columns.
#[derive(Clone, Debug)]
pub(crate) enum Coder {
    /// Rows one behind the other.
    Rows(Codec),
    Packets(PacketCodec),
    /// As bytes of words.
    Words(Codec, Arc<Words>),
}

/// The recovery of lost columns by a [`Coder`].
pub(crate) enum Decoder {
    Rows(Code, Arc<Recovery>),
    Packets(Arc<PacketRecovery>),
    Words(Code, Arc<Words>, Arc<Recovery>),
}

impl Coder {
    pub(crate) fn codec(&self) -> &Codec {
        match self {
            Coder::Rows(codec) | Coder::Words(codec, _) => codec,
            Coder::Packets(packets) => packets.codec(),
        }
    }

    /// Computes parity columns from data columns.
    pub(crate) fn encode(&self, columns: &mut [&mut [u8]]) -> Result<(), ShardError> {
        let coded = match self {
            Coder::Rows(codec) => in_pieces(codec.code(), columns, |cells| codec.encode(cells)),
            Coder::Packets(packets) => packets.encode(columns),
            Coder::Words(codec, words) => {
                in_words(codec.code(), words, columns, |cells| codec.encode(cells).map(|()| true)).map(drop)
            }
        };
        coded.map_err(|error| ShardError::from(RecoverError::Stripe(error)))
    }

    pub(crate) fn decoder(&self, lost: &[usize]) -> Result<Decoder, PlanError> {
        Ok(match self {
            Coder::Rows(codec) => Decoder::Rows(codec.code().clone(), codec.decoder(lost)?),
            Coder::Packets(packets) => Decoder::Packets(packets.decoder(lost)?),
            Coder::Words(codec, words) => {
                Decoder::Words(codec.code().clone(), words.clone(), codec.decoder(lost)?)
            }
        })
    }

    /// Runs `work` on the cells of the columns, each in one piece. Columns in another order are
    /// written only if `work` says that it changed something.
    pub(crate) fn on_cells<E: From<StripeError>>(
        &self,
        columns: &mut [&mut [u8]],
        work: impl FnOnce(&mut [&mut [u8]]) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let code = self.codec().code();
        match self {
            Coder::Rows(_) => in_pieces(code, columns, work),
            Coder::Words(_, words) => in_words(code, words, columns, work),
            Coder::Packets(packets) => in_packets(code, packets.packet_bytes(), columns, work),
        }
    }
}

impl Decoder {
    pub(crate) fn run(&self, columns: &mut [&mut [u8]]) -> Result<(), ShardError> {
        let coded = match self {
            Decoder::Rows(code, recovery) => in_pieces(code, columns, |cells| recovery.run(cells)),
            Decoder::Packets(recovery) => recovery.run(columns),
            Decoder::Words(code, words, recovery) => {
                in_words(code, words, columns, |cells| recovery.run(cells).map(|()| true)).map(drop)
            }
        };
        coded.map_err(|error| ShardError::from(RecoverError::Stripe(error)))
    }

    /// True if a run reads some cell of a column.
    pub(crate) fn reads(&self, code: &Code, column: usize) -> bool {
        code.column_cells(column).any(|cell| {
            let of_cell = match self {
                Decoder::Rows(_, recovery) | Decoder::Words(_, _, recovery) => recovery.use_of(cell),
                Decoder::Packets(recovery) => recovery.0.program.as_ref().use_of(cell.usize()),
            };
            of_cell == Use::Read
        })
    }
}

/// Codes columns whose rows follow one another.
fn in_pieces<T, E: From<StripeError>>(
    code: &Code,
    columns: &mut [&mut [u8]],
    work: impl FnOnce(&mut [&mut [u8]]) -> Result<T, E>,
) -> Result<T, E> {
    let some = columns.iter().enumerate().find(|&(column, _)| code.rows(column) > 0);
    let row_bytes = some.map_or(0, |(column, bytes)| bytes.len() / code.rows(column));
    work(&mut split_columns(code, columns, row_bytes)?)
}

/// Codes columns of words by their rows of bytes.
fn in_words<E: From<StripeError>>(
    code: &Code,
    words: &Words,
    columns: &mut [&mut [u8]],
    work: impl FnOnce(&mut [&mut [u8]]) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut rows: Vec<Vec<u8>> = columns.iter().map(|column| vec![0; column.len()]).collect();
    rows.iter_mut().zip(&*columns).for_each(|(rows, column)| words.split(column, rows));
    let is_changed = in_pieces(code, &mut slices(&mut rows), work)?;
    if is_changed {
        columns.iter_mut().zip(&rows).for_each(|(column, rows)| words.join(rows, column));
    }
    Ok(is_changed)
}

/// Codes columns of packets by their rows, each in one piece.
fn in_packets<E: From<StripeError>>(
    code: &Code,
    packet: usize,
    columns: &mut [&mut [u8]],
    work: impl FnOnce(&mut [&mut [u8]]) -> Result<bool, E>,
) -> Result<bool, E> {
    let mut rows: Vec<Vec<u8>> = columns.iter().map(|column| vec![0; column.len()]).collect();
    let place = |column: usize, len: usize, at: usize| {
        let count = code.rows(column);
        at % count * (len / count) + at / count * packet
    };
    for (column, (rows, packets)) in rows.iter_mut().zip(&*columns).enumerate() {
        for (at, from) in packets.chunks_exact(packet).enumerate() {
            rows[place(column, packets.len(), at)..][..packet].copy_from_slice(from);
        }
    }
    let is_changed = in_pieces(code, &mut slices(&mut rows), work)?;
    if is_changed {
        for (column, (packets, rows)) in columns.iter_mut().zip(&rows).enumerate() {
            for (at, into) in packets.chunks_exact_mut(packet).enumerate() {
                into.copy_from_slice(&rows[place(column, rows.len(), at)..][..packet]);
            }
        }
    }
    Ok(is_changed)
}

fn slices(rows: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    rows.iter_mut().map(|rows| &mut rows[..]).collect()
}
