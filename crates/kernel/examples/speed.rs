//! Measures the speed of dot products in each tier of this machine, next to the limit that memory
//! sets.
//!
//! `cargo run --release -p pantile-kernel --example speed -- [--sizes 4096,65536,1048576] [--codes
//! 10x4,...] [--stores auto|cached|streaming] [--tiers avx2,...] [--layouts aligned,staggered]
//! [--repeats 9] [--dense]`
//!
//! Unit: GB/s (10^9) of source bytes, that is, sources x length / time. Time is CPU time of this
//! thread, so other jobs affect only shared caches and memory. Contenders are interleaved within
//! every repeat. The median of each is printed, and per line the largest spread of a contender
//! (interquartile range divided by median). The *limit* reads the same sources, XORs them with wide
//! vectors and writes the same outputs: the time of a computation whose products cost nothing. The
//! faster of cached and streaming stores counts. Buffers of 4 KiB and 64 KiB are one set that is
//! reused; larger ones rotate over 512 MiB, so they come from memory. Layouts: *aligned* puts every
//! buffer at a page boundary, *staggered* is [`Arena`] (huge pages if it is large). By default the
//! first row is all ones and the others are dense, as in encoding with a normalised Cauchy matrix
//! and in decoding from syndromes; with `--dense` all rows are.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::hint::black_box;

use pantile_kernel::{Arena, Dot, Stores, Tier};

const CODES: &str = "4x2,6x3,10x4,12x4,16x2,16x3,16x4,20x4";
const ROTATION_BYTES: usize = 512 << 20;
const SLICE_NS: u64 = 3_000_000;

fn main() {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, default: &str| -> String {
        let at = options.iter().position(|option| option == name);
        at.and_then(|at| options.get(at + 1)).map_or(default.to_owned(), String::clone)
    };
    let tiers: Vec<Tier> = match option("--tiers", "").as_str() {
        "" => Tier::available(),
        list => list.split(',').map(|name| Tier::from_name(name).expect("a tier")).collect(),
    };
    let stores = match option("--stores", "auto").as_str() {
        "auto" => Stores::Auto,
        "cached" => Stores::Cached,
        "streaming" => Stores::Streaming,
        other => panic!("--stores {other}: use auto, cached or streaming"),
    };
    let repeats: usize = option("--repeats", "9").parse().expect("a number");
    let dense = options.iter().any(|option| option == "--dense");
    print!("{:>9} {:>8} {:>6} {:>7}", "layout", "bytes", "code", "limit");
    tiers.iter().for_each(|tier| print!(" {:>19}", tier.name()));
    println!(" {:>7}", "spread");
    for layout in option("--layouts", "aligned,staggered").split(',') {
        for size in option("--sizes", "4096,65536,1048576").split(',') {
            for code in option("--codes", CODES).split(',') {
                let (k, m) = code.split_once('x').expect("a code such as 10x4");
                let (k, m) = (k.parse().expect("a number"), m.parse().expect("a number"));
                let cell =
                    Cell { k, m, len: size.parse().expect("a number"), staggered: layout == "staggered" };
                cell.measure(&tiers, stores, repeats, dense).print(layout, code, cell.len);
            }
        }
    }
}

struct Cell {
    k: usize,
    m: usize,
    len: usize,
    staggered: bool,
}

struct Line {
    limit: f64,
    tiers: Vec<f64>,
    spread: f64,
}

impl Line {
    fn print(&self, layout: &str, code: &str, len: usize) {
        print!("{layout:>9} {len:>8} {code:>6} {:>7.1}", self.limit);
        for speed in &self.tiers {
            print!(" {:>11.1} ({:>3.0} %)", speed, 100.0 * speed / self.limit);
        }
        println!(" {:>6.1}%", 100.0 * self.spread);
    }
}

impl Cell {
    fn measure(&self, tiers: &[Tier], stores: Stores, repeats: usize, dense: bool) -> Line {
        let streams = self.k + self.m;
        let sets = if self.len <= 65536 { 1 } else { (ROTATION_BYTES / (streams * self.len)).max(2) };
        let mut memory: Vec<Memory> =
            (0..sets).map(|_| Memory::new(streams, self.len, self.staggered)).collect();
        let pointers: Vec<(Vec<*const u8>, Vec<*mut u8>)> = memory
            .iter_mut()
            .map(|set| {
                let all = set.pointers();
                (all[..self.k].iter().map(|p| p.cast_const()).collect(), all[self.k..].to_vec())
            })
            .collect();
        let rows = matrix(self.k, self.m, dense);
        let dots: Vec<Dot> = tiers
            .iter()
            .map(|&tier| Dot::with_tier(tier, self.k, &rows).expect("a matrix").with_stores(stores))
            .collect();
        type Contender<'a> = Box<dyn Fn(&[*const u8], &[*mut u8]) + 'a>;
        let len = self.len;
        // SAFETY (all three): every set of buffers is valid for `len` bytes, and its buffers are
        // disjoint.
        let mut contenders: Vec<Contender> = vec![
            Box::new(|from, to| unsafe { limit::xor(from, to, len, false) }),
            Box::new(|from, to| unsafe { limit::xor(from, to, len, true) }),
        ];
        contenders.extend(
            dots.iter().map(|dot| -> Contender {
                Box::new(move |from, to| unsafe { dot.apply_raw(from, to, len) })
            }),
        );
        let mut samples = vec![Vec::new(); contenders.len()];
        let mut turn = 0;
        for repeat in 0..=repeats {
            for i in 0..contenders.len() {
                let i = (i + repeat) % contenders.len();
                let begin = cpu_ns();
                let mut calls = 0u64;
                let mut elapsed = 0;
                while elapsed < SLICE_NS {
                    let batch = (1 << 20) / (self.k * len) + 1;
                    for _ in 0..batch {
                        let (from, to) = &pointers[turn % pointers.len()];
                        contenders[i](black_box(from), black_box(to));
                        turn += 1;
                    }
                    calls += batch as u64;
                    elapsed = cpu_ns() - begin;
                }
                if repeat > 0 {
                    samples[i].push((calls * (self.k * len) as u64) as f64 / elapsed as f64);
                }
            }
        }
        let (medians, spreads): (Vec<f64>, Vec<f64>) = samples.into_iter().map(summary).unzip();
        Line {
            limit: medians[0].max(medians[1]),
            tiers: medians[2..].to_vec(),
            spread: spreads.into_iter().fold(0.0, f64::max),
        }
    }
}

/// Returns the median, and the interquartile range divided by the median.
fn summary(mut samples: Vec<f64>) -> (f64, f64) {
    samples.sort_by(f64::total_cmp);
    let at = |part: f64| samples[(part * (samples.len() - 1) as f64).round() as usize];
    (at(0.5), (at(0.75) - at(0.25)) / at(0.5))
}

/// Returns a matrix of arbitrary coefficients; the speed does not depend on their values.
fn matrix(k: usize, m: usize, dense: bool) -> Vec<Vec<(usize, u8)>> {
    let coefficient =
        |o: usize, s: usize| if o == 0 && !dense { 1 } else { ((o * 37 + s * 11) % 253 + 2) as u8 };
    (0..m).map(|o| (0..k).map(|s| (s, coefficient(o, s))).collect()).collect()
}

/// Buffers at page boundaries, or an arena.
enum Memory {
    Aligned { base: *mut u8, count: usize, len: usize },
    Staggered(Arena),
}

impl Memory {
    fn new(count: usize, len: usize, staggered: bool) -> Memory {
        let mut memory = if staggered {
            Memory::Staggered(Arena::new(count, len))
        } else {
            // SAFETY: the size is not zero.
            let base = unsafe { alloc_zeroed(Memory::layout(count, len)) };
            assert!(!base.is_null(), "out of memory");
            Memory::Aligned { base, count, len }
        };
        for (i, pointer) in memory.pointers().into_iter().enumerate() {
            for at in 0..len {
                // SAFETY: every pointer is valid for `len` bytes.
                unsafe { pointer.add(at).write(((at + i) % 251) as u8) };
            }
        }
        memory
    }

    fn layout(count: usize, len: usize) -> Layout {
        Layout::from_size_align(count * len, 4096).expect("a size that fits")
    }

    fn pointers(&mut self) -> Vec<*mut u8> {
        match self {
            // SAFETY: buffer i lies inside the allocation of count * len bytes.
            Memory::Aligned { base, count, len } => {
                (0..*count).map(|i| unsafe { base.add(i * *len) }).collect()
            }
            Memory::Staggered(arena) => {
                arena.all_mut().into_iter().map(|buffer| buffer.as_mut_ptr()).collect()
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Memory::Aligned { base, count, len } = self {
            // SAFETY: allocated with this layout, freed once.
            unsafe { dealloc(*base, Memory::layout(*count, *len)) };
        }
    }
}

/// Returns the CPU time of this thread in nanoseconds.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn cpu_ns() -> u64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a valid timespec of 64-bit Linux.
    let status = unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "a thread has a CPU clock");
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Returns the wall time in nanoseconds, on systems whose clock of a thread's CPU time is not known
/// here.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn cpu_ns() -> u64 {
    use std::time::Instant;
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The XOR limit, with the widest vectors of the machine.
mod limit {
    /// # Safety
    ///
    /// Pointers valid for `len`, a multiple of 256; outputs aligned to 64 and disjoint from
    /// everything.
    pub unsafe fn xor(from: &[*const u8], to: &[*mut u8], len: usize, streaming: bool) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the caller's promise, and AVX-512 F is there.
            return unsafe { xor_avx512(from, to, len, streaming) };
        }
        let _ = streaming;
        for at in (0..len).step_by(256) {
            let mut sums = [0u64; 32];
            for source in from {
                // SAFETY: at + 256 <= len.
                let source = unsafe { source.add(at).cast::<[u64; 32]>().read_unaligned() };
                sums.iter_mut().zip(source).for_each(|(sum, x)| *sum ^= x);
            }
            for output in to {
                // SAFETY: at + 256 <= len.
                unsafe { output.add(at).cast::<[u64; 32]>().write_unaligned(sums) };
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn xor_avx512(from: &[*const u8], to: &[*mut u8], len: usize, streaming: bool) {
        use std::arch::x86_64::*;
        for at in (0..len).step_by(256) {
            let mut sums = [_mm512_setzero_si512(); 4];
            for source in from {
                for (c, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: at + 256 <= len.
                    *sum =
                        _mm512_xor_si512(*sum, unsafe { _mm512_loadu_si512(source.add(at + c * 64).cast()) });
                }
            }
            for output in to {
                for (c, sum) in sums.into_iter().enumerate() {
                    // SAFETY: at + 256 <= len, outputs are aligned.
                    unsafe {
                        let target = output.add(at + c * 64).cast();
                        if streaming {
                            _mm512_stream_si512(target, sum)
                        } else {
                            _mm512_storeu_si512(target.cast(), sum)
                        }
                    }
                }
            }
        }
        _mm_sfence();
    }
}
