//! Latencies of requests on a candidate: the beginning of the trace on the volume's own engine in
//! virtual time; `replay --device` runs all of it.

use super::Candidate;
use crate::exascale::Device;
use crate::replay::{Circumstances, Driven, Latencies, Request, Seen, driven};
use pantile::code::Placement;

/// Devices with service times, and the volumes on them.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Service times of the devices.
    pub device: Device,
    /// Bytes of an element of the volumes.
    pub element_bytes: u64,
}

/// Latencies of a candidate, if they were computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Latencies were not asked for.
    #[default]
    NotAsked,
    /// Computed latencies.
    Found(Box<Latencies>),
    /// Not computed, with the reason.
    NotComputed(String),
}

/// The most bytes that the timed requests transfer together: the engine moves each block.
const BYTES_MOST: u64 = 1 << 30;

/// Requests between two calls of `hear`.
const AT_A_TIME: usize = 256;

impl Timed {
    /// Returns the requests of a trace that are timed: the first that were kept, up to a GiB of
    /// requested bytes.
    pub fn sample<'s>(&self, seen: &'s Seen) -> &'s [Request] {
        let mut bytes = 0;
        let fits = |request: &&Request| {
            bytes += request.len;
            bytes <= BYTES_MOST
        };
        let count = seen.first.iter().take_while(fits).count();
        &seen.first[..count]
    }

    /// Returns the latencies on a volume of a candidate, each write durable before the next;
    /// `None` if `hear` ended it.
    ///
    /// Cost: at most one second for each candidate.
    pub(super) fn on(
        &self,
        (candidate, placement): (&Candidate, Placement),
        seen: &Seen,
        hear: impl Fn() -> bool,
    ) -> Option<Timing> {
        let sample = self.sample(seen);
        if sample.is_empty() {
            return Some(Timing::NotComputed("its first request asks for more than 1 GiB".into()));
        }
        let end = sample.iter().map(|request| request.offset + request.len).max().unwrap_or(0);
        let opened = driven::geometry((&candidate.code, placement), self.element_bytes, end)
            .and_then(|geometry| Driven::new(geometry, Circumstances::default()));
        let mut volume = match opened {
            Ok(volume) => volume.timed(&self.device),
            Err(error) => return Some(Timing::NotComputed(error.to_string())),
        };
        for requests in sample.chunks(AT_A_TIME) {
            hear().then_some(())?;
            requests.iter().for_each(|request| volume.push(request));
        }
        volume.latencies().map(|found| Timing::Found(Box::new(found.clone())))
    }
}
