//! From rows of coefficients to passes of a vector engine: what every instruction set shares.
//!
//! A *pass* computes up to [`MAX_OUTPUTS`] outputs in one sweep over the union of their sources, with all sums in
//! registers. Rows share a pass if reading the sources once saves more than the zero coefficients cost that fill
//! the gaps. A row of ones over the whole pass comes first and is plain XOR.
//!
//! Three traversals, chosen per call because they depend on addresses and lengths:
//! * one pass, few streams: the whole length at once;
//! * several passes: tiles, so that the sources that passes share stay in the first-level cache;
//! * many sources, or more than [`MAX_SAME_SET`] of them at one place modulo 4 KiB: groups of sources, with the
//!   partial sums of a tile in scratch that lies in the first-level cache and never aliases.
//!
//! Invariants: each output belongs to exactly one pass or is empty; every byte of an output is stored through its
//! own pointer exactly once per call; scratch is written before it is read.

use std::mem::MaybeUninit;

use crate::Stores;
use crate::dot::Mode;

/// Outputs of one pass: what 16 or 32 vector registers hold beside the sources.
pub(crate) const MAX_OUTPUTS: usize = 8;

/// Sources of one kernel call. Beyond it the streams outnumber what hardware prefetchers and the TLB follow.
const MAX_SOURCES: usize = 32;

/// Auto streams above this footprint: twice the second-level cache of the machines in NOTES.md.
const STREAMING_FOOTPRINT_BYTES: usize = 4 << 20;

/// Streams that may start at one cache set before sources are taken in groups: NOTES.md has the measurements.
const MAX_SAME_SET: usize = 12;

/// Sources of a group when they alias: the ways of the smallest first-level caches.
const ALIASED_GROUP: usize = 8;

/// Bytes of each stream of a group. Sources, scratch and outputs of a tile lie in 32 KiB together.
const GROUP_TILE_BYTES: usize = 1024;

/// What the sources and outputs of a tile may fill together when several passes share them.
const SHARED_TILE_FOOTPRINT_BYTES: usize = 24 * 1024;

/// Shorter streams are not worth a look at their addresses.
const MIN_GROUPED_LEN_BYTES: usize = 2048;

/// An instruction set that can run passes. A value of the type is the witness that the machine has it.
pub(crate) trait Engine: Copy {
    /// A coefficient as the kernels want it.
    type Coefficient: Copy;

    /// The cost of multiplying and adding one vector, in halves of the cost of loading one.
    const MULTIPLY_COST: usize;

    /// The alignment that streaming stores need.
    const STREAM_ALIGN_BYTES: usize;

    /// Prepares a coefficient.
    fn coefficient(c: u8) -> Self::Coefficient;

    /// The kernel for this number of outputs, in `1..=MAX_OUTPUTS`. If `ones`, output 0 is the plain sum of the
    /// sources and has no coefficients. If `streaming`, stores go past the cache and outputs must be aligned to
    /// `STREAM_ALIGN_BYTES`.
    fn kernel(self, outputs: usize, ones: bool, streaming: bool) -> Kernel<Self::Coefficient>;

    /// Orders streaming stores before everything that follows.
    fn fence(self);
}

/// Computes one job.
///
/// # Safety
///
/// Every pointer of the job is valid for `len` bytes: sources and `start` for reads, outputs for writes. An output
/// overlaps no source and no other output; `start[o]` is `outputs[o]` or overlaps no output. The machine has the
/// engine that made the kernel, and the job has the shape that the engine made it for.
pub(crate) type Kernel<C> = unsafe fn(&Job<'_, C>);

/// `outputs[o] = start[o] + sum over t of coefficient(t, o) * sources[t]`.
pub(crate) struct Job<'a, C> {
    /// One pointer per term, already at the first byte of the job.
    pub(crate) sources: &'a [*const u8],
    /// Term by term, the coefficients of the outputs in order (without the output of ones).
    pub(crate) coefficients: &'a [C],
    /// The sums so far; `None` means zero.
    pub(crate) start: Option<&'a [*const u8; MAX_OUTPUTS]>,
    /// Where the sums go. Entries past the number of outputs are not read.
    pub(crate) outputs: &'a [*mut u8; MAX_OUTPUTS],
    /// Bytes of every buffer.
    pub(crate) len: usize,
}

/// Rows compiled into passes.
pub(crate) struct Schedule<E: Engine> {
    engine: E,
    passes: Vec<Pass<E>>,
    /// Rows without coefficients.
    empty: Vec<usize>,
    /// Sources that any pass reads, ascending.
    used: Vec<usize>,
    /// Sources of the widest pass.
    widest: usize,
    /// Streams of the whole: sources read and outputs written.
    streams: usize,
}

struct Pass<E: Engine> {
    cached: Kernel<E::Coefficient>,
    streaming: Kernel<E::Coefficient>,
    sources: Vec<usize>,
    coefficients: Vec<E::Coefficient>,
    /// Coefficients per source.
    width: usize,
    outputs: Vec<usize>,
}

/// How one call walks over its buffers.
#[derive(Clone, Copy)]
struct Walk {
    mode: Mode,
    streaming: bool,
    aliased: bool,
}

impl<E: Engine> Schedule<E> {
    /// Compiles tidy rows: sources ascending, no zero coefficient.
    pub(crate) fn new(engine: E, rows: &[Vec<(usize, u8)>]) -> Schedule<E> {
        let passes: Vec<Pass<E>> =
            clusters::<E>(rows).iter().map(|cluster| Pass::new(engine, rows, cluster)).collect();
        let empty: Vec<usize> = (0..rows.len()).filter(|&o| rows[o].is_empty()).collect();
        let mut used: Vec<usize> = rows.iter().flatten().map(|(source, _)| *source).collect();
        used.sort_unstable();
        used.dedup();
        let widest = passes.iter().map(|pass| pass.sources.len()).max().unwrap_or(0);
        let streams = used.len() + rows.len();
        Schedule { engine, passes, empty, used, widest, streams }
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As `Program::run`.
    pub(crate) unsafe fn run(
        &self,
        mode: Mode,
        stores: Stores,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        if mode == Mode::Apply {
            for &o in &self.empty {
                // SAFETY: the output is valid for writes of `len` bytes.
                unsafe { output(o).write_bytes(0, len) };
            }
        }
        let streaming = match stores {
            Stores::Cached => false,
            Stores::Streaming => true,
            Stores::Auto => self.streams.saturating_mul(len) > STREAMING_FOOTPRINT_BYTES,
        };
        let aliased = self.widest > MAX_SAME_SET && len >= MIN_GROUPED_LEN_BYTES && self.is_aliased(&source);
        let walk = Walk { mode, streaming, aliased };
        let tile = if self.passes.len() <= 1 { len } else { self.shared_tile() };
        let mut at = 0;
        while at < len {
            let n = tile.min(len - at);
            for pass in &self.passes {
                // SAFETY: every buffer is valid for `len >= at + n` bytes, so the moved pointers stay inside and
                // are valid for n bytes. The caller promises the disjointness and, by `Mode`, initialisation.
                unsafe { pass.run(walk, |s| source(s).add(at), |o| output(o).add(at), n) };
            }
            at += n;
        }
        if streaming {
            self.engine.fence();
        }
    }

    /// Whether more sources than a cache set has ways start in the same set.
    fn is_aliased(&self, source: &impl Fn(usize) -> *const u8) -> bool {
        let mut starts = [0usize; 64];
        self.used.iter().any(|&s| {
            let set = &mut starts[source(s).addr() / 64 % 64];
            *set += 1;
            *set > MAX_SAME_SET
        })
    }

    fn shared_tile(&self) -> usize {
        (SHARED_TILE_FOOTPRINT_BYTES / self.streams).clamp(1024, 8192) / 256 * 256
    }
}

impl<E: Engine> Pass<E> {
    fn new(engine: E, rows: &[Vec<(usize, u8)>], cluster: &[usize]) -> Pass<E> {
        let mut sources: Vec<usize> =
            cluster.iter().flat_map(|&o| &rows[o]).map(|(source, _)| *source).collect();
        sources.sort_unstable();
        sources.dedup();
        let ones_at = cluster.iter().position(|&o| is_ones(&rows[o]) && rows[o].len() == sources.len());
        let mut outputs = cluster.to_vec();
        if let Some(at) = ones_at {
            outputs[..=at].rotate_right(1);
        }
        let ones = ones_at.is_some();
        let multiplied = &outputs[usize::from(ones)..];
        let coefficients = sources
            .iter()
            .flat_map(|&source| {
                multiplied.iter().map(move |&o| E::coefficient(coefficient_of(&rows[o], source)))
            })
            .collect();
        Pass {
            cached: engine.kernel(outputs.len(), ones, false),
            streaming: engine.kernel(outputs.len(), ones, true),
            width: multiplied.len(),
            sources,
            coefficients,
            outputs,
        }
    }

    /// # Safety
    ///
    /// As `Program::run`, for the sources and outputs of this pass.
    unsafe fn run(
        &self,
        walk: Walk,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
        for (pointer, &o) in outputs.iter_mut().zip(&self.outputs) {
            *pointer = output(o);
        }
        let can_stream = outputs.iter().all(|pointer| pointer.addr() % E::STREAM_ALIGN_BYTES == 0);
        let kernel = if walk.streaming && can_stream { self.streaming } else { self.cached };
        let start = outputs.map(|pointer| pointer.cast_const());
        let start = (walk.mode == Mode::Accumulate).then_some(&start);
        let is_grouped =
            self.sources.len() > MAX_SOURCES || (walk.aliased && self.sources.len() > MAX_SAME_SET);
        if is_grouped {
            let group = if walk.aliased { ALIASED_GROUP } else { MAX_SOURCES };
            // SAFETY: the caller's promise, restated for the gathered pointers.
            unsafe { self.run_grouped(group, kernel, start, &outputs, source, len) };
        } else {
            // SAFETY: as above; there are at most MAX_SOURCES sources. The engine that made the kernels is a
            // witness of its instructions, and coefficients were laid out for the same shape.
            unsafe { self.run_terms(kernel, 0..self.sources.len(), start, &outputs, source, len) };
        }
    }

    /// Sweeps over tiles, group by group, with partial sums in scratch.
    ///
    /// # Safety
    ///
    /// As [`Kernel`], for every source of the pass.
    unsafe fn run_grouped(
        &self,
        group: usize,
        last_kernel: Kernel<E::Coefficient>,
        start: Option<&[*const u8; MAX_OUTPUTS]>,
        outputs: &[*mut u8; MAX_OUTPUTS],
        source: impl Fn(usize) -> *const u8,
        len: usize,
    ) {
        let terms = self.sources.len();
        let groups = terms.div_ceil(group);
        let mut scratch = MaybeUninit::<Scratch>::uninit();
        let sums: [*mut u8; MAX_OUTPUTS] =
            // SAFETY: MAX_OUTPUTS tiles fit the scratch exactly.
            std::array::from_fn(|o| unsafe { scratch.as_mut_ptr().cast::<u8>().add(o * GROUP_TILE_BYTES) });
        let sums_so_far = sums.map(|pointer| pointer.cast_const());
        let mut at = 0;
        while at < len {
            let n = GROUP_TILE_BYTES.min(len - at);
            // SAFETY: at + n <= len, for which the pointers are valid. Pointers past the outputs of this pass are
            // null and, moved without arithmetic on the object, never used.
            let tile_outputs = outputs.map(|pointer| pointer.wrapping_add(at));
            let tile_start = start.map(|start| start.map(|pointer| pointer.wrapping_add(at)));
            for g in 0..groups {
                let range = g * terms / groups..(g + 1) * terms / groups;
                let begin = if g == 0 { tile_start.as_ref() } else { Some(&sums_so_far) };
                let is_last = g + 1 == groups;
                let (kernel, target) =
                    if is_last { (last_kernel, &tile_outputs) } else { (self.cached, &sums) };
                // SAFETY: sources are valid for `len >= at + n` bytes; targets and starts for n bytes: the outputs
                // by the caller's promise, scratch because n <= GROUP_TILE_BYTES, and it was written by the group
                // before whenever it is read (g > 0). Scratch is ours, so it overlaps nothing of the caller's.
                unsafe { self.run_terms(kernel, range, begin, target, |s| source(s).add(at), n) };
            }
            at += n;
        }
    }

    /// One kernel call over the terms of `range`, of which there are at most [`MAX_SOURCES`].
    ///
    /// # Safety
    ///
    /// As [`Kernel`], for the sources of the range.
    #[inline]
    unsafe fn run_terms(
        &self,
        kernel: Kernel<E::Coefficient>,
        range: std::ops::Range<usize>,
        start: Option<&[*const u8; MAX_OUTPUTS]>,
        outputs: &[*mut u8; MAX_OUTPUTS],
        source: impl Fn(usize) -> *const u8,
        len: usize,
    ) {
        let mut pointers = [std::ptr::null(); MAX_SOURCES];
        let indices = &self.sources[range.clone()];
        let pointers = &mut pointers[..indices.len()];
        for (pointer, &s) in pointers.iter_mut().zip(indices) {
            *pointer = source(s);
        }
        let coefficients = &self.coefficients[range.start * self.width..range.end * self.width];
        // SAFETY: the caller's promise.
        unsafe { kernel(&Job { sources: pointers, coefficients, start, outputs, len }) };
    }
}

/// Partial sums of one tile. Its rows lie one after the other, so they never share a cache set.
#[repr(align(64))]
struct Scratch {
    _tiles: [[u8; GROUP_TILE_BYTES]; MAX_OUTPUTS],
}

/// Which rows share a pass: each non-empty row once, at most [`MAX_OUTPUTS`] to a cluster.
///
/// Cost: O(rows^2) comparisons of supports, once per matrix.
fn clusters<E: Engine>(rows: &[Vec<(usize, u8)>]) -> Vec<Vec<usize>> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (o, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let alone = Cluster::of(o, row);
        let best = clusters
            .iter()
            .enumerate()
            .map(|(i, cluster)| (i, cluster.with(&alone)))
            .map(|(i, joined)| (joined.cost::<E>(), clusters[i].cost::<E>() + alone.cost::<E>(), i, joined))
            .filter(|(together, apart, ..)| together < apart)
            .min_by_key(|(together, apart, ..)| together.wrapping_sub(*apart) as isize);
        match best {
            Some((_, _, i, joined)) => clusters[i] = joined,
            None => clusters.push(alone),
        }
    }
    clusters.into_iter().flat_map(|cluster| evenly_split(cluster.rows)).collect()
}

/// Rows that share a pass, or several if they are many.
struct Cluster {
    rows: Vec<usize>,
    /// The sources of all rows, as a bit set.
    union: Vec<u64>,
    /// The most sources of any row of ones.
    longest_ones: usize,
}

impl Cluster {
    fn of(o: usize, row: &[(usize, u8)]) -> Cluster {
        let mut union = Vec::new();
        for (source, _) in row {
            let word = source / 64;
            if union.len() <= word {
                union.resize(word + 1, 0);
            }
            union[word] |= 1 << (source % 64);
        }
        Cluster { rows: vec![o], union, longest_ones: if is_ones(row) { row.len() } else { 0 } }
    }

    fn with(&self, other: &Cluster) -> Cluster {
        let words = self.union.len().max(other.union.len());
        let word = |cluster: &Cluster, i: usize| cluster.union.get(i).copied().unwrap_or(0);
        Cluster {
            rows: self.rows.iter().chain(&other.rows).copied().collect(),
            union: (0..words).map(|i| word(self, i) | word(other, i)).collect(),
            longest_ones: self.longest_ones.max(other.longest_ones),
        }
    }

    /// In halves of a vector load: each source is loaded once, and multiplied for each row; XOR costs one half.
    fn cost<E: Engine>(&self) -> usize {
        let sources: usize = self.union.iter().map(|word| word.count_ones() as usize).sum();
        let plain = usize::from(self.longest_ones == sources);
        sources * (2 + plain + (self.rows.len() - plain) * E::MULTIPLY_COST)
    }
}

fn evenly_split(rows: Vec<usize>) -> Vec<Vec<usize>> {
    let parts = rows.len().div_ceil(MAX_OUTPUTS);
    (0..parts).map(|p| rows[p * rows.len() / parts..(p + 1) * rows.len() / parts].to_vec()).collect()
}

fn is_ones(row: &[(usize, u8)]) -> bool {
    row.iter().all(|(_, coefficient)| *coefficient == 1)
}

fn coefficient_of(row: &[(usize, u8)], source: usize) -> u8 {
    row.binary_search_by_key(&source, |(s, _)| *s).map_or(0, |at| row[at].1)
}

impl<E: Engine> std::fmt::Debug for Schedule<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.passes.iter().map(|pass| (&pass.sources, &pass.outputs, pass.width)))
            .finish()
    }
}
