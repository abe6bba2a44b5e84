//! `pantile advise`: its numbers equal those of other commands, the weights determine the order,
//! the first proposed command makes a volume, and an impossible request gets one sentence.

use crate::common::*;
use serde_json::Value;
use std::path::Path;

fn trace(folder: &Path, requests: &str) -> String {
    let path = folder.join("trace.csv").to_str().expect("UTF-8").to_string();
    text(&[
        "pantile-lab",
        "generate",
        "zipf",
        "--requests",
        requests,
        "--element",
        "8K",
        "--space",
        "256M",
        "--out",
        &path,
    ]);
    path
}

/// Joins the lines of a text.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn advise<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["advise", "--trace", trace], more].concat()
}

fn code<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = answer["codes"].as_array().expect("a list");
    let found = all.iter().find(|one| {
        one["code"] == name
            || one["same"].as_array().is_some_and(|same| same.iter().any(|other| other == name))
    });
    found.unwrap_or_else(|| panic!("{name} is missing in {answer}"))
}

#[test]
fn every_number_is_that_of_another_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "3000");
    let over_a_link = ["--disks", "8", "--survive", "2", "--repair-bandwidth", "600M", "--json"];
    let answer = json(&advise(&trace, &over_a_link));
    let specs = "raid6:6,dcode:8,clay:6,2,7,shec:5,3,c=2,mirror:8";
    let replayed = json(&["replay", &trace, "--codes", specs, "--json"]);
    let compared =
        json(&["compare", "raid6:6", "dcode:8", "clay:6,2,7", "shec:5,3,c=2", "mirror:8", "--json"]);
    for line in compared["codes"].as_array().expect("a list") {
        let name = line["code"].as_str().expect("a spec");
        let found = code(&answer, name);
        let measures = replayed.as_array().expect("a list");
        let of = |quantity: &str| {
            let measure = measures.iter().find(|m| m["case"] == name && m["quantity"] == quantity);
            measure.unwrap_or_else(|| panic!("{name} has no {quantity}"))["value"].as_f64().expect("a number")
        };
        let near = |ours: &Value, theirs: f64| (ours.as_f64().expect("a number") / theirs - 1.0).abs() < 1e-4;
        assert!(near(&found["io"], of("blocks per user block")), "{name}");
        assert!(near(&found["busiest"], of("busiest device over the mean")), "{name}");
        assert!(near(&found["space"], line["overhead"].as_f64().expect("a number")), "{name}");
        let rows =
            (line["data"].as_u64().zip(line["parity"].as_u64())).map(|(d, p)| (d + p) / 8).expect("rows");
        let disks = line["rebuild"]["mean_reads"].as_f64().expect("a number") / rows as f64;
        assert!(near(&found["rebuild_disks"], disks), "{name}");
        // The rebuild of a 16 TiB device writes it at 150 MiB/s and reads each of the others at 600
        // MiB/s.
        let pass = 16.0 * 1024.0 * 1024.0 / 150.0 / 3600.0;
        assert!(near(&found["rebuild_hours"], pass * f64::max(1.0, disks / 4.0)), "{name}");
    }
    let durable = json(&["durability", "shec:5,3,c=2", "rs:6+2", "--cycles", "0", "--json"]);
    // Without a network link only the disks limit the rebuild, since those of a volume are in one
    // machine.
    let local = json(&advise(&trace, &["--disks", "8", "--survive", "2", "--json"]));
    assert!(local["codes"].as_array().expect("a list").iter().all(|one| {
        let hours = one["rebuild_hours"].as_f64().expect("a number");
        (hours / (16.0 * 1024.0 * 1024.0 / 150.0 / 3600.0) - 1.0).abs() < 1e-4
    }));
    let nines = |name: &str| {
        let all = durable.as_array().expect("a list");
        all.iter().find(|m| m["case"] == name && m["quantity"] == "nines").expect("nines")["value"].as_f64()
    };
    // Nines are for one year, with any --years.
    let years = ["durability", "shec:5,3,c=2", "--cycles", "0", "--years", "10", "--json"];
    let longer = json(&years);
    let of_longer = longer.as_array().expect("a list").iter().find(|m| m["quantity"] == "nines");
    assert_eq!(of_longer.expect("nines")["value"].as_f64(), nines("shec:5,3,c=2"));
    let close =
        |a: &Value, b: Option<f64>| (a.as_f64().expect("a number") - b.expect("a number")).abs() < 1e-3;
    assert!(close(&code(&answer, "shec:5,3,c=2")["nines"], nines("shec:5,3,c=2")));
    assert!(close(&code(&answer, "dcode:8")["nines"], nines("rs:6+2")));
    assert_eq!(code(&answer, "dcode:8")["durability_of"], "rs:6+2");
    assert_eq!(code(&answer, "raid6:6")["proved"], true);
}

#[test]
fn the_order_is_that_of_the_score_which_the_weights_make() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "2000");
    let by = |weights: &str, of: &str| {
        let answer =
            json(&advise(&trace, &["--disks", "8", "--survive", "2", "--weights", weights, "--json"]));
        let mut codes = answer["codes"].as_array().expect("a list").clone();
        codes.retain(|one| one["beaten_by"].is_null());
        let all: Vec<f64> = codes.iter().map(|one| one[of].as_f64().expect("a number")).collect();
        (codes[0].clone(), all)
    };
    for (weights, of) in [("space=1", "space"), ("io=5", "io"), ("rebuild=0.5", "rebuild_hours")] {
        let (first, all) = by(weights, of);
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{weights}: {all:?}");
        assert_eq!(first["score"], 1.0);
    }
    let (_, scores) = by("space=2,io=2,rebuild=1,durability=1", "score");
    assert!(scores.windows(2).all(|pair| pair[0] <= pair[1]) && scores[0] >= 1.0, "{scores:?}");
    let usual = json(&advise(&trace, &["--disks", "8", "--survive", "2", "--json"]));
    assert_eq!(usual["codes"][0]["score"].as_f64(), Some(scores[0]), "these are the usual weights");
}

#[test]
fn the_answer_says_why_and_the_command_makes_a_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "2000");
    let arguments = advise(&trace, &["--disks", "6", "--survive", "2"]);
    let answer = text(&arguments);
    let sentences = unwrapped(&answer);
    for word in
        ["2000 requests", "comes first", "Space:", "I/O:", "Rebuild:", "Durability:", "To make it:", "score"]
    {
        assert!(answer.contains(word), "{word} is missing in\n{answer}");
    }
    assert!(sentences.contains("weights space=2,io=2,rebuild=1,durability=1"), "{answer}");
    let head =
        answer.lines().position(|line| line.contains("code") && line.contains("nines")).expect("a table");
    assert!(answer.lines().skip(head).take(8).all(|line| line.chars().count() <= 80), "{answer}");
    let command = answer.lines().find_map(|line| line.strip_prefix("  pantile ")).expect("a command");
    let command = command.split("  #").next().expect("before the remark");
    let devices: Vec<String> = (0..6).map(|i| format!("disk{i}.img")).collect();
    for device in &devices {
        let file = std::fs::File::create(folder.path().join(device)).expect("a file");
        file.set_len(256 << 20).expect("a length");
    }
    let devices = devices.join(" ");
    let command = command.replace("VOL", "vol").replace("DEVICE...", &devices);
    let run = pantile_in(folder.path(), &command.split_whitespace().collect::<Vec<_>>());
    assert_eq!(run.status, 0, "{command}: {}", run.stderr);
    let keys = [
        "rank",
        "code",
        "same",
        "score",
        "space",
        "io",
        "user_share",
        "busiest",
        "rebuild_hours",
        "rebuild_disks",
        "rebuild_is_least",
        "nines",
        "mttdl_years",
        "durability_of",
        "nines_sampled",
        "tolerance",
        "proved",
        "placement",
        "next",
        "latency",
        "latency_missing",
        "beaten_by",
        "reasons",
        "commands",
    ];
    let answer = json(&[&arguments[..], &["--json"]].concat());
    for (place, one) in answer["codes"].as_array().expect("a list").iter().enumerate() {
        let fields = one.as_object().expect("an object");
        assert!(keys.iter().all(|key| fields.contains_key(*key)) && fields.len() == keys.len(), "{one}");
        assert_eq!(one["rank"], place as u64 + 1);
        assert!(one["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{one}");
    }
    let csv = text(&[&arguments[..], &["--csv"]].concat());
    assert!(csv.starts_with("rank,code,space,io,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + answer["codes"].as_array().map_or(0, Vec::len));
    assert!(csv.lines().nth(1).is_some_and(|line| line.starts_with("1,")), "{csv}");
}

#[test]
fn a_code_that_another_beats_in_every_column_is_not_proposed() {
    let answer = json(&["advise", "--disks", "8", "--survive", "2", "--json"]);
    let codes = answer["codes"].as_array().expect("a list");
    // The costs in which a code can beat another; less is better. Above nine nines all codes count
    // as equal.
    let costs = |one: &Value| {
        let of = |key: &str| one[key].as_f64().expect("a number");
        [of("space"), of("io"), of("rebuild_hours"), 1.0 / of("nines").min(9.0), of("busiest")]
    };
    let beats = |a: &Value, b: &Value| {
        let pairs = || costs(a).into_iter().zip(costs(b));
        pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b * 0.94)
    };
    let is_beaten = |one: &&Value| !one["beaten_by"].is_null();
    assert!(codes.iter().any(|one| is_beaten(&one)), "this trace has such codes: {answer}");
    for one in codes {
        let name = one["beaten_by"].as_str();
        match name {
            Some(name) => {
                assert!(costs(code(&answer, name)).iter().zip(costs(one)).all(|(a, b)| *a <= b + 1e-4))
            }
            None => assert!(codes.iter().all(|other| !beats(other, one)), "{one}"),
        }
    }
    let shown = text(&["advise", "--disks", "8", "--survive", "2", "--top", "100"]);
    for one in codes.iter().filter(is_beaten) {
        let row = format!("  {}  ", one["code"].as_str().expect("a spec"));
        assert!(!shown.contains(&row), "{row} is in\n{shown}");
    }
}

#[test]
fn a_named_workload_stands_for_a_trace() {
    let of = |name: &str| json(&["advise", "--disks", "6", "--survive", "2", "--workload", name, "--json"]);
    let mut traces = std::collections::HashSet::new();
    for name in ["files", "vm", "database", "media", "backup", "checkpoints"] {
        let answer = of(name);
        assert_eq!(answer["trace"]["requests"], 20_000, "{name}");
        assert!(traces.insert(answer["trace"]["content"].to_string()), "{name} is like another");
    }
    assert_eq!(of("files")["trace"], json(&["advise", "--disks", "6", "--survive", "2", "--json"])["trace"]);
    let words = text(&["advise", "--disks", "6", "--survive", "2", "--workload", "vm"]);
    assert!(words.starts_with("Made-up requests of the workload 'vm'"), "{words}");
    let both = ["advise", "--trace", "x", "--workload", "vm", "--disks", "6", "--survive", "2"];
    assert_fault(&pantile(&both), 2, &["--trace", "--workload"], "both");
}

/// A trace of two volumes, with its columns in an unusual order.
#[test]
fn a_trace_of_several_volumes_is_advised_for_one_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = trace(folder.path(), "600");
    let lines = std::fs::read_to_string(&whole).expect("a trace");
    let half = |nth: usize| lines.lines().enumerate().filter(move |(i, _)| i % 2 == nth);
    let alone = folder.path().join("alone").to_str().expect("UTF-8").to_string();
    let both = folder.path().join("both").to_str().expect("UTF-8").to_string();
    let text_of = |line: &str| format!("{line}\n");
    std::fs::write(&alone, half(1).map(|(_, line)| text_of(line)).collect::<String>()).expect("written");
    let named = lines.lines().enumerate().map(|(i, line)| {
        let fields: Vec<&str> = line.split(',').collect();
        format!("{}|disk{}|{}|{}\n", fields[3], i % 2, fields[4], fields[5]).replace('|', ";")
    });
    std::fs::write(&both, named.collect::<String>()).expect("written");
    let columns =
        ["--columns", "kind=1,volume=2,offset=3,size=4", "--disks", "6", "--survive", "2", "--json"];
    let of_one = json(&advise(&both, &[&["--volume", "disk1"][..], &columns].concat()));
    let expected = json(&advise(&alone, &["--disks", "6", "--survive", "2", "--json"]));
    assert_eq!(of_one["trace"]["requests"], 300);
    assert_eq!(of_one["codes"], expected["codes"]);
    let names = ["disk0 (300 requests), disk1 (300)", "--volume"];
    assert_fault(&pantile(&advise(&both, &columns)), 2, &names, "no volume is chosen");
    let none = advise(&both, &[&["--volume", "disk2"][..], &columns].concat());
    assert_fault(&pantile(&none), 2, &["no request of this --volume", names[0]], "no such volume");
    let without = ["advise", "--volume", "disk1", "--disks", "6", "--survive", "2"];
    assert_fault(&pantile(&without), 2, &["--volume", "--trace FILE"], "no trace");
}

#[test]
fn a_code_file_is_a_candidate_beside_the_families() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.code");
    let own = text(&["show", "raid6:4", "--text"]).replace("raid6", "mine");
    std::fs::write(&file, own).expect("written");
    let file = file.to_str().expect("UTF-8");
    let asked = ["advise", "--disks", "6", "--survive", "2", "--json", "--codes", file];
    let answer = json(&asked);
    let found = code(&answer, file);
    assert_eq!(found["tolerance"], 2, "{found}");
    let more = ["--codes", "raid5:5"];
    let run = pantile(&[&["advise", "--disks", "6", "--survive", "2"][..], &more].concat());
    assert_fault(&run, 2, &["--codes: raid5:5 tolerates the loss of any 1, not of any 2"], "too little");
}

#[test]
fn codes_that_ceph_has_come_before_those_of_the_plug_in() {
    let asked = ["advise", "--disks", "14", "--survive", "3", "--for", "ceph", "--json"];
    let answer = json(&asked);
    let codes = answer["codes"].as_array().expect("a list").iter();
    let needs: Vec<bool> = codes.map(|one| one["commands"].to_string().contains("plugin=pantile")).collect();
    assert!(needs.is_sorted() && needs.contains(&true) && !needs[0], "{answer}");
}

#[test]
fn other_systems_get_their_own_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "500");
    let of =
        |target: &str| json(&advise(&trace, &["--disks", "9", "--survive", "3", "--for", target, "--json"]));
    let ceph = of("ceph");
    let isa = code(&ceph, "rs:6+3,vandermonde")["commands"].to_string();
    assert!(
        isa.contains("ceph osd erasure-code-profile set PROFILE plugin=isa technique=reed_sol_van k=6 m=3")
    );
    let hdfs = of("hdfs");
    let policy = code(&hdfs, "RS-6-3-1024k")["commands"].to_string();
    assert!(policy.contains("hdfs ec -enablePolicy -policy RS-6-3-1024k"), "{policy}");
    let skipped = ceph["skipped"].as_array().expect("a list");
    assert!(skipped.iter().all(|one| one["why"].as_str().is_some_and(|why| !why.is_empty())), "{skipped:?}");
}

#[test]
fn impossible_requests_and_odd_traces_are_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name).to_str().expect("UTF-8").to_string();
        std::fs::write(&path, content).expect("written");
        path
    };
    let line = "128166372003061629,hm,0,Write,4096,8192,1\n";
    let good = file("good", line.as_bytes());
    let empty = file("empty", b"");
    let blank = file("blank", b"\n\n\n");
    let binary = file("binary", &[7; 5000]);
    for (given, more, needles) in [
        (&good, &["--disks", "1", "--survive", "1"][..], &["1 disk survives", "--disks 2"][..]),
        (&good, &["--disks", "8", "--survive", "8"], &["one at least must be left", "--disks 9"]),
        (&good, &["--disks", "255", "--survive", "255"], &["one at least must be left"]),
        (&good, &["--disks", "17", "--survive", "3", "--for", "hdfs"], &["16 blocks"]),
        (&good, &["--disks", "200", "--survive", "3", "--for", "ceph"], &["128 chunks"]),
        (&good, &["--disks", "0", "--survive", "1"], &["1..=255"]),
        (&good, &["--disks", "256", "--survive", "1"], &["1..=255"]),
        (&good, &["--disks", "8", "--survive", "2", "--weights", "speed=1"], &["'speed=1'", "space=2,io=1"]),
        (&good, &["--disks", "8", "--survive", "2", "--weights", "io=0"], &["nothing counts"]),
        (&good, &["--disks", "8", "--survive", "2", "--element", "5000"], &["power of two"]),
        (&good, &["--disks", "8", "--survive", "2", "--repair-bandwidth", "0"], &["'none'"]),
        (&good, &["--disks", "8", "--survive", "2", "--for", "zfs"], &["zfs", "ceph"]),
        (&empty, &["--disks", "8", "--survive", "2"], &["no request"]),
        (&blank, &["--disks", "8", "--survive", "2"], &[]),
        (&binary, &["--disks", "8", "--survive", "2"], &[]),
    ] {
        assert_fault(&pantile(&advise(given, more)), 2, needles, &format!("{given} {more:?}"));
    }
    let absent = folder.path().join("absent").to_str().expect("UTF-8").to_string();
    assert_fault(
        &pantile(&advise(&absent, &["--disks", "4", "--survive", "1"])),
        2,
        &["name a trace"],
        "absent",
    );
    let one = json(&advise(&good, &["--disks", "2", "--survive", "1", "--json"]));
    assert_eq!((&one["trace"]["requests"], &one["trace"]["bytes_written"]), (&1.into(), &8192.into()));
    let spoiled = file("spoiled", format!("{line}nonsense\n{line}").as_bytes());
    let run = pantile(&advise(&spoiled, &["--disks", "4", "--survive", "1"]));
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("line 2") && unwrapped(&run.stdout).contains("1 lines could not be read"),
        "{}",
        run.stdout
    );
}

/// The latencies of a trace that is short enough to be timed completely equal those of `replay`.
#[test]
fn latencies_are_those_of_lab_replay_or_are_said_to_be_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "1000");
    let arguments = advise(&trace, &["--disks", "8", "--survive", "2", "--device", "hdd"]);
    let answer = json(&[&arguments[..], &["--json"]].concat());
    assert_eq!(answer["timed"], serde_json::json!({"device": "hdd", "requests": 1000}));
    let specs = "raid6:6,dcode:8,clay:6,2,7,mirror:8";
    let replayed = json(&["replay", &trace, "--codes", specs, "--device", "hdd", "--json"]);
    for name in ["raid6:6", "dcode:8", "clay:6,2,7", "mirror:8"] {
        for (field, quantity) in [
            ("read_p50_ms", "latency of reads, p50, ms"),
            ("read_p99_ms", "latency of reads, p99, ms"),
            ("write_p50_ms", "latency of writes, p50, ms"),
            ("write_p99_ms", "latency of writes, p99, ms"),
        ] {
            let measures = replayed.as_array().expect("a list");
            let theirs = measures.iter().find(|m| m["case"] == name && m["quantity"] == quantity);
            let theirs = theirs.expect("a latency")["value"].as_f64().expect("a number");
            let ours = code(&answer, name)["latency"][field].as_f64().expect("a number");
            assert!((ours / theirs - 1.0).abs() < 1e-3, "{name}, {field}: {ours} for {theirs}");
        }
    }
    let words = text(&arguments);
    assert!(unwrapped(&words).contains("p50 / p99 of all 1000 requests, simulated"), "{words}");
    let head = words.lines().position(|line| line.contains("write ms")).expect("a table");
    assert!(words.lines().skip(head).take(8).all(|line| line.chars().count() <= 80), "{words}");
    let without = json(&advise(&trace, &["--disks", "8", "--survive", "2", "--json"]));
    assert_eq!((&without["timed"], &without["codes"][0]["latency"]), (&Value::Null, &Value::Null));
    // The engine keeps a record for each stripe, and a petabyte has too many stripes.
    let far = folder.path().join("far").to_str().expect("UTF-8").to_string();
    std::fs::write(&far, "128166372003061629,hm,0,Write,1125899906842624,8192,1\n").expect("written");
    let arguments = advise(&far, &["--disks", "4", "--survive", "2", "--device", "ssd"]);
    let words = unwrapped(&text(&arguments));
    assert!(words.contains("Latencies that were not computed:") && words.contains("more stripes"), "{words}");
    let answer = json(&[&arguments[..], &["--json"]].concat());
    let all = answer["codes"].as_array().expect("a list");
    assert!(all.iter().all(|one| one["latency"].is_null() && one["latency_missing"].is_string()), "{answer}");
}

#[test]
fn the_widest_arrays_are_advised_in_bounded_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path(), "200");
    for (disks, survive) in [("255", "100"), ("33", "2"), ("24", "5")] {
        let answer = json(&advise(&trace, &["--disks", disks, "--survive", survive, "--json"]));
        let codes = answer["codes"].as_array().expect("a list");
        assert!(!codes.is_empty() && codes.iter().all(|one| one["score"].as_f64() >= Some(1.0)), "{disks}");
    }
    let wide = text(&advise(&trace, &["--disks", "24", "--survive", "5"]));
    assert!(wide.contains('\u{2248}') && wide.contains("too many sets of lost disks"), "{wide}");
    let answer = json(&advise(&trace, &["--disks", "14", "--survive", "4", "--json"]));
    let skipped = answer["skipped"].to_string();
    assert!(skipped.contains("clay:10,4,13") && skipped.contains("planning takes too long"), "{skipped}");
}

/// The first code for each number of losses is in the answer, on the terminal and on the page.
#[test]
fn disks_alone_get_their_space_losses_and_nines() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html").to_str().expect("UTF-8").to_string();
    let disks = ["advise", "--disks", "6", "--disk-size", "16TB"];
    let answer = json(&[&disks[..], &["--json"]].concat());
    assert_eq!(answer["survive"], Value::Null);
    let shown = unwrapped(&text(&[&disks[..], &["--html", &page]].concat()));
    let page = std::fs::read_to_string(&page).expect("a page");
    for (name, usable, losses) in
        [("raid5:5", 80, "any 1 disk"), ("raid6:4", 64, "any 2 disks"), ("raidq:3+3", 48, "any 3 disks")]
    {
        let nines = code(&answer, name)["nines"].as_f64().expect("a number");
        let said = format!("{usable} TB with {name}, and {losses} may be lost ({nines:.1} nines)");
        assert!(shown.contains(&said), "{said} is missing in {shown}");
        let (at, table) = (page.find(&said), page.find("<table>"));
        assert!(at.is_some() && at < table, "the answer is before the table");
    }
    let two = json(&[&disks[..], &["--survive", "2", "--json"]].concat());
    assert_eq!(code(&two, "raid6:4")["nines"], code(&answer, "raid6:4")["nines"]);
    assert!(shown.contains(" --survive 2' gives the reasons"), "{shown}");
}
