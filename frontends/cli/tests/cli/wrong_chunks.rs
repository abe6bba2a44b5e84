//! Claim: if chunks do not fit one another, they are named and the data is decoded without them, or
//! nothing is written. `chunks verify` and `chunks rebuild` report and repair the same chunks.

use crate::common::*;
use std::fs;
use std::path::Path;

fn data(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let step = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..len).map(step).collect()
}

/// A folder with a file `data` of `len` bytes, and its chunks in `c`.
fn folder(len: usize, arguments: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data"), data(len)).expect("a file");
    let all = [&["encode", "data", "--out", "c"], arguments].concat();
    let run = pantile_in(folder.path(), &all);
    assert_eq!(run.status, 0, "{all:?}: {}", run.stderr);
    folder
}

fn change(path: &Path, range: std::ops::Range<usize>) {
    let mut bytes = fs::read(path).expect("a chunk");
    bytes[range].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(path, bytes).expect("a chunk");
}

fn exchange(folder: &Path, one: &str, other: &str) {
    fs::rename(folder.join(one), folder.join("aside")).expect("it moves");
    fs::rename(folder.join(other), folder.join(one)).expect("it moves");
    fs::rename(folder.join("aside"), folder.join(other)).expect("it moves");
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut all: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_wrong_chunk_is_named_and_the_file_is_right() {
    let folder = folder(300_000, &["--code", "rs:4+2", "--chunk", "16K"]);
    let at = folder.path();
    change(&at.join("c/chunk.1"), 20_000..21_000);
    let run = pantile_in(at, &["decode", "c", "--out", "back"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("c/chunk.1: 1000 of its bytes are wrong, the first is byte 20000"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("from 5 chunks of rs:4+2."), "{}", run.stdout);
    assert!(fs::read(at.join("back")).expect("a file") == data(300_000));
    let run = pantile_in(at, &["decode", "c", "--out", "back", "--overwrite", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(made["wrong"], serde_json::json!([{"column": 1, "first": 20000, "bytes": 1000}]));
    assert_eq!(made["checked"], true);
    // The same holds for output to a pipe.
    let command = format!("{} decode c --out - > piped", env!("CARGO_BIN_EXE_pantile"));
    let done =
        std::process::Command::new("sh").args(["-c", &command]).current_dir(at).output().expect("a shell");
    assert!(done.status.success() && fs::read(at.join("piped")).expect("a file") == data(300_000));
    assert!(String::from_utf8_lossy(&done.stderr).contains("c/chunk.1: 1000 of its bytes"));
    // A caller that has other checksums can disable the check.
    let run = pantile_in(at, &["decode", "c", "--out", "unchecked", "--no-check"]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert!(fs::read(at.join("unchecked")).expect("a file") != data(300_000));
}

#[test]
fn exchanged_names_are_decoded_around_or_refused() {
    let folder = folder(300_000, &["--code", "rs:10+4", "--chunk", "4K"]);
    let at = folder.path();
    exchange(&at.join("c"), "chunk.1", "chunk.2");
    let run = pantile_in(at, &["decode", "c", "--out", "back"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("c/chunk.1: ") && run.stderr.contains("c/chunk.2: "), "{}", run.stderr);
    assert!(fs::read(at.join("back")).expect("a file") == data(300_000));
    let again = ["encode", "data", "--code", "raid6:4", "--chunk", "4K", "--out", "two"];
    assert_eq!(pantile_in(at, &again).status, 0);
    exchange(&at.join("two"), "chunk.1", "chunk.2");
    let run = pantile_in(at, &["decode", "two", "--out", "never"]);
    assert_fault(&run, 2, &["nothing was written", "two/chunk.5", "each other's names"], "raid6");
    assert!(!at.join("never").exists());
}

#[test]
fn uncertain_data_are_not_written() {
    let folder = folder(300_000, &["--code", "rs:4+2", "--chunk", "16K"]);
    let at = folder.path();
    fs::write(at.join("old"), b"old").expect("a file");
    change(&at.join("c/chunk.1"), 20_000..20_001);
    let run = pantile_in(at, &["decode", "c", "--out", "old", "--overwrite"]);
    let said = ["nothing was written", "c/chunk.1", "once in 2^", "pantile decode c --out old --guess"];
    assert_fault(&run, 2, &said, "one byte");
    assert_eq!(fs::read(at.join("old")).expect("it is whole"), b"old");
    let run = pantile_in(at, &["decode", "c", "--out", "back", "--guess"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("c/chunk.1: its byte 20000 is wrong"), "{}", run.stderr);
    assert!(fs::read(at.join("back")).expect("a file") == data(300_000));
    // With two parities, two errors are detected but not located. A pipe has already received the
    // data before them.
    change(&at.join("c/chunk.1"), 20_000..20_001);
    change(&at.join("c/chunk.0"), 50_000..50_100);
    change(&at.join("c/chunk.3"), 50_000..50_100);
    let run = pantile_in(at, &["decode", "c", "--out", "never"]);
    assert_fault(&run, 2, &["nothing was written", "byte 49152", "cannot tell which"], "two");
    let command = format!("{} decode c --out - > piped", env!("CARGO_BIN_EXE_pantile"));
    let done =
        std::process::Command::new("sh").args(["-c", &command]).current_dir(at).output().expect("a shell");
    assert_eq!(done.status.code(), Some(2));
    assert!(fs::read(at.join("piped")).expect("a file") == data(300_000)[..3 * 4 * 16384]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("what was written before is right"));
    let run = pantile_in(at, &["chunks", "verify", "c"]);
    assert_eq!(run.status, 2, "{}", run.stdout);
    assert!(
        run.stdout.contains("fit one another in 1 stripe.") && run.stderr.contains("cannot tell which"),
        "{}",
        run.stdout
    );
    let before = files(&at.join("c"));
    assert_fault(&pantile_in(at, &["chunks", "rebuild", "c"]), 2, &["nothing was written"], "rebuild");
    assert!(files(&at.join("c")) == before);
    // Without spare chunks nothing is checked, and the message says so.
    fs::remove_file(at.join("c/chunk.0")).expect("it goes");
    fs::remove_file(at.join("c/chunk.3")).expect("it goes");
    let run = pantile_in(at, &["decode", "c", "--out", "back", "--overwrite"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stdout.contains("Not all of them could be checked"), "{}", run.stdout);
}

#[test]
fn missing_and_wrong_chunks_are_named_and_rebuilt() {
    for arguments in [
        &["--code", "rs:6+3", "--chunk", "4K"][..],
        &["--as", "hdfs:RS-6-3-16k"],
        &["--as", "jerasure:cauchy_good k=6 m=3 w=8 packetsize=64"],
        &["--as", "klauspost:RS(6,3)"],
    ] {
        let folder = folder(300_000, arguments);
        let at = folder.path();
        let whole = files(&at.join("c"));
        let run = pantile_in(at, &["chunks", "verify", "c"]);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert!(
            run.stdout.ends_with("all are there and fit one another. Any 3 more can be lost.\n"),
            "{}",
            run.stdout
        );
        fs::remove_file(at.join("c/chunk.7")).expect("it goes");
        change(&at.join("c/chunk.2"), 4000..9000);
        let run = pantile_in(at, &["chunks", "verify", "c"]);
        assert_eq!(run.status, 1, "{}", run.stderr);
        for said in [
            "c/chunk.7: it is missing\n",
            "c/chunk.2: 5000 of its bytes are wrong, the first is byte 4000\n",
            ": 1 missing, 1 wrong. Any 1 more can be lost. To make them again: pantile chunks rebuild c\n",
        ] {
            assert!(run.stdout.contains(said), "{said} in {}", run.stdout);
        }
        let run = pantile_in(at, &["chunks", "rebuild", "c"]);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert_eq!(run.stdout.lines().count(), 3, "{}", run.stdout);
        assert!(files(&at.join("c")) == whole, "{arguments:?}");
        let run = pantile_in(at, &["chunks", "rebuild", "c"]);
        assert!(run.status == 0 && run.stdout.contains("nothing was written"), "{}", run.stdout);
        // Without chunks.txt the lengths of the chunks suffice, except for layouts with cells.
        fs::remove_file(at.join("c/chunks.txt")).expect("it goes");
        fs::remove_file(at.join("c/chunk.0")).expect("it goes");
        let run = pantile_in(at, &[&["chunks", "rebuild", "c"], arguments].concat());
        match arguments[1].starts_with("hdfs") {
            true => assert_fault(&run, 2, &["--length is missing"], "hdfs"),
            false => assert!(files(&at.join("c")) == whole[..9], "{}{}", run.stdout, run.stderr),
        }
    }
}

#[test]
fn too_much_that_is_missing_is_not_rebuilt() {
    let folder = folder(10_000, &["--code", "rs:4+2", "--chunk", "1K"]);
    let at = folder.path();
    (0..3).for_each(|column| fs::remove_file(at.join(format!("c/chunk.{column}"))).expect("it goes"));
    let run = pantile_in(at, &["chunks", "verify", "c", "--json"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("chunks {0,1,2} are missing"), "{}", run.stderr);
    let said: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(
        (&said["recoverable"], &said["tolerated"]),
        (&serde_json::json!(false), &serde_json::json!(0))
    );
    let keys =
        ["output_version", "code", "as", "chunk", "length", "chunks", "doubts", "first_doubt", "checked"];
    assert_eq!(keys_as_written(&run.stdout)[..9], keys);
    assert_eq!(keys_as_written(&run.stdout)[9..], ["recoverable", "tolerated"]);
    assert_eq!(said["chunks"][1]["is"], "missing");
    assert_fault(
        &pantile_in(at, &["chunks", "rebuild", "c"]),
        2,
        &["nothing was written", "{0,1,2}"],
        "rebuild",
    );
    assert_eq!(files(&at.join("c")).len(), 4);
}

/// The shards of a volume share a folder with those of other volumes, and with unrelated files.
#[test]
fn shards_of_seaweedfs_are_decoded_verified_and_rebuilt() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let content = data(12_000_000);
    fs::write(at.join("3.dat"), &content).expect("a file");
    let run = pantile_in(at, &["encode", "3.dat", "--as", "seaweedfs", "--out", "v"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let run = pantile_in(at, &["decode", "v", "--out", "of-text"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(fs::read(at.join("of-text")).expect("a file") == content);
    // The folder is in the form of SeaweedFS: without our text, but with its files.
    fs::remove_file(at.join("v/chunks.txt")).expect("it goes");
    let info = "{\n  \"files\": [],\n  \"version\": 3,\n  \"datFileSize\": \"12000000\",\n  \"ecShardConfig\": null\n}";
    fs::write(at.join("v/3.ecx"), b"index").expect("a file");
    fs::write(at.join("v/3.vif"), info).expect("a file");
    let whole = files(&at.join("v"));
    assert_eq!((whole[0].0.as_str(), whole[13].0.as_str()), ("3.ec00", "3.ec13"));
    assert!(
        whole
            .iter()
            .filter(|(name, _)| name.starts_with("3.ec") && name != "3.ecx")
            .all(|(_, b)| b.len() == 2 << 20)
    );
    fs::remove_file(at.join("v/3.ec00")).expect("it goes");
    fs::remove_file(at.join("v/3.ec12")).expect("it goes");
    change(&at.join("v/3.ec05"), 1_000_000..1_100_000);
    for of in ["v", "v/3"] {
        let run = pantile_in(
            at,
            &["decode", of, "--as", "seaweedfs", "--out", of.strip_prefix("v/").unwrap_or("d")],
        );
        assert_eq!(run.status, 0, "{}", run.stderr);
        assert!(run.stderr.contains("v/3.ec05: 100000 of its bytes are wrong"), "{}", run.stderr);
    }
    assert!(
        fs::read(at.join("d")).expect("a file") == content
            && fs::read(at.join("3")).expect("a file") == content
    );
    // If there are several volumes, the user names one. The length can be given if there is no
    // .vif.
    fs::write(at.join("v/photos_4.ec00"), b"another").expect("a file");
    let run = pantile_in(at, &["chunks", "verify", "v", "--as", "seaweedfs"]);
    assert_fault(&run, 2, &["several volumes (3, photos_4)", "such as v/3"], "several");
    fs::remove_file(at.join("v/3.vif")).expect("it goes");
    let run = pantile_in(at, &["decode", "v/3", "--as", "seaweedfs", "--out", "never"]);
    assert_fault(&run, 2, &["--length is missing"], "no length");
    let sized = ["decode", "v/3", "--as", "seaweedfs", "--size", "12000000", "--out", "sized"];
    assert_eq!(pantile_in(at, &sized).status, 0);
    assert!(fs::read(at.join("sized")).expect("a file") == content);
    let run = pantile_in(at, &["chunks", "verify", "v/3", "--as", "seaweedfs"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(run.stdout.contains("2 missing, 1 wrong. Any 1 more can be lost."), "{}", run.stdout);
    let run = pantile_in(at, &["chunks", "rebuild", "v/3", "--as", "seaweedfs"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    fs::remove_file(at.join("v/photos_4.ec00")).expect("it goes");
    fs::write(at.join("v/3.vif"), info).expect("a file");
    assert!(files(&at.join("v")) == whole);
    // The .vif of this volume states that its shards are single blocks.
    let run = pantile_in(at, &["encode", "3.dat", "--as", "seaweedfs:10+4 uniform", "--out", "u"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    fs::remove_file(at.join("u/chunks.txt")).expect("it goes");
    let config = "{\"dataShards\": 10, \"parityShards\": 4, \"blockSize\": \"2097152\"}";
    fs::write(at.join("u/3.vif"), info.replace("null", config)).expect("a file");
    assert_eq!(pantile_in(at, &["decode", "u/3", "--as", "seaweedfs", "--out", "uniform"]).status, 0);
    assert!(fs::read(at.join("uniform")).expect("a file") == content);
    assert!(fs::read(at.join("u/3.ec01")).expect("a shard") != whole[1].1);
    fs::write(at.join("u/3.vif"), "no JSON").expect("a file");
    let run = pantile_in(at, &["decode", "u/3", "--as", "seaweedfs", "--out", "never"]);
    assert_fault(&run, 2, &["u/3.vif", "no .vif of SeaweedFS"], "no JSON");
    let run = pantile_in(at, &["decode", "u/7", "--as", "seaweedfs", "--out", "never"]);
    assert_fault(&run, 2, &["there are no shards u/7.ec00"], "no volume");
}
