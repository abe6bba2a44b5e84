//! The stripe as a standalone SVG picture, for documents, talks and printers.
//!
//! A cell is tinted in the colour of its group in the first set and shows a chip for every group
//! that it belongs to; a parity cell is filled with the colour of the group whose parity it is.
//! Colours are even in lightness (OKLCH), so that they differ on paper by hue and label only, and
//! follow the viewer's light or dark scheme by a media query. The file needs no font, script or
//! network.

use crate::figure::escape;
use crate::words::{self, heading, solved, sum};
use pantile::code::Labels;
use pantile::{Cell, CellIndex, Code};
use std::fmt::Write;

const MARGIN: usize = 32;
const CELL_HEIGHT: usize = 50;
const GAP: usize = 4;
const CHIP_HEIGHT: usize = 16;
const ROW_HEADING: usize = 30;
const LINE: usize = 20;
/// The most columns of a panel; a wider stripe continues in another panel below.
const PANEL_COLUMNS: usize = 24;
/// The most chips that fit into a cell with their labels.
const CHIPS_MOST: usize = 6;
const EQUATIONS_MOST: usize = 64;
/// Advance of one character of the legend in its 13 px monospaced font.
const CHARACTER: f64 = 7.85;
/// The most characters in a line of a legend beside its stripe.
const CHARACTERS_BESIDE: usize = 84;
/// The most characters in a line of a legend below its stripe, which can make the picture wider.
const CHARACTERS_BELOW: usize = 124;

/// Returns the picture of the stripe of a code.
pub fn stripe(code: &Code) -> String {
    let labels = Labels::new(code);
    let picture = Picture::new(code, &labels);
    let mut out = String::new();
    let (width, height) = (picture.width, picture.height);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title description\">"
    );
    let _ = writeln!(out, "<title id=\"title\">One stripe of {}</title>", escape(code.spec()));
    let _ = writeln!(out, "<desc id=\"description\">{}</desc>", escape(&facts(code).join("; ")));
    picture.style(&mut out);
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>");
    let _ = writeln!(
        out,
        "<text class=\"name\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
        MARGIN + 16,
        escape(code.spec())
    );
    for (i, fact) in facts(code).iter().enumerate() {
        let y = MARGIN + 42 + i * LINE;
        let _ = writeln!(out, "<text class=\"fact\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(fact));
    }
    picture.cells(&mut out);
    picture.legend(&mut out);
    out.push_str("</svg>\n");
    out
}

/// Returns the lines below the name.
fn facts(code: &Code) -> Vec<String> {
    let (mean, most) = words::update_cost(code);
    vec![
        format!(
            "{} × {}: {} data and {} parity elements, {:.1} % of the space is user data",
            words::count(code.columns(), "column"),
            words::rows(code),
            code.data().len(),
            code.parity().len(),
            100.0 * code.rate()
        ),
        words::claim(code),
        format!("one data element updates {mean:.2} parity elements on average, at most {most}"),
    ]
}

/// Positions of all parts of the picture.
struct Picture<'c> {
    code: &'c Code,
    labels: &'c Labels,
    cell_width: usize,
    chip_width: usize,
    panels: Vec<Panel>,
    /// x of the left edge, and y of the baseline, of the legend's heading.
    legend: (usize, usize),
    width: usize,
    height: usize,
}

struct Panel {
    columns: std::ops::Range<usize>,
    top: usize,
}

impl<'c> Picture<'c> {
    fn new(code: &'c Code, labels: &'c Labels) -> Picture<'c> {
        let chips_most = code.cells().map(|c| labels.in_cell(c).len()).max().unwrap_or(0).min(CHIPS_MOST);
        let longest = labels.of.iter().map(|l| l.text.chars().count()).max().unwrap_or(1);
        let chip_width = (longest * 7 + 8).max(17);
        let cell_width = (chips_most * (chip_width + 2) + 10).max(54);
        let mut top = MARGIN + 42 + 3 * LINE;
        let mut panels = Vec::new();
        let mut first = 0;
        while first < code.columns() {
            let columns = first..(first + PANEL_COLUMNS).min(code.columns());
            let rows = columns.clone().map(|c| code.rows(c)).max().unwrap_or(0);
            first = columns.end;
            panels.push(Panel { columns, top });
            top += 26 + rows * (CELL_HEIGHT + GAP) + 12;
        }
        let across = code.columns().min(PANEL_COLUMNS);
        let grid_right = MARGIN + ROW_HEADING + across * (cell_width + GAP);
        let lines = match code.equations().len() {
            0 => 0,
            shown if shown <= EQUATIONS_MOST => shown,
            _ => EQUATIONS_MOST + 1,
        };
        let legend_height = 30 + lines * LINE;
        let grid_top = panels[0].top;
        // A narrow stripe has its legend beside it, as on a slide; a wide one below, as on a page.
        let beside = panels.len() == 1 && grid_right < 640 && legend_height < top - grid_top + 4 * LINE;
        let legend = if beside { (grid_right + 36, grid_top + 14) } else { (MARGIN, top + 14) };
        let legend_bottom = if lines == 0 { 0 } else { legend.1 + legend_height };
        let facts = facts(code).iter().map(|f| f.chars().count()).max().unwrap_or(0);
        let mut picture = Picture {
            code,
            labels,
            cell_width,
            chip_width,
            panels,
            legend,
            width: grid_right.max(MARGIN + (facts as f64 * 7.1) as usize).max(680) + MARGIN,
            height: top.max(legend_bottom) + MARGIN,
        };
        let text_x = legend.0 + chip_width + 12;
        let room = if beside { CHARACTERS_BESIDE } else { CHARACTERS_BELOW };
        let longest = picture.equations(room).map(|(_, line)| line.chars().count()).max().unwrap_or(0);
        let for_legend = text_x + (longest as f64 * CHARACTER) as usize + MARGIN;
        picture.width = match beside {
            true => for_legend.max(2 * MARGIN + (facts as f64 * 7.1) as usize),
            false => for_legend.max(picture.width),
        };
        picture
    }

    /// Returns the equations of the legend in its order, each in at most `characters` characters.
    fn equations(&self, characters: usize) -> impl Iterator<Item = (usize, String)> {
        let mut order: Vec<usize> = (0..self.code.equations().len()).collect();
        order.sort_by_key(|&e| (self.labels.of[e].set, self.labels.of[e].index));
        order.into_iter().take(EQUATIONS_MOST).map(move |e| {
            let (left, terms) = solved(self.code, &self.code.equations()[e], self.labels.defines[e]);
            let room = characters.saturating_sub(left.len() + 3);
            (e, format!("{left} = {}", fitting(self.code, &terms, room)))
        })
    }

    fn style(&self, out: &mut String) {
        out.push_str(
            "<style>\n\
             text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;fill:#1c2330}\n\
             .name{font-size:24px;font-weight:700}.fact{font-size:13.5px;fill:#4a5568}\n\
             .head{font-size:12px;fill:#5b6678;text-anchor:middle;font-weight:600}\n\
             .number{font-size:17px;font-weight:600;text-anchor:middle;font-variant-numeric:tabular-nums}\n\
             .chip{font-size:11px;font-weight:700;text-anchor:middle;fill:#fff}\n\
             .own{font-size:17px;font-weight:700;text-anchor:middle;fill:#fff}\n\
             .many{font-size:10.5px;text-anchor:middle;fill:#4a5568}\n\
             .section{font-size:14px;font-weight:700}\n\
             .mono{font-family:ui-monospace,\"SF Mono\",Menlo,Consolas,\"DejaVu Sans Mono\",monospace;font-size:13px}\n\
             .paper{fill:#ffffff}.plain{fill:#f1f4f8;stroke:#cbd3df}\n\
             .ring{fill:none;stroke:#ffffff;stroke-opacity:.75;stroke-width:1.2}\n",
        );
        for e in 0..self.labels.of.len() {
            let hue = self.hue(e);
            let (strong, tint, edge) =
                (oklch(0.56, 0.135, hue), oklch(0.955, 0.028, hue), oklch(0.80, 0.07, hue));
            let _ = writeln!(out, ".s{e}{{fill:{strong}}}.t{e}{{fill:{tint};stroke:{edge}}}");
        }
        out.push_str(
            "@media (prefers-color-scheme:dark){\n\
             text{fill:#e8ecf3}.fact,.head,.many{fill:#a3afc2}.paper{fill:#12161d}\n\
             .plain{fill:#1e2530;stroke:#3a4556}.chip,.own{fill:#0d1117}.ring{stroke:#0d1117}\n",
        );
        for e in 0..self.labels.of.len() {
            let hue = self.hue(e);
            let (strong, tint, edge) =
                (oklch(0.76, 0.12, hue), oklch(0.27, 0.035, hue), oklch(0.46, 0.07, hue));
            let _ = writeln!(out, ".s{e}{{fill:{strong}}}.t{e}{{fill:{tint};stroke:{edge}}}");
        }
        out.push_str("}\n@media print{.paper{fill:none}}\n</style>\n");
    }

    /// Returns the hue of an equation. The hues of one set are spread around the colour circle;
    /// those of the next set are shifted by 25 degrees.
    fn hue(&self, equation: usize) -> f64 {
        let label = &self.labels.of[equation];
        let count = self.labels.sets[label.set].max(1);
        (250.0 + 360.0 * label.index as f64 / count as f64 + 25.0 * label.set as f64) % 360.0
    }

    fn cells(&self, out: &mut String) {
        for panel in &self.panels {
            let rows = panel.columns.clone().map(|c| self.code.rows(c)).max().unwrap_or(0);
            for column in panel.columns.clone() {
                let x = self.x(panel, column) + self.cell_width / 2;
                let text = heading(self.code, column);
                let _ =
                    writeln!(out, "<text class=\"head\" x=\"{x}\" y=\"{}\">{text}</text>", panel.top + 14);
            }
            for row in 0..rows {
                let y = panel.top + 24 + row * (CELL_HEIGHT + GAP);
                let (x, middle) = (MARGIN + ROW_HEADING / 2 - 4, y + CELL_HEIGHT / 2 + 4);
                let _ = writeln!(out, "<text class=\"head\" x=\"{x}\" y=\"{middle}\">{row}</text>");
                for column in panel.columns.clone() {
                    if let Some(cell) = self.code.index(Cell { row, column }) {
                        self.cell(out, cell, self.x(panel, column), y);
                    }
                }
            }
        }
    }

    fn x(&self, panel: &Panel, column: usize) -> usize {
        MARGIN + ROW_HEADING + (column - panel.columns.start) * (self.cell_width + GAP)
    }

    fn cell(&self, out: &mut String, cell: CellIndex, x: usize, y: usize) {
        let all = self.labels.in_cell(cell);
        let own = self.labels.defined_by[cell.usize()];
        let (width, middle) = (self.cell_width, x + self.cell_width / 2);
        let place = self.code.cell(cell);
        let position = self.code.data_position(cell);
        let what = match position {
            Some(position) => format!("data element {position}"),
            None => "parity".to_string(),
        };
        let groups: Vec<&str> = all.iter().map(|&e| self.labels.of[e].text.as_str()).collect();
        let _ = write!(
            out,
            "<g><title>[{}][{}]: {what}, groups {}</title>",
            place.row,
            place.column,
            if groups.is_empty() { "none".to_string() } else { escape(&groups.join(" ")) }
        );
        let class = match (own, all.first()) {
            (Some(e), _) => format!("s{e}"),
            (None, Some(&first)) if self.labels.of[first].set == 0 && self.code.rows_max() > 1 => {
                format!("t{first}")
            }
            _ => "plain".to_string(),
        };
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL_HEIGHT}\" rx=\"7\"/>"
        );
        if own.is_some() {
            let _ = write!(
                out,
                "<rect class=\"ring\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>",
                x + 3,
                y + 3,
                width - 6,
                CELL_HEIGHT - 6
            );
        }
        let chips: Vec<usize> = all.iter().copied().filter(|&e| Some(e) != own).collect();
        let number_y = if chips.is_empty() { y + CELL_HEIGHT / 2 + 6 } else { y + 22 };
        let _ = match (position, own) {
            (Some(position), _) => {
                write!(out, "<text class=\"number\" x=\"{middle}\" y=\"{number_y}\">{position}</text>")
            }
            (None, Some(e)) => write!(
                out,
                "<text class=\"own\" x=\"{middle}\" y=\"{number_y}\">P {}</text>",
                escape(&self.labels.of[e].text)
            ),
            (None, None) => write!(out, "<text class=\"number\" x=\"{middle}\" y=\"{number_y}\">P</text>"),
        };
        if chips.len() > CHIPS_MOST {
            let class = if own.is_some() { "chip" } else { "many" };
            let _ = write!(
                out,
                "<text class=\"{class}\" x=\"{middle}\" y=\"{}\">in {}</text>",
                y + CELL_HEIGHT - 9,
                chips.len()
            );
        } else {
            let step = self.chip_width + 2;
            let left = middle - (chips.len() * step).saturating_sub(2) / 2;
            for (i, &e) in chips.iter().enumerate() {
                self.chip(out, e, left + i * step, y + CELL_HEIGHT - CHIP_HEIGHT - 5, own.is_some());
            }
        }
        out.push_str("</g>\n");
    }

    fn chip(&self, out: &mut String, equation: usize, x: usize, y: usize, on_colour: bool) {
        let width = self.chip_width;
        // Numbered groups have round chips and lettered ones square chips, so that colour is not
        // needed to see it.
        let radius = if self.labels.of[equation].set == 0 { CHIP_HEIGHT / 2 } else { 3 };
        let class = format!("s{equation}");
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CHIP_HEIGHT}\" rx=\"{radius}\"/>"
        );
        if on_colour {
            let _ = write!(
                out,
                "<rect class=\"ring\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CHIP_HEIGHT}\" rx=\"{radius}\"/>"
            );
        }
        let _ = write!(
            out,
            "<text class=\"chip\" x=\"{}\" y=\"{}\">{}</text>",
            x + width / 2,
            y + 12,
            escape(&self.labels.of[equation].text)
        );
    }

    fn legend(&self, out: &mut String) {
        let count = self.code.equations().len();
        if count == 0 {
            return;
        }
        let (x, top) = self.legend;
        let _ = writeln!(
            out,
            "<text class=\"section\" x=\"{x}\" y=\"{top}\">Parity groups: the parity is the {} of the members</text>",
            words::sum_word(self.code)
        );
        let text_x = x + self.chip_width + 12;
        let characters = ((self.width - MARGIN - text_x) as f64 / CHARACTER) as usize + 1;
        for (i, (e, line)) in self.equations(characters).enumerate() {
            let y = top + 30 + i * LINE;
            self.chip(out, e, x, y - 12, false);
            let _ = writeln!(out, "<text class=\"mono\" x=\"{text_x}\" y=\"{y}\">{}</text>", escape(&line));
        }
        if count > EQUATIONS_MOST {
            let y = top + 30 + EQUATIONS_MOST * LINE;
            let _ = writeln!(
                out,
                "<text class=\"fact\" x=\"{text_x}\" y=\"{y}\">and {} more</text>",
                count - EQUATIONS_MOST
            );
        }
    }
}

/// Returns the longest form of a sum that fits into `characters` characters.
fn fitting(code: &Code, terms: &[(CellIndex, pantile::gf::Gf)], characters: usize) -> String {
    let mut most = terms.len();
    loop {
        let text = sum(code, terms, most);
        if text.chars().count() <= characters || most <= 3 {
            return text;
        }
        most -= 1;
    }
}

/// Returns a colour of the OKLCH space as #rrggbb; colours outside sRGB are clipped.
///
/// Source: B. Ottosson, "A perceptual color space for image processing", 2020.
fn oklch(lightness: f64, chroma: f64, hue_degrees: f64) -> String {
    let (sin, cos) = hue_degrees.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
    let linear = [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s,
    ];
    let mut out = String::from("#");
    for value in linear {
        let encoded =
            if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
        let _ = write!(out, "{:02x}", (encoded.clamp(0.0, 1.0) * 255.0).round() as u8);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_srgb() {
        assert_eq!(oklch(1.0, 0.0, 0.0), "#ffffff");
        assert_eq!(oklch(0.0, 0.0, 0.0), "#000000");
        // Ottosson's red: L 0.628, C 0.2577, h 29.23.
        assert_eq!(oklch(0.627_955, 0.257_683, 29.233_9), "#ff0000");
    }
}
