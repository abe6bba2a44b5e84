//! One folder per architecture, one file per instruction set. Which architecture there is, is
//! asked here and nowhere else.
//!
//! A file holds a witness type whose only constructor returns `None` on a machine without the
//! instructions, and implements [`Engine`](crate::engine::Engine) for it. On other architectures,
//! and under Miri, which knows none of these instructions, the only engine is one that no machine
//! has, and the portable tier does the work.
//!
//! A folder has its engines by name, and `for_engines`, which hands them to a macro;
//! `horner_engine`, `row_loops` and `spread_loops`; and in `cpu` what the processor is like:
//! `streaming_footprint_bytes`, `counting`, `fetch` and `fence`. What is written for vectors of any
//! width lies in `common`.

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[macro_use]
mod common;

#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) mod aarch64;
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub(crate) mod none;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod x86_64;

#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) use aarch64 as native;
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub(crate) use none as native;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use x86_64 as native;
