//! The stripe as a standalone SVG picture.

use crate::describe::Labels;
use pantile::Code;

/// The picture.
pub fn stripe(_code: &Code, _labels: &Labels) -> String {
    String::new()
}
