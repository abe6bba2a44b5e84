//! Every command answers, and every JSON answer has the fields that docs/cli.md promises.

use crate::common::*;
use serde_json::{Value, json as value};

fn counts(levels: &Value) -> Vec<(u64, u64, u64)> {
    let number = |level: &Value, key: &str| level[key].as_u64().unwrap_or(u64::MAX);
    let levels = levels.as_array().expect("levels are a list");
    levels.iter().map(|l| (number(l, "lost"), number(l, "sets"), number(l, "survived"))).collect()
}

#[test]
fn codes_lists_every_family() {
    let table = text(&["codes"]);
    let answer = json(&["codes", "--json"]);
    let families = answer["families"].as_array().expect("a list");
    assert!(families.len() >= 15);
    for family in families {
        let name = family["name"].as_str().expect("a name");
        assert!(table.contains(name), "{name} is missing in the table");
        for example in family["examples"].as_array().expect("examples") {
            let example = example.as_str().expect("a spec");
            assert_eq!(pantile(&["show", example]).status, 0, "{example} is no example");
        }
        for key in ["summary", "forms", "source"] {
            assert!(!family[key].is_null(), "{name} lacks {key}");
        }
    }
}

#[test]
fn show_says_shape_order_and_equations() {
    let answer = json(&["show", "dcode:7", "--json"]);
    assert_eq!(answer["output_version"], 1);
    assert_eq!(answer["columns"], 7);
    assert_eq!(answer["rows"], value!([7, 7, 7, 7, 7, 7, 7]));
    assert_eq!((&answer["data"], &answer["parity"]), (&value!(35), &value!(14)));
    assert_eq!(answer["claim"], value!({"tolerance": 2, "mds": true}));
    assert_eq!(answer["parities_updated"], value!({"mean": 2.0, "most": 2}));
    assert_eq!(answer["order"][7], value!([1, 0]));
    let equations = answer["equations"].as_array().expect("a list");
    assert_eq!(equations.len(), 14);
    let p51 = equations.iter().find(|e| e["parity"] == value!([5, 1])).expect("P[5][1] is defined");
    let mut cells: Vec<String> =
        p51["terms"].as_array().expect("terms").iter().map(|t| t["cell"].to_string()).collect();
    cells.sort();
    assert_eq!(cells, ["[1,3]", "[1,4]", "[1,5]", "[1,6]", "[2,0]", "[5,1]"]);
}

#[test]
fn show_numbers_sets_of_groups_that_share_no_cell() {
    for spec in ["dcode:7", "dcode:6", "xcode:7", "rdp:8", "hcode:8", "hdp:6", "raidp:6"] {
        let answer = json(&["show", spec, "--json"]);
        let equations = answer["equations"].as_array().expect("a list");
        let mut seen = std::collections::HashSet::new();
        for equation in equations {
            for term in equation["terms"].as_array().expect("terms") {
                let new = seen.insert((equation["set"].as_u64(), term["cell"].to_string()));
                assert!(new, "{spec}: {} lies in two groups of one set", term["cell"]);
            }
        }
        assert!(equations.iter().all(|e| e["set"].as_u64() < Some(2)), "{spec} has two sets of groups");
        let labels: std::collections::HashSet<_> = equations.iter().map(|e| e["label"].to_string()).collect();
        assert_eq!(labels.len(), equations.len(), "{spec}: labels repeat");
    }
}

#[test]
fn prove_has_exactly_the_promised_beginning() {
    let run = pantile(&["prove", "raid6:5", "--json"]);
    assert_eq!(run.status, 0);
    assert_eq!(keys_as_written(&run.stdout)[..5], ["code", "columns", "method", "tolerance", "fatal"]);
    assert!(run.stdout.contains("{\"lost\": 1, \"sets\": 7, \"survived\": 7"), "{}", run.stdout);
    let answer: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(answer["code"], "raid6:5");
    assert_eq!(answer["columns"], 7);
    assert_eq!(answer["method"], "exact");
    assert_eq!(counts(&answer["tolerance"]), [(1, 7, 7), (2, 21, 21), (3, 35, 0)]);
    assert_eq!(answer["fatal"].as_array().map(Vec::len), Some(35));
    assert_eq!(answer["fatal"][0], value!([0, 1, 2]));
    assert_eq!(answer["fatal_count"], 35);
    assert_eq!(answer["claim"], value!({"tolerance": 2, "mds": true}));
    assert_eq!((&answer["holds"], &answer["complete"]), (&value!(true), &value!(true)));
    assert_eq!((&answer["by_cauchy"], &answer["by_shift"]), (&value!(true), &value!(false)));
    assert_eq!(answer["tolerance"][0]["method"], "exact");
}

#[test]
fn prove_knows_the_known_counts() {
    let shec = json(&["prove", "shec:6,4,3", "--json"]);
    assert_eq!(counts(&shec["tolerance"])[1..4], [(2, 45, 45), (3, 120, 110), (4, 210, 134)]);
    assert_eq!(shec["fatal_count"], 10);
    let dcode = json(&["prove", "dcode:9,raw", "--json", "--witnesses", "2"]);
    assert_eq!((&dcode["fatal_count"], dcode["fatal"].as_array().map(Vec::len)), (&value!(9), Some(2)));
    let none = json(&["prove", "dcode:9,raw", "--json", "--witnesses", "0"]);
    assert_eq!((&none["fatal_count"], &none["fatal"]), (&value!(9), &value!([])));
    let raidq = json(&["prove", "raidq:92+4", "--json", "--max-lost", "4"]);
    assert_eq!((&raidq["by_shift"], &raidq["proved_tolerance"]), (&value!(true), &value!(4)));
    assert_eq!(raidq["complete"], false);
}

#[test]
fn a_sampled_level_says_what_was_drawn() {
    let arguments = ["prove", "shec:6,4,3", "--sets", "100", "--sample", "500", "--seed", "7", "--json"];
    let answer = json(&arguments);
    assert_eq!(answer["method"], "sampled");
    let third = &answer["tolerance"][2];
    assert_eq!(
        (&third["method"], &third["drawn"], &third["sets"]),
        (&value!("sampled"), &value!(500), &value!(120))
    );
    assert!(third["survived"].as_u64() < Some(500) && third["survived"].as_u64() > Some(300));
    let share = third["fatal_share_most"].as_f64().expect("a share");
    assert!(share > 0.05 && share < 0.2, "{share}");
    assert_eq!(pantile(&arguments).stdout, pantile(&arguments).stdout, "the same seed gives the same answer");
    let other = json(&["prove", "shec:6,4,3", "--sets", "100", "--sample", "500", "--seed", "8", "--json"]);
    assert_ne!(answer["tolerance"], other["tolerance"]);
}

#[test]
fn wide_codes_are_proven_and_their_long_tables_folded() {
    for (spec, tolerance, by) in [
        ("rs:1+255", 255, "by_inclusion"),
        ("mirror:258", 257, "by_inclusion"),
        ("rs:128+128", 128, "by_cauchy"),
    ] {
        let answer = json(&["prove", spec, "--json", "--witnesses", "1"]);
        assert_eq!((&answer["method"], &answer["proved_tolerance"]), (&value!("exact"), &value!(tolerance)));
        assert_eq!((&answer[by], &answer["complete"]), (&value!(true), &value!(true)));
        assert_eq!(answer["tolerance"].as_array().map(Vec::len), Some(tolerance + 1));
        let table = text(&["prove", spec]);
        assert!(
            table.lines().count() < 40 && table.contains("...") && table.contains("as claimed"),
            "{table}"
        );
    }
}

#[test]
fn a_long_proof_speaks_and_says_at_ctrl_c_what_was_proved() {
    use std::io::{BufRead, BufReader, Read};
    // Level five has 8.8 thousand million sets: the proof cannot end during the test.
    let arguments = [
        "prove",
        "rs:128+128",
        "--count",
        "--sets",
        "10000000000",
        "--work",
        "1000000000000000000",
        "--json",
    ];
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the built command can be run");
    let mut said = BufReader::new(run.stderr.take().expect("a pipe")).lines();
    let line = said.find(|line| line.as_ref().is_ok_and(|line| line.contains(" lost columns: ")));
    let line = line.expect("a line about the level under way").expect("UTF-8");
    assert!(line.starts_with("pantile: rs:128+128: ") && line.ends_with('%'), "{line}");
    let kill = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", run.id())]).status();
    assert!(kill.is_ok_and(|status| status.success()));
    let mut answer = String::new();
    run.stdout.take().expect("a pipe").read_to_string(&mut answer).expect("UTF-8");
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let known =
        [256, 32_640, 2_763_520, 174_792_640].into_iter().zip(1..).map(|(sets, lost)| (lost, sets, sets));
    let proved = counts(&answer["tolerance"]);
    assert!((2..=4).contains(&proved.len()), "{proved:?}");
    assert_eq!(proved, known.take(proved.len()).collect::<Vec<_>>());
    assert_eq!((&answer["complete"], &answer["proved_tolerance"]), (&value!(false), &value!(proved.len())));
}

#[test]
fn plan_has_the_promised_fields() {
    let run = pantile(&["plan", "rdp:6", "--lost", "0", "--json"]);
    assert_eq!(run.status, 0);
    let answer: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let cells = answer["read_cells"].as_array().expect("cells");
    assert_eq!(answer["reads"].as_u64(), Some(cells.len() as u64));
    assert_eq!(answer["reads"], 12);
    let per_column: Vec<u64> =
        answer["reads_per_column"].as_array().expect("counts").iter().filter_map(Value::as_u64).collect();
    assert_eq!((per_column.len(), per_column.iter().sum::<u64>(), per_column[0]), (6, 12, 0));
    assert_eq!(answer["cost"], 12);
    assert_eq!(answer["optimality"], value!({"kind": "exact", "at_least": 12}));
    assert_eq!(answer["outputs"], value!([[0, 0], [1, 0], [2, 0], [3, 0]]));
    let step = &answer["steps"][0];
    assert!(step["target"].is_array() && step["terms"][0]["cell"].is_array());
    assert_eq!(step["terms"][0]["coefficient"], 1);
}

#[test]
fn plan_avoids_costly_columns_and_takes_cells() {
    let dear = json(&["plan", "rs:4+2", "--lost", "1", "--cost", "0=9", "--json"]);
    assert_eq!(dear["reads_per_column"], value!([0, 0, 1, 1, 1, 1]));
    let cell = json(&["plan", "dcode:7", "--lost", "3.0", "--want", "3.0", "--json"]);
    assert_eq!((&cell["reads"], &cell["outputs"]), (&value!(5), &value!([[3, 0]])));
    let nothing = json(&["plan", "dcode:7", "--want", "2", "--json"]);
    assert_eq!((&nothing["reads"], &nothing["steps"]), (&value!(7), &value!([])));
    let data = json(&["plan", "shec:6,4,3", "--lost", "2,7", "--want", "data", "--json"]);
    assert_eq!(data["outputs"].as_array().map(Vec::len), Some(6));
    let bound = json(&["plan", "dcode:13", "--lost", "0", "--effort", "fast", "--json"]);
    assert_eq!(bound["optimality"]["kind"], "bound");
    assert!(bound["optimality"]["at_least"].as_u64() <= bound["cost"].as_u64());
}

#[test]
fn plan_counts_the_bytes_of_partial_sums() {
    let nodes = |list: &str| {
        let arguments = ["plan", "rs:6+3", "--lost", "1,2", "--nodes", list, "--element", "64K", "--json"];
        json(&arguments)["nodes"].clone()
    };
    let each = nodes("each");
    assert_eq!(each["links"].as_array().map(Vec::len), Some(6));
    let (kib, element) = (1024, 64 * 1024);
    assert_eq!(each["busiest_port"]["whole"], 6 * element);
    assert_eq!(each["busiest_port"]["chain"], 2 * element);
    // Sums of two nodes, with three nodes of three, two and one elements.
    let racks = nodes("0-2=0,3-5=1,6-8=2");
    assert_eq!(
        racks["links"][1],
        value!({"node": 1, "columns": [3, 4, 5], "reads": 3, "whole": 192 * kib, "sums": 128 * kib, "chain": 128 * kib})
    );
    assert_eq!(racks["busiest_port"]["sums"], 5 * element);
    assert_eq!(nodes("0-2=7")["links"][0]["node"], 7);
}

#[test]
fn plan_writes() {
    let answer = json(&["plan", "raid6:8", "--write", "0", "--json"]);
    assert_eq!(answer["strategy"], "read-modify-write");
    assert_eq!((&answer["reads"], &answer["writes"], &answer["cost"]), (&value!(3), &value!(3), &value!(6)));
    assert_eq!(answer["write_cells"], value!([[0, 0], [0, 8], [0, 9]]));
    assert_eq!(answer["steps"][0]["terms"][0], value!({"cell": [0, 8], "content": "old", "coefficient": 1}));
    let full = json(&["plan", "raid6:8", "--write", "0-7", "--json"]);
    assert_eq!((&full["strategy"], &full["reads"]), (&value!("full stripe"), &value!(0)));
    let degraded = json(&["plan", "raid6:8", "--write", "2", "--lost", "2", "--json"]);
    assert_eq!(degraded["write_cells"], value!([[0, 8], [0, 9]]));
    assert!(text(&["plan", "raid6:8", "--write", "0-1"]).contains("Strategy: read-modify-write"));
}

#[test]
fn compare_plans_some_columns_of_each_kind_in_a_large_stripe() {
    let rebuild = |arguments: &[&str]| json(arguments)["codes"][0]["rebuild"].clone();
    let some = rebuild(&["compare", "rdp:46", "--json"]);
    let all = rebuild(&["compare", "rdp:46", "--all-columns", "--json"]);
    let planned = some["planned"].as_u64().expect("a count");
    assert!((10..46).contains(&planned) && all["planned"] == 46, "{planned}");
    assert_eq!((&some["exact"], &some["bound"]), (&value!(false), &value!(true)));
    // The planned columns include the diagonal parity, whose rebuild reads all data; it counts as
    // one of 46.
    assert_eq!((&some["worst_reads"], &some["worst_column"]), (&all["worst_reads"], &all["worst_column"]));
    let mean = |rebuild: &Value| rebuild["mean_share"].as_f64().expect("a share");
    assert!((mean(&some) - mean(&all)).abs() < 0.002, "{some} {all}");
    let table = text(&["compare", "rdp:46", "raid6:4"]);
    let note = format!("*: sampled columns ({planned} of 46 of rdp:46)");
    assert!(table.contains("~: a bound") && table.contains(&note), "{table}");
}

#[test]
fn explain_names_the_groups_behind_each_step() {
    let answer = json(&["explain", "dcode:7", "--lost", "2,3", "--json"]);
    assert_eq!((&answer["reads"], &answer["additions"]), (&value!(35), &value!(56)));
    let steps = answer["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 14);
    for step in steps {
        assert_eq!(step["equations"].as_array().map(Vec::len), Some(1), "{step}");
        assert!(step["words"].as_str().is_some_and(|w| w.contains("group")), "{step}");
    }
    // EVENODD's adjuster needs several equations at once; Reed-Solomon needs weights.
    assert!(text(&["explain", "evenodd:7", "--lost", "0,1"]).contains("added so that"));
    assert!(text(&["explain", "rs:4+2", "--lost", "0,1"]).contains("with weights"));
}

#[test]
fn compare_counts_and_sorts() {
    let run = pantile(&["compare", "rdp:8", "dcode:7", "raid6:6", "raid0:4", "--prove", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let answer: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let codes = answer["codes"].as_array().expect("codes");
    assert_eq!(codes.len(), 4);
    let dcode = &codes[1];
    assert_eq!((&dcode["overhead"], &dcode["parities_updated"]["mean"]), (&value!(1.4), &value!(2.0)));
    assert_eq!(dcode["proved"], value!({"tolerance": 2, "exact": true, "holds": true}));
    assert_eq!(dcode["rebuild"]["worst_reads"], 26);
    assert_eq!(codes[3]["rebuild"]["rebuildable"], false);
    let sorted = json(&["compare", "rdp:8", "dcode:7", "raid6:6", "--sort", "rebuild", "--json"]);
    let shares: Vec<f64> = sorted["codes"]
        .as_array()
        .expect("codes")
        .iter()
        .filter_map(|c| c["rebuild"]["mean_share"].as_f64())
        .collect();
    assert!(shares.len() == 3 && shares.is_sorted(), "{shares:?}");
    let reversed =
        json(&["compare", "rdp:8", "dcode:7", "raid6:6", "--sort", "rebuild", "--reverse", "--json"]);
    assert_eq!(reversed["codes"][0]["code"], "raid6:6");
    assert!(text(&["compare", "raid6:6", "lrc:12,2,2"]).contains("rebuild, worst"));
}

#[test]
fn search_finds_the_known_best() {
    let norm_one = json(&["pantile-lab", "search", "raidq4", "--norm-one", "--top", "2", "--json"]);
    assert_eq!(norm_one["found"][0]["limit"], 125);
    assert_eq!(norm_one["found"].as_array().map(Vec::len), Some(2));
    let all = json(&["pantile-lab", "search", "raidq4", "--top", "2", "--json"]);
    let best = value!({"b": 0xfe, "c": 0x72, "limit": 164, "spec": "raidq:164+4,x=fe.72"});
    assert!(all["found"].as_array().is_some_and(|f| f.contains(&best)), "{all}");
}

#[test]
fn manual_pages_say_what_the_help_says() {
    let pages = tempfile::tempdir().expect("a directory");
    text(&["man", pages.path().to_str().expect("a name")]);
    let page = |name: &str| std::fs::read_to_string(pages.path().join(name)).expect("a page");
    assert!(page("pantile.1").contains("pantile\\-seal(1)"), "{}", page("pantile.1"));
    assert!(page("pantile-seal.1").contains("rs:10+4"), "{}", page("pantile-seal.1"));
    assert!(page("pantile-delayed-start.1").contains(".SH OPTIONS"));
    let missing = pantile(&["man", "/nowhere/at/all"]);
    assert_fault(&missing, 3, &["/nowhere/at/all"], "a directory that is not there");
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(text(&["completions", shell]).contains("explain"), "{shell}");
    }
}

#[test]
fn every_help_teaches() {
    let commands = [
        "codes",
        "show",
        "explain",
        "prove",
        "plan",
        "compare",
        "bench",
        "seal",
        "verify",
        "heal",
        "unseal",
        "info",
        "create",
        "serve",
        "status",
        "stop",
        "fail",
        "replace",
        "add-spare",
        "remove-spare",
        "rebuild",
        "scrub",
        "delayed",
        "assemble",
        "completions",
        "man",
    ];
    for command in commands {
        let help = text(&[command, "--help"]);
        assert!(help.contains("Examples:"), "{command} has no examples");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command} has lines too long to read");
        assert!(text(&[command, "-h"]).lines().count() <= 50, "{command} -h is longer than a screen");
        if !["completions", "man"].contains(&command) {
            assert!(help.contains("Answers:"), "{command} does not say what it answers");
            assert!(help.contains("--json"), "{command} has no JSON");
        }
    }
    assert!(text(&["--help"]).contains("Exit status:"));
    for what in ["start", "end", "abort", "status"] {
        let help = text(&["delayed", what, "--help"]);
        assert!(["Examples:", "Answers:", "--json"].iter().all(|part| help.contains(part)), "{what}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{what} has lines too long to read");
    }
    for words in [&["encode"][..], &["decode"], &["chunks", "verify"], &["chunks", "rebuild"]] {
        let help = text(&[words, &["--help"]].concat());
        assert!(["Examples:", "Answers:", "--json"].iter().all(|part| help.contains(part)), "{words:?}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{words:?} has lines too long to read");
    }
    assert!(text(&["pantile-lab", "search", "raidq4", "--help"]).contains("Examples:"));
    assert!(text(&["--version"]).starts_with("pantile "));
}

#[test]
fn colours_only_on_request_and_never_with_no_color() {
    assert!(pantile(&["show", "dcode:7", "--color", "always"]).stdout.contains('\x1b'));
    assert!(!pantile(&["show", "dcode:7"]).stdout.contains('\x1b'));
    let plain = pantile(&["show", "dcode:7"]).stdout;
    let coloured = pantile(&["show", "dcode:7", "--color", "always"]).stdout;
    assert_eq!(without_colour(&coloured), plain, "colour changes nothing but colour");
}

fn without_colour(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    out
}

#[test]
fn a_reader_that_has_had_enough_is_no_fault() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["show", "raidp:40", "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command can be run");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_proof_with_the_levels_that_are_done() {
    use std::process::{Command, Stdio};
    // Ctrl-C also ends a proof that ignores hangups.
    for (before, signals) in [("env", &["-INT"][..]), ("nohup", &["-HUP", "-INT"])] {
        let child = Command::new(before)
            .arg(env!("CARGO_BIN_EXE_pantile"))
            .args(["prove", "shec:60,30,12", "--sets", "10000000000", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built command can be run");
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let id = child.id().to_string();
        for signal in signals {
            let sent = Command::new("kill").args([signal, id.as_str()]).status();
            assert!(sent.is_ok_and(|s| s.success()), "still at work");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("the levels that are done");
        assert_eq!(answer["complete"], false);
        assert!(answer["tolerance"].as_array().is_some_and(|levels| !levels.is_empty()));
    }
}

/// A partial replay prints nothing, since its numbers would look like those of the whole trace.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_replay_without_an_answer() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let directory = tempfile::tempdir().expect("a directory");
    for shown in [&["--json"][..], &["--html", "page.html"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pantile"))
            .args(["replay", "-", "--codes", "raid6:4"])
            .args(shown)
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built command can be run");
        let lines = "128166372003061629,hm,0,Write,383496192,32768,413\n".repeat(10_000);
        let mut feed = child.stdin.take().expect("a pipe");
        // The pipe holds less than this, so the first lines are already replayed.
        feed.write_all(lines.as_bytes()).expect("it reads");
        let id = child.id().to_string();
        assert!(
            Command::new("kill").args(["-INT", &id]).status().is_ok_and(|s| s.success()),
            "still at work"
        );
        while feed.write_all(lines.as_bytes()).is_ok() {}
        let output = child.wait_with_output().expect("it ends");
        let fault = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(130), "{fault}");
        assert!(output.stdout.is_empty() && !directory.path().join("page.html").exists());
        assert!(fault.contains("requests, before the end of the trace; nothing is printed"), "{fault}");
    }
}

#[test]
fn bench_has_exactly_the_promised_fields() {
    let arguments = ["bench", "raid5:2", "dcode:5", "--chunk", "2K", "--lost", "1", "--json"];
    check_fields(&json(&arguments), None);
    check_fields(&json(&[&arguments[..], &["--cold"]].concat()), None);
    check_fields(&json(&[&arguments[..], &["--packet", "128"]].concat()), Some(128));
    // A single cell, not a whole column.
    let one = json(&["bench", "dcode:5", "--chunk", "2K", "--lost", "0.1", "--packet", "64", "--json"]);
    assert!(one.as_array().is_some_and(|lines| lines.len() == 6));
}

/// Checks the fields of `bench` for `raid5:2` and `dcode:5` with chunks of 2 KiB, and packets of
/// this many bytes.
fn check_fields(answer: &Value, packet: Option<u64>) {
    let lines = answer.as_array().expect("a list");
    let of = |line: &Value| {
        let field = |key: &str| line[key].as_str().expect("a text").to_string();
        (field("code"), line["chunk_len_bytes"].as_u64(), field("op"), field("layout"))
    };
    let mut expected = Vec::new();
    for (code, chunk) in [("raid5:2", 2048), ("dcode:5", 1920)] {
        for layout in ["aligned", "staggered"] {
            for op in ["encode", "decode", "update"] {
                expected.push((code.to_string(), Some(chunk), op.to_string(), layout.to_string()));
            }
        }
    }
    assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), expected);
    for line in lines {
        let number = |key: &str| line[key].as_f64().expect("a number");
        assert!(number("bytes_per_s") > 0.0 && number("xor_limit_bytes_per_s") > 0.0);
        let share = number("bytes_per_s") / number("xor_limit_bytes_per_s");
        assert!((share - number("limit_share")).abs() < 0.01 * share, "{line}");
        assert_eq!(line["packet_len_bytes"].as_u64(), packet);
        assert_eq!(line.as_object().map(|fields| fields.len()), Some(8 + usize::from(packet.is_some())));
    }
}

#[test]
fn bench_refuses_what_it_cannot_measure() {
    for (arguments, status, word) in [
        (&["bench", "dcode:13", "--chunk", "831"][..], 2, "832 bytes or more"),
        (&["bench", "dcode:13", "--chunk", "1T"], 2, "1 GiB"),
        (&["bench", "dcode:13", "--lost", "0-2"], 2, "do not follow"),
        (&["bench", "dcode:13", "--packet", "0"], 2, "packets of 0 bytes"),
        (&["bench", "dcode:13", "--packet", "8K"], 2, "106496 bytes or more"),
    ] {
        let run = pantile(arguments);
        assert_eq!(run.status, status, "{arguments:?}");
        assert!(run.stderr.contains(word), "{}", run.stderr);
    }
}

#[test]
fn durability_is_a_list_of_measures_a_table_and_a_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("page.html");
    let file = file.to_str().expect("UTF-8");
    let arguments = ["durability", "rs:4+2", "shec:6,4,3", "--cycles", "2000"];
    let answer = json(&[&arguments[..], &["--json", "--html", file]].concat());
    let measures = answer.as_array().expect("a list");
    let of = |case: &str, quantity: &str| {
        let found = measures.iter().find(|m| m["case"] == case && m["quantity"] == quantity);
        found.unwrap_or_else(|| panic!("{case} has no {quantity}"))["value"].as_f64().expect("a number")
    };
    assert!(measures.iter().all(|m| m["experiment"] == "durability"));
    assert_eq!(of("shec:6,4,3", "fatal sets of 3"), 10.0);
    let (least, loss, most) = (
        of("rs:4+2", "loss within 1 year, Monte Carlo, least (95 %)"),
        of("rs:4+2", "loss within 1 year"),
        of("rs:4+2", "loss within 1 year, Monte Carlo, most (95 %)"),
    );
    assert!(least < most && (0.9 * least..1.1 * most).contains(&loss), "{least} {loss} {most}");
    let page = std::fs::read_to_string(file).expect("a page");
    assert!(page.contains("pantile durability rs:4+2") && page.contains("Pareto front"));
    let table = text(&arguments);
    for word in ["MTTDL", "nines", "Monte Carlo, 95 %", "rs:4+2", "10 of 120"] {
        assert!(table.contains(word), "{word} is missing in {table}");
    }
}

#[test]
fn every_experiment_answers_with_the_same_fields() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.csv");
    let trace = trace.to_str().expect("UTF-8");
    text(&["pantile-lab", "generate", "zipf", "--requests", "2000", "--space", "64M", "--out", trace]);
    let replay = ["replay", trace, "--codes", "raid5:2,dcode:5"];
    let driven = ["--driven", "--lost", "1", "--lost-at", "50", "--rebuild-at", "500"];
    let experiments: [(&str, Vec<&str>); 8] = [
        ("dcode-load", vec!["pantile-lab", "dcode-load", "--runs", "200"]),
        ("dcode-read", vec!["pantile-lab", "dcode-read"]),
        ("recovery", vec!["pantile-lab", "recovery"]),
        ("raidp", vec!["pantile-lab", "raidp"]),
        ("replay", replay.to_vec()),
        ("replay", [&replay[..], &driven[..]].concat()),
        ("durability", vec!["durability", "raid5:3", "--cycles", "1000"]),
        ("exascale", vec!["pantile-lab", "exascale", "--quick", "--clients", "2000"]),
    ];
    for (name, arguments) in experiments {
        let answer = json(&[&arguments[..], &["--json"]].concat());
        let measures = answer.as_array().expect("a list");
        assert!(!measures.is_empty(), "{name}");
        for measure in measures {
            let fields = measure.as_object().expect("an object");
            let known =
                ["experiment", "case", "quantity", "kind", "published", "line", "value", "deviation", "note"];
            assert!(known[..8].iter().all(|field| fields.contains_key(*field)), "{name}: {measure}");
            assert!(fields.keys().all(|field| known.contains(&field.as_str())), "{name}: {measure}");
            assert_eq!(measure["experiment"], name);
            let of = |field: &str| measure[field].as_f64();
            if let (Some(published), Some(measured), Some(deviation)) =
                (of("published"), of("value"), of("deviation"))
            {
                let expected = if published == 0.0 { measured } else { measured / published - 1.0 };
                assert!((deviation - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{name}: {measure}");
            }
        }
    }
}

#[test]
fn a_page_says_by_what_it_was_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_string();
    let (trace, page, code) = (at("my trace.csv"), at("page.html"), at("own.code"));
    let requests = "128166372003061629,hm,0,Write,0,4096,1\n";
    std::fs::write(&trace, requests).expect("written");
    let file = pantile(&["show", "raid5:2", "--text"]);
    std::fs::write(&code, &file.stdout).expect("written");
    text(&["replay", &trace, "--codes", &format!("raid5:2,{code}"), "--html", &page]);
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("my trace.csv'"), "a word with a space is quoted");
    let mut crc = pantile_format::CrcStream::new();
    crc.update(requests.as_bytes());
    let known = format!("{} bytes, CRC-64/NVME {:016x}", requests.len(), crc.crc().0);
    assert!(page.contains(&known), "{known}");
    let equation = file.stdout.lines().rfind(|line| line.contains('=')).expect("an equation");
    assert!(page.contains(equation), "the text of a code that no family has: {equation}");
}
