//! Another device of the same content for a slot, while the volume uses the slot.
//!
//! From one moment on everything is asked of the new device. What had been asked of the one before
//! ends there, so that it stays with the pool until it owes nothing.

use super::{Engine, Share};
use crate::HostError;
use pantile_device::{Device, Layered};
use pantile_volume::Slot;
use std::sync::Arc;

impl Engine {
    /// Lets a slot go on with another device, which holds at this moment what its device does.
    ///
    /// `is_read_directly`: whether readers may go to the new device past the engine; else they go
    /// on with the one before, which then must hold everything that the new one does for as long as
    /// the new one is in the slot.
    pub(crate) fn exchange(
        &mut self,
        slot: Slot,
        device: Arc<dyn Device>,
        is_read_directly: bool,
    ) -> Result<(), HostError> {
        self.known(slot)?;
        let Some(before) = self.members[slot.0 as usize].number else {
            return Err(HostError::NoDevice { slot });
        };
        let (path, len_bytes) = (device.path().to_path_buf(), device.len_bytes());
        let identity = Some(device.identity());
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        let device: Arc<dyn Device> = Arc::new(Layered::with(device, Share { _held: held }));
        let number = self.pool.attach(device.clone())?;
        if is_read_directly {
            self.direct.attach(slot, device);
        }
        self.speeds.forget(slot);
        let member = &mut self.members[slot.0 as usize];
        member.leaving.push(before);
        (member.number, member.device) = (Some(number), weak);
        (member.path, member.identity, member.len_bytes) = (Some(path), identity, len_bytes);
        Ok(())
    }

    /// Whether nothing is under way any more on devices that a slot had before.
    pub(crate) fn is_drained(&mut self, slot: Slot) -> Result<bool, HostError> {
        self.known(slot)?;
        self.let_go_of_drained();
        Ok(self.members[slot.0 as usize].leaving.is_empty())
    }

    /// Takes devices from the pool that owe nothing and are not asked any more.
    pub(super) fn let_go_of_drained(&mut self) {
        for member in &mut self.members {
            let pool = &self.pool;
            member.leaving.retain(|&number| {
                let owes = pool.outstanding(number) > 0;
                if !owes {
                    pool.detach(number);
                }
                owes
            });
        }
    }
}
