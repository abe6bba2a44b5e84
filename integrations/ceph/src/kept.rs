//! Pools in use, shared by all callers that ask for the same one.
//!
//! Ceph makes a plug-in's object for each placement group, hundreds in one OSD, and all of a pool
//! have one profile. Plans and compiled code are kept once for all of them.

use crate::pool::{Layout, Pool};
use std::sync::{Arc, Mutex, Weak};

/// The most pools of one process that may keep [`CACHE_BYTES`] of each kind. Further pools keep
/// only their latest plans.
pub const POOLS_MOST: usize = 16;

/// Cache limit of a pool for each of the four kinds that [`pantile::Codec`] names: with
/// [`POOLS_MOST`] pools 64 MiB in all, and some thousand plans of each.
pub const CACHE_BYTES: usize = 1 << 20;

/// The pools of the process. The list is global because Ceph passes nothing to a plug-in that could
/// hold it.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// Returns the pool of a layout: the one that is in use already, or a new one.
///
/// Cost: the programs of a new pool are made when first used, not under the lock.
pub fn pool(layout: Layout) -> Arc<Pool> {
    let mut pools = POOLS.lock().unwrap_or_else(|error| error.into_inner());
    pools.retain(|pool| pool.strong_count() > 0);
    if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| *pool.layout() == layout) {
        return pool;
    }
    let cache_bytes = if pools.len() < POOLS_MOST { CACHE_BYTES } else { 0 };
    let pool = Arc::new(Pool::new(layout, cache_bytes));
    pools.push(Arc::downgrade(&pool));
    pool
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Plugin;

    #[test]
    fn one_profile_is_one_pool() {
        let open = |spec: &str| {
            let words = [("code".to_string(), spec.to_string())].into();
            pool(Plugin::Pantile.read(words).unwrap().layout)
        };
        let first = open("rs:3+2");
        assert!(Arc::ptr_eq(&first, &open("rs:3+2")));
        assert!(!Arc::ptr_eq(&first, &open("rs:4+2")));
        drop(first);
        assert!(
            !POOLS
                .lock()
                .unwrap()
                .iter()
                .filter_map(Weak::upgrade)
                .any(|pool| { pool.layout().code.spec() == "rs:3+2" })
        );
    }
}
