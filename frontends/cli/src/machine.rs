//! The sets and volumes of this machine: their configuration, commands on all of them, and how they
//! are.

pub mod all;
pub mod conditions;
pub mod config;
pub mod deliver;
pub mod look;
pub mod metrics;
