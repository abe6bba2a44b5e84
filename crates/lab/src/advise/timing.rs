//! How long requests take on a candidate: the beginning of the trace on the volume's own engine in
//! virtual time, as `replay --device` takes all of it.

use super::Candidate;
use crate::exascale::Device;
use crate::replay::{Circumstances, Driven, Latencies, Request, Seen, driven};
use pantile::code::Placement;

/// What a request costs, and on which devices.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The devices.
    pub device: Device,
    /// Bytes of an element of the volumes.
    pub element_bytes: u64,
}

/// What is known of the latencies of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// These.
    Found(Box<Latencies>),
    /// None, and why.
    NotComputed(String),
}

/// Bytes that the requests which are timed ask for, at the most: the engine does each block.
const BYTES_MOST: u64 = 1 << 30;

/// Requests from one question to the hearer to the next.
const AT_A_TIME: usize = 256;

impl Timed {
    /// The requests of a trace that are timed: of the first ones that were kept, as many as ask for
    /// a GiB.
    pub fn sample<'s>(&self, seen: &'s Seen) -> &'s [Request] {
        let mut bytes = 0;
        let fits = |request: &&Request| {
            bytes += request.len;
            bytes <= BYTES_MOST
        };
        let count = seen.first.iter().take_while(fits).count();
        &seen.first[..count]
    }

    /// Returns the latencies on a volume of a candidate, each write durable before the next; `None`
    /// if the hearer ended it.
    ///
    /// Cost: a second at the most for each candidate.
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
