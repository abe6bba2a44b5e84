//! Messages to the engine's thread, and their answers.

use crate::HostError;
use crate::locks::{lock, wait};
use crate::memory::Block;
use pantile_device::{AlignedBuf, IoPool};
use pantile_volume::{BufferId, Computed, IoId, IoResult, JobId, Request};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A message of another thread to the engine's.
pub(crate) enum Message {
    /// A user's request with its bytes.
    User { request: Request<AlignedBuf>, answer: Answer<Vec<Option<Block>>> },
    /// Checksums of the blocks of a read.
    Read { io: IoId, result: IoResult, blocks: Vec<(BufferId, Block)> },
    /// The results of a computation.
    Computed { job: JobId, made: Vec<(BufferId, Block)>, result: Computed },
    /// A call to be made on the engine's thread.
    Call(Box<dyn FnOnce(&mut crate::engine::Engine) + Send>),
}

/// Messages in the order of their arrival.
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// The pool whose completions the engine's thread waits for; a message ends that wait.
    pool: Arc<IoPool>,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    closed: bool,
}

impl Inbox {
    pub(crate) fn new(pool: Arc<IoPool>) -> Inbox {
        Inbox { state: Mutex::default(), pool }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds a message. After the engine has stopped, the message is dropped, and so is its
    /// `Answer`.
    pub(crate) fn push(&self, message: Message) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return;
        }
        let was_empty = state.messages.is_empty();
        state.messages.push_back(message);
        drop(state);
        if was_empty {
            self.pool.wake();
        }
    }

    /// Takes all messages.
    pub(crate) fn take(&self, into: &mut VecDeque<Message>) {
        std::mem::swap(&mut self.lock().messages, into);
    }

    /// Drops all present and future messages.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.messages);
        drop(state);
        drop(dropped);
    }
}

/// The waiting end of a place for one result, which the engine fills in.
pub(crate) struct Awaited<T>(Arc<Place<T>>);

/// The end that the engine fills in. If it is dropped before, the result is [`HostError::Stopped`].
pub(crate) struct Answer<T>(Option<Arc<Place<T>>>);

struct Place<T> {
    result: Mutex<Option<Result<T, HostError>>>,
    there: Condvar,
}

/// Returns both ends.
pub(crate) fn answer<T>() -> (Answer<T>, Awaited<T>) {
    let place = Arc::new(Place { result: Mutex::new(None), there: Condvar::new() });
    (Answer(Some(place.clone())), Awaited(place))
}

impl<T> Answer<T> {
    pub(crate) fn give(mut self, result: Result<T, HostError>) {
        self.fill(result);
    }

    fn fill(&mut self, result: Result<T, HostError>) {
        if let Some(place) = self.0.take() {
            *lock(&place.result) = Some(result);
            place.there.notify_one();
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.fill(Err(HostError::Stopped));
    }
}

impl<T> Awaited<T> {
    pub(crate) fn wait(self) -> Result<T, HostError> {
        let mut result = lock(&self.0.result);
        loop {
            match result.take() {
                Some(result) => return result,
                None => result = wait(&self.0.there, result),
            }
        }
    }
}
