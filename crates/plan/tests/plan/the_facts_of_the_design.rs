//! Every number under "Facts to hold the implementation to" of the design, in its order, from the
//! public interface alone.
//!
//! If a number is tested in several places, the comment names the other test.

use crate::as_many_lost_as_equations::sets;
use pantile_code::{Cell, CellIndex, Code, Purpose, families};
use pantile_gf::Gf;
use pantile_plan::{CellSet, Costs, Effort, Plan, Planner, ProveOptions, Request, prove};

fn code(spec: &str) -> Code {
    Code::parse(spec).unwrap_or_else(|error| panic!("{error}"))
}

fn rebuild(code: &Code, lost: &[usize], effort: Effort) -> Option<Plan> {
    let lost = CellSet::of_columns(code, lost);
    let wanted: Vec<CellIndex> = lost.iter().collect();
    let request = Request { lost: &lost, wanted: &wanted, costs: &Costs::uniform(), effort };
    Planner::new(code).recover(&request).ok()
}

/// Returns the number of fatal sets of `lost` columns, and the number of all such sets.
fn fatal(spec: &str, lost: usize) -> (u64, u64) {
    let options =
        ProveOptions { counts_all: true, lost_most: Some(lost), threads: 2, ..ProveOptions::default() };
    let certificate = prove(&code(spec), &options, &|_, _, _| true);
    assert!(certificate.is_exact(), "{spec}");
    let level = &certificate.levels[lost - 1];
    (level.sets - level.survived, level.sets)
}

#[test]
fn dcode_of_seven_is_the_papers() {
    let code = code("dcode:7");
    let members = |row: usize, column: usize| -> Vec<(usize, usize)> {
        let parity = code.index(Cell { row, column }).expect("a cell");
        let own = code.parity().iter().position(|&p| p == parity).expect("a parity cell");
        let others = code.equations()[own].terms().iter().filter(|t| t.0 != parity).map(|t| code.cell(t.0));
        let mut others: Vec<(usize, usize)> = others.map(|cell| (cell.row, cell.column)).collect();
        others.sort_unstable();
        others
    };
    assert_eq!(members(5, 1), [(1, 3), (1, 4), (1, 5), (1, 6), (2, 0)]);
    assert_eq!(members(6, 2), [(0, 0), (0, 6), (1, 5), (2, 4), (3, 3)]);
}

#[test]
fn dcode_survives_pairs_updates_two_parities_and_takes_n_minus_3_additions() {
    for n in [5, 7, 11, 13, 17, 19, 23] {
        let code = code(&format!("dcode:{n}"));
        assert_eq!(fatal(code.spec(), 2).0, 0, "{code}");
        let generator = code.generator();
        for position in 0..code.data().len() {
            let parities = (0..code.parity().len()).filter(|&r| !generator.get(r, position).is_zero());
            assert_eq!(parities.count(), 2, "{code}, element {position}");
        }
        for lost in [vec![0], vec![0, 1], vec![1, n - 2]] {
            let plan = rebuild(&code, &lost, Effort::Fast).expect("survivable");
            assert_eq!(plan.additions(), (n - 3) * n * lost.len(), "{code} {lost:?}");
        }
    }
    // The tests of StudyOnly in pantile-seal check that it is refused for data.
    assert_eq!(fatal("dcode:9,raw", 2), (9, 36));
    assert!(matches!(code("dcode:9,raw").purpose(), Purpose::Study(_)));
    assert_eq!((fatal("dcode:9", 2), code("dcode:9").purpose()), ((0, 36), &Purpose::Storage));
}

/// Each limit is accepted, and one more is refused. `limits_of_plank_rows_are_proven` checks that
/// no size in between fails; here only the smaller ones are checked.
#[test]
fn raidq_holds_as_many_data_columns_as_known() {
    for (limit, parities, option) in [
        (255, 3, ",powers"),
        (255, 3, ""),
        (21, 4, ",powers"),
        (27, 4, ",b=0xe8"),
        (33, 4, ",b=0xfc"),
        (63, 4, ",cbrt"),
        (92, 4, ""),
        (125, 4, ",x125"),
        (164, 4, ",x164"),
    ] {
        let spec = |k: usize| format!("raidq:{k}+{parities}{option}");
        assert!(
            Code::parse(&spec(limit)).is_ok() && Code::parse(&spec(limit + 1)).is_err(),
            "{}",
            spec(limit)
        );
        assert_eq!(fatal(&spec(limit), parities).0, 0, "{}", spec(limit));
    }
    assert_eq!((Gf(0xfc).order(), Gf::alpha_pow(3), Gf::alpha_pow(77)), (Some(85), Gf(0x08), Gf(0x3c)));
    // The best limit over all b is 33, for b of order 85; among generators it is 27.
    let limit =
        |b: u8| (1..=40).take_while(|k| Code::parse(&format!("raidq:{k}+4,b=0x{b:02x}")).is_ok()).count();
    let limits: Vec<(usize, Option<usize>)> = (1..=255).map(|b| (limit(b), Gf(b).order())).collect();
    assert_eq!(limits.iter().filter(|l| l.1 == Some(255)).map(|l| l.0).max(), Some(27));
    assert_eq!(limits.iter().map(|l| l.0).max(), Some(33));
    assert!(limits.iter().filter(|l| l.0 == 33).all(|l| l.1 == Some(85)));
}

#[test]
fn shec_loses_and_reads_what_is_known() {
    assert_eq!([2, 3, 4].map(|lost| fatal("shec:6,4,3", lost)), [(0, 45), (10, 120), (76, 210)]);
    for (spec, single, double) in [
        ("shec:4,3,3", 0.75, 1.00),
        ("shec:6,4,3", 0.50, 0.748),
        ("shec:5,3,3", 0.60, 0.904),
        ("shec:7,4,3", 0.43, 0.69),
    ] {
        let code = code(spec);
        for (lost, known) in [(1, single), (2, double)] {
            let plans: Vec<Plan> = sets(code.columns(), lost)
                .iter()
                .filter_map(|set| rebuild(&code, set, Effort::THOROUGH))
                .collect();
            let reads: usize = plans.iter().map(|plan| plan.reads.len()).sum();
            let mean = reads as f64 / plans.len() as f64 / code.data().len() as f64;
            assert!((mean - known).abs() < 0.002, "{spec}, {lost} lost: {mean}, not {known}");
        }
    }
}

/// For p = 7, `no_plan_of_any_form_reads_less_for_p_of_seven` shows that no plan reads less.
#[test]
fn a_data_column_is_rebuilt_with_the_fewest_reads() {
    for p in [5, 7, 11, 13] {
        let reads = |spec: String, column: usize| {
            rebuild(&code(&spec), &[column], Effort::Fast).map(|plan| plan.reads.len())
        };
        for spec in [format!("dcode:{p}"), format!("xcode:{p}")] {
            assert_eq!(reads(spec, 0), Some((3 * p * p - 8 * p + 13) / 4));
        }
        assert_eq!(reads(format!("rdp:{}", p + 1), 0), Some(3 * (p - 1) * (p - 1) / 4));
        assert_eq!(reads(format!("hcode:{}", p + 1), 1), Some(3 * (p - 1) * (p - 1) / 4));
        assert_eq!(reads(format!("hdp:{}", p - 1), 0), Some((3 * p * p - 12 * p + 13) / 4));
    }
}

/// The triples of N = 16, 24 and 32 are here; the quadruples of all N up to 64 are in
/// `raidp_at_its_limit`, which decides each from the indices of its disks alone.
#[test]
fn raidp_survives_pairs_triples_and_quadruples_of_disks() {
    let survived = |spec: &str, disks: usize, lost: usize| {
        let code = code(spec);
        let all = sets(disks, lost);
        let survived = all.iter().filter(|set| rebuild(&code, set, Effort::Fast).is_some()).count();
        (survived, all.len())
    };
    assert_eq!(survived("raidp:8", 8, 2), (28, 28));
    assert_eq!(survived("raidp:8", 8, 3), (0, 56));
    assert_eq!(survived("raidp:8,weighted", 8, 3), (56, 56));
    assert_eq!(survived("raidp:8,stack=2", 8, 4), (70, 70));
    assert_eq!(survived("raidp:12,stack=2", 12, 4), (495, 495));
    for disks in [12, 16] {
        let triples = disks * (disks - 1) * (disks - 2) / 6;
        assert_eq!(survived(&format!("raidp:{disks}"), disks, 3), (0, triples));
        assert_eq!(survived(&format!("raidp:{disks},weighted"), disks, 3), (triples, triples));
    }
    // Over all columns, add-ons included: any three can be lost, also with 24 and 32 disks.
    for disks in [16, 24, 32] {
        assert_eq!(fatal(&format!("raidp:{disks},weighted"), 3).0, 0);
        assert_eq!(fatal(&format!("raidp:{disks},stack=2"), 3).0, 0);
    }
    // Weights change only coefficients, not the layout of cells.
    let (plain, weighted) = (code("raidp:8"), code("raidp:8,weighted"));
    assert_eq!((plain.cell_count(), plain.data()), (weighted.cell_count(), weighted.data()));
}

#[test]
fn cauchy_begins_as_snapraid_does() {
    let known: [[u8; 8]; 4] = [
        [0x01, 0xf5, 0xd2, 0xc4, 0x9a, 0x71, 0xf1, 0x7f],
        [0x01, 0xbb, 0xa6, 0xd7, 0xc7, 0x07, 0xce, 0x82],
        [0x01, 0x97, 0x7f, 0x9c, 0x7c, 0x18, 0xbd, 0xa2],
        [0x01, 0x2b, 0x3f, 0xcf, 0x73, 0x2c, 0xd6, 0xed],
    ];
    let code = code("cauchy:251+6");
    let raid6 = self::code("raid6:251");
    for (row, known) in known.iter().enumerate() {
        assert_eq!(code.generator().row(row + 2)[..8], known.map(Gf), "row {}", row + 3);
    }
    for row in 0..2 {
        assert_eq!(code.generator().row(row), raid6.generator().row(row), "P and Q are those of RAID-6");
    }
    assert!(Code::parse("cauchy:252+6").is_err() && Code::parse("cauchy:251+7").is_err());
    assert!(families().iter().any(|family| family.name == "cauchy"));
}
