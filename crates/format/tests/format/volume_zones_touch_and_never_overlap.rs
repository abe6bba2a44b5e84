//! Every block of a device has exactly one purpose, and a volume that is too large for its devices
//! is refused.

use crate::volume_common::*;
use pantile_format::volume::*;
use pantile_format::{FormatError, Part};
use proptest::prelude::*;

/// Returns all runs of the zones, in ascending order.
fn runs(zones: &Zones) -> Vec<BlockRun> {
    let one = |first| BlockRun { first, blocks: 1 };
    let mut runs = vec![one(zones.superblock(0)), one(zones.superblock(1)), zones.definition()];
    let (claim, journal) = (CLAIM_BLOCK.0, zones.journal().first.0);
    let reserved = BlockRun { first: DeviceBlock(claim + 1), blocks: journal - claim - 1 };
    runs.extend([zones.state(0), zones.state(1), one(CLAIM_BLOCK), reserved]);
    runs.extend([zones.journal(), zones.snapshot(0), zones.snapshot(1)]);
    runs.extend((0..zones.shape().log_rows).map(|row| one(zones.log_row(LogRow(row)))));
    runs.extend((0..zones.shape().physical_stripes).map(|stripe| zones.chunk(PhysicalStripe(stripe))));
    runs
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let code = (1..=256u32, 1..=30u32, any::<prop::sample::Index>(), 0..=10u32);
    let zones = (1..=300u64, any::<prop::sample::Index>(), 0..=40u32, 16..=50u32);
    (code, zones).prop_map(|((devices, rows, cells, element), (physical, logical, log_rows, journal))| {
        let mut shape = Shape {
            devices,
            rows,
            data_cells: cells.index((devices * rows) as usize) as u32 + 1,
            element_blocks: 1 << element,
            physical_stripes: physical,
            logical_stripes: logical.index(physical as usize) as u64 + 1,
            log_rows,
            journal_blocks: journal,
            snapshot_blocks: 0,
        };
        shape.snapshot_blocks = shape.snapshot_blocks_needed() as u32;
        shape
    })
}

proptest! {
    #[test]
    fn zones_touch_and_end_before_the_copy(shape in any_shape(), spare in 0..100u64) {
        prop_assert_eq!(shape.check(), Ok(()));
        let need = shape.device_blocks_needed().unwrap();
        let zones = Zones::new(&shape, need + spare).unwrap();
        let mut end = 0;
        for run in runs(&zones) {
            prop_assert_eq!(run.first.0, end);
            end += run.blocks;
        }
        prop_assert_eq!(zones.superblock_copy().0, end + spare);
        let (have, need) = ((need - 1) * 4096, need * 4096);
        let short = FormatError::Truncated { part: Part::DataZone, have, need };
        prop_assert_eq!(Zones::new(&shape, need / 4096 - 1), Err(short));
    }

    #[test]
    fn every_block_has_one_place_and_the_place_has_that_block(shape in any_shape(), at in any::<prop::sample::Index>()) {
        let blocks = shape.device_blocks_needed().unwrap() + 3;
        let zones = Zones::new(&shape, blocks).unwrap();
        let device = [DeviceBlock(at.index(blocks as usize) as u64), DeviceBlock(at.index(200.min(blocks as usize)) as u64)];
        for block in device {
            let back = match zones.place(block).unwrap() {
                Place::Superblock(2) => zones.superblock_copy(),
                Place::Superblock(turn) => zones.superblock(u64::from(turn) + 2),
                Place::Definition(at) => DeviceBlock(zones.definition().first.0 + at),
                Place::State { area, block } => DeviceBlock(zones.state(area).first.0 + u64::from(block)),
                Place::Claim => CLAIM_BLOCK,
                Place::Reserved => block,
                Place::Journal(at) => zones.record(at, 1).0.first,
                Place::Snapshot { area, block } => DeviceBlock(zones.snapshot(area).first.0 + u64::from(block)),
                Place::Log(row) => zones.log_row(row),
                Place::ChunkHeader { stripe, block } => {
                    DeviceBlock(zones.chunk(stripe).first.0 + u64::from(block))
                }
                Place::Element { stripe, row, block } => zones.element(stripe, row, block),
                Place::Unused => block,
            };
            prop_assert_eq!(back, block);
        }
        prop_assert_eq!(zones.place(DeviceBlock(blocks)), None);
        prop_assert_eq!(zones.place(DeviceBlock(blocks - 1)), Some(Place::Superblock(2)));
        prop_assert_eq!(zones.place(DeviceBlock(blocks - 2)), Some(Place::Unused));
    }

    #[test]
    fn records_go_around_the_ring(at in 0..20u32, blocks in 1..=20u32) {
        let zones = Zones::new(&SHAPE, 10_000).unwrap();
        let (first, second) = zones.record(at, blocks);
        let mut covered: Vec<u64> = (first.first.0..).take(first.blocks as usize).collect();
        covered.extend(second.iter().flat_map(|run| (run.first.0..).take(run.blocks as usize)));
        let expected: Vec<u64> = (0..blocks).map(|i| 32 + u64::from((at + i) % 20)).collect();
        prop_assert_eq!(covered, expected);
        prop_assert_eq!(zones.record_after(at, blocks), (at + blocks) % 20);
    }
}

#[test]
fn the_numbers_of_a_small_volume() {
    let zones = Zones::new(&SHAPE, 1000).unwrap();
    let starts = [
        zones.definition(),
        zones.journal(),
        zones.snapshot(0),
        zones.snapshot(1),
        zones.log(),
        zones.data(),
    ];
    assert_eq!(
        starts.map(|run| (run.first.0, run.blocks)),
        [(2, 14), (32, 20), (52, 2), (54, 2), (56, 8), (64, 360)]
    );
    assert_eq!(SHAPE.device_blocks_needed(), Some(425));
    assert_eq!((SHAPE.chunk_blocks(), SHAPE.chunk_span()), (8, 9));
    assert_eq!((SHAPE.stripe_user_blocks(), SHAPE.user_blocks()), (24, 768));
    assert_eq!(zones.chunk(PhysicalStripe(2)), BlockRun { first: DeviceBlock(82), blocks: 9 });
    assert_eq!(zones.element(PhysicalStripe(2), 1, 3), DeviceBlock(90));
}

#[test]
fn a_header_grows_by_a_block_for_512_blocks_of_chunk() {
    for (chunk, header) in [(1, 1), (64, 1), (503, 1), (504, 2), (1015, 2), (1016, 3), (65_536, 129)] {
        assert_eq!(ChunkHeader::blocks(chunk), header, "{chunk}");
    }
}

#[test]
fn devices_beyond_2_to_the_63_bytes_are_refused() {
    let most = Shape {
        devices: 256,
        rows: 64,
        data_cells: 1,
        element_blocks: 1024,
        physical_stripes: STRIPES_MAX,
        logical_stripes: 1,
        ..SHAPE
    };
    let shape = Shape { snapshot_blocks: most.snapshot_blocks_needed() as u32, ..most };
    assert_eq!(shape.check(), Ok(()));
    let need = shape.device_blocks_needed().unwrap();
    assert!(Zones::new(&shape, need).is_ok());
    assert!(Zones::new(&shape, 1 << 51).is_ok());
    assert!(Zones::new(&shape, (1 << 51) + 1).is_err());
    // A user's address space of 2^48 blocks, and of one stripe more.
    let user = Shape { data_cells: 256, element_blocks: 1024, ..most };
    for (logical_stripes, is_good) in [(1 << 30, true), ((1 << 30) + 1, false)] {
        let shape = Shape { logical_stripes, ..user };
        let shape = Shape { snapshot_blocks: shape.snapshot_blocks_needed() as u32, ..shape };
        assert_eq!(shape.check().is_ok(), is_good, "{logical_stripes}");
    }
}

#[test]
#[should_panic(expected = "physical stripe 40 of 40")]
fn there_is_no_chunk_behind_the_last() {
    Zones::new(&SHAPE, 1000).unwrap().chunk(PhysicalStripe(40));
}

#[test]
fn a_journal_that_would_fill_memory_is_refused() {
    let of = |journal_blocks| Shape { journal_blocks, ..SHAPE }.check();
    assert_eq!(of(1 << 16), Ok(()));
    for blocks in [(1 << 16) + 1, u32::MAX] {
        let refused = of(blocks);
        assert!(matches!(refused, Err(FormatError::Invalid { field: "journal blocks", .. })), "{refused:?}");
    }
}

#[test]
fn a_log_of_more_rows_than_any_volume_has_is_refused() {
    let of = |log_rows| {
        let shape = Shape { log_rows, ..SHAPE };
        Shape { snapshot_blocks: shape.snapshot_blocks_needed() as u32, ..shape }.check()
    };
    assert_eq!(of(LOG_ROWS_MAX), Ok(()));
    for rows in [LOG_ROWS_MAX + 1, u32::MAX] {
        let refused = of(rows);
        assert!(matches!(refused, Err(FormatError::Invalid { field: "log rows", .. })), "{refused:?}");
    }
}
