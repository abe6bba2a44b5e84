//! A device with planned faults: each is for the nth operation of a kind, counted from 1, or for a
//! range of bytes.

use crate::device::site;
use crate::{Device, DeviceError, Layer, Layered, OpKind, Operation};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Fault of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not done, and the system returns this number.
    Errno(i32),
    /// The operation is done in full, after this delay.
    Delay(Duration),
    /// The file ends after this many bytes of the operation: they are done, the rest fails.
    Short(usize),
    /// This many bytes of a write are done; then the device fails with EIO.
    Torn(usize),
    /// The operation is acknowledged, but not done.
    Lost,
}

/// A device with planned faults.
pub type Faulty<D> = Layered<D, Planning>;

/// The planned faults, and the counts of operations.
#[derive(Default)]
pub struct Planning {
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    faults: Vec<Planned>,
    /// Operations begun so far, by kind.
    begun: Vec<(OpKind, u64)>,
}

struct Planned {
    kind: OpKind,
    nth: u64,
    until: u64,
    /// Range of the fault: it is for operations that touch one of these bytes.
    bytes: Range<u64>,
    fault: Fault,
}

impl<D: Device> Layered<D, Planning> {
    /// Wraps a device without planned faults.
    pub fn new(inner: D) -> Self {
        Self::with(inner, Planning::default())
    }

    /// Makes the `nth` operation of a kind fail, counted from 1 since the device was wrapped.
    pub fn fail_nth(&self, kind: OpKind, nth: u64, fault: Fault) {
        self.fail(kind, nth, nth, 0..u64::MAX, fault);
    }

    /// Makes every operation of a kind fail from the `nth` on.
    pub fn fail_from(&self, kind: OpKind, nth: u64, fault: Fault) {
        self.fail(kind, nth, u64::MAX, 0..u64::MAX, fault);
    }

    /// Makes every operation of a kind fail that touches one of these bytes, as on a bad spot of
    /// the medium.
    pub fn fail_within(&self, kind: OpKind, bytes: Range<u64>, fault: Fault) {
        self.fail(kind, 1, u64::MAX, bytes, fault);
    }

    /// Removes all planned faults.
    pub fn heal(&self) {
        self.layer.plan.lock().unwrap_or_else(PoisonError::into_inner).faults.clear();
    }

    fn fail(&self, kind: OpKind, nth: u64, until: u64, bytes: Range<u64>, fault: Fault) {
        let planned = Planned { kind, nth, until, bytes, fault };
        self.layer.plan.lock().unwrap_or_else(PoisonError::into_inner).faults.push(planned);
    }
}

impl Planning {
    /// Counts an operation, and returns its fault, if one is planned.
    fn next(&self, Operation { kind, offset_bytes: offset, len_bytes: len }: Operation) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = match plan.begun.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, begun)) => {
                *begun += 1;
                *begun
            }
            None => {
                plan.begun.push((kind, 1));
                1
            }
        };
        let mut planned = plan.faults.iter();
        let touches = |bytes: &Range<u64>| offset < bytes.end && bytes.start < offset + len.max(1);
        planned
            .find(|fault| {
                fault.kind == kind && (fault.nth..=fault.until).contains(&nth) && touches(&fault.bytes)
            })
            .map(|found| found.fault)
    }
}

impl Layer for Planning {
    fn around(
        &self,
        within: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Operation { kind, offset_bytes, len_bytes: len } = operation;
        let at = || site(within.path(), kind, offset_bytes, len);
        match self.next(operation) {
            None => does(len),
            Some(Fault::Errno(errno)) => Err(DeviceError::from_errno(at(), errno)),
            Some(Fault::Delay(delay)) => {
                std::thread::sleep(delay);
                does(len)
            }
            Some(Fault::Short(bytes)) => {
                does(len.min(bytes as u64))?;
                let (end_bytes, device_len_bytes) = (offset_bytes + bytes as u64, within.len_bytes());
                Err(DeviceError::Truncated { at: at(), end_bytes, device_len_bytes })
            }
            Some(Fault::Torn(bytes)) => {
                does(len.min(bytes as u64))?;
                Err(DeviceError::from_errno(at(), rustix::io::Errno::IO.raw_os_error()))
            }
            Some(Fault::Lost) => Ok(()),
        }
    }
}
