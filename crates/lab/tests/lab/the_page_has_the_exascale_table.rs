//! The table of the exascale simulation in docs/lab.md equals the output of its command.

use pantile_lab::Report;
use pantile_lab::exascale::{Device, Level, Options, Placement, Scaling, run};

/// Weak scaling with three numbers of clients, and strong scaling with the largest.
fn reports(placement: Placement) -> [Report; 2] {
    let quick = || Options { placement, threads: 2, ..Options::quick() };
    let weak = Options {
        levels: vec![Level::raid5(), Level::raid6()],
        devices: vec![Device::hdd(), Device::ssd()],
        scalings: vec![Scaling::Weak],
        clients: vec![2_000, 80_000, 250_000],
        ..quick()
    };
    let strong = Options {
        levels: vec![Level::raid5()],
        devices: vec![Device::hdd()],
        scalings: vec![Scaling::Strong],
        clients: vec![250_000],
        ..quick()
    };
    [weak, strong].map(|options| run(&options, &|_, _| ()))
}

#[test]
#[ignore = "a minute of one core"]
fn the_page_has_what_the_simulation_gives() {
    let both = [Placement::Striped, Placement::Random].map(reports);
    let of = |case: &str, quantity: &str| {
        both.each_ref()
            .map(|[weak, _]| weak.find(case, quantity).unwrap_or_else(|| panic!("no {case}: {quantity}")))
    };
    let ratios = |case: &str, quantity: &str| of(case, quantity).map(|ratio| format!("{ratio:.2}"));
    let delayed = |device: &str| {
        let each = [2_000, 80_000, 250_000]
            .map(|clients| ratios(&format!("raid5-{device}-weak-{clients}"), "delayed/std"));
        [0, 1].map(|placement| each.each_ref().map(|both| both[placement].as_str()).join(" / "))
    };
    let below = of("raid6-hdd-weak-80000", "std below raid0, per cent");
    let fewer = ["raid5", "raid6"]
        .map(|level| of(&format!("{level}-hdd-weak-80000"), "wcl, operations fewer than std, per cent"));
    let docs = include_str!("../../../../docs/lab.md");
    for (row, [striped, random]) in [
        ("raid0 over std, RAID-5, HDD, 80,000 clients | 4", ratios("raid5-hdd-weak-80000", "raid0/std")),
        ("the same, SSD | 4", ratios("raid5-ssd-weak-80000", "raid0/std")),
        ("wcl over std, RAID-5, HDD | 2", ratios("raid5-hdd-weak-80000", "wcl/std")),
        (
            "delayed over std, RAID-5, HDD, 2,000 / 80,000 / 250,000 clients | as wcl / - / up to 3",
            delayed("hdd"),
        ),
        ("delayed over std, RAID-5, SSD, the same | -", delayed("ssd")),
        (
            "raid0 over std, RAID-6, HDD (std loses \"up to 85 %\") | 85 %",
            below.map(|percent| format!("{percent:.1} %")),
        ),
        ("wcl over std, RAID-6, HDD | 1.18", ratios("raid6-hdd-weak-80000", "wcl/std")),
        (
            "wcl, operations fewer than std, RAID-5 / RAID-6, with those under way at the end | 25 % / 16 %",
            [0, 1].map(|placement| format!("{:.1} / {:.1} %", fewer[0][placement], fewer[1][placement])),
        ),
    ] {
        let line = format!("| {row} | {striped} | {random} |");
        assert!(docs.contains(&line), "docs/lab.md lacks {line}");
    }
    let updates = both.each_ref().map(|[_, strong]| {
        let of = |scheme: &str| {
            let quantity = format!("{scheme}, thousands of parity updates an iteration");
            strong.find("raid5-hdd-strong-250000", &quantity).expect("they are counted")
        };
        format!("{:.1} K to {:.2} K", of("std"), of("delayed"))
    });
    assert_eq!(updates[0], updates[1], "the placement changes no number of updates");
    let line = format!(
        "| parity updates, 250,000 clients, strong: std to delayed | 250 K to 1.7 K | {} | the same |",
        updates[0]
    );
    assert!(docs.contains(&line), "docs/lab.md lacks {line}");
}
