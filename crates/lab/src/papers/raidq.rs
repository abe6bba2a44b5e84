//! The RAIDq paper: the most data disks of each construction, and its throughput tables on this
//! machine ([`super::raidq_speed`]).
//!
//! The limits are exact and computed here: the rows are powers, so a vanishing minor can be
//! shifted to start at data disk 0, and the first one ends the code.

use super::raidq_speed::{Speeds, tables};
use crate::figure::{Figure, Heat, HeatRow};
use crate::{Printed, Report, printed};
use pantile::gf::Gf;
use pantile_code::plank::{Element, Tower, first_vanishing_minor};

/// The name of the experiment.
pub const NAME: &str = "raidq";

/// A construction and the most data disks that the paper gives it.
type Construction = (&'static str, Tower, Vec<Element>, Option<Printed>);

fn constructions() -> Vec<Construction> {
    const TRIPLE: &str = r"whose determinants are never zero as long as  $0 \leq i < j < k < 255$";
    const POWERS: &str =
        r"Using the same  $\alpha$  as in most RAID 6 implementations, we can only go as high as 21";
    const GENERATOR: &str = "up to 21+4 disks, or 27+4 if compatibility with existing RAID 6 is disregarded";
    let bytes = Tower::bytes();
    let a = Gf(2);
    let power = |exponent: u64| bytes.pow(bytes.embed(a), exponent);
    let one = bytes.embed(Gf::ONE);
    // In GF(2^8) every element has one square root: a^1/2 = a^128.
    let half = power(128);
    let best = (1..255).map(power).max_by_key(|&b| {
        let rows = [one, b, bytes.pow(b, 2), bytes.pow(b, 3)];
        let has_all_powers = ![3, 5, 17].iter().any(|&d| bytes.pow(b, 255 / d) == one);
        if has_all_powers {
            first_vanishing_minor(&bytes, &rows).map_or(255, |minor| minor.limit())
        } else {
            0
        }
    });
    let best = best.unwrap_or(one);
    let of_order_85 = power(21);
    let powers = |b: Element| vec![one, b, bytes.pow(b, 2), bytes.pow(b, 3)];
    let cubic = Tower::cubic();
    let root = cubic.root(Gf::ONE);
    let in_cubic = |x: Element| cubic.embed(x[0]);
    let quadratic = |b: u8, c: u8| match Tower::quadratic(Gf(b), Gf(c)) {
        Some(tower) => tower,
        None => unreachable!("X^2 + {b:02x} X + {c:02x} is irreducible"),
    };
    let with_x = |tower: &Tower| {
        let x = tower.root(Gf::ONE);
        vec![tower.embed(Gf::ONE), tower.embed(a), tower.embed(half[0]), x]
    };
    let (paper, better, most) = (quadratic(0x08, 0x01), quadratic(0x3c, 0x01), quadratic(0xfe, 0x72));
    let (paper_rows, better_rows, most_rows) = (with_x(&paper), with_x(&better), with_x(&most));
    let thirds = vec![in_cubic(one), in_cubic(power(1)), root, cubic.product(root, root)];
    // The square roots of these: x^(2^23) in a field of 2^24 elements.
    let sixths = thirds.iter().map(|&x| cubic.pow(x, 1 << 23)).collect();
    vec![
        ("[1,a,a^2]", bytes.clone(), vec![one, power(1), power(2)], Some(printed(255.0, TRIPLE))),
        ("[1,a,a^1/2]", bytes.clone(), vec![one, power(1), half], None),
        (
            "[1,a,a^2,a^3]",
            bytes.clone(),
            vec![one, power(1), power(2), power(3)],
            Some(printed(21.0, POWERS)),
        ),
        (
            "[1,a,a^1/2,a^3/2]",
            bytes.clone(),
            vec![one, power(1), half, power(129)],
            Some(printed(21.0, TABLE_1[0])),
        ),
        ("[1,b,b^2,b^3], best generator b", bytes.clone(), powers(best), Some(printed(27.0, GENERATOR))),
        ("[1,b,b^2,b^3], b of order 85", bytes.clone(), powers(of_order_85), None),
        ("[1,a,a^1/3,a^2/3]", cubic.clone(), thirds, Some(printed(63.0, TABLE_1[1]))),
        ("[1,a^1/2,a^1/6,a^1/3]", cubic, sixths, None),
        ("[1,a,a^1/2,X], X^2 = a^3 X + 1", paper, paper_rows, Some(printed(92.0, TABLE_1[2]))),
        ("[1,a,a^1/2,X], X^2 = a^77 X + 1", better, better_rows, None),
        ("[1,a,a^1/2,X], X^2 = fe X + 72", most, most_rows, None),
    ]
}

/// Rows of Table 1, verbatim.
const TABLE_1: [&str; 3] = [
    r"$[1, \alpha, \alpha^{1/2}, \alpha^{3/2}]$ 21",
    r"$[1, \alpha, \alpha^{1/3}, \alpha^{2/3}]$ 63",
    r"$[1, \alpha, \alpha^{1/2}, X]$ 92",
];

/// Returns the limits, and the tables of speed of the measured kernels.
pub fn run(speeds: &[Speeds]) -> Report {
    let mut report = Report::new(NAME, "RAIDq: limits, and throughput on this machine");
    report.say(
        "How many data disks does each construction allow? The rows of the generator are powers, so vanishing minors can be shifted: the first one that starts at \
         data disk 0 decides. It is printed as the pattern of losses that is fatal with one more disk.",
    );
    report.say(
        "The paper says that no generator b gets beyond 27 with [1,b,b^2,b^3]. This holds for generators of the field, but b of order 85 reaches 33. It calls \
         [1,a,a^1/2,X] not MDS; it is MDS up to 92 data disks. Other polynomials for X reach 125 (still with constant term 1) and 164 disks, found by search over \
         all 32,640 irreducible ones.",
    );
    limits(&mut report);
    if !speeds.is_empty() {
        tables(&mut report, speeds);
    }
    report
}

fn limits(report: &mut Report) {
    let mut rows = Vec::new();
    for (name, field, generators, published) in constructions() {
        let minor = first_vanishing_minor(&field, &generators);
        let limit = minor.as_ref().map_or(255, |minor| minor.limit());
        let note = minor.as_ref().map(|minor| {
            format!(
                "with {} data disks, losing columns {:?} is fatal (data {:?} against parities {:?})",
                limit + 1,
                minor.fatal_columns(generators.len()),
                minor.data,
                minor.parities
            )
        });
        report.counted(name, "most data disks", limit as f64, published).note = note;
        let value = vec![Some(limit as f64)];
        let shades = vec![Some(limit as f64 / 255.0)];
        rows.push(HeatRow { name: name.to_string(), values: value, shades });
    }
    report.figures.push(Figure::Heat(Heat {
        title: "Most data disks of each construction".into(),
        caption: "255 is the limit of rows of powers in GF(2^8).".into(),
        columns: vec!["data disks".into()],
        rows,
    }));
}
