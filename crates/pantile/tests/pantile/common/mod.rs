//! Shared parts of the law suites: specs of every family, painted stripes, sets of columns, random
//! code files.

use pantile::code::families;
use pantile::{Code, Codec};

/// A small random generator, so that a seed identifies a failing case.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }
}

/// Returns an encoded stripe whose data cells have different byte patterns.
pub fn painted(codec: &Codec, len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut cells = vec![vec![0u8; len]; codec.code().cell_count()];
    for &cell in codec.code().data() {
        let start = random.below(251);
        let step = random.between(1, 250);
        for (i, byte) in cells[cell.usize()].iter_mut().enumerate() {
            *byte = ((start + i * step) % 251) as u8 + random.below(5) as u8;
        }
    }
    codec.encode(&mut views(&mut cells)).unwrap();
    cells
}

pub fn views(cells: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    cells.iter_mut().map(Vec::as_mut_slice).collect()
}

pub fn shared(cells: &[Vec<u8>]) -> Vec<&[u8]> {
    cells.iter().map(Vec::as_slice).collect()
}

/// All sets of `size` of 0..n, ascending.
pub fn subsets(n: usize, size: usize) -> Vec<Vec<usize>> {
    fn go(from: usize, n: usize, size: usize, set: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if set.len() == size {
            all.push(set.clone());
            return;
        }
        for i in from..n {
            set.push(i);
            go(i + 1, n, size, set, all);
            set.pop();
        }
    }
    let mut all = Vec::new();
    go(0, n, size, &mut Vec::new(), &mut all);
    all
}

/// The text of a code file with random shape and random equations: some codes of XORs, some dense,
/// some with free equations.
pub fn random_code_file(seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let columns = random.between(2, 8);
    let rows: Vec<usize> = (0..columns).map(|_| random.between(1, 3)).collect();
    let mut cells: Vec<(usize, usize)> = Vec::new();
    for (column, &count) in rows.iter().enumerate() {
        cells.extend((0..count).map(|row| (row, column)));
    }
    for i in (1..cells.len()).rev() {
        cells.swap(i, random.below(i + 1));
    }
    let parity = random.between(1, (cells.len() - 1).min(6));
    let xor = random.below(3) == 0;
    let chained = random.below(2) == 0;
    let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
    let mut text =
        format!("pantile-code 1\nname random-{seed}\ncolumns {columns}\nrows {}\n", rows.join(" "));
    for p in 0..parity {
        // A parity cell may use parity cells defined before it.
        let least = if chained { parity - p } else { parity };
        let pool = &cells[least..];
        let mut chosen: Vec<(usize, usize)> = pool.iter().copied().filter(|_| random.below(3) > 0).collect();
        if chosen.is_empty() {
            chosen.push(pool[random.below(pool.len())]);
        }
        let terms: Vec<String> = chosen
            .iter()
            .map(|(row, column)| match xor {
                true => format!("[{row}][{column}]"),
                false => format!("{}*[{row}][{column}]", random.between(1, 255)),
            })
            .collect();
        let (row, column) = cells[parity - 1 - p];
        text += &format!("[{row}][{column}] = {}\n", terms.join(" + "));
    }
    text
}

/// Returns every example and every small code of every family, and codes of `random` random code
/// files.
pub fn all_codes(random: u64) -> Vec<Code> {
    let specs = families().iter().flat_map(|family| family.examples.iter().chain(family.small));
    let named = specs.map(|spec| Code::parse(spec).unwrap_or_else(|e| panic!("{spec}: {e}")));
    let files = (0..random).map(|seed| {
        let text = random_code_file(seed);
        Code::from_text(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"))
    });
    named.chain(files).collect()
}
