//! Programs of XORs alone, in the form that is fastest for their use.
//!
//! A program first runs as rows, which are made in microseconds: each sum by itself, and common
//! parts of several sums once ([`crate::xor_rows`]). After enough work it becomes machine code, if
//! the system permits ([`crate::code`]). A recovery that runs once ends before its code would be
//! ready; one that runs repeatedly has code after some milliseconds.
//!
//! Invariants: the bytes do not depend on the form; a run never waits for a form that another
//! thread makes.

use crate::code::Code;
use crate::dispatch::Sweep;
use crate::packets::Packets;
use crate::scratch::with_scratch;
use crate::sums::{SharedSums, Steps};
use crate::xor_rows::{SLICE_BYTES_MOST, XorRows};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes read and written by rows after which code is made. Making code takes 60 us for
/// D-Code(13), most of it in the system for new pages. Code saves as much time over rows in 8 to 12
/// MiB, with chunks of 64 KiB.
const CODE_AFTER_BYTES: u64 = 8 << 20;

/// Sums compiled for one engine.
#[derive(Debug)]
pub(crate) struct Xor {
    /// The targets, each with the buffers of which it is the sum, in an order in which they can be
    /// computed.
    steps: Steps,
    /// The number of buffers that are read or written.
    streams: usize,
    sweep: Sweep,
    done_bytes: AtomicU64,
    /// The layout of columns, if buffers are interleaved.
    packets: Option<Packets>,
    sums: OnceLock<SharedSums>,
    rows: OnceLock<XorRows>,
    /// `None` if the system forbids execution of written memory, or there is no code for such sums.
    code: OnceLock<Option<Code>>,
}

impl Xor {
    /// Prepares `steps`: targets, each with the buffers of which it is the sum, in an order in
    /// which they can be computed. They read or write `streams` buffers.
    pub(crate) fn new(steps: Steps, streams: usize, sweep: Sweep) -> Xor {
        Xor {
            steps,
            streams,
            sweep,
            done_bytes: AtomicU64::new(0),
            packets: None,
            sums: OnceLock::new(),
            rows: OnceLock::new(),
            code: OnceLock::new(),
        }
    }

    fn sums(&self) -> &SharedSums {
        get_or_make(&self.sums, || SharedSums::new(&self.steps))
    }

    fn rows(&self) -> &XorRows {
        get_or_make(&self.rows, || XorRows::new(self.sums()))
    }

    /// Makes the code of the program now, or its rows if there is no code.
    pub(crate) fn prepare(&self) {
        if get_or_make(&self.code, || self.make_code()).is_none() {
            self.rows();
        }
    }

    /// Sets the layout of columns for which code is made.
    pub(crate) fn lay_out(&mut self, packets: &Packets) {
        self.packets = Some(packets.clone());
        self.code = OnceLock::new();
    }

    fn make_code(&self) -> Option<Code> {
        if !Code::is_possible() {
            return None;
        }
        Code::new(self.sums(), self.sweep.tier(), self.packets.as_ref())
    }

    /// Returns the code for a run of `len` bytes of each buffer, if it is ready.
    fn code(&self, len: usize) -> Option<&Code> {
        if let Some(code) = self.code.get() {
            return code.as_ref();
        }
        let bytes = self.streams.saturating_mul(len) as u64;
        let before = self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The run that reaches the limit makes the code; other threads continue with rows until it
        // is ready.
        let limit = before..before.saturating_add(bytes);
        if limit.contains(&CODE_AFTER_BYTES) {
            self.prepare();
        }
        self.code.get()?.as_ref()
    }

    /// Computes every sum on `groups` packets of every buffer.
    ///
    /// # Safety
    ///
    /// As [`Program::run_packets`](crate::Program), for the packets that this was laid out for.
    pub(crate) unsafe fn run_packets(
        &self,
        streaming: bool,
        packets: &Packets,
        column: impl Fn(usize) -> *mut u8 + Copy,
        groups: usize,
    ) {
        assert!(self.packets.as_ref() == Some(packets), "code is made for other columns");
        let code = self.code(groups * packets.bytes());
        if let Some(code) = code.filter(|code| code.is_of_packets()) {
            let columns = (0..packets.columns()).map(|c| column(c).cast_const());
            // Stores past the cache are whole lines.
            let by_lines = streaming && packets.has_lines(columns);
            // SAFETY: the caller's promise; code is made for tiers of this machine only, and
            // streams by lines.
            return unsafe { code.run_packets(by_lines, column, groups) };
        }
        for group in 0..groups {
            // SAFETY: the caller's promise: a packet lies in its column, and no two overlap.
            unsafe { self.run_rows(streaming, packets.group(column, group), packets.bytes()) };
        }
    }

    /// Computes every sum.
    ///
    /// # Safety
    ///
    /// `buffer(i)` is valid for reads and writes of `len` bytes and apart from the others, for
    /// every buffer of a step.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8 + Copy, len: usize) {
        match self.code(len) {
            Some(code) if code.is_of_pieces(len) => {
                // SAFETY: the caller's promise; code is made for tiers of this machine only.
                unsafe { code.run(streaming, buffer, len) };
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.run_rows(streaming, buffer, len) },
        }
    }

    /// # Safety
    ///
    /// As `run`.
    unsafe fn run_rows(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8 + Copy, len: usize) {
        let rows = self.rows();
        let (buffers, slots) = (rows.buffers(), rows.slots());
        with_scratch(buffers.len() + slots, slots * SLICE_BYTES_MOST, |table, lines| {
            let first_slot = lines.as_mut_ptr().cast::<u8>();
            table.iter_mut().zip(buffers).for_each(|(place, &i)| *place = buffer(i));
            table[buffers.len()..]
                .iter_mut()
                .enumerate()
                .for_each(|(i, slot)| *slot = first_slot.wrapping_add(i * SLICE_BYTES_MOST));
            // SAFETY: the caller's promise for the buffers; the slots are ours, and side by side.
            unsafe { self.sweep.run(rows, table, streaming, len) };
        });
    }
}

/// Returns the stored value, or makes it. If another thread stores one first, that one is returned.
fn get_or_make<T>(place: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(made) = place.get() {
        return made;
    }
    let made = make();
    place.get_or_init(|| made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum_graph::tests::{contents, dense, steps};
    use crate::tier::Tier;
    use std::collections::BTreeSet;
    use std::num::NonZeroUsize;

    fn of(steps: Steps, sweep: Sweep) -> Xor {
        let named: BTreeSet<usize> =
            steps.iter().flat_map(|(target, terms)| terms.iter().chain([target])).copied().collect();
        Xor::new(steps, named.len(), sweep)
    }

    fn no_code() {
        println!("this system lets nothing be executed that was written: left out");
    }

    #[test]
    fn packets_have_code_whatever_their_sums_are() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        if !Code::is_possible() {
            return no_code();
        }
        // A grid of sums, and a single sum with a copy that has no common buffer.
        for steps in [steps(4, 7, false), vec![(8, (0..7).collect()), (9, vec![7])]] {
            let mut xor = of(steps, sweep);
            let bytes = NonZeroUsize::new(128).unwrap();
            xor.lay_out(&Packets::new(&[xor.streams], bytes).unwrap());
            assert!(xor.make_code().is_some_and(|code| code.is_of_packets()));
        }
    }

    #[test]
    fn rows_give_the_sums_at_all_lengths_and_places() {
        for sweep in Tier::available().into_iter().filter_map(Sweep::new) {
            for steps in [steps(4, 7, false), steps(3, 4, true), dense(3, 2, 3)] {
                let (content, wanted) = contents(&steps);
                let xor = of(steps, sweep);
                for len in (0..300usize).chain([1000, 4096]) {
                    let stride = (len + 1).next_multiple_of(64) + 64;
                    let shift = if len % 3 == 0 { 0 } else { len % 64 };
                    let filled = |cells: &[[u8; 3]], memory: &mut Vec<u8>, start: usize| {
                        for (i, cell) in cells.iter().enumerate() {
                            let bytes = &mut memory[start + i * stride..][..len];
                            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = cell[at % 3]);
                        }
                    };
                    let mut memory = vec![0x33; content.len() * stride + 128];
                    let start = memory.as_ptr().align_offset(64) + shift;
                    let mut wanted_memory = memory.clone();
                    filled(&wanted, &mut wanted_memory, start);
                    filled(&content, &mut memory, start);
                    let base = memory[start..].as_mut_ptr();
                    // SAFETY: buffers lie side by side, and are as long.
                    unsafe { xor.run_rows(len % 2 == 0, |i| base.wrapping_add(i * stride), len) };
                    assert!(memory == wanted_memory, "{sweep:?}, {len} bytes");
                }
            }
        }
    }

    #[test]
    fn code_for_packets_gives_what_rows_give_wherever_columns_begin_and_however_they_are_stored() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        if !Code::is_possible() {
            return no_code();
        }
        // Dense sums, and a grid whose sums are in separate columns.
        for (steps, columns, rows) in [(dense(6, 3, 8), 9, 8), (steps(9, 9, false), 12, 9)] {
            for (packet, groups, shift, streaming) in [
                (64, 20, 0, false),
                (128, 4, 0, false),
                (512, 3, 0, false),
                (128, 20, 0, true),
                (128, 19, 32, true),
                (128, 11, 8, true),
                (256, 40, 0, true),
                (7, 9, 1, false),
            ] {
                let what = format!(
                    "{columns} columns of {rows}, packets of {packet}, {shift} bytes on, {streaming}"
                );
                let packets = Packets::new(&vec![rows; columns], NonZeroUsize::new(packet).unwrap()).unwrap();
                let pitch = (packets.group_bytes(0) * groups).next_multiple_of(64) + 256;
                let mut memory = vec![0u8; columns * pitch + 128];
                let begin = memory.as_ptr().align_offset(64) + shift;
                let mut after_run = |xor: &Xor| {
                    memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * i / 7 % 251) as u8);
                    let base = memory[begin..].as_mut_ptr();
                    // SAFETY: columns are side by side, and hold this number of groups.
                    unsafe { xor.run_packets(streaming, &packets, |c| base.wrapping_add(c * pitch), groups) };
                    memory.clone()
                };
                let mut xor = of(steps.clone(), sweep);
                xor.lay_out(&packets);
                let wanted = after_run(&xor);
                assert!(xor.code.get().is_none(), "{what}: too little for code");
                xor.prepare();
                assert!(after_run(&xor) == wanted, "{what}");
                let slice = if sweep.tier() == Tier::Avx512Gfni { 128 } else { 64 };
                let has_code = matches!(xor.code.get(), Some(Some(_)));
                assert!(has_code || packet % slice != 0, "{what}: packets of whole slices have code");
                assert!(packet != 7 || !has_code, "{what}: packets of no whole slices have none");
            }
        }
    }

    #[test]
    fn the_run_that_makes_code_worth_it_makes_it() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        if !Code::is_possible() {
            return no_code();
        }
        let xor = || of(steps(4, 7, false), sweep);
        let (first, xor) = (xor(), xor());
        let len = CODE_AFTER_BYTES as usize / xor.streams / 2;
        assert!(xor.code(len).is_none() && xor.code.get().is_none());
        assert!(xor.code(len).is_none() && xor.code.get().is_none());
        assert!(xor.code(len).is_some() && xor.code.get().is_some());
        // A first run that is large enough makes code at once, not only in a second run.
        assert!(first.code(3 * len).is_some());
    }
}
