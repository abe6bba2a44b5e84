//! Exchange of a slot's device for another with the same content, while the volume is using the
//! slot.
//!
//! All later requests go to the new device. Earlier ones end on the old device, which stays
//! attached to the pool until it has answered them.

use super::{Engine, Share};
use crate::HostError;
use pantile_device::{Device, Layered};
use pantile_volume::Slot;
use std::sync::Arc;

impl Engine {
    /// Exchanges the device of a slot for another one, which has the same content at this moment.
    ///
    /// `is_read_directly`: true if direct reads may go to the new device. Otherwise they still go
    /// to the old one, which must then get all writes that the new one gets while it is in the
    /// slot.
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

    /// True if earlier devices of a slot have no pending requests.
    pub(crate) fn is_drained(&mut self, slot: Slot) -> Result<bool, HostError> {
        self.known(slot)?;
        self.let_go_of_drained();
        Ok(self.members[slot.0 as usize].leaving.is_empty())
    }

    /// Detaches earlier devices that have answered all requests.
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
