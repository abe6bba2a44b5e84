//! A program over columns in which buffers are interleaved.

use crate::error::{ProgramError, ShapeError};
use crate::packets::Packets;
use crate::program::Program;

impl Program {
    /// Returns the same program for columns in which buffers are interleaved.
    ///
    /// Errors: the columns do not have as many buffers in total as the program.
    pub fn in_packets(self, packets: Packets) -> Result<PacketProgram, ProgramError> {
        PacketProgram::new(self, packets)
    }
}

/// A program that works on columns of packets.
///
/// `Send + Sync` and reusable, like the [`Program`] from which it was made.
#[derive(Debug)]
pub struct PacketProgram {
    program: Program,
    packets: Packets,
}

impl PacketProgram {
    /// Combines a program with columns. Errors: the columns do not have as many buffers in total as
    /// the program.
    pub(crate) fn new(mut program: Program, packets: Packets) -> Result<PacketProgram, ProgramError> {
        if packets.buffers() != program.buffers() {
            return Err(ProgramError::PacketBuffers { have: packets.buffers(), need: program.buffers() });
        }
        program.lay_out(&packets);
        Ok(PacketProgram { program, packets })
    }

    /// Works like [`Program::prepare`].
    pub fn prepare(&self) {
        self.program.prepare();
    }

    /// Runs every step, in place, on each packet.
    ///
    /// Shape: any alignment. Errors: those of [`Packets::groups`]; nothing is then written.
    pub fn run(&self, columns: &mut [&mut [u8]]) -> Result<(), ShapeError> {
        let groups = self.packets.groups(columns)?;
        let base = columns.as_mut_ptr();
        // SAFETY: `column` is called only with numbers of columns, of which there are as many as
        // slices, by `groups`. Each call borrows one slice, and the pointer stays valid because the
        // slices are not used otherwise until the return.
        let column = move |c: usize| unsafe { (*base.add(c)).as_mut_ptr() };
        // SAFETY: columns are apart from one another, and hold this number of groups.
        unsafe { self.program.run_packets(&self.packets, column, groups) };
        Ok(())
    }
}

/// Returns the program from which it was made.
impl AsRef<Program> for PacketProgram {
    fn as_ref(&self) -> &Program {
        &self.program
    }
}
