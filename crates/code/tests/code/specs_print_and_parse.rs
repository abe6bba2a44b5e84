//! A spec is canonical when printed, means the same when parsed again, and anything else is an
//! error, never a panic.

use crate::common::{json, list, text};
use pantile_code::{Code, CodeError, CodeSpec, Family, Width, families};
use proptest::prelude::*;

/// All specs of the vectors and of the families' examples.
fn good() -> Vec<String> {
    let vectors = families().iter().flat_map(|family| {
        let file = json(&format!("codes/{}.json", family.name));
        list(&file["codes"]).iter().map(|entry| text(&entry["spec"]).to_string()).collect::<Vec<_>>()
    });
    vectors.chain(families().iter().flat_map(|f| f.examples).map(|e| e.to_string())).collect()
}

#[test]
fn canonical_specs_print_as_they_are() {
    let good = good();
    assert!(good.len() > 400);
    for spec in good {
        let code = Code::parse(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert_eq!(code.spec(), spec);
        assert_eq!(Code::parse(code.spec()).unwrap(), code);
        let parsed: CodeSpec = spec.parse().unwrap();
        assert_eq!((parsed.as_str(), parsed.code()), (spec.as_str(), code));
    }
}

#[test]
fn a_large_set_of_parameters_prints_and_parses() {
    let mut built = 0;
    let mut hold = |spec: String| match Code::parse(&spec) {
        Ok(code) => {
            built += 1;
            assert_eq!(code.spec(), spec);
            assert_eq!(Code::parse(code.spec()).unwrap(), code);
        }
        Err(CodeError::OutOfRange { .. } | CodeError::Unsuitable { .. } | CodeError::NotMds { .. }) => {}
        Err(error) => panic!("{spec}: {error}"),
    };
    let counted = |family: &&Family| matches!(family.width, Width::Disks | Width::DataAnd(_));
    for Family { name: family, .. } in families().iter().filter(counted) {
        (0..=70).for_each(|n| hold(format!("{family}:{n}")));
    }
    for (k, w) in [(1, 5), (3, 5), (3, 7), (8, 13), (12, 257)] {
        hold(format!("liberation:{k},w={w}"));
    }
    for (k, w) in [(1, 6), (3, 6), (3, 7), (7, 7), (8, 12), (12, 256)] {
        hold(format!("blaumroth:{k},w={w}"));
    }
    for b in 3..=255 {
        (1..=2).for_each(|k| (3..=4).for_each(|m| hold(format!("raidq:{k}+{m},b=0x{b:02x}"))));
        if ![8, 0x3c, 0xfe].contains(&b) {
            hold(format!("raidq:2+4,x={b:02x}.{:02x}", b ^ 0x55));
        }
    }
    for a in 1..=9 {
        for b in 1..=9 {
            let matrices = ["", ",vandermonde", ",jerasure", ",backblaze", ",zfec", ",bch"];
            matrices.iter().for_each(|o| hold(format!("rs:{a}+{b}{o}")));
            hold(format!("cauchy:{a}+{b}"));
            hold(format!("lch:{a}+{b}"));
            for o in ["", ",orig"] {
                hold(format!("crs:{a}+{b}{o}"));
                (2..=7).for_each(|w| hold(format!("crs:{a}+{b},w={w}{o}")));
            }
            for c in 0..=6 {
                ["lrc", "slpg", "xorbas", "shec"].iter().for_each(|f| hold(format!("{f}:{a},{b},{c}")));
                ["", ",single"].iter().for_each(|o| hold(format!("shec:{a},{b},c={c}{o}")));
            }
        }
    }
    assert!(built > 2000, "{built}");
}

#[test]
fn other_spellings_print_canonically() {
    let file = json("specs.json");
    let recorded = list(&file["canonical"]).iter().map(|pair| (text(&pair[0]), text(&pair[1])));
    let ours = [
        ("raidq:4+4,x=08.01", "raidq:4+4"),
        ("raidq:4+4,x=3c.01", "raidq:4+4,x125"),
        ("raidq:4+4,x=fe.72", "raidq:4+4,x164"),
        ("raidq:4+3,b=0x02", "raidq:4+3,powers"),
        ("raidq:4+4,b=0x02", "raidq:4+4,powers"),
        ("rs:4+2,w=8", "rs:4+2"),
        ("shec:6,4,c=3,w=8", "shec:6,4,c=3"),
        ("dcode:7,raw", "dcode:7"),
        ("xcode:11,raw", "xcode:11"),
    ];
    for (given, canonical) in recorded.chain(ours) {
        let code = Code::parse(given).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert_eq!(code.spec(), canonical);
        assert_eq!(code, Code::parse(canonical).unwrap());
    }
}

#[test]
fn recorded_bad_specs_are_refused() {
    let file = json("specs.json");
    let refused = list(&file["refused"]);
    assert!(refused.len() > 80);
    for pair in refused {
        let (spec, reason) = (text(&pair[0]), text(&pair[1]));
        let error = Code::parse(spec).expect_err(&format!("{spec}: {reason}"));
        assert!(error.to_string().len() > 20, "{error}");
    }
}

#[test]
fn every_good_spec_has_bad_neighbours() {
    let mut tried = 0;
    for spec in good() {
        let (family, arguments) = spec.split_once(':').unwrap();
        for bad in [
            format!("{family}{arguments}"),
            format!("{family};{arguments}"),
            format!("{family}:"),
            format!("{family}:0{arguments}"),
            format!("{family}:-{arguments}"),
            format!("{family}:{arguments},"),
            format!("{family}:,{arguments}"),
            format!("{family}:{arguments},,"),
            format!("{family}:{arguments} "),
            format!(" {spec}"),
            format!("{family}: {arguments}"),
            format!("{family}::{arguments}"),
            format!("{family}:{arguments},quick"),
            format!("{family}:{arguments},quick=1"),
            format!("{family}:{arguments},c="),
            format!("{family}:{arguments},=1"),
            format!("{family}:{arguments},7+7"),
            format!("{family}:{arguments},W=8"),
            format!("{family}:{arguments},w=33"),
            format!("{family}:99999999999999999999"),
            format!("{family}:999999999+4"),
            format!("{family}:\u{0664}"),
            format!("{}:{arguments}", family.to_uppercase()),
            format!("{family}s:{arguments}"),
            format!("{spec}\n"),
            format!("{spec}\0"),
        ] {
            assert!(Code::parse(&bad).is_err(), "'{bad}' was taken");
            tried += 1;
        }
    }
    assert!(tried > 10_000);
}

#[test]
fn a_hint_is_about_the_side_on_which_the_number_lies() {
    for (spec, said, not_said) in [
        ("dcode:3", "mirror", "unwieldy"),
        ("dcode:65", "unwieldy", "few disks"),
        ("mirror:1", "raid0:1", "no code has more"),
        ("mirror:259", "no code has more", "raid0"),
        ("raidq:4+2", "raid6", "cauchy"),
        ("raidq:4+5", "cauchy", "raid6"),
        ("raidp:2", "mirror:2", "superchunks"),
        ("raid6:0", "1 to 255", "repeat"),
        ("raid6:256", "repeat", "?"),
        ("cauchy:0+2", "1 to 251", "use rs"),
        ("lch:4+0", "1 to 128", "use rs"),
        ("lch:4+129", "use rs", "a stripe has"),
        ("crs:4+2,w=1", "raid5:1", "256 columns"),
        ("crs:4+2,w=33", "256 columns", "raid5"),
        ("crs:16+2,w=4", "2 to 17 is possible; GF(2^w) has no more elements; take a larger w", "GF(2^8)"),
        ("crs:256+2", "1 to 255", "larger w"),
        ("crs:4+17", "1 to 16 is possible; use rs or lch for more", "GF(2^w)"),
        ("crs:4+9,w=16", "1 to 8 is possible; use rs or lch for more", "GF(2^w)"),
        ("crs:254+4,w=9", "2 to 257 is possible; no code has longer", "GF(2^8)"),
        ("liberation:0", "1 to 64", "raid6"),
        ("liberation:65", "1 to 64 is possible; use raid6", "Jerasure"),
        ("liberation:2,w=2", "3 to 257 is possible; Jerasure has none with fewer rows", "Ceph"),
        ("liberation:2,w=263", "Ceph has none with more rows", "Jerasure"),
        ("liberation:6,w=9", "w must be a prime, and 9 is not; the least for k=6 is w=7", "room"),
        ("liberation:6,w=5", "w=5 has room for 5 data columns, not 6; leave w out for w=7", "prime"),
        ("blaumroth:2,w=262", "4 to 256 is possible; Ceph has none with more rows", "Jerasure"),
        ("blaumroth:2,w=3", "4 to 256 is possible; Jerasure has none with fewer rows", "Ceph"),
        (
            "blaumroth:6,w=8",
            "w must be one less than a prime, and 8 is not; the least for k=6 is w=6",
            "room",
        ),
        ("blaumroth:8,w=7", "w=7 has room for 7 data columns, not 8; leave w out for w=10", "prime"),
        ("liber8tion:9", "1 to 8 is possible; there are eight matrices; use liberation", "w="),
        ("liber8tion:4,w=8", "does not take 'w=8' here; write it as liber8tion:k", "liberation"),
        ("blaum-roth:4", "did you mean 'blaumroth'", "unwieldy"),
        ("crs:254+3", "2 to 256 is possible; GF(2^8) has no more", "larger w"),
    ] {
        let error = Code::parse(spec).expect_err(spec).to_string();
        assert!(error.contains(said) && !error.contains(not_said), "{spec}: {error}");
    }
}

#[test]
fn an_unknown_family_is_one_sentence_with_a_name_that_is_near() {
    for (spec, said) in [
        ("nope", "there is no code family 'nope'; 'pantile codes' lists them all"),
        ("nope:3", "there is no code family 'nope'; 'pantile codes'"),
        ("dcodde:7", "'dcodde'; did you mean 'dcode'? 'pantile codes'"),
        ("raid:5", "did you mean 'raid"),
    ] {
        let error = Code::parse(spec).expect_err(spec).to_string();
        assert!(error.contains(said), "{spec}: {error}");
    }
    assert!(!Code::parse("nop:3").expect_err("unknown").to_string().contains("did you mean"));
}

#[test]
fn long_words_are_of_jerasures_matrices_alone() {
    for (spec, canonical) in [
        ("rs:4+2,w=8", "rs:4+2"),
        ("rs:4+2,w=32,jerasure", "rs:4+2,jerasure,w=32"),
        ("raid6:4,w=16", "raid6:4,w=16"),
        ("shec:6,4,w=32,c=3,single", "shec:6,4,c=3,single,w=32"),
    ] {
        let code = Code::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert_eq!(code.spec().to_string(), canonical);
    }
    for (spec, word) in [
        ("rs:4+2,w=16", "rs:k+m,jerasure,w=16"),
        ("rs:4+2,jerasure,w=24", "w=24"),
        ("rs:4+9,jerasure,w=16", "w=8 goes further"),
        ("shec:6,4,3,w=16", "shec:k,m,c=C,w=16"),
    ] {
        let error = Code::parse(spec).expect_err(spec).to_string();
        assert!(error.contains(word), "{spec}: {error}");
    }
}

#[test]
fn a_refusal_beyond_the_limit_has_a_certificate_and_a_way_out() {
    for (spec, limit, fatal) in [
        ("raidq:93+4", 92, vec![0, 31, 92, 93]),
        ("raidq:126+4,x125", 125, vec![0, 29, 93, 125]),
        ("raidq:165+4,x164", 164, vec![0, 13, 79, 164]),
        ("raidq:22+4,powers", 21, vec![0, 10, 21, 24]),
        ("raidq:30+4,sqrt", 21, vec![0, 11, 21, 24]),
        ("raidq:64+4,cbrt", 63, vec![0, 30, 63, 67]),
        ("raidq:28+4,b=0xe8", 27, vec![0, 25, 27, 30]),
        ("raidq:86+3,b=0xfc", 85, vec![0, 85, 88]),
        ("raidq:114+4,x=08.d8", 113, vec![0, 85, 113, 115]),
        ("raidq:2+4,b=0x01", 1, vec![0, 1, 4, 5]),
    ] {
        match Code::parse(spec) {
            Err(error @ CodeError::NotMds { .. }) => {
                let CodeError::NotMds { limit: found, fatal: columns, instead, .. } = &error else {
                    unreachable!()
                };
                assert_eq!((*found, columns), (limit, &fatal), "{spec}");
                // The first alternative can be used as it is written.
                let alternative = instead.split_whitespace().nth(1).unwrap().trim_end_matches([',', '.']);
                assert!(Code::parse(alternative).is_ok(), "{spec}: {error}");
            }
            other => panic!("{spec}: {other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,40}") {
        let _ = Code::parse(&text);
    }

    #[test]
    fn random_arguments_are_an_error_or_canonical(
        family in proptest::sample::select(families().iter().map(|f| f.name).collect::<Vec<_>>()),
        arguments in "(([0-9]{1,2}|[0-9]\\+[0-9]|c=[0-9]|b=0x[0-9a-f]{2}|x=[0-9a-f]{2}\\.[0-9a-f]{2}|w=8|w=4|w=16|orig|single|raw|powers|cbrt|x92|stack=[0-3]|weighted|jerasure|vandermonde),){0,3}[0-9]{1,2}(\\+[0-9])?",
        trailing in "(,(single|raw|powers|sqrt|weighted|stack=2|jerasure|c=2))?",
    ) {
        if let Ok(code) = Code::parse(&format!("{family}:{arguments}{trailing}")) {
            let again = Code::parse(code.spec()).unwrap();
            prop_assert_eq!(again.spec(), code.spec());
            prop_assert_eq!(again, code);
        }
    }
}

/// Good specs with bytes changed, left out, doubled, swapped or taken from another: an error or a
/// canonical code.
#[test]
fn mutated_specs_are_an_error_or_canonical() {
    let good = good();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut built = 0;
    for round in 0..6_000 {
        let mut text = good[random(good.len())].clone().into_bytes();
        for _ in 0..1 + random(3) {
            let at = random(text.len());
            match random(10) {
                0 => text[at] = random(256) as u8,
                4.. if text[at].is_ascii_digit() => text[at] = b'0' + random(10) as u8,
                1 | 4.. => text[at] = b"0123456789+,:=.xabc-"[random(20)],
                2 if text.len() > 1 => drop(text.remove(at)),
                3 => text.insert(at, text[at]),
                _ => {
                    let other = good[random(good.len())].as_bytes();
                    text.truncate(at);
                    text.extend_from_slice(&other[random(other.len())..]);
                }
            }
            if text.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Ok(code) = Code::parse(&text) {
            built += 1;
            assert_eq!(Code::parse(code.spec()).as_ref(), Ok(&code), "round {round}: {text}");
        }
    }
    assert!((200..5_500).contains(&built), "{built}");
}

#[test]
fn a_proof_past_the_middle_ends_where_it_costs_too_much() {
    // The tolerance known is more than half of the columns: the sets of one more are few, or far
    // too many to walk.
    for (spec, tolerance) in [("xorbas:4,100,2", 98), ("xorbas:2,80,1", 78), ("xorbas:60,150,1", 90)] {
        let code = Code::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert_eq!(code.claim().tolerance, tolerance, "{spec}");
    }
}
