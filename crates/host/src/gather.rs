//! Joining of I/Os: the I/Os that the volume issues at one moment are sorted, and adjacent ones on
//! a device become one.
//!
//! The volume issues separate I/Os for a chunk's header, for its blocks, and for the chunks of
//! adjacent stripes. On a device they are one run of bytes, and each I/O costs as much as reading
//! some ten kilobytes more. So a header that is already in memory is read again, to make the chunks
//! on both sides of it one read. Each part keeps its id and is answered separately. If the joined
//! I/O fails, each part is repeated alone.

use crate::memory::BLOCK;
use pantile_device::Segment;
use pantile_volume::{DeviceBlock, IoId, Slot, Urgency};

/// Longest joined I/O: the cost of each byte falls no further, and longer ones hold memory longer.
const JOINED_BLOCKS_MAX: u64 = 128;

/// Most unneeded blocks between two reads that are joined: the length of usual chunk headers.
pub(crate) const GAP_BLOCKS_MAX: u64 = 2;

/// An I/O that the volume has issued.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) io: IoId,
    pub(crate) slot: Slot,
    pub(crate) at: DeviceBlock,
    pub(crate) blocks: u64,
    pub(crate) urgency: Urgency,
    /// Segments to write; `None`: the I/O is a read.
    pub(crate) write: Option<Vec<Segment>>,
}

impl Wanted {
    pub(crate) fn end(&self) -> u64 {
        self.at.0 + self.blocks
    }

    /// True if this I/O begins at the end of the other. For reads a gap of at most `gap_max` blocks
    /// is allowed.
    fn follows(&self, other: &Wanted, gap_max: u64) -> bool {
        let gap_max = if self.write.is_some() { 0 } else { gap_max };
        (other.end()..=other.end() + gap_max).contains(&self.at.0)
    }
}

/// Joins adjacent I/Os into non-empty groups, each in the order of offsets. Reads with at most
/// `gap_max` blocks between them count as adjacent.
pub(crate) fn join(mut wanted: Vec<Wanted>, gap_max: u64) -> Vec<Vec<Wanted>> {
    wanted.sort_by_key(|one| (one.slot, one.write.is_some(), one.urgency, one.at));
    let mut groups: Vec<Vec<Wanted>> = Vec::new();
    for one in wanted {
        let fits = |group: &&mut Vec<Wanted>| match (&group[..], group.last()) {
            ([first, ..], Some(last)) => {
                let kind = |of: &Wanted| (of.slot, of.write.is_some(), of.urgency);
                kind(last) == kind(&one)
                    && one.follows(last, gap_max)
                    && one.end() - first.at.0 <= JOINED_BLOCKS_MAX
            }
            _ => false,
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Splits the segments of a joined write at the ends of its parts.
pub(crate) fn cut(segments: Vec<Segment>, blocks: impl Iterator<Item = u64>) -> Vec<Vec<Segment>> {
    let mut segments = segments.into_iter();
    let part = |blocks: u64| {
        let (mut left, mut part) = (blocks as usize * BLOCK, Vec::new());
        while left > 0 {
            let Some(segment) = segments.next() else { break };
            left = left.saturating_sub(segment.range.len());
            part.push(segment);
        }
        part
    };
    blocks.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_device::AlignedBuf;

    fn read(io: u64, slot: u32, at: u64, blocks: u64) -> Wanted {
        Wanted {
            io: IoId(io),
            slot: Slot(slot),
            at: DeviceBlock(at),
            blocks,
            urgency: Urgency::User,
            write: None,
        }
    }

    fn written(blocks: usize) -> Option<Vec<Segment>> {
        Some(vec![Segment::whole(AlignedBuf::zeroed(blocks * BLOCK))])
    }

    fn names(wanted: Vec<Wanted>) -> Vec<Vec<u64>> {
        join(wanted, GAP_BLOCKS_MAX).iter().map(|group| group.iter().map(|one| one.io.0).collect()).collect()
    }

    #[test]
    fn neighbours_are_joined_and_others_are_not() {
        assert_eq!(names(vec![]), Vec::<Vec<u64>>::new());
        assert_eq!(
            names(vec![read(1, 0, 17, 16), read(2, 0, 16, 1), read(3, 0, 34, 1)]),
            [vec![2, 1, 3]],
            "a block between them is read, too"
        );
        assert_eq!(names(vec![read(1, 0, 17, 16), read(3, 0, 36, 1)]), [[1], [3]], "too far");
        assert_eq!(names(vec![read(1, 0, 17, 16), read(3, 0, 32, 1)]), [[1], [3]], "one within the other");
        let write = |io, at| Wanted { write: written(1), ..read(io, 0, at, 1) };
        assert_eq!(names(vec![write(1, 1), write(2, 3), write(3, 4)]), [vec![1], vec![2, 3]], "writes touch");
        assert_eq!(names(vec![read(1, 0, 0, 1), read(2, 1, 1, 1)]), [[1], [2]], "of two devices");
        let background = Wanted { urgency: Urgency::Background, ..read(2, 0, 1, 1) };
        assert_eq!(names(vec![read(1, 0, 0, 1), background]), [[1], [2]], "no request waits for one of them");
        let write = Wanted { write: written(1), ..read(2, 0, 1, 1) };
        assert_eq!(names(vec![read(1, 0, 0, 1), write]), [[1], [2]], "one reads, one writes");
    }

    #[test]
    fn joined_groups_are_bounded() {
        let groups = join((0..40).map(|i| read(i, 0, i * 16, 16)).collect(), 0);
        assert!(groups.iter().all(|group| group.len() as u64 * 16 <= JOINED_BLOCKS_MAX));
        assert_eq!(
            groups.iter().flatten().map(|one| one.io.0).collect::<Vec<_>>(),
            (0..40).collect::<Vec<_>>()
        );
        assert_eq!(names(vec![read(1, 0, 0, 500)]), [[1]], "what is long alone stays");
    }

    #[test]
    fn a_joined_write_is_cut_into_its_parts() {
        let parts = [vec![2, 1], vec![1], vec![3]];
        let segments = |blocks: &usize| Segment::whole(AlignedBuf::zeroed(blocks * BLOCK));
        let all = parts.iter().flatten().map(segments).collect();
        let lens = cut(all, [3, 1, 3].into_iter());
        let lens: Vec<Vec<usize>> =
            lens.iter().map(|part| part.iter().map(|s| s.range.len() / BLOCK).collect()).collect();
        assert_eq!(lens, parts);
    }
}
