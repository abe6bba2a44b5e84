//! The sets and volumes of this machine: configuration, commands on all of them, and their state.

pub mod all;
pub mod conditions;
pub mod config;
pub mod deliver;
pub mod look;
pub mod metrics;
pub mod page;
pub mod smart;
