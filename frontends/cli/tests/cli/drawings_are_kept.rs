//! Drawings and explanations equal the files that a person has reviewed.
//!
//! After a wanted change: `PANTILE_BLESS=1 cargo test -p pantile-cli drawings_are_kept`, then
//! review the diff.

use crate::common::*;

fn compare_with_golden(name: &str, arguments: &[&str]) {
    let answer = text(arguments);
    let path = golden(name);
    if std::env::var_os("PANTILE_BLESS").is_some() {
        std::fs::write(&path, &answer).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("the golden file is there");
    assert!(answer == expected, "{arguments:?} is not as in {}:\n{answer}", path.display());
}

#[test]
fn show_dcode_7() {
    compare_with_golden("show-dcode-7.txt", &["show", "dcode:7"]);
}

#[test]
fn explain_dcode_7() {
    compare_with_golden("explain-dcode-7-lost-2-3.txt", &["explain", "dcode:7", "--lost", "2,3"]);
}

#[test]
fn show_raid6_255_is_abbreviated() {
    compare_with_golden("show-raid6-255.txt", &["show", "raid6:255"]);
}

#[test]
fn show_raidp_5_has_add_ons() {
    compare_with_golden("show-raidp-5.txt", &["show", "raidp:5"]);
}

#[test]
fn every_family_has_a_well_formed_picture() {
    let specs = [
        "raid0:4",
        "mirror:3",
        "raid5:4",
        "raid6:30",
        "raidq:8+3",
        "raidq:8+4",
        "raidq:6+4,cbrt",
        "cauchy:12+6",
        "rs:10+4",
        "lch:12+4",
        "crs:12+4",
        "rs:60+20",
        "shec:6,4,3",
        "lrc:12,2,2",
        "xorbas:10,6,5",
        "slpg:6,4,3",
        "dcode:7",
        "dcode:6",
        "dcode:9,raw",
        "xcode:7",
        "rdp:8",
        "evenodd:7",
        "hcode:8",
        "hdp:10",
        "liberation:7",
        "blaumroth:6",
        "liber8tion:8",
        "raidp:5",
        "raidp:30,stack=2",
        "raidp:6,weighted",
    ];
    for spec in specs {
        let picture = text(&["show", spec, "--svg", "-"]);
        let document = roxmltree::Document::parse(&picture).unwrap_or_else(|e| panic!("{spec}: {e}"));
        let root = document.root_element();
        assert_eq!(root.tag_name().name(), "svg");
        let size = |name: &str| root.attribute(name).and_then(|v| v.parse::<f64>().ok()).expect("a size");
        let (width, height) = (size("width"), size("height"));
        let shape = json(&["show", spec, "--json"]);
        let groups = document.descendants().filter(|n| n.has_tag_name("g")).count();
        assert_eq!(groups as u64, shape["cells"].as_u64().expect("cells"), "{spec}: one group per cell");
        for node in document.descendants().filter(|n| n.has_tag_name("rect") || n.has_tag_name("text")) {
            let at = |name: &str| node.attribute(name).map_or(0.0, |v| v.parse::<f64>().expect("a number"));
            let (right, bottom) = (at("x") + at("width"), at("y") + at("height"));
            assert!(at("x") >= 0.0 && right <= width && bottom <= height, "{spec}: {node:?} lies outside");
        }
        assert!(picture.contains("prefers-color-scheme:dark"), "{spec} has no dark scheme");
        assert!(!picture.contains("<script") && !picture.contains("href"), "{spec} is not standalone");
    }
}

#[test]
fn a_picture_goes_to_a_file_beside_the_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("dcode.svg");
    let answer = text(&["show", "dcode:7", "--svg", file.to_str().expect("UTF-8")]);
    assert!(answer.contains("The drawing is in "));
    let picture = std::fs::read_to_string(&file).expect("written");
    assert_eq!(picture, text(&["show", "dcode:7", "--svg", "-"]));
}

/// A shell has opened the file, for appending or truncated: its content stays, and output is
/// appended.
#[test]
fn a_file_that_a_shell_has_open_is_written_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("out");
    let picture = text(&["show", "raid6:4", "--svg", "-"]);
    let answer = text(&["show", "raid6:4", "--svg", "/dev/stdout"]);
    let drawing = answer.strip_prefix(&picture).expect("the picture, then the drawing");
    assert!(drawing.starts_with("raid6:4"), "{drawing}");
    for (redirected, to, before, after) in [
        (">> out", "/dev/stdout", "kept\n", drawing),
        (">> out", "/dev/fd/1", "kept\n", drawing),
        (">> out", "/proc/self/fd/1", "kept\n", drawing),
        ("> out", "/dev/stdout", "", drawing),
        ("2>> out", "/dev/stderr", "kept\n", ""),
        ("3>> out", "/dev/fd/3", "kept\n", ""),
    ] {
        std::fs::write(&file, "kept\n").expect("a file");
        let script = format!("\"$0\" show raid6:4 --svg {to} {redirected}");
        let run = std::process::Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_pantile")])
            .current_dir(&directory)
            .output()
            .expect("a shell");
        assert!(run.status.success(), "{redirected}: {}", String::from_utf8_lossy(&run.stderr));
        let found = std::fs::read_to_string(&file).expect("it is there");
        let after = after.replace("/dev/stdout", to);
        assert_eq!(found, format!("{before}{picture}{after}"), "{to} {redirected}");
        let names = std::fs::read_dir(&directory).expect("a directory").count();
        assert_eq!(names, 1, "{to}: nothing is left beside it");
    }
}
