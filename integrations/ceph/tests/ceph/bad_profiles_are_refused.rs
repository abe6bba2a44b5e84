//! A profile that makes no pool is refused with its fault, the limit and the remedy.

use crate::common::read;

#[test]
fn with_one_useful_sentence() {
    for (profile, said) in [
        ("code=dcode:7", "keeps parity in columns of data"),
        ("code=hcode:7", "keeps parity in columns of data"),
        ("code=xcode:7", "keeps parity in columns of data"),
        ("code=raidp:8", "not of one length"),
        ("code=raid0:4", "survives no loss"),
        ("code=blaumroth:5,w=7", "studied"),
        ("code=rs:200+4", "at most 128"),
        ("code=rs:4+2 k=5", "rs:4+2 has k=4"),
        ("code=rs:4+2 m=x", "m=x is no number"),
        ("code=rs:4+2 w=8", "w= does not go with code="),
        ("code=rs:4+2 packetsize=64", "packetsize= does not go with code="),
        ("code=rdp:6 packetsize=0", "packetsize=0 is no number from 1 on"),
        ("code=rdp:6 packetsize=999999999", "give a shorter packetsize"),
        ("k=4 m=2 technique=reed_sol_van mapping=DD_D_D", "'mapping' is not known"),
        ("code=rss:4+2", "did you mean 'rs'"),
        ("kode=rs:4+2", "'kode' is not known"),
        ("k=4", "m= is missing"),
        ("k=4 m=2 c=2 l=3", "l= does not go with c="),
        ("k=4 m=2 l=3 technique=cauchy_good", "technique= does not go with l="),
        ("k=4 m=2 technique=cauchy", "technique=cauchy is not known"),
        ("k=4 m=2 d=6", "4 to 5"),
        ("k=4 m=2 d=5 technique=reed_sol_van", "technique= does not go with d="),
        ("code=clay:4,2,5 packetsize=64", "packetsize= does not go with code="),
        ("k=4 m=2 technique=reed_sol_van w=24", "w=8, 16 or 32"),
        ("equations=pantile-code 1;name a;columns 2;rows 1", "survives no loss"),
        ("m=2 equations=pantile-code 1;name a;columns 2;rows 1;[0][1] = [0][0]", "has m=1; leave m out"),
        ("w=8 equations=pantile-code 1;name a;columns 2;rows 1;[0][1] = [0][0]", "go with equations="),
        (
            "code=custom:a-0123456789abcdef equations=pantile-code 1;name a;columns 2;rows 1;[0][1] = [0][0]",
            "never change the equations of a pool in use",
        ),
        ("code=rs:1+1 equations=pantile-code 1;name a;columns 2;rows 1;[0][1] = [0][0]", "names rs:1+1"),
        (
            "equations=pantile-code 1;name a;columns 2;rows 2;[0][1] = [0][0];[1][0] = [1][1]",
            "keeps parity in columns of data",
        ),
    ] {
        let refused = read(&format!("plugin=pantile {profile}")).unwrap_err().to_string();
        assert!(refused.contains(said), "{profile}: {refused}");
    }
    for (profile, said) in [
        ("plugin=pantile_shec_6_4_3 code=rs:6+4", "by its name the code is shec:6,4,3; leave code= out"),
        ("plugin=pantile_shec_6_4_3 equations=pantile-code 1", "leave equations= out"),
        ("plugin=pantile_shec_6_4_3 k=6 m=3", "m=3, but shec:6,4,3 has m=4"),
        ("plugin=pantile_shec_6_4_3 c=3", "c= does not go with code="),
        ("plugin=pantile_shec643 k=6 m=4", "such as pantile_shec_6_4_3 for shec:6,4,3"),
        ("plugin=pantile_dcode_7", "keeps parity in columns of data"),
        ("plugin=shec k=6 m=4", "c= is missing"),
        ("plugin=shec k=6 m=4 c=2 technique=both", "single or multiple"),
        ("plugin=clay k=1", "k=1 is no number from 2 on"),
        ("plugin=clay k=4 m=2 d=3", "4 to 5"),
        ("plugin=clay k=4 m=2 d=x", "d=x is no number"),
        ("plugin=clay scalar_mds=xor", "jerasure, isa and shec are known"),
        ("plugin=clay technique=cauchy_good", "cauchy of isa"),
        ("plugin=clay scalar_mds=shec k=3 m=3 technique=single", "m=2 alone"),
        ("plugin=clay k=20 m=4", "a smaller d has fewer"),
        ("plugin=clay k=4 m=2 mapping=DD_D_D", "write parity over data"),
        ("plugin=jerasure technique=reed_sol_van k=4 m=2 mapping=DD_D_D", "DDDD_.., is right"),
        ("plugin=jerasure technique=reed_sol_van k=4 m=9 w=16", "w=8 goes further"),
        ("plugin=jerasure technique=cauchy_good k=4 m=2 mapping=DDDD_", "lost without any fault"),
        ("plugin=jerasure technique=reed_sol_r6_op k=4 w=24", "w=8, 16 or 32"),
        ("plugin=jerasure technique=cauchy_good k=4 m=2 w=33", "2 to 32"),
        ("plugin=jerasure", "technique= is missing"),
        ("plugin=jerasure technique=reed_sol_van k=1 m=1", "k=1 is no number from 2 on"),
    ] {
        let refused = read(profile).unwrap_err().to_string();
        assert!(refused.contains(said), "{profile}: {refused}");
    }
}

/// A mapping with data first and parity behind is the order that a profile without a mapping has.
#[test]
fn but_a_mapping_that_changes_nothing_is_taken() {
    for profile in ["plugin=jerasure technique=cauchy_good k=4 m=2", "plugin=clay k=4 m=2"] {
        let mapped = read(&format!("{profile} mapping=DDDD__")).unwrap();
        assert_eq!(mapped.layout, read(profile).unwrap().layout);
    }
    assert!(read("plugin=shec k=6 m=4 c=3 mapping=D_D").is_ok(), "shec ignores it");
}

/// Rook passes a name, k, m and the technique of the default profile, and no `code=`.
#[test]
fn but_a_name_with_a_code_needs_no_code_beside_it() {
    for (name, spec) in
        [("shec_6_4_3", "shec:6,4,3"), ("rs_6_3", "rs:6+3"), ("raid6_4", "raid6:4"), ("rdp_6", "rdp:6")]
    {
        let named = read(&format!("plugin=pantile_{name} technique=reed_sol_van")).unwrap();
        assert_eq!(named.words.get("technique"), None, "it would say what is not so");
        assert_eq!(named.layout, read(&format!("plugin=pantile code={spec}")).unwrap().layout);
    }
}

/// The words of a profile that was read are read again, as the monitor does, and give the same
/// profile.
#[test]
fn written_profiles_are_read_again() {
    let pair = read("plugin=pantile equations=pantile-code 1;name pair;columns 2;rows 1;[0][1]=7*[0][0]");
    let words = pair.unwrap().words;
    assert_eq!(words["equations"], "pantile-code 1;name pair;columns 2;rows 1;[0][1] = 0x07*[0][0]");
    assert!(words["code"].starts_with("custom:pair-") && words["k"] == "1", "{words:?}");
    for profile in [
        "plugin=pantile code=raidq:8+4",
        "plugin=pantile k=4 m=2 l=3",
        "plugin=pantile_shec_6_4_3 k=6 m=4 technique=reed_sol_van",
        "plugin=pantile k=4 m=2 technique=liberation w=5",
        "plugin=shec",
        "plugin=clay",
        "plugin=pantile k=4 m=2 d=5",
        "plugin=jerasure technique=reed_sol_r6_op",
        "plugin=pantile equations=# a pair\npantile-code 1\nname pair\ncolumns 2\nrows 1\n[0][1] = 7*[0][0]\n",
    ] {
        let first = read(profile).unwrap();
        let (text, words): (Vec<_>, Vec<_>) = first.words.iter().partition(|(name, _)| *name == "equations");
        let words = words.into_iter().chain(text);
        let words: Vec<String> = words.map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(read(&words.join(" ")), Ok(first), "{profile}");
    }
}
