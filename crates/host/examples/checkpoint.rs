//! A program that keeps its state in a volume and survives being killed: `checkpoint FOLDER STEPS`.
//!
//! Its state is a vector of numbers, and each step changes all of them. After a step the program
//! writes the whole state in an epoch of delayed parity: begin, write, end. When it is started
//! again, it reads the last sealed checkpoint, checks that all of it is of one step, and continues.
//! It prints a line for each step. If it is killed during a checkpoint, it finds the previous one
//! complete.
//!
//! `cargo run --release -p pantile-host --example checkpoint -- FOLDER STEPS`, and kill it whenever
//! you like. The folder is made if it is not there.

use pantile_code::Code;
use pantile_host::{EpochOptions, Folder, Handle, HostError, NewDevices, NewFolder, Service};
use std::io::Write;

/// Numbers in the state: 8 MiB.
const NUMBERS: usize = 1 << 20;

/// Length of a piece: the state is written in pieces, as by a program with little memory.
const PIECE_BYTES: usize = 128 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(steps)) = (args.next(), args.next()) else {
        return Err("give a folder and a number of steps".into());
    };
    let (folder, steps) = (std::path::PathBuf::from(folder), steps.parse::<u64>()?);
    if !folder.join("volume.conf").exists() {
        let code = Code::parse("raid6:4")?;
        let devices = NewDevices::Made { user_bytes: 256 << 20 };
        Folder::create(&folder, &NewFolder::new(code, devices))?;
    }
    let service = Service::start(Folder::open(&folder)?, None)?;
    let handle = service.handle();
    let mut state = recover(&handle)?;
    say(&format!("found step {}", state[0]))?;
    while state[0] < steps {
        let step = state[0] + 1;
        state = (0..NUMBERS as u64).map(|i| if i == 0 { step } else { value(step, i) }).collect();
        checkpoint(&handle, &state)?;
        say(&format!("sealed step {step}"))?;
    }
    service.stop()?;
    Ok(())
}

/// The three lines: begin, write, end.
fn checkpoint(handle: &Handle, state: &[u64]) -> Result<(), HostError> {
    let bytes: Vec<u8> = state.iter().flat_map(|number| number.to_le_bytes()).collect();
    let range = Some((0, bytes.len() as u64));
    let mut epoch = handle.begin(&EpochOptions { range, ..EpochOptions::default() })?;
    for (i, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
        epoch.write((i * PIECE_BYTES) as u64, piece, false)?;
    }
    epoch.end()
}

/// Returns the last checkpoint, or the initial state.
fn recover(handle: &Handle) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let mut bytes = vec![0; NUMBERS * 8];
    handle.read(0, &mut bytes)?;
    let word = |eight: &[u8]| eight.try_into().map(u64::from_le_bytes);
    let state: Vec<u64> = bytes.chunks_exact(8).map(word).collect::<Result<_, _>>()?;
    let step = state[0];
    let whole =
        (1..).zip(&state[1..]).all(|(i, &number)| number == if step == 0 { 0 } else { value(step, i) });
    if !whole {
        return Err(format!("the checkpoint is not all of step {step}").into());
    }
    Ok(state)
}

fn value(step: u64, i: u64) -> u64 {
    (step << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
