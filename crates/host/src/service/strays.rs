//! Strays: members that the next start would not find, because their file was deleted, renamed or
//! truncated, or another one is at their path. The server still reads and writes them, so only this
//! check detects them before the volume is stopped.
//!
//! Each check has its own thread, because the file system of a path can hang. The maintenance
//! starts checks, takes the results of earlier ones, and waits for none.

use super::State;
use crate::locks::lock;
use crate::text::quoted;
use pantile_device::{Device, Identity, Standing};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Interval of the checks: a stray is reported within this time and the duration of a check.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// The last check of each slot.
type Found = Arc<Mutex<BTreeMap<u32, Look>>>;

struct Look {
    of: Identity,
    /// True if the check has ended.
    is_over: bool,
    standing: Standing,
}

/// The members that are strays.
#[derive(Default)]
pub(super) struct Strays {
    found: Found,
    looked_at: Option<Instant>,
    /// By slot of a stray, a sentence with the command that helps.
    pub(super) problems: BTreeMap<u32, String>,
}

impl State {
    /// Takes the results of checks, and begins new ones if they are due.
    pub(super) fn look_for_strays(&mut self, now: Instant) {
        let State { folder: Some(folder), devices, strays, .. } = self else { return };
        strays.look(folder.root(), devices, now);
    }
}

impl Strays {
    fn look(&mut self, root: &Path, devices: &[Option<Arc<dyn Device>>], now: Instant) {
        let is_time = self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= LOOK_EVERY);
        if is_time {
            self.looked_at = Some(now);
        }
        self.problems.clear();
        for (slot, device) in (0..).zip(devices).filter_map(|(slot, one)| Some((slot, one.as_ref()?))) {
            let known = lock(&self.found).get(&slot).map(|look| (look.of, look.is_over, look.standing));
            let known = known.filter(|(of, ..)| *of == device.identity());
            if let Some((.., standing)) = known.filter(|(.., standing)| *standing != Standing::Kept) {
                self.problems.insert(slot, problem(standing, root, slot));
            }
            if is_time && known.is_none_or(|(_, is_over, _)| is_over) {
                begin(&self.found, slot, device.clone());
            }
        }
    }
}

/// Begins a check of a member.
fn begin(found: &Found, slot: u32, device: Arc<dyn Device>) {
    let of = device.identity();
    let before = lock(found).get(&slot).filter(|look| look.of == of).map(|look| look.standing);
    let standing = before.unwrap_or(Standing::Kept);
    lock(found).insert(slot, Look { of, is_over: false, standing });
    let told = found.clone();
    let look = move || {
        let standing = device.standing();
        // The device is closed before the next check may begin.
        drop(device);
        if let Some(look) = lock(&told).get_mut(&slot).filter(|look| look.of == of) {
            (look.is_over, look.standing) = (true, standing);
        }
    };
    if std::thread::Builder::new().name("look".into()).spawn(look).is_err() {
        // If no thread can be started, the next turn tries again.
        lock(found).remove(&slot);
    }
}

fn problem(standing: Standing, root: &Path, slot: u32) -> String {
    format!(
        "{standing}: the next start would not find what it holds; 'pantile replace {} {slot} NEW' copies it while the volume is served",
        quoted(root)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_device::{FileDevice, Layer, Layered};
    use std::sync::mpsc::{Receiver, channel};

    /// Runs checks until there is a result for slot 0, and returns its problem.
    fn said(strays: &mut Strays, devices: &[Option<Arc<dyn Device>>], now: Instant) -> Option<String> {
        strays.look(Path::new("/v"), devices, now);
        let begun = Instant::now();
        while lock(&strays.found).values().any(|look| !look.is_over) {
            assert!(begun.elapsed() < Duration::from_secs(60), "a look has not ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        strays.look(Path::new("/v"), devices, now);
        strays.problems.get(&0).cloned()
    }

    #[test]
    fn a_member_that_strays_is_named_at_the_next_look_and_one_that_is_back_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, aside] = ["d", "aside"].map(|name| folder.path().join(name));
        let device: Arc<dyn Device> = Arc::new(FileDevice::create(&path, 1 << 20).expect("a device"));
        let (devices, mut strays, now) = ([Some(device)], Strays::default(), Instant::now());
        assert_eq!(said(&mut strays, &devices, now), None);
        std::fs::rename(&path, &aside).expect("moved");
        assert_eq!(said(&mut strays, &devices, now), None, "it is not time to look");
        let problem = said(&mut strays, &devices, now + LOOK_EVERY).expect("it strays");
        assert!(problem.contains("nothing is at its path") && problem.contains("pantile replace /v 0 "));
        std::fs::rename(&aside, &path).expect("moved back");
        assert_eq!(said(&mut strays, &devices, now + 2 * LOOK_EVERY), None);
        // Another device in the slot does not inherit the result of the earlier one.
        std::fs::remove_file(&path).expect("deleted");
        assert!(said(&mut strays, &devices, now + 3 * LOOK_EVERY).is_some());
        let other: Arc<dyn Device> = Arc::new(FileDevice::create(&path, 1 << 20).expect("a device"));
        strays.look(Path::new("/v"), &[Some(other)], now + 3 * LOOK_EVERY);
        assert!(strays.problems.is_empty());
    }

    /// A device whose file system does not answer.
    struct Mute(Mutex<Receiver<()>>);

    impl Layer for Mute {
        fn standing(&self, within: &dyn Device) -> Standing {
            let _ = lock(&self.0).recv();
            within.standing()
        }
    }

    #[test]
    fn a_file_system_that_does_not_answer_holds_up_one_thread_and_no_look() {
        let memory = pantile_device::MemoryDevice::new("m", 1 << 20);
        let (answer, waits) = channel();
        let device: Arc<dyn Device> = Arc::new(Layered::with(memory, Mute(Mutex::new(waits))));
        let (devices, mut strays, now) = ([Some(device.clone())], Strays::default(), Instant::now());
        for round in 0..50 {
            strays.look(Path::new("/v"), &devices, now + LOOK_EVERY * round);
        }
        // Three references: this one, that in the array, and that of the single check that waits.
        assert_eq!(Arc::strong_count(&device), 3);
        assert!(strays.problems.is_empty());
        drop(answer);
    }
}
