//! Pictures as SVG text: charts, heat maps and bars. Each contains its data, so that a table can be
//! printed below it.
//!
//! Text and axes take the colour of the page around them, so that a picture is legible on a dark
//! screen and on paper. Each series has a colour of even lightness and its own mark. No font,
//! script or network is needed.

use crate::bars::{Shares, Stacks, open};
use crate::matrix::Matrix;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::fmt::Write;

/// A picture.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Lines or points over two axes.
    Chart(Chart),
    /// Numbers in a grid, shaded.
    Heat(Heat),
    /// Bars made of parts.
    Stacks(Stacks),
    /// Shares, each with a remark beside it.
    Shares(Shares),
    /// A stripe with its lost cells.
    Matrix(Matrix),
    /// Named points, the best of them marked.
    Points(Points),
    /// A table alone.
    Listing(Listing),
    /// Lines of a program.
    Quote(Quote),
}

pub use crate::points::{Point, Points};

/// A table without a picture.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The heading.
    pub title: String,
    /// Explanation printed below it.
    pub caption: String,
    /// Headings of the columns; one that starts with '>' is aligned to the right, as numbers are.
    pub head: Vec<String>,
    /// Rows as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// Lines of a program, verbatim.
#[derive(Clone, Debug)]
pub struct Quote {
    /// The heading.
    pub title: String,
    /// Source of the lines, and an explanation.
    pub caption: String,
    /// The lines.
    pub lines: Vec<String>,
}

/// Lines or points over two axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x: String,
    /// Label of the vertical axis, with its unit.
    pub y: String,
    /// The values.
    pub series: Vec<Series>,
    /// Explanation printed below it.
    pub caption: String,
    /// True if the horizontal axis is logarithmic.
    pub logarithmic_x: bool,
    /// True if points are not joined.
    pub is_scatter: bool,
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The values, by ascending x.
    pub points: Vec<(f64, f64)>,
    /// True for the reference that the others are compared with; it is drawn thin.
    pub is_reference: bool,
}

/// Numbers in a grid, shaded.
#[derive(Clone, Debug)]
pub struct Heat {
    /// The heading.
    pub title: String,
    /// Explanation printed below it.
    pub caption: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows from top to bottom.
    pub rows: Vec<HeatRow>,
}

/// A row of a heat map.
#[derive(Clone, Debug)]
pub struct HeatRow {
    /// Its heading.
    pub name: String,
    /// The numbers; `None` leaves a place empty.
    pub values: Vec<Option<f64>>,
    /// Darkness of each, from 0 to 1.
    pub shades: Vec<Option<f64>>,
}

/// Colours that differ in hue at about the same lightness.
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0x3b, 0x7d, 0xd8),
    RGBColor(0xd0, 0x63, 0x2c),
    RGBColor(0x2f, 0x96, 0x5f),
    RGBColor(0xb0, 0x58, 0xb8),
    RGBColor(0xa6, 0x80, 0x18),
    RGBColor(0xc9, 0x4b, 0x6d),
    RGBColor(0x2a, 0x93, 0xa3),
    RGBColor(0x7c, 0x7f, 0x8a),
];

/// Returns a colour as #rrggbb.
pub(crate) fn colour(i: usize) -> String {
    let RGBColor(red, green, blue) = COLOURS[i % COLOURS.len()];
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Width of the page's column in pixels; a wider picture would be scaled down until its text is
/// too small.
pub(crate) const WIDTH_MOST: f64 = 900.0;

/// Returns the approximate width of a text in pixels, at 12 px.
pub(crate) fn width_of(text: &str) -> f64 {
    text.chars().map(|c| if c.is_uppercase() { 9.0 } else { 7.3 }).sum()
}

/// Returns a text of at most `most` characters; the middle of a longer one is replaced by two dots.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_string();
    }
    let (head, tail) = (most / 2, most - most / 2 - 2);
    let part = |range: &[char]| range.iter().collect::<String>();
    format!("{}..{}", part(&letters[..head]), part(&letters[letters.len() - tail..]))
}

const PLOT_WIDTH: u32 = 520;
const HEIGHT: u32 = 360;

/// 12.5 px: plotters divides the given size by 1.24.
const FONT: (&str, f64) = ("sans-serif", 15.5);

/// The most letters of a name in the legend; a longer name is cut.
const NAME_MOST: usize = 40;

impl Chart {
    /// Returns lines through marked points.
    pub fn lines(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        series: Vec<Series>,
        caption: impl Into<String>,
    ) -> Chart {
        Chart {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            series,
            caption: caption.into(),
            logarithmic_x: false,
            is_scatter: false,
        }
    }

    /// Returns unjoined points.
    pub fn scatter(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        series: Vec<Series>,
        caption: impl Into<String>,
    ) -> Chart {
        Chart { is_scatter: true, ..Chart::lines(title, x, y, series, caption) }
    }

    fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        let finite = values.filter(|value| value.is_finite());
        finite.fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((least, most)) => Some((value.min(least), value.max(most))),
        })
    }

    fn draw<X>(&self, x: X, y: std::ops::Range<f64>) -> Option<String>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        let (mut svg, mut lines) = (String::new(), String::new());
        {
            // The legend is as wide and as high as its names.
            let longest = self.series.iter().map(|s| width_of(&cut(&s.name, NAME_MOST))).fold(0.0, f64::max);
            let width = PLOT_WIDTH + 48 + (1.05 * longest) as u32;
            let height = HEIGHT.max(24 + 20 * self.series.len() as u32);
            let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            let (plot, _) = root.split_horizontally(PLOT_WIDTH);
            let mut chart = ChartBuilder::on(&plot)
                .margin(8)
                .x_label_area_size(44)
                .y_label_area_size(60)
                .build_cartesian_2d(x, y)
                .ok()?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(BLACK.mix(0.15))
                .axis_style(BLACK.mix(0.6))
                .label_style(FONT)
                .x_label_formatter(&|value| number(*value))
                .y_label_formatter(&|value| number(*value))
                .x_labels(if self.logarithmic_x { 5 } else { 9 })
                .y_labels(9)
                .x_desc(&self.x)
                .y_desc(&self.y)
                .draw()
                .ok()?;
            for (i, series) in self.series.iter().enumerate() {
                let points = series.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite());
                let placed: Vec<(f64, f64, (i32, i32))> =
                    points.map(|&(x, y)| (x, y, chart.backend_coord(&(x, y)))).collect();
                let at = (PLOT_WIDTH as i32 + 20, 18 + 20 * i as i32);
                self.series_drawn(&mut lines, i, &placed);
                self.named(&mut lines, i, at);
            }
            root.present().ok()?;
        }
        Some(svg.replace("</svg>", &format!("{lines}</svg>")))
    }

    /// Returns the path of a series along points; empty if they are not joined.
    fn joined(&self, i: usize, points: impl Iterator<Item = (i32, i32)>) -> String {
        if self.is_scatter {
            return String::new();
        }
        let way =
            points.enumerate().map(|(nth, (x, y))| format!("{}{x} {y}", if nth == 0 { "M" } else { "L" }));
        format!(
            "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>",
            way.collect::<String>(),
            colour(i),
            if self.series[i].is_reference { 1 } else { 2 }
        )
    }

    /// Adds the line and the marks of a series, each with its values for a pointer above it.
    fn series_drawn(&self, out: &mut String, i: usize, points: &[(f64, f64, (i32, i32))]) {
        let _ = write!(out, "<g data-series=\"{i}\">{}", self.joined(i, points.iter().map(|p| p.2)));
        for (x, y, at) in points {
            let said = format!("{}: {}, {}", self.series[i].name, number(*x), number(*y));
            let _ = write!(out, "<g><title>{}</title>{}</g>", escape(&said), mark(i, *at));
        }
        out.push_str("</g>");
    }

    /// Adds the name of a series to the legend.
    fn named(&self, out: &mut String, i: usize, (x, y): (i32, i32)) {
        let line = self.joined(i, [(x - 12, y), (x + 12, y)].into_iter());
        let name = escape(&cut(&self.series[i].name, NAME_MOST));
        let _ = write!(
            out,
            "<g data-legend=\"{i}\">{line}{}<text x=\"{}\" y=\"{}\" font-family=\"sans-serif\" font-size=\"12.5\" \
             fill=\"currentColor\">{name}</text></g>",
            mark(i, (x, y)),
            x + 20,
            y + 4
        );
    }
}

/// Returns the mark of a series. Shapes distinguish series that have the same colour; a pointer
/// meets a mark within 8 px.
fn mark(i: usize, (x, y): (i32, i32)) -> String {
    let shape = match i % 3 {
        0 => "a4 4 0 1 0 0.1 0z",
        1 => "l-4.5 8h9z",
        _ => "l8 8m0 -8l-8 8",
    };
    let (dx, dy) = [(0, -4), (0, -5), (-4, -4)][i % 3];
    let colour = colour(i);
    let fill = if i % 3 == 2 { "none" } else { colour.as_str() };
    format!(
        "<circle cx=\"{x}\" cy=\"{y}\" r=\"8\" fill-opacity=\"0\"/><path d=\"M{} {}{shape}\" fill=\"{fill}\" \
         stroke=\"{colour}\" stroke-width=\"{}\"/>",
        x + dx,
        y + dy,
        if i % 3 == 2 { 2 } else { 0 }
    )
}

impl Picture for Chart {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let (Some((x0, x1)), Some((_, y1))) =
            (Chart::range(all().map(|p| p.0)), Chart::range(all().map(|p| p.1)))
        else {
            return String::new();
        };
        let y_range = 0.0..if y1 > 0.0 { y1 * 1.08 } else { 1.0 };
        let drawn = match self.logarithmic_x && x0 > 0.0 {
            true => self.draw((x0 * 0.9..x1 * 1.1).log_scale(), y_range),
            false => {
                let margin = if x1 > x0 { (x1 - x0) * 0.04 } else { 1.0 };
                self.draw(x0 - margin..x1 + margin, y_range)
            }
        };
        of_the_page(&drawn.unwrap_or_default(), &self.title)
    }

    fn data(&self) -> Vec<Vec<String>> {
        let mut xs: Vec<f64> = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let is_grid = !self.is_scatter;
        if !is_grid {
            let mut rows = vec![vec!["series".into(), self.x.clone(), self.y.clone()]];
            for series in &self.series {
                let points = series.points.iter();
                rows.extend(points.map(|p| vec![series.name.clone(), number(p.0), number(p.1)]));
            }
            return rows;
        }
        let head = std::iter::once(self.x.clone()).chain(self.series.iter().map(|s| s.name.clone()));
        let mut rows = vec![head.collect::<Vec<_>>()];
        for x in xs {
            let at = |s: &Series| s.points.iter().find(|p| p.0 == x).map_or(String::new(), |p| number(p.1));
            rows.push(std::iter::once(number(x)).chain(self.series.iter().map(at)).collect());
        }
        rows
    }
}

impl Picture for Heat {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        const HEIGHT: usize = 22;
        const NAME_MOST: usize = 48;
        let left =
            self.rows.iter().map(|row| width_of(&cut(&row.name, NAME_MOST))).fold(0.0, f64::max) + 12.0;
        let values =
            self.rows.iter().flat_map(|row| row.values.iter().flatten().map(|&v| width_of(&number(v))));
        let heads = self.columns.iter().map(|name| width_of(name));
        let wide = values.chain(heads).fold(34.0, f64::max) + 10.0;
        // Columns beyond the width of the page continue in another panel below.
        let per_panel = (((WIDTH_MOST - left) / wide) as usize).max(1);
        let panels = self.columns.len().div_ceil(per_panel).max(1);
        let panel = (34 + HEIGHT * self.rows.len()) as f64;
        let across = self.columns.len().min(per_panel) as f64;
        let mut svg = open(left + wide * across + 8.0, panel * panels as f64, &self.title);
        for (i, name) in self.columns.iter().enumerate() {
            let x = left + (i % per_panel) as f64 * wide + wide / 2.0;
            let y = panel * (i / per_panel) as f64 + 16.0;
            let _ =
                write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", escape(name));
        }
        for (r, HeatRow { name, values, shades }) in self.rows.iter().enumerate() {
            // A row is left out of the panels after its last value.
            let panels = values.iter().rposition(Option::is_some).map_or(1, |last| last / per_panel + 1);
            for p in 0..panels {
                let base = panel * p as f64 + (39 + r * HEIGHT) as f64;
                let _ = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>",
                    left - 6.0,
                    escape(&cut(name, NAME_MOST))
                );
            }
            for (c, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let y = panel * (c / per_panel) as f64 + (24 + r * HEIGHT) as f64;
                let shade = shades.get(c).copied().flatten().unwrap_or(0.0).clamp(0.0, 1.0);
                let x = left + (c % per_panel) as f64 * wide;
                let _ = write!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" rx=\"3\" fill=\"#3b7dd8\" \
                     fill-opacity=\"{:.3}\"><title>{}</title></rect><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                     pointer-events=\"none\">{}</text>",
                    wide - 2.0,
                    HEIGHT - 2,
                    0.08 + 0.62 * shade,
                    escape(&format!(
                        "{name}, {}: {}",
                        self.columns.get(c).map_or("", |name| name),
                        number(*value)
                    )),
                    x + wide / 2.0,
                    y + 15.0,
                    number(*value)
                );
            }
        }
        svg.push_str("</svg>");
        svg
    }

    fn data(&self) -> Vec<Vec<String>> {
        let head = std::iter::once(String::new()).chain(self.columns.iter().cloned());
        let mut rows = vec![head.collect::<Vec<_>>()];
        for HeatRow { name, values, .. } in &self.rows {
            let values = values.iter().map(|value| value.map_or(String::new(), number));
            rows.push(std::iter::once(name.clone()).chain(values).collect());
        }
        rows
    }
}

/// Parts that every picture has.
pub(crate) trait Picture {
    /// Returns the heading and the explanation.
    fn words(&self) -> (&str, &str);
    /// Returns the picture; empty if there is nothing to draw.
    fn svg(&self) -> String;
    /// Returns the data as rows of text, the head first.
    fn data(&self) -> Vec<Vec<String>>;
}

impl Picture for Listing {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        String::new()
    }

    fn data(&self) -> Vec<Vec<String>> {
        let head = self.head.iter().map(|name| name.trim_start_matches('>').to_string());
        std::iter::once(head.collect()).chain(self.rows.iter().cloned()).collect()
    }
}

impl Picture for Quote {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        String::new()
    }

    fn data(&self) -> Vec<Vec<String>> {
        self.lines.iter().map(|line| vec![line.clone()]).collect()
    }
}

impl Figure {
    fn picture(&self) -> &dyn Picture {
        match self {
            Figure::Chart(chart) => chart,
            Figure::Heat(heat) => heat,
            Figure::Stacks(stacks) => stacks,
            Figure::Shares(shares) => shares,
            Figure::Matrix(matrix) => matrix,
            Figure::Points(points) => points,
            Figure::Listing(listing) => listing,
            Figure::Quote(quote) => quote,
        }
    }

    /// Returns the heading.
    pub fn title(&self) -> &str {
        self.picture().words().0
    }

    /// Returns the explanation printed below it.
    pub fn caption(&self) -> &str {
        self.picture().words().1
    }

    /// Returns the picture; empty if there is nothing to draw.
    pub fn svg(&self) -> String {
        self.picture().svg()
    }

    /// Returns the data as rows of text, the head first.
    pub fn data(&self) -> Vec<Vec<String>> {
        self.picture().data()
    }
}

/// Returns a number as text: four significant digits, without trailing zeros.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let size = value.abs();
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Escapes a text for XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Replaces black with the text colour of the page, and names the picture.
fn of_the_page(svg: &str, title: &str) -> String {
    let named = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(title));
    svg.replacen("<svg ", &named, 1).replace("#000000", "currentColor")
}
