//! Computations on blocks: sums over GF(2^8) and checksums, and the threads for long ones.
//!
//! Sums over the same operands are computed in one pass over these (for example, the parities of a
//! stripe), unless one of the sums uses the result of another.

use crate::locks::{lock, wait};
use crate::memory::{BLOCK, Block, Buffers};
use pantile_format::Generation;
use pantile_format::volume::{VolumeId, block_checksum};
use pantile_kernel::Dot;
use pantile_volume::{BufferId, Compute, Computed, Operand, Seed, Sum};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Returns the checksum of a block with a seed.
pub(crate) fn checksum(volume: VolumeId, seed: Seed, content: &[u8]) -> u64 {
    block_checksum(volume, seed.slot, seed.address, Generation(seed.generation), content).0
}

/// Coefficients: one row for each output, one column for each source.
type Matrix = Vec<Vec<u8>>;

/// Compiled matrices, shared by all workers. A volume has few of them: one for its parities, and
/// one for each pattern of losses.
#[derive(Default)]
pub(crate) struct Matrices {
    compiled: Mutex<HashMap<Matrix, Arc<Dot>>>,
}

/// Most compiled matrices. When there are more, all are dropped and compiled again when needed, so
/// the memory is bounded for any number of patterns of losses.
const MATRICES_MAX: usize = 1024;

impl Matrices {
    pub(crate) fn get(&self, matrix: Matrix) -> Arc<Dot> {
        let mut compiled = lock(&self.compiled);
        if let Some(dot) = compiled.get(&matrix) {
            return dot.clone();
        }
        let rows: Vec<Vec<(usize, u8)>> =
            matrix.iter().map(|row| row.iter().copied().enumerate().collect()).collect();
        let sources = matrix.first().map_or(0, Vec::len);
        let dot = Arc::new(Dot::new(sources, &rows).expect("every source is in the matrix"));
        if compiled.len() >= MATRICES_MAX {
            compiled.clear();
        }
        compiled.insert(matrix, dot.clone());
        dot
    }
}

/// A computation together with all of its operands, so that any thread can run it.
pub(crate) struct Task {
    volume: VolumeId,
    work: Compute,
    /// The operands that are not results of this computation.
    given: FxHashMap<Operand, Block>,
}

/// Results of a computation.
pub(crate) struct Outcome {
    pub(crate) made: Vec<(BufferId, Block)>,
    pub(crate) computed: Computed,
}

impl Task {
    /// Collects the operands of a computation; `get` returns those that are not results of it.
    pub(crate) fn new(volume: VolumeId, work: Compute, mut get: impl FnMut(Operand) -> Block) -> Task {
        let made: FxHashSet<BufferId> = work.sums.iter().map(|sum| sum.into).collect();
        let terms = work.sums.iter().flat_map(|sum| sum.terms.iter().map(|(operand, _)| *operand));
        let mut given = FxHashMap::default();
        let summed = work.checksums.iter().map(|(operand, _)| *operand);
        let compared = work.differing.iter().flat_map(|&(a, b)| [a, b]);
        for operand in terms.chain(summed).chain(compared) {
            let inner = matches!(operand, Operand::Buffer(id) if made.contains(&id));
            if !inner && !given.contains_key(&operand) {
                given.insert(operand, get(operand));
            }
        }
        Task { volume, work, given }
    }

    /// Returns the approximate number of bytes that the computation reads.
    pub(crate) fn bytes(&self) -> usize {
        let terms: usize = self.work.sums.iter().map(|sum| sum.terms.len()).sum();
        (terms + self.work.checksums.len() + 2 * self.work.differing.len()) * BLOCK
    }

    /// Runs the computation.
    pub(crate) fn run(self, matrices: &Matrices, buffers: &Buffers) -> Outcome {
        let Task { volume, work, given } = self;
        let mut have = given;
        let mut made = Vec::with_capacity(work.sums.len());
        for pass in passes(&work.sums) {
            // Each pass writes to one buffer, because only later passes read its results.
            let mut buffer = buffers.take(pass.iter().map(Vec::len).sum());
            let runs = runs(&pass, &work.sums, &have);
            let mut outputs: Vec<Vec<&mut [u8]>> = runs.iter().map(|_| Vec::new()).collect();
            let (mut rest, mut order) = (&mut buffer[..], Vec::new());
            // The results of one position in all groups are adjacent: these are the blocks of one
            // parity, which go to one device.
            for place in 0..pass.iter().map(Vec::len).max().unwrap_or(0) {
                for (run, outputs) in runs.iter().zip(&mut outputs) {
                    let groups = pass[run.groups.clone()].iter().filter_map(|group| group.get(place));
                    let made = order.len();
                    order.extend(groups.map(|&i| work.sums[i].into));
                    let (output, behind) = rest.split_at_mut((order.len() - made) * BLOCK);
                    rest = behind;
                    if !output.is_empty() {
                        outputs.push(output);
                    }
                }
            }
            for (run, mut outputs) in runs.into_iter().zip(outputs) {
                let blocks = run.groups.len();
                let terms = &work.sums[pass[run.groups.start][0]].terms;
                let sources: Vec<&[u8]> = terms.iter().map(|(op, _)| have[op].bytes_of(blocks)).collect();
                if sources.is_empty() {
                    outputs.iter_mut().for_each(|output| output.fill(0));
                } else {
                    let applied = matrices.get(run.matrix).apply(&sources, &mut outputs);
                    applied.expect("blocks have one length");
                }
            }
            for (id, block) in order.into_iter().zip(Block::all_of(buffer)) {
                have.insert(Operand::Buffer(id), block.clone());
                made.push((id, block));
            }
        }
        let sums = work.checksums.iter();
        let checksums = sums.map(|(operand, seed)| checksum(volume, *seed, have[operand].bytes())).collect();
        let differ = |(a, b): &(Operand, Operand)| {
            let pairs = have[a].bytes().iter().zip(have[b].bytes());
            pairs.filter(|(a, b)| a != b).count() as u64
        };
        let differing = work.differing.iter().map(differ).collect();
        Outcome { made, computed: Computed { checksums, differing } }
    }
}

/// A run: adjacent groups with the same coefficients, whose operands are also adjacent in memory.
/// They are computed together, as one group of longer blocks.
struct Run {
    groups: Range<usize>,
    matrix: Matrix,
}

fn runs(pass: &[Vec<usize>], sums: &[Sum], have: &FxHashMap<Operand, Block>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, group) in pass.iter().enumerate() {
        let terms = &sums[group[0]].terms;
        let matrix: Matrix = group.iter().map(|&i| coefficients(&sums[i], terms)).collect();
        let goes_on = |run: &&mut Run| {
            let before = &sums[pass[run.groups.end - 1][0]].terms;
            let mut operands = before.iter().zip(terms);
            let follows = |((a, _), (b, _)): (&(Operand, _), &(Operand, _))| have[b].follows(&have[a]);
            run.matrix == matrix && operands.all(follows)
        };
        match runs.last_mut().filter(goes_on) {
            Some(run) => run.groups.end += 1,
            None => runs.push(Run { groups: number..number + 1, matrix }),
        }
    }
    runs
}

/// Returns the coefficients of a sum; `terms` are its terms.
fn coefficients(sum: &Sum, terms: &[(Operand, pantile_gf::Gf)]) -> Vec<u8> {
    debug_assert!(sum.terms.iter().map(|t| t.0).eq(terms.iter().map(|t| t.0)));
    sum.terms.iter().map(|(_, coefficient)| coefficient.0).collect()
}

/// Orders sums into passes of groups. The sums of a group have the same operands; a pass only uses
/// results of earlier passes.
fn passes(sums: &[Sum]) -> Vec<Vec<Vec<usize>>> {
    let mut level_of: FxHashMap<BufferId, usize> = FxHashMap::default();
    let mut groups: FxHashMap<(usize, Vec<Operand>), (usize, usize)> = FxHashMap::default();
    let mut passes: Vec<Vec<Vec<usize>>> = Vec::new();
    for (i, sum) in sums.iter().enumerate() {
        let above = sum.terms.iter().filter_map(|(operand, _)| match operand {
            Operand::Buffer(id) => level_of.get(id).map(|level| level + 1),
            Operand::Zeros => None,
        });
        let level = above.max().unwrap_or(0);
        level_of.insert(sum.into, level);
        if passes.len() == level {
            passes.push(Vec::new());
        }
        let key = (level, sum.terms.iter().map(|(operand, _)| *operand).collect());
        let pass = &mut passes[level];
        let &mut (_, group) = groups.entry(key).or_insert_with(|| {
            pass.push(Vec::new());
            (level, pass.len() - 1)
        });
        pass[group].push(i);
    }
    passes
}

/// Threads for long computations.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    called: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Number of idle threads.
    idle: usize,
    closed: bool,
}

impl Workers {
    pub(crate) fn new(threads: usize) -> std::io::Result<Workers> {
        let queue: Arc<Queue> = Arc::default();
        let mut workers = Workers { queue, threads: Vec::new() };
        for i in 0..threads.max(1) {
            let queue = workers.queue.clone();
            let builder = std::thread::Builder::new().name(format!("sum-{i}"));
            workers.threads.push(builder.spawn(move || queue.work())?);
        }
        Ok(workers)
    }

    pub(crate) fn give(&self, job: impl FnOnce() + Send + 'static) {
        let mut waiting = self.queue.lock();
        waiting.jobs.push_back(Box::new(job));
        let call = waiting.idle > 0;
        drop(waiting);
        if call {
            self.queue.called.notify_one();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.called.notify_all();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    fn work(&self) {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                drop(waiting);
                job();
                waiting = self.lock();
            } else if waiting.closed {
                return;
            } else {
                waiting.idle += 1;
                waiting = wait(&self.called, waiting);
                waiting.idle -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_gf::Gf;
    use pantile_volume::{DeviceBlock, Slot};

    fn painted(seed: usize) -> Block {
        let mut buffer = pantile_device::AlignedBuf::zeroed(BLOCK);
        buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i * (seed + 3)) % 251) as u8);
        Block::all_of(buffer).remove(0)
    }

    /// Compares sums with their definition, byte by byte: sums that use other sums, zeros, no
    /// operands, and the same operands.
    #[test]
    fn sums_equal_their_definition() {
        let inputs: Vec<Block> = (0..4).map(painted).collect();
        let operand = |id: u64| Operand::Buffer(BufferId(id));
        let sum = |into: u64, terms: &[(Operand, u8)]| Sum {
            into: BufferId(into),
            terms: terms.iter().map(|&(operand, c)| (operand, Gf(c))).collect(),
        };
        let work = Compute {
            sums: vec![
                sum(10, &[(operand(0), 1), (operand(1), 1), (operand(2), 1)]),
                sum(11, &[(operand(0), 1), (operand(1), 2), (operand(2), 0x1d)]),
                sum(12, &[(operand(11), 7), (operand(3), 1)]),
                sum(13, &[(Operand::Zeros, 9), (operand(12), 3)]),
                sum(14, &[]),
                sum(15, &[(operand(2), 5), (operand(1), 1), (operand(0), 1)]),
            ],
            checksums: vec![
                (operand(13), Seed { slot: Slot(1), address: DeviceBlock(2), generation: 3 }),
                (operand(0), Seed { slot: Slot(1), address: DeviceBlock(2), generation: 3 }),
            ],
            differing: vec![
                (operand(13), operand(0)),
                (operand(1), operand(1)),
                (Operand::Zeros, operand(2)),
            ],
        };
        let mut expected: HashMap<u64, Vec<u8>> =
            (0..4).map(|i| (i, inputs[i as usize].bytes().to_vec())).collect();
        for sum in &work.sums {
            let mut bytes = vec![0; BLOCK];
            for (operand, coefficient) in &sum.terms {
                if let Operand::Buffer(id) = operand {
                    let source = &expected[&id.0];
                    bytes.iter_mut().zip(source).for_each(|(b, s)| *b = (Gf(*b) + *coefficient * Gf(*s)).0);
                }
            }
            expected.insert(sum.into.0, bytes);
        }
        let volume = VolumeId([7; 16]);
        let seeds: Vec<_> = work.checksums.clone();
        let zeros = Block::all_of(pantile_device::AlignedBuf::zeroed(BLOCK)).remove(0);
        let task = Task::new(volume, work, |operand| match operand {
            Operand::Buffer(id) => inputs[id.0 as usize].clone(),
            Operand::Zeros => zeros.clone(),
        });
        let outcome = task.run(&Matrices::default(), &Buffers::new(1 << 20));
        assert_eq!(outcome.made.len(), 6);
        for (id, block) in &outcome.made {
            assert_eq!(block.bytes(), &expected[&id.0][..], "{id:?}");
        }
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
        let differing = [differ(&expected[&13], &expected[&0]), 0, differ(&[0; BLOCK], &expected[&2])];
        assert_eq!(outcome.computed.differing, differing);
        for ((operand, seed), sum) in seeds.into_iter().zip(outcome.computed.checksums) {
            let Operand::Buffer(id) = operand else { unreachable!("both are buffers") };
            assert_eq!(sum, checksum(volume, seed, &expected[&id.0]));
        }
    }

    /// Blocks that are adjacent in both sources are computed as one, up to a gap in either source;
    /// the results of each parity are adjacent.
    #[test]
    fn blocks_side_by_side_are_done_as_one() {
        let column = |seed: usize| {
            let mut buffer = pantile_device::AlignedBuf::zeroed(3 * BLOCK);
            buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i * (seed + 3)) % 253) as u8);
            Block::all_of(buffer)
        };
        let (a, mut b) = (column(1), column(2));
        b[2] = painted(7);
        let id = |column: u64, block: usize| BufferId(10 * column + block as u64);
        let terms = |block: usize, c| {
            vec![(Operand::Buffer(id(1, block)), Gf(1)), (Operand::Buffer(id(2, block)), Gf(c))]
        };
        let sum = |block: usize, (column, c)| Sum { into: id(column, block), terms: terms(block, c) };
        let sums: Vec<Sum> = (0..3).flat_map(|block| [(3, 1), (4, 2)].map(|of| sum(block, of))).collect();
        let get = |operand| match operand {
            Operand::Buffer(BufferId(name)) if name < 20 => a[name as usize - 10].clone(),
            Operand::Buffer(BufferId(name)) => b[name as usize - 20].clone(),
            Operand::Zeros => unreachable!("there are none"),
        };
        let task = Task::new(VolumeId([7; 16]), Compute { sums: sums.clone(), ..Compute::default() }, get);
        let found = runs(&passes(&sums)[0], &sums, &task.given);
        assert_eq!(found.iter().map(|run| run.groups.clone()).collect::<Vec<_>>(), [0..2, 2..3]);
        let made = task.run(&Matrices::default(), &Buffers::new(1 << 20)).made;
        assert_eq!(made.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [30, 31, 32, 40, 41, 42]);
        assert!(made.windows(2).all(|two| two[1].1.follows(&two[0].1)));
        for (BufferId(name), block) in &made {
            let (c, at) = (if *name < 40 { 1 } else { 2 }, *name as usize % 10);
            let expected = a[at].bytes().iter().zip(b[at].bytes()).map(|(&a, &b)| (Gf(a) + Gf(c) * Gf(b)).0);
            assert!(block.bytes().iter().copied().eq(expected), "{name}");
        }
    }

    #[test]
    fn parities_of_the_same_data_are_one_pass() {
        let terms = |c| vec![(Operand::Buffer(BufferId(0)), Gf(1)), (Operand::Buffer(BufferId(1)), Gf(c))];
        let sums: Vec<Sum> = (0..3).map(|i| Sum { into: BufferId(10 + i), terms: terms(i as u8) }).collect();
        assert_eq!(passes(&sums), vec![vec![vec![0, 1, 2]]]);
    }
}
