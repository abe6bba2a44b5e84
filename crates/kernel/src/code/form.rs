//! What code is made of: one of two shapes.

use super::braid::Braid;
use super::straight::Straight;

/// What code is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    Braid(&'a Braid),
    Straight(&'a Straight),
}
