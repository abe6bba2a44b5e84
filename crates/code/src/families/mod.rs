//! The families, one file each. To add one: write `families/NAME.rs` with a `pub(super) const
//! FAMILY: Family`, name it in the list below, add its page to `docs/codes` and its vectors:
//! nothing else names families, and every feature works for it. `docs/codes/README.md` has the
//! steps; tests say which one is missing.

use crate::parts::binary_field::BinaryField;
use crate::{Arguments, Code, CodeError};

/// A code family: its name, its arguments, and the function that builds a code.
pub struct Family {
    /// The word before the colon.
    pub name: &'static str,
    /// Purpose in one line.
    pub summary: &'static str,
    /// The forms of its spec.
    pub forms: &'static [&'static str],
    /// Specs to try, the first of them first. Every law suite runs on them, and the judge has
    /// vectors for each.
    pub examples: &'static [&'static str],
    /// More specs, of every form and of codes so small that all sets of their columns can be lost:
    /// for law suites.
    pub small: &'static [&'static str],
    /// Meaning of a number of disks in this family.
    pub width: Width,
    /// Source of the construction.
    pub source: &'static str,
    /// Builds the code; must take all arguments and call [`Arguments::finish`].
    pub build: fn(&mut Arguments) -> Result<Code, CodeError>,
}

/// Code of a family for a number of disks alone.
#[derive(Clone, Copy, Debug)]
pub enum Width {
    /// `family:n` has n disks.
    Disks,
    /// `family:k` has k disks of data and so many of parity.
    DataAnd(usize),
    /// `family:k+m`, where m has this value by default.
    DataPlus(usize),
    /// Groups, locality or overlap are a choice that the number of disks does not make. The specs
    /// that come into question on so many disks, any so many of which can be lost: fewest parities
    /// first, some of them perhaps of no code, or of one that bears less.
    Undecided(fn(usize, usize) -> Vec<String>),
}

/// Reason why a number of disks names no code of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WidthError {
    /// The number of disks decides too little.
    Undecided {
        /// The family.
        family: &'static str,
        /// Disks.
        disks: usize,
        /// Pattern of its specs.
        form: &'static str,
    },
    /// Fewer than one disk of data.
    TooFew {
        /// The family.
        family: &'static str,
        /// Disks given.
        have: usize,
        /// The fewest.
        need: usize,
    },
}

impl std::fmt::Display for WidthError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WidthError::Undecided { family, disks, form } => write!(
                f,
                "{disks} disks do not decide which {family} is meant; write it with its arguments, as {form}"
            ),
            WidthError::TooFew { family, have, need } => {
                write!(f, "{family} needs {need} disks or more, not {have}")
            }
        }
    }
}

impl std::error::Error for WidthError {}

impl Family {
    /// The spec of the code of this family on so many disks. Whether it exists is asked by parsing
    /// it.
    ///
    /// Errors: the number does not decide which code is meant, or leaves no disk for data.
    pub fn spec_on(&self, disks: usize) -> Result<String, WidthError> {
        let family = self.name;
        let without = |parities: usize| match disks.checked_sub(parities) {
            Some(data) if data > 0 => Ok(data),
            _ => Err(WidthError::TooFew { family, have: disks, need: parities + 1 }),
        };
        match self.width {
            Width::Disks => Ok(format!("{family}:{disks}")),
            Width::DataAnd(parities) => Ok(format!("{family}:{}", without(parities)?)),
            Width::DataPlus(parities) => Ok(format!("{family}:{}+{parities}", without(parities)?)),
            Width::Undecided(_) => Err(WidthError::Undecided { family, disks, form: self.forms[0] }),
        }
    }
}

impl Family {
    /// The specs of this family that come into question on so many disks where any `survive` of
    /// them can be lost. Parsing the spec shows if the code exists, and its claim.
    ///
    /// Shape: one spec where the number of disks decides, otherwise a handful.
    pub fn specs_that_may_bear(&self, disks: usize, survive: usize) -> Vec<String> {
        /// Some families begin with more parities than are asked for.
        const PARITIES_BEYOND: usize = 2;
        let family = self.name;
        match self.width {
            Width::Disks | Width::DataAnd(_) => self.spec_on(disks).into_iter().collect(),
            Width::DataPlus(_) => (survive.max(1)..=survive.saturating_add(PARITIES_BEYOND))
                .filter(|&parities| parities < disks)
                .map(|parities| format!("{family}:{}+{parities}", disks - parities))
                .find(|spec| Code::parse(spec).is_ok())
                .into_iter()
                .collect(),
            Width::Undecided(choices) => choices(disks, survive),
        }
    }
}

/// Ways to cut `disks` into groups of equal size, each with a parity of its own, beside `others`
/// columns: how many groups, and how many data columns there are.
fn equal_groups(disks: usize, others: usize) -> impl Iterator<Item = (usize, usize)> {
    /// With more groups the space of the parities outweighs the saved reads of a repair.
    const GROUPS_MOST: usize = 6;
    (2..=GROUPS_MOST).filter_map(move |groups| {
        let data = disks.checked_sub(groups + others)?;
        (data >= 2 * groups && data.is_multiple_of(groups)).then_some((groups, data))
    })
}

macro_rules! families {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        const FAMILIES: &[Family] = &[$($module::FAMILY),*];
    };
}

// Simple codes first, then Reed-Solomon and its kin, local codes and Clay, array codes,
// replication.
families! {
    raid0, mirror, raid5, raid6, raidq, cauchy, rs, lch, crs,
    shec, lrc, xorbas, slpg, clay,
    dcode, xcode, rdp, evenodd, hcode, hdp, hvcode, pcode, liberation, blaumroth, liber8tion,
    raidp,
}

/// All families, in the order in which they are listed to users.
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// Takes `w=16` or `w=32`, the options under which Jerasure and Ceph's plugins compute in a larger
/// field; `w=8` says nothing new.
///
/// Such a code has a row for each byte of its words ([`crate::words`]).
fn long_words(arguments: &mut Arguments) -> Result<Option<BinaryField>, CodeError> {
    match arguments.value("w").as_deref() {
        None | Some("8") => Ok(None),
        Some("16") => Ok(Some(BinaryField::new(16))),
        Some("32") => Ok(Some(BinaryField::new(32))),
        Some(other) => Err(arguments.unexpected(format!("w={other}"))),
    }
}
