//! A volume that is opened to be read only: what was written is read, nothing is written, and
//! orders that would write are refused.

use crate::common::folders::{done, read, served, status};
use crate::common::painted;
use pantile_host::{Answer, Failure, Folder, HostError, Order, Service};
use std::path::Path;

fn devices(root: &Path) -> Vec<Vec<u8>> {
    (0..6)
        .map(|slot| std::fs::read(root.join(format!("device-0{slot}.pantile"))).expect("a device"))
        .collect()
}

#[test]
fn what_was_flushed_is_read_and_no_byte_of_a_device_or_the_folder_changes() {
    let (_folder, root, service) = served();
    let data = painted(3, 3 << 20);
    service.handle().write(0, &data, true).expect("it writes");
    service.host().kill();
    drop(service);
    for lost in 0..3 {
        if lost > 0 {
            std::fs::remove_file(root.join(format!("device-0{}.pantile", 6 - lost))).expect("a device");
        }
        let before: Vec<Option<Vec<u8>>> =
            (0..6).map(|slot| std::fs::read(root.join(format!("device-0{slot}.pantile"))).ok()).collect();
        let conf = std::fs::read(root.join("volume.conf")).expect("lines");
        let service = Service::start_to_read(Folder::open(&root).expect("a folder"), None).expect("it opens");
        assert!(read(&service, data.len()) == data, "{lost} lost");
        let refused = service.handle().write(0, &[1; 4096], true);
        assert_eq!(refused, Err(HostError::Failed(Failure::ReadOnly)));
        service.handle().flush().expect("nothing was written");
        let answer = service.obey(&Order::Fail { device: 1, lose_data: true });
        assert!(matches!(&answer, Answer::Fault { text, .. } if text.contains("read only")), "{answer:?}");
        let said = status(&service);
        assert!(said.reads_only && said.margin.lost.len() == lost, "{said:?}");
        done(service.obey(&Order::Stop));
        service.stop().expect("it stops");
        let after: Vec<Option<Vec<u8>>> =
            (0..6).map(|slot| std::fs::read(root.join(format!("device-0{slot}.pantile"))).ok()).collect();
        assert!(before == after && conf == std::fs::read(root.join("volume.conf")).expect("lines"));
    }
}

#[test]
fn it_may_be_opened_to_be_written_afterwards() {
    let (_folder, root, service) = served();
    service.handle().write(0, &[7; 8192], true).expect("it writes");
    service.stop().expect("it stops");
    let before = devices(&root);
    let reader = Service::start_to_read(Folder::open(&root).expect("a folder"), None).expect("it opens");
    assert!(Folder::open(&root).is_err(), "one process has a folder that can be written");
    reader.stop().expect("it stops");
    assert!(before == devices(&root));
    let service = Service::start(Folder::open(&root).expect("a folder"), None).expect("it opens");
    assert_eq!(read(&service, 8192), [7; 8192]);
    service.stop().expect("it stops");
}

/// Root can read all devices; whoever is a client is told what she named.
#[test]
fn devices_that_another_user_named_are_served_only_if_they_are_hers() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let (_folder, root, service) = served();
    service.stop().expect("it stops");
    drop(service);
    if root.metadata().expect("a folder").uid() != 0 {
        return;
    }
    let device = |slot: u32| root.join(format!("device-0{slot}.pantile"));
    let give = |path: &Path, user| chown(path, Some(user), None).expect("root gives it");
    let (she, another) = (65534, 65533);
    give(&root.join("volume.conf"), she);
    (0..6).for_each(|slot| give(&device(slot), she));
    let lost = || {
        let service = Service::start_to_read(Folder::open(&root).expect("a folder"), None)?;
        let lost = status(&service).margin.lost;
        service.stop().map(|()| lost)
    };
    assert_eq!(lost().expect("all are hers").len(), 0);
    for (of, link) in [(another, false), (0, false), (another, true)] {
        match link {
            false => give(&device(2), of),
            true => {
                give(&device(2), of);
                std::fs::rename(device(2), root.join("elsewhere")).expect("it is moved");
                std::os::unix::fs::symlink("elsewhere", device(2)).expect("a link");
                std::os::unix::fs::lchown(device(2), Some(she), None).expect("hers");
            }
        }
        assert_eq!(lost().expect("others are hers").len(), 1, "{of}");
    }
    (0..6).filter(|slot| *slot != 2).for_each(|slot| give(&device(slot), another));
    let error = lost().expect_err("none is hers").to_string();
    assert!(error.contains("is not a file of user 65534"), "{error}");
    // What others may have named is nobody's, even if that and all devices are hers.
    (0..6).filter(|slot| *slot != 2).for_each(|slot| give(&device(slot), she));
    assert_eq!(lost().expect("the others are hers").len(), 1);
    let conf = root.join("volume.conf");
    for (path, mode, had) in [(&conf, 0o666, 0o600), (&conf, 0o660, 0o600), (&root, 0o777, 0o755)] {
        let set_mode =
            |mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
        set_mode(mode);
        assert!(lost().expect_err("none").to_string().contains("may have been named by anybody"), "{mode:o}");
        set_mode(had);
    }
    std::fs::set_permissions(&conf, PermissionsExt::from_mode(0o666)).expect("a mode");
    give(&conf, 0);
    assert!(lost().expect_err("none").to_string().contains("may have been named by anybody"));
}
