//! The journal on disk: written before the shards are changed, obeyed by whoever finds it.
//!
//! A commit is the rename of the journal to its final name. Applying it is idempotent. Headers are written last and
//! one copy at a time, each after a sync, so that every shard always has one good header: of the state before, or
//! after. A shard whose header is of neither state is not touched.

use crate::disk::{Disk, DiskFile, resolve};
use crate::names::{Names, column_of, journal_name, parent, temp};
use crate::set::read_header;
use crate::{SealError, World};
use pantile_format::{
    BODY_OFFSET, Column, CrcStream, FormatError, Generation, HEADER_BYTES, JOURNAL_HEADER_BYTES,
    JournalHeader, Part, RECORD_BYTES, RecordHead, RecordKind, SetId, TARGET_BYTES, Target,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 20;

/// A journal that is being written, under a temporary name.
pub(crate) struct JournalWriter<'w> {
    disk: &'w dyn Disk,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes of the file before the buffer.
    flushed: u64,
    crc: CrcStream,
}

impl<'w> JournalWriter<'w> {
    pub(crate) fn create(
        disk: &'w dyn Disk,
        path: PathBuf,
        set: SetId,
        generation: Generation,
    ) -> Result<JournalWriter<'w>, SealError> {
        let temp = temp(&path);
        let file = disk.create(&temp).map_err(|e| SealError::io("creating", &temp, e))?;
        let mut writer =
            JournalWriter { disk, path, file, buffer: Vec::new(), flushed: 0, crc: CrcStream::new() };
        writer.push(&JournalHeader { set, generation }.encode())?;
        Ok(writer)
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    pub(crate) fn write(&mut self, targets: &[Target], payload: &[u8]) -> Result<(), SealError> {
        self.record(RecordKind::Write, targets, payload.len() as u64)?;
        self.push(payload)
    }

    pub(crate) fn zero(&mut self, target: Target, len: u64) -> Result<(), SealError> {
        self.record(RecordKind::Zero, &[target], len)
    }

    pub(crate) fn length(&mut self, target: Target) -> Result<(), SealError> {
        self.record(RecordKind::Length, &[target], 0)
    }

    pub(crate) fn replace(&mut self, column: Column) -> Result<(), SealError> {
        self.record(RecordKind::Replace, &[Target { column, offset: 0 }], 0)
    }

    fn record(&mut self, kind: RecordKind, targets: &[Target], payload_len: u64) -> Result<(), SealError> {
        self.push(&RecordHead { kind, targets: targets.len() as u32, payload_len }.encode())?;
        targets.iter().try_for_each(|target| self.push(&target.encode()))
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), SealError> {
        self.crc.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SealError> {
        let path = temp(&self.path);
        self.file.write_at(&self.buffer, self.flushed).map_err(|e| SealError::io("writing", &path, e))?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes it durable and gives it its name: from here on the change will happen.
    pub(crate) fn commit(mut self) -> Result<(), SealError> {
        self.record(RecordKind::End, &[], 8)?;
        let crc = self.crc.crc().0.to_le_bytes();
        self.push(&crc)?;
        self.flush()?;
        let from = temp(&self.path);
        self.file.sync().map_err(|e| SealError::io("syncing", &from, e))?;
        self.disk.rename(&from, &self.path).map_err(|e| SealError::io("renaming", &from, e))?;
        let dir = parent(&self.path);
        self.disk.sync_dir(&dir).map_err(|e| SealError::io("syncing", &dir, e))
    }
}

/// The journals in a directory.
pub(crate) fn journals(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, SealError> {
    let names = disk.list(dir).map_err(|e| SealError::io("reading", dir, e))?;
    Ok(names
        .iter()
        .filter(|name| journal_name(name.as_os_str()).is_some())
        .map(|name| dir.join(name))
        .collect())
}

/// Does what a journal says to the shards beside it, and removes it.
///
/// Shards that are missing, or that missed an earlier commit, are left as they are: they are lost, and healed later.
/// Errors: `BadJournal` if it is damaged; nothing is then changed.
pub(crate) fn replay(world: &World<'_>, path: &Path) -> Result<(), SealError> {
    let disk = world.disk;
    let header = check(disk, path)?;
    let dir = parent(path);
    let mut replay =
        Replay { disk, header, shards: find_shards(disk, path)?, open: BTreeMap::new(), header_copy: None };
    let mut stream = Stream::open(disk, path)?;
    stream.take::<{ JOURNAL_HEADER_BYTES as usize }>()?;
    while replay.step(&mut stream)? {}
    replay.sync()?;
    disk.sync_dir(&dir).map_err(|e| SealError::io("syncing", &dir, e))?;
    disk.remove(path).map_err(|e| SealError::io("removing", path, e))?;
    disk.sync_dir(&dir).map_err(|e| SealError::io("syncing", &dir, e))
}

/// Reads the whole journal once: structure and checksum.
fn check(disk: &dyn Disk, path: &Path) -> Result<JournalHeader, SealError> {
    let mut stream = Stream::open(disk, path)?;
    let header = JournalHeader::decode(&stream.take::<{ JOURNAL_HEADER_BYTES as usize }>()?)
        .map_err(|error| SealError::BadJournal { path: path.to_path_buf(), error })?;
    loop {
        let head = stream.head()?;
        for _ in 0..head.targets {
            stream.target()?;
        }
        if head.kind == RecordKind::End {
            let crc = stream.crc.crc();
            let stored = u64::from_le_bytes(stream.take::<8>()?);
            if crc.0 != stored {
                return Err(stream.bad(FormatError::Checksum { part: Part::Journal }));
            }
            let mut behind = [0];
            let more =
                stream.file.read_at(&mut behind, stream.at).map_err(|e| SealError::io("reading", path, e))?;
            let rule = "must be the last record";
            let error = FormatError::Invalid { part: Part::Journal, field: "end", rule };
            return if more == 0 { Ok(header) } else { Err(stream.bad(error)) };
        }
        let mut left = head.stored_len();
        while left > 0 {
            let piece = left.min(BUFFER_BYTES as u64) as usize;
            stream.bytes(piece)?;
            left -= piece as u64;
        }
    }
}

/// The shards beside a journal, by the column in their names, temporary ones included.
fn find_shards(disk: &dyn Disk, journal: &Path) -> Result<BTreeMap<u32, PathBuf>, SealError> {
    let dir = parent(journal);
    let name = journal.file_name().and_then(journal_name).unwrap_or_default();
    let mut shards = BTreeMap::new();
    for file in disk.list(&dir).map_err(|e| SealError::io("reading", &dir, e))? {
        let is_temp = file.extension().is_some_and(|e| e == "tmp");
        let shard = if is_temp { file.with_extension("") } else { file };
        if let Some(column) = column_of(shard.as_os_str(), name) {
            shards.insert(column as u32, dir.join(shard));
        }
    }
    Ok(shards)
}

struct Replay<'w> {
    disk: &'w dyn Disk,
    header: JournalHeader,
    shards: BTreeMap<u32, PathBuf>,
    /// Files opened so far; `None` for a shard that must not be touched.
    open: BTreeMap<u32, Option<Box<dyn DiskFile>>>,
    /// The copy of headers that was written last, if nothing was since.
    header_copy: Option<u64>,
}

impl Replay<'_> {
    /// Does one record; whether there may be another.
    fn step(&mut self, stream: &mut Stream<'_>) -> Result<bool, SealError> {
        let head = stream.head()?;
        let mut targets = Vec::new();
        for _ in 0..head.targets {
            targets.push(stream.target()?);
        }
        match head.kind {
            RecordKind::End => return Ok(false),
            RecordKind::Replace => targets.iter().try_for_each(|target| self.replace(target.column))?,
            RecordKind::Length => {
                for target in &targets {
                    self.on(target.column, "resizing", |file| file.set_len(target.offset))?;
                }
            }
            RecordKind::Write | RecordKind::Zero => {
                // A header must never be ahead of what it describes, nor both its copies be in flight.
                let header = targets.iter().find(|target| target.offset < BODY_OFFSET);
                let copy = header.map(|target| target.offset / HEADER_BYTES);
                if copy.is_some() && copy != self.header_copy {
                    self.sync()?;
                }
                self.header_copy = copy;
                self.write(stream, head, &targets)?;
            }
        }
        Ok(true)
    }

    fn write(
        &mut self,
        stream: &mut Stream<'_>,
        head: RecordHead,
        targets: &[Target],
    ) -> Result<(), SealError> {
        let zeros = vec![0; if head.kind == RecordKind::Zero { BUFFER_BYTES } else { 0 }];
        let mut at = 0;
        while at < head.payload_len {
            let piece = (head.payload_len - at).min(BUFFER_BYTES as u64) as usize;
            let bytes = if head.kind == RecordKind::Zero { &zeros[..piece] } else { stream.bytes(piece)? };
            for target in targets {
                self.on(target.column, "writing", |file| file.write_at(bytes, target.offset + at))?;
            }
            at += piece as u64;
        }
        Ok(())
    }

    /// Gives a finished temporary shard its name; if that was done already there is nothing to do.
    fn replace(&mut self, column: Column) -> Result<(), SealError> {
        let Some(path) = self.shards.get(&column.0) else { return Ok(()) };
        let from = temp(path);
        let ready = match self.disk.open(&from) {
            Ok(file) => read_header(&*file).is_ok_and(|(header, _)| header.set == self.header.set),
            Err(_) => false,
        };
        if ready {
            self.disk.rename(&from, path).map_err(|e| SealError::io("renaming", &from, e))?;
        }
        Ok(())
    }

    fn on(
        &mut self,
        column: Column,
        doing: &'static str,
        work: impl FnOnce(&dyn DiskFile) -> std::io::Result<()>,
    ) -> Result<(), SealError> {
        let Some(path) = self.shards.get(&column.0) else { return Ok(()) };
        let (disk, header) = (self.disk, self.header);
        let file = self.open.entry(column.0).or_insert_with(|| {
            let file = disk.open_write(&resolve(disk, path).ok()?).ok()?;
            let (found, _) = read_header(&*file).ok()?;
            let (now, before) = (header.generation.0, header.generation.0.wrapping_sub(1));
            let fits = found.set == header.set && [now, before].contains(&found.generation.0);
            (fits && found.column == column).then_some(file)
        });
        match file {
            Some(file) => work(&**file).map_err(|e| SealError::io(doing, path, e)),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<(), SealError> {
        for (column, file) in &self.open {
            if let Some(file) = file {
                file.sync().map_err(|e| SealError::io("syncing", &self.shards[column], e))?;
            }
        }
        Ok(())
    }
}

/// A journal that is being read from the start.
struct Stream<'p> {
    path: &'p Path,
    file: Box<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
    crc: CrcStream,
}

impl<'p> Stream<'p> {
    fn open(disk: &dyn Disk, path: &'p Path) -> Result<Stream<'p>, SealError> {
        let file = disk.open(path).map_err(|e| SealError::io("opening", path, e))?;
        Ok(Stream { path, file, at: 0, buffer: Vec::new(), crc: CrcStream::new() })
    }

    fn bad(&self, error: FormatError) -> SealError {
        SealError::BadJournal { path: self.path.to_path_buf(), error }
    }

    fn bytes(&mut self, len: usize) -> Result<&[u8], SealError> {
        self.buffer.resize(len, 0);
        let have = self
            .file
            .read_at(&mut self.buffer, self.at)
            .map_err(|e| SealError::io("reading", self.path, e))?;
        if have < len {
            let (have, need) = (self.at + have as u64, self.at + len as u64);
            return Err(self.bad(FormatError::Truncated { part: Part::Journal, have, need }));
        }
        self.at += len as u64;
        self.crc.update(&self.buffer);
        Ok(&self.buffer)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], SealError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.bytes(N)?);
        Ok(bytes)
    }

    fn head(&mut self) -> Result<RecordHead, SealError> {
        let bytes = self.take::<{ RECORD_BYTES as usize }>()?;
        RecordHead::decode(&bytes).map_err(|error| self.bad(error))
    }

    fn target(&mut self) -> Result<Target, SealError> {
        let bytes = self.take::<{ TARGET_BYTES as usize }>()?;
        Target::decode(&bytes).map_err(|error| self.bad(error))
    }
}

/// Removes temporary files of a set that no journal refers to.
pub(crate) fn remove_temporaries(disk: &dyn Disk, names: &Names) -> Result<(), SealError> {
    for file in disk.list(&names.dir).map_err(|e| SealError::io("reading", &names.dir, e))? {
        if file.extension().is_some_and(|e| e == "tmp") && crate::names::is_own(file.as_os_str(), &names.name)
        {
            let path = names.dir.join(file);
            disk.remove(&path).map_err(|e| SealError::io("removing", &path, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SystemDisk;
    use proptest::prelude::*;

    fn journal(dir: &Path) -> PathBuf {
        let path = dir.join("x.journal");
        let mut journal =
            JournalWriter::create(&SystemDisk, path.clone(), SetId([1; 16]), Generation(2)).unwrap();
        let target = |column, offset| Target { column: Column(column), offset };
        journal.write(&[target(0, 8192), target(1, 9000)], b"some bytes").unwrap();
        journal.zero(target(2, 8192), 1 << 20).unwrap();
        journal.length(target(2, 77)).unwrap();
        journal.replace(Column(3)).unwrap();
        journal.commit().unwrap();
        path
    }

    #[test]
    fn a_journal_with_a_flipped_bit_or_cut_off_or_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = journal(dir.path());
        let good = std::fs::read(&path).unwrap();
        let header = JournalHeader { set: SetId([1; 16]), generation: Generation(2) };
        assert_eq!(check(&SystemDisk, &path).unwrap(), header);
        for i in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[i] ^= 1 << bit;
                std::fs::write(&path, &bad).unwrap();
                assert!(matches!(check(&SystemDisk, &path), Err(SealError::BadJournal { .. })), "byte {i}");
            }
        }
        for len in 0..good.len() {
            std::fs::write(&path, &good[..len]).unwrap();
            assert!(check(&SystemDisk, &path).is_err(), "{len}");
        }
        std::fs::write(&path, [&good[..], &[0]].concat()).unwrap();
        assert!(check(&SystemDisk, &path).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn random_journals_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), head: bool) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.journal");
            let header = JournalHeader { set: SetId([1; 16]), generation: Generation(2) }.encode();
            let start: &[u8] = if head { &header } else { &[] };
            std::fs::write(&path, [start, &bytes].concat()).unwrap();
            prop_assert!(check(&SystemDisk, &path).is_err());
        }
    }
}
