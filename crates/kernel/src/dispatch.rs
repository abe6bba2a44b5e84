//! From a tier to the program that runs on it. Another instruction set is one variant more.

use crate::arch::native::{self, *};
use crate::change::Change;
use crate::packets::{SpreadLoop, Walk};
use crate::portable;
use crate::schedule::Schedule;
use crate::solve::Solve;
use crate::stores::Mode;
use crate::system::System;
use crate::tier::Tier;
use crate::word_maps::WordMaps;
use crate::xor_rows::{self, XorRows};

/// Makes a value with the engine of a tier; `None` for the portable tier, or if this machine lacks
/// the engine. For functions that return an option.
macro_rules! made_by_engine {
    ($tier:expr, $kind:ident, $engine:ident => $made:expr) => {
        for_engines!(made_by_one_of($tier, $kind, $engine => $made))
    };
}

macro_rules! made_by_one_of {
    ([$($name:ident)*] $tier:expr, $kind:ident, $engine:ident => $made:expr) => {
        match $tier {
            $(tier if tier == $name::TIER => {
                let $engine = $name::new()?;
                Some($kind::$name($made))
            })*
            _ => None,
        }
    };
}

/// Uses a value that some engine made, or the portable tier if it makes such values.
macro_rules! with_made {
    ($made:expr, $kind:ident $(or $portable:ident)?, $it:ident => $done:expr) => {
        for_engines!(with_made_by_one_of($made, $kind $(or $portable)?, $it => $done))
    };
}

macro_rules! with_made_by_one_of {
    ([$($name:ident)*] $made:expr, $kind:ident $(or $portable:ident)?, $it:ident => $done:expr) => {
        match $made {
            $($kind::$portable($it) => $done,)?
            $($kind::$name($it) => $done,)*
        }
    };
}

/// Defines a value made by the engine of a tier: a variant for each engine, and one for the
/// portable tier if it makes such values.
macro_rules! define_made {
    ([$($name:ident)*] $(#[$doc:meta])* $kind:ident of $made:ident $(or $portable:ty)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $kind {
            $(Portable($portable),)?
            $($name($made<$name>),)*
        }
    };
}

#[cfg(feature = "fft")]
mod transforms;

#[cfg(feature = "fft")]
pub(crate) use transforms::{Flight, Transform};

type BoxedSolve<E> = Box<Solve<E>>;

for_engines! { define_made(
    /// A matrix compiled for one tier.
    Program of Schedule or portable::Rows
) }

impl Program {
    /// Compiles tidy rows; `None` if this machine lacks the tier.
    pub(crate) fn new(tier: Tier, rows: &[Vec<(usize, u8)>]) -> Option<Program> {
        match tier {
            Tier::Portable => Some(Program::Portable(portable::Rows::new(rows))),
            _ => made_by_engine!(tier, Program, engine => Schedule::new(engine, rows)),
        }
    }

    /// True if all outputs are computed in one sweep over their sources.
    pub(crate) fn is_one_pass(&self) -> bool {
        with_made!(self, Program or Portable, it => it.is_one_pass())
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// `source(s)` for every source of a row and `output(o)` for every row are valid for reads and
    /// for writes of `len` bytes; outputs overlap neither sources nor one another, and are
    /// initialised if `mode` accumulates.
    pub(crate) unsafe fn run(
        &self,
        mode: Mode,
        streaming: bool,
        source: impl Fn(usize) -> *const u8,
        output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        // SAFETY: the promises of every program are the caller's here.
        with_made!(self, Program or Portable, it => unsafe { it.run(mode, streaming, source, output, len) })
    }
}

for_engines! { define_made(
    /// A system compiled for one tier.
    Solver of BoxedSolve
) }

impl Solver {
    /// `None` if the tier has no kernel for the system, or this machine not the tier.
    pub(crate) fn new(tier: Tier, system: &System<'_>) -> Option<Solver> {
        made_by_engine!(tier, Solver, engine => Solve::new(engine, system)?)
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As `Solve::run`.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        with_made!(self, Solver, solve => unsafe { solve.run(streaming, buffer, len) })
    }
}

for_engines! { define_made(
    /// A change compiled for one tier.
    Changer of Change
) }

impl Changer {
    /// Returns `None` if the tier has no kernel for this number of targets, or this machine not the
    /// tier.
    pub(crate) fn new(tier: Tier, targets: &[(usize, u8)]) -> Option<Changer> {
        made_by_engine!(tier, Changer, engine => Change::new(engine, targets)?)
    }

    /// Carries it out.
    ///
    /// # Safety
    ///
    /// As `Change::run`.
    pub(crate) unsafe fn run(
        &self,
        changed: *mut u8,
        new: *const u8,
        target: impl Fn(usize) -> *mut u8,
        len: usize,
    ) {
        // SAFETY: the caller's promise.
        with_made!(self, Changer, change => unsafe { change.run(changed, new, target, len) })
    }
}

for_engines! { define_made(
    /// A linear map of words compiled for one tier.
    MappedWords of WordMaps
) }

impl MappedWords {
    /// Returns `None` if the tier has no loops over such words, or this machine not the tier.
    pub(crate) fn new(tier: Tier, images: &[u32]) -> Option<MappedWords> {
        made_by_engine!(tier, MappedWords, engine => WordMaps::new(engine, images)?)
    }

    /// Maps words and splits them into rows; returns how many.
    ///
    /// # Safety
    ///
    /// As `WordMaps::split`.
    pub(crate) unsafe fn split(&self, words: *const u8, rows: *mut u8, pitch: usize) -> usize {
        // SAFETY: the caller's promise.
        with_made!(self, MappedWords, maps => unsafe { maps.split(words, rows, pitch) })
    }

    /// Joins rows to words and maps these; returns how many.
    ///
    /// # Safety
    ///
    /// As `WordMaps::join`.
    pub(crate) unsafe fn join(&self, rows: *const u8, words: *mut u8, pitch: usize) -> usize {
        // SAFETY: the caller's promise.
        with_made!(self, MappedWords, maps => unsafe { maps.join(rows, words, pitch) })
    }
}

macro_rules! is_one_of {
    ([$($name:ident)*] $tier:expr) => {
        [$($name::TIER == $tier && $name::new().is_some()),*].contains(&true)
    };
}

/// True if this machine can run the tier.
pub(crate) fn is_available(tier: Tier) -> bool {
    tier == Tier::Portable || for_engines!(is_one_of(tier))
}

pub(crate) use native::horner_engine;

/// Runs programs of XORs with the vectors of one tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    tier: Tier,
}

/// Gives each loop, the widest first, the slices of its width that others have left of every
/// packet; returns the start of the bytes that no loop takes.
fn by_width<L: Copy>(loops: &[(L, usize)], walk: Walk, mut run: impl FnMut(L, usize, Walk)) -> usize {
    let mut from = 0;
    for &(each, width) in loops {
        let bytes = (walk.bytes - from) / width * width;
        if bytes > 0 {
            run(each, from, Walk { bytes, ..walk });
            from += bytes;
        }
    }
    from
}

impl Sweep {
    /// `None` if the tier has no loops over rows, or this machine not the tier.
    pub(crate) fn new(tier: Tier) -> Option<Sweep> {
        (!native::row_loops(tier, false).is_empty() && is_available(tier)).then_some(Sweep { tier })
    }

    /// The tier whose vectors it has.
    pub(crate) fn tier(self) -> Tier {
        self.tier
    }

    /// Computes every sum on `len` bytes of every buffer.
    ///
    /// # Safety
    ///
    /// The table has the places of the rows. Every buffer is valid for reads and writes of `len`
    /// bytes and apart from the others, every slot for `SLICE_BYTES_MOST`.
    pub(crate) unsafe fn run(self, rows: &XorRows, table: &mut [*mut u8], streaming: bool, len: usize) {
        let narrowest = native::row_loops(self.tier, false).last();
        let vector = narrowest.map_or(1, |&(_, bytes)| bytes);
        let streaming =
            streaming && rows.last_goals().all(|to| table[to as usize].addr().is_multiple_of(vector));
        let mut left = len;
        for &(sweep, bytes) in native::row_loops(self.tier, streaming) {
            let visits = left / bytes;
            if visits > 0 {
                // SAFETY: the caller's promise; the tier is available, and alignment was looked at.
                unsafe { sweep(rows, table, visits) };
                left -= visits * bytes;
            }
        }
        if streaming {
            native::cpu::fence();
        }
        if left > 0 {
            // SAFETY: the caller's promise; the table stands at the bytes that are left, fewer than
            // a vector has.
            unsafe { xor_rows::run_bytes(rows, table, left) };
        }
    }

    /// Replaces the old content by the new, and adds the difference to each target, on the bytes of
    /// a walk. `new` has the packets one after another.
    ///
    /// # Safety
    ///
    /// The changed buffer and the targets are valid for reads and writes of those bytes, and apart
    /// from one another and from `new`, which has the same number.
    pub(crate) unsafe fn spread(self, changed: *mut u8, targets: &[*mut u8], new: *const u8, walk: Walk) {
        let loops: &[(SpreadLoop, usize)] = native::spread_loops(self.tier);
        // SAFETY: the caller's promise; the tier is available.
        let from = by_width(loops, walk, |spread, from, part| unsafe {
            spread(changed, targets, (new, walk.bytes), from, part);
        });
        for (packet, byte) in
            (0..walk.packets).flat_map(|packet| (from..walk.bytes).map(move |b| (packet, b)))
        {
            let at = packet * walk.pitch + byte;
            // SAFETY: the caller's promise.
            unsafe {
                let new = new.add(packet * walk.bytes + byte).read();
                let change = changed.add(at).replace(new) ^ new;
                targets.iter().for_each(|target| *target.add(at) ^= change);
            }
        }
    }
}
