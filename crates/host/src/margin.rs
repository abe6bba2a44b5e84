//! How much more may be lost: what an operator wants to know first when a device has died.
//!
//! Counted on the code itself, given what is lost, and by the engine's own rule ([`Bearing`]): what
//! is counted here is served.

use pantile_code::Code;
use pantile_format::volume::Placement;
use pantile_gf::choose;
use pantile_volume::{Bearing, Slot};
use serde::{Deserialize, Serialize};

/// Sets that are tried, at most; what is beyond is not claimed.
const SETS_MAX: u64 = 50_000;

/// Products in GF(2^8) that are spent on them, at most: half a second of one processor.
const PRODUCTS_MAX: f64 = 5e10;

/// Fatal sets that are named.
const NAMED_MAX: usize = 8;

/// What may be lost beyond what is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Margin {
    /// Devices that are not whole now.
    pub lost: Vec<u32>,
    /// Whether what is lost now can be borne.
    pub survives: bool,
    /// Any so many more devices may fail.
    pub any_more: u32,
    /// The first number of devices of which not every set may fail; `None`: not counted, there are
    /// too many sets.
    pub next: Option<NextLoss>,
}

/// All sets of one more device than any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextLoss {
    /// Devices in a set.
    pub devices: u32,
    /// Sets of so many of the devices that are there.
    pub sets: u64,
    /// Those that may fail.
    pub survived: u64,
    /// Some of those that may not.
    pub fatal: Vec<Vec<u32>>,
}

/// Counts what may be lost beyond `lost`.
pub fn margin(code: &Code, placement: Placement, lost: &[Slot]) -> Margin {
    let lost: Vec<u32> = lost.iter().map(|slot| slot.0).collect();
    let bearing = Bearing::new(code, placement);
    let survives = |lost: &[u32]| bearing.bears(&lost.iter().copied().map(Slot).collect::<Vec<Slot>>());
    let there: Vec<u32> = (0..code.columns() as u32).filter(|slot| !lost.contains(slot)).collect();
    let mut margin = Margin { survives: survives(&lost), lost, any_more: 0, next: None };
    if !margin.survives {
        return margin;
    }
    // What is promised of any set needs no trial: it was proved when the volume was made.
    let mut more = code.claim().tolerance.saturating_sub(margin.lost.len()) as u32;
    let (mut tried, mut spent) = (0, 0.0);
    loop {
        margin.any_more = more;
        let devices = more + 1;
        let sets = choose(there.len() as u64, devices.into());
        tried += sets;
        spent += sets as f64 * bearing.products(margin.lost.len() + devices as usize);
        if devices as usize > there.len() || tried > SETS_MAX || spent > PRODUCTS_MAX {
            return margin;
        }
        let mut next = NextLoss { devices, sets, survived: 0, fatal: Vec::new() };
        each_set(&there, devices as usize, &mut |set| {
            let all: Vec<u32> = margin.lost.iter().chain(set).copied().collect();
            match survives(&all) {
                true => next.survived += 1,
                false if next.fatal.len() < NAMED_MAX => next.fatal.push(set.to_vec()),
                false => {}
            }
        });
        if next.survived < next.sets {
            margin.next = Some(next);
            return margin;
        }
        more += 1;
    }
}

/// Calls `each` with every set of so many of `of`, in order.
fn each_set(of: &[u32], count: usize, each: &mut impl FnMut(&[u32])) {
    fn go(of: &[u32], count: usize, set: &mut Vec<u32>, each: &mut impl FnMut(&[u32])) {
        if count == 0 {
            return each(set);
        }
        for i in 0..of.len().saturating_sub(count - 1) {
            set.push(of[i]);
            go(&of[i + 1..], count - 1, set, each);
            set.pop();
        }
    }
    go(of, count, &mut Vec::new(), each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_plan::{ProveOptions, prove};

    #[test]
    fn a_code_with_two_parities_bears_two() {
        let code = Code::parse("raid6:6").expect("a spec");
        let whole = margin(&code, Placement::Rotate, &[]);
        assert_eq!((whole.any_more, whole.survives), (2, true));
        let next = whole.next.expect("counted");
        assert_eq!((next.devices, next.sets, next.survived), (3, 56, 0));
        let one = margin(&code, Placement::Rotate, &[Slot(3)]);
        assert_eq!(one.any_more, 1);
        let next = one.next.expect("counted");
        assert_eq!((next.devices, next.sets, next.survived), (2, 21, 0));
        let gone = margin(&code, Placement::Rotate, &[Slot(3), Slot(4), Slot(5)]);
        assert!(!gone.survives && gone.next.is_none());
    }

    /// Codes with thousands of elements: what cannot be survived is known without an elimination,
    /// and what takes billions of products is not counted.
    #[test]
    fn a_code_of_thousands_of_elements_is_counted_where_that_is_cheap() {
        let clay = Code::parse("clay:10,4,13").expect("a spec");
        let whole = margin(&clay, Placement::Rotate, &[]);
        let next = whole.next.expect("no five are borne");
        assert_eq!((whole.any_more, next.devices, next.sets, next.survived), (4, 5, 2002, 0));
        assert_eq!(Bearing::new(&clay, Placement::Rotate).products(5), 0.0);
        let more = Bearing::new(&Code::parse("xorbas:10,6,5").expect("a spec"), Placement::Rotate);
        assert_eq!(more.products(5), 16.0 * 25.0 * 6.0, "sixteen turns of five by five in six equations");
    }

    /// Codes that bear some sets beyond their promise: without turning, the numbers are those of
    /// the proof.
    #[test]
    fn the_count_is_that_of_the_proof() {
        for spec in ["shec:6,4,3", "lrc:4,2,2", "raidp:4", "mirror:3", "dcode:5"] {
            let Ok(code) = Code::parse(spec) else { continue };
            let certificate = prove(&code, &ProveOptions::default(), &|_, _, _| true);
            let found = margin(&code, Placement::Fixed, &[]);
            assert_eq!(found.any_more as usize, certificate.tolerance(), "{spec}");
            let level = certificate.levels.get(certificate.tolerance());
            if let (Some(level), Some(next)) = (level, found.next) {
                assert_eq!((next.sets, next.survived), (level.sets, level.survived), "{spec}");
            }
        }
    }

    /// Where columns turn, a set is survived only if every turn of it is.
    #[test]
    fn turning_can_only_lower_the_count() {
        let code = Code::parse("shec:6,4,3").expect("a spec");
        let fixed = margin(&code, Placement::Fixed, &[]).next.expect("counted");
        let turned = margin(&code, Placement::Rotate, &[]).next.expect("counted");
        assert!(turned.survived < fixed.survived, "{turned:?} {fixed:?}");
    }
}
