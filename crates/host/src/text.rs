//! Texts with parts from untrusted sources, made harmless for a terminal or a shell.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// True if a terminal shows a character as itself. It is not a control character and does not
/// change how the text around it is displayed.
pub fn is_harmless(c: char) -> bool {
    let hides = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !hides
}

/// Returns a text with escapes in place of control characters, and of characters that change how
/// the text is displayed.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_harmless(c) {
            true => out.push(c),
            false => out.extend(c.escape_default()),
        }
    }
    out
}

/// Returns a word in shell syntax, safe for a terminal. Control characters are written as
/// `$'\033'`, which bash, zsh and the POSIX shell of 2024 read.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    let Some(text) = word.to_str().filter(|text| text.chars().all(is_harmless)) else {
        let mut out = String::from("$'");
        for &byte in word.as_bytes() {
            match byte {
                b'\'' | b'\\' => out.extend(['\\', char::from(byte)]),
                b' '..=b'~' => out.push(char::from(byte)),
                _ => {
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
        }
        out.push('\'');
        return out;
    };
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_alphanumeric() && !"_-./:,+@%=".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host name in a forged claim can contain such characters; a zero byte would also end the
    /// text in a C program.
    #[test]
    fn control_characters_become_escapes() {
        let host = "\u{1b}]0;owned\u{7}\u{9b}2J\0\n\u{202e}ä";
        assert_eq!(harmless(host), r"\u{1b}]0;owned\u{7}\u{9b}2J\u{0}\n\u{202e}ä");
        assert!(harmless(host).chars().all(is_harmless));
    }
}
