//! A volume that is opened read-only: its data can be read, nothing is written, and orders that
//! would write are refused.

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
fn reading_changes_no_byte_of_a_device_or_the_folder() {
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
