//! The families, one file each. To add one: write `families/NAME.rs` with a `pub(super) const FAMILY:
//! Family`, name it in the list below, add its page to `docs/codes` and its vectors; every feature then
//! works for it.

use crate::{Arguments, Code, CodeError};

/// A code family: its name, what it takes, and how a code of it is built.
pub struct Family {
    /// The word before the colon.
    pub name: &'static str,
    /// One line that says what it is for.
    pub summary: &'static str,
    /// The forms of its spec.
    pub forms: &'static [&'static str],
    /// Specs to try.
    pub examples: &'static [&'static str],
    /// Where the construction comes from.
    pub source: &'static str,
    /// Builds the code; must take all arguments and call [`Arguments::finish`].
    pub build: fn(&mut Arguments) -> Result<Code, CodeError>,
}

macro_rules! families {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        const FAMILIES: &[Family] = &[$($module::FAMILY),*];
    };
}

// Simple codes first, then Reed-Solomon and its kin, local codes, array codes, replication.
families! {
    raid0, mirror, raid5, raid6, raidq, cauchy, rs, lch, crs,
    shec, lrc, xorbas, slpg,
    dcode, xcode, rdp, evenodd, hcode, hdp, liberation, blaumroth, liber8tion,
    raidp,
}

/// All families, in the order in which they are listed to users.
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// Refuses `w=16` and `w=32`, options under which Ceph's plugins compute in a larger field; `w=8` says
/// nothing new.
fn refuse_wide_words(arguments: &mut Arguments) -> Result<(), CodeError> {
    match arguments.value("w").as_deref() {
        None | Some("8") => Ok(()),
        Some(w @ ("16" | "32")) => Err(CodeError::NotCarried {
            what: format!("{} over GF(2^{w})", arguments.spec()),
            reason: "one field, GF(2^8), serves every code here and no code within its limits gains by a larger one; \
                     leave w out",
        }),
        Some(other) => Err(arguments.unexpected(format!("w={other}"))),
    }
}
