//! A code file, a set or a trace of an attacker is refused or processed in seconds and in little
//! memory.
//!
//! Each is read by a process with a limit of address space, which is ended after 20 seconds of
//! processor time: debug builds need several times the values of docs/limits.md.

use crate::common::*;
use pantile_format::{Crc64, Manifest, ShardHeader, pieces_of};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs the command within `mib` MiB of address space. Status -1 or 124: it exceeded the time.
fn bounded(directory: &Path, mib: u32, arguments: &[&str]) -> Run {
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -v {}; ulimit -t 20; exec timeout 200 \"$0\" \"$@\"", mib * 1024)])
        .arg(env!("CARGO_BIN_EXE_pantile"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .expect("a shell runs it");
    Run {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("answers are UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("faults are UTF-8"),
    }
}

/// Returns the fault, which is the last line, since progress can precede it.
fn fault(run: &Run) -> &str {
    run.stderr.lines().last().unwrap_or_default()
}

/// A code of 14 x 100 cells whose parity cells are sums of each other, 1 MB of text: 2.7 thousand
/// million products.
fn tangled() -> String {
    let mut text = "pantile-code 1\nname tangled\ncolumns 14\nrows 100\n".to_string();
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for parity in 0..1398u64 {
        write!(text, "[{}][{}] = 7*[99][13] + 9*[98][13]", parity % 100, parity / 100).expect("a String");
        let mut named: Vec<u64> = (0..60).map(|_| next(1398)).filter(|&cell| cell != parity).collect();
        named.sort_unstable();
        named.dedup();
        for cell in named {
            write!(text, " + {}*[{}][{}]", 1 + next(255), cell % 100, cell / 100).expect("a String");
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_code_file_that_takes_long_to_solve_is_refused_at_once_and_says_the_effort() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.code"), tangled()).expect("it writes");
    for command in ["show", "prove"] {
        let run = bounded(folder.path(), 256, &[command, "./t.code"]);
        assert_eq!(run.status, 2, "{command}: {}", run.stderr);
        assert!(fault(&run).contains("--effort"), "{command}: {}", run.stderr);
    }
}

/// A small set by raid6:4 in `s`, and its shards.
fn sealed(folder: &Path) -> Vec<PathBuf> {
    std::fs::create_dir(folder.join("d")).expect("a folder");
    std::fs::write(folder.join("d/f"), [7; 50_000]).expect("it writes");
    let run = pantile_in(folder, &["seal", "d", "--code", "raid6:4", "--out", "s"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    (0..6).map(|column| folder.join(format!("s/d.{column:02}.shard"))).collect()
}

/// Changes the header of a shard, in both copies and with a correct checksum.
fn forge(path: &Path, change: impl Fn(&mut ShardHeader, &File)) {
    let file = File::options().read(true).write(true).open(path).expect("a shard");
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, 0).expect("a header");
    let mut header = ShardHeader::decode(&bytes).expect("a good header");
    change(&mut header, &file);
    let bytes = header.encode();
    file.write_all_at(&bytes, 0).expect("it writes");
    file.write_all_at(&bytes, 4096).expect("it writes");
}

/// Announces a manifest of another length, without a check table.
fn announce(header: &mut ShardHeader, manifest_len: u64) {
    (header.manifest_len, header.pieces_len) = (manifest_len, 8 * pieces_of(manifest_len));
    (header.checks_len, header.checks_crc) = (0, Crc64::of(&[]));
}

#[test]
fn a_manifest_takes_no_more_memory_than_its_stored_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (len, says) in [(6u64 << 30, "--effort 6000000"), (1 << 29, "has a hole")] {
        let place = tempfile::tempdir_in(folder.path()).expect("a folder");
        for shard in sealed(place.path()) {
            forge(&shard, |header, file| {
                // The data begin as a manifest of this length, and continue in a hole.
                let mut begin = vec![0; 4096.min(header.manifest_len as usize)];
                file.read_exact_at(&mut begin, header.meta_offset).expect("a manifest");
                begin[104..112].copy_from_slice(&len.to_le_bytes());
                header.meta_offset = header.meta_offset.next_multiple_of(4096) + (1 << 20);
                file.write_all_at(&begin, header.meta_offset).expect("it writes");
                announce(header, len);
                file.set_len(header.file_len().expect("a length")).expect("it grows");
            });
        }
        for command in [&["info", "s"][..], &["verify", "s"], &["unseal", "s", "--to", "u"]] {
            let run = bounded(place.path(), 300, command);
            assert_eq!(run.status, 2, "{command:?}: {}", run.stderr);
            assert!(fault(&run).contains(says), "{command:?}: {}", run.stderr);
        }
    }
}

#[test]
fn a_code_within_a_manifest_costs_no_more_than_one_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for shard in sealed(folder.path()) {
        forge(&shard, |header, file| {
            let mut bytes = vec![0; header.manifest_len as usize];
            file.read_exact_at(&mut bytes, header.meta_offset).expect("a manifest");
            let mut manifest = Manifest::decode(&bytes).expect("a good manifest");
            manifest.code.definition = Some(tangled());
            manifest.code.spec = "custom:tangled-0123456789abcdef".into();
            let bytes = manifest.encode();
            header.meta_offset = file.metadata().expect("a file").len();
            file.write_all_at(&bytes, header.meta_offset).expect("it writes");
            announce(header, bytes.len() as u64);
            header.manifest_crc = Crc64::of(&bytes);
            file.set_len(header.file_len().expect("a length")).expect("it grows");
        });
    }
    let run = bounded(folder.path(), 300, &["info", "s"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(fault(&run).contains("--effort"), "{}", run.stderr);
}

#[test]
fn beginnings_of_the_next_manifest_are_not_read_whole_without_end() {
    // A shard has 4,000 places that begin as the manifest of the next generation and claim the rest
    // of the file.
    let folder = tempfile::tempdir().expect("a folder");
    let shards = sealed(folder.path());
    for shard in &shards {
        forge(shard, |header, file| {
            let mut begin = vec![0; 120];
            file.read_exact_at(&mut begin, header.meta_offset).expect("a manifest");
            begin[32..40].copy_from_slice(&(header.generation.0 + 1).to_le_bytes());
            let stripe = u64::from(header.stored_rows) * header.block_len.bytes();
            let (end, places) = (header.body_end().expect("an end"), 4_000);
            let all = end + (places - 2) * stripe;
            let fill = vec![0x55; 1 << 20];
            (0..(places * stripe) >> 20).for_each(|mib| {
                file.write_all_at(&fill, end + stripe + (mib << 20)).expect("it writes");
            });
            for place in 1..places - 1 {
                let at = end + place * stripe;
                begin[104..112].copy_from_slice(&(all.max(at + 200) - at).to_le_bytes());
                file.write_all_at(&begin, at).expect("it writes");
            }
        });
    }
    // The change is read only if too much is lost without it.
    shards[..3].iter().for_each(|shard| std::fs::remove_file(shard).expect("it goes"));
    let run = bounded(folder.path(), 800, &["verify", "s"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
}

/// A code of 32 columns, half of them parity, in 3 KB of text: the first 7 columns cannot be lost
/// together, and 906,192 sets of 6 can.
fn of_many_sets() -> String {
    let mut text = "pantile-code 1\nname wide\ncolumns 32\nrows 1\n".to_string();
    let mut state = 4u64;
    for parity in 16..32 {
        let mut coefficients: Vec<u64> = Vec::new();
        for data in 0..16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            coefficients.push(match data {
                6 => coefficients.iter().fold(0, |sum, x| sum ^ x),
                _ => 1 + (state >> 33) % 255,
            });
        }
        let terms = coefficients.iter().enumerate().filter(|(_, x)| **x > 0);
        let terms: Vec<String> = terms.map(|(data, x)| format!("{x}*[0][{data}]")).collect();
        writeln!(text, "[0][{parity}] = {}", terms.join(" + ")).expect("a String");
    }
    text
}

#[test]
fn a_certificate_takes_no_more_memory_the_more_sets_there_are_and_no_more_bytes_than_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("w.code"), of_many_sets()).expect("it writes");
    let prove = ["prove", "./w.code", "--max-lost", "6", "--certificate", "c.json"];
    let run = bounded(folder.path(), 80, &[&prove[..], &["--certificate-bytes", "8M"]].concat());
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(fault(&run).contains("--certificate-bytes 19"), "{}", run.stderr);
    assert!(!folder.path().join("c.json").exists());
    let run = bounded(folder.path(), 80, &prove);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let len = folder.path().join("c.json").metadata().expect("it is there").len();
    assert!((10 << 20..19 << 20).contains(&len), "{len}");
}

#[test]
fn ctrl_c_ends_a_certificate_and_leaves_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("w.code"), of_many_sets()).expect("it writes");
    let child = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["prove", "./w.code", "--max-lost", "6", "--certificate", "c.json"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command can be run");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    // The new certificate appears when its first set is written.
    let begun = std::time::Instant::now();
    while names().len() == 1 && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "still at work");
    let output = child.wait_with_output().expect("it ends");
    let (said, fault) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{fault}");
    assert!(
        said.contains("Proved: any 6 columns") && fault.contains("no certificate was written"),
        "{fault}"
    );
    assert_eq!(names(), ["w.code"]);
}

/// The user chose a named path, even if it is a pipe or a link.
#[test]
fn pipes_that_the_user_names_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let line = "128166372003061629,hm,0,Write,383496192,32768,413\n";
    std::fs::write(at.join("secret"), line.repeat(9)).expect("a file");
    std::os::unix::fs::symlink("secret", at.join("link")).expect("a link");
    let read = |how: &str| {
        let output = Command::new("bash")
            .args(["-c", how, env!("CARGO_BIN_EXE_pantile")])
            .current_dir(at)
            .output()
            .expect("bash");
        let fault = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{how}: {fault}");
    };
    read("\"$0\" replay link --codes raid5:4");
    read("\"$0\" replay <(cat secret) --codes raid5:4");
    read("cat secret | \"$0\" replay - --codes raid5:4");
    read("cat secret | \"$0\" replay /dev/stdin --codes raid5:4");
    read("mkfifo own; cat secret > own & \"$0\" replay own --codes raid5:4");
}

/// The kernel reports another name for a removed file, under which an attacker can have made a
/// file.
#[test]
fn open_files_are_read_even_if_another_file_has_their_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let given = folder.path().join("given");
    std::fs::write(&given, [b'g'; 8192]).expect("it writes");
    let open = File::open(&given).expect("it is there");
    std::fs::remove_file(&given).expect("it is there");
    std::fs::write(folder.path().join("given (deleted)"), [b'x'; 8192]).expect("it writes");
    let run = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["encode", "/dev/stdin", "--code", "rs:2+1", "--out", "chunks"])
        .current_dir(folder.path())
        .stdin(open)
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let chunk = std::fs::read(folder.path().join("chunks/chunk.0")).expect("it was made");
    assert!(chunk.starts_with(b"gggg") && !chunk.contains(&b'x'));
}

#[test]
fn a_forged_number_of_stripes_costs_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(pantile_in(folder.path(), &["create", "vol", "--size", "8M", "--code", "raid5:3"]).status, 0);
    let devices: Vec<String> = (0..4).map(|device| format!("vol/device-0{device}.pantile")).collect();
    for device in &devices {
        let path = folder.path().join(device);
        let mut bytes = std::fs::read(&path).expect("a device");
        let last = bytes.len() - 4096;
        let is_one = |bytes: &[u8], at: usize| bytes[at..].starts_with(b"PANTVOLM");
        let places: Vec<usize> = [0, 4096, last].into_iter().filter(|&at| is_one(&bytes, at)).collect();
        assert!(places.len() > 1, "{places:?}");
        for at in places {
            let block = &mut bytes[at..at + 4096];
            block[128..136].copy_from_slice(&u64::from(u32::MAX).to_le_bytes());
            let crc = Crc64::of(&block[..4088]);
            block[4088..].copy_from_slice(&crc.0.to_le_bytes());
        }
        std::fs::write(&path, &bytes).expect("it writes");
    }
    let assemble = ["assemble", "--into", "again", "--scan-stripes"];
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let run = bounded(folder.path(), 800, &[&assemble[..], &devices].concat());
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(fault(&run).contains("0 devices are there"), "{}", run.stderr);
}
