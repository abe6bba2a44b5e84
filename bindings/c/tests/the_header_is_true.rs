//! Claim: `pantile.h` is true. Its functions, structures and constants are those of the Rust side,
//! and those of `abi.txt`, which has the interface promised before. The library exports no other
//! symbol.
//!
//! `PANTILE_WRITE_ABI=1 cargo test -p pantile-c the_promise` writes `abi.txt` again, after
//! additions. A changed or removed entry needs another soname.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Without comments and preprocessor lines.
fn header() -> String {
    let mut text = String::new();
    for (i, part) in read("include/pantile.h").split("/*").enumerate() {
        text += if i == 0 { part } else { part.split_once("*/").expect("a comment ends").1 };
    }
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// A type in C as Rust writes it: `const char *` is `*const c_char`.
fn from_c(text: &str) -> String {
    let spaced = text.replace('*', " * ");
    let mut words: Vec<&str> = spaced.split_whitespace().collect();
    let leading = words.first() == Some(&"const");
    if leading {
        words.remove(0);
    }
    let base = match words.remove(0) {
        "size_t" => "usize".to_string(),
        "uint64_t" => "u64".to_string(),
        "uint32_t" => "u32".to_string(),
        "uint16_t" => "u16".to_string(),
        "uint8_t" => "u8".to_string(),
        "void" => "c_void".to_string(),
        "char" => "c_char".to_string(),
        "int" => "c_int".to_string(),
        ours => camel(ours),
    };
    let (mut made, mut is_const) = (base, leading);
    for word in words {
        match word {
            "*" => {
                made = format!("*{} {made}", if is_const { "const" } else { "mut" });
                is_const = false;
            }
            "const" => is_const = true,
            other => panic!("'{other}' in the type '{text}'"),
        }
    }
    made
}

/// `pantile_code` as `PantileCode`.
fn camel(name: &str) -> String {
    name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

/// `name(type, type) -> type`, of the header.
fn functions_of_header() -> BTreeSet<String> {
    let text = header();
    let mut found = BTreeSet::new();
    for statement in text.split(';').filter(|statement| statement.contains('(')) {
        let statement = statement.rsplit(['{', '}']).next().unwrap_or(statement);
        let (head, rest) = statement.split_once('(').expect("it has one");
        let (of, name) = head.trim().rsplit_once([' ', '*']).expect("type and name");
        let of = if head.trim().contains('*') { format!("{of}*") } else { of.to_string() };
        let parameters = rest.trim_end().strip_suffix(')').expect("they end").split(',');
        let types = parameters.map(str::trim).filter(|one| *one != "void").map(|parameter| {
            let at = parameter.rfind([' ', '*']).expect("type and name") + 1;
            from_c(&parameter[..at])
        });
        let types: Vec<String> = types.collect();
        let of = if of.trim() == "void" { "()".to_string() } else { from_c(of.trim()) };
        found.insert(format!("{}({}) -> {of}", name.trim_start_matches('*'), types.join(", ")));
    }
    found
}

fn rust() -> String {
    let files = ["answer", "code", "codec", "epoch", "locate", "plan", "prove", "stream"];
    files.iter().map(|file| read(&format!("src/{file}.rs"))).collect()
}

fn functions_of_rust() -> BTreeSet<String> {
    let text = rust();
    let mut found = BTreeSet::new();
    for part in text.split("#[unsafe(no_mangle)]").skip(1) {
        let (_, part) = part.split_once("extern \"C\" fn ").expect("a function of C");
        let (signature, _) = part.split_once('{').expect("a body");
        let (name, rest) = signature.split_once('(').expect("parameters");
        let (parameters, result) = rest.rsplit_once(')').expect("they end");
        let types = parameters.split(',').filter_map(|one| Some(one.split_once(':')?.1.trim().to_string()));
        let of = result.trim().strip_prefix("-> ").unwrap_or("()").trim();
        found.insert(format!("{name}({}) -> {of}", types.collect::<Vec<_>>().join(", ")));
    }
    found
}

/// The fields of each structure of the header, and the names and values of each enumeration.
fn types_of_header() -> BTreeMap<String, Vec<String>> {
    let text = header();
    let mut found = BTreeMap::new();
    for part in text.split("typedef ").skip(1) {
        let Some((head, rest)) = part.split_once('{') else { continue };
        let Some((kind, name)) = head.trim().split_once(' ') else { continue };
        let (body, _) = rest.split_once('}').expect("it ends");
        let parts = body.split(if kind == "enum" { ',' } else { ';' }).map(str::trim);
        let parts = parts.filter(|one| !one.is_empty()).map(|one| match kind {
            "enum" => one.to_string(),
            _ => {
                let (of, name) = one.rsplit_once([' ', '*']).expect("type and name");
                match name.split_once('[') {
                    Some((name, count)) => {
                        format!("{name}: [{}; {}]", from_c(of), value(count.trim_end_matches(']')))
                    }
                    None => format!("{name}: {}", from_c(of)),
                }
            }
        });
        found.insert(camel(name), parts.collect());
    }
    found
}

/// A count of the header.
fn value(text: &str) -> usize {
    match text {
        "PANTILE_MESSAGE_BYTES" => 1024,
        "PANTILE_LOCATED_MOST" => 129,
        "PANTILE_COLUMNS_MOST" => 258,
        other => other.parse().unwrap_or_else(|_| panic!("a count: '{other}'")),
    }
}

fn fields_of_rust() -> BTreeMap<String, Vec<String>> {
    let text = rust();
    let mut found = BTreeMap::new();
    for part in text.split("#[repr(C)]").skip(1) {
        let Some((head, rest)) = part.split_once("{\n") else { continue };
        let Some((_, name)) = head.split_once("pub struct ") else { continue };
        let (body, _) = rest.split_once("\n}").expect("it ends");
        let named = [("MESSAGE_BYTES", "1024"), ("COLUMNS_MOST", "129"), ("WRONG_MOST", "258")];
        let counts =
            |text: &str| named.iter().fold(text.to_string(), |text, (name, count)| text.replace(name, count));
        let fields =
            body.lines().map(|line| counts(line.trim().trim_start_matches("pub ").trim_end_matches(',')));
        found.insert(name.trim().to_string(), fields.collect());
    }
    found
}

#[test]
fn functions_are_those_of_the_rust_side() {
    let (said, there) = (functions_of_header(), functions_of_rust());
    assert!(said.len() > 25, "{said:#?}");
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(only(&said, &there), only(&there, &said), "in the header only, and in Rust only");
}

#[test]
fn structures_are_those_of_the_rust_side() {
    let (said, there) = (types_of_header(), fields_of_rust());
    let structures: BTreeMap<String, Vec<String>> =
        said.into_iter().filter(|(_, parts)| parts.iter().all(|part| part.contains(": "))).collect();
    assert!(structures.len() >= 8, "{structures:#?}");
    assert_eq!(structures, there);
}

#[test]
fn every_status_has_its_name_and_number() {
    let statuses = &types_of_header()["PantileStatus"];
    for (number, said) in statuses.iter().enumerate() {
        // SAFETY: a text of the library's own, which ends with a zero.
        let name = unsafe { std::ffi::CStr::from_ptr(pantile_c::pantile_status_name(number as i32)) };
        assert_eq!(*said, format!("{} = {number}", name.to_str().unwrap()));
    }
    use pantile_c::PantileStatus as S;
    let of_rust = [
        S::Ok,
        S::NullPointer,
        S::BadArgument,
        S::Overlap,
        S::BadCode,
        S::TooMuchWork,
        S::NotRecoverable,
        S::TooSmall,
        S::StudyOnly,
        S::NothingToCheck,
        S::Panic,
        S::NotServed,
        S::Refused,
        S::EpochOver,
        S::EpochLost,
        S::ServerGone,
        S::Io,
        S::NotLocated,
    ];
    assert_eq!(of_rust.map(|status| status as usize).to_vec(), (0..statuses.len()).collect::<Vec<_>>());
    let names: Vec<String> =
        of_rust.iter().map(|status| format!("PANTILE_{}", shouted(&format!("{status:?}")))).collect();
    assert!(
        statuses.iter().zip(&names).all(|(said, name)| said.starts_with(&format!("{name} "))),
        "{names:?}"
    );
}

/// `NotRecoverable` as `NOT_RECOVERABLE`.
fn shouted(name: &str) -> String {
    let mut out = String::new();
    for (i, letter) in name.char_indices() {
        if letter.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

/// The promised interface: functions, types with their sizes, constants.
fn promise() -> String {
    let mut out =
        String::from("# What programs that are linked to libpantile.so.0 rely on; written by a test.\n");
    functions_of_header().iter().for_each(|function| out += &format!("{function}\n"));
    let sizes = BTreeMap::from([
        ("PantileError", size_of::<pantile_c::PantileError>()),
        ("PantileShape", size_of::<pantile_c::PantileShape>()),
        ("PantileCell", size_of::<pantile_c::PantileCell>()),
        ("PantileTerm", size_of::<pantile_c::PantileTerm>()),
        ("PantileLevel", size_of::<pantile_c::PantileLevel>()),
        ("PantileProveOptions", size_of::<pantile_c::PantileProveOptions>()),
        ("PantileCodecOptions", size_of::<pantile_c::PantileCodecOptions>()),
        ("PantileEpochOptions", size_of::<pantile_c::PantileEpochOptions>()),
        ("PantileFinding", size_of::<pantile_c::PantileFinding>()),
        ("PantileRange", size_of::<pantile_c::PantileRange>()),
        ("PantileWrongColumn", size_of::<pantile_c::PantileWrongColumn>()),
        ("PantileChecked", size_of::<pantile_c::PantileChecked>()),
    ]);
    for (name, parts) in types_of_header() {
        let size =
            sizes.get(name.as_str()).map_or(String::new(), |size| format!(", {size} bytes on 64 bits"));
        out += &format!("{name}{size}\n");
        parts.iter().for_each(|part| out += &format!("    {part}\n"));
        assert_eq!(parts[0].contains(": "), !size.is_empty(), "{name} is measured");
    }
    for line in read("include/pantile.h").lines().filter(|line| line.starts_with("#define PANTILE_")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        if words.len() > 1 {
            out += &format!("{}\n", words.join(" "));
        }
    }
    out
}

#[test]
#[cfg(target_pointer_width = "64")]
fn the_promise_is_kept() {
    let promise = promise();
    if std::env::var_os("PANTILE_WRITE_ABI").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi.txt"), &promise).unwrap();
    }
    assert!(
        promise == read("tests/abi.txt"),
        "the header promises something else than tests/abi.txt. If the change only adds, write it again:\n\
         PANTILE_WRITE_ABI=1 cargo test -p pantile-c the_promise"
    );
}

#[test]
fn constants_are_those_of_the_library() {
    let text = read("include/pantile.h");
    assert!(text.contains(&format!("#define PANTILE_VERSION \"{}\"", env!("CARGO_PKG_VERSION"))));
    assert!(text.contains(&format!("#define PANTILE_MESSAGE_BYTES {}\n", pantile_c::MESSAGE_BYTES)));
    assert!(text.contains("#define PANTILE_COLUMNS_MOST 258\n"));
    assert!(text.contains("#define PANTILE_LOCATED_MOST 129\n"));
    let code = pantile::Code::from_text("pantile-code 1\nname x\ncolumns 259\nrows 1\n[0][1] = [0][0]\n");
    assert!(code.unwrap_err().to_string().contains("at most 258"));
}

/// `bindings/c/test` says where the library is: a test alone does not build it.
#[test]
fn the_library_exports_no_other_symbol() {
    let Some(library) = std::env::var_os("PANTILE_LIBRARY") else {
        return println!("PANTILE_LIBRARY names no library: left out");
    };
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm");
    let said = String::from_utf8(nm.stdout).unwrap();
    let exported: BTreeSet<&str> = said.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let functions = functions_of_header();
    let names: BTreeSet<&str> = functions.iter().filter_map(|one| one.split('(').next()).collect();
    assert_eq!(exported, names);
}
