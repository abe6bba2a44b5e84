//! Recoveries of lost cells: their reads and their compiled computation.

use crate::cache::{TERM_BYTES, VALUE_BYTES, Weight};
use crate::program::unread;
use crate::stripe::StripeError;
use pantile_code::{CellIndex, Code};
use pantile_kernel::{Buffer, PacketProgram, Packets, Program, Use};
use pantile_plan::{CellSet, Costs, Effort, Plan, Planner, Request};
use std::sync::OnceLock;

/// A recovery plan and its program, made by [`Codec::recovery`](crate::Codec::recovery) or
/// [`Codec::decoder`](crate::Codec::decoder).
#[derive(Debug)]
pub struct Recovery(pub(crate) Compiled<Program>);

/// A recovery for columns of packets, made by
/// [`PacketCodec::recovery`](crate::PacketCodec::recovery) or
/// [`PacketCodec::decoder`](crate::PacketCodec::decoder).
#[derive(Debug)]
pub struct PacketRecovery(pub(crate) Compiled<PacketProgram>);

impl Recovery {
    /// Returns the cells read and computed.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// Compiles the program of XORs to machine code now. Otherwise it is compiled after the
    /// recovery has run over some MiB.
    pub fn prepare(&self) {
        self.0.program.prepare();
    }

    /// Returns the cells whose buffers [`Recovery::run`] overwrites with their true content,
    /// ascending: the wanted cells that the plan does not read, and the intermediate cells.
    ///
    /// An intermediate cell may be lost or not: computing a surviving cell may cost less than
    /// reading it.
    pub fn written(&self) -> Vec<CellIndex> {
        self.0.written()
    }

    /// Computes the wanted cells in place, from the cells that the plan reads.
    ///
    /// The buffers of the cells in [`Recovery::written`] are overwritten; no other buffer is
    /// changed. Errors: buffers that are not a stripe of the code; nothing is then written. Cost:
    /// no lock and no allocation after the first run on a thread. A program of XORs is compiled in
    /// its first runs, unless [`Recovery::prepare`] did it.
    pub fn run(&self, cells: &mut [&mut [u8]]) -> Result<(), StripeError> {
        self.0.program.run(cells).map_err(StripeError::of_cells)
    }

    /// Runs as [`Recovery::run`], with buffers of limited use: a cell that [`Recovery::use_of`]
    /// calls unused may be absent, and one that is only read need not be writable.
    ///
    /// Errors: also [`StripeError::CellGiven`]; nothing is then written.
    pub fn run_given(&self, cells: &mut [Buffer<'_>]) -> Result<(), StripeError> {
        self.0.program.run_given(cells).map_err(StripeError::of_cells)
    }

    /// Returns the use of a cell in a run. Panics if the code has no such cell.
    ///
    /// A written cell was wanted, or is intermediate ([`Recovery::written`]).
    pub fn use_of(&self, cell: CellIndex) -> Use {
        self.0.program.use_of(cell.usize())
    }

    /// Returns the same recovery for columns of packets.
    pub(crate) fn in_packets(self, packets: &Packets) -> PacketRecovery {
        let Compiled { plan, request, program } = self.0;
        PacketRecovery(Compiled { plan, request, program: laid_out(program, packets) })
    }
}

impl PacketRecovery {
    /// Works like [`Recovery::plan`].
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// Works like [`Recovery::prepare`].
    pub fn prepare(&self) {
        self.0.program.prepare();
    }

    /// Works like [`Recovery::written`].
    pub fn written(&self) -> Vec<CellIndex> {
        self.0.written()
    }

    /// Computes the wanted cells in place, from the cells that the plan reads, packet by packet.
    ///
    /// No other packet is changed. Errors: buffers that are not columns for this recovery; nothing
    /// is then written. Cost: that of [`Recovery::run`].
    pub fn run(&self, columns: &mut [&mut [u8]]) -> Result<(), StripeError> {
        self.0.program.run(columns).map_err(StripeError::of_columns)
    }
}

/// A program that recovers cells, with its plan or the losses from which the plan is made.
#[derive(Debug)]
pub(crate) struct Compiled<P> {
    /// The plan. It is made when it is first requested, if the program did not need it.
    plan: OnceLock<Plan>,
    /// The losses from which the plan can be made.
    request: Option<Unplanned>,
    pub(crate) program: P,
}

/// The losses that a program made without a plan recovers; the plan is made from them on demand.
#[derive(Debug)]
struct Unplanned {
    code: Code,
    lost: CellSet,
}

impl<P: AsRef<Program>> Compiled<P> {
    /// Combines a program with the plan from which it was compiled.
    pub(crate) fn of_plan(plan: Plan, program: P) -> Compiled<P> {
        Compiled { plan: OnceLock::from(plan), request: None, program }
    }

    /// Wraps a program that recovers everything lost and was made without a plan.
    pub(crate) fn unplanned(code: &Code, lost: CellSet, program: P) -> Compiled<P> {
        Compiled { plan: OnceLock::new(), request: Some(Unplanned { code: code.clone(), lost }), program }
    }

    fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| {
            let Some(Unplanned { code, lost }) = &self.request else {
                unreachable!("a recovery has its plan or can make it")
            };
            // The cells that the program reads determine every cell in one way only, so a plan from
            // these cells reads all of them.
            let unread = unread(code, lost);
            let wanted: Vec<CellIndex> = lost.iter().collect();
            let costs = Costs::uniform();
            let request = Request { lost: &unread, wanted: &wanted, costs: &costs, effort: Effort::Fast };
            match Planner::new(code).recover(&request) {
                Ok(plan) => plan,
                Err(error) => unreachable!("what was compiled can be planned: {error}"),
            }
        })
    }

    fn written(&self) -> Vec<CellIndex> {
        match &self.request {
            Some(Unplanned { lost, .. }) => lost.iter().collect(),
            None => {
                let mut written: Vec<CellIndex> = self.plan().steps.iter().map(|step| step.target).collect();
                written.sort_unstable();
                written
            }
        }
    }

    /// Includes a plan that is made later, with the most terms that it can have.
    fn weight_bytes(&self) -> usize {
        let (terms, steps) = match &self.request {
            Some(Unplanned { code, lost }) => {
                let steps = lost.len();
                ((code.cell_count() - steps) * steps, steps)
            }
            None => {
                let steps = &self.plan().steps;
                (steps.iter().map(|step| step.terms.len()).sum(), steps.len())
            }
        };
        VALUE_BYTES + terms * TERM_BYTES + steps * STEP_BYTES + self.program.as_ref().buffers() * CELL_BYTES
    }
}

/// The bytes of a step of a recovery without its terms.
const STEP_BYTES: usize = 128;

/// The bytes per cell of the code, for the mark of its use.
const CELL_BYTES: usize = 16;

impl Weight for Recovery {
    fn weight_bytes(&self) -> usize {
        self.0.weight_bytes()
    }
}

impl Weight for PacketRecovery {
    fn weight_bytes(&self) -> usize {
        self.0.weight_bytes()
    }
}

/// Converts a program over cells to one over columns of packets.
pub(crate) fn laid_out(program: Program, packets: &Packets) -> PacketProgram {
    match program.in_packets(packets.clone()) {
        Ok(program) => program,
        Err(error) => unreachable!("the columns have the cells of the code: {error}"),
    }
}
