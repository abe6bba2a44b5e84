//! A volume from the first superblock read to the last request: opening, then serving.

use crate::{
    Action, BLOCK_BYTES, BufferId, Engine, EpochStatus, Event, Extent, Failure, Found, Geometry, Lookup,
    Losses, Margin, OpenError, Opening, Reason, Reply, Request, RequestId, Slot, Standing, Status, UserBlock,
};
use pantile_format::volume::{HistoryId, Superblock};
use std::collections::VecDeque;

/// The state of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The devices are being read; requests wait.
    Opening,
    /// Requests are answered. A volume that is only looked at answers with its status alone.
    Serving,
    /// It cannot be opened. Nothing was written, except perhaps content that was there already.
    Refused(OpenError),
}

/// A volume. Events go in, actions come out.
#[derive(Debug)]
pub struct Volume {
    inner: Inner,
    /// Events that wait until the volume is open.
    waiting: Vec<Event>,
    /// Answers to requests of a refused volume, and releases of their buffers.
    refusals: VecDeque<Action>,
    /// The limit of epochs' blocks in memory; `None`: the default.
    epoch_blocks: Option<usize>,
    /// The limit of blocks in memory; `None`: the default.
    memory_blocks: Option<usize>,
    /// The number of dirty blocks that start a commit; `None`: the default.
    dirty_mark: Option<usize>,
    /// Seconds since 1970, as the driver set the clock last.
    now: i64,
}

#[derive(Debug)]
enum Inner {
    Opening(Box<Opening>),
    Serving(Box<Engine>),
    /// The state of the devices is known, and only its status is served.
    Looking(Box<Engine>),
    Refused(OpenError),
}

impl Volume {
    /// Begins to open a volume that [`format_volume`](crate::format_volume) or an earlier session
    /// wrote.
    ///
    /// `there`: by slot, true if the device answers. `fresh`: drawn at random for this opening; it
    /// becomes the volume's history if not all devices take part.
    pub fn open(geometry: Geometry, there: &[bool], fresh: HistoryId) -> Volume {
        Volume::begin(Box::new(Opening::new(geometry, there, fresh)))
    }

    /// Reads the devices and writes nothing, for [`Volume::status`]. No request is served.
    ///
    /// A change that a crash cut off counts as done: the last change is not checked to be whole.
    pub fn look(geometry: Geometry, there: &[bool]) -> Volume {
        let mut opening = Box::new(Opening::new(geometry, there, HistoryId([0; 16])));
        opening.only_looks = true;
        Volume::begin(opening)
    }

    fn begin(opening: Box<Opening>) -> Volume {
        let mut volume = Volume {
            inner: Inner::Opening(opening),
            waiting: Vec::new(),
            refusals: VecDeque::new(),
            epoch_blocks: None,
            memory_blocks: None,
            dirty_mark: None,
            now: 0,
        };
        volume.go_on();
        volume
    }

    /// Opens a volume read only: no session is begun, and nothing is written, ever. So it can be
    /// opened on media that cannot be written, or that are full.
    ///
    /// Flushed blocks are read as far as the code tolerates the losses. The last change counts if
    /// its blocks can be computed, as in any opening. Blocks that devices lack are not written
    /// again, but computed at each read.
    pub fn open_to_read(geometry: Geometry, there: &[bool]) -> Volume {
        let mut volume = Volume::look(geometry, there);
        match &mut volume.inner {
            Inner::Opening(opening) => (opening.only_looks, opening.reads_only) = (false, true),
            Inner::Serving(_) | Inner::Looking(_) | Inner::Refused(_) => {}
        }
        volume
    }

    /// Limits the chunk headers in memory, beside those in use; fewer cost more reads. No effect
    /// unless the volume serves.
    pub fn keep_headers(&mut self, most: usize) {
        if let Inner::Serving(engine) = &mut self.inner {
            engine.keep_headers(most);
        }
    }

    /// Limits the bytes of blocks in memory, including users' writes that are not durable; chunk
    /// headers take a thirtieth of that in addition. The default is 512 MiB. A single stripe is
    /// read and written whatever its length. Must be called before the first event.
    pub fn keep_within(&mut self, bytes: u64) {
        self.memory_blocks = Some((bytes / BLOCK_BYTES) as usize);
    }

    /// Limits the data blocks of epochs in memory, and their parity blocks to the same number;
    /// fewer cost reads before an end. Must be called before the first event.
    pub fn keep_epoch_blocks(&mut self, most: usize) {
        self.epoch_blocks = Some(most);
    }

    /// Sets the number of dirty blocks that start a commit without a flush. No write is answered
    /// beyond eight times this number. A lower one costs more flushes. Must be called before the
    /// first event.
    pub fn commit_at(&mut self, dirty_blocks: usize) {
        self.dirty_mark = Some(dirty_blocks);
    }

    /// Sets the time of the events that follow, in seconds since 1970; until the first call it is
    /// 0. The volume has no clock.
    pub fn tell_time(&mut self, now: i64) {
        self.now = now;
        match &mut self.inner {
            Inner::Serving(engine) | Inner::Looking(engine) => engine.noting.tell_time(now),
            Inner::Opening(opening) => opening.now = now,
            Inner::Refused(_) => {}
        }
    }

    /// Sets the reason for a device that is about to be reported as gone, with the system's error
    /// number or 0.
    pub fn tell_why(&mut self, slot: Slot, reason: Reason, errno: i32) {
        if let Inner::Serving(engine) = &mut self.inner {
            engine.tell_why(slot, reason, errno);
        }
    }

    /// Takes an event. [`Volume::next_action`] returns the actions that follow.
    pub fn handle(&mut self, event: Event) {
        match (&mut self.inner, event) {
            (Inner::Serving(engine), event) => engine.handle(event),
            (
                Inner::Opening(_),
                event @ (Event::Request(..)
                | Event::DeviceCame(..)
                | Event::Scrub(..)
                | Event::ClearErrors(_)
                | Event::Happened { .. }),
            ) => self.waiting.push(event),
            (Inner::Opening(opening), event) => {
                if let Event::DeviceGone(slot) = event {
                    // Earlier returns of a device that has gone again do not count.
                    self.waiting
                        .retain(|waiting| !matches!(waiting, Event::DeviceCame(came, _) if *came == slot));
                }
                opening.handle(event);
            }
            (Inner::Looking(_), Event::Request(id, Request::Flush)) => {
                // Nothing was written.
                self.refusals.push_back(Action::Reply(id, Reply::Done));
            }
            (Inner::Refused(_) | Inner::Looking(_), Event::Request(id, request)) => self.refuse(id, request),
            (Inner::Refused(_) | Inner::Looking(_), _) => {}
        }
        self.go_on();
    }

    /// Returns the next action for the driver, until there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        match &mut self.inner {
            Inner::Opening(opening) => opening.next_action(),
            Inner::Serving(engine) => engine.next_action(),
            Inner::Refused(_) | Inner::Looking(_) => self.refusals.pop_front(),
        }
    }

    /// Returns the state of the volume.
    pub fn state(&self) -> State {
        match &self.inner {
            Inner::Opening(_) => State::Opening,
            // A volume that has failed meanwhile answers every request, even if only with that
            // failure.
            Inner::Serving(engine) if engine.is_redoing() && !engine.has_failed() => State::Opening,
            Inner::Serving(_) | Inner::Looking(_) => State::Serving,
            Inner::Refused(error) => State::Refused(error.clone()),
        }
    }

    /// Returns the status of the volume; `None` unless it serves.
    pub fn status(&self) -> Option<Status> {
        match &self.inner {
            Inner::Serving(engine) => Some(engine.status()),
            Inner::Looking(engine) => Some(engine.status()),
            Inner::Opening(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns the number of stripes patched since the volume was opened, including patches that a
    /// crash cut off. `None` unless the volume serves and can be patched: version 2, and a geometry
    /// that [`Geometry::may_patch`].
    pub fn patched_stripes(&self) -> Option<u64> {
        match &self.inner {
            Inner::Serving(engine) => engine.geometry.may_patch().then_some(engine.patching.stripes()),
            _ => None,
        }
    }

    /// Returns the epochs of delayed parity.
    pub fn epochs(&self) -> Vec<EpochStatus> {
        match &self.inner {
            Inner::Serving(engine) => engine.epoch_statuses(),
            _ => Vec::new(),
        }
    }

    /// Returns the losses if these devices are lost, too; `None` unless the volume serves.
    pub fn losses(&self, also: &[Slot]) -> Option<Losses> {
        match &self.inner {
            Inner::Serving(engine) | Inner::Looking(engine) => Some(engine.losses(also)),
            Inner::Opening(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns what flushed data depend on now, for [`margin`](crate::margin()); `None` unless the
    /// volume serves. Cost: searches the log and the known bad content.
    pub fn standing(&self) -> Option<Standing> {
        match &self.inner {
            Inner::Serving(engine) | Inner::Looking(engine) => Some(engine.standing()),
            Inner::Opening(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns for each device the number of chunks and log blocks that a failed read has found to
    /// be bad since the volume was opened. Each counts once until it is written or can be read
    /// again. Empty unless the volume serves.
    pub fn unreadable_chunks(&self) -> Vec<u64> {
        match &self.inner {
            Inner::Serving(engine) => {
                engine.noting.counts().iter().map(|counts| counts.unreadable_chunks).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Counts devices that can fail in addition to those that are lost; `None` unless the volume
    /// serves. Cost: that of [`margin`](crate::margin()), up to half a second.
    pub fn margin(&self) -> Option<Margin> {
        match &self.inner {
            Inner::Serving(engine) | Inner::Looking(engine) => Some(engine.margin()),
            Inner::Opening(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns true if the volume would continue to serve without these devices, and lose nothing
    /// more. `None` unless it serves.
    pub fn can_spare(&self, also: &[Slot]) -> Option<bool> {
        match &self.inner {
            Inner::Serving(engine) | Inner::Looking(engine) => Some(engine.can_spare(also)),
            Inner::Opening(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns the content of a device that comes to a slot, by its newest superblock; `None`
    /// unless the volume serves.
    pub fn found(&self, slot: Slot, own: &Superblock) -> Option<Found> {
        match &self.inner {
            Inner::Serving(engine) => Some(engine.found(slot, own)),
            Inner::Opening(_) | Inner::Looking(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns the ranges of written and unwritten blocks; `None` unless it serves.
    pub fn extents(&self, first: UserBlock, count: u64) -> Option<Vec<Extent>> {
        match &self.inner {
            Inner::Serving(engine) | Inner::Looking(engine) => Some(engine.extents(first, count)),
            Inner::Opening(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns the places of blocks, if a driver can read all of them without a request: their
    /// newest content is on devices that have it, or is a sum of such blocks, and the checksums are
    /// in memory. Content that is read there is valid only if it has these checksums; else the
    /// driver makes a [`Request::Read`]. Cost: some searches in the maps for each cell, no I/O.
    pub fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        match &self.inner {
            Inner::Serving(engine) => engine.lookup(first, count),
            Inner::Opening(_) | Inner::Looking(_) | Inner::Refused(_) => None,
        }
    }

    /// Returns true if every device has everything it should have, as far as it was read, and
    /// records say so.
    pub fn is_clean(&self) -> bool {
        matches!(&self.inner, Inner::Serving(engine) if engine.is_clean())
    }

    /// Asserts the invariants that hold between events; for tests, since it searches all maps.
    pub fn check(&self) {
        if let Inner::Serving(engine) = &self.inner {
            engine.check();
        }
    }

    fn go_on(&mut self) {
        let Inner::Opening(opening) = &mut self.inner else { return };
        match opening.finish() {
            None => {}
            Some(Ok(engine)) if opening.only_looks => {
                self.inner = Inner::Looking(Box::new(engine));
                std::mem::take(&mut self.waiting).into_iter().for_each(|event| self.handle(event));
            }
            Some(Ok(engine)) => {
                let mut engine = engine;
                engine.noting.tell_time(self.now);
                if let Some(blocks) = self.memory_blocks {
                    engine.keep_within(blocks);
                }
                if let Some(blocks) = self.epoch_blocks {
                    engine.delayed.keep(blocks, blocks);
                }
                self.dirty_mark.into_iter().for_each(|mark| engine.memory.set_mark(mark));
                self.inner = Inner::Serving(Box::new(engine));
                std::mem::take(&mut self.waiting).into_iter().for_each(|event| self.handle(event));
            }
            Some(Err(error)) => {
                self.inner = Inner::Refused(error);
                std::mem::take(&mut self.waiting).into_iter().for_each(|event| self.handle(event));
            }
        }
    }

    fn refuse(&mut self, id: RequestId, request: Request) {
        let request = match request {
            Request::Within { request, .. } => *request,
            request => request,
        };
        if let Request::Write { contents: buffers, .. } = request {
            let releases = buffers.into_iter().map(|buffer: BufferId| Action::Release(buffer));
            self.refusals.extend(releases);
        }
        self.refusals.push_back(Action::Reply(id, Reply::Failed(Failure::NotOpen)));
    }
}
