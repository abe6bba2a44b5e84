//! What goes wrong beside crashes, always within what the code promises.
//!
//! The budget knows no stripes: the caller says which addresses stand and fall together (a [`Promise`]'s `group_of`). In each group at
//! most `tolerance` devices are affected at a time. A device is affected as a whole while it is gone, and, after it came back or
//! refused a write, until an engine started since then is clean; it is affected in a group while a block there is damaged.

use std::collections::{BTreeMap, BTreeSet};

use pantile_volume::{DeviceBlock, Slot};

use crate::{Disk, Lie, Random, World};

/// What the code of the volume bears.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// Devices that may be affected at a time.
    pub tolerance: u32,
    /// The group of an address: blocks whose damage adds up are in one. One group for all is always right, and the mildest.
    pub group_of: fn(DeviceBlock) -> u64,
}

impl Promise {
    /// So many devices may be affected, wherever.
    pub fn whole_devices(tolerance: u32) -> Promise {
        Promise { tolerance, group_of: |_| 0 }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The device is pulled out; it may come back, as it was, when the engine is started again.
    Gone,
    /// A block cannot be read until it is written.
    Unreadable,
    /// A bit changes.
    Flip,
    /// A write is reported done and lost.
    Lost,
    /// A write is reported done and lands elsewhere.
    Misdirected,
    /// A write fails with a media error.
    Refused,
    /// A device is a hundred times slower for a while.
    Slow,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 7] = [
        Fault::Gone,
        Fault::Unreadable,
        Fault::Flip,
        Fault::Lost,
        Fault::Misdirected,
        Fault::Refused,
        Fault::Slow,
    ];
}

/// Draws faults and keeps the promise.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    promise: Promise,
    random: Random,
    /// The kinds that this seed has.
    kinds: Vec<Fault>,
    /// One fault is tried in so many steps.
    rarity: u64,
    /// Affected as a whole, and the session in which it happened.
    suspects: BTreeMap<Slot, u32>,
    done: BTreeMap<Fault, u32>,
}

impl Faults {
    /// A seed has a random part of the kinds at a random rate, because rare combinations need the others to be quiet.
    pub(crate) fn new(promise: Promise, among: &[Fault], mut random: Random) -> Faults {
        let share = random.between(1, 4);
        let kinds: Vec<Fault> = among.iter().copied().filter(|_| random.chance(share, 4)).collect();
        let rarity = *random.pick(&[30, 100, 300, 1000]).expect("there are rates");
        Faults { promise, random, kinds, rarity, suspects: BTreeMap::new(), done: BTreeMap::new() }
    }

    /// How often each fault happened.
    pub(crate) fn done(&self) -> &BTreeMap<Fault, u32> {
        &self.done
    }

    /// From now on nothing new goes wrong.
    pub(crate) fn stop(&mut self) {
        self.kinds.clear();
    }

    /// Something may go wrong now.
    pub(crate) fn strike(&mut self, world: &mut World, session: u32) {
        if !self.random.chance(1, self.rarity) {
            return;
        }
        let slot = Slot(self.random.below(world.disks().len() as u64) as u32);
        match self.random.pick(&self.kinds).copied() {
            Some(Fault::Gone) => self.pull_out(world, slot, session),
            Some(fault @ (Fault::Unreadable | Fault::Flip)) => self.rot(world, slot, fault),
            Some(Fault::Slow) => {
                let times = if self.random.chance(1, 2) { 1 } else { 100 };
                world.slow_down(slot, times);
                self.note(Fault::Slow);
            }
            // Lies need a write.
            Some(Fault::Lost | Fault::Misdirected | Fault::Refused) | None => {}
        }
    }

    /// While nobody runs. A device that does not come up again after a power failure is the usual case, not the rare one.
    pub(crate) fn strike_at_kill(&mut self, world: &mut World, session: u32) {
        if self.kinds.contains(&Fault::Gone) && self.random.chance(1, 2) {
            let slot = Slot(self.random.below(world.disks().len() as u64) as u32);
            self.pull_out(world, slot, session);
        }
        (0..3).for_each(|_| self.strike(world, session));
    }

    fn pull_out(&mut self, world: &mut World, slot: Slot, session: u32) {
        if self.lose(world, slot, session) {
            self.note(Fault::Gone);
        }
    }

    /// Pulls a device out if the promise allows; whether it did.
    pub(crate) fn lose(&mut self, world: &mut World, slot: Slot, session: u32) -> bool {
        let may = world.disks()[slot.0 as usize].is_present() && self.bears_loss(world.disks(), slot);
        if may {
            self.suspects.insert(slot, session);
            world.pull_out(slot, self.random.chance(1, 2));
        }
        may
    }

    fn rot(&mut self, world: &mut World, slot: Slot, fault: Fault) {
        let disk = &world.disks()[slot.0 as usize];
        let Some(at) = disk.any_written(&mut self.random).filter(|_| disk.is_present()) else { return };
        if !self.bears_damage(world.disks(), slot, [at]) {
            return;
        }
        let bit = self.random.bits();
        world.trace().line(format_args!("{fault:?} slot {} block {}", slot.0, at.0));
        let disk = &mut world.disks_mut()[slot.0 as usize];
        if fault == Fault::Flip {
            disk.flip(at, bit)
        } else {
            disk.make_unreadable(at)
        }
        self.note(fault);
    }

    /// What the device does with a write that is due.
    pub(crate) fn lie(&mut self, world: &World, session: u32) -> Lie {
        let Some((slot, at, count)) = world.next_write() else { return Lie::Honest };
        if !self.random.chance(1, self.rarity) {
            return Lie::Honest;
        }
        let end = at.0 + count;
        let fault = self.random.pick(&self.kinds).copied();
        let lie = match fault {
            Some(Fault::Lost) if self.bears_damage(world.disks(), slot, (at.0..end).map(DeviceBlock)) => {
                Lie::Lost
            }
            Some(Fault::Misdirected) => self.misdirect(world, slot, at, count),
            Some(Fault::Refused) if self.bears_loss(world.disks(), slot) => {
                self.suspects.insert(slot, session);
                Lie::Refused
            }
            _ => Lie::Honest,
        };
        if let (Some(fault), true) = (fault, lie != Lie::Honest) {
            self.note(fault);
        }
        lie
    }

    fn misdirect(&mut self, world: &World, slot: Slot, at: DeviceBlock, count: u64) -> Lie {
        let disk = &world.disks()[slot.0 as usize];
        let anywhere = DeviceBlock(self.random.below(disk.blocks()));
        let to = disk.any_written(&mut self.random).filter(|_| self.random.chance(3, 4)).unwrap_or(anywhere);
        let harmed = (at.0..at.0 + count).chain(to.0..disk.blocks().min(to.0 + count)).map(DeviceBlock);
        if to != at && self.bears_damage(world.disks(), slot, harmed) {
            Lie::Misdirected(to)
        } else {
            Lie::Honest
        }
    }

    /// While nobody runs: devices come back with what they held.
    pub(crate) fn put_back(&mut self, world: &mut World, session: u32, all: bool) {
        for slot in (0..world.disks().len() as u32).map(Slot) {
            if !world.disks()[slot.0 as usize].is_present() && (all || self.random.chance(1, 2)) {
                world.put_back(slot);
                self.suspects.insert(slot, session);
            }
        }
    }

    /// An engine started in this session has nothing left to repair.
    pub(crate) fn clean(&mut self, disks: &[Disk], session: u32) {
        self.suspects.retain(|slot, &mut since| !disks[slot.0 as usize].is_present() || since >= session);
    }

    /// Whether a device is, or was in this session, affected as a whole.
    pub(crate) fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Whether a device that is present may be lost as a whole.
    fn bears_loss(&self, disks: &[Disk], slot: Slot) -> bool {
        let mut whole: BTreeSet<Slot> = self.suspects.keys().copied().collect();
        whole.insert(slot);
        let within = |affected: usize| affected <= self.promise.tolerance as usize;
        within(whole.len()) && self.by_group(disks).values().all(|slots| within(slots.union(&whole).count()))
    }

    fn bears_damage(
        &self,
        disks: &[Disk],
        slot: Slot,
        blocks: impl IntoIterator<Item = DeviceBlock>,
    ) -> bool {
        let groups: BTreeSet<u64> = blocks.into_iter().map(self.promise.group_of).collect();
        let by_group = self.by_group(disks);
        groups.into_iter().all(|group| {
            let mut affected: BTreeSet<Slot> = self.suspects.keys().copied().collect();
            affected.extend(by_group.get(&group).into_iter().flatten());
            affected.insert(slot);
            affected.len() <= self.promise.tolerance as usize
        })
    }

    fn by_group(&self, disks: &[Disk]) -> BTreeMap<u64, BTreeSet<Slot>> {
        let mut groups: BTreeMap<u64, BTreeSet<Slot>> = BTreeMap::new();
        for (slot, disk) in (0..).map(Slot).zip(disks) {
            for at in disk.damaged() {
                groups.entry((self.promise.group_of)(at)).or_default().insert(slot);
            }
        }
        groups
    }

    fn note(&mut self, fault: Fault) {
        *self.done.entry(fault).or_default() += 1;
    }
}
