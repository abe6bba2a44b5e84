//! Additive FFTs, and networks of them.

use super::*;
use crate::butterflies::Butterflies;
use crate::fft::Fft;
use crate::network::{self, Flights, Network};

type BoxedButterflies<E> = Box<Butterflies<E>>;
type BoxedFlights<E> = Box<Flights<E>>;

for_engines! { define_made(
    /// An additive FFT compiled for one tier.
    Transform of BoxedButterflies
) }

impl Transform {
    /// Compiles an FFT; `None` if the tier has no kernels for it, or if this machine lacks the
    /// tier.
    pub(crate) fn new(tier: Tier, fft: &Fft) -> Option<Transform> {
        made_by_engine!(tier, Transform, engine => Butterflies::new(engine, fft)?)
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As `Butterflies::run`.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        with_made!(self, Transform, fft => unsafe { fft.run(streaming, buffer, len) })
    }
}

for_engines! { define_made(
    /// A network of transforms compiled for one tier.
    Flight of BoxedFlights or Box<Flights<network::Portable>>
) }

impl Flight {
    /// Compiles a network that was checked; `None` if this machine lacks the tier.
    pub(crate) fn new(tier: Tier, network: &Network) -> Option<Flight> {
        match tier {
            Tier::Portable => Some(Flight::Portable(Box::new(Flights::new(network::Portable, network)))),
            _ => made_by_engine!(tier, Flight, engine => Box::new(Flights::new(engine, network))),
        }
    }

    /// Runs every step.
    ///
    /// # Safety
    ///
    /// As `Flights::run`.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        with_made!(self, Flight or Portable, flights => unsafe { flights.run(streaming, buffer, len) })
    }
}
