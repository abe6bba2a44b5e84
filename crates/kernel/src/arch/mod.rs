//! One folder per architecture, one file per instruction set.
//!
//! A file holds a witness type whose only constructor returns `None` on a machine without the
//! instructions, and implements the scheduler's `Engine` for it. Outside x86-64, and under Miri,
//! which knows none of these instructions, only the portable tier exists.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod x86_64;
