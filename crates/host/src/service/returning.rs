//! Members on servers that became unreachable: they are retried until they answer, and then caught
//! up.
//!
//! An unplugged disk needs its operator, a restarted server does not. Each retry has its own
//! thread, and follows a pause that doubles from [`FIRST`] to [`LAST`], so an unreliable server
//! costs little. The volume takes a member back like any device that returns: only the writes since
//! then are missing. If the volume has failed and enough members have returned, it is opened again.
//!
//! A member gets no request for [`SETTLE`] after its server has answered: a server that was stopped
//! first performs the requests of the abandoned connection, and NBD cannot cancel these.

use super::{Service, State};
use crate::opening::open_soon;
use crate::superblocks::newest_superblock;
use crate::timely::Timely;
use crate::{FolderError, Report};
use pantile_device::{Device, DeviceError, is_server};
use pantile_volume::{DeviceState, Slot};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The first pause before a retry, and the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(60);

/// Time without a loss after which the pauses of a member begin with the first again.
const STEADY: Duration = Duration::from_secs(600);

/// Time for a server to perform the requests of the old connection.
const SETTLE: Duration = Duration::from_secs(2);

/// Beginning of the text of a problem after a failed retry.
pub(super) const TRIED: &str = "tried again: ";

type Opened = Result<Arc<dyn Device>, DeviceError>;

/// Members that are retried, by slot.
#[derive(Default)]
pub(super) struct Returning {
    tries: BTreeMap<u32, Try>,
    /// Members of a failed volume that answer again: they are kept until there are enough.
    came: BTreeMap<u32, Arc<dyn Device>>,
}

struct Try {
    pause: Duration,
    /// Time of the next retry.
    at: Instant,
    /// The result of the retry under way.
    opens: Option<Receiver<Opened>>,
}

impl Returning {
    /// Returns the result of a retry that has ended, and begins a retry if it is due.
    fn look(&mut self, slot: Slot, path: PathBuf, now: Instant) -> Option<Opened> {
        let first = || Try { pause: FIRST, at: now + FIRST, opens: None };
        let one = self.tries.entry(slot.0).or_insert_with(first);
        if let Some(opens) = &one.opens {
            let opened = opens.try_recv();
            if let Err(TryRecvError::Empty) = opened {
                return None;
            }
            one.opens = None;
            one.at = now + one.pause;
            one.pause = (one.pause * 2).min(LAST);
            // If the thread ended without a result, the retry counts as failed.
            return opened.ok();
        }
        if now >= one.at {
            let (told, opens) = channel();
            let open = move || {
                let opened = open_soon(&path, Instant::now());
                if opened.is_ok() {
                    std::thread::sleep(SETTLE);
                }
                let _ = told.send(opened);
            };
            // If no thread can be started, the next turn tries again.
            let began = std::thread::Builder::new().name("returning".into()).spawn(open);
            one.opens = began.ok().map(|_| opens);
        }
        None
    }

    /// Resets the pauses of members that have stayed for long enough.
    fn forget_steady(&mut self, now: Instant, is_here: impl Fn(Slot) -> bool) {
        self.tries.retain(|&slot, one| !is_here(Slot(slot)) || now < one.at + STEADY);
    }
}

/// True if a member was lost because of its connection.
fn went_away(error: Option<&DeviceError>) -> bool {
    matches!(error, None | Some(DeviceError::Gone { .. } | DeviceError::Server { .. }))
}

impl Service {
    /// Takes back members on servers that answer again.
    pub(super) fn look_for_returning(&self, state: &mut State, report: &Report) {
        let now = Instant::now();
        let is_here = |slot: Slot| report.members.get(slot.0 as usize).is_some_and(|member| member.attached);
        state.returning.forget_steady(now, is_here);
        let mut has_come = false;
        if !report.status.failed {
            state.returning.came.clear();
        }
        for device in &report.status.devices {
            let (slot, member) = (device.slot, &report.members[device.slot.0 as usize]);
            let lost = device.state == DeviceState::Lost && !member.attached;
            // A server that was slow answers at once and would be slow again.
            if !lost || member.was_slow || !went_away(member.error.as_ref()) {
                continue;
            }
            let Some(folder) = &state.folder else { return };
            let place = folder.config().devices.get(&slot.0).filter(|place| is_server(&place.path));
            let Some(place) = place.cloned() else { continue };
            // A spare that took the slot in this turn is not in `report` yet.
            if state.devices[slot.0 as usize].is_some() || state.returning.came.contains_key(&slot.0) {
                continue;
            }
            let came = match state.returning.look(slot, place.path.clone(), now) {
                None => continue,
                Some(Err(error)) => Err(error.to_string()),
                Some(Ok(new)) if report.status.failed => {
                    state.returning.came.insert(slot.0, new);
                    Ok(())
                }
                Some(Ok(new)) => self.come_back(state, slot, &place, new).map_err(|error| error.to_string()),
            };
            match came {
                Ok(()) => has_come = true,
                Err(why) => drop(state.problems.insert(slot.0, format!("{TRIED}{why}"))),
            }
        }
        if has_come && report.status.failed {
            // If they do not suffice, the volume stays as it was until the next one returns.
            let _ = self.open_with_those_that_came(state);
        }
    }

    /// Opens a failed volume again, if the members that have returned suffice.
    fn open_with_those_that_came(&self, state: &mut State) -> Result<(), FolderError> {
        let volume = Some(self.geometry.volume);
        // A member that no longer answers is retried.
        let answers = |device: &Arc<dyn Device>| {
            newest_superblock(&Timely::new(device.clone(), SETTLE), volume).is_some()
        };
        state.returning.came.retain(|_, device| answers(device));
        let mut devices = self.attached(state)?;
        for (&slot, device) in &state.returning.came {
            devices[slot as usize] = Some(device.clone());
        }
        self.check_opens(devices)?;
        state.returning.came.clear();
        self.open_again(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats the call until the retry under way has ended.
    fn ended(returning: &mut Returning, now: Instant) -> Option<Opened> {
        let begun = Instant::now();
        loop {
            let found = returning.look(Slot(0), "nbd+unix:///x?socket=/nowhere/at-all".into(), now);
            if found.is_some() || returning.tries[&0].opens.is_none() {
                return found;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "a try has not ended");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn pauses_double_to_a_minute_and_begin_again_after_a_steady_time() {
        let (mut returning, mut now, mut pauses) = (Returning::default(), Instant::now(), Vec::new());
        for _ in 0..9 {
            assert!(ended(&mut returning, now).is_none(), "it is tried before its time");
            let at = returning.tries[&0].at;
            pauses.push((at - now).as_secs());
            now = at;
            assert!(matches!(ended(&mut returning, now), Some(Err(DeviceError::Server { .. }))));
        }
        assert_eq!(pauses, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
        returning.forget_steady(now + STEADY * 2, |_| false);
        assert!(!returning.tries.is_empty(), "it is not here");
        returning.forget_steady(now, |_| true);
        assert!(!returning.tries.is_empty(), "it has not stayed");
        returning.forget_steady(now + STEADY * 2, |_| true);
        assert!(returning.tries.is_empty());
    }
}
