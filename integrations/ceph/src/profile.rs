//! From the words of a profile to the layout of a pool, or the reason why there is none.
//!
//! `plugin=pantile` takes a code by its spec (`code=shec:6,4,3`), by the text of a code file
//! (`equations=`) or Ceph's words for it (`k= m=`, with `c=` shec, with `l=` lrc, with `d=` clay,
//! with `technique=` one of jerasure's), and refuses every word that it does not know: a typo is no
//! default. A name with a code in it (`plugin=pantile_shec_6_4_3`) is for programs that pass a name,
//! k and m alone (Rook). `plugin=shec`, `plugin=clay` and `plugin=jerasure` accept the profiles of
//! Ceph's own plug-ins, with the same defaults, since such pools exist; clay over a code of packets
//! is refused. Defaults of a name are written into the profile, as Ceph wants it.
//!
//! The layout for a name of Ceph is known in one place, [`pantile::code::foreign`].

use crate::SHARDS_MOST;
use crate::pool::Layout;
use pantile::code::foreign::{Cut, Profile, Rows, ceph_layout, ceph_named, is_plain_mapping};
use pantile::code::{ColumnRole, StudyOnly};
use pantile::{Code, CodeError};
use std::collections::BTreeMap;
use std::fmt;

/// A profile, as Ceph has it.
pub type Words = BTreeMap<String, String>;

/// The names by which Ceph loads the shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// Codes that Ceph does not have.
    Pantile,
    /// In the place of Ceph's own.
    Shec,
    /// In the place of Ceph's own.
    Clay,
    /// In the place of Ceph's own.
    Jerasure,
}

/// A profile that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Its words, with those that were left out.
    pub words: Words,
    /// Layout that the profile describes.
    pub layout: Layout,
    /// True if deltas can update parity for any part of a chunk, in whole words: columns of one
    /// row, and of words.
    pub is_bytewise: bool,
}

/// Reason why a profile makes no pool.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The code does not exist.
    Code(CodeError),
    /// A code that must not store.
    Study(StudyOnly),
    /// A word that means nothing here.
    UnknownWord {
        /// The word.
        word: String,
    },
    /// Words that exclude each other.
    Excluded {
        /// The word that is one too many.
        word: &'static str,
        /// The word that it does not go with.
        with: &'static str,
    },
    /// A word that must be there.
    Missing {
        /// The word.
        word: &'static str,
        /// An example of the word.
        example: &'static str,
    },
    /// A word whose value is no number in its range.
    Number {
        /// The word.
        word: &'static str,
        /// Its value.
        value: String,
        /// The least.
        least: usize,
    },
    /// A word whose value is none of those that are known.
    Choice {
        /// The word.
        word: &'static str,
        /// Its value.
        value: String,
        /// The known values.
        known: &'static str,
    },
    /// The profile says another k or m than the code has.
    OtherCount {
        /// `k` or `m`.
        word: &'static str,
        /// Its value.
        value: String,
        /// Value of the code.
        need: usize,
        /// The code.
        spec: String,
    },
    /// Ceph's own plug-in loses data with such a mapping.
    Mapping {
        /// Its value.
        mapping: String,
        /// Data chunks of the code.
        data: usize,
    },
    /// The text of a code is longer than a profile should be.
    LongText {
        /// Its bytes.
        bytes: usize,
    },
    /// The profile has the equations of another code than it names.
    OtherCode {
        /// The code that it names.
        code: String,
        /// The code of the equations.
        spec: String,
    },
    /// The plug-in was loaded by a name with a code in it, and the profile gives one as well.
    Named {
        /// The word that gives a code.
        word: &'static str,
        /// The code of the name.
        spec: String,
    },
    /// Some column holds data and parity.
    MixedColumns {
        /// The code.
        spec: String,
    },
    /// Columns are not alike.
    UnlikeColumns {
        /// The code.
        spec: String,
    },
    /// No loss is survived for certain.
    NoTolerance {
        /// The code.
        spec: String,
    },
    /// Too many chunks.
    TooWide {
        /// The code.
        spec: String,
        /// Its columns.
        columns: usize,
    },
    /// Ceph counts a chunk in 32 bits.
    LongChunks {
        /// Unit of the chunk length.
        multiple: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Code(error) => error.fmt(out),
            Refusal::Study(error) => error.fmt(out),
            Refusal::UnknownWord { word } => write!(
                out,
                "'{word}' is not known; code=SPEC, equations=TEXT, k, m, c, l, technique, w, packetsize, stripe_unit and crush-* are. \
                 Correct the word or leave it out"
            ),
            Refusal::Excluded { word, with } => {
                write!(out, "{word}= does not go with {with}=; leave one of them out")
            }
            Refusal::Missing { word, example } => write!(out, "{word}= is missing; give {example}"),
            Refusal::Number { word, value, least } => {
                write!(out, "{word}={value} is no number from {least} on; give one")
            }
            Refusal::Choice { word, value, known } => {
                write!(out, "{word}={value} is not known; give {known}")
            }
            Refusal::OtherCount { word, value, need, spec } => {
                write!(out, "{word}={value}, but {spec} has {word}={need}; leave {word} out")
            }
            Refusal::Mapping { mapping, data } => write!(
                out,
                "mapping={mapping} has Ceph's own plug-in write parity over data, so that the last chunks of data are \
                 lost without any fault; only data first and parity behind, {}, is right. Leave mapping out",
                "D".repeat(*data) + "_.."
            ),
            Refusal::LongText { bytes } => write!(
                out,
                "equations= has {bytes} bytes, and a profile at most {TEXT_BYTES_MOST}; a code of fewer equations is needed"
            ),
            Refusal::OtherCode { code, spec } => write!(
                out,
                "the equations are those of {spec}, and the profile names {code}; leave code= out for a new pool, and \
                 never change the equations of a pool in use"
            ),
            Refusal::Named { word, spec } => {
                write!(out, "by its name the code is {spec}; leave {word}= out, or say plugin=pantile")
            }
            Refusal::MixedColumns { spec } => write!(
                out,
                "{spec} keeps parity in columns of data, and Ceph reads an object as its first k chunks; choose a code \
                 whose data columns hold data alone, such as rs, raidq, shec, lrc or rdp"
            ),
            Refusal::UnlikeColumns { spec } => write!(
                out,
                "the columns of {spec} are not of one length, and chunks of Ceph are; choose another code"
            ),
            Refusal::NoTolerance { spec } => write!(
                out,
                "{spec} survives no loss for certain; choose a code with redundancy, such as rs:4+2"
            ),
            Refusal::TooWide { spec, columns } => write!(
                out,
                "{spec} has {columns} chunks, and a stripe has at most {SHARDS_MOST} here; choose a narrower code"
            ),
            Refusal::LongChunks { multiple } => write!(
                out,
                "chunks would be multiples of {multiple} bytes, which Ceph cannot count; give a shorter packetsize"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<CodeError> for Refusal {
    fn from(error: CodeError) -> Refusal {
        Refusal::Code(error)
    }
}

/// Above it Ceph's unsigned counts end soon.
const CHUNK_MULTIPLE_MOST: usize = 1 << 28;

impl Plugin {
    /// The plug-in that Ceph loads by a name.
    pub fn named(name: &str) -> Option<Plugin> {
        match name {
            "pantile" => Some(Plugin::Pantile),
            _ if name.starts_with("pantile_") => Some(Plugin::Pantile),
            "shec" => Some(Plugin::Shec),
            "clay" => Some(Plugin::Clay),
            "jerasure" => Some(Plugin::Jerasure),
            _ => None,
        }
    }

    /// Reads a profile.
    pub fn read(self, mut words: Words) -> Result<Opened, Refusal> {
        let layout = match self {
            Plugin::Pantile => pantile(&mut words)?,
            Plugin::Shec => shec(&mut words)?,
            Plugin::Clay => clay(&mut words)?,
            Plugin::Jerasure => jerasure(&mut words)?,
        };
        check(self, &layout)?;
        // Ceph's shec ignores the word.
        if matches!(self, Plugin::Clay | Plugin::Jerasure) {
            check_mapping(&words, &layout)?;
        }
        place(&mut words);
        let is_bytewise = layout.code.rows_max() == 1 || layout.rows == Rows::Words;
        Ok(Opened { words, layout, is_bytewise })
    }
}

/// Refuses codes that Ceph cannot or should not use for a pool.
fn check(plugin: Plugin, layout: &Layout) -> Result<(), Refusal> {
    let code = &layout.code;
    let spec = || code.spec().to_string();
    let columns = code.columns();
    if columns > SHARDS_MOST {
        return Err(Refusal::TooWide { spec: spec(), columns });
    }
    if !code.columns_are_interchangeable() || (0..columns).any(|c| code.role(c) != ColumnRole::Device) {
        return Err(Refusal::UnlikeColumns { spec: spec() });
    }
    let is_mixed = |column: usize| {
        let parities = code.column_cells(column).filter(|&cell| code.is_parity(cell)).count();
        parities != 0 && parities != code.rows(column)
    };
    if (0..columns).any(is_mixed) {
        return Err(Refusal::MixedColumns { spec: spec() });
    }
    if layout.chunk_multiple > CHUNK_MULTIPLE_MOST {
        return Err(Refusal::LongChunks { multiple: layout.chunk_multiple });
    }
    // Existing pools of any code are read; a new pool must keep its promise.
    if plugin == Plugin::Pantile {
        code.check_stores().map_err(Refusal::Study)?;
        if code.claim().tolerance == 0 {
            return Err(Refusal::NoTolerance { spec: spec() });
        }
    }
    Ok(())
}

/// Refuses the mappings with which Ceph's own jerasure and clay encode the first k shards, whatever
/// lies there, and write over the others (`mapping=DD_D_D`, tried on 16.2.15).
fn check_mapping(words: &Words, layout: &Layout) -> Result<(), Refusal> {
    let Some(mapping) = words.get("mapping") else { return Ok(()) };
    let columns = layout.code.columns();
    let data = layout.code.data().len() / layout.code.rows_max();
    match is_plain_mapping(mapping, data) && mapping.chars().count() == columns {
        true => Ok(()),
        false => Err(Refusal::Mapping { mapping: mapping.clone(), data }),
    }
}

/// Writes the placement words that are missing or empty, as Ceph's own plug-ins do.
fn place(words: &mut Words) {
    usual(words, "crush-root", "default");
    usual(words, "crush-failure-domain", "host");
    usual(words, "crush-device-class", "");
}

/// Writes a word that is not there or has no value.
fn usual(words: &mut Words, word: &str, value: &str) {
    let there = words.entry(word.to_string()).or_default();
    if there.is_empty() {
        *there = value.to_string();
    }
}

/// A word that is a number; if it is not there it is written, if there is a usual value.
fn number(
    words: &mut Words,
    word: &'static str,
    usual: Option<usize>,
    least: usize,
) -> Result<Option<usize>, Refusal> {
    let there = words.get(word).filter(|value| !value.is_empty());
    let Some(value) = there else {
        if let Some(usual) = usual {
            words.insert(word.to_string(), usual.to_string());
        }
        return Ok(usual);
    };
    match value.parse::<usize>() {
        Ok(number) if number >= least => Ok(Some(number)),
        _ => Err(Refusal::Number { word, value: value.clone(), least }),
    }
}

fn needed(words: &mut Words, word: &'static str, example: &'static str) -> Result<usize, Refusal> {
    number(words, word, None, 1)?.ok_or(Refusal::Missing { word, example })
}

/// Reads a name as Ceph has it.
fn foreign(name: &str) -> Result<Layout, Refusal> {
    let Profile { code, rows, cut, .. } = Profile::parse(name)?;
    match cut {
        Cut::Stripes { multiple_of, .. } => Ok(Layout { code, rows, chunk_multiple: multiple_of }),
        Cut::Cells { .. } | Cut::Pieces { .. } | Cut::Segments { .. } | Cut::Blocks { .. } => {
            unreachable!("chunks of Ceph are cut in stripes")
        }
    }
}

/// The longest text of a code in a profile: the monitors keep it, and every map of the cluster has
/// it.
const TEXT_BYTES_MOST: usize = 12 << 10;

const KNOWN: [&str; 12] =
    ["plugin", "code", "equations", "k", "m", "c", "l", "d", "technique", "w", "packetsize", "stripe_unit"];

fn pantile(words: &mut Words) -> Result<Layout, Refusal> {
    let is_known = |word: &str| {
        KNOWN.contains(&word) || word == "directory" || word == PER_CHUNK || word.starts_with("crush-")
    };
    if let Some(word) = words.keys().find(|word| !is_known(word)) {
        return Err(Refusal::UnknownWord { word: word.clone() });
    }
    if let Some(code) = ceph_named(words.get("plugin").map_or("", String::as_str))? {
        by_name(&code, words)?;
    }
    let layout = match (words.get("equations").cloned(), words.get("code").cloned()) {
        (Some(text), _) => written_out(&text, words)?,
        (None, Some(spec)) => of_code(Code::parse(&spec)?, "code", words)?,
        (None, None) => return in_cephs_words(words),
    };
    let data = layout.code.data().len() / layout.code.rows_max();
    // Ceph counts the space of a pool by these words.
    for (word, need) in [("k", data), ("m", layout.code.columns() - data)] {
        match number(words, word, Some(need), 1)? {
            Some(value) if value != need => {
                let spec = layout.code.spec().to_string();
                return Err(Refusal::OtherCount { word, value: value.to_string(), need, spec });
            }
            _ => {}
        }
    }
    Ok(layout)
}

/// Writes the code of the plug-in's name into a profile.
fn by_name(code: &Code, words: &mut Words) -> Result<(), Refusal> {
    let spec = code.spec().to_string();
    let is_other = words.get("code").is_some_and(|given| *given != spec);
    for (word, is_refused) in [("code", is_other), ("equations", words.contains_key("equations"))] {
        if is_refused {
            return Err(Refusal::Named { word, spec });
        }
    }
    // Rook passes the technique of the default profile with every name.
    words.remove("technique");
    words.insert("code".into(), spec);
    Ok(())
}

/// A code by the text of a code file, in which `;` ends a line as well.
///
/// The profile gets the text without comments, in one line, and the code's spec, which ends with
/// the fingerprint of the equations: from then on it must be the same.
fn written_out(text: &str, words: &mut Words) -> Result<Layout, Refusal> {
    if text.len() > TEXT_BYTES_MOST {
        return Err(Refusal::LongText { bytes: text.len() });
    }
    let code = Code::from_text(&text.replace(';', "\n"))?;
    let spec = code.spec().to_string();
    if let Some(code) = words.get("code").filter(|code| **code != spec) {
        return Err(Refusal::OtherCode { code: code.clone(), spec });
    }
    let text = code.to_text().lines().collect::<Vec<&str>>().join(";");
    if text.len() > TEXT_BYTES_MOST {
        return Err(Refusal::LongText { bytes: text.len() });
    }
    let layout = of_code(code, "equations", words)?;
    words.insert("code".into(), spec);
    words.insert("equations".into(), text);
    Ok(layout)
}

/// The layout of a code that one word of the profile gives.
fn of_code(code: Code, given_by: &'static str, words: &mut Words) -> Result<Layout, Refusal> {
    for word in ["c", "l", "d", "technique", "w"] {
        if words.contains_key(word) {
            return Err(Refusal::Excluded { word, with: given_by });
        }
    }
    let packet = number(words, "packetsize", None, 1)?;
    let (rows, chunk_multiple) =
        ceph_layout(&code, packet).ok_or(Refusal::Excluded { word: "packetsize", with: given_by })?;
    // Missing words of a profile are written into it.
    if let Rows::Packets(packet) = rows {
        number(words, "packetsize", Some(packet), 1)?;
    }
    Ok(Layout { code, rows, chunk_multiple })
}

/// A code by the words that Ceph's own plug-ins take.
fn in_cephs_words(words: &mut Words) -> Result<Layout, Refusal> {
    let example = "code=SPEC, such as code=rs:4+2, or k= and m=";
    let (k, m) = (needed(words, "k", example)?, needed(words, "m", example)?);
    let kinds = ["c", "l", "d"];
    let mut given = kinds.into_iter().filter(|&word| words.contains_key(word));
    let (first, second) = (given.next(), given.next());
    if let (Some(with), Some(word)) = (first, second) {
        return Err(Refusal::Excluded { word, with });
    }
    match (first, words.contains_key("technique")) {
        (Some("c"), _) => shec(words),
        (Some(with), true) => Err(Refusal::Excluded { word: "technique", with }),
        (Some("l"), _) => {
            let l = needed(words, "l", "the size of a group")?;
            foreign(&format!("ceph:plugin=lrc k={k} m={m} l={l}"))
        }
        (Some(_), _) => clay(words),
        (None, true) => jerasure(words),
        (None, false) => foreign(&format!("ceph:plugin=pantile k={k} m={m}")),
    }
}

/// Ceph's shec: k, m and c, all of them or none.
fn shec(words: &mut Words) -> Result<Layout, Refusal> {
    if words.get("technique").is_none_or(String::is_empty) {
        words.insert("technique".into(), "multiple".into());
    }
    let technique = words["technique"].clone();
    if !["single", "multiple"].contains(&technique.as_str()) {
        return Err(Refusal::Choice { word: "technique", value: technique, known: "single or multiple" });
    }
    let names = ["k", "m", "c"];
    let (k, m, c) = match names.iter().any(|&word| words.contains_key(word)) {
        false => (4, 3, 2),
        true => {
            let example = "k, m and c, or none of them for 4, 3 and 2";
            (needed(words, "k", example)?, needed(words, "m", example)?, needed(words, "c", example)?)
        }
    };
    // Ceph takes any other value for 8.
    let w = words.get("w").and_then(|w| w.parse().ok()).filter(|w| [8, 16, 32].contains(w)).unwrap_or(8);
    foreign(&format!("ceph:plugin=shec k={k} m={m} c={c} technique={technique} w={w}"))
}

/// Ceph's clay, over jerasure, isa or shec.
fn clay(words: &mut Words) -> Result<Layout, Refusal> {
    let or = |value: Option<usize>, usual: usize| value.unwrap_or(usual);
    let k = or(number(words, "k", Some(4), 2)?, 4);
    let m = or(number(words, "m", Some(2), 1)?, 2);
    let most = k.saturating_add(m).saturating_sub(1);
    let d = or(number(words, "d", Some(most), 1)?, most);
    let mut name = format!("ceph:plugin=clay k={k} m={m} d={d}");
    for word in ["scalar_mds", "technique"] {
        if let Some(value) = words.get(word).filter(|value| !value.is_empty()) {
            name += &format!(" {word}={value}");
        }
    }
    foreign(&name)
}

const PER_CHUNK: &str = "jerasure-per-chunk-alignment";

/// Defaults of a technique of Ceph's jerasure, and the words that it accepts.
struct Usual {
    k: usize,
    m: usize,
    w: usize,
    has_packets: bool,
    aligns_per_chunk: bool,
}

fn jerasure(words: &mut Words) -> Result<Layout, Refusal> {
    let known =
        "reed_sol_van, reed_sol_r6_op, cauchy_orig, cauchy_good, liberation, blaum_roth or liber8tion";
    let technique = words.get("technique").cloned().unwrap_or_default();
    let usual = |k, m, w, has_packets, aligns_per_chunk| Usual { k, m, w, has_packets, aligns_per_chunk };
    let usual = match technique.as_str() {
        "reed_sol_van" => usual(7, 3, 8, false, true),
        "reed_sol_r6_op" => usual(7, 2, 8, false, false),
        "cauchy_orig" | "cauchy_good" => usual(7, 3, 8, true, true),
        "liberation" | "blaum_roth" => usual(2, 2, 7, true, false),
        "liber8tion" => usual(2, 2, 8, true, false),
        "" => return Err(Refusal::Missing { word: "technique", example: known }),
        _ => return Err(Refusal::Choice { word: "technique", value: technique, known }),
    };
    jerasure_of(words, &technique, &usual)
}

fn jerasure_of(words: &mut Words, technique: &str, of: &Usual) -> Result<Layout, Refusal> {
    let or = |value: Option<usize>, usual: usize| value.unwrap_or(usual);
    let k = or(number(words, "k", Some(of.k), 2)?, of.k);
    let m = or(number(words, "m", Some(of.m), 1)?, of.m);
    let w = or(number(words, "w", Some(of.w), 1)?, of.w);
    let mut name = format!("ceph:plugin=jerasure technique={technique} k={k} m={m} w={w}");
    if of.has_packets {
        let packet = or(number(words, "packetsize", Some(2048), 1)?, 2048);
        name += &format!(" packetsize={packet}");
    }
    if of.aligns_per_chunk {
        usual(words, PER_CHUNK, "false");
        let value = words[PER_CHUNK].clone();
        let per_chunk = match value.as_str() {
            "yes" | "true" => "true",
            _ => "false",
        };
        name += &format!(" {PER_CHUNK}={per_chunk}");
    }
    foreign(&name)
}
