//! ISA-L's erasure-code and RAID functions, by their own names: a program that was built against
//! `libisal.so.2` runs with this library in its place and gets the same bytes.
//!
//! Tables are recognised by content, never by address (`tables.rs`); a matrix
//! is used as it is, or compiled and found again by content (`compiled.rs`, the one module that
//! knows the kernels). Functions for checksums and compression go to the real library
//! (`passed_on.rs`).
//!
//! The page `docs/isal.md` lists what ISA-L's interface cannot express: a call that can neither
//! give the right bytes nor report a fault ends the process. Nothing is written to standard error
//! unless an environment variable asks for it.
//!
//! Not here: codes, plans and proofs, which are in Pantile's own interface.
#![allow(clippy::missing_safety_doc, reason = "every exported function has the contract of ISA-L's headers")]

mod compiled;
mod erasure;
mod matrices;
mod mds;
mod passed_on;
mod raid;
mod refuse;
mod tables;
mod trace;
mod version;
