//! The shape of code: a braid or a straight line.

use super::braid::Braid;
use super::straight::Straight;

/// The shape of code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    Braid(&'a Braid),
    Straight(&'a Straight),
}
