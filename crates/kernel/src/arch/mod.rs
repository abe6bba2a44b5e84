//! One folder per architecture, one file per instruction set. Only this module tests which
//! architecture the build is for.
//!
//! A file defines a witness type and implements [`Engine`](crate::engine::Engine) for it. Its only
//! constructor returns `None` on a machine without the instructions. On other architectures, and
//! under Miri, which knows none of these instructions, the only engine is one that no machine has,
//! and the portable tier is used.
//!
//! A folder exports its engines by name; `for_engines`, which passes them to a macro;
//! `horner_engine`, `row_loops` and `spread_loops`; and the traits of the processor in `cpu`:
//! `streaming_footprint_bytes`, `counting`, `fetch` and `fence`. Code for vectors of any width is
//! in `common`.

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
