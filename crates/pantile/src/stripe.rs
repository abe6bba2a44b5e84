//! The shape of the buffers that contain a stripe.

use crate::packets::DEFAULT_PACKET_BYTES;
use pantile_code::Code;
use pantile_kernel::ShapeError;
use std::fmt;

/// Buffers that are not a stripe of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeError {
    /// There must be one buffer per cell.
    CellCount {
        /// The number of buffers given.
        have: usize,
        /// The number of cells of the code.
        need: usize,
    },
    /// All buffers must have one length.
    UnequalLengths {
        /// The first cell that differs from cell 0.
        cell: usize,
        /// The length of that cell in bytes.
        have: usize,
        /// The length of cell 0.
        need: usize,
    },
    /// The new content of a cell must be as long as the cell.
    NewLength {
        /// The length of the new content in bytes.
        have: usize,
        /// The length of the cells.
        need: usize,
    },
    /// There must be one buffer per column.
    ColumnCount {
        /// The number of buffers given.
        have: usize,
        /// The number of columns of the code.
        need: usize,
    },
    /// A column buffer must consist of its rows, all of the same length.
    ColumnLength {
        /// The column.
        column: usize,
        /// Its length in bytes.
        have: usize,
        /// The required length: rows times the length of an element.
        need: usize,
    },
    /// A column buffer must consist of whole packets, as many of each row.
    PacketLength {
        /// The column.
        column: usize,
        /// Its length in bytes.
        have: usize,
        /// The length must be a multiple of this: rows times the length of a packet.
        multiple_of: usize,
    },
    /// A packet must have at least one byte.
    NoPacket,
    /// The columns have fewer packets of each row.
    NoSuchPacket {
        /// The packet that was named.
        packet: usize,
        /// The number of packets of each row.
        packets: usize,
    },
    /// The data cells have fewer bytes than the data.
    Holds {
        /// The bytes of the data cells.
        have: usize,
        /// The bytes of the data.
        need: usize,
    },
    /// The code has fewer data cells than the position that was named.
    NoSuchPosition {
        /// The position that was named.
        position: usize,
        /// The number of data cells of the code.
        data: usize,
    },
    /// A needed cell is absent, or a cell that would be written is read-only.
    CellGiven {
        /// The cell.
        cell: usize,
        /// True if the call writes the cell, and does not only read it.
        is_written: bool,
    },
    /// A finding is outside the cells, so it belongs to another stripe.
    FindingOutside {
        /// The end of the finding's range.
        end: usize,
        /// The length of the cells in bytes.
        len: usize,
    },
}

impl fmt::Display for StripeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StripeError::CellCount { have, need } => {
                write!(
                    out,
                    "a stripe of this code has {need} cells, {have} buffers were given; give one per cell"
                )
            }
            StripeError::UnequalLengths { cell, have, need } => {
                write!(
                    out,
                    "all buffers must have one length: cell {cell} has {have} bytes, cell 0 has {need}"
                )
            }
            StripeError::Holds { have, need } => {
                write!(
                    out,
                    "the data cells hold {have} bytes, not {need}; make the cells longer, or ask for fewer bytes"
                )
            }
            StripeError::NewLength { have, need } => {
                write!(
                    out,
                    "the new content has {have} bytes, but the cells have {need}; give as many bytes as a cell has"
                )
            }
            StripeError::ColumnCount { have, need } => {
                write!(
                    out,
                    "a stripe of this code has {need} columns, {have} buffers were given; give one per column"
                )
            }
            StripeError::NoSuchPosition { position, data } => {
                write!(
                    out,
                    "the code has no data cell {position}: its {data} data cells count from 0, in user order"
                )
            }
            StripeError::CellGiven { cell, is_written: true } => {
                write!(out, "cell {cell} is written; give a buffer that may be")
            }
            StripeError::CellGiven { cell, is_written: false } => {
                write!(out, "cell {cell} is needed and was not given; give its content")
            }
            StripeError::FindingOutside { end, len } => {
                write!(
                    out,
                    "a finding reaches to byte {end} of cells of {len} bytes; correct the stripe that it was found in"
                )
            }
            StripeError::PacketLength { column, have, multiple_of } => {
                write!(
                    out,
                    "column {column} has {have} bytes, but a packet of each of its rows makes {multiple_of}; pass a multiple of that"
                )
            }
            StripeError::NoPacket => {
                write!(out, "packets of 0 bytes; give at least 1 byte, or {DEFAULT_PACKET_BYTES}")
            }
            StripeError::NoSuchPacket { packet, packets } => {
                write!(
                    out,
                    "the columns have no packet {packet}: their {packets} packets of each row count from 0"
                )
            }
            StripeError::ColumnLength { column, have, need } => {
                write!(
                    out,
                    "column {column} has {have} bytes, but its rows need {need}; pass its rows x the length of an element"
                )
            }
        }
    }
}

impl std::error::Error for StripeError {}

impl StripeError {
    /// Turns a program's error on buffers into one on cells.
    pub(crate) fn of_cells(error: ShapeError) -> StripeError {
        match error {
            ShapeError::BufferCount { have, need } => StripeError::CellCount { have, need },
            ShapeError::BufferLen { index, have, need } => {
                StripeError::UnequalLengths { cell: index, have, need }
            }
            ShapeError::BufferGiven { index, is_written } => {
                StripeError::CellGiven { cell: index, is_written }
            }
            other => unreachable!("a program counts buffers, not sources and outputs: {other}"),
        }
    }

    /// Turns a program's error on columns of packets into one on columns.
    pub(crate) fn of_columns(error: ShapeError) -> StripeError {
        match error {
            ShapeError::BufferCount { have, need } => StripeError::ColumnCount { have, need },
            ShapeError::BufferLen { index, have, need } => {
                StripeError::ColumnLength { column: index, have, need }
            }
            ShapeError::Packets { index, have, multiple_of } => {
                StripeError::PacketLength { column: index, have, multiple_of }
            }
            ShapeError::SourceLen { have, need, .. } => StripeError::NewLength { have, need },
            other => unreachable!("columns are counted, measured and cut into packets: {other}"),
        }
    }
}

/// Returns the common length of the cells, or an error if they are not a stripe of the code.
pub(crate) fn element_len<B: AsRef<[u8]>>(code: &Code, cells: &[B]) -> Result<usize, StripeError> {
    if cells.len() != code.cell_count() {
        return Err(StripeError::CellCount { have: cells.len(), need: code.cell_count() });
    }
    let need = cells.first().map_or(0, |cell| cell.as_ref().len());
    match cells.iter().position(|cell| cell.as_ref().len() != need) {
        None => Ok(need),
        Some(cell) => Err(StripeError::UnequalLengths { cell, have: cells[cell].as_ref().len(), need }),
    }
}

/// Cuts one buffer per column into one per cell: element r of a column begins at offset r x
/// `element_len`.
///
/// Errors: the number of buffers is not that of the columns, or a buffer does not have rows x
/// `element_len` bytes.
pub fn split_columns<'b>(
    code: &Code,
    columns: &'b mut [&mut [u8]],
    element_len: usize,
) -> Result<Vec<&'b mut [u8]>, StripeError> {
    if columns.len() != code.columns() {
        return Err(StripeError::ColumnCount { have: columns.len(), need: code.columns() });
    }
    let mut cells = Vec::with_capacity(code.cell_count());
    for (column, buffer) in columns.iter_mut().enumerate() {
        let need = code.rows(column).saturating_mul(element_len);
        if buffer.len() != need {
            return Err(StripeError::ColumnLength { column, have: buffer.len(), need });
        }
        if element_len == 0 {
            cells.extend((0..code.rows(column)).map(|_| -> &'b mut [u8] { &mut [] }));
        } else {
            cells.extend(buffer.chunks_exact_mut(element_len));
        }
    }
    Ok(cells)
}
