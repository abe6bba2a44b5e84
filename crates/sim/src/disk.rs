//! One fake device: its content after a crash, its cache, and its faults.
//!
//! A write is *in flight* from [`Disk::begin_write`] until it lands. Then it is *unflushed*: reads
//! see it, and a crash may drop it. A flush makes exactly those writes durable that had landed when
//! the flush was given; real devices may do more, but need not. A read that overlaps a write in
//! flight sees the old or the new content of each sector.
//!
//! A block is *damaged* from a fault until a later write of it is durable. This is the device's own
//! record of its faults; the budget of faults counts them. It does not know stripes.

use std::collections::{BTreeMap, BTreeSet};

use pantile_volume::DeviceBlock;

use crate::{Content, Random, content::SECTORS};

/// A fake device.
#[derive(Clone, Debug)]
pub struct Disk {
    blocks: u64,
    present: bool,
    /// True if a crash can mix old and new sectors of a block that is being written. Else the block
    /// has the old or the new content as a whole.
    tears: bool,
    durable: BTreeMap<u64, Content>,
    /// Unflushed versions of each block, ascending.
    unflushed: BTreeMap<u64, Vec<Version>>,
    in_flight: BTreeMap<Ticket, Extent>,
    /// Blocks that cannot be read until they are written again.
    unreadable: BTreeSet<u64>,
    /// Damaged blocks; a version that lands at this stamp or later heals them.
    damaged: BTreeMap<u64, Stamp>,
    next_stamp: Stamp,
    next_ticket: Ticket,
}

/// The order in which writes land on a device.
pub(crate) type Stamp = u64;

/// A write in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The writes that a flush covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushMark(Stamp);

#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
struct Extent {
    at: u64,
    contents: Vec<Content>,
}

/// A block of the range cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The first such block.
    pub at: DeviceBlock,
}

impl Disk {
    /// Makes a device of zeros.
    pub fn new(blocks: u64) -> Disk {
        Disk {
            blocks,
            present: true,
            tears: true,
            durable: BTreeMap::new(),
            unflushed: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            damaged: BTreeMap::new(),
            next_stamp: 0,
            next_ticket: Ticket(0),
        }
    }

    /// Makes a device that writes each block as a whole or not at all.
    pub fn without_tears(blocks: u64) -> Disk {
        Disk { tears: false, ..Disk::new(blocks) }
    }

    /// Returns true if a crash can tear blocks.
    pub fn tears(&self) -> bool {
        self.tears
    }

    /// Returns the length in blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns true if the device answers.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// Returns the newest content of consecutive blocks. `random` decides what is seen of writes in
    /// flight.
    pub fn read(&self, at: DeviceBlock, count: u64, random: &mut Random) -> Result<Vec<Content>, Unreadable> {
        (at.0..at.0 + count).map(|at| self.read_block(at, random)).collect()
    }

    fn read_block(&self, at: u64, random: &mut Random) -> Result<Content, Unreadable> {
        let settled = self.newest(DeviceBlock(at))?;
        let racing: Vec<&Content> =
            self.in_flight.values().filter_map(|write| write.content_at(at)).collect();
        if racing.is_empty() {
            return Ok(settled.clone());
        }
        let mut parts = [settled; SECTORS];
        for part in &mut parts {
            if let Some(newer) = racing.get(random.below(racing.len() as u64 + 1) as usize) {
                *part = newer;
            }
        }
        Ok(Content::assembled(parts))
    }

    /// Returns the newest content of a block that has landed.
    pub fn newest(&self, at: DeviceBlock) -> Result<&Content, Unreadable> {
        match self.unflushed.get(&at.0).and_then(|versions| versions.last()) {
            Some(version) => Ok(&version.content),
            None if self.unreadable.contains(&at.0) => Err(Unreadable { at }),
            None => Ok(self.durable.get(&at.0).unwrap_or(&Content::ZEROS)),
        }
    }

    /// Stores durable content, to create a device.
    pub fn put(&mut self, at: DeviceBlock, content: Content) {
        assert!(at.0 < self.blocks, "the device ends at block {}", self.blocks);
        self.unflushed.remove(&at.0);
        self.unreadable.remove(&at.0);
        self.damaged.remove(&at.0);
        self.durable.insert(at.0, content);
    }

    /// Begins a write.
    pub fn begin_write(&mut self, at: DeviceBlock, contents: Vec<Content>) -> Ticket {
        assert!(at.0 + contents.len() as u64 <= self.blocks, "the device ends at block {}", self.blocks);
        let ticket = self.next_ticket;
        self.next_ticket.0 += 1;
        self.in_flight.insert(ticket, Extent { at: at.0, contents });
        ticket
    }

    /// Ends a write correctly.
    pub fn land(&mut self, ticket: Ticket) {
        let write = self.take(ticket);
        self.settle(write.at, write.contents);
    }

    /// Ends a write as if it were done, but drops it.
    pub fn lose(&mut self, ticket: Ticket) {
        let write = self.take(ticket);
        self.damage(write.at..write.at + write.contents.len() as u64);
    }

    /// Ends a write as if it were done, but lands it elsewhere, as far as the device reaches.
    pub fn misdirect(&mut self, ticket: Ticket, to: DeviceBlock) {
        let mut write = self.take(ticket);
        self.damage(write.at..write.at + write.contents.len() as u64);
        write.contents.truncate((self.blocks - to.0) as usize);
        let end = to.0 + write.contents.len() as u64;
        self.settle(to.0, write.contents);
        self.damage(to.0..end);
    }

    fn take(&mut self, ticket: Ticket) -> Extent {
        self.in_flight.remove(&ticket).expect("the write is in flight")
    }

    fn settle(&mut self, at: u64, contents: Vec<Content>) {
        let stamp = self.stamp();
        for (at, content) in (at..).zip(contents) {
            self.unflushed.entry(at).or_default().push(Version { stamp, content });
        }
    }

    fn stamp(&mut self) -> Stamp {
        self.next_stamp += 1;
        self.next_stamp - 1
    }

    /// Returns the writes that a flush given now covers.
    pub fn begin_flush(&self) -> FlushMark {
        FlushMark(self.next_stamp)
    }

    /// Ends a flush.
    pub fn end_flush(&mut self, mark: FlushMark) {
        let mut settled = Vec::new();
        self.unflushed.retain(|&at, versions| {
            let covered = versions.partition_point(|version| version.stamp < mark.0);
            settled.extend(versions.drain(..covered).next_back().map(|version| (at, version)));
            !versions.is_empty()
        });
        for (at, version) in settled {
            self.unreadable.remove(&at);
            self.heal(at, version.stamp);
            self.durable.insert(at, version.content);
        }
    }

    /// Returns true if a crash could drop a write.
    pub fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty() || !self.in_flight.is_empty()
    }

    /// Makes a block unreadable until it is written again.
    pub fn make_unreadable(&mut self, at: DeviceBlock) {
        self.unflushed.remove(&at.0);
        self.unreadable.insert(at.0);
        self.damage(at.0..at.0 + 1);
    }

    /// Flips a bit, on the medium and in the cache.
    pub fn flip(&mut self, at: DeviceBlock, bit: u64) {
        let durable = self.durable.entry(at.0).or_insert(Content::ZEROS);
        *durable = durable.flipped(bit);
        for version in self.unflushed.get_mut(&at.0).into_iter().flatten() {
            version.content = version.content.flipped(bit);
        }
        self.damage(at.0..at.0 + 1);
    }

    /// Pulls the device out: its unflushed writes are treated as in a crash.
    pub fn vanish(&mut self, random: &mut Random) {
        self.crash(random);
        self.present = false;
    }

    /// Abandons the writes in flight: each of their sectors lands or does not.
    pub fn abandon(&mut self, random: &mut Random) {
        for (_, write) in std::mem::take(&mut self.in_flight) {
            let stamp = self.stamp();
            let (whole, none) = (random.chance(1, 3), random.chance(1, 2));
            for (at, content) in (write.at..).zip(write.contents) {
                let Ok(old) = self.newest(DeviceBlock(at)).cloned() else { continue };
                let mut parts = [(); SECTORS].map(|()| whole || (!none && random.chance(1, 2)));
                if !self.tears {
                    parts = [parts[0]; SECTORS];
                }
                if parts.contains(&true) {
                    let content = Content::assembled(parts.map(|new| if new { &content } else { &old }));
                    self.unflushed.entry(at).or_default().push(Version { stamp, content });
                }
            }
        }
    }

    /// Puts the device back, with its content.
    pub fn return_stale(&mut self) {
        self.present = true;
    }

    /// Forgets all damage: from now on what is left of it must not matter.
    pub fn forgive(&mut self) {
        self.damaged.clear();
    }

    /// Returns every block that was ever written, ascending.
    pub fn written(&self) -> impl Iterator<Item = DeviceBlock> {
        let blocks: BTreeSet<u64> = self.durable.keys().chain(self.unflushed.keys()).copied().collect();
        blocks.into_iter().map(DeviceBlock)
    }

    /// Returns the damaged blocks, ascending.
    pub fn damaged(&self) -> impl Iterator<Item = DeviceBlock> {
        self.damaged.keys().map(|&at| DeviceBlock(at))
    }

    /// Returns a random block that was ever written; `None`: there is none.
    pub fn any_written(&self, random: &mut Random) -> Option<DeviceBlock> {
        let count = self.durable.len() + self.unflushed.len();
        let nth = random.below(count as u64) as usize;
        self.durable.keys().chain(self.unflushed.keys()).nth(nth).map(|&at| DeviceBlock(at))
    }

    fn damage(&mut self, blocks: std::ops::Range<u64>) {
        let stamp = self.stamp() + 1;
        self.damaged.extend(blocks.map(|at| (at, stamp)));
    }

    fn heal(&mut self, at: u64, stamp: Stamp) {
        if self.damaged.get(&at).is_some_and(|&since| stamp >= since) {
            self.damaged.remove(&at);
        }
    }

    /// Returns the possible contents of each block after a crash, and forgets all that was not
    /// durable.
    pub(crate) fn take_candidates(&mut self) -> BTreeMap<u64, Vec<Version>> {
        let mut candidates = std::mem::take(&mut self.unflushed);
        for (_, write) in std::mem::take(&mut self.in_flight) {
            let stamp = self.stamp();
            for (at, content) in (write.at..).zip(write.contents) {
                candidates.entry(at).or_default().push(Version { stamp, content });
            }
        }
        candidates
    }

    /// Sets a block after a crash: `chosen[i]` is the version of sector i, `None` for the durable
    /// one.
    pub(crate) fn settle_sectors(&mut self, at: u64, versions: &[Version], chosen: [Option<usize>; SECTORS]) {
        if chosen == [None; SECTORS] {
            return;
        }
        let old = self.durable.get(&at).unwrap_or(&Content::ZEROS).clone();
        let parts = chosen.map(|chosen| chosen.map_or(&old, |version| &versions[version].content));
        self.durable.insert(at, Content::assembled(parts));
        if let Some(stamp) = chosen.iter().map(|chosen| chosen.map(|v| versions[v].stamp)).min().flatten() {
            self.unreadable.remove(&at);
            self.heal(at, stamp);
        }
    }
}

impl Extent {
    fn content_at(&self, at: u64) -> Option<&Content> {
        self.contents.get(at.checked_sub(self.at)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(value: u8) -> Content {
        Content::of_data([value; 16])
    }

    fn write(disk: &mut Disk, at: u64, value: u8) {
        let ticket = disk.begin_write(DeviceBlock(at), vec![data(value)]);
        disk.land(ticket);
    }

    fn flush(disk: &mut Disk) {
        let mark = disk.begin_flush();
        disk.end_flush(mark);
    }

    fn newest(disk: &Disk, at: u64) -> &Content {
        disk.newest(DeviceBlock(at)).unwrap()
    }

    #[test]
    fn a_flush_covers_what_landed_before_it_was_given_and_no_more() {
        let mut disk = Disk::new(8);
        write(&mut disk, 1, 1);
        let mark = disk.begin_flush();
        write(&mut disk, 1, 2);
        write(&mut disk, 2, 3);
        assert_eq!(newest(&disk, 1), &data(2));
        disk.end_flush(mark);
        assert_eq!(newest(&disk, 1), &data(2));
        drop(disk.take_candidates());
        assert_eq!((newest(&disk, 1), newest(&disk, 2)), (&data(1), &Content::ZEROS));
    }

    #[test]
    fn a_read_may_see_sectors_of_a_write_in_flight_and_nothing_else() {
        let mut disk = Disk::new(8);
        write(&mut disk, 1, 1);
        disk.begin_write(DeviceBlock(0), vec![data(5), data(2)]);
        let mut random = Random::new(1);
        let seen: Vec<Content> =
            (0..64).map(|_| disk.read(DeviceBlock(1), 1, &mut random).unwrap().remove(0)).collect();
        for content in &seen {
            assert!(
                (0..SECTORS).all(|s| content.same_sector(&data(1), s) || content.same_sector(&data(2), s))
            );
        }
        assert!(seen.iter().any(|content| content != &data(1) && content != &data(2)));
    }

    #[test]
    fn an_unreadable_block_is_healed_by_a_durable_write_only() {
        let mut disk = Disk::new(8);
        write(&mut disk, 1, 1);
        flush(&mut disk);
        disk.make_unreadable(DeviceBlock(1));
        assert!(disk.newest(DeviceBlock(1)).is_err());
        write(&mut disk, 1, 2);
        assert_eq!(newest(&disk, 1), &data(2));
        assert_eq!(disk.damaged().count(), 1);
        drop(disk.clone().take_candidates());
        let mut dropped = disk.clone();
        drop(dropped.take_candidates());
        assert!(dropped.newest(DeviceBlock(1)).is_err());
        flush(&mut disk);
        assert_eq!(disk.damaged().count(), 0);
    }

    #[test]
    fn a_lying_write_damages_until_a_later_one_is_durable() {
        let mut disk = Disk::new(8);
        write(&mut disk, 1, 1);
        let ticket = disk.begin_write(DeviceBlock(1), vec![data(2)]);
        disk.lose(ticket);
        flush(&mut disk);
        assert_eq!(newest(&disk, 1), &data(1));
        assert_eq!(disk.damaged().collect::<Vec<_>>(), [DeviceBlock(1)]);
        let ticket = disk.begin_write(DeviceBlock(1), vec![data(3), data(4)]);
        disk.misdirect(ticket, DeviceBlock(7));
        flush(&mut disk);
        assert_eq!((newest(&disk, 1), newest(&disk, 7)), (&data(1), &data(3)));
        assert_eq!(disk.damaged().map(|at| at.0).collect::<Vec<_>>(), [1, 2, 7]);
        write(&mut disk, 1, 5);
        flush(&mut disk);
        assert_eq!(disk.damaged().map(|at| at.0).collect::<Vec<_>>(), [2, 7]);
    }
}
