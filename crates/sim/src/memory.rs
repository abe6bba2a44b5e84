//! The buffers that the driver holds for the engine, and the rules of their use.
//!
//! A buffer exists from the action that makes it, or from the write that brings it, until it is
//! released; it also exists, empty, if the action fails. A buffer that an action uses must be
//! *filled* when the action is given (the action that fills it was reported done), because actions
//! are performed in any order. It must not be released before the action that uses it is reported.

use std::collections::BTreeMap;

use pantile_volume::BufferId;

use crate::{Breach, content::Data};

/// The lowest name that the engine gives a buffer; lower ones come with writes.
pub const FIRST_ENGINE_BUFFER: u64 = 1 << 63;

/// The buffers of one engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    buffers: BTreeMap<BufferId, Buffer>,
    handed_out: u64,
    most: usize,
}

#[derive(Clone, Debug)]
struct Buffer {
    content: Option<Data>,
    /// The number of actions under way that make or use it.
    users: u32,
}

impl Memory {
    /// Makes a filled buffer for a user's write.
    pub(crate) fn hand_out(&mut self, content: Data) -> BufferId {
        let buffer = BufferId(self.handed_out);
        self.handed_out += 1;
        self.buffers.insert(buffer, Buffer { content: Some(content), users: 0 });
        self.most = self.most.max(self.buffers.len());
        buffer
    }

    /// Notes an action that makes the buffer.
    pub(crate) fn promise(&mut self, buffer: BufferId) -> Result<(), Breach> {
        if buffer.0 < FIRST_ENGINE_BUFFER {
            return Err(Breach::BufferOfTheDriver { buffer });
        }
        if self.buffers.insert(buffer, Buffer { content: None, users: 1 }).is_some() {
            return Err(Breach::BufferMadeTwice { buffer });
        }
        self.most = self.most.max(self.buffers.len());
        Ok(())
    }

    /// Ends the action that makes the buffer: it is done, or has failed.
    pub(crate) fn fill(&mut self, buffer: BufferId, content: Option<Data>) {
        let buffer = self.buffers.get_mut(&buffer).expect("what is being made is not released");
        buffer.content = content;
        buffer.users -= 1;
    }

    /// Returns the content of a filled buffer.
    pub(crate) fn get(&self, buffer: BufferId) -> Result<Data, Breach> {
        match self.buffers.get(&buffer) {
            None => Err(Breach::BufferUnknown { buffer }),
            Some(Buffer { content: None, .. }) => Err(Breach::BufferNotFilled { buffer }),
            Some(Buffer { content: Some(content), .. }) => Ok(*content),
        }
    }

    /// Notes an action that uses the buffer.
    pub(crate) fn begin_use(&mut self, buffer: BufferId) -> Result<Data, Breach> {
        let content = self.get(buffer)?;
        self.buffers.get_mut(&buffer).expect("it exists").users += 1;
        Ok(content)
    }

    /// Ends an action that uses the buffer.
    pub(crate) fn end_use(&mut self, buffer: BufferId) {
        self.buffers.get_mut(&buffer).expect("what is used is not released").users -= 1;
    }

    /// Releases a buffer that the engine needs no longer.
    pub(crate) fn release(&mut self, buffer: BufferId) -> Result<(), Breach> {
        match self.buffers.get(&buffer) {
            None => Err(Breach::BufferUnknown { buffer }),
            Some(Buffer { users: 1.., .. }) => Err(Breach::ReleasedInUse { buffer }),
            Some(_) => {
                self.buffers.remove(&buffer);
                Ok(())
            }
        }
    }

    /// Returns the buffers that exist, ascending.
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = BufferId> {
        self.buffers.keys().copied()
    }

    /// Returns the largest number of buffers that existed at a time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Drops all buffers, because the process dies. Names that were handed out are not used again.
    pub(crate) fn clear(&mut self) {
        self.buffers.clear();
    }
}
