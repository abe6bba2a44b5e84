//! Panics of an order or of the maintenance: each ends only the order or the turn that panicked.
//!
//! A panic that unwinds to here is counted, for the status; the standard library prints its message
//! on standard error. If the panic poisoned the lock of the service's state, the next caller that
//! takes the lock repairs the state from the folder and the volume, as an opening does
//! ([`Service::put_in_order`]).
//!
//! A panic of the volume's engine is not caught here: its memory is lost, and only another opening
//! helps ([`Service::wait_for_end`]).

use super::{Service, State};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of the service that can panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The execution of an order.
    Orders,
    /// The maintenance: lost devices, spares and new members.
    Care,
}

/// Number of panics of each part since the volume was opened.
#[derive(Default)]
pub(super) struct Mishaps {
    orders: AtomicU64,
    care: AtomicU64,
}

impl Mishaps {
    fn of(&self, part: Part) -> &AtomicU64 {
        match part {
            Part::Orders => &self.orders,
            Part::Care => &self.care,
        }
    }

    /// Calls `what`, and counts a panic of it.
    pub(super) fn guard<T>(&self, part: Part, what: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
        catch_unwind(AssertUnwindSafe(what)).inspect_err(|_| {
            self.of(part).fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Returns sentences for the status.
    pub(super) fn said(&self) -> Vec<String> {
        let parts = [(Part::Orders, "An order"), (Part::Care, "The care for lost devices and spares")];
        let say = |(part, what): (Part, &str)| {
            let times = self.of(part).load(Ordering::Relaxed);
            let how_often = if times == 1 { "once".into() } else { format!("{times} times") };
            (times > 0).then(|| {
                format!("{what} ended {how_often} by a fault of pantile itself, and was begun again; serve.log says more. Please report it.")
            })
        };
        parts.into_iter().filter_map(say).collect()
    }
}

impl Service {
    /// Makes the service's state consistent with the folder and the volume, because a panic can
    /// have interrupted a change between two steps.
    pub(super) fn put_in_order(&self, state: &mut State) {
        self.revives.store(false, Ordering::Release);
        if let Some(folder) = &mut state.folder {
            folder.read_again();
        }
        if let Ok(report) = self.host().report() {
            let members = state.devices.iter_mut().zip(&report.members);
            members.filter(|(_, member)| !member.attached).for_each(|(device, _)| *device = None);
        }
        state.open_spares(&self.geometry);
        state.samples.clear();
    }
}

/// For tests: a part that panics when it next holds the lock.
#[derive(Default)]
pub(super) struct Planted(#[cfg(test)] std::sync::Mutex<Option<Part>>);

impl Planted {
    #[cfg(test)]
    pub(super) fn panic_in(&self, part: Part) {
        let mut planted = crate::locks::lock(&self.0);
        if *planted == Some(part) {
            *planted = None;
            drop(planted);
            panic!("planted in {part:?}");
        }
    }

    #[cfg(not(test))]
    pub(super) fn panic_in(&self, _part: Part) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ControlServer, StatusReport, order};
    use crate::{Answer, Folder, NewDevices, NewFolder, Order};
    use pantile_code::Code;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn service(root: &Path) -> Arc<Service> {
        let code = Code::parse("raid6:3").expect("a code");
        let new = NewFolder::new(code, NewDevices::Made { user_bytes: 1 << 20 });
        let (folder, _) = Folder::create(root, &new).expect("a volume");
        let service = Arc::new(Service::start(folder, None).expect("it opens"));
        service.serves(crate::Deaths::default());
        service
    }

    fn status(root: &Path) -> StatusReport {
        match order(root, &Order::Status) {
            Ok(Some(Answer::Status(report))) => *report,
            other => panic!("no status: {other:?}"),
        }
    }

    fn file(path: PathBuf) -> PathBuf {
        std::fs::File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("a file");
        path
    }

    #[test]
    fn an_order_that_panics_under_the_lock_is_a_fault_and_the_next_is_obeyed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("v");
        let service = service(&root);
        let _control = ControlServer::start(&root, service.clone()).expect("a socket");
        let (device, spare) = (file(folder.path().join("new")), file(folder.path().join("spare")));
        let done = |answer| assert!(matches!(answer, Ok(Some(Answer::Done { .. }))), "{answer:?}");
        done(order(&root, &Order::AddSpare { path: spare.clone(), overwrite: false }));
        *crate::locks::lock(&service.planted.0) = Some(Part::Orders);
        let replace = Order::Replace { device: 1, path: device.clone(), overwrite: false };
        match order(&root, &replace) {
            Ok(Some(Answer::Fault { text, .. })) => {
                assert!(text.contains("fault of pantile itself"), "{text}")
            }
            other => panic!("{other:?}"),
        }
        assert!(service.state.is_poisoned());
        let said = status(&root);
        assert!(said.wrong.iter().any(|line| line.contains("An order ended once")), "{:?}", said.wrong);
        assert_eq!(said.spares, [spare], "the spare is still known");
        done(order(&root, &replace));
        assert!(!service.state.is_poisoned());
        done(order(&root, &Order::Stop));
        service.stop().expect("it stops");
    }

    #[test]
    fn losses_are_looked_after_although_the_care_for_them_has_panicked() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("v");
        let service = service(&root);
        let _control = ControlServer::start(&root, service.clone()).expect("a socket");
        let watch = service.clone();
        let watch = std::thread::spawn(move || watch.wait_for_end());
        *crate::locks::lock(&service.planted.0) = Some(Part::Care);
        let begun = Instant::now();
        let until = |is_so: &dyn Fn(&StatusReport) -> bool| {
            while !is_so(&status(&root)) {
                assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", status(&root));
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        until(&|said| {
            said.wrong.iter().any(|line| line.contains("The care for lost devices and spares ended once"))
        });
        let spare = file(folder.path().join("spare"));
        for what in [
            Order::AddSpare { path: spare.clone(), overwrite: false },
            Order::Fail { device: 2, lose_data: false },
        ] {
            assert!(matches!(order(&root, &what), Ok(Some(Answer::Done { .. }))));
        }
        until(&|said| said.devices[2].path.as_ref() == Some(&spare));
        service.end();
        assert!(watch.join().expect("it has ended in order"));
        service.stop().expect("it stops");
    }

    #[test]
    fn an_engine_that_panics_answers_all_and_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let service = service(&folder.path().join("v"));
        let handle = service.handle();
        assert!(service.host().call_to_panic().is_err());
        assert!(matches!(handle.flush(), Err(crate::HostError::Stopped)));
        assert!(!service.wait_for_end(), "it is for another process to open it");
        assert!(matches!(service.obey(&Order::Status), Answer::Fault { .. }));
    }
}
