//! The manifest: the sealed files, their places, and the code. Every shard carries an equal copy.
//!
//! The address space is a grid of blocks (lane, stripe). A lane is a data cell of the code's
//! stripe; lanes are counted by column and row. A file's extents are runs of stripes on one lane;
//! block i of the file is the i-th block of its extents. The last block is padded with zeros.
//! Blocks that belong to no file are zero.
//!
//! Every manifest that decodes keeps these invariants. The parent of each entry is a directory
//! entry of the same source. No path component is empty, `.` or `..`, or holds `/` or a zero byte.
//! Extents are within the grid, never overlap, and have exactly the blocks that the size needs. A
//! file has a checksum for every block or for none.

use crate::layout::layout;
use crate::version::{FEATURES_BYTES, FORMAT_VERSION, check_version};
use crate::{BlockLen, Crc64, Features, Fields, FormatError, Generation, Lane, Part, SetId, Stripe};
use std::collections::{HashMap, HashSet};

const MAGIC_BYTES: &[u8; 8] = b"PANTMNFS";
const FIXED_BYTES: usize = 160;
const SOURCE_BYTES: u64 = 16;
const ENTRY_BYTES: usize = 48;

/// The longest path of a source: no system opens a longer one.
pub const SOURCE_BYTES_MAX: usize = 4095;
const FLAG_BESIDE: u32 = 1;
const FLAG_CHECKSUMS: u32 = 2;

layout! {
    /// The fixed part of the manifest. Code spec, definition, name and fields follow, then sources
    /// and entries, then a CRC.
    MANIFEST_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTMNFS`";
        VERSION: "version" @ 8 + 4, "format version, 2";
        FLAGS: "flags" @ 12 + 4, "bit 0: beside (only parity is stored); bit 1: blocks have checksums";
        SET: "set" @ 16 + 16, "the set's UUID";
        GENERATION: "generation" @ 32 + 8, "counts the commits";
        BLOCK_LEN: "block length" @ 40 + 8, "bytes of a block";
        STRIPES: "stripes" @ 48 + 8, "stripes committed";
        LANES: "lanes" @ 56 + 4, "data cells of a stripe";
        SOURCES: "sources" @ 60 + 4, "number of sources";
        ENTRIES: "entries" @ 64 + 8, "number of entries";
        CODE_VERSION: "code version" @ 72 + 4, "version of the code's construction";
        SPEC_LEN: "spec length" @ 76 + 4, "bytes of the code's spec";
        FINGERPRINT: "code fingerprint" @ 80 + 8, "digest of the code's shape and equations";
        DEFINITION_LEN: "definition length" @ 88 + 8, "bytes of the code file; 0 for a named code";
        NAME_LEN: "name length" @ 96 + 4, "bytes of the set's name";
        RESERVED: "reserved" @ 100 + 4, "zero";
        TOTAL_LEN: "total length" @ 104 + 8, "bytes of the whole manifest with its checksum";
        FEATURES: "features" @ 112 + 24, "the feature words, equal to those of the headers";
        FIELDS_LEN: "fields length" @ 136 + 8, "bytes of the fields of the set, which follow its name";
        RESERVED2: "reserved" @ 144 + 16, "zero; a reader does not look at it";
    }
}

layout! {
    /// A source: a path that the user named. Its path, its prefix and its fields follow.
    SOURCE_LAYOUT {
        PATH_LEN: "path length" @ 0 + 4, "bytes of the absolute path that was sealed";
        PREFIX_LEN: "prefix length" @ 4 + 4, "bytes of the name under which it is restored; 0: the target directory itself";
        S_FIELDS_LEN: "fields length" @ 8 + 4, "bytes of the fields of the source, which follow its prefix";
        S_RESERVED: "reserved" @ 12 + 4, "zero; a reader does not look at it";
    }
}

layout! {
    /// An entry. Path, link target, extents, checksums (8 bytes each) and fields follow in this
    /// order.
    ENTRY_LAYOUT {
        E_SOURCE: "source" @ 0 + 4, "the source, from 0";
        E_KIND: "kind" @ 4 + 4, "0 directory, 1 file, 2 symbolic link, 3 hard link: another name of a file";
        E_MODE: "mode" @ 8 + 4, "permission bits";
        E_PATH_LEN: "path length" @ 12 + 4, "bytes of the path below the source; 0: the source itself";
        E_SECONDS: "mtime seconds" @ 16 + 8, "since 1970, signed";
        E_NANOS: "mtime nanoseconds" @ 24 + 4, "below 1000000000";
        E_TARGET_LEN: "target length" @ 28 + 4, "bytes of the target: of a symbolic link where it points, of a hard link the path of the file below the same source";
        E_SIZE: "size" @ 32 + 8, "bytes of the file";
        E_EXTENTS: "extents" @ 40 + 4, "number of extents";
        E_FIELDS_LEN: "fields length" @ 44 + 4, "bytes of the fields of the entry, which follow its checksums";
    }
}

layout! {
    /// An extent of a file.
    EXTENT_LAYOUT {
        X_LANE: "lane" @ 0 + 4, "the lane";
        X_RESERVED: "reserved" @ 4 + 4, "zero";
        X_FIRST: "first stripe" @ 8 + 8, "its first block";
        X_COUNT: "count" @ 16 + 8, "blocks, at least 1";
    }
}

/// Place of the data cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// In shards: the set alone restores everything.
    Full,
    /// In the original files: shards hold parity only.
    Beside,
}

/// The code of a set, so that a reader can construct it again and check that it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRecord {
    /// Its canonical spec.
    pub spec: String,
    /// The version of its construction.
    pub version: u32,
    /// The digest of its shape and equations.
    pub fingerprint: u64,
    /// The text of its code file, for a code that no family names.
    pub definition: Option<String>,
}

/// A path that the user named to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its absolute path when it was sealed, as raw bytes.
    pub path: Vec<u8>,
    /// The name under which it is restored; empty: it is restored as the target directory itself.
    pub prefix: Vec<u8>,
    /// Optional fields, such as the columns that hold only this source.
    pub fields: Fields,
}

/// A time of modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanos: u32,
}

/// A run of blocks of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The lane.
    pub lane: Lane,
    /// The first stripe.
    pub first: Stripe,
    /// Number of blocks.
    pub count: u64,
}

/// A directory, file or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The source it belongs to, an index.
    pub source: u32,
    /// Its path below the source, as raw bytes; empty for the source itself.
    pub path: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// When it was last modified.
    pub mtime: Timestamp,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Optional fields, such as extended attributes.
    pub fields: Fields,
}

/// Kinds of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A regular file.
    File {
        /// In bytes.
        size: u64,
        /// Places of its blocks, in order.
        extents: Vec<Extent>,
        /// One checksum per block, padding included; empty without checksums.
        crcs: Vec<Crc64>,
    },
    /// A symbolic link.
    Symlink {
        /// Target of the link, as raw bytes.
        target: Vec<u8>,
    },
    /// Another name of a file; the content is stored with the file's entry.
    HardLink {
        /// The path of the file below the same source, as raw bytes.
        to: Vec<u8>,
    },
}

/// Sealed files, their places, and their code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Features that the set uses.
    pub features: Features,
    /// The set.
    pub set: SetId,
    /// The number of the last commit.
    pub generation: Generation,
    /// Place of the data cells.
    pub mode: Mode,
    /// True if blocks have checksums.
    pub checksums: bool,
    /// The length of a block.
    pub block_len: BlockLen,
    /// Number of committed stripes.
    pub stripes: u64,
    /// Number of data cells of a stripe.
    pub lanes: u32,
    /// The code.
    pub code: CodeRecord,
    /// The set's name, from which shards are named.
    pub name: Vec<u8>,
    /// Sources that the user named.
    pub sources: Vec<Source>,
    /// Entries found there; a directory before its content.
    pub entries: Vec<Entry>,
    /// Optional fields of the set.
    pub fields: Fields,
}

impl Manifest {
    /// Returns the user and group that an entry was sealed with; `None` if the set does not store
    /// them.
    pub fn owner_of(&self, entry: usize) -> Option<(u32, u32)> {
        let says = self.features.ignorable & Features::OWNERS != 0;
        self.entries.get(entry).filter(|_| says)?.fields.owner()
    }
}

/// The highest generation: with one commit a nanosecond it would be reached after 290 years.
const GENERATION_MAX: u64 = i64::MAX as u64;

impl Manifest {
    /// Returns the encoded manifest, ending in its checksum.
    ///
    /// Panics if a path or a text is 4 GiB long, which no file system allows.
    pub fn encode(&self) -> Vec<u8> {
        let len32 = |bytes: usize| u32::try_from(bytes).expect("paths and texts are below 4 GiB");
        let mut out = vec![0; FIXED_BYTES];
        MAGIC.put(&mut out, MAGIC_BYTES);
        VERSION.put_u32(&mut out, FORMAT_VERSION);
        let mut words = [0; FEATURES_BYTES];
        self.features.put(&mut words);
        FEATURES.put(&mut out, &words);
        FIELDS_LEN.put_u64(&mut out, self.fields.encoded_len() as u64);
        let beside = if self.mode == Mode::Beside { FLAG_BESIDE } else { 0 };
        FLAGS.put_u32(&mut out, beside | if self.checksums { FLAG_CHECKSUMS } else { 0 });
        SET.put(&mut out, &self.set.0);
        GENERATION.put_u64(&mut out, self.generation.0);
        BLOCK_LEN.put_u64(&mut out, self.block_len.bytes());
        STRIPES.put_u64(&mut out, self.stripes);
        LANES.put_u32(&mut out, self.lanes);
        SOURCES.put_u32(&mut out, len32(self.sources.len()));
        ENTRIES.put_u64(&mut out, self.entries.len() as u64);
        CODE_VERSION.put_u32(&mut out, self.code.version);
        SPEC_LEN.put_u32(&mut out, len32(self.code.spec.len()));
        FINGERPRINT.put_u64(&mut out, self.code.fingerprint);
        let definition = self.code.definition.as_deref().unwrap_or("");
        DEFINITION_LEN.put_u64(&mut out, definition.len() as u64);
        NAME_LEN.put_u32(&mut out, len32(self.name.len()));
        out.extend_from_slice(self.code.spec.as_bytes());
        out.extend_from_slice(definition.as_bytes());
        out.extend_from_slice(&self.name);
        self.fields.encode(&mut out);
        for source in &self.sources {
            let mut head = [0; SOURCE_BYTES as usize];
            S_FIELDS_LEN.put_u32(&mut head, len32(source.fields.encoded_len()));
            PATH_LEN.put_u32(&mut head, len32(source.path.len()));
            PREFIX_LEN.put_u32(&mut head, len32(source.prefix.len()));
            out.extend_from_slice(&head);
            out.extend_from_slice(&source.path);
            out.extend_from_slice(&source.prefix);
            source.fields.encode(&mut out);
        }
        for entry in &self.entries {
            entry.encode(&mut out);
        }
        let total = out.len() as u64 + 8;
        TOTAL_LEN.put_u64(&mut out, total);
        let crc = Crc64::of(&out);
        out.extend_from_slice(&crc.0.to_le_bytes());
        out
    }

    /// Returns set, generation and length in bytes from the beginning of a manifest, before the
    /// rest is read.
    ///
    /// `None` if the bytes are not the [`Manifest::BEGIN_BYTES`] that a manifest begins with. The
    /// returned values are not verified.
    pub fn announced(begin: &[u8]) -> Option<(SetId, Generation, u64)> {
        let is_one = begin.len() >= FIXED_BYTES && begin[..8] == *MAGIC_BYTES;
        is_one.then(|| (SetId(SET.get(begin)), Generation(GENERATION.u64(begin)), TOTAL_LEN.u64(begin)))
    }

    /// Length of the beginning that states the manifest's length; every manifest is longer.
    pub const BEGIN_BYTES: u64 = FIXED_BYTES as u64 + 8;

    /// Decodes a manifest and checks all of its invariants.
    ///
    /// Errors: no magic, another version, cut off, a checksum that does not fit, or a field against
    /// the invariants. Cost: linear in the bytes, and O(e log e) in the number of extents; never
    /// more memory than a few times the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, FormatError> {
        let part = Part::Manifest;
        let have = bytes.len() as u64;
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        if bytes.len() >= 8 && bytes[..8] != *MAGIC_BYTES {
            return Err(FormatError::NotPantile { part });
        }
        let need = FIXED_BYTES as u64 + 8;
        if have < need {
            return Err(FormatError::Truncated { part, have, need });
        }
        check_version(part, VERSION.u32(bytes))?;
        let need = TOTAL_LEN.u64(bytes);
        if have < need {
            return Err(FormatError::Truncated { part, have, need });
        }
        if have > need {
            return Err(invalid("total length", "must be the length of the manifest"));
        }
        let (body, crc) = bytes.split_at(bytes.len() - 8);
        if Crc64::of(body).0.to_le_bytes() != crc {
            return Err(FormatError::Checksum { part });
        }
        let flags = FLAGS.u32(bytes);
        if flags & !(FLAG_BESIDE | FLAG_CHECKSUMS) != 0 || RESERVED.u32(bytes) != 0 {
            return Err(invalid("flags", "must be among the known ones"));
        }
        let block_len = BlockLen::new(BLOCK_LEN.u64(bytes))
            .ok_or(invalid("block length", "must be a power of two from 4096 to 1048576"))?;
        let features = Features::read(part, &FEATURES.get::<FEATURES_BYTES>(bytes))?;
        if GENERATION.u64(bytes) > GENERATION_MAX {
            return Err(invalid("generation", "must leave room for those to come"));
        }
        let mut rest = Reader { bytes: &body[FIXED_BYTES..], have };
        let spec = rest.text(SPEC_LEN.u32(bytes).into(), "code spec")?;
        let definition = rest.text(DEFINITION_LEN.u64(bytes), "code definition")?;
        let name = rest.take(NAME_LEN.u32(bytes).into())?.to_vec();
        if !is_component(&name) {
            return Err(invalid("name", "must be one path component"));
        }
        let checksums = flags & FLAG_CHECKSUMS != 0;
        let fields = Fields::decode(rest.take(FIELDS_LEN.u64(bytes))?)?;
        let mut sources = Vec::new();
        for _ in 0..SOURCES.u32(bytes) {
            let head = rest.take(SOURCE_BYTES)?;
            let path = rest.take(PATH_LEN.u32(head).into())?.to_vec();
            let prefix = rest.take(PREFIX_LEN.u32(head).into())?.to_vec();
            let fields = Fields::decode(rest.take(S_FIELDS_LEN.u32(head).into())?)?;
            sources.push(Source { path, prefix, fields });
        }
        let mut entries = Vec::new();
        for _ in 0..ENTRIES.u64(bytes) {
            entries.push(Entry::decode(&mut rest, block_len, checksums)?);
        }
        if !rest.bytes.is_empty() {
            return Err(invalid("total length", "must end behind the last entry"));
        }
        let manifest = Manifest {
            features,
            set: SetId(SET.get(bytes)),
            generation: Generation(GENERATION.u64(bytes)),
            mode: if flags & FLAG_BESIDE != 0 { Mode::Beside } else { Mode::Full },
            checksums,
            block_len,
            stripes: STRIPES.u64(bytes),
            lanes: LANES.u32(bytes),
            code: CodeRecord {
                spec,
                version: CODE_VERSION.u32(bytes),
                fingerprint: FINGERPRINT.u64(bytes),
                definition: (!definition.is_empty()).then_some(definition),
            },
            name,
            sources,
            entries,
            fields,
        };
        manifest.check_sources()?;
        manifest.check_tree()?;
        manifest.check_extents()?;
        Ok(manifest)
    }

    fn check_sources(&self) -> Result<(), FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part: Part::Manifest, field, rule };
        let mut seen = HashSet::new();
        for source in &self.sources {
            if source.path.first() != Some(&b'/') || source.path.contains(&0) {
                return Err(invalid("source path", "must be absolute and without zero bytes"));
            }
            if source.path.len() > SOURCE_BYTES_MAX {
                return Err(invalid("source path", "must have at most 4095 bytes, as no system opens more"));
            }
            if source.prefix.is_empty() && self.sources.len() > 1 {
                return Err(invalid("source prefix", "may be empty only for the one source"));
            }
            if !source.prefix.is_empty() && !is_component(&source.prefix) {
                return Err(invalid("source prefix", "must be one path component"));
            }
            if !seen.insert(&source.prefix) {
                return Err(invalid("source prefix", "must differ from the others"));
            }
        }
        Ok(())
    }

    fn check_tree(&self) -> Result<(), FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part: Part::Manifest, field, rule };
        let mut dirs: HashSet<(u32, &[u8])> = HashSet::new();
        let mut seen: HashSet<(u32, &[u8])> = HashSet::new();
        for entry in &self.entries {
            let path = entry.path.as_slice();
            let Some(source) = self.sources.get(entry.source as usize) else {
                return Err(invalid("entry source", "must be one of the sources"));
            };
            if !path.is_empty() && !path.split(|&b| b == b'/').all(is_component) {
                return Err(invalid("entry path", "must be relative, without empty, '.' or '..' components"));
            }
            let parent = match path.iter().rposition(|&b| b == b'/') {
                Some(slash) => Some(&path[..slash]),
                None => (!path.is_empty()).then_some(&path[..0]),
            };
            if parent.is_some_and(|parent| !dirs.contains(&(entry.source, parent))) {
                return Err(invalid("entry path", "must lie in a directory that stands before it"));
            }
            if !seen.insert((entry.source, path)) {
                return Err(invalid("entry path", "must stand once"));
            }
            if entry.mtime.nanos >= 1_000_000_000 {
                return Err(invalid("mtime nanoseconds", "must be below 1000000000"));
            }
            match entry.kind {
                EntryKind::Dir => {
                    dirs.insert((entry.source, path));
                }
                _ if path.is_empty() && source.prefix.is_empty() => {
                    return Err(invalid("source prefix", "may be empty only for a directory"));
                }
                _ => {}
            }
        }
        if self.hard_links().any(|(_, file)| file.is_none()) {
            return Err(invalid("link target", "must be the path of a file of the same source"));
        }
        Ok(())
    }

    /// Returns the hard links, each with the file that has its content.
    ///
    /// Cost: linear in the entries if there are hard links.
    pub fn hard_links(&self) -> impl Iterator<Item = (usize, Option<usize>)> + '_ {
        let mut files: HashMap<(u32, &[u8]), usize> = HashMap::new();
        if self.entries.iter().any(|entry| matches!(entry.kind, EntryKind::HardLink { .. })) {
            let all = self.entries.iter().enumerate();
            let files_alone = all.filter(|(_, entry)| matches!(entry.kind, EntryKind::File { .. }));
            files.extend(files_alone.map(|(index, entry)| ((entry.source, entry.path.as_slice()), index)));
        }
        self.entries.iter().enumerate().filter_map(move |(index, entry)| match &entry.kind {
            EntryKind::HardLink { to } => Some((index, files.get(&(entry.source, to.as_slice())).copied())),
            _ => None,
        })
    }

    fn check_extents(&self) -> Result<(), FormatError> {
        let invalid = |rule| FormatError::Invalid { part: Part::Manifest, field: "extent", rule };
        let mut all: Vec<Extent> = Vec::new();
        for entry in &self.entries {
            let EntryKind::File { size, extents, .. } = &entry.kind else { continue };
            let mut blocks = 0u64;
            for extent in extents {
                let end = extent.first.0.checked_add(extent.count);
                if extent.lane.0 >= self.lanes
                    || extent.count == 0
                    || end.is_none_or(|end| end > self.stripes)
                {
                    return Err(invalid("must lie in the grid"));
                }
                blocks = blocks.checked_add(extent.count).ok_or(invalid("must lie in the grid"))?;
            }
            if blocks != self.block_len.blocks(*size) {
                return Err(invalid("must have as many blocks as the size needs"));
            }
            all.extend(extents);
        }
        all.sort_unstable_by_key(|x| (x.lane, x.first));
        let overlap = |pair: &[Extent]| {
            pair[0].lane == pair[1].lane && pair[0].first.0 + pair[0].count > pair[1].first.0
        };
        if all.windows(2).any(overlap) {
            return Err(invalid("must not overlap another"));
        }
        Ok(())
    }
}

impl Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        let len32 = |bytes: usize| u32::try_from(bytes).expect("paths and lists are below 4 Gi");
        let mut head = [0; ENTRY_BYTES];
        E_FIELDS_LEN.put_u32(&mut head, len32(self.fields.encoded_len()));
        E_SOURCE.put_u32(&mut head, self.source);
        E_MODE.put_u32(&mut head, self.mode);
        E_PATH_LEN.put_u32(&mut head, len32(self.path.len()));
        E_SECONDS.put(&mut head, &self.mtime.seconds.to_le_bytes());
        E_NANOS.put_u32(&mut head, self.mtime.nanos);
        let (kind, target, size, extents, crcs): (u32, &[u8], u64, &[Extent], &[Crc64]) = match &self.kind {
            EntryKind::Dir => (0, &[], 0, &[], &[]),
            EntryKind::File { size, extents, crcs } => (1, &[], *size, extents, crcs),
            EntryKind::Symlink { target } => (2, target, 0, &[], &[]),
            EntryKind::HardLink { to } => (3, to, 0, &[], &[]),
        };
        E_KIND.put_u32(&mut head, kind);
        E_TARGET_LEN.put_u32(&mut head, len32(target.len()));
        E_SIZE.put_u64(&mut head, size);
        E_EXTENTS.put_u32(&mut head, len32(extents.len()));
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.path);
        out.extend_from_slice(target);
        for extent in extents {
            let mut bytes = [0; 24];
            X_LANE.put_u32(&mut bytes, extent.lane.0);
            X_FIRST.put_u64(&mut bytes, extent.first.0);
            X_COUNT.put_u64(&mut bytes, extent.count);
            out.extend_from_slice(&bytes);
        }
        for crc in crcs {
            out.extend_from_slice(&crc.0.to_le_bytes());
        }
        self.fields.encode(out);
    }

    fn decode(rest: &mut Reader<'_>, block_len: BlockLen, checksums: bool) -> Result<Entry, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part: Part::Manifest, field, rule };
        let head = rest.take(ENTRY_BYTES as u64)?;
        let path = rest.take(E_PATH_LEN.u32(head).into())?.to_vec();
        let target = rest.take(E_TARGET_LEN.u32(head).into())?.to_vec();
        let (size, count) = (E_SIZE.u64(head), E_EXTENTS.u32(head));
        let kind = match E_KIND.u32(head) {
            1 => {
                let mut extents = Vec::new();
                for _ in 0..count {
                    let bytes = rest.take(24)?;
                    if X_RESERVED.u32(bytes) != 0 {
                        return Err(invalid("extent", "must have zero in its reserved bytes"));
                    }
                    extents.push(Extent {
                        lane: Lane(X_LANE.u32(bytes)),
                        first: Stripe(X_FIRST.u64(bytes)),
                        count: X_COUNT.u64(bytes),
                    });
                }
                let blocks = if checksums { block_len.blocks(size) } else { 0 };
                let bytes = rest.take(blocks.saturating_mul(8))?;
                let crc = |bytes: &[u8]| Crc64(u64::from_le_bytes(bytes.try_into().expect("chunks of 8")));
                EntryKind::File { size, extents, crcs: bytes.chunks_exact(8).map(crc).collect() }
            }
            _ if size != 0 || count != 0 => {
                return Err(invalid("entry size", "must be 0 unless it is a file"));
            }
            0 => EntryKind::Dir,
            2 => EntryKind::Symlink { target: target.clone() },
            3 => EntryKind::HardLink { to: target.clone() },
            _ => return Err(invalid("entry kind", "must be 0, 1, 2 or 3")),
        };
        let is_link = matches!(kind, EntryKind::Symlink { .. } | EntryKind::HardLink { .. });
        if is_link == target.is_empty() || target.contains(&0) {
            return Err(invalid("link target", "must stand exactly at a link, without zero bytes"));
        }
        let fields = Fields::decode(rest.take(E_FIELDS_LEN.u32(head).into())?)?;
        let seconds = i64::from_le_bytes(E_SECONDS.get(head));
        let mtime = Timestamp { seconds, nanos: E_NANOS.u32(head) };
        Ok(Entry { source: E_SOURCE.u32(head), path, mode: E_MODE.u32(head), mtime, kind, fields })
    }
}

/// True if bytes are the name of one entry of a directory.
fn is_component(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// The length of all bytes, for the error.
    have: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], FormatError> {
        let short = len.saturating_sub(self.bytes.len() as u64);
        if short > 0 {
            let need = self.have.saturating_add(short);
            return Err(FormatError::Truncated { part: Part::Manifest, have: self.have, need });
        }
        let (taken, rest) = self.bytes.split_at(len as usize);
        self.bytes = rest;
        Ok(taken)
    }

    fn text(&mut self, len: u64, field: &'static str) -> Result<String, FormatError> {
        let invalid = FormatError::Invalid { part: Part::Manifest, field, rule: "must be UTF-8" };
        String::from_utf8(self.take(len)?.to_vec()).map_err(|_| invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str, size: u64, extents: &[(u32, u64, u64)]) -> Entry {
        let blocks = BlockLen::LEAST.blocks(size);
        Entry {
            source: 0,
            path: path.as_bytes().to_vec(),
            mode: 0o644,
            mtime: Timestamp { seconds: -5, nanos: 999_999_999 },
            kind: EntryKind::File {
                size,
                extents: extents
                    .iter()
                    .map(|&(lane, first, count)| Extent { lane: Lane(lane), first: Stripe(first), count })
                    .collect(),
                crcs: (0..blocks).map(|i| Crc64(i * 77)).collect(),
            },
            fields: Fields::default(),
        }
    }

    fn other(path: &str, kind: EntryKind) -> Entry {
        Entry {
            source: 0,
            path: path.as_bytes().to_vec(),
            mode: 0o755,
            mtime: Timestamp { seconds: 1_700_000_000, nanos: 1 },
            kind,
            fields: Fields::default(),
        }
    }

    fn sample() -> Manifest {
        Manifest {
            features: Features::default(),
            fields: Fields::default(),
            set: SetId([9; 16]),
            generation: Generation(12),
            mode: Mode::Beside,
            checksums: true,
            block_len: BlockLen::LEAST,
            stripes: 10,
            lanes: 4,
            code: CodeRecord {
                spec: "rs:4+2".into(),
                version: 1,
                fingerprint: 99,
                definition: Some("pantile-code 1\n".into()),
            },
            name: b"photos".to_vec(),
            sources: vec![Source {
                path: b"/srv/photos".to_vec(),
                prefix: vec![],
                fields: Fields::default(),
            }],
            entries: vec![
                other("", EntryKind::Dir),
                file("a", 3 * 4096, &[(0, 0, 2), (1, 5, 1)]),
                other("d", EntryKind::Dir),
                file("d/\u{fffd}", 1, &[(0, 2, 1)]),
                file("d/empty", 0, &[]),
                other("d/link", EntryKind::Symlink { target: b"../a".to_vec() }),
                other("d/name", EntryKind::HardLink { to: b"a".to_vec() }),
            ],
        }
    }

    fn with_fields() -> Manifest {
        let mut manifest = sample();
        manifest.fields.0.push(crate::TaggedField { tag: 77, bytes: vec![1, 2, 3] });
        manifest.sources[0].fields.set_columns(&[2]);
        manifest.entries[1].fields.push_xattr(b"user.note", b"kept");
        manifest.entries[0].fields.push_xattr(b"user.empty", b"");
        manifest
    }

    #[test]
    fn a_manifest_is_read_back_as_written() {
        let mut manifest = sample();
        assert_eq!(Manifest::decode(&with_fields().encode()), Ok(with_fields()));
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest.clone()));
        manifest.checksums = false;
        manifest.mode = Mode::Full;
        manifest.code.definition = None;
        for entry in &mut manifest.entries {
            if let EntryKind::File { crcs, .. } = &mut entry.kind {
                crcs.clear();
            }
        }
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_an_error() {
        for good in [sample().encode(), with_fields().encode()] {
            for i in 0..good.len() {
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[i] ^= 1 << bit;
                    assert!(Manifest::decode(&bad).is_err(), "byte {i}");
                }
            }
        }
    }

    #[test]
    fn a_manifest_cut_off_anywhere_is_an_error() {
        for good in [sample().encode(), with_fields().encode()] {
            for len in 0..good.len() {
                assert!(Manifest::decode(&good[..len]).is_err(), "{len}");
            }
        }
    }

    #[test]
    fn missing_bytes_are_known_from_the_start_alone() {
        for good in [sample().encode(), with_fields().encode()] {
            let begin = &good[..Manifest::BEGIN_BYTES as usize];
            let need = good.len() as u64;
            let said = Manifest::decode(begin);
            assert!(matches!(said, Err(FormatError::Truncated { need: said, .. }) if said == need));
        }
    }

    #[test]
    fn paths_that_leave_their_root_are_refused() {
        for path in
            ["..", "../x", "d/../../x", "/etc/passwd", "d//x", "d/./x", "a/x", "nowhere/x", "d/", "d/l\0"]
        {
            let mut manifest = sample();
            manifest.entries.push(file(path, 0, &[]));
            let decoded = Manifest::decode(&manifest.encode());
            assert!(matches!(decoded, Err(FormatError::Invalid { field: "entry path", .. })), "{path}");
        }
        // No entry is below a link, even if the link points to a directory.
        let mut manifest = sample();
        manifest.entries.push(file("d/link/x", 0, &[]));
        assert!(Manifest::decode(&manifest.encode()).is_err());
        for prefix in ["..", "a/b", "."] {
            let mut manifest = sample();
            manifest.sources[0].prefix = prefix.into();
            assert!(Manifest::decode(&manifest.encode()).is_err());
        }
        for (path, fits) in [
            ("x".into(), false),
            ("/x\0".into(), false),
            ("/x".repeat(2047), true),
            ("/x".repeat(2048), false),
        ] {
            let mut manifest = sample();
            manifest.sources[0].path = path.into_bytes();
            assert_eq!(Manifest::decode(&manifest.encode()).is_ok(), fits);
        }
        for name in ["", "..", "a/b"] {
            let mut manifest = sample();
            manifest.name = name.into();
            assert!(Manifest::decode(&manifest.encode()).is_err());
        }
    }

    #[test]
    fn extents_outside_the_grid_or_over_each_other_are_refused() {
        for (size, extents) in [
            (4096, vec![(4, 0, 1)]),
            (4096, vec![(0, 10, 1)]),
            (4096, vec![(3, u64::MAX, 1)]),
            (8192, vec![(3, 9, 2)]),
            (4096, vec![(0, 1, 1)]),
            (8192, vec![(3, 0, 1), (3, 0, 1)]),
            (4096, vec![(3, 0, 1), (3, 1, 1)]),
            (4096, vec![]),
            (4096, vec![(3, 0, 1), (3, 1, 0)]),
        ] {
            let mut manifest = sample();
            manifest.entries.push(file("x", size, &extents));
            let decoded = Manifest::decode(&manifest.encode());
            assert!(matches!(decoded, Err(FormatError::Invalid { field: "extent", .. })), "{extents:?}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Manifest::decode(&bytes);
        }

        /// Recomputes the checksum, so that every check behind it is reached.
        #[test]
        fn random_changes_under_a_fitting_checksum_never_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            has_fields: bool,
        ) {
            let mut bytes = if has_fields { with_fields() } else { sample() }.encode();
            let body = bytes.len() - 8;
            for (index, value) in changes {
                bytes[12 + index.index(body - 12)] = value;
            }
            TOTAL_LEN.put_u64(&mut bytes, body as u64 + 8);
            let crc = Crc64::of(&bytes[..body]);
            bytes[body..].copy_from_slice(&crc.0.to_le_bytes());
            if let Ok(manifest) = Manifest::decode(&bytes) {
                prop_assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
            }
        }
    }
}
