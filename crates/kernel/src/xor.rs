//! Programs of XORs alone, in the form that pays.
//!
//! A program begins as rows: made in microseconds, each sum on its own. On columns of packets it is soon a draft: code that takes some microseconds more ([`crate::draft`]).
//! Once it has done work enough to be worth more, it is woven: it becomes code of its own ([`crate::braid`], [`crate::straight`]), or, where no code is to be had, grids if there are registers for them
//! ([`crate::weave`]). A pattern of losses that is met once is done before its code would be there; one that is met all day has it after some milliseconds.
//!
//! Invariants: the bytes do not depend on the form; who runs a program never waits for another thread that makes one of its forms.

use crate::braid::Braid;
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

/// Bytes read and written by rows, those of the run that is asked for among them, after which there is a draft. Of a bit matrix of 6 + 3 columns (w = 4) it takes 11 us, and what it does runs at 70 GB/s
/// in packets of 64 bytes on a Zen 3; rows take 9 us, and run at 15.
const DRAFTED_AFTER_BYTES: u64 = 32 << 10;

/// The same for packets of [`LONG_PACKET_BYTES`] and more, which rows take well: first stripes of 64 KiB after a loss, packets of 512 bytes, D-Code(13), X-Code(13), RDP(14), as rows 0.18 to 0.23 of the limit, drafted at once 0.11 to 0.16; of 128 bytes 0.15 to
/// 0.18, and 0.15 to 0.22.
const DRAFTED_LONG_AFTER_BYTES: u64 = 2 << 20;

const LONG_PACKET_BYTES: usize = 512;

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

    /// Weaves it now.
    pub(crate) fn prepare(&self) {
        if let Woven::Nothing | Woven::Grids(_) | Woven::Code(_) = made(&self.woven, || self.weave()) {
            self.rows();
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
        let braid = || Braid::new(sums, vectors);
        if let Some(packets) = &self.packets {
            // A line for what is dense, and for what no grid is to be made of. For columns of packets alone: it touches buffers four times and more, and those in one piece that begin at the same place of
            // their pages fight for one set of the first-level cache then. A bit matrix of 10 + 4 columns, 64 KiB, runs at 2 GB/s as a line (16 where columns are staggered) and at 5 as a braid (12).
            let braid = if is_dense(sums) { None } else { braid() };
            let straight = if braid.is_none() { Straight::new(sums, vectors) } else { None };
            let form = braid.as_ref().map(Form::Braid).or(straight.as_ref().map(Form::Straight));
            if let Some(code) = form.and_then(|form| self.sweep.packet_code(form, packets)) {
                let parts = straight.and_then(|_| Parts::new(&sums.steps(), packets));
                let parts = parts.and_then(|parts| self.sweep.parts_code(parts));
                return Woven::PacketCode(code, parts);
            }
        }
        if let Some(code) = braid().and_then(|braid| self.sweep.code(&braid)) {
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
        let is_long = packets.bytes() >= LONG_PACKET_BYTES;
        let after = if is_long { DRAFTED_LONG_AFTER_BYTES } else { DRAFTED_AFTER_BYTES };
        if self.done_bytes.load(Ordering::Relaxed) < after {
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
        let columns = || (0..packets.columns()).map(|c| column(c).cast_const());
        let form = self.form(groups * packets.bytes());
        // Code that stores past the cache stores whole lines.
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
        let form = form.unwrap_or(&Woven::Nothing);
        for group in 0..groups {
            // SAFETY: the caller's promise: a packet lies in its column, and no two overlap.
            unsafe { self.run_as(form, streaming, packets.group(column, group), packets.bytes()) };
        }
    }

    /// Computes every sum.
    ///
    /// # Safety
    ///
    /// `buffer(i)` is valid for reads and writes of `len` bytes and apart from the others, for every buffer of a step.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8 + Copy, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.run_as(self.form(len).unwrap_or(&Woven::Nothing), streaming, buffer, len) };
    }

    /// # Safety
    ///
    /// As `run`.
    unsafe fn run_as(
        &self,
        form: &Woven,
        streaming: bool,
        buffer: impl Fn(usize) -> *mut u8 + Copy,
        len: usize,
    ) {
        let weave = match form {
            // SAFETY: the caller's promise; code is made for tiers of this machine only.
            Woven::Code(code) if len >= code.slice_bytes() => {
                return unsafe { code.run(streaming, buffer, len) };
            }
            Woven::Grids(grids) if self.streams * len > ROWS_FOOTPRINT_BYTES => grids,
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
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn a_draft_gives_the_same_sums_wherever_columns_begin_and_however_it_stores() {
        let Some(sweep) = Sweep::new(Tier::best()) else {
            return println!("this machine has no vectors: left out");
        };
        let dense = || (crate::parts::tests::dense(6, 3, 8), 9, 8);
        // A grid whose sums go to columns of their own.
        let grid = || (steps(9, 9, false), 12, 9);
        for (steps, columns, rows) in [dense(), grid()] {
            let buffers = 1 + steps.iter().flat_map(|(to, terms)| terms.iter().chain([to])).max().unwrap();
            let columns = buffers.div_ceil(rows).max(columns);
            for (packet, groups, shift, streaming) in [
                (64, 20, 0, false),
                (64, 4, 0, false),
                (512, 3, 0, false),
                (64, 20, 0, true),
                (64, 19, 32, true),
                (128, 11, 8, true),
                (32, 40, 0, true),
            ] {
                let what = format!(
                    "{columns} columns of {rows}, packets of {packet}, {shift} bytes on, {streaming}"
                );
                let packets = Packets::new(&vec![rows; columns], NonZeroUsize::new(packet).unwrap()).unwrap();
                let pitch = packets.group_bytes(0) * groups + 256;
                let mut memory = vec![0u8; columns * pitch + 128];
                let begin = memory.as_ptr().align_offset(64) + shift;
                let mut run = |xor: &Xor| {
                    memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * i / 7 % 251) as u8);
                    let base = memory[begin..].as_mut_ptr();
                    // SAFETY: columns lie side by side, and hold that many groups.
                    unsafe { xor.run_packets(streaming, &packets, |c| base.wrapping_add(c * pitch), groups) };
                    memory.clone()
                };
                let mut xor = of(steps.clone(), sweep);
                xor.lay_out(&packets);
                assert!(xor.streams * packet * groups < WOVEN_AFTER_BYTES as usize / 3);
                // As rows first, for what was counted is not enough.
                let wanted = {
                    let mut rows = of(steps.clone(), sweep);
                    rows.lay_out(&packets);
                    rows.drafts.iter().for_each(|draft| assert!(draft.set(None).is_ok()));
                    run(&rows)
                };
                assert!(run(&xor) == wanted, "{what}");
                let after =
                    if packet < 512 { DRAFTED_AFTER_BYTES } else { DRAFTED_LONG_AFTER_BYTES } as usize;
                if xor.streams * packet * groups < after {
                    assert!(xor.drafts.iter().all(|draft| draft.get().is_none()), "{what}");
                    for _ in 0..after / (xor.streams * packet * groups) {
                        assert!(run(&xor) == wanted, "{what}");
                    }
                }
                assert!(xor.woven.get().is_none(), "{what}");
                let made = xor.drafts.each_ref().map(|draft| matches!(draft.get(), Some(Some(_))));
                let slice = sweep.vectors().bytes();
                match (made, packet % slice) {
                    ([false, false], 0) => {
                        println!("this system lets nothing be executed that was written: left out")
                    }
                    (_, 0) => {
                        let streams = streaming && packet % 64 == 0 && shift == 0;
                        assert_eq!(made, [!streams, streams], "{what}: whole lines go past the cache");
                    }
                    _ => assert_eq!(made, [false, false], "{what}: packets are no whole slices"),
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
