//! Profiles of Ceph's erasure-code plug-ins, and of Pantile's plug-in in Ceph.

use super::{Cut, OfJerasure, Profile, Rows, Words, rows_of_words, technique_code, word_option};
use crate::parts::reed_sol_van::reed_sol_van;
use crate::{Code, CodeBuilder, CodeError};
use pantile_gf::Gf;

/// The word of a Ceph profile that names the plug-in of Pantile.
pub(super) const PLUGIN_HERE: &str = "plugin=pantile";

/// Returns the plug-in of Ceph that a name loads.
///
/// Files of jerasure and shec were made for several kinds of processors until release 12, and
/// releases up to 20 still take their names.
pub fn ceph_plugin(name: &str) -> &str {
    if name.starts_with(NAMED) {
        return "pantile";
    }
    let without_processor =
        ["_generic", "_sse3", "_sse4", "_neon"].iter().find_map(|end| name.strip_suffix(end));
    without_processor.filter(|name| ["jerasure", "shec"].contains(name)).unwrap_or(name)
}

/// The start of names of Pantile's plug-in that have a code in them.
const NAMED: &str = "pantile_";

/// Returns the code in a name by which Ceph loads Pantile's plug-in: `pantile_` and a spec, with `_`
/// for each `:`, `,` and `+`, such as `pantile_shec_6_4_3`.
///
/// `None` for a name without a code, `pantile` among them. Errors: the name has none that is known.
pub fn ceph_named(plugin: &str) -> Result<Option<Code>, CodeError> {
    let Some(name) = plugin.strip_prefix(NAMED) else { return Ok(None) };
    let (family, arguments) = name.split_once('_').unwrap_or((name, ""));
    // No family has both forms: k+m, or k and m as arguments.
    let specs = [arguments.to_string(), arguments.replacen('_', "+", 1)];
    let codes =
        specs.iter().filter_map(|spec| Code::parse(&format!("{family}:{}", spec.replace('_', ","))).ok());
    let mut codes = codes.filter(|code| code.spec().to_string().replace([':', ',', '+'], "_") == name);
    codes.next().map(Some).ok_or_else(|| CodeError::Foreign {
        name: plugin.into(),
        fault: "'pantile_' needs the spec of a code behind it, with _ for each : , and +, such as \
                pantile_shec_6_4_3 for shec:6,4,3; 'pantile codes' lists the codes"
            .into(),
    })
}

/// The plug-ins and techniques of Ceph 16 to 20.
pub(super) fn ceph(mut words: Words) -> Result<Profile, CodeError> {
    let Some(plugin) = words.value("plugin")? else {
        return Err(words.wrong("plugin= is missing".into()));
    };
    // These words choose where chunks go, not their content.
    words.words.retain(|word| !["crush-", "ruleset-", "directory="].iter().any(|key| word.starts_with(key)));
    let unit = words.number("stripe_unit")?;
    let (code, rows, align) = match ceph_plugin(&plugin) {
        "jerasure" => ceph_jerasure(&mut words)?,
        "isa" => (ceph_isa(&mut words)?, Rows::Pieces, 32),
        "shec" => ceph_shec(&mut words)?,
        "lrc" => (ceph_lrc(&mut words)?, Rows::Pieces, 32),
        "clay" => ceph_clay(&mut words)?,
        "pantile" => ceph_pantile(&plugin, &mut words)?,
        other => {
            return Err(words.wrong(format!(
                "there is no plug-in '{other}'; isa, jerasure, shec, lrc, clay and pantile are known"
            )));
        }
    };
    let usual = unit.unwrap_or(4096usize.next_multiple_of(align));
    if !usual.is_multiple_of(align) {
        return Err(words.wrong(format!(
            "a stripe_unit of {usual} bytes is no multiple of {align}, as this profile needs"
        )));
    }
    words.finish(code, rows, Cut::Stripes { usual, multiple_of: align })
}

fn ceph_jerasure(words: &mut Words) -> Result<OfJerasure, CodeError> {
    let technique = words.value("technique")?.unwrap_or("reed_sol_van".into());
    let is_per_chunk = match words.value("jerasure-per-chunk-alignment")?.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(
                words.wrong(format!("jerasure-per-chunk-alignment is '{other}', neither true nor false"))
            );
        }
    };
    let (code, rows, word) = technique_code(words, &technique, Some(2048))?;
    // Ceph rounds an object up to k chunks of w packets of integers or, per chunk, of vectors: in
    // reed_sol_van and the two of cauchy. The others take the key and do not look at it.
    let align = match (is_per_chunk, rows) {
        (true, Rows::Packets(packet))
            if technique.starts_with("cauchy") && (word * packet).is_multiple_of(16) =>
        {
            word * packet
        }
        (true, Rows::Packets(packet)) if technique.starts_with("cauchy") => {
            return Err(words.wrong(format!(
                "with jerasure-per-chunk-alignment and w x packetsize = {} Ceph makes chunks of no whole packets; 16 must divide it",
                word * packet
            )));
        }
        (_, Rows::Packets(packet)) => word * packet * 4,
        (true, _) if technique == "reed_sol_van" => word * 16,
        _ => word * 4,
    };
    Ok((code, rows, align))
}

/// Chunks of a code of one row are whole vectors of 64 bytes in the plug-in of Pantile.
const CHUNK_MULTIPLE_BYTES: usize = 64;

/// Bytes of a packet of a code of several rows in that plug-in, unless a profile says otherwise:
/// with up to 8 rows that divide it a chunk of 4096 bytes, Ceph's usual one, is whole groups.
const PACKET_BYTES_USUAL: usize = 512;

/// Returns the places of a code's rows in chunks of Pantile's plug-in, and the unit of chunk
/// lengths.
///
/// `None` if `packet_bytes` is given for a code whose rows are stored in one piece.
pub fn ceph_layout(code: &Code, packet_bytes: Option<usize>) -> Option<(Rows, usize)> {
    let rows = code.rows_max();
    // Rows that are read one by one are stored in one piece.
    let has_parts = (0..code.columns()).any(|column| code.partial_repair(column).is_some());
    match packet_bytes {
        None if rows == 1 || has_parts => Some((Rows::Pieces, CHUNK_MULTIPLE_BYTES * rows)),
        Some(_) if rows == 1 || has_parts => None,
        packet => {
            let packet = packet.unwrap_or(PACKET_BYTES_USUAL);
            Some((Rows::Packets(packet), packet.saturating_mul(rows)))
        }
    }
}

/// The plug-in of Pantile: a code by its spec, or the words of Ceph's own plug-ins. The equations
/// of a code without a family stand beside its spec, as the plug-in writes both into a profile.
fn ceph_pantile(plugin: &str, words: &mut Words) -> Result<OfJerasure, CodeError> {
    if let Some(code) = ceph_named(plugin)? {
        let spec = code.spec();
        if words.value("code")?.is_some_and(|given| given != spec) {
            return Err(words.wrong(format!("this name of the plug-in is {spec}; leave code= out")));
        }
        return ceph_columns(code, words);
    }
    if let Some(text) = words.value("equations")? {
        let code = Code::from_text(&text.replace(';', "\n"))?;
        let spec = code.spec();
        if words.value("code")?.is_some_and(|named| named != spec) {
            return Err(words.wrong(format!("the equations are those of {spec}; leave code= out")));
        }
        return ceph_columns(code, words);
    }
    let Some(spec) = words.value("code")? else {
        let has =
            |key: &str| words.words.iter().any(|word| word.split_once('=').is_some_and(|(k, _)| k == key));
        return match () {
            _ if has("c") => ceph_shec(words),
            _ if has("l") => Ok((ceph_lrc(words)?, Rows::Pieces, 32)),
            _ if has("d") => ceph_clay(words),
            _ if has("technique") => ceph_jerasure(words),
            _ => {
                let (k, m) = words.shape()?;
                Ok((Code::parse(&format!("rs:{k}+{m}"))?, Rows::Pieces, CHUNK_MULTIPLE_BYTES))
            }
        };
    };
    ceph_columns(Code::parse(&spec)?, words)
}

/// A code of the plug-in of Pantile, and the places of its rows.
fn ceph_columns(code: Code, words: &mut Words) -> Result<OfJerasure, CodeError> {
    let spec = code.spec().to_string();
    let data = code.data().len() / code.rows_max();
    for (key, need) in [("k", data), ("m", code.columns() - data)] {
        if words.number(key)?.is_some_and(|value| value != need) {
            return Err(words.wrong(format!("{key} of {spec} is {need}; leave {key}= out")));
        }
    }
    let packet_bytes = words.number("packetsize")?;
    let Some((rows, multiple)) = ceph_layout(&code, packet_bytes) else {
        return Err(words.wrong(format!("{spec} has no packets; leave packetsize= out")));
    };
    Ok((code, rows, multiple))
}

fn ceph_isa(words: &mut Words) -> Result<Code, CodeError> {
    let technique = words.value("technique")?.unwrap_or("reed_sol_van".into());
    let (k, m) = words.shape()?;
    let is_vandermonde = match technique.as_str() {
        "reed_sol_van" => true,
        "cauchy" => false,
        other => {
            return Err(
                words.wrong(format!("there is no technique '{other}'; reed_sol_van and cauchy are known"))
            );
        }
    };
    match m {
        1 => Code::parse(&format!("raid5:{k}")),
        _ if is_vandermonde && (k > 32 || m > 4) => Err(words
            .wrong("Ceph has reed_sol_van of isa up to k=32 and m=4; technique=cauchy goes further".into())),
        _ if is_vandermonde => Code::parse(&format!("rs:{k}+{m},vandermonde")),
        _ => Code::parse(&format!("rs:{k}+{m}")),
    }
}

fn ceph_shec(words: &mut Words) -> Result<OfJerasure, CodeError> {
    let (k, m) = words.shape()?;
    let c = words.needed("c")?;
    let w = words.number("w")?.unwrap_or(8);
    if ![8, 16, 32].contains(&w) {
        return Err(words.wrong(format!("w={w}; shec has w=8, 16 or 32")));
    }
    let technique = match words.value("technique")?.as_deref() {
        None | Some("multiple") => "",
        Some("single") => ",single",
        Some(other) => {
            return Err(
                words.wrong(format!("there is no technique '{other}'; multiple and single are known"))
            );
        }
    };
    let code = Code::parse(&format!("shec:{k},{m},c={c}{technique}{}", word_option(w)))?;
    Ok((code, rows_of_words(w), 4 * w))
}

/// A code, its rows in pieces, and the unit of chunk lengths: 32 bytes of each element.
fn ceph_clay(words: &mut Words) -> Result<OfJerasure, CodeError> {
    let scalar = words.value("scalar_mds")?.unwrap_or("jerasure".into());
    let technique = words.value("technique")?;
    let (k, m) = words.shape()?;
    let matrix = match (scalar.as_str(), technique.as_deref()) {
        ("jerasure", None | Some("reed_sol_van")) => "",
        ("jerasure", Some("reed_sol_r6_op")) => ",raid6",
        ("isa", None | Some("reed_sol_van")) => ",vandermonde",
        ("isa", Some("cauchy")) => ",cauchy1",
        // Ceph has c=2 there: with two parities each is of everything, and jerasure's matrix is
        // left.
        ("shec", None | Some("single" | "multiple")) if m == 2 => "",
        ("shec", _) => return Err(words.wrong("clay over shec is read with m=2 alone".into())),
        ("jerasure" | "isa", technique) => {
            let technique = technique.unwrap_or_default();
            return Err(words.wrong(format!(
                "technique is '{technique}'; clay has reed_sol_van and reed_sol_r6_op of jerasure here, and \
                 reed_sol_van and cauchy of isa"
            )));
        }
        (other, _) => {
            return Err(words.wrong(format!("scalar_mds is '{other}'; jerasure, isa and shec are known")));
        }
    };
    let d = words.number("d")?.unwrap_or(k + m - 1);
    let code = Code::parse(&format!("clay:{k},{m},{d}{matrix}"))?;
    let align = 32 * code.rows_max();
    Ok((code, Rows::Pieces, align))
}

/// (k + m) / l groups, each with its share of data, its share of the global parities and one XOR
/// over both: columns in the order of Ceph's shards.
fn ceph_lrc(words: &mut Words) -> Result<Code, CodeError> {
    for key in ["mapping", "layers"] {
        if words.value(key)?.is_some() {
            return Err(words.wrong(format!("{key}= is not read; write the layers down as a code file")));
        }
    }
    let (k, m) = words.shape()?;
    let l = words.needed("l")?;
    if k + m > 250 || !(k + m).is_multiple_of(l) {
        return Err(
            words.wrong(format!("k + m is {}, which must be a multiple of l={l} and at most 250", k + m))
        );
    }
    let groups = (k + m) / l;
    if !k.is_multiple_of(groups) || !m.is_multiple_of(groups) {
        return Err(words.wrong(format!("k={k} and m={m} must be multiples of (k + m) / l = {groups}")));
    }
    let columns_of = |first: usize, many: usize| -> Vec<usize> {
        (0..groups).flat_map(|group| (0..many).map(move |i| group * (l + 1) + first + i)).collect()
    };
    let (data, globals) = (columns_of(0, k / groups), columns_of(k / groups, m / groups));
    let matrix = reed_sol_van(k, m);
    let mut code = CodeBuilder::uniform(k + m + groups, 1);
    for (r, &column) in globals.iter().enumerate() {
        let terms: Vec<((usize, usize), Gf)> =
            data.iter().enumerate().map(|(j, &of)| ((0, of), matrix.get(r, j))).collect();
        code.define((0, column), terms);
    }
    for local in columns_of(l, 1) {
        code.define_xor((0, local), (local - l..local).map(|column| (0, column)));
    }
    code.finish_checked(&format!("ceph-lrc-{k}-{m}-{l}"))
}
