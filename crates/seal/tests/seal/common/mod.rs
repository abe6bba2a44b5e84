//! Makes trees to seal, and compares them.

use pantile_seal::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub mod fault;
pub mod users;

/// A generator of seeded numbers: splitmix64.
pub struct Seed(pub u64);

impl Seed {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// A directory of one test, removed afterwards, with a source tree and a place for shards.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        // On a file system in memory, if there is one: the tests sync thousands of times.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Place { dir: dir.unwrap() }
    }

    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    pub fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    pub fn options(&self, code: &str) -> SealOptions {
        let mut options = SealOptions::new(vec![self.tree()], self.out());
        options.code = Some(code_of(code));
        options.records = Some(self.records());
        options
    }

    pub fn set(&self) -> SetPaths {
        SetPaths { records: Some(self.records()), ..SetPaths::dir(self.out()) }
    }

    /// Returns the directory of the records of the user who seals.
    pub fn records(&self) -> PathBuf {
        self.dir.path().join("records")
    }

    pub fn verify(&self) -> VerifyReport {
        verify(&VerifyOptions { set: self.set(), ..Default::default() }, &mut Silent).unwrap()
    }

    pub fn heal(&self) -> Result<HealReport, Fault> {
        heal(&HealOptions { set: self.set(), ..Default::default() }, &mut Silent)
    }

    pub fn reseal(&self) -> SealReport {
        seal(&self.again(), &mut Silent).unwrap()
    }

    /// Returns the options to seal once more, also in a copy of the place in which it was sealed.
    pub fn again(&self) -> SealOptions {
        let records = Some(self.records());
        SealOptions { moved: true, records, ..SealOptions::new(vec![self.tree()], self.out()) }
    }

    pub fn unseal(&self) -> Result<UnsealReport, Fault> {
        let _ = fs::remove_dir_all(self.target());
        unseal(
            &UnsealOptions { set: self.set(), target: self.target(), modes: true, ..Default::default() },
            &mut Silent,
        )
    }

    pub fn shard(&self, column: usize) -> PathBuf {
        self.out().join(format!("tree.{column:02}.shard"))
    }

    /// Unseals and compares with the tree.
    pub fn assert_restores(&self) {
        self.unseal().unwrap();
        assert_same_trees(&self.tree(), &self.target());
    }
}

/// Returns disks at their present paths, named by the last components of these.
pub fn at(paths: &[PathBuf]) -> Vec<DiskAt> {
    let disk = |path: &PathBuf| DiskAt { name: path.file_name().unwrap().into(), path: path.clone() };
    paths.iter().map(disk).collect()
}

/// Returns a code by its spec, or from the text of a code file.
pub fn code_of(code: &str) -> pantile::Code {
    if code.starts_with("pantile-code") {
        pantile::Code::from_text(code).unwrap()
    } else {
        pantile::Code::parse(code).unwrap()
    }
}

/// Writes a file and sets its mtime into the past, so that no test waits for the clock.
pub fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    age(path, 1_600_000_000 + bytes.len() as u64);
}

/// Sets the mtime to these seconds and a fixed number of nanoseconds.
pub fn age(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    fs::File::options().read(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Makes a tree of awkward files: empty files, one byte, exact blocks, links, deep directories,
/// names that are not UTF-8.
pub fn awkward_tree(root: &Path, seed: u64) {
    let mut seed = Seed(seed);
    fs::create_dir_all(root.join("deep/er/still/deeper/and/deeper")).unwrap();
    fs::create_dir_all(root.join("empty dir")).unwrap();
    write(&root.join("empty"), b"");
    write(&root.join("one"), &[7]);
    for (name, len) in [
        ("block", 4096),
        ("block+1", 4097),
        ("block-1", 4095),
        ("two blocks", 8192),
        ("large", 300_000),
        ("zeros", 0),
    ] {
        write(&root.join(name), &seed.bytes(len));
    }
    write(&root.join("zeros"), &vec![0; 20_000]);
    write(&root.join("deep/er/still/deeper/and/deeper/file"), &seed.bytes(10_000));
    write(&root.join("deep/er").join(OsStr::from_bytes(b"not \xff\xfe utf-8")), &seed.bytes(5000));
    symlink("../nowhere/at all", root.join("deep/dangling")).unwrap();
    symlink("one", root.join("link")).unwrap();
    symlink(OsStr::from_bytes(b"\xff"), root.join("odd link")).unwrap();
    fs::set_permissions(root.join("one"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(root.join("block"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("empty dir"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// Returns kind, mode, mtime and content of a tree, by path.
pub fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        let time = (meta.mtime(), meta.mtime_nsec());
        let text = if meta.is_symlink() {
            format!("link {:?}", fs::read_link(&full).unwrap())
        } else if meta.is_dir() {
            for entry in fs::read_dir(&full).unwrap() {
                todo.push(path.join(entry.unwrap().file_name()));
            }
            format!("dir {:o} {time:?}", meta.mode())
        } else {
            let bytes = fs::read(&full).unwrap();
            format!("file {:o} {time:?} {} {:?}", meta.mode(), bytes.len(), pantile_format::Crc64::of(&bytes))
        };
        all.insert(path, text);
    }
    all
}

pub fn assert_same_trees(a: &Path, b: &Path) {
    assert_eq!(picture(a), picture(b));
}

/// Flips a byte in place and keeps the mtime.
pub fn flip(path: &Path, at: u64) {
    spoil(path, at, 1);
}

/// Flips some adjacent bytes in place and keeps the mtime.
pub fn spoil(path: &Path, at: u64, len: u64) {
    use std::os::unix::fs::FileExt;
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let mode = fs::metadata(path).unwrap().permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
    file.write_all_at(&bytes, at).unwrap();
    file.set_modified(time).unwrap();
    fs::set_permissions(path, mode).unwrap();
}

/// Changes a byte of an original as rot does, without a trace in the times of the file.
pub fn rot(place: &Place, path: &Path, at: u64) {
    flip(path, at);
    make_shards_younger(place);
}

/// Makes the ctimes of files and directories look older than the last seal, since ctimes cannot be
/// set back.
pub fn make_shards_younger(place: &Place) {
    // The clock that stamps files ticks more slowly than the one that is read below.
    std::thread::sleep(Duration::from_millis(20));
    let later = SystemTime::now();
    for file in fs::read_dir(place.out()).unwrap() {
        fs::File::options().write(true).open(file.unwrap().path()).unwrap().set_modified(later).unwrap();
    }
}

/// Returns the files of a directory, by name, to check that they do not change.
pub fn shards(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(out).unwrap() {
        let entry = entry.unwrap();
        all.insert(PathBuf::from(entry.file_name()), fs::read(entry.path()).unwrap());
    }
    all
}

/// Replaces the last eight bytes of a block so that the block has a given checksum.
pub fn forge(block: &mut [u8], wanted: pantile_format::Crc64) {
    let at = block.len() - 8;
    let mut crc = |tail: u64| {
        block[at..].copy_from_slice(&tail.to_le_bytes());
        pantile_format::Crc64::of(block).0
    };
    let base = crc(0);
    // By the highest bit of the checksum's change: that change, and the bits of the tail that cause
    // it.
    let mut pivots = [None; 64];
    for i in 0..64 {
        let (mut adds, mut bits) = (crc(1 << i) ^ base, 1u64 << i);
        while adds != 0 {
            match pivots[adds.ilog2() as usize] {
                None => {
                    pivots[adds.ilog2() as usize] = Some((adds, bits));
                    break;
                }
                Some((other, its)) => (adds, bits) = (adds ^ other, bits ^ its),
            }
        }
    }
    let (mut left, mut tail) = (wanted.0 ^ base, 0);
    while left != 0 {
        let (adds, bits) =
            pivots[left.ilog2() as usize].expect("a checksum of 64 bits is reached by any 64 bits");
        (left, tail) = (left ^ adds, tail ^ bits);
    }
    assert_eq!(crc(tail), wanted.0);
}

/// Copies a directory of plain files and directories, with their mtimes. (A child process would
/// inherit locks of other tests.)
pub fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
            let mut time = fs::metadata(&from).unwrap().modified().unwrap();
            // Copies have a new ctime. With a later mtime of the shards no file counts as touched.
            if from.extension().is_some_and(|kind| kind == "shard") {
                time = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
            }
            fs::File::options().read(true).open(&to).unwrap().set_modified(time).unwrap();
        }
    }
}
