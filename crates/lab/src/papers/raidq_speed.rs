//! Tables 2 to 4 of the RAIDq paper on kernels of this machine: the fastest of interleaved turns
//! of thread time.
//!
//! A process has one kernel. Its measurements are a value, [`Speeds`], which other processes can
//! return ([`pantile_kernel::Tier`]; `PANTILE_KERNEL`), and a record can hold. Each construction
//! runs as its codec runs it: rows of ones are sums, powers of a are doubled where the kernel does
//! that for less than a product, towers use Horner's rule.

use crate::{Printed, Report, printed};
use pantile::gf::Gf;
use pantile::{CellSet, Codec};
use pantile_kernel::measure::thread_cpu_ns;
use pantile_kernel::{Program, Step, Tier};
use serde::{Deserialize, Serialize};

/// Data disks of the throughput tables.
const DATA: usize = 16;

/// Bytes of a block in Table 2.
const BLOCK_BYTES: usize = 4096;

/// Bytes of a column in Tables 3 and 4; the paper does not state them.
const CHUNK_BYTES: usize = 64 * 1024;

const TURNS: usize = 15;
const TURN_NS: u64 = 500_000;

/// The kernel whose products are look-ups, as the paper's are: `vpshufb` of 32 bytes, where the
/// paper has `pshufb` of 16.
pub const LOOK_UPS: Tier = Tier::Avx2;

/// Measurements of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Name of the kernel.
    pub kernel: String,
    /// Table 2: nanoseconds for 4 KiB, in the order of [`TABLE_2`].
    pub product_ns: Vec<f64>,
    /// Table 3: MB/s of encoding, in the order of [`TABLE_3`].
    pub encode: Vec<f64>,
    /// Table 3: MB/s of decoding as many data disks as there are parities; the first row has none.
    pub decode: Vec<Option<f64>>,
    /// Table 4: MB/s with 0, 1 and 2 disks that return wrong data.
    pub errors: Vec<f64>,
    /// The third parity by two passes of P and Q, and directly: MB/s.
    pub third_parity: Vec<f64>,
    /// True if both gave the same bytes.
    pub is_same: bool,
}

/// A row of Table 2: its name, the paper's cycles, and the coefficients of the second row over six
/// columns.
struct Product {
    name: &'static str,
    cycles: f64,
    how: How,
}

/// Method of the second sum, which is computed together with the plain one.
enum How {
    /// Words of the base instruction set, doubled.
    Words,
    /// The kernel, with these coefficients.
    Powers(u8),
}

const TABLE_2: [Product; 4] = [
    Product { name: "a, in words (SSE2)", cycles: 914.0, how: How::Words },
    Product { name: "a", cycles: 725.0, how: How::Powers(2) },
    Product { name: "a^3", cycles: 900.0, how: How::Powers(8) },
    Product { name: "an arbitrary element", cycles: 1187.0, how: How::Powers(0x8e ^ 0x53) },
];

/// A row of Table 3.
struct Row {
    /// The paper's name.
    name: &'static str,
    /// Our code; `None` for the loop in words.
    spec: Option<&'static str>,
    parities: usize,
    /// The paper's MB/s of encoding and decoding.
    encode: Option<f64>,
    decode: Option<f64>,
    /// The row, verbatim.
    line: &'static str,
}

const fn row(
    name: &'static str,
    spec: Option<&'static str>,
    parities: usize,
    encode: Option<f64>,
    decode: Option<f64>,
    line: &'static str,
) -> Row {
    Row { name, spec, parities, encode, decode, line }
}

/// The eleven rows of Table 3, and one more.
const TABLE_3: [Row; 12] = [
    row("[1,a], in words (SSE2, Linux)", None, 2, Some(8762.0), None, r"$[1, \alpha]$ SSE2 (Linux) 2 - 8762"),
    row("[1,a]", Some("raid6:16"), 2, Some(9051.0), Some(6467.0), r"$[1, \alpha]$ 2 - 9051 6467"),
    row("Reed-Solomon, m=2", Some("rs:16+2"), 2, Some(3833.0), Some(3517.0), "Reed-Solomon 2 - 3833 3517"),
    row(
        "[1,a,a^2]",
        Some("raidq:16+3,powers"),
        3,
        Some(5147.0),
        Some(3276.0),
        r"$[1, \alpha, \alpha^2]$ 3 - 5147 3276",
    ),
    row(
        "[1,a,a^1/2]",
        Some("raidq:16+3"),
        3,
        Some(4707.0),
        Some(3542.0),
        r"$[1, \alpha, \alpha^{1/2}]$ 3 - 4707 3542",
    ),
    row("Reed-Solomon, m=3", Some("rs:16+3"), 3, Some(2977.0), Some(2444.0), "Reed-Solomon 3 - 2977 2444"),
    row(
        "[1,a,a^2,a^3]",
        Some("raidq:16+4,powers"),
        4,
        Some(3818.0),
        Some(2478.0),
        r"$[1, \alpha, \alpha^2, \alpha^3]$ 4 21 3818 2478",
    ),
    row(
        "[1,a,a^1/2,a^3/2]",
        Some("raidq:16+4,sqrt"),
        4,
        Some(3225.0),
        Some(2338.0),
        r"$[1, \alpha, \alpha^{1/2}, \alpha^{3/2}]$ 4 21 3225 2338",
    ),
    row(
        "[1,a,a^1/3,a^2/3]",
        Some("raidq:16+4,cbrt"),
        4,
        Some(2387.0),
        Some(1290.0),
        r"$[1, \alpha, \alpha^{1/3}, \alpha^{2/3}]$ 4 63 2387 1290",
    ),
    row(
        "[1,a,a^1/2,X]",
        Some("raidq:16+4"),
        4,
        Some(3186.0),
        Some(1772.0),
        r"$[1, \alpha, \alpha^{1/2}, X]$ 4 92 3186 1772",
    ),
    row("Reed-Solomon, m=4", Some("rs:16+4"), 4, Some(2490.0), Some(1921.0), "Reed-Solomon 4 - 2490 1921"),
    row("[1,a,a^1/2,X], 125 disks", Some("raidq:16+4,x125"), 4, None, None, ""),
];

/// Measures this process' kernel. Cost: about half a second of one core.
pub fn measure() -> Speeds {
    let (encode, decode) = throughput();
    let (third_parity, is_same) = two_passes();
    Speeds {
        kernel: Tier::best().name().into(),
        product_ns: products(),
        encode,
        decode,
        errors: errors(),
        third_parity,
        is_same,
    }
}

/// Returns the thread time per call in the fastest turn. The contestants take turns: other load of
/// the machine only adds time.
fn fastest(contestants: &mut [Box<dyn FnMut() + '_>]) -> Vec<f64> {
    let mut times = vec![f64::INFINITY; contestants.len()];
    for turn in 0..=TURNS {
        for (call, time) in contestants.iter_mut().zip(&mut times) {
            let (mut calls, before) = (0u64, thread_cpu_ns());
            let spent = loop {
                (0..8).for_each(|_| call());
                calls += 8;
                let spent = thread_cpu_ns() - before;
                if spent >= TURN_NS {
                    break spent;
                }
            };
            // The first turn builds programs and touches memory.
            if turn > 0 {
                *time = time.min(spent as f64 / calls as f64);
            }
        }
    }
    times
}

/// Buffers of a stripe in their own cache lines, spread over the sets of the cache.
struct Stripe {
    cells: Vec<Vec<u8>>,
}

impl Stripe {
    fn of(codec: &Codec) -> Stripe {
        let len = CHUNK_BYTES / codec.code().rows_max() / 64 * 64;
        let fill = |i: usize| (0..len).map(|at| (at * 31 + i * 17 + at / 256) as u8).collect();
        let mut stripe = Stripe { cells: (0..codec.code().cell_count()).map(fill).collect() };
        let encoded = codec.encode(&mut stripe.views());
        encoded.unwrap_or_else(|error| unreachable!("the buffers are a stripe: {error}"));
        stripe
    }

    fn views(&mut self) -> Vec<&mut [u8]> {
        self.cells.iter_mut().map(Vec::as_mut_slice).collect()
    }

    fn data_len(&self, codec: &Codec) -> f64 {
        (codec.code().data().len() * self.cells[0].len()) as f64
    }
}

fn codec(spec: &str) -> Codec {
    match Codec::parse(spec) {
        Ok(codec) => codec,
        Err(error) => unreachable!("the codes of the table exist: {error}"),
    }
}

fn run_or_stop<E: std::fmt::Display>(done: Result<(), E>) {
    done.unwrap_or_else(|error| unreachable!("the stripe is of the code: {error}"));
}

/// Computes a sum of columns, and a second sum that is doubled before each column is added. It is
/// the loop of Linux for RAID-6 in words, compiled for the base instruction set of the processor;
/// on x86-64 that has SSE2 and no look-ups.
///
/// `WITH_Q`: computes the second sum, too.
fn words<const WITH_Q: bool>(columns: &[Vec<u8>], p: &mut [u8], q: &mut [u8]) {
    const WORD: usize = 64;
    for (at, (p, q)) in p.chunks_exact_mut(WORD).zip(q.chunks_exact_mut(WORD)).enumerate() {
        let (mut plain, mut doubled) = ([0u8; WORD], [0u8; WORD]);
        for column in columns.iter().rev() {
            let column = &column[at * WORD..(at + 1) * WORD];
            for i in 0..WORD {
                plain[i] ^= column[i];
                if WITH_Q {
                    let overflow = ((doubled[i] as i8) >> 7) as u8 & 0x1d;
                    doubled[i] = (doubled[i] << 1) ^ overflow ^ column[i];
                }
            }
        }
        p.copy_from_slice(&plain);
        if WITH_Q {
            q.copy_from_slice(&doubled);
        }
    }
}

fn blocks(count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| (0..len).map(|at| (at * 7 + i * 29) as u8).collect()).collect()
}

/// Returns the kernel's program for a sum of `columns` columns; with a factor, also for the sum of
/// the columns times its powers.
fn sums(columns: usize, factor: Option<u8>) -> Program {
    let power = |n: usize| (0..n).fold(Gf::ONE, |x, _| x * Gf(factor.unwrap_or(1))).0;
    let plain = Step { target: columns, terms: (0..columns).map(|i| (i, 1)).collect() };
    let powers = Step { target: columns + 1, terms: (0..columns).map(|i| (i, power(i))).collect() };
    let steps = if factor.is_some() { vec![plain, powers] } else { vec![plain] };
    match Program::new(columns + 2, &steps) {
        Ok(program) => program,
        Err(error) => unreachable!("the steps are sums over other buffers: {error}"),
    }
}

/// Returns Table 2: the added time of a product by one constant, for a block of 4 KiB.
///
/// It is the time of a sum of powers of the constant beyond that of a plain sum, for each further
/// column. Each constant thus uses the kernel's own method for it, not a program of one product.
fn products() -> Vec<f64> {
    /// Fewest and most columns; with both sums they fill a first-level cache of 32 KiB.
    const COLUMNS: [usize; 2] = [2, 6];
    let mut calls: Vec<Box<dyn FnMut()>> = Vec::new();
    let by_kernel = |columns: usize, factor: Option<u8>| -> Box<dyn FnMut()> {
        let program = sums(columns, factor);
        let mut buffers = blocks(columns + 2, BLOCK_BYTES);
        Box::new(move || {
            let mut views: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
            run_or_stop(program.run(&mut views));
        })
    };
    let by_words = |columns: usize, with_q: bool| -> Box<dyn FnMut()> {
        let columns = blocks(columns, BLOCK_BYTES);
        let (mut p, mut q) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
        Box::new(move || {
            match with_q {
                true => words::<true>(&columns, &mut p, &mut q),
                false => words::<false>(&columns, &mut p, &mut q),
            }
            std::hint::black_box((&p, &q));
        })
    };
    for columns in COLUMNS {
        calls.push(by_kernel(columns, None));
        calls.push(by_words(columns, false));
        calls.extend(TABLE_2.iter().map(|product| match product.how {
            How::Words => by_words(columns, true),
            How::Powers(factor) => by_kernel(columns, Some(factor)),
        }));
    }
    let ns = fastest(&mut calls);
    let of_each = ns.len() / COLUMNS.len();
    let per_column = |i: usize| (ns[of_each + i] - ns[i]) / (COLUMNS[1] - COLUMNS[0]) as f64;
    let beyond = |(i, product): (usize, &Product)| {
        let plain = if matches!(product.how, How::Words) { 1 } else { 0 };
        per_column(2 + i) - per_column(plain)
    };
    TABLE_2.iter().enumerate().map(beyond).collect()
}

/// Returns Table 3: encoding, and decoding of as many lost data disks as there are parities.
fn throughput() -> (Vec<f64>, Vec<Option<f64>>) {
    let coded: Vec<(&Row, Codec)> =
        TABLE_3.iter().filter_map(|row| row.spec.map(|spec| (row, codec(spec)))).collect();
    let mut stripes: Vec<[Stripe; 2]> =
        coded.iter().map(|(_, codec)| [Stripe::of(codec), Stripe::of(codec)]).collect();
    let bytes: Vec<f64> = coded.iter().zip(&stripes).map(|((_, c), s)| s[0].data_len(c)).collect();
    let mut calls: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for ((row, codec), [encoded, decoded]) in coded.iter().zip(&mut stripes) {
        let mut views = encoded.views();
        calls.push(Box::new(move || run_or_stop(codec.encode(&mut views))));
        let lost: Vec<usize> = (0..row.parities).map(|i| i * (DATA / row.parities)).collect();
        let mut views = decoded.views();
        calls.push(Box::new(move || run_or_stop(codec.reconstruct(&mut views, &lost))));
    }
    let columns = blocks(DATA, CHUNK_BYTES);
    let (mut p, mut q) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    calls.push(Box::new(move || {
        words::<true>(&columns, &mut p, &mut q);
        std::hint::black_box((&p, &q));
    }));
    let ns = fastest(&mut calls);
    let in_words = (DATA * CHUNK_BYTES) as f64 / ns[ns.len() - 1] * 1e3;
    let rate = |op: usize| bytes.iter().enumerate().map(move |(i, bytes)| (i, bytes, op));
    let of = |(i, bytes, op): (usize, &f64, usize)| bytes / ns[2 * i + op] * 1e3;
    let encode = std::iter::once(in_words).chain(rate(0).map(of)).collect();
    let decode = std::iter::once(None).chain(rate(1).map(|at| Some(of(at)))).collect();
    (encode, decode)
}

/// Returns Table 4: a stripe is checked, and up to two disks with wrong data are located and
/// corrected.
fn errors() -> Vec<f64> {
    let codec = codec("raidq:16+4");
    let Ok(checker) = codec.checker(&CellSet::empty(codec.code())) else { unreachable!("a set of the code") };
    let mut stripe = Stripe::of(&codec);
    let bytes = stripe.data_len(&codec);
    let of = |wrong: usize| {
        let cells: Vec<usize> = (0..wrong)
            .flat_map(|i| codec.code().column_cells([3, 11][i]).map(|cell| cell.usize()).collect::<Vec<_>>())
            .collect();
        let mut call = || {
            for &cell in &cells {
                stripe.cells[cell].iter_mut().enumerate().for_each(|(i, byte)| *byte ^= (i % 255) as u8 + 1);
            }
            let mut views = stripe.views();
            let shared: Vec<&[u8]> = views.iter().map(|view| &**view).collect();
            let Ok(findings) = checker.locate(&shared) else { unreachable!("a stripe of the code") };
            let fixed = checker.correct(&mut views, &findings, |_| true);
            run_or_stop(fixed.map(|_| ()));
        };
        bytes / fastest(&mut [Box::new(&mut call)])[0] * 1e3
    };
    (0..3).map(of).collect()
}

/// Computes R = sum of a^(i/2) D_i as in the paper, with hardware for P and Q: Q of the even disks
/// plus a^1/2 times Q of the odd ones, in two passes. Beside it, one pass uses the coefficients of
/// R.
fn two_passes() -> (Vec<f64>, bool) {
    let half = Gf(0x85);
    let power = |base: Gf, n: usize| (0..n).fold(Gf::ONE, |x, _| x * base);
    let terms = |parity: usize| -> Vec<(usize, u8)> {
        (parity..DATA).step_by(2).map(|i| (i, power(Gf(2), i / 2).0)).collect()
    };
    let direct: Vec<(usize, u8)> = (0..DATA).map(|i| (i, power(half, i).0)).collect();
    let passes = Program::new(
        DATA + 3,
        &[
            Step { target: DATA, terms: terms(0) },
            Step { target: DATA + 1, terms: terms(1) },
            Step { target: DATA + 2, terms: vec![(DATA, 1), (DATA + 1, half.0)] },
        ],
    );
    let direct = Program::new(DATA + 1, &[Step { target: DATA, terms: direct }]);
    let (Ok(passes), Ok(direct)) = (passes, direct) else { unreachable!("sums over other buffers") };
    let mut buffers = blocks(DATA + 3, CHUNK_BYTES);
    let mut others = buffers.clone();
    let mut calls: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    let mut views: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
    calls.push(Box::new(move || run_or_stop(passes.run(&mut views))));
    let mut views: Vec<&mut [u8]> = others.iter_mut().take(DATA + 1).map(Vec::as_mut_slice).collect();
    calls.push(Box::new(move || run_or_stop(direct.run(&mut views))));
    let ns = fastest(&mut calls);
    drop(calls);
    let bytes = (DATA * CHUNK_BYTES) as f64;
    (ns.into_iter().map(|ns| bytes / ns * 1e3).collect(), buffers[DATA + 2] == others[DATA])
}

/// Returns the row of Reed-Solomon with equally many parities, unless it is the row itself.
fn reference(i: usize) -> Option<usize> {
    let is = |row: &Row| row.parities == TABLE_3[i].parities && row.name.starts_with("Reed");
    TABLE_3.iter().position(is).filter(|&reference| reference != i)
}

/// Adds the tables of every measured kernel, and whether the order of the paper's Table 3 is kept.
///
/// Published speeds are shown beside the kernel of the paper's kind of instruction.
pub(super) fn tables(report: &mut Report, speeds: &[Speeds]) {
    let kernels: Vec<&str> = speeds.iter().map(|speeds| speeds.kernel.as_str()).collect();
    report.say(format!(
        "Tables 2 to 4 on this machine: {DATA} data disks, columns of 64 KiB, thread CPU time, the fastest of {TURNS} interleaved turns; kernels {}. The paper measured a Xeon E5430 with look-ups \
         (SSSE3) before 2013; \"avx2\" is that kind of instruction, the portable kernel the one without. Each row can be compared with Reed-Solomon of the same shape, and so can the order \
         of rows. If instructions multiply by any constant at one cost (GFNI), cheap constants have no advantage, only rows of ones; wide elements of tower codes cost more products.",
        kernels.join(", ")
    ));
    for speeds in speeds {
        of_kernel(report, speeds);
    }
}

fn of_kernel(report: &mut Report, speeds: &Speeds) {
    let kernel = speeds.kernel.as_str();
    let stated =
        |value: Option<f64>, line| value.filter(|_| kernel == LOOK_UPS.name()).map(|v| printed(v, line));
    let slowest = speeds.product_ns.last().copied().unwrap_or(f64::NAN);
    let arbitrary = TABLE_2[TABLE_2.len() - 1].cycles;
    for (product, &ns) in TABLE_2.iter().zip(&speeds.product_ns) {
        let case = format!("Table 2, times {}, {kernel}", product.name);
        report.measured(&case, "ns per 4 KiB, beyond adding them", ns, None).note =
            Some(format!("the paper: {} cycles, that is {:.0} ns", product.cycles, product.cycles / 2.66));
        if product.cycles != arbitrary {
            report.measured(case, "time over an arbitrary element's", ns / slowest, None).note =
                Some(format!("the quotient of the printed cycles: {:.2}", product.cycles / arbitrary));
        }
    }
    for (i, row) in TABLE_3.iter().enumerate() {
        let case = format!("Table 3, {}, {kernel}", row.name);
        let spec = row.spec.unwrap_or("a loop over words, whatever the kernel");
        let ours = [speeds.encode.get(i).copied(), speeds.decode.get(i).copied().flatten()];
        for (op, title, paper) in [(0, "encode", row.encode), (1, "decode", row.decode)] {
            let Some(ours) = ours[op] else { continue };
            report.measured(&case, format!("{title}, MB/s"), ours, stated(paper, row.line)).note =
                Some(format!("{spec}; the paper's machine is another"));
            if let Some((base, paper_base)) = reference(i).and_then(|base| of_row(speeds, base, op)) {
                report.measured(&case, format!("{title} over Reed-Solomon"), ours / base, None).note = paper
                    .map(|paper| format!("the quotient of the printed speeds: {:.2}", paper / paper_base));
            }
        }
    }
    for (op, title) in ["encode", "decode"].into_iter().enumerate() {
        let (kept, turned) = order(speeds, op);
        let of = kept + turned.len();
        report
            .measured(
                format!("Table 3, order, {kernel}"),
                format!("pairs of rows as in the paper's table, {title}"),
                kept as f64,
                None,
            )
            .note = Some(match turned.is_empty() {
            true => format!("of {of}: the order is kept"),
            false => format!("of {of}; turned: {}", turned.join("; ")),
        });
    }
    let errors: [Option<Printed>; 3] =
        [stated(Some(2695.0), "Decode (0 errors) 2695"), None, stated(Some(87.0), "Decode (2 errors) 87")];
    for (wrong, (&rate, paper)) in speeds.errors.iter().zip(errors).enumerate() {
        let case = format!("Table 4, {wrong} disks lie, {kernel}");
        report.measured(case, "check and correct, MB/s", rate, paper).note =
            Some("every byte of these disks is wrong; they are located again in each stripe".into());
    }
    let encode = TABLE_3.iter().position(|row| row.spec == Some("raidq:16+4")).map(|i| speeds.encode[i]);
    let paper = stated(Some(3187.0), "Encode 3187");
    report.measured(format!("Table 4, encode, {kernel}"), "MB/s", encode.unwrap_or(f64::NAN), paper);
    let same = if speeds.is_same { "both give the same bytes" } else { "THE BYTES DIFFER" };
    for (name, &rate) in
        ["R by two passes of a P/Q engine", "R directly"].into_iter().zip(&speeds.third_parity)
    {
        report.measured(format!("{name}, {kernel}"), "MB/s", rate, None).note = Some(same.into());
    }
}

/// Returns our speed and the paper's of a row that has both.
fn of_row(speeds: &Speeds, i: usize, op: usize) -> Option<(f64, f64)> {
    match op {
        0 => speeds.encode.get(i).copied().zip(TABLE_3[i].encode),
        _ => speeds.decode.get(i).copied().flatten().zip(TABLE_3[i].decode),
    }
}

/// Returns the number of pairs of rows in the paper's order, and the pairs that are not.
fn order(speeds: &Speeds, op: usize) -> (usize, Vec<String>) {
    let rows: Vec<(usize, (f64, f64))> =
        (0..TABLE_3.len()).filter_map(|i| of_row(speeds, i, op).map(|values| (i, values))).collect();
    let (mut kept, mut turned) = (0, Vec::new());
    for (n, &(i, (ours, paper))) in rows.iter().enumerate() {
        for &(j, (other, papers_other)) in &rows[n + 1..] {
            let (faster, slower) = if ours > other { (i, j) } else { (j, i) };
            match (ours > other) == (paper > papers_other) {
                true => kept += 1,
                false => turned.push(format!("{} before {}", TABLE_3[faster].name, TABLE_3[slower].name)),
            }
        }
    }
    (kept, turned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_linux_raid6() {
        let columns = blocks(DATA, 256);
        let (mut p, mut q) = (vec![0; 256], vec![0; 256]);
        words::<true>(&columns, &mut p, &mut q);
        let program = sums(DATA, Some(2));
        let mut buffers = columns;
        buffers.extend([vec![0; 256], vec![0; 256]]);
        let mut views: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        run_or_stop(program.run(&mut views));
        assert!(p == buffers[DATA] && q == buffers[DATA + 1]);
    }

    /// Returns the paper's speeds, in every row.
    fn papers() -> Speeds {
        Speeds {
            kernel: LOOK_UPS.name().into(),
            product_ns: TABLE_2.iter().map(|product| product.cycles).collect(),
            encode: TABLE_3.iter().map(|row| row.encode.unwrap_or(1.0)).collect(),
            decode: TABLE_3.iter().map(|row| row.decode).collect(),
            errors: vec![2695.0, 500.0, 87.0],
            third_parity: vec![1.0, 1.0],
            is_same: true,
        }
    }

    #[test]
    fn the_papers_own_speeds_keep_its_order_and_a_turned_pair_is_named() {
        let mut speeds = papers();
        assert_eq!(order(&speeds, 0), (55, vec![]), "eleven rows");
        assert_eq!(order(&speeds, 1), (45, vec![]), "the loop in words does not decode");
        speeds.encode.swap(1, 2);
        let (kept, turned) = order(&speeds, 0);
        assert_eq!(kept + turned.len(), 55);
        assert!(turned.contains(&"Reed-Solomon, m=2 before [1,a]".to_string()), "{turned:?}");
        let mut report = Report::new("raidq", "RAIDq");
        tables(&mut report, &[papers(), Speeds { kernel: "portable".into(), ..papers() }]);
        // The paper prints 3186 in one table and 3187 in the other.
        assert!(report.published().all(|measure| measure.case.ends_with("avx2") && measure.is_within(4e-4)));
        assert_eq!(report.published().count(), 11 + 10 + 3);
        let value = |case: &str, quantity: &str| report.find(case, quantity).expect("a row");
        assert_eq!(value("Table 2, times a, portable", "time over an arbitrary element's"), 725.0 / 1187.0);
        assert_eq!(value("Table 3, [1,a], portable", "encode over Reed-Solomon"), 9051.0 / 3833.0);
        assert_eq!(value("Table 3, order, avx2", "pairs of rows as in the paper's table, encode"), 55.0);
    }
}
