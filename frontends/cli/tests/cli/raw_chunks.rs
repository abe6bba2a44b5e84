//! `encode` and `decode`: the session of the page, refusals, and unchanged files after a failure.

use crate::common::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn data(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * 2654435761) >> 13) as u8).collect()
}

/// A folder with a file `data`.
fn folder(len: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data"), data(len)).expect("a file");
    folder
}

fn ok(folder: &Path, arguments: &[&str]) -> Run {
    let run = pantile_in(folder, arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    run
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A shell runs the `session` blocks of docs/chunks.md in an empty folder.
#[test]
fn the_first_session_is_as_shown() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/chunks.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let (_, rest) = page.split_once("```session\n").expect("the page has a session");
    let (session, _) = rest.split_once("```").expect("it ends");
    let folder = tempfile::tempdir().expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_pantile")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shown = String::new();
    for command in session.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let run = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", program.display()))
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stdout));
        shown.push_str(&format!("$ {command}\n"));
        // A slow machine also prints progress.
        let said = String::from_utf8_lossy(&run.stdout);
        for line in said
            .lines()
            .filter(|line| !line.starts_with("pantile: encoding ") && !line.starts_with("pantile: decoding "))
        {
            shown.push_str(&format!("{line}\n"));
        }
    }
    assert_eq!(shown, session);
    assert!(session.matches("$ pantile ").count() >= 4);
}

#[test]
fn a_code_file_lies_beside_its_chunks() {
    let folder = folder(100_000);
    let at = folder.path();
    let code = pantile(&["show", "dcode:7", "--text"]).stdout;
    fs::write(at.join("mine.code"), code).expect("a file");
    ok(at, &["encode", "data", "--code", "mine.code", "--chunk", "7K", "--out", "c"]);
    fs::remove_file(at.join("mine.code")).expect("it goes");
    fs::remove_file(at.join("c/chunk.0")).expect("it goes");
    fs::remove_file(at.join("c/chunk.5")).expect("it goes");
    ok(at, &["decode", "c", "--out", "back"]);
    assert_eq!(fs::read(at.join("back")).expect("a file"), data(100_000));
    // The same holds for every other code that is defined only by a text.
    ok(at, &["encode", "data", "--code", "ceph:plugin=lrc k=4 m=2 l=3", "--out", "lrc"]);
    fs::remove_file(at.join("lrc/chunk.1")).expect("it goes");
    ok(at, &["decode", "lrc", "--out", "back", "--overwrite"]);
    assert_eq!(fs::read(at.join("back")).expect("a file"), data(100_000));
}

#[test]
fn no_data_are_no_trouble() {
    let folder = folder(0);
    for (i, arguments) in [
        ["--code", "rs:4+2"],
        ["--as", "hdfs:RS-3-2-1k"],
        ["--as", "ceph:plugin=isa k=4 m=2"],
        ["--as", "klauspost:RS(4,2)"],
    ]
    .iter()
    .enumerate()
    {
        let out = format!("c{i}");
        ok(folder.path(), &["encode", "data", arguments[0], arguments[1], "--out", &out]);
        fs::remove_file(folder.path().join(&out).join("chunk.0")).expect("it goes");
        ok(folder.path(), &["decode", &out, "--out", &format!("back{i}")]);
        assert_eq!(fs::read(folder.path().join(format!("back{i}"))).expect("a file"), b"");
    }
}

#[test]
fn standard_streams_are_dashes() {
    let folder = folder(300_000);
    let run = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["encode", "-", "--as", "hdfs:RS-3-2-16k", "--out", "c"])
        .current_dir(folder.path())
        .stdin(fs::File::open(folder.path().join("data")).expect("the data"))
        .output()
        .expect("the built command can be run");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    ok(folder.path(), &["encode", "data", "--as", "hdfs:RS-3-2-16k", "--out", "d"]);
    for column in 0..5 {
        let chunk = |folder_name: &str| fs::read(folder.path().join(format!("{folder_name}/chunk.{column}")));
        assert_eq!(chunk("c").expect("a chunk"), chunk("d").expect("a chunk"));
    }
    let run = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["decode", "c", "--out", "-"])
        .current_dir(folder.path())
        .output()
        .expect("the built command can be run");
    assert!(run.status.success() && run.stderr.is_empty());
    assert_eq!(run.stdout, data(300_000));
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_behind() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["encode", "-", "--code", "rs:4+2", "--out", "c"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command can be run");
    let mut input = run.stdin.take().expect("a pipe");
    // The data exceed the buffer of a pipe: once they are written, the command reads and handles
    // signals.
    input.write_all(&data(4 << 20)).expect("it reads");
    let killed = Command::new("kill").args(["-INT", &run.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    while input.write_all(&[0; 4096]).is_ok() {}
    drop(input);
    let ended = run.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("interrupted; nothing was changed"));
    assert_eq!(names(&folder.path().join("c")), [""; 0]);
}

#[test]
fn a_file_is_replaced_only_if_asked_and_no_other_is_left() {
    let folder = folder(10_000);
    let at = folder.path();
    ok(at, &["encode", "data", "--code", "raid6:2", "--out", "c"]);
    let made = ["chunk.0", "chunk.1", "chunk.2", "chunk.3", "chunks.txt"];
    assert_eq!(names(&at.join("c")), made);
    let again = pantile_in(at, &["encode", "data", "--code", "raid6:2", "--out", "c"]);
    assert_fault(&again, 2, &["c/chunk.0 is there already", "--overwrite"], "again");
    ok(at, &["encode", "data", "--code", "raid6:2", "--chunk", "1K", "--out", "c", "--overwrite"]);
    assert_eq!(names(&at.join("c")), made);
    let back = pantile_in(at, &["decode", "c", "--out", "data"]);
    assert_fault(&back, 2, &["data is there already"], "decode");
    assert_eq!(fs::read(at.join("data")).expect("it is whole"), data(10_000));

    // The text that defines a code is not left behind either; only some codes have one.
    fs::create_dir(at.join("own")).expect("a folder");
    fs::write(at.join("own/chunks.code"), b"mine").expect("a file");
    let lrc = ["encode", "data", "--as", "ceph:plugin=lrc k=4 m=2 l=3", "--out", "own"];
    let code = ["encode", "data", "--code", "ceph:plugin=lrc k=4 m=2 l=3", "--out", "own"];
    assert_fault(&pantile_in(at, &code), 2, &["own/chunks.code is there already"], "a code");
    assert_eq!(fs::read(at.join("own/chunks.code")).expect("it is whole"), b"mine");
    ok(at, &lrc);
    fs::remove_dir_all(at.join("own")).expect("it goes");

    // A failure keeps the old files and leaves no others.
    for column in 0..3 {
        fs::remove_file(at.join(format!("c/chunk.{column}"))).expect("it goes");
    }
    let back = pantile_in(at, &["decode", "c", "--out", "data", "--overwrite"]);
    assert_fault(&back, 2, &["chunks {0,1,2} are missing", "any 2 columns"], "too many");
    assert_eq!(names(at), ["c", "data"]);
    assert_eq!(fs::read(at.join("data")).expect("it is whole"), data(10_000));
    let left = pantile_in(at, &["encode", "no-such", "--code", "raid6:2", "--out", "c", "--overwrite"]);
    assert_fault(&left, 2, &["there is no file no-such"], "no file");
    assert_eq!(names(&at.join("c")), ["chunk.3", "chunks.txt"]);
}

/// A link stays a link, and only regular files are replaced: devices of the system are not.
#[cfg(unix)]
#[test]
fn only_files_are_replaced() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder(10_000);
    let at = folder.path();
    ok(at, &["encode", "data", "--code", "raid6:2", "--out", "c"]);
    fs::write(at.join("old"), b"old").expect("a file");
    fs::set_permissions(at.join("old"), fs::Permissions::from_mode(0o600)).expect("it is ours");
    symlink("old", at.join("link")).expect("a link");
    ok(at, &["decode", "c", "--out", "link", "--overwrite"]);
    assert!(at.join("link").is_symlink());
    assert_eq!(fs::read(at.join("old")).expect("a file"), data(10_000));
    assert_eq!(fs::metadata(at.join("old")).expect("a file").permissions().mode() & 0o777, 0o600);

    symlink("nowhere", at.join("broken")).expect("a link");
    ok(at, &["decode", "c", "--out", "broken", "--overwrite"]);
    assert!(at.join("broken").is_symlink(), "a link to nothing stays, too");
    assert_eq!(fs::read(at.join("nowhere")).expect("where the link leads"), data(10_000));
    assert!(Command::new("mkfifo").arg(at.join("pipe")).status().expect("mkfifo").success());
    let pipe = pantile_in(at, &["decode", "c", "--out", "pipe", "--overwrite"]);
    assert_fault(&pipe, 2, &["pipe is no file"], "a pipe");
    // A pipe in the place of a chunk counts as lost.
    fs::rename(at.join("pipe"), at.join("c/chunk.1")).expect("it moves");
    let run = ok(at, &["decode", "c", "--out", "back"]);
    assert!(run.stderr.contains("chunk.1: it is no regular file"), "{}", run.stderr);
    let again = pantile_in(at, &["encode", "data", "--code", "raid6:2", "--out", "c", "--overwrite"]);
    assert_fault(&again, 2, &["chunk.1 is no file"], "a chunk");
    assert_eq!(names(&at.join("c")).len(), 5);
}

#[test]
fn a_chunk_of_another_length_is_taken_for_lost() {
    let folder = folder(100_000);
    let at = folder.path();
    ok(at, &["encode", "data", "--code", "rs:4+2", "--chunk", "4K", "--out", "c"]);
    fs::write(at.join("c/chunk.1"), b"short").expect("a file");
    let run = ok(at, &["decode", "c", "--out", "back"]);
    assert!(run.stderr.contains("c/chunk.1: it has 5 bytes, not 28672"), "{}", run.stderr);
    assert_eq!(fs::read(at.join("back")).expect("a file"), data(100_000));
    // If all chunks differ, the arguments are wrong.
    let wrong = ["decode", "c", "--code", "rs:4+2", "--chunk", "4K", "--length", "100", "--out", "b"];
    assert_fault(
        &pantile_in(at, &wrong),
        2,
        &["28672 bytes where these arguments make 4096", "--length"],
        "length",
    );
}

#[test]
fn an_impossible_wish_is_one_sentence() {
    let folder = folder(1000);
    let at = folder.path();
    ok(at, &["encode", "data", "--code", "rs:4+2", "--chunk", "4K", "--out", "c"]);
    fs::create_dir(at.join("empty")).expect("a folder");
    let cases: &[(&[&str], &[&str])] = &[
        (&["encode", "data", "--out", "x"], &["--code or --as is missing"]),
        (&["encode", "data", "--code", "rs:4+2", "--as", "hdfs:RS-3-2", "--out", "x"], &["--as"]),
        (&["encode", "data", "--code", "raidz2:6", "--out", "x"], &["raid6:4"]),
        (&["encode", "data", "--as", "rs:4+2", "--out", "x"], &["whose chunks", "hdfs:RS-6-3-1024k"]),
        (&["encode", "data", "--as", "isal:vand 22+4", "--out", "x"], &["{0,10,21,24}", "rs:22+4"]),
        (
            &["encode", "data", "--code", "dcode:7", "--chunk", "4K", "--out", "x"],
            &["7 equal elements", "4102"],
        ),
        (&["encode", "data", "--code", "rs:4+2", "--chunk", "0", "--out", "x"], &["take 1"]),
        (
            &["encode", "data", "--code", "rs:200+50", "--chunk", "64M", "--out", "x"],
            &["1073741824", "shorter"],
        ),
        (
            &["encode", "data", "--as", "ceph:plugin=isa k=4 m=2", "--chunk", "100", "--out", "x"],
            &["take 128"],
        ),
        (&["encode", "data", "--as", "hdfs:RS-3-2-1k", "--chunk", "4K", "--out", "x"], &["cells of 1024"]),
        (&["encode", "data", "--code", "blaumroth:5,w=7", "--out", "x"], &["not to store with"]),
        (
            &["encode", "-", "--as", "klauspost:RS(4,2)", "--out", "x"],
            &["whose length must be known", "--chunk"],
        ),
        (&["encode", "c", "--code", "rs:4+2", "--out", "x"], &["c is a directory", "pantile seal"]),
        (&["encode", "data", "--code", "rs:4+2", "--out", "data"], &["data"]),
        (&["decode", "no-such", "--out", "x"], &["there is no folder no-such"]),
        (&["decode", "data", "--out", "x"], &["is no folder"]),
        (&["decode", "empty", "--out", "x"], &["no chunks.txt", "--length"]),
        (
            &["decode", "empty", "--code", "rs:4+2", "--length", "9", "--out", "x"],
            &["has no chunk", "chunk.5"],
        ),
        (&["decode", "c", "--code", "rs:4+2", "--out", "x"], &["--length is missing"]),
        (&["decode", "c", "--chunk", "4K", "--out", "x"], &["give --code or --as, too"]),
        (&["decode", "c", "--out", "-", "--json"], &["--json"]),
    ];
    for (arguments, needles) in cases {
        let status = if arguments.last() == Some(&"data") { 3 } else { 2 };
        assert_fault(&pantile_in(at, arguments), status, needles, &format!("{arguments:?}"));
        assert!(!at.join("x").is_file() && !at.join("x/chunks.txt").exists(), "{arguments:?}");
    }
}

/// An attacker can write the text that records the layout of chunks.
#[test]
fn a_text_that_is_not_right_is_refused() {
    let folder = folder(1000);
    let at = folder.path();
    ok(at, &["encode", "data", "--code", "rs:4+2", "--chunk", "4K", "--out", "c"]);
    let path = at.join("c/chunks.txt");
    let good = fs::read_to_string(&path).expect("a text");
    let long = "x".repeat(70_000);
    for (from, to, said) in [
        ("pantile-chunks 1", "pantile-chunks 2", "a version"),
        ("pantile-chunks 1", "chunks", "the first line"),
        ("code rs:4+2", "code rs:4+3", "others than those"),
        ("code rs:4+2", "code nope:4", "there is no code family"),
        ("code rs:4+2", "code /etc/passwd", "is not a code"),
        ("code rs:4+2", "code chunks.code", "there is no code file"),
        ("code rs:4+2\n", "", "no line 'code'"),
        ("code rs:4+2", "as rs:4+2", "whose chunks"),
        ("code rs:4+2", "code rs:4+2\nas hdfs:RS-3-2", "two lines"),
        ("length 1000", "length -1", "'-1' is no length"),
        ("length 1000", "length 99999999999999999999", "is no length"),
        ("length 1000", "length 18446744073709551615", "no chunk has the length"),
        ("length 1000", "length 1000\nlength 1000", "two lines 'length'"),
        ("length 1000", "colour red", "'colour red' is not known"),
        ("chunk 4096", "chunk 0", "take 1"),
        ("chunk 4096", "chunk 18446744073709551615", "bytes of memory"),
        ("length 1000", long.as_str(), "too long"),
    ] {
        fs::write(&path, good.replace(from, to)).expect("a file");
        let run = pantile_in(at, &["decode", "c", "--out", "x"]);
        assert_fault(&run, 2, &[said], to.lines().next().unwrap_or_default());
        assert!(!at.join("x").exists());
    }
    fs::write(&path, b"pantile-chunks 1\n\xff\xfe\n").expect("a file");
    assert_fault(&pantile_in(at, &["decode", "c", "--out", "x"]), 2, &["give --code or --as"], "no UTF-8");
    fs::write(&path, good).expect("a file");
    ok(at, &["decode", "c", "--out", "x"]);
}

#[test]
fn answers_are_json_if_asked() {
    let folder = folder(10_000);
    let at = folder.path();
    let run = ok(at, &["encode", "data", "--as", "hdfs:XOR-2-1-1k", "--out", "c", "--json"]);
    assert_eq!(keys_as_written(&run.stdout), ["output_version", "code", "as", "chunk", "length", "chunks"]);
    let made: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((made["code"].as_str(), made["as"].as_str()), (Some("raid5:2"), Some("hdfs:XOR-2-1-1k")));
    assert_eq!(made["chunks"][1]["bytes"], 5 * 1024 - 240 - 1024 + 1024);
    fs::remove_file(at.join("c/chunk.2")).expect("it goes");
    let run = ok(at, &["decode", "c", "--out", "b", "--json"]);
    assert_eq!(
        keys_as_written(&run.stdout),
        ["output_version", "code", "as", "chunk", "length", "lost", "wrong", "checked"]
    );
    assert!(run.stdout.contains("{\"column\": 2, \"reason\": \"it is missing\"}"), "{}", run.stdout);
}

/// A user's own code is stored beside the chunks, in a folder whose name is not UTF-8.
#[test]
fn a_code_file_is_read_where_the_chunks_are() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    std::fs::write(at.join("c.code"), "pantile-code 1\nname two\ncolumns 2\nrows 1\n[0][1] = [0][0]\n")
        .expect("a file");
    std::fs::write(at.join("data"), [7; 1000]).expect("a file");
    let chunks = std::ffi::OsStr::from_bytes(b"chunks-\xff");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pantile"));
        command.args(arguments).current_dir(at).output().expect("it runs")
    };
    let done =
        run(&["encode".as_ref(), "data".as_ref(), "--code=./c.code".as_ref(), "--out".as_ref(), chunks]);
    assert!(done.status.success(), "{done:?}");
    let done = run(&["decode".as_ref(), chunks, "--out=got".as_ref()]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(std::fs::read(at.join("got")).expect("a file"), [7; 1000]);
}
