//! Sets of shards, as C hands them over.

/// The most chunks of a stripe: the limit of a set of shards of Ceph 20.
pub const SHARDS_MOST: usize = 128;

/// A set of shards: bit i of `low`, or bit i - 64 of `high`, is shard i.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shards {
    low: u64,
    high: u64,
}

impl Shards {
    /// No shard.
    pub const NONE: Shards = Shards { low: 0, high: 0 };

    /// Shards 0 to `count` - 1, of at most [`SHARDS_MOST`].
    pub fn first(count: usize) -> Shards {
        (0..count.min(SHARDS_MOST)).collect()
    }

    /// True if a shard is in it.
    pub fn contains(self, shard: usize) -> bool {
        match shard {
            0..64 => self.low >> shard & 1 == 1,
            64..SHARDS_MOST => self.high >> (shard - 64) & 1 == 1,
            _ => false,
        }
    }

    /// Adds a shard below [`SHARDS_MOST`].
    pub fn insert(&mut self, shard: usize) {
        match shard < 64 {
            true => self.low |= 1 << shard,
            false => self.high |= 1 << (shard - 64),
        }
    }

    /// The number of shards in it.
    pub fn len(self) -> usize {
        (self.low.count_ones() + self.high.count_ones()) as usize
    }

    /// True if no shard is in it.
    pub fn is_empty(self) -> bool {
        self == Shards::NONE
    }

    /// Returns the shards that are not in `other`.
    pub fn without(self, other: Shards) -> Shards {
        Shards { low: self.low & !other.low, high: self.high & !other.high }
    }

    /// Its shards, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..SHARDS_MOST).filter(move |&shard| self.contains(shard))
    }
}

impl FromIterator<usize> for Shards {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> Shards {
        let mut set = Shards::NONE;
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}
