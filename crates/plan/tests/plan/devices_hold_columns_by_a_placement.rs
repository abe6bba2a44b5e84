//! Claim: a set of devices is survivable exactly if its columns are in every stripe; `prove`,
//! [`Survivors`] and plain counting agree.

use crate::as_many_lost_as_equations::sets;
use pantile_code::{Code, Placement, families};
use pantile_gf::{Echelon, Gf};
use pantile_plan::{
    BUSIEST_MOST, Certificate, ProveOptions, RotationLoss, Survivors, Writes, busiest, prove, usual_placement,
};

fn proved(code: &Code, options: &ProveOptions) -> Certificate {
    prove(code, options, &|_, _, _| true)
}

/// Returns the number of survivable sets of so many devices, and the number of all such sets.
fn level(spec: &str, placement: Placement, devices: usize) -> (u64, u64) {
    let code = Code::parse(spec).expect("a spec");
    let certificate = proved(&code, &ProveOptions { placement, ..ProveOptions::default() });
    assert_eq!(certificate.placement, placement);
    let level = &certificate.levels[devices - 1];
    (level.survived, level.sets)
}

#[test]
fn rotation_loses_the_sets_that_it_was_seen_to_lose() {
    for (spec, devices, fixed, rotated, sets) in [
        ("shec:5,3,c=2", 3, 42, 0, 56),
        ("slpg:4,4,2", 3, 48, 8, 56),
        ("shec:6,4,3", 3, 110, 60, 120),
        ("lrc:12,2,2", 4, 1568, 516, 1820),
    ] {
        assert_eq!(level(spec, Placement::Fixed, devices), (fixed, sets), "{spec}");
        assert_eq!(level(spec, Placement::ROTATED, devices), (rotated, sets), "{spec}");
    }
    // A step with a shorter period has fewer turns that a set must survive.
    let of_step = |step| level("shec:6,4,3", Placement::Rotated { step }, 3).0;
    assert!(of_step(5) > of_step(1) && of_step(3) == of_step(1), "{} {}", of_step(5), of_step(3));
}

/// True by the definition alone: the rank of the lost cells of each stripe.
fn survives(code: &Code, placement: Placement, lost: &[usize]) -> bool {
    (0..code.columns() as u64).all(|stripe| {
        let mut known = Echelon::new(code.equations().len());
        let columns = lost.iter().map(|&device| placement.column(stripe, device, code.columns()));
        columns.flat_map(|column| code.column_cells(column)).all(|cell| {
            let vector: Vec<Gf> = code.equations().iter().map(|e| e.coefficient(cell)).collect();
            known.insert(vector)
        })
    })
}

#[test]
fn every_family_is_counted_as_by_the_definition() {
    let mut lossy = 0;
    for spec in families().iter().flat_map(|family| family.examples.iter().chain(family.small)) {
        let code = Code::parse(spec).expect("an example");
        if code.columns() > 10 || code.cell_count() > 80 {
            continue;
        }
        for placement in [Placement::Fixed, Placement::ROTATED, Placement::Rotated { step: 2 }] {
            let options = ProveOptions { placement, threads: 2, ..ProveOptions::default() };
            let certificate = proved(&code, &options);
            let fixed = proved(&code, &ProveOptions::default());
            let survivors = Survivors::new(&code, placement);
            assert_eq!(certificate.tolerance(), fixed.tolerance(), "{spec} {placement}");
            for level in &certificate.levels {
                let all = sets(code.columns(), level.lost);
                let counted = all.iter().filter(|set| survives(&code, placement, set)).count() as u64;
                let told = all.iter().filter(|set| survivors.survive(set)).count() as u64;
                let here = format!("{spec} {placement}, {} lost", level.lost);
                assert_eq!(
                    (level.survived, told, level.sets),
                    (counted, counted, all.len() as u64),
                    "{here}"
                );
                lossy += usize::from(fixed.levels.get(level.lost - 1).is_some_and(|l| l.survived > counted));
            }
            let witness = certificate.fatal.first().expect("some loss is fatal");
            assert!(!survives(&code, placement, witness), "{spec} {placement} {witness:?}");
        }
    }
    assert!(lossy >= 10, "{lossy}");
}

#[test]
fn a_sample_of_devices_is_of_devices() {
    let code = Code::parse("lrc:12,2,2").expect("a spec");
    let of = |placement| {
        let options = ProveOptions { placement, sets_most: 100, sample: 4000, ..ProveOptions::default() };
        proved(&code, &options).levels[3].survived_share()
    };
    let (fixed, rotated) = (of(Placement::Fixed), of(Placement::ROTATED));
    assert!(
        (fixed - 1568.0 / 1820.0).abs() < 0.03 && (rotated - 516.0 / 1820.0).abs() < 0.03,
        "{fixed} {rotated}"
    );
}

#[test]
fn columns_stay_where_rotation_loses_sets_and_the_load_is_bounded() {
    let of = |spec, writes| usual_placement(&Code::parse(spec).expect("a spec"), writes);
    for (spec, placement) in [
        ("shec:5,3,c=2", Placement::Fixed),
        ("shec:6,4,3", Placement::Fixed),
        ("lrc:12,2,2", Placement::Fixed),
        // Parity in every column, or none: rotation gains nothing.
        ("dcode:7", Placement::Fixed),
        ("xcode:5", Placement::Fixed),
        ("raid0:4", Placement::Fixed),
        // Add-ons cannot change places with disks.
        ("raidp:6", Placement::Fixed),
        ("raid6:6", Placement::ROTATED),
        ("rs:6+3", Placement::ROTATED),
        ("mirror:3", Placement::ROTATED),
        ("rdp:8", Placement::ROTATED),
    ] {
        assert_eq!(of(spec, Writes::Whole).placement, placement, "{spec}");
    }
    // In place each write changes both global parities: 3.6 times the mean.
    let lrc = Code::parse("lrc:12,2,2").expect("a spec");
    assert!(busiest(&lrc, Writes::InPlace) > BUSIEST_MOST);
    let choice = of("lrc:12,2,2", Writes::InPlace);
    let loss = RotationLoss { devices: 4, sets: 1820, fixed: 1568, rotated: 516, is_sample: false };
    assert_eq!((choice.placement, choice.loss), (Placement::ROTATED, Some(loss)));
}
