//! Claim: good code files are read as the reference reads them, bad ones are refused with the line
//! of the fault, and none causes a panic.

use crate::common::{hold, json, list, text, vectors};
use pantile_code::{Code, CodeError, families};
use proptest::prelude::*;

/// Every bad file with the line that the error must name; 0 for the whole file.
const BAD: &[(&str, usize)] = &[
    ("circle", 0),
    ("column-outside", 6),
    ("comma-cell", 6),
    ("dangling-plus", 6),
    ("defined-and-named", 7),
    ("defined-twice", 7),
    ("defines-itself", 6),
    ("dependent", 0),
    ("empty-column", 5),
    ("empty-sum", 6),
    ("empty", 0),
    ("future-version", 2),
    ("large-coefficient", 6),
    ("large-hex-coefficient", 6),
    ("minus", 6),
    ("no-columns", 4),
    ("no-data", 0),
    ("no-equation", 0),
    ("no-header", 2),
    ("no-name", 0),
    ("no-rows", 5),
    ("not-hex", 6),
    ("order-parity", 6),
    ("order-short", 6),
    ("order-twice", 6),
    ("repeated-term", 6),
    ("row-outside", 6),
    ("rows-count", 5),
    ("rows-twice", 6),
    ("rows-word", 5),
    ("undetermined", 0),
    ("unknown-word", 6),
    ("unnamed", 0),
    ("zero-coefficient", 6),
    ("zero-columns", 4),
];

#[test]
fn bad_files_are_refused_at_their_line() {
    let mut seen = 0;
    for file in std::fs::read_dir(vectors("custom/bad")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // Text that is not UTF-8 never becomes a &str.
        let Ok(text) = String::from_utf8(std::fs::read(&path).unwrap()) else {
            assert_eq!(name, "not-utf8");
            continue;
        };
        let expected = BAD.iter().find(|(bad, _)| *bad == name);
        let Some(&(_, expected)) = expected else { panic!("{name}.code is not in the list of this test") };
        match Code::from_text(&text) {
            Err(error @ CodeError::File { line, .. }) => assert_eq!(line, expected, "{name}: {error}"),
            other => panic!("{name}: {other:?}"),
        }
        seen += 1;
    }
    assert_eq!(seen, BAD.len());
}

#[test]
fn good_files_are_the_reference_codes() {
    let file = json("custom/custom.json");
    for entry in list(&file["codes"]) {
        let name = text(&entry["file"]);
        let source = std::fs::read_to_string(vectors("custom").join(name)).unwrap();
        let code = Code::from_text(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        hold(&code, entry, name);
        assert_eq!(code.definition(), Some(source.as_str()));
        assert_eq!(
            code.spec(),
            format!("custom:{}-{:016x}", name.trim_end_matches(".code"), code.fingerprint())
        );
        reads_back(&code);
    }
}

#[test]
fn every_named_code_can_be_written_and_read() {
    for family in families() {
        for entry in list(&json(&format!("codes/{}.json", family.name))["codes"]) {
            let code = Code::parse(text(&entry["spec"])).unwrap();
            if code.cell_count() <= 600 {
                reads_back(&code);
            }
        }
    }
    for widest in ["raidq:255+3", "raid6:255", "lrc:170,85,2", "raidp:20,stack=2"] {
        reads_back(&Code::parse(widest).unwrap());
    }
}

fn reads_back(code: &Code) {
    let written = code.to_text();
    let read = Code::from_text(&written).unwrap_or_else(|error| panic!("{code}: {error}\n{written}"));
    let rows = |code: &Code| (0..code.columns()).map(|c| code.rows(c)).collect::<Vec<_>>();
    assert_eq!(rows(&read), rows(code), "{code}");
    assert_eq!(read.data(), code.data(), "{code}");
    assert_eq!(read.parity(), code.parity(), "{code}");
    assert_eq!(read.equations(), code.equations(), "{code}");
    assert_eq!(read.fingerprint(), code.fingerprint(), "{code}");
    assert!(
        read.claim().tolerance <= code.claim().tolerance || !code.claim().mds,
        "{code}: {:?}",
        read.claim()
    );
    assert_eq!(
        read.to_text(),
        Code::from_text(&read.to_text()).unwrap().to_text(),
        "{code}: printing is canonical"
    );
}

#[test]
fn named_parity_cells_are_ordered_column_by_column() {
    let text = "pantile-code 1\nname n\ncolumns 3\nrows 2\nparity [0][2] [0][1] [1][1]\n\
                0 = [0][0] + [0][1]\n0 = [1][0] + [1][1]\n0 = [0][0] + [1][0] + [0][2]\n";
    let code = Code::from_text(text).unwrap();
    let cells: Vec<String> = code.parity().iter().map(|&p| code.cell(p).to_string()).collect();
    assert_eq!(cells, ["[0][1]", "[1][1]", "[0][2]"]);
}

#[test]
fn the_claim_of_a_file_is_what_it_survives() {
    for (spec, tolerance, mds) in [
        ("raid6:4", 2, true),
        ("dcode:7", 2, true),
        ("dcode:9,raw", 1, false),
        ("raidq:4+4", 4, true),
        ("raidp:5,weighted", 3, false),
        ("lrc:12,2,2", 3, false),
        ("mirror:3", 2, true),
        ("raid0:3", 0, true),
    ] {
        let read = Code::from_text(&Code::parse(spec).unwrap().to_text()).unwrap();
        assert_eq!((read.claim().tolerance, read.claim().mds), (tolerance, mds), "{spec}");
    }
}

#[test]
fn a_custom_spec_asks_for_its_file() {
    let code = Code::from_text("pantile-code 1\nname A_b.c\ncolumns 2\nrows 1\n[0][1] = [0][0]\n").unwrap();
    match Code::parse(code.spec()) {
        Err(error @ CodeError::NeedsFile { .. }) => assert!(error.to_string().contains("file"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fault_of_the_user_order_or_of_an_editor_is_named() {
    let head = "pantile-code 1\nname n\ncolumns 3\nrows 1\n[0][2] = [0][0] + [0][1]\n";
    for (text, line, word) in [
        (format!("{head}order [0][0] [0][0] [0][1]\n"), 6, "twice in the user order"),
        (format!("{head}order [0][0] [0][2]\n"), 6, "is parity, and the user order"),
        (format!("{head}order [0][0]\n"), 6, "leaves out the data cell [0][1]"),
        (format!("{head}parity [0][2]\n"), 6, "is parity already"),
        (format!("\u{feff}{head}"), 1, "byte order mark"),
    ] {
        match Code::from_text(&text) {
            Err(error @ CodeError::File { .. }) => {
                let said = error.to_string();
                assert!(said.contains(&format!("line {line}: ")) && said.contains(word), "{said}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn limits_are_refused_before_they_cost_anything() {
    let head = "pantile-code 1\nname big\n";
    for body in [
        "columns 259\nrows 1\n",
        "columns 258\nrows 65536\n",
        "columns 999999999\n",
        "columns 99999999999999999999999\n",
        "columns 2\nrows 32769\n",
        "columns 1\nrows 1\n[4294967296][4294967296] = [0][0]\n",
        "columns 1\nrows 1\n[999999999][0] = [0][0]\n",
    ] {
        assert!(Code::from_text(&format!("{head}{body}")).is_err(), "{body}");
    }
    let mut many = format!("{head}columns 2\nrows 8000\n");
    (0..8000).for_each(|row| many += &format!("[{row}][1] = [{row}][0]\n"));
    assert!(Code::from_text(&many).is_err());
    assert!(Code::from_text(&"#".repeat((4 << 20) + 1)).is_err());
    assert!(
        Code::from_text(&format!("pantile-code 1\nname {}\ncolumns 1\nrows 1\n", "n".repeat(65))).is_err()
    );
}

/// Returns the number of cases: 2000, or more by `PROPTEST_CASES`.
fn cases() -> u32 {
    ProptestConfig::default().cases.max(2000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_panics(text in "\\PC*", body in "[\\[\\]0-9 =+*x#a-f\n]{0,80}") {
        let _ = Code::from_text(&text);
        let _ = Code::from_text(&format!("pantile-code 1\nname n\ncolumns 3\nrows 2\n{body}"));
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Code::from_text(&String::from_utf8_lossy(&bytes));
    }

    /// A valid file with replaced bytes, or with swapped, dropped or doubled lines, gives an error,
    /// or a code that can be read back.
    #[test]
    fn mutated_files_never_panic(
        which in 0..GOOD.len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..4u8), 1..4),
    ) {
        let mut text = Code::parse(GOOD[which]).unwrap().to_text().into_bytes();
        for (place, byte, kind) in edits {
            if text.is_empty() {
                break;
            }
            let at = place.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => text[at] = b"0123456789[]=+* \n"[byte as usize % 17],
                2 => { text.remove(at); }
                _ => {
                    let end = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |i| at + i);
                    let line = text[at..end].to_vec();
                    text.splice(at..at, line);
                }
            }
        }
        if let Ok(code) = Code::from_text(&String::from_utf8_lossy(&text)) {
            reads_back(&code);
        }
    }
}

const GOOD: &[&str] =
    &["raid6:3", "dcode:5", "raidp:4,weighted", "xorbas:4,4,2", "raidq:2+4", "lrc:6,2,2", "mirror:3"];

#[test]
fn whatever_is_quoted_stays_one_short_line() {
    let long = "x".repeat(100_000);
    let mut texts = vec![long.clone(), format!("{long}:4"), format!("rs:{long}"), format!("raid1{long}")];
    texts.extend(
        ["hdfs:", "ceph:plugin=", "ceph:plugin=isa k=", "klauspost:"].map(|start| format!("{start}{long}")),
    );
    for strange in ["a\0b", "a\nb", "a\x1b[31mb", "a\u{85}b"] {
        texts.extend(
            ["", "rs:", "rs:4+2,", "custom:", "hdfs:", "ceph:plugin="].map(|s| format!("{s}{strange}")),
        );
    }
    for text in texts {
        let said = Code::parse(&text).unwrap_err().to_string();
        assert!(said.len() < 1000 && !said.contains(char::is_control), "{said:?}");
    }
    for line in
        ["a\0b".to_string(), "name a\x1b[0m".into(), "columns 2\0".into(), format!("order [0][{long}]"), long]
    {
        let text = format!("pantile-code 1\nname a\ncolumns 2\nrows 1\n{line}\n");
        let said = Code::from_text(&text).unwrap_err().to_string();
        assert!(said.len() < 1000 && !said.contains(char::is_control), "{said:?}");
    }
}
