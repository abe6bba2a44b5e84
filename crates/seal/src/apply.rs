//! Changes of a set and of its originals: decided by a journal, written in batches, finished after
//! a kill.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod mark;
pub(crate) mod meta;
pub(crate) mod portions;
pub(crate) mod rename;
pub(crate) mod repair;
pub(crate) mod sparse;
