//! The RAIDq paper: how many data disks each construction bears, and its throughput tables on this
//! machine.
//!
//! The limits are exact and found anew: the rows are powers, so a vanishing minor can be shifted to
//! start at data disk 0, and the first one ends the code. The tables measure this machine: medians
//! of interleaved turns of thread time.

use crate::figure::{Figure, Heat, HeatRow};
use crate::{Printed, Report, printed};
use pantile::gf::Gf;
use pantile::{CellSet, Codec};
use pantile_code::plank::{Element, Tower, first_vanishing_minor};
use pantile_kernel::measure::thread_cpu_ns;
use pantile_kernel::{Program, Step, Tier};

/// The name of the experiment.
pub const NAME: &str = "raidq";

/// Data disks of the throughput tables.
const DATA: usize = 16;

/// Bytes of a block in Table 2.
const BLOCK_BYTES: usize = 4096;

/// Bytes of a column in Tables 3 and 4, where the paper says nothing.
const CHUNK_BYTES: usize = 64 * 1024;

const TURNS: usize = 9;
const TURN_NS: u64 = 1_000_000;

/// Whether to measure the machine as well.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tables 2, 3 and 4.
    pub measure_machine: bool,
}

/// A construction and the most data disks that the paper gives it.
type Construction = (&'static str, Tower, Vec<Element>, Option<Printed>);

fn constructions() -> Vec<Construction> {
    const TRIPLE: &str = r"whose determinants are never zero as long as  $0 \leq i < j < k < 255$";
    const POWERS: &str =
        r"Using the same  $\alpha$  as in most RAID 6 implementations, we can only go as high as 21";
    const GENERATOR: &str = "up to 21+4 disks, or 27+4 if compatibility with existing RAID 6 is disregarded";
    let bytes = Tower::bytes();
    let a = Gf(2);
    let power = |exponent: u64| bytes.pow(bytes.embed(a), exponent);
    let one = bytes.embed(Gf::ONE);
    // In GF(2^8) every element has one square root: a^1/2 = a^128.
    let half = power(128);
    let best = (1..255).map(power).max_by_key(|&b| {
        let rows = [one, b, bytes.pow(b, 2), bytes.pow(b, 3)];
        let has_all_powers = ![3, 5, 17].iter().any(|&d| bytes.pow(b, 255 / d) == one);
        if has_all_powers {
            first_vanishing_minor(&bytes, &rows).map_or(255, |minor| minor.limit())
        } else {
            0
        }
    });
    let best = best.unwrap_or(one);
    let of_order_85 = power(21);
    let powers = |b: Element| vec![one, b, bytes.pow(b, 2), bytes.pow(b, 3)];
    let cubic = Tower::cubic();
    let root = cubic.root(Gf::ONE);
    let in_cubic = |x: Element| cubic.embed(x[0]);
    let quadratic = |b: u8, c: u8| match Tower::quadratic(Gf(b), Gf(c)) {
        Some(tower) => tower,
        None => unreachable!("X^2 + {b:02x} X + {c:02x} is irreducible"),
    };
    let with_x = |tower: &Tower| {
        let x = tower.root(Gf::ONE);
        vec![tower.embed(Gf::ONE), tower.embed(a), tower.embed(half[0]), x]
    };
    let (paper, better, most) = (quadratic(0x08, 0x01), quadratic(0x3c, 0x01), quadratic(0xfe, 0x72));
    let (paper_rows, better_rows, most_rows) = (with_x(&paper), with_x(&better), with_x(&most));
    let thirds = vec![in_cubic(one), in_cubic(power(1)), root, cubic.product(root, root)];
    // The square roots of these: x^(2^23) in a field of 2^24 elements.
    let sixths = thirds.iter().map(|&x| cubic.pow(x, 1 << 23)).collect();
    vec![
        ("[1,a,a^2]", bytes.clone(), vec![one, power(1), power(2)], Some(printed(255.0, TRIPLE))),
        ("[1,a,a^1/2]", bytes.clone(), vec![one, power(1), half], None),
        (
            "[1,a,a^2,a^3]",
            bytes.clone(),
            vec![one, power(1), power(2), power(3)],
            Some(printed(21.0, POWERS)),
        ),
        (
            "[1,a,a^1/2,a^3/2]",
            bytes.clone(),
            vec![one, power(1), half, power(129)],
            Some(printed(21.0, TABLE_1[0])),
        ),
        ("[1,b,b^2,b^3], best generator b", bytes.clone(), powers(best), Some(printed(27.0, GENERATOR))),
        ("[1,b,b^2,b^3], b of order 85", bytes.clone(), powers(of_order_85), None),
        ("[1,a,a^1/3,a^2/3]", cubic.clone(), thirds, Some(printed(63.0, TABLE_1[1]))),
        ("[1,a^1/2,a^1/6,a^1/3]", cubic, sixths, None),
        ("[1,a,a^1/2,X], X^2 = a^3 X + 1", paper, paper_rows, Some(printed(92.0, TABLE_1[2]))),
        ("[1,a,a^1/2,X], X^2 = a^77 X + 1", better, better_rows, None),
        ("[1,a,a^1/2,X], X^2 = fe X + 72", most, most_rows, None),
    ]
}

/// Rows of Table 1, as the document has them.
const TABLE_1: [&str; 3] = [
    r"$[1, \alpha, \alpha^{1/2}, \alpha^{3/2}]$ 21",
    r"$[1, \alpha, \alpha^{1/3}, \alpha^{2/3}]$ 63",
    r"$[1, \alpha, \alpha^{1/2}, X]$ 92",
];

/// Rows of Table 3: the paper's name, our code, parities, its MB/s of encoding and decoding.
const TABLE_3: [(&str, &str, usize, f64, Option<f64>); 11] = [
    ("[1,a]", "raid6:16", 2, 9051.0, Some(6467.0)),
    ("Reed-Solomon, m=2", "rs:16+2", 2, 3833.0, Some(3517.0)),
    ("[1,a,a^2]", "raidq:16+3,powers", 3, 5147.0, Some(3276.0)),
    ("[1,a,a^1/2]", "raidq:16+3", 3, 4707.0, Some(3542.0)),
    ("Reed-Solomon, m=3", "rs:16+3", 3, 2977.0, Some(2444.0)),
    ("[1,a,a^2,a^3]", "raidq:16+4,powers", 4, 3818.0, Some(2478.0)),
    ("[1,a,a^1/2,a^3/2]", "raidq:16+4,sqrt", 4, 3225.0, Some(2338.0)),
    ("[1,a,a^1/3,a^2/3]", "raidq:16+4,cbrt", 4, 2387.0, Some(1290.0)),
    ("[1,a,a^1/2,X]", "raidq:16+4", 4, 3186.0, Some(1772.0)),
    ("Reed-Solomon, m=4", "rs:16+4", 4, 2490.0, Some(1921.0)),
    ("[1,a,a^1/2,X], 125 disks", "raidq:16+4,x125", 4, f64::NAN, None),
];

/// The same rows, as the document has them.
const TABLE_3_LINES: [&str; 10] = [
    r"$[1, \alpha]$ 2 - 9051 6467",
    "Reed-Solomon 2 - 3833 3517",
    r"$[1, \alpha, \alpha^2]$ 3 - 5147 3276",
    r"$[1, \alpha, \alpha^{1/2}]$ 3 - 4707 3542",
    "Reed-Solomon 3 - 2977 2444",
    r"$[1, \alpha, \alpha^2, \alpha^3]$ 4 21 3818 2478",
    r"$[1, \alpha, \alpha^{1/2}, \alpha^{3/2}]$ 4 21 3225 2338",
    r"$[1, \alpha, \alpha^{1/3}, \alpha^{2/3}]$ 4 63 2387 1290",
    r"$[1, \alpha, \alpha^{1/2}, X]$ 4 92 3186 1772",
    "Reed-Solomon 4 - 2490 1921",
];

/// Runs the experiment.
pub fn run(options: &Options) -> Report {
    let mut report = Report::new(NAME, "RAIDq: limits, and throughput on this machine");
    report.say(
        "How many data disks does each construction bear? The rows of the generator are powers, so vanishing minors can be shifted: the first one that starts at \
         data disk 0 decides, and is printed as the pattern of losses that is fatal with one disk more.",
    );
    report.say(
        "The paper says that no generator b gets beyond 27 with [1,b,b^2,b^3]; that is so for generators of the field, but b of order 85 reaches 33. It calls \
         [1,a,a^1/2,X] not MDS; up to 92 data disks it is. Other polynomials for X reach 125 (still with constant term 1) and 164 disks, found by search over \
         all 32,640 irreducible ones.",
    );
    limits(&mut report);
    if options.measure_machine {
        report.say(format!(
            "Tables 2 to 4 on this machine: blocks of 4 KiB in Table 2, columns of 64 KiB in Tables 3 and 4, {DATA} data disks, kernel {}, thread CPU time, medians of {TURNS} interleaved turns. The paper measured a Xeon E5430 \
             with SSSE3 in 2011 or so; what can be compared is each row against Reed-Solomon of the same shape (\"over Reed-Solomon\"). With instructions that multiply any \
             constant at one cost, as here, the advantage of cheap constants is gone; what is left is the row of ones, and for the tower codes that their wide \
             elements cost more products.",
            Tier::best().name()
        ));
        multiplication(&mut report);
        throughput(&mut report);
        errors(&mut report);
        two_passes(&mut report);
    }
    report
}

fn limits(report: &mut Report) {
    let mut rows = Vec::new();
    for (name, field, generators, published) in constructions() {
        let minor = first_vanishing_minor(&field, &generators);
        let limit = minor.as_ref().map_or(255, |minor| minor.limit());
        let note = minor.as_ref().map(|minor| {
            format!(
                "with {} data disks, losing columns {:?} is fatal (data {:?} against parities {:?})",
                limit + 1,
                minor.fatal_columns(generators.len()),
                minor.data,
                minor.parities
            )
        });
        report.counted(name, "most data disks", limit as f64, published).note = note;
        let value = vec![Some(limit as f64)];
        let shades = vec![Some(limit as f64 / 255.0)];
        rows.push(HeatRow { name: name.to_string(), values: value, shades });
    }
    report.figures.push(Figure::Heat(Heat {
        title: "Most data disks of each construction".into(),
        caption: "255 is the most that GF(2^8) rows of powers can bear.".into(),
        columns: vec!["data disks".into()],
        rows,
    }));
}

/// Medians of thread time per call, the contestants taking turns.
fn medians(contestants: &mut [Box<dyn FnMut() + '_>]) -> Vec<f64> {
    let mut times = vec![Vec::new(); contestants.len()];
    for turn in 0..=TURNS {
        for (call, times) in contestants.iter_mut().zip(&mut times) {
            let (mut calls, before) = (0u64, thread_cpu_ns());
            let spent = loop {
                (0..8).for_each(|_| call());
                calls += 8;
                let spent = thread_cpu_ns() - before;
                if spent >= TURN_NS {
                    break spent;
                }
            };
            // The first turn makes programs and touches memory.
            if turn > 0 {
                times.push(spent as f64 / calls as f64);
            }
        }
    }
    times
        .into_iter()
        .map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
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

/// Table 2: one constant times a block.
fn multiplication(report: &mut Report) {
    /// Of an arbitrary element, in the paper.
    const CYCLES: f64 = 1187.0;
    let constants = [("a", 2u8, 725), ("a^3", 8, 900), ("an arbitrary element", 0x8e, 1187)];
    let mut blocks: Vec<(Program, Vec<u8>, Vec<u8>)> = constants
        .iter()
        .filter_map(|&(_, constant, _)| {
            let program = Program::new(2, &[Step { target: 1, terms: vec![(0, constant)] }]).ok()?;
            Some((program, vec![0x3c; BLOCK_BYTES], vec![0; BLOCK_BYTES]))
        })
        .collect();
    let mut calls: Vec<Box<dyn FnMut()>> = Vec::new();
    for (program, source, output) in &mut blocks {
        calls.push(Box::new(move || run_or_stop(program.run(&mut [&mut source[..], &mut output[..]]))));
    }
    let times = medians(&mut calls);
    let slowest = times.last().copied().unwrap_or(f64::NAN);
    for ((name, _, cycles), ns) in constants.iter().zip(times) {
        let case = format!("Table 2, times {name}");
        if *cycles != 1187 {
            let theirs = f64::from(*cycles) / CYCLES;
            report.measured(case, "time over an arbitrary element's", ns / slowest, None).note =
                Some(format!("the quotient of the printed cycles: {theirs:.2}"));
        }
        report.measured(format!("Table 2, times {name}"), "ns per 4 KiB", ns, None).note = Some(format!(
            "the paper: {cycles} cycles at 2.66 GHz, that is {:.0} ns",
            f64::from(*cycles) / 2.66
        ));
    }
}

/// Table 3: encode, and decode of as many lost data disks as there are parities.
fn throughput(report: &mut Report) {
    let codecs: Vec<Codec> = TABLE_3.iter().map(|row| codec(row.1)).collect();
    let mut stripes: Vec<[Stripe; 2]> = codecs.iter().map(|c| [Stripe::of(c), Stripe::of(c)]).collect();
    let bytes: Vec<f64> = codecs.iter().zip(&stripes).map(|(c, s)| s[0].data_len(c)).collect();
    let mut calls: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for ((codec, [encoded, decoded]), row) in codecs.iter().zip(&mut stripes).zip(&TABLE_3) {
        let mut views = encoded.views();
        calls.push(Box::new(move || run_or_stop(codec.encode(&mut views))));
        let lost: Vec<usize> = (0..row.2).map(|i| i * (DATA / row.2)).collect();
        let mut views = decoded.views();
        calls.push(Box::new(move || run_or_stop(codec.reconstruct(&mut views, &lost))));
    }
    let ns = medians(&mut calls);
    drop(calls);
    let rate = |i: usize, op: usize| bytes[i] / ns[2 * i + op] * 1e3;
    for (i, &(name, spec, m, encode, decode)) in TABLE_3.iter().enumerate() {
        let reference = TABLE_3.iter().position(|row| row.2 == m && row.1.starts_with("rs:")).unwrap_or(i);
        for (op, title, paper) in [(0, "encode", Some(encode)), (1, "decode", decode)] {
            let paper = paper.filter(|p| p.is_finite());
            let line = TABLE_3_LINES[i.min(TABLE_3_LINES.len() - 1)];
            let stated = paper.map(|value| printed(value, line));
            let case = format!("Table 3, {name}");
            report.measured(&case, format!("{title}, MB/s"), rate(i, op), stated).note =
                Some(format!("{spec}; the paper's machine is another"));
            if reference != i {
                let base = if op == 0 { Some(TABLE_3[reference].3) } else { TABLE_3[reference].4 };
                let paper = paper.zip(base).map(|(ours, base)| ours / base);
                let ratio = rate(i, op) / rate(reference, op);
                report.measured(&case, format!("{title} over Reed-Solomon"), ratio, None).note =
                    paper.map(|paper| format!("the quotient of the printed speeds: {paper:.2}"));
            }
        }
    }
}

/// Table 4: a stripe is checked, and with two lying disks the liars are found and corrected.
fn errors(report: &mut Report) {
    let codec = codec("raidq:16+4");
    let Ok(checker) = codec.checker(&CellSet::empty(codec.code())) else { unreachable!("a set of the code") };
    let mut stripe = Stripe::of(&codec);
    let bytes = stripe.data_len(&codec);
    let paper =
        [Some(printed(2695.0, "Decode (0 errors) 2695")), None, Some(printed(87.0, "Decode (2 errors) 87"))];
    for (wrong, paper) in paper.into_iter().enumerate() {
        let cells: Vec<usize> = (0..wrong)
            .flat_map(|i| codec.code().column_cells([3, 11][i]).map(|cell| cell.usize()).collect::<Vec<_>>())
            .collect();
        let mut corrected = 0;
        let mut call = || {
            for &cell in &cells {
                stripe.cells[cell].iter_mut().enumerate().for_each(|(i, byte)| *byte ^= (i % 255) as u8 + 1);
            }
            let mut views = stripe.views();
            let shared: Vec<&[u8]> = views.iter().map(|view| &**view).collect();
            let Ok(findings) = checker.locate(&shared) else { unreachable!("a stripe of the code") };
            corrected += findings.len();
            let fixed = checker.correct(&mut views, &findings, |_| true);
            run_or_stop(fixed.map(|_| ()));
        };
        let ns = medians(&mut [Box::new(&mut call)])[0];
        report
            .measured(
                format!("Table 4, {wrong} disks lie"),
                "check and correct, MB/s",
                bytes / ns * 1e3,
                paper,
            )
            .note = Some("every byte of the liars is wrong; finding them anew in each stripe".into());
    }
    let encode = {
        let mut views = stripe.views();
        let mut call = || run_or_stop(codec.encode(&mut views));
        medians(&mut [Box::new(&mut call)])[0]
    };
    report.measured("Table 4, encode", "MB/s", bytes / encode * 1e3, printed(3187.0, "Encode 3187"));
}

/// R = sum of a^(i/2) D_i as the paper has it from hardware for P and Q: Q of the even disks plus
/// a^1/2 times Q of the odd ones, in two passes; beside one pass with the coefficients of R.
fn two_passes(report: &mut Report) {
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
    let (Ok(passes), Ok(direct)) = (passes, direct) else { return };
    let mut blocks: Vec<Vec<u8>> =
        (0..DATA + 3).map(|i| (0..CHUNK_BYTES).map(|at| (at * 7 + i * 29) as u8).collect()).collect();
    let mut others = blocks.clone();
    let mut calls: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    let mut views: Vec<&mut [u8]> = blocks.iter_mut().map(Vec::as_mut_slice).collect();
    calls.push(Box::new(move || run_or_stop(passes.run(&mut views))));
    let mut views: Vec<&mut [u8]> = others.iter_mut().take(DATA + 1).map(Vec::as_mut_slice).collect();
    calls.push(Box::new(move || run_or_stop(direct.run(&mut views))));
    let ns = medians(&mut calls);
    drop(calls);
    let is_same = blocks[DATA + 2] == others[DATA];
    let bytes = (DATA * CHUNK_BYTES) as f64;
    let note = if is_same { "both give the same bytes" } else { "THE BYTES DIFFER" };
    report.measured("R by two passes of a P/Q engine", "MB/s", bytes / ns[0] * 1e3, None).note =
        Some(note.into());
    report.measured("R directly", "MB/s", bytes / ns[1] * 1e3, None);
    report.measured("R", "same bytes by both ways", f64::from(u8::from(is_same)), None);
}
