//! Tests the margin that the engine reports. In a copy of the world as many devices are removed as
//! it says can fail, in any combination, and everything that was flushed must be read.
//!
//! Blocks that nothing has read may be bad without the engine's knowledge, so a scrub comes first.
//! The copy begins with a power failure and is opened without the devices; the world itself
//! continues.

use pantile_volume::{Event, Margin, Slot};

use super::{Run, Weather};
use crate::{Ask, Cause, Config, Disk, Engine, Kill, Model, Random, Refusal, Start};

/// A function that makes engines, for a copy as for the world itself.
type Make<'m, E> = &'m mut dyn FnMut(Start<'_>) -> Result<E, Refusal>;

impl<E: Engine, M: FnMut(Start<'_>) -> Result<E, Refusal>> Run<'_, E, M> {
    /// Stops faults, scrubs everything, and tests the margin.
    pub(super) fn take_at_its_word(&mut self) -> Result<(), Cause> {
        // Parity of an open epoch is pending, and its writes are not flushed.
        if !self.config.scrubs || self.model.has_epochs() {
            return Ok(());
        }
        let kinds = self.faults.pause();
        let is_at_rest = |run: &Self| run.ready() && run.world.is_idle() && run.world.open_requests() == 0;
        self.until(Weather::Calm, is_at_rest)?;
        // Makes the engine prove its last record: else an opening could take it for one that a
        // crash cut off.
        self.tell(Event::Still)?;
        self.ask_and_rest(&Ask::Flush)?;
        let scrub = self.scrub_to_the_end(false)?;
        self.ask_and_rest(&Ask::Flush)?;
        if let Some(margin) = self.engine().margin() {
            let mut model = self.model.clone();
            model.crashed(Kill::Power);
            // Findings of a scrub about superblocks, journals and maps are found again by a
            // restart.
            let again = scrub.metadata_devices == 0 && self.takes.chance(1, 2);
            let copy = Copy {
                seed: self.seed,
                config: self.config,
                session: self.session + 1,
                disks: self.world.disks().to_vec(),
                model,
                taken: Vec::new(),
            };
            let taken = copy.take(&mut self.make, &mut self.takes, &margin, again)?;
            self.stats.margins += 1;
            self.stats.margin_devices += taken;
        }
        self.faults.go_on(kinds);
        Ok(())
    }
}

/// A copy of the world after a power failure.
struct Copy<'c> {
    seed: u64,
    config: &'c Config,
    session: u32,
    disks: Vec<Disk>,
    model: Model,
    /// Devices that were removed before.
    taken: Vec<Slot>,
}

impl Copy<'_> {
    /// Removes devices, opens the rest and reads everything; returns the number of removed devices.
    /// With `again` it opens the volume without some devices that can fail, and tests its margin
    /// once more.
    fn take<E: Engine>(
        mut self,
        make: Make<'_, E>,
        random: &mut Random,
        margin: &Margin,
        again: bool,
    ) -> Result<u32, Cause> {
        let any_more = margin.any_more;
        let count = if again { random.below(u64::from(any_more) + 1) } else { any_more.into() };
        let is_there = |slot: &Slot| !margin.lost.contains(slot) && !self.taken.contains(slot);
        let mut there: Vec<Slot> = (0..self.disks.len() as u32).map(Slot).filter(is_there).collect();
        for _ in 0..count.min(there.len() as u64) {
            self.taken.push(there.swap_remove(random.below(there.len() as u64) as usize));
        }
        for (slot, disk) in (0..).map(Slot).zip(&mut self.disks) {
            match self.taken.contains(&slot) {
                true => disk.vanish(random),
                false => disk.crash(random),
            }
        }
        let taken = self.taken.clone();
        let failed = |cause| Cause::FalseMargin { any_more, taken: taken.clone(), cause: Box::new(cause) };
        let mut run = Run::resumed(self.seed, &mut *make, self.config, self.disks, self.model.clone());
        run.session = self.session;
        if !again {
            return run.open_and_read_all().map(|()| taken.len() as u32).map_err(failed);
        }
        run.start().map_err(failed)?;
        run.until(Weather::Calm, |run| run.ready()).map_err(failed)?;
        let Some(margin) = run.engine().margin() else { return Ok(0) };
        let disks = run.world.disks().to_vec();
        Copy { session: self.session + 1, disks, ..self }.take(make, random, &margin, false)
    }
}
