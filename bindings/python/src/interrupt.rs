//! Long work that Ctrl-C ends.
//!
//! Signals reach Python's main thread only, and only while it runs Python. The work is done by a
//! thread of its own; the caller's thread waits without the interpreter's lock and checks regularly
//! if a handler raises.

use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest delay of a signal and of a report of progress.
const TICK: Duration = Duration::from_millis(50);

/// Does the work, which is to end soon once the flag that it is given is set.
///
/// `between` is called with the lock held, regularly and once at the end. Errors: any exception of
/// it or of a handler of a signal, once the work has ended; its result is then dropped.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
    mut between: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let ended = AtomicBool::new(false);
    let mut check = |py: Python<'_>| py.check_signals().and_then(|()| between(py));
    std::thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let ended = &ended;
        let worker = scope.spawn(move || {
            // Dropped when the work is over, also by a panic.
            let _done = done;
            work(ended)
        });
        let mut raised = None;
        // A receiver may not be shared between threads, but sent.
        let mut is_done = Some(is_done);
        while let Some(waiting) = is_done.take() {
            let (state, waiting) = py.detach(move || (waiting.recv_timeout(TICK), waiting));
            if let Err(error) = check(py) {
                ended.store(true, Ordering::Relaxed);
                raised.get_or_insert(error);
            }
            is_done = (state == Err(RecvTimeoutError::Timeout)).then_some(waiting);
        }
        let result = py.detach(move || worker.join()).unwrap_or_else(|panic| resume_unwind(panic));
        raised.map_or(Ok(result), Err)
    })
}
