//! A pool's code on the chunks of its stripes: the reads, and the chunks computed from them.
//!
//! A chunk is one column. If a column has several rows, their elements are interleaved in packets,
//! as Jerasure has them: a packet of row 0, of row 1, .., and then the next packet of each. These
//! packets together are a *group*, which is a stripe of its own. Without packets a chunk is one
//! group, with its rows one behind the other: Ceph's *sub-chunks*, of which parts can be read. A
//! code of one row has one. Chunks of words are taken apart into rows of bytes, coded like
//! those, and put together again. The buffers of Ceph are read in place and never written.

use crate::kept::CACHE_BYTES;
use crate::shards::Shards;
use pantile::code::foreign::{Rows, outline};
use pantile::plan::Request;
use pantile::words::Words;
use pantile::{
    Buffer, CellIndex, CellSet, Code, Codec, Costs, Effort, PlanError, RecoverError, Recovery, StripeError,
    Use,
};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, RwLock};

/// Layout of a pool's chunks: pools with equal ones share a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The code; column i is shard i.
    pub code: Code,
    /// Places of a column's rows in a chunk.
    pub rows: Rows,
    /// Every chunk length is a multiple of this.
    pub chunk_multiple: usize,
}

/// Reads for the repair of one chunk: the same sub-chunks of each of some others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The others.
    pub shards: Shards,
    /// Sub-chunks of each, ascending.
    pub rows: Vec<usize>,
}

/// Reason why chunks were not computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkFault {
    /// A chunk must be whole groups.
    Length {
        /// The length given.
        have: usize,
        /// Unit of the length.
        multiple_of: usize,
    },
    /// The given parts are not those that a repair reads.
    NotTheParts {
        /// The shard to repair.
        shard: usize,
    },
    /// A delta is of a data chunk.
    NotData {
        /// The shard named.
        shard: usize,
    },
    /// Too little is left.
    Plan(PlanError),
    /// The chunks are no stripe of the code.
    Stripe(StripeError),
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkFault::Length { have, multiple_of } => write!(
                out,
                "chunks of {have} bytes are no multiple of {multiple_of} bytes, of which this code's chunks are made; \
                 look at the shards' lengths"
            ),
            ChunkFault::NotTheParts { shard } => write!(
                out,
                "the sub-chunks given are not those that yield shard {shard}; read what minimum_to_decode names, or \
                 whole chunks"
            ),
            ChunkFault::NotData { shard } => {
                write!(out, "shard {shard} holds no data, and a delta is of data")
            }
            ChunkFault::Plan(error) => error.fmt(out),
            ChunkFault::Stripe(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for ChunkFault {}

impl From<PlanError> for ChunkFault {
    fn from(error: PlanError) -> ChunkFault {
        ChunkFault::Plan(error)
    }
}

impl From<StripeError> for ChunkFault {
    fn from(error: StripeError) -> ChunkFault {
        ChunkFault::Stripe(error)
    }
}

impl From<RecoverError> for ChunkFault {
    fn from(error: RecoverError) -> ChunkFault {
        match error {
            RecoverError::Plan(error) => error.into(),
            RecoverError::Stripe(error) => error.into(),
        }
    }
}

/// One code, ready for the chunks of a pool. Shared by threads.
pub struct Pool {
    layout: Layout,
    codec: Codec,
    /// The shards with data, in the order in which an object fills them.
    data: Vec<usize>,
    /// Shard of chunk i, data first; empty where it is shard i.
    mapping: Vec<i32>,
    /// Takes chunks of words apart.
    words: Option<Words>,
    /// Chooses the chunks to read, if they are of words and not every k chunks suffice.
    outline: Option<Codec>,
    /// Sets of shards to read, by the wanted and the present shards.
    minima: RwLock<HashMap<(Shards, Shards), Shards>>,
}

/// About 100 bytes each: a tenth of the limit of a kind of plans.
const MINIMA_MOST: usize = 1024;

/// A search for the least reads of a code of one row: 50 ms, once for each pattern, in the worst
/// case. All of Ceph's shec layouts end sooner and are exact.
const EFFORT: Effort = Effort::Thorough { nodes: 50_000 };

/// Bytes of each chunk of words that are processed at a time: whole words of any length.
const WORDS_BYTES: usize = 8 << 10;

/// Bytes between the rows of two chunks of words, so that they do not begin at one place of their
/// pages.
const WORDS_APART_BYTES: usize = 192;

/// Bytes of a line of the cache.
const LINE_BYTES: usize = 64;

/// Chunks that are read, by shard; `None` if one is not there.
type Given<'c> = [Option<&'c [u8]>];
/// Chunks that are written, by shard; `None` if one is not wanted.
type Wanted<'c> = [Option<&'c mut [u8]>];

/// Chunks of one call, on the stack up to the widths that Ceph has by itself.
type Few<T> = SmallVec<[T; 32]>;

impl Pool {
    /// A pool whose caches may fill so many bytes of each kind.
    pub fn new(layout: Layout, cache_bytes: usize) -> Pool {
        let code = &layout.code;
        let mut data: Vec<usize> = Vec::new();
        for &cell in code.data() {
            let column = code.column_of(cell);
            if !data.contains(&column) {
                data.push(column);
            }
        }
        let parity = (0..code.columns()).filter(|column| !data.contains(column));
        let order: Vec<usize> = data.iter().copied().chain(parity).collect();
        let mapping = match order.is_sorted() {
            true => Vec::new(),
            false => order.iter().map(|&shard| shard as i32).collect(),
        };
        let codec = Codec::new(code).with_cache_bytes(cache_bytes.min(CACHE_BYTES));
        let words = (layout.rows == Rows::Words).then(|| Words::new(code.rows_max())).flatten();
        let has_outline = words.is_some() && !code.claim().mds;
        let outline = has_outline.then(|| outline(code)).flatten().map(|code| Codec::new(&code));
        Pool { codec, data, mapping, words, outline, minima: RwLock::default(), layout }
    }

    /// Returns its layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Chunks of a stripe.
    pub fn chunks(&self) -> usize {
        self.layout.code.columns()
    }

    /// The shards with data, in the order in which an object fills them.
    pub fn data(&self) -> &[usize] {
        &self.data
    }

    /// Shard of chunk i, data first; empty where that is shard i.
    pub fn mapping(&self) -> &[i32] {
        &self.mapping
    }

    /// Bytes of each chunk of an object: the object rounded up to whole chunks; `None` where that
    /// is more than Ceph can say.
    pub fn chunk_bytes(&self, object_bytes: u32) -> Option<u32> {
        let chunk = (object_bytes as usize).div_ceil(self.data.len());
        u32::try_from(chunk.next_multiple_of(self.layout.chunk_multiple)).ok()
    }

    /// Sub-chunks of a chunk: 1 unless the rows of a column lie one behind the other.
    pub fn sub_chunks(&self) -> usize {
        match self.layout.rows {
            Rows::Pieces => self.layout.code.rows_max(),
            Rows::Packets(_) | Rows::Words => 1,
        }
    }

    /// Bytes of which every multiple, at the same place of all chunks, is coded by itself: 1 for
    /// codes of one row, else a group of packets, a word, or a byte of each sub-chunk.
    pub fn granularity(&self) -> usize {
        let rows = self.layout.code.rows_max();
        match self.layout.rows {
            Rows::Pieces | Rows::Words => rows,
            Rows::Packets(packet) => packet * rows,
        }
    }

    /// The sub-chunks that repair the one chunk that is wanted, where that is less than whole
    /// chunks; `None` if it is there, if more are wanted or if the code has no such repair.
    ///
    /// Invariant: of its own shards alone the answer is the same. Cost: planned once per pattern.
    pub fn parts(&self, wanted: Shards, there: Shards) -> Option<Parts> {
        self.repair_of(wanted, there).map(|(_, parts)| parts)
    }

    fn repair_of(&self, wanted: Shards, there: Shards) -> Option<(Arc<Recovery>, Parts)> {
        let code = &self.layout.code;
        let column = wanted.iter().next().filter(|&column| wanted.len() == 1 && !there.contains(column))?;
        if self.sub_chunks() == 1 || column >= self.chunks() {
            return None;
        }
        let named = code.partial_repair(column)?;
        let mut helpers: Few<usize> = (0..self.chunks()).filter(|&other| there.contains(other)).collect();
        helpers.sort_by_key(|other| !named.among.contains(other));
        helpers.truncate(named.helpers);
        let is_read = |cell: &CellIndex| {
            let cell = code.cell(*cell);
            helpers.contains(&cell.column) && named.rows.binary_search(&cell.row).is_ok()
        };
        let lost: Vec<CellIndex> = code.cells().filter(|cell| !is_read(cell)).collect();
        let wanted: Vec<CellIndex> = code.column_cells(column).collect();
        let recovery =
            self.codec.recovery(&CellSet::of_cells(code, &lost), &wanted, &Costs::uniform()).ok()?;
        let (mut shards, mut rows) = (Shards::NONE, BTreeSet::new());
        for cell in recovery.plan().reads.iter().map(|&cell| code.cell(cell)) {
            shards.insert(cell.column);
            rows.insert(cell.row);
        }
        let is_less = shards.len() * rows.len() < self.data.len() * self.sub_chunks();
        is_less.then(|| (recovery, Parts { shards, rows: rows.into_iter().collect() }))
    }

    /// The shards to read for those that are wanted: the least, each at its cost (1 without
    /// `costs`).
    ///
    /// If all are there, they are read themselves. Exact for codes of one row per column whose
    /// search ends and for MDS codes. Errors: too little is there. Cost: found once per pattern.
    pub fn minimum(&self, wanted: Shards, there: Shards, costs: Option<&[i32]>) -> Result<Shards, PlanError> {
        let all = Shards::first(self.chunks());
        if let Some(column) = wanted.without(all).iter().next() {
            return Err(PlanError::NoSuchColumn { column, columns: self.chunks() });
        }
        let there = there.without(there.without(all));
        if wanted.without(there).is_empty() {
            return Ok(wanted);
        }
        if costs.is_some_and(|costs| costs.windows(2).any(|pair| pair[0] != pair[1])) {
            return self.minimum_anew(wanted, there, costs);
        }
        let key = (wanted, there);
        if let Some(&known) = self.minima.read().unwrap_or_else(|error| error.into_inner()).get(&key) {
            return Ok(known);
        }
        let found = self.minimum_anew(wanted, there, None)?;
        let mut minima = self.minima.write().unwrap_or_else(|error| error.into_inner());
        if minima.len() >= MINIMA_MOST {
            minima.clear();
        }
        minima.insert(key, found);
        Ok(found)
    }

    fn minimum_anew(
        &self,
        wanted: Shards,
        there: Shards,
        costs: Option<&[i32]>,
    ) -> Result<Shards, PlanError> {
        let code = &self.layout.code;
        let mut prices = Costs::uniform();
        for (column, &cost) in costs.into_iter().flatten().enumerate() {
            prices.set(column, u32::try_from(cost).unwrap_or(0));
        }
        let plan = |codec: &Codec, there: Shards| {
            let code = codec.code();
            let lost: Vec<usize> = Shards::first(self.chunks()).without(there).iter().collect();
            let wanted: Vec<CellIndex> = wanted.iter().flat_map(|column| code.column_cells(column)).collect();
            let lost = CellSet::of_columns(code, &lost);
            let request = Request { lost: &lost, wanted: &wanted, costs: &prices, effort: EFFORT };
            let reads = codec.planner().recover(&request)?.reads;
            Ok(reads.iter().map(|&cell| code.column_of(cell)).collect::<Shards>())
        };
        if let Some(chosen) = self.outline.as_ref().and_then(|outline| plan(outline, there).ok())
            && plan(&self.codec, chosen).is_ok()
        {
            return Ok(chosen);
        }
        // Rows of a chunk are not read one by one: any k chunks do in an MDS code, and mostly where
        // a code of that shape is none.
        if code.rows_max() > 1 && there.len() >= self.data.len() {
            let mut chosen: Vec<usize> = there.iter().collect();
            chosen.sort_by_key(|&column| (prices.of(column), !wanted.contains(column), column));
            let chosen: Shards = chosen.into_iter().take(self.data.len()).collect();
            if code.claim().mds || plan(&self.codec, chosen).is_ok() {
                return Ok(chosen);
            }
        }
        plan(&self.codec, there)
    }

    /// Computes parity chunks from data chunks.
    ///
    /// Shape: both lists have an entry for each shard. Reads the data shards of `data`, with zeros
    /// for `None`, and writes the given parities. All are of `len` bytes. Errors: `len` is not
    /// whole groups; nothing is then written.
    pub fn encode(&self, data: &Given<'_>, parity: &mut Wanted<'_>, len: usize) -> Result<(), ChunkFault> {
        self.in_rows(data, parity, len, false, |data, parity, len| self.encode_rows(data, parity, len))
    }

    fn encode_rows(&self, data: &Given<'_>, parity: &mut Wanted<'_>, len: usize) -> Result<(), ChunkFault> {
        let is_data = |shard| self.data.contains(&shard);
        let missing = |shard: usize| !is_data(shard) && parity[shard].is_none();
        let spare: Few<usize> = (0..self.chunks()).filter(|&shard| missing(shard)).collect();
        let needs_zeros = self.data.iter().any(|&shard| data[shard].is_none());
        let size = self.group_bytes(len)?;
        with_room(spare.len() * size, if needs_zeros { size } else { 0 }, |room, zeros| {
            for from in (0..len).step_by(size.max(1)) {
                let mut room = &mut room[..];
                let mut cells = Few::<Buffer<'_>>::new();
                for (shard, out) in parity.iter_mut().enumerate() {
                    match (data[shard], out) {
                        (Some(bytes), _) if is_data(shard) => {
                            self.read_cells(&mut cells, &bytes[from..][..size])
                        }
                        (None, _) if is_data(shard) => self.read_cells(&mut cells, zeros),
                        (_, Some(bytes)) => self.write_cells(&mut cells, &mut bytes[from..][..size]),
                        (_, None) => self.write_cells(&mut cells, take_room(&mut room, size)),
                    }
                }
                self.codec.encode_given(&mut cells)?;
            }
            Ok(())
        })
    }

    /// Computes wanted chunks from those that are there.
    ///
    /// Shape: both lists have an entry for each shard; a chunk that is there is not wanted. All are
    /// of `len` bytes. Errors: `len` is not whole groups, or too little is there; nothing is then
    /// written.
    pub fn decode(&self, there: &Given<'_>, wanted: &mut Wanted<'_>, len: usize) -> Result<(), ChunkFault> {
        self.in_rows(there, wanted, len, false, |there, wanted, len| self.decode_rows(there, wanted, len))
    }

    fn decode_rows(&self, there: &Given<'_>, wanted: &mut Wanted<'_>, len: usize) -> Result<(), ChunkFault> {
        let of = |is_it: &dyn Fn(usize) -> bool| -> Few<usize> {
            (0..self.chunks()).filter(|&shard| is_it(shard)).collect()
        };
        let lost = of(&|shard| there[shard].is_none());
        let asked = of(&|shard| there[shard].is_none() && wanted[shard].is_some());
        if asked.is_empty() {
            return Ok(());
        }
        let size = self.group_bytes(len)?;
        let recovery = self.codec.decoder_of(&lost, &asked)?;
        let code = &self.layout.code;
        let is_written =
            |shard: usize| code.column_cells(shard).any(|cell| recovery.use_of(cell) == Use::Written);
        let spare = lost.iter().filter(|&&shard| wanted[shard].is_none() && is_written(shard)).count();
        with_room(spare * size, 0, |room, _| {
            for from in (0..len).step_by(size.max(1)) {
                let mut room = &mut room[..];
                let mut cells = Few::<Buffer<'_>>::new();
                for (shard, out) in wanted.iter_mut().enumerate() {
                    match (there[shard], out) {
                        (Some(bytes), _) => self.read_cells(&mut cells, &bytes[from..][..size]),
                        (None, Some(bytes)) => self.write_cells(&mut cells, &mut bytes[from..][..size]),
                        (None, None) if is_written(shard) => {
                            self.write_cells(&mut cells, take_room(&mut room, size))
                        }
                        (None, None) => cells.extend(code.column_cells(shard).map(|_| Buffer::Absent)),
                    }
                }
                recovery.run_given(&mut cells)?;
            }
            Ok(())
        })
    }

    /// Computes a chunk from the sub-chunks of others that [`Pool::parts`] names.
    ///
    /// Shape: `there` has an entry for each shard, with the named sub-chunks one behind the other;
    /// `chunk` is a whole one. Errors: it is not whole sub-chunks, or others are given than are
    /// read; nothing is then written.
    pub fn repair(&self, shard: usize, there: &[Option<&[u8]>], chunk: &mut [u8]) -> Result<(), ChunkFault> {
        let code = &self.layout.code;
        let sub_chunk = self.packet(self.group_bytes(chunk.len())?);
        let given: Shards = (0..self.chunks()).filter(|&other| there[other].is_some()).collect();
        let fault = ChunkFault::NotTheParts { shard };
        let Some((recovery, parts)) = self.repair_of([shard].into_iter().collect(), given) else {
            return Err(fault);
        };
        let is_it =
            |other: usize| there[other].is_some_and(|part| part.len() == parts.rows.len() * sub_chunk);
        if sub_chunk == 0 || !parts.shards.iter().all(is_it) {
            return Err(fault);
        }
        let is_written = |cell: CellIndex| recovery.use_of(cell) == Use::Written;
        let is_between = |cell: CellIndex| is_written(cell) && code.column_of(cell) != shard;
        let between = code.cells().filter(|&cell| is_between(cell)).count();
        with_room(between * sub_chunk, 0, |mut room, _| {
            let mut cells: Few<Buffer<'_>> = (0..code.cell_count()).map(|_| Buffer::Absent).collect();
            for other in parts.shards.iter() {
                let given = there[other].into_iter().flat_map(|part| part.chunks_exact(sub_chunk));
                let named = parts.rows.iter().filter_map(|&row| code.column_cells(other).nth(row));
                named.zip(given).for_each(|(cell, bytes)| cells[cell.usize()] = Buffer::Read(bytes));
            }
            for cell in code.cells().filter(|&cell| is_between(cell)) {
                cells[cell.usize()] = Buffer::Write(take_room(&mut room, sub_chunk));
            }
            for (cell, bytes) in code.column_cells(shard).zip(chunk.chunks_exact_mut(sub_chunk)) {
                cells[cell.usize()] = Buffer::Write(bytes);
            }
            Ok(recovery.run_given(&mut cells)?)
        })
    }

    /// Adds a change of a data chunk, old content plus new, to the parities that are given.
    ///
    /// Shape: an entry of `parity` for each shard; all are of `len` bytes. Errors: the shard holds
    /// no data, or `len` is not whole groups; nothing is then written.
    pub fn add_delta(
        &self,
        shard: usize,
        delta: &[u8],
        parity: &mut Wanted<'_>,
        len: usize,
    ) -> Result<(), ChunkFault> {
        if !self.data.contains(&shard) {
            return Err(ChunkFault::NotData { shard });
        }
        self.in_rows(&[Some(delta)], parity, len, true, |delta, parity, len| {
            self.add_delta_rows(shard, delta[0].unwrap_or_default(), parity, len)
        })
    }

    fn add_delta_rows(
        &self,
        shard: usize,
        delta: &[u8],
        parity: &mut Wanted<'_>,
        len: usize,
    ) -> Result<(), ChunkFault> {
        let size = self.group_bytes(len)?;
        let code = &self.layout.code;
        let packet = self.packet(size);
        let missing = |column: usize| !self.data.contains(&column) && parity[column].is_none();
        let spare = (0..self.chunks()).filter(|&column| missing(column)).count();
        with_room(spare * size, 0, |room, _| {
            for from in (0..len).step_by(size.max(1)) {
                let mut room = &mut room[..];
                let mut cells = Few::<Buffer<'_>>::new();
                for (column, out) in parity.iter_mut().enumerate() {
                    match out {
                        _ if self.data.contains(&column) => {
                            cells.extend(code.column_cells(column).map(|_| Buffer::Absent));
                        }
                        Some(bytes) => self.write_cells(&mut cells, &mut bytes[from..][..size]),
                        None => self.write_cells(&mut cells, take_room(&mut room, size)),
                    }
                }
                for (row, cell) in code.column_cells(shard).enumerate() {
                    let change = &delta[from + row * packet..][..packet];
                    let position = code.data_position(cell).unwrap_or(usize::MAX);
                    self.codec.add_change_given(&mut cells, position, change)?;
                }
            }
            Ok(())
        })
    }

    /// Runs an operation on rows for chunks of words: on a part of all chunks at a time, taken
    /// apart and put together again. Everything else it runs as it is.
    ///
    /// If `adds`, the old content of chunks that are written is read.
    fn in_rows(
        &self,
        read: &Given<'_>,
        written: &mut Wanted<'_>,
        len: usize,
        adds: bool,
        work: impl Fn(&Given<'_>, &mut Wanted<'_>, usize) -> Result<(), ChunkFault>,
    ) -> Result<(), ChunkFault> {
        let Some(words) = &self.words else { return work(read, written, len) };
        self.group_bytes(len)?;
        let pitch = len.min(WORDS_BYTES) + WORDS_APART_BYTES;
        let chunks = read.iter().flatten().count() + written.iter().flatten().count();
        with_words(chunks * pitch, |room| {
            for from in (0..len).step_by(WORDS_BYTES) {
                let part = from..len.min(from + WORDS_BYTES);
                let mut rooms = room.chunks_exact_mut(pitch).map(|room| &mut room[..part.len()]);
                let mut take = || rooms.next().unwrap_or_default();
                let read: Few<Option<&[u8]>> = read
                    .iter()
                    .map(|chunk| {
                        let rows = chunk.map(|chunk| (chunk, take()));
                        rows.map(|(chunk, rows)| {
                            words.split(&chunk[part.clone()], rows);
                            &*rows
                        })
                    })
                    .collect();
                let mut rows: Few<Option<&mut [u8]>> = written
                    .iter()
                    .map(|chunk| {
                        let rows = chunk.as_deref().map(|chunk| (chunk, take()));
                        rows.map(|(chunk, rows)| {
                            if adds {
                                words.split(&chunk[part.clone()], rows);
                            }
                            rows
                        })
                    })
                    .collect();
                work(&read, &mut rows, part.len())?;
                for (chunk, rows) in written.iter_mut().zip(&rows) {
                    if let (Some(chunk), Some(rows)) = (chunk, rows) {
                        words.join(rows, &mut chunk[part.clone()]);
                    }
                }
            }
            Ok(())
        })
    }

    /// Bytes of a group in chunks of `len` bytes.
    fn group_bytes(&self, len: usize) -> Result<usize, ChunkFault> {
        let rows = self.layout.code.rows_max();
        let (group, multiple_of) = match self.layout.rows {
            Rows::Pieces | Rows::Words => (len, rows),
            Rows::Packets(packet) => (packet * rows, packet * rows),
        };
        match len.is_multiple_of(multiple_of) {
            true => Ok(group),
            false => Err(ChunkFault::Length { have: len, multiple_of }),
        }
    }

    /// Bytes of a cell in a group.
    fn packet(&self, group: usize) -> usize {
        match self.layout.rows {
            Rows::Packets(packet) => packet,
            Rows::Pieces | Rows::Words => group / self.layout.code.rows_max(),
        }
    }

    fn read_cells<'b>(&self, cells: &mut Few<Buffer<'b>>, group: &'b [u8]) {
        cells.extend(group.chunks_exact(self.packet(group.len())).map(Buffer::Read));
    }

    fn write_cells<'b>(&self, cells: &mut Few<Buffer<'b>>, group: &'b mut [u8]) {
        let packet = self.packet(group.len());
        cells.extend(group.chunks_exact_mut(packet).map(Buffer::Write));
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pool({}, chunks of {} bytes)", self.layout.code, self.layout.chunk_multiple)
    }
}

/// Takes the first bytes of the rest of a room.
fn take_room<'r>(room: &mut &'r mut [u8], len: usize) -> &'r mut [u8] {
    let (taken, left) = std::mem::take(room).split_at_mut(len);
    *room = left;
    taken
}

thread_local! {
    /// Room for chunks that are computed and not wanted, and zeros for those that are not there.
    static ROOM: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
    /// Room for chunks of words that are taken apart.
    static WORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A thread keeps no more than this of room and of zeros, each.
const ROOM_BYTES_MOST: usize = 1 << 20;

/// Runs with room of so many bytes and so many zeros.
fn with_room<R>(room_bytes: usize, zero_bytes: usize, run: impl FnOnce(&mut [u8], &[u8]) -> R) -> R {
    if room_bytes == 0 && zero_bytes == 0 {
        return run(&mut [], &[]);
    }
    if room_bytes.max(zero_bytes) > ROOM_BYTES_MOST {
        return run(&mut vec![0; room_bytes], &vec![0; zero_bytes]);
    }
    ROOM.with_borrow_mut(|(room, zeros)| {
        room.resize(room.len().max(room_bytes), 0);
        zeros.resize(zeros.len().max(zero_bytes), 0);
        run(&mut room[..room_bytes], &zeros[..zero_bytes])
    })
}

/// Runs with room of so many bytes for rows of words, aligned to a line of the cache: vectors that
/// cross one are stored at half the speed.
fn with_words<R>(bytes: usize, run: impl FnOnce(&mut [u8]) -> R) -> R {
    let aligned = |room: &mut Vec<u8>| {
        room.resize(room.len().max(bytes + LINE_BYTES), 0);
        let from = room.as_ptr().align_offset(LINE_BYTES);
        run(&mut room[from..][..bytes])
    };
    match bytes > ROOM_BYTES_MOST {
        true => aligned(&mut Vec::new()),
        false => WORDS.with_borrow_mut(aligned),
    }
}
