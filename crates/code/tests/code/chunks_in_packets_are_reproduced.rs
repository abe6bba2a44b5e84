//! Claim: the chunks are those that Jerasure encodes by bit matrices, also as used by Ceph: w
//! packets, one of each row, repeatedly.

use crate::common::{chunks, digest, json, list, number, pattern, text};
use pantile_code::Code;

#[test]
fn every_jerasure_case_gives_jerasures_chunks() {
    hold_all("jerasure", 1418);
}

#[test]
fn every_ceph_case_gives_cephs_chunks() {
    hold_all("ceph", 200);
}

fn hold_all(system: &str, least: usize) {
    let file = json(&format!("foreign/{system}_bit_matrices.json"));
    let cases = list(&file["cases"]);
    assert!(cases.len() >= least, "only {} cases", cases.len());
    for case in cases {
        let spec = text(&case["spec"]);
        let name = format!("{spec} ({})", text(&case["profile"]));
        let code = Code::parse(spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(code.is_xor(), "{name}");
        let (rows, k) = (code.rows_max(), code.data().len() / code.rows_max());
        let (packet, chunk) = (number(&case["packet"]), number(&case["chunk"]));
        let user = pattern(k * chunk);
        let elements: Vec<Vec<u8>> =
            user.chunks(chunk).flat_map(|chunk| out_of_packets(chunk, rows, packet)).collect();
        let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
        let stripe: Vec<Vec<u8>> =
            chunks(&code, &elements).iter().map(|column| in_packets(column, rows, packet)).collect();
        assert_eq!(stripe[..k].concat(), user, "{name}: data is stored as it is");
        let ours: Vec<String> = stripe[k..].iter().map(|chunk| digest(chunk)).collect();
        let wanted: Vec<&str> = list(&case["sha256"]).iter().map(text).collect();
        assert_eq!(ours, wanted, "{name}");
    }
}

/// Returns the elements of a column, from its chunk.
fn out_of_packets(chunk: &[u8], rows: usize, packet: usize) -> Vec<Vec<u8>> {
    let row = |row: usize| chunk.chunks(packet).skip(row).step_by(rows).flatten().copied().collect();
    (0..rows).map(row).collect()
}

/// Returns the chunk of a column, from its consecutive elements.
fn in_packets(elements: &[u8], rows: usize, packet: usize) -> Vec<u8> {
    let of_row = elements.len() / rows;
    let starts = (0..of_row).step_by(packet).flat_map(|start| (0..rows).map(move |row| row * of_row + start));
    starts.flat_map(|start| elements[start..start + packet].iter().copied()).collect()
}
