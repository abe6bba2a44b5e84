//! The journal on disk: written before the shards are changed, applied by the next command that
//! opens the set.
//!
//! A commit is the rename of the journal to its final name. Applying it is idempotent. Headers are
//! written last, one copy at a time and each after a sync, so that every shard always has a good
//! header, of the state before or of the state after. A shard whose header is of neither state is
//! not touched. A journal stays until every shard that it names has the state after: a missing
//! shard can return with the state before.
//!
//! Any user may have written a journal. So all records are compared with the layout in the headers
//! before the first is applied, and a journal writes no more bytes to a shard than the length of
//! the shard.

use crate::disk::{Access, Disk, DiskFile, set_back};
use crate::options::{Progress, Silent};
use crate::set::Set;
use crate::set::bounds::{Bounds, Codes, read_stored};
use crate::set::names::{Names, column_of, journal_name, parent, temp};
use crate::set::shard::{has_meta, open_shard, open_shard_to_write, read_front};
use crate::{Fault, FaultKind, World};
use pantile::Codec;
use pantile_format::{
    BODY_OFFSET, Column, CrcStream, FormatError, Generation, HEADER_BYTES, JOURNAL_HEADER_BYTES,
    JournalHeader, Manifest, Part, RECORD_BYTES, RecordHead, RecordKind, SetId, ShardHeader, Spot,
    TARGET_BYTES, Target, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 20;

/// A journal that is being written, under a temporary name.
pub(crate) struct JournalWriter<'w> {
    disk: &'w dyn Disk,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes of the file that were written before those in the buffer.
    flushed: u64,
    crc: CrcStream,
}

impl<'w> JournalWriter<'w> {
    /// Creates the journal. If an owner and a group are given, they are those of the shards, so
    /// that this user can finish the journal after a kill.
    pub(crate) fn create(
        disk: &'w dyn Disk,
        path: PathBuf,
        header: JournalHeader,
        owner: Option<(u32, u32)>,
    ) -> Result<JournalWriter<'w>, Fault> {
        let temp = temp(&path);
        let file = disk.create(&temp).map_err(|e| Fault::io("creating", &temp, e))?;
        let owned = owner.map_or(Ok(()), |(owner, group)| file.set_owner(owner, group));
        owned.map_err(|e| Fault::io("setting the owner of", &temp, e))?;
        let mut writer =
            JournalWriter { disk, path, file, buffer: Vec::new(), flushed: 0, crc: CrcStream::new() };
        writer.push(&header.encode())?;
        Ok(writer)
    }

    /// Returns the bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    pub(crate) fn write(&mut self, targets: &[Target], payload: &[u8]) -> Result<(), Fault> {
        self.record(RecordKind::Write, targets, payload.len() as u64)?;
        self.push(payload)
    }

    pub(crate) fn zero(&mut self, target: Target, len: u64) -> Result<(), Fault> {
        self.record(RecordKind::Zero, &[target], len)
    }

    pub(crate) fn length(&mut self, target: Target) -> Result<(), Fault> {
        self.record(RecordKind::Length, &[target], 0)
    }

    pub(crate) fn replace(&mut self, column: Column) -> Result<(), Fault> {
        self.record(RecordKind::Replace, &[Target { column, offset: 0 }], 0)
    }

    /// Adds a block of an original, with its sealed bytes, and its present bytes if they can be
    /// read.
    pub(crate) fn original(&mut self, spot: Spot, new: &[u8], old: Option<&[u8]>) -> Result<(), Fault> {
        let old = old.unwrap_or_default();
        let payload_len = (new.len() + old.len()) as u64;
        self.push(&RecordHead { kind: RecordKind::Original, targets: 1, payload_len }.encode())?;
        self.push(&spot.encode())?;
        self.push(new)?;
        self.push(old)
    }

    /// Removes it: its change does not happen.
    pub(crate) fn abandon(self) {
        // Best effort: the next command that writes removes it.
        let _ = self.disk.remove(&temp(&self.path));
    }

    fn record(&mut self, kind: RecordKind, targets: &[Target], payload_len: u64) -> Result<(), Fault> {
        self.push(&RecordHead { kind, targets: targets.len() as u32, payload_len }.encode())?;
        targets.iter().try_for_each(|target| self.push(&target.encode()))
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.crc.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Fault> {
        let path = temp(&self.path);
        self.file.write_at(&self.buffer, self.flushed).map_err(|e| Fault::io("writing", &path, e))?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the journal durable and gives it its name: from here on the change will happen. Its
    /// mtime becomes that of the shards, since files that changed after `began` may differ from
    /// their sealed state.
    pub(crate) fn commit(mut self, began: Timestamp) -> Result<(), Fault> {
        self.record(RecordKind::End, &[], 8)?;
        let crc = self.crc.crc().0.to_le_bytes();
        self.push(&crc)?;
        self.flush()?;
        let from = temp(&self.path);
        set_back(&*self.file, began);
        self.file.sync().map_err(|e| Fault::io("syncing", &from, e))?;
        self.disk.rename(&from, &self.path).map_err(|e| Fault::io("renaming", &from, e))?;
        let dir = parent(&self.path);
        self.disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))
    }
}

/// Returns the header for the journal of a commit to a state.
pub(crate) fn journal_header(manifest: &Manifest) -> JournalHeader {
    JournalHeader { set: manifest.set, generation: manifest.generation }
}

/// Returns the journals in a directory.
pub(crate) fn journals(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, Fault> {
    let names = disk.list(dir).map_err(|e| Fault::io("reading", dir, e))?;
    Ok(names
        .iter()
        .filter(|name| journal_name(name.as_os_str()).is_some())
        .map(|name| dir.join(name))
        .collect())
}

/// True if a commit to this state of this set was decided, so that its journal has its final name.
pub(crate) fn is_decided(disk: &dyn Disk, path: &Path, set: SetId, generation: Generation) -> bool {
    let header = Stream::open(disk, path, &Silent).and_then(|mut stream| stream.header());
    header.is_ok_and(|header| header.set == set && header.generation == generation)
}

/// Returns the set of a journal; `None` for any other file.
pub(crate) fn set_of_journal(disk: &dyn Disk, path: &Path) -> Option<SetId> {
    let header = Stream::open(disk, path, &Silent).and_then(|mut stream| stream.header());
    header.ok().map(|header| header.set)
}

/// True if there are shards of the journal's set, by their names, beside it or in these
/// directories.
pub(crate) fn has_shards(disk: &dyn Disk, path: &Path, dirs: &[PathBuf]) -> Result<bool, Fault> {
    Ok(!find_shards(disk, path, dirs)?.is_empty())
}

/// Applies a journal to the shards beside it and in these directories. If then every shard that the
/// journal names has the change, the journal is removed. Otherwise it stays, and the first column
/// without the change is returned.
///
/// A missing shard is left alone, since it can return. A shard that missed an earlier commit is
/// left alone too: it counts as lost, and heal rebuilds it. A shard that was rebuilt in the state
/// before, without the journal, cannot get the state after. If the other shards do not suffice for
/// the state after and none has it yet, no shard is touched: together they may still have the state
/// before.
///
/// Errors: `BadJournal` if the journal is damaged; nothing is changed then, unless another program
/// changes the journal at the same time. `Cancelled`: the next command that opens the set
/// continues.
pub(crate) fn replay(
    world: &World<'_>,
    path: &Path,
    dirs: &[PathBuf],
    progress: &dyn Progress,
) -> Result<Option<Column>, Fault> {
    let disk = world.disk;
    let (mut replay, mut stream) = prepare(world, path, dirs, progress)?;
    if let Some(column) = replay.waits_for() {
        return Ok(Some(column));
    }
    let dir = parent(path);
    stream.rewind();
    stream.header()?;
    while replay.step(&mut stream)? {}
    replay.set_back(stream.file.meta().map_err(|e| Fault::io("reading", path, e))?.mtime);
    replay.sync()?;
    let made = replay.after.iter().filter(|(_, header)| header.is_none());
    let made = made.filter_map(|(column, _)| replay.shards.get(column)).map(|path| parent(path));
    for dir in made.chain([dir.clone()]).collect::<BTreeSet<_>>() {
        disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))?;
    }
    let lacking = replay.first(State::Away).or_else(|| replay.first(State::Before));
    if lacking.is_none() {
        disk.remove(path).map_err(|e| Fault::io("removing", path, e))?;
        disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))?;
    }
    Ok(lacking)
}

/// True if a journal has work left on present shards. It writes nothing.
///
/// Errors: as [`replay`].
pub(crate) fn is_to_be_done(
    world: &World<'_>,
    path: &Path,
    dirs: &[PathBuf],
    progress: &dyn Progress,
) -> Result<bool, Fault> {
    let (replay, _) = prepare(world, path, dirs, progress)?;
    Ok(replay.waits_for().is_none() && replay.first(State::Before).is_some())
}

/// Reads a journal to its end, and compares each record with the layout in the headers.
fn prepare<'w, 'p>(
    world: &World<'w>,
    path: &'p Path,
    dirs: &[PathBuf],
    progress: &'p dyn Progress,
) -> Result<(Replay<'w>, Stream<'p>), Fault> {
    let disk = world.disk;
    let mut stream = Stream::open(disk, path, progress)?;
    let (header, after) = check(&mut stream)?;
    let shards = find_shards(disk, path, dirs)?;
    let (left, open) = (BTreeMap::new(), BTreeMap::new());
    let mut replay = Replay { disk, header, after, shards, left, open, header_copy: None };
    replay.check_layout(&mut stream)?;
    Ok((replay, stream))
}

/// As [`replay`], for the journal of a commit whose shards were all present just before.
///
/// Errors: also if a shard still lacks the new state, so that no later journal replaces this one.
pub(crate) fn finish(world: &World<'_>, path: &Path, dirs: &[PathBuf]) -> Result<(), Fault> {
    let Some(column) = replay(world, path, dirs, &Silent)? else { return Ok(()) };
    let shards = find_shards(world.disk, path, dirs)?;
    let shard = shards.get(&column.0).map_or(path, PathBuf::as_path);
    let why = "it could not be read or written a moment ago; run the command again";
    Err(Fault::io("giving the new state to", shard, std::io::Error::other(why)))
}

/// A record as it is applied.
struct Record {
    head: RecordHead,
    targets: Vec<Target>,
    /// The payload, if it is a header, which was checked already; any other payload is still to be
    /// read.
    header: Option<Vec<u8>>,
}

/// The columns in a journal, each with the header of its shard after the commit; `None` for a new
/// shard.
type After = BTreeMap<u32, Option<ShardHeader>>;

/// Reads the whole journal once, and checks its structure and checksum.
fn check(stream: &mut Stream<'_>) -> Result<(JournalHeader, After), Fault> {
    let header = stream.header()?;
    let mut after = After::new();
    loop {
        let head = stream.head()?;
        let is_header = |target: &Target| head.kind == RecordKind::Write && target.offset < BODY_OFFSET;
        let mut of_header = None;
        for _ in 0..head.targets {
            let target = stream.target()?;
            after.entry(target.column.0).or_default();
            of_header = is_header(&target).then_some(target.column.0).or(of_header);
        }
        if let Some(column) = of_header
            && head.stored_len() == HEADER_BYTES
        {
            let header = ShardHeader::decode(stream.bytes(HEADER_BYTES as usize)?).ok();
            after.insert(column, header);
            continue;
        }
        if head.kind == RecordKind::End {
            stream.end()?;
            return Ok((header, after));
        }
        let mut left = head.stored_len();
        while left > 0 {
            let piece = left.min(BUFFER_BYTES as u64) as usize;
            stream.bytes(piece)?;
            left -= piece as u64;
        }
    }
}

/// Returns the shards by the column in their names, temporary ones included. A shard beside the
/// journal comes before one in the other directories.
fn find_shards(disk: &dyn Disk, journal: &Path, others: &[PathBuf]) -> Result<BTreeMap<u32, PathBuf>, Fault> {
    let dir = parent(journal);
    let name = journal.file_name().and_then(journal_name).unwrap_or_default();
    let mut shards = BTreeMap::new();
    for dir in std::iter::once(&dir).chain(others) {
        for file in disk.list(dir).map_err(|e| Fault::io("reading", dir, e))? {
            let is_temp = file.extension().is_some_and(|e| e == "tmp");
            let shard = if is_temp { file.with_extension("") } else { file };
            let column = column_of(shard.as_os_str(), name).and_then(|column| u32::try_from(column).ok());
            if let Some(column) = column {
                shards.entry(column).or_insert_with(|| dir.join(shard));
            }
        }
    }
    Ok(shards)
}

/// Progress of a journal in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Some of the journal is not applied yet.
    Before,
    /// All of the journal is applied, except perhaps the length.
    After,
    /// The shard was rebuilt in the state after, and must not be touched.
    Healed,
    /// The shard is missing, unreadable or of another state, and must not be touched.
    Away,
}

struct Replay<'w> {
    disk: &'w dyn Disk,
    header: JournalHeader,
    after: After,
    shards: BTreeMap<u32, PathBuf>,
    /// The length of each shard, and how many of its bytes no record has written yet; filled when
    /// the layout is checked.
    left: BTreeMap<u32, (u64, u64)>,
    /// Opened files; `None` for a shard that must not be touched.
    open: BTreeMap<u32, Option<Box<dyn DiskFile>>>,
    /// The header copy that the last applied record wrote; `None` if it wrote no header.
    header_copy: Option<u64>,
}

impl Replay<'_> {
    fn state(&self, column: u32) -> State {
        let Some(path) = self.shards.get(&column) else { return State::Away };
        let open = |path: &Path| open_shard(self.disk, path).ok();
        let is_ready =
            |file: &dyn DiskFile| read_front(file).is_ok_and(|(header, _)| header.set == self.header.set);
        let is_made = self.after.get(&column).is_some_and(Option::is_none);
        if is_made && open(&temp(path)).is_some_and(|file| is_ready(&*file)) {
            return State::Before;
        }
        open(path).map_or(State::Away, |file| self.state_of(&*file, column))
    }

    fn state_of(&self, file: &dyn DiskFile, column: u32) -> State {
        let Ok((found, all_good)) = read_front(file) else { return State::Away };
        let after = self.after.get(&column).and_then(Option::as_ref);
        // A commit with more columns gives a shard another column, while the shard keeps its name.
        if found.set != self.header.set || (found.column.0 != column && after != Some(&found)) {
            return State::Away;
        }
        let (now, before) = (self.header.generation.0, self.header.generation.0.wrapping_sub(1));
        match (found.generation.0, after) {
            (generation, Some(after)) if generation == now && found == *after && !all_good => State::Before,
            (generation, Some(after)) if generation == now && found != *after => State::Healed,
            (generation, _) if generation == now => State::After,
            // Only a shard in which the commit was prepared has the appended bytes; a shard that
            // was rebuilt later does not.
            (generation, Some(after)) if generation == before && has_meta(file, after) => State::Before,
            _ => State::Away,
        }
    }

    /// Returns the shard that keeps the journal from being applied, since it is missing or was
    /// rebuilt.
    fn waits_for(&self) -> Option<Column> {
        let away = || self.first(State::Away).filter(|_| self.first(State::Before).is_none());
        let made_anew = || self.made_anew().filter(|_| !self.is_begun() && !self.suffices()).map(Column);
        away().or_else(made_anew)
    }

    /// Returns the first column whose shard is in a state.
    fn first(&self, state: State) -> Option<Column> {
        self.after.keys().copied().find(|&column| self.state(column) == state).map(Column)
    }

    /// Refuses a journal with a record that no commit writes.
    fn check_layout(&mut self, stream: &mut Stream<'_>) -> Result<(), Fault> {
        stream.rewind();
        stream.header()?;
        for &column in self.after.keys() {
            let len = self.len_of(column);
            self.left.insert(column, (len, len));
        }
        while let Some(record) = self.next(stream)? {
            if record.header.is_none() {
                stream.at += record.head.stored_len();
            }
        }
        self.left.values_mut().for_each(|(len, left)| *left = *len);
        Ok(())
    }

    /// Returns the next record, if a commit can have written it; `None` at the end. A commit writes
    /// blocks of stripes that exist before and after, whole headers of the state after, and the
    /// lengths in these headers.
    ///
    /// A commit gives a shard its full length before it is decided, and writes no byte twice. So a
    /// journal never writes behind the end of a shard, nor more bytes than the shard has. This is
    /// checked before the first record is applied, and again for each record, since the owner of
    /// the journal can change it in between.
    fn next(&mut self, stream: &mut Stream<'_>) -> Result<Option<Record>, Fault> {
        let head = stream.head()?;
        if head.kind == RecordKind::End {
            return Ok(None);
        }
        let mut fits = true;
        let mut of_header = None;
        let mut targets = Vec::new();
        for _ in 0..head.targets {
            let target = stream.target()?;
            let column = target.column.0;
            fits &= match self.left.get(&column) {
                Some(&(len, left)) => {
                    self.left.insert(column, (len, left.saturating_sub(head.payload_len)));
                    head.payload_len <= left && self.is_of_layout(&head, &target, len)
                }
                None => false,
            };
            if head.kind == RecordKind::Write && target.offset < BODY_OFFSET {
                of_header = Some(column);
            }
            targets.push(target);
        }
        fits &= of_header.is_none() || head.targets == 1;
        let header = match of_header.and_then(|column| self.after.get(&column)?.as_ref()) {
            Some(after) if fits && head.stored_len() == HEADER_BYTES => {
                let bytes = stream.bytes(HEADER_BYTES as usize)?;
                fits &= ShardHeader::decode(bytes).is_ok_and(|header| header == *after);
                Some(bytes.to_vec())
            }
            _ => None,
        };
        match fits {
            true => Ok(Some(Record { head, targets, header })),
            false => {
                let rule = "must be what the headers of the shards say of their layout";
                Err(stream.bad(FormatError::Invalid { part: Part::Journal, field: "target", rule }))
            }
        }
    }

    /// Returns the length of a shard that may be written to.
    fn len_of(&self, column: u32) -> u64 {
        let is_written = matches!(self.state(column), State::Before | State::After);
        let shard = self.shards.get(&column).filter(|_| is_written);
        let file = shard.and_then(|path| open_shard(self.disk, path).ok());
        file.and_then(|file| file.meta().ok()).map_or(u64::MAX, |meta| meta.size)
    }

    fn is_of_layout(&self, head: &RecordHead, target: &Target, len: u64) -> bool {
        let after = match (head.kind, self.after.get(&target.column.0)) {
            (RecordKind::Replace, Some(None)) => return true,
            (RecordKind::Write | RecordKind::Zero | RecordKind::Length, Some(Some(after))) => after,
            _ => return false,
        };
        let is_after = after.set == self.header.set && after.generation == self.header.generation;
        let (Some(body_end), Some(file_len)) = (after.body_end(), after.file_len()) else { return false };
        let Some(end) = target.offset.checked_add(head.payload_len) else { return false };
        let block = after.block_len.bytes();
        is_after
            && file_len <= len
            && match head.kind {
                RecordKind::Length => target.offset == file_len && head.payload_len == 0,
                RecordKind::Write if target.offset < BODY_OFFSET => {
                    target.offset.is_multiple_of(HEADER_BYTES) && head.payload_len == HEADER_BYTES
                }
                _ => {
                    target.offset >= BODY_OFFSET
                        && (target.offset - BODY_OFFSET).is_multiple_of(block)
                        && head.payload_len.is_multiple_of(block)
                        && end <= body_end.min(after.meta_offset)
                }
            }
    }

    fn found(&self, column: u32) -> Option<ShardHeader> {
        let file = open_shard(self.disk, self.shards.get(&column)?).ok()?;
        let (found, _) = read_front(&*file).ok()?;
        let after = self.after.get(&column).and_then(Option::as_ref);
        (found.set == self.header.set && (found.column.0 == column || after == Some(&found))).then_some(found)
    }

    /// Returns the first shard that was rebuilt in the state before, without the bytes that the
    /// commit appended.
    fn made_anew(&self) -> Option<u32> {
        let before = self.header.generation.0.wrapping_sub(1);
        let is_before = |column: u32| self.found(column).is_some_and(|found| found.generation.0 == before);
        self.after.keys().copied().find(|&column| self.state(column) == State::Away && is_before(column))
    }

    /// True if any shard has the state after, even if only one copy of its header has it.
    fn is_begun(&self) -> bool {
        let has_it =
            |column: u32| self.found(column).is_some_and(|found| found.generation == self.header.generation);
        self.after.keys().any(|&column| has_it(column))
    }

    /// True if the shards that have the state after, or will have it once the journal is applied,
    /// suffice for that state. Also true if none of them describes the code.
    fn suffices(&self) -> bool {
        let codec = self.after.iter().find_map(|(&column, header)| {
            let header = header.as_ref()?;
            let has_it = matches!(self.state(column), State::Before | State::After);
            let file = open_shard(self.disk, self.shards.get(&column).filter(|_| has_it)?).ok()?;
            let bounds = Bounds::new(None);
            bounds.check_manifest(header.manifest_len).ok()?;
            let len = file.meta().ok()?.size;
            let manifest = header.meta_copies().into_iter().find_map(|at| {
                let bytes = read_stored(&*file, (at, header.manifest_len), len, Part::Manifest).ok()?;
                Manifest::decode(&bytes).ok()
            });
            let record = manifest?.code;
            Some(Codec::new(&Codes::new(bounds).make(&record).ok()?))
        });
        let away = self.after.keys().filter(|&&column| self.state(column) == State::Away);
        let away: Vec<usize> = away.map(|&column| column as usize).collect();
        codec.is_none_or(|codec| codec.decoder_anew(&away).is_ok())
    }

    /// Applies one record; returns true unless it was the last.
    fn step(&mut self, stream: &mut Stream<'_>) -> Result<bool, Fault> {
        let Some(record) = self.next(stream)? else { return Ok(false) };
        match record.head.kind {
            // Records that write originals were refused when the layout was checked.
            RecordKind::End | RecordKind::Original => return Ok(false),
            RecordKind::Replace => {
                record.targets.iter().try_for_each(|target| self.replace(target.column))?;
            }
            RecordKind::Length => {
                for target in &record.targets {
                    self.on(target.column, "resizing", |file| file.set_len(target.offset))?;
                }
            }
            RecordKind::Write | RecordKind::Zero => {
                // A header must never become durable before its content, and both copies of a
                // header must not be written without a sync between them.
                let header = record.targets.iter().find(|target| target.offset < BODY_OFFSET);
                let copy = header.map(|target| target.offset / HEADER_BYTES);
                if copy.is_some() && copy != self.header_copy {
                    self.sync()?;
                }
                self.header_copy = copy;
                self.write(stream, &record)?;
            }
        }
        Ok(true)
    }

    fn write(&mut self, stream: &mut Stream<'_>, record: &Record) -> Result<(), Fault> {
        let Record { head, targets, header } = record;
        let zeros = vec![0; if head.kind == RecordKind::Zero { BUFFER_BYTES } else { 0 }];
        let mut at = 0;
        while at < head.payload_len {
            stream.refuse_if_cancelled()?;
            let piece = (head.payload_len - at).min(BUFFER_BYTES as u64) as usize;
            let bytes = match (head.kind, header) {
                (RecordKind::Zero, _) => &zeros[..piece],
                (_, Some(header)) => header.as_slice(),
                (_, None) => stream.bytes(piece)?,
            };
            for target in targets {
                self.on(target.column, "writing", |file| file.write_at(bytes, target.offset + at))?;
            }
            at += piece as u64;
        }
        Ok(())
    }

    /// Gives a finished temporary shard its name, unless it already has it.
    fn replace(&mut self, column: Column) -> Result<(), Fault> {
        let Some(path) = self.shards.get(&column.0) else { return Ok(()) };
        let from = temp(path);
        let is_of_set = |file: Box<dyn DiskFile>| {
            read_front(&*file).is_ok_and(|(header, _)| header.set == self.header.set)
        };
        let ready = self.disk.open(&from).is_ok_and(is_of_set);
        // Files that are not of this set are not replaced.
        let free = self.disk.meta(path).is_err() || self.disk.open(path).is_ok_and(is_of_set);
        if ready && free {
            self.disk.rename(&from, path).map_err(|e| Fault::io("renaming", &from, e))?;
        }
        Ok(())
    }

    fn on(
        &mut self,
        column: Column,
        doing: &'static str,
        work: impl FnOnce(&dyn DiskFile) -> std::io::Result<()>,
    ) -> Result<(), Fault> {
        let Some(path) = self.shards.get(&column.0) else { return Ok(()) };
        if !self.open.contains_key(&column.0) {
            let fits =
                |file: &dyn DiskFile| matches!(self.state_of(file, column.0), State::Before | State::After);
            let file = open_shard_to_write(self.disk, path, fits).ok();
            self.open.insert(column.0, file);
        }
        match &self.open[&column.0] {
            Some(file) => work(&**file).map_err(|e| Fault::io(doing, path, e)),
            None => Ok(()),
        }
    }

    fn set_back(&self, mtime: Timestamp) {
        self.open.values().flatten().for_each(|file| set_back(&**file, mtime));
    }

    fn sync(&mut self) -> Result<(), Fault> {
        for (column, file) in &self.open {
            if let Some(file) = file {
                file.sync().map_err(|e| Fault::io("syncing", &self.shards[column], e))?;
            }
        }
        Ok(())
    }
}

/// The longest journal that may have holes.
pub const HOLES_BYTES_MAX: u64 = 256 << 20;

/// A journal that is being read from the start.
pub(crate) struct Stream<'p> {
    path: &'p Path,
    /// Lets the caller cancel the reading.
    progress: &'p dyn Progress,
    file: Box<dyn DiskFile>,
    /// The length when the journal was opened, since its owner can go on writing to it.
    len_bytes: u64,
    at: u64,
    buffer: Vec<u8>,
    crc: CrcStream,
}

impl<'p> Stream<'p> {
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &'p Path,
        progress: &'p dyn Progress,
    ) -> Result<Stream<'p>, Fault> {
        let file = disk.open(path).map_err(|e| Fault::io("opening", path, e))?;
        let len_bytes = file.meta().map_err(|e| Fault::io("reading", path, e))?.size;
        let stream =
            Stream { path, progress, file, len_bytes, at: 0, buffer: Vec::new(), crc: CrcStream::new() };
        // A copied journal may have holes instead of zeros, but a forged length must not cost the
        // reader unlimited time.
        match len_bytes <= HOLES_BYTES_MAX || stream.file.is_stored(0, len_bytes) {
            true => Ok(stream),
            false => Err(stream.bad(FormatError::NotStored { part: Part::Journal, len_bytes })),
        }
    }

    pub(crate) fn bad(&self, error: FormatError) -> Fault {
        Fault::new(FaultKind::BadJournal, format!("{}: {error}", self.path.display())).at(self.path).hint(
            "a journal by this name records an unfinished change of the set; if this is a file of your own, move it \
             away; else restore it from a copy, or move it away and heal the set",
        )
    }

    /// Returns to the start of the opened file.
    fn rewind(&mut self) {
        (self.at, self.crc) = (0, CrcStream::new());
    }

    fn refuse_if_cancelled(&self) -> Result<(), Fault> {
        if self.progress.cancelled() { Err(Fault::cancelled()) } else { Ok(()) }
    }

    pub(crate) fn header(&mut self) -> Result<JournalHeader, Fault> {
        let bytes = self.take::<{ JOURNAL_HEADER_BYTES as usize }>()?;
        JournalHeader::decode(&bytes).map_err(|error| self.bad(error))
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&[u8], Fault> {
        self.refuse_if_cancelled()?;
        self.buffer.resize(len, 0);
        let need = self.at + len as u64;
        let have = match need <= self.len_bytes {
            true => self.file.read_at(&mut self.buffer, self.at),
            false => Ok(self.len_bytes.saturating_sub(self.at) as usize),
        };
        let have = have.map_err(|e| Fault::io("reading", self.path, e))?;
        if have < len {
            let have = self.at + have as u64;
            return Err(self.bad(FormatError::Truncated { part: Part::Journal, have, need }));
        }
        self.at += len as u64;
        self.crc.update(&self.buffer);
        Ok(&self.buffer)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.bytes(N)?);
        Ok(bytes)
    }

    pub(crate) fn head(&mut self) -> Result<RecordHead, Fault> {
        let bytes = self.take::<{ RECORD_BYTES as usize }>()?;
        RecordHead::decode(&bytes).map_err(|error| self.bad(error))
    }

    pub(crate) fn spot(&mut self) -> Result<Spot, Fault> {
        Ok(Spot::decode(&self.take::<{ TARGET_BYTES as usize }>()?))
    }

    /// Checks the payload of the end record: it is the checksum of all bytes before it, and no byte
    /// follows.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        let crc = self.crc.crc();
        if crc.0 != u64::from_le_bytes(self.take::<8>()?) {
            return Err(self.bad(FormatError::Checksum { part: Part::Journal }));
        }
        let more = self.file.read_at(&mut [0], self.at);
        let more = more.map_err(|e| Fault::io("reading", self.path, e))?;
        let error =
            FormatError::Invalid { part: Part::Journal, field: "end", rule: "must be the last record" };
        if more == 0 { Ok(()) } else { Err(self.bad(error)) }
    }

    fn target(&mut self) -> Result<Target, Fault> {
        let bytes = self.take::<{ TARGET_BYTES as usize }>()?;
        Target::decode(&bytes).map_err(|error| self.bad(error))
    }
}

/// Removes temporary files of a set that no journal refers to.
pub(crate) fn remove_temporaries(disk: &dyn Disk, names: &Names) -> Result<(), Fault> {
    for dir in names.dirs() {
        for file in disk.list(dir).map_err(|e| Fault::io("reading", dir, e))? {
            let is_temp = file.extension().is_some_and(|e| e == "tmp");
            if is_temp && crate::set::names::is_own(file.as_os_str(), &names.name) {
                let path = dir.join(file);
                disk.remove(&path).map_err(|e| Fault::io("removing", &path, e))?;
            }
        }
    }
    Ok(())
}

/// As [`remove_temporaries`], for a set that is open to be written: its journal can be beside any of
/// its shards.
pub(crate) fn remove_leftovers(set: &Set<'_>) -> Result<(), Fault> {
    let disk = set.world.disk;
    remove_temporaries(disk, &set.names)?;
    let journal = temp(&set.names.journal());
    for dir in set.shard_dirs().iter().filter(|dir| disk.root(dir, Access::Write).is_ok()) {
        // Best effort: it is meaningless, and usually not there.
        let _ = journal.file_name().map(|file| disk.remove(&dir.join(file)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SystemDisk;
    use proptest::prelude::*;
    use std::io::Write as _;

    const HEADER: JournalHeader = JournalHeader { set: SetId([1; 16]), generation: Generation(2) };

    fn disk(dir: &Path) -> SystemDisk {
        let disk = SystemDisk::new();
        disk.root(dir, crate::disk::Access::Write).unwrap();
        disk
    }

    fn checked(disk: &SystemDisk, path: &Path) -> Result<(JournalHeader, After), Fault> {
        check(&mut Stream::open(disk, path, &Silent)?)
    }

    fn journal(dir: &Path) -> PathBuf {
        let (path, disk) = (dir.join("x.journal"), disk(dir));
        let mut journal = JournalWriter::create(&disk, path.clone(), HEADER, None).unwrap();
        let target = |column, offset| Target { column: Column(column), offset };
        journal.write(&[target(0, 8192), target(1, 9000)], b"some bytes").unwrap();
        journal.zero(target(2, 8192), 1 << 20).unwrap();
        journal.length(target(2, 77)).unwrap();
        journal.replace(Column(3)).unwrap();
        journal.commit(Timestamp { seconds: 1, nanos: 2 }).unwrap();
        path
    }

    #[test]
    fn a_long_journal_of_holes_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = journal(dir.path());
        let file = std::fs::File::create(&path).unwrap();
        let refused = |len: u64| {
            file.set_len(len).unwrap();
            checked(&disk(dir.path()), &path).unwrap_err().to_string()
        };
        assert!(refused(1 << 40).contains("hole"), "a TiB");
        // If holes are accepted, the other fault is reported.
        assert!(!refused(HOLES_BYTES_MAX).contains("hole"), "256 MiB");
    }

    #[test]
    fn a_journal_is_read_no_further_than_it_was_long_when_it_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, disk) = (journal(dir.path()), disk(dir.path()));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        let mut stream = Stream::open(&disk, &path, &Silent).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(&whole[whole.len() - 9..])
            .unwrap();
        let error = check(&mut stream).unwrap_err();
        assert!(matches!(error.kind, FaultKind::BadJournal), "{error}");
        let truncated = FormatError::Truncated { part: Part::Journal, have: 0, need: 0 }.to_string();
        let cause = truncated.split(|c: char| c.is_ascii_digit()).next().unwrap();
        assert!(error.what.contains(cause), "{error}");
        assert!(checked(&disk, &path).is_ok());
    }

    #[test]
    fn a_journal_with_a_flipped_bit_or_cut_off_or_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, disk) = (journal(dir.path()), disk(dir.path()));
        let good = std::fs::read(&path).unwrap();
        let header = HEADER;
        assert_eq!(checked(&disk, &path).unwrap(), (header, (0..4).map(|column| (column, None)).collect()));
        for i in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[i] ^= 1 << bit;
                std::fs::write(&path, &bad).unwrap();
                let refused = checked(&disk, &path).map_err(|error| error.kind);
                assert!(matches!(refused, Err(FaultKind::BadJournal)), "byte {i}");
            }
        }
        for len in 0..good.len() {
            std::fs::write(&path, &good[..len]).unwrap();
            assert!(checked(&disk, &path).is_err(), "{len}");
        }
        std::fs::write(&path, [&good[..], &[0]].concat()).unwrap();
        assert!(checked(&disk, &path).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn random_journals_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), head: bool) {
            let dir = tempfile::tempdir().unwrap();
            let (path, disk) = (dir.path().join("x.journal"), disk(dir.path()));
            let header = HEADER.encode();
            let start: &[u8] = if head { &header } else { &[] };
            std::fs::write(&path, [start, &bytes].concat()).unwrap();
            prop_assert!(checked(&disk, &path).is_err());
        }
    }
}
