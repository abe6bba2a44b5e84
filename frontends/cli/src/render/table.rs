//! A plain table: aligned columns, a rule under the head, no frame; it survives being pasted
//! anywhere.

use crate::terminal::Terminal;

/// Which side a column is aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

pub struct Table {
    head: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// A longer cell makes its own row longer, and no other one.
const WIDEST: usize = 160;

impl Table {
    /// A head per column; one that starts with '>' is aligned to the right, as numbers are.
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

    /// The table; its last column, if aligned to the left, is wrapped to the width.
    pub fn render(&self, terminal: &Terminal) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|(text, _)| text.chars().count()).collect();
        for row in &self.rows {
            row.iter()
                .zip(&mut widths)
                .for_each(|(cell, width)| *width = (*width).max(cell.chars().take(WIDEST).count()));
        }
        let last = self.head.len() - 1;
        let before: usize = widths[..last].iter().map(|w| w + 2).sum();
        if self.head[last].1 == Align::Left {
            widths[last] = widths[last].min(terminal.width.saturating_sub(before).max(24));
        }
        let mut out = String::new();
        let head: Vec<String> = self.head.iter().map(|(text, _)| text.clone()).collect();
        out.push_str(&self.line(&head, &widths, |text| terminal.bold(text)));
        let rule: Vec<String> = widths.iter().map(|&w| "─".repeat(w)).collect();
        out.push_str(&self.line(&rule, &widths, |text| terminal.dim(text)));
        self.rows.iter().for_each(|row| out.push_str(&self.line(row, &widths, str::to_string)));
        out
    }

    fn line(&self, cells: &[String], widths: &[usize], paint: impl Fn(&str) -> String) -> String {
        let last = cells.len() - 1;
        let wrapped = wrap(&cells[last], widths[last]);
        let mut out = String::new();
        for (i, piece) in wrapped.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let text = match (column == last, i) {
                    (true, _) => piece.as_str(),
                    (false, 0) => cell.as_str(),
                    (false, _) => "",
                };
                let padding = " ".repeat(widths[column].saturating_sub(text.chars().count()));
                let text = if text.is_empty() { String::new() } else { paint(text) };
                match self.head[column].1 {
                    Align::Left => line.push_str(&format!("{text}{padding}")),
                    Align::Right => line.push_str(&format!("{padding}{text}")),
                }
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
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

/// A text wrapped with a hanging indent: the first line starts at `first`, the others at `rest`
/// blanks.
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

/// A bar of up to `width` characters, in eighths; anything above zero shows.
pub fn bar(value: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = match most > 0.0 && value > 0.0 {
        true => ((value / most * width as f64 * 8.0).round() as usize).max(1),
        false => 0,
    };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
