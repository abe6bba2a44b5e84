//! Codes as people type them: `RAID-6`, `raidz2`, `4+2`, `k=4 m=2`, `rs10+4`, `rs:6/3`.
//!
//! [`Code::parse`] reads the text form, which is also the stored one, and the exact names of other
//! systems. [`Code::parse_typed`] also reads texts that differ from these in case, in hyphens or in
//! the separators of numbers. A name without numbers is completed by the number of disks.
//!
//! ```text
//! RAID-6:4  Raid6:4  raid6:4+2  6 disks and raid6, RAID-6 or raidz2        raid6:4
//! 4+2  4+2p  k=4,m=2  ec:4+2  rs4+2  rs:4/2  rs:4,2  reed-solomon:4+2      rs:4+2
//! ```

use crate::families::{Family, Width, families};
use crate::{Code, CodeError, foreign};

impl Code {
    /// Reads a code as a user types it; `disks` is the number of disks, if it is known.
    ///
    /// Errors: those of [`Code::parse`], for the text as it was typed; a name for which the number
    /// of disks is missing or unsuitable.
    pub fn parse_typed(text: &str, disks: Option<usize>) -> Result<Code, CodeError> {
        let as_typed = match Code::parse(text) {
            Ok(code) => return Ok(code),
            Err(error) => error,
        };
        let plain = text.trim().to_ascii_lowercase();
        match read(&plain, disks) {
            Read::Spec(spec) => Code::parse(&spec),
            Read::Fault(error) => Err(error),
            Read::Nothing => Err(as_typed),
        }
    }

    /// True if a text is the name of a code or a spec, whether the code exists or not.
    ///
    /// It recognizes `mirror`, `raid6` or `RAIDZ2` where another word was expected.
    pub fn is_named(text: &str) -> bool {
        !matches!(
            Code::parse_typed(text, Some(6)),
            Err(CodeError::Syntax { .. } | CodeError::UnknownFamily { .. } | CodeError::NeedsFile { .. })
        )
    }
}

/// The result of reading a typed text.
enum Read {
    Spec(String),
    Fault(CodeError),
    /// The text resembles no code.
    Nothing,
}

fn fault(name: &str, fault: String) -> Read {
    Read::Fault(CodeError::Foreign { name: name.into(), fault })
}

/// Words that users type for Reed-Solomon codes in general.
const REED_SOLOMON: [&str; 5] = ["reed-solomon", "reedsolomon", "ec", "erasure", "mds"];

fn read(plain: &str, disks: Option<usize>) -> Read {
    let (name, arguments) = cut(plain);
    let name: String = name.chars().filter(|c| !"-_ ".contains(*c)).collect();
    let numbers = numbers(arguments);
    if let ("ec", [parity], false) = (name.as_str(), &numbers[..], arguments.contains('=')) {
        return of_minio(plain, *parity, disks);
    }
    let is_general = name.is_empty() || REED_SOLOMON.contains(&name.as_str());
    let family = families().iter().find(|family| match is_general {
        true => family.name == "rs",
        false => family.name == name,
    });
    match (family, arguments.is_empty()) {
        (Some(_), true) if is_general => Read::Nothing,
        (Some(family), true) => of_disks(family, disks),
        (Some(family), false) => with_arguments(family, arguments, &numbers),
        (None, _) => of_others(plain, &name, arguments, disks),
    }
}

/// Splits a text into the name and the arguments: at a colon, or where the numbers start.
fn cut(plain: &str) -> (&str, &str) {
    if let Some((name, arguments)) = plain.split_once(':') {
        return (name, arguments.trim());
    }
    let is_shape = |rest: &str| numbers(rest).len() == 2 || rest.starts_with(['(', ' ']);
    let shape = |at: usize| {
        let rest = plain[at..].trim_start_matches(['-', '_']);
        (rest.starts_with(|c: char| c.is_ascii_digit() || "( ".contains(c)) && is_shape(rest)).then_some(rest)
    };
    if plain.starts_with("k=") {
        return ("", plain);
    }
    // The name is the longest family name with which the text begins; the rest are the numbers.
    let known = families().iter().map(|family| family.name).filter(|name| plain.starts_with(name));
    let general = REED_SOLOMON.into_iter().filter(|name| plain.starts_with(name));
    let name = known.chain(general).max_by_key(|name| name.len()).unwrap_or("");
    match shape(name.len()) {
        Some(rest) if !rest.trim().is_empty() => (name, rest),
        _ => (plain, ""),
    }
}

/// The numbers of `6+3`, `6/3`, `6,3`, `6:3`, `(6, 3)`, `6+3p`, `k=6,m=3` or `4`; none if the text
/// has anything else.
fn numbers(text: &str) -> Vec<usize> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')').trim_end_matches('p');
    let parts: Vec<&str> = text.split(|c: char| "+/,:-".contains(c)).map(str::trim).collect();
    if parts.contains(&"") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (word, key) in parts.iter().flat_map(|part| part.split(' ')).zip(["k=", "m=", ""]) {
        let digits = word.strip_prefix(key).unwrap_or(word);
        let is_plain = digits.len() < 7 && digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(number) if is_plain && !key.is_empty() && (digits == "0" || !digits.starts_with('0')) => {
                found.push(number);
            }
            _ => return Vec::new(),
        }
    }
    found
}

fn with_arguments(family: &Family, arguments: &str, numbers: &[usize]) -> Read {
    let name = family.name;
    match (family.width, numbers) {
        (Width::DataPlus(_), [k, m]) => Read::Spec(format!("{name}:{k}+{m}")),
        (Width::DataAnd(parities), [k, m]) if *m == parities => Read::Spec(format!("{name}:{k}")),
        (Width::DataAnd(_) | Width::Disks, [number]) => Read::Spec(format!("{name}:{number}")),
        _ => Read::Spec(format!("{name}:{}", arguments.replace(' ', ""))),
    }
}

fn of_disks(family: &Family, disks: Option<usize>) -> Read {
    let Some(disks) = disks else {
        return Read::Fault(CodeError::MissingArgument {
            family: family.name,
            argument: "arguments after a colon",
            forms: family.forms,
        });
    };
    match family.spec_on(disks) {
        Ok(spec) => Read::Spec(spec),
        Err(error) => fault(family.name, error.to_string()),
    }
}

/// Reads `EC:4` as MinIO does: the number of parities in a set of `disks` drives.
fn of_minio(plain: &str, parity: usize, disks: Option<usize>) -> Read {
    /// The number of drives in an example, if the real number is not known.
    const TYPICAL: usize = 12;
    match (disks, disks.unwrap_or(TYPICAL).checked_sub(parity)) {
        (Some(_), Some(data)) => Read::Spec(format!("rs:{data}+{parity}")),
        (None, Some(data)) => fault(
            plain,
            format!("{parity} parities are meant; with {TYPICAL} disks that is rs:{data}+{parity}"),
        ),
        (_, None) => fault(plain, format!("{parity} parities are more than the disks")),
    }
}

/// Reads names of other systems: those that are a code for this number of disks, or no code at all.
fn of_others(plain: &str, name: &str, arguments: &str, disks: Option<usize>) -> Read {
    if let Some(spec) = foreign::same_on(name, disks.filter(|_| arguments.is_empty())) {
        return Read::Spec(spec);
    }
    let counted = disks.map_or(String::new(), |disks| format!(":{disks}"));
    let arguments = if arguments.is_empty() { counted } else { format!(":{arguments}") };
    if let Some(error) = foreign::relative(&format!("{name}{arguments}")) {
        return Read::Fault(error);
    }
    let example = match name {
        "isa" | "ceph" | "clayceph" => "'ceph:plugin=isa k=8 m=3'",
        "isal" => "'isal:cauchy k=10 m=4'",
        "jerasure" => "'ceph:plugin=jerasure k=8 m=3', or reed_sol_van by 'jerasure:reed_sol_van k=8 m=3'",
        "klauspost" => "'klauspost:RS(10,4)'",
        "hdfs" | "ozone" => "RS-6-3-1024k",
        "raid" | "parity" => "raid5:4 (any 1 disk of 5 can fail) or raid6:4 (any 2 of 6)",
        _ => return Read::Nothing,
    };
    fault(plain, format!("it names a system and no code of it; write for example {example}"))
}
