//! The tiers of this machine, and the default one.

use std::fmt;
use std::sync::OnceLock;

use crate::dispatch;
use crate::tier::Tier;

/// The environment variable that forces a tier, for measurement and for tests of the slower ones.
const FORCE_VARIABLE: &str = "PANTILE_KERNEL";

impl Tier {
    /// Returns the tier that `PANTILE_KERNEL` forces, otherwise the fastest that this machine has.
    /// It is chosen once per process.
    ///
    /// A forced name that is unknown or unavailable is ignored here; [`Tier::forced`] reports it,
    /// and a program whose users can set the variable should check it once at its start.
    pub fn best() -> Tier {
        static BEST: OnceLock<Tier> = OnceLock::new();
        *BEST.get_or_init(|| match Tier::forced() {
            Ok(Some(tier)) => tier,
            Ok(None) | Err(_) => *Tier::available().last().expect("the portable tier is always there"),
        })
    }

    /// Returns every tier that this machine has, slowest first; never empty.
    pub fn available() -> Vec<Tier> {
        Tier::ALL.into_iter().filter(|tier| tier.is_available()).collect()
    }

    /// True if this machine can run the tier.
    pub fn is_available(self) -> bool {
        dispatch::is_available(self)
    }

    /// Returns the tier that `PANTILE_KERNEL` requests; `None` if the variable is unset or empty.
    ///
    /// Errors: the variable names no tier, or one that this machine does not have.
    pub fn forced() -> Result<Option<Tier>, ForcedTierError> {
        match std::env::var_os(FORCE_VARIABLE) {
            Some(value) if !value.is_empty() => parse_forced(&value.to_string_lossy()).map(Some),
            _ => Ok(None),
        }
    }
}

/// The reason why the tier that `PANTILE_KERNEL` requests cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForcedTierError {
    /// The value is not the name of a tier.
    UnknownName {
        /// The value of the variable.
        name: Box<str>,
    },
    /// The tier exists, but this machine lacks its instructions.
    Unavailable {
        /// The requested tier.
        tier: Tier,
    },
}

impl fmt::Display for ForcedTierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForcedTierError::UnknownName { name } => {
                write!(f, "{FORCE_VARIABLE}={name} names no tier; use one of")
                    .and_then(|()| Tier::ALL.iter().try_for_each(|tier| write!(f, " {tier}")))
            }
            ForcedTierError::Unavailable { tier } => {
                write!(f, "{FORCE_VARIABLE}={tier} is not available on this machine; it has")
                    .and_then(|()| Tier::available().iter().try_for_each(|tier| write!(f, " {tier}")))
            }
        }
    }
}

impl std::error::Error for ForcedTierError {}

fn parse_forced(name: &str) -> Result<Tier, ForcedTierError> {
    let tier = Tier::from_name(name).ok_or_else(|| ForcedTierError::UnknownName { name: name.into() })?;
    if tier.is_available() { Ok(tier) } else { Err(ForcedTierError::Unavailable { tier }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_tier_is_known_and_available_or_reported() {
        assert_eq!(parse_forced("portable"), Ok(Tier::Portable));
        let error = parse_forced("mmx").unwrap_err();
        assert_eq!(
            error.to_string(),
            "PANTILE_KERNEL=mmx names no tier; use one of portable neon avx2 avx2-gfni avx512-gfni"
        );
        for tier in Tier::ALL {
            match parse_forced(tier.name()) {
                Ok(parsed) => assert!(parsed == tier && tier.is_available()),
                Err(error) => {
                    assert!(!tier.is_available());
                    assert_eq!(error, ForcedTierError::Unavailable { tier });
                }
            }
        }
    }

    #[test]
    fn the_best_tier_is_available() {
        assert!(Tier::best().is_available());
        assert_eq!(Tier::available()[0], Tier::Portable);
    }
}
