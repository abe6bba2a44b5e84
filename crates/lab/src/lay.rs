//! Which placement a code is counted with.

use pantile::Code;
use pantile::code::Placement;
use pantile_host::usual_placement;

/// One placement for all codes, or what `pantile create` gives each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lay {
    /// This one.
    As(Placement),
    /// The placement of a volume for which nobody chooses one.
    Usual,
    /// The evenest: of many groups, each with its columns on other disks.
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
