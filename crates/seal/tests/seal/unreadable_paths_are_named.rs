//! Claim: a path that cannot be read is reported and the rest is sealed; its earlier sealed content
//! is kept, and can be restored.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;

fn tree(place: &Place) {
    fs::create_dir_all(place.tree().join("d")).unwrap();
    for (i, name) in ["a", "b", "d/c", "d/e"].into_iter().enumerate() {
        write(&place.tree().join(name), &Seed(i as u64).bytes(9000 + 700 * i));
    }
}

fn seal_without(place: &Place, end: &'static str, options: &SealOptions) -> Result<SealReport, Fault> {
    let disk = FaultDisk::new(place.dir.path(), Faults { unreadable: Some(end), ..Faults::default() });
    World { disk: &disk, threads: 1 }.seal(options, &mut Silent)
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_rest_is_sealed() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = Place::new();
        tree(&place);
        let options = SealOptions { mode: Some(mode), ..place.options("rs:3+3") };
        let report = seal_without(&place, "d/c", &options).unwrap();
        let [unread] = &report.unreadable[..] else { panic!("{report:?}") };
        assert!(unread.path.ends_with("tree/d/c") && unread.exclude == "/d/c", "{unread:?}");
        assert_eq!((report.files, report.unreadable_count), (3, 1));
        // The proposed pattern leaves the path out.
        let left_out = LeftOut { patterns: vec![unread.exclude.clone()], other_systems: false };
        let excluded = SealOptions { left_out: Some(left_out), ..place.again() };
        assert_eq!(seal_without(&place, "d/c", &excluded).unwrap().unreadable_count, 0);
        if mode == Mode::Beside {
            fs::remove_file(place.tree().join("a")).unwrap();
            place.heal().unwrap();
            assert!(fs::read(place.tree().join("a")).unwrap() == Seed(0).bytes(9000));
        }
    }
}

#[test]
fn sealed_content_of_an_unreadable_path_is_kept_and_comes_back() {
    for (mode, unreadable, kept) in [
        (Mode::Full, "/d", vec!["d/c", "d/e"]),
        (Mode::Full, "d/c", vec!["d/c"]),
        (Mode::Beside, "d/c", vec!["d/c"]),
        (Mode::Beside, "/d", vec!["d/c", "d/e"]),
    ] {
        let place = Place::new();
        tree(&place);
        let before = contents(&place);
        let options = SealOptions { mode: Some(mode), ..place.options("rs:3+3") };
        seal(&options, &mut Silent).unwrap();
        // Other files change in the meantime; the content of the unreadable ones is unknown.
        write(&place.tree().join("a"), &Seed(50).bytes(20_000));
        write(&place.tree().join("new"), &Seed(51).bytes(3000));
        age(&place.tree().join("d/c"), 1_650_000_000);
        let report = seal_without(&place, unreadable, &place.again()).unwrap();
        assert_eq!((report.unreadable_count, report.removed), (1, 0), "{unreadable}: {report:?}");
        let now = seal_without(&place, unreadable, &place.again()).unwrap();
        assert_eq!(now.generation, report.generation, "nothing changed");
        age(&place.tree().join("d/c"), 1_600_000_000);
        if mode == Mode::Full {
            let paths = list(&place.set(), &Select::default()).unwrap().paths;
            assert!(kept.iter().all(|kept| paths.iter().any(|listed| listed.path == *kept)));
            place.unseal().unwrap();
            for kept in kept {
                assert!(fs::read(place.target().join(kept)).unwrap() == before[kept]);
            }
        } else {
            let (first, rest) = kept.split_first().unwrap();
            fs::remove_file(place.tree().join(first)).unwrap();
            place.heal().unwrap();
            for kept in [*first].iter().chain(rest) {
                assert!(fs::read(place.tree().join(kept)).unwrap() == before[kept]);
            }
        }
        assert!(fs::read(place.tree().join("new")).unwrap() == Seed(51).bytes(3000));
    }
}

fn contents(place: &Place) -> std::collections::HashMap<&'static str, Vec<u8>> {
    ["a", "b", "d/c", "d/e"].map(|name| (name, fs::read(place.tree().join(name)).unwrap())).into()
}

#[test]
fn a_tree_of_which_nothing_can_be_read_is_refused() {
    let place = Place::new();
    tree(&place);
    let refused = seal_without(&place, "", &place.options("rs:3+3"));
    assert!(matches!(refused, Err(Fault { kind: FaultKind::System, .. })), "{refused:?}");
    assert!(!place.out().exists());
}
