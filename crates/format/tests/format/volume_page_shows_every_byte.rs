//! `docs/volume-format.md` has the same tables, limits, addresses and bytes as the code.
//!
//! The text between `<!-- begin ... -->` and `<!-- end -->` is generated here. With
//! `PANTILE_BLESS=1` in the environment it is written to the page; otherwise the page must have the
//! same text.

use crate::volume_common::*;
use pantile_format::Field;
use pantile_format::volume::*;
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/volume-format.md");

const TABLES: &[(&str, &[Field])] = &[
    ("superblock", SUPERBLOCK_LAYOUT),
    ("chunk header", CHUNK_LAYOUT),
    ("record", RECORD_HEAD_LAYOUT),
    ("entry", ENTRY_HEAD_LAYOUT),
    ("stripe switch", SWITCH_LAYOUT),
    ("unmap", UNMAP_LAYOUT),
    ("log write", LOG_WRITE_LAYOUT),
    ("log cell", LOG_CELL_LAYOUT),
    ("log forget", FORGET_LAYOUT),
    ("member", MEMBER_LAYOUT),
    ("patch", PATCH_LAYOUT),
    ("patched chunk", PATCH_CHUNK_LAYOUT),
    ("patched block", PATCH_BLOCK_LAYOUT),
    ("device note", DEVICE_NOTE_LAYOUT),
    ("event", EVENT_LAYOUT),
    ("scrub", SCRUB_LAYOUT),
    ("range", RANGE_LAYOUT),
    ("bad", BAD_LAYOUT),
    ("state", STATE_LAYOUT),
    ("claim", CLAIM_LAYOUT),
    ("piece", PIECE_HEAD_LAYOUT),
    ("snapshot", SNAPSHOT_LAYOUT),
    ("stripe", STRIPE_LAYOUT),
];

#[test]
fn the_page_has_every_table_and_says_what_the_code_says() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    for (name, _) in TABLES {
        assert_eq!(page.matches(&format!("<!-- begin fields {name} -->\n")).count(), 1, "{name}");
    }
    let made = with_parts(&page);
    if std::env::var_os("PANTILE_BLESS").is_some() {
        std::fs::write(PAGE, made).unwrap();
        return;
    }
    for (line, (page, made)) in page.lines().zip(made.lines()).enumerate() {
        assert_eq!(page, made, "docs/volume-format.md, line {}", line + 1);
    }
    assert_eq!(page, made);
}

/// Returns the page with all generated parts replaced.
fn with_parts(page: &str) -> String {
    let mut out = String::new();
    let mut parts = page.split_inclusive("<!-- end -->\n");
    for part in &mut parts {
        let Some((text, begun)) = part.split_once("<!-- begin ") else {
            out.push_str(part);
            continue;
        };
        let name = begun.split_once(" -->\n").expect("a marker ends its line").0;
        write!(out, "{text}<!-- begin {name} -->\n{}<!-- end -->\n", made(name)).unwrap();
    }
    out
}

fn made(name: &str) -> String {
    match name.split_once(' ').unwrap_or((name, "")) {
        ("fields", table) => {
            let known = TABLES.iter().find(|(name, _)| *name == table);
            fields(known.unwrap_or_else(|| panic!("no table '{table}'")).1)
        }
        ("limits", _) => limits(),
        ("zones", _) => zones(),
        ("hex", "superblock") => hex(&superblock().encode()),
        ("hex", "state") => hex(&state().encode(&SHAPE).0),
        ("hex", "claim") => hex(&claim().encode()),
        ("hex", "chunk header") => hex(&chunk_header().encode()),
        ("hex", "record of a patch") => hex(&patch_record().encode(&SHAPE)),
        ("hex", "record") => hex(&record().encode(&SHAPE)),
        ("hex", "snapshot") => {
            let user = Holds::User(UserBlock(767));
            let mut items: Vec<SnapshotItem> = members(&SHAPE).collect();
            items.extend([stripe(1, 39, 1001), stripe(31, 0, 1002)]);
            items.push(SnapshotItem::LogWrite(log_write(7, 1003, &[(0, user), (2, user), (3, user)])));
            hex(&snapshot_bytes(&SHAPE, &items).0)
        }
        _ => panic!("nothing is known of '{name}'"),
    }
}

fn fields(table: &[Field]) -> String {
    let mut out = "\n| offset | bytes | field | meaning |\n| ---: | ---: | --- | --- |\n".to_owned();
    for Field { name, offset, len, meaning } in table {
        writeln!(out, "| {offset} | {len} | {name} | {meaning} |").unwrap();
    }
    out + "\n"
}

fn limits() -> String {
    let mut out = "\n| limit | value |\n| --- | ---: |\n".to_owned();
    for (name, value) in [
        ("devices", u64::from(DEVICES_MAX)),
        ("blocks of an element", u64::from(ELEMENT_BLOCKS_MAX)),
        ("blocks of a chunk without its header", CHUNK_BLOCKS_MAX),
        ("physical stripes", STRIPES_MAX),
        ("log rows", u64::from(LOG_ROWS_MAX)),
        ("blocks of the user's address space", USER_BLOCKS_MAX),
        ("blocks of a device", DEVICE_BLOCKS_MAX),
        ("blocks of a record", u64::from(RECORD_BLOCKS_MAX)),
        ("blocks of a piece of a snapshot", u64::from(PIECE_BLOCKS)),
        ("bytes of a definition", u64::from(Superblock::DEFINITION_BYTES_MAX)),
    ] {
        writeln!(out, "| {name} | {value} |").unwrap();
    }
    out + "\n"
}

fn zones() -> String {
    let blocks = 500;
    let zones = Zones::new(&SHAPE, blocks).unwrap();
    let mut out =
        format!("\nDevice of {blocks} blocks:\n\n| zone | first block | blocks |\n| --- | ---: | ---: |\n");
    let one = |first| BlockRun { first, blocks: 1 };
    for (name, run) in [
        ("superblock, even update", one(zones.superblock(0))),
        ("superblock, odd update", one(zones.superblock(1))),
        ("definition area", zones.definition()),
        ("state 0", zones.state(0)),
        ("state 1", zones.state(1)),
        ("claim", one(CLAIM_BLOCK)),
        ("journal", zones.journal()),
        ("snapshot 0", zones.snapshot(0)),
        ("snapshot 1", zones.snapshot(1)),
        ("log", zones.log()),
        ("data", zones.data()),
        ("chunk 39", zones.chunk(PhysicalStripe(39))),
        ("chunk 39, row 1, block 3", one(zones.element(PhysicalStripe(39), 1, 3))),
        ("superblock copy", one(zones.superblock_copy())),
    ] {
        writeln!(out, "| {name} | {} | {} |", run.first.0, run.blocks).unwrap();
    }
    out + "\n"
}

/// Returns a hex dump in lines of 16 bytes; lines of zeros are omitted.
fn hex(bytes: &[u8]) -> String {
    let mut out = "\n```text\n".to_owned();
    for (at, line) in bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|&byte| byte != 0)) {
        write!(out, "{:04x} ", at * 16).unwrap();
        for byte in line {
            write!(out, " {byte:02x}").unwrap();
        }
        let text = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
        writeln!(out, "  {}", line.iter().map(text).collect::<String>()).unwrap();
    }
    out + "```\n\n"
}
