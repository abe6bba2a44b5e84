//! Durability equals published closed forms, and the Markov chain agrees with two Monte Carlos:
//! one with importance sampling, one without.

use pantile::Code;
use pantile_lab::durability::{Disks, Domains, Durability, Examined, HOURS_PER_YEAR, Options, examine, run};
use pantile_lab::figure::Figure;
use pantile_lab::page;
use pantile_sim::Random;

fn code(spec: &str) -> Code {
    Code::parse(spec).expect("a spec")
}

fn found(spec: &str, options: &Options) -> Durability {
    examine(&code(spec), options).expect("few spares")
}

fn close(ours: f64, theirs: f64, share: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() < share, "{what}: {ours:e}, not {theirs:e}");
}

/// Returns disks without unreadable sectors, which are the only limit of a rebuild.
fn clean() -> Disks {
    Disks { unreadable_per_bit: 0.0, repair_bytes_per_s: None, ..Disks::default() }
}

#[test]
fn closed_forms_of_raid_and_replicas_are_met() {
    // The error of the closed forms is of the order of failure rate over repair rate.
    for afr in [1e-9, 1e-4, 0.02] {
        let options =
            Options { disks: Disks { failed_per_year: afr, ..clean() }, cycles: 0, ..Options::default() };
        let (l, mu) = (options.disks.failures_per_hour(), 1.0 / options.disks.pass_hours(1.0));
        let ratio = 100.0 * l / mu;
        for n in [3.0, 6.0, 12.0] {
            let raid5 = found(&format!("raid5:{}", n - 1.0), &options).hours;
            close(raid5, mu / (n * (n - 1.0) * l * l), ratio, "RAID-5, Patterson et al. 1988");
            close(raid5, ((2.0 * n - 1.0) * l + mu) / (n * (n - 1.0) * l * l), 1e-12, "RAID-5, exact");
            if n > 3.0 {
                let raid6 = found(&format!("raid6:{}", n - 2.0), &options).hours;
                close(raid6, mu * mu / (n * (n - 1.0) * (n - 2.0) * l.powi(3)), 2.0 * ratio, "RAID-6");
            }
        }
        close(found("mirror:2", &options).hours, (3.0 * l + mu) / (2.0 * l * l), 1e-12, "two copies");
        close(found("mirror:3", &options).hours, mu * mu / (6.0 * l.powi(3)), ratio, "three copies");
        close(found("raid0:5", &options).hours, 1.0 / (5.0 * l), 1e-12, "no redundancy");
    }
}

#[test]
fn unreadable_sectors_have_their_closed_form_too() {
    let disks = Disks { unreadable_per_bit: 1e-15, user_bytes_per_year: 0.0, ..clean() };
    let options = Options { disks, cycles: 0, ..Options::default() };
    let raid5 = found("raid5:7", &options);
    let disks = &options.disks;
    let (l, mu) = (disks.failures_per_hour(), 1.0 / disks.pass_hours(1.0));
    // Seven disks must be read in full.
    let met = -(-7.0 * disks.len_bytes * 8.0 * 1e-15).exp_m1();
    let lost = (7.0 * l + mu * met) / (7.0 * l + mu);
    close(raid5.hours, (1.0 / (8.0 * l) + 1.0 / (7.0 * l + mu)) / lost, 1e-12, "RAID-5");
    close(raid5.sectors, mu * met / (7.0 * l + mu * met), 1e-12, "their share");
    // A sector does no harm if one more column can be lost; in between the code decides cell by
    // cell.
    let share = |spec: &str, lost: usize| found(spec, &options).levels[lost].unreadable;
    assert_eq!(share("raid6:6", 1), 0.0);
    assert!(share("raid6:6", 2) > 0.1, "six disks are read in full");
    assert_eq!(share("shec:6,4,3", 1), 0.0);
    let (two, three) = (share("shec:6,4,3", 2), share("shec:6,4,3", 3));
    assert!(0.0 < two && two < three && three < share("rs:6+3", 3), "{two} {three}");
    let scrubbed = |hours| {
        let disks = Disks { scrub_hours: hours, ..Disks::default() };
        found("raid6:6", &Options { disks, cycles: 0, ..Options::default() }).hours
    };
    assert!(scrubbed(Some(24.0)) > scrubbed(Some(8766.0)) && scrubbed(Some(8766.0)) > scrubbed(None));
}

#[test]
fn sets_that_are_rebuilt_alike_give_the_shares_of_the_counts() {
    let options = Options { disks: clean(), cycles: 0, ..Options::default() };
    let mut fatal = 0;
    for spec in ["shec:6,4,3", "lrc:12,2,2", "dcode:7", "xorbas:10,6,5"] {
        let one = found(spec, &options);
        let n = one.columns as f64;
        for level in &one.levels[1..] {
            let of = |lost: usize| one.certificate.levels[lost - 1].survived as f64;
            let f = level.lost as f64;
            assert_eq!(level.examined, Examined::Each);
            if level.lost + 1 < one.levels.len() {
                let share = 1.0 - of(level.lost + 1) * (f + 1.0) / (of(level.lost) * (n - f));
                assert!((level.fatal_share - share).abs() < 1e-12, "{spec}, {f} lost");
                fatal += usize::from(share > 0.0);
            }
        }
    }
    assert!(fatal > 3);
}

/// Returns the distance of the Monte Carlo from the chain in standard errors, as inferred from the
/// interval.
fn apart(value: f64, estimate: pantile_lab::durability::Estimate) -> f64 {
    let error = (estimate.most / estimate.value).ln() / 1.96;
    (estimate.value / value).ln().abs() / error.max(1e-9)
}

#[test]
fn chain_and_chance_agree() {
    let network = Disks { repair_bytes_per_s: Some(400e6), ..Disks::default() };
    let cases: [(&str, Disks, &[&str]); 4] = [
        (
            "default",
            Disks::default(),
            &[
                "raid5:7",
                "raid6:6",
                "rs:10+4",
                "mirror:3",
                "shec:6,4,3",
                "shec:5,3,3",
                "lrc:12,2,2",
                "raidp:8",
                "dcode:7",
                "xorbas:10,6,5",
            ],
        ),
        ("a network", network, &["rs:6+3", "shec:6,4,3", "shec:7,4,3", "lrc:6,2,2", "raidp:6", "evenodd:7"]),
        (
            "no sector lost, quick",
            Disks { bytes_per_s: 1e10, ..clean() },
            &["shec:4,3,3", "lrc:6,2,2", "raidp:5,weighted"],
        ),
        (
            "bad disks",
            Disks { failed_per_year: 0.6, ..clean() },
            &["raid5:4", "shec:6,4,3", "lrc:6,2,2", "raidp:5", "rs:4+3"],
        ),
    ];
    let (mut within, mut all) = (0, 0);
    for (name, disks, specs) in cases {
        for spec in specs {
            let options = Options { disks: disks.clone(), cycles: 40_000, ..Options::default() };
            let one = found(spec, &options);
            let chance = one.simulated.expect("cycles end");
            let spread = chance.within.most / chance.within.least;
            assert!(spread < 1.5, "{spec}, {name}: the interval says nothing, {spread}");
            for z in [apart(one.hours, chance.hours), apart(one.within, chance.within)] {
                assert!(z < 3.5, "{spec}, {name}: {z} errors apart; {:e} {:?}", one.within, chance.within);
                within += usize::from(z <= 1.96);
                all += 1;
            }
        }
    }
    // A twentieth of true 95 % intervals misses.
    assert!(within * 10 >= all * 8, "{within} of {all}");
}

#[test]
fn no_error_but_chance_is_left_out_of_the_interval() {
    // One column lost, and the next is fatal: the Monte Carlo adds little, and an error in
    // treating losses as Poisson events would show.
    for (afr, years, bytes_per_s) in
        [(0.6, 1.0, 150e6), (0.6, 0.05, 150e6), (0.9, 1.0, 20e6), (0.3, 30.0, 50e6)]
    {
        for spec in ["raid5:4", "mirror:2", "raid0:3"] {
            let disks = Disks { failed_per_year: afr, bytes_per_s, ..clean() };
            let options = Options { disks, years, cycles: 400_000, ..Options::default() };
            let one = found(spec, &options);
            let chance = one.simulated.expect("cycles end").within;
            let is_held =
                chance.least * (1.0 - 1e-9) <= one.within && one.within <= chance.most * (1.0 + 1e-9);
            assert!(is_held, "{spec}, {afr}, {years} years: {:.9e} {chance:?}", one.within);
            // The interval is narrow enough to be useful.
            assert!(chance.most / chance.least < 1.3, "{spec}: {chance:?}");
        }
    }
}

#[test]
fn the_intervals_cover_what_they_say() {
    for spec in ["shec:5,3,3", "raidp:5"] {
        let covered = |seed: &u64| {
            let one = found(spec, &Options { cycles: 4000, seed: *seed, ..Options::default() });
            one.simulated.is_some_and(|chance| apart(one.within, chance.within) <= 1.96)
        };
        // 95 of 100 are expected, give or take two.
        let covered = (1..=100).filter(covered).count();
        assert!((88..=100).contains(&covered), "{spec}: {covered} of 100");
    }
}

#[test]
fn spares_that_run_out_cost_durability_by_both_ways() {
    let at = |spares, cycles| {
        let disks = Disks { spares, replace_hours: 100.0, repair_bytes_per_s: None, ..Disks::default() };
        found("rs:6+2", &Options { disks, cycles, ..Options::default() })
    };
    let all = [Some(0), Some(1), Some(4), None].map(|spares| at(spares, 40_000));
    for pair in all.windows(2) {
        assert!(pair[0].within > pair[1].within, "{:e} {:e}", pair[0].within, pair[1].within);
    }
    close(all[2].within, all[3].within, 0.01, "four spares are as good as any number");
    for one in &all {
        let z = apart(one.hours, one.simulated.expect("cycles end").hours);
        assert!(z < 3.5, "{z}");
    }
    // No spare and no unreadable sector: each rebuild waits, and of two lost disks one can be
    // replaced.
    assert!(all[0].hours < all[3].hours / 4.0);
}

/// The model in other words: counts only, no bias, until the time is over.
fn as_it_comes(n: usize, tolerance: usize, disks: &Disks, hours: f64, runs: usize) -> f64 {
    let mut random = Random::new(77);
    let mut exponential = |rate: f64| -(((random.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64).ln() / rate;
    let mut losses = 0;
    for _ in 0..runs {
        let (mut now, mut lost) = (0.0, 0);
        loop {
            let failure = exponential((n - lost) as f64 * disks.failures_per_hour());
            let rebuild = if lost > 0 { exponential(1.0 / disks.pass_hours(1.0)) } else { f64::INFINITY };
            now += failure.min(rebuild);
            if now > hours {
                break;
            }
            lost = if rebuild < failure { 0 } else { lost + 1 };
            if lost > tolerance {
                losses += 1;
                break;
            }
        }
    }
    losses as f64 / runs as f64
}

#[test]
fn disks_bad_enough_to_watch_lose_as_often_as_is_computed() {
    let disks = Disks { failed_per_year: 0.9, bytes_per_s: 20e6, ..clean() };
    for (spec, n, tolerance) in [("raid5:4", 5, 1), ("raid6:4", 6, 2), ("rs:3+3", 6, 3)] {
        let options = Options { disks: disks.clone(), cycles: 40_000, ..Options::default() };
        let one = found(spec, &options);
        let runs = 20_000;
        let seen = as_it_comes(n, tolerance, &disks, HOURS_PER_YEAR, runs);
        let error = (seen * (1.0 - seen) / runs as f64).sqrt();
        assert!(seen > 0.01 && (one.within - seen).abs() < 3.5 * error, "{spec}: {} {seen}", one.within);
    }
}

#[test]
fn threads_change_no_number_and_the_seed_does() {
    let codes = ["rs:6+3", "shec:6,4,3", "lrc:6,2,2"].map(code);
    let at = |threads, seed| {
        let options = Options { threads, seed, cycles: 5000, ..Options::default() };
        run(&codes, &options, &|_| ()).expect("no spares").measures
    };
    assert_eq!(at(1, 1), at(5, 1));
    assert_ne!(at(1, 1), at(1, 2));
}

#[test]
fn the_report_has_a_table_a_front_and_says_what_the_shec_paper_leaves_out() {
    let codes = ["rs:6+3", "mirror:3", "shec:6,4,3", "shec:5,3,3", "raid5:3", "raid0:3"].map(code);
    let report = run(&codes, &Options { cycles: 2000, ..Options::default() }, &|_| ()).expect("no spares");
    let mut front = 0;
    for figure in &report.figures {
        assert!(figure.data().len() > codes.len());
        if let Figure::Points(points) = figure {
            let svg = figure.svg();
            let tree = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}"));
            let names = |name: &str| tree.descendants().filter(|node| node.has_tag_name(name)).count();
            assert!(names("circle") == 6 && names("text") > 12);
            front = points.points.iter().filter(|point| point.is_front).count();
        }
    }
    assert!((1..6).contains(&front), "{front}");
    assert!(report.text.iter().any(|text| text.contains("no inputs reproduce its table")));
    let published: Vec<_> = report.published().map(|measure| measure.published).collect();
    assert_eq!(published, [Some(3.46e-18), Some(1.22e-10)]);
    let seconds =
        report.find("shec:6,4,3, the paper's table", "rebuild time that would give the printed loss, s");
    assert!(seconds.is_some_and(|s| s < 600.0), "{seconds:?}");
    let html = page("Durability", "pantile durability", &[], &[report]);
    assert!(
        html.contains("<h3>Durability of the codes</h3>")
            && !html.replace("http://www.w3.org/", "").contains("://")
    );
}

#[test]
fn too_many_spares_are_refused_in_one_sentence() {
    let disks = Disks { spares: Some(300), ..Disks::default() };
    let refused = examine(&code("rs:4+2"), &Options { disks, ..Options::default() });
    let text = refused.map(|_| ()).expect_err("too many").to_string();
    assert!(text.contains("at most 400") && text.contains("immediate"), "{text}");
}

/// Disks that hardly fail, in domains that are lost with a probability of a tenth a year.
fn in_domains(count: usize) -> (Options, f64) {
    let domains = Domains { what: "host", count, lost_per_year: 0.1 };
    let rate = domains.losses_per_hour();
    let disks = Disks { failed_per_year: 1e-12, domains: Some(domains), ..clean() };
    (Options { disks, cycles: 0, ..Options::default() }, rate)
}

fn near(ours: f64, theirs: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() < 1e-6, "{what}: {ours:e}, not {theirs:e}");
}

#[test]
fn a_column_alone_on_its_host_fails_with_either() {
    let code = Code::parse("shec:4,3,2").expect("a code");
    let both = Disks {
        failed_per_year: 0.02,
        domains: Some(Domains { what: "host", count: 7, lost_per_year: 0.03 }),
        ..clean()
    };
    let sum = Disks { failed_per_year: 1.0 - 0.98 * 0.97, domains: None, ..both.clone() };
    let found = |disks: &Disks| {
        let options = Options { disks: disks.clone(), cycles: 2000, ..Options::default() };
        examine(&code, &options).expect("no spares")
    };
    let (of_hosts, of_disks) = (found(&both), found(&sum));
    near(of_hosts.hours, of_disks.hours, "hours");
    assert!(of_hosts.simulated.is_some(), "the Monte Carlo knows of them");
    assert_eq!(of_hosts.spread.map(|spread| (spread.columns_most, spread.fatal)), Some((1, 0)));
}

#[test]
fn a_host_that_takes_all_copies_with_it_is_the_end() {
    let code = Code::parse("mirror:2").expect("a code");
    let (options, rate) = in_domains(1);
    let found = examine(&code, &options).expect("no spares");
    near(found.hours, 1.0 / rate, "one host");
    assert_eq!(found.spread.map(|spread| (spread.columns_most, spread.fatal)), Some((2, 1)));
    let code = Code::parse("raid6:4").expect("a code");
    let (options, rate) = in_domains(2);
    let found = examine(&code, &options).expect("no spares");
    near(found.hours, 1.0 / (2.0 * rate), "three columns on each of two hosts");
    assert!(found.simulated.is_none());
}

#[test]
fn two_columns_on_a_host_are_lost_and_rebuilt_together() {
    // Whole, a host lost; then a repair, or the end with the second host.
    let code = Code::parse("raid6:2").expect("a code");
    let (options, rate) = in_domains(2);
    let found = examine(&code, &options).expect("no spares");
    let mu = 1.0 / options.disks.pass_hours(1.0);
    let exact = (1.0 / (2.0 * rate) + 1.0 / (rate + mu)) * (rate + mu) / rate;
    near(found.hours, exact, "two hosts");
    assert_eq!(found.spread.map(|spread| (spread.columns_most, spread.fatal)), Some((2, 0)));
    // Three hosts: one lost of three, then one of two.
    let code = Code::parse("raid6:4").expect("a code");
    let (options, rate) = in_domains(3);
    let found = examine(&code, &options).expect("no spares");
    let exact = (1.0 / (3.0 * rate) + 1.0 / (2.0 * rate + mu)) * (2.0 * rate + mu) / (2.0 * rate);
    near(found.hours, exact, "three hosts");
}

#[test]
fn which_columns_share_a_host_decides_for_codes_of_groups() {
    // Columns go to hosts in turn, so that each of four hosts has two of lrc:4,2,2: no group of
    // three loses more than the equations tolerate.
    let code = Code::parse("lrc:4,2,2").expect("a code");
    let (options, rate) = in_domains(4);
    let found = examine(&code, &options).expect("no spares");
    assert_eq!(found.spread.map(|spread| (spread.columns_most, spread.fatal)), Some((2, 0)));
    assert!(found.hours > 10.0 / rate, "{}", found.hours);
    let (options, rate) = in_domains(2);
    let found = examine(&code, &options).expect("no spares");
    let fatal = found.spread.expect("hosts").fatal as f64;
    let at_once = 1.0 / (fatal * rate);
    assert!(found.hours <= at_once * (1.0 + 1e-6), "{} with {fatal} fatal hosts", found.hours);
    let report = run(&[code], &options, &|_| {}).expect("no spares");
    let said = report.text.join(" ");
    assert!(said.contains("lrc:4,2,2: up to 4 columns on one host, 2 hosts in all"), "{said}");
    assert!(said.contains("spread over 2 hosts"), "{said}");
}
