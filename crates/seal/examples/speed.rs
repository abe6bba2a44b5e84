//! Measures how fast a directory is sealed, verified, healed and unsealed: `speed TREE OUT CODE
//! [beside]`.
//!
//! A set with the tree's name in OUT is removed first. The times include every sync.

use pantile_seal::*;
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, tree, out, code, rest @ ..] = args.as_slice() else {
        return Err("speed TREE OUT CODE [beside]".into());
    };
    let mut options = SealOptions::new(vec![tree.into()], PathBuf::from(out));
    options.code = Some(pantile::Code::parse(code)?);
    options.mode = Some(if rest.is_empty() { Mode::Full } else { Mode::Beside });
    let timed = |name: &str, bytes: u64, start: Instant| {
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:24} {seconds:7.3} s  {:7.0} MB/s of files", bytes as f64 / seconds / 1e6);
    };
    let start = Instant::now();
    let report = seal(&options, &mut Silent)?;
    let bytes = report.file_bytes;
    timed("seal", bytes, start);
    let start = Instant::now();
    seal(&options, &mut Silent)?;
    timed("seal, nothing changed", bytes, start);
    let set = SetPaths::dir(out);
    let start = Instant::now();
    assert!(
        verify(&VerifyOptions { set: set.clone(), ignore_checksums: false, share: None }, &mut Silent)?.clean
    );
    timed("verify", bytes, start);
    let start = Instant::now();
    assert!(
        verify(&VerifyOptions { set: set.clone(), ignore_checksums: true, share: None }, &mut Silent)?.clean
    );
    timed("verify, no checksums", bytes, start);
    if rest.is_empty() {
        for shard in &report.shards[..2] {
            std::fs::remove_file(shard)?;
        }
        let target = PathBuf::from(out).join("restored");
        let start = Instant::now();
        unseal(
            &UnsealOptions {
                set: set.clone(),
                target: target.clone(),
                overwrite: false,
                ..Default::default()
            },
            &mut Silent,
        )?;
        timed("unseal, 2 shards lost", bytes, start);
        std::fs::remove_dir_all(&target)?;
        let start = Instant::now();
        heal(&HealOptions { set: set.clone(), ..Default::default() }, &mut Silent)?;
        timed("heal, 2 shards lost", bytes, start);
        let start = Instant::now();
        unseal(
            &UnsealOptions { set, target: target.clone(), overwrite: false, ..Default::default() },
            &mut Silent,
        )?;
        timed("unseal", bytes, start);
        std::fs::remove_dir_all(&target)?;
    }
    Ok(())
}
