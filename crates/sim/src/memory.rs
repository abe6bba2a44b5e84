//! The buffers that the driver holds for the engine, and the rules of their use.
//!
//! A buffer exists from the action that makes it, or from the write that hands it over, until it is
//! released; it also exists, empty, if the action fails. A used buffer must be *filled* when the
//! action is given (the one that fills it reported done), because actions are performed in any
//! order. It must not be released before that action is reported.

use std::collections::BTreeMap;

use pantile_volume::BufferId;

use crate::{Breach, content::Data};

/// The engine names its buffers from here on; those below come with writes.
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
    /// Actions under way that make or use it.
    users: u32,
}

impl Memory {
    /// A filled buffer for a user's write.
    pub(crate) fn hand_out(&mut self, content: Data) -> BufferId {
        let buffer = BufferId(self.handed_out);
        self.handed_out += 1;
        self.buffers.insert(buffer, Buffer { content: Some(content), users: 0 });
        self.most = self.most.max(self.buffers.len());
        buffer
    }

    /// An action that makes the buffer is given.
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

    /// The action that makes the buffer is done, or has failed.
    pub(crate) fn fill(&mut self, buffer: BufferId, content: Option<Data>) {
        let buffer = self.buffers.get_mut(&buffer).expect("what is being made is not released");
        buffer.content = content;
        buffer.users -= 1;
    }

    /// The content of a filled buffer.
    pub(crate) fn get(&self, buffer: BufferId) -> Result<Data, Breach> {
        match self.buffers.get(&buffer) {
            None => Err(Breach::BufferUnknown { buffer }),
            Some(Buffer { content: None, .. }) => Err(Breach::BufferNotFilled { buffer }),
            Some(Buffer { content: Some(content), .. }) => Ok(*content),
        }
    }

    /// An action that uses the buffer is given.
    pub(crate) fn begin_use(&mut self, buffer: BufferId) -> Result<Data, Breach> {
        let content = self.get(buffer)?;
        self.buffers.get_mut(&buffer).expect("it exists").users += 1;
        Ok(content)
    }

    /// The action is reported.
    pub(crate) fn end_use(&mut self, buffer: BufferId) {
        self.buffers.get_mut(&buffer).expect("what is used is not released").users -= 1;
    }

    /// The engine needs it no longer.
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

    /// The buffers there are, ascending.
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = BufferId> {
        self.buffers.keys().copied()
    }

    /// The most that there were at a time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The process dies. The numbers handed out stay used.
    pub(crate) fn clear(&mut self) {
        self.buffers.clear();
    }
}
