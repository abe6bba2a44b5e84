//! Locks that remain usable after a panic of their holder.
//!
//! These locks protect a set, a count or a queue that changes in single steps, so a panic leaves it
//! consistent and the next holder may continue. If several values have to be consistent, as in
//! [`crate::Service`], the owner of the lock repairs them first.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Takes a lock.
pub(crate) fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification; the lock is released meanwhile.
pub(crate) fn wait<'l, T>(called: &Condvar, held: MutexGuard<'l, T>) -> MutexGuard<'l, T> {
    called.wait(held).unwrap_or_else(PoisonError::into_inner)
}

/// Does the same as [`wait`], for at most this long.
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
    fn a_lock_can_be_taken_after_a_panic_under_it() {
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
