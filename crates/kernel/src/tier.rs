//! The instruction sets for which a [`crate::Dot`] is compiled.

use std::fmt;

/// An instruction-set tier. The order is the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Instructions of every processor only: it runs on every machine and is the reference for the
    /// other tiers.
    Portable,
    /// aarch64: 16-byte vectors, products by `tbl` of nibbles.
    Neon,
    /// x86-64: 32-byte vectors, products by `vpshufb` of nibbles.
    Avx2,
    /// x86-64: 32-byte vectors, products by `vgf2p8affineqb`.
    Avx2Gfni,
    /// x86-64: 64-byte vectors, products by `vgf2p8affineqb`, sums of three by `vpternlogq`.
    Avx512Gfni,
}

impl Tier {
    pub(crate) const ALL: [Tier; 5] =
        [Tier::Portable, Tier::Neon, Tier::Avx2, Tier::Avx2Gfni, Tier::Avx512Gfni];

    /// The name of the tier, as `PANTILE_KERNEL` accepts it.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Portable => "portable",
            Tier::Neon => "neon",
            Tier::Avx2 => "avx2",
            Tier::Avx2Gfni => "avx2-gfni",
            Tier::Avx512Gfni => "avx512-gfni",
        }
    }

    /// Returns the tier of this name, even if this machine lacks it.
    pub fn from_name(name: &str) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for tier in Tier::ALL {
            assert_eq!(Tier::from_name(tier.name()), Some(tier));
        }
        assert_eq!(Tier::from_name("AVX2"), None);
    }
}
