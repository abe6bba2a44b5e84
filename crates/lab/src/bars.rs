//! Bars as SVG text: the load of each device, stacked by cause, and shares from 0 to 1, each with a
//! remark.

use crate::figure::{Picture, WIDTH_MOST, colour, cut, escape, number, width_of};
use std::fmt::Write;

/// One group of bars per panel, all to the same scale; each bar a stack of parts.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// The heading.
    pub title: String,
    /// Explanation printed below it.
    pub caption: String,
    /// Names of the stacked parts from the bottom up: the legend. Each has its own colour; parts
    /// that never occur are not shown.
    pub parts: Vec<String>,
    /// The groups.
    pub panels: Vec<Panel>,
}

/// A group of bars; they are numbered from 0.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its heading.
    pub name: String,
    /// The values of each bar's parts, as many as the legend has names.
    pub bars: Vec<Vec<f64>>,
}

/// Shares from 0 to 1, each with a bar and a remark.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The heading.
    pub title: String,
    /// Explanation printed below it.
    pub caption: String,
    /// Headings of the data table: the row, the share, the remark.
    pub head: [String; 3],
    /// Rows from top to bottom.
    pub rows: Vec<Share>,
}

/// A row of shares.
#[derive(Clone, Debug)]
pub struct Share {
    /// Group that the row belongs to; rows of one group are adjacent.
    pub group: String,
    /// Its heading within the group.
    pub name: String,
    /// Share from 0 to 1.
    pub share: f64,
    /// The remark, printed beside the bar.
    pub remark: String,
}

const BARS_HEIGHT: f64 = 84.0;
const LEFT: f64 = 76.0;

impl Stacks {
    /// Returns the numbers of the parts that occur.
    fn occurring(&self) -> Vec<usize> {
        let occurs = |&part: &usize| {
            let mut bars = self.panels.iter().flat_map(|panel| &panel.bars);
            bars.any(|bar| bar.get(part).is_some_and(|&value| value > 0.0))
        };
        (0..self.parts.len()).filter(occurs).collect()
    }

    /// Returns the names of the parts, in as many lines as they need, and their height.
    fn legend(&self, width: f64) -> (String, f64) {
        let (mut svg, mut x, mut y) = (String::new(), 8.0, 16.0);
        for (i, name) in self.occurring().into_iter().map(|part| (part, &self.parts[part])) {
            let wide = 18.0 + width_of(name) + 10.0;
            if x + wide > width && x > 8.0 {
                (x, y) = (8.0, y + 20.0);
            }
            let _ = write!(
                svg,
                "<g data-legend=\"{i}\"><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{y:.1}\">{}</text></g>",
                y - 11.0,
                colour(i),
                x + 18.0,
                escape(name)
            );
            x += wide;
        }
        (svg, y + 10.0)
    }
}

impl Picture for Stacks {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        let bars = || self.panels.iter().flat_map(|panel| &panel.bars);
        let most = bars().map(|bar| bar.iter().sum::<f64>()).fold(0.0, f64::max).max(1.0);
        let step = round_step(most);
        let most = (most / step).ceil() * step;
        let widest = self.panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0).max(1);
        let slot = ((WIDTH_MOST - LEFT - 8.0) / widest as f64).min(46.0);
        let width = (LEFT + slot * widest as f64 + 8.0).max(520.0);
        let (legend, legend_height) = self.legend(width);
        let panel_height = BARS_HEIGHT + 52.0;
        let height = legend_height + panel_height * self.panels.len() as f64;
        let mut svg = open(width, height, &self.title);
        svg.push_str(&legend);
        for (i, panel) in self.panels.iter().enumerate() {
            let base = legend_height + panel_height * i as f64 + 24.0 + BARS_HEIGHT;
            let _ = write!(
                svg,
                "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
                base - BARS_HEIGHT - 8.0,
                escape(&cut(&panel.name, 60))
            );
            for tick in 0..=(most / step).round() as usize {
                let value = tick as f64 * step;
                let y = base - BARS_HEIGHT * value / most;
                let _ = write!(
                    svg,
                    "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"currentColor\" stroke-opacity=\".25\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                     text-anchor=\"end\">{}</text>",
                    width - 8.0,
                    LEFT - 6.0,
                    y + 4.0,
                    short(value)
                );
            }
            // Numbers of bars are left out where they would overlap.
            let every = (width_of(&panel.bars.len().to_string()) / slot).ceil().max(1.0) as usize;
            for (b, bar) in panel.bars.iter().enumerate() {
                let x = LEFT + slot * b as f64;
                let mut y = base;
                for (part, value) in bar.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                    let tall = BARS_HEIGHT * value / most;
                    y -= tall;
                    let _ = write!(
                        svg,
                        "<rect data-series=\"{part}\" x=\"{:.1}\" y=\"{y:.2}\" width=\"{:.1}\" height=\"{tall:.2}\" \
                         fill=\"{}\"><title>{}</title></rect>",
                        x + slot * 0.1,
                        slot * 0.8,
                        colour(part),
                        escape(&format!("{} {b}, {}: {}", panel.name, self.parts[part], number(*value)))
                    );
                }
                if b % every == 0 {
                    let _ = write!(
                        svg,
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{b}</text>",
                        x + slot / 2.0,
                        base + 16.0
                    );
                }
            }
        }
        svg.push_str("</svg>");
        svg
    }

    fn data(&self) -> Vec<Vec<String>> {
        let parts = self.occurring();
        let names = parts.iter().map(|&part| self.parts[part].clone());
        let head = ["code".to_string(), "device".to_string()].into_iter().chain(names);
        let mut rows = vec![head.collect::<Vec<_>>()];
        for panel in &self.panels {
            for (i, bar) in panel.bars.iter().enumerate() {
                let values = parts.iter().map(|&part| number(bar[part]));
                rows.push([panel.name.clone(), i.to_string()].into_iter().chain(values).collect());
            }
        }
        rows
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten, so that the axis has two to four of them.
fn round_step(most: f64) -> f64 {
    let power = 10f64.powf((most / 4.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|x| x * power);
    steps.into_iter().find(|step| *step >= most / 4.0 * (1.0 - 1e-9)).unwrap_or(most)
}

/// Returns a round number of an axis as text: 20 k, 1.5 M.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{} G", number(v / 1e9)),
        v if v >= 1e6 => format!("{} M", number(v / 1e6)),
        v if v >= 1e4 => format!("{} k", number(v / 1e3)),
        v => number(v),
    }
}

const SHARE_WIDTH: f64 = 220.0;
const ROW_HEIGHT: f64 = 22.0;
const REMARK_MOST: usize = 46;

impl Picture for Shares {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        let widest = |text: &dyn Fn(&Share) -> String| {
            self.rows.iter().map(|row| width_of(&text(row))).fold(0.0, f64::max)
        };
        let group_of = |row: &Share| cut(&row.group, 30);
        let names = widest(&group_of) + 14.0;
        let bars = names + widest(&|row| row.name.clone()) + 14.0;
        let value = bars + SHARE_WIDTH + 8.0;
        let remarks = value + 58.0;
        let width = remarks + widest(&|row| cut(&row.remark, REMARK_MOST)) + 8.0;
        let mut svg = open(width, ROW_HEIGHT * self.rows.len() as f64 + 8.0, &self.title);
        for (i, row) in self.rows.iter().enumerate() {
            let y = ROW_HEIGHT * i as f64 + 4.0;
            let base = y + 15.0;
            let is_first = i == 0 || self.rows[i - 1].group != row.group;
            if is_first {
                let _ = write!(
                    svg,
                    "<text x=\"0\" y=\"{base:.1}\" font-weight=\"600\">{}</text>",
                    escape(&group_of(row))
                );
            }
            let _ = write!(
                svg,
                "<text x=\"{names:.1}\" y=\"{base:.1}\">{}</text><rect x=\"{bars:.1}\" y=\"{y:.1}\" width=\"{SHARE_WIDTH}\" \
                 height=\"16\" rx=\"3\" fill=\"{}\" fill-opacity=\".55\"/><rect x=\"{bars:.1}\" y=\"{y:.1}\" width=\"{:.2}\" \
                 height=\"16\" rx=\"3\" fill=\"{}\"><title>{}</title></rect><text x=\"{value:.1}\" y=\"{base:.1}\">{}</text>\
                 <text x=\"{remarks:.1}\" y=\"{base:.1}\">{}</text>",
                escape(&row.name),
                colour(1),
                SHARE_WIDTH * row.share.clamp(0.0, 1.0),
                colour(2),
                escape(&format!("{} {}: {}; {}", row.group, row.name, number(row.share), row.remark)),
                number(row.share),
                escape(&cut(&row.remark, REMARK_MOST))
            );
        }
        svg.push_str("</svg>");
        svg
    }

    fn data(&self) -> Vec<Vec<String>> {
        let [name, share, remark] = &self.head;
        let mut rows = vec![vec!["code".to_string(), name.clone(), share.clone(), remark.clone()]];
        rows.extend(
            self.rows
                .iter()
                .map(|row| vec![row.group.clone(), row.name.clone(), number(row.share), row.remark.clone()]),
        );
        rows
    }
}

/// Returns the opening tag of a hand-written picture.
pub(crate) fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\">",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::{Panel, Stacks, round_step, short};
    use crate::figure::{Picture, colour};

    #[test]
    fn a_part_keeps_its_colour_where_others_do_not_occur() {
        let panel = Panel { name: "a code".into(), bars: vec![vec![1.0, 0.0, 2.0], vec![0.0, 0.0, 4.0]] };
        let parts = ["first", "second", "third"].map(String::from).to_vec();
        let stacks = Stacks { title: String::new(), caption: String::new(), parts, panels: vec![panel] };
        assert_eq!(stacks.data()[0], ["code", "device", "first", "third"]);
        assert_eq!(stacks.data()[2], ["a code", "1", "0", "4"]);
        let svg = stacks.svg();
        assert!(!svg.contains("second") && !svg.contains(&colour(1)) && svg.contains(&colour(2)), "{svg}");
    }

    #[test]
    fn axes_have_two_to_four_round_steps() {
        for most in [1.0, 1.9, 3.0, 7.0, 10.0, 99.0, 4096.0, 1_175_562.0, 8.3e12] {
            let (step, steps) = (round_step(most), (most / round_step(most)).ceil());
            assert!((2.0..=4.0).contains(&steps), "{most}: {steps} steps of {step}");
        }
        assert_eq!([9000.0, 20_000.0, 1.5e6, 2e9].map(short), ["9000", "20 k", "1.5 M", "2 G"]);
    }
}
