//! Claim: a code is read as users type it, and stored in one text form.

use pantile_code::{Code, CodeError};

#[test]
fn case_hyphens_and_separators_make_no_other_code() {
    for (typed, spec) in [
        ("RAID-6:4", "raid6:4"),
        ("Raid6:4", "raid6:4"),
        ("raid_6:4", "raid6:4"),
        ("raid 6:4", "raid6:4"),
        ("raid6: 4", "raid6:4"),
        (" raid6:4 ", "raid6:4"),
        ("raid6:4+2", "raid6:4"),
        ("raid5:4+1", "raid5:4"),
        ("RAID-5:4", "raid5:4"),
        ("DCODE:7", "dcode:7"),
        ("dcode7x", ""),
        ("Mirror:2", "mirror:2"),
        ("4+2", "rs:4+2"),
        ("10+4", "rs:10+4"),
        ("4/2", "rs:4+2"),
        ("4 + 2", "rs:4+2"),
        ("8+2p", "rs:8+2"),
        ("k=4,m=2", "rs:4+2"),
        ("k=4 m=2", "rs:4+2"),
        ("K=4 M=2", "rs:4+2"),
        ("rs10+4", "rs:10+4"),
        ("rs 10+4", "rs:10+4"),
        ("RS:10+4", "rs:10+4"),
        ("rs:10/4", "rs:10+4"),
        ("rs:10,4", "rs:10+4"),
        ("rs:10:4", "rs:10+4"),
        ("rs:10-4", "rs:10+4"),
        ("rs:10 4", "rs:10+4"),
        ("rs(10, 4)", "rs:10+4"),
        ("rs:(10,4)", "rs:10+4"),
        ("rs:k=10,m=4", "rs:10+4"),
        ("RS-10-4", "rs:10+4"),
        ("Reed-Solomon:10+4", "rs:10+4"),
        ("reed-solomon 10+4", "rs:10+4"),
        ("EC:10+4", "rs:10+4"),
        ("ec10+4", "rs:10+4"),
        ("raidq:4,3", "raidq:4+3"),
        ("SHEC:6,4,3", "shec:6,4,3"),
    ] {
        match Code::parse_typed(typed, None) {
            Ok(code) => assert_eq!(code.spec(), spec, "{typed}"),
            Err(error) => assert!(spec.is_empty(), "{typed}: {error}"),
        }
    }
    assert!(Code::parse("RAID-6:4").is_err(), "what is stored has one text form");
}

#[test]
fn a_name_without_numbers_counts_the_disks() {
    for (typed, disks, spec) in [
        ("raid6", 6, "raid6:4"),
        ("RAID-6", 6, "raid6:4"),
        ("raidz2", 6, "raid6:4"),
        ("RAID-Z2", 8, "raid6:6"),
        ("raid5", 3, "raid5:2"),
        ("raidz", 3, "raid5:2"),
        ("raidz1", 4, "raid5:3"),
        ("raidz3", 8, "raidq:5+3"),
        ("raid-dp", 5, "raid6:3"),
        ("raid1", 2, "mirror:2"),
        ("mirror", 2, "mirror:2"),
        ("raid0", 3, "raid0:3"),
        ("shr-2", 5, "raid6:3"),
        ("draid2", 5, "raid6:3"),
        ("dcode", 7, "dcode:7"),
        ("rs", 6, "rs:3+3"),
        ("EC:4", 12, "rs:8+4"),
        ("raidz2:6", 6, ""),
        ("raid10", 4, ""),
        ("lrc", 16, ""),
        ("raid6", 2, ""),
    ] {
        match Code::parse_typed(typed, Some(disks)) {
            Ok(code) => {
                assert_eq!(code.spec(), spec, "{typed}");
                assert_eq!(code.columns(), disks, "{typed}");
            }
            Err(error) => assert!(spec.is_empty(), "{typed}: {error}"),
        }
    }
}

#[test]
fn a_name_that_is_no_code_is_answered_with_one() {
    for (typed, disks, said) in [
        ("raid6", None, "write it as raid6:k"),
        ("raid10", Some(4), "for 4 disks write lrc:2,2,0 or raid6:2"),
        ("RAID10", Some(6), "for 6 disks write lrc:3,3,0 or raid6:4"),
        ("raidz2", None, "(any 2 disks can fail); for 6 disks write raid6:4"),
        ("raidz2:8", Some(8), "for 8 disks write raid6:6"),
        ("draid2", None, "for 6 disks write raid6:4"),
        ("SHR", None, "(any 1 disk can fail); for 5 disks write raid5:4"),
        ("isa", None, "'ceph:plugin=isa k=8 m=3'"),
        ("jerasure", None, "plugin=jerasure"),
        ("EC:4", None, "with 12 disks that is rs:8+4"),
        ("lrc", Some(16), "16 disks do not decide"),
        ("raid6", Some(2), "raid6 needs 3 disks or more, not 2"),
        ("raid6:-1", None, "raid6:-1"),
        ("dcode:07", None, "leading zeros"),
        ("rs:4+", None, "rs"),
        ("raid6:4+3", None, "raid6:k"),
    ] {
        let error = Code::parse_typed(typed, disks).expect_err(typed).to_string();
        assert!(error.contains(said), "{typed}: {error}");
    }
    assert!(matches!(Code::parse_typed("tank", Some(3)), Err(CodeError::UnknownFamily { .. })));
    for name in ["mirror", "RAID-6", "raidz2", "raid6:x", "4+2", "draid2"] {
        assert!(Code::is_named(name), "{name}");
    }
    for name in ["tank", "d1", "", "6", "/dev/sdb", "photos", "t.csv"] {
        assert!(!Code::is_named(name), "{name}");
    }
}
