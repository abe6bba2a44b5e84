//! A device that fails as told: each fault is planned for the nth operation of a kind, counted from 1, or for a range of bytes.

use crate::device::{parts_len, site};
use crate::{Device, DeviceError, Identity, OpKind, Part, PartMut};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// What goes wrong with one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the system gives this number.
    Errno(i32),
    /// Done in full, but this much later.
    Delay(Duration),
    /// The file ends after this many bytes of the operation: they are done, the rest is an error.
    Short(usize),
    /// This many bytes of a write are done before the device fails with EIO.
    Torn(usize),
    /// Acknowledged, and not done.
    Lost,
}

/// A device with planned faults.
pub struct Faulty<D> {
    inner: D,
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
    /// Only operations that touch these.
    bytes: Range<u64>,
    fault: Fault,
}

impl<D: Device> Faulty<D> {
    /// No fault yet.
    pub fn new(inner: D) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// Lets the `nth` operation of a kind fail, counted from 1 since the device was wrapped.
    pub fn fail_nth(&self, kind: OpKind, nth: u64, fault: Fault) {
        self.fail(kind, nth, nth, 0..u64::MAX, fault);
    }

    /// Lets every operation of a kind fail from the `nth` on.
    pub fn fail_from(&self, kind: OpKind, nth: u64, fault: Fault) {
        self.fail(kind, nth, u64::MAX, 0..u64::MAX, fault);
    }

    /// Lets every operation of a kind fail that touches one of these bytes: a place of the medium that has gone bad.
    pub fn fail_within(&self, kind: OpKind, bytes: Range<u64>, fault: Fault) {
        self.fail(kind, 1, u64::MAX, bytes, fault);
    }

    /// Forgets all plans: the device is well again.
    pub fn heal(&self) {
        self.plan.lock().expect("planning does not panic").faults.clear();
    }

    /// The device within.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn fail(&self, kind: OpKind, nth: u64, until: u64, bytes: Range<u64>, fault: Fault) {
        let planned = Planned { kind, nth, until, bytes, fault };
        self.plan.lock().expect("planning does not panic").faults.push(planned);
    }

    /// Counts an operation, and says what is to go wrong with it.
    fn next(&self, kind: OpKind, offset: u64, len: u64) -> Option<Fault> {
        let mut plan = self.plan.lock().expect("planning does not panic");
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

    /// Does an operation with its fault, if any; `does` does the first so many bytes of it.
    fn faultily(
        &self,
        (kind, offset, len): (OpKind, u64, u64),
        mut does: impl FnMut(usize) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let at = || site(self.path(), kind, offset, len);
        let device_len_bytes = self.len_bytes();
        match self.next(kind, offset, len) {
            None => does(len as usize),
            Some(Fault::Errno(errno)) => Err(DeviceError::from_errno(at(), errno)),
            Some(Fault::Delay(delay)) => {
                std::thread::sleep(delay);
                does(len as usize)
            }
            Some(Fault::Short(bytes)) => {
                does(bytes.min(len as usize))?;
                Err(DeviceError::Truncated { at: at(), end_bytes: offset + bytes as u64, device_len_bytes })
            }
            Some(Fault::Torn(bytes)) => {
                does(bytes.min(len as usize))?;
                Err(DeviceError::from_errno(at(), rustix::io::Errno::IO.raw_os_error()))
            }
            Some(Fault::Lost) => Ok(()),
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn block_len_bytes(&self) -> u32 {
        self.inner.block_len_bytes()
    }
    fn identity(&self) -> Identity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len() as u64;
        self.faultily((OpKind::Read, offset, len), |first| self.inner.read_at(offset, into.first(first)))
    }
    fn write_at(&self, offset: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        self.faultily((OpKind::Write, offset, parts_len(parts)), |mut first| {
            let mut some = Vec::with_capacity(parts.len());
            for part in parts {
                let len = part.len().min(first);
                first -= len;
                some.extend((len > 0).then(|| part.first(len)));
            }
            self.inner.write_at(offset, &some)
        })
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.faultily((OpKind::Flush, 0, 0), |_| self.inner.flush())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.faultily((OpKind::Discard, offset, len), |first| self.inner.discard(offset, first as u64))
    }
    fn zero(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.faultily((OpKind::Zero, offset, len), |first| self.inner.zero(offset, first as u64))
    }
}
