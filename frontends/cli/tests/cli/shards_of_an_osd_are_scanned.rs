//! `pantile ceph scan` and `ceph verify` with a tool that prints recorded output of Ceph's tool.
//! `integrations/ceph/e2e verify` runs them on clusters.

use crate::common::*;
use serde_json::{Value, json as value};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A folder with a dump, the folder of an OSD and a tool.
fn osd(folder: &Path, tool: &str) -> [String; 3] {
    let profile = value!({"plugin": "isa", "k": "4", "m": "2", "technique": "reed_sol_van"});
    let pool = |name: &str, flags: &str, id: i64| {
        value!({"pool": id, "pool_name": name, "type": 3, "size": 6, "pg_num": 8, "erasure_code_profile": "p",
                "flags_names": flags, "stripe_width": 16384})
    };
    let pools = [
        pool("images", "hashpspool,ec_overwrites", 1),
        pool("fast", "hashpspool,ec_overwrites,ec_optimizations", 2),
    ];
    let dump = folder.join("dump.json");
    std::fs::write(&dump, value!({"pools": pools, "erasure_code_profiles": {"p": profile}}).to_string())
        .unwrap();
    let store = folder.join("osd");
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("whoami"), "3\n").unwrap();
    let program = folder.join("tool");
    std::fs::write(&program, format!("#!/bin/sh\n{tool}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    [dump, store, program].map(|path| path.to_str().unwrap().to_string())
}

#[test]
fn a_scan_has_the_shards_of_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let export = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/foreign/ceph_export");
    let tool = format!(
        "case $4 in list-pgs) printf '1.5s5\\n2.0s1\\n7.3\\n' ;; export) exec cat {} ;; esac",
        export.canonicalize().unwrap().display()
    );
    let [dump, store, tool] = osd(folder.path(), &tool);
    let scan = folder.path().join("osd.3.scan");
    let scan = scan.to_str().unwrap();
    let run = pantile(&[
        "ceph",
        "scan",
        "images",
        "--dump",
        &dump,
        "--data-path",
        &store,
        "--tool",
        &tool,
        "--out",
        scan,
        "--rate",
        "1G",
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "OSD 3: 1 shard in 1 placement group, 28.0 KiB\n");

    // The scan of one OSD of six has no information on the others.
    let run = pantile(&["ceph", "verify", "images", scan, "--dump", &dump, "--json"]);
    let found: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
    assert_eq!((run.status, &found["objects"], &found["unchecked"]), (0, &value!(1), &value!(1)));
    assert_eq!(found["partly_scanned"], value!(["1.5"]));

    let run = pantile(&["ceph", "verify", "images", scan, scan, "--dump", &dump]);
    assert!(run.status == 2 && run.stderr.contains("both have 1.5s5"), "{}", run.stderr);
}

#[test]
fn a_scan_that_cannot_be_made_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let [dump, store, tool] = osd(folder.path(), "echo 'OSD has the store locked' >&2; exit 1");
    let out = folder.path().join("scan");
    let out = out.to_str().unwrap();
    let scan = |pool: &str, tool: &str| {
        pantile(&["ceph", "scan", pool, "--dump", &dump, "--data-path", &store, "--tool", tool, "--out", out])
    };
    for (pool, tool, status, words) in [
        ("images", tool.as_str(), 3, "OSD has the store locked"),
        ("images", "/nowhere/tool", 3, "cannot be run"),
        ("fast", tool.as_str(), 2, "allow_ec_optimizations"),
        ("none", tool.as_str(), 2, "there is no pool none"),
    ] {
        let run = scan(pool, tool);
        assert!(run.status == status && run.stderr.contains(words), "{pool}: {} {}", run.status, run.stderr);
        assert_eq!(run.stderr.lines().count(), 1);
    }
    assert!(!Path::new(out).exists());
}
