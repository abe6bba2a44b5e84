//! Reports as one self-contained page: the answer, inline pictures with their data, every number,
//! and the command that made it.
//!
//! A browser shows the values of marks under the pointer. With scripts it also sorts tables, hides
//! series, and saves a picture or its data; without them the page says the same.

use crate::figure::{escape, number};
use crate::measure::Nearness;
use crate::{Figure, Kind, Measure, Report};
use std::collections::BTreeSet;
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --soft: #666e78; --line: #d9dde2; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #15181c; --soft: #9aa3ad; --line: #343a41; --tint: #1e2227; } }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1rem; } p { max-width: 46rem; } code { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--tint); padding: .7rem .9rem; white-space: pre-wrap; overflow-wrap: anywhere; border-radius: 6px; }
.answer { font-size: 1.15rem; } figure { margin: 1.2rem 0; } figcaption, .note { color: var(--soft); font-size: .87rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { padding: .18rem .7rem .18rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); min-width: 3rem; }
td.n, th.n { text-align: right; } td.n { white-space: nowrap; } td.note { min-width: 16rem; } td.path { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } .list td:first-child { white-space: nowrap; } .list td:last-child:not(.n) { min-width: 10rem; } [role=button] { cursor: pointer; } .w { white-space: nowrap; } .off { opacity: .35; }
.save a { margin-right: 1rem; font-size: .87rem; } footer { margin-top: 3rem; border-top: 1px solid var(--line); } summary { cursor: pointer; color: var(--soft); font-size: .87rem; }
.far { font-weight: 600; } nav a { margin-right: 1rem; }
@media print { body { max-width: none; font-size: 11pt; } figure svg { max-width: 100%; height: auto; } .save { display: none; } details::details-content { content-visibility: visible; block-size: auto; }
  details > * { display: block !important; } details.more { display: none; } h2 { break-before: page; } figure, tr { break-inside: avoid; } }
";

/// Sorts a table by the column whose heading is chosen, hides the series of a chosen name, and
/// saves pictures and their data.
const SCRIPT: &str = r##"
const all = (of, what) => [...of.querySelectorAll(what)];
const button = (part, act) => {
  part.setAttribute("role", "button"); part.setAttribute("tabindex", 0);
  part.addEventListener("click", act);
  part.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); act(); } });
};
const value = text => {
  const [, number, unit] = text.match(/^[^\d.+-]*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([KMGTP]?)/) ?? [];
  return number === undefined ? NaN : number * 1024 ** Math.max(0, " KMGTP".indexOf(unit || " "));
};
for (const table of all(document, "table")) {
  const [head, ...rows] = table.rows;
  if (rows.length < 2 || !head.cells[1] || head.querySelector("td")) continue;
  [...head.cells].forEach((cell, c) => button(cell, () => {
    const up = cell.getAttribute("aria-sort") !== "ascending";
    all(head, "th").forEach(other => other.removeAttribute("aria-sort"));
    cell.setAttribute("aria-sort", up ? "ascending" : "descending");
    const text = row => row.cells[c]?.textContent.trim() ?? "";
    rows.sort((a, b) => {
      const by = value(text(a)) - value(text(b));
      return (up ? 1 : -1) * (cell.className === "n" && by === by ? by : text(a).localeCompare(text(b), "en", { numeric: true }));
    });
    head.parentNode.append(...rows);
  }));
}
for (const name of all(document, "[data-legend]")) button(name, () => {
  const off = name.classList.toggle("off");
  for (const part of all(name.closest("svg"), `[data-series="${name.dataset.legend}"]`)) part.style.display = off ? "none" : "";
});
for (const figure of all(document, "figure")) {
  const svg = figure.querySelector("svg"), table = figure.querySelector("table"), line = document.createElement("div");
  const save = (kind, type, text) => {
    const link = document.createElement("a");
    link.href = "#"; link.textContent = kind.toUpperCase();
    link.download = `${figure.querySelector("h3").textContent.replace(/\W+/g, "-")}.${kind}`;
    link.addEventListener("click", () => { link.href = URL.createObjectURL(new Blob([text()], { type })); });
    line.append(link);
  };
  const field = cell => `"${cell.textContent.replaceAll('"', '""')}"`;
  if (svg) save("svg", "image/svg+xml", () => svg.outerHTML);
  if (table) save("csv", "text/csv", () => [...table.rows].map(row => [...row.cells].map(field).join(",") + "\n").join(""));
  line.className = "save";
  figure.append(line);
}
"##;

/// Returns the page. `command` and `inputs` are embedded, so that a reader can reproduce it.
pub fn page(title: &str, command: &str, inputs: &[(String, String)], reports: &[Report]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
        escape(title),
        escape(title)
    );
    if let Some(first) = reports.first() {
        answer(&mut out, first);
    }
    if reports.len() > 1 {
        summary(&mut out, reports);
        out.push_str("<nav>");
        for report in reports {
            let _ = write!(out, "<a href=\"#{0}\">{0}</a>", escape(report.experiment));
        }
        out.push_str("</nav>\n");
    }
    reports.iter().enumerate().for_each(|(nth, report)| section(&mut out, report, title, nth == 0));
    let _ = writeln!(out, "<footer><p>Made by</p><pre><code>{}</code></pre>", escape(command));
    let mut inputs = inputs.iter().chain(reports.iter().flat_map(|report| &report.inputs)).peekable();
    if inputs.peek().is_some() {
        out.push_str("<table>");
        for (name, value) in inputs {
            let value = escape(value).replace('\n', "<br>");
            let _ = write!(out, "<tr><th>{}</th><td class=\"path\">{value}</td></tr>", escape(name));
        }
        out.push_str("</table>\n");
    }
    let _ = writeln!(out, "</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>");
    out
}

/// Returns the text of a cell, in which a line ends at spaces alone: `[0][15]` stays one word.
fn unbroken(cell: &str) -> String {
    let word = |word: &str| match word.contains("][") {
        true => format!("<span class=\"w\">{}</span>", escape(word)),
        false => escape(word),
    };
    cell.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Adds a table of how near each report is to its published numbers, if several reports have any.
fn summary(out: &mut String, reports: &[Report]) {
    let with_published: Vec<&Report> =
        reports.iter().filter(|report| report.published().next().is_some()).collect();
    if with_published.len() < 2 {
        return;
    }
    let _ = writeln!(out, "<p>{}</p>", escape(&Nearness::of(reports).sentence()));
    out.push_str("<div class=\"scroll\"><table><tr><th>experiment</th><th class=\"n\">printed numbers</th>");
    for kind in Kind::ALL {
        let name = if kind == Kind::Published { "alone" } else { kind.name() };
        let _ = write!(out, "<th class=\"n\">{name}</th>");
    }
    out.push_str("<th class=\"n\">measured or counted, not a speed, within 3 %</th></tr>");
    for report in with_published {
        let nearness = Nearness::of([report]);
        let _ = write!(
            out,
            "<tr><td><a href=\"#{0}\">{0}</a></td><td class=\"n\">{1}</td>",
            escape(report.experiment),
            nearness.published
        );
        for kind in Kind::ALL {
            let of_kind = report.published().filter(|measure| measure.kind == kind);
            let numbers: BTreeSet<(&str, u64)> = of_kind.map(Measure::number).collect();
            let _ = write!(out, "<td class=\"n\">{}</td>", numbers.len());
        }
        let _ = write!(out, "<td class=\"n\">{} of {}</td></tr>", nearness.near, nearness.evidence);
    }
    out.push_str("</table></div>\n");
}

fn answer(out: &mut String, report: &Report) {
    if !report.answer.is_empty() {
        let _ = writeln!(out, "<p class=\"answer\">{}</p>", escape(&report.answer));
    }
}

/// Adds a report. The answer of the first is at the top of the page. If a report has an answer, its
/// pictures stand before the words that explain them.
fn section(out: &mut String, report: &Report, title: &str, is_first: bool) {
    let _ = writeln!(out, "<section id=\"{}\">", escape(report.experiment));
    if report.title != title {
        let _ = writeln!(out, "<h2>{}</h2>", escape(&report.title));
    }
    if !is_first {
        answer(out, report);
    }
    let figures = |out: &mut String| report.figures.iter().for_each(|figure| self::figure(out, figure));
    let text =
        report.text.iter().map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))).collect::<String>();
    let published = |out: &mut String| {
        let published: Vec<&Measure> = report.published().collect();
        if !published.is_empty() {
            out.push_str("<h3>Beside what is published</h3>\n");
            measures(out, &published);
        }
    };
    if report.answer.is_empty() {
        out.push_str(&text);
        published(out);
        figures(out);
    } else {
        figures(out);
        out.push_str(&text);
        published(out);
    }
    let all: Vec<&Measure> = report.measures.iter().filter(|m| m.published.is_none()).collect();
    if !all.is_empty() {
        let _ = writeln!(out, "<details class=\"more\"><summary>{} more numbers</summary>", all.len());
        measures(out, &all);
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

fn measures(out: &mut String, measures: &[&Measure]) {
    out.push_str(
        "<div class=\"scroll\"><table><tr><th>case</th><th>quantity</th><th class=\"n\">published</th><th class=\"n\">here</th><th>kind</th><th \
         class=\"n\">deviation</th><th>remark</th></tr>\n",
    );
    for measure in measures {
        let value = |value: Option<f64>| value.map_or(String::new(), number);
        let far = if measure.deviation.is_some_and(|d| d.abs() > 0.05) { " far" } else { "" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n{far}\">{}</td><td class=\"note\">{}</td></tr>",
            escape(&measure.case),
            escape(&measure.quantity),
            value(measure.published),
            value(measure.value),
            measure.kind.name(),
            measure.deviation.map_or(String::new(), deviation),
            remark(measure),
        );
    }
    out.push_str("</table></div>\n");
}

/// Returns the remark on a number: its note and the words of the document.
fn remark(measure: &Measure) -> String {
    let printed = measure.line.map(|line| format!("\u{201c}{}\u{201d}", escape(line)));
    let parts = measure.note.as_deref().map(escape).into_iter().chain(printed);
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns a deviation in per cent, with its sign; beyond a hundredfold, the factor.
pub fn deviation(share: f64) -> String {
    match share < 99.0 {
        true => format!("{:+.1} %", 100.0 * share),
        false => format!("x {}", number(share + 1.0)),
    }
}

fn figure(out: &mut String, figure: &Figure) {
    if let Figure::Quote(quote) = figure {
        let _ = writeln!(
            out,
            "<figure><h3>{}</h3><pre><code>{}</code></pre><figcaption>{}</figcaption></figure>",
            escape(&quote.title),
            escape(&quote.lines.join("\n")),
            escape(&quote.caption)
        );
        return;
    }
    let _ = write!(
        out,
        "<figure><h3>{}</h3><div class=\"scroll\">{}</div><figcaption>{}</figcaption>",
        escape(figure.title()),
        figure.svg(),
        escape(figure.caption())
    );
    let is_table = matches!(figure, Figure::Listing(_));
    if !is_table {
        out.push_str("<details><summary>Data</summary>");
    }
    out.push_str(if is_table {
        "<div class=\"scroll list\"><table>"
    } else {
        "<div class=\"scroll\"><table>"
    });
    let data = figure.data();
    let is_number = |row: &Vec<String>, c: usize| {
        row.get(c).is_none_or(|cell| cell.is_empty() || cell.parse::<f64>().is_ok())
    };
    let columns = data.first().map_or(1, Vec::len).max(1);
    let numbers: Vec<bool> = match figure {
        Figure::Listing(listing) => listing.head.iter().map(|name| name.starts_with('>')).collect(),
        _ => (0..columns).map(|c| data.iter().skip(1).all(|row| is_number(row, c))).collect(),
    };
    for (i, row) in data.iter().enumerate() {
        let tag = if i == 0 { "th" } else { "td" };
        // Words are aligned to the left, numbers to the right.
        out.push_str("<tr>");
        for (c, cell) in row.iter().enumerate() {
            let class = if c > 0 && numbers[c.min(numbers.len() - 1)] { " class=\"n\"" } else { "" };
            let _ = write!(out, "<{tag}{class}>{}</{tag}>", unbroken(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
    out.push_str(if is_table { "</figure>\n" } else { "</details></figure>\n" });
}
