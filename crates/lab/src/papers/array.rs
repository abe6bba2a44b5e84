//! A volume whose blocks stand for the elements of a paper's array, on the engine in virtual time:
//! what each request makes devices do, and how long it takes.

use super::executed::{ExecuteError, STRIPES, geometry};
use super::requests::LEN_MOST;
use crate::engine::{Devices, Engine, Held};
use pantile::Code;
use pantile_format::volume::Place;
use pantile_sim::{Ask, Data, IoKind, Random};
use pantile_volume::{DeviceBlock, Geometry, Slot, UserBlock};
use std::cell::RefCell;
use std::rc::Rc;

/// What a device was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) slot: Slot,
    pub(super) kind: IoKind,
    /// The first block.
    pub(super) at: DeviceBlock,
    /// Elements, and blocks of metadata.
    pub(super) blocks: u64,
}

/// A volume that was written once; elements are blocks.
pub(super) struct Array {
    geometry: Geometry,
    engine: Engine<Held<()>>,
    ops: Rc<RefCell<Vec<Op>>>,
    lost: Option<Slot>,
    /// How often everything was written.
    writes: u64,
}

/// What lies in a block after so many writes of anything.
fn content(block: u64, writes: u64) -> Data {
    let mixed = (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ writes;
    let mut data = [1; 16];
    data[..8].copy_from_slice(&mixed.to_le_bytes());
    data
}

impl Array {
    /// A volume of the code without one of its devices, or with all. `service_ns` says how long a
    /// device takes for so many blocks from one on.
    ///
    /// Errors: no volume has this shape, or the engine failed.
    pub(super) fn new(
        code: &Code,
        lost: Option<Slot>,
        mut service_ns: impl FnMut(Slot, DeviceBlock, u64) -> u64 + 'static,
    ) -> Result<Array, ExecuteError> {
        let geometry = geometry(code, 1)?;
        let ops: Rc<RefCell<Vec<Op>>> = Rc::default();
        let noted = Rc::clone(&ops);
        let mut engine = Engine::new(&geometry, (), move |slot, kind, at, blocks| {
            noted.borrow_mut().push(Op { slot, kind, at, blocks });
            service_ns(slot, at, blocks)
        })?;
        engine.rest()?;
        engine.fill(&geometry, |block| content(block, 0))?;
        if let Some(slot) = lost {
            engine.devices.world.pull_out(slot, true);
            engine.rest()?;
        }
        Ok(Array { geometry, engine, ops, lost, writes: 0 })
    }

    /// The stripes in which a request may begin: those in which the lost device holds data, and
    /// behind which there is room for the longest request.
    pub(super) fn stripes(&self) -> Vec<u32> {
        let code = &self.geometry.code;
        let begins = STRIPES - LEN_MOST.div_ceil(code.data().len()) as u32 - 1;
        let loses_data = |stripe: &u32| {
            self.lost.is_none_or(|slot| {
                let column = self.geometry.column(*stripe, slot);
                code.column_cells(column).any(|cell| !code.is_parity(cell))
            })
        };
        (0..begins).filter(loses_data).collect()
    }

    /// A request of section V: the first element of the volume, and how many. None if no stripe
    /// loses data.
    pub(super) fn draw(&self, stripes: &[u32], random: &mut Random) -> Option<(u64, u32)> {
        let data = self.geometry.code.data().len() as u64;
        let stripe = u64::from(*random.pick(stripes)?);
        Some((stripe * data + random.below(data), random.between(1, LEN_MOST as u64) as u32))
    }

    /// Reads elements, compares them with what was written, and says how many nanoseconds it took.
    ///
    /// Errors: the engine failed, or gave something else.
    pub(super) fn read(&mut self, first: u64, count: u32) -> Result<u64, ExecuteError> {
        let ns = self.ask(&Ask::Read { first: UserBlock(first), count })?;
        let is_as_written = (first..).zip(&self.engine.devices.blocks).all(|(block, data)| {
            // What was never written again is as it was filled.
            data.is_some_and(|data| self.writes > 0 || data == content(block, 0))
        });
        match is_as_written && self.engine.devices.blocks.len() == count as usize {
            true => Ok(ns),
            false => {
                Err(ExecuteError::WrongBytes { code: self.geometry.code.spec().to_string(), offset: first })
            }
        }
    }

    /// Writes elements, durable.
    pub(super) fn write(&mut self, first: u64, count: u32) -> Result<u64, ExecuteError> {
        self.writes += 1;
        let contents = (first..first + u64::from(count)).map(|block| content(block, self.writes)).collect();
        self.ask(&Ask::Write { first: UserBlock(first), contents, durable: true })
    }

    fn ask(&mut self, ask: &Ask) -> Result<u64, ExecuteError> {
        self.ops.borrow_mut().clear();
        let begun_ns = self.engine.devices.now_ns();
        self.engine.ask(0, ask)?;
        self.engine.answers()?;
        let ns = self.engine.devices.now_ns() - begun_ns;
        self.engine.rest()?;
        Ok(ns)
    }

    /// What the last request made devices do.
    pub(super) fn ops(&self) -> Vec<Op> {
        self.ops.borrow().clone()
    }

    /// Stripe and row of the element that a block of a device holds, if it holds one.
    pub(super) fn element(&self, slot: Slot, at: DeviceBlock) -> Option<(u32, u32)> {
        match self.geometry.zones(slot).place(at)? {
            Place::Element { stripe, row, .. } => Some((stripe.0 as u32, row)),
            _ => None,
        }
    }

    /// The column that a device holds of a stripe.
    pub(super) fn column(&self, stripe: u32, slot: Slot) -> usize {
        self.geometry.column(stripe, slot)
    }
}
