//! A code is understood by the name that another system gives it, or answered with codes that
//! survive no less.

use pantile_code::foreign::{Cut, Profile, Rows, ceph_named};
use pantile_code::{Code, CodeError, families};

#[test]
fn names_of_the_same_chunks_give_the_same_code() {
    for (name, spec) in [
        ("ceph:plugin=isa k=8 m=3", "rs:8+3,vandermonde"),
        ("ceph:plugin=isa,k=8,m=3,technique=cauchy", "rs:8+3"),
        ("plugin=isa k=8 m=1 technique=cauchy", "raid5:8"),
        ("ceph:plugin=jerasure k=6 m=4 crush-failure-domain=host", "rs:6+4,jerasure"),
        ("ceph:plugin=jerasure technique=reed_sol_van k=6 m=4 w=8 packetsize=2048", "rs:6+4,jerasure"),
        ("ceph:plugin=jerasure technique=reed_sol_r6_op k=6", "raid6:6"),
        ("ceph:plugin=jerasure technique=cauchy_good k=4 m=2", "crs:4+2"),
        ("ceph:plugin=jerasure technique=cauchy_orig k=4 m=2 w=4 packetsize=64", "crs:4+2,w=4,orig"),
        ("ceph:plugin=jerasure technique=liberation k=4 m=2", "liberation:4,w=7"),
        ("ceph:plugin=jerasure technique=blaum_roth k=4 m=2 w=6", "blaumroth:4,w=6"),
        ("ceph:plugin=jerasure technique=liber8tion k=4", "liber8tion:4"),
        ("ceph:plugin=shec k=6 m=4 c=2 technique=single", "shec:6,4,c=2,single"),
        ("ceph:plugin=shec k=6 m=4 c=3", "shec:6,4,c=3"),
        ("ceph:plugin=shec_generic k=6 m=4 c=3", "shec:6,4,c=3"),
        ("ceph:plugin=jerasure_sse4 technique=cauchy_good k=4 m=2", "crs:4+2"),
        ("ceph:plugin=pantile code=shec:6,4,3", "shec:6,4,3"),
        ("plugin=pantile code=shec:6,4,c=2,single k=6 m=4 crush-failure-domain=host", "shec:6,4,c=2,single"),
        ("ceph:plugin=pantile_shec_6_4_3 k=6 m=4 code=shec:6,4,3", "shec:6,4,3"),
        ("plugin=pantile_rs_6_3", "rs:6+3"),
        ("ceph:plugin=pantile k=5 m=3", "rs:5+3"),
        ("ceph:plugin=pantile k=6 m=4 c=3", "shec:6,4,c=3"),
        ("ceph:plugin=pantile k=4 m=2 technique=cauchy_orig w=4 packetsize=64", "crs:4+2,w=4,orig"),
        ("ceph:plugin=clay k=4 m=2", "clay:4,2,5"),
        ("ceph:plugin=clay k=6 m=3 d=7 scalar_mds=jerasure technique=reed_sol_van", "clay:6,3,7"),
        ("hdfs:RS-6-3-1024k", "rs:6+3"),
        ("hdfs:XOR-2-1-1024k", "raid5:2"),
        ("hdfs:RS-LEGACY-6-3-1024k", "rs:6+3,bch"),
        ("isal:cauchy k=10 m=4", "rs:10+4"),
        ("isal:vand 10+4", "rs:10+4,vandermonde"),
        ("jerasure:cauchy_good k=6 m=3 w=4 packetsize=64", "crs:6+3,w=4"),
        ("jerasure:reed_sol_van 6+3", "rs:6+3,jerasure"),
        ("klauspost:RS(10,4)", "rs:10+4,backblaze"),
        ("klauspost:RS(10,3) par1", "rs:10+3,par1"),
        ("backblaze:17+3", "rs:17+3,backblaze"),
        ("minio:12+4", "rs:12+4,backblaze"),
        ("rustfs:12+4", "rs:12+4,backblaze"),
        ("zfec:k=3 m=10", "rs:3+7,zfec"),
        ("zfec:3+7", "rs:3+7,zfec"),
        ("swift:isa_l_rs_vand k=10 m=4", "rs:10+4,vandermonde"),
        ("swift:liberasurecode_rs_vand k=4 m=2", "rs:4+2,liberasurecode"),
        ("swift:ec_type=isa_l_rs_cauchy,ec_num_data_fragments=10,ec_num_parity_fragments=4", "rs:10+4"),
        ("klauspost:10+4 cauchy", "rs:10+4"),
        ("RS(10,4)", "rs:10+4"),
        ("RS(10, 4)", "rs:10+4"),
        ("RS-6-3", "rs:6+3"),
        ("rs-10-4-1024k", "rs:10+4"),
        ("raid1:2", "mirror:2"),
        ("raid1:3", "mirror:3"),
        ("shec:k=6,m=4,c=2", "shec:6,4,c=2"),
        ("shec:l=3,k=6,m=4", "shec:6,4,3"),
        ("shec:k=6,m=4,single,c=2", "shec:6,4,c=2,single"),
    ] {
        let code = Code::parse(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Written as this spec, or as its canonical form.
        assert_eq!(code, Code::parse(spec).unwrap(), "{name}");
    }
}

#[test]
fn cephs_lrc_is_the_code_that_is_held_to_its_chunks() {
    for size in ["4 2 3", "6 3 3", "8 4 3", "8 4 6"] {
        let [k, m, l] = size.split(' ').collect::<Vec<_>>()[..] else { unreachable!() };
        let code = Code::parse(&format!("ceph:plugin=lrc k={k} m={m} l={l}")).unwrap();
        let file = crate::common::vectors(&format!("foreign/ceph-lrc-{k}-{m}-{l}.code"));
        assert_eq!(code, Code::from_text(&std::fs::read_to_string(file).unwrap()).unwrap(), "{size}");
    }
}

#[test]
fn chunks_have_the_lengths_that_their_system_allows() {
    let stripes = |usual, multiple_of| Cut::Stripes { usual, multiple_of };
    for (name, rows, cut) in [
        ("ceph:plugin=isa k=8 m=3", Rows::Pieces, stripes(4096, 32)),
        ("ceph:plugin=isa k=8 m=3 stripe_unit=65536", Rows::Pieces, stripes(65536, 32)),
        ("ceph:plugin=jerasure k=8 m=3", Rows::Pieces, stripes(4096, 32)),
        ("ceph:plugin=jerasure k=8 m=3 jerasure-per-chunk-alignment=true", Rows::Pieces, stripes(4096, 128)),
        (
            "ceph:plugin=jerasure technique=reed_sol_r6_op k=5 m=2 jerasure-per-chunk-alignment=true",
            Rows::Pieces,
            stripes(4096, 32),
        ),
        ("ceph:plugin=jerasure technique=cauchy_good k=8 m=3", Rows::Packets(2048), stripes(65536, 65536)),
        (
            "ceph:plugin=jerasure technique=liberation k=4 m=2 packetsize=64",
            Rows::Packets(64),
            stripes(5376, 1792),
        ),
        ("ceph:plugin=shec k=6 m=4 c=3", Rows::Pieces, stripes(4096, 32)),
        ("ceph:plugin=clay k=4 m=2", Rows::Pieces, stripes(4096, 256)),
        ("ceph:plugin=pantile code=raidq:5+3", Rows::Pieces, stripes(4096, 64)),
        (
            "ceph:plugin=pantile k=1 equations=pantile-code 1;name a;columns 2;rows 2;[0][1] = [0][0];[1][1] = [1][0]",
            Rows::Packets(512),
            stripes(4096, 1024),
        ),
        ("ceph:plugin=pantile code=evenodd:5", Rows::Packets(512), stripes(4096, 1024)),
        ("ceph:plugin=pantile code=rdp:5 packetsize=64", Rows::Packets(64), stripes(4096, 256)),
        ("ceph:plugin=pantile code=clay:4,2,5", Rows::Pieces, stripes(4096, 512)),
        ("ceph:plugin=clay k=3 m=3 d=5", Rows::Pieces, stripes(4320, 288)),
        ("hdfs:RS-6-3-512k", Rows::Pieces, Cut::Cells { cell: 524288 }),
        ("RS-6-3", Rows::Pieces, Cut::Cells { cell: 1048576 }),
        ("isal:cauchy 4+2", Rows::Pieces, Cut::Pieces { multiple_of: 1 }),
        ("klauspost:4+2", Rows::Pieces, Cut::Pieces { multiple_of: 1 }),
        ("jerasure:reed_sol_van 4+2", Rows::Pieces, Cut::Pieces { multiple_of: 8 }),
        ("jerasure:liberation k=4 packetsize=8", Rows::Packets(8), Cut::Pieces { multiple_of: 56 }),
        ("ceph:plugin=jerasure k=8 m=3 w=16", Rows::Words, stripes(4096, 64)),
        (
            "ceph:plugin=jerasure k=8 m=3 w=32 jerasure-per-chunk-alignment=true",
            Rows::Words,
            stripes(4096, 512),
        ),
        ("ceph:plugin=shec k=6 m=4 c=3 w=32", Rows::Words, stripes(4096, 128)),
        (
            "ceph:plugin=jerasure technique=cauchy_orig k=4 m=2 w=12",
            Rows::Packets(2048),
            stripes(98304, 98304),
        ),
        ("jerasure:reed_sol_r6_op k=4 w=16", Rows::Words, Cut::Pieces { multiple_of: 8 }),
    ] {
        let profile = Profile::parse(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((profile.rows, profile.cut), (rows, cut), "{name}");
        // Its own name, with the system, names it again.
        assert_eq!(Profile::parse(&profile.name).as_ref(), Ok(&profile), "{name}");
    }
}

#[test]
fn unknown_names_get_a_message_with_the_fault() {
    for (name, said) in [
        ("ceph:", "names no code"),
        ("ceph:k=8 m=3", "plugin= is missing"),
        ("ceph:plugin=isa k=8", "m= is missing"),
        ("ceph:plugin=isa k=8 m=x", "'x', which is no number"),
        ("ceph:plugin=isa k=8 k=9 m=3", "twice"),
        ("ceph:plugin=isa k=8 m=3 colour=red", "'colour=red' is not known"),
        ("ceph:plugin=isa k=8 m=3 technique=van", "no technique 'van'"),
        ("ceph:plugin=isa k=33 m=3", "k=32"),
        ("ceph:plugin=isa k=22 m=4", "is fatal"),
        ("isal:vand 22+4", "is fatal"),
        ("ceph:plugin=isa k=8 m=3 stripe_unit=100", "no multiple of 32"),
        ("ceph:plugin=lrc k=4 m=2 l=4", "multiple of l=4"),
        ("ceph:plugin=lrc mapping=DD_ layers=x", "code file"),
        ("ceph:plugin=clay k=3 m=3 scalar_mds=shec", "m=2 alone"),
        ("ceph:plugin=clay k=4 m=2 technique=cauchy_good", "clay has reed_sol_van and reed_sol_r6_op"),
        ("ceph:plugin=clay k=4 m=2 d=6", "4 to 5"),
        ("ceph:plugin=clay k=4 m=2 stripe_unit=4000", "no multiple of 256"),
        ("ceph:plugin=xor k=4 m=2", "no plug-in 'xor'"),
        ("ceph:plugin=isa_sse4 k=4 m=2", "no plug-in 'isa_sse4'"),
        ("ceph:plugin=pantile code=raidq:5+3 k=6", "k of raidq:5+3 is 5"),
        ("ceph:plugin=pantile code=rs:4+2 packetsize=64", "has no packets"),
        ("ceph:plugin=pantile code=nonsense:4", "nonsense"),
        ("ceph:plugin=pantile_shec_6_4_3 code=rs:6+4", "is shec:6,4,3; leave code= out"),
        ("ceph:plugin=pantile_shec_6_4_3 m=3", "m of shec:6,4,3 is 4"),
        ("ceph:plugin=pantile_shec643", "_ for each : , and +, such as pantile_shec_6_4_3"),
        ("ceph:plugin=pantile_rs_06_3", "'pantile_rs_06_3' is not understood"),
        ("ceph:plugin=pantile_", "needs the spec of a code"),
        ("ceph:plugin=jerasure k=4 m=2 w=24", "w=8, 16 or 32"),
        ("ceph:plugin=shec k=4 m=2 c=1 w=24", "w=8, 16 or 32"),
        ("ceph:plugin=jerasure technique=liberation k=4 m=3", "m=2"),
        ("ceph:plugin=jerasure technique=cauchy_good k=4 m=2 packetsize=6", "multiple of 4"),
        (
            "ceph:plugin=jerasure technique=cauchy_good k=4 m=2 w=5 packetsize=4 jerasure-per-chunk-alignment=true",
            "no whole packets",
        ),
        ("jerasure:k=4 m=2", "no technique ''"),
        ("jerasure:cauchy_good k=4 m=2", "packetsize= is missing"),
        ("jerasure:cauchy_good k=4 m=2 packetsize=12", "multiple of 8"),
        ("hdfs:rs:6+3", "RS-k-m-CELL"),
        ("hdfs:RS-6", "such as RS-6-3-1024k"),
        ("XOR-4-2", "one parity unit"),
        ("RS-300-3", "1 to 255"),
        ("isal:10+4", "the matrix is"),
        ("klauspost:10+4 leopard", "no matrix 'leopard'"),
        ("klauspost:10", "k= is missing"),
        ("RS(200,100)", "256"),
        ("raid1:1", "2 to"),
        ("shec:k=6,m=4,c=2,l=3", "does not take"),
        ("shec:k=6,m=4", "l or c"),
    ] {
        let error = Code::parse(name).expect_err(name).to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
    for name in ["RS(10,4)", "rs:10+4", "raidz2:6", "par2:4", ""] {
        let error = Profile::parse(name).expect_err(name).to_string();
        assert!(error.contains("whose chunks"), "{name}: {error}");
    }
}

/// The law of suggestions: each proposed code survives at least as many losses, on as many disks.
#[test]
fn never_is_less_redundancy_suggested() {
    let names = [
        "raid1", "raid10", "raid1e", "raid01", "raid2", "raid3", "raid4", "raidz", "raidz1", "raidz2",
        "raid-dp", "raidz3", "raid-tec", "raid50", "raid60", "draid2", "shr2",
    ];
    let mut held = 0;
    for name in names {
        let sized = (0..=300).map(|disks| format!("{name}:{disks}"));
        for text in std::iter::once(name.to_string()).chain(sized) {
            let (tolerance, disks, instead) = match Code::parse(&text) {
                Err(CodeError::OtherName { tolerance, disks, instead, .. }) => (tolerance, disks, instead),
                Ok(code) if name == "raid1" => {
                    assert_eq!(code.claim().tolerance, code.columns() - 1, "{text}");
                    continue;
                }
                Err(CodeError::OutOfRange { .. }) if name == "raid1" => continue,
                other => panic!("{text}: {other:?}"),
            };
            assert!(!instead.is_empty(), "{text}");
            for spec in instead {
                let code = Code::parse(&spec).unwrap_or_else(|error| panic!("{text}: {spec}: {error}"));
                assert!(code.claim().tolerance >= tolerance, "{text}: {spec} survives less");
                assert_eq!(code.columns(), disks, "{text}: {spec}");
                held += 1;
            }
        }
    }
    assert!(held > 3000, "{held}");
}

/// A name that nobody knows is never taken for one whose codes survive nothing.
#[test]
fn no_misspelling_leads_to_a_code_that_survives_nothing() {
    for name in
        ["raid", "raid7", "raid8", "raido", "raid9:4", "radi0", "raid00", "raid-0", "rai0:3", "mirorr:2"]
    {
        let error = Code::parse(name).expect_err(name);
        let CodeError::UnknownFamily { nearest, .. } = error else { panic!("{name}: {error}") };
        assert_ne!(nearest, Some("raid0"), "{name}");
    }
    let nearest = |name: &str| match Code::parse(name) {
        Err(CodeError::UnknownFamily { nearest, .. }) => nearest,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(nearest("raid66:4"), Some("raid6"));
    assert_eq!(nearest("mirorr:2"), Some("mirror"));
    // This is as near to raid5 and raid6 as to raidq.
    assert_eq!(nearest("raid8:4"), Some("raidq"));
}

#[test]
fn a_name_with_two_meanings_says_which_was_taken() {
    for (spec, said) in [
        (
            "shec:6,4,3",
            "the paper's (k, m, l): a parity covers l=3 data columns; Ceph's k=6 m=4 c=3 is shec:6,4,c=3",
        ),
        ("shec:k=6,m=4,c=3", "Ceph's (k, m, c), technique multiple"),
        ("shec:k=6,m=4,c=3", "the paper's l=3 is shec:6,4,3"),
        ("shec:20,4,10", "the paper's (k, m, l)"),
    ] {
        let code = Code::parse(spec).unwrap();
        assert!(code.remark().unwrap().contains(said), "{spec}: {:?}", code.remark());
    }
    assert!(!Code::parse("shec:20,4,10").unwrap().remark().unwrap().contains("Ceph"));
    assert_eq!(Code::parse("rs:6+3").unwrap().remark(), None);
}

/// File names have `_` for each `:`, `,` and `+`, so no two codes may have one name.
#[test]
fn every_code_has_a_name_of_the_plug_in_for_ceph() {
    for spec in families().iter().flat_map(|family| family.examples) {
        let name = format!("pantile_{}", spec.replace([':', ',', '+'], "_"));
        let named = ceph_named(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(named, Code::parse(spec).ok(), "{name}");
    }
    assert_eq!(ceph_named("pantile"), Ok(None));
    assert_eq!(ceph_named("jerasure_sse4"), Ok(None));
}
