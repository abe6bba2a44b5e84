//! A volume that is opened read only returns the same blocks as an opening with a session, wherever
//! the power failed before, and writes nothing.

use crate::real::Shape;
use crate::real::hand::Hand;
use pantile_sim::{Ask, Disk, Engine, Kill, Told};
use pantile_volume::{DeviceBlock, Failure, Slot, UserBlock};

const SHAPE: Shape = Shape {
    placement: None,
    code: "raid6:2",
    element_blocks: 1,
    logical_stripes: 3,
    spare_stripes: 2,
    log_rows: 4,
    journal_blocks: 16,
    blocks_most: 4,
};

fn content(disks: &[Disk]) -> Vec<String> {
    let of = |disk: &Disk| {
        format!("{:?}", (0..disk.blocks()).map(|at| disk.newest(DeviceBlock(at)).ok()).collect::<Vec<_>>())
    };
    disks.iter().map(of).collect()
}

/// Makes a write of some blocks, which may be cut off.
fn written(hand: &Hand, blocks: u64, byte: u8) -> Ask {
    let blocks = blocks.min(hand.real.config.user_blocks);
    Ask::Write { first: UserBlock(0), contents: vec![[byte; 16]; blocks as usize], durable: true }
}

#[test]
fn a_reader_gets_the_blocks_of_an_opening_and_writes_nothing() {
    let mut differed = 0;
    for (code, lost) in [("mirror:2", 0), ("mirror:2", 1), ("raid5:2", 1), ("raid6:2", 2), ("rs:3+3", 2)] {
        // Whole stripes; or a few blocks, which go to the log.
        for blocks in [u64::MAX, 2] {
            for steps in 0.. {
                let mut hand = Hand::new(&Shape { code, ..SHAPE });
                hand.fill(1);
                let ask = written(&hand, blocks, 2);
                let (_, event) = hand.world.ask(&ask);
                hand.tell(event);
                let is_over = !(0..steps).all(|_| hand.step());
                hand.world.kill(Kill::Power);
                (0..lost).for_each(|slot| hand.world.pull_out(Slot(slot), false));
                let before = content(hand.world.disks());
                hand.open_to_read();
                assert_eq!(hand.volume.refused(), None, "{code} after {steps} steps");
                let read = hand.read();
                let refused = written(&hand, 1, 3);
                assert_eq!(hand.ask(&refused), Told::Failed(Failure::ReadOnly));
                assert_eq!(hand.ask(&Ask::Flush), Told::Done);
                assert_eq!(hand.read(), read);
                let status = hand.volume.status().expect("it serves");
                assert!(status.reads_only && !status.failed);
                assert!(
                    content(hand.world.disks()) == before,
                    "{code} after {steps} steps: something is written"
                );
                hand.open_again();
                assert_eq!(hand.read(), read, "{code}, {lost} lost, after {steps} steps");
                differed += usize::from(read != hand.filled_with(1));
                if is_over {
                    break;
                }
            }
        }
    }
    assert!(differed > 20, "{differed}");
}
