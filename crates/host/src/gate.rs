//! For tests: a device that lets operations wait until the test releases them.

use crate::locks::{lock, wait};
use pantile_device::{Device, DeviceError, Layer, Layered, OpKind, Operation};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub(crate) type Gated = Layered<Arc<dyn Device>, Gate>;

/// The layer in front of the device.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// Operations of this kind that touch these bytes wait while the gate is closed.
    kept: Option<(OpKind, Range<u64>)>,
    waiting: usize,
}

impl Gate {
    pub(crate) fn before(device: Arc<dyn Device>) -> Arc<Gated> {
        Arc::new(Layered::with(device, Gate::default()))
    }

    pub(crate) fn keep(&self, kind: OpKind, bytes: Range<u64>) {
        lock(&self.state).kept = Some((kind, bytes));
    }

    /// Releases all waiting operations.
    pub(crate) fn open(&self) {
        lock(&self.state).kept = None;
        self.moved.notify_all();
    }

    /// Waits until an operation waits.
    pub(crate) fn until_one_waits(&self) {
        let begun = Instant::now();
        while lock(&self.state).waiting == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is asked of the device");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Layer for Gate {
    fn around(
        &self,
        _: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Operation { kind, offset_bytes, len_bytes } = operation;
        let is_kept = |state: &State| {
            state.kept.as_ref().is_some_and(|(kept, bytes)| {
                *kept == kind && offset_bytes < bytes.end && bytes.start < offset_bytes + len_bytes.max(1)
            })
        };
        let mut state = lock(&self.state);
        if is_kept(&state) {
            state.waiting += 1;
            while is_kept(&state) {
                state = wait(&self.moved, state);
            }
            state.waiting -= 1;
        }
        drop(state);
        does(len_bytes)
    }
}
