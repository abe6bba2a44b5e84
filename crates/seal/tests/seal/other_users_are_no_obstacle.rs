//! Claim: a folder that other users can write to is used like any other, with one line of warning,
//! and restored files have their sealed modes.

use crate::common::users::*;
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

/// Records the warnings.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}

    fn advance(&mut self, _bytes: u64) {}

    fn warn(&self, text: &str) {
        self.0.lock().unwrap().push(text.into());
    }
}

impl Heard {
    fn texts(self) -> Vec<String> {
        self.0.into_inner().unwrap()
    }
}

/// Runs all commands in a folder that all users can write to: none is refused, and each warns once.
fn a_week(place: &Place, writer: &str) {
    let warned = |heard: Heard| {
        let texts = heard.texts();
        let [text] = &texts[..] else { panic!("one warning: {texts:?}") };
        assert!(text.starts_with(writer) && text.ends_with("--pin detects it"), "{text}");
    };
    let mut heard = Heard::default();
    write(&place.tree().join("more"), &Seed(9).bytes(5000));
    seal(&place.again(), &mut heard).unwrap();
    warned(heard);
    let kept = picture(&place.tree());
    fs::remove_file(place.shard(4)).unwrap();
    place.heal().unwrap();
    fs::remove_file(place.tree().join("d/b")).unwrap();
    let mut heard = Heard::default();
    heal(&HealOptions { set: place.set(), ..Default::default() }, &mut heard).unwrap();
    warned(heard);
    let now = picture(&place.tree());
    let name = std::path::Path::new("d/b");
    assert_eq!(now.get(name), kept.get(name));
    let mut heard = Heard::default();
    let verified = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut heard);
    assert!(verified.unwrap().clean);
    warned(heard);
    let mut heard = Heard::default();
    let options = UnsealOptions { set: place.set(), target: place.target(), ..Default::default() };
    unseal(&options, &mut heard).unwrap();
    warned(heard);
    assert_eq!(mode_of(&place.target().join("a")), 0o644);
    fs::remove_dir_all(place.target()).unwrap();
}

#[test]
fn a_folder_that_others_can_write_to_is_used_with_a_warning() {
    let place = sealed(Mode::Beside);
    set_mode(&place.out(), 0o777);
    a_week(&place, "every user can change the shards in ");
    set_mode(&place.out(), 0o755);
    let mut heard = Heard::default();
    verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut heard).unwrap();
    assert_eq!(heard.texts(), Vec::<String>::new());
}

#[test]
fn root_seals_and_heals_in_the_folders_of_a_user() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    give(&place.out());
    give(&place.tree());
    a_week(&place, "user 65534 can change the shards in ");
    // A shard that root rebuilt belongs to the owner of the other shards.
    assert_eq!(fs::metadata(place.shard(4)).unwrap().uid(), USER);
}

/// Shards that were restored from an old backup are reported before they are written to.
#[test]
fn a_state_that_was_not_sealed_last_is_named() {
    let place = sealed(Mode::Full);
    let old = place.dir.path().join("old");
    fs::create_dir(&old).unwrap();
    copy(&place.out(), &old);
    write(&place.tree().join("a"), &Seed(77).bytes(20_001));
    place.reseal();
    let heal_in = |dir| {
        let mut heard = Heard::default();
        let set = SetPaths { paths: vec![dir], ..place.set() };
        heal(&HealOptions { set, ..Default::default() }, &mut heard).unwrap();
        heard.texts()
    };
    assert_eq!(heal_in(place.out()), Vec::<String>::new());
    assert_eq!(heal_in(old), ["these shards are not of the state that you sealed last"]);
}
