//! Patches on real devices: a full log writes single blocks to their place in a stripe.

use crate::common::folders::{new, start, status};
use pantile_host::{Folder, FolderError, NewDevices, Order, Service, order_within};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

const BLOCK: usize = 4096;

fn made(root: &Path, code: &str) {
    let new = new(code, NewDevices::Made { user_bytes: 16 << 20 });
    Folder::create(root, &new).expect("a volume");
}

fn patched(service: &Service) -> Option<u64> {
    service.serves(pantile_host::Deaths::default());
    status(service).server.and_then(|server| server.patched_stripes)
}

/// Writes durable blocks all over a volume until its log is full, so that stripes are patched if
/// that is allowed; then reads everything.
fn fill_the_log(service: &Service) {
    let handle = service.handle();
    let all: Vec<u8> = (0..16 << 20).map(|at: usize| (at / BLOCK % 251) as u8).collect();
    for (at, piece) in all.chunks(1 << 20).enumerate() {
        handle.write((at << 20) as u64, piece, false).expect("it writes");
    }
    handle.flush().expect("it flushes");
    let (blocks, mut expected) = (all.len() / BLOCK, all);
    for round in 0..900 {
        let at = round * 1237 % blocks * BLOCK;
        expected[at..at + BLOCK].fill(round as u8);
        handle.write(at as u64, &expected[at..at + BLOCK], true).expect("it writes");
    }
    let mut found = vec![0; expected.len()];
    handle.read(0, &mut found).expect("it reads");
    assert!(found == expected);
}

#[test]
fn a_full_log_of_a_wide_volume_is_patched_without_being_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    made(&root, "raidq:14+3");
    let service = start(&root);
    assert_eq!(patched(&service), Some(0));
    fill_the_log(&service);
    assert!(patched(&service) > Some(0), "{:?}", patched(&service));
    service.stop().expect("it stops");
    assert_eq!(patched(&start(&root)), Some(0));
}

#[test]
fn volumes_that_half_of_their_devices_open_are_not_patched() {
    let folder = tempfile::tempdir().expect("a folder");
    for code in ["mirror:2", "raid6:2"] {
        let root = folder.path().join(code.replace(':', "-"));
        made(&root, code);
        assert_eq!(patched(&start(&root)), None, "{code}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_said_not_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let _listens = UnixListener::bind(folder.path().join(pantile_host::CONTROL_SOCKET)).expect("a socket");
    let patience = Duration::from_millis(50);
    let Err(error) = order_within(folder.path(), &Order::Status, patience) else { panic!("an answer") };
    assert!(matches!(error, FolderError::NoAnswer { after, .. } if after == patience), "{error:?}");
    assert!(error.to_string().contains("does not answer"), "{error}");
}
