//! Claim: every table in `docs/shard-format.md` and `docs/pin-format.md` is the table with which
//! the code encodes and decodes.
//!
//! With `PANTILE_BLESS=1` the tables of the pages are rewritten.

use pantile_format::*;
use std::fmt::Write;

const TABLES: &[(&str, &[Field])] = &[
    ("features", FEATURES_LAYOUT),
    ("field", FIELD_LAYOUT),
    ("header", HEADER_LAYOUT),
    ("manifest", MANIFEST_LAYOUT),
    ("source", SOURCE_LAYOUT),
    ("entry", ENTRY_LAYOUT),
    ("extent", EXTENT_LAYOUT),
    ("journal", JOURNAL_LAYOUT),
    ("record", RECORD_LAYOUT),
    ("target", TARGET_LAYOUT),
    ("spot", SPOT_LAYOUT),
];

fn table(fields: &[Field]) -> String {
    let mut text = String::from("| offset | bytes | field | meaning |\n| --: | --: | --- | --- |\n");
    for field in fields {
        writeln!(text, "| {} | {} | {} | {} |", field.offset, field.len, field.name, field.meaning).unwrap();
    }
    text
}

fn tags() -> String {
    let mut text = String::from("| of | tag | field | meaning |\n| --- | --: | --- | --- |\n");
    for (of, tag, name, meaning) in FIELD_TAGS {
        writeln!(text, "| {of} | {tag} | {name} | {meaning} |").unwrap();
    }
    text
}

#[test]
fn the_pin_page_says_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pin-format.md");
    let page = compared(path, vec![("pin", table(PIN_LAYOUT))]);
    assert!(page.contains(&format!("version **{PIN_VERSION}**")));
    assert!(page.contains(&format!("| header | {PIN_HEADER_BYTES} |")));
}

/// Compares the tables of a page with those of the code, or rewrites them. Returns the page.
fn compared(path: &str, tables: Vec<(&str, String)>) -> String {
    let mut page = std::fs::read_to_string(path).unwrap();
    for (name, table) in tables {
        let start = format!("<!-- table: {name} -->\n");
        let from = page.find(&start).unwrap_or_else(|| panic!("the page has no table {name}")) + start.len();
        let to =
            from + page[from..].find("<!-- end -->").unwrap_or_else(|| panic!("the table {name} has no end"));
        if std::env::var_os("PANTILE_BLESS").is_some() {
            page.replace_range(from..to, &table);
        } else {
            assert_eq!(&page[from..to], table, "the table {name} differs; PANTILE_BLESS=1 rewrites it");
        }
    }
    if std::env::var_os("PANTILE_BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    page
}

#[test]
fn the_shard_page_says_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/shard-format.md");
    let tables = TABLES.iter().map(|&(name, fields)| (name, table(fields))).chain([("tags", tags())]);
    let page = compared(path, tables.collect());
    for (words, number) in [
        ("format version", u64::from(FORMAT_VERSION)),
        ("blocks begin at byte", BODY_OFFSET),
        ("header copies", HEADER_COPIES),
    ] {
        assert!(page.contains(&format!("{words} **{number}**")), "{words} {number}");
    }
}
