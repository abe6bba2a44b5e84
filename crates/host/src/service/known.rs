//! A copy of the service's state for status reports, so that these never wait for the lock.
//!
//! The lock of the state is held while an order or the maintenance waits for devices. When it is
//! released, a copy of the state is made for status reports. So a status shows the state before the
//! order that is being executed. The numbers of the volume are current, because its engine waits
//! for no device.

use super::{Deaths, Service, State};
use crate::Config;
use crate::locks::lock;
use crate::twin::Twin;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

/// A copy of parts of [`State`]. It keeps no device open.
#[derive(Default)]
pub(super) struct Known {
    /// The configuration; `None`: the folder was given back.
    pub(super) config: Option<Config>,
    pub(super) spares: Vec<PathBuf>,
    pub(super) bad_spares: BTreeMap<PathBuf, String>,
    pub(super) problems: BTreeMap<u32, String>,
    /// Members that the next start would not find, or that were overwritten, with the problem of
    /// each.
    pub(super) strays: BTreeMap<u32, String>,
    /// By slot, the new device and the twin of a replacement.
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
            strays: state
                .strays
                .problems
                .iter()
                .chain(&state.overwritten.problems)
                .map(|(&slot, why)| (slot, why.clone()))
                .collect(),
            replacements: copies
                .map(|(&slot, one)| (slot, (one.path.clone(), Arc::downgrade(&one.twin))))
                .collect(),
            samples: state.samples.clone(),
            serves: state.serves,
        }
    }
}

/// The held lock of the state. When it is released, the copy is updated.
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
        // After a panic, the next holder of the lock repairs the state first.
        if !std::thread::panicking() {
            *lock(&self.service.known) = Arc::new(Known::of(&self.state));
        }
    }
}
