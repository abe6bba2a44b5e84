//! Work under way outside the engine. It has the names of I/O, computations and buffers, the owners
//! of their results, and the actions that the driver has not taken yet.

use crate::engine::{IoOwner, JobOwner};
use crate::holders::Holders;
use crate::{Action, BufferId, Compute, IoId, JobId, Operand, Slot};
use std::collections::{BTreeMap, VecDeque};

/// All actions that the driver was given or will be given.
#[derive(Debug)]
pub(crate) struct Io {
    /// The last number that was given as a name.
    counter: u64,
    ios: BTreeMap<IoId, (Slot, IoOwner)>,
    jobs: BTreeMap<JobId, JobOwner>,
    actions: VecDeque<Action>,
    holders: Holders,
}

impl Io {
    /// Begins with nothing under way; names continue after this number.
    pub(crate) fn after(counter: u64) -> Io {
        Io {
            counter,
            ios: BTreeMap::new(),
            jobs: BTreeMap::new(),
            actions: VecDeque::new(),
            holders: Holders::default(),
        }
    }

    /// Returns the last number given; another engine of the same volume continues after it.
    pub(crate) fn counter(&self) -> u64 {
        self.counter
    }

    /// Notes that the numbers up to this one are given.
    pub(crate) fn go_on_from(&mut self, counter: u64) {
        self.counter = self.counter.max(counter);
    }

    /// Returns a number that no other name has.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Returns true if no result of a device or of a computation is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.ios.is_empty() && self.jobs.is_empty()
    }

    /// Returns true if the driver has taken every action.
    pub(crate) fn is_taken(&self) -> bool {
        self.actions.is_empty()
    }

    /// Queues an action for the driver.
    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Returns the next action; `None` if there is none.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Names an I/O; the caller queues the action with this name.
    pub(crate) fn new_io(&mut self, slot: Slot, owner: IoOwner) -> IoId {
        let io = IoId(self.next_id());
        self.ios.insert(io, (slot, owner));
        io
    }

    /// Removes an I/O that has ended, and returns its purpose.
    pub(crate) fn io_ended(&mut self, io: IoId) -> Option<(Slot, IoOwner)> {
        self.ios.remove(&io)
    }

    /// Queues a computation for the driver.
    pub(crate) fn compute(&mut self, owner: JobOwner, work: Compute) {
        let job = JobId(self.next_id());
        self.jobs.insert(job, owner);
        self.act(Action::Compute { job, work });
    }

    /// Removes a computation that has ended, and returns its purpose.
    pub(crate) fn job_ended(&mut self, job: JobId) -> Option<JobOwner> {
        self.jobs.remove(&job)
    }

    /// Names a buffer, with one holder.
    pub(crate) fn new_buffer(&mut self) -> BufferId {
        let number = self.next_id();
        self.holders.name(number)
    }

    /// Takes over a buffer that a user's write has brought.
    pub(crate) fn adopt(&mut self, buffer: BufferId) {
        self.holders.adopt(buffer);
    }

    /// Adds a holder of a buffer.
    pub(crate) fn hold(&mut self, buffer: BufferId) {
        self.holders.hold(buffer);
    }

    /// Removes a holder; when the last is removed the driver gets the buffer back.
    pub(crate) fn release(&mut self, buffer: BufferId) {
        if self.holders.release(buffer) {
            self.act(Action::Release(buffer));
        }
    }

    /// Removes a holder of the buffer of an operand, if it has one.
    pub(crate) fn release_operand(&mut self, operand: Operand) {
        if let Operand::Buffer(buffer) = operand {
            self.release(buffer);
        }
    }
}
