//! Stored images of volumes that an earlier build made: `tests/volumes_of_version_1/make.py` made
//! them.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;

/// The images that are stored.
pub const OF_VERSION_1: [&str; 8] = [
    "raid6_stopped",
    "dcode_stopped",
    "mirror_killed",
    "raid5_inplace_killed",
    "raid6_degraded",
    "raid6_inplace_degraded_killed",
    "custom_stopped",
    "raid6_epoch_killed",
];

/// What a user must read: first byte, length, and the byte that all of it is.
pub type Expected = Vec<(u64, usize, u8)>;

/// Lays an image out as the folder of a volume.
pub fn unpack(name: &str, root: &Path) -> Expected {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/volumes_of_version_1");
    std::fs::create_dir(root).expect("a folder");
    let text = std::fs::read_to_string(stored.join(format!("{name}.txt"))).expect("a text");
    let (conf, expected) = text.split_once("expect\n").expect("what is to be read");
    std::fs::write(root.join("volume.conf"), conf).expect("it is written");
    let image = std::fs::read(stored.join(format!("{name}.image"))).expect("an image");
    let mut bytes = image.strip_prefix(b"PANTIMAG").expect("an image");
    let devices = number(&mut bytes, 4);
    for _ in 0..devices {
        let (slot, len, blocks) = (number(&mut bytes, 4), number(&mut bytes, 8), number(&mut bytes, 4));
        let mut device = vec![0; len as usize];
        for _ in 0..blocks {
            let (block, packed) = (number(&mut bytes, 8) as usize, number(&mut bytes, 2) as usize);
            let (packed, rest) = bytes.split_at(packed);
            unpack_block(packed, &mut device[block * BLOCK..(block + 1) * BLOCK]);
            bytes = rest;
        }
        std::fs::write(device_path(root, slot as usize), device).expect("it is written");
    }
    let lines = expected.lines().map(|line| {
        let mut words = line.split(' ').map(|word| word.parse::<u64>().expect("a number"));
        let mut next = || words.next().expect("three numbers");
        (next(), next() as usize, next() as u8)
    });
    lines.collect()
}

/// Where the file of a slot lies.
pub fn device_path(root: &Path, slot: usize) -> PathBuf {
    root.join(format!("device-{slot:02}.pantile"))
}

fn number(bytes: &mut &[u8], len: usize) -> u64 {
    let (front, rest) = bytes.split_at(len);
    *bytes = rest;
    front.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// Runs and literals: a byte c below 128 and c + 1 bytes as they are, or a byte c from 128 on and
/// one byte that stands c - 126 times.
fn unpack_block(mut packed: &[u8], block: &mut [u8]) {
    let mut at = 0;
    while let Some((&control, rest)) = packed.split_first() {
        let (len, taken) = match control {
            0..128 => (usize::from(control) + 1, usize::from(control) + 1),
            128.. => (usize::from(control) - 126, 1),
        };
        let (source, rest) = rest.split_at(taken);
        match control {
            0..128 => block[at..at + len].copy_from_slice(source),
            128.. => block[at..at + len].fill(source[0]),
        }
        (at, packed) = (at + len, rest);
    }
    assert_eq!(at, block.len(), "a block is unpacked whole");
}
