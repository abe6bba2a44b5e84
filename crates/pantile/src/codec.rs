//! One code, ready for bytes.

use crate::locate::Checker;
use crate::program::Program;
use crate::stripe::{StripeError, element_len};
use pantile_code::{CellIndex, Code, CodeError};
use pantile_kernel::Dot;
use pantile_plan::{CellSet, Costs, Effort, NotRecoverable, Plan, Planner, Request};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, RwLock};

/// Encodes, reconstructs, updates and checks stripes of one code.
#[derive(Clone)]
pub struct Codec {
    inner: Arc<Inner>,
}

struct Inner {
    code: Code,
    planner: Planner,
    encode: OnceLock<(Plan, Program)>,
    /// For each data position: the parity cells that it reaches and the coefficients.
    deltas: Vec<OnceLock<(Vec<usize>, Dot)>>,
    recoveries: Cache<(CellSet, Vec<CellIndex>, Costs), Recovery>,
    checkers: Cache<CellSet, Checker>,
}

/// A recovery plan and its program.
#[derive(Debug)]
pub struct Recovery {
    plan: Plan,
    program: Program,
}

impl Recovery {
    /// What is read and computed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Computes the wanted cells in place, from the cells that the plan reads.
    ///
    /// Buffers of other lost cells may be overwritten with their true content; no other buffer is changed.
    /// Errors: buffers that are not a stripe; nothing is then written.
    pub fn run(&self, code: &Code, cells: &mut [&mut [u8]]) -> Result<(), StripeError> {
        element_len(code, cells)?;
        self.program.run(cells);
        Ok(())
    }
}

/// Why a stripe was not recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// The buffers are not a stripe of the code.
    Stripe(StripeError),
    /// Too much is lost.
    NotRecoverable(NotRecoverable),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Stripe(error) => error.fmt(out),
            RecoverError::NotRecoverable(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for RecoverError {}

impl From<StripeError> for RecoverError {
    fn from(error: StripeError) -> RecoverError {
        RecoverError::Stripe(error)
    }
}

impl From<NotRecoverable> for RecoverError {
    fn from(error: NotRecoverable) -> RecoverError {
        RecoverError::NotRecoverable(error)
    }
}

impl Codec {
    /// A codec for the code. Cost: one pass over its equations; programs are made when first used.
    pub fn new(code: &Code) -> Codec {
        let deltas = (0..code.data().len()).map(|_| OnceLock::new()).collect();
        Codec {
            inner: Arc::new(Inner {
                planner: Planner::new(code),
                code: code.clone(),
                encode: OnceLock::new(),
                deltas,
                recoveries: Cache::default(),
                checkers: Cache::default(),
            }),
        }
    }

    /// A codec for the code that a spec names.
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

    fn encoder(&self) -> &(Plan, Program) {
        self.inner.encode.get_or_init(|| {
            let plan = self.inner.planner.encode();
            let program = Program::new(&plan.steps);
            (plan, program)
        })
    }

    /// Computes every parity cell from the data cells, in place.
    ///
    /// Errors: buffers that are not a stripe; nothing is then written.
    pub fn encode(&self, cells: &mut [&mut [u8]]) -> Result<(), StripeError> {
        element_len(self.code(), cells)?;
        self.encoder().1.run(cells);
        Ok(())
    }

    /// The cheapest way to have `wanted` while `lost` cannot be read; planned and compiled once per request.
    pub fn recovery(
        &self,
        lost: &CellSet,
        wanted: &[CellIndex],
        costs: &Costs,
    ) -> Result<Arc<Recovery>, NotRecoverable> {
        let key = (lost.clone(), wanted.to_vec(), costs.clone());
        self.inner.recoveries.get(key, |(lost, wanted, costs)| {
            let request = Request { lost, wanted, costs, effort: Effort::Fast };
            let plan = self.inner.planner.recover(&request)?;
            let program = Program::new(&plan.steps);
            Ok(Recovery { plan, program })
        })
    }

    /// Recomputes the given columns from the others, in place.
    ///
    /// Errors: too many are lost, or the buffers are not a stripe; nothing is then written.
    pub fn reconstruct(&self, cells: &mut [&mut [u8]], lost: &[usize]) -> Result<(), RecoverError> {
        element_len(self.code(), cells)?;
        let lost = CellSet::of_columns(self.code(), lost);
        let wanted: Vec<CellIndex> = lost.iter().collect();
        self.recovery(&lost, &wanted, &Costs::uniform())?.run(self.code(), cells)?;
        Ok(())
    }

    /// Replaces the content of one data cell and adds the change to every parity cell that it reaches.
    ///
    /// `position` counts in user order. The stripe must have been true before; all parity cells must be at hand.
    /// Errors: buffers that are not a stripe, or `new` of another length; nothing is then written.
    pub fn update(&self, cells: &mut [&mut [u8]], position: usize, new: &[u8]) -> Result<(), StripeError> {
        let code = self.code();
        let need = element_len(code, cells)?;
        let cell = code.data()[position].usize();
        if new.len() != need {
            return Err(StripeError::UnequalLengths { cell, have: new.len(), need });
        }
        let (parity, dot) = self.inner.deltas[position].get_or_init(|| {
            let generator = code.generator();
            let reached = (0..code.parity().len()).filter(|&row| !generator.get(row, position).is_zero());
            let (cells, rows): (Vec<usize>, Vec<Vec<(usize, u8)>>) = reached
                .map(|row| (code.parity()[row].usize(), vec![(0, generator.get(row, position).0)]))
                .unzip();
            let Ok(dot) = Dot::new(1, &rows) else { unreachable!("the one source is numbered 0") };
            (cells, dot)
        });
        // The old content becomes the change, the change goes to the parities, the new content takes its place.
        pantile_kernel::xor_into(cells[cell], new);
        let mut taken: Vec<&mut [u8]> = parity.iter().map(|&p| std::mem::take(&mut cells[p])).collect();
        let Ok(()) = dot.accumulate(&[&*cells[cell]], &mut taken) else {
            unreachable!("all cells have one length")
        };
        for (&p, buffer) in parity.iter().zip(taken) {
            cells[p] = buffer;
        }
        cells[cell].copy_from_slice(new);
        Ok(())
    }

    /// The checks of stripes of which `erased` cannot be read, compiled once.
    pub fn checker(&self, erased: &CellSet) -> Arc<Checker> {
        let made = self.inner.checkers.get(erased.clone(), |erased| {
            Ok::<Checker, std::convert::Infallible>(Checker::new(&self.inner.code, erased))
        });
        match made {
            Ok(checker) => checker,
            Err(never) => match never {},
        }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Codec({})", self.code())
    }
}

/// Values made once per key. It is emptied when full: patterns of losses in use are few, and remaking one is cheap.
struct Cache<K, V> {
    made: RwLock<HashMap<K, Arc<V>>>,
}

const CACHE_ENTRIES_MOST: usize = 4096;

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Cache { made: RwLock::new(HashMap::new()) }
    }
}

impl<K: Eq + Hash + Clone, V> Cache<K, V> {
    fn get<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<Arc<V>, E> {
        if let Some(value) = self.made.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
            return Ok(value.clone());
        }
        let value = Arc::new(make(&key)?);
        let mut made = self.made.write().unwrap_or_else(|e| e.into_inner());
        if made.len() >= CACHE_ENTRIES_MOST {
            made.clear();
        }
        Ok(made.entry(key).or_insert(value).clone())
    }
}
