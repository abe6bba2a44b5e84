//! Files, encoding by the generator and digests, for the tests against vectors.

use pantile_code::{Cell, Code};
use pantile_gf::Gf;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Returns the path of a file or folder under `vectors/`.
pub fn vectors(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(path)
}

/// Reads a JSON file under `vectors/`.
pub fn json(path: &str) -> Value {
    let file = vectors(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the elements of a JSON array.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

/// Returns the text of a JSON string.
pub fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// Returns the value of a JSON number.
pub fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// Reads a cell from `[row, column]`.
pub fn cell(value: &Value) -> Cell {
    let pair = list(value);
    Cell { row: number(&pair[0]), column: number(&pair[1]) }
}

/// Returns the data bytes from which every vector was made.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * 2654435761) >> 13) as u8).collect()
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of `bytes`.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the chunk of every column, encoded from the user's elements by the generator, cell by
/// cell.
pub fn chunks(code: &Code, elements: &[&[u8]]) -> Vec<Vec<u8>> {
    let element_len = elements.first().map_or(0, |element| element.len());
    let mut cells = vec![vec![0u8; element_len]; code.cell_count()];
    for (&index, element) in code.data().iter().zip(elements) {
        cells[index.usize()].copy_from_slice(element);
    }
    for (i, &index) in code.parity().iter().enumerate() {
        for (&coefficient, element) in code.generator().row(i).iter().zip(elements) {
            let products: Vec<u8> = (0..=255).map(|x| (coefficient * Gf(x)).0).collect();
            let sum = &mut cells[index.usize()];
            sum.iter_mut().zip(*element).for_each(|(total, &byte)| *total ^= products[byte as usize]);
        }
    }
    (0..code.columns())
        .map(|column| code.column_cells(column).flat_map(|index| cells[index.usize()].clone()).collect())
        .collect()
}

/// Checks a code against a vector entry: shape, order, parity, equations, generator and chunk
/// digests.
pub fn hold(code: &Code, entry: &Value, name: &str) {
    let rows: Vec<usize> = list(&entry["rows"]).iter().map(number).collect();
    assert_eq!((0..code.columns()).map(|c| code.rows(c)).collect::<Vec<_>>(), rows, "{name}: rows");
    let cells = |key: &str| list(&entry[key]).iter().map(cell).collect::<Vec<Cell>>();
    let named =
        |indices: &[pantile_code::CellIndex]| indices.iter().map(|&i| code.cell(i)).collect::<Vec<Cell>>();
    assert_eq!(named(code.data()), cells("data"), "{name}: user order");
    assert_eq!(named(code.parity()), cells("parity"), "{name}: parity cells");

    let equations: Vec<Vec<(Cell, Gf)>> = list(&entry["equations"])
        .iter()
        .map(|terms| {
            let term = |t: &Value| (cell(&Value::from(list(t)[..2].to_vec())), Gf(number(&list(t)[2]) as u8));
            let mut terms: Vec<(Cell, Gf)> = list(terms).iter().map(term).collect();
            terms.sort_by_key(|t| code.index(t.0));
            terms
        })
        .collect();
    let ours: Vec<Vec<(Cell, Gf)>> = code
        .equations()
        .iter()
        .map(|equation| equation.terms().iter().map(|&(i, c)| (code.cell(i), c)).collect())
        .collect();
    assert_eq!(ours, equations, "{name}: equations");

    let generator: Vec<&str> = list(&entry["generator"]).iter().map(text).collect();
    let hex = |row: &[Gf]| row.iter().map(|c| format!("{c}")).collect::<String>();
    let ours: Vec<String> = (0..code.parity().len()).map(|i| hex(code.generator().row(i))).collect();
    assert_eq!(ours, generator, "{name}: generator");

    let element_len = number(&entry["element_len"]);
    let user = pattern(code.data().len() * element_len);
    let elements: Vec<&[u8]> = user.chunks(element_len).collect();
    let ours: Vec<String> = chunks(code, &elements).iter().map(|chunk| digest(chunk)).collect();
    let wanted: Vec<&str> = list(&entry["chunks_sha256"]).iter().map(text).collect();
    assert_eq!(ours, wanted, "{name}: chunks");
}
