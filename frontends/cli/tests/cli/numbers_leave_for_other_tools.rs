//! Exports of the lab for other programs: comma-separated values, the table of the terminal on the
//! page, and the hosts and disks of Ceph's tree.

use crate::common::*;
use serde_json::Value;
use std::path::Path;

fn at(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("UTF-8").to_string()
}

/// Returns the fields of a line without quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(String::new()),
            c => all.last_mut().expect("a field").push(c),
        }
    }
    all
}

#[test]
fn every_number_is_a_line_with_its_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = at(folder.path(), "trace.csv");
    text(&["pantile-lab", "generate", "zipf", "--requests", "500", "--space", "64M", "--out", &trace]);
    for arguments in [
        &["replay", &trace, "--codes", "raid5:2,lrc:4,2,1"][..],
        &["durability", "lrc:4,2,1", "raid5:3", "--cycles", "500"],
        &["pantile-lab", "shec"],
    ] {
        let csv = text(&[arguments, &["--csv"]].concat());
        let answer = json(&[arguments, &["--json"]].concat());
        let measures = answer.as_array().expect("a list");
        let mut lines = csv.lines().map(fields);
        let head = lines.next().expect("a head");
        assert_eq!(head.join(","), "experiment,case,quantity,kind,published,value,deviation,note,line");
        let lines: Vec<Vec<String>> = lines.collect();
        assert_eq!(lines.len(), measures.len(), "{arguments:?}");
        for (line, measure) in lines.iter().zip(measures) {
            assert_eq!(line.len(), 9, "{line:?}");
            for (name, field) in
                head.iter().zip(line).filter(|(name, _)| !["note", "line"].contains(&name.as_str()))
            {
                match &measure[name] {
                    Value::Null => assert_eq!(field, ""),
                    Value::String(words) => assert_eq!(field, &words.replace('"', "")),
                    number => {
                        let both = (field.parse::<f64>().ok()).zip(number.as_f64());
                        // Parsing JSON can change the last digit.
                        let is_same = both.is_some_and(|(a, b)| (a - b).abs() <= 1e-14 * b.abs());
                        assert!(is_same, "{name} of {line:?}: {number}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_page_of_a_replay_has_the_terminals_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, page) = (at(folder.path(), "trace.csv"), at(folder.path(), "page.html"));
    text(&[
        "pantile-lab",
        "generate",
        "zipf",
        "--requests",
        "500",
        "--element",
        "8K",
        "--space",
        "64M",
        "--out",
        &trace,
    ]);
    let arguments = ["replay", &trace, "--codes", "raid6:4,dcode:6", "--windows", "16", "--html", &page];
    let terminal = text(&arguments);
    let page = std::fs::read_to_string(&page).expect("a page");
    let table = page.split("The codes side by side").nth(1).expect("the table is there");
    let table = table.split("</table>").next().expect("it ends");
    let mut rows = 0;
    for line in terminal.lines().filter(|line| line.starts_with("raid6:4 ") || line.starts_with("dcode:6 ")) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let row = table.split("<tr>").find(|row| row.contains(&format!(">{}<", cells[0]))).expect("a row");
        let on_page: Vec<&str> = row.split("</td>").filter_map(|cell| cell.rsplit('>').next()).collect();
        assert_eq!(
            on_page.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>(),
            cells
        );
        rows += 1;
    }
    assert_eq!(rows, 2, "{terminal}");
}

#[test]
fn latencies_stand_beside_blocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = at(folder.path(), "trace.csv");
    text(&[
        "pantile-lab",
        "generate",
        "zipf",
        "--requests",
        "300",
        "--element",
        "8K",
        "--space",
        "64M",
        "--out",
        &trace,
    ]);
    let arguments = ["replay", &trace, "--codes", "raid6:4,mirror:3", "--device", "hdd"];
    let answer = json(&[&arguments[..], &["--json"]].concat());
    let of = |case: &str, quantity: &str| {
        let all = answer.as_array().expect("a list");
        let found = all.iter().find(|m| m["case"] == case && m["quantity"] == quantity);
        let found = found.unwrap_or_else(|| panic!("{case} has no {quantity}"));
        assert_eq!(found["kind"], "simulated");
        found["value"].as_f64().expect("a number")
    };
    for code in ["raid6:4", "mirror:3"] {
        let [read, slow] = ["p50", "p99"].map(|p| of(code, &format!("latency of reads, {p}, ms")));
        let [write, slow_write] = ["p50", "p99"].map(|p| of(code, &format!("latency of writes, {p}, ms")));
        assert!(
            read < slow && write < slow_write && read < write,
            "{code}: {read} {slow} {write} {slow_write}"
        );
    }
    let read_first =
        of("mirror:3", "latency of writes, p50, ms") < of("raid6:4", "latency of writes, p50, ms");
    assert!(read_first, "a copy needs no old content");
    let table = text(&arguments).split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["write p99", "simulated", "model hdd"] {
        assert!(table.contains(word), "{word} is missing in {table}");
    }
}

const TREE: &str = r#"{"nodes":[
    {"id":-1,"name":"default","type":"root","type_id":11,"children":[-2,-3]},
    {"id":-2,"name":"a","type":"host","type_id":1,"children":[0,1,2]},
    {"id":-3,"name":"b","type":"host","type_id":1,"children":[3,4,5]},
    {"id":0,"name":"osd.0","type":"osd","type_id":0,"crush_weight":8,"status":"up"},
    {"id":1,"name":"osd.1","type":"osd","type_id":0,"crush_weight":8,"status":"up"},
    {"id":2,"name":"osd.2","type":"osd","type_id":0,"crush_weight":8,"status":"up"},
    {"id":3,"name":"osd.3","type":"osd","type_id":0,"crush_weight":8,"status":"up"},
    {"id":4,"name":"osd.4","type":"osd","type_id":0,"crush_weight":8,"status":"up"},
    {"id":5,"name":"osd.5","type":"osd","type_id":0,"crush_weight":8,"status":"down"}],"stray":[]}"#;

#[test]
fn a_tree_says_how_many_hosts_and_how_large_disks_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = at(folder.path(), "tree.json");
    std::fs::write(&tree, TREE).expect("written");
    let arguments = ["durability", "raid6:1", "mirror:3", "--tree", &tree, "--cycles", "0"];
    let answer = text(&arguments);
    let sentences = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Disks of 8 TiB",
        "spread over 2 hosts",
        "0.1 % a year",
        "raid6:1: up to 2 columns on one host, 2 hosts in all; any one host may be lost",
        "6 OSDs with a weight, 8.00 in the mean, on 2 hosts and 0 racks",
    ] {
        assert!(sentences.contains(words), "{words} is missing in {sentences}");
    }
    let json = json(&[&arguments[..], &["--json"]].concat());
    let all = json.as_array().expect("a list");
    let of = |quantity: &str| {
        all.iter().find(|m| m["case"] == "raid6:1" && m["quantity"] == quantity).expect("there")["value"]
            .as_f64()
    };
    let (years, losses) = (of("MTTDL, years").expect("a number"), of("losses a year on all 6 OSDs"));
    assert!((losses.expect("a number") * years / 2.0 - 1.0).abs() < 1e-6, "two arrays of three");
    let by_hand = ["durability", "raid6:1", "--hosts", "2", "--disk-size", "8T", "--cycles", "0", "--json"];
    let by_hand = self::json(&by_hand);
    let same = by_hand.as_array().expect("a list").iter().find(|m| m["quantity"] == "nines").expect("nines");
    assert_eq!(same["value"].as_f64(), of("nines"));
}

#[test]
fn a_text_that_is_no_tree_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &str| {
        let path = at(folder.path(), name);
        std::fs::write(&path, content).expect("written");
        path
    };
    let good = file("good", TREE);
    let none = file("none", "{\"nodes\":[]}");
    let text = file("text", "ID CLASS WEIGHT");
    let dump = file("dump", "{\"pools\":[]}");
    let deep = file("deep", &"[".repeat(200_000));
    let absent = at(folder.path(), "absent");
    for (more, needles) in [
        (&["--tree", &none][..], &["no OSD", "ceph osd tree -f json"][..]),
        (&["--tree", &text], &["ceph osd tree -f json"]),
        (&["--tree", &dump], &["ceph osd tree -f json"]),
        (&["--tree", &deep], &["ceph osd tree -f json"]),
        (&["--tree", &absent], &["there is no file", "ceph osd tree -f json >"]),
        (&["--tree", "."], &["directory", "ceph osd tree -f json"]),
        (&["--tree", "/dev/zero"], &["a device"]),
        (&["--tree", &good, "--domain", "rack"], &["no rack", "--domain"]),
        (&["--domain", "rack"], &["--tree"]),
        (&["--hosts", "0"], &["1..=100000"]),
        (&["--hosts", "2", "--racks", "2"], &["--racks"]),
        (&["--hosts", "2", "--domain-loss", "2"], &["at most 99.9 %"]),
        (&["--repair-bandwidth", "fast"], &["'none'"]),
    ] {
        let arguments = [&["durability", "raid6:4"], more].concat();
        assert_fault(&pantile(&arguments), 2, needles, &format!("{more:?}"));
    }
    let hosts = ["1", "2", "255", "100000"];
    for count in hosts {
        let run =
            pantile(&["durability", "raid6:4", "dcode:7", "raidp:4", "--hosts", count, "--cycles", "100"]);
        assert_eq!(run.status, 0, "{count}: {}", run.stderr);
    }
}

#[test]
fn the_page_of_a_proof_has_the_verdict_the_counts_and_the_fatal_sets() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = at(folder.path(), "page.html");
    let terminal = text(&["prove", "shec:6,4,3", "--html", &page]);
    let page = std::fs::read_to_string(&page).expect("a page");
    let verdict = terminal.lines().last().expect("a verdict");
    assert!(page.find(verdict) < page.find("<svg"), "{verdict}");
    for part in
        [verdict, "<td class=\"n\">91.6667 %</td>", "{0,1,6} {0,1,9}", "3 lost: 0.9167; 110 of 120 sets"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
}
