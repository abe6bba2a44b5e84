//! Plans reads and computations, as data that can be printed, counted and checked.
//!
//! Everything here is computed from a [`Code`](pantile_code::Code) alone, by programs that do not
//! know its family:
//!
//! * [`Planner::recover`]: the cheapest reads that yield the wanted cells while others are lost,
//!   with the combination for each, and whether they are proven to be the cheapest;
//! * [`Planner::way_out`]: after a refusal, the lost columns that would have to return;
//! * [`Planner::encode`]: the parity cells from the data;
//! * [`Planner::update`]: the cheapest way to update parity on a small write;
//! * [`prove()`], [`Survivors`]: which sets of lost columns, or of devices that hold columns by a
//!   placement, are survivable; counted exactly, with witnesses;
//! * [`SetTally`]: which sets of failure units, such as disks, are survivable, by trial;
//! * [`usual_placement()`]: the default placement of a volume;
//! * [`evidence()`], [`codeword()`]: evidence with which an independent program can check a
//!   tolerance, and that it is not higher;
//! * [`Locator`]: locates wrong columns from equations whose sums are not zero;
//! * [`search_fourth_generators`]: better generators for RAIDq's fourth parity.
//!
//! Deliberately not here: bytes, time, CPU features. A plan is the same for every byte of an
//! element.
#![forbid(unsafe_code)]

mod bits;
mod cauchy;
mod cells;
mod chain;
mod choice;
mod dual;
mod evidence;
mod independence;
mod locate;
mod parts;
mod plan;
mod planner;
mod prove;
mod search;
mod survivors;
mod tally;
mod update;
mod way_out;

pub use cells::{CellSet, Costs};
pub use choice::{BUSIEST_MOST, Choice, RotationLoss, Writes, busiest, rotation_loss, usual_placement};
pub use evidence::{Codeword, Evidence, EvidenceError, EvidenceLimits, Witnesses, codeword, evidence};
pub use locate::{CheckCombination, EVIDENCE_BITS_LEAST, Explanation, Locator, SEARCH_PRODUCTS_MOST};
pub use plan::{Combination, NotRecoverable, Optimality, Plan, PlanError, Step};
pub use planner::{Effort, Planner, Request};
pub use prove::{Certificate, Level, Method, ProveOptions, prove};
pub use search::{FourthGenerator, search_fourth_generators};
pub use survivors::Survivors;
pub use tally::SetTally;
pub use update::{Content, Strategy, UpdatePlan};
pub use way_out::WayOut;
