//! Candidate codes for a number of disks.

use super::target::{Target, Use};
use pantile::Code;
use pantile::code::{ColumnRole, families};
use std::fmt;

/// A candidate code.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name: a spec, or the name that the target uses.
    pub name: String,
    /// The code.
    pub code: Code,
    /// Commands that make it, with placeholders in capitals.
    pub commands: Vec<String>,
    /// True if a pool of Ceph accepts it without the plug-in.
    pub is_built_in: bool,
}

/// A code that was left out, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// Candidates and skipped codes.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Codes to examine; where numbers are equal, the first is recommended.
    pub candidates: Vec<Candidate>,
    /// Codes left out.
    pub skipped: Vec<Skipped>,
}

/// Reason why there are no candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCandidate {
    /// No disk would be left for data.
    TooFew {
        /// Disks.
        disks: usize,
        /// Disks that can be lost at once.
        survive: usize,
    },
    /// The target has no such code.
    OfTarget {
        /// The target.
        target: Target,
        /// Disks.
        disks: usize,
        /// Disks that can be lost at once.
        survive: usize,
    },
}

impl fmt::Display for NoCandidate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NoCandidate::TooFew { disks, survive } => write!(
                out,
                "no code on {disks} {} survives the loss of any {survive}: one at least must be left; give --disks {} or more, or a \
                 smaller --survive",
                if disks == 1 { "disk" } else { "disks" },
                survive + 1
            ),
            NoCandidate::OfTarget { target, disks, survive } => write!(
                out,
                "no code for {} has {disks} disks and tolerates the loss of any {survive}: {}; give other --disks or a smaller --survive",
                target.name(),
                target.limits()
            ),
        }
    }
}

impl std::error::Error for NoCandidate {}

impl Candidates {
    /// Returns the codes for a target on `disks` disks that claim to tolerate the loss of any
    /// `survive` of them.
    ///
    /// Cost: one code of each family is built, or a few; on many disks some take long: about one
    /// second for 255. Errors: there is no such code.
    pub fn of(target: Target, disks: usize, survive: usize) -> Result<Candidates, NoCandidate> {
        if survive >= disks {
            return Err(NoCandidate::TooFew { disks, survive });
        }
        if disks > target.disks_most() {
            return Err(NoCandidate::OfTarget { target, disks, survive });
        }
        let mut found = Candidates { candidates: Vec::new(), skipped: Vec::new() };
        for (name, of_target) in target.own(disks, survive) {
            found.take(name, Some(of_target), target, (disks, survive));
        }
        if target.takes_any_code() {
            let specs = families().iter().flat_map(|family| family.specs_that_may_bear(disks, survive));
            specs.for_each(|spec| found.take(spec, None, target, (disks, survive)));
        }
        match found.candidates.is_empty() {
            true => Err(NoCandidate::OfTarget { target, disks, survive }),
            false => Ok(found),
        }
    }

    /// Returns the codes for each number of lost disks, each code once.
    ///
    /// Errors: there is none for any of the numbers.
    pub fn of_each(
        target: Target,
        disks: usize,
        survive: impl IntoIterator<Item = usize>,
    ) -> Result<Candidates, NoCandidate> {
        let mut all = survive.into_iter().map(|survive| Candidates::of(target, disks, survive));
        let mut first = all.next().unwrap_or(Err(NoCandidate::OfTarget { target, disks, survive: 0 }));
        for other in all.flatten() {
            match &mut first {
                Ok(found) => found.join(other),
                Err(_) => first = Ok(other),
            }
        }
        first
    }

    fn join(&mut self, other: Candidates) {
        for one in other.candidates {
            if self.candidates.iter().all(|known| known.code != one.code) {
                self.candidates.push(one);
            }
        }
        self.skipped.extend(other.skipped);
        self.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        self.skipped.dedup();
    }

    /// Adds a code named by the user: a spec, or the path of a code file.
    ///
    /// Errors: the reason why it is no candidate.
    pub fn add(
        &mut self,
        name: String,
        code: Code,
        target: Target,
        (disks, survive): (usize, usize),
    ) -> Result<(), String> {
        let (devices, tolerance) = (devices(&code), code.claim().tolerance);
        if devices != disks {
            return Err(format!(
                "{name} has {devices} disks, not {disks}; name another code, or give other --disks"
            ));
        }
        if tolerance < survive {
            return Err(format!(
                "{name} tolerates the loss of any {tolerance}, not of any {survive}; name another code, or give a smaller --survive"
            ));
        }
        code.check_stores().map_err(|error| error.to_string())?;
        if let Some(why) = target.refusal(&code) {
            return Err(format!("{name} is no code for {}: {why}", target.name()));
        }
        if self.candidates.iter().all(|known| known.code != code) {
            let commands = target.commands(&name, &code, None);
            self.candidates.push(Candidate { name, code, commands, is_built_in: false });
        }
        Ok(())
    }

    fn take(&mut self, name: String, own: Option<Use>, target: Target, (disks, survive): (usize, usize)) {
        // A family without a code of this size is no candidate and needs no message.
        let Ok(code) = Code::parse(&name) else { return };
        let has_long_name = target == Target::Ceph && code.definition().is_none();
        let name = if has_long_name { code.spec().to_string() } else { name };
        let devices = devices(&code);
        let is_known = self.candidates.iter().any(|candidate| candidate.code == code);
        if is_known || devices != disks || code.claim().tolerance < survive || code.check_stores().is_err() {
            return;
        }
        let refused = match work(&code) {
            work if work > WORK_MOST => Some(format!(
                "planning takes too long: {} elements in a stripe and {} equations",
                code.cell_count(),
                code.equations().len()
            )),
            _ if own.is_some() => None,
            _ => target.refusal(&code),
        };
        match refused {
            Some(why) => self.skipped.push(Skipped { name, why }),
            None => {
                let commands = target.commands(&name, &code, own.clone());
                let is_copies = code.data().len() == code.rows_max();
                let is_built_in = match own {
                    Some(own) => matches!(own, Use::Profile(_)),
                    None => target == Target::Ceph && is_copies,
                };
                self.candidates.push(Candidate { name, code, commands, is_built_in });
            }
        }
    }
}

fn devices(code: &Code) -> usize {
    (0..code.columns()).filter(|&column| code.role(column) == ColumnRole::Device).count()
}

/// The most planning steps: some seconds for each disk.
const WORK_MOST: u64 = 60_000_000;

/// Estimates the steps of a plan for one lost disk. Codes with several elements in a column need an
/// elimination over all equations; the others need one product per cell.
fn work(code: &Code) -> u64 {
    let (cells, equations) = (code.cell_count() as u64, code.equations().len() as u64);
    if code.rows_max() == 1 { cells } else { cells * equations * equations }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(target: Target, disks: usize, survive: usize) -> Vec<String> {
        let found = Candidates::of(target, disks, survive).expect("candidates");
        found.candidates.into_iter().map(|candidate| candidate.name).collect()
    }

    #[test]
    fn candidates_are_what_the_families_offer_and_bear_the_losses() {
        for (disks, survive) in [(2, 1), (4, 1), (8, 2), (9, 3), (12, 4), (20, 2)] {
            let found = Candidates::of(Target::Volume, disks, survive).expect("candidates");
            for Candidate { name, code, .. } in &found.candidates {
                assert_eq!(code.columns(), disks, "{name}");
                assert!(code.claim().tolerance >= survive, "{name}");
            }
        }
        let eight = names(Target::Volume, 8, 2);
        for name in ["raid6:6", "dcode:8", "rs:6+2", "clay:6,2,7", "shec:5,3,c=2", "lrc:4,2,2", "mirror:8"] {
            assert!(eight.iter().any(|one| one == name), "{name} is missing among {eight:?}");
        }
        assert!(
            !eight.iter().any(|name| name.starts_with("raid5") || name.starts_with("raid0")),
            "{eight:?}"
        );
    }

    #[test]
    fn codes_that_plan_too_slowly_are_skipped_with_the_reason() {
        let found = Candidates::of(Target::Volume, 14, 4).expect("candidates");
        let clay = found.skipped.iter().find(|skipped| skipped.name == "clay:10,4,13").expect("skipped");
        assert!(clay.why.contains("3584 elements"), "{}", clay.why);
        let eight = Candidates::of(Target::Volume, 8, 2).expect("candidates");
        let raidp = eight.skipped.iter().find(|skipped| skipped.name == "raidp:8").expect("skipped");
        assert!(raidp.why.contains("add-on"), "{}", raidp.why);
    }

    #[test]
    fn impossible_requests_are_named() {
        for (disks, survive) in [(1, 1), (1, 2), (2, 2), (255, 255)] {
            let error = Candidates::of(Target::Volume, disks, survive).expect_err("impossible");
            assert_eq!(error, NoCandidate::TooFew { disks, survive });
            assert!(error.to_string().contains(&format!("--disks {}", survive + 1)), "{error}");
        }
        let error = Candidates::of(Target::Hdfs, 17, 3).expect_err("too wide");
        assert!(error.to_string().contains("16 blocks"), "{error}");
    }

    #[test]
    fn ceph_and_hdfs_have_their_own_names_first() {
        let of_ceph = Candidates::of(Target::Ceph, 9, 3).expect("candidates");
        let first = &of_ceph.candidates[0];
        assert_eq!(first.name, "rs:6+3,vandermonde");
        assert!(first.commands[0].contains("plugin=isa technique=reed_sol_van k=6 m=3"), "{first:?}");
        let with_groups = Candidates::of(Target::Ceph, 14, 3).expect("candidates");
        let lrc = with_groups.candidates.iter().find(|one| one.name.contains("plugin=lrc")).expect("lrc");
        assert!(lrc.commands[0].contains("plugin=lrc"), "{lrc:?}");
        let shec = with_groups.candidates.iter().find(|one| one.name.starts_with("shec")).expect("shec");
        assert!(shec.commands.iter().any(|line| line.contains("plugin=pantile code=shec")), "{shec:?}");
        let dcode = Candidates::of(Target::Ceph, 8, 2).expect("candidates");
        let why = &dcode.skipped.iter().find(|one| one.name == "dcode:8").expect("skipped").why;
        assert!(why.contains("parity"), "{why}");
        let of_hdfs = Candidates::of(Target::Hdfs, 9, 3).expect("candidates");
        assert_eq!(of_hdfs.candidates[0].name, "RS-6-3-1024k");
        assert!(of_hdfs.candidates[0].commands[0].contains("-enablePolicy -policy RS-6-3-1024k"));
        let odd = Candidates::of(Target::Hdfs, 12, 4).expect("candidates");
        assert!(odd.candidates[0].commands.iter().any(|line| line.contains("<k>8</k><m>4</m>")), "{odd:?}");
        assert!(odd.candidates.iter().any(|one| one.name == "raidq:8+4,powers"), "{odd:?}");
    }

    #[test]
    fn every_width_up_to_255_has_candidates_or_a_sentence() {
        for disks in [1, 2, 3, 5, 16, 33, 64, 128, 254, 255] {
            for survive in [1, 2, 4, 9, 100, 254] {
                for target in [Target::Volume, Target::Ceph, Target::Hdfs] {
                    match Candidates::of(target, disks, survive) {
                        Ok(found) => assert!(!found.candidates.is_empty()),
                        Err(error) => assert!(error.to_string().contains("--disks"), "{error}"),
                    }
                }
            }
        }
    }
}
