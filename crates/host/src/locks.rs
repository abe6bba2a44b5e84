//! Locks that outlive whoever panicked under them.
//!
//! What these locks guard is a set, a count or a queue that is changed in single steps, so that a
//! panic leaves nothing half done, and whoever comes next may go on. Where several things have to
//! fit each other, as in [`crate::Service`], the owner of the lock puts them in order first.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Takes a lock.
pub(crate) fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits to be called, without the lock meanwhile.
pub(crate) fn wait<'l, T>(called: &Condvar, held: MutexGuard<'l, T>) -> MutexGuard<'l, T> {
    called.wait(held).unwrap_or_else(PoisonError::into_inner)
}

/// The same, for so long at the most.
pub(crate) fn wait_for<'l, T>(
    called: &Condvar,
    held: MutexGuard<'l, T>,
    most: Duration,
) -> MutexGuard<'l, T> {
    called.wait_timeout(held, most).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_a_lock_shuts_nobody_out() {
        let (guarded, called) = (Mutex::new(1), Condvar::new());
        std::thread::scope(|scope| {
            let under = scope.spawn(|| {
                let _held = super::lock(&guarded);
                panic!("under the lock");
            });
            under.join().expect_err("it panics");
        });
        assert!(guarded.is_poisoned());
        let mut one = super::lock(&guarded);
        *one += 1;
        assert_eq!(*wait_for(&called, one, Duration::ZERO), 2);
    }
}
