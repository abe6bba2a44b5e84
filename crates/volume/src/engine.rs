//! The engine of an open volume: requests, memory, and the order in which work begins.
//!
//! A user reads the newest content: from dirty memory, memory of the commit under way, the log, or
//! the stripe; else zeros. Writes are answered from memory; [`crate::commit`] makes them durable.

mod owner;
mod reading;

pub(crate) use self::owner::{IoOwner, JobOwner};
use crate::cleaning::Cleaning;
use crate::commit::Commit;
use crate::damage::Damage;
use crate::delayed::Delayed;
use crate::geometry::Planners;
use crate::headers::Headers;
use crate::io::Io;
use crate::maps::Maps;
use crate::members::Members;
use crate::memory::Memory;
use crate::notes::Noting;
use crate::patch::Patching;
use crate::pins::Pins;
use crate::reads::Reads;
use crate::records::Records;
use crate::room::Room;
use crate::scrub::Scrubs;
use crate::service::Service;
use crate::snapshots::Snapshots;
use crate::staging::Staging;
use crate::{
    Action, Computed, Event, Failure, Geometry, IoId, IoResult, JobId, Operand, Reply, Request, RequestId,
    Slot, UserBlock,
};
use pantile_format::volume::{MemberState, Superblock};

/// The lowest name that the engine gives a buffer; the driver's own names are below it.
pub const ENGINE_BUFFERS: u64 = 1 << 63;

/// The blocks that a volume may have in memory by default: 512 MiB.
const MEMORY_BLOCKS: usize = 1 << 17;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) geometry: Geometry,
    pub(crate) planners: Planners,
    pub(crate) maps: Maps,
    pub(crate) memory: Memory,
    pub(crate) commit: Option<Commit>,
    pub(crate) patching: Patching,
    pub(crate) cleaning: Cleaning,
    pub(crate) reads: Reads,
    pub(crate) staging: Staging,
    pub(crate) delayed: Delayed,
    pub(crate) io: Io,
    pub(crate) pins: Pins,
    pub(crate) headers: Headers,
    pub(crate) damage: Damage,
    pub(crate) members: Members,
    pub(crate) scrubs: Scrubs,
    pub(crate) service: Service,
    pub(crate) records: Records,
    pub(crate) snapshots: Snapshots,
    pub(crate) noting: Noting,
}

impl Engine {
    pub(crate) fn resume(
        geometry: Geometry,
        maps: Maps,
        superblock: Superblock,
        records: Records,
        counter: u64,
    ) -> Result<Engine, pantile_code::CodeError> {
        let noting = Noting::after(maps.notes(), geometry.slots());
        Ok(Engine {
            members: Members::default(),
            scrubs: Scrubs::default(),
            snapshots: Snapshots::new(superblock, geometry.slots()),
            reads: Reads::within(Room::within(MEMORY_BLOCKS)),
            staging: Staging::default(),
            delayed: Delayed::default(),
            planners: Planners::new(&geometry)?,
            geometry,
            maps,
            memory: Memory::with_mark(Room::within(MEMORY_BLOCKS).dirty_mark),
            commit: None,
            patching: Patching::default(),
            cleaning: Cleaning::default(),
            io: Io::after(counter),
            pins: Pins::default(),
            headers: Headers::at_most(Room::within(MEMORY_BLOCKS).headers),
            damage: Damage::default(),
            service: Service::default(),
            records,
            noting,
        })
    }

    /// Enters a new session. The caller makes its superblock durable before anything else is
    /// written.
    pub(crate) fn enter_session(&mut self, superblock: Superblock) {
        self.service.opening_mut().believe();
        self.maps.raise_generation(superblock.generation_floor.0);
        self.snapshots.begin_session(superblock);
        self.records.begin_session(self.maps.generation());
    }

    /// Limits the chunk headers in memory, beside those in use.
    pub(crate) fn keep_headers(&mut self, most: usize) {
        self.headers.keep_at_most(most);
    }

    /// Limits the blocks in memory; single stripes that are larger are still read and written.
    pub(crate) fn keep_within(&mut self, blocks: usize) {
        let room = Room::within(blocks);
        self.reads.set_room(room);
        self.headers.keep_at_most(room.headers);
        self.memory.set_mark(room.dirty_mark);
        self.delayed.keep(room.epoch_data, room.epoch_parity);
    }

    /// Notes a device that does not answer, or is blank, when the volume is opened: it misses the
    /// writes from a generation on.
    pub(crate) fn missing_at_start(&mut self, slot: Slot, since: u64) {
        self.lose_member(slot, since);
    }

    /// Takes an event while nothing may be written yet.
    pub(crate) fn handle_while_opening(&mut self, event: Event) {
        match event {
            Event::IoDone(io, result) => self.io_done(io, &result),
            Event::Computed(job, computed) => self.computed(job, &computed),
            Event::DeviceGone(slot) => self.device_gone(slot),
            Event::Request(..)
            | Event::DeviceCame(..)
            | Event::Scrub(..)
            | Event::Settle
            | Event::Still
            | Event::Pace(..)
            | Event::Idle
            | Event::ClearErrors(_)
            | Event::Happened { .. } => {}
        }
        self.begin_later();
    }

    /// Returns true if nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.io.is_idle() && self.reads.are_idle()
    }

    /// True if every device has everything it should have, as far as it was read, and records say
    /// so.
    pub(crate) fn is_clean(&self) -> bool {
        let present = self.maps.has_all_members();
        let recorded = !self.records.is_wanted() && !self.snapshots.is_under_way() && self.commit.is_none();
        let recorded = recorded && !self.is_redoing() && !self.patching.is_going();
        present && recorded && self.damage.is_empty() && !self.service.has_failed()
    }

    /// Serves reads from now on, and never writes: the content of the devices is known.
    pub(crate) fn only_read(&mut self) {
        self.service.only_read();
    }

    pub(crate) fn verify_failed(&self) -> bool {
        self.service.has_failed_to_verify()
    }

    /// Returns true if a device that is present holds something that did not verify.
    pub(crate) fn has_suspects(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Asserts the invariants that hold between events.
    pub(crate) fn check(&self) {
        self.maps.check(&self.geometry);
        self.check_delayed();
    }

    /// Takes an event. [`Engine::next_action`] returns the actions that follow.
    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::Request(id, request) => {
                self.cleaning.end_rest();
                // A write gets a record, which proves the last one.
                if !matches!(request, Request::Read { .. } | Request::Flush) {
                    self.records.need_no_proof();
                }
                if let Some(request) = self.hold_request(id, request) {
                    self.request(id, request);
                }
            }
            Event::IoDone(io, result) => self.io_done(io, &result),
            Event::Computed(job, computed) => self.computed(job, &computed),
            Event::DeviceGone(slot) => self.device_gone(slot),
            Event::DeviceCame(slot, found) => self.device_came(slot, found),
            Event::Scrub(wish) => self.scrub(wish),
            Event::Settle => self.settle(),
            Event::Pace(slot, times) => self.set_pace(slot, times),
            Event::Still => self.records.want_proof(),
            Event::Idle => {
                self.records.want_proof();
                self.memory.want_commit();
                self.begin_rest();
                self.want_record_of_notes();
            }
            Event::ClearErrors(slot) => self.clear_errors(slot),
            Event::Happened { slot, what, reason, errno } => self.note_event(slot, what, (reason, errno)),
        }
        self.begin_what_waits();
        self.drive();
    }

    /// True if all requests wait: patches are being written again, or the session began without all
    /// devices and has no durable record yet.
    pub(crate) fn serves_nobody(&self) -> bool {
        (self.is_redoing() || self.records.is_provisional()) && !self.service.has_failed()
    }

    /// Holds a request while the volume serves no requests; otherwise returns it.
    fn hold_request(&mut self, id: RequestId, request: Request) -> Option<Request> {
        if self.serves_nobody() {
            self.service.hold(id, request);
            return None;
        }
        Some(request)
    }

    /// Begins the requests that waited until the volume serves.
    fn serve_early(&mut self) {
        if !self.serves_nobody() {
            for (id, request) in self.service.take_early() {
                self.request(id, request);
            }
            self.drive_commit();
        }
    }

    fn settle(&mut self) {
        self.records.want_proof();
        self.records.want_if(self.members.have_unrecorded_rebuild());
        self.want_record_of_notes();
    }

    /// Begins all work that can begin.
    pub(crate) fn drive(&mut self) {
        self.drive_delayed();
        self.drive_staging();
        self.drive_commit();
        self.serve_early();
        self.drive_rebuild();
        self.drive_scrub();
        if self.records.is_wanted() {
            // Notes made since then get into a record.
            self.drive_commit();
        }
        self.give_up_if_stuck();
        self.unblock();
    }

    /// True if the volume can make nothing durable any more; every request gets this answer.
    pub(crate) fn has_failed(&self) -> bool {
        self.service.has_failed()
    }

    /// Fails a volume that waits to serve while nothing is under way. No volume should come to
    /// this; if one does, waiting requests get an answer.
    fn give_up_if_stuck(&mut self) {
        let works = self.commit.is_some() || self.snapshots.is_under_way() || self.patching.is_going();
        if self.serves_nobody() && !works && self.is_idle() && self.io.is_taken() {
            self.service.fail();
            self.serve_early();
            self.give_up_if_failed();
        }
    }

    /// Returns the next action for the driver, until there is none.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.io.next_action()
    }

    pub(crate) fn request(&mut self, id: RequestId, request: Request) {
        let end = match &request {
            Request::Read { first, count } => first.0.checked_add(u64::from(*count)),
            Request::Write { first, contents: buffers, .. } => first.0.checked_add(buffers.len() as u64),
            Request::Trim { first, count } => first.0.checked_add(*count),
            Request::Flush => Some(0),
            _ => return self.delayed_request(id, request),
        };
        if end.is_none_or(|end| end > self.geometry.user_blocks()) {
            if let Request::Write { contents: buffers, .. } = &request {
                buffers.iter().for_each(|&buffer| self.io.act(Action::Release(buffer)));
            }
            let end = UserBlock(self.geometry.user_blocks());
            self.reply(id, Reply::Failed(Failure::OutOfRange { end }));
            return;
        }
        if let Some(epoch) = self.epoch_in_the_way(&request) {
            if let Request::Write { contents: buffers, .. } = &request {
                buffers.iter().for_each(|&buffer| self.io.act(Action::Release(buffer)));
            }
            self.reply(id, Reply::Failed(Failure::Busy { epoch }));
            return;
        }
        if self.service.reads_only() && matches!(request, Request::Write { .. } | Request::Trim { .. }) {
            if let Request::Write { contents: buffers, .. } = &request {
                buffers.iter().for_each(|&buffer| self.io.act(Action::Release(buffer)));
            }
            self.reply(id, Reply::Failed(Failure::ReadOnly));
            return;
        }
        match request {
            Request::Read { first, count } => self.user_read(id, None, first, count),
            Request::Write { first, contents: buffers, durable } => {
                buffers.iter().for_each(|&buffer| self.io.adopt(buffer));
                self.put(first, buffers.len() as u64, |index| Operand::Buffer(buffers[index]));
                self.written(id, durable);
            }
            Request::Trim { first, count } => {
                self.trim(first, count);
                self.written(id, false);
            }
            Request::Flush => self.flush(id),
            _ => {}
        }
    }

    fn written(&mut self, id: RequestId, durable: bool) {
        match (self.service.has_failed(), durable) {
            (true, _) => self.reply(id, Reply::Failed(Failure::NotDurable)),
            (false, true) => self.flush(id),
            (false, false) if self.memory.hold_write(id) => {}
            (false, false) => self.reply(id, Reply::Done),
        }
    }

    fn unblock(&mut self) {
        while let Some(id) = self.memory.next_write(self.service.has_failed()) {
            let reply =
                if self.service.has_failed() { Reply::Failed(Failure::NotDurable) } else { Reply::Done };
            self.reply(id, reply);
        }
    }

    /// Answers a flush when everything answered so far is durable.
    pub(crate) fn flush(&mut self, id: RequestId) {
        if self.service.reads_only() {
            // Nothing was written.
            self.reply(id, Reply::Done);
        } else if self.service.has_failed() {
            self.reply(id, Reply::Failed(Failure::NotDurable));
        } else {
            let needs_record = self.records.is_wanted() || self.owes_proof();
            if !self.memory.hold_flush(id, needs_record, self.commit.is_some()) {
                self.reply(id, Reply::Done);
            }
        }
    }

    /// Takes new contents, which a function returns by index, and begins to write stripes ahead
    /// that are now wholly dirty.
    fn put(&mut self, first: UserBlock, count: u64, content: impl Fn(usize) -> Operand) {
        let per_stripe = self.geometry.stripe_blocks();
        let mut index = 0;
        while index < count {
            let (logical, place) = self.geometry.locate(UserBlock(first.0 + index));
            let run = (count - index).min(per_stripe - u64::from(place));
            self.unstage(logical);
            for i in 0..run {
                let content = content((index + i) as usize);
                if let Some(old) = self.memory.put(logical, place + i as u32, content) {
                    self.io.release_operand(old);
                }
            }
            self.stage_if_whole(logical);
            index += run;
        }
    }

    fn trim(&mut self, first: UserBlock, count: u64) {
        let per_stripe = self.geometry.stripe_blocks();
        let end = first.0 + count;
        let mut at = first.0;
        while at < end {
            let (logical, place) = self.geometry.locate(UserBlock(at));
            let stop = end.min(at - u64::from(place) + per_stripe);
            if stop - at == per_stripe {
                for (_, old) in self.memory.trim(logical) {
                    self.io.release_operand(old);
                }
                self.unstage(logical);
            } else {
                self.put(UserBlock(at), stop - at, |_| Operand::Zeros);
            }
            at = stop;
        }
    }

    fn io_done(&mut self, io: IoId, result: &IoResult) {
        let Some((slot, owner)) = self.io.io_ended(io) else { return };
        if *result == IoResult::Gone {
            self.device_gone(slot);
        }
        self.noting.set_write_failed(*result == IoResult::MediaError);
        self.io_ended(slot, owner, result);
        self.noting.set_write_failed(false);
    }

    fn io_ended(&mut self, slot: Slot, owner: IoOwner, result: &IoResult) {
        match owner {
            IoOwner::FetchCell { fetch, cell, buffer } => self.cell_read(fetch, cell, buffer, result),
            IoOwner::FetchHeader { fetch, cell, logical, mapping, slot } => {
                self.header_read(fetch, cell, logical, mapping, slot, result);
            }
            IoOwner::CommitWrite | IoOwner::CommitFlush => {
                // A device that cannot be written to is lost, even if it can be read.
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.commit_io_done();
            }
            IoOwner::Snapshot => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.snapshot_part_done();
            }
            IoOwner::UpdateHeader { update, slot } => self.update_header_read(update, slot, result),
            IoOwner::HomeWrite => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.home_part_done();
            }
            IoOwner::HomeHeader { patch, slot } => self.home_header_read(patch, slot, result),
            IoOwner::SpanRun { span, run } => self.run_read(span, run, slot, result),
            IoOwner::SpanHeader { span, slot } => self.span_header_read(span, slot, result),
            IoOwner::StageWrite(id) => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.stage_io_done(id);
            }
            IoOwner::OwedWrite(id) => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.owed_part_done(id);
            }
            IoOwner::OwedRun { owed, run } => self.owed_run_read(owed, run, slot, result),
            IoOwner::EpochFlush(epoch) => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.epoch_flushed(epoch);
            }
            IoOwner::EpochRead(read) => self.epoch_read(read, slot, result),
            owner @ (IoOwner::RebuildRow | IoOwner::RebuildStripe(_) | IoOwner::RebuildFlush) => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.rebuild_io_done(&owner);
            }
            IoOwner::ScrubRow { row, cell } => self.scrubbed_row_cell(row, cell, slot, result),
            IoOwner::ScrubMetadata { round, index } => self.scrubbed_metadata(round, index, slot, result),
        }
    }

    fn computed(&mut self, job: JobId, computed: &Computed) {
        match self.io.job_ended(job) {
            Some(JobOwner::Fetch { fetch, scratch }) => self.fetch_computed(fetch, scratch, computed),
            Some(JobOwner::CommitStripe(index)) => self.stripe_computed(index, computed),
            Some(JobOwner::CommitRow(index)) => self.row_computed(index, computed),
            Some(JobOwner::CommitUpdate(index)) => self.update_computed(index, computed),
            Some(JobOwner::Span(span)) => self.span_computed(span, computed),
            Some(JobOwner::Owed(id)) => self.owed_computed(id, computed),
            Some(JobOwner::Stage(id)) => self.stage_computed(id, computed),
            Some(JobOwner::RebuildStripe(logical)) => self.rebuild_computed(logical, computed),
            Some(JobOwner::ScrubStripe(logical)) => self.scrub_computed(logical, computed),
            None => {}
        }
    }

    /// Notes a lost device: it misses the writes from the first generation that no flush of it has
    /// covered.
    pub(crate) fn device_gone(&mut self, slot: Slot) {
        let now = self.first_unrecorded_generation();
        let since = self.service.opening().since().map_or(now, |since| since.min(now));
        self.lose_member(slot, since);
    }

    fn lose_member(&mut self, slot: Slot, since: u64) {
        self.members.lose(slot);
        let was_whole = self.maps.members()[slot.0 as usize] == MemberState::Present;
        if !self.maps.lose(slot, since) {
            return;
        }
        if was_whole && !self.service.is_opening() {
            // An older superblock in this slot is that of a copy, or of a replaced device.
            self.maps.raise_first_update(slot, self.snapshots.superblock().update);
        }
        if let Some(updates) = self.commit.as_mut().and_then(|commit| commit.patch.as_mut()) {
            updates.has_lost = true;
        }
        self.note_loss(slot);
        self.records.want();
        if !self.service.is_opening() {
            self.snapshots.open_history();
        }
        self.headers.forget_device(slot);
        self.service.fail_if(!self.planners.stripes_bear.bears(&self.maps.absent()));
        self.lose_owed(slot);
    }

    /// Returns true if enough blocks are dirty to start a commit without a flush.
    pub(crate) fn above_mark(&self) -> bool {
        self.memory.is_at_mark() || self.stages_need_commit()
    }

    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply) {
        let reply = self.begun(id, reply);
        self.io.act(Action::Reply(id, reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Birth, NewVolume, format_volume};
    use pantile_format::volume::HistoryId;

    fn engine() -> Engine {
        let geometry = Geometry::new(NewVolume::small()).expect("a geometry");
        let birth = Birth { history: HistoryId([1; 16]), name: String::new(), created: 0 };
        let writes = format_volume(&geometry, &birth).expect("superblocks");
        let superblock = Superblock::decode(&writes[0].2).expect("a superblock");
        let maps = Maps::new(&geometry);
        Engine::resume(geometry, maps, superblock, Records::at(1, 0, 0), 1).expect("a code that it knows")
    }

    fn replies(engine: &mut Engine) -> Vec<(RequestId, Reply)> {
        let reply = |action| match action {
            Action::Reply(id, reply) => Some((id, reply)),
            _ => None,
        };
        std::iter::from_fn(|| engine.next_action()).filter_map(reply).collect()
    }

    #[test]
    fn a_stuck_volume_answers_waiting_requests() {
        for is_stuck in [false, true] {
            let mut engine = engine();
            // No record that would end this is written. No opening leaves an engine in this state.
            if is_stuck {
                engine.records.begin_provisionally();
                engine.records.take_wanted();
            }
            let read = Request::Read { first: UserBlock(0), count: 1 };
            engine.handle(Event::Request(RequestId(1), read));
            engine.handle(Event::Request(RequestId(2), Request::Flush));
            let expected = if is_stuck { Reply::Failed(Failure::NotDurable) } else { Reply::Done };
            let found = replies(&mut engine);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found.contains(&(RequestId(1), Reply::Read(vec![None]))), "{found:?}");
            assert!(found.contains(&(RequestId(2), expected)), "{found:?}");
            assert_eq!((engine.has_failed(), engine.serves_nobody()), (is_stuck, false));
        }
    }
}
