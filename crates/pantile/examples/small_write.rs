//! A small write: changes one element and the parities that depend on it, without reading the other
//! elements.
//!
//!     cargo run --release -p pantile --example small_write
use pantile::{Codec, split_columns};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    for spec in ["raid6:8", "dcode:11", "lrc:12,2,2", "rs:10+4"] {
        let codec = Codec::parse(spec)?;
        let code = codec.code();
        let mut shards = codec.split(&vec![7; code.data().len() * 4096]);
        let mut views: Vec<&mut [u8]> = shards.iter_mut().map(Vec::as_mut_slice).collect();
        let mut cells = split_columns(code, &mut views, 4096)?;
        codec.update(&mut cells, 0, &[9; 4096])?;
        let parities =
            (0..code.parity().len()).filter(|&row| !code.generator().get(row, 0).is_zero()).count();
        println!("{spec}: element 0 and {parities} parities changed; they fit: {}", codec.verify(&shards)?);
    }
    Ok(())
}
