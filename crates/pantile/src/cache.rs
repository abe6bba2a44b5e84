//! A locked map from keys to compiled values, bounded in bytes.
//!
//! A value reports its own size: an estimate from the terms of its program and the cells of its
//! code. Machine code of an XOR program, which is compiled after some MiB of use, is not counted;
//! pantile-kernel limits it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, RwLock};

/// The bytes of one term of a program, in its plan and compiled. For D-Code(45) and D-Code(64) with
/// two lost columns it is 34 with the bytes per step and per cell.
pub(crate) const TERM_BYTES: usize = 32;

/// The fixed bytes of a value and its key.
pub(crate) const VALUE_BYTES: usize = 1024;

/// An estimate of the bytes of a value with its key.
pub(crate) trait Weight {
    fn weight_bytes(&self) -> usize;
}

/// Values that are computed once per key. The cache is emptied when full: few patterns of losses
/// are in use, and a value is cheap to compute again.
///
/// Invariant: the sum of the weights is at most `bytes_most`, or there is only one value.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    bytes_most: usize,
    made: RwLock<Made<K, V>>,
}

#[derive(Debug)]
struct Made<K, V> {
    values: HashMap<K, Arc<V>>,
    bytes: usize,
}

impl<K: Eq + Hash, V: Weight> Cache<K, V> {
    pub(crate) fn new(bytes_most: usize) -> Cache<K, V> {
        Cache { bytes_most, made: RwLock::new(Made { values: HashMap::new(), bytes: 0 }) }
    }

    pub(crate) fn get<E>(&self, key: K, make: impl FnOnce(&K) -> Result<V, E>) -> Result<Arc<V>, E> {
        match self.find(&key) {
            Some(value) => Ok(value),
            None => {
                let value = Arc::new(make(&key)?);
                Ok(self.keep(key, value))
            }
        }
    }

    pub(crate) fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.made.read().unwrap_or_else(|e| e.into_inner()).values.get(key).cloned()
    }

    /// Stores a value, unless the key already has one. Returns the stored value.
    pub(crate) fn keep(&self, key: K, value: Arc<V>) -> Arc<V> {
        let mut made = self.made.write().unwrap_or_else(|e| e.into_inner());
        if let Some(there) = made.values.get(&key) {
            return there.clone();
        }
        let bytes = value.weight_bytes();
        if made.bytes.saturating_add(bytes) > self.bytes_most {
            made.values.clear();
            made.bytes = 0;
        }
        made.bytes += bytes;
        made.values.insert(key, value.clone());
        value
    }

    /// The sum of the weights of the values.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.made.read().unwrap_or_else(|e| e.into_inner()).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Of(usize);

    impl Weight for Of {
        fn weight_bytes(&self) -> usize {
            self.0
        }
    }

    fn get(cache: &Cache<usize, Of>, key: usize, bytes: usize) -> Arc<Of> {
        cache.get(key, |_| Ok::<_, ()>(Of(bytes))).unwrap()
    }

    #[test]
    fn it_never_fills_more_than_it_may() {
        let cache = Cache::new(100);
        let first = get(&cache, 0, 60);
        assert!(Arc::ptr_eq(&first, &get(&cache, 0, 60)), "made again");
        assert!(Arc::ptr_eq(&first, &cache.keep(0, Arc::new(Of(7)))), "kept beside what is there");
        get(&cache, 1, 40);
        assert!(Arc::ptr_eq(&first, &get(&cache, 0, 60)) && cache.bytes() == 100);
        // A third value exceeds the bound and empties the cache.
        let third = get(&cache, 2, 1);
        assert_eq!((cache.find(&0).is_none(), cache.find(&1).is_none(), cache.bytes()), (true, true, 1));
        assert!(Arc::ptr_eq(&third, &get(&cache, 2, 1)));
        // A value larger than the bound is stored as the only value.
        let large = get(&cache, 3, 500);
        assert!(Arc::ptr_eq(&large, &get(&cache, 3, 500)) && cache.find(&2).is_none());
        get(&cache, 4, 1);
        assert_eq!((cache.find(&3).is_none(), cache.bytes()), (true, 1));
        for key in 0..1000 {
            get(&cache, key, key % 37);
            assert!(cache.bytes() <= 100);
        }
    }
}
