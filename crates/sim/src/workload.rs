//! The requests of users: a mixture that differs from seed to seed.

use pantile_volume::UserBlock;

use crate::{Ask, Model, Random};

/// The shape of a load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The most blocks of a write or read.
    pub blocks_most: u32,
    /// The most requests that are open at a time.
    pub open_most: u32,
}

/// Draws requests.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    random: Random,
    blocks_most: u64,
    open_most: usize,
    pattern: Pattern,
    weights: [u64; KINDS.len()],
    durable_of_8: u64,
    cursor: u64,
    /// Draws requests of epochs. A separate stream, so that loads without epochs stay as they are.
    epochs: Random,
    /// One of this many requests is of an epoch; 0: none.
    epoch_rarity: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Write,
    Read,
    Trim,
    Flush,
    Beyond,
}

const KINDS: [Kind; 5] = [Kind::Write, Kind::Read, Kind::Trim, Kind::Flush, Kind::Beyond];

/// The choice of addresses for requests.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Uniform,
    /// Low addresses are hot.
    Skewed,
    /// One address after the other, with a jump now and then.
    Sequential,
    /// Addresses around one place, so that nearly all requests overlap.
    Hot,
}

const PATTERNS: [Pattern; 4] = [Pattern::Uniform, Pattern::Skewed, Pattern::Sequential, Pattern::Hot];

impl Workload {
    pub(crate) fn new(load: &Load, mut random: Random) -> Workload {
        let weights = [
            random.between(4, 16),
            random.between(1, 12),
            random.below(2) * random.between(1, 3),
            random.below(4) * random.between(0, 2),
            random.below(2),
        ];
        Workload {
            blocks_most: random.between(1, u64::from(load.blocks_most)),
            open_most: random.between(1, u64::from(load.open_most)) as usize,
            pattern: *random.pick(&PATTERNS).expect("there are patterns"),
            weights: weights.map(|weight| weight * 4),
            durable_of_8: random.below(3) * random.below(4),
            cursor: 0,
            epochs: Random::new(0),
            epoch_rarity: 0,
            random,
        }
    }

    /// Makes a workload that also has epochs.
    pub(crate) fn with_epochs(self, seed: u64) -> Workload {
        let mut epochs = Random::new(seed);
        let epoch_rarity = epochs.between(1, 5);
        Workload { epochs, epoch_rarity, ..self }
    }

    /// Returns a request of an epoch, or one that begins or ends an epoch; `None`: none is due.
    pub(crate) fn next_of_epochs(&mut self, model: &mut Model) -> Option<Ask> {
        if self.epoch_rarity == 0 || !self.epochs.chance(1, self.epoch_rarity) {
            return None;
        }
        let open: Vec<_> =
            model.open_epochs().map(|(id, view)| (id, view.range.clone(), view.lost.clone())).collect();
        let chosen = self.epochs.pick(&open).cloned();
        let Some((epoch, range, lost)) = chosen.filter(|_| !self.epochs.chance(1, 20)) else {
            let blocks = model.blocks();
            let first = self.epochs.below(blocks);
            let first = if self.epochs.chance(1, 3) { 0 } else { first };
            let most = blocks - first;
            let count = if self.epochs.chance(1, 3) { most } else { 1 + self.epochs.below(most) };
            let owed_blocks_max = *self.epochs.pick(&[0, 3, 16, 64, 1 << 20]).expect("there are budgets");
            return Some(Ask::Begin { first: UserBlock(first), count, owed_blocks_max });
        };
        let len = range.end - range.start;
        let most = self.blocks_most.min(len);
        let count = if self.epochs.chance(1, 4) { most } else { 1 + self.epochs.skewed(most) };
        let mut first = range.start + self.epochs.below(len);
        if self.epochs.chance(1, 2) {
            // Writes one place after the other, so that stripes become whole.
            first = range.start + self.cursor % len;
            self.cursor += count;
        }
        if let Some(&block) = lost.first().filter(|_| self.epochs.chance(2, 3)) {
            first = block;
        }
        let count = count.min(range.end - first);
        let point = self.epochs.below(100);
        let ask = match point {
            0..60 => Ask::Write {
                first: UserBlock(first),
                contents: (first..first + count).map(|block| model.fresh(UserBlock(block))).collect(),
                durable: self.epochs.chance(1, 10),
            },
            60..75 => Ask::Read { first: UserBlock(first), count: count as u32 },
            75..79 => Ask::Trim { first: UserBlock(first), count: (4 * count).min(range.end - first) },
            79..87 => Ask::Flush,
            87..91 => return Some(Ask::Advance { epoch, through: u64::MAX }),
            91..98 => return Some(Ask::End { epoch }),
            _ => return Some(Ask::Abort { epoch }),
        };
        Some(Ask::Within { epoch, request: Box::new(ask) })
    }

    /// Returns true if a user makes a request now, instead of waiting for open ones.
    pub(crate) fn wants(&mut self, open: usize, idle: bool) -> bool {
        open < self.open_most && (idle || self.random.chance(1, 3))
    }

    /// Returns the next request.
    pub(crate) fn next(&mut self, model: &mut Model) -> Ask {
        let kind = self.kind();
        let (first, count) = self.range(model.blocks());
        match kind {
            Kind::Read => Ask::Read { first: UserBlock(first), count: count as u32 },
            Kind::Flush => Ask::Flush,
            Kind::Beyond => self.beyond(model),
            Kind::Trim => {
                let most = model.blocks() - first;
                let count = if self.random.chance(1, 8) { most } else { most.min(count * 4) };
                Ask::Trim { first: UserBlock(first), count }
            }
            Kind::Write => Ask::Write {
                first: UserBlock(first),
                contents: (first..first + count).map(|block| model.fresh(UserBlock(block))).collect(),
                durable: self.random.chance(self.durable_of_8, 8),
            },
        }
    }

    fn kind(&mut self) -> Kind {
        let mut point = self.random.below(self.weights.iter().sum::<u64>() + 1);
        for (kind, weight) in KINDS.into_iter().zip(self.weights) {
            if point < weight {
                return kind;
            }
            point -= weight;
        }
        Kind::Flush
    }

    fn range(&mut self, blocks: u64) -> (u64, u64) {
        let most = self.blocks_most.min(blocks);
        let count = if self.random.chance(1, 4) { most } else { 1 + self.random.skewed(most) };
        let first = match self.pattern {
            Pattern::Uniform => self.random.below(blocks),
            Pattern::Skewed => self.random.skewed(blocks),
            Pattern::Sequential if self.random.chance(1, 32) => self.random.below(blocks),
            Pattern::Sequential => self.cursor % blocks,
            Pattern::Hot => blocks / 2 + self.random.skewed(blocks / 2),
        };
        let count = count.min(blocks - first);
        self.cursor = first + count;
        (first, count)
    }

    fn beyond(&mut self, model: &mut Model) -> Ask {
        let blocks = model.blocks();
        let first =
            UserBlock(if self.random.chance(1, 4) { u64::MAX } else { blocks - self.random.below(2) });
        match self.random.below(3) {
            0 => Ask::Read { first, count: 2 },
            1 => Ask::Trim { first, count: 2 + self.random.skewed(u64::MAX - 2) },
            _ => Ask::Write { first, contents: vec![model.fresh(first), model.fresh(first)], durable: false },
        }
    }
}
