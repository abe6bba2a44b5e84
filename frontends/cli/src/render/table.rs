//! A plain table: aligned columns, a rule under the head, no frame, so that it can be pasted
//! anywhere.

use crate::terminal::Terminal;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

pub struct Table {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Widest cell that widens its column; a longer one only lengthens its own row.
const WIDEST: usize = 160;

impl Table {
    /// Begins a table with a head per column; one that starts with '>' is aligned to the right, as
    /// numbers are.
    pub fn new(head: &[&str]) -> Table {
        let head = head
            .iter()
            .map(|text| match text.strip_prefix('>') {
                Some(text) => (text.to_string(), Align::Right),
                None => (text.to_string(), Align::Left),
            })
            .collect();
        Table { head, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.head.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Returns the table. On a terminal it is no wider than the screen, if its words allow that.
    ///
    /// The last column, if aligned to the left, is wrapped. On a terminal a table that is still too
    /// wide has its heads and texts wrapped; if its numbers alone are too wide, it is split into
    /// tables one below the other, each with the same first column.
    pub fn render(&self, terminal: &Terminal) -> String {
        let most = terminal.width;
        let mut widths = self.widths(|text| text.chars().count());
        let of_words = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        let least = self.widths(of_words);
        let last = self.head.len() - 1;
        if self.head[last].1 == Align::Left {
            let before: usize = widths[..last].iter().map(|width| width + GAP).sum();
            let room = most.saturating_sub(before).max(NARROWEST);
            widths[last] = widths[last].min(if terminal.is_terminal { room.max(least[last]) } else { room });
        }
        let all: Vec<usize> = (0..=last).collect();
        if !terminal.is_terminal || total(&widths) <= most {
            return self.part(&all, &widths, terminal);
        }
        self.shrink(&mut widths, &least, most);
        let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
        for column in all {
            let part = parts.last_mut().expect("there is always a part");
            let has: Vec<usize> = part.iter().chain([&column]).map(|&column| widths[column]).collect();
            match part.len() > 1 && total(&has) > most {
                true => parts.push(vec![0, column]),
                false => part.push(column),
            }
        }
        let parts: Vec<String> = parts.iter().map(|part| self.part(part, &widths, terminal)).collect();
        parts.join("\n")
    }

    /// Returns the widest text of each column, as `measure` measures it.
    fn widths(&self, measure: impl Fn(&str) -> usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|(text, _)| measure(text)).collect();
        for row in &self.rows {
            row.iter()
                .zip(&mut widths)
                .for_each(|(cell, width)| *width = (*width).max(measure(cell).min(WIDEST)));
        }
        widths
    }

    /// Narrows columns whose heads are longer than their cells, then texts, until the table fits.
    fn shrink(&self, widths: &mut [usize], least: &[usize], most: usize) {
        let cells =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let of_heads: Vec<usize> = (0..widths.len()).map(|column| cells(column).max(least[column])).collect();
        let is_text = |column: usize| self.head[column].1 == Align::Left;
        let of_texts = |column: usize| if is_text(column) { least[column].max(NARROW) } else { usize::MAX };
        let of_texts: Vec<usize> = (0..widths.len()).map(of_texts).collect();
        for floors in [of_heads, of_texts] {
            while total(widths) > most {
                let able = |column: &usize| widths[*column] > floors[*column];
                let widest = (0..widths.len()).filter(able).max_by_key(|&column| widths[column]);
                let Some(widest) = widest else { break };
                widths[widest] -= 1;
            }
        }
    }

    /// Returns a table of some columns.
    fn part(&self, columns: &[usize], widths: &[usize], terminal: &Terminal) -> String {
        let pick = |cells: &[String]| -> Vec<String> {
            columns.iter().map(|&column| cells[column].clone()).collect()
        };
        let heads: Vec<String> = self.head.iter().map(|(text, _)| text.clone()).collect();
        let aligned: Vec<Align> = columns.iter().map(|&column| self.head[column].1).collect();
        let widths: Vec<usize> = columns.iter().map(|&column| widths[column]).collect();
        let rule: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        let mut out = line(&pick(&heads), &widths, &aligned, |text| terminal.bold(text));
        out.push_str(&line(&rule, &widths, &aligned, |text| terminal.dim(text)));
        self.rows.iter().for_each(|row| out.push_str(&line(&pick(row), &widths, &aligned, str::to_string)));
        out
    }
}

/// Characters between two columns.
const GAP: usize = 2;

/// Fewest characters to which a last column of text is wrapped; [`NARROW`] is the limit of the
/// others.
const NARROWEST: usize = 24;
const NARROW: usize = 10;

fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Returns a row, each cell wrapped to the width of its column.
fn line(cells: &[String], widths: &[usize], aligned: &[Align], paint: impl Fn(&str) -> String) -> String {
    let wrapped: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, &width)| wrap(cell, width)).collect();
    let mut out = String::new();
    for nth in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
        let mut line = String::new();
        for ((cell, &width), align) in wrapped.iter().zip(widths).zip(aligned) {
            let text = cell.get(nth).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(text.chars().count()));
            let text = if text.is_empty() { String::new() } else { paint(text) };
            match align {
                Align::Left => line.push_str(&format!("{text}{padding}")),
                Align::Right => line.push_str(&format!("{padding}{text}")),
            }
            line.push_str(&" ".repeat(GAP));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Breaks a text at blanks into lines of at most `width` characters; a longer word stays whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(word.to_string());
        } else {
            if length > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Returns a text wrapped with a hanging indent: the first line starts at `first`, the others after
/// `rest` blanks.
pub fn hanging(first: &str, text: &str, rest: usize, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(rest).max(24));
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        match i {
            0 => out.push_str(&format!("{first}{line}\n")),
            _ => out.push_str(&format!("{}{line}\n", " ".repeat(rest))),
        }
    }
    out
}

/// Returns a bar of up to `width` characters, in eighths; every value above zero is visible.
pub fn bar(value: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = match most > 0.0 && value > 0.0 {
        true => ((value / most * width as f64 * 8.0).round() as usize).max(1),
        false => 0,
    };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(width: usize) -> Terminal {
        Terminal { colour: false, width, is_terminal: true, progress: false }
    }

    #[test]
    fn no_table_is_wider_than_the_terminal() {
        let mut table = Table::new(&["code", ">a read takes", ">bytes stored per byte", "what it is for"]);
        for nth in 0..3 {
            table.row(vec![
                format!("code-{nth}"),
                "12.5 ms".into(),
                "1.333".into(),
                "two parities of all data, and a text of some length".into(),
            ]);
        }
        for width in [40, 50, 60, 80, 100] {
            let text = table.render(&terminal(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            for word in ["12.5 ms", "1.333", "parities", "code-2", "stored"] {
                assert!(text.contains(word), "{width}: no {word} in\n{text}");
            }
        }
    }

    #[test]
    fn a_table_of_many_numbers_is_split_and_keeps_its_first_column() {
        let mut table = Table::new(&["code", ">one", ">two", ">three", ">four", ">five"]);
        table.row(
            ["rs:6+3", "1234567890", "1234567890", "1234567890", "1234567890", "1234567890"]
                .map(String::from)
                .into(),
        );
        let text = table.render(&terminal(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert_eq!(
            text.matches("rs:6+3").count(),
            2 + usize::from(text.matches("code").count() == 3),
            "{text}"
        );
        assert!(text.contains("five") && text.contains("\n\n"), "{text}");
        assert!(!table.render(&terminal(100)).contains("\n\n"));
    }
}
