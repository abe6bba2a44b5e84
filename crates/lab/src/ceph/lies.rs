//! Search for shards of a pool that are wrong although their checksums are right: the shards of
//! each object are compared with one another.
//!
//! Ceph has no request that reads a single shard of an object from a running OSD.
//! `ceph-objectstore-tool` exports the shards of a placement group from a stopped OSD, and reads
//! every checksum. A [`Scan`] contains the folds ([`super::fold`]) of all shards of a pool on one
//! OSD. [`compare`] takes the scans of all OSDs and names the wrong shards.

use super::export::{ExportError, ObjectName, Objects, read};
use super::fold::{Fold, Folding};
use pantile::code::foreign::Profile;
use pantile::plan::CellSet;
use pantile::{Check, Chunks, Codec, DoubtReason, Verdict};
use pantile_format::Crc64;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

/// The version of the format of scans.
const VERSION: u32 = 1;
/// The most bytes of a line of a scan.
const LINE_BYTES_MOST: u64 = 1 << 20;

/// Reasons why a scan cannot be made or compared.
#[derive(Debug)]
pub enum ScanError {
    /// Reading or writing fails.
    Io(io::Error),
    /// The export of a placement group cannot be read.
    Export(ExportError),
    /// The input is no scan of this version, is of another pool, or is incomplete.
    Shape(String),
    /// Two scans have the same shard of a placement group.
    Twice {
        /// The shard.
        group: Group,
        /// The OSDs.
        osds: [u32; 2],
    },
}

impl fmt::Display for ScanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Io(error) => error.fmt(out),
            ScanError::Export(error) => error.fmt(out),
            ScanError::Shape(what) => out.write_str(what),
            ScanError::Twice { group, osds: [one, other] } => write!(
                out,
                "the scans of OSDs {one} and {other} both have {group}: it was moved between them; wait until the \
                 cluster is clean and scan these two again"
            ),
        }
    }
}

impl std::error::Error for ScanError {}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> ScanError {
        ScanError::Io(error)
    }
}

/// One shard of a placement group, such as `3.1fs0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group {
    /// The placement group, such as `3.1f`.
    pub pg: String,
    /// The shard, which is the column of the code.
    pub shard: usize,
}

impl Group {
    /// Reads a name as `ceph-objectstore-tool --op list-pgs` prints it. `None` if it is no shard of
    /// an erasure-coded pool.
    pub fn parse(text: &str) -> Option<Group> {
        let (pg, shard) = text.trim().rsplit_once('s')?;
        let (pool, place) = pg.split_once('.')?;
        let is_group = pool.parse::<i64>().is_ok() && u32::from_str_radix(place, 16).is_ok();
        is_group.then_some(Group { pg: pg.to_string(), shard: shard.parse().ok()? })
    }

    /// The number of the pool.
    pub fn pool(&self) -> Option<i64> {
        self.pg.split_once('.')?.0.parse().ok()
    }
}

impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}s{}", self.pg, self.shard)
    }
}

/// The first line of a scan. Scans are compared only if their heads differ in nothing but the OSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The version of the format of scans.
    pub pantile_ceph_scan: u32,
    /// The number of the OSD.
    pub osd: u32,
    /// The number of the pool.
    pub pool: i64,
    /// The profile of the pool.
    pub profile: String,
    /// Bytes of a chunk of a stripe.
    pub chunk: usize,
}

impl Head {
    /// Returns the head of a scan in this version of the format.
    pub fn new(osd: u32, pool: i64, profile: &Profile, chunk: usize) -> Head {
        Head { pantile_ceph_scan: VERSION, osd, pool, profile: profile.name.clone(), chunk }
    }
}

/// A line of a scan after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Group(Group),
    Object(Shard),
    End(u64),
}

/// A shard of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The name of its object.
    #[serde(flatten)]
    pub name: ObjectName,
    /// A checksum of the object's size and version.
    pub version: u64,
    /// Bytes of the shard.
    pub bytes: u64,
    /// Its fold, in hexadecimal digits.
    pub fold: String,
}

/// Writer of a scan: for each placement group, the folds of the shards in its export.
pub struct Scan<W> {
    to: W,
    shards: u64,
    bytes: u64,
}

impl<W: Write> Scan<W> {
    /// Writes the head of a scan.
    pub fn new(mut to: W, head: &Head) -> Result<Scan<W>, ScanError> {
        line(&mut to, head)?;
        Ok(Scan { to, shards: 0, bytes: 0 })
    }

    /// Adds the export of one shard of a placement group.
    pub fn add(
        &mut self,
        group: &Group,
        from: &mut impl Read,
        folding: &mut Folding,
    ) -> Result<(), ScanError> {
        line(&mut self.to, &Line::Group(group.clone()))?;
        for shard in shards_of(from, folding)? {
            self.shards += 1;
            self.bytes += shard.bytes;
            line(&mut self.to, &Line::Object(shard))?;
        }
        Ok(())
    }

    /// Writes the last line, without which a scan counts as incomplete. Returns the output, the
    /// number of shards and their bytes.
    pub fn end(mut self) -> Result<(W, u64, u64), ScanError> {
        line(&mut self.to, &Line::End(self.shards))?;
        self.to.flush()?;
        Ok((self.to, self.shards, self.bytes))
    }
}

/// Returns the shards of an export.
pub fn shards_of(from: &mut impl Read, folding: &mut Folding) -> Result<Vec<Shard>, ScanError> {
    struct Folded<'f> {
        folding: &'f mut Folding,
        fold: Fold,
        shards: Vec<Shard>,
    }
    impl Objects for Folded<'_> {
        fn data(&mut self, bytes: &[u8]) {
            self.fold.add(self.folding, bytes);
        }
        fn end(&mut self, name: ObjectName, info: &[u8]) {
            let fold = std::mem::replace(&mut self.fold, self.folding.start());
            let (bytes, fold) = (fold.len(), digits(&fold.end(self.folding)));
            self.shards.push(Shard { name, version: Crc64::of(info).0, bytes, fold });
        }
    }
    let mut folded = Folded { fold: folding.start(), folding, shards: Vec::new() };
    read(from, &mut folded).map_err(ScanError::Export)?;
    Ok(folded.shards)
}

fn line(to: &mut impl Write, value: &impl Serialize) -> Result<(), ScanError> {
    serde_json::to_writer(&mut *to, value).map_err(|error| ScanError::Io(error.into()))?;
    Ok(to.write_all(b"\n")?)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
        text.extend([digit(byte >> 4), digit(byte & 15)]);
        text
    })
}

fn from_digits(text: &str, len: usize) -> Option<Vec<u8>> {
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() == len)
}

/// A scan to compare, with the position of each placement group in it.
pub struct Scanned<R> {
    from: R,
    head: Head,
    groups: BTreeMap<Group, u64>,
}

impl<R: BufRead + Seek> Scanned<R> {
    /// Reads a scan to its end. Memory: the names of its placement groups.
    pub fn open(mut from: R) -> Result<Scanned<R>, ScanError> {
        let shape = |what: String| ScanError::Shape(what);
        let mut text = Vec::new();
        let mut next = |from: &mut R| -> Result<Vec<u8>, ScanError> {
            text.clear();
            from.by_ref().take(LINE_BYTES_MOST).read_until(b'\n', &mut text)?;
            Ok(text.clone())
        };
        let head = next(&mut from)?;
        let head: Head = serde_json::from_slice(&head)
            .map_err(|_| shape("it is no scan; make one with 'pantile ceph scan'".into()))?;
        if head.pantile_ceph_scan != VERSION {
            return Err(shape("another version of pantile made it; scan again with this one".into()));
        }
        let (mut groups, mut shards) = (BTreeMap::new(), 0);
        loop {
            let bytes = next(&mut from)?;
            let at = from.stream_position()?;
            match serde_json::from_slice(&bytes) {
                Ok(Line::Group(group)) => _ = groups.insert(group, at),
                Ok(Line::Object(_)) => shards += 1,
                Ok(Line::End(count)) if count == shards => break,
                _ => return Err(shape("it was cut or changed; scan this OSD again".into())),
            }
        }
        Ok(Scanned { from, head, groups })
    }

    /// Returns its first line.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the shards of a placement group, by object; `None` if the scan does not have the
    /// group.
    fn shards(&mut self, group: &Group) -> Result<Option<BTreeMap<ObjectName, Shard>>, ScanError> {
        let Some(&at) = self.groups.get(group) else { return Ok(None) };
        self.from.seek(SeekFrom::Start(at))?;
        let (mut shards, mut text) = (BTreeMap::new(), Vec::new());
        loop {
            text.clear();
            self.from.by_ref().take(LINE_BYTES_MOST).read_until(b'\n', &mut text)?;
            match serde_json::from_slice(&text) {
                Ok(Line::Object(shard)) => _ = shards.insert(shard.name.clone(), shard),
                Ok(_) => return Ok(Some(shards)),
                Err(_) => return Err(ScanError::Shape("it changed while it was read".into())),
            }
        }
    }
}

/// One wrong shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The shard.
    pub group: Group,
    /// The OSD that stores it.
    pub osd: u32,
    /// An error in more shards would look the same with a chance of at most 1 in 2 to this power.
    pub evidence_bits: u32,
    /// True if this evidence suffices for a repair.
    pub is_certain: bool,
    /// Its fold and version as scanned.
    pub shard: Shard,
    /// The OSD of each right shard of the object, by shard; the wrong shard was compared with
    /// these.
    pub good: BTreeMap<usize, u32>,
    /// True if the right shards suffice to compute the wrong one.
    pub is_recoverable: bool,
}

/// Fault that was found in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// These shards are wrong.
    Wrong(Vec<Wrong>),
    /// The shards contradict one another, and the wrong ones cannot be located.
    Unknown,
    /// The shards differ in length. A deep scrub of Ceph reports this, too.
    Lengths,
    /// Shards that are absent from scanned OSDs.
    Missing(Vec<Group>),
}

/// Result of comparing scans.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Number of objects, including snapshots of objects, that were compared.
    pub objects: u64,
    /// Number of objects whose shards are of different versions, because a write came between two
    /// scans; their shards cannot be compared.
    pub changed: u64,
    /// Number of objects of which too few shards were scanned to compare them.
    pub unchecked: u64,
    /// Placement groups that have a shard in no scan.
    pub partly: BTreeSet<String>,
    /// Number of placement groups.
    pub groups: u64,
    /// Each fault, with its placement group and its object.
    pub found: Vec<(String, ObjectName, Found)>,
}

/// Compares the scans of the OSDs of a pool, one placement group after another.
///
/// Memory: the shards of one placement group. Errors: scans of several pools or profiles; a shard
/// in two scans.
pub fn compare<R: BufRead + Seek>(
    scans: &mut [Scanned<R>],
    profile: &Profile,
    wanted: impl Fn(&str) -> bool,
) -> Result<Compared, ScanError> {
    let mut compared = Compared::default();
    let Some(first) = scans.first().map(|scan| scan.head.clone()) else { return Ok(compared) };
    let folding = Folding::new(profile, first.chunk).map_err(|error| ScanError::Shape(error.to_string()))?;
    for scan in &*scans {
        let expected = Head { osd: scan.head.osd, profile: profile.name.clone(), ..first.clone() };
        if scan.head != expected {
            return Err(ScanError::Shape(format!(
                "the scan of OSD {} is of another pool or profile than {} of pool {}; scan it again",
                scan.head.osd, profile.name, first.pool
            )));
        }
    }
    let mut places: BTreeMap<Group, usize> = BTreeMap::new();
    for (place, scan) in scans.iter().enumerate() {
        for group in scan.groups.keys().filter(|group| wanted(&group.pg)) {
            if let Some(other) = places.insert(group.clone(), place) {
                let osds = [scans[other].head.osd, scan.head.osd];
                return Err(ScanError::Twice { group: group.clone(), osds });
            }
        }
    }
    let folds = Folds::new(&folding, profile)?;
    let columns = profile.code.columns();
    let groups: BTreeSet<String> = places.keys().map(|group| group.pg.clone()).collect();
    for pg in groups {
        compared.groups += 1;
        let mut by_shard: Vec<Option<(u32, BTreeMap<ObjectName, Shard>)>> = Vec::new();
        for shard in 0..columns {
            let group = Group { pg: pg.clone(), shard };
            by_shard.push(match places.get(&group) {
                Some(&place) => scans[place].shards(&group)?.map(|shards| (scans[place].head.osd, shards)),
                None => None,
            });
        }
        if by_shard.iter().any(Option::is_none) {
            compared.partly.insert(pg.clone());
        }
        let names: BTreeSet<ObjectName> =
            by_shard.iter().flatten().flat_map(|(_, shards)| shards.keys().cloned()).collect();
        for name in names {
            compared.objects += 1;
            let shards: Vec<Option<(u32, &Shard)>> = by_shard
                .iter()
                .map(|of| of.as_ref().and_then(|(osd, shards)| Some((*osd, shards.get(&name)?))))
                .collect();
            let there: Vec<&Shard> = shards.iter().flatten().map(|(_, shard)| *shard).collect();
            if there.iter().any(|shard| shard.version != there[0].version) {
                compared.changed += 1;
                continue;
            }
            let missing: Vec<Group> = (0..columns)
                .filter(|&shard| by_shard[shard].is_some() && shards[shard].is_none())
                .map(|shard| Group { pg: pg.clone(), shard })
                .collect();
            let found = match there.iter().any(|shard| shard.bytes != there[0].bytes) {
                true => Some(Found::Lengths),
                false => match folds.judge(&pg, &shards)? {
                    Judged::Right => None,
                    Judged::Unchecked => {
                        compared.unchecked += 1;
                        None
                    }
                    Judged::Wrong(wrong) => Some(Found::Wrong(wrong)),
                    Judged::Unknown => Some(Found::Unknown),
                },
            };
            let found = found.or_else(|| (!missing.is_empty()).then_some(Found::Missing(missing)));
            compared.found.extend(found.map(|found| (pg.clone(), name, found)));
        }
    }
    Ok(compared)
}

enum Judged {
    Right,
    Unchecked,
    Wrong(Vec<Wrong>),
    Unknown,
}

/// Folds of the shards of an object, as chunks of the code.
struct Folds {
    chunks: Chunks,
    codec: Codec,
    fold_len: usize,
    data_len: u64,
}

impl Folds {
    fn new(folding: &Folding, profile: &Profile) -> Result<Folds, ScanError> {
        let chunks = Chunks::new(&folding.profile(profile), None)
            .map_err(|error| ScanError::Shape(error.to_string()))?;
        let fold_len = folding.fold_len();
        let data_len = chunks.data_len_of(fold_len as u64).unwrap_or(0);
        Ok(Folds { chunks, codec: Codec::new(&profile.code), fold_len, data_len })
    }

    fn judge(&self, pg: &str, shards: &[Option<(u32, &Shard)>]) -> Result<Judged, ScanError> {
        let mut folds = Vec::new();
        for shard in shards {
            let fold = match shard {
                Some((osd, shard)) => Some(from_digits(&shard.fold, self.fold_len).ok_or_else(|| {
                    ScanError::Shape(format!("the scan of OSD {osd} was changed; scan it again"))
                })?),
                None => None,
            };
            folds.push(fold);
        }
        let lost: Vec<usize> = (0..folds.len()).filter(|&shard| folds[shard].is_none()).collect();
        if self.codec.decoder(&lost).is_err() {
            return Ok(Judged::Unchecked);
        }
        let verify = |check| {
            let mut readers: Vec<Option<&[u8]>> = folds.iter().map(Option::as_deref).collect();
            let mut readers: Vec<Option<&mut dyn Read>> =
                readers.iter_mut().map(|fold| fold.as_mut().map(|fold| fold as &mut dyn Read)).collect();
            let checked = self.chunks.clone().with_check(check).verify(&mut readers, self.data_len);
            checked.map_err(|error| ScanError::Shape(error.to_string()))
        };
        let checked = verify(Check::Certain)?;
        let (columns, is_certain, mut evidence_bits) = match checked.first_doubt {
            None if checked.wrong.is_empty() && checked.is_complete => return Ok(Judged::Right),
            None if checked.wrong.is_empty() => return Ok(Judged::Unchecked),
            None => (checked.wrong.iter().map(|wrong| wrong.column).collect(), true, 0),
            Some(doubt) => match doubt.reason {
                DoubtReason::FewBytes { evidence_bits } => (doubt.columns, false, evidence_bits),
                DoubtReason::NotLocated | DoubtReason::Exchange => return Ok(Judged::Unknown),
            },
        };
        if is_certain {
            evidence_bits = self.evidence(&folds, &lost).unwrap_or(0);
        }
        let is_good = |shard: &usize| !lost.contains(shard) && !columns.contains(shard);
        let gone: Vec<usize> = (0..shards.len()).filter(|shard| !is_good(shard)).collect();
        let is_recoverable = self.codec.decoder(&gone).is_ok();
        let good: BTreeMap<usize, u32> =
            (0..shards.len()).filter(is_good).filter_map(|shard| Some((shard, shards[shard]?.0))).collect();
        let wrong = columns.iter().filter_map(|&shard| {
            let (osd, of) = shards[shard]?;
            let group = Group { pg: pg.to_string(), shard };
            let good = good.clone();
            Some(Wrong { group, osd, evidence_bits, is_certain, shard: of.clone(), good, is_recoverable })
        });
        Ok(Judged::Wrong(wrong.collect()))
    }

    /// Returns the evidence bits of the located error that has most of them.
    fn evidence(&self, folds: &[Option<Vec<u8>>], lost: &[usize]) -> Option<u32> {
        let code = self.codec.code();
        let zeros = vec![0; self.fold_len];
        let row = self.fold_len / code.rows_max();
        let mut cells: Vec<&[u8]> = vec![&[]; code.cell_count()];
        for (column, fold) in folds.iter().enumerate() {
            let rows = fold.as_ref().unwrap_or(&zeros).chunks_exact(row);
            code.column_cells(column).zip(rows).for_each(|(cell, row)| cells[cell.usize()] = row);
        }
        let checker = self.codec.checker(&CellSet::of_columns(code, lost)).ok()?;
        let findings = checker.locate(&cells).ok()?;
        let bits = findings.iter().map(|finding| match finding.verdict {
            Verdict::Located { evidence_bits, .. } => evidence_bits,
            Verdict::Ambiguous { .. } | Verdict::Unlocatable => 0,
        });
        bits.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const NAME: &str = "ceph:plugin=jerasure technique=reed_sol_van k=4 m=2";
    const CHUNK: usize = 4096;

    /// Returns the export of one object's shard, as `ceph-objectstore-tool` writes it.
    fn export(oid: &str, version: u8, shard: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let structure = |body: &[u8]| [&[1, 1], &(body.len() as u32).to_le_bytes()[..], body].concat();
        let mut section = |kind: u32, body: &[u8], has_footer: bool| {
            let mut head = (kind << 24 | kind << 16 | 0xffce).to_le_bytes().to_vec();
            head.extend((body.len() as u64).to_le_bytes());
            out.extend(
                [structure(&head), body.to_vec(), if has_footer { vec![0; 10] } else { Vec::new() }].concat(),
            );
        };
        let numbers = [(-2i64).to_le_bytes().to_vec(), 7u32.to_le_bytes().to_vec(), vec![0]].concat();
        let object =
            structure(&[text(""), text(oid), numbers, text(""), 3i64.to_le_bytes().to_vec()].concat());
        section(3, &structure(&[object, u64::MAX.to_le_bytes().to_vec(), vec![0]].concat()), true);
        let len = (shard.len() as u64).to_le_bytes();
        let data = [&0u64.to_le_bytes()[..], &len, &(shard.len() as u32).to_le_bytes(), shard].concat();
        section(5, &structure(&data), true);
        let attribute = [text("_"), vec![1, 0, 0, 0, version]].concat();
        section(6, &structure(&[1u32.to_le_bytes().to_vec(), attribute].concat()), true);
        section(4, &[], false);
        section(2, &[], false);
        let first = [0xffce_ffceu32, 2, 18, 10].map(u32::to_le_bytes).concat();
        [first, out].concat()
    }

    /// Returns the scans of six OSDs, each with one shard of an object, after a change of shards
    /// and versions.
    fn scans(change: impl Fn(&mut Vec<Vec<u8>>, &mut [u8; 6])) -> Vec<Scanned<Cursor<Vec<u8>>>> {
        let profile = Profile::parse(NAME).unwrap();
        let chunks = Chunks::new(&profile, Some(CHUNK)).unwrap();
        let object: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let mut shards = vec![Vec::new(); 6];
        let mut writers: Vec<&mut dyn Write> = shards.iter_mut().map(|shard| shard as _).collect();
        chunks.encode(&mut &object[..], &mut writers).unwrap();
        let mut versions = [1; 6];
        change(&mut shards, &mut versions);
        let mut folding = Folding::new(&profile, CHUNK).unwrap();
        let scans = shards.iter().enumerate().map(|(shard, bytes)| {
            let head = Head::new(10 + shard as u32, 3, &profile, CHUNK);
            let mut scan = Scan::new(Vec::new(), &head).unwrap();
            let group = Group { pg: "3.1f".into(), shard };
            scan.add(&group, &mut &export("disk", versions[shard], bytes)[..], &mut folding).unwrap();
            Scanned::open(Cursor::new(scan.end().unwrap().0)).unwrap()
        });
        scans.collect()
    }

    fn compared(scans: &mut [Scanned<Cursor<Vec<u8>>>]) -> Compared {
        compare(scans, &Profile::parse(NAME).unwrap(), |_| true).unwrap()
    }

    fn wrong(found: &Compared) -> Vec<(u32, bool)> {
        let Some((_, _, Found::Wrong(wrong))) = found.found.first() else { panic!("{found:?}") };
        wrong.iter().map(|wrong| (wrong.osd, wrong.is_certain)).collect()
    }

    #[test]
    fn a_wrong_shard_is_named_with_its_osd_and_its_evidence() {
        let right = compared(&mut scans(|_, _| {}));
        assert_eq!((right.objects, right.groups, right.found.len()), (1, 1, 0));
        for shard in 0..6 {
            let lie = |shards: &mut Vec<Vec<u8>>, _: &mut [u8; 6]| {
                shards[shard][4096..4600]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, byte)| *byte ^= (i * i + 7 * i + 3) as u8);
            };
            let found = compared(&mut scans(lie));
            assert_eq!(wrong(&found), [(10 + shard as u32, true)]);
            let Found::Wrong(of) = &found.found[0].2 else { unreachable!() };
            assert!(of[0].is_recoverable && of[0].evidence_bits >= 40 && of[0].good.len() == 5, "{of:?}");
        }
    }

    #[test]
    fn one_wrong_byte_is_named_as_probable() {
        let found = compared(&mut scans(|shards, _| shards[2][5000] ^= 4));
        assert_eq!(wrong(&found), [(12, false)]);
    }

    #[test]
    fn too_many_lies_unlike_versions_and_absent_shards_are_reported_as_they_are() {
        let two = compared(&mut scans(|shards, _| {
            shards[1][..64].fill(1);
            shards[4][..64].fill(2);
        }));
        assert_eq!(two.found[0].2, Found::Unknown);
        let written = compared(&mut scans(|shards, versions| {
            shards[1][0] ^= 1;
            versions[1] = 2;
        }));
        assert_eq!((written.changed, written.found.len()), (1, 0));
        let short = compared(&mut scans(|shards, _| shards[1].truncate(CHUNK)));
        assert_eq!(short.found[0].2, Found::Lengths);
        let mut four = scans(|_, _| {});
        four.truncate(4);
        let four = compared(&mut four);
        assert_eq!((four.unchecked, four.partly.len(), four.found.len()), (1, 1, 0));
    }

    #[test]
    fn a_cut_scan_and_a_shard_in_two_scans_are_refused() {
        let mut all = scans(|_, _| {});
        let text = all[0].from.get_ref().clone();
        let cut = text.len() - 8;
        assert!(matches!(Scanned::open(Cursor::new(text[..cut].to_vec())), Err(ScanError::Shape(_))));
        all.push(Scanned::open(Cursor::new(text)).unwrap());
        let twice = compare(&mut all, &Profile::parse(NAME).unwrap(), |_| true);
        assert!(matches!(twice, Err(ScanError::Twice { osds: [10, 10], .. })));
    }
}
