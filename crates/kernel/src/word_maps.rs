//! Linear maps of words in the form that the loops of an engine take.

use crate::engine::Engine;
use crate::word_loops::{BYTES_MOST, Maps, WordJob, WordLoop, WordLoops};

/// A linear map of words compiled for an engine.
pub(crate) struct WordMaps<E: Engine> {
    maps: Box<Maps<E::Coefficient>>,
    loops: WordLoops<E::Coefficient>,
}

impl<E: Engine> WordMaps<E> {
    /// The map under which bit i has the image `images[i]`; `None` if the engine has no loops.
    pub(crate) fn new(engine: E, images: &[u32]) -> Option<WordMaps<E>> {
        let loops = engine.word_loops(images.len() / 8)?;
        let zero = (loops.map)([0; 8]);
        let mut maps = Box::new([[zero; BYTES_MOST]; BYTES_MOST]);
        for (s, images) in images.chunks_exact(8).enumerate() {
            for r in 0..BYTES_MOST {
                maps[r][s] = (loops.map)(std::array::from_fn(|bit| images[bit].to_le_bytes()[r]));
            }
        }
        Some(WordMaps { maps, loops })
    }

    /// Maps words and splits them into rows of `pitch` bytes. Returns the number of words taken:
    /// all but fewer than a step.
    ///
    /// # Safety
    ///
    /// As [`WordLoop`], for `pitch` words and rows of `pitch` bytes.
    pub(crate) unsafe fn split(&self, words: *const u8, rows: *mut u8, pitch: usize) -> usize {
        // SAFETY: the caller's promise; the loop only reads words.
        unsafe { self.run(self.loops.split, words.cast_mut(), rows, pitch) }
    }

    /// Joins rows of `pitch` bytes to words and maps these. Returns what [`WordMaps::split`] does.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn join(&self, rows: *const u8, words: *mut u8, pitch: usize) -> usize {
        // SAFETY: the caller's promise; the loop only reads rows.
        unsafe { self.run(self.loops.join, words, rows.cast_mut(), pitch) }
    }

    /// # Safety
    ///
    /// As [`WordMaps::split`].
    unsafe fn run(
        &self,
        run: WordLoop<E::Coefficient>,
        words: *mut u8,
        rows: *mut u8,
        pitch: usize,
    ) -> usize {
        let len = pitch / self.loops.step * self.loops.step;
        // SAFETY: the caller's promise; the engine that made the loop is a witness of its
        // instructions.
        unsafe { run(&WordJob { maps: &self.maps, words, rows, pitch, len }) };
        len
    }
}

impl<E: Engine> std::fmt::Debug for WordMaps<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WordMaps").field("step", &self.loops.step).finish_non_exhaustive()
    }
}
