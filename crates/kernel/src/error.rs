//! Errors of compiling, and of buffers that do not fit the compiled program.

use std::fmt;

use crate::tier::Tier;

/// Reasons why a matrix cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DotError {
    /// A row names a source that does not exist.
    SourceOutOfRange {
        /// The row.
        output: usize,
        /// The source that the row names.
        source: usize,
        /// The number of sources.
        sources: usize,
    },
    /// This machine lacks the tier.
    TierUnavailable {
        /// The requested tier.
        tier: Tier,
    },
}

impl fmt::Display for DotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DotError::SourceOutOfRange { output, source, sources } => {
                write!(f, "output {output} names source {source} of {sources}; sources count from 0")
            }
            DotError::TierUnavailable { tier } => {
                write!(f, "this machine lacks the {tier} instructions; use Tier::best()")
            }
        }
    }
}

impl std::error::Error for DotError {}

/// Reasons why buffers do not fit a matrix or a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// The number of sources is wrong.
    SourceCount {
        /// The number of sources given.
        have: usize,
        /// The number of sources of the matrix.
        need: usize,
    },
    /// The number of outputs is wrong.
    OutputCount {
        /// The number of outputs given.
        have: usize,
        /// The number of outputs of the matrix.
        need: usize,
    },
    /// The number of buffers is wrong.
    BufferCount {
        /// The number of buffers given.
        have: usize,
        /// The number of buffers of the program.
        need: usize,
    },
    /// A buffer differs in length from the first one.
    BufferLen {
        /// The index of the buffer.
        index: usize,
        /// Its length in bytes.
        have: usize,
        /// The length of the first buffer in bytes.
        need: usize,
    },
    /// A needed buffer is absent, or a buffer that would be written is read-only.
    BufferGiven {
        /// The index of the buffer.
        index: usize,
        /// True if the run writes the buffer, and does not only read it.
        is_written: bool,
    },
    /// A source differs in length from the first output.
    SourceLen {
        /// The index of the source.
        index: usize,
        /// Its length in bytes.
        have: usize,
        /// The length of the first output in bytes.
        need: usize,
    },
    /// An output differs in length from the first one.
    OutputLen {
        /// The index of the output.
        index: usize,
        /// Its length in bytes.
        have: usize,
        /// The length of the first output in bytes.
        need: usize,
    },
    /// A column does not consist of whole packets of each of its buffers.
    Packets {
        /// The index of the column.
        index: usize,
        /// Its length in bytes.
        have: usize,
        /// The length must be a multiple of this number of bytes; 0 if the column has no buffers.
        multiple_of: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::SourceCount { have, need } => {
                write!(f, "{have} sources given, the matrix has {need}")
            }
            ShapeError::OutputCount { have, need } => {
                write!(f, "{have} outputs given, the matrix has {need}")
            }
            ShapeError::BufferCount { have, need } => {
                write!(f, "{have} buffers given, the program works on {need}")
            }
            ShapeError::BufferLen { index, have, need } => {
                write!(f, "buffer {index} is {have} bytes long, the first is {need}; give one length")
            }
            ShapeError::BufferGiven { index, is_written: true } => {
                write!(f, "buffer {index} is written; give it to be written")
            }
            ShapeError::BufferGiven { index, is_written: false } => {
                write!(f, "buffer {index} is read and was not given; give it to be read")
            }
            ShapeError::SourceLen { index, have, need } => {
                write!(f, "source {index} is {have} bytes long, the first buffer is {need}; give one length")
            }
            ShapeError::OutputLen { index, have, need } => {
                write!(f, "output {index} is {have} bytes long, the first buffer is {need}; give one length")
            }
            ShapeError::Packets { index, have, multiple_of: 0 } => {
                write!(f, "column {index} is {have} bytes long, but has no buffers; give an empty one")
            }
            ShapeError::Packets { index, have, multiple_of } => {
                write!(
                    f,
                    "column {index} is {have} bytes long, but a packet of each of its buffers makes {multiple_of}; give a multiple of that"
                )
            }
        }
    }
}

impl std::error::Error for ShapeError {}

/// Reasons why steps cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramError {
    /// A step names a buffer that does not exist.
    BufferOutOfRange {
        /// The step.
        step: usize,
        /// The buffer that the step names.
        buffer: usize,
        /// The number of buffers.
        buffers: usize,
    },
    /// A step writes a buffer that this step or an earlier one reads or writes.
    TargetInUse {
        /// The step.
        step: usize,
        /// The buffer that the step writes.
        target: usize,
    },
    /// A system has different numbers of sums and outputs, or a wrong number of coefficients.
    SystemShape {
        /// The number of sums, counted by their starts.
        sums: usize,
        /// The number of outputs.
        outputs: usize,
        /// The number of sources of every sum.
        sources: usize,
    },
    /// A step of Horner's rule shifts by zero planes, or by all of them.
    ShiftOutOfRange {
        /// The state to which the step belongs.
        state: usize,
        /// The number of planes by which the step shifts.
        by: usize,
        /// The number of planes of an element.
        planes: usize,
    },
    /// An additive FFT has neither 4 nor 8 points.
    FftPoints {
        /// The number of its points.
        have: usize,
    },
    /// An additive FFT has no output, or more than it has points.
    FftOutputs {
        /// The number of its outputs.
        have: usize,
        /// The number of its points.
        most: usize,
    },
    /// A transform of a network has a number of points that is not a power of two from 2 to 256.
    NetworkPoints {
        /// The step.
        step: usize,
        /// The number of its points.
        have: usize,
        /// The most points that are allowed.
        most: usize,
    },
    /// A step of a network names more or fewer buffers than it has lanes.
    NetworkLanes {
        /// The step.
        step: usize,
        /// The number of buffers that the step names.
        have: usize,
        /// The number of its lanes.
        need: usize,
    },
    /// A step of a network names a slot that does not exist.
    SlotOutOfRange {
        /// The step.
        step: usize,
        /// The last slot that the step names.
        slot: usize,
        /// The number of slots.
        slots: usize,
    },
    /// A step of a network reads a slot before it was written.
    SlotUnwritten {
        /// The step.
        step: usize,
        /// The slot.
        slot: usize,
    },
    /// A step of a network writes some of the slots that it reads, but in another order.
    SlotsOverlap {
        /// The step.
        step: usize,
    },
    /// More slots than a network can have.
    TooManySlots {
        /// The number of slots.
        have: usize,
        /// The most slots that are allowed.
        most: usize,
    },
    /// More buffers than a program can have.
    TooManyBuffers {
        /// The number of buffers.
        have: usize,
        /// The most buffers that are allowed.
        most: usize,
    },
    /// The columns have more or fewer buffers than the program.
    PacketBuffers {
        /// The number of buffers of all columns.
        have: usize,
        /// The number of buffers of the program.
        need: usize,
    },
    /// This machine lacks the tier.
    TierUnavailable {
        /// The requested tier.
        tier: Tier,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::BufferOutOfRange { step, buffer, buffers } => {
                write!(f, "step {step} names buffer {buffer} of {buffers}; buffers count from 0")
            }
            ProgramError::TooManyBuffers { have, most } => {
                write!(
                    f,
                    "{have} buffers, of which a program takes at most {most}; number only those that its steps name"
                )
            }
            ProgramError::TargetInUse { step, target } => {
                write!(
                    f,
                    "step {step} writes buffer {target}, which was read or written before; write each buffer once, before it is read"
                )
            }
            ProgramError::SystemShape { sums, outputs, sources } => {
                write!(
                    f,
                    "the parts of the system do not fit: {sources} sources, {sums} sums, {outputs} outputs; give as many sums as outputs, \
                     sources x sums coefficients and outputs x sums in the solution"
                )
            }
            ProgramError::ShiftOutOfRange { state, by, planes } => {
                write!(
                    f,
                    "the step of state {state} shifts by {by} of {planes} planes; shift by at least 1 and less than the planes, \
                     or give HornerStep::Byte"
                )
            }
            ProgramError::FftPoints { have } => {
                write!(f, "an FFT of {have} points; there are kernels for 4 and for 8")
            }
            ProgramError::FftOutputs { have, most } => {
                write!(f, "an FFT of {have} outputs; it has 1 to {most}, as many as it has points at most")
            }
            ProgramError::NetworkPoints { step, have, most } => {
                write!(f, "step {step} transforms {have} points; a transform has 2, 4, 8 and so on to {most}")
            }
            ProgramError::NetworkLanes { step, have, need } => {
                write!(
                    f,
                    "step {step} names {have} buffers for its {need} lanes; give one, or none, for each"
                )
            }
            ProgramError::SlotOutOfRange { step, slot, slots } => {
                write!(f, "step {step} names slot {slot} of {slots}; slots count from 0")
            }
            ProgramError::SlotUnwritten { step, slot } => {
                write!(f, "step {step} reads slot {slot}, which no step before it writes; write it first")
            }
            ProgramError::SlotsOverlap { step } => {
                write!(
                    f,
                    "step {step} writes some of the slots that it reads; let it write the same ones, if it adds nothing to them, or others"
                )
            }
            ProgramError::TooManySlots { have, most } => {
                write!(
                    f,
                    "{have} slots, of which a network has at most {most}; use again those that no step reads any more"
                )
            }
            ProgramError::PacketBuffers { have, need } => {
                write!(
                    f,
                    "the columns have {have} buffers together, the program {need}; give each column as many rows as it has buffers"
                )
            }
            ProgramError::TierUnavailable { tier } => {
                write!(f, "this machine lacks the {tier} instructions; use Tier::best()")
            }
        }
    }
}

impl std::error::Error for ProgramError {}

impl From<DotError> for ProgramError {
    fn from(error: DotError) -> ProgramError {
        match error {
            DotError::TierUnavailable { tier } => ProgramError::TierUnavailable { tier },
            DotError::SourceOutOfRange { .. } => unreachable!("sources are numbered by `place`"),
        }
    }
}
