//! The stream of `ceph-objectstore-tool --op export`: the shards of a placement group, as one OSD
//! stores them.
//!
//! The stream consists of sections. Before each is a header and after it a footer, whose lengths
//! the beginning of the stream states; the end of an object is a header alone. An object has a
//! name, data in pieces, and attributes. All other sections are skipped: logs, past maps, omap.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

/// The first bytes of a stream.
const MAGIC: u32 = 0xffce_ffce;
/// The lower 16 bits of a section's type.
const SECTION: u32 = 0xffce;
/// The kinds of sections that are read.
const OBJECT_BEGIN: u8 = 3;
const OBJECT_END: u8 = 4;
const DATA: u8 = 5;
const ATTRIBUTES: u8 = 6;
const GROUP_END: u8 = 2;
/// The most bytes of a footer, and of a section that is kept in memory as a whole.
const SECTION_BYTES_MOST: u64 = 64 << 20;
/// Bytes of data that are passed on at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The generation of a current object; Ceph keeps objects of other generations to roll back writes.
const NO_GENERATION: u64 = u64::MAX;

/// Reasons why a stream cannot be read.
#[derive(Debug)]
pub enum ExportError {
    /// Reading fails.
    Read(io::Error),
    /// The stream is no export, or is of an unknown version.
    Shape(&'static str),
}

impl fmt::Display for ExportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Read(error) => write!(out, "the export ends too soon or cannot be read: {error}"),
            ExportError::Shape(what) => {
                write!(out, "this is not the export of a placement group as Ceph 14 to 20 writes it: {what}")
            }
        }
    }
}

impl std::error::Error for ExportError {}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError::Read(error)
    }
}

/// The name of an object within its pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct ObjectName {
    /// Its name.
    pub oid: String,
    /// The key by which the object is placed; usually empty.
    pub key: String,
    /// Its namespace.
    pub namespace: String,
    /// The number of the snapshot; -2 for the object itself.
    pub snap: i64,
    /// The hash by which it is placed.
    pub hash: u32,
}

/// A receiver of the objects of a stream.
pub trait Objects {
    /// Takes the next bytes of the object that is being read.
    fn data(&mut self, bytes: &[u8]);
    /// Takes the end of an object, with its name; `info` is its attribute `_`: size and version.
    fn end(&mut self, name: ObjectName, info: &[u8]);
}

/// Reads a whole stream.
///
/// Objects that Ceph keeps to roll back a write are skipped. Errors: reading fails, or the stream
/// has another shape; the objects before the fault have been passed on.
pub fn read<R: Read>(from: &mut R, objects: &mut dyn Objects) -> Result<(), ExportError> {
    let mut first = [0; 16];
    from.read_exact(&mut first)?;
    let [magic, version, header, footer] = [0, 4, 8, 12].map(|at| u32_at(&first, at).unwrap_or(0));
    if magic != MAGIC || version != 2 {
        return Err(ExportError::Shape("its first bytes are others"));
    }
    if header != 18 || u64::from(footer) > SECTION_BYTES_MOST {
        return Err(ExportError::Shape("its sections have other headers"));
    }
    let mut open: Option<Open> = None;
    let mut piece = Vec::new();
    loop {
        let mut head = [0; 18];
        from.read_exact(&mut head)?;
        let (kind, len) = (u32_at(&head, 6).unwrap_or(0), u64_at(&head, 10).unwrap_or(0));
        if kind & 0xffff != SECTION {
            return Err(ExportError::Shape("a section has no header"));
        }
        let mut section = from.by_ref().take(len);
        match (kind >> 24) as u8 {
            OBJECT_BEGIN => open = Some(Open::parse(&whole(&mut section)?)?),
            DATA => {
                let mut head = [0; 26];
                section.read_exact(&mut head)?;
                let object = open.as_mut().ok_or(ExportError::Shape("data without an object"))?;
                if u64_at(&head, 6) != Some(object.at) {
                    return Err(ExportError::Shape("data with a gap"));
                }
                while section.limit() > 0 {
                    piece.resize(PIECE_BYTES.min(section.limit() as usize), 0);
                    section.read_exact(&mut piece)?;
                    object.at += piece.len() as u64;
                    if object.is_current {
                        objects.data(&piece);
                    }
                }
            }
            ATTRIBUTES => {
                let object = open.as_mut().ok_or(ExportError::Shape("attributes without an object"))?;
                let mut attributes = attributes(&whole(&mut section)?)?;
                object.info.extend(attributes.remove("_").unwrap_or_default());
            }
            OBJECT_END => {
                let object = open.take().ok_or(ExportError::Shape("the end of no object"))?;
                if object.is_current {
                    objects.end(object.name, &object.info);
                }
                // The end of an object is a header without a footer.
                continue;
            }
            GROUP_END => return Ok(()),
            _ => _ = io::copy(&mut section, &mut io::sink())?,
        }
        if section.limit() > 0 {
            return Err(ExportError::Read(io::ErrorKind::UnexpectedEof.into()));
        }
        io::copy(&mut from.by_ref().take(u64::from(footer)), &mut io::sink())?;
    }
}

/// An object whose end was not read yet.
struct Open {
    name: ObjectName,
    is_current: bool,
    at: u64,
    info: Vec<u8>,
}

impl Open {
    fn parse(section: &[u8]) -> Result<Open, ExportError> {
        let mut fields = Fields { rest: section };
        fields.structure()?;
        let mut name = Fields { rest: fields.structure_bytes()? };
        let (key, oid, snap) = (name.text()?, name.text()?, name.u64()? as i64);
        let hash = name.u32()?;
        name.take(1)?;
        let namespace = name.text()?;
        let is_current = fields.u64()? == NO_GENERATION;
        let name = ObjectName { oid, key, namespace, snap, hash };
        Ok(Open { name, is_current, at: 0, info: Vec::new() })
    }
}

fn attributes(section: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, ExportError> {
    let mut fields = Fields { rest: section };
    fields.structure()?;
    let count = fields.u32()?;
    (0..count).map(|_| Ok((fields.text()?, fields.bytes()?.to_vec()))).collect()
}

fn whole<R: Read>(section: &mut io::Take<&mut R>) -> Result<Vec<u8>, ExportError> {
    if section.limit() > SECTION_BYTES_MOST {
        return Err(ExportError::Shape("a section is too long"));
    }
    let mut bytes = Vec::new();
    section.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Fields in Ceph's encoding.
struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    fn take(&mut self, len: usize) -> Result<&'b [u8], ExportError> {
        let (field, rest) =
            self.rest.split_at_checked(len).ok_or(ExportError::Shape("a field is missing"))?;
        self.rest = rest;
        Ok(field)
    }

    fn u32(&mut self) -> Result<u32, ExportError> {
        Ok(u32_at(self.take(4)?, 0).unwrap_or(0))
    }

    fn u64(&mut self) -> Result<u64, ExportError> {
        Ok(u64_at(self.take(8)?, 0).unwrap_or(0))
    }

    fn bytes(&mut self) -> Result<&'b [u8], ExportError> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn text(&mut self) -> Result<String, ExportError> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// Reads the head of a structure, two versions and a length, and returns the length.
    fn structure(&mut self) -> Result<usize, ExportError> {
        self.take(2)?;
        Ok(self.u32()? as usize)
    }

    fn structure_bytes(&mut self) -> Result<&'b [u8], ExportError> {
        let len = self.structure()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<u8>, Vec<(ObjectName, usize, usize)>);

    impl Objects for Seen {
        fn data(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }
        fn end(&mut self, name: ObjectName, info: &[u8]) {
            self.1.push((name, std::mem::take(&mut self.0).len(), info.len()));
        }
    }

    /// Written by ceph-objectstore-tool 16.2.15: a shard of a pool of isa k=4 m=2, after a
    /// snapshot.
    fn export() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/foreign/ceph_export");
        std::fs::read(path).unwrap()
    }

    #[test]
    fn an_export_of_ceph_has_its_objects() {
        let mut seen = Seen::default();
        read(&mut &export()[..], &mut seen).unwrap();
        let name = ObjectName {
            oid: "näme with/slash".into(),
            key: String::new(),
            namespace: "space".into(),
            snap: -2,
            hash: 787_195_525,
        };
        assert_eq!(seen.1, [(name, 28_672, 281)]);
    }

    #[test]
    fn an_export_that_was_cut_or_changed_is_refused() {
        let export = export();
        for len in (0..export.len() - 18).step_by(97) {
            assert!(read(&mut &export[..len], &mut Seen::default()).is_err(), "{len}");
        }
        for at in (0..export.len()).step_by(131) {
            let mut changed = export.clone();
            changed[at] ^= 0x80;
            // The reader returns an answer or an error, and allocates no more than the length of
            // the stream.
            let _ = read(&mut &changed[..], &mut Seen::default());
        }
    }
}
