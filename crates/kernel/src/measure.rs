//! Tools to measure kernels: a clock that stops while other threads run, and a speed limit for
//! comparison.
//!
//! The limit of a computation is the speed of an XOR kernel that reads every source once and writes
//! every output once, in the same buffers. It does almost no arithmetic, so its time is the cost of
//! moving the bytes. No single order of moving them is the fastest everywhere, so several are
//! measured, and the limit is the fastest of them.

use crate::order::reading_order;
use crate::{ShapeError, Stores};

/// Returns the CPU time of this thread in nanoseconds.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub fn thread_cpu_ns() -> u64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    // Declared here rather than through the libc crate: one function whose C signature POSIX fixes.
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

/// Returns the elapsed time in nanoseconds, because the clock of a thread's CPU time is not known
/// on this system.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub fn thread_cpu_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The order in which a limit moves its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOrder {
    /// True: all sources are read slice by slice, and their sum is written to every output. False:
    /// each output has its own share of the sources.
    pub shared: bool,
    /// True: one output after another over the whole length. False: all outputs slice by slice.
    /// Used only if not `shared`.
    pub in_sequence: bool,
    /// True if outputs are stored past the cache.
    pub streaming: bool,
    /// The bytes of each source that are read at a time. Used only if `shared`.
    pub visit: Visit,
}

/// The bytes of each source that a limit reads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// 64 bytes: a line of each stream in turn is fastest in the second-level cache of Ice Lake.
    Line,
    /// 256 bytes.
    Usual,
    /// 512 bytes: faster for more page-aligned sources than the first-level cache has ways.
    Wide,
}

/// The XOR kernel that reads some buffers and writes others.
#[derive(Clone, Debug)]
pub struct XorLimit {
    buffers: usize,
    sources: Vec<usize>,
    outputs: Vec<usize>,
    /// True if outputs are also read, and added to.
    adds: bool,
}

impl XorLimit {
    /// Returns the limit of a computation that reads `sources` and writes `outputs` of `buffers`
    /// buffers.
    ///
    /// Panics if a buffer is out of range, or an output is named twice or read.
    pub fn new(buffers: usize, sources: &[usize], outputs: &[usize]) -> XorLimit {
        let mut seen = vec![false; buffers];
        sources.iter().for_each(|&source| seen[source] = true);
        for &output in outputs {
            assert!(!std::mem::replace(&mut seen[output], true), "output {output} is read, or written twice");
        }
        XorLimit { buffers, sources: sources.to_vec(), outputs: outputs.to_vec(), adds: false }
    }

    /// Returns the limit of `reads` and `writes` buffers that are whole columns of `rows` buffers,
    /// moved as columns: no computation reads fewer streams. `None` if they are not whole columns,
    /// or more columns than `columns`.
    pub fn of_columns(columns: usize, rows: usize, reads: usize, writes: usize) -> Option<XorLimit> {
        let whole =
            |buffers: usize| buffers.is_multiple_of(rows).then(|| buffers.checked_div(rows)).flatten();
        let (from, to) = (whole(reads)?, whole(writes)?);
        let list = |range: std::ops::Range<usize>| range.collect::<Vec<_>>();
        (from + to <= columns).then(|| XorLimit::new(columns, &list(to..to + from), &list(0..to)))
    }

    /// Returns the limit of a computation that also reads its outputs before it writes them, as an
    /// update does.
    ///
    /// Panics like [`XorLimit::new`].
    pub fn adding(buffers: usize, sources: &[usize], outputs: &[usize]) -> XorLimit {
        XorLimit { adds: true, ..XorLimit::new(buffers, sources, outputs) }
    }

    /// Returns the orders that can be the fastest for buffers of `len` bytes under a store policy.
    /// With [`Stores::Auto`] orders past the cache are included from half the footprint at which
    /// programs use them.
    pub fn orders(&self, len: usize, stores: Stores) -> Vec<LimitOrder> {
        let order = |shared, in_sequence, streaming| LimitOrder {
            shared,
            in_sequence,
            streaming,
            visit: Visit::Usual,
        };
        let mut orders =
            vec![order(true, false, false), order(false, false, false), order(false, true, false)];
        orders.push(LimitOrder { visit: Visit::Line, ..order(true, false, false) });
        if self.sources.len() > FEW_SOURCES {
            orders.push(LimitOrder { visit: Visit::Wide, ..order(true, false, false) });
        }
        let streams = self.sources.len() + self.outputs.len();
        if stores.streams(2 * streams, len) {
            orders.extend([order(true, false, true), order(false, false, true), order(false, true, true)]);
        }
        orders
    }

    /// Reads every source and writes every output once. The content of the outputs has no meaning.
    ///
    /// Bytes after the last multiple of 64 are not moved; outputs that are not aligned to 64 are
    /// not streamed. Errors: a count or a length is wrong; nothing is then written.
    pub fn run(&self, order: LimitOrder, buffers: &mut [&mut [u8]]) -> Result<(), ShapeError> {
        if buffers.len() != self.buffers {
            return Err(ShapeError::BufferCount { have: buffers.len(), need: self.buffers });
        }
        let len = buffers.first().map_or(0, |buffer| buffer.len());
        if let Some(index) = buffers.iter().position(|buffer| buffer.len() != len) {
            return Err(ShapeError::BufferLen { index, have: buffers[index].len(), need: len });
        }
        let places = self.sources.len() + self.outputs.len();
        crate::scratch::with_scratch(places, 0, |places, _| {
            let shares = if order.shared { 1 } else { self.outputs.len().max(1) };
            let share = |o: usize| o * self.sources.len() / shares..(o + 1) * self.sources.len() / shares;
            // In each share sources are in the order in which kernels read them.
            let sources = (0..shares).map(|o| &self.sources[share(o)]);
            let sources = sources.flat_map(|share| reading_order(share.len()).map(|i| share[i]));
            let all = sources.chain(self.outputs.iter().copied());
            places.iter_mut().zip(all).for_each(|(place, i)| *place = buffers[i].as_mut_ptr());
            let (sources, outputs) = places.split_at(self.sources.len());
            let aligned = outputs.iter().all(|output| output.addr().is_multiple_of(64));
            let how = How { streaming: order.streaming && aligned, adds: self.adds, visit: order.visit };
            let share = |o: usize| {
                let from = &sources[share(o)];
                (from, &outputs[o * outputs.len() / shares..(o + 1) * outputs.len() / shares])
            };
            let sweep = |range: std::ops::Range<usize>, start: usize, end: usize| {
                for (from, to) in range.map(share) {
                    // SAFETY: every pointer is to a buffer of `len >= end` bytes, and outputs are
                    // apart from everything, by the check in `new`.
                    unsafe { sum(from, to, start, end, how) };
                }
            };
            let len = len / 64 * 64;
            if order.in_sequence || order.shared {
                (0..shares).for_each(|o| sweep(o..o + 1, 0, len));
            } else {
                (0..len)
                    .step_by(SLICE_BYTES)
                    .for_each(|start| sweep(0..shares, start, len.min(start + SLICE_BYTES)));
            }
        });
        Ok(())
    }
}

/// The bytes of a buffer that a limit in slices reads at a time.
const SLICE_BYTES: usize = 512;

/// The most sources for which larger visits gain nothing: a line of each fits a set of any
/// first-level cache.
const FEW_SOURCES: usize = 8;

/// The way in which a limit sums.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    allow(dead_code, reason = "no vectors look at all of it here")
)]
struct How {
    /// True if outputs are aligned to 64 bytes and stored past the cache.
    streaming: bool,
    /// As in [`XorLimit`].
    adds: bool,
    /// As in [`LimitOrder`].
    visit: Visit,
}

/// Writes the sum of all sources to every output, from `start` to `end`, both multiples of 64.
///
/// # Safety
///
/// All pointers are valid for `end` bytes, outputs for writes and apart from everything; aligned as
/// `how` says.
unsafe fn sum(from: &[*mut u8], to: &[*mut u8], start: usize, end: usize, how: How) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the caller's promise, and the machine has AVX-512 F.
            return unsafe {
                match how.visit {
                    Visit::Line => x86::sum_avx512::<1>(from, to, start, end, how),
                    Visit::Usual => x86::sum_avx512::<4>(from, to, start, end, how),
                    Visit::Wide => x86::sum_avx512::<8>(from, to, start, end, how),
                }
            };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the caller's promise, and the machine has AVX2.
            return unsafe {
                match how.visit {
                    Visit::Line => x86::sum_avx2::<2>(from, to, start, end, how),
                    Visit::Usual => x86::sum_avx2::<8>(from, to, start, end, how),
                    Visit::Wide => x86::sum_avx2::<16>(from, to, start, end, how),
                }
            };
        }
    }
    for at in (start..end).step_by(64) {
        let mut total = [0u64; 8];
        for source in from {
            // SAFETY: at + 64 <= end.
            let x = unsafe { source.add(at).cast::<[u64; 8]>().read_unaligned() };
            total.iter_mut().zip(x).for_each(|(total, x)| *total ^= x);
        }
        for output in to {
            let target = output.wrapping_add(at).cast::<[u64; 8]>();
            // SAFETY: at + 64 <= end.
            let mut old = if how.adds { unsafe { target.read_unaligned() } } else { [0; 8] };
            old.iter_mut().zip(total).for_each(|(old, x)| *old ^= x);
            // SAFETY: at + 64 <= end.
            unsafe { target.write_unaligned(old) };
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use std::arch::x86_64::*;

    use super::How;

    macro_rules! define_sum {
        ($name:ident, $feature:literal, $bytes:literal, $zero:ident, $load:ident, $store:ident, $stream:ident, $xor:ident) => {
            /// # Safety
            ///
            /// As [`super::sum`], and the machine has the instructions.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name<const C: usize>(
                from: &[*mut u8],
                to: &[*mut u8],
                start: usize,
                end: usize,
                How { streaming, adds, visit: _ }: How,
            ) {
                let mut at = start;
                while end - at >= C * $bytes {
                    let mut total = [$zero(); C];
                    for source in from {
                        for (c, total) in total.iter_mut().enumerate() {
                            // SAFETY: at + C * $bytes <= end.
                            *total = $xor(*total, unsafe { $load(source.add(at + c * $bytes).cast()) });
                        }
                    }
                    for output in to {
                        for (c, &total) in total.iter().enumerate() {
                            // SAFETY: at + C * $bytes <= end, and streamed outputs are aligned.
                            unsafe {
                                let target = output.add(at + c * $bytes);
                                let total = if adds { $xor(total, $load(target.cast())) } else { total };
                                let target = target.cast();
                                if streaming { $stream(target, total) } else { $store(target, total) }
                            }
                        }
                    }
                    at += C * $bytes;
                }
                while at < end {
                    let mut total = $zero();
                    for source in from {
                        // SAFETY: at + 64 <= end.
                        total = $xor(total, unsafe { $load(source.add(at).cast()) });
                    }
                    for output in to {
                        // SAFETY: at + 64 <= end.
                        unsafe {
                            let target = output.add(at);
                            let total = if adds { $xor(total, $load(target.cast())) } else { total };
                            $store(target.cast(), total)
                        };
                    }
                    at += $bytes;
                }
                if streaming {
                    _mm_sfence();
                }
            }
        };
    }

    define_sum!(
        sum_avx512,
        "avx512f",
        64,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_xor_si512
    );
    define_sum!(
        sum_avx2,
        "avx2",
        32,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_xor_si256
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_reads_every_source_and_writes_every_output() {
        let lens: &[usize] = if cfg!(miri) { &[64] } else { &[0, 64, 192, 256, 1024, 4096 + 320] };
        for &len in lens {
            let (k, m) = (10, 3);
            let all: Vec<usize> = (0..k).collect();
            let limit = XorLimit::new(k + m, &all, &[10, 11, 12]);
            let base: Vec<Vec<u8>> =
                (0..k + m).map(|i| (0..len).map(|j| (i * 37 + j % 251) as u8).collect()).collect();
            for (order, adds) in limit
                .orders(0, Stores::Streaming)
                .into_iter()
                .flat_map(|order| [(order, false), (order, true)])
            {
                let limit = XorLimit { adds, ..limit.clone() };
                let mut cells = base.clone();
                let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
                limit.run(order, &mut views).unwrap();
                assert!(cells[..k] == base[..k], "{order:?} writes no source");
                let of = |from: &[usize]| -> Vec<u8> {
                    (0..len).map(|j| from.iter().fold(0, |sum, &i| sum ^ base[i][j])).collect()
                };
                let shares: [&[usize]; 3] =
                    if order.shared { [&all; 3] } else { [&[0, 1, 2], &[3, 4, 5], &[6, 7, 8, 9]] };
                for (o, share) in shares.iter().enumerate() {
                    let mut wanted = of(share);
                    if adds {
                        wanted.iter_mut().zip(&base[k + o]).for_each(|(x, y)| *x ^= y);
                    }
                    assert!(cells[k + o] == wanted, "{order:?}, adds {adds}, length {len}, output {o}");
                }
            }
        }
    }

    #[test]
    fn the_clock_advances_with_work() {
        let before = thread_cpu_ns();
        let mut x = 1u64;
        (0..if cfg!(miri) { 300 } else { 3_000_000u64 })
            .for_each(|i| x = std::hint::black_box(x.wrapping_mul(i | 1)));
        assert!(thread_cpu_ns() > before);
    }
}
