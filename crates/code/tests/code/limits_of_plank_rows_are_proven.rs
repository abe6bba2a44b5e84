//! Claim: the limits of `raidq` are those that the reference finds with another scan, and no
//! polynomial X^2 + bX + c has a higher limit.

use crate::common::{json, list, number, text};
use pantile_code::plank::{self, Tower, VanishingMinor};
use pantile_code::{Code, CodeError};
use pantile_gf::Gf;

#[test]
fn limits_and_first_minors_are_those_of_the_reference() {
    let facts = json("facts.json");
    for entry in list(&facts["raidq_limits"]) {
        let form = text(&entry["spec"]);
        let limit = number(&entry["max_data"]);
        let spec = |k: usize| form.replacen('k', &k.to_string(), 1);
        assert!(Code::parse(&spec(limit)).is_ok(), "{form}");
        let minors = list(&entry["first_failing"]);
        let Err(error) = Code::parse(&spec(limit + 1)) else { panic!("{form} beyond {limit}") };
        let CodeError::NotMds { limit: ours, fatal, .. } = error else {
            assert!(minors.is_empty() && limit == 255, "{form}: {error}");
            continue;
        };
        assert_eq!(ours, limit, "{form}");
        let numbers = |value| list(value).iter().map(number).collect::<Vec<usize>>();
        let m = if form.contains("+3") { 3 } else { 4 };
        let listed = minors.iter().map(|minor| VanishingMinor {
            data: numbers(&minor["data"]),
            parities: numbers(&minor["parities"]),
        });
        assert!(listed.into_iter().any(|minor| minor.fatal_columns(m) == fatal), "{form}: {fatal:?}");
    }
}

#[test]
fn limits_of_every_b_are_those_of_the_reference() {
    for entry in list(&json("facts.json")["raidq_limits_of_b"]) {
        let m = number(&entry["parities"]);
        for (i, limit) in list(&entry["max_data_of_b_from_1"]).iter().enumerate() {
            let (b, limit) = (i + 1, number(limit));
            let spec = |k: usize| format!("raidq:{k}+{m},b=0x{b:02x}");
            assert!(Code::parse(&spec(limit)).is_ok(), "{}", spec(limit));
            assert!(Code::parse(&spec(limit + 1)).is_err(), "{}", spec(limit + 1));
        }
    }
}

#[test]
fn no_fourth_generator_holds_further_than_164() {
    let polynomials = (0..=255).flat_map(|b| (0..=255).map(move |c| (Gf(b), Gf(c))));
    let limits: Vec<(usize, Gf, Gf)> =
        polynomials.filter_map(|(b, c)| Some((plank::limit_of_fourth_generator(b, c)?, b, c))).collect();
    assert_eq!(limits.len(), 32_640, "irreducible polynomials");
    assert_eq!(limits.iter().filter(|l| l.0 >= 92).count(), 5370);
    let best = |among: &dyn Fn(&(usize, Gf, Gf)) -> bool| {
        let most = limits.iter().filter(|l| among(l)).map(|l| l.0).max().unwrap();
        limits.iter().copied().filter(|l| among(l) && l.0 == most).collect::<Vec<_>>()
    };
    // In reverse order of the data columns X becomes a/X, so polynomials come in pairs with equal
    // limits.
    assert_eq!(best(&|_| true), [(164, Gf(0x57), Gf(0x44)), (164, Gf(0xfe), Gf(0x72))]);
    assert_eq!(best(&|l| l.2 == Gf::ONE), [(125, Gf::alpha_pow(77), Gf::ONE)]);
}

#[test]
fn the_fast_scan_and_the_general_one_agree() {
    let (alpha, root) = (Gf(2), Gf(2).sqrt());
    for seed in 0..40u8 {
        let (b, c) = (Gf(seed.wrapping_mul(37).wrapping_add(5)), Gf(seed.wrapping_mul(91).wrapping_add(1)));
        let Some(field) = Tower::quadratic(b, c) else {
            assert_eq!(plank::limit_of_fourth_generator(b, c), None);
            continue;
        };
        let generators = [Gf::ONE, alpha, root].map(|g| field.embed(g));
        let generators = [generators[0], generators[1], generators[2], field.root(Gf::ONE)];
        let general =
            plank::first_vanishing_minor(&field, &generators).map_or(plank::MOST_DATA, |m| m.limit());
        assert_eq!(plank::limit_of_fourth_generator(b, c), Some(general), "b {b} c {c}");
        assert_eq!(plank::limit_of_fourth_generator_from(b, c, general), Some(general));
        assert_eq!(plank::limit_of_fourth_generator_from(b, c, general + 1), None);
    }
}
