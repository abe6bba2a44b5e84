//! Faults other than crashes, always within the promise of the code.
//!
//! The budget does not know stripes: the `group_of` of a [`Promise`] says which addresses share a
//! budget. In each group at most `tolerance` devices are affected at a time. A device is affected
//! in all groups while it is gone. A device that came back, refused a write or lost the blocks that
//! identify it is affected in all groups until an engine that started later is clean. A device is
//! affected in one group while a block of that group is damaged.

use std::collections::{BTreeMap, BTreeSet};

use pantile_volume::{DeviceBlock, Found, Slot};

use crate::{Config, Disk, Lie, Random, World};

/// The tolerance of the volume's code.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// The number of devices that may be affected at a time.
    pub tolerance: u32,
    /// The group of an address; damage to blocks of one group adds up. A single group for all
    /// addresses is always valid, and allows the fewest faults.
    pub group_of: fn(DeviceBlock) -> u64,
}

impl Promise {
    /// Promises that any devices up to this number may be affected.
    pub fn whole_devices(tolerance: u32) -> Promise {
        Promise { tolerance, group_of: |_| 0 }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The device is pulled out; it may come back with its content when the engine is started
    /// again.
    Gone,
    /// A block cannot be read until it is written.
    Unreadable,
    /// A bit changes.
    Flip,
    /// A write is reported done, but is lost.
    Lost,
    /// A write is reported done, but lands elsewhere.
    Misdirected,
    /// A write fails with a media error.
    Refused,
    /// A device is a hundred times slower for a while.
    Slow,
    /// A device that is gone, or has refused a write, comes back with its content while the engine
    /// runs.
    Returns,
    /// An empty device replaces one that is gone, or the device that an empty one has replaced
    /// comes back: while the engine runs, or when it is started again.
    Replaced,
}

impl Fault {
    /// All kinds of faults.
    pub const ALL: [Fault; 9] = [
        Fault::Gone,
        Fault::Unreadable,
        Fault::Flip,
        Fault::Lost,
        Fault::Misdirected,
        Fault::Refused,
        Fault::Slow,
        Fault::Returns,
        Fault::Replaced,
    ];
}

/// Draws faults within the promise.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    promise: Promise,
    heads: Vec<Vec<DeviceBlock>>,
    random: Random,
    /// The kinds of faults that this seed has.
    kinds: Vec<Fault>,
    /// A fault is tried in one of this many steps.
    rarity: u64,
    /// True if empty devices replace missing ones.
    replaces: bool,
    /// Devices that are affected as a whole, and the session in which it happened; `None`: that
    /// session knows and handles it.
    suspects: BTreeMap<Slot, Option<u32>>,
    /// Devices with most of the blocks that identify them damaged, and the session in which it
    /// happened: an engine may rebuild them.
    beheaded: BTreeMap<Slot, u32>,
    /// Devices that came empty, if no engine has been clean since. If such a device comes back once
    /// more it is reported as blank, because it never had all content of a member.
    blank: BTreeSet<Slot>,
    done: BTreeMap<Fault, u32>,
}

impl Faults {
    /// Draws the kinds and the rate of faults for a seed. Not all kinds, because rare combinations
    /// need the other faults to be absent.
    pub(crate) fn new(config: &Config, mut random: Random) -> Faults {
        let (promise, heads, among) = (config.promise, config.heads.clone(), &config.faults);
        let share = random.between(1, 4);
        let kinds: Vec<Fault> = among.iter().copied().filter(|_| random.chance(share, 4)).collect();
        let rarity = *random.pick(&[30, 100, 300, 1000]).expect("there are rates");
        let (suspects, beheaded) = (BTreeMap::new(), BTreeMap::new());
        let (blank, done) = (BTreeSet::new(), BTreeMap::new());
        let replaces = kinds.contains(&Fault::Replaced);
        Faults { promise, heads, random, kinds, rarity, replaces, suspects, beheaded, blank, done }
    }

    /// Returns the number of faults by kind.
    pub(crate) fn done(&self) -> &BTreeMap<Fault, u32> {
        &self.done
    }

    /// Returns true if there is damage that an engine finds only by reading.
    pub(crate) fn did_damage(&self) -> bool {
        use Fault::{Flip, Lost, Misdirected, Unreadable};
        [Unreadable, Flip, Lost, Misdirected].iter().any(|fault| self.done.contains_key(fault))
    }

    /// Returns true if a fault other than a slow device has happened.
    pub(crate) fn did_harm(&self) -> bool {
        self.done.keys().any(|fault| *fault != Fault::Slow)
    }

    /// Stops new faults.
    pub(crate) fn stop(&mut self) {
        self.kinds.clear();
    }

    /// Pauses faults; returns the kinds for [`Faults::go_on`].
    pub(crate) fn pause(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.kinds)
    }

    pub(crate) fn go_on(&mut self, kinds: Vec<Fault>) {
        self.kinds = kinds;
    }

    /// Draws a fault for now, if any; returns a device that should come back, for the caller to do.
    pub(crate) fn strike(&mut self, world: &mut World, session: u32) -> Option<(Slot, Found)> {
        self.behead(world.disks(), session);
        if !self.random.chance(1, self.rarity) {
            return None;
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
            Some(Fault::Returns) => {
                let slot = *self.away(world).first()?;
                return Some((slot, self.as_it_was(slot)));
            }
            Some(Fault::Replaced) => {
                let slot = *self.away(world).first()?;
                let is_earlier = self.chooses_earlier(world, slot) && world.exchange_for_earlier(slot);
                return Some((slot, if is_earlier { Found::Stale } else { Found::Blank }));
            }
            // These faults need a write.
            Some(Fault::Lost | Fault::Misdirected | Fault::Refused) | None => {}
        }
        None
    }

    fn behead(&mut self, disks: &[Disk], session: u32) {
        for (slot, (disk, heads)) in (0..).map(Slot).zip(disks.iter().zip(&self.heads)) {
            let damaged = disk.damaged().filter(|at| heads.contains(at)).count();
            if disk.is_present() && 2 * damaged > heads.len() {
                self.beheaded.insert(slot, session);
            }
        }
    }

    /// Returns the devices that could come back while the engine runs, in random order.
    fn away(&mut self, world: &World) -> Vec<Slot> {
        let is_away = |slot: &Slot| {
            let refused = self.suspects.get(slot).is_some_and(Option::is_some);
            (refused || !world.disks()[slot.0 as usize].is_present()) && world.is_quiet(*slot)
        };
        let mut slots: Vec<Slot> =
            (0..world.disks().len() as u32).map(Slot).filter(|slot| is_away(slot)).collect();
        let turn = self.random.below(slots.len() as u64) as usize;
        slots.rotate_left(turn);
        slots
    }

    /// Returns the devices that could come back while the engine runs, each with its content.
    pub(crate) fn all_away(&mut self, world: &World) -> Vec<(Slot, Found)> {
        let found_away = self.away(world);
        let found = |slot| match self.as_found() {
            Found::Blank => (slot, Found::Blank),
            Found::Stale => (slot, self.as_it_was(slot)),
        };
        found_away.into_iter().map(found).collect()
    }

    /// Draws whether the device comes back that a slot had earlier.
    fn chooses_earlier(&mut self, world: &World, slot: Slot) -> bool {
        world.has_earlier(slot) && self.random.chance(1, 2)
    }

    fn as_it_was(&self, slot: Slot) -> Found {
        if self.blank.contains(&slot) { Found::Blank } else { Found::Stale }
    }

    fn as_found(&mut self) -> Found {
        if self.replaces && self.random.chance(1, 4) { Found::Blank } else { Found::Stale }
    }

    /// Notes that a device has come back while the engine runs.
    pub(crate) fn returned(&mut self, slot: Slot, found: Found) {
        self.suspects.insert(slot, None);
        if found == Found::Blank {
            self.blank.insert(slot);
        }
        self.note(if found == Found::Stale { Fault::Returns } else { Fault::Replaced });
    }

    /// Draws faults while no engine runs. Most often a device does not return after a power
    /// failure.
    pub(crate) fn strike_at_kill(&mut self, world: &mut World, session: u32) {
        if self.kinds.contains(&Fault::Gone) && self.random.chance(1, 2) {
            let slot = Slot(self.random.below(world.disks().len() as u64) as u32);
            self.pull_out(world, slot, session);
        }
        for _ in 0..3 {
            self.strike(world, session);
        }
    }

    fn pull_out(&mut self, world: &mut World, slot: Slot, session: u32) {
        if self.lose(world, slot, session) {
            self.note(Fault::Gone);
        }
    }

    /// Pulls a device out if the promise allows; returns true if it did.
    pub(crate) fn lose(&mut self, world: &mut World, slot: Slot, session: u32) -> bool {
        let may = world.disks()[slot.0 as usize].is_present() && self.bears_loss(world.disks(), slot);
        if may {
            self.suspects.insert(slot, Some(session));
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

    /// Draws the outcome of the write that is due.
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
                self.suspects.insert(slot, Some(session));
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

    /// Brings devices back with their content while no engine runs.
    pub(crate) fn put_back(&mut self, world: &mut World, session: u32, all: bool) {
        for slot in (0..world.disks().len() as u32).map(Slot) {
            if !world.disks()[slot.0 as usize].is_present() && (all || self.random.chance(1, 2)) {
                let mut found = self.as_found();
                if found == Found::Blank {
                    self.blank.insert(slot);
                    self.note(Fault::Replaced);
                }
                if found == Found::Blank && self.chooses_earlier(world, slot) {
                    world.exchange_for_earlier(slot);
                    found = Found::Stale;
                }
                world.put_back(slot, found);
                self.suspects.insert(slot, Some(session));
            }
        }
    }

    /// Notes that an engine started in this session has nothing left to repair.
    pub(crate) fn clean(&mut self, disks: &[Disk], session: u32) {
        self.blank.retain(|slot| !disks[slot.0 as usize].is_present());
        let unseen = |since: Option<u32>| since.is_some_and(|since| since >= session);
        self.suspects.retain(|slot, &mut since| !disks[slot.0 as usize].is_present() || unseen(since));
        self.beheaded.retain(|_, &mut since| since >= session);
    }

    /// Damages large parts of as many devices as allowed at once; returns true if it damaged any.
    pub(crate) fn rot_widely(&mut self, world: &mut World) -> bool {
        let mut slots: Vec<Slot> = (0..world.disks().len() as u32).map(Slot).collect();
        let mut any = false;
        while !slots.is_empty() {
            let slot = slots.swap_remove(self.random.below(slots.len() as u64) as usize);
            if !self.bears_loss(world.disks(), slot) || self.random.chance(1, 4) {
                continue;
            }
            let share = *self.random.pick(&[1, 8, 32]).expect("there are shares");
            world.trace().line(format_args!("{share} of 32 blocks of slot {} rot", slot.0));
            let disk = &mut world.disks_mut()[slot.0 as usize];
            for at in disk.written().collect::<Vec<DeviceBlock>>() {
                if !self.random.chance(share, 32) {
                    continue;
                }
                any = true;
                if self.random.chance(3, 4) {
                    disk.flip(at, self.random.bits());
                } else {
                    disk.make_unreadable(at);
                }
            }
        }
        any
    }

    /// Returns true if a device is affected as a whole, or was in this session.
    pub(crate) fn has_suspects(&self) -> bool {
        self.whole().next().is_some()
    }

    /// Returns the devices that are affected as a whole; one may occur twice.
    fn whole(&self) -> impl Iterator<Item = Slot> + '_ {
        self.suspects.keys().chain(self.beheaded.keys()).copied()
    }

    /// Returns true if the loss of a present device is within the promise.
    fn bears_loss(&self, disks: &[Disk], slot: Slot) -> bool {
        let whole: BTreeSet<Slot> = self.whole().chain([slot]).collect();
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
            let mut affected: BTreeSet<Slot> = self.whole().collect();
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
