//! Stores a file as shards, removes two of them, and restores the file.
//!
//!     cargo run --release -p pantile --example file_and_back -- FILE [CODE]
use pantile::Codec;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};

const ELEMENT_LEN: usize = 64 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "Cargo.toml".into());
    let codec = Codec::parse(&arguments.next().unwrap_or_else(|| "rs:4+2".into()))?;
    let dir = std::env::temp_dir().join(format!("pantile-example-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let shard = |column: usize| dir.join(format!("shard.{column:02}"));

    // The file is encoded one stripe at a time, so memory does not grow with its size.
    let columns = codec.code().columns();
    let files: std::io::Result<Vec<File>> = (0..columns).map(|column| File::create(shard(column))).collect();
    let mut files: Vec<BufWriter<File>> = files?.into_iter().map(BufWriter::new).collect();
    let mut writers: Vec<&mut dyn Write> = files.iter_mut().map(|file| file as &mut dyn Write).collect();
    let len = codec.encode_stream(&mut File::open(&path)?, &mut writers, ELEMENT_LEN)?;
    files.into_iter().try_for_each(|file| file.into_inner().map(drop))?;
    println!("{path}: {len} bytes in {columns} shards of {}", codec.code());

    // Removes as many shards as the code tolerates.
    let lost = codec.code().claim().tolerance;
    (0..lost).try_for_each(|column| std::fs::remove_file(shard(column)))?;

    let mut files: Vec<Option<BufReader<File>>> =
        (0..columns).map(|column| File::open(shard(column)).ok().map(BufReader::new)).collect();
    let mut readers: Vec<Option<&mut dyn Read>> =
        files.iter_mut().map(|file| file.as_mut().map(|file| file as &mut dyn Read)).collect();
    let mut back = Vec::new();
    codec.decode_stream(&mut readers, &mut back, ELEMENT_LEN, len)?;
    println!("{lost} shards lost; what came back is equal: {}", back == std::fs::read(&path)?);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
