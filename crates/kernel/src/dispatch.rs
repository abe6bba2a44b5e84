//! From a tier to the program that runs on it. Another instruction set is one variant more.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::arch::x86_64::{avx2::Avx2, avx2_gfni::Avx2Gfni, avx512_gfni::Avx512Gfni};
use crate::braid::{Braid, Vectors};
use crate::dot::Mode;
use crate::executable::Executable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::fft::Butterflies;
use crate::fft::Fft;
use crate::network::{self, Flights, Network};
use crate::packets::{Packets, Walk};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::schedule::Schedule;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::solve::Solve;
use crate::solve::System;
use crate::straight::Straight;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::update::Change;
use crate::xor_rows::{self, XorRows};
use crate::{Tier, portable};

/// What is made by the engine of a tier; `None` if that is the portable one, or this machine lacks
/// it. For functions that return an option.
macro_rules! made_by_engine {
    ($tier:expr, $kind:ident, $engine:ident => $made:expr) => {
        match $tier {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tier::Avx2 => {
                let $engine = Avx2::new()?;
                Some($kind::Avx2($made))
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tier::Avx2Gfni => {
                let $engine = Avx2Gfni::new()?;
                Some($kind::Avx2Gfni($made))
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tier::Avx512Gfni => {
                let $engine = Avx512Gfni::new()?;
                Some($kind::Avx512Gfni($made))
            }
            _ => None,
        }
    };
}

/// Does something with what was made, by whichever engine, or by the portable one where that makes
/// such things.
macro_rules! with_made {
    ($made:expr, $kind:ident $(or $portable:ident)?, $it:ident => $done:expr) => {
        match $made {
            $($kind::$portable($it) => $done,)?
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $kind::Avx2($it) => $done,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $kind::Avx2Gfni($it) => $done,
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            $kind::Avx512Gfni($it) => $done,
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            #[allow(unreachable_patterns, reason = "of those that no engine makes here there are none")]
            _ => unreachable!("there is no engine here"),
        }
    };
}

/// A matrix compiled for one tier.
#[derive(Debug)]
pub(crate) enum Program {
    Portable(portable::Rows),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2(Schedule<Avx2>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2Gfni(Schedule<Avx2Gfni>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512Gfni(Schedule<Avx512Gfni>),
}

impl Program {
    /// Compiles tidy rows; `None` if this machine lacks the tier.
    pub(crate) fn new(tier: Tier, rows: &[Vec<(usize, u8)>]) -> Option<Program> {
        match tier {
            Tier::Portable => Some(Program::Portable(portable::Rows::new(rows))),
            _ => made_by_engine!(tier, Program, engine => Schedule::new(engine, rows)),
        }
    }

    /// Whether all outputs are computed in one sweep over their sources.
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
        // SAFETY: every program asks for what the caller promises here.
        with_made!(self, Program or Portable, it => unsafe { it.run(mode, streaming, source, output, len) })
    }
}

/// A system compiled for one tier.
#[derive(Debug)]
pub(crate) enum Solver {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2(Box<Solve<Avx2>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2Gfni(Box<Solve<Avx2Gfni>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512Gfni(Box<Solve<Avx512Gfni>>),
}

impl Solver {
    /// `None` if the tier has no kernel for the system, or this machine not the tier.
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(unused_variables, reason = "no engine takes them")
    )]
    pub(crate) fn new(tier: Tier, system: &System<'_>) -> Option<Solver> {
        made_by_engine!(tier, Solver, engine => Solve::new(engine, system)?)
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As `Solve::run`.
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(unused_variables, reason = "no engine takes them")
    )]
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        with_made!(self, Solver, solve => unsafe { solve.run(streaming, buffer, len) })
    }
}

/// An additive FFT compiled for one tier.
#[derive(Debug)]
pub(crate) enum Transform {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2(Box<Butterflies<Avx2>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2Gfni(Box<Butterflies<Avx2Gfni>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512Gfni(Box<Butterflies<Avx512Gfni>>),
}

impl Transform {
    /// `None` if the tier has no kernels for it, or this machine not the tier.
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(unused_variables, reason = "no engine takes them")
    )]
    pub(crate) fn new(tier: Tier, fft: &Fft) -> Option<Transform> {
        made_by_engine!(tier, Transform, engine => Butterflies::new(engine, fft)?)
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As `Butterflies::run`.
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(unused_variables, reason = "no engine takes them")
    )]
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        with_made!(self, Transform, fft => unsafe { fft.run(streaming, buffer, len) })
    }
}

/// A network of transforms compiled for one tier.
#[derive(Debug)]
pub(crate) enum Flight {
    Portable(Box<Flights<network::Portable>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2(Box<Flights<Avx2>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2Gfni(Box<Flights<Avx2Gfni>>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512Gfni(Box<Flights<Avx512Gfni>>),
}

impl Flight {
    /// Of a network that was checked; `None` if this machine lacks the tier.
    pub(crate) fn new(tier: Tier, network: &Network) -> Option<Flight> {
        match tier {
            Tier::Portable => Some(Flight::Portable(Box::new(Flights::new(network::Portable, network)))),
            _ => made_by_engine!(tier, Flight, engine => Box::new(Flights::new(engine, network))),
        }
    }

    /// Carries out every step.
    ///
    /// # Safety
    ///
    /// As `Flights::run`.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        with_made!(self, Flight or Portable, flights => unsafe { flights.run(streaming, buffer, len) })
    }
}

/// A change compiled for one tier.
#[derive(Debug)]
pub(crate) enum Changer {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2(Change<Avx2>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2Gfni(Change<Avx2Gfni>),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512Gfni(Change<Avx512Gfni>),
}

impl Changer {
    /// `None` if the tier has no kernel for so many targets, or this machine not the tier.
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(unused_variables, reason = "no engine takes them")
    )]
    pub(crate) fn new(tier: Tier, targets: &[(usize, u8)]) -> Option<Changer> {
        made_by_engine!(tier, Changer, engine => Change::new(engine, targets)?)
    }

    /// Carries it out.
    ///
    /// # Safety
    ///
    /// As `Change::run`.
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(unused_variables, reason = "no engine takes them")
    )]
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

/// The kernel of a tier for states of these kinds, with the factors of these classes where it looks
/// at them; `None` if it has none, or this machine not the tier.
pub(crate) fn horner_engine(
    tier: Tier,
    planes: usize,
    kinds: u32,
    classes: u32,
) -> Option<crate::horner::HornerEngine> {
    match tier {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Tier::Avx2 => Avx2::new().and_then(|_| crate::arch::x86_64::avx2::horner(planes, kinds, classes)),
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Tier::Avx2Gfni => {
            Avx2Gfni::new().and_then(|_| crate::arch::x86_64::avx2_gfni::horner(planes, kinds, classes))
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Tier::Avx512Gfni => {
            Avx512Gfni::new().and_then(|_| crate::arch::x86_64::avx512_gfni::horner(planes, kinds, classes))
        }
        _ => {
            let _ = (planes, kinds, classes);
            None
        }
    }
}

/// The footprint above which [`Stores::Auto`](crate::Stores::Auto) streams on this machine.
pub(crate) fn streaming_footprint_bytes() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        crate::arch::x86_64::streaming_footprint_bytes()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        crate::dot::STREAMING_FOOTPRINT_BYTES
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use crate::arch::x86_64::counting;

/// Does what counts bits; there are no instructions for that here.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Whether this machine can run the tier.
pub(crate) fn is_available(tier: Tier) -> bool {
    match tier {
        Tier::Portable => true,
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Tier::Avx2 => Avx2::new().is_some(),
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Tier::Avx2Gfni => Avx2Gfni::new().is_some(),
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        Tier::Avx512Gfni => Avx512Gfni::new().is_some(),
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        Tier::Avx2 | Tier::Avx2Gfni | Tier::Avx512Gfni => false,
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use crate::arch::x86_64::xor_code::{Code as BraidCode, PacketCode};

/// What code is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    Braid(&'a Braid),
    Straight(&'a Straight),
}

/// There is no engine that has code.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[derive(Debug)]
pub(crate) enum BraidCode {}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl BraidCode {
    pub(crate) fn new(_: &Braid) -> Option<BraidCode> {
        None
    }

    pub(crate) fn slice_bytes(&self) -> usize {
        match *self {}
    }

    pub(crate) unsafe fn run(&self, _: bool, _: impl Fn(usize) -> *mut u8, _: usize) {
        match *self {}
    }
}

/// As above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[derive(Debug)]
pub(crate) enum PacketCode {}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl PacketCode {
    pub(crate) fn new(_: Form, _: &Packets) -> Option<PacketCode> {
        None
    }

    pub(crate) unsafe fn run(&self, _: bool, _: impl Fn(usize) -> *mut u8, _: usize) {
        match *self {}
    }
}

fn vectors_of(form: Form) -> Vectors {
    match form {
        Form::Braid(braid) => braid.vectors,
        Form::Straight(straight) => straight.vectors,
    }
}

/// Runs programs of XORs with the vectors of one tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    tier: Tier,
}

/// What a vector loop does with rows: `visits` slices of its width. The table is left at what
/// follows.
///
/// # Safety
///
/// The machine has the instructions. The table has the places of the rows. Buffers are valid for
/// reads and writes of all slices and apart from one another, slots for those of one slice; goals
/// that nothing reads again are aligned to a vector if the loop streams.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) type RowLoop = unsafe fn(&XorRows, &mut [*mut u8], usize);

/// What a vector loop does with a change: what is new takes the place of what was, and the
/// difference is added to each target, on the bytes of the walk, which are of its width, from byte
/// number `from` of each packet on. Packets of what is new begin so many bytes apart.
///
/// # Safety
///
/// The machine has the instructions. The changed buffer and the targets are valid for reads and
/// writes of those bytes and what is new for reads of as many, and all are apart.
#[cfg(all(target_arch = "x86_64", not(miri)))]
type SpreadLoop = unsafe fn(*mut u8, &[*mut u8], (*const u8, usize), usize, Walk);

/// Gives each loop, the widest first, the slices of its width that others have left of every
/// packet; where what none takes begins.
#[cfg(all(target_arch = "x86_64", not(miri)))]
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
    /// `None` if the tier has no vectors, or this machine not the tier.
    pub(crate) fn new(tier: Tier) -> Option<Sweep> {
        (tier != Tier::Portable && is_available(tier)).then_some(Sweep { tier })
    }

    /// The vectors of its code.
    pub(crate) fn vectors(self) -> Vectors {
        if self.tier == Tier::Avx512Gfni { Vectors::Zmm } else { Vectors::Ymm }
    }

    /// Whether code can be expected to be had, as far as is known: what nobody will execute need
    /// not be thought out.
    pub(crate) fn has_code(self) -> bool {
        cfg!(all(target_arch = "x86_64", not(miri))) && Executable::is_to_be_had()
    }

    /// A braid for its vectors as code; `None` if the system lets nothing be executed that was
    /// written.
    pub(crate) fn code(self, braid: &Braid) -> Option<BraidCode> {
        assert_eq!(braid.vectors, self.vectors(), "the machine may lack the others");
        BraidCode::new(braid)
    }

    /// A braid or a straight line for columns of packets; `None` also if packets are not whole
    /// slices, or columns too long for an instruction to reach.
    pub(crate) fn packet_code(self, form: Form, packets: &Packets) -> Option<PacketCode> {
        assert_eq!(vectors_of(form), self.vectors(), "the machine may lack the others");
        PacketCode::new(form, packets)
    }

    /// Computes every sum on `len` bytes of every buffer.
    ///
    /// # Safety
    ///
    /// The table has the places of the rows. Every buffer is valid for reads and writes of `len`
    /// bytes and apart from the others, every slot for `SLICE_BYTES_MOST`.
    pub(crate) unsafe fn run(self, rows: &XorRows, table: &mut [*mut u8], streaming: bool, len: usize) {
        #[cfg_attr(
            not(all(target_arch = "x86_64", not(miri))),
            allow(unused_mut, reason = "vectors take their part")
        )]
        let mut left = len;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let vector = self.vectors().bytes();
            let streaming =
                streaming && rows.last_goals().all(|to| table[to as usize].addr().is_multiple_of(vector));
            for (sweep, bytes) in self.row_loops(streaming) {
                let visits = left / bytes;
                if visits > 0 {
                    // SAFETY: the caller's promise; the tier is available, and alignment was looked
                    // at.
                    unsafe { sweep(rows, table, visits) };
                    left -= visits * bytes;
                }
            }
            if streaming {
                crate::arch::x86_64::fence();
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = streaming;
        if left > 0 {
            // SAFETY: the caller's promise; the table stands at the bytes that are left, fewer than
            // a vector has.
            unsafe { xor_rows::run_bytes(rows, table, left) };
        }
    }

    /// Puts what is new in the place of what was, and adds the difference to each target, on the
    /// bytes of a walk. `new` has the packets one after another.
    ///
    /// # Safety
    ///
    /// The changed buffer and the targets are valid for reads and writes of those bytes, and apart
    /// from one another and from `new`, which has as many.
    pub(crate) unsafe fn spread(self, changed: *mut u8, targets: &[*mut u8], new: *const u8, walk: Walk) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let from = {
            use crate::arch::x86_64::{avx2, avx512_gfni};
            let loops: &[(SpreadLoop, usize)] = match self.tier {
                Tier::Avx512Gfni => &[(avx512_gfni::spread::<1>, 64), (avx2::spread::<1>, 32)],
                _ => &[(avx2::spread::<2>, 64), (avx2::spread::<1>, 32)],
            };
            // SAFETY: the caller's promise; the tier is available.
            by_width(loops, walk, |spread, from, part| unsafe {
                spread(changed, targets, (new, walk.bytes), from, part);
            })
        };
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let from = 0;
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

    /// The loops for ever narrower slices, and the bytes of these.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn row_loops(self, streaming: bool) -> [(RowLoop, usize); 3] {
        use crate::arch::x86_64::{avx2, avx512_gfni};
        match (self.tier, streaming) {
            (Tier::Avx512Gfni, false) => [
                (avx512_gfni::rows::<4, false>, 256),
                (avx512_gfni::rows::<2, false>, 128),
                (avx512_gfni::rows::<1, false>, 64),
            ],
            (Tier::Avx512Gfni, true) => [
                (avx512_gfni::rows::<4, true>, 256),
                (avx512_gfni::rows::<2, true>, 128),
                (avx512_gfni::rows::<1, true>, 64),
            ],
            (_, false) => {
                [(avx2::rows::<8, false>, 256), (avx2::rows::<2, false>, 64), (avx2::rows::<1, false>, 32)]
            }
            (_, true) => {
                [(avx2::rows::<8, true>, 256), (avx2::rows::<2, true>, 64), (avx2::rows::<1, true>, 32)]
            }
        }
    }
}
