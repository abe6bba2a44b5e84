//! From a tier to the program that runs on it. Another instruction set is one variant more.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::arch::x86_64::{avx2::Avx2, avx2_gfni::Avx2Gfni, avx512_gfni::Avx512Gfni};
use crate::dot::Mode;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::schedule::Schedule;
use crate::{Stores, Tier, portable};

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
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tier::Avx2 => Some(Program::Avx2(Schedule::new(Avx2::new()?, rows))),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tier::Avx2Gfni => Some(Program::Avx2Gfni(Schedule::new(Avx2Gfni::new()?, rows))),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Tier::Avx512Gfni => Some(Program::Avx512Gfni(Schedule::new(Avx512Gfni::new()?, rows))),
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            Tier::Avx2 | Tier::Avx2Gfni | Tier::Avx512Gfni => None,
        }
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// `source(s)` for every source of a row and `output(o)` for every row are valid for reads and for writes of
    /// `len` bytes; outputs overlap neither sources nor one another, and are initialised if `mode` accumulates.
    pub(crate) unsafe fn run(
        &self,
        mode: Mode,
        stores: Stores,
        source: impl Fn(usize) -> *const u8,
        output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        // SAFETY: every program asks for what the caller promises here.
        unsafe {
            match self {
                Program::Portable(rows) => rows.run(mode, source, output, len),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Program::Avx2(schedule) => schedule.run(mode, stores, source, output, len),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Program::Avx2Gfni(schedule) => schedule.run(mode, stores, source, output, len),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Program::Avx512Gfni(schedule) => schedule.run(mode, stores, source, output, len),
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = stores;
    }
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
