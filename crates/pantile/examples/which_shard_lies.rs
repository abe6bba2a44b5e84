//! Finds a corrupt shard without checksums.
//!
//!     cargo run --release -p pantile --example which_shard_lies
use pantile::{CellSet, Codec};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // With four parities any two wrong shards can be located.
    let codec = Codec::parse("rs:8+4")?;
    let data: Vec<u8> = (0..64 * 1024u32).map(|i| ((i * i) >> 7) as u8).collect();
    let mut shards = codec.split(&data);
    for (column, from) in [(2, 100), (9, 4000)] {
        shards[column][from..from + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
    println!("all shards fit one another: {}", codec.verify(&shards)?);

    // rs has one row: its shards are its cells.
    let cells: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
    for finding in codec.checker(&CellSet::empty(codec.code()))?.locate(&cells)? {
        println!("{finding:?}");
    }
    Ok(())
}
