//! Checks of a device before an order adds it to the volume.

use super::State;
use crate::memory::BLOCK;
use crate::opening::identity_soon;
use crate::{FolderError, Report};
use pantile_device::{Device, is_server};
use pantile_volume::{DeviceState, Geometry, Slot};
use std::path::Path;
use std::sync::Arc;

/// Refuses a device that is too short for a slot.
pub(super) fn check_len(geometry: &Geometry, slot: Slot, device: &dyn Device) -> Result<(), FolderError> {
    let (have, need) = (device.len_bytes(), geometry.device_blocks(slot) * BLOCK as u64);
    let path = || device.path().to_path_buf();
    match have < need {
        true => Err(FolderError::TooShortFor { path: path(), slot: Some(slot), have, need }),
        false => Ok(()),
    }
}

/// Refuses a spare that is too short for any of the slots: it must fit each of them.
pub(super) fn check_every_len(geometry: &Geometry, device: &dyn Device) -> Result<(), FolderError> {
    let needs = (0..geometry.slots() as u32).map(|slot| geometry.device_blocks(Slot(slot)) * BLOCK as u64);
    let (have, need) = (device.len_bytes(), needs.max().unwrap_or(0));
    let path = || device.path().to_path_buf();
    match have < need {
        true => Err(FolderError::TooShortFor { path: path(), slot: None, have, need }),
        false => Ok(()),
    }
}

/// True if no device is lost or being rebuilt.
pub(super) fn is_rebuilt(report: &Report) -> bool {
    report.status.devices.iter().all(|device| device.state == DeviceState::Present)
}

/// True if the device of a slot takes part: it is attached and not lost.
pub(super) fn takes_part(report: &Report, slot: Slot) -> bool {
    let mut devices = report.status.devices.iter();
    let has_one = report.members.get(slot.0 as usize).is_some_and(|member| member.attached);
    has_one && devices.any(|device| device.slot == slot && device.state != DeviceState::Lost)
}

/// Refuses a device that already belongs to the volume. The system's error would only say that it
/// is in use.
pub(super) fn check_strange(state: &State, report: &Report, path: &Path) -> Result<(), FolderError> {
    // The identity of an open device is known even if its path does not answer.
    let Some(identity) = identity_soon(path) else { return Ok(()) };
    let is_it = |device: &Arc<dyn Device>| device.identity() == identity;
    let mut members = (0..).map(Slot).zip(state.devices.iter().zip(&report.members));
    let has_it = |device: &Option<Arc<dyn Device>>| device.as_ref().is_some_and(is_it);
    let member = members.find(|(_, (device, member))| member.attached && has_it(device));
    let mut copies = state.replacements.iter();
    if let Some((&slot, _)) = copies.find(|(_, one)| one.new_identity() == identity) {
        return Err(FolderError::BecomesDevice { path: path.to_path_buf(), slot: Slot(slot) });
    }
    let mut spares = state.spares.iter().map(|(_, spare)| spare);
    match (member, spares.any(is_it)) {
        (None, false) => Ok(()),
        (member, _) => {
            let slot = member.map(|(slot, _)| slot);
            Err(FolderError::OwnDevice { path: path.to_path_buf(), slot })
        }
    }
}

/// Refuses a relative path: the process that sends the order may have another working directory.
pub(super) fn check_absolute(path: &Path) -> Result<(), FolderError> {
    match path.is_absolute() || is_server(path) {
        true => Ok(()),
        false => Err(FolderError::RelativePath { path: path.to_path_buf() }),
    }
}
