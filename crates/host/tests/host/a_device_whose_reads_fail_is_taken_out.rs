//! A device with too many failed reads is given up, if all data can be read without it.

use crate::common::{format, geometry, memory_with_faulty, open, painted, until};
use pantile_device::{Fault, OpKind};
use pantile_format::volume::Reason;
use pantile_volume::{BLOCK_BYTES, DeviceState, Slot};

#[test]
fn a_device_whose_reads_fail_is_taken_out_unless_data_need_it() {
    for others_are_lost in [false, true] {
        let geometry = geometry("raid6:4");
        let (devices, faulty) = memory_with_faulty(&geometry, Slot(1));
        format(&geometry, &devices);
        let host = open(&geometry, &devices).expect("it opens");
        let data = painted(5, 48 * 4 * 16 * 1024);
        host.handle().write(0, &data, true).expect("it writes");
        host.stop().expect("it stops");
        let host = open(&geometry, &devices).expect("it opens");
        assert!(!host.give_up_unreadable(Slot(1)).expect("it serves"), "it has not failed anything");
        let zone = geometry.zones(Slot(1)).data();
        let bytes = zone.first.0 * BLOCK_BYTES..(zone.first.0 + zone.blocks) * BLOCK_BYTES;
        faulty.fail_within(OpKind::Read, bytes, Fault::Errno(5));
        let mut found = vec![0; data.len()];
        host.handle().read(0, &mut found).expect("it reads");
        assert!(found == data);
        until(|| {
            // A block whose read failed is written to another place, where reads fail, too.
            host.handle().read(0, &mut vec![0; data.len()]).expect("it reads");
            host.report().expect("it serves").members[1].fails_reads
        });
        if others_are_lost {
            host.fail(Slot(4)).expect("it goes");
            host.fail(Slot(5)).expect("it goes");
        }
        let is_gone = host.give_up_unreadable(Slot(1)).expect("it serves");
        assert_eq!(is_gone, !others_are_lost);
        let report = host.report().expect("it serves");
        assert_eq!(report.members[1].attached, others_are_lost);
        if is_gone {
            let device = report.status.devices[1];
            assert_eq!((device.state, device.known.reason), (DeviceState::Lost, Reason::READS_FAILED));
            assert!(!report.members[1].fails_reads, "what comes next has failed nothing");
            host.handle().read(0, &mut found).expect("it reads");
            assert!(found == data);
        }
        host.stop().expect("it stops");
    }
}
