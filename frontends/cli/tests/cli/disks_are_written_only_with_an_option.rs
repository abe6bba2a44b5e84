//! Claim: `pantile-lab dcode-engine --devices` writes nothing without `--write`, and with it only
//! blank disks, unless `--yes` is given.

use crate::common::*;
use serde_json::Value;
use std::fs::File;
use std::path::Path;

const FILES: [&str; 5] = ["d0", "d1", "d2", "d3", "d4"];

/// Runs a few requests of short elements on these disks.
fn asked(folder: &Path, devices: &[&str], more: &[&str]) -> Run {
    let few = [
        "pantile-lab",
        "dcode-engine",
        "--primes",
        "5",
        "--disks",
        "element",
        "--reads",
        "10",
        "--element",
        "4K",
    ];
    pantile_in(folder, &[&few[..], more, &["--devices"], devices].concat())
}

fn is_blank(folder: &Path, name: &str) -> bool {
    std::fs::read(folder.join(name)).expect("a file").iter().all(|&byte| byte == 0)
}

#[test]
fn disks_are_written_only_with_an_option_and_only_if_blank() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let make = |name: &str, len: u64| {
        File::create(folder.join(name)).and_then(|file| file.set_len(len)).expect("a file");
    };
    FILES.iter().for_each(|name| make(name, 32 << 20));
    let run = asked(folder, &FILES, &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stdout.contains("nothing was written") && !run.stdout.contains("durable writes"));
    assert!(FILES.iter().all(|name| is_blank(folder, name)));
    make("short", 100_000);
    std::fs::write(folder.join("text"), vec![7; 32 << 20]).expect("a file");
    let created = pantile_in(folder, &["create", "vol", "--size", "1M", "--code", "mirror:2"]);
    assert_eq!(created.status, 0, "{}", created.stderr);
    let refused: [(&str, &[&str], &[&str]); 5] = [
        ("text", &[], &["text is not empty", "--yes"]),
        ("vol/device-00.pantile", &[], &["belongs to the volume 'vol'", "--yes"]),
        ("short", &[], &["short has 99840 bytes, but the stripes need 393216", "--element"]),
        ("d0", &["--yes"], &["name each device once"]),
        ("/dev/null", &["--yes"], &["neither a regular file nor a block device"]),
    ];
    for (last, more, needles) in refused {
        let devices = ["d0", "d1", "d2", "d3", last];
        let run = asked(folder, &devices, &[&["--write"], more].concat());
        assert_fault(&run, 2, needles, last);
    }
    assert!(FILES.iter().all(|name| is_blank(folder, name)));
    assert_fault(&pantile(&["pantile-lab", "dcode-engine", "--write"]), 2, &["--devices"], "no devices");
    assert_fault(&asked(folder, &FILES, &["--yes"]), 2, &["--write"], "nothing is written");
    let run = asked(folder, &FILES, &["--write"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    for needle in ["5 were read and written: 30 durable writes", "durable writes, MB/s", "healthy, MB/s"] {
        assert!(
            run.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(needle),
            "{}",
            run.stdout
        );
    }
    assert!(FILES.iter().all(|name| !is_blank(folder, name)));
    assert_fault(&asked(folder, &FILES, &["--write"]), 2, &["d0 is not empty"], "a second time");
    let run =
        asked(folder, &["d0", "d1", "d2", "text", "vol/device-00.pantile"], &["--write", "--yes", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let measures: Vec<Value> = serde_json::from_str(&run.stdout).expect("a list");
    let written = measures.iter().filter(|measure| measure["quantity"] == "durable writes, MB/s");
    let written: Vec<&Value> = written.collect();
    assert_eq!(written.len(), 3, "D-Code, X-Code and HDP have five columns or four");
    for measure in written {
        assert!(measure["value"].as_f64().is_some_and(|speed| speed > 0.0));
        assert_eq!((&measure["kind"], &measure["published"]), (&"measured".into(), &Value::Null));
        assert!(measure["note"].as_str().is_some_and(|note| note.contains("were written")));
    }
    assert_eq!(pantile_in(folder, &["status", "vol"]).status, 1, "a mirror without one of its devices");
    assert_eq!(folder.join("text").metadata().expect("it is there").len(), 32 << 20);
}
