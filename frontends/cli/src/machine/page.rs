//! The state of this machine as one page: the faults first, then each volume and set.

use crate::describe::count;
use crate::machine::all::{LastRun, Task};
use crate::machine::conditions::{Conditions, worst_first};
use crate::machine::deliver;
use crate::machine::look::{Looked, SetLook, ShardsFound, VolumeFound, VolumeLook};
use crate::sets;
use crate::volumes;
use pantile_host::{DeviceReport, DeviceWord, StatusReport, Verdict, when};
use pantile_lab::figure::escape;
use std::fmt::Write;

/// The media type of the page.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// Latest events of a volume that are listed.
const EVENTS_MOST: usize = 20;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --soft: #5c646e; --line: #d9dde2; --tint: #f4f6f8;
  --good: #1a7f37; --warn: #9a6700; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #15181c; --soft: #9aa3ad; --line: #343a41; --tint: #1e2227;
  --good: #4ac26b; --warn: #d4a72c; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.25rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0; } h2 { font-size: 1.2rem; margin: 0; }
p { margin: .35rem 0; max-width: 60rem; } .soft, footer { color: var(--soft); font-size: .875rem; }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); } .path { overflow-wrap: anywhere; }
ul { padding: 0; list-style: none; margin: 1rem 0; }
li { border-left: 4px solid var(--bad); background: var(--tint); padding: .5rem .75rem; margin: .4rem 0; overflow-wrap: anywhere; }
section { border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; margin: 1rem 0; }
.bar { height: 8px; max-width: 30rem; background: var(--line); border-radius: 4px; } .bar i { display: block; height: 8px; background: var(--soft); border-radius: 4px; }
table { border-collapse: collapse; width: 100%; margin: .7rem 0 .3rem; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 400; } td { white-space: nowrap; } td.path, td.text { white-space: normal; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
@media (max-width: 46rem) { thead { display: none; } tr { display: block; padding: .35rem 0; border-bottom: 1px solid var(--line); }
  td { display: flex; gap: .6rem; border: 0; padding: .05rem 0; white-space: normal; } td::before { content: attr(data-is); color: var(--soft); flex: 0 0 7rem; } }
@media print { section, li, tr { break-inside: avoid; } }
";

/// Returns the page. `refresh` is the number of seconds after which a browser loads it again.
pub fn text(looked: &Looked, wrong: &Conditions, refresh: Option<u64>) -> String {
    let (answer, tone) = match wrong.len() {
        _ if looked.volumes.is_empty() && looked.sets.is_empty() => {
            ("No volume and no set is known".to_string(), "warn")
        }
        0 => ("Nothing is wrong".to_string(), "good"),
        1 => ("1 thing is wrong".to_string(), "bad"),
        more => (format!("{more} things are wrong"), "bad"),
    };
    let host = escape(&deliver::host());
    let refresh =
        refresh.map_or(String::new(), |every| format!("<meta http-equiv=\"refresh\" content=\"{every}\">\n"));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n{refresh}<title>{answer} - {host}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1 class=\"{tone}\">{answer}</h1>\n\
         <p class=\"soft\">{host}, {}, {}; {}.</p>\n",
        count(looked.volumes.len(), "volume"),
        count(looked.sets.len(), "set"),
        escape(&when(i64::try_from(looked.at).unwrap_or(0)))
    );
    if !wrong.is_empty() {
        out.push_str("<ul>\n");
        for condition in worst_first(wrong) {
            let (about, text) = (shown(&condition.about), shown(&condition.text));
            let _ = writeln!(out, "<li><b>{about}</b>: {text}</li>");
        }
        out.push_str("</ul>\n");
    }
    looked.volumes.iter().for_each(|look| volume(&mut out, look));
    if !looked.sets.is_empty() {
        sets_table(&mut out, &looked.sets);
    }
    let _ = writeln!(
        out,
        "<footer>pantile {}; 'pantile status {}' prints the state of now.</footer>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION"),
        shown(&looked.all)
    );
    out
}

/// Returns a text of another program, without control characters, for HTML.
fn shown(text: &str) -> String {
    escape(&sets::name(text))
}

fn volume(out: &mut String, look: &VolumeLook) {
    let folder = shown(&look.folder.to_string_lossy());
    let (report, served) = match &look.found {
        VolumeFound::Served(report) => (report, true),
        VolumeFound::Closed(report) => (report, false),
        VolumeFound::NotServed | VolumeFound::NoAnswer(_) => {
            let word = if matches!(look.found, VolumeFound::NotServed) { "not served" } else { "no answer" };
            let _ = writeln!(
                out,
                "<section><h2 class=\"path\">{folder} <span class=\"bad\">{word}</span></h2></section>"
            );
            return;
        }
    };
    let (word, tone) = match report.verdict {
        Verdict::Clean => ("clean", "good"),
        Verdict::Warned => ("whole, with warnings", "warn"),
        Verdict::Degraded => ("degraded", "warn"),
        Verdict::Failed => ("failed", "bad"),
    };
    let _ = writeln!(out, "<section>\n<h2>{} <span class=\"{tone}\">{word}</span></h2>", shown(&report.name));
    let answer = match report.opens {
        true => volumes::margin_text(&report.margin),
        false => "The volume cannot be opened.".into(),
    };
    let served = if served { "served" } else { "not served" };
    let _ = writeln!(
        out,
        "<p>{}</p>\n<p class=\"soft path\">{folder}; {}, {served}</p>",
        shown(&answer),
        shown(&report.code)
    );
    if report.opens {
        let share = 100.0 * report.used_bytes as f64 / report.len_bytes.max(1) as f64;
        let _ = writeln!(
            out,
            "<div class=\"bar\"><i style=\"width:{:.0}%\"></i></div>\n<p class=\"soft\">{}</p>",
            share.clamp(0.0, 100.0),
            shown(&volumes::used_text(report))
        );
        for line in volumes::under_way_text(report, &look.folder, served == "served").lines() {
            let _ = writeln!(out, "<p>{}</p>", shown(line));
        }
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", shown(&volumes::scrub_text(report, &look.folder)));
    }
    if let Some(next) = volumes::next_step(report, &look.folder, served == "served") {
        let _ = writeln!(out, "<p class=\"path\">Next: {}</p>", shown(&next));
    }
    devices(out, report, look);
    if !report.events.is_empty() {
        let _ = writeln!(out, "<details><summary>Latest events</summary>\n<table>");
        for event in report.events.iter().rev().take(EVENTS_MOST) {
            let (at, text) = (shown(&when(event.at)), shown(&event.text));
            let _ = writeln!(
                out,
                "<tr><td data-is=\"when\">{at}</td><td class=\"text\" data-is=\"what\">{text}</td></tr>"
            );
        }
        out.push_str("</table></details>\n");
    }
    out.push_str("</section>\n");
}

fn devices(out: &mut String, report: &StatusReport, look: &VolumeLook) {
    let heads = ["device", "state", "wrong blocks", "failed reads", "disk health", "path"];
    head(out, &heads);
    for device in &report.devices {
        let (state, tone) = match device.state {
            DeviceWord::Present => ("present", "good"),
            DeviceWord::Lost => ("lost", "bad"),
            DeviceWord::Rebuilding => ("rebuilding", "warn"),
        };
        let health = look.smart.iter().find(|disk| disk.devices.contains(&device.device));
        let health = health.map_or("-".into(), |disk| disk.smart.short());
        let errors = |errors: u64| {
            let tone = if errors > 0 { "warn" } else { "" };
            (errors.to_string(), tone)
        };
        let cells = [
            (device.device.to_string(), ""),
            (state.to_string(), tone),
            errors(device.checksum_errors),
            errors(device.media_errors),
            (health, ""),
            (path_of(device), "path"),
        ];
        row(out, &heads, &cells);
    }
    for spare in &report.spares {
        let cell = || ("-".to_string(), "");
        let path = (spare.to_string_lossy().into_owned(), "path");
        row(out, &heads, &[cell(), ("spare".into(), ""), cell(), cell(), cell(), path]);
    }
    out.push_str("</tbody></table>\n");
}

fn path_of(device: &DeviceReport) -> String {
    device.path.as_ref().map_or("-".into(), |path| path.to_string_lossy().into_owned())
}

fn head(out: &mut String, heads: &[&str]) {
    out.push_str("<table><thead><tr>");
    heads.iter().for_each(|head| {
        let _ = write!(out, "<th>{head}</th>");
    });
    out.push_str("</tr></thead><tbody>\n");
}

/// Adds a row; each cell has a text and a class.
fn row(out: &mut String, heads: &[&str], cells: &[(String, &str)]) {
    out.push_str("<tr>");
    for (head, (text, class)) in heads.iter().zip(cells) {
        let _ = write!(out, "<td class=\"{class}\" data-is=\"{head}\">{}</td>", shown(text));
    }
    out.push_str("</tr>\n");
}

fn sets_table(out: &mut String, all: &[SetLook]) {
    out.push_str("<section>\n<h2>Sealed sets</h2>\n");
    let heads = ["set", "sealed", "verified", "good shards"];
    head(out, &heads);
    for set in all {
        let last = |task: Task| {
            let found = set.runs.iter().find(|(of, _)| *of == task);
            last_run(found.and_then(|(_, last)| last.as_ref()))
        };
        row(out, &heads, &[(set.name.clone(), ""), last(Task::Seal), last(Task::Verify), good_shards(set)]);
    }
    out.push_str("</tbody></table>\n</section>\n");
}

/// Returns time and result of a run, and its tone.
pub fn last_run(last: Option<&LastRun>) -> (String, &'static str) {
    let Some(last) = last else { return ("never by --all".into(), "warn") };
    let at = when(i64::try_from(last.ended_at).unwrap_or(0));
    match last.status {
        0 => (at, "good"),
        status => (format!("{at}, status {status}"), "bad"),
    }
}

/// Returns how many shards of a set are good, and the tone of that.
pub fn good_shards(set: &SetLook) -> (String, &'static str) {
    match &set.shards {
        ShardsFound::Unknown => ("-".into(), ""),
        ShardsFound::Shards { total, bad } => {
            let tone = if bad.is_empty() { "good" } else { "bad" };
            (format!("{} of {total}", total - bad.len()), tone)
        }
        ShardsFound::NoShards => ("none".into(), "bad"),
        ShardsFound::Fault(_) => ("unknown".into(), "bad"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::conditions::conditions;
    use crate::machine::config::Thresholds;
    use pantile_host::{Finding, FindingKind};

    fn machine(name: &str, wrong: Option<&str>) -> Looked {
        let mut report = StatusReport { name: name.into(), opens: true, ..StatusReport::default() };
        (report.verdict, report.margin.survives, report.margin.any_more) = (Verdict::Clean, true, 2);
        (report.len_bytes, report.used_bytes) = (4 << 30, 1 << 30);
        report.findings.extend(wrong.map(|text| Finding {
            kind: FindingKind::DeviceLost,
            verdict: Verdict::Degraded,
            device: Some(1),
            text: text.into(),
        }));
        let found = VolumeFound::Served(Box::new(report));
        let volumes = vec![VolumeLook { folder: "/srv/tank".into(), found, smart: Vec::new() }];
        let last = LastRun { ended_at: 7, status: 1, text: String::new(), is_done_once: true };
        let runs = vec![(Task::Seal, Some(last)), (Task::Verify, None)];
        let shards = ShardsFound::Shards { total: 3, bad: Vec::new() };
        let set = SetLook { name: "pool".into(), runs, shards, words: "/parity --name pool".into() };
        Looked { at: 7, all: "--all".into(), volumes, sets: vec![set] }
    }

    fn page(looked: &Looked, refresh: Option<u64>) -> String {
        text(looked, &conditions(looked, &Thresholds::default()), refresh)
    }

    #[test]
    fn the_page_begins_with_the_answer() {
        let body = page(&machine("tank", Some("Device 1 is lost.")), Some(60));
        let start = body.split_once("<body>\n").expect("a body").1;
        assert!(start.starts_with("<h1 class=\"bad\">3 things are wrong</h1>"), "{start}");
        for part in [
            "<b>/srv/tank</b>: Device 1 is lost.",
            "2 more devices can fail without data loss.",
            "style=\"width:25%\"",
            "content=\"60\"",
            "status 1",
            "never by --all",
            "The set was never verified by '--all'; run 'pantile verify --all'",
            ">3 of 3<",
            "'pantile status --all' prints",
        ] {
            assert!(body.contains(part), "{part}: {body}");
        }
        let mut well = machine("tank", None);
        well.sets.clear();
        let body = page(&well, None);
        assert!(body.contains("<h1 class=\"good\">Nothing is wrong</h1>") && !body.contains("refresh"));
        let none = page(&Looked { at: 7, all: "--all".into(), volumes: Vec::new(), sets: Vec::new() }, None);
        assert!(none.contains("No volume and no set is known"), "{none}");
    }

    /// An attacker's server at the socket of a volume's folder can send any text.
    #[test]
    fn no_text_of_a_volume_is_markup() {
        let body = page(&machine("<script>a()</script>", Some("<img src=x onerror=a()>")), None);
        assert!(!body.contains("<script") && !body.contains("<img"), "{body}");
        assert!(body.contains("default-src 'none'"), "{body}");
    }
}
