//! Claims: a file that changes while it is sealed is read again; if it still changes, it is named,
//! and the next seal reads it whatever its times are. A store into a mapped file after the seal
//! does not count as damage.

use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::SystemTime;

const LEN: usize = 40 * 4096;

/// A program that writes to a file whenever some of it was read, and sets its mtime back.
struct Writer {
    path: PathBuf,
    writes_left: u32,
    time: SystemTime,
    value: u8,
}

impl Writer {
    fn new(path: PathBuf, writes_left: u32) -> Writer {
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        Writer { path, writes_left, time, value: 0 }
    }
}

impl Progress for Writer {
    fn phase(&mut self, _: &'static str, _: u64) {}

    fn advance(&mut self, bytes: u64) {
        if bytes > 0 && self.writes_left > 0 {
            self.writes_left -= 1;
            self.value += 1;
            let file = fs::File::options().write(true).open(&self.path).unwrap();
            file.write_all_at(&[self.value; 4096], 4096).unwrap();
            file.set_modified(self.time).unwrap();
        }
    }
}

fn place_of_one_file() -> (Place, SealOptions, PathBuf) {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let path = place.tree().join("f");
    write(&path, &Seed(1).bytes(LEN));
    write(&place.tree().join("other"), &Seed(2).bytes(LEN));
    let mut options = place.options("raid6:2");
    options.block_len = Some(4096);
    (place, options, path)
}

#[test]
fn a_file_that_changes_once_is_read_again() {
    for checksums in [true, false] {
        let (place, mut options, path) = place_of_one_file();
        options.checksums = Some(checksums);
        let mut writer = Writer::new(path, 1);
        let report = seal(&options, &mut writer).unwrap();
        assert_eq!((writer.writes_left, report.changed_meanwhile, report.first_time), (0, vec![], true));
        assert_eq!((report.added, report.changed), (3, 0));
        place.assert_restores();
    }
}

#[test]
fn a_file_that_goes_on_changing_is_named_and_read_by_the_next_seal() {
    for checksums in [true, false] {
        let (place, mut options, path) = place_of_one_file();
        options.checksums = Some(checksums);
        let named = vec![path.display().to_string()];
        let report = seal(&options, &mut Writer::new(path.clone(), 1000)).unwrap();
        assert_eq!(report.changed_meanwhile, named);
        // The same holds when a set is sealed again.
        let report = seal(&place.again(), &mut Writer::new(path, 1000)).unwrap();
        assert_eq!(report.changed_meanwhile, named);
        make_shards_younger(&place);
        // The times do not reveal the change, and only one block differs.
        assert_eq!(place.reseal().changed_meanwhile, Vec::<String>::new());
        place.assert_restores();
        let report = place.reseal();
        assert_eq!((report.changed, report.unchanged), (0, 2));
    }
}

#[test]
fn beside_parity_a_file_that_goes_on_changing_is_never_written() {
    let (place, mut options, path) = place_of_one_file();
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Writer::new(path.clone(), 1000)).unwrap();
    let now = fs::read(&path).unwrap();
    make_shards_younger(&place);
    let _ = place.heal();
    assert!(fs::read(&path).unwrap() == now);
    let file = place.verify().files.into_iter().find(|file| file.path.ends_with("f")).unwrap();
    assert_eq!(file.status, FileStatus::Changed);
}

/// Another program, which has mapped a file.
struct Mapped(std::process::Child);

impl Mapped {
    fn open(path: &std::path::Path) -> Mapped {
        let program = "import mmap, sys\n\
            with open(sys.argv[1], 'r+b') as file, mmap.mmap(file.fileno(), 0) as map:\n\
            \x20   for line in sys.stdin:\n\
            \x20       at, value = [int(word) for word in line.split()]\n\
            \x20       map[at] = value\n\
            \x20       print('stored', flush=True)\n";
        let mut python = Command::new("python3");
        python.args(["-c", program]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        Mapped(python.spawn().expect("python3, which the tests of this repository need"))
    }

    /// Stores a byte, and returns once that is done.
    fn store(&mut self, at: usize, value: u8) {
        let Mapped(child) = self;
        writeln!(child.stdin.as_mut().unwrap(), "{at} {value}").unwrap();
        let mut told = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut told).unwrap();
        assert_eq!(&told, b"stored\n");
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A store into a page that is already dirty does not change the mtime.
#[test]
fn a_store_into_a_mapped_file_after_the_seal_is_no_damage() {
    const TMPFS: u64 = 0x0102_1994;
    let place = Place { dir: tempfile::tempdir_in(std::env::temp_dir()).unwrap() };
    if rustix::fs::statfs(place.dir.path()).unwrap().f_type as u64 == TMPFS {
        return;
    }
    fs::create_dir(place.tree()).unwrap();
    let path = place.tree().join("db");
    fs::write(&path, Seed(1).bytes(LEN)).unwrap();
    let file = fs::File::options().read(true).write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    let mut mapped = Mapped::open(&path);
    let mut store = |value: u8| mapped.store(LEN / 2, value);
    store(1);
    let mut options = place.options("raid6:2");
    options.mode = Some(Mode::Beside);
    assert_eq!(seal(&options, &mut Silent).unwrap().changed_meanwhile, Vec::<String>::new());
    store(2);
    let report = place.verify();
    let file = report.files.iter().find(|file| file.path.ends_with("db")).unwrap();
    assert_eq!(file.status, FileStatus::Changed);
    let _ = place.heal();
    assert_eq!(fs::read(&path).unwrap()[LEN / 2], 2);
}
