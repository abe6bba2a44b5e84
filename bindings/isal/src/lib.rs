//! ISA-L's erasure-code and RAID functions, by their own names: a program that was built against
//! `libisal.so.2` runs with this library in its place and gets the same bytes.
//!
//! Tables are recognised by their content, never by their address (`tables.rs`). Their programs are
//! compiled once per thread and found again by content (`compiled.rs`, the one module that knows
//! the kernels). Functions for checksums and compression go to the real library (`passed_on.rs`).
//!
//! `docs/isal.md` lists the cases that ISA-L's interface cannot express: a call that can neither be
//! right nor report an error ends the process with a sentence on standard error.
//!
//! Not here: codes, plans, proofs. They are Pantile's own interface.
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
