//! Times calls of 64 bytes to 16 KiB in the doors of one process, in turns: Rust, `libpantile.so`,
//! the stand-in for ISA-L, and the libisal beside it. `benches/small/run` calls it.
//!
//!     small_calls LIBPANTILE STAND-IN LIBISAL
//!
//! A cell is the least time of a call over all rounds. Every row is printed, losing ones too.

use pantile::Codec;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Instant;

const SHAPES: [(usize, usize); 3] = [(4, 2), (10, 4), (20, 4)];
const LENGTHS: [usize; 5] = [64, 256, 1024, 4096, 16384];
const ROUNDS: usize = 120;
const SLICE_NS: f64 = 12_000.0;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A shared library, never closed.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    fn open(path: &str) -> Library {
        const NOW_AND_LOCAL: c_int = 2;
        let name = CString::new(path).expect("a path without zeros");
        // SAFETY: a path that ends with zero, to a library that may be initialised.
        let library = unsafe { dlopen(name.as_ptr(), NOW_AND_LOCAL) };
        assert!(!library.is_null(), "{path} cannot be loaded");
        Library(library)
    }

    /// The function of this name.
    ///
    /// # Safety
    ///
    /// `F` is its type.
    unsafe fn get<F: Copy>(self, name: &CStr) -> F {
        // SAFETY: a library that stays open, a name that ends with zero, and the caller's promise.
        unsafe {
            let function = dlsym(self.0, name.as_ptr());
            assert!(!function.is_null(), "{name:?} is missing");
            std::mem::transmute_copy(&function)
        }
    }
}

/// The functions of ISA-L that are timed.
struct Isal {
    init: unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8),
    encode: unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *mut u8, *const *mut u8),
    update: unsafe extern "C" fn(c_int, c_int, c_int, c_int, *const u8, *const u8, *const *mut u8),
    invert: unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int,
    cauchy: unsafe extern "C" fn(*mut u8, c_int, c_int),
    mad: unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const u8, *mut u8),
    mul: unsafe extern "C" fn(c_int, *const u8, *const u8, *mut u8) -> c_int,
    raid: [unsafe extern "C" fn(c_int, c_int, *const *mut u8) -> c_int; 4],
}

const RAID: [(&CStr, usize); 4] = [(c"xor_gen", 1), (c"pq_gen", 2), (c"xor_check", 1), (c"pq_check", 2)];

impl Isal {
    fn of(library: Library) -> Isal {
        // SAFETY: the types are those of ISA-L's headers.
        unsafe {
            Isal {
                init: library.get(c"ec_init_tables"),
                encode: library.get(c"ec_encode_data"),
                update: library.get(c"ec_encode_data_update"),
                invert: library.get(c"gf_invert_matrix"),
                cauchy: library.get(c"gf_gen_cauchy1_matrix"),
                mad: library.get(c"gf_vect_mad"),
                mul: library.get(c"gf_vect_mul"),
                raid: RAID.map(|(name, _)| library.get(name)),
            }
        }
    }

    fn table(&self, k: usize, rows: usize, coefficients: &[u8]) -> Vec<u8> {
        let mut table = vec![0; 32 * k * rows];
        // SAFETY: a table of 32 bytes for each coefficient.
        unsafe { (self.init)(k as c_int, rows as c_int, coefficients.as_ptr(), table.as_mut_ptr()) };
        table
    }
}

type Encode = unsafe extern "C" fn(*mut c_void, *const *mut u8, usize, usize, *mut c_void) -> c_int;
type Reconstruct =
    unsafe extern "C" fn(*mut c_void, *const *mut u8, usize, usize, *const u8, *mut c_void) -> c_int;
type Update = unsafe extern "C" fn(
    *mut c_void,
    *const *mut u8,
    usize,
    usize,
    usize,
    usize,
    *const u8,
    usize,
    *mut c_void,
) -> c_int;
type Verify =
    unsafe extern "C" fn(*mut c_void, *const *mut u8, usize, usize, *mut usize, *mut c_void) -> c_int;
type Parse = unsafe extern "C" fn(*const c_char, *mut *mut c_void, *mut c_void) -> c_int;
type New = unsafe extern "C" fn(*mut c_void, *const [usize; 3], *mut *mut c_void, *mut c_void) -> c_int;

/// The functions of `pantile.h` that are timed.
struct C {
    library: Library,
    encode: Encode,
    reconstruct: Reconstruct,
    update: Update,
    update_parity: Update,
    verify: Verify,
}

impl C {
    fn of(library: Library) -> C {
        // SAFETY: the types are those of `pantile.h`.
        unsafe {
            C {
                library,
                encode: library.get(c"pantile_encode"),
                reconstruct: library.get(c"pantile_reconstruct"),
                update: library.get(c"pantile_update"),
                update_parity: library.get(c"pantile_update_parity"),
                verify: library.get(c"pantile_verify"),
            }
        }
    }

    /// A codec that keeps so many bytes for patterns of losses.
    fn codec(&self, spec: &str, cache_bytes: usize) -> *mut c_void {
        let spec = CString::new(spec).expect("a spec without zeros");
        let (mut code, mut codec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // The size of the options, the bytes of the caches, and stores that are decided by size.
        let options = [24, cache_bytes, 0];
        // SAFETY: the types are those of `pantile.h`, whose options are two sizes and an enum.
        unsafe {
            let parse: Parse = self.library.get(c"pantile_code_parse");
            let new: New = self.library.get(c"pantile_codec_new");
            assert_eq!(parse(spec.as_ptr(), &mut code, std::ptr::null_mut()), 0);
            assert_eq!(new(code, &options, &mut codec, std::ptr::null_mut()), 0);
        }
        codec
    }
}

/// Buffers that begin lines of different sets of a cache.
struct Stripe {
    memory: Vec<Vec<u8>>,
    columns: Vec<*mut u8>,
}

impl Stripe {
    fn new(columns: usize, len: usize) -> Stripe {
        let fill = |column: usize| -> Vec<u8> {
            (0..len + 8192).map(|i| (i * 31 + column * 7 + i / 251) as u8).collect()
        };
        let mut memory: Vec<Vec<u8>> = (0..columns).map(fill).collect();
        let columns = memory.iter_mut().enumerate();
        let columns = columns
            .map(|(i, buffer)| {
                let at = buffer.as_ptr().align_offset(4096) + 64 * (i % 8);
                buffer[at..].as_mut_ptr()
            })
            .collect();
        Stripe { memory, columns }
    }

    /// The buffers as slices.
    fn cells(&mut self, len: usize) -> Vec<&mut [u8]> {
        assert!(self.memory.iter().all(|buffer| buffer.len() >= len));
        // SAFETY: each begins at most 4096 + 448 bytes into a buffer that is 8192 bytes longer.
        self.columns.iter().map(|&at| unsafe { std::slice::from_raw_parts_mut(at, len) }).collect()
    }
}

/// One call through a door.
type Call<'c> = Option<Box<dyn FnMut() + 'c>>;

/// Nanoseconds of a call for each door, the least of all rounds.
fn race(calls: &mut [Call<'_>; 4]) -> [Option<f64>; 4] {
    let mut least = [None; 4];
    let mut repeats = [0; 4];
    for (call, repeats) in calls.iter_mut().zip(&mut repeats) {
        let Some(call) = call else { continue };
        let mut time = |count: usize| {
            let start = Instant::now();
            (0..count).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / count as f64
        };
        time(20);
        *repeats = (SLICE_NS / time(50)).ceil().max(1.0) as usize;
    }
    for round in 0..ROUNDS {
        for turn in 0..4 {
            let door = (turn + round) % 4;
            let Some(call) = &mut calls[door] else { continue };
            let start = Instant::now();
            (0..repeats[door]).for_each(|_| call());
            let ns = start.elapsed().as_nanos() as f64 / repeats[door] as f64;
            least[door] = Some(least[door].map_or(ns, |least: f64| least.min(ns)));
        }
    }
    least
}

/// Every row that was printed: what it was, and the ratio and the difference where both are known.
#[derive(Default)]
struct Summary {
    ratios: Vec<(f64, String)>,
    over_rust: Vec<(f64, String)>,
}

impl Summary {
    fn row(&mut self, what: &str, (k, m): (usize, usize), len: usize, mut calls: [Call<'_>; 4]) {
        let ns = race(&mut calls);
        let show = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{ns:.0}"));
        let [rust, c, ours, theirs] = ns;
        let name = format!("{what} ({k},{m}) {len}");
        let ratio = theirs.zip(ours).map(|(theirs, ours)| theirs / ours);
        self.ratios.extend(ratio.map(|ratio| (ratio, name.clone())));
        self.over_rust.extend(c.zip(rust).map(|(c, rust)| (c - rust, name)));
        let shown = ns.map(show).join(" | ");
        println!(
            "| {what} | ({k},{m}) | {len} | {shown} | {} |",
            ratio.map_or(String::new(), |r| format!("{r:.2}"))
        );
    }

    fn end(mut self) {
        self.ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.over_rust.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lost: Vec<String> = self
            .ratios
            .iter()
            .filter(|cell| cell.0 < 1.0)
            .map(|(ratio, name)| format!("{name} {ratio:.2}"))
            .collect();
        println!(
            "\nStand-in beside libisal: {} cells, median {:.2}, least {:.2}, {} below 1.0: {}.",
            self.ratios.len(),
            self.ratios[self.ratios.len() / 2].0,
            self.ratios[0].0,
            lost.len(),
            lost.join(", ")
        );
        let (most, name) = &self.over_rust[self.over_rust.len() - 1];
        let many = self.over_rust.iter().filter(|cell| cell.0 > 100.0).count();
        println!(
            "\nC over Rust: {} cells, median {:.0} ns, most {most:.0} ns ({name}), {many} above 100 ns.",
            self.over_rust.len(),
            self.over_rust[self.over_rust.len() / 2].0
        );
    }
}

/// All sets of two columns.
fn pairs(columns: usize) -> Vec<[usize; 2]> {
    (0..columns).flat_map(|a| (a + 1..columns).map(move |b| [a, b])).collect()
}

fn of_codes(c: &C, libraries: &[Isal; 2], summary: &mut Summary, (k, m): (usize, usize), len: usize) {
    let (shape, n, length) = ((k, m), k + m, len as c_int);
    let spec = format!("rs:{k}+{m}");
    let codec = Codec::parse(&spec).expect("a code");
    let (handle, forgetful) = (c.codec(&spec, usize::MAX), c.codec(&spec, 0));
    let mut stripe = Stripe::new(n, len);
    let columns = stripe.columns.clone();
    let change = vec![5; len];
    let none = std::ptr::null_mut();
    let mut generator = vec![0; n * k];
    // SAFETY: as many bytes as rows times columns.
    unsafe { (libraries[1].cauchy)(generator.as_mut_ptr(), n as c_int, k as c_int) };
    let tables = [0, 1].map(|i| libraries[i].table(k, m, &generator[k * k..]));
    macro_rules! both {
        (|$lib:ident, $table:ident| $call:expr) => {
            [0, 1].map(|i| {
                let ($lib, $table) = (&libraries[i], &tables[i]);
                // SAFETY, for all of them: the contract of ISA-L's functions; tables and buffers
                // outlive the row.
                let call: Call<'_> = Some(Box::new(move || unsafe { $call }));
                call
            })
        };
    }
    let (data, parity) = (&columns[..k], &columns[k..]);
    let (sources, outputs) = (data.as_ptr(), parity.as_ptr());
    let (k_int, m_int) = (k as c_int, m as c_int);

    let mut cells = stripe.cells(len);
    let [ours, theirs] =
        both!(|lib, table| (lib.encode)(length, k_int, m_int, table.as_ptr(), sources, outputs));
    let by_c = || {
        // SAFETY: the contract of `pantile.h`.
        assert_eq!(unsafe { (c.encode)(handle, columns.as_ptr(), n, len, none) }, 0);
    };
    summary.row(
        "encode",
        shape,
        len,
        [Some(Box::new(|| codec.encode(&mut cells).expect("a stripe"))), Some(Box::new(by_c)), ours, theirs],
    );

    let [ours, theirs] =
        both!(|lib, table| (lib.update)(length, k_int, m_int, 1, table.as_ptr(), *sources, outputs));
    let by_c = || {
        // SAFETY: the contract of `pantile.h`.
        let status =
            unsafe { (c.update_parity)(handle, columns.as_ptr(), n, len, 1, 0, change.as_ptr(), len, none) };
        assert_eq!(status, 0);
    };
    summary.row("add a change", shape, len, [None, Some(Box::new(by_c)), ours, theirs]);

    let by_c = || {
        // SAFETY: the contract of `pantile.h`.
        let status =
            unsafe { (c.update)(handle, columns.as_ptr(), n, len, 1, 0, change.as_ptr(), len, none) };
        assert_eq!(status, 0);
    };
    let by_rust = || codec.update(&mut cells, 1, &change).expect("a stripe");
    summary.row("update", shape, len, [Some(Box::new(by_rust)), Some(Box::new(by_c)), None, None]);

    codec.encode(&mut cells).expect("a stripe");
    // A loop that verifies keeps the checker.
    let checker = codec.checker(&pantile::CellSet::empty(codec.code())).expect("its own code");
    let views: Vec<&[u8]> = cells.iter().map(|cell| &**cell).collect();
    let by_rust = || assert_eq!(checker.first_fault(&views), Ok(None));
    let by_c = || {
        let mut fault = 0;
        // SAFETY: the contract of `pantile.h`.
        let status = unsafe { (c.verify)(handle, columns.as_ptr(), n, len, &mut fault, none) };
        assert_eq!((status, fault), (0, usize::MAX));
    };
    summary.row("verify", shape, len, [Some(Box::new(by_rust)), Some(Box::new(by_c)), None, None]);

    // What a user of ISA-L does: invert, make a table of the lost rows, sum.
    let all = pairs(k);
    let decode = |lib: &Isal, lost: [usize; 2], table: &mut [u8], sum: bool| {
        let rows: Vec<usize> = (0..n).filter(|row| !lost.contains(row)).take(k).collect();
        let (mut matrix, mut inverse) = ([0; 400], [0; 400]);
        for (line, &row) in matrix.chunks_exact_mut(k).zip(&rows) {
            line.copy_from_slice(&generator[row * k..][..k]);
        }
        let mut wanted = [0; 40];
        let present: [*mut u8; 20] =
            std::array::from_fn(|i| rows.get(i).map_or(none.cast(), |&r| columns[r]));
        let to = lost.map(|column| columns[column]);
        // SAFETY: the contract of ISA-L's functions, with k x k matrices and a table of 2 x k.
        unsafe {
            assert_eq!((lib.invert)(matrix.as_mut_ptr(), inverse.as_mut_ptr(), k_int), 0);
            for (line, &row) in wanted.chunks_exact_mut(k).zip(&lost) {
                line.copy_from_slice(&inverse[row * k..][..k]);
            }
            (lib.init)(k_int, 2, wanted.as_ptr(), table.as_mut_ptr());
            if sum {
                (lib.encode)(length, k_int, 2, table.as_ptr(), present.as_ptr(), to.as_ptr());
            }
        }
    };
    let mut decode_tables = [vec![0; 64 * k], vec![0; 64 * k]];
    (0..2).for_each(|i| decode(&libraries[i], [0, 1], &mut decode_tables[i], false));
    let present = columns[2..k + 2].to_vec();
    let mut states = vec![1; n];
    (states[0], states[1]) = (2, 2);
    let mut cells = stripe.cells(len);
    let by_rust = || codec.reconstruct(&mut cells, &[0, 1]).expect("two of m");
    let by_c = || {
        // SAFETY: the contract of `pantile.h`.
        let status = unsafe { (c.reconstruct)(handle, columns.as_ptr(), n, len, states.as_ptr(), none) };
        assert_eq!(status, 0);
    };
    let [ours, theirs] = [0, 1].map(|i| {
        let (lib, table) = (&libraries[i], decode_tables[i].as_ptr());
        let (from, to) = (present.as_ptr(), columns.as_ptr());
        // SAFETY: the contract of ISA-L's function.
        let call: Call<'_> =
            Some(Box::new(move || unsafe { (lib.encode)(length, k_int, 2, table, from, to) }));
        call
    });
    summary.row(
        "rebuild two, same",
        shape,
        len,
        [Some(Box::new(by_rust)), Some(Box::new(by_c)), ours, theirs],
    );

    let mut cells = stripe.cells(len);
    let mut numbers = [0usize; 4];
    let [of_rust, of_c, of_ours, of_theirs] = numbers.each_mut();
    let next = |number: &mut usize| {
        *number += 1;
        all[*number % all.len()]
    };
    let by_rust = || {
        let recovery = codec.decoder_anew(&next(of_rust)).expect("two of m");
        recovery.run(&mut cells).expect("a stripe");
    };
    let by_c = || {
        let mut states = [1; 24];
        next(of_c).iter().for_each(|&column| states[column] = 2);
        // SAFETY: the contract of `pantile.h`.
        let status = unsafe { (c.reconstruct)(forgetful, columns.as_ptr(), n, len, states.as_ptr(), none) };
        assert_eq!(status, 0);
    };
    let [first, second] = &mut decode_tables;
    summary.row(
        "rebuild two, new",
        shape,
        len,
        [
            Some(Box::new(by_rust)),
            Some(Box::new(by_c)),
            Some(Box::new(|| decode(&libraries[0], next(of_ours), first, true))),
            Some(Box::new(|| decode(&libraries[1], next(of_theirs), second, true))),
        ],
    );

    // A matrix that was never seen, without the inversion.
    let mut seeds = [1u32; 2];
    let mut fresh = [0, 1].map(|_| (vec![0u8; k * m], vec![0u8; 32 * k * m]));
    let calls =
        seeds.iter_mut().zip(&mut fresh).zip(libraries).map(|((seed, (coefficients, table)), lib)| {
            let call: Call<'_> = Some(Box::new(move || {
                for four in coefficients.chunks_mut(4) {
                    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    four.copy_from_slice(&seed.to_le_bytes()[..four.len()]);
                }
                // SAFETY: the contract of ISA-L's functions.
                unsafe {
                    (lib.init)(k_int, m_int, coefficients.as_ptr(), table.as_mut_ptr());
                    (lib.encode)(length, k_int, m_int, table.as_ptr(), sources, outputs);
                }
            }));
            call
        });
    let calls: Vec<Call<'_>> = calls.collect();
    let [ours, theirs]: [Call<'_>; 2] = calls.try_into().unwrap_or_else(|_| unreachable!("two"));
    summary.row("matrix never seen", shape, len, [None, None, ours, theirs]);

    let [ours, theirs] = both!(|lib, table| (lib.mad)(length, k_int, 1, table.as_ptr(), *sources, *outputs));
    summary.row("gf_vect_mad", shape, len, [None, None, ours, theirs]);
    let [ours, theirs] = both!(|lib, table| {
        (lib.mul)(length, table.as_ptr(), *sources, *outputs);
    });
    summary.row("gf_vect_mul", (1, 1), len, [None, None, ours, theirs]);

    for (number, &(name, parities)) in RAID.iter().enumerate() {
        let array: Vec<*mut u8> = columns[..k + parities].to_vec();
        let vectors = array.len() as c_int;
        let at = array.as_ptr();
        // What is checked is right: both read all of it.
        // SAFETY: the contract of ISA-L's functions.
        unsafe { (libraries[1].raid[number % 2])(vectors, length, at) };
        let [ours, theirs] = both!(|lib, _table| assert_eq!((lib.raid[number])(vectors, length, at), 0));
        let name = name.to_str().expect("a name");
        summary.row(name, (k, parities), len, [None, None, ours, theirs]);
    }
}

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [c, ours, theirs] = &paths[..] else {
        eprintln!("small_calls LIBPANTILE STAND-IN LIBISAL: paths of three shared libraries");
        std::process::exit(2);
    };
    let c = C::of(Library::open(c));
    let libraries = [ours, theirs].map(|path| Isal::of(Library::open(path)));
    println!(
        "Nanoseconds a call, the least of {ROUNDS} rounds in turns; the last column is libisal's over the stand-in's.\n"
    );
    println!("| call | shape | bytes | Rust | C | stand-in | libisal | ratio |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut summary = Summary::default();
    for shape in SHAPES {
        for len in LENGTHS {
            of_codes(&c, &libraries, &mut summary, shape, len);
        }
    }
    summary.end();
}
