//! Programs of XORs alone, in the form that pays.
//!
//! A program begins as bundles, which take no search ([`crate::bundle`]). It is soon rows, made in microseconds: each sum on its own, what several share once. On columns of packets it is a draft instead: code that takes as long
//! ([`crate::draft`]).
//! Once it has done work enough to be worth more, it is woven: it becomes code of its own ([`crate::braid`], [`crate::straight`]), or, where no code is to be had, grids if there are registers for them
//! ([`crate::weave`]). A pattern of losses that is met once is done before its code would be there; one that is met all day has it after some milliseconds.
//!
//! Invariants: the bytes do not depend on the form; who runs a program never waits for another thread that makes one of its forms.

use crate::braid::Braid;
use crate::bundle::{Bundles, Walk};
use crate::dispatch::{BraidCode, Form, PacketCode, PartsCode, Sweep};
use crate::packets::Packets;
use crate::parts::Parts;
use crate::scratch::with_scratch;
use crate::straight::{Straight, is_dense};
use crate::sums::{SharedSums, Steps};
use crate::terms::are_apart;
use crate::weave::{SLICE_BYTES_MOST, Weave};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes read and written by rows after which a program is woven. That takes 60 us for D-Code(13), most of them the system's for new pages:
/// what code saves over rows in 8 to 12 MiB of chunks of 64 KiB.
const WOVEN_AFTER_BYTES: u64 = 8 << 20;

/// The same on columns of packets, where drafts have done most of it: what is woven takes 50 us for a bit matrix of 6 + 3 columns (w = 4) and 3 ms for one of 16 + 4 (w = 8), and saves up to a fifth, where columns lie on
/// the same sets of a cache up to half.
const WOVEN_AFTER_DRAFTED_BYTES: u64 = 32 << 20;

/// Bytes read and written by bundles, those of the run that is asked for among them, after which there is a draft: what it takes is what it saves by then. Zen 3, us, in packets of 64 bytes, a stripe of chunks of 64 KiB
/// in bundles, as a draft, the draft: crs:6+3,w=4 20, 8, 12; crs:10+4,w=4 42, 15, 20; crs:16+4 119, 40, 94.
const DRAFTED_AFTER_BYTES: u64 = 768 << 10;

/// The same for sums that are not dense, of which bundles make less: rdp:6 9, 5, 8; rdp:18 40, 21, 43; dcode:13 26, 13, 27.
const DRAFTED_SPARSE_AFTER_BYTES: u64 = 2 << 20;

/// Of how many sums, on average, a buffer is at least in dense ones.
const DENSE_TERMS: usize = 3;

/// Bytes read and written by bundles, on buffers in one piece, after which there are rows: a fifth faster on long buffers. First stripes after a loss of two columns, Zen 3, us, plan not included, as rows and as bundles: D-Code(13), chunks of 4 KiB
/// 12, 6; of 64 KiB 27, 29; RDP(18) 17, 8; 42, 47; EVENODD(13) 13, 6; 31, 37.
const ROWS_AFTER_BYTES: u64 = 512 << 10;

/// Below this, all buffers stay in the first-level cache, and reading one twice costs less than a grid: D-Code(13),
/// chunks of 4 KiB, two lost, 59 instead of 49 GB/s.
const ROWS_FOOTPRINT_BYTES: usize = 48 * 1024;

/// Sums compiled for one engine.
#[derive(Debug)]
pub(crate) struct Xor {
    /// Each a target and the buffers whose sum it is, in an order in which they can be done.
    steps: Steps,
    /// Buffers that are read or written.
    streams: usize,
    sweep: Sweep,
    done_bytes: AtomicU64,
    /// The columns that it works on, if buffers are interleaved.
    packets: Option<Packets>,
    sums: OnceLock<SharedSums>,
    rows: OnceLock<Weave>,
    bundles: OnceLock<Bundles>,
    /// For columns of packets: one that stores to the cache, and one that stores past it.
    drafts: [OnceLock<Option<PacketCode>>; 2],
    woven: OnceLock<Woven>,
}

/// What is better than rows, if anything.
#[derive(Debug)]
enum Woven {
    Code(BraidCode),
    /// Code for whole columns of packets; and for parts of them, where they begin at the same place of their pages.
    PacketCode(PacketCode, Option<PartsCode>),
    Grids(Weave),
    Nothing,
}

impl Xor {
    /// `steps`: each a target and the buffers whose sum it is, in an order in which they can be done; they read or write `streams` buffers.
    pub(crate) fn new(steps: Steps, streams: usize, sweep: Sweep) -> Xor {
        Xor {
            steps,
            streams,
            sweep,
            done_bytes: AtomicU64::new(0),
            packets: None,
            sums: OnceLock::new(),
            rows: OnceLock::new(),
            bundles: OnceLock::new(),
            drafts: Default::default(),
            woven: OnceLock::new(),
        }
    }

    fn sums(&self) -> &SharedSums {
        made(&self.sums, || SharedSums::new(&self.steps))
    }

    fn rows(&self) -> &Weave {
        made(&self.rows, || Weave::new(self.sums(), false))
    }

    fn bundles(&self) -> &Bundles {
        made(&self.bundles, || Bundles::new(&self.steps))
    }

    /// Weaves it now.
    pub(crate) fn prepare(&self) {
        match (made(&self.woven, || self.weave()), &self.packets) {
            (Woven::PacketCode(..), _) => {}
            (_, Some(_)) => {
                self.bundles();
            }
            (_, None) => {
                self.rows();
            }
        }
    }

    /// Has what is woven woven for such columns.
    pub(crate) fn lay_out(&mut self, packets: &Packets) {
        self.packets = Some(packets.clone());
        self.drafts = Default::default();
        self.woven = OnceLock::new();
    }

    fn weave(&self) -> Woven {
        let (vectors, sums) = (self.sweep.vectors(), self.sums());
        let has_code = self.sweep.has_code();
        let braid = || Braid::new(sums, vectors);
        if let Some(packets) = &self.packets {
            if !has_code {
                return Woven::Nothing;
            }
            // A line for what is dense, and for what no grid is to be made of. For columns of packets alone: it touches buffers four times and more, and those in one piece that begin at the same place of
            // their pages fight for one set of the first-level cache then. A bit matrix of 10 + 4 columns, 64 KiB, runs at 2 GB/s as a line (16 where columns are staggered) and at 5 as a braid (12).
            let braid = if is_dense(sums) { None } else { braid() };
            let straight = if braid.is_none() { Straight::new(sums, vectors) } else { None };
            let form = braid.as_ref().map(Form::Braid).or(straight.as_ref().map(Form::Straight));
            let Some(code) = form.and_then(|form| self.sweep.packet_code(form, packets)) else {
                return Woven::Nothing;
            };
            let parts = straight.and_then(|_| Parts::new(&sums.steps(), packets));
            let parts = parts.and_then(|parts| self.sweep.parts_code(parts));
            return Woven::PacketCode(code, parts);
        }
        let braid = if has_code { braid() } else { None };
        if let Some(code) = braid.and_then(|braid| self.sweep.code(&braid)) {
            return Woven::Code(code);
        }
        if !self.sweep.has_grids() {
            return Woven::Nothing;
        }
        let grids = Weave::new(sums, true);
        if grids.grids().is_empty() { Woven::Nothing } else { Woven::Grids(grids) }
    }

    /// The form for a run of so many bytes of each buffer; `None` if it is not woven yet.
    fn form(&self, len: usize) -> Option<&Woven> {
        if let Some(woven) = self.woven.get() {
            return Some(woven);
        }
        let bytes = self.streams.saturating_mul(len) as u64;
        let before = self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The run that comes to the limit weaves; others go on as they can until it is done.
        let limit = before..before.saturating_add(bytes);
        let woven_after = if self.packets.is_some() { WOVEN_AFTER_DRAFTED_BYTES } else { WOVEN_AFTER_BYTES };
        if limit.contains(&woven_after) {
            self.prepare();
        }
        self.woven.get()
    }

    /// A draft for columns of packets; `None` while there is too little to do, and if there can be none.
    fn draft(&self, streaming: bool, packets: &Packets) -> Option<&PacketCode> {
        let terms: usize = self.steps.iter().map(|(_, terms)| terms.len()).sum();
        let is_sparse = terms <= DENSE_TERMS * self.streams;
        let after = if is_sparse { DRAFTED_SPARSE_AFTER_BYTES } else { DRAFTED_AFTER_BYTES };
        if self.done_bytes.load(Ordering::Relaxed) < after || !self.sweep.has_code() {
            return None;
        }
        let make = || {
            let line = Straight::draft(&self.steps, self.sweep.vectors())?;
            self.sweep.draft_code(&line, packets, streaming)
        };
        made(&self.drafts[usize::from(streaming)], make).as_ref()
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
        if groups == 0 {
            return;
        }
        let columns = || (0..packets.columns()).map(|c| column(c).cast_const());
        let form = self.form(groups * packets.bytes());
        // What is stored past the cache are whole lines.
        let by_lines = streaming && packets.has_lines(columns());
        let (code, parts) = match form {
            None => (self.draft(by_lines, packets), None),
            Some(Woven::PacketCode(code, parts)) => (Some(code), parts.as_ref()),
            Some(_) => (None, None),
        };
        // SAFETY (both): the caller's promise; code is made for tiers of this machine only, and streams by lines.
        match (code, parts.filter(|_| !streaming && !are_apart(columns()))) {
            (_, Some(parts)) => return unsafe { parts.run(column, groups) },
            (Some(code), None) => return unsafe { code.run(by_lines, column, groups) },
            (None, None) => {}
        }
        let (walks, walk) = packets.walks(groups);
        for group in 0..walks {
            // SAFETY: the caller's promise: a packet lies in its column, and no two overlap.
            unsafe { self.run_bundles(by_lines, walk, packets.group(column, group)) };
        }
    }

    /// Computes every sum by bundles on the bytes of a walk, by where the first packet of each buffer is.
    ///
    /// # Safety
    ///
    /// `buffer(i)` is valid for reads and writes of those bytes and apart from the others, for every buffer of a step; packets are whole lines that begin lines if this is `streaming`.
    unsafe fn run_bundles(&self, streaming: bool, walk: Walk, buffer: impl Fn(usize) -> *mut u8) {
        let bundles = self.bundles();
        with_scratch(bundles.places().len(), 0, |table, _| {
            table.iter_mut().zip(bundles.places()).for_each(|(place, &i)| *place = buffer(i as usize));
            // SAFETY: the caller's promise.
            unsafe { self.sweep.run_bundles(bundles, table, streaming, walk) };
        });
    }

    /// Computes every sum.
    ///
    /// # Safety
    ///
    /// `buffer(i)` is valid for reads and writes of `len` bytes and apart from the others, for every buffer of a step.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8 + Copy, len: usize) {
        let weave = match self.form(len) {
            // SAFETY: the caller's promise; code is made for tiers of this machine only.
            Some(Woven::Code(code)) if len >= code.slice_bytes() => {
                return unsafe { code.run(streaming, buffer, len) };
            }
            Some(Woven::Grids(grids)) if self.streams * len > ROWS_FOOTPRINT_BYTES => grids,
            None if self.done_bytes.load(Ordering::Relaxed) < ROWS_AFTER_BYTES => {
                // SAFETY: the caller's promise.
                return unsafe { self.run_bundles(false, Walk { packets: 1, pitch: 0, bytes: len }, buffer) };
            }
            _ => self.rows(),
        };
        let (buffers, slots) = (weave.buffers(), weave.slots());
        let places = buffers.len() + slots;
        with_scratch(places + weave.cells().len(), slots * SLICE_BYTES_MOST, |pointers, lines| {
            let (table, cells) = pointers.split_at_mut(places);
            let first_slot = lines.as_mut_ptr().cast::<u8>();
            table.iter_mut().zip(buffers).for_each(|(place, &i)| *place = buffer(i));
            table[buffers.len()..]
                .iter_mut()
                .enumerate()
                .for_each(|(i, slot)| *slot = first_slot.wrapping_add(i * SLICE_BYTES_MOST));
            // SAFETY: the caller's promise for the buffers; the slots are ours, and side by side.
            unsafe { self.sweep.run(weave, table, cells, streaming, len) };
        });
    }
}

/// What is there, or is made. Whoever makes it beside us may be first: what either made is as good.
fn made<T>(place: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(made) = place.get() {
        return made;
    }
    let made = make();
    place.get_or_init(|| made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;
    use crate::weave::tests::steps;
    use std::collections::BTreeSet;
    use std::num::NonZeroUsize;

    fn of(steps: Steps, sweep: Sweep) -> Xor {
        let named: BTreeSet<usize> =
            steps.iter().flat_map(|(target, terms)| terms.iter().chain([target])).copied().collect();
        Xor::new(steps, named.len(), sweep)
    }

    #[test]
    fn packets_have_code_whatever_their_sums_are() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        // A grid, and one sum alone with a copy: nothing meets.
        for steps in [steps(4, 7, false), vec![(8, (0..7).collect()), (9, vec![7])]] {
            let mut xor = of(steps, sweep);
            let buffers = xor.streams;
            if matches!(xor.weave(), Woven::Nothing) && buffers > 20 {
                return println!("this system lets nothing be executed that was written: left out");
            }
            let bytes = NonZeroUsize::new(128).unwrap();
            xor.lay_out(&Packets::new(&[buffers], bytes).unwrap());
            assert!(matches!(xor.weave(), Woven::PacketCode(..)));
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn columns_that_begin_at_one_place_of_their_pages_are_taken_in_parts() {
        use crate::arch::x86_64::{Kind, tests::on};
        let Some(sweep) = Sweep::new(Tier::Avx2) else {
            return println!("this machine has no AVX2: left out");
        };
        // Few columns, and what leaves more sums than stay near, are taken all at once.
        for (k, m, rows, groups, bytes, wanted_in_parts) in [
            (6, 3, 8, 3, 64, false),
            (8, 3, 8, 1, 64, true),
            (10, 4, 8, 7, 64, true),
            (11, 4, 3, 19, 128, true),
            (16, 4, 8, 4, 64, true),
            (16, 4, 8, 2, 256, false),
        ] {
            let what = format!("{k} + {m} columns of {rows}, {groups} groups of {bytes} bytes");
            let packets = Packets::new(&vec![rows; k + m], NonZeroUsize::new(bytes).unwrap()).unwrap();
            let pitch = (packets.group_bytes(0) * groups).next_multiple_of(4096);
            let mut memory = vec![0u8; (k + m) * pitch + 4096];
            let begin = memory.as_ptr().align_offset(4096);
            let columns = &mut memory[begin..][..(k + m) * pitch];
            let mut run = |xor: &Xor| {
                columns.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * i / 7 % 251) as u8);
                let base = columns.as_mut_ptr();
                // SAFETY: columns lie side by side, and hold that many groups.
                unsafe { xor.run_packets(false, &packets, |c| base.wrapping_add(c * pitch), groups) };
                columns.to_vec()
            };
            let mut xor = of(crate::parts::tests::dense(k, m, rows), sweep);
            xor.lay_out(&packets);
            let wanted = run(&xor);
            on(Kind::Zen3, || xor.prepare());
            assert!(run(&xor) == wanted, "{what}");
            match xor.woven.get() {
                Some(Woven::PacketCode(_, parts)) => assert_eq!(parts.is_some(), wanted_in_parts, "{what}"),
                _ => println!("this system lets nothing be executed that was written: left out"),
            }
        }
    }

    #[test]
    fn bundles_and_rows_give_the_same_sums_at_all_lengths() {
        for sweep in Tier::available().into_iter().filter_map(Sweep::new) {
            for steps in [steps(4, 7, false), steps(3, 4, true), crate::parts::tests::dense(3, 2, 3)] {
                let (content, wanted) = crate::weave::tests::contents(&steps);
                for len in (0..300usize).chain([1000, 4096]) {
                    let stride = (len + 1).next_multiple_of(64) + 64;
                    let shift = if len % 3 == 0 { 0 } else { len % 64 };
                    let filled = |cells: &[[u8; 3]], memory: &mut Vec<u8>, start: usize| {
                        for (i, cell) in cells.iter().enumerate() {
                            let bytes = &mut memory[start + i * stride..][..len];
                            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = cell[at % 3]);
                        }
                    };
                    for (before, has_rows) in [(0, false), (ROWS_AFTER_BYTES, true)] {
                        let mut memory = vec![0x33; content.len() * stride + 128];
                        let start = memory.as_ptr().align_offset(64) + shift;
                        let mut wanted_memory = memory.clone();
                        filled(&wanted, &mut wanted_memory, start);
                        filled(&content, &mut memory, start);
                        let base = memory[start..].as_mut_ptr();
                        let xor = of(steps.clone(), sweep);
                        xor.done_bytes.store(before, Ordering::Relaxed);
                        // SAFETY: buffers lie side by side, and are as long.
                        unsafe { xor.run(len % 2 == 0, |i| base.wrapping_add(i * stride), len) };
                        assert!(memory == wanted_memory, "{sweep:?}, {len} bytes, rows: {has_rows}");
                        let made = (xor.bundles.get().is_some(), xor.rows.get().is_some());
                        assert_eq!(made, (!has_rows, has_rows));
                    }
                }
            }
        }
    }

    #[test]
    fn bundles_and_drafts_give_the_same_sums_wherever_columns_begin_and_however_they_are_stored() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        let dense = (crate::parts::tests::dense(6, 3, 8), 9, 8, DRAFTED_AFTER_BYTES);
        // A grid whose sums go to columns of their own.
        let grid = (steps(9, 9, false), 12, 9, DRAFTED_SPARSE_AFTER_BYTES);
        for (steps, columns, rows, after) in [dense, grid] {
            for (packet, groups, shift, streaming) in [
                (64, 20, 0, false),
                (64, 4, 0, false),
                (512, 3, 0, false),
                (64, 20, 0, true),
                (64, 19, 32, true),
                (128, 11, 8, true),
                (32, 40, 0, true),
                (96, 5, 0, true),
                (7, 9, 1, false),
            ] {
                let what = format!(
                    "{columns} columns of {rows}, packets of {packet}, {shift} bytes on, {streaming}"
                );
                let packets = Packets::new(&vec![rows; columns], NonZeroUsize::new(packet).unwrap()).unwrap();
                let pitch = (packets.group_bytes(0) * groups).next_multiple_of(64) + 256;
                let mut memory = vec![0u8; columns * pitch + 128];
                let begin = memory.as_ptr().align_offset(64) + shift;
                let mut after_run = |run: &dyn Fn(*mut u8)| {
                    memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * i / 7 % 251) as u8);
                    run(memory[begin..].as_mut_ptr());
                    memory.clone()
                };
                // Sum by sum, each packet on its own.
                let rows = of(steps.clone(), sweep);
                rows.done_bytes.store(ROWS_AFTER_BYTES, Ordering::Relaxed);
                let wanted = after_run(&|base| {
                    for group in 0..groups {
                        let buffer = packets.group(|c| base.wrapping_add(c * pitch), group);
                        // SAFETY: columns lie side by side, and hold that many groups.
                        unsafe { rows.run(false, buffer, packet) };
                    }
                });
                let mut xor = of(steps.clone(), sweep);
                xor.lay_out(&packets);
                let run = |base: *mut u8| {
                    // SAFETY: as above.
                    unsafe { xor.run_packets(streaming, &packets, |c| base.wrapping_add(c * pitch), groups) };
                };
                assert!(after_run(&run) == wanted, "{what}: as bundles");
                let made = || xor.drafts.each_ref().map(|draft| matches!(draft.get(), Some(Some(_))));
                assert_eq!(made(), [false, false], "{what}: too little for a draft");
                xor.done_bytes.store(after, Ordering::Relaxed);
                assert!(after_run(&run) == wanted, "{what}");
                assert!(xor.woven.get().is_none(), "{what}");
                match (made(), packet % sweep.vectors().bytes()) {
                    ([false, false], 0) => {
                        println!("this system lets nothing be executed that was written: left out")
                    }
                    (made, 0) => {
                        let streams = streaming && packet % 64 == 0 && shift == 0;
                        assert_eq!(made, [!streams, streams], "{what}: whole lines go past the cache");
                    }
                    (made, _) => assert_eq!(made, [false, false], "{what}: packets are no whole slices"),
                }
            }
        }
    }

    #[test]
    fn a_program_is_woven_by_the_run_that_makes_it_worth() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        let xor = || of(steps(4, 7, false), sweep);
        if matches!(xor().weave(), Woven::Nothing) {
            return println!("this system lets nothing be executed that was written: left out");
        }
        let (first, xor) = (xor(), xor());
        let len = WOVEN_AFTER_BYTES as usize / xor.streams / 2;
        assert!(xor.form(len).is_none() && xor.woven.get().is_none());
        assert!(xor.form(len).is_none() && xor.woven.get().is_none());
        assert!(xor.form(len).is_some() && xor.woven.get().is_some());
        // A first run that is large enough does not wait for a second.
        assert!(first.form(3 * len).is_some());
    }
}
