//! Programs that are additive FFTs, or networks of them.

use super::*;
use crate::fft::Fft;
use crate::network::Network;

impl Program {
    /// Compiles an additive FFT for [`Tier::best`]. Returns `None` if the tier has no kernels for
    /// it; then use the steps of [`Fft::expanded`].
    ///
    /// Errors: the FFT has neither 4 nor 8 points, no output, or more outputs than points;
    /// otherwise those of [`Program::new`].
    pub fn fft(buffers: usize, fft: &Fft) -> Result<Option<Program>, ProgramError> {
        Program::fft_with_tier(Tier::best(), buffers, fft)
    }

    /// Works like [`Program::fft`], for a tier that the caller chooses.
    pub fn fft_with_tier(tier: Tier, buffers: usize, fft: &Fft) -> Result<Option<Program>, ProgramError> {
        if !fft.has_points() {
            return Err(ProgramError::FftPoints { have: fft.points });
        }
        if !fft.has_outputs() {
            return Err(ProgramError::FftOutputs { have: fft.writes().count(), most: fft.points });
        }
        let uses = check_buffers(buffers, fft.reads(), fft.writes())?;
        let Some(transform) = Transform::new(tier, fft) else { return Ok(None) };
        Ok(Some(Program { stages: Stages::One(Stage::Fft(transform)), uses, stores: Stores::Auto }))
    }

    /// Compiles a network of transforms for [`Tier::best`].
    ///
    /// Errors: a step does not have the lanes that it needs, or reads a slot that was not written;
    /// slots of one step overlap; otherwise those of [`Program::new`].
    pub fn network(buffers: usize, network: &Network) -> Result<Program, ProgramError> {
        Program::network_with_tier(Tier::best(), buffers, network)
    }

    /// Works like [`Program::network`], for a tier that the caller chooses.
    pub fn network_with_tier(tier: Tier, buffers: usize, network: &Network) -> Result<Program, ProgramError> {
        check_count(buffers)?;
        let uses = network.check(buffers)?;
        let Some(flight) = Flight::new(tier, network) else {
            return Err(ProgramError::TierUnavailable { tier });
        };
        Ok(Program { stages: Stages::One(Stage::Network(flight)), uses, stores: Stores::Auto })
    }
}
