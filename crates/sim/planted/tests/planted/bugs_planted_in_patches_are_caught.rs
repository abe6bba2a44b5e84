//! Bugs in patches of single blocks.

use crate::real::{PATCHED_SHAPES, Real, hush, patched_worlds};
use crate::{is_caught, meant};
use pantile_sim::Fault;
use pantile_volume::Bug;

/// Worlds in which devices go and come back, and little else happens.
fn restless() -> Vec<Real> {
    let shapes = PATCHED_SHAPES.iter().filter(|shape| shape.element_blocks < 32);
    let world = |shape| {
        let mut real = Real::new(shape, &[Fault::Gone, Fault::Returns]);
        (real.config.idles, real.config.kills_most, real.config.requests) = (false, 1, 1500);
        real
    };
    shapes.map(world).collect()
}

#[test]
fn bugs_in_patches_are_caught_and_without_them_the_same_seeds_pass() {
    hush();
    for bug in meant(&Bug::OF_PATCHES) {
        let worlds = if bug == Bug::TrustsUnpatchedDevice { restless() } else { patched_worlds() };
        assert!(is_caught(bug, worlds, 0..4000), "{bug:?} is not caught");
    }
}
