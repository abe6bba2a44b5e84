//! Pictures as SVG text: charts, heat maps. Each carries its data, so that a table can stand beneath it.
//!
//! Text and axes take the colour of the page around them, so that a picture is right on a dark screen and on paper; series
//! have colours of even lightness and a mark of their own each. No font, script or network is needed.

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
    /// Named points, the best of them marked.
    Points(Points),
    /// A table alone.
    Listing(Listing),
}

pub use crate::points::{Point, Points};

/// A table that is shown as such, without a picture.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The heading.
    pub title: String,
    /// What to know when reading it.
    pub caption: String,
    /// Headings of the columns; one that starts with '>' is aligned to the right, as numbers are.
    pub head: Vec<String>,
    /// Rows as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// Lines or points over two axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// What the horizontal axis means, with its unit.
    pub x: String,
    /// What the vertical axis means, with its unit.
    pub y: String,
    /// The values.
    pub series: Vec<Series>,
    /// What to know when reading it.
    pub caption: String,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic_x: bool,
    /// Whether points are not joined.
    pub is_scatter: bool,
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The values, by ascending x.
    pub points: Vec<(f64, f64)>,
    /// Whether it is what the others are compared with; drawn thin.
    pub is_reference: bool,
}

/// Numbers in a grid, shaded.
#[derive(Clone, Debug)]
pub struct Heat {
    /// The heading.
    pub title: String,
    /// What to know when reading it.
    pub caption: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<HeatRow>,
}

/// A row of a heat map.
#[derive(Clone, Debug)]
pub struct HeatRow {
    /// Its heading.
    pub name: String,
    /// The numbers; none leaves a place empty.
    pub values: Vec<Option<f64>>,
    /// How dark each is, from 0 to 1.
    pub shades: Vec<Option<f64>>,
}

/// Colours that differ in hue at about the same lightness.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x3b, 0x7d, 0xd8),
    RGBColor(0xd0, 0x63, 0x2c),
    RGBColor(0x2f, 0x96, 0x5f),
    RGBColor(0xb0, 0x58, 0xb8),
    RGBColor(0xa6, 0x80, 0x18),
    RGBColor(0xc9, 0x4b, 0x6d),
    RGBColor(0x2a, 0x93, 0xa3),
    RGBColor(0x7c, 0x7f, 0x8a),
];

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;

impl Chart {
    /// Lines through marked points.
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

    /// Points.
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

    fn draw<X>(&self, x: X, y: std::ops::Range<f64>) -> Option<String>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            let legend = 150;
            let (plot, names) = root.split_horizontally(WIDTH - legend);
            let mut chart = ChartBuilder::on(&plot)
                .margin(8)
                .x_label_area_size(38)
                .y_label_area_size(52)
                .build_cartesian_2d(x, y)
                .ok()?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(BLACK.mix(0.15))
                .axis_style(BLACK.mix(0.6))
                .label_style(("sans-serif", 12))
                .x_desc(&self.x)
                .y_desc(&self.y)
                .draw()
                .ok()?;
            for (i, series) in self.series.iter().enumerate() {
                let colour = COLOURS[i % COLOURS.len()];
                let points: Vec<(f64, f64)> =
                    series.points.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
                if !self.is_scatter {
                    let width = if series.is_reference { 1 } else { 2 };
                    chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(width))).ok()?;
                }
                // The shape tells series apart where colours do not.
                match i % 3 {
                    0 => chart.draw_series(points.iter().map(|&p| Circle::new(p, 3, colour.filled()))).ok(),
                    1 => chart
                        .draw_series(points.iter().map(|&p| TriangleMarker::new(p, 4, colour.filled())))
                        .ok(),
                    _ => chart
                        .draw_series(points.iter().map(|&p| Cross::new(p, 3, colour.stroke_width(2))))
                        .ok(),
                };
                let at = (6, 18 + 18 * i as i32);
                match i % 3 {
                    0 => names.draw(&Circle::new(at, 4, colour.filled())).ok()?,
                    1 => names.draw(&TriangleMarker::new(at, 5, colour.filled())).ok()?,
                    _ => names.draw(&Cross::new(at, 4, colour.stroke_width(2))).ok()?,
                };
                let style = ("sans-serif", 12).into_text_style(&names);
                names.draw(&Text::new(series.name.clone(), (at.0 + 10, at.1 - 6), style)).ok()?;
            }
            root.present().ok()?;
        }
        Some(svg)
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

impl Heat {
    fn svg(&self) -> String {
        const CELL: (usize, usize) = (44, 22);
        let letters = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let left = letters * 7 + 12;
        let wide = self.columns.iter().map(|c| c.chars().count() * 7 + 8).max().unwrap_or(0).max(CELL.0);
        let (width, height) = (left + wide * self.columns.len() + 8, 30 + CELL.1 * self.rows.len());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">",
            escape(&self.title)
        );
        for (i, name) in self.columns.iter().enumerate() {
            let x = left + i * wide + wide / 2;
            let _ = write!(svg, "<text x=\"{x}\" y=\"16\" text-anchor=\"middle\">{}</text>", escape(name));
        }
        for (r, HeatRow { name, values, shades }) in self.rows.iter().enumerate() {
            let y = 24 + r * CELL.1;
            let base = y + 15;
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>",
                left - 6,
                escape(name)
            );
            for (c, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let shade = shades.get(c).copied().flatten().unwrap_or(0.0).clamp(0.0, 1.0);
                let x = left + c * wide;
                let _ = write!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"#3b7dd8\" \
                     fill-opacity=\"{:.3}\"/><text x=\"{}\" y=\"{base}\" text-anchor=\"middle\">{}</text>",
                    wide - 2,
                    CELL.1 - 2,
                    0.08 + 0.62 * shade,
                    x + wide / 2,
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

impl Figure {
    /// The heading.
    pub fn title(&self) -> &str {
        match self {
            Figure::Chart(chart) => &chart.title,
            Figure::Heat(heat) => &heat.title,
            Figure::Points(points) => &points.title,
            Figure::Listing(listing) => &listing.title,
        }
    }

    /// What to know when reading it.
    pub fn caption(&self) -> &str {
        match self {
            Figure::Chart(chart) => &chart.caption,
            Figure::Heat(heat) => &heat.caption,
            Figure::Points(points) => &points.caption,
            Figure::Listing(listing) => &listing.caption,
        }
    }

    /// The picture; empty if there is nothing to draw.
    pub fn svg(&self) -> String {
        match self {
            Figure::Chart(chart) => chart.svg(),
            Figure::Heat(heat) => heat.svg(),
            Figure::Points(points) => points.svg(),
            Figure::Listing(_) => String::new(),
        }
    }

    /// Its data as rows of text, the first the head.
    pub fn data(&self) -> Vec<Vec<String>> {
        match self {
            Figure::Chart(chart) => chart.data(),
            Figure::Heat(heat) => heat.data(),
            Figure::Points(points) => points.data(),
            Figure::Listing(listing) => {
                let head = listing.head.iter().map(|name| name.trim_start_matches('>').to_string());
                std::iter::once(head.collect()).chain(listing.rows.iter().cloned()).collect()
            }
        }
    }
}

/// A number as people read it: four significant digits, no needless zeros.
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

/// Text within XML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Black becomes the colour of the page's text, and the picture gets its name.
fn of_the_page(svg: &str, title: &str) -> String {
    let named = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(title));
    svg.replacen("<svg ", &named, 1).replace("#000000", "currentColor")
}
