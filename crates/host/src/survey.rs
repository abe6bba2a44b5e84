//! State of a volume that cannot be opened: the devices at the paths of its folder.
//!
//! Only superblocks are read. The maps, which record whether a device lacks writes, are unreadable
//! here.

use crate::control::{DeviceReport, DeviceWord, StatusReport, Verdict};
use crate::folder::{as_another_one, ran_separately};
use crate::health::{Finding, FindingKind};
use crate::memory::BLOCK;
use crate::opening::open_to_look;
use crate::superblocks::{geometry_of, newest_superblock, newest_superblock_of, nothing_on};
use crate::text::quoted;
use crate::timely::Timely;
use crate::{Folder, FolderError, Margin};
use pantile_device::{Device, path_in};
use pantile_format::volume::Superblock;
use pantile_volume::{Geometry, Slot, histories_are_forgotten};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The device at a path, and what was found on it.
struct Held {
    device: Option<Arc<dyn Device>>,
    superblock: Option<Superblock>,
    problem: Option<String>,
}

impl Folder {
    /// Returns the state of a volume that could not be opened because of `why`.
    pub fn survey(&self, why: &FolderError) -> StatusReport {
        let mut held: BTreeMap<u32, Held> =
            self.config().devices.keys().map(|&slot| (slot, self.held(slot))).collect();
        let found = || held.values().filter(|held| held.superblock.is_some());
        let blocks = found().filter_map(|held| held.superblock.as_ref());
        let newest = blocks.max_by_key(|superblock| (superblock.session, superblock.update));
        let asked: Vec<Timely> = found().filter_map(|held| held.device.as_ref()).map(Timely::of).collect();
        let devices = || asked.iter().map(|device| device as &dyn Device);
        let geometry = newest.and_then(|superblock| geometry_of(superblock, devices()).ok());
        for held in held.values_mut().filter(|held| held.superblock.is_none()) {
            let known = held.device.as_ref().zip(geometry.as_ref());
            held.superblock =
                known.and_then(|(device, geometry)| newest_superblock_of(&Timely::of(device), geometry));
            if held.superblock.is_some() {
                held.problem = None;
            }
        }
        let blocks = held.values().filter_map(|held| held.superblock.as_ref());
        let newest = blocks.max_by_key(|superblock| (superblock.session, superblock.update));
        let named = held.keys().next_back().map_or(0, |slot| slot + 1);
        let slots = geometry.as_ref().map_or(named, |geometry| (geometry.slots() as u32).max(named));
        let judge = Judge {
            newest,
            geometry: geometry.as_ref(),
            held: &held,
            root: self.root(),
            failed: &self.config().failed,
        };
        let devices: Vec<DeviceReport> = (0..slots)
            .map(|slot| {
                let problem = judge.problem(slot);
                DeviceReport {
                    device: slot,
                    path: self.config().path_of(slot).map(|path| self.path(path)),
                    state: if problem.is_none() { DeviceWord::Present } else { DeviceWord::Lost },
                    done_stripes: None,
                    blocks_read: 0,
                    checksum_errors: 0,
                    media_errors: 0,
                    bad_chunks: 0,
                    problem,
                    reads: None,
                    writes: None,
                    slow: None,
                    replacement: None,
                    verification: None,
                }
            })
            .collect();
        let lost = devices.iter().filter(|device| device.state == DeviceWord::Lost);
        let margin = Margin {
            lost: lost.map(|device| device.device).collect(),
            survives: false,
            any_more: 0,
            log_any_more: None,
            next: None,
        };
        let text = format!("The volume cannot be opened: {why}.");
        let mut findings = vec![Finding::new(FindingKind::DoesNotOpen, Verdict::Failed, text)];
        findings.extend(devices.iter().filter_map(|device| {
            let problem = device.problem.as_ref()?;
            let text = format!("Device {} is lost: {problem}.", device.device);
            Some(Finding::of(FindingKind::DeviceLost, Verdict::Degraded, device.device, text))
        }));
        let own = self.root().file_name().map(|name| name.to_string_lossy().into_owned());
        let known = StatusReport {
            name: newest.map_or(own.unwrap_or_default(), |superblock| superblock.name.clone()),
            volume: self.config().volume.to_string(),
            code: newest.map_or("code unknown".into(), |superblock| superblock.spec.clone()),
            placement: newest
                .map_or("placement unknown".into(), |superblock| superblock.placement.to_string()),
            len_bytes: geometry.map_or(0, |geometry| geometry.user_blocks() * BLOCK as u64),
            margin,
            devices,
            spares: self.config().spares.clone(),
            throttle_bytes_per_s: self.config().throttle_bytes_per_s,
            opens: false,
            ..StatusReport::default()
        };
        known.judged(findings)
    }

    fn held(&self, slot: u32) -> Held {
        let place = &self.config().devices[&slot].path;
        match open_to_look(&self.path(place), Instant::now()) {
            Err(error) => Held { device: None, superblock: None, problem: Some(error.to_string()) },
            Ok(device) => {
                let asked = Timely::of(&device);
                let superblock = newest_superblock(&asked, Some(self.config().volume));
                let problem = superblock.is_none().then(|| match newest_superblock(&asked, None) {
                    Some(other) => format!("it belongs to the volume '{}' ({})", other.name, other.volume),
                    None => nothing_on(&asked),
                });
                Held { device: Some(device), superblock, problem }
            }
        }
    }
}

/// The newest superblock and its geometry, with which all devices are compared.
struct Judge<'h> {
    newest: Option<&'h Superblock>,
    geometry: Option<&'h Geometry>,
    held: &'h BTreeMap<u32, Held>,
    root: &'h Path,
    /// By slot, the devices that were declared failed.
    failed: &'h BTreeMap<u32, PathBuf>,
}

impl Judge<'_> {
    /// Returns the device of a slot, by the same rule as an opening.
    fn device(&self, slot: Slot) -> Option<&Held> {
        let claims = self.held.iter().filter_map(|(line, held)| {
            let found = held.superblock.as_ref().filter(|found| found.slot == slot)?;
            Some(((found.session, found.update, Slot(*line) == slot), held))
        });
        // Of equally new ones the first is chosen, as in an opening.
        claims.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, held)| held)
    }

    /// Returns the reason why a slot counts as lost.
    fn problem(&self, slot: u32) -> Option<String> {
        let Some(held) = self.device(Slot(slot)) else {
            let told = match self.held.get(&slot) {
                None => Some(self.failed.get(&slot).map_or_else(
                    || "the folder names no device for it".into(),
                    |path| {
                        let (vol, path) = (quoted(self.root), quoted(path_in(self.root, path)));
                        format!(
                            "it was declared failed; 'pantile replace {vol} {slot} {path}' brings it back"
                        )
                    },
                )),
                Some(held) => held.problem.clone(),
            };
            let elsewhere = || {
                let there = self.held.get(&slot)?;
                let found = there.superblock.as_ref()?.slot;
                let used = self.device(found).filter(|used| !std::ptr::eq(*used, there));
                Some(match (&there.device, used.and_then(|used| used.device.as_ref())) {
                    (Some(there), Some(used)) => as_another_one(there.path(), found.0 as usize, used.path()),
                    _ => format!("what is there says that it is device {}", found.0),
                })
            };
            return told.or_else(elsewhere);
        };
        let (found, newest) = (held.superblock.as_ref()?, self.newest?);
        let have = held.device.as_ref().map_or(0, |device| device.len_bytes());
        let known = self.geometry.filter(|geometry| (slot as usize) < geometry.slots());
        let need = known.map_or(0, |geometry| geometry.device_blocks(Slot(slot)) * BLOCK as u64);
        match () {
            () if found.history != newest.history && !newest.ancestors.contains(&found.history) => {
                Some(ran_separately(found.history, histories_are_forgotten(newest)))
            }
            () if found.session < newest.session => {
                Some("it was not there when the volume ran last, and lacks what was written then".into())
            }
            () if have < need => Some(format!("it has {have} bytes and had {need}: its end is missing")),
            () => None,
        }
    }
}
