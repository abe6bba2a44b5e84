//! Runs independent pieces of work on a few threads.

use std::sync::Mutex;

/// Does the work on every item; the first error ends it.
///
/// With one thread, in the order of the items: the crash tests count on that.
pub(crate) fn for_each<T: Send, E: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().try_for_each(work);
    }
    let workers = threads.min(items.len());
    let queue = Mutex::new(items.into_iter());
    let failed: Mutex<Option<E>> = Mutex::new(None);
    let next = || {
        let stop = failed.lock().is_ok_and(|failed| failed.is_some());
        if stop { None } else { queue.lock().ok()?.next() }
    };
    let run = || {
        while let Some(item) = next() {
            if let (Err(error), Ok(mut failed)) = (work(item), failed.lock()) {
                failed.get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(run);
        }
        run();
    });
    match failed.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}
