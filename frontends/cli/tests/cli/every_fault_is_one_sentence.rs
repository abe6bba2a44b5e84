//! Any wrong arguments get a documented status and one line that names the next step.

use crate::common::*;

#[test]
fn a_kernel_that_is_not_there_is_refused_by_every_command() {
    for arguments in [&["codes"][..], &["prove", "raid5:3"], &["info", "nosuch"], &["bench", "raid5:3"]] {
        let run = pantile_with(&[("PANTILE_KERNEL", "nonsense")], arguments);
        assert_fault(
            &run,
            2,
            &["PANTILE_KERNEL=nonsense names no tier", "portable neon avx2"],
            &format!("{arguments:?}"),
        );
        assert_eq!(pantile_with(&[("PANTILE_KERNEL", "portable")], &["codes"]).status, 0);
    }
    assert_eq!(pantile_with(&[("PANTILE_KERNEL", "nonsense")], &["--help"]).status, 0);
}

#[test]
fn wrong_codes() {
    let cases: &[(&str, &[&str])] = &[
        ("", &["pantile codes"]),
        (":", &["family"]),
        ("dcode", &["dcode", "dcode:n"]),
        ("dcode:", &["argument"]),
        ("dcode:x", &["dcode"]),
        ("dcode:7,", &["argument"]),
        ("dcode:07", &["leading zeros"]),
        ("dcode:3", &["4 to"]),
        ("dcode:7,7", &["dcode"]),
        ("dcode:7,rawr", &["rawr"]),
        ("dcode:8,raw", &["odd"]),
        ("rdp:8,raw", &["raw"]),
        ("dcod:7", &["did you mean 'dcode'"]),
        ("nosuch:7", &["no code family 'nosuch'; 'pantile codes' lists"]),
        ("nope", &["'nope'; 'pantile codes'"]),
        ("clay:4,2", &["clay:k,m,d"]),
        ("clay:20,4,23", &["4^6 elements", "smaller d"]),
        ("raid6:0", &["1 to 255"]),
        ("raid5:0", &["1 to 255 is possible; a stripe has at least one."]),
        ("dcode:1", &["4 to 64 is possible; use mirror, or raid6 for few disks."]),
        ("slpg:4,2,0", &["1 to 4 is possible."]),
        ("raid6:256", &["1 to 255"]),
        ("raid6:4+3", &["raid6:k"]),
        ("raid6:99999999999999999999", &["at most 1000000"]),
        ("raid6:-1", &["raid6:-1"]),
        ("raid6:４", &["raid6"]),
        ("mirror:1", &["2 to"]),
        ("rs:200+100", &["256"]),
        ("rs:4+", &["rs:4+"]),
        ("rs:4", &["rs:k+m"]),
        ("rs:0+2", &["rs"]),
        ("rs:10+4,fast", &["fast"]),
        ("raidq:4+5", &["raidq"]),
        ("raidq:256+4", &["raidq"]),
        ("raidq:4+4,x=zz.01", &["zz.01"]),
        ("raidq:4+4,b=0x00", &["b"]),
        ("cauchy:252+2", &["251"]),
        ("cauchy:10+7", &["1 to 6"]),
        ("shec:6,4,7", &["shec"]),
        ("shec:6,4", &["shec"]),
        ("shec:13,4,c=2", &["shec"]),
        ("lrc:12,5,2", &["lrc"]),
        ("lrc:12,2", &["lrc needs g, the number of global parities; write it as lrc:k,l,g."]),
        ("xorbas:10", &["needs m, the number of parities; write"]),
        ("lrc:12,2,6", &["0 to 5"]),
        ("xorbas:10,6,4", &["xorbas"]),
        ("raidp:2", &["3 to"]),
        ("raidp:8,stack=3", &["stack"]),
        ("hdp:65", &["hdp"]),
    ];
    for (spec, needles) in cases {
        assert_fault(&pantile(&["show", spec]), 2, needles, spec);
    }
    assert!(cases.len() >= 40);
}

/// Beyond the limit of a construction, the message proves the refusal: it names the limit and a
/// fatal set.
#[test]
fn raidq_beyond_its_limit_says_the_limit_and_a_fatal_set() {
    let run = pantile(&["prove", "raidq:93+4"]);
    assert_fault(&run, 2, &["92", "fatal", "{", "x164"], "raidq:93+4");
    for (spec, limit) in
        [("raidq:126+4,x125", "125"), ("raidq:165+4,x164", "164"), ("raidq:22+4,powers", "21")]
    {
        assert_fault(&pantile(&["show", spec]), 2, &[limit, "fatal"], spec);
    }
}

#[test]
fn wrong_options() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["nosuch"], &["nosuch", "pantile --help"]),
        (&["shwo", "dcode:7"], &["show"]),
        (&["show"], &["CODE", "pantile show --help"]),
        (&["show", "dcode:7", "rdp:8"], &["rdp:8"]),
        (&["show", "dcode:7", "--nosuch"], &["--nosuch"]),
        (&["show", "dcode:7", "--svg"], &["--svg"]),
        (&["show", "dcode:7", "--text", "--json"], &["--json"]),
        (&["show", "dcode:7", "--color", "pink"], &["pink", "auto"]),
        (&["explain", "dcode:7"], &["--lost"]),
        (&["explain", "dcode:7", "--lost", ""], &["empty entry"]),
        (&["explain", "dcode:7", "--lost", "7"], &["column 7", "0 to 6"]),
        (&["explain", "dcode:7", "--lost", "5-9"], &["column 7", "0 to 6"]),
        (&["explain", "dcode:7", "--lost", "1,1"], &["twice"]),
        (&["explain", "dcode:7", "--lost", "1,0-2"], &["twice"]),
        (&["explain", "dcode:7", "--lost", "1,3.1"], &["twice"]),
        (&["explain", "dcode:7", "--lost", "3-1"], &["backwards", "1-3"]),
        (&["explain", "dcode:7", "--lost", "-1"], &["'-1'", "counted from 0"]),
        (&["explain", "dcode:7", "--lost", "-1,2"], &["'-1'", "counted from 0"]),
        (&["plan", "dcode:7", "--lost", "-1"], &["'-1'", "counted from 0"]),
        (&["plan", "dcode:7", "--lost", "--json"], &["--lost", "'--json'"]),
        (&["plan", "dcode:7", "--write", "-1"], &["data elements", "user order"]),
        (&["plan", "dcode:7", "--want", "lost"], &["--want lost", "--lost"]),
        (&["explain", "dcode:7", "--lost", "1,,2"], &["empty entry"]),
        (&["explain", "dcode:7", "--lost", "two"], &["two"]),
        (&["explain", "dcode:7", "--lost", "7.0"], &["rows 0 to 6"]),
        (&["explain", "dcode:7", "--lost", "0.7"], &["columns 0 to 6"]),
        (&["explain", "dcode:7", "--lost", "1.2.3"], &["1.2.3"]),
        (&["explain", "dcode:7", "--lost", "99999999999999999999999"], &["too large"]),
        (&["explain", "dcode:7", "--lost", "0-9999999"], &["column 7"]),
        (&["explain", "dcode:7", "--lost", "1", "--effort", "some"], &["fast", "thorough"]),
        (&["explain", "dcode:7", "--lost", "1", "--effort", "0"], &["from 1"]),
        (&["plan", "dcode:7"], &["--lost"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0"], &["COLUMN=COST"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "9=2"], &["column 9"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=2,0=3"], &["twice"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=x"], &["0=x", "whole number", "1000000"]),
        (
            &["plan", "dcode:7", "--lost", "1", "--cost", "0=1.5"],
            &["'1.5'", "whole number from 0 to 1000000"],
        ),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=-1"], &["'-1'", "whole number"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=NaN"], &["'NaN'", "whole number"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=1e9"], &["'1e9'", "whole number"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=+1"], &["'+1'", "whole number"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0="], &["''", "whole number"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "=5"], &["--cost", "empty entry"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=99999999999999999999"], &["from 0 to 1000000"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "-1=5"], &["--cost"]),
        (&["plan", "dcode:7", "--lost", "1", "--cost", "0=1000001"], &["1000000"]),
        (&["plan", "dcode:7", "--lost", "1", "--want", "all"], &["all"]),
        (&["plan", "dcode:7", "--lost", "1", "--want", "1,1"], &["--want", "twice"]),
        (&["plan", "dcode:7", "--write", "35"], &["0 to 34"]),
        (&["plan", "dcode:7", "--write", "3,3"], &["twice"]),
        (&["plan", "dcode:7", "--write", "0", "--want", "1"], &["--want"]),
        (&["replay", "Cargo.toml", "--codes", "raid6:4", "--lost", "2,2"], &["--lost", "twice"]),
        (&["replay", "Cargo.toml", "--codes", "raid6:4", "--lost", "-1"], &["--lost", "'-1'"]),
        (&["replay", "Cargo.toml", "--codes", "raid6:4", "--lost", ""], &["--lost", "empty entry"]),
        (&["replay", "Cargo.toml", "--codes", "raid6:4", "--html", "."], &["--html", "directory"]),
        (&["replay", ".", "--codes", "raid6:4"], &["name a trace"]),
        (&["replay", "-", "--codes", "raid6:4", "--driven"], &["--space", "standard input"]),
        (&["replay", "x", "--codes", "raid6:4", "--lost-at", "5"], &["--lost"]),
        (&["replay", "x", "--codes", "raid6:4", "--rebuild-pace", "5"], &["--rebuild-at"]),
        (&["pantile-lab", "delayed", "--record", "Cargo.toml"], &["no table", "--example delayed"]),
        (&["pantile-lab", "delayed", "--record", "no-such-file"], &["no-such-file"]),
        (&["pantile-lab", "delayed", "--quick", "--codes", "dcode:5"], &["5 rows", "1 row"]),
        (&["pantile-lab", "generate", "tuples", "--element", "1G"], &["--element", "at most"]),
        (
            &["pantile-lab", "generate", "zipf", "--gap", "1099511627776", "--requests", "1099511627776"],
            &["--gap"],
        ),
        (
            &["pantile-lab", "generate", "zipf", "--format", "vscsi1", "--element", "100"],
            &["multiple of 512"],
        ),
        (&["prove", "dcode:7", "--max-lost", "0"], &["1.."]),
        (&["prove", "dcode:7", "--sample", "0"], &["1.."]),
        (&["prove", "dcode:7", "--sets", "many"], &["many"]),
        (&["prove", "dcode:7", "--seed", "-1"], &["'-1'", "--seed"]),
        (&["prove", "dcode:7", "--work", "-5"], &["'-5'", "--work"]),
        (&["prove", "dcode:7", "--witnesses", "100001"], &["100000"]),
        (&["compare"], &["CODES"]),
        (&["compare", "dcode:7", "nosuch:3"], &["nosuch"]),
        (&["compare", "dcode:7", "--sort", "beauty"], &["beauty", "rebuild"]),
        (&["compare", "dcode:7", "--reverse"], &["--sort"]),
        (&["pantile-lab", "search", "raidq5"], &["raidq5"]),
        (&["pantile-lab", "search", "raidq4", "--top", "0"], &["1.."]),
        (&["completions", "cmd"], &["cmd", "bash"]),
        (&["seal", "--out", "x"], &["nothing to seal"]),
        (&["seal", "x"], &["--out"]),
        (&["seal", "x", "--out", "y", "--block", "16KX"], &["20TB (powers of 1000)"]),
        (&["unseal", "x"], &["--to"]),
        (&["verify"], &["DIR|SHARD"]),
    ];
    for (arguments, needles) in cases {
        assert_fault(&pantile(arguments), 2, needles, &format!("{arguments:?}"));
    }
    assert!(cases.len() >= 50);
}

#[test]
fn wrong_disks_of_the_lab() {
    let code = "rs:4+2";
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["<CODE>", "pantile durability --help"]),
        (&["nosuch:4"], &["no code family 'nosuch'"]),
        (&[code, code], &["rs:4+2 is named twice"]),
        (&[code, "--disk-afr", "0"], &["above 0 and at most 99.9 %", "1.5%"]),
        (&[code, "--disk-afr", "100%"], &["at most 99.9 %"]),
        (&[code, "--disk-afr", "-1"], &["above 0"]),
        (&[code, "--disk-afr", "nan"], &["above 0"]),
        (&[code, "--disk-afr", "1e-30"], &["at least 1e-12"]),
        (&[code, "--disk-size", "0"], &["more than 0 bytes"]),
        (&[code, "--disk-size", "16TX"], &["powers of 1024"]),
        (&[code, "--speed", "fast"], &["powers of 1024"]),
        (&[code, "--repair-bandwidth", "-5"], &["powers of 1024"]),
        (&[code, "--spares", "many"], &["immediate", "0 to 100"]),
        (&[code, "--spares", "101"], &["0 to 100"]),
        (&["mirror:40", "--spares", "3"], &["1720 states", "at most 400", "immediate"]),
        (&[code, "--replace", "soon"], &["24h"]),
        (&[code, "--replace", "0h"], &["above 0"]),
        (&[code, "--lse", "1"], &["up to 1e-6", "0.008/TB"]),
        (&[code, "--lse", "-1"], &["per TB"]),
        (&[code, "--scrub", "14"], &["14d", "'never'"]),
        (&[code, "--scrub", "101y"], &["at most 100 years"]),
        (&[code, "--years", "1001"], &["0.001 to 1000"]),
        (&[code, "--cycles", "-1"], &["-1"]),
        (&[code, "--threads", "0"], &["1..=1024"]),
    ];
    for (arguments, needles) in cases {
        let arguments = [&["durability"], *arguments].concat();
        assert_fault(&pantile(&arguments), 2, needles, &format!("{arguments:?}"));
    }
    assert!(cases.len() > 20);
}

#[test]
fn losses_beyond_the_tolerance_have_no_plan() {
    for arguments in [
        &["explain", "dcode:7", "--lost", "0-2"][..],
        &["plan", "raid6:4", "--lost", "0,1,2", "--json"],
        &["plan", "raid0:4", "--lost", "1"],
        &["plan", "raid6:4", "--lost", "1-3", "--write", "1", "--json"],
        &["plan", "raidp:5", "--lost", "0-4"],
    ] {
        assert_fault(&pantile(arguments), 2, &["lost", "prove"], &format!("{arguments:?}"));
    }
}

/// The message names the survivable part of the losses, and the number of columns to bring back.
#[test]
fn a_refused_plan_says_what_would_be_survivable() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["plan", "dcode:7", "--lost", "0-2"],
            &["21 of 21 wanted", "14 of them", "any 2 of the 3 columns", "bring back any 1 column"],
        ),
        (&["plan", "raid6:8", "--lost", "0-8"], &["any 2 of the 9 columns", "bring back any 7 columns"]),
        (
            &["explain", "shec:6,4,3", "--lost", "0,1,2,6"],
            &["the loss of {1,2,6} or {0,2,6} or {0-2}:", "bring back 1 column, such as {0}"],
        ),
        (&["plan", "raid0:4", "--lost", "1"], &["this column alone is fatal", "bring it back"]),
        (&["plan", "raid0:4", "--lost", "1,3"], &["Not one of the 2 columns", "bring back all"]),
        (&["plan", "raidp:5", "--lost", "0-4"], &["any 2 of the 5 columns", "bring back any 3"]),
        (&["plan", "raid6:4", "--lost", "1-3", "--write", "1"], &["any 2 of the 3", "bring back any 1"]),
        // Only the wanted cells count: the other group can stay lost.
        (
            &["plan", "slpg:6,4,3", "--lost", "0-5", "--want", "0"],
            &["{1-5}", "bring back 1 column, such as {0}"],
        ),
        (&["plan", "lrc:60,6,4", "--lost", "0-59"], &["bring back 50 columns"]),
    ];
    for (arguments, needles) in cases {
        assert_fault(&pantile(arguments), 2, needles, &format!("{arguments:?}"));
    }
    assert_eq!(pantile(&["plan", "shec:6,4,3", "--lost", "1,2,6"]).status, 0, "as was said above");
    assert_eq!(
        pantile(&["plan", "slpg:6,4,3", "--lost", "1-5", "--want", "0"]).status,
        0,
        "as was said above"
    );
}

/// A file is read up to the limit of a code file, and only a regular file is opened.
#[cfg(target_os = "linux")]
#[test]
fn odd_code_files_are_refused_without_being_read_to_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_string();
    assert_fault(&pantile(&["show", "/dev/zero"]), 2, &["/dev/zero is a device"], "a device without end");
    assert_fault(&pantile(&["show", "/dev/null"]), 2, &["/dev/null is a device"], "an empty device");
    let huge = std::fs::File::create(place("huge.code")).expect("created");
    huge.set_len(1 << 40).expect("a file of holes");
    assert_fault(&pantile(&["prove", &place("huge.code")]), 2, &["4194304"], "a terabyte");
    assert_fault(
        &pantile(&["show", &place("huge.code/x.code")]),
        2,
        &["no code file"],
        "a path through a file",
    );
    assert_fault(
        &pantile(&["show", &format!("./{}", "n".repeat(300))]),
        2,
        &["no code file"],
        "too long a name",
    );
    std::os::unix::fs::symlink("round.code", place("round.code")).expect("a link to itself");
    assert_fault(&pantile(&["show", &place("round.code")]), 3, &["cannot read"], "a link to itself");
    // Reading a pipe without a writer would block.
    let made = std::process::Command::new("mkfifo").arg(place("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    std::os::unix::fs::symlink("pipe", place("link.code")).expect("a link to the pipe");
    let _socket = std::os::unix::net::UnixListener::bind(place("socket")).expect("a socket");
    for (name, what) in [("pipe", "is a pipe"), ("link.code", "is a pipe"), ("socket", "is a socket")] {
        let file = place(name);
        for command in [&["show"][..], &["prove"], &["seal", "x", "--out", "y", "--code"]] {
            let arguments = [command, &[&file]].concat();
            assert_fault(&pantile(&arguments), 2, &[what, "text file"], name);
        }
    }
}

/// A shell passes `<(command)` as an open descriptor.
#[test]
fn a_code_file_may_come_from_a_command() {
    use std::io::Write;
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["show", "/dev/fd/0"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the built command can be run");
    let code = text(&["show", "dcode:7", "--text"]);
    run.stdin.take().expect("a pipe").write_all(code.as_bytes()).expect("written");
    let answer = run.wait_with_output().expect("it ends").stdout;
    assert!(String::from_utf8(answer).expect("UTF-8").contains("custom:dcode-7-"));
}

/// A name can contain control sequences of a terminal, or characters that reverse the text.
#[test]
fn names_are_printed_without_what_a_terminal_obeys() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["a\x1b[31mb.code", "a\u{202e}b.code", "a\u{9b}b.code", "a\x07b.code"] {
        let path = directory.path().join(name);
        let path = path.to_str().expect("UTF-8");
        let missing = pantile(&["show", path]);
        assert_fault(&missing, 2, &["no code file", "\\u{"], name);
        std::fs::write(path, "pantile-code 1\nname \x1b]0;x\x07\n").expect("written");
        let wrong = pantile(&["show", path]);
        assert_fault(&wrong, 2, &["line 2", "\\u{1b}]0;x\\u{7}"], name);
        let drawn = pantile(&["show", "raid6:2", "--svg", &format!("{path}.svg")]);
        assert_eq!(drawn.status, 0);
        for text in [&missing.stderr, &wrong.stderr, &drawn.stdout] {
            let obeyed = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
            assert_eq!(text.chars().find(obeyed), None, "{text}");
        }
    }
}

#[test]
fn wrong_code_files_carry_the_name_and_the_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let head = "pantile-code 1\nname t\ncolumns 3\nrows 1\n";
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty.code", Vec::new(), &["first line"]),
        ("binary.code", vec![0x80, 0, 0, 1], &["UTF-8"]),
        ("utf16.code", vec![0xff, 0xfe, b'p', 0], &["byte order mark", "UTF-16"]),
        ("bom.code", b"\xef\xbb\xbfpantile-code 1\n".to_vec(), &["line 1", "byte order mark"]),
        (
            "order.code",
            format!("{head}[0][2] = [0][0] + [0][1]\norder [0][0] [0][0] [0][1]\n").into_bytes(),
            &["line 6", "twice in the user order"],
        ),
        ("prose.code", b"Dear all,\n".to_vec(), &["line 1", "pantile-code 1"]),
        ("word.code", format!("{head}colour red\n").into_bytes(), &["line 5", "colour red"]),
        (
            "outside.code",
            format!("{head}[0][2] = [0][0] + [0][3]\n").into_bytes(),
            &["line 5", "[0][3]", "outside"],
        ),
        (
            "twice.code",
            format!("{head}[0][2] = [0][0] + [0][0]\n").into_bytes(),
            &["line 5", "[0][0]", "twice"],
        ),
        (
            "role.code",
            format!("{head}[0][2] = [0][0]\n[0][2] = [0][1]\n").into_bytes(),
            &["line 6", "[0][2]"],
        ),
        ("zero.code", format!("{head}[0][2] = 0*[0][0]\n").into_bytes(), &["line 5"]),
        ("large.code", format!("{head}[0][2] = 256*[0][0]\n").into_bytes(), &["line 5"]),
        ("free.code", format!("{head}0 = [0][0] + [0][1]\n").into_bytes(), &["parity"]),
        ("columns.code", b"pantile-code 1\nname t\ncolumns 99999999\nrows 1\n".to_vec(), &["line 3"]),
        ("missing.code", b"pantile-code 1\nname t\nrows 1\n".to_vec(), &["columns"]),
        ("long.code", format!("pantile-code 1\n{}\n", "x".repeat(100_000)).into_bytes(), &["line 2", "..."]),
        ("escape.code", b"pantile-code 1\n\x1b[31mred\n".to_vec(), &["line 2"]),
    ];
    for (name, content, needles) in cases {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("written");
        for command in [&["show"][..], &["prove"], &["compare", "raid6:4"]] {
            let mut arguments = command.to_vec();
            arguments.push(path.to_str().expect("UTF-8"));
            let run = pantile(&arguments);
            assert!(!run.stderr.contains('\x1b'), "{name}: an escape reaches the terminal");
            // A long path or message is cut in the printed line, so the rest of it is not compared.
            let needles: Vec<&str> = needles.iter().copied().chain([*name]).collect();
            assert_fault(&run, 2, &needles, name);
        }
    }
}

#[test]
fn a_code_survives_the_way_through_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    for spec in ["dcode:7", "raidp:5,weighted", "raidq:4+4", "lrc:12,2,2"] {
        let path = directory.path().join("mine.code");
        std::fs::write(&path, text(&["show", spec, "--text"])).expect("written");
        let path = path.to_str().expect("UTF-8");
        let (named, read) = (json(&["show", spec, "--json"]), json(&["show", path, "--json"]));
        assert_eq!(named["fingerprint"], read["fingerprint"], "{spec}");
        assert_eq!(read["family"], "custom");
        assert_eq!(
            json(&["prove", spec, "--json"])["tolerance"],
            json(&["prove", path, "--json"])["tolerance"]
        );
        // The name of an existing file is enough, without a slash or the extension.
        std::fs::copy(path, directory.path().join("plain")).expect("copied");
        assert_eq!(pantile_in(directory.path(), &["show", "plain"]).status, 0);
    }
}

#[test]
fn missing_files_are_status_2_and_refusals_of_the_machine_3() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing.code");
    let missing = missing.to_str().expect("UTF-8");
    assert_fault(&pantile(&["show", missing]), 2, &["no code file", "missing.code"], "no such file");
    assert_fault(&pantile(&["show", "./no/such/file"]), 2, &["no code file"], "no such path");
    let here = directory.path().to_str().expect("UTF-8");
    assert_fault(&pantile(&["show", here]), 2, &["directory"], "a directory as a code file");
    let nowhere = directory.path().join("no/such/directory/x.svg");
    let run = pantile(&["show", "dcode:7", "--svg", nowhere.to_str().expect("UTF-8")]);
    assert_fault(&run, 3, &["cannot write"], "an SVG into nowhere");
}

/// If a picture cannot be written, the old one stays, and no other file is left.
#[cfg(target_os = "linux")]
#[test]
fn a_picture_is_written_whole_or_not_at_all() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    std::fs::write(place("x.svg"), "the old one").expect("written");
    std::fs::set_permissions(place("x.svg"), PermissionsExt::from_mode(0o640)).expect("set");
    symlink("x.svg", place("link.svg")).expect("a link");
    symlink("later.svg", place("to-nothing.svg")).expect("a link");
    let command =
        format!("ulimit -f 1; exec '{}' show dcode:23 --all --svg link.svg", env!("CARGO_BIN_EXE_pantile"));
    let output = std::process::Command::new("bash")
        .args(["-c", &command])
        .current_dir(directory.path())
        .output()
        .expect("a shell");
    let fault = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{fault}");
    assert!(fault.contains("ulimit -f"), "{fault}");
    assert_eq!(std::fs::read_to_string(place("x.svg")).expect("there"), "the old one");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 3, "nothing is left over");
    for name in ["link.svg", "to-nothing.svg", "new.svg", "/dev/null"] {
        assert_eq!(pantile_in(directory.path(), &["show", "dcode:23", "--svg", name]).status, 0, "{name}");
    }
    assert!(place("link.svg").is_symlink() && place("to-nothing.svg").is_symlink());
    for name in ["x.svg", "later.svg", "new.svg"] {
        assert!(std::fs::read_to_string(place(name)).expect("there").ends_with("</svg>\n"), "{name}");
    }
    assert_eq!(place("x.svg").metadata().expect("there").permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 5, "nothing is left over");
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_on_a_full_file_system_is_status_2() {
    for (arguments, needle) in [
        (&["codes"][..], "cannot write to standard output: its file system is full"),
        (&["pantile-lab", "generate", "zipf"], "cannot write to standard output: its file system is full"),
        (
            &["pantile-lab", "generate", "zipf", "--out", "/dev/full"],
            "cannot write /dev/full: its file system is full",
        ),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the device");
        let output = command(arguments).stdout(full).output().expect("the built command can be run");
        let fault = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {fault}");
        assert!(fault.contains(needle), "{arguments:?}: {fault}");
    }
}

#[test]
fn a_value_that_cannot_be_names_the_help_of_its_command() {
    for (arguments, help) in [
        (&["prove", "raid6:4", "--max-lost", "0"][..], "see 'pantile prove --help'"),
        (&["pantile-lab", "generate", "zipf", "--writes", "101"], "see 'pantile-lab generate --help'"),
        (&["seal", "x", "--out", "y", "--block", "much"], "see 'pantile seal --help'"),
        (&["--color", "sometimes", "codes"], "see 'pantile "),
    ] {
        assert_fault(&pantile(arguments), 2, &[help], "a bad value");
    }
}
