//! Named points over two axes; points that no other beats are filled and joined.

use crate::bars::open;
use crate::figure::{Picture, escape, number};
use std::fmt::Write;

/// Named points; up is better, left is better.
#[derive(Clone, Debug)]
pub struct Points {
    /// The heading.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x: String,
    /// Label of the vertical axis, with its unit.
    pub y: String,
    /// The points.
    pub points: Vec<Point>,
    /// Explanation printed below it.
    pub caption: String,
}

/// A named point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name, written beside it.
    pub name: String,
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// True if no other point is better on one axis and no worse on the other.
    pub is_front: bool,
}

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 400.0;
/// Left, top, right, bottom: room for numbers and names.
const MARGINS: [f64; 4] = [62.0, 14.0, 20.0, 48.0];
/// The height of a name.
const LINE: f64 = 13.0;
/// Distance between a name and the line of the front.
const LINE_ROOM: f64 = 3.0;

/// Returns about six round numbers over a range, with a margin.
fn ticks(values: impl Iterator<Item = f64>) -> Option<(f64, f64, Vec<f64>)> {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if !least.is_finite() || !most.is_finite() {
        return None;
    }
    let span = (most - least).max(0.1 * most.abs()).max(0.5);
    let rough = span / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|x| x * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let (low, high) = (((least - 0.04 * span) / step).floor(), ((most + 0.12 * span) / step).ceil());
    let ticks = (0..=(high - low) as usize).map(|i| (low + i as f64) * step).collect();
    Some((low * step, high * step, ticks))
}

impl Points {
    fn drawn(&self) -> Vec<&Point> {
        self.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect()
    }

    /// Returns the place where a name covers least: right, left, above, below, or a line farther.
    fn place(&self, name: &str, x: f64, y: f64, taken: &[[f64; 4]]) -> [f64; 4] {
        let width = name.chars().count() as f64 * 7.0;
        let half = LINE / 2.0;
        let mut places = Vec::new();
        for shift in [0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0] {
            let middle = y + shift * LINE;
            places.push([x + 9.0, middle - half, x + 9.0 + width, middle + half]);
            places.push([x - 9.0 - width, middle - half, x - 9.0, middle + half]);
            if shift != 0.0 {
                places.push([x - width / 2.0, middle - half, x + width / 2.0, middle + half]);
            }
        }
        let covered = |place: &[f64; 4]| {
            let overlap = |other: &[f64; 4]| {
                let w = place[2].min(other[2]) - place[0].max(other[0]);
                let h = place[3].min(other[3]) - place[1].max(other[1]);
                w.max(0.0) * h.max(0.0)
            };
            let outside = (MARGINS[0] - place[0]).max(0.0)
                + (place[2] - WIDTH).max(0.0)
                + (place[3] - HEIGHT + MARGINS[3]).max(0.0)
                + (MARGINS[1] - place[1]).max(0.0);
            taken.iter().map(overlap).sum::<f64>() + 20.0 * outside
        };
        let least = places.iter().min_by(|a, b| covered(a).total_cmp(&covered(b)));
        least.copied().unwrap_or([x, y, x, y])
    }
}

impl Picture for Points {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        let drawn = self.drawn();
        let (Some((x0, x1, xs)), Some((y0, y1, ys))) =
            (ticks(drawn.iter().map(|p| p.x)), ticks(drawn.iter().map(|p| p.y)))
        else {
            return String::new();
        };
        let [left, top, right, bottom] = MARGINS;
        let at_x = |x: f64| left + (x - x0) / (x1 - x0) * (WIDTH - left - right);
        let at_y = |y: f64| HEIGHT - bottom - (y - y0) / (y1 - y0) * (HEIGHT - top - bottom);
        let mut svg = open(WIDTH, HEIGHT, &self.title);
        let (x_end, y_end) = (WIDTH - right, HEIGHT - bottom);
        for x in xs {
            let at = at_x(x);
            let _ = write!(
                svg,
                "<path d=\"M{at:.1} {top}V{y_end}\" stroke=\"currentColor\" stroke-opacity=\"0.12\"/><text x=\"{at:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{}</text>",
                y_end + 16.0,
                number(x)
            );
        }
        for y in ys {
            let at = at_y(y);
            let _ = write!(
                svg,
                "<path d=\"M{left} {at:.1}H{x_end}\" stroke=\"currentColor\" stroke-opacity=\"0.12\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                left - 6.0,
                at + 4.0,
                number(y)
            );
        }
        let _ = write!(
            svg,
            "<path d=\"M{left} {top}V{y_end}H{x_end}\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(left, x_end),
            HEIGHT - 12.0,
            escape(&self.x),
            f64::midpoint(top, y_end),
            escape(&self.y)
        );
        let mut front: Vec<&&Point> = drawn.iter().filter(|p| p.is_front).collect();
        front.sort_by(|a, b| a.x.total_cmp(&b.x));
        let way = front.iter().enumerate().map(|(i, p)| {
            let (x, y) = (at_x(p.x), at_y(p.y));
            if i == 0 { format!("M{x:.1} {y:.1}") } else { format!("H{x:.1}V{y:.1}") }
        });
        let _ = write!(
            svg,
            "<path d=\"{}\" fill=\"none\" stroke=\"#3b7dd8\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"/>",
            way.collect::<String>()
        );
        let mut taken: Vec<[f64; 4]> = drawn.iter().map(|p| around(at_x(p.x), at_y(p.y))).collect();
        // Names avoid the line of the front too: it runs across at the height of the first point,
        // then up to the second.
        for pair in front.windows(2) {
            let ([x0, y0], [x1, y1]) =
                ([at_x(pair[0].x), at_y(pair[0].y)], [at_x(pair[1].x), at_y(pair[1].y)]);
            taken.push([x0, y0 - LINE_ROOM, x1, y0 + LINE_ROOM]);
            taken.push([x1 - LINE_ROOM, y0.min(y1), x1 + LINE_ROOM, y0.max(y1)]);
        }
        for point in &drawn {
            let (x, y) = (at_x(point.x), at_y(point.y));
            let fill = if point.is_front { "#3b7dd8" } else { "none" };
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"#3b7dd8\" stroke-width=\"1.5\" \
                 pointer-events=\"all\"><title>{}</title></circle>",
                escape(&format!("{}: {}, {}", point.name, number(point.x), number(point.y)))
            );
            let place = self.place(&point.name, x, y, &taken);
            taken.push(place);
            let weight = if point.is_front { " font-weight=\"600\"" } else { "" };
            // A name on the left ends near its mark, however wide its letters are.
            let (at, anchor) = match place[2] < x {
                true => (place[2], " text-anchor=\"end\""),
                false => (place[0], ""),
            };
            let _ = write!(
                svg,
                "<text x=\"{at:.1}\" y=\"{:.1}\"{anchor}{weight}>{}</text>",
                place[3] - 3.0,
                escape(&point.name)
            );
        }
        svg.push_str("</svg>");
        svg
    }

    fn data(&self) -> Vec<Vec<String>> {
        let mut rows = vec![vec![String::new(), self.x.clone(), self.y.clone(), "Pareto front".into()]];
        rows.extend(self.points.iter().map(|p| {
            let front = if p.is_front { "yes" } else { "no" };
            vec![p.name.clone(), number(p.x), number(p.y), front.to_string()]
        }));
        rows
    }
}

/// Returns the area of a mark.
fn around(x: f64, y: f64) -> [f64; 4] {
    [x - 6.0, y - 6.0, x + 6.0, y + 6.0]
}
