//! Texts with parts of strangers, made harmless for a terminal.

/// True if a terminal shows a character as itself: it is no control character and does not change
/// how the text is read.
pub fn is_harmless(c: char) -> bool {
    let hides = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !hides
}

/// Returns a text in which control characters, and characters that change how it is read, are
/// escapes.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A forged claim names its host so; a zero would also end the text for a program in C.
    #[test]
    fn control_characters_become_escapes() {
        let host = "\u{1b}]0;owned\u{7}\u{9b}2J\0\n\u{202e}ä";
        assert_eq!(harmless(host), r"\u{1b}]0;owned\u{7}\u{9b}2J\u{0}\n\u{202e}ä");
        assert!(harmless(host).chars().all(is_harmless));
    }
}
