//! The state of service: opening, serving, read only, or failed.
//!
//! * While the volume is opened the last record is verified ([`crate::verification`]); that ends
//!   when the volume serves.
//! * A read-only volume counts as failed from its beginning: nothing is written.
//! * A volume that has failed stays so until it is opened again.
//! * Requests that arrive before it serves wait in their order of arrival.

use crate::verification::Verification;
use crate::{Request, RequestId};

/// The state of service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    opening: Verification,
    /// More devices are gone than the code tolerates, or the volume is read only: nothing is
    /// written.
    has_failed: bool,
    reads_only: bool,
    /// Requests that arrived before the volume served.
    early: Vec<(RequestId, Request)>,
}

impl Service {
    /// Returns the verification of the last record while the volume is opened.
    pub(crate) fn opening(&self) -> &Verification {
        &self.opening
    }

    pub(crate) fn opening_mut(&mut self) -> &mut Verification {
        &mut self.opening
    }

    pub(crate) fn is_opening(&self) -> bool {
        self.opening.is_under_way()
    }

    /// Returns true if the last record does not count because a block of it is lost.
    pub(crate) fn has_failed_to_verify(&self) -> bool {
        self.opening.has_lost() || self.has_failed
    }

    /// Stops all writes.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Stops all writes if `is_so`.
    pub(crate) fn fail_if(&mut self, is_so: bool) {
        self.has_failed |= is_so;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Makes the volume read only, without a session.
    pub(crate) fn only_read(&mut self) {
        self.opening.forget();
        (self.reads_only, self.has_failed) = (true, true);
    }

    pub(crate) fn reads_only(&self) -> bool {
        self.reads_only
    }

    /// Returns true if a driver that reads devices itself finds the same content as the engine.
    pub(crate) fn can_be_read(&self) -> bool {
        !self.has_failed || self.reads_only
    }

    pub(crate) fn hold(&mut self, id: RequestId, request: Request) {
        self.early.push((id, request));
    }

    pub(crate) fn take_early(&mut self) -> Vec<(RequestId, Request)> {
        std::mem::take(&mut self.early)
    }
}
