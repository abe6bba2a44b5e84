//! Operations per write are exact integers; ratios equal those of the source and of another
//! program, at small size and equal load.

use pantile_lab::exascale::{
    CLIENTS_PER_APP, Device, Level, Log, Messages, Network, Options, Outcome, Placement, Run, Scaling,
    Scheme, ServiceTimes, Stripe, run, simulate,
};

fn run_of(scheme: Scheme, q: u32, clients: u32) -> Run {
    Run {
        scheme,
        stripe: Stripe::row(32 - q as usize, q),
        servers: 32,
        clients,
        clients_per_app: CLIENTS_PER_APP,
        reads_per_mille: 0,
        write_bytes: 128 << 10,
        has_plots: false,
        has_own_regions: false,
        unit_bytes: 1 << 20,
        device: Device::hdd(),
        network: Network::default(),
        placement: Placement::Striped,
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
            // At the end, at most one request of each client is under way.
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

/// The derivation in docs/lab.md: N clients write a unit each, the end reads N units and writes the
/// m parities of each stripe of d units that they fill, so an epoch costs 2 N + m ceil(N / d).
#[test]
fn an_epoch_writes_the_parities_of_every_stripe_that_it_fills() {
    let per_write = |stripe: Stripe, placement| {
        let run = Run {
            write_bytes: 1 << 20,
            clients: CLIENTS_PER_APP,
            writes_each: Some(12),
            batches_most: u64::MAX,
            placement,
            stripe,
            ..run_of(Scheme::Delayed, 1, CLIENTS_PER_APP)
        };
        let o = simulate(&run, 1).operations;
        assert_eq!((o.epochs, o.acknowledged), (12, 12 * u64::from(CLIENTS_PER_APP)));
        o.all() as f64 / o.acknowledged as f64
    };
    let of = |spec: &str| Stripe::of(&pantile::Code::parse(spec).expect("a code"));
    let n = f64::from(CLIENTS_PER_APP);
    for placement in [Placement::Striped, Placement::Random] {
        let near = |stripe: Stripe, expected: f64| {
            let found = per_write(stripe.clone(), placement);
            assert!((found - expected).abs() < 1e-9, "{placement:?} {stripe:?}: {found}, not {expected}");
        };
        near(of("raid5:1"), 3.0);
        near(of("raid5:4"), 2.0 + 37.0 / n);
        near(of("raid6:6"), 2.0 + 2.0 * 25.0 / n);
        near(Stripe::row(511, 1), 2.0 + 1.0 / n);
        near(Stripe::row(510, 2), 2.0 + 2.0 / n);
        // A last stripe that is not full has the parities of its units.
        let lrc = of("lrc:12,2,2");
        let last = lrc.written(147 % 12).len() as f64;
        near(lrc.clone(), 2.0 + (12.0 * lrc.parities() as f64 + last) / n);
    }
}

/// Every unit of an epoch goes once to each of its parities, whole: Figure 2 on the wire.
#[test]
fn units_are_sent_to_the_servers_of_their_parities() {
    for (stripe, q) in [(Stripe::row(31, 1), 1), (Stripe::row(30, 2), 2), (Stripe::row(4, 2), 2)] {
        let run = Run {
            writes_each: Some(6),
            batches_most: u64::MAX,
            stripe,
            ..run_of(Scheme::Delayed, 1, CLIENTS_PER_APP)
        };
        let o = simulate(&run, 1).operations;
        let written = u64::from(CLIENTS_PER_APP) * (128 << 10);
        assert_eq!(o.sent_to_parity, o.epochs * q * written.div_ceil(1 << 20));
        assert_eq!(o.bytes_to_parity, o.epochs * q * written);
    }
}

/// A full stripe is moved in whole units with parity: of 147 writes of 128 KiB, 19 units and the
/// parity, read and written; an epoch has already read the units that it moves.
#[test]
fn whole_units_are_moved_back_with_their_parity() {
    for (scheme, each) in [(Scheme::Wcl, 2 * (19 + 1)), (Scheme::Delayed, 19)] {
        let run = Run {
            move_back: true,
            writes_each: Some(6),
            batches_most: u64::MAX,
            ..run_of(scheme, 1, CLIENTS_PER_APP)
        };
        let o = simulate(&run, 1).operations;
        assert_eq!((o.acknowledged, o.move_back), (6 * 147, 6 * each), "{scheme:?}");
    }
}

/// An output of FLASH: a checkpoint, a plot file of a twelfth, and one at the corners of the
/// cells, of which there are 729 for 512 cells.
#[test]
fn plot_files_are_small_writes_between_checkpoints() {
    let run = Run {
        has_plots: true,
        writes_each: Some(6),
        batches_most: u64::MAX,
        ..run_of(Scheme::Delayed, 1, CLIENTS_PER_APP)
    };
    assert_eq!([0, 1, 2, 3].map(|n| run.bytes_of_write(n)), [128 << 10, 10_922, 15_552, 128 << 10]);
    let o = simulate(&run, 1).operations;
    // 19 units of a checkpoint, 2 and 3 of the plot files; a parity at the end of each.
    assert_eq!((o.epochs, o.data_reads, o.parity_writes), (6, 2 * (19 + 2 + 3), 6));
}

/// Sizes of Lustre's messages follow from its own assertions and formats of messages.
#[test]
fn messages_have_lustres_sizes() {
    let message = |parts: &[u64]| {
        let up = |bytes: u64| bytes.next_multiple_of(8);
        up(32 + 4 * parts.len() as u64) + parts.iter().map(|&part| up(part)).sum::<u64>()
    };
    let (body, ost_body, object, extent, capability, result_code) = (184, 208, 24, 16, 0, 4);
    let lnet = 72;
    let request = message(&[body, ost_body, object, extent, capability]);
    let lustre = Messages {
        write: request + 2 * lnet,
        read: request + 2 * lnet,
        written: message(&[body, ost_body, result_code]) + 2 * lnet,
        data: message(&[body, ost_body]) + 2 * lnet,
    };
    assert_eq!((request, Messages::LUSTRE), (488, lustre));
    // The additional part of later versions changes no request.
    assert_eq!(message(&[body, ost_body, object, extent, capability, 0]), request);
}

/// Figure 2: all stripes of a round have their parity on one server; the parities are adjacent and
/// are written as one, with all their bytes.
#[test]
fn parities_of_neighbouring_stripes_are_one_write_where_stripes_are_aligned() {
    for (spec, stripes, q) in [("raid5:4", 37, 1), ("raid6:6", 25, 2)] {
        let of = |placement| {
            let run = Run {
                write_bytes: 1 << 20,
                writes_each: Some(4),
                batches_most: u64::MAX,
                placement,
                stripe: Stripe::of(&pantile::Code::parse(spec).expect("a code")),
                ..run_of(Scheme::Delayed, 1, CLIENTS_PER_APP)
            };
            simulate(&run, 1).operations
        };
        let (striped, aligned) = (of(Placement::Striped), of(Placement::Aligned));
        assert_eq!((striped.parity_writes, aligned.parity_writes), (4 * q * stripes, 4 * q), "{spec}");
        assert_eq!(striped.data_reads, aligned.data_reads);
        assert_eq!(striped.sent_to_parity, aligned.sent_to_parity);
    }
}

/// Half of all requests read: a request costs the mean of both, and reads cost the same in every
/// scheme.
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

/// The record of a disk is a device of its own name: the paper's numbers are compared only with
/// formulas of its devices.
#[test]
fn the_recorded_disk_is_named_and_stands_beside_no_published_number() {
    let options = Options {
        levels: vec![Level::raid5()],
        devices: vec![Device::virtual_disk()],
        scalings: vec![Scaling::Weak],
        clients: vec![80_000],
        scale: 64,
        events_most: 1_000_000,
        ..Options::quick()
    };
    let report = run(&options, &|_, _| ());
    assert!(report.find("raid5-virtual-disk-weak-80000", "raid0/std").is_some_and(|ratio| ratio > 1.0));
    assert_eq!(report.published().count(), 0);
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let run = run_of(Scheme::Delayed, 2, 600);
    let (a, b, c) = (simulate(&run, 7), simulate(&run, 7), simulate(&run, 8));
    assert_eq!((a.batches.clone(), a.operations, a.per_server), (b.batches, b.operations, b.per_server));
    assert_ne!(a.batches, c.batches);
}

/// The acceptance numbers: device-bound ratios, and delayed parity that improves with the number
/// of clients.
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
        assert!(of(&five, "delayed/std") >= 2.7, "{five} {}", of(&five, "delayed/std"));
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
    let stripe = Stripe::of(&code("dcode:7"));
    assert_eq!((stripe.data(), stripe.parities()), (35, 14));
    assert!((0..35).all(|unit| stripe.changed(unit).len() == 2));
    assert_eq!(stripe.written(35), (0..14).collect::<Vec<_>>());
    assert_eq!(Stripe::of(&code("raid6:4")), Stripe::row(4, 2));
    assert!((0..20).any(|unit| Stripe::of(&code("rdp:6")).changed(unit % 16).len() == 3));
    assert_eq!(Level::of(&code("dcode:7")).name, "dcode7");
}
