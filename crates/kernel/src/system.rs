//! A small system of sums, as used in decoding: its shape and its matrix.

use crate::portable::product;

/// A system: outputs that are computed from as many sums, all over the same sources.
///
/// It borrows flat lists, because a recovery that is planned for one stripe must not take longer to
/// compile than to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System<'a> {
    /// The buffers that are in every sum.
    pub sources: &'a [usize],
    /// For each source, its coefficients in all sums.
    pub coefficients: &'a [u8],
    /// For each sum, a buffer that is added with coefficient 1, and is in no other sum.
    pub starts: &'a [Option<usize>],
    /// The buffers that are written.
    pub outputs: &'a [usize],
    /// For each output, its coefficients over all sums.
    pub solution: &'a [u8],
}

impl System<'_> {
    /// True if there are as many sums as outputs, and the right number of coefficients for both.
    pub(crate) fn is_whole(&self) -> bool {
        let count = self.starts.len();
        self.outputs.len() == count
            && self.coefficients.len() == self.sources.len() * count
            && self.solution.len() == count * count
    }

    /// Returns each output as a sum over the sources: the matrix of the system.
    pub(crate) fn expanded(&self) -> Vec<(usize, Vec<(usize, u8)>)> {
        // Chunks must have at least one element, even without a sum.
        let count = self.starts.len().max(1);
        let over = |own: &[u8]| {
            let starts = self.starts.iter().zip(own).filter_map(|(start, &c)| Some(((*start)?, c)));
            let of_source =
                |of_sums: &[u8]| own.iter().zip(of_sums).fold(0, |sum, (&c, &d)| sum ^ product(c, d));
            let sources = self.sources.iter().zip(self.coefficients.chunks_exact(count));
            starts.chain(sources.map(|(&source, of_sums)| (source, of_source(of_sums)))).collect()
        };
        self.outputs
            .iter()
            .zip(self.solution.chunks_exact(count))
            .map(|(&output, own)| (output, over(own)))
            .collect()
    }
}
