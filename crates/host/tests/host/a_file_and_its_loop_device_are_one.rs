//! Two paths to the same disks: files, and their loop devices, which the system regards as other
//! devices.
//!
//! It needs root and losetup; otherwise it prints that nothing was tested.

use crate::common::folders::*;
use crate::common::painted;
use pantile_host::{Folder, FolderError, HostError, Service, Verdict};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Loop devices that are detached when the test ends.
#[derive(Default)]
struct Loops(Vec<PathBuf>);

impl Loops {
    /// Attaches loop devices to files; `None`: the system permits none.
    fn upon(files: &[PathBuf]) -> Option<Loops> {
        let mut loops = Loops::default();
        for file in files {
            let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
            if !made.status.success() {
                return None;
            }
            loops.0.push(String::from_utf8(made.stdout).ok()?.trim().into());
        }
        Some(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

fn open(root: &Path) -> Result<Service, FolderError> {
    Service::start(Folder::open(root)?, None)
}

#[test]
fn the_other_path_is_refused_while_served_and_complete_afterwards() {
    let (folder, root, service) = served();
    let files: Vec<PathBuf> = (0..6).map(|slot| root.join(format!("device-{slot:02}.pantile"))).collect();
    let Some(loops) = Loops::upon(&files) else {
        eprintln!("no loop devices here: nothing was seen");
        return;
    };
    let other = folder.path().join("w");
    let data = painted(3, 500_000);
    service.handle().write(0, &data, true).expect("it writes");
    drop(Folder::assemble(&other, &loops.0).expect("the devices are there"));
    let refused = open(&other).map(drop);
    assert!(matches!(refused, Err(FolderError::Host(HostError::Taken { .. }))), "{refused:?}");
    let looks = Service::look(Folder::open(&other).expect("a folder")).expect("it can be looked at");
    assert_eq!(status(&looks).verdict, Verdict::Warned);
    assert!(status(&looks).wrong[0].contains("by another path"), "{:?}", status(&looks).wrong);
    looks.stop().expect("it ends");
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
    // The claim was given back.
    let service = open(&other).expect("it is not served");
    assert!(read(&service, data.len()) == data);
    let again = painted(4, 500_000);
    service.handle().write(0, &again, true).expect("it writes");
    let refused = open(&root).map(drop);
    assert!(matches!(refused, Err(FolderError::Host(HostError::Taken { .. }))), "{refused:?}");
    service.stop().expect("it stops");
    let service = open(&root).expect("it is not served");
    assert!(read(&service, data.len()) == again);
    service.stop().expect("it stops");
}
