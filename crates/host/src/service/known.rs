//! What the status says of what management knows, without a wait for management.
//!
//! Management's lock is held for as long as an order or the care for devices takes, and they ask
//! devices. So whoever gives the lock back leaves a copy behind of what the status needs, and the
//! status looks at that: it tells how things were before what is under way, which has no answer
//! yet. What the volume itself says is of the moment, because its thread waits for no device.

use super::{Deaths, Service, State};
use crate::Config;
use crate::locks::lock;
use crate::twin::Twin;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

/// A copy of some of [`State`]. It holds no device.
#[derive(Default)]
pub(super) struct Known {
    /// `None`: the folder was given back.
    pub(super) config: Option<Config>,
    pub(super) spares: Vec<PathBuf>,
    pub(super) bad_spares: BTreeMap<PathBuf, String>,
    pub(super) problems: BTreeMap<u32, String>,
    pub(super) strays: BTreeMap<u32, String>,
    /// By slot, what its device is being replaced by.
    pub(super) replacements: BTreeMap<u32, (PathBuf, Weak<Twin>)>,
    pub(super) samples: VecDeque<(Instant, u64, u64)>,
    pub(super) serves: Option<(Instant, Deaths)>,
}

impl Known {
    pub(super) fn of(state: &State) -> Known {
        let copies = state.replacements.iter();
        Known {
            config: state.folder.as_ref().map(|folder| folder.config().clone()),
            spares: state.spares.iter().map(|(path, _)| path.clone()).collect(),
            bad_spares: state.bad_spares.clone(),
            problems: state.problems.clone(),
            strays: state.strays.problems.clone(),
            replacements: copies
                .map(|(&slot, one)| (slot, (one.path.clone(), Arc::downgrade(&one.twin))))
                .collect(),
            samples: state.samples.clone(),
            serves: state.serves,
        }
    }
}

/// Management's lock. Given back, what it guards is known.
pub(super) struct Held<'s> {
    pub(super) service: &'s Service,
    pub(super) state: MutexGuard<'s, State>,
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // What a panic leaves half done is put in order by whoever takes the lock next.
        if !std::thread::panicking() {
            *lock(&self.service.known) = Arc::new(Known::of(&self.state));
        }
    }
}
