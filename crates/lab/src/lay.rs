//! Which placement a code is counted with.

use pantile::Code;
use pantile::code::Placement;
use pantile_host::{Policy, usual_placement};

/// One placement for all codes, or what `pantile create` gives each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lay {
    /// This one.
    As(Placement),
    /// That of a volume for which nobody chooses placement or policy.
    Usual,
}

impl Lay {
    /// Returns the placement of a code. Cost: a second at most.
    pub fn of(self, code: &Code) -> Placement {
        match self {
            Lay::As(placement) => placement,
            Lay::Usual => usual_placement(code, Policy::Wcl).placement,
        }
    }
}
