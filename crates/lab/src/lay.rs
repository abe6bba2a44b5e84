//! The placement that a code is counted with.

use pantile::Code;
use pantile::code::Placement;
use pantile_host::usual_placement;

/// One placement for all codes, or the one that `pantile create` gives each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lay {
    /// The given placement.
    As(Placement),
    /// The placement of a volume that is created without one.
    Usual,
    /// The most even placement: many groups, each with its columns on other disks.
    Spread,
}

impl Lay {
    /// Returns the placement of a code. Cost: a second at most.
    pub fn of(self, code: &Code) -> Placement {
        match self {
            Lay::As(placement) => placement,
            Lay::Spread => Placement::spread(code),
            Lay::Usual => usual_placement(code).placement,
        }
    }
}
