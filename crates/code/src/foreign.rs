//! Names of codes in other systems, and how those systems cut data into chunks.
//!
//! ```text
//! ceph:plugin=isa k=8 m=3 technique=cauchy        a Ceph profile; commas do as well as blanks
//! ceph:plugin=pantile code=shec:6,4,3             a profile of the plug-in here; blanks alone
//! hdfs:RS-6-3-1024k                               a policy of HDFS or Ozone
//! isal:cauchy k=10 m=4                            a matrix of ISA-L
//! jerasure:cauchy_good k=6 m=3 w=8 packetsize=64  a technique of Jerasure
//! klauspost:RS(10,4)                              a codec of klauspost/reedsolomon
//! minio:12+4                                      the same, as backblaze: and rustfs:
//! zfec:k=3 m=10                                   shares of zfec, 3 of 10 of which suffice
//! swift:isa_l_rs_vand k=10 m=4                    fragments of liberasurecode, as Swift has them
//! seaweedfs                                       the shards .ec00 to .ec13 of a SeaweedFS volume
//! ```
//!
//! A [`Profile`] is the code and two further facts of these names: the order of bytes in a column
//! and the lengths that chunks may have. It is data; who cuts by it is the facade.
//!
//! [`Code::parse`] takes all of these names. It also takes three names of a code alone, without a
//! chunk layout: `RS(10,4)` and `RS-6-3-1024k` are `rs:k+m`, `raid1:n` is `mirror:n`. Names that
//! only resemble a code here (`raidz2:6`, `raid10:4`) get suggestions: codes for as many disks that
//! survive at least as many losses ([`CodeError::OtherName`]).

mod ceph;

use self::ceph::{PLUGIN_HERE, ceph};
pub use self::ceph::{ceph_layout, ceph_named, ceph_plugin};
use crate::error::Quoted;
use crate::{Code, CodeBuilder, CodeError};
use pantile_gf::Gf;
use std::collections::BTreeSet;

/// A code as another system names and stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name, with one blank between words.
    pub name: String,
    /// The code. The bytes of its data columns, one column after another, are the user's.
    pub code: Code,
    /// Places of a column's rows in a chunk.
    pub rows: Rows,
    /// Division of data into chunks.
    pub cut: Cut,
    /// Headers before the chunk of each stripe, if there are any.
    pub fragments: Option<Fragments>,
}

/// The backend of liberasurecode whose headers stand before the chunk of each stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// Its number.
    pub backend: u8,
    /// Its version, in the headers that are written.
    pub backend_version: u32,
}

/// Places of a column's rows in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One behind the other; or there is one.
    Pieces,
    /// In packets of so many bytes: one of each row, and so on.
    Packets(usize),
    /// As bytes of little-endian words of as many bytes as there are rows, 2 or 4, in a basis
    /// ([`WordBasis`](crate::words::WordBasis)).
    Words,
}

/// Ways in which a system cuts data into chunks of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Stripe after stripe: the first chunk length of bytes goes to the first data column, the next
    /// to the second. The last stripe is filled up with zeros.
    Stripes {
        /// The length of a chunk that the system takes unless told otherwise.
        usual: usize,
        /// Every chunk length is a multiple of this.
        multiple_of: usize,
    },
    /// Stripes of cells of one fixed length of which the last is not filled up: data cells end with
    /// the data, and parity cells are as long as the first data cell.
    Cells {
        /// The length of a cell.
        cell: usize,
    },
    /// One stripe: the data are cut into as many equal pieces as there are data columns, of which
    /// the last end with zeros.
    Pieces {
        /// Every piece is a multiple of this.
        multiple_of: usize,
    },
    /// Segments of the data, each cut into as many equal pieces as there are data columns, of which
    /// the last end with zeros.
    Segments {
        /// The length of a segment; the last may be shorter.
        bytes: usize,
        /// Every piece is a multiple of this.
        multiple_of: usize,
    },
    /// Stripes of large blocks as long as the data fill them, then of small ones; the last stripe
    /// is filled up with zeros.
    Blocks {
        /// The length of a large block.
        large: usize,
        /// The length of a small block, of which the large one is a multiple.
        small: usize,
    },
}

/// The code of one row whose parities are of the same columns, with coefficients of a Cauchy
/// matrix: which columns suffice hardly ever depends on more, and asking it costs less.
///
/// `None` if a column holds data and parity, a parity is of parities, or there are more than 256
/// columns.
pub fn outline(code: &Code) -> Option<Code> {
    let columns = code.columns();
    let parities_in = |column: usize| code.column_cells(column).filter(|&cell| code.is_parity(cell)).count();
    let is_data: Vec<bool> = (0..columns).map(|column| parities_in(column) == 0).collect();
    let is_mixed = |column: usize| !is_data[column] && parities_in(column) != code.rows(column);
    if columns > 256 || (0..columns).any(is_mixed) {
        return None;
    }
    let mut of = vec![BTreeSet::new(); columns];
    for equation in code.equations() {
        let columns: BTreeSet<usize> =
            equation.terms().iter().map(|&(cell, _)| code.column_of(cell)).collect();
        let (data, parities): (Vec<usize>, Vec<usize>) =
            columns.into_iter().partition(|&column| is_data[column]);
        let [parity] = parities[..] else { return None };
        of[parity].extend(data);
    }
    let mut outline = CodeBuilder::uniform(columns, 1);
    for parity in (0..columns).filter(|&column| !is_data[column]) {
        let coefficient = |column: usize| Gf::ONE / Gf((parity ^ column) as u8);
        outline.define((0, parity), of[parity].iter().map(|&column| ((0, column), coefficient(column))));
    }
    outline.finish_checked("outline").ok()
}

/// True if a `mapping=` of Ceph has the data first and the parity behind, as chunks are stored
/// without one.
pub fn is_plain_mapping(mapping: &str, data: usize) -> bool {
    mapping.chars().enumerate().all(|(shard, place)| (place == 'D') == (shard < data))
}

/// The systems whose names are known, as a name begins.
pub const SYSTEMS: [&str; 11] = [
    "ceph",
    "hdfs",
    "isal",
    "jerasure",
    "klauspost",
    "backblaze",
    "minio",
    "rustfs",
    "zfec",
    "swift",
    "seaweedfs",
];

impl Profile {
    /// Reads a name that says whose chunks are meant.
    ///
    /// Errors: not such a name; a code that the system or Pantile does not have; an option that
    /// would change the chunks and is not known.
    pub fn parse(text: &str) -> Result<Profile, CodeError> {
        let of_ceph = text.trim_start().starts_with("plugin=");
        let (system, rest) = match text.split_once(':') {
            _ if of_ceph => ("ceph", text),
            Some((system, rest)) => (system.trim(), rest),
            None if is_seaweedfs(text) => ("seaweedfs", "10+4"),
            None if is_policy(text) => ("hdfs", text),
            None => return Err(unknown_profile(text)),
        };
        let words = Words::read(text, rest)?;
        match system {
            "ceph" => ceph(words),
            "hdfs" => hdfs(words),
            "isal" => isal(words),
            "jerasure" => jerasure(words),
            "klauspost" | "backblaze" | "minio" | "rustfs" => klauspost(words),
            "zfec" => zfec(words),
            "swift" => swift(words),
            "seaweedfs" => seaweedfs(words),
            _ => Err(unknown_profile(text)),
        }
    }
}

fn unknown_profile(text: &str) -> CodeError {
    CodeError::Foreign {
        name: text.into(),
        fault: format!(
            "it does not say whose chunks are meant; begin with one of {}, such as 'ceph:plugin=isa k=8 m=3', \
             hdfs:RS-6-3-1024k or klauspost:RS(10,4)",
            SYSTEMS.map(|system| format!("{system}:")).join(" ")
        ),
    }
}

/// The code that another system's name means; `None` if the text is no such name.
pub(crate) fn code(text: &str) -> Option<Result<Code, CodeError>> {
    let system = text.split_once(':').map(|(system, _)| system);
    let is_alone = is_seaweedfs(text) || text.starts_with("plugin=");
    if is_alone || system.is_some_and(|system| SYSTEMS.contains(&system)) {
        return Some(Profile::parse(text).map(|profile| profile.code));
    }
    if let Some(copies) = text.strip_prefix("raid1:") {
        return Some(Code::parse(&format!("mirror:{copies}")));
    }
    if is_policy(text) {
        return Some(policy(text).map(|(code, _)| code));
    }
    if let Some((k, m)) = in_brackets(text) {
        return Some(Code::parse(&format!("rs:{k}+{m}")));
    }
    relative(text).map(Err)
}

/// The words of a name: `key=value`, or alone.
struct Words {
    name: String,
    words: Vec<String>,
}

impl Words {
    fn read(name: &str, rest: &str) -> Result<Words, CodeError> {
        // The text of a code is the last word, with blanks in it.
        let (rest, equations) = match rest.find(" equations=") {
            Some(at) => (&rest[..at], Some(Quoted(rest[at..].trim()).to_string())),
            None => (rest, None),
        };
        // A comma between brackets is not one between words, nor is one of a spec.
        let has_spec = rest.split_whitespace().any(|word| word.starts_with(PLUGIN_HERE));
        let mut depth = 0usize;
        let split = |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && (c == ',' && !has_spec || c.is_whitespace())
        };
        // Quoted as in messages, which changes no word of any name.
        let words = rest.split(split).filter(|word| !word.is_empty()).map(|word| Quoted(word).to_string());
        let words: Vec<String> = words.chain(equations).collect();
        let system = name.split_once(':').map(|(system, _)| system.trim());
        let prefix = match system {
            Some(system) if !name.trim_start().starts_with("plugin=") => format!("{system}:"),
            _ if is_policy(name) => "hdfs:".into(),
            _ if is_seaweedfs(name) => "seaweedfs:".into(),
            _ => "ceph:".into(),
        };
        let words = Words { name: format!("{prefix}{}", words.join(" ")), words };
        match words.words.is_empty() {
            true => Err(words.wrong("it names no code".into())),
            false => Ok(words),
        }
    }

    fn wrong(&self, fault: String) -> CodeError {
        CodeError::Foreign { name: self.name.clone(), fault }
    }

    /// Takes the value of a key.
    fn value(&mut self, key: &str) -> Result<Option<String>, CodeError> {
        let is_it = |word: &String| word.split_once('=').is_some_and(|(name, _)| name == key);
        let Some(found) = self.words.iter().position(is_it) else { return Ok(None) };
        let word = self.words.remove(found);
        if self.words.iter().any(is_it) {
            return Err(self.wrong(format!("{key} is given twice")));
        }
        Ok(word.split_once('=').map(|(_, value)| value.to_string()))
    }

    /// Takes the value of a key, which is a number from 1 on.
    fn number(&mut self, key: &str) -> Result<Option<usize>, CodeError> {
        let Some(value) = self.value(key)? else { return Ok(None) };
        match plain_number(&value) {
            Some(number) => Ok(Some(number)),
            None => {
                Err(self.wrong(format!("{key} is '{value}', which is no number from 1 to {NUMBER_MOST}")))
            }
        }
    }

    fn needed(&mut self, key: &str) -> Result<usize, CodeError> {
        self.number(key)?.ok_or_else(|| self.wrong(format!("{key}= is missing")))
    }

    /// Takes the first word that stands alone and is no shape.
    fn alone(&mut self) -> Option<String> {
        let found = self.words.iter().position(|word| !word.contains('=') && shape(word).is_none())?;
        Some(self.words.remove(found))
    }

    /// Takes k and m: `k=8 m=3`, `8+3` or `RS(8,3)`.
    fn shape(&mut self) -> Result<(usize, usize), CodeError> {
        let found = self.words.iter().enumerate().find_map(|(at, word)| Some((at, shape(word)?)));
        match found {
            Some((at, shape)) => {
                self.words.remove(at);
                Ok(shape)
            }
            None => Ok((self.needed("k")?, self.needed("m")?)),
        }
    }

    /// Refuses words that were not used.
    fn finish(self, code: Code, rows: Rows, cut: Cut) -> Result<Profile, CodeError> {
        match self.words.first() {
            None => Ok(Profile { name: self.name, code, rows, cut, fragments: None }),
            Some(word) => Err(self.wrong(format!("'{word}' is not known here; leave it out"))),
        }
    }
}

/// No number in a name is larger; packets of Ceph end there, too.
const NUMBER_MOST: usize = 1 << 20;

fn plain_number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.len() < 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (1..=NUMBER_MOST).contains(number))
}

/// `8+3` or `RS(8,3)`.
fn shape(word: &str) -> Option<(usize, usize)> {
    in_brackets(word).or_else(|| sum(word))
}

fn sum(text: &str) -> Option<(usize, usize)> {
    let (k, m) = text.split_once('+')?;
    Some((plain_number(k)?, plain_number(m)?))
}

/// `RS(10,4)`: data and parity, as klauspost/reedsolomon has it.
fn in_brackets(text: &str) -> Option<(usize, usize)> {
    let inner = text.strip_prefix("RS(").or_else(|| text.strip_prefix("rs("))?.strip_suffix(')')?;
    let (k, m) = inner.split_once(',')?;
    Some((plain_number(k.trim())?, plain_number(m.trim())?))
}

/// A code, the places of its rows, and a number: its w, or the unit of chunk lengths.
type OfJerasure = (Code, Rows, usize);

/// Ceph's w for liberation and blaum_roth where a profile has none.
const SEVEN_ROWS: usize = 7;

/// The code of a technique of Jerasure, with its w and its packets, if it has any.
fn technique_code(
    words: &mut Words,
    technique: &str,
    packet_usual: Option<usize>,
) -> Result<OfJerasure, CodeError> {
    let (is_raid6, is_of_bytes, w_usual) = match technique {
        "reed_sol_van" => (false, true, 8),
        "reed_sol_r6_op" => (true, true, 8),
        "cauchy_orig" | "cauchy_good" => (false, false, 8),
        "liberation" | "blaum_roth" => (true, false, SEVEN_ROWS),
        "liber8tion" => (true, false, 8),
        other => {
            return Err(words.wrong(format!(
                "there is no technique '{other}'; reed_sol_van, reed_sol_r6_op, cauchy_orig, cauchy_good, liberation, \
                 blaum_roth and liber8tion are known"
            )));
        }
    };
    let (k, m) = match is_raid6 && !words.words.iter().any(|word| word.starts_with("m=")) {
        true => (words.needed("k")?, 2),
        false => words.shape()?,
    };
    if is_raid6 && m != 2 {
        return Err(words.wrong(format!("{technique} has m=2, not m={m}")));
    }
    let w = words.number("w")?.unwrap_or(w_usual);
    if is_of_bytes && ![8, 16, 32].contains(&w) {
        return Err(words.wrong(format!("w={w}; {technique} has w=8, 16 or 32")));
    }
    if technique == "liber8tion" && w != 8 {
        return Err(words.wrong(format!("w={w}; {technique} has w=8")));
    }
    let rows = match (is_of_bytes, words.number("packetsize")?.or(packet_usual)) {
        // Ceph takes the key there too, and does not look at it.
        (true, _) => rows_of_words(w),
        (false, None) => return Err(words.wrong("packetsize= is missing".into())),
        (false, Some(packet)) if !packet.is_multiple_of(4) => {
            return Err(words.wrong(format!("packetsize={packet} is no multiple of 4")));
        }
        (false, Some(packet)) => Rows::Packets(packet),
    };
    let spec = match technique {
        "reed_sol_van" => format!("rs:{k}+{m},jerasure{}", word_option(w)),
        "reed_sol_r6_op" => format!("raid6:{k}{}", word_option(w)),
        "cauchy_good" => format!("crs:{k}+{m},w={w}"),
        "cauchy_orig" => format!("crs:{k}+{m},w={w},orig"),
        "liberation" => format!("liberation:{k},w={w}"),
        "blaum_roth" => format!("blaumroth:{k},w={w}"),
        _ => format!("liber8tion:{k}"),
    };
    Ok((Code::parse(&spec)?, rows, w))
}

/// The option of a code over the field of words of w bits; none for bytes.
fn word_option(w: usize) -> String {
    if w == 8 { String::new() } else { format!(",w={w}") }
}

fn rows_of_words(w: usize) -> Rows {
    if w == 8 { Rows::Pieces } else { Rows::Words }
}

/// True if a text has the letters of an HDFS policy.
fn is_policy(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let known = ["RS-LEGACY-", "RS-", "XOR-"].iter().find_map(|codec| text.strip_prefix(codec));
    known.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `RS-6-3-1024k`, `RS-LEGACY-6-3-1024k`, `XOR-2-1-1024k`: the code and the bytes of a cell, which
/// are 1024k where there are none.
fn policy(text: &str) -> Result<(Code, usize), CodeError> {
    let wrong = |fault: &str| CodeError::Foreign { name: text.into(), fault: fault.into() };
    let upper = text.to_ascii_uppercase();
    let (is_legacy, rest) = match upper.strip_prefix("RS-LEGACY-") {
        Some(rest) => (true, rest),
        None => (false, upper.trim_start_matches("RS-").trim_start_matches("XOR-")),
    };
    let parts: Vec<&str> = rest.split('-').collect();
    let (k, m, cell) = match parts[..] {
        [k, m] => (plain_number(k), plain_number(m), Some(1024)),
        [k, m, cell] => (plain_number(k), plain_number(m), cell.strip_suffix('K').and_then(plain_number)),
        _ => (None, None, None),
    };
    let (Some(k), Some(m), Some(kib)) = (k, m, cell) else {
        return Err(wrong("a policy is a codec, data and parity units and a cell, such as RS-6-3-1024k"));
    };
    let code = match (upper.starts_with("XOR-"), is_legacy) {
        (true, _) if m != 1 => return Err(wrong("XOR has one parity unit")),
        (true, _) => Code::parse(&format!("raid5:{k}"))?,
        (false, true) => Code::parse(&format!("rs:{k}+{m},bch"))?,
        (false, false) => Code::parse(&format!("rs:{k}+{m}"))?,
    };
    Ok((code, kib * 1024))
}

fn hdfs(mut words: Words) -> Result<Profile, CodeError> {
    let Some(name) = words.alone().filter(|name| is_policy(name)) else {
        return Err(words.wrong("a policy of HDFS is RS-k-m-CELL, RS-LEGACY-k-m-CELL or XOR-k-1-CELL".into()));
    };
    let (code, cell) = policy(&name)?;
    words.finish(code, Rows::Pieces, Cut::Cells { cell })
}

fn isal(mut words: Words) -> Result<Profile, CodeError> {
    let (k, m) = words.shape()?;
    let code = match words.alone().as_deref() {
        Some("cauchy" | "cauchy1") => Code::parse(&format!("rs:{k}+{m}"))?,
        Some("vand" | "vandermonde" | "rs") => Code::parse(&format!("rs:{k}+{m},vandermonde"))?,
        _ => {
            return Err(words.wrong(
                "the matrix is cauchy (gf_gen_cauchy1_matrix) or vand (gf_gen_rs_matrix), such as isal:cauchy k=10 m=4"
                    .into(),
            ));
        }
    };
    words.finish(code, Rows::Pieces, Cut::Pieces { multiple_of: 1 })
}

fn jerasure(mut words: Words) -> Result<Profile, CodeError> {
    let technique = match words.value("technique")? {
        Some(technique) => technique,
        None => words.alone().unwrap_or_default(),
    };
    let (code, rows, word) = technique_code(&mut words, &technique, None)?;
    // Jerasure works in longs of 8 bytes.
    let multiple_of = match rows {
        Rows::Packets(packet) if !packet.is_multiple_of(8) => {
            return Err(words.wrong(format!("packetsize={packet} is no multiple of 8")));
        }
        Rows::Packets(packet) => word * packet,
        Rows::Pieces | Rows::Words => 8,
    };
    words.finish(code, rows, Cut::Pieces { multiple_of })
}

fn klauspost(mut words: Words) -> Result<Profile, CodeError> {
    let (k, m) = words.shape()?;
    let matrix = match words.alone().as_deref() {
        None => ",backblaze",
        Some("cauchy") if words.name.starts_with("klauspost") => "",
        Some("par1") if words.name.starts_with("klauspost") => ",par1",
        Some(other) => {
            return Err(words.wrong(format!(
                "there is no matrix '{other}' here; leave it out, or write klauspost: with cauchy for WithCauchyMatrix \
                 or par1 for WithPAR1Matrix"
            )));
        }
    };
    let code = Code::parse(&format!("rs:{k}+{m}{matrix}"))?;
    words.finish(code, Rows::Pieces, Cut::Pieces { multiple_of: 1 })
}

/// As zfec counts: `m=` is all shares. `3+7` is data and parity here, too.
fn zfec(mut words: Words) -> Result<Profile, CodeError> {
    let (k, m) = match (words.number("k")?, words.number("m")?) {
        (Some(k), Some(all)) if all > k => (k, all - k),
        (None, None) => words.shape()?,
        _ => {
            return Err(words.wrong(
                "k is the shares that suffice and m, which is larger, all of them, such as zfec:k=3 m=10"
                    .into(),
            ));
        }
    };
    let code = Code::parse(&format!("rs:{k}+{m},zfec"))?;
    words.finish(code, Rows::Pieces, Cut::Pieces { multiple_of: 1 })
}

/// A storage policy of Swift, in the words of swift.conf or shorter: fragments of liberasurecode
/// for each segment of an object, one behind the other.
fn swift(mut words: Words) -> Result<Profile, CodeError> {
    const SEGMENT_BYTES: usize = 1 << 20;
    let bytes = words.number("ec_object_segment_size")?.unwrap_or(SEGMENT_BYTES);
    let kind = match words.value("ec_type")? {
        Some(kind) => kind,
        None => words.alone().unwrap_or_default(),
    };
    let counts = (words.number("ec_num_data_fragments")?, words.number("ec_num_parity_fragments")?);
    let (k, m) = match counts {
        (Some(k), Some(m)) => (k, m),
        _ => words.shape()?,
    };
    // Numbers and versions of the backends in liberasurecode 1.8.
    let (matrix, backend, backend_version) = match kind.as_str() {
        "isa_l_rs_vand" => (",vandermonde", 4, 0x0002_0d00),
        "isa_l_rs_cauchy" => ("", 7, 0x0002_0e01),
        "liberasurecode_rs_vand" => (",liberasurecode", 6, 0x0001_0000),
        other => {
            return Err(words.wrong(format!(
                "there is no ec_type '{other}' here; isa_l_rs_vand, isa_l_rs_cauchy and \
                 liberasurecode_rs_vand are known"
            )));
        }
    };
    let code = Code::parse(&format!("rs:{k}+{m}{matrix}"))?;
    let (rows, multiple_of) = match code.rows_max() {
        1 => (Rows::Pieces, 1),
        _ => (Rows::Words, 2),
    };
    let profile = words.finish(code, rows, Cut::Segments { bytes, multiple_of })?;
    Ok(Profile { fragments: Some(Fragments { backend, backend_version }), ..profile })
}

/// The name without a shape: SeaweedFS has 10+4 shards unless a volume says otherwise.
fn is_seaweedfs(text: &str) -> bool {
    text.trim() == "seaweedfs"
}

/// klauspost's default matrix over blocks of 1 GiB and then of 1 MiB, or in newer volumes over one
/// block for each shard (`uniform`).
fn seaweedfs(mut words: Words) -> Result<Profile, CodeError> {
    const LARGE_BYTES: usize = 1 << 30;
    const SMALL_BYTES: usize = 1 << 20;
    let (k, m) = words.shape()?;
    let cut = match words.alone().as_deref() {
        None => Cut::Blocks { large: LARGE_BYTES, small: SMALL_BYTES },
        Some("uniform") => Cut::Pieces { multiple_of: SMALL_BYTES },
        Some(other) => {
            return Err(words.wrong(format!("there is no layout '{other}'; leave it out, or say uniform")));
        }
    };
    let code = Code::parse(&format!("rs:{k}+{m},backblaze"))?;
    words.finish(code, Rows::Pieces, cut)
}

/// A name of other systems with a number of disks: its meaning, the meaning of its number, its
/// tolerance, and the codes here on as many disks.
struct Relative {
    names: &'static [&'static str],
    what: &'static str,
    typical: usize,
    tolerance: usize,
    instead: fn(usize) -> Vec<String>,
}

const RELATIVES: &[Relative] = &[
    Relative {
        names: &["raid1"],
        what: "copies",
        typical: 2,
        tolerance: 1,
        instead: |n| vec![format!("mirror:{n}")],
    },
    Relative {
        names: &["raid10", "raid1e", "raid01"],
        what: "two copies of everything",
        typical: 4,
        tolerance: 1,
        instead: |n| {
            let copies = format!("lrc:{},{},0", n / 2, n / 2);
            let dense = format!("raid6:{}", n.saturating_sub(2));
            if n.is_multiple_of(2) { vec![copies, dense] } else { vec![dense] }
        },
    },
    Relative {
        names: &["raid2", "raid3", "raid4", "raidz", "raidz1", "draid", "draid1", "shr", "shr1"],
        what: "one parity",
        typical: 5,
        tolerance: 1,
        instead: |n| vec![format!("raid5:{}", n.saturating_sub(1))],
    },
    Relative {
        names: &["raidz2", "raid-dp", "draid2", "shr2"],
        what: "two parities",
        typical: 6,
        tolerance: 2,
        instead: |n| vec![format!("raid6:{}", n.saturating_sub(2))],
    },
    Relative {
        names: &["raidz3", "raid-tec", "draid3"],
        what: "three parities",
        typical: 8,
        tolerance: 3,
        instead: |n| {
            vec![format!("raidq:{}+3", n.saturating_sub(3)), format!("cauchy:{}+3", n.saturating_sub(3))]
        },
    },
    Relative {
        names: &["raid50"],
        what: "two groups of one parity each",
        typical: 6,
        tolerance: 1,
        instead: |n| vec![format!("raid6:{}", n.saturating_sub(2))],
    },
    Relative {
        names: &["raid60"],
        what: "two groups of two parities each",
        typical: 8,
        tolerance: 2,
        instead: |n| vec![format!("cauchy:{}+4", n.saturating_sub(4))],
    },
];

/// Names of [`RELATIVES`] of which no code here has the same groups.
const OF_OTHER_GROUPS: [&str; 5] = ["raid10", "raid1e", "raid01", "raid50", "raid60"];

/// Finds a name, hyphens left out or not.
fn named(name: &str) -> Option<&'static Relative> {
    let is_it = |known: &&str| *known == name || known.replace('-', "") == name;
    RELATIVES.iter().find(|relative| relative.names.iter().any(&is_it))
}

/// The spec of the code that survives the same on so many disks: `raidz2` on 6 is `raid6:4`.
pub(crate) fn same_on(name: &str, disks: Option<usize>) -> Option<String> {
    let found = named(name).filter(|_| !OF_OTHER_GROUPS.contains(&name))?;
    (found.instead)(disks?).into_iter().find(|spec| Code::parse(spec).is_ok())
}

/// The answer to a name that resembles a code, `raidz2` or `raidz2:6`.
pub(crate) fn relative(text: &str) -> Option<CodeError> {
    let (name, disks) = match text.split_once(':') {
        Some((name, disks)) => (name, plain_number(disks)),
        None => (text, None),
    };
    let found = named(name)?;
    let on = |disks: usize| -> Vec<String> {
        let specs = (found.instead)(disks);
        specs.into_iter().filter(|spec| Code::parse(spec).is_ok()).collect()
    };
    let of_so_many = disks.map(|disks| (disks, on(disks))).filter(|(_, instead)| !instead.is_empty());
    let (disks, instead) = of_so_many.unwrap_or_else(|| (found.typical, on(found.typical)));
    Some(CodeError::OtherName {
        name: text.into(),
        what: found.what,
        disks,
        tolerance: found.tolerance,
        instead,
    })
}
