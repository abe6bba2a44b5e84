//! The stripe drawn in characters: rows and columns as in the papers, a number for each data
//! element in user order, `P=` for a parity, and in every cell the labels of the equations that
//! contain it.

use crate::describe::{Labels, heading, solved, sum};
use crate::render::table::hanging;
use crate::terminal::Terminal;
use anstyle::{Ansi256Color, Style};
use pantile::{Cell, CellIndex, Code};

/// Colours that are distinct on dark and light backgrounds; equations take them in turn.
const PALETTE: [u8; 12] = [33, 166, 34, 162, 37, 136, 99, 160, 70, 172, 63, 127];

/// Most labels in one cell; a cell with more shows their number.
const LABELS_MOST: usize = 6;

/// Returns the colour of an equation, the same in every drawing.
pub fn style(labels: &Labels, equation: usize) -> Style {
    let label = &labels.of[equation];
    let before: usize = labels.sets[..label.set].iter().sum();
    let index = (before + label.index) % PALETTE.len();
    Style::new().fg_color(Some(Ansi256Color(PALETTE[index]).into()))
}

/// Returns the grid. `all` draws every column, in as many panels as necessary.
pub fn grid(code: &Code, labels: &Labels, terminal: &Terminal, all: bool) -> String {
    let cells: Vec<Drawn> = code.cells().map(|cell| Drawn::new(code, labels, cell)).collect();
    let mut widest = cells.iter().map(Drawn::width).max().unwrap_or(1);
    for column in 0..code.columns() {
        widest = widest.max(heading(code, column).chars().count());
    }
    let fit = (terminal.width.saturating_sub(7) / (widest + 3)).max(2);
    let mut out = String::new();
    for panel in panels(code, fit, all) {
        out.push_str(&draw_panel(code, labels, terminal, &cells, &panel, widest));
    }
    out
}

/// Returns the equations, each solved for its parity. A long list is cut unless `all` is set.
pub fn legend(code: &Code, labels: &Labels, terminal: &Terminal, all: bool) -> String {
    const EQUATIONS_MOST: usize = 40;
    const TERMS_MOST: usize = 24;
    let (equations_most, terms_most) =
        if all { (usize::MAX, usize::MAX) } else { (EQUATIONS_MOST, TERMS_MOST) };
    let mut order: Vec<usize> = (0..code.equations().len()).collect();
    order.sort_by_key(|&e| (labels.of[e].set, labels.of[e].index));
    let widest = order.iter().map(|&e| labels.of[e].text.chars().count()).max().unwrap_or(1);
    let mut out = String::new();
    for &e in order.iter().take(equations_most) {
        let (left, terms) = solved(code, &code.equations()[e], labels.defines[e]);
        let label = &labels.of[e].text;
        let padding = " ".repeat(widest - label.chars().count());
        let first = format!("  {padding}{}  {left} = ", terminal.paint(style(labels, e).bold(), label));
        let indent = 2 + widest + 2 + left.chars().count() + 3;
        out.push_str(&hanging(&first, &sum(code, &terms, terms_most), indent, terminal.width));
    }
    if order.len() > equations_most {
        let more = order.len() - equations_most;
        out.push_str(&format!("  ... and {more} more; --all lists them\n"));
    }
    out
}

/// A cell in characters: its number or `P`, and its labels.
struct Drawn {
    number: String,
    labels: Vec<usize>,
    text: String,
    is_parity: bool,
}

impl Drawn {
    fn new(code: &Code, labels: &Labels, cell: CellIndex) -> Drawn {
        let all = labels.in_cell(cell);
        let is_parity = code.is_parity(cell);
        let (own, other) = all.split_at(usize::from(labels.defined_by[cell.usize()].is_some()));
        let number = match (code.data_position(cell), own.first()) {
            (Some(position), _) => position.to_string(),
            (None, Some(&own)) => format!("P={}", labels.of[own].text),
            (None, None) => "P".to_string(),
        };
        let shown: Vec<usize> = other.iter().copied().take(LABELS_MOST).collect();
        let mut text = String::new();
        for (i, &e) in shown.iter().enumerate() {
            // A number next to a letter needs no separator; two labels of one set need a blank
            // between them.
            if i > 0 && (labels.of[e].set == labels.of[shown[i - 1]].set || labels.of[e].set > 3) {
                text.push(' ');
            }
            text.push_str(&labels.of[e].text);
        }
        if other.len() > shown.len() {
            text = format!("in {}", other.len());
        }
        Drawn { number, labels: other.to_vec(), text, is_parity }
    }

    fn width(&self) -> usize {
        self.number.chars().count() + usize::from(!self.text.is_empty()) + self.text.chars().count()
    }

    fn paint(&self, labels: &Labels, own: Option<usize>, terminal: &Terminal) -> String {
        let number = match own {
            Some(e) if self.is_parity => terminal.paint(style(labels, e).bold().invert(), &self.number),
            _ => self.number.clone(),
        };
        let text = match self.labels.first() {
            _ if !terminal.colour || self.text.starts_with("in ") => self.text.clone(),
            None => String::new(),
            Some(_) => {
                let mut painted = String::new();
                for (i, &e) in self.labels.iter().enumerate() {
                    if i > 0
                        && (labels.of[e].set == labels.of[self.labels[i - 1]].set || labels.of[e].set > 3)
                    {
                        painted.push(' ');
                    }
                    painted.push_str(&terminal.paint(style(labels, e), &labels.of[e].text));
                }
                painted
            }
        };
        if text.is_empty() { number } else { format!("{number} {text}") }
    }
}

/// Returns the columns of each panel; `None` stands for omitted columns.
fn panels(code: &Code, fit: usize, all: bool) -> Vec<Vec<Option<usize>>> {
    const PANELS_MOST: usize = 3;
    let columns: Vec<Option<usize>> = (0..code.columns()).map(Some).collect();
    if all || columns.len() <= fit * PANELS_MOST {
        return columns.chunks(fit).map(<[_]>::to_vec).collect();
    }
    let parities = (0..code.columns())
        .rev()
        .take_while(|&c| code.column_cells(c).all(|cell| code.is_parity(cell)))
        .count();
    let tail = (parities + 1).min(fit / 2);
    let mut panel = columns[..fit - 1 - tail].to_vec();
    panel.push(None);
    panel.extend_from_slice(&columns[columns.len() - tail..]);
    vec![panel]
}

fn draw_panel(
    code: &Code,
    labels: &Labels,
    terminal: &Terminal,
    cells: &[Drawn],
    panel: &[Option<usize>],
    width: usize,
) -> String {
    let rows = panel.iter().flatten().map(|&c| code.rows(c)).max().unwrap_or(0);
    let frame = |left: &str, middle: &str, right: &str| {
        let pieces: Vec<String> = panel.iter().map(|_| "─".repeat(width + 2)).collect();
        format!("     {}\n", terminal.dim(format!("{left}{}{right}", pieces.join(middle))))
    };
    let mut out = String::from("     ");
    for column in panel {
        let text = column.map_or_else(|| "...".to_string(), |c| heading(code, c));
        out.push_str(&format!("  {text:^width$} "));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out.push_str(&frame("┌", "┬", "┐"));
    let bar = terminal.dim("│");
    for row in 0..rows {
        out.push_str(&format!("{row:>4} {bar}"));
        for column in panel {
            let index = column.and_then(|column| code.index(Cell { row, column }));
            let (text, length) = match (index, column) {
                (Some(index), _) => {
                    let drawn = &cells[index.usize()];
                    (drawn.paint(labels, labels.defined_by[index.usize()], terminal), drawn.width())
                }
                (None, Some(_)) => (String::new(), 0),
                (None, None) => ("...".to_string(), 3),
            };
            let left = (width - length.min(width)) / 2;
            let right = width - length.min(width) - left;
            out.push_str(&format!(" {}{text}{} {bar}", " ".repeat(left), " ".repeat(right)));
        }
        out.push('\n');
    }
    out.push_str(&frame("└", "┴", "┘"));
    out
}
