//! Whole computations: steps over the buffers of a stripe, compiled once, run in place on any
//! number of stripes.
//!
//! Steps that read mostly the same buffers become one [`Dot`]; a program of XORs alone runs in the
//! fastest form (`xor.rs`). Later steps may read the targets of earlier ones.
//!
//! Invariants: a run allocates only the scratch of its thread, once, and each compiled form of a
//! program of XORs, once. To compile a form it also takes a lock, which is held only while pages
//! are taken or mapped. It writes the targets of its steps and no other buffer.

use crate::buffers::{Buffer, Use, Uses, check_buffers, check_count};
use crate::carried::Carried;
#[cfg(feature = "fft")]
use crate::dispatch::{Flight, Transform};
use crate::dispatch::{Solver, Sweep};
use crate::dot::Dot;
use crate::error::{DotError, ProgramError, ShapeError};
use crate::horner::{Horner, HornerStep};
use crate::packets::Packets;
use crate::stores::{Mode, Stores};
use crate::system::System;
use crate::tier::Tier;
use crate::xor::Xor;

#[cfg(feature = "fft")]
mod transforms;

/// The bytes of a tile. All stages process one tile of every buffer before the next tile, so
/// results of one stage are still in a near cache when the next stage reads them.
const TILE_BYTES: usize = 16 * 1024;

/// A step: sets a buffer to a sum of coefficients times buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The buffer that is written.
    pub target: usize,
    /// The terms: buffers, each with its coefficient. None is the target of this step or of a later
    /// one.
    pub terms: Vec<(usize, u8)>,
}

/// Steps compiled for one tier.
///
/// `Send + Sync` and reusable; a run does not change it.
#[derive(Debug)]
pub struct Program {
    stages: Stages,
    uses: Uses,
    stores: Stores,
}

/// The stages of a program. A single stage needs no list: a recovery that runs once should not
/// spend more time on its plan than on its bytes.
#[derive(Debug)]
enum Stages {
    One(Stage),
    Many(Vec<Stage>),
}

/// A stage. Each is behind a pointer, so that moving a program copies only a few words.
#[derive(Debug)]
enum Stage {
    Dot(Box<Group>),
    Xor(Box<Xor>),
    Solve(Solver),
    Horner(Box<Carried>),
    #[cfg(feature = "fft")]
    Fft(Transform),
    #[cfg(feature = "fft")]
    Network(Flight),
}

/// Steps that are computed in one pass over their sources.
#[derive(Debug)]
struct Group {
    dot: Dot,
    sources: Vec<usize>,
    outputs: Vec<usize>,
}

impl Program {
    /// Compiles steps over `buffers` buffers, for [`Tier::best`].
    ///
    /// Errors: a step names a buffer that does not exist, writes a buffer that was written or read
    /// before, or reads its target.
    pub fn new(buffers: usize, steps: &[Step]) -> Result<Program, ProgramError> {
        Program::with_tier(Tier::best(), buffers, steps)
    }

    /// Works like [`Program::new`], for a tier that the caller chooses.
    ///
    /// Errors: also if this machine lacks the tier.
    pub fn with_tier(tier: Tier, buffers: usize, steps: &[Step]) -> Result<Program, ProgramError> {
        let uses = check(buffers, steps)?;
        let stages = match (is_xor_alone(steps), Sweep::new(tier)) {
            (true, Some(sweep)) => Stages::One(xor_of(steps, uses.streams(), sweep)),
            _ => stages_of(tier, &groups(steps))?,
        };
        Ok(Program { stages, uses, stores: Stores::Auto })
    }

    /// Compiles a system for [`Tier::best`]. If the tier can solve it, that takes fewer products
    /// than the steps of the system.
    ///
    /// Errors: the system is not whole; else as [`Program::new`], for the steps that it comes to.
    pub fn solving(buffers: usize, system: &System<'_>) -> Result<Program, ProgramError> {
        Program::solving_with_tier(Tier::best(), buffers, system)
    }

    /// Works like [`Program::solving`], for a tier that the caller chooses.
    pub fn solving_with_tier(
        tier: Tier,
        buffers: usize,
        system: &System<'_>,
    ) -> Result<Program, ProgramError> {
        if !system.is_whole() {
            let (sums, outputs, sources) = (system.starts.len(), system.outputs.len(), system.sources.len());
            return Err(ProgramError::SystemShape { sums, outputs, sources });
        }
        let Some(solver) = Solver::new(tier, system) else {
            let steps = system.expanded().into_iter().map(|(target, terms)| Step { target, terms });
            return Program::with_tier(tier, buffers, &steps.collect::<Vec<_>>());
        };
        let reads = system.sources.iter().chain(system.starts.iter().flatten());
        let uses = check_buffers(buffers, reads.copied(), system.outputs.iter().copied())?;
        Ok(Program { stages: Stages::One(Stage::Solve(solver)), uses, stores: Stores::Auto })
    }

    /// Compiles Horner's rule for [`Tier::best`]. Returns `None` if the tier has no kernel for it;
    /// then use steps.
    ///
    /// Errors: those of [`Program::new`]; a step shifts by zero planes or by all.
    pub fn horner(buffers: usize, horner: &Horner) -> Result<Option<Program>, ProgramError> {
        Program::horner_with_tier(Tier::best(), buffers, horner)
    }

    /// Works like [`Program::horner`], for a tier that the caller chooses.
    pub fn horner_with_tier(
        tier: Tier,
        buffers: usize,
        horner: &Horner,
    ) -> Result<Option<Program>, ProgramError> {
        for (state, step) in horner.steps.iter().enumerate() {
            if let HornerStep::Shift { by, .. } = *step
                && !(1..horner.planes).contains(&by)
            {
                return Err(ProgramError::ShiftOutOfRange { state, by, planes: horner.planes });
            }
        }
        let Some(carried) = Carried::new(tier, horner) else { return Ok(None) };
        let (reads, writes) = carried.buffers();
        let uses = check_buffers(buffers, reads, writes)?;
        Ok(Some(Program {
            stages: Stages::One(Stage::Horner(Box::new(carried))),
            uses,
            stores: Stores::Auto,
        }))
    }

    /// Compiles the program to machine code now. Otherwise it is compiled after it has run over
    /// some MiB.
    ///
    /// Cost: about 60 us for a program of XORs with one or two hundred buffers, nothing for others.
    pub fn prepare(&self) {
        match &self.stages {
            Stages::One(stage) => stage.prepare(),
            Stages::Many(stages) => stages.iter().for_each(Stage::prepare),
        }
    }

    /// Returns the same program with another store policy; the results do not depend on it.
    pub fn with_stores(self, stores: Stores) -> Program {
        Program { stores, ..self }
    }

    /// The store policy.
    pub fn stores(&self) -> Stores {
        self.stores
    }

    /// The number of buffers of a run.
    pub fn buffers(&self) -> usize {
        self.uses.buffers()
    }

    /// Returns the use of a buffer in a run. Panics if there is no such buffer.
    pub fn use_of(&self, buffer: usize) -> Use {
        self.uses.of(buffer)
    }

    /// Runs every step, in place.
    ///
    /// Shape: buffers of one length; any length, any alignment. Errors: a count or a length is
    /// wrong; nothing is then written. Cost: one pass over the read buffers for a program of XORs
    /// and for one group of steps.
    pub fn run(&self, buffers: &mut [&mut [u8]]) -> Result<(), ShapeError> {
        self.check_count(buffers.len())?;
        let len = buffers.first().map_or(0, |buffer| buffer.len());
        if let Some(index) = buffers.iter().position(|buffer| buffer.len() != len) {
            return Err(ShapeError::BufferLen { index, have: buffers[index].len(), need: len });
        }
        let streaming = self.stores.streams(self.uses.streams(), len);
        let base = buffers.as_mut_ptr();
        // SAFETY: `buffer` is called only with numbers below `buffers.len()`, as `check` made sure.
        // Each call borrows one slice, and the pointer stays valid because the slices are not used
        // otherwise until the return.
        let buffer = move |i: usize| unsafe { (*base.add(i)).as_mut_ptr() };
        // SAFETY: every buffer is valid for `len` bytes, and they are apart from one another.
        unsafe { self.run_stages(streaming, buffer, len) };
        Ok(())
    }

    /// Works like [`Program::run`], with buffers that are used only with the access that each
    /// grants.
    ///
    /// Errors: a count or a length is wrong; a read buffer is absent, or a written one is not
    /// writable ([`Program::use_of`]). Nothing is then written.
    pub fn run_given(&self, buffers: &mut [Buffer<'_>]) -> Result<(), ShapeError> {
        self.check_count(buffers.len())?;
        let mut len = None;
        for ((index, buffer), what) in buffers.iter().enumerate().zip(self.uses.iter()) {
            match (what, buffer) {
                (Use::Unused, _) | (Use::Read, Buffer::Read(_)) | (_, Buffer::Write(_)) => {}
                _ => return Err(ShapeError::BufferGiven { index, is_written: what == Use::Written }),
            }
            let Some(have) = buffer.len_bytes() else { continue };
            let need = *len.get_or_insert(have);
            if have != need {
                return Err(ShapeError::BufferLen { index, have, need });
            }
        }
        let len = len.unwrap_or(0);
        let streaming = self.stores.streams(self.uses.streams(), len);
        let base = buffers.as_mut_ptr();
        // SAFETY: as in `run`.
        let buffer = move |i: usize| unsafe { (*base.add(i)).as_mut_ptr() };
        // SAFETY: every used buffer is present, of `len` bytes, by the check of `uses`, which has
        // the reads and writes of the stages. Written buffers are borrowed exclusively, and so
        // apart from all others.
        unsafe { self.run_stages(streaming, buffer, len) };
        Ok(())
    }

    fn check_count(&self, have: usize) -> Result<(), ShapeError> {
        match have == self.uses.buffers() {
            true => Ok(()),
            false => Err(ShapeError::BufferCount { have, need: self.uses.buffers() }),
        }
    }

    /// Compiles the forms of the program for these columns.
    pub(crate) fn lay_out(&mut self, packets: &Packets) {
        if let Stages::One(Stage::Xor(xor)) = &mut self.stages {
            xor.lay_out(packets);
        }
    }

    /// Runs every step on `groups` packets of every buffer.
    ///
    /// # Safety
    ///
    /// The packets have the buffers of the program. `column(c)` is valid for reads and writes of
    /// `groups` packets of each buffer of the column, and apart from the others, for every column.
    pub(crate) unsafe fn run_packets(
        &self,
        packets: &Packets,
        column: impl Fn(usize) -> *mut u8 + Copy,
        groups: usize,
    ) {
        let len = groups * packets.bytes();
        let streaming = self.stores.streams(self.uses.streams(), len);
        if let Stages::One(Stage::Xor(xor)) = &self.stages {
            // SAFETY: the caller's promise.
            return unsafe { xor.run_packets(streaming, packets, column, groups) };
        }
        if (0..packets.columns()).all(|c| packets.rows(c) == 1) {
            // SAFETY: the caller's promise: each column is a buffer, in one piece.
            return unsafe { self.run_stages(streaming, column, len) };
        }
        for group in 0..groups {
            // SAFETY: the caller's promise: a packet lies in its column, and no two overlap.
            unsafe { self.run_stages(streaming, packets.group(column, group), packets.bytes()) };
        }
    }

    /// # Safety
    ///
    /// `buffer(i)` is valid for reads of `len` bytes, for every buffer of a step; if a step writes
    /// it, for writes, and then it is apart from the others.
    #[inline]
    unsafe fn run_stages(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8 + Copy, len: usize) {
        let stages = match &self.stages {
            Stages::One(stage) => {
                // SAFETY: the caller's promise.
                return unsafe { stage.run(streaming, buffer, len) };
            }
            Stages::Many(stages) => stages,
        };
        let mut start = 0;
        while start < len {
            let n = TILE_BYTES.min(len - start);
            for stage in stages {
                // SAFETY: the caller's promise, for `len >= start + n` bytes.
                unsafe { stage.run(streaming, move |i| buffer(i).add(start), n) };
            }
            start += n;
        }
    }
}

/// Returns the program itself, so that callers can treat it like a
/// [`PacketProgram`](crate::PacketProgram).
impl AsRef<Program> for Program {
    fn as_ref(&self) -> &Program {
        self
    }
}

impl Stage {
    fn prepare(&self) {
        if let Stage::Xor(xor) = self {
            xor.prepare();
        }
    }

    /// # Safety
    ///
    /// `buffer(i)` is valid for reads of `len` bytes, for every buffer of a step; if a step writes
    /// it, for writes, and then it is apart from the others.
    #[inline]
    unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8 + Copy, len: usize) {
        match self {
            Stage::Dot(group) => {
                let Group { dot, sources, outputs } = &**group;
                let source = |s: usize| buffer(sources[s]).cast_const();
                // SAFETY: the caller's promise; no step reads a target of its group.
                unsafe { dot.run_streaming(Mode::Apply, streaming, source, |o| buffer(outputs[o]), len) };
            }
            // SAFETY: the caller's promise; `check_buffers` saw that outputs are not read.
            Stage::Solve(solver) => unsafe { solver.run(streaming, buffer, len) },
            // SAFETY: as above, by `check_buffers`.
            Stage::Horner(carried) => unsafe { carried.run(streaming, buffer, len) },
            // SAFETY: as above, by `check_buffers`.
            #[cfg(feature = "fft")]
            Stage::Fft(transform) => unsafe { transform.run(streaming, buffer, len) },
            // SAFETY: the caller's promise.
            #[cfg(feature = "fft")]
            Stage::Network(flight) => unsafe { flight.run(streaming, buffer, len) },
            // SAFETY: the caller's promise.
            Stage::Xor(xor) => unsafe { xor.run(streaming, buffer, len) },
        }
    }
}

/// True if all steps are plain sums, and more than one.
fn is_xor_alone(steps: &[Step]) -> bool {
    steps.len() > 1 && steps.iter().all(|step| step.terms.iter().all(|&(_, c)| c == 1))
}

fn xor_of(steps: &[Step], streams: usize, sweep: Sweep) -> Stage {
    let sum = |step: &Step| (step.target, step.terms.iter().map(|term| term.0).collect());
    Stage::Xor(Box::new(Xor::new(steps.iter().map(sum).collect(), streams, sweep)))
}

/// Converts groups to stages; groups that one pass can compute become one stage.
fn stages_of(tier: Tier, groups: &[Vec<&Step>]) -> Result<Stages, DotError> {
    if let [group] = groups {
        return Ok(Stages::One(Stage::Dot(Box::new(group_of(tier, group)?))));
    }
    let mut stages: Vec<(Vec<&Step>, Group)> = Vec::with_capacity(groups.len());
    for steps in groups {
        if let Some((before, stage)) = stages.last_mut() {
            let is_written = |buffer: usize| before.iter().any(|step| step.target == buffer);
            if !steps.iter().flat_map(|step| &step.terms).any(|term| is_written(term.0)) {
                let both = [&before[..], steps].concat();
                let joined = group_of(tier, &both)?;
                if joined.dot.is_one_pass() {
                    (*before, *stage) = (both, joined);
                    continue;
                }
            }
        }
        stages.push((steps.clone(), group_of(tier, steps)?));
    }
    let mut stages: Vec<Stage> = stages.into_iter().map(|(_, group)| Stage::Dot(Box::new(group))).collect();
    match stages.len() {
        1 => Ok(Stages::One(stages.remove(0))),
        _ => Ok(Stages::Many(stages)),
    }
}

/// Splits steps into groups, each of which is computed in one pass over its sources.
fn groups(steps: &[Step]) -> Vec<Vec<&Step>> {
    let mut groups: Vec<Vec<&Step>> = Vec::new();
    for step in steps {
        match groups.last_mut() {
            Some(group) if belong_together(group, step) => group.push(step),
            _ => groups.push(vec![step]),
        }
    }
    groups
}

/// True if a step can be computed with a group: it reads no result of the group, and mostly the
/// same sources.
fn belong_together(group: &[&Step], step: &Step) -> bool {
    let uses = |buffer: usize| step.terms.iter().any(|term| term.0 == buffer);
    if group.iter().any(|other| uses(other.target)) {
        return false;
    }
    let shared = group[0].terms.iter().filter(|term| uses(term.0)).count();
    2 * shared >= step.terms.len()
}

fn group_of(tier: Tier, steps: &[&Step]) -> Result<Group, DotError> {
    let mut sources: Vec<usize> = steps.iter().flat_map(|s| s.terms.iter().map(|t| t.0)).collect();
    sources.sort_unstable();
    sources.dedup();
    let place = |buffer: usize| sources.partition_point(|&s| s < buffer);
    let rows: Vec<Vec<(usize, u8)>> =
        steps.iter().map(|s| s.terms.iter().map(|&(buffer, c)| (place(buffer), c)).collect()).collect();
    let dot = Dot::with_tier(tier, sources.len(), &rows)?;
    Ok(Group { dot, outputs: steps.iter().map(|s| s.target).collect(), sources })
}

/// Checks the assumptions of a run; returns the use of each buffer.
fn check(buffers: usize, steps: &[Step]) -> Result<Uses, ProgramError> {
    check_count(buffers)?;
    let mut uses = Uses::new(buffers);
    for (step, Step { target, terms }) in steps.iter().enumerate() {
        for &buffer in terms.iter().map(|(buffer, _)| buffer).chain([target]) {
            if buffer >= buffers {
                return Err(ProgramError::BufferOutOfRange { step, buffer, buffers });
            }
        }
        terms.iter().for_each(|&(buffer, _)| uses.add_read(buffer));
        if !uses.add_written(*target) {
            return Err(ProgramError::TargetInUse { step, target: *target });
        }
    }
    Ok(uses)
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use crate::arch::x86_64::cpu::{Kind, tests::on};

    #[test]
    fn rows_that_share_little_are_one_pass_where_that_is_faster() {
        if !Tier::Avx512Gfni.is_available() {
            return println!("this machine has no AVX-512: left out");
        }
        // The sums of both halves of twelve buffers, two sums of products of all of them, and a sum
        // of results.
        let sum = |target: usize, from: std::ops::Range<usize>| Step {
            target,
            terms: from.map(|i| (i, 1)).collect(),
        };
        let products =
            |target: usize| Step { target, terms: (0..12).map(|i| (i, (i * 9 + target) as u8)).collect() };
        let steps = [sum(12, 0..6), sum(13, 6..12), products(14), products(15)];
        let last = Step { target: 16, terms: vec![(14, 3), (15, 1)] };
        let run = |kind: Kind, steps: &[Step]| {
            let program = on(kind, || Program::with_tier(Tier::Avx512Gfni, 17, steps)).unwrap();
            let stages = match &program.stages {
                Stages::One(_) => 1,
                Stages::Many(stages) => stages.len(),
            };
            let mut buffers: Vec<Vec<u8>> =
                (0..17).map(|i| (0..200).map(|j| (i * 31 + j * 7) as u8).collect()).collect();
            let mut views: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
            program.run(&mut views).unwrap();
            (stages, buffers)
        };
        let with_last = [&steps[..], &[last]].concat();
        let [(here, one), (there, two)] = [Kind::IceLake, Kind::Zen4].map(|kind| run(kind, &steps));
        assert!((here, there) == (1, 2) && one == two, "{here} stages, {there} stages");
        let [(here, one), (there, two)] = [Kind::IceLake, Kind::Zen4].map(|kind| run(kind, &with_last));
        assert!(
            (here, there) == (2, 3) && one == two,
            "{here} stages, {there} stages: what is read was made before"
        );
    }
}
