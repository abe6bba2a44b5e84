//! One code, ready for bytes.

use crate::cache::{Cache, Weight};
use crate::cosets::Cosets;
use crate::locate::Checker;
use crate::packets::PacketCodec;
use crate::plank::Plank;
use crate::program::{compile, solving};
use crate::recovery::{Compiled, Recovery};
use crate::shelf::Shelf;
use crate::stripe::{StripeError, element_len};
use pantile_code::{CellIndex, Code, CodeError};
use pantile_kernel::{Buffer, Program, Stores, Update, Use};
use pantile_plan::{CellSet, Costs, Effort, Plan, PlanError, Planner, Request};
use smallvec::SmallVec;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The default bound of each cache: room for the recoveries of all pairs of columns of D-Code(24),
/// or for 40 recoveries of D-Code(64).
pub(crate) const CACHE_BYTES_USUAL: usize = 16 << 20;

/// Encodes, reconstructs, updates and checks stripes of one code.
///
/// The codec keeps the programs made for each pattern of losses and shares them with its clones.
/// There are four caches of 16 MiB each, or of [`Codec::with_cache_bytes`]: recoveries of whole
/// columns found without a lock, further recoveries of whole columns, those of [`Codec::recovery`],
/// and those of [`Codec::checker`]. Entries of the first are kept for good. The others are emptied
/// when full. A handle keeps its program alive.
#[derive(Clone)]
pub struct Codec {
    inner: Arc<Inner>,
}

struct Inner {
    code: Code,
    planner: Planner,
    /// Of every program.
    stores: Stores,
    /// The bound of each cache.
    cache_bytes: usize,
    /// The powers behind the code, if there are any.
    plank: OnceLock<Option<Plank>>,
    /// The cosets of the points of the code, if it has such points.
    cosets: OnceLock<Option<Cosets>>,
    encode: OnceLock<(Plan, Program)>,
    /// For each data position: the parity cells that it reaches and the coefficients.
    updates: Vec<OnceLock<Update>>,
    /// The recoveries of whole columns, all of them wanted, at uniform costs.
    columns: Decoders<Recovery>,
    recoveries: Recoveries<Recovery>,
    checkers: Cache<CellSet, Checker>,
}

/// Recoveries of any cells, made once per request.
pub(crate) type Recoveries<R> = Cache<(CellSet, Vec<CellIndex>, Costs), R>;

/// The recoveries of whole columns, made once per set of them.
pub(crate) struct Decoders<R> {
    /// By columns ascending, found without a lock.
    shelf: Shelf<R>,
    /// Those for which the shelf has no room.
    more: Cache<Box<[usize]>, R>,
}

impl<R: Weight> Decoders<R> {
    pub(crate) fn new(cache_bytes: usize) -> Decoders<R> {
        Decoders { shelf: Shelf::new(cache_bytes), more: Cache::new(cache_bytes) }
    }

    /// Returns the value kept for ascending columns, found without a lock.
    pub(crate) fn known(&self, lost: &[usize]) -> Option<&Arc<R>> {
        self.shelf.get(lost)
    }

    /// Returns the kept value, or makes it for ascending columns.
    pub(crate) fn get<E>(
        &self,
        lost: &[usize],
        make: impl FnOnce(&[usize]) -> Result<R, E>,
    ) -> Result<Arc<R>, E> {
        if let Some(known) = self.known(lost) {
            return Ok(known.clone());
        }
        if lost.is_sorted_by(|a, b| a < b) {
            return self.get_sorted(lost, make);
        }
        let mut sorted: SmallVec<[usize; 8]> = SmallVec::from_slice(lost);
        sorted.sort_unstable();
        sorted.dedup();
        match self.known(&sorted) {
            Some(known) => Ok(known.clone()),
            None => self.get_sorted(&sorted, make),
        }
    }

    /// Returns the same as `get`, for a list that identifies a recovery as it is written.
    pub(crate) fn get_by_key<E>(
        &self,
        key: &[usize],
        make: impl FnOnce(&[usize]) -> Result<R, E>,
    ) -> Result<Arc<R>, E> {
        match self.known(key) {
            Some(known) => Ok(known.clone()),
            None => self.get_sorted(key, make),
        }
    }

    /// As `get`, of columns that are ascending and not on the shelf.
    fn get_sorted<E>(
        &self,
        lost: &[usize],
        make: impl FnOnce(&[usize]) -> Result<R, E>,
    ) -> Result<Arc<R>, E> {
        if let Some(known) = self.more.find(lost) {
            return Ok(known);
        }
        let recovery = Arc::new(make(lost)?);
        match self.shelf.put(lost, recovery.clone(), recovery.weight_bytes()) {
            true => Ok(recovery),
            false => Ok(self.more.keep(lost.into(), recovery)),
        }
    }
}

/// Why a stripe was not recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// The buffers are not a stripe of the code.
    Stripe(StripeError),
    /// Too much is lost, or the code has no such column.
    Plan(PlanError),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Stripe(error) => error.fmt(out),
            RecoverError::Plan(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for RecoverError {}

impl From<StripeError> for RecoverError {
    fn from(error: StripeError) -> RecoverError {
        RecoverError::Stripe(error)
    }
}

impl From<PlanError> for RecoverError {
    fn from(error: PlanError) -> RecoverError {
        RecoverError::Plan(error)
    }
}

impl Codec {
    /// Returns a codec for the code. Codes for study only are accepted; before storing data, call
    /// [`Code::check_stores`].
    ///
    /// Cost: one pass over its equations; programs are made when first used.
    pub fn new(code: &Code) -> Codec {
        Codec::made(code, Stores::Auto, CACHE_BYTES_USUAL)
    }

    /// Returns a codec of the same code with another store policy. Results are equal; programs are
    /// compiled again.
    ///
    /// By default a codec decides by the size of a stripe: one that fits a second-level cache is
    /// assumed to be there. Use [`Stores::Streaming`] for small stripes that come from memory and
    /// whose results are sent on: sources are prefetched and results bypass the caches. That gains
    /// a fifth to a half of the speed (Ice Lake); `pantile bench --cold` measures it.
    pub fn with_stores(&self, stores: Stores) -> Codec {
        Codec::made(self.code(), stores, self.inner.cache_bytes)
    }

    /// Returns a codec of the same code with another bound, in bytes, of each of its four caches
    /// ([`Codec`]). Programs are compiled again.
    ///
    /// A full cache of the kind without a lock takes no more entries. The other kinds always keep
    /// their last entry, however large.
    pub fn with_cache_bytes(&self, bytes_of_each: usize) -> Codec {
        Codec::made(self.code(), self.inner.stores, bytes_of_each)
    }

    /// Returns the bound of each cache.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.inner.cache_bytes
    }

    fn made(code: &Code, stores: Stores, cache_bytes: usize) -> Codec {
        let updates = (0..code.data().len()).map(|_| OnceLock::new()).collect();
        Codec {
            inner: Arc::new(Inner {
                planner: Planner::new(code),
                code: code.clone(),
                stores,
                cache_bytes,
                plank: OnceLock::new(),
                cosets: OnceLock::new(),
                encode: OnceLock::new(),
                updates,
                columns: Decoders::new(cache_bytes),
                recoveries: Cache::new(cache_bytes),
                checkers: Cache::new(cache_bytes),
            }),
        }
    }

    /// Returns a codec of the same code for columns of interleaved elements, in packets of
    /// `packet_bytes`.
    ///
    /// Errors: packets of 0 bytes.
    pub fn in_packets(&self, packet_bytes: usize) -> Result<PacketCodec, StripeError> {
        PacketCodec::new(self, packet_bytes)
    }

    /// Returns a codec for the code that a spec names. Before storing data, call its
    /// [`Code::check_stores`], as for [`Codec::new`].
    pub fn parse(spec: &str) -> Result<Codec, CodeError> {
        Code::parse(spec).map(|code| Codec::new(&code))
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.inner.code
    }

    /// Its planner.
    pub fn planner(&self) -> &Planner {
        &self.inner.planner
    }

    /// The plan by which [`Codec::encode`] works.
    pub fn encode_plan(&self) -> &Plan {
        &self.encoder().0
    }

    fn plank(&self) -> Option<&Plank> {
        self.inner.plank.get_or_init(|| Plank::of(&self.inner.code)).as_ref()
    }

    fn cosets(&self) -> Option<&Cosets> {
        self.inner.cosets.get_or_init(|| Cosets::of(&self.inner.code)).as_ref()
    }

    /// The program that recovers everything lost, without a plan.
    fn solving(&self, lost: &CellSet) -> Option<Program> {
        self.cosets()
            .and_then(|cosets| cosets.decoder(self.code(), lost))
            .or_else(|| solving(self.code(), lost))
    }

    /// Of a program that recovers everything lost and was made without a plan.
    fn unplanned(&self, lost: CellSet, program: Program) -> Recovery {
        Recovery(Compiled::unplanned(self.code(), lost, program.with_stores(self.inner.stores)))
    }

    fn encoder(&self) -> &(Plan, Program) {
        self.inner.encode.get_or_init(|| {
            let plan = self.inner.planner.encode();
            let program = self.encoder_anew(&plan);
            program.prepare();
            (plan, program)
        })
    }

    /// The program of the plan by which parity is computed.
    pub(crate) fn encoder_anew(&self, plan: &Plan) -> Program {
        let carried = self.plank().and_then(|plank| plank.encoder(self.code()));
        let carried = carried.or_else(|| self.cosets()?.encoder(self.code()));
        let program = carried.unwrap_or_else(|| compile(&self.inner.code, &plan.steps));
        program.with_stores(self.inner.stores)
    }

    /// Computes every parity cell from the data cells, in place.
    ///
    /// Errors: buffers that are not a stripe; nothing is then written.
    pub fn encode(&self, cells: &mut [&mut [u8]]) -> Result<(), StripeError> {
        self.encoder().1.run(cells).map_err(StripeError::of_cells)
    }

    /// As [`Codec::encode`], with buffers of which each may be used as far as it says: data are
    /// read, parities are written.
    ///
    /// Errors: also [`StripeError::CellGiven`]; nothing is then written.
    pub fn encode_given(&self, cells: &mut [Buffer<'_>]) -> Result<(), StripeError> {
        self.encoder().1.run_given(cells).map_err(StripeError::of_cells)
    }

    /// The cheapest way to have `wanted` while `lost` cannot be read; planned and compiled once per
    /// request.
    ///
    /// Errors: too much is lost; a cell is not one of the code, or wanted twice.
    pub fn recovery(
        &self,
        lost: &CellSet,
        wanted: &[CellIndex],
        costs: &Costs,
    ) -> Result<Arc<Recovery>, PlanError> {
        let key = (lost.clone(), wanted.to_vec(), costs.clone());
        self.inner.recoveries.get(key, |(lost, wanted, costs)| self.recovery_anew(lost, wanted, costs))
    }

    /// As [`Codec::recovery`], and not kept.
    pub(crate) fn recovery_anew(
        &self,
        lost: &CellSet,
        wanted: &[CellIndex],
        costs: &Costs,
    ) -> Result<Recovery, PlanError> {
        self.inner.planner.check(&Request { lost, wanted, costs, effort: Effort::Fast })?;
        let is_whole = *costs == Costs::uniform() && wanted.iter().copied().eq(lost.iter());
        match if is_whole { self.solving(lost) } else { None } {
            Some(program) => Ok(self.unplanned(lost.clone(), program)),
            None => self.plan_and_compile(lost, wanted, costs),
        }
    }

    /// Returns the recovery of whole columns from the others in memory, which
    /// [`Codec::reconstruct`] runs.
    ///
    /// It is made to compute fast, and may read more than [`Codec::recovery`], which is made to
    /// read little. It is planned and compiled once per set of columns, then found without a lock
    /// if they are given ascending: cheap enough for every stripe, and free for a caller that keeps
    /// the handle. A codec keeps a thousand sets so; later ones are found behind a lock. Errors:
    /// too many columns are lost, or the code lacks one of them.
    pub fn decoder(&self, lost: &[usize]) -> Result<Arc<Recovery>, PlanError> {
        self.inner.columns.get(lost, |lost| self.decoder_anew(lost))
    }

    /// Returns what [`Codec::decoder`] returns, planned and compiled for this call and not kept:
    /// for losses that do not come again, and for measurements.
    pub fn decoder_anew(&self, lost: &[usize]) -> Result<Recovery, PlanError> {
        let code = self.code();
        let columns = code.columns();
        if let Some(&column) = lost.iter().find(|&&column| column >= columns) {
            return Err(PlanError::NoSuchColumn { column, columns });
        }
        let cells = CellSet::of_columns(code, lost);
        let program = self.solving(&cells).or_else(|| self.plank()?.decoder(code, &cells));
        if let Some(program) = program {
            return Ok(self.unplanned(cells, program));
        }
        Ok(self.compiled(self.inner.planner.decode(&cells)?))
    }

    /// The recovery of some of the lost columns, from others in memory that must not be written.
    ///
    /// Returns the same as [`Codec::decoder`] for the `wanted` columns; surviving cells are read
    /// and never computed. Cells written beside the wanted ones ([`Recovery::use_of`]) are of lost
    /// columns. Kept with the decoders, found without a lock and without an allocation. Errors: as
    /// of that, or a wanted column is not lost.
    pub fn decoder_of(&self, lost: &[usize], wanted: &[usize]) -> Result<Arc<Recovery>, PlanError> {
        let mut key = Key::new();
        append_ascending(&mut key, lost);
        let split = key.len();
        key.push(BETWEEN);
        append_ascending(&mut key, wanted);
        self.inner.columns.get_by_key(&key, |key| self.decoder_of_anew(&key[..split], &key[split + 1..]))
    }

    fn decoder_of_anew(&self, lost: &[usize], wanted: &[usize]) -> Result<Recovery, PlanError> {
        if let Some(&column) = wanted.iter().find(|column| !lost.contains(column)) {
            return Err(PlanError::NotLost { column });
        }
        if lost == wanted {
            let decoder = self.decoder_anew(lost)?;
            let is_written = |cell: &CellIndex| decoder.use_of(*cell) == Use::Written;
            if self.code().cells().filter(is_written).all(|cell| lost.contains(&self.code().column_of(cell)))
            {
                return Ok(decoder);
            }
        }
        let code = self.code();
        if let Some(&column) = lost.iter().find(|&&column| column >= code.columns()) {
            return Err(PlanError::NoSuchColumn { column, columns: code.columns() });
        }
        let (lost, wanted) = (CellSet::of_columns(code, lost), CellSet::of_columns(code, wanted));
        let wanted: Vec<CellIndex> = wanted.iter().collect();
        let costs = Costs::uniform();
        let request = Request { lost: &lost, wanted: &wanted, costs: &costs, effort: Effort::Fast };
        let mut plan = self.inner.planner.recover(&request)?;
        // Present cells are read instead of computed.
        let mut at_hand: Vec<CellIndex> = Vec::new();
        plan.steps.retain(|step| {
            let is_lost = lost.contains(step.target);
            at_hand.extend((!is_lost).then_some(step.target));
            is_lost
        });
        plan.cost += at_hand.len() as u64;
        plan.reads.extend(at_hand);
        plan.reads.sort_unstable();
        Ok(self.compiled(plan))
    }

    fn plan_and_compile(
        &self,
        lost: &CellSet,
        wanted: &[CellIndex],
        costs: &Costs,
    ) -> Result<Recovery, PlanError> {
        let request = Request { lost, wanted, costs, effort: Effort::Fast };
        Ok(self.compiled(self.inner.planner.recover(&request)?))
    }

    /// Returns a plan of [`Codec::planner`] as a recovery that runs; it is not kept.
    ///
    /// # Panics
    ///
    /// If the plan is of another code.
    pub fn compiled(&self, plan: Plan) -> Recovery {
        let program = compile(&self.inner.code, &plan.steps).with_stores(self.inner.stores);
        Recovery(Compiled::of_plan(plan, program))
    }

    /// Recomputes the given columns from the others, in place.
    ///
    /// Errors: too many are lost, the code lacks one of them, or the buffers are not a stripe;
    /// nothing is then written.
    pub fn reconstruct(&self, cells: &mut [&mut [u8]], lost: &[usize]) -> Result<(), RecoverError> {
        element_len(self.code(), cells)?;
        match self.inner.columns.known(lost) {
            Some(known) => known.run(cells)?,
            None => self.decoder(lost)?.run(cells)?,
        }
        Ok(())
    }

    /// Replaces the content of one data cell and adds the change to every parity cell that it
    /// reaches.
    ///
    /// `position` counts in user order. The stripe must have been true before; all parity cells
    /// must be at hand. Errors: no such position, buffers that are not a stripe, or `new` of
    /// another length; nothing is then written.
    pub fn update(&self, cells: &mut [&mut [u8]], position: usize, new: &[u8]) -> Result<(), StripeError> {
        let code = self.code();
        let need = element_len(code, cells)?;
        let cell = data_cell(code, position)?;
        if new.len() != need {
            return Err(StripeError::NewLength { have: new.len(), need });
        }
        self.updating(position, cell).run(cells, new).map_err(StripeError::of_cells)
    }

    /// As [`Codec::update`], with buffers of which each may be used as far as it says: the data
    /// cell and the parities that it reaches are written, the others may be absent.
    ///
    /// Errors: also [`StripeError::CellGiven`].
    pub fn update_given(
        &self,
        cells: &mut [Buffer<'_>],
        position: usize,
        new: &[u8],
    ) -> Result<(), StripeError> {
        let cell = data_cell(self.code(), position)?;
        self.updating(position, cell).run_given(cells, new).map_err(StripeError::of_cells)
    }

    /// Adds the change of a data cell, old content plus new, to every parity cell that it reaches;
    /// the data cell is not touched and may be absent.
    ///
    /// For parities that are stored apart from data. Errors: as of [`Codec::update_given`].
    pub fn add_change_given(
        &self,
        cells: &mut [Buffer<'_>],
        position: usize,
        change: &[u8],
    ) -> Result<(), StripeError> {
        let cell = data_cell(self.code(), position)?;
        self.updating(position, cell).add_change_given(cells, change).map_err(StripeError::of_cells)
    }

    /// Returns the program that adds a change of the data cell at this position to parity.
    pub(crate) fn updating(&self, position: usize, cell: usize) -> &Update {
        self.inner.updates[position].get_or_init(|| {
            let code = self.code();
            let generator = code.generator();
            let reached: Vec<(usize, u8)> = (0..code.parity().len())
                .map(|row| (code.parity()[row].usize(), generator.get(row, position).0))
                .filter(|&(_, coefficient)| coefficient != 0)
                .collect();
            match Update::new(code.cell_count(), cell, &reached) {
                Ok(update) => update,
                Err(error) => unreachable!("parity cells are other cells of the code: {error}"),
            }
        })
    }

    /// The checks of stripes of which `erased` cannot be read, compiled once.
    ///
    /// Errors: `erased` is a set of another code.
    pub fn checker(&self, erased: &CellSet) -> Result<Arc<Checker>, PlanError> {
        match self.inner.checkers.find(erased) {
            Some(known) => Ok(known),
            None => self.inner.checkers.get(erased.clone(), |erased| Checker::new(&self.inner.code, erased)),
        }
    }
}

/// Lost columns and wanted ones, in one list: on the stack, as no code has more than 258 columns.
type Key = SmallVec<[usize; 1024]>;

/// Between the lost columns and the wanted ones of a key: no column.
const BETWEEN: usize = usize::MAX;

/// Appends columns in ascending order, each once.
fn append_ascending(key: &mut Key, columns: &[usize]) {
    let from = key.len();
    key.extend_from_slice(columns);
    key[from..].sort_unstable();
    let mut last = None;
    let mut kept = from;
    for i in from..key.len() {
        let column = key[i];
        if last.replace(column) != Some(column) {
            key[kept] = column;
            kept += 1;
        }
    }
    key.truncate(kept);
}

/// The cell of a data position.
pub(crate) fn data_cell(code: &Code, position: usize) -> Result<usize, StripeError> {
    match code.data().get(position) {
        Some(cell) => Ok(cell.usize()),
        None => Err(StripeError::NoSuchPosition { position, data: code.data().len() }),
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Codec({})", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_the_policy_of_its_codec() {
        // Programs of products, of a system, of XORs, of Horner's rule and of an FFT.
        for spec in ["rs:4+2", "lrc:12,2,2", "dcode:7", "raidq:12+4", "lch:12+4"] {
            let usual = Codec::parse(spec).unwrap();
            let codec = usual.with_stores(Stores::Streaming);
            let lost = CellSet::of_columns(codec.code(), &[0]);
            let wanted: Vec<CellIndex> = lost.iter().take(1).collect();
            let stores = |codec: &Codec| {
                let of_columns = codec.decoder(&[0, 1]).unwrap().0.program.stores();
                let cheapest = codec.recovery(&lost, &wanted, &Costs::uniform()).unwrap().0.program.stores();
                let packets = codec.in_packets(128).unwrap();
                let in_packets = packets.decoder(&[0, 1]).unwrap().0.program.as_ref().stores();
                [
                    codec.encoder().1.stores(),
                    of_columns,
                    cheapest,
                    packets.encoder().as_ref().stores(),
                    in_packets,
                ]
            };
            assert_eq!(stores(&codec), [Stores::Streaming; 5], "{spec}");
            assert_eq!(stores(&usual), [Stores::Auto; 5], "{spec}");
        }
    }
}
