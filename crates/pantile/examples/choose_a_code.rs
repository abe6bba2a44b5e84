//! Compares codes for about ten disks: space, proven tolerance, and the bytes read to rebuild one
//! disk.
//!
//!     cargo run --release -p pantile --example choose_a_code
use pantile::plan::{ProveOptions, prove};
use pantile::{CellSet, Code, Codec, Costs};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<14} {:>7} {:>9} {:>9} {:>8}", "code", "columns", "overhead", "survives", "rebuild");
    for spec in ["raid6:8", "dcode:11", "rs:6+4", "shec:6,4,3", "lrc:6,2,2", "raidq:6+4"] {
        let code = Code::parse(spec)?;
        let codec = Codec::new(&code);
        let proof = prove(&code, &ProveOptions::default(), &|_, _, _| true);
        let lost = CellSet::of_columns(&code, &[0]);
        let wanted: Vec<_> = lost.iter().collect();
        let recovery = codec.recovery(&lost, &wanted, &Costs::uniform())?;
        println!(
            "{spec:<14} {:>7} {:>9.3} {:>9} {:>7.0}%",
            code.columns(),
            code.cell_count() as f64 / code.data().len() as f64,
            proof.tolerance(),
            100.0 * recovery.plan().reads.len() as f64 / code.data().len() as f64,
        );
    }
    Ok(())
}
