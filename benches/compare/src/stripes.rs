//! The buffers: every library works on the same ones, laid out as they are met in practice and as
//! Pantile lays out its own.

/// Buffer `i` of set `s` begins at `(s * buffers + i) * pitch` of one page-aligned memory.
pub struct Stripes {
    memory: Vec<u8>,
    base: usize,
    pointers: Vec<*mut u8>,
    buffers: usize,
    pub len: usize,
}

impl Stripes {
    /// Memory for `bytes` in all, painted.
    pub fn new(bytes: usize) -> Stripes {
        let mut memory = vec![0u8; bytes + 8192];
        let base = memory.as_ptr().align_offset(4096);
        let mut state = 1u64;
        for chunk in memory.chunks_mut(8) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = (state ^ (state >> 29)).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Stripes { memory, base, pointers: Vec::new(), buffers: 0, len: 0 }
    }

    /// Lays out as many sets of `buffers` buffers of `len` bytes as fit `footprint`, one at least.
    pub fn lay_out(&mut self, buffers: usize, len: usize, staggered: bool, footprint: usize) {
        let pitch =
            if staggered { (len + 256).next_multiple_of(512) - 256 } else { len.next_multiple_of(4096) };
        let set = (pitch * buffers).next_multiple_of(4096);
        let room = self.memory.len() - 8192;
        assert!(set <= room, "a set fits the memory");
        let sets = (footprint.min(room) / set).max(1);
        let base = self.memory.as_mut_ptr().wrapping_add(self.base);
        self.pointers =
            (0..sets * buffers).map(|i| base.wrapping_add(i / buffers * set + i % buffers * pitch)).collect();
        (self.buffers, self.len) = (buffers, len);
    }

    pub fn sets(&self) -> usize {
        self.pointers.len() / self.buffers
    }

    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// The pointers of one set.
    pub fn set(&self, set: usize) -> &[*mut u8] {
        &self.pointers[set * self.buffers..(set + 1) * self.buffers]
    }

    /// The pointers of all sets.
    pub fn all(&self) -> &[*mut u8] {
        &self.pointers
    }

    /// Slices of one set. The libraries take turns: nobody else holds slices of it at that time.
    #[allow(clippy::mut_from_ref, reason = "see above; the memory is handed to C in between")]
    pub fn views(&self, set: usize) -> Vec<&mut [u8]> {
        // SAFETY: pointers are `len` bytes apart at least and inside the memory.
        self.set(set).iter().map(|&p| unsafe { std::slice::from_raw_parts_mut(p, self.len) }).collect()
    }

    /// The first k buffers of a set, and the others.
    #[allow(clippy::mut_from_ref, reason = "as views")]
    pub fn parts(&self, set: usize, k: usize) -> (Vec<&[u8]>, Vec<&mut [u8]>) {
        let mut data = self.views(set);
        let parity = data.split_off(k);
        (data.into_iter().map(|view| &*view).collect(), parity)
    }

    /// As [`Stripes::views`], every buffer cut into `rows` elements.
    #[allow(clippy::mut_from_ref, reason = "as views")]
    pub fn elements(&self, set: usize, rows: usize) -> Vec<&mut [u8]> {
        let element = self.len / rows;
        self.views(set).into_iter().flat_map(|view| view.chunks_exact_mut(element)).collect()
    }

    /// Calls `use_it` with buffers of which only the first `len` bytes count.
    pub fn with_len(&self, len: usize, use_it: impl FnOnce(&Stripes)) {
        assert!(len <= self.len);
        use_it(&Stripes {
            memory: Vec::new(),
            base: 0,
            pointers: self.pointers.clone(),
            buffers: self.buffers,
            len,
        });
    }
}
