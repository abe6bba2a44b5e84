//! Experiments that answer a question with a table and a picture: which code for my disks and my
//! workload?
//!
//! The lab counts the plans that a volume executes; it contains neither an engine nor codes. An
//! experiment is a function from its options to a [`Report`]: the question, the convention of
//! counting, a list of [`Measure`]s (each with its [`Kind`], and with the published value beside
//! ours if there is one), and [`Figure`]s. [`page()`] prints reports as one self-contained page.
//!
//! * [`advise`]: which code for this workload;
//! * [`durability`]: how likely a code loses data;
//! * [`papers`]: the evaluations of four papers, run again;
//! * [`replay`]: one trace, many codes, on the user's own workload;
//! * [`exascale`]: the simulation of a fifth paper, on write cache layers;
//! * [`compare`]: codes side by side, by cost and tolerated losses;
//! * [`ceph`]: pools of a Ceph cluster whose plug-in a release drops, with their tolerance and
//!   cost;
//! * [`drawing`]: a stripe with its parity groups, as a picture; [`words`]: names of its parts;
//! * [`figure`]: charts and heat maps; [`bars`]: loads and shares; [`matrix`]: a stripe with lost
//!   columns;
//! * [`delayed`]: gains and risks of delayed parity, in one page;
//! * [`html`]: the page.
//!
//! Every number is a function of the inputs and a seed: it depends neither on a clock nor on the
//! number of threads. Only these measure this machine, and say so: the throughput tables of
//! [`papers::raidq`], the volumes of [`papers::executed`], the disks of [`papers::dcode_disks`],
//! and the volumes of [`delayed`] if it is given a folder.
#![forbid(unsafe_code)]

pub mod advise;
pub mod bars;
pub mod ceph;
pub mod compare;
pub mod delayed;
pub mod drawing;
pub mod durability;
mod engine;
pub mod exascale;
pub mod figure;
pub mod html;
mod lay;
pub mod matrix;
mod measure;
pub mod papers;
mod parallel;
mod points;
pub mod replay;
mod standard;
pub mod words;

pub use engine::EngineFault;
pub use figure::Figure;
pub use html::page;
pub use lay::Lay;
pub use measure::{Kind, Measure, Nearness, Printed, Report, printed};
