//! Promises of the Rust half of the plug-in.

mod bad_profiles_are_refused;
mod chunks_are_cephs;
mod common;
mod what_is_read_is_enough;
