//! The stand-in for additive FFTs, which no engine here has.

use super::*;
use crate::fft::{FftEngine, FftKernel, Finish};
use crate::network::{NetworkEngine, NetworkKernel, To};

impl FftEngine for NoEngine {
    fn fft_kernel(self, _streaming: bool, _points: usize, _finish: Finish) -> Option<FftKernel<u8>> {
        match self {}
    }
}

impl NetworkEngine for NoEngine {
    type Factor = u8;

    const LEVELS: u32 = 1;

    fn factor(f: u8) -> u8 {
        f
    }

    fn inverse(self, _levels: u32, _buffers: bool, _adds: bool, _zeros: bool) -> NetworkKernel<u8> {
        match self {}
    }

    fn forward(self, _levels: u32, _to: To, _zeros: bool) -> NetworkKernel<u8> {
        match self {}
    }

    fn scale(self, _slots: bool, _to: To) -> NetworkKernel<u8> {
        match self {}
    }

    fn fence(self) {
        match self {}
    }
}
