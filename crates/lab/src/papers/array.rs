//! A volume whose blocks stand for the elements of a paper's array, on the engine in virtual time:
//! it gives the operations of each request and their time.

use super::executed::{ExecuteError, STRIPES, geometry};
use super::requests::LEN_MOST;
use crate::engine::{Devices, Engine, Held, Machine, opened};
use crate::standard::Standard;
use pantile::Code;
use pantile_format::volume::Place;
use pantile_sim::{Ask, Data, IoKind, Random};
use pantile_volume::{DeviceBlock, Geometry, Slot, UserBlock};
use std::cell::RefCell;
use std::rc::Rc;

/// An operation of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) slot: Slot,
    pub(super) kind: IoKind,
    /// The first block.
    pub(super) at: DeviceBlock,
    /// Number of blocks; a block is an element or metadata.
    pub(super) blocks: u64,
}

/// A volume that was written once; elements are blocks.
pub(super) struct Array {
    geometry: Geometry,
    engine: Engine<Held<()>, Box<dyn Machine>>,
    /// Operations given to devices since the last [`Array::collect`].
    noted: Rc<RefCell<Vec<Op>>>,
    /// Operations of the last request, by the time at which devices were given them.
    waves: Vec<(u64, Vec<Op>)>,
    lost: Option<Slot>,
    /// Number of writes after the first one, which filled the volume.
    writes: u64,
}

/// Returns the content of a block after a number of writes.
fn content(block: u64, writes: u64) -> Data {
    let mixed = (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ writes;
    let mut data = [1; 16];
    data[..8].copy_from_slice(&mixed.to_le_bytes());
    data
}

impl Array {
    /// Returns a volume of the code, with all devices or without `lost`. `service_ns` returns the
    /// nanoseconds that a device takes for a number of blocks from a first block on.
    ///
    /// Errors: no volume has this shape, or the engine failed.
    pub(super) fn new(
        code: &Code,
        lost: Option<Slot>,
        service_ns: impl FnMut(Slot, DeviceBlock, u64) -> u64 + 'static,
    ) -> Result<Array, ExecuteError> {
        let geometry = geometry(code, 1)?;
        let volume = opened(&geometry);
        Array::of(geometry, Box::new(volume), lost, service_ns)
    }

    /// Returns a standard RAID of the code, which writes in place.
    ///
    /// Errors: no volume has this shape.
    pub(super) fn standard(
        code: &Code,
        service_ns: impl FnMut(Slot, DeviceBlock, u64) -> u64 + 'static,
    ) -> Result<Array, ExecuteError> {
        let geometry = geometry(code, 1)?;
        let standard = Standard::new(geometry.clone());
        Array::of(geometry, Box::new(standard), None, service_ns)
    }

    fn of(
        geometry: Geometry,
        machine: Box<dyn Machine>,
        lost: Option<Slot>,
        mut service_ns: impl FnMut(Slot, DeviceBlock, u64) -> u64 + 'static,
    ) -> Result<Array, ExecuteError> {
        let noted: Rc<RefCell<Vec<Op>>> = Rc::default();
        let notes = Rc::clone(&noted);
        let mut engine = Engine::new(&geometry, machine, (), move |slot, kind, at, blocks| {
            notes.borrow_mut().push(Op { slot, kind, at, blocks });
            service_ns(slot, at, blocks)
        })?;
        engine.rest()?;
        engine.fill(&geometry, |block| content(block, 0))?;
        if let Some(slot) = lost {
            engine.devices.world.pull_out(slot, true);
            engine.rest()?;
        }
        Ok(Array { geometry, engine, noted, waves: Vec::new(), lost, writes: 0 })
    }

    /// Returns the stripes in which a request can begin: those in which the lost device holds data,
    /// and from which the longest request ends within the volume.
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

    /// Returns a request of section V: the first element of the volume, and the number of
    /// elements. `None` if no stripe loses data.
    pub(super) fn draw(&self, stripes: &[u32], random: &mut Random) -> Option<(u64, u32)> {
        let data = self.geometry.code.data().len() as u64;
        let stripe = u64::from(*random.pick(stripes)?);
        Some((stripe * data + random.below(data), random.between(1, LEN_MOST as u64) as u32))
    }

    /// Reads elements, compares them with the written ones, and returns the nanoseconds that it
    /// took.
    ///
    /// Errors: the engine failed, or returned other content.
    pub(super) fn read(&mut self, first: u64, count: u32) -> Result<u64, ExecuteError> {
        let ns = self.ask(&Ask::Read { first: UserBlock(first), count })?;
        let is_as_written = (first..).zip(&self.engine.devices.blocks).all(|(block, data)| {
            // Blocks that were not written again have the initial content.
            data.is_some_and(|data| self.writes > 0 || data == content(block, 0))
        });
        match is_as_written && self.engine.devices.blocks.len() == count as usize {
            true => Ok(ns),
            false => {
                Err(ExecuteError::WrongBytes { code: self.geometry.code.spec().to_string(), offset: first })
            }
        }
    }

    /// Writes elements durably; returns the nanoseconds that it took.
    pub(super) fn write(&mut self, first: u64, count: u32) -> Result<u64, ExecuteError> {
        self.writes += 1;
        let contents = (first..first + u64::from(count)).map(|block| content(block, self.writes)).collect();
        self.ask(&Ask::Write { first: UserBlock(first), contents, durable: true })
    }

    fn ask(&mut self, ask: &Ask) -> Result<u64, ExecuteError> {
        self.noted.borrow_mut().clear();
        self.waves.clear();
        let begun_ns = self.engine.devices.now_ns();
        self.engine.ask(0, ask)?;
        self.collect();
        while !self.engine.is_answered() {
            self.engine.step_on()?;
            self.collect();
        }
        self.engine.answers()?;
        let ns = self.engine.devices.now_ns() - begun_ns;
        self.engine.rest()?;
        self.collect();
        Ok(ns)
    }

    /// Collects the operations given to devices since the last call, with their times.
    fn collect(&mut self) {
        let (now_ns, new) = (self.engine.devices.now_ns(), self.noted.take());
        match self.waves.last_mut() {
            _ if new.is_empty() => {}
            Some((given_ns, wave)) if *given_ns == now_ns => wave.extend(new),
            _ => self.waves.push((now_ns, new)),
        }
    }

    /// Returns the operations of the last request.
    pub(super) fn ops(&self) -> impl Iterator<Item = &Op> {
        self.waves().flatten()
    }

    /// Returns these operations in waves: each begins when all earlier ones have ended.
    pub(super) fn waves(&self) -> impl Iterator<Item = &[Op]> {
        self.waves.iter().map(|(_, wave)| &wave[..])
    }

    /// Returns stripe and row of the element in a block of a device, if it is an element.
    pub(super) fn element(&self, slot: Slot, at: DeviceBlock) -> Option<(u32, u32)> {
        self.of_chunk(slot, at).and_then(|(stripe, row)| Some((stripe, row?)))
    }

    /// Returns the stripe of the chunk that holds a block of a device, if one does, and the row of
    /// its element, unless it is in the header.
    pub(super) fn of_chunk(&self, slot: Slot, at: DeviceBlock) -> Option<(u32, Option<u32>)> {
        match self.geometry.zones(slot).place(at)? {
            Place::Element { stripe, row, .. } => Some((stripe.0 as u32, Some(row))),
            Place::ChunkHeader { stripe, .. } => Some((stripe.0 as u32, None)),
            _ => None,
        }
    }

    /// Returns the column of a stripe on a device.
    pub(super) fn column(&self, stripe: u32, slot: Slot) -> usize {
        self.geometry.column(stripe, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::{PRIMES, Rival};

    /// The devices are unequal: waves that run one after the other do the same operations as the
    /// engine, none of them later.
    #[test]
    fn a_wave_of_a_write_is_given_when_the_one_before_has_ended() {
        let cost_ns = |slot: Slot, blocks: u64| 100 + 7 * u64::from(slot.0) + 1000 * blocks;
        for (p, rival) in PRIMES[..2].iter().flat_map(|&p| Rival::ALL.map(|rival| (p, rival))) {
            let code = rival.code(p);
            let mut array =
                Array::standard(&code, move |slot, _, blocks| cost_ns(slot, blocks)).expect("an array");
            let (stripes, mut random) = (array.stripes(), Random::new(5));
            for _ in 0..100 {
                let (first, count) = array.draw(&stripes, &mut random).expect("there is data");
                let begun_ns = array.engine.devices.now_ns();
                let took_ns = array.write(first, count).expect("it is written");
                let mut ended_ns = begun_ns;
                for (given_ns, wave) in &array.waves {
                    assert_eq!(*given_ns, ended_ns, "{} {first}+{count}: {:?}", code.spec(), array.waves);
                    let end = |slot: u32| {
                        let ops = wave.iter().filter(|op| op.slot.0 == slot);
                        given_ns + ops.map(|op| cost_ns(op.slot, op.blocks)).sum::<u64>()
                    };
                    ended_ns = (0..code.columns() as u32).map(end).max().expect("there are devices");
                }
                assert_eq!(begun_ns + took_ns, ended_ns, "it is answered when all is done");
                assert!(array.ops().last().is_some_and(|op| op.kind == IoKind::Flush));
            }
        }
    }
}
