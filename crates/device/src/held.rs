//! An open file that is closed on another thread.
//!
//! Closing can wait for a device as long as any other call: FUSE asks its server, and a block
//! device writes its cache back. A caller does not know which drop is the last one, so no drop
//! waits longer than [`PATIENCE`].

use rustix::fs::{FlockOperation, flock};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longest time that a drop waits for the closing. So a device that answers is closed when the drop
/// returns, and can be opened again. The thread that runs a volume can afford this wait once for
/// each device.
const PATIENCE: Duration = Duration::from_millis(500);

/// An open file, perhaps with a lock.
#[derive(Debug)]
pub(crate) struct Held {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    is_locked: bool,
}

impl Held {
    pub(crate) fn new(file: OwnedFd, is_locked: bool) -> Held {
        Held { file: Some(file), is_locked }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("it is open until it is dropped").as_fd()
    }
}

impl AsRawFd for Held {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Held {
    /// Releases the lock explicitly instead of by closing. Between fork and exec a child process,
    /// started by another thread, holds the same open file, so the device would otherwise seem in
    /// use for a moment after it was closed.
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let (closed, closing) = channel();
        let is_locked = self.is_locked;
        let close = move || {
            if is_locked {
                let _ = flock(&file, FlockOperation::Unlock);
            }
            drop(file);
            let _ = closed.send(());
        };
        // If no thread starts, the file is closed here.
        if std::thread::Builder::new().name("closing".into()).spawn(close).is_ok() {
            let _ = closing.recv_timeout(PATIENCE);
        }
    }
}
