//! RAIDP beside copies and RAID-6 on the volume's engine in virtual time.

use pantile_lab::Kind;
use pantile_lab::papers::raidp_engine::{NAME, Options, run};

/// The numbers follow from layouts: reads for a lost disk, the cost of a write, and which
/// losses are fatal.
#[test]
fn the_engine_recovers_what_the_layouts_can() {
    let options = Options { disks: 8, user_mib: 32, random: 64, threads: 2 };
    let report = run(&options).expect("it runs");
    let of = |case: &str, quantity: &str| report.find(case, quantity);
    if std::env::var_os("PANTILE_SHOW").is_some() {
        report.measures.iter().for_each(|m| println!("{} | {} | {:?}", m.case, m.quantity, m.value));
    }
    assert!(report.measures.iter().all(|m| m.experiment == NAME && m.kind == Kind::Measured));
    let disk_mb = 2.0 * 32.0 * 1.048_576 / 8.0;
    let read = |case| of(case, "one lost: disks read, MB").expect("it is recovered");
    for case in ["raidp", "two copies, spread"] {
        assert!((read(case) / disk_mb - 1.0).abs() < 0.25, "{case}: {} of {disk_mb}", read(case));
    }
    // A disk of RAID-6 holds 1 of 6 parts, and 6 others are read for each.
    assert!((read("raid6:6") / (32.0 * 1.048_576) - 1.0).abs() < 0.25, "{}", read("raid6:6"));
    for (case, survives) in [
        ("raidp", true),
        ("raid6:6", true),
        ("mirror:3", true),
        ("two copies, spread", false),
        ("mirror:2", false),
    ] {
        assert_eq!(of(case, "two lost: until whole, s").is_some(), survives, "{case}");
    }
    let safe = of("raidp", "two lost: until safe, s").expect("it becomes safe");
    assert!(safe <= of("raidp", "two lost: until whole, s").expect("it becomes whole"));
    for (case, least) in
        [("raidp", 2.0), ("two copies, spread", 2.0), ("three copies, spread", 3.0), ("raid6:6", 8.0 / 6.0)]
    {
        let written = of(case, "disk bytes written per byte, written again").expect("it is written");
        assert!(written >= least && written < least * 1.6, "{case}: {written}");
    }
}
