//! The meta area of the shards: the manifest and the check tables, written beside the live ones.

use crate::Fault;
use crate::first::Output;
use crate::set::grid::Geometry;
use crate::set::header_of;
use pantile_format::{Crc64, HEADER_COPIES, Manifest, ShardHeader, piece_sums};
use std::ops::Range;

/// The check tables of all stored columns, ascending by column.
pub(crate) struct Meta {
    /// Each column with one checksum per stripe and parity row; without any if the set has no
    /// checksums, or the column no parity.
    pub(crate) tables: Vec<(usize, Vec<Crc64>)>,
}

impl Meta {
    /// Creates tables for all stripes of a manifest, still empty.
    pub(crate) fn empty(geometry: &Geometry, manifest: &Manifest) -> Meta {
        let table = |column: usize| {
            let rows = if manifest.checksums { geometry.parity[column].len() } else { 0 };
            (column, vec![Crc64(0); rows * manifest.stripes as usize])
        };
        Meta { tables: geometry.stored_columns().map(table).collect() }
    }

    /// Returns the parts of all tables that belong to some stripes.
    pub(crate) fn parts(&mut self, geometry: &Geometry, stripes: Range<u64>) -> Vec<&mut [Crc64]> {
        let part = |(column, table): &'_ mut (usize, Vec<Crc64>)| {
            let rows = if table.is_empty() { 0 } else { geometry.parity[*column].len() };
            rows * stripes.start as usize..rows * stripes.end as usize
        };
        self.tables
            .iter_mut()
            .map(|entry| {
                let range = part(entry);
                &mut entry.1[range]
            })
            .collect()
    }

    /// Returns the check table of a column as bytes.
    fn table_bytes(&self, column: usize) -> Vec<u8> {
        let table = self.tables.iter().find(|(c, _)| *c == column).map(|(_, table)| table.as_slice());
        table.unwrap_or_default().iter().flat_map(|crc| crc.0.to_le_bytes()).collect()
    }

    /// Writes the meta area into every shard, at the offset that `place(column, end of blocks,
    /// length)` returns; returns the headers that will make it live. The area includes the last
    /// copy of the header.
    ///
    /// `geometry` is that of the manifest. If it has more columns than the set has now, the parity
    /// columns follow the new data columns.
    pub(crate) fn write(
        &self,
        manifest: &Manifest,
        geometry: &Geometry,
        outputs: &[Output],
        more_columns: usize,
        place: impl Fn(usize, u64, u64) -> u64,
    ) -> Result<Vec<ShardHeader>, Fault> {
        let bytes = manifest.encode();
        let crc = Crc64::of(&bytes);
        let mut headers = Vec::new();
        for output in outputs {
            let table = self.table_bytes(output.column);
            let mut header = header_of(manifest, geometry, output.column + more_columns);
            let Some(end) = header.body_end() else { unreachable!("a grid that was written fits a file") };
            header.manifest_len = bytes.len() as u64;
            header.manifest_crc = crc;
            header.checks_len = table.len() as u64;
            header.checks_crc = Crc64::of(&table);
            let sums = piece_sums(&bytes).into_iter().chain(piece_sums(&table));
            let pieces: Vec<u8> = sums.flat_map(|sum| sum.0.to_le_bytes()).collect();
            header.pieces_len = pieces.len() as u64;
            header.pieces_crc = Crc64::of(&pieces);
            let Some(len) = header.meta_len() else { unreachable!("it is in memory") };
            header.meta_offset = place(output.column, end, len);
            let failed = |e| Fault::io("writing", &output.path, e);
            for mut at in header.meta_copies() {
                for part in [&bytes, &table, &pieces] {
                    output.file.write_at(part, at).map_err(failed)?;
                    at += part.len() as u64;
                }
            }
            let last = header.copy_offsets().into_iter().skip(HEADER_COPIES as usize);
            for at in last {
                output.file.write_at(&header.encode(), at).map_err(failed)?;
            }
            headers.push(header);
        }
        Ok(headers)
    }
}
