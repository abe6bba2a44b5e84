//! Sentences about losses and cut-off changes, and the lists and numbers in them.

use crate::report::{Losses, Unfinished};
use std::fmt;
use std::path::PathBuf;

impl fmt::Display for Losses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "more is lost than the code tolerates: blocks of columns {} are missing in {} (the first is {}), and {} cannot be recovered whole",
            numbers(&self.columns),
            counted(self.stripes, "stripe", "stripes"),
            self.first_stripe,
            counted(self.file_count, "file", "files")
        )?;
        if let Some(first) = self.files.first() {
            write!(out, " (the first is {first})")?;
        }
        // In mode full the holders of columns are shards; beside originals they can also be files.
        let (word, of) = match self.holders.is_empty() {
            true => ("columns ", numbers(&self.columns)),
            false => ("", list_most(&self.holders)),
        };
        let sets: Vec<String> = match self.holders.is_empty() {
            true => self.enough.iter().take(SETS_SHOWN).map(|set| format!("{{{}}}", numbers(set))).collect(),
            false => self
                .enough_holders
                .iter()
                .take(SETS_SHOWN)
                .map(|set| format!("{{{}}}", list_most(set)))
                .collect(),
        };
        match (self.any, sets.is_empty()) {
            (true, _) if self.bring_back > 1 && self.enough_count == 1 => {
                write!(out, "; bring back all of {word}{of}")?;
            }
            (true, _) => write!(out, "; bring back any {} of {word}{of}", self.bring_back)?,
            (false, false) => {
                write!(out, "; bring back {} of {word}{of}: {}", self.bring_back, sets.join(" or "))?;
                match self.enough_count.saturating_sub(sets.len() as u64) {
                    0 => {}
                    more => write!(out, " or one of {more} other sets")?,
                }
            }
            (false, true) => {}
        }
        self.unfinished.as_ref().map_or(Ok(()), |unfinished| unfinished.fmt(out))
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { journal, generation, have, lack } = self;
        let fewer = numbers(if have.len() < lack.len() { have } else { lack });
        let (lack, have) = (numbers(lack), numbers(have));
        match have.is_empty() {
            false => write!(
                out,
                ". But a change was cut off: the shards of columns {have} are of generation {generation}, those of columns {lack} of the \
                 one before. Its journal, {journal}, is in another directory, the one that was sealed into, with links to \
                 these shards; any command on that directory finishes it. Only if there is none, move the shards of \
                 columns {fewer} away, and heal what is left"
            ),
            true => write!(
                out,
                ". But a change to generation {generation} was under way in the shards of columns {lack}: if there is a journal, {journal}, in \
                 another directory, the one that was sealed into, with links to these shards, any command on that directory finishes it"
            ),
        }
    }
}

/// The number of column sets that a sentence lists.
const SETS_SHOWN: usize = 4;

/// Returns a list as text, cut off after a few items.
pub(crate) fn list_most(items: &[String]) -> String {
    const MOST: usize = 6;
    match items.len() {
        len if len > MOST => format!("{} and {} others", items[..MOST].join(", "), len - MOST),
        _ => items.join(", "),
    }
}

/// Returns a number with its noun, in the singular or the plural.
pub(crate) fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

pub(crate) fn paths(paths: &[PathBuf]) -> String {
    list(&paths.iter().map(|path| path.display()).collect::<Vec<_>>())
}

/// Returns paths as words of a shell command.
pub(crate) fn words<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> String {
    // A command is quoted in a sentence, so its words have no quotes of their own.
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:,+@%=".contains(c);
    let escaped = |c: char| if is_plain(c) { c.to_string() } else { format!("\\{c}") };
    let word = |path: &PathBuf| match path.display().to_string() {
        text if text.is_empty() || text.contains(char::is_control) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        text => text.chars().map(escaped).collect(),
    };
    paths.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

pub(crate) fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<String>>().join(", ")
}

/// Returns numbers as text in which runs are joined: `0-3, 7`.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(u64, u64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

pub(crate) fn columns(columns: &[usize]) -> String {
    ranges(columns.iter().map(|&column| column as u64))
}

fn numbers(numbers: &[u64]) -> String {
    ranges(numbers.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn many_numbers_are_a_few_ranges() {
        assert_eq!(ranges(95..256), "95-255");
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2, 5, 7, 8");
        assert_eq!(ranges([u64::MAX]), u64::MAX.to_string());
        assert_eq!(ranges([3, 1, 2]), "3, 1, 2");
    }
}
