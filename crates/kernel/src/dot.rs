//! Dot products over GF(2^8): the public shape and its checks.

use crate::dispatch::Program;
use crate::error::{DotError, ShapeError};
use crate::stores::{Mode, Stores};
use crate::tier::Tier;

/// A sparse or dense matrix of coefficients, outputs x sources, compiled for one tier.
///
/// Immutable, `Send + Sync` and reusable: build it once per matrix, apply it to any number of
/// stripes.
#[derive(Debug)]
pub struct Dot {
    program: Program,
    sources: usize,
    outputs: usize,
    stores: Stores,
    /// The number of outputs, and of sources that a row uses.
    streams: usize,
}

impl Dot {
    /// Compiles a matrix for [`Tier::best`]: row o has the (source index, coefficient) pairs
    /// `rows[o]`.
    ///
    /// Coefficients of one source in one row are summed; those that are zero are dropped.
    /// Errors: `SourceOutOfRange` if a pair names a source at or past `sources`.
    pub fn new(sources: usize, rows: &[Vec<(usize, u8)>]) -> Result<Dot, DotError> {
        Dot::with_tier(Tier::best(), sources, rows)
    }

    /// Works like [`Dot::new`], for a tier that the caller chooses.
    ///
    /// Errors: also `TierUnavailable` if this machine lacks the tier.
    pub fn with_tier(tier: Tier, sources: usize, rows: &[Vec<(usize, u8)>]) -> Result<Dot, DotError> {
        for (output, row) in rows.iter().enumerate() {
            if let Some(&(source, _)) = row.iter().find(|(source, _)| *source >= sources) {
                return Err(DotError::SourceOutOfRange { output, source, sources });
            }
        }
        let tidy: Vec<Vec<(usize, u8)>> = rows.iter().map(|row| tidied(row)).collect();
        let program = Program::new(tier, &tidy).ok_or(DotError::TierUnavailable { tier })?;
        let mut used = vec![false; sources];
        tidy.iter().flatten().for_each(|&(source, _)| used[source] = true);
        let streams = rows.len() + used.iter().filter(|&&used| used).count();
        Ok(Dot { program, sources, outputs: rows.len(), stores: Stores::Auto, streams })
    }

    /// Returns the same matrix with another store policy; the results do not depend on it.
    pub fn with_stores(self, stores: Stores) -> Dot {
        Dot { stores, ..self }
    }

    /// The number of sources that `apply` takes.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// The number of outputs that `apply` fills.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Computes `outputs[o] = sum of coefficient * sources[s]`.
    ///
    /// Shape: every slice of one length; any length, any alignment. A row without coefficients
    /// gives zeros. Errors: a count or a length is wrong; nothing is then written. Cost: no lock,
    /// and no allocation after the first run on a thread. One pass over the sources for up to eight
    /// dense outputs.
    pub fn apply(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), ShapeError> {
        self.run_checked(Mode::Apply, sources, outputs)
    }

    /// Computes `outputs[o] ^= sum of coefficient * sources[s]`. Otherwise works like
    /// [`Dot::apply`].
    pub fn accumulate(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), ShapeError> {
        self.run_checked(Mode::Accumulate, sources, outputs)
    }

    /// Works like [`Dot::apply`] on raw pointers, for callers with many strided elements in one
    /// arena.
    ///
    /// Panics if the number of pointers is not the number of sources and outputs.
    ///
    /// # Safety
    ///
    /// Every source is valid for reads and every output for writes of `len` bytes; the `len` bytes
    /// of an output overlap neither a source's nor another output's. Sources may overlap one
    /// another. Outputs need not be initialised.
    pub unsafe fn apply_raw(&self, sources: &[*const u8], outputs: &[*mut u8], len: usize) {
        // SAFETY: the caller's promise is what `run_raw` asks for.
        unsafe { self.run_raw(Mode::Apply, sources, outputs, len) }
    }

    fn run_checked(
        &self,
        mode: Mode,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) -> Result<(), ShapeError> {
        let len = self.check_shape(sources, outputs)?;
        // SAFETY: the shape was checked: both counts are the program's and every slice is `len`
        // bytes long. Slices are valid, and `&mut` keeps outputs apart from sources and from one
        // another.
        unsafe {
            self.program.run(
                mode,
                self.streams_at(mode, len),
                |s| sources[s].as_ptr(),
                |o| outputs[o].as_mut_ptr(),
                len,
            );
        }
        Ok(())
    }

    unsafe fn run_raw(&self, mode: Mode, sources: &[*const u8], outputs: &[*mut u8], len: usize) {
        assert_eq!(sources.len(), self.sources, "one pointer per source");
        assert_eq!(outputs.len(), self.outputs, "one pointer per output");
        // SAFETY: the counts are the program's; the caller promises the rest.
        unsafe { self.program.run(mode, self.streams_at(mode, len), |s| sources[s], |o| outputs[o], len) }
    }

    /// Works like [`Dot::apply_raw`], with pointers by index; the caller decides about stores past
    /// the cache.
    ///
    /// # Safety
    ///
    /// As [`Dot::apply_raw`].
    pub(crate) unsafe fn run_streaming(
        &self,
        mode: Mode,
        streaming: bool,
        source: impl Fn(usize) -> *const u8,
        output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.program.run(mode, streaming, source, output, len) }
    }

    /// True if all outputs are computed in one sweep over their sources.
    pub(crate) fn is_one_pass(&self) -> bool {
        self.program.is_one_pass()
    }

    /// Decides about stores past the cache. Outputs that are added to were just read into the
    /// cache.
    fn streams_at(&self, mode: Mode, len: usize) -> bool {
        match (mode, self.stores) {
            (Mode::Accumulate, Stores::Auto) => false,
            _ => self.stores.streams(self.streams, len),
        }
    }

    fn check_shape(&self, sources: &[&[u8]], outputs: &[&mut [u8]]) -> Result<usize, ShapeError> {
        if sources.len() != self.sources {
            return Err(ShapeError::SourceCount { have: sources.len(), need: self.sources });
        }
        if outputs.len() != self.outputs {
            return Err(ShapeError::OutputCount { have: outputs.len(), need: self.outputs });
        }
        let need = match (outputs.first(), sources.first()) {
            (Some(output), _) => output.len(),
            (None, Some(source)) => source.len(),
            (None, None) => 0,
        };
        if let Some(index) = sources.iter().position(|source| source.len() != need) {
            return Err(ShapeError::SourceLen { index, have: sources[index].len(), need });
        }
        if let Some(index) = outputs.iter().position(|output| output.len() != need) {
            return Err(ShapeError::OutputLen { index, have: outputs[index].len(), need });
        }
        Ok(need)
    }
}

/// Returns a row with one non-zero coefficient per source, sources ascending.
fn tidied(row: &[(usize, u8)]) -> Vec<(usize, u8)> {
    let mut sorted = row.to_vec();
    sorted.sort_unstable_by_key(|(source, _)| *source);
    let mut tidy: Vec<(usize, u8)> = Vec::with_capacity(sorted.len());
    for (source, coefficient) in sorted {
        match tidy.last_mut() {
            Some(last) if last.0 == source => last.1 ^= coefficient,
            _ => tidy.push((source, coefficient)),
        }
    }
    tidy.retain(|(_, coefficient)| *coefficient != 0);
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tidy_row_has_each_source_once_and_no_zero() {
        assert_eq!(tidied(&[(3, 5), (1, 0), (2, 7), (3, 4), (2, 7)]), [(3, 1)]);
    }

    #[test]
    fn outputs_that_are_added_to_stay_in_the_cache() {
        let dot = Dot::new(1, &[vec![(0, 3)]]).unwrap();
        let len = 1 << 30;
        assert!(dot.streams_at(Mode::Apply, len) && !dot.streams_at(Mode::Accumulate, len));
        let dot = dot.with_stores(Stores::Streaming);
        assert!(dot.streams_at(Mode::Accumulate, len));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let error = Dot::new(2, &[vec![(0, 1)], vec![(2, 1)]]).unwrap_err();
        assert_eq!(error, DotError::SourceOutOfRange { output: 1, source: 2, sources: 2 });
        let dot = Dot::new(2, &[vec![(0, 1), (1, 1)]]).unwrap();
        let (a, b) = ([1; 8], [2; 7]);
        let mut out = [9; 8];
        let error = dot.apply(&[&a], &mut [&mut out]).unwrap_err();
        assert_eq!(error, ShapeError::SourceCount { have: 1, need: 2 });
        let error = dot.apply(&[&a, &b], &mut [&mut out]).unwrap_err();
        assert_eq!(error, ShapeError::SourceLen { index: 1, have: 7, need: 8 });
        let error = dot.apply(&[&a, &a], &mut []).unwrap_err();
        assert_eq!(error, ShapeError::OutputCount { have: 0, need: 1 });
        let two = Dot::new(1, &[vec![(0, 1)], vec![(0, 2)]]).unwrap();
        let error = two.apply(&[&a], &mut [&mut out, &mut [0; 9]]).unwrap_err();
        assert_eq!(error, ShapeError::OutputLen { index: 1, have: 9, need: 8 });
        assert_eq!(out, [9; 8], "nothing is written on error");
    }
}
