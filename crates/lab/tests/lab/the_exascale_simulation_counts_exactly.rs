//! Operations per write are exact integers; ratios are those of the source and of another program,
//! small and at the same load.

use pantile_lab::exascale::{
    CLIENTS_PER_APP, Device, Level, Log, Network, Options, Outcome, Placement, Run, Scaling, Scheme,
    ServiceTimes, parities_of, run, simulate,
};

fn run_of(scheme: Scheme, q: u32, clients: u32) -> Run {
    Run {
        scheme,
        parities: vec![q],
        servers: 32,
        clients,
        clients_per_app: CLIENTS_PER_APP,
        reads_per_mille: 0,
        write_bytes: 128 << 10,
        unit_bytes: 1 << 20,
        device: Device::hdd(),
        network: Network::default(),
        placement: Placement::Random,
        log: Log::Random,
        move_back: false,
        writes_each: None,
        batch_ns: 2_000_000_000,
        warm_up_batches: 1,
        batches_most: 20,
        events_most: 400_000,
    }
}

#[test]
fn every_scheme_does_what_its_chain_says() {
    for q in [1, 2, 4] {
        for scheme in Scheme::ALL {
            let outcome = simulate(&run_of(scheme, q, 600), 1);
            let o = outcome.operations;
            let (done, q) = (o.acknowledged, u64::from(q));
            assert!(done > 1000, "{scheme:?}");
            // What is under way at the end is at most one request of each client.
            let near =
                |count: u64, per_write: u64| (done * per_write..=(done + 600) * per_write).contains(&count);
            match scheme {
                Scheme::Raid0 => {
                    assert!(near(o.data_writes, 1) && o.data_reads + o.parity_reads + o.parity_writes == 0)
                }
                Scheme::Std => {
                    assert!(near(o.data_reads, 1) && near(o.data_writes, 1), "{o:?}");
                    assert!(near(o.parity_reads, q) && near(o.parity_writes, q), "{o:?}");
                }
                Scheme::Wcl => {
                    assert!(o.data_reads == 0 && near(o.data_writes, 1), "{o:?}");
                    assert!(near(o.parity_reads, q) && near(o.parity_writes, q), "{o:?}");
                }
                Scheme::Delayed => {
                    // 600 clients are four applications of 150: 19 units each, read once an epoch;
                    // a parity is written once.
                    let (epochs, units) = (o.epochs, (150u64 * (128 << 10)).div_ceil(1 << 20));
                    assert_eq!(done, epochs * 150);
                    assert!((epochs * units..=(epochs + 4) * units).contains(&o.data_reads), "{o:?}");
                    assert!((epochs * q..=(epochs + 4) * q).contains(&o.parity_writes), "{o:?}");
                    assert_eq!(o.parity_reads, 0);
                }
            }
            assert_eq!(
                outcome.per_server.iter().sum::<u64>(),
                o.data_reads + o.data_writes + o.parity_reads + o.parity_writes
            );
        }
    }
}

#[test]
fn moving_back_costs_a_read_and_a_write_of_each() {
    let moved = Run { move_back: true, ..run_of(Scheme::Wcl, 1, 300) };
    let o = simulate(&moved, 1).operations;
    assert!(o.move_back > o.acknowledged && o.move_back <= 2 * o.acknowledged, "{o:?}");
}

/// Half of all requests read: a request costs the mean of both, and what reads cost is the same
/// whatever the scheme.
#[test]
fn reads_take_their_share_and_lessen_what_redundancy_costs() {
    let mixed = |scheme| simulate(&Run { reads_per_mille: 500, ..run_of(scheme, 1, 600) }, 1);
    let rate = |outcome: &Outcome| outcome.batches.iter().sum::<u64>() as f64 / outcome.batches.len() as f64;
    for scheme in Scheme::ALL {
        let o = mixed(scheme).operations;
        let share = o.user_reads as f64 / (o.user_reads + o.data_writes) as f64;
        assert!((0.48..=0.52).contains(&share), "{scheme:?} {o:?}");
    }
    // (4 + 1) / 2 operations a request against 1.
    let ratio = rate(&mixed(Scheme::Raid0)) / rate(&mixed(Scheme::Std));
    assert!((2.25..=2.75).contains(&ratio), "{ratio}");
}

/// A device by a log in which every operation takes 5 ms is a device whose operations take 5 ms.
#[test]
fn measured_times_count_instead_of_the_model() {
    let log: String = (0..400).map(|i| format!("{i}, 5000000, {}, 131072, 0, 0\n", i % 2)).collect();
    let device = Device::measured(ServiceTimes::parse(log.as_bytes()).expect("a log"));
    let outcome = simulate(&Run { device, ..run_of(Scheme::Raid0, 1, 600) }, 1);
    let bytes: u64 = outcome.batches.iter().sum();
    let per_s = bytes as f64 / (outcome.batches.len() as f64 * outcome.batch_ns as f64 / 1e9);
    let full = 32.0 * f64::from(128 << 10) / 0.005;
    assert!((0.95..=1.001).contains(&(per_s / full)), "{}", per_s / full);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let run = run_of(Scheme::Delayed, 2, 600);
    let (a, b, c) = (simulate(&run, 7), simulate(&run, 7), simulate(&run, 8));
    assert_eq!((a.batches.clone(), a.operations, a.per_server), (b.batches, b.operations, b.per_server));
    assert_ne!(a.batches, c.batches);
}

#[test]
fn striping_makes_one_server_hot_where_parity_is_not_delayed() {
    let busiest = |placement| {
        let outcome = simulate(&Run { placement, ..run_of(Scheme::Std, 1, 147) }, 1);
        let most = outcome.per_server.iter().max().copied().unwrap_or(0) as f64;
        most * outcome.per_server.len() as f64 / outcome.per_server.iter().sum::<u64>() as f64
    };
    // One application has one parity server: half of all operations are there.
    assert!(busiest(Placement::Random) < 2.0 && busiest(Placement::Striped) > 8.0);
}

/// The acceptance numbers: device-bound ratios, and delayed parity that climbs with the number of
/// clients.
#[test]
fn the_shape_of_figure_3_is_there() {
    let options = Options {
        devices: vec![Device::hdd()],
        scalings: vec![Scaling::Weak],
        clients: vec![2_000, 80_000, 250_000],
        events_most: 1_500_000,
        threads: 2,
        ..Options::quick()
    };
    let report = run(&options, &|_, _| ());
    let of = |case: &str, quantity: &str| {
        report.find(case, quantity).unwrap_or_else(|| panic!("{case} {quantity}"))
    };
    for clients in [80_000, 250_000] {
        let five = format!("raid5-hdd-weak-{clients}");
        assert!((3.6..=4.4).contains(&of(&five, "raid0/std")), "{five} {}", of(&five, "raid0/std"));
        assert!((1.25..=2.05).contains(&of(&five, "wcl/std")), "{five} {}", of(&five, "wcl/std"));
        assert!(of(&five, "delayed/std") >= 3.0, "{five} {}", of(&five, "delayed/std"));
        assert!(of(&five, "delayed/std") <= 1.02 * of(&five, "raid0/std"));
        let six = format!("raid6-hdd-weak-{clients}");
        assert!((5.4..=6.7).contains(&of(&six, "raid0/std")), "{six} {}", of(&six, "raid0/std"));
        assert!((1.15..=1.55).contains(&of(&six, "wcl/std")), "{six} {}", of(&six, "wcl/std"));
        assert!(of(&six, "delayed/std") >= 4.0, "{six} {}", of(&six, "delayed/std"));
    }
    assert!(of("raid5-hdd-weak-2000", "delayed/std") <= 1.9, "{}", of("raid5-hdd-weak-2000", "delayed/std"));
}

#[test]
fn any_code_is_a_level() {
    let code = |spec: &str| pantile::Code::parse(spec).expect("a code");
    assert_eq!(parities_of(&code("raid6:4")), [2; 4]);
    assert_eq!(parities_of(&code("dcode:7")), [2; 35]);
    assert!(parities_of(&code("rdp:6")).contains(&3));
    assert_eq!(Level::of(&code("dcode:7")).name, "dcode7");
}
