//! What the law suites share: specs of every family, painted stripes, sets of columns, random code files.

use pantile::{Code, Codec};

/// A small generator, so that a failing case is named by its seed alone.
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

/// Specs of every family, small enough to lose every set of columns that may be survivable.
pub const SMALL: &[&str] = &[
    "raid0:1",
    "raid0:4",
    "mirror:2",
    "mirror:4",
    "raid5:1",
    "raid5:5",
    "raid6:1",
    "raid6:4",
    "raid6:9",
    "raidq:5+3",
    "raidq:5+3,powers",
    "raidq:4+3,b=0x1d",
    "raidq:4+4",
    "raidq:7+4,x125",
    "raidq:5+4,x164",
    "raidq:4+4,x=08.d8",
    "raidq:6+4,powers",
    "raidq:6+4,sqrt",
    "raidq:4+4,cbrt",
    "raidq:4+4,cbrt=paper",
    "raidq:4+4,sixth",
    "raidq:6+4,b=0xfc",
    "cauchy:5+1",
    "cauchy:6+4",
    "cauchy:6+6",
    "lch:4+1",
    "lch:5+2",
    "lch:6+3",
    "lch:9+4",
    "lch:5+6",
    "crs:3+2,w=3",
    "crs:6+3,w=4",
    "crs:4+2,orig",
    "liberation:5",
    "liberation:3,w=7",
    "blaumroth:4",
    "blaumroth:5,w=7",
    "liber8tion:4",
    "rs:2+1",
    "rs:6+3",
    "rs:10+4",
    "rs:5+4,vandermonde",
    "rs:6+4,jerasure",
    "shec:4,3,3",
    "shec:6,4,3",
    "shec:5,3,3",
    "shec:7,4,3",
    "shec:6,4,c=3",
    "shec:6,4,c=2,single",
    "lrc:6,2,0",
    "lrc:6,3,1",
    "lrc:6,2,2",
    "lrc:12,2,2",
    "lrc:6,2,3",
    "xorbas:10,6,5",
    "xorbas:4,4,2",
    "slpg:6,4,3",
    "dcode:4",
    "dcode:5",
    "dcode:6",
    "dcode:7",
    "dcode:8",
    "xcode:5",
    "xcode:6",
    "rdp:3",
    "rdp:4",
    "rdp:6",
    "rdp:7",
    "evenodd:3",
    "evenodd:5",
    "evenodd:7",
    "hcode:4",
    "hcode:5",
    "hcode:6",
    "hdp:4",
    "hdp:5",
    "hdp:6",
    "raidp:3",
    "raidp:5",
    "raidp:6",
    "raidp:5,weighted",
    "raidp:4,stack=2",
    "dcode:9,raw",
];

/// A stripe with painted data: no two cells alike, no byte run of zeros.
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

/// The text of a code file with random shape and random equations: some XOR, some dense, some with free equations.
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

/// The built-in small codes and the random ones.
pub fn all_codes(random: u64) -> Vec<Code> {
    let named = SMALL.iter().map(|spec| Code::parse(spec).unwrap_or_else(|e| panic!("{spec}: {e}")));
    let files = (0..random).map(|seed| {
        let text = random_code_file(seed);
        Code::from_text(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"))
    });
    named.chain(files).collect()
}
