//! The evaluations of the papers, rerun: each published number beside ours, by a named convention.
//!
//! Sources: D-Code (Fu, Shu; IPDPS 2015), RAIDq, SHEC (Miyamae, Nakao, Shiozawa; HotDep 2014) and
//! RAIDP. The fifth paper, on write cache layers, has its own simulator.

mod array;
mod ceph_recovery;
pub mod dcode_disks;
pub mod dcode_engine;
pub mod dcode_load;
pub mod dcode_read;
mod dcode_writes;
pub mod executed;
pub mod raidp;
pub mod raidp_engine;
mod raidp_hdfs;
pub mod raidq;
pub mod raidq_speed;
pub mod recovery;
mod requests;
mod rivals;
pub mod shec;

pub use rivals::{PRIMES, Rival};

/// Returns the median; the higher of two middle values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
