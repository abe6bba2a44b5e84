//! Epochs of delayed parity in a volume that another process serves, for other programs.
//!
//! ```no_run
//! # use pantile_host::{EpochError, EpochOptions, ServedEpoch};
//! # fn write(uri: &str) {}
//! # fn checkpoint(volume: &std::path::Path) -> Result<(), EpochError> {
//! let mut epoch = ServedEpoch::begin(volume, &EpochOptions::default())?;
//! write(&epoch.uri()?); // by any NBD client, with a flush at the end
//! epoch.end()
//! # }
//! ```
//!
//! Orders use the control socket, data the export `epoch-NUMBER` of the volume's NBD server. An
//! epoch has its own connection to the control socket: when that is closed, the epoch ends by its
//! policy.

use crate::control::{CONTROL_SOCKET, PATIENCE_LONG, connect, say};
use crate::text::quoted;
use crate::{Answer, EpochId, EpochOptions, FaultKind, FolderError, Order};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the NBD server's socket in the folder.
const NBD_SOCKET: &str = "nbd.sock";

/// Reason why an epoch of a served volume cannot be begun or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EpochError {
    /// The volume is not served, or not where a program can reach it.
    NotServed {
        /// The reason and the remedy.
        text: String,
    },
    /// The server refuses to begin the epoch.
    Refused {
        /// The reason and the remedy.
        text: String,
    },
    /// The epoch has ended: by its policy after a time without requests, or by an order.
    Over {
        /// The server's text.
        text: String,
    },
    /// A device was lost with data that had no parity yet. The epoch is still open: write these
    /// data again and end it, or abort it.
    Lost {
        /// The lost ranges.
        text: String,
    },
    /// The server has gone or does not answer. If that happened while the epoch was ended and its
    /// record was written, all of its writes are kept, otherwise none.
    Gone {
        /// A description of the event.
        text: String,
    },
}

impl fmt::Display for EpochError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (EpochError::NotServed { text }
        | EpochError::Refused { text }
        | EpochError::Over { text }
        | EpochError::Lost { text }
        | EpochError::Gone { text }) = self;
        out.write_str(text)
    }
}

impl std::error::Error for EpochError {}

/// An open epoch of a served volume. When dropped without an end, it ends by its policy.
pub struct ServedEpoch {
    folder: PathBuf,
    stream: UnixStream,
    id: EpochId,
    offset: u64,
    len: u64,
}

impl ServedEpoch {
    /// Begins an epoch in the volume that is served from a folder.
    ///
    /// Errors: `NotServed`; `Refused` if the range exceeds the volume or overlaps another epoch;
    /// `Gone`.
    pub fn begin(folder: &Path, options: &EpochOptions) -> Result<ServedEpoch, EpochError> {
        let not_served = |error: &dyn fmt::Display| EpochError::NotServed { text: error.to_string() };
        let folder = std::path::absolute(folder)
            .map_err(|error| not_served(&FolderError::file("find", folder, &error)))?;
        let Some(stream) = connect(&folder).map_err(|error| not_served(&error))? else {
            let text = format!(
                "{} is not served, and an epoch lives in its server; 'pantile serve {}' starts it",
                folder.display(),
                quoted(&folder)
            );
            return Err(EpochError::NotServed { text });
        };
        let order = Order::DelayedStart {
            offset: options.range.map(|(offset, _)| offset),
            len_bytes: options.range.map(|(_, len)| len),
            owed_bytes_max: Some(options.owed_bytes_max),
            age_max_s: Some(whole_seconds(options.age_max)),
            idle_max_s: Some(whole_seconds(options.idle_max)),
            on_timeout: Some(options.on_timeout),
            detached: false,
        };
        let mut epoch = ServedEpoch { folder, stream, id: EpochId(0), offset: 0, len: 0 };
        match epoch.order(&order)? {
            Answer::Epoch { epoch: number, offset, len_bytes } => {
                (epoch.id, epoch.offset, epoch.len) = (EpochId(number), offset, len_bytes);
                Ok(epoch)
            }
            Answer::Fault { text, .. } => Err(EpochError::Refused { text }),
            _ => Err(epoch.gone("gives an answer that is none; it is of another version")),
        }
    }

    /// Returns its number.
    pub fn id(&self) -> EpochId {
        self.id
    }

    /// Returns offset and length of its range, in whole stripes.
    pub fn range(&self) -> (u64, u64) {
        (self.offset, self.len)
    }

    /// Returns the URI of its export; offsets there are those of the volume. Any number of NBD
    /// clients can use it at the same time.
    ///
    /// Errors: `NotServed` if the NBD server's socket is not in the folder.
    pub fn uri(&self) -> Result<String, EpochError> {
        let socket = self.folder.join(NBD_SOCKET);
        let export = format!("epoch-{}", self.id.0);
        match socket.exists() {
            true => Ok(nbd_uri("nbd", &export, &socket)),
            false => Err(EpochError::NotServed {
                text: format!(
                    "there is no {}: use the export {export} where the volume is served, or serve it without --socket and --tcp",
                    socket.display()
                ),
            }),
        }
    }

    /// Writes pending parity and seals the epoch: all of its writes are durable and visible to
    /// other clients.
    ///
    /// Errors: `Lost`, with the epoch still open; `Over`; `Gone`.
    pub fn end(&mut self) -> Result<(), EpochError> {
        self.close(&Order::DelayedEnd { epoch: self.id.0 })
    }

    /// Aborts the epoch: restores the state before it.
    ///
    /// Errors: `Over`; `Gone`.
    pub fn abort(&mut self) -> Result<(), EpochError> {
        self.close(&Order::DelayedAbort { epoch: self.id.0 })
    }

    fn close(&mut self, order: &Order) -> Result<(), EpochError> {
        match self.order(order)? {
            Answer::Done { .. } => Ok(()),
            Answer::Fault { kind: FaultKind::Input, text } => Err(EpochError::Over { text }),
            Answer::Fault { kind: FaultKind::Losses, text } => Err(EpochError::Lost { text }),
            Answer::Fault { kind: FaultKind::System, text } => Err(EpochError::Gone { text }),
            _ => Err(self.gone("gives an answer that is none; it is of another version")),
        }
    }

    fn order(&mut self, order: &Order) -> Result<Answer, EpochError> {
        let until = Instant::now() + PATIENCE_LONG;
        say(&mut self.stream, order, until, &|| false).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.gone(&format!("does not answer, for {} s now", PATIENCE_LONG.as_secs()))
            }
            _ => self.gone("has ended before it answered"),
        })
    }

    fn gone(&self, what: &str) -> EpochError {
        let socket = self.folder.join(CONTROL_SOCKET);
        EpochError::Gone {
            text: format!(
                "the server behind {} {what}: the epoch counts as a whole or not at all, which the volume shows when it is served again: 'pantile serve {}'",
                socket.display(),
                quoted(&self.folder)
            ),
        }
    }
}

/// Returns seconds, rounded up; 0 for no limit.
fn whole_seconds(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| (limit.as_secs() + u64::from(limit.subsec_nanos() > 0)).max(1))
}

/// Returns the URI of an export behind a Unix socket.
pub fn nbd_uri(scheme: &str, export: &str, socket: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let escaped: String = socket.to_string_lossy().bytes().map(escape).collect();
    format!("{scheme}+unix:///{export}?socket={escaped}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_uri_is_escaped() {
        let uri = nbd_uri("nbds", "epoch-7", Path::new("/a b/ä+&?.sock"));
        assert_eq!(uri, "nbds+unix:///epoch-7?socket=/a%20b/%C3%A4%2B%26%3F.sock");
    }

    #[test]
    fn a_limit_is_told_in_whole_seconds() {
        let limits = [None, Some(Duration::ZERO), Some(Duration::from_millis(1200))];
        assert_eq!(limits.map(whole_seconds), [0, 1, 2]);
    }
}
