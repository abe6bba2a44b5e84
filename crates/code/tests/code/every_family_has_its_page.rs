//! Claim: each family has a page that names its spec forms, and the examples on the pages agree
//! with the codes.
//!
//! Five kinds of fenced block are checked; the word after the kind is its argument. `layout SPEC`
//! is the whole stripe, with data in user order and parity in the order of the equations. Each line
//! of `equations SPEC` is a line of the code's file. `encode SPEC` has data bytes and their parity
//! bytes. `code-file TOLERANCE` is a code file with its proven tolerance. `limits FAMILY` lists
//! specs at the limits of the family, which are accepted, and specs beyond them, which are refused.
//! No block may be empty. With `PANTILE_BLESS=1` in the environment each `layout` is rewritten.

use pantile_code::{Cell, Code, families};
use pantile_gf::Gf;
use std::path::PathBuf;

fn docs(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)
}

fn read(path: &str) -> String {
    let hint = "every family has a page; docs/codes/README.md says what is on it";
    std::fs::read_to_string(docs(path)).unwrap_or_else(|error| panic!("docs/{path}: {error} ({hint})"))
}

#[test]
fn every_family_has_a_page_with_its_forms() {
    let index = read("codes/README.md");
    for family in families() {
        let page = read(&format!("codes/{}.md", family.name));
        for form in family.forms {
            assert!(
                page.contains(&format!("`{form}`")),
                "docs/codes/{}.md does not name `{form}`",
                family.name
            );
        }
        for part in [
            "## What it is for",
            "## Derivation",
            "## Picture",
            "## Limits",
            "## Worked example",
            "## Source",
        ] {
            assert!(page.contains(part), "docs/codes/{}.md has no part '{part}'", family.name);
        }
        for (kind, of) in [("layout", "a picture"), ("limits", "specs at its limits and beyond")] {
            assert!(
                page.contains(&format!("```{kind} {}", family.name)),
                "docs/codes/{name}.md has no {of}: add a block ```{kind} {name}",
                name = family.name
            );
        }
        assert!(
            index.contains(&format!("({}.md)", family.name)),
            "docs/codes/README.md leaves out {}",
            family.name
        );
    }
}

#[test]
fn every_page_belongs_to_a_family() {
    for file in std::fs::read_dir(docs("codes")).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let known = stem == "README" || families().iter().any(|family| family.name == stem);
        assert!(known, "{} is the page of no family", path.display());
    }
}

#[test]
fn pages_show_the_code() {
    let pages = families().iter().map(|family| format!("codes/{}.md", family.name));
    let mut checked = 0;
    for page in pages.chain(["codes/README.md".into(), "code-files.md".into()]) {
        if std::env::var_os("PANTILE_BLESS").is_some() {
            std::fs::write(docs(&page), with_layouts(&read(&page))).unwrap();
        }
        for (kind, argument, lines) in blocks(&read(&page)) {
            let place = format!("docs/{page}, block {kind} {argument}");
            let is_checked =
                ["layout", "equations", "encode", "code-file", "limits"].contains(&kind.as_str());
            assert!(!is_checked || !lines.is_empty(), "{place} is empty and shows nothing");
            match kind.as_str() {
                "limits" => hold_limits(&argument, &lines, &place),
                "layout" => assert_eq!(lines.join("\n"), layout(&code(&argument)), "{place}"),
                "equations" => hold_equations(&code(&argument), &lines, &place),
                "encode" => hold_encoding(&code(&argument), &lines, &place),
                "code-file" => hold_file(&lines.join("\n"), &argument, &place),
                _ => continue,
            }
            checked += 1;
        }
    }
    assert!(checked >= 50, "only {checked} blocks");
}

fn code(spec: &str) -> Code {
    Code::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// Returns the fenced blocks: the first and second word after the fence, and the lines.
fn blocks(page: &str) -> Vec<(String, String, Vec<String>)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let (kind, argument) = info.split_once(' ').unwrap_or((info, ""));
            let body =
                lines.by_ref().take_while(|line| !line.starts_with("```")).map(str::to_string).collect();
            found.push((kind.into(), argument.into(), body));
        }
    }
    found
}

/// Draws a stripe: column numbers above, row numbers to the left, data d0, d1, .. in user order,
/// parity p0, p1, ..
fn layout(code: &Code) -> String {
    let width = 1 + format!("d{}", code.data().len()).len().max(format!("p{}", code.parity().len()).len());
    let line = |head: &str, cell: &dyn Fn(usize) -> String| {
        let cells: String = (0..code.columns()).map(|column| format!("{:>width$}", cell(column))).collect();
        format!("{head:>2} {cells}").trim_end().to_string()
    };
    let mut lines = vec![line("", &|column| column.to_string())];
    for row in 0..code.rows_max() {
        lines.push(line(&row.to_string(), &|column| match code.index(Cell { row, column }) {
            None => String::new(),
            Some(index) => match code.data_position(index) {
                Some(position) => format!("d{position}"),
                None => format!("p{}", code.parity().iter().position(|&p| p == index).unwrap()),
            },
        }));
    }
    lines.join("\n")
}

/// Returns the page with each `layout` computed from its code.
fn with_layouts(page: &str) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(&format!("{line}\n"));
        if let Some(spec) = line.strip_prefix("```layout ") {
            lines.by_ref().take_while(|line| !line.starts_with("```")).for_each(drop);
            out.push_str(&format!("{}\n```\n", layout(&code(spec))));
        }
    }
    out
}

/// Checks the lines of a `limits` block: `takes` and `refuses`, each followed by specs of the
/// family.
fn hold_limits(family: &str, lines: &[String], place: &str) {
    let specs = |word: &str| -> Vec<&str> {
        let lines = lines.iter().filter_map(|line| line.strip_prefix(word));
        let specs: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        assert!(!specs.is_empty(), "{place} has no line '{word}SPEC..'");
        assert!(specs.iter().all(|spec| spec.split(':').next() == Some(family)), "{place}: {specs:?}");
        specs
    };
    for spec in specs("takes ") {
        assert!(Code::parse(spec).is_ok(), "{place}: {spec} is refused: {:?}", Code::parse(spec).err());
    }
    for spec in specs("refuses ") {
        assert!(Code::parse(spec).is_err(), "{place}: {spec} is taken");
    }
    assert_eq!(lines.len(), 2, "{place}: one line of each");
}

fn hold_equations(code: &Code, lines: &[String], place: &str) {
    let text = code.to_text();
    for line in lines {
        assert!(text.lines().any(|known| known == line), "{place}: '{line}' is not in\n{text}");
    }
}

/// Checks an `encode` block: `data` and bytes in user order, then `parity` and bytes in the order
/// of the parity cells.
fn hold_encoding(code: &Code, lines: &[String], place: &str) {
    let bytes = |line: &String, word: &str| -> Vec<Gf> {
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("{place}: '{line}' is not '{word} ..'"));
        rest.split_whitespace().map(|byte| Gf(u8::from_str_radix(byte, 16).unwrap())).collect()
    };
    let (data, parity) = (bytes(&lines[0], "data"), bytes(&lines[1], "parity"));
    assert_eq!(data.len(), code.data().len(), "{place}: data bytes");
    let generator = code.generator();
    let computed: Vec<Gf> = (0..generator.rows())
        .map(|i| generator.row(i).iter().zip(&data).map(|(&coefficient, &byte)| coefficient * byte).sum())
        .collect();
    assert_eq!(parity, computed, "{place}");
}

/// Checks a `code-file` block: a whole code file with its proven tolerance.
fn hold_file(text: &str, tolerance: &str, place: &str) {
    let code = Code::from_text(text).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(code.claim().tolerance.to_string(), tolerance, "{place}");
}
