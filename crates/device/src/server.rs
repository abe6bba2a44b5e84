//! Exports of NBD servers as devices: a member of a volume on another machine.
//!
//! libnbd ([`library`]) implements the protocol, TLS included. Each device has a connection and a
//! thread ([`driver`]) of its own, and any number of concurrent requests. If the server does not
//! answer or the connection breaks, the device is gone: the caller gets an error within [`SILENCE`]
//! and never waits for ever. Short interruptions of the network are handled by TCP.
//!
//! A server must offer FLUSH and FUA; otherwise acknowledged writes could be lost with its power.
//!
//! Not here, on purpose: locks. NBD has none, so another client of the same export is not detected
//! here; the claim of a volume detects it.

mod address;
mod driver;
mod library;
#[cfg(test)]
mod tests;

pub use address::{ServerAddress, absolute_path, is_server, path_in};

use self::driver::{Line, Refused, SILENCE};
use self::library::{Connection, Request, Terms};
use crate::device::{check, parts_len, site};
use crate::{Access, AlignedBuf, Device, DeviceError, Identity, OpKind, PAGE_BYTES, Part, PartMut};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for accepting a connection and opening the export.
const CONNECTING: Duration = Duration::from_secs(5);

/// Longest read or write if the server states no limit.
const PAYLOAD_BYTES: u64 = 8 << 20;

/// Longest discard or range of zeros.
const RANGE_BYTES: u64 = 1 << 30;

/// EROFS and ENOTSUP.
const READ_ONLY: i32 = 30;
const UNSUPPORTED: i32 = 95;

/// An export of an NBD server, opened.
pub struct ServerDevice {
    line: Line,
    path: PathBuf,
    address: ServerAddress,
    terms: Terms,
    len_bytes: u64,
    block_len_bytes: u32,
    payload_bytes: usize,
    access: Access,
    /// The error of the first flush that failed; every later flush fails with it.
    flush_failure: Mutex<Option<i32>>,
}

impl ServerDevice {
    /// Opens the export of a URI: `nbd://host[:port]/export`, `nbds://`,
    /// `nbd+unix:///export?socket=PATH`.
    ///
    /// Errors: `Server`, with a text about the cause; `ReadOnly`, `TooSmall`.
    pub fn open(path: &Path, access: Access) -> Result<ServerDevice, DeviceError> {
        Self::open_within(path, access, SILENCE)
    }

    /// Opens an export with this limit of the server's silence.
    fn open_within(path: &Path, access: Access, silence: Duration) -> Result<ServerDevice, DeviceError> {
        let at = || site(path, OpKind::Open, 0, 0);
        let refused = |why: String| DeviceError::Server { at: at(), why };
        let address = ServerAddress::parse(path).map_err(refused)?;
        let uri = CString::new(path.as_os_str().as_bytes());
        let uri = uri.map_err(|_| refused("a URI has no zero bytes".into()))?;
        let connection = Connection::open(&uri, Instant::now() + CONNECTING).map_err(refused)?;
        let terms = connection.terms().map_err(refused)?;
        if access == Access::ReadWrite {
            if terms.is_read_only {
                return Err(DeviceError::ReadOnly { at: at(), errno: READ_ONLY });
            }
            check_terms(&terms).map_err(refused)?;
        }
        let block_len_bytes = terms.block_len_bytes.max(512);
        if !block_len_bytes.is_power_of_two() || block_len_bytes > PAGE_BYTES as u64 {
            let text =
                "bytes, and a member's are 4096 at most, and a power of two; serve it with smaller ones";
            return Err(refused(format!("its blocks have {block_len_bytes} {text}")));
        }
        let len_bytes = terms.len_bytes - terms.len_bytes % block_len_bytes;
        if len_bytes == 0 {
            let (len_bytes, block_len_bytes) = (terms.len_bytes, block_len_bytes as u32);
            return Err(DeviceError::TooSmall { at: at(), len_bytes, block_len_bytes });
        }
        let payload = match terms.payload_bytes_max {
            0 => PAYLOAD_BYTES,
            told => told.clamp(block_len_bytes, PAYLOAD_BYTES),
        };
        let payload_bytes = (payload - payload % block_len_bytes) as usize;
        let line = Line::new(connection, silence)
            .map_err(|error| DeviceError::System { at: at(), errno: error.raw_os_error().unwrap_or(0) })?;
        Ok(ServerDevice {
            line,
            path: path.to_path_buf(),
            address,
            terms,
            len_bytes,
            block_len_bytes: block_len_bytes as u32,
            payload_bytes,
            access,
            flush_failure: Mutex::new(None),
        })
    }

    fn may_change(&self, op: OpKind, offset: u64, len: u64) -> Result<(), DeviceError> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly | Access::Beside => {
                Err(DeviceError::ReadOnly { at: site(&self.path, op, offset, len), errno: 0 })
            }
        }
    }

    fn refused(&self, op: OpKind, offset: u64, len: u64, why: Refused) -> DeviceError {
        let at = site(&self.path, op, offset, len);
        match why {
            Refused::ByServer(errno) => DeviceError::from_errno(at, errno),
            Refused::Gone(errno) => DeviceError::Gone { at, errno },
        }
    }

    /// Performs requests on a range, in parts of at most [`RANGE_BYTES`].
    fn ranges(
        &self,
        (offset, len): (u64, u64),
        request: impl Fn(u64, u64) -> Request,
    ) -> Result<(), Refused> {
        let starts = (0..len).step_by(RANGE_BYTES as usize);
        let requests = starts.map(|done| request(offset + done, (len - done).min(RANGE_BYTES)));
        // SAFETY: a range without content has no memory.
        unsafe { self.line.ask(requests) }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        let starts = (0..).step_by(self.payload_bytes);
        let requests = starts.zip(bytes.chunks(self.payload_bytes)).map(|(done, piece): (u64, _)| {
            let (from, len) = (piece.as_ptr(), piece.len());
            Request::Write { offset_bytes: offset + done, from, len }
        });
        // SAFETY: the bytes are borrowed until this returns, and nobody changes them.
        unsafe { self.line.ask(requests) }
    }
}

/// Refuses a server without flushes or FUA.
fn check_terms(terms: &Terms) -> Result<(), String> {
    let lacks = match (terms.can_flush, terms.can_fua) {
        (true, true) => return Ok(()),
        (false, _) => "FLUSH",
        (true, false) => "FUA",
    };
    Err(format!(
        "its server does not offer {lacks}, so that what it acknowledges can be gone with its power; \
         serve the disk with one that does, such as 'nbdkit file /dev/sdb'"
    ))
}

impl Device for ServerDevice {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_len_bytes(&self) -> u32 {
        self.block_len_bytes
    }

    fn identity(&self) -> Identity {
        self.address.identity()
    }

    fn read_at(&self, offset_bytes: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len();
        check(self, OpKind::Read, offset_bytes, len as u64, [(into.as_ptr() as usize, len)].into_iter())?;
        let starts = (0..).step_by(self.payload_bytes);
        let pieces = into.chunks_mut(self.payload_bytes);
        let requests = starts.zip(pieces).map(|(done, piece): (u64, _)| Request::Read {
            offset_bytes: offset_bytes + done,
            into: piece.as_mut_ptr(),
            len: piece.len(),
        });
        // SAFETY: the bytes are borrowed exclusively until this returns, each piece once.
        let read = unsafe { self.line.ask(requests) };
        read.map_err(|why| self.refused(OpKind::Read, offset_bytes, len as u64, why))
    }

    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len = parts_len(parts);
        let places = parts.iter().map(|part| (part.as_ptr() as usize, part.len()));
        check(self, OpKind::Write, offset_bytes, len, places)?;
        self.may_change(OpKind::Write, offset_bytes, len)?;
        let written = match parts {
            [part] => self.write(offset_bytes, part),
            // Copying the parts costs less than a request for each.
            parts => {
                let parts: Vec<&[u8]> = parts.iter().map(Part::bytes).collect();
                self.write(offset_bytes, &parts.concat())
            }
        };
        written.map_err(|why| self.refused(OpKind::Write, offset_bytes, len, why))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let failure = || *self.flush_failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure().is_none() {
            // SAFETY: a flush has no memory.
            match unsafe { self.line.ask(std::iter::once(Request::Flush)) } {
                Err(Refused::ByServer(errno)) => {
                    let mut first = self.flush_failure.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(errno);
                }
                Err(gone) => return Err(self.refused(OpKind::Flush, 0, 0, gone)),
                Ok(()) => {}
            }
        }
        match failure() {
            None => Ok(()),
            Some(errno) => Err(DeviceError::FlushFailed { at: site(&self.path, OpKind::Flush, 0, 0), errno }),
        }
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        check(self, OpKind::Discard, offset_bytes, len_bytes, std::iter::empty())?;
        self.may_change(OpKind::Discard, offset_bytes, len_bytes)?;
        if !self.terms.can_trim {
            return Ok(());
        }
        let request = |offset_bytes, len_bytes| Request::Discard { offset_bytes, len_bytes };
        match self.ranges((offset_bytes, len_bytes), request) {
            Err(Refused::ByServer(UNSUPPORTED)) => Ok(()),
            result => result.map_err(|why| self.refused(OpKind::Discard, offset_bytes, len_bytes, why)),
        }
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        check(self, OpKind::Zero, offset_bytes, len_bytes, std::iter::empty())?;
        self.may_change(OpKind::Zero, offset_bytes, len_bytes)?;
        let request = |offset_bytes, len_bytes| Request::Zero { offset_bytes, len_bytes };
        let by_server = match self.terms.can_zero {
            true => self.ranges((offset_bytes, len_bytes), request),
            false => Err(Refused::ByServer(UNSUPPORTED)),
        };
        let done = match by_server {
            Err(Refused::ByServer(UNSUPPORTED)) => {
                let zeros = AlignedBuf::zeroed((self.payload_bytes as u64).min(len_bytes) as usize);
                let mut starts = (0..len_bytes).step_by(self.payload_bytes);
                starts.try_for_each(|done| {
                    let piece = (len_bytes - done).min(zeros.len() as u64);
                    self.write(offset_bytes + done, &zeros[..piece as usize])
                })
            }
            result => result,
        };
        done.map_err(|why| self.refused(OpKind::Zero, offset_bytes, len_bytes, why))
    }
}
