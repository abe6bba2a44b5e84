//! A map from sets of columns to compiled values, read without a lock.
//!
//! It is a hash table of linked lists in which every link is written once. A reader follows
//! pointers that no writer moves, so entries are never removed. The number of entries and their
//! bytes are bounded; a value beyond these limits is not stored here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

const LISTS: usize = 64;

/// The most entries. All pairs of 45 columns are 990; more entries would make the lists long.
const ENTRIES_MOST: usize = 1024;

/// Values by list of columns, in the order in which the caller writes them.
pub(crate) struct Shelf<V> {
    lists: [Link<V>; LISTS],
    /// The number of entries, including those under construction.
    entries: AtomicUsize,
    /// The bytes of all entries.
    bytes: AtomicUsize,
    /// The bound of `bytes`.
    bytes_most: usize,
}

type Link<V> = OnceLock<Box<Entry<V>>>;

struct Entry<V> {
    columns: Box<[usize]>,
    value: Arc<V>,
    next: Link<V>,
}

impl<V> Shelf<V> {
    /// Returns an empty shelf for values of at most `bytes_most` bytes in total.
    pub(crate) fn new(bytes_most: usize) -> Shelf<V> {
        let lists = [const { OnceLock::new() }; LISTS];
        Shelf { lists, entries: AtomicUsize::new(0), bytes: AtomicUsize::new(0), bytes_most }
    }

    /// Returns the value stored for these columns. Cost: no lock, no allocation.
    pub(crate) fn get(&self, columns: &[usize]) -> Option<&Arc<V>> {
        let mut link = &self.lists[list_of(columns)];
        while let Some(entry) = link.get() {
            if *entry.columns == *columns {
                return Some(&entry.value);
            }
            link = &entry.next;
        }
        None
    }

    /// Stores a value of `bytes` bytes, unless these columns have one already or there is no room.
    /// Returns true if these columns have a value afterwards.
    pub(crate) fn put(&self, columns: &[usize], value: Arc<V>, bytes: usize) -> bool {
        let entries = self.entries.fetch_add(1, Ordering::Relaxed);
        let filled = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if entries >= ENTRIES_MOST || filled.saturating_add(bytes) > self.bytes_most {
            self.give_back(bytes);
            return false;
        }
        let mut entry = Box::new(Entry { columns: columns.into(), value, next: OnceLock::new() });
        let mut link = &self.lists[list_of(columns)];
        // If another thread sets this link first, our entry is linked after that one.
        while let Err(refused) = link.set(entry) {
            let Some(there) = link.get() else { unreachable!("a link that refuses is set") };
            if *there.columns == *columns {
                self.give_back(bytes);
                return true;
            }
            entry = refused;
            link = &there.next;
        }
        true
    }

    /// Releases the reservation of an entry that is not stored.
    fn give_back(&self, bytes: usize) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the index of the list of these columns, by Fibonacci hashing of one column after the
/// other.
fn list_of(columns: &[usize]) -> usize {
    let mixed = columns.iter().fold(0u64, |hash, &column| {
        (hash ^ (column as u64).wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MOST: usize = 16 << 20;

    #[test]
    fn the_first_value_put_for_columns_is_found() {
        let shelf = Shelf::new(BYTES_MOST);
        for a in 0..30 {
            for b in 0..a {
                shelf.put(&[a, b], Arc::new((a, b)), 1);
                shelf.put(&[a, b], Arc::new((0, 0)), 1);
            }
        }
        for a in 0..30 {
            for b in 0..a {
                assert_eq!(shelf.get(&[a, b]).map(|v| **v), Some((a, b)));
                assert!(shelf.get(&[b, a]).is_none() && shelf.get(&[a]).is_none());
            }
        }
    }

    #[test]
    fn a_full_shelf_takes_nothing_more_and_keeps_what_it_has() {
        let shelf = Shelf::new(BYTES_MOST);
        (0..2 * ENTRIES_MOST).for_each(|i| assert_eq!(shelf.put(&[i], Arc::new(i), 1), i < ENTRIES_MOST));
        assert_eq!((0..2 * ENTRIES_MOST).filter(|&i| shelf.get(&[i]).is_some()).count(), ENTRIES_MOST);
        assert!((0..ENTRIES_MOST).all(|i| shelf.get(&[i]).map(|v| **v) == Some(i)));
    }

    #[test]
    fn a_shelf_is_full_by_bytes_too_and_still_takes_what_is_small() {
        let shelf = Shelf::new(BYTES_MOST);
        let third = BYTES_MOST / 3;
        let taken: Vec<bool> = (0..5).map(|i| shelf.put(&[i], Arc::new(i), third)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(shelf.put(&[0], Arc::new(9), 0) && shelf.get(&[0]).map(|v| **v) == Some(0));
        assert!(shelf.put(&[5], Arc::new(5), BYTES_MOST - 3 * third) && !shelf.put(&[6], Arc::new(6), 1));
        assert_eq!((3..8).filter(|&i| shelf.get(&[i]).is_some()).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn threads_that_put_the_same_see_one_value() {
        let shelf = Shelf::new(BYTES_MOST);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let shelf = &shelf;
                scope
                    .spawn(move || (0..200).for_each(|i| assert!(shelf.put(&[i], Arc::new((thread, i)), 1))));
            }
        });
        for i in 0..200 {
            let found = shelf.get(&[i]).map(|v| v.1);
            assert_eq!(found, Some(i));
        }
    }
}
