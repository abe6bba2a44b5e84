//! Buffers that share columns, interleaved: a column has a *packet* of its first buffer, one of its
//! second, and so on, then the next packet of its first.
//!
//! A column of an array code has a dozen buffers. If each buffer is contiguous, a stripe of 13
//! columns is 169 streams, of which a pass reads a line or two at a time. These are more streams
//! than a processor follows, each needs a pointer, and many may map to one set of a cache. With
//! packets there are 13 streams, each read from its beginning to its end, and the positions of
//! buffers in their columns are known when a program is compiled.
//!
//! Invariants: every column has the same number of packets of each of its buffers; bytes of a
//! buffer keep their order.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::buffers::check_count;
use crate::error::{ProgramError, ShapeError};

/// The bytes of a cache line, on every processor for which there are kernels.
pub(crate) const LINE_BYTES: usize = 64;

/// The bytes of each buffer that a loop processes: `bytes` of each of `packets` packets, which
/// begin `pitch` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) packets: usize,
    pub(crate) pitch: usize,
    pub(crate) bytes: usize,
}

/// A vector loop that applies a change: it replaces the old content by the new, and adds the
/// difference to each target. It processes the bytes of the walk, a multiple of its width, from the
/// given byte of each packet on. Packets of the new content begin at the given distance from each
/// other.
///
/// # Safety
///
/// The machine has the instructions. The changed buffer and the targets are valid for reads and
/// writes of those bytes, and the new content for reads, and all are apart.
pub(crate) type SpreadLoop = unsafe fn(*mut u8, &[*mut u8], (*const u8, usize), usize, Walk);

/// The layout of columns of packets. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packets {
    /// The number of buffers of each column.
    rows: Arc<[usize]>,
    bytes: NonZeroUsize,
    /// The column of each buffer, and its row there. Buffers are numbered column by column.
    cells: Arc<[(u32, u32)]>,
}

impl Packets {
    /// Returns the layout of columns with the given numbers of buffers, in packets of `bytes`
    /// bytes.
    ///
    /// Buffers are numbered column by column. Programs of XORs are fastest with multiples of 128
    /// bytes. Errors: more columns or buffers than a program can have.
    pub fn new(rows: &[usize], bytes: NonZeroUsize) -> Result<Packets, ProgramError> {
        check_count(rows.len())?;
        check_count(rows.iter().fold(0usize, |sum, &rows| sum.saturating_add(rows)))?;
        let of_column = |(&rows, column): (&usize, u32)| (0..rows as u32).map(move |row| (column, row));
        Ok(Packets { rows: rows.into(), bytes, cells: rows.iter().zip(0..).flat_map(of_column).collect() })
    }

    /// Returns the bytes of a packet.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of buffers of a column. Panics if there is no such column.
    pub fn rows(&self, column: usize) -> usize {
        self.rows[column]
    }

    /// Returns the number of buffers of all columns.
    pub fn buffers(&self) -> usize {
        self.cells.len()
    }

    /// Returns the column of a buffer, and its row there. Panics if there is no such buffer.
    pub fn cell(&self, buffer: usize) -> (usize, usize) {
        let (column, row) = self.cells[buffer];
        (column as usize, row as usize)
    }

    /// Returns the bytes of a column from one packet of each of its buffers. Panics if there is no
    /// such column.
    pub fn group_bytes(&self, column: usize) -> usize {
        self.rows[column].saturating_mul(self.bytes.get())
    }

    /// Returns the number of walks over `groups` packets of every buffer, and their shape; walk i
    /// begins at packet i. It is one walk, or one for each packet if columns differ in their number
    /// of buffers, because the distance between packets then differs from column to column.
    pub(crate) fn walks(&self, groups: usize) -> (usize, Walk) {
        let mut rows = self.rows.iter().filter(|&&rows| rows > 0);
        let first = rows.next().copied().unwrap_or(0);
        match rows.all(|&other| other == first) {
            true => (1, Walk { packets: groups, pitch: first * self.bytes(), bytes: self.bytes() }),
            false => (groups, Walk { packets: 1, pitch: 0, bytes: self.bytes() }),
        }
    }

    /// Returns the address of packet `group` of each buffer, from the addresses of the columns.
    pub(crate) fn group(
        &self,
        column: impl Fn(usize) -> *mut u8 + Copy,
        group: usize,
    ) -> impl Fn(usize) -> *mut u8 + Copy {
        move |buffer| {
            let (c, row) = self.cell(buffer);
            column(c).wrapping_add(group * self.group_bytes(c) + row * self.bytes())
        }
    }

    /// True if packets are whole cache lines, in columns that begin at a line.
    pub(crate) fn has_lines(&self, columns: impl IntoIterator<Item = *const u8>) -> bool {
        let is_line = |bytes: usize| bytes.is_multiple_of(LINE_BYTES);
        is_line(self.bytes()) && columns.into_iter().all(|column| is_line(column.addr()))
    }

    /// Returns the number of packets of each buffer in these columns.
    ///
    /// Errors: the number of columns is wrong; a column does not consist of whole packets of each
    /// of its buffers, or does not have as many packets of each as the first column with buffers.
    pub fn groups(&self, columns: &[impl AsRef<[u8]>]) -> Result<usize, ShapeError> {
        if columns.len() != self.rows.len() {
            return Err(ShapeError::BufferCount { have: columns.len(), need: self.rows.len() });
        }
        let mut groups = None;
        for (index, column) in columns.iter().enumerate() {
            let (have, group) = (column.as_ref().len(), self.group_bytes(index));
            let own = have.checked_div(group);
            if own.unwrap_or(0) * group != have {
                return Err(ShapeError::Packets { index, have, multiple_of: group });
            }
            if let Some(own) = own
                && own != *groups.get_or_insert(own)
            {
                return Err(ShapeError::BufferLen { index, have, need: groups.unwrap_or(0) * group });
            }
        }
        Ok(groups.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(rows: &[usize], bytes: usize) -> Packets {
        Packets::new(rows, NonZeroUsize::new(bytes).unwrap()).unwrap()
    }

    #[test]
    fn more_buffers_than_a_program_takes_are_refused_before_they_are_noted() {
        let one = NonZeroUsize::MIN;
        for rows in [&[usize::MAX, usize::MAX][..], &[1 << 24, 1], &vec![0; (1 << 24) + 1]] {
            assert!(matches!(Packets::new(rows, one), Err(ProgramError::TooManyBuffers { .. })));
        }
    }

    #[test]
    fn buffers_are_numbered_column_by_column() {
        let packets = packets(&[2, 0, 1, 3], 7);
        let cells: Vec<_> = (0..packets.buffers()).map(|buffer| packets.cell(buffer)).collect();
        assert_eq!(cells, [(0, 0), (0, 1), (2, 0), (3, 0), (3, 1), (3, 2)]);
        assert_eq!((packets.columns(), packets.bytes(), packets.group_bytes(3)), (4, 7, 21));
    }

    #[test]
    fn columns_have_as_many_packets_as_one_another() {
        let packets = packets(&[2, 0, 1], 5);
        let groups =
            |lens: &[usize]| packets.groups(&lens.iter().map(|&len| vec![0; len]).collect::<Vec<_>>());
        assert_eq!(groups(&[0, 0, 0]), Ok(0));
        assert_eq!(groups(&[30, 0, 15]), Ok(3));
        assert_eq!(groups(&[30, 0]), Err(ShapeError::BufferCount { have: 2, need: 3 }));
        assert_eq!(groups(&[35, 0, 15]), Err(ShapeError::Packets { index: 0, have: 35, multiple_of: 10 }));
        assert_eq!(groups(&[30, 1, 15]), Err(ShapeError::Packets { index: 1, have: 1, multiple_of: 0 }));
        assert_eq!(groups(&[30, 0, 20]), Err(ShapeError::BufferLen { index: 2, have: 20, need: 15 }));
    }
}
