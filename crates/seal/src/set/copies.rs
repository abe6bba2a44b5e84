//! Reads content that every shard has a copy of, from the good parts of all copies.
//!
//! The manifest is equal in all shards of a generation, and each shard has two copies of it. An
//! intact copy is read if there is one; else the manifest is combined from the good pieces of all
//! copies. If there is no good piece table, the checksum of the whole decides between differing
//! copies.

use crate::disk::DiskFile;
use crate::set::bounds::COMBINED_BYTES_MAX;
use crate::set::shard::{Candidate, manifest_under};
use pantile_format::{
    Crc64, HEADER_BYTES, Manifest, PIECE_BYTES, ShardHeader, combine, combine_pieces, pieces_of,
};

/// Returns the manifest of shards of one generation that have no intact copy of it. It is combined
/// from as many copies as [`COMBINED_BYTES_MAX`] permits.
pub(crate) fn combined(shards: &[&Candidate]) -> Option<Manifest> {
    let described = |shard: &&Candidate| shard.header.as_ref().ok().map(|(header, _)| header.clone());
    // Rebuilt shards may have stored the same manifest in another form: the most frequent form
    // comes first.
    let mut kinds: Vec<(ShardHeader, usize)> = Vec::new();
    for header in shards.iter().filter_map(described) {
        let is_same = |kind: &&mut (ShardHeader, usize)| {
            (kind.0.manifest_len, kind.0.manifest_crc) == (header.manifest_len, header.manifest_crc)
        };
        match kinds.iter_mut().find(is_same) {
            Some((_, count)) => *count += 1,
            None => kinds.push((header, 1)),
        }
    }
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    kinds.iter().find_map(|(header, _)| {
        let has_it = |shard: &&&Candidate| {
            described(shard).is_some_and(|found| {
                (found.manifest_len, found.manifest_crc) == (header.manifest_len, header.manifest_crc)
            })
        };
        let most = COMBINED_BYTES_MAX / header.manifest_len.max(1);
        let having = shards.iter().filter(has_it).copied();
        let copies = having.flat_map(|shard| {
            let header = shard.header.as_ref().ok().map(|(header, _)| header);
            header.into_iter().flat_map(ShardHeader::meta_copies).map(move |at| (shard, at))
        });
        let copies: Vec<(&Candidate, u64)> = copies.take(most as usize).collect();
        combined_of(&copies, header)
    })
}

/// Combines the manifest from copies, each given by its shard and its offset there.
fn combined_of(places: &[(&Candidate, u64)], header: &ShardHeader) -> Option<Manifest> {
    let len = usize::try_from(header.manifest_len).ok()?;
    let read = |(shard, at): &(&Candidate, u64)| -> Option<Vec<u8>> {
        let pieces = read_pieces(&**shard.file.as_ref()?, *at, header.manifest_len, shard.len)?;
        let zeros = |index: usize| vec![0; (len - index * PIECE_BYTES as usize).min(PIECE_BYTES as usize)];
        // An unreadable piece is treated like any other damage.
        Some(
            pieces.into_iter().enumerate().flat_map(|(i, piece)| piece.unwrap_or_else(|| zeros(i))).collect(),
        )
    };
    let copies: Vec<Vec<u8>> = places.iter().filter_map(read).collect();
    let views: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
    let is_good = |bytes: &[u8]| Crc64::of(bytes) == header.manifest_crc;
    let by_pieces = places.iter().find_map(|(shard, _)| shard.piece_sums()).and_then(|sums| {
        let pieces: Option<Vec<Vec<u8>>> = combine_pieces(&views, len, &sums).into_iter().collect();
        pieces.map(|pieces| pieces.concat()).filter(|bytes| is_good(bytes))
    });
    manifest_under(&by_pieces.or_else(|| combine(&views, is_good))?, header).ok()
}

/// Reads bytes piece by piece; `None` for a piece that is unreadable or behind the end of the file.
/// Returns `None` for a length that exceeds the file, so that no more memory than the length of the
/// file is used.
pub(crate) fn read_pieces(
    file: &dyn DiskFile,
    at: u64,
    len: u64,
    file_len: u64,
) -> Option<Vec<Option<Vec<u8>>>> {
    if len > file_len {
        return None;
    }
    let piece = |index: u64| {
        let from = at.checked_add(index * PIECE_BYTES)?;
        let want = (len - index * PIECE_BYTES).min(PIECE_BYTES) as usize;
        let mut bytes = vec![0; want];
        (file.read_at(&mut bytes, from).ok()? == want).then_some(bytes)
    };
    Some((0..pieces_of(len)).map(piece).collect())
}

/// Returns the bytes at the possible offsets of the last header copy: at the end of the file, or,
/// during a change, one byte before.
pub(crate) fn last_copies(file: &dyn DiskFile) -> Vec<Vec<u8>> {
    let Ok(meta) = file.meta() else { return Vec::new() };
    let copy = |behind: u64| {
        let at = meta.size.checked_sub(HEADER_BYTES + behind)?;
        let mut bytes = vec![0; HEADER_BYTES as usize];
        (file.read_at(&mut bytes, at).ok()? == bytes.len()).then_some(bytes)
    };
    [0, 1].into_iter().filter_map(copy).collect()
}
