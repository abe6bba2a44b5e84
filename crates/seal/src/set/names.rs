//! Names of the files of a set.

use pantile_format::SetId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub(crate) const SHARD: &str = ".shard";
pub(crate) const TEMP: &str = ".tmp";
pub(crate) const JOURNAL: &str = ".journal";
pub(crate) const REPAIR: &str = ".repair";
const VERIFIED: &str = ".verified";
const UNHEALED: &str = ".unhealed";
/// The name of the lock file in a directory, which exists only while a command writes there.
pub(crate) const LOCK: &str = ".pantile.lock";
const STRAY: &str = ".pantile-";

/// A column that no code has: for temporary files that do not become shards.
pub(crate) const NO_COLUMN: usize = u32::MAX as usize;

/// The name of a set, and the directory of its files.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) dir: PathBuf,
    pub(crate) name: Vec<u8>,
    pub(crate) columns: usize,
    /// The directory of the shard, by column. Shards of other columns are in `dir`.
    pub(crate) elsewhere: BTreeMap<usize, PathBuf>,
}

impl Names {
    /// Returns the names of the files of a set in a directory.
    pub(crate) fn new(dir: PathBuf, name: Vec<u8>, columns: usize) -> Names {
        Names { dir, name, columns, elsewhere: BTreeMap::new() }
    }

    pub(crate) fn dirs(&self) -> BTreeSet<&Path> {
        self.elsewhere.values().chain([&self.dir]).map(PathBuf::as_path).collect()
    }

    fn file(&self, rest: &str) -> PathBuf {
        let mut name = self.name.clone();
        name.extend_from_slice(rest.as_bytes());
        self.dir.join(OsString::from_vec(name))
    }

    /// Returns `NAME.07.shard`; the column has as many digits as the last column needs, at least
    /// two.
    pub(crate) fn shard(&self, column: usize) -> PathBuf {
        let digits = self.columns.saturating_sub(1).max(10).ilog10() as usize + 1;
        let path = self.file(&format!(".{column:0digits$}{SHARD}"));
        match (self.elsewhere.get(&column), path.file_name()) {
            (Some(dir), Some(file)) => dir.join(file),
            _ => path,
        }
    }

    /// Returns the name of a shard with more digits: another spelling of the same column, used only
    /// briefly.
    pub(crate) fn with_digits_more(&self, column: usize, more: usize) -> OsString {
        let digits = self.columns.saturating_sub(1).max(10).ilog10() as usize + 1 + more;
        let name = self.file(&format!(".{column:0digits$}{SHARD}"));
        name.file_name().unwrap_or_default().to_os_string()
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.file(JOURNAL)
    }

    /// Returns the path of the journal of a repair of originals in place.
    pub(crate) fn repair(&self) -> PathBuf {
        self.file(REPAIR)
    }

    /// Returns the path of the file with the times at which stripes were verified by shares.
    pub(crate) fn verified(&self) -> PathBuf {
        self.file(VERIFIED)
    }

    /// Returns the path of the file with the originals that `heal` did not restore.
    pub(crate) fn unhealed(&self) -> PathBuf {
        self.file(UNHEALED)
    }
}

/// Returns the path of the temporary file that is later renamed to `path`.
pub(crate) fn temp(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(TEMP);
    PathBuf::from(name)
}

/// Returns the path of a temporary file of a set in a directory that is not its own. It has a
/// column if it becomes a shard there.
///
/// The length of the name does not depend on the final name, which may already have the greatest
/// length.
pub(crate) fn stray(dir: &Path, set: SetId, column: Option<usize>) -> PathBuf {
    let column = column.map(|column| format!(".{column}")).unwrap_or_default();
    dir.join(format!("{STRAY}{set}{column}{TEMP}"))
}

/// Returns the UUID of the set to which a temporary file belongs by its name.
pub(crate) fn stray_of(file: &OsStr) -> Option<&str> {
    const UUID_LEN: usize = 36;
    let rest = file.to_str()?.strip_prefix(STRAY)?.strip_suffix(TEMP)?;
    let (set, column) = rest.split_at_checked(UUID_LEN)?;
    let is_dash = |i: usize| matches!(i, 8 | 13 | 18 | 23);
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let is_uuid = set.bytes().enumerate().all(|(i, b)| if is_dash(i) { b == b'-' } else { is_hex(b) });
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_column = column.is_empty() || column.strip_prefix('.').is_some_and(digits);
    (is_uuid && is_column).then_some(set)
}

/// Returns the column in the file name of a shard, if it is a shard of the set `name`.
pub(crate) fn column_of(file: &OsStr, name: &[u8]) -> Option<usize> {
    let digits = file.as_bytes().strip_prefix(name)?.strip_prefix(b".")?.strip_suffix(SHARD.as_bytes())?;
    let all_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if all_digits { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// Returns the name of the set from the file name of a shard, or of a temporary shard.
pub(crate) fn set_of(file: &OsStr) -> Option<Vec<u8>> {
    let bytes = file.as_bytes();
    let bytes = bytes.strip_suffix(TEMP.as_bytes()).unwrap_or(bytes).strip_suffix(SHARD.as_bytes())?;
    let dot = bytes.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    let digits = &bytes[dot + 1..];
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| bytes[..dot].to_vec())
}

/// Returns the name of the set from the file name of a journal.
pub(crate) fn journal_name(file: &OsStr) -> Option<&[u8]> {
    file.as_bytes().strip_suffix(JOURNAL.as_bytes()).filter(|name| !name.is_empty())
}

/// True if a file in the set's directory belongs to the set by its name, temporary files included.
pub(crate) fn is_own(file: &OsStr, name: &[u8]) -> bool {
    let bytes = file.as_bytes();
    let bytes = bytes.strip_suffix(TEMP.as_bytes()).unwrap_or(bytes);
    column_of(OsStr::from_bytes(bytes), name).is_some()
        || journal_name(OsStr::from_bytes(bytes)) == Some(name)
        || [REPAIR, VERIFIED].iter().any(|end| bytes.strip_suffix(end.as_bytes()) == Some(name))
}

pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns a name as text. Different names have different texts: a byte that is not UTF-8 is
/// written `\xHH`, and so is a backslash that could be mistaken for the start of such an escape.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            let looks_so = || {
                let next: Vec<u8> = valid.bytes().skip(at + 1).take(3).collect();
                matches!(next[..], [b'x', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
            };
            match c == '\\' && looks_so() {
                true => text.push_str("\\x5c"),
                false => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// Returns a path as text, by the rules of [`shown`].
pub(crate) fn shown_path<P: AsRef<Path> + ?Sized>(path: &P) -> String {
    shown(path.as_ref().as_os_str().as_bytes())
}

/// Returns the directory of a file.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_have_different_texts() {
        let back = |text: &str| -> Vec<u8> {
            let mut bytes = text.bytes().collect::<Vec<u8>>();
            let mut at = 0;
            while at + 3 < bytes.len() {
                let hex =
                    std::str::from_utf8(&bytes[at + 2..at + 4]).ok().filter(|_| &bytes[at..at + 2] == b"\\x");
                if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    bytes.splice(at..at + 4, [byte]);
                }
                at += 1;
            }
            bytes
        };
        let names: [&[u8]; 8] =
            [b"plain", b"\xff", b"\\xff", b"\\x5cxff", b"a\\b", b"\xc3\xa4 \xe9", b"\\x\xff", b"\xfe\\"];
        let texts: Vec<String> = names.iter().map(|name| shown(name)).collect();
        for (i, name) in names.iter().enumerate() {
            assert_eq!(back(&texts[i]), *name, "{}", texts[i]);
            assert!(!texts[..i].contains(&texts[i]), "{texts:?}");
        }
        assert_eq!((texts[1].as_str(), texts[2].as_str(), texts[4].as_str()), ("\\xff", "\\x5cxff", "a\\b"));
    }

    #[test]
    fn shards_are_numbered_with_digits_enough_and_found_again() {
        for (columns, column, file) in
            [(6, 3, "a.b.03.shard"), (100, 99, "a.b.99.shard"), (101, 7, "a.b.007.shard")]
        {
            let names = Names::new("/x".into(), b"a.b".to_vec(), columns);
            let path = names.shard(column);
            assert_eq!(path, Path::new("/x").join(file));
            assert_eq!(column_of(path.file_name().unwrap(), b"a.b"), Some(column));
            assert!(is_own(temp(&path).file_name().unwrap(), b"a.b"));
            assert_eq!(column_of(path.file_name().unwrap(), b"a"), None);
        }
        let set = SetId([0xa5; 16]);
        for column in [None, Some(0), Some(107)] {
            let path = stray(Path::new("/x"), set, column);
            assert_eq!(stray_of(path.file_name().unwrap()), Some(set.to_string().as_str()), "{path:?}");
        }
        for name in [".pantile-1.tmp", ".pantile-.tmp", ".pantile-a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5.x.tmp"]
        {
            assert_eq!(stray_of(OsStr::new(name)), None, "{name}");
        }
        assert!(is_own(OsStr::new("a.repair.tmp"), b"a") && !is_own(OsStr::new("b.repair"), b"a"));
        assert!(is_own(OsStr::new("a.journal"), b"a") && !is_own(OsStr::new("a.b.journal"), b"a"));
        assert!(!is_own(OsStr::new("a.txt"), b"a") && !is_own(OsStr::new("a.+1.shard"), b"a"));
    }
}
