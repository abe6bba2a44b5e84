//! The shape of code: one of two.

use super::braid::Braid;
use super::straight::Straight;

/// The shape of code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    Braid(&'a Braid),
    Straight(&'a Straight),
}
