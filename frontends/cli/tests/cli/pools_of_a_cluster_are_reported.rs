//! `pantile ceph report` on the dump of a real cluster (Ceph 16.2.15, a monitor and no OSDs up),
//! and on files that are no dump.

use crate::common::*;
use serde_json::{Value, json as value};
use std::path::{Path, PathBuf};

fn dump() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/foreign/ceph_osd_dump.json")
}

fn report(path: &Path) -> (i32, Value) {
    let run = pantile(&["ceph", "report", path.to_str().unwrap(), "--json"]);
    (run.status, serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr)))
}

#[test]
fn stranded_pools_are_named_with_numbers_and_commands() {
    let (status, answer) = report(&dump());
    assert_eq!((status, &answer["release"]), (1, &value!("pacific")));
    let pools = answer["pools"].as_array().unwrap();
    assert_eq!(pools.len(), 16);
    let pool = |name: &str| pools.iter().find(|pool| pool["name"] == name).unwrap();
    for name in
        ["archive", "shec643", "wide", "cold", "small", "nu", "clayisa", "good", "blaum", "liberation", "r6"]
    {
        assert!(pool(name)["stranded"].as_str().unwrap().contains("Ceph 22"), "{name}");
        assert!(!pool(name)["commands"].as_array().unwrap().is_empty(), "{name}");
    }
    for name in ["main", "backups of \"9\"", "local", "layered", "images"] {
        assert_eq!(pool(name)["stranded"], Value::Null, "{name}");
        assert_eq!(pool(name)["commands"], value!([]), "{name}");
    }
    let of = |name: &str| &pool(name)["examined"];
    assert_eq!(of("archive")["code"], "shec:6,4,c=2,single");
    assert_eq!(of("archive")["two_lost"], value!({"ceph": 0.777778, "least": 0.748148, "is_least": true}));
    assert_eq!(of("cold")["one_lost"], value!({"ceph": 0.34375, "least": 0.34375, "is_least": true}));
    assert_eq!((&of("cold")["proved"], &of("cold")["durability_of"]), (&value!(4), &value!("rs:8+4")));
    assert_eq!(of("good")["one_lost"], value!({"ceph": 1.0, "least": 1.0, "is_least": true}));
    // Ceph reads the six other chunks of the group. The first global parity is the XOR of all data,
    // so the sum of the two local and the three other global parities is zero.
    assert_eq!(of("local")["one_lost"], value!({"ceph": 0.75, "least": 0.625, "is_least": true}));
    // Ceph accepts blaum_roth with w=7, which does not tolerate every pair.
    assert_eq!(of("blaum")["proved"], 1);
    assert_eq!((&of("wide")["code"], &of("wide")["proved"]), (&value!("shec:6,4,c=3,w=16"), &value!(3)));
    // Ceph's plug-in recovers nothing with long words; `least` gives the reads of a code with words
    // of one byte.
    assert_eq!(of("wide")["one_lost"], value!({"ceph": null, "least": 0.566667, "is_least": false}));
    assert_eq!(of("clayisa")["code"], "clay:4,2,5,vandermonde");
    assert_eq!(answer["unused_stranded_profiles"], value!(["unused"]));
    assert_eq!(pool("images")["copies"], 3);
    for (name, parts) in [
        (
            "archive",
            ["plugin=isa technique=reed_sol_van k=6 m=2", "archive-isa rbd", "rbd migration execute"],
        ),
        ("cold", ["k=8 m=4", "cold-isa cephfs", "ceph fs add_data_pool FILE_SYSTEM cold-isa"]),
        ("good", ["good-isa allow_ec_overwrites true", "good-isa myapp", "rename good good-old"]),
        // The commands give the intended tolerance, not the lower one of Ceph's w=7.
        ("blaum", ["k=4 m=2", "create blaum-isa 8 8 erasure blaum-isa", "rados cppool blaum blaum-isa"]),
    ] {
        let commands = pool(name)["commands"].to_string();
        assert!(parts.iter().all(|part| commands.contains(part)), "{name}: {commands}");
    }
    let commands = pool("shec643")["commands"].to_string();
    assert!(
        commands.contains("plugin=isa technique=reed_sol_van k=6 m=3 crush-failure-domain=osd"),
        "{commands}"
    );
}

#[test]
fn the_table_fits_a_page_and_a_cluster_without_such_pools_is_well() {
    let run = pantile(&["ceph", "report", dump().to_str().unwrap()]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let table =
        run.stdout.lines().skip_while(|line| !line.starts_with("pool")).take_while(|line| !line.is_empty());
    assert!(table.clone().count() > 15 && table.clone().all(|line| line.chars().count() <= 110));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.json");
    let mut whole: Value = serde_json::from_slice(&std::fs::read(dump()).unwrap()).unwrap();
    whole["pools"].as_array_mut().unwrap().retain(|pool| pool["pool_name"] == "main");
    std::fs::write(&path, whole.to_string()).unwrap();
    let (status, answer) = report(&path);
    assert_eq!((status, answer["pools"].as_array().unwrap().len()), (0, 1));
}

fn pool_of(name: &str, profile: &str) -> Value {
    value!({"pool": 1, "pool_name": name, "type": 3, "size": 8, "pg_num": 8, "erasure_code_profile": profile})
}

/// A code of one's own, as the plug-in writes it into a profile.
const PAIR: &str = "custom:pair-5a1a70365c246ab5";
const PAIR_TEXT: &str = "pantile-code 1;name pair;columns 2;rows 1;[0][1] = 0x07*[0][0]";

#[test]
fn pools_of_this_plug_in_and_old_names_of_plug_ins_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.json");
    let map = value!({
        "pools": [pool_of("own", "own"), pool_of("wide", "wide"), pool_of("old", "old"), pool_of("olds", "olds"), pool_of("mine", "mine")],
        "erasure_code_profiles": {
            "own": {"plugin": "pantile", "code": "shec:6,4,3", "k": "6", "m": "4", "crush-failure-domain": "host"},
            "wide": {"plugin": "pantile", "code": "evenodd:5", "k": "3", "m": "2", "packetsize": "512"},
            "old": {"plugin": "jerasure_sse4", "technique": "cauchy_orig", "k": "4", "m": "2"},
            "olds": {"plugin": "shec_generic", "k": "4", "m": "3", "c": "2"},
            "mine": {"plugin": "pantile", "code": PAIR, "k": "1", "m": "1", "equations": PAIR_TEXT},
        },
    });
    // The dump is the map of OSDs alone, or inside a report for support.
    for dump in [map.clone(), value!({"cluster_fingerprint": "x", "osdmap": map})] {
        std::fs::write(&path, dump.to_string()).unwrap();
        let (status, answer) = report(&path);
        let pools = answer["pools"].as_array().unwrap();
        let column = |of: fn(&Value) -> &Value| pools.iter().map(of).cloned().collect::<Vec<_>>();
        assert_eq!(status, 1);
        assert_eq!(
            column(|pool| &pool["examined"]["code"]),
            ["shec:6,4,3", "evenodd:5", "crs:4+2,orig", "shec:4,3,c=2", PAIR].map(Value::from)
        );
        assert_eq!(column(|pool| &pool["examined"]["proved"]), [2, 2, 2, 2, 1].map(Value::from));
        let is_stranded: Vec<bool> = pools.iter().map(|pool| !pool["stranded"].is_null()).collect();
        assert_eq!(is_stranded, [false, false, true, true, false]);
        // Pantile's plug-in reads only as much as the planner.
        assert_eq!(pools[0]["examined"]["one_lost"]["ceph"], pools[0]["examined"]["one_lost"]["least"]);
    }
}

#[test]
fn a_cluster_without_erasure_coded_pools_has_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.json");
    let copies = value!({"pool": 1, "pool_name": "rbd", "type": 1, "size": 3, "pg_num": 8});
    std::fs::write(&path, value!({"pools": [copies], "erasure_code_profiles": {}}).to_string()).unwrap();
    let run = pantile(&["ceph", "report", path.to_str().unwrap()]);
    assert_eq!((run.status, run.stdout.lines().count()), (0, 1), "{}", run.stdout);
    assert!(run.stdout.starts_with("1 pools: 0 erasure-coded"), "{}", run.stdout);
}

#[test]
fn forged_dumps_are_refused_or_reported_as_odd() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.json");
    let said = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let run = pantile(&["ceph", "report", path.to_str().unwrap()]);
        assert_eq!((run.status, run.stderr.lines().count()), (2, 1), "{}", run.stderr);
        assert!(!run.stderr.contains("fault of pantile"));
        run.stderr
    };
    assert!(said("").contains("ceph osd dump"));
    assert!(said("{\"pools\": 3}").contains("ceph osd dump"));
    assert!(said("{}").contains("no 'pools'"));
    assert!(said("{\"pools\": []}").contains("erasure_code_profiles"));
    assert!(said(&"[".repeat(100_000)).contains("ceph osd dump"));
    let long =
        format!("{{\"pools\": [], \"erasure_code_profiles\": {{}}, \"x\": \"{}\"}}", "x".repeat(64 << 20));
    assert!(said(&long).contains("67108864"));
    let many = vec![r#"{"pool":1,"pool_name":"","type":1,"size":1,"pg_num":1}"#; 10_001].join(",");
    assert!(
        said(&format!("{{\"pools\": [{many}], \"erasure_code_profiles\": {{}}}}")).contains("10001 pools")
    );
    assert!(said_of_nothing(&folder.path().join("no")).contains("there is no file"));

    // Names and profiles of an attacker, and more profiles than are examined.
    let profiles = [
        r#"{"plugin":"shec","k":"999999999999999999999","m":"4","c":"2"}"#,
        r#"{"plugin":"clay","k":"2","m":"250","d":"250"}"#,
        r#"{"plugin":"clay","k":"-1","m":"0"}"#,
        r#"{"plugin":"shec","k":"6 m=2","m":"4","c":"2"}"#,
        r#"{"plugin":"lrc","layers":"[[[[[","mapping":"x"}"#,
        r#"{"plugin":"lrc","layers":"[[\"DDc\",\"plugin=jerasure technique=cauchy_good\"]]","mapping":"DD_"}"#,
        r#"{"k":"4"}"#,
        r#"{"plugin":"jerasure","technique":"\u001b[2J","k":"4","m":"2"}"#,
        r#"{"plugin":"isa","k":"200","m":"50","technique":"cauchy"}"#,
    ];
    let mut pools = Vec::new();
    let mut named = Vec::new();
    for (i, profile) in profiles.iter().map(ToString::to_string).enumerate() {
        named.push(format!("\"p{i}\":{profile}"));
        pools.push(format!(
            r#"{{"pool":{i},"pool_name":"a\u001b[2J\n'$(x)","type":3,"size":6,"pg_num":8,"erasure_code_profile":"p{i}"}}"#
        ));
    }
    for k in 2..90 {
        named.push(format!(r#""q{k}":{{"plugin":"isa","k":"{k}","m":"2","technique":"cauchy"}}"#));
        pools.push(format!(
            r#"{{"pool":{k},"pool_name":"q","type":3,"size":6,"pg_num":8,"erasure_code_profile":"q{k}"}}"#
        ));
    }
    pools.push(
        r#"{"pool":1,"pool_name":"r","type":3,"size":6,"pg_num":8,"erasure_code_profile":"none"}"#.into(),
    );
    let text =
        format!("{{\"pools\":[{}],\"erasure_code_profiles\":{{{}}}}}", pools.join(","), named.join(","));
    std::fs::write(&path, &text).unwrap();
    let run = pantile(&["ceph", "report", path.to_str().unwrap()]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(!run.stdout.contains('\u{1b}'));
    assert!(
        run.stdout.contains("more than 64 different profiles")
            && run.stdout.contains("no profile of this name")
    );
    assert!(run.stdout.contains("a layer with technique cauchy_good"), "{}", run.stdout);
}

/// Writes a dump of pools with these profiles, named p0, p1 and so on.
fn dump_of(folder: &Path, profiles: &[Value]) -> PathBuf {
    let pool = |i: usize| value!({"pool": i, "pool_name": format!("p{i}"), "type": 3, "size": 6, "pg_num": 8, "erasure_code_profile": format!("p{i}")});
    let named: serde_json::Map<String, Value> =
        profiles.iter().enumerate().map(|(i, words)| (format!("p{i}"), words.clone())).collect();
    let pools: Vec<Value> = (0..profiles.len()).map(pool).collect();
    let path = folder.join("dump.json");
    std::fs::write(&path, value!({"pools": pools, "erasure_code_profiles": named}).to_string()).unwrap();
    path
}

#[test]
fn results_beyond_the_effort_are_left_out_and_the_row_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let lrc = |k: &str, m: &str, l: &str| value!({"plugin": "lrc", "k": k, "m": m, "l": l});
    let rs = value!({"plugin": "isa", "k": "4", "m": "2", "technique": "reed_sol_van"});
    let clay = value!({"plugin": "clay", "k": "10", "m": "4", "d": "13"});
    let path = dump_of(folder.path(), &[lrc("12", "6", "9"), clay, rs.clone()]);
    let (status, answer) = report(&path);
    assert_eq!(status, 1);
    let examined = |i: usize| &answer["pools"][i]["examined"];
    assert_eq!((&examined(0)["left_out"], &examined(0)["nines"]), (&value!(["nines"]), &Value::Null));
    assert_eq!(examined(1)["left_out"], value!([]));
    assert_eq!(examined(1)["one_lost"], value!({"ceph": 0.325, "least": 0.325, "is_least": true}));
    assert!(examined(1)["proved"].as_u64() < examined(1)["claimed"].as_u64());
    assert_eq!((&examined(2)["proved"], &examined(2)["left_out"]), (&value!(2), &value!([])));
    assert!(answer["suffices_steps"].as_u64() > Some(1_000_000));

    // Less effort omits more results, those of small codes last. The proposed effort omits none.
    let path = dump_of(folder.path(), &[lrc("8", "4", "6"), rs]);
    let report = |effort: &str| {
        let run = pantile(&["ceph", "report", path.to_str().unwrap(), "--effort", effort, "--json"]);
        let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
        let left_out =
            answer["pools"].as_array().unwrap().iter().map(|pool| pool["examined"]["left_out"].clone());
        (left_out.collect::<Vec<_>>(), answer["suffices_steps"].to_string())
    };
    let everything = value!(["what one lost chunk reads", "what two lost chunks read", "nines"]);
    let (left_out, suffices) = report("1000");
    assert_eq!(left_out, [everything, value!([])]);
    assert_eq!(report(&suffices).0, [value!([]), value!([])]);
    let run = pantile(&["ceph", "report", path.to_str().unwrap(), "--effort", "1000"]);
    let said = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(&format!(
            "p0: left out, for it is too much work for a dump of another cluster; --effort {suffices} does it"
        )),
        "{said}"
    );
}

#[test]
fn a_tree_of_few_hosts_makes_losses_likelier() {
    let folder = tempfile::tempdir().unwrap();
    let profile = |domain: &str| value!({"plugin": "isa", "k": "4", "m": "2", "technique": "reed_sol_van", "crush-failure-domain": domain});
    let path = dump_of(folder.path(), &[profile("host"), profile("osd"), profile("rack")]);
    let tree = folder.path().join("tree.json");
    let write = |hosts: i64| {
        let mut nodes = vec![
            value!({"id": -100, "type": "rack", "children": (1..=hosts).map(|h| -h).collect::<Vec<_>>()}),
        ];
        for host in 1..=hosts {
            nodes.push(value!({"id": -host, "type": "host", "children": [2 * host, 2 * host + 1]}));
            let osd = |id: i64| value!({"id": id, "type": "osd", "crush_weight": 8.0});
            nodes.extend([osd(2 * host), osd(2 * host + 1)]);
        }
        std::fs::write(&tree, value!({"nodes": nodes}).to_string()).unwrap();
    };
    let nines = |arguments: &[&str]| {
        let run = pantile(&[&["ceph", "report", path.to_str().unwrap(), "--json"], arguments].concat());
        let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
        let of = |i: usize| answer["pools"][i]["examined"]["nines"].as_f64().unwrap();
        ([of(0), of(1), of(2)], answer["durability_inputs"].as_str().unwrap().to_string())
    };
    let with_tree = ["--tree", tree.to_str().unwrap()];
    let ([without, ..], _) = nines(&[]);
    write(8);
    let ([eight_hosts, eight_of_osds, one_rack], inputs) = nines(&with_tree);
    assert!(
        inputs.contains("Disks of 8 TiB") && inputs.contains("16 OSDs with a weight on 8 hosts and 1 racks"),
        "{inputs}"
    );
    assert!(
        eight_hosts == eight_of_osds && one_rack < 4.0 && eight_hosts > 4.0,
        "{eight_hosts} {eight_of_osds} {one_rack}"
    );
    write(3);
    let ([three_hosts, ..], _) = nines(&with_tree);
    assert!(three_hosts < eight_hosts && three_hosts != without, "{three_hosts} {eight_hosts} {without}");
    let both = pantile(&["ceph", "report", "-", "--tree", "-"]);
    assert!(both.status == 2 && both.stderr.contains("standard input"), "{}", both.stderr);
}

fn said_of_nothing(path: &Path) -> String {
    let run = pantile(&["ceph", "report", path.to_str().unwrap()]);
    assert_eq!(run.status, 2);
    run.stderr
}

#[test]
fn the_page_of_pools_has_the_answer_the_table_and_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("pools.html");
    let run = pantile(&["ceph", "report", dump().to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let page = std::fs::read_to_string(&page).unwrap();
    let answer = run.stdout.lines().next().unwrap();
    let commands = run.stdout.lines().filter(|line| line.starts_with("  ceph osd pool create"));
    for part in commands.map(str::trim).chain([answer, "backups of &quot;9&quot;"]) {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(
        page.find(answer) < page.find("<table>") && page.find("<table>") < page.find("ceph osd pool create")
    );
}
