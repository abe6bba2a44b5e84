//! One law suite for every family and for 200 code files with random equations.
//!
//! For each code the proof says which sets of columns are survivable. Every survivable set is lost
//! and recovered; every fatal set is refused with nothing written. Recovery plans are sound, and
//! their outputs are right for any set of lost cells. Small writes keep parity correct with every
//! strategy. A flipped byte is found.

use crate::common::*;
use pantile::Tier;
use pantile::plan::{ProveOptions, prove};
use pantile::{CellIndex, CellSet, Codec, Costs, PlanError, RecoverError};

const LEN: usize = 131;

/// Checks all sets of `lost` columns. Returns the number of survivable sets, and the fatal sets.
fn lose_every_set(codec: &Codec, lost: usize) -> (u64, Vec<Vec<usize>>) {
    let whole = painted(codec, LEN, 7);
    let mut survived = 0;
    let mut fatal = Vec::new();
    for set in subsets(codec.code().columns(), lost) {
        let mut cells = whole.clone();
        for cell in CellSet::of_columns(codec.code(), &set).iter() {
            cells[cell.usize()].fill(0xa5);
        }
        let before = cells.clone();
        match codec.reconstruct(&mut views(&mut cells), &set) {
            Ok(()) => {
                assert!(cells == whole, "{}: wrong content after losing {set:?}", codec.code());
                survived += 1;
                if survived <= 200 {
                    reads_only_what_its_plan_reads(codec, &whole, &set);
                }
            }
            Err(RecoverError::Plan(PlanError::NotRecoverable(error))) => {
                assert!(cells == before, "{}: something was written though {set:?} is fatal", codec.code());
                assert!(!error.unrecoverable.is_empty());
                fatal.push(set);
            }
            Err(error) => panic!("{}: {error}", codec.code()),
        }
    }
    (survived, fatal)
}

/// Recovers whole columns by `recovery` and by `decoder`, with only the cells that their plans read
/// left intact.
fn reads_only_what_its_plan_reads(codec: &Codec, whole: &[Vec<u8>], set: &[usize]) {
    let code = codec.code();
    let lost = CellSet::of_columns(code, set);
    let wanted: Vec<CellIndex> = lost.iter().collect();
    let recovery = codec.recovery(&lost, &wanted, &Costs::uniform()).unwrap();
    let decoder = codec.decoder(set).unwrap();
    assert!(recovery.plan().cost <= decoder.plan().cost, "{code}: {set:?}: decoding is cheaper");
    for made in [&recovery, &decoder] {
        let plan = made.plan();
        assert!(plan.is_sound(code, &lost), "{code}: {set:?}: {plan:?}");
        let mut cells = whole.to_vec();
        for cell in code.cells().filter(|cell| !plan.reads.contains(cell)) {
            cells[cell.usize()].fill(0x5a);
        }
        for form in ["as made", "prepared"] {
            wanted.iter().for_each(|cell| cells[cell.usize()].fill(0xa5));
            made.run(&mut views(&mut cells)).unwrap();
            for cell in &wanted {
                assert!(
                    cells[cell.usize()] == whole[cell.usize()],
                    "{code}: {set:?}: cell {cell:?} is wrong, {form}"
                );
            }
            made.prepare();
        }
    }
}

#[test]
fn exactly_the_sets_proven_survivable_are_recovered() {
    for code in all_codes(200) {
        let codec = Codec::new(&code);
        let options = ProveOptions {
            counts_all: true,
            sets_most: 5_000,
            lost_most: Some(6),
            ..ProveOptions::default()
        };
        let certificate = prove(&code, &options, &|_, _, _| true);
        let mut smallest_fatal = Vec::new();
        for level in certificate.levels.iter().filter(|l| l.sets <= 5_000) {
            let (survived, fatal) = lose_every_set(&codec, level.lost);
            assert_eq!(survived, level.survived, "{code}, {} columns", level.lost);
            if smallest_fatal.is_empty() {
                smallest_fatal = fatal;
            }
        }
        let witnesses = smallest_fatal.len().min(options.fatal_most);
        if !smallest_fatal.is_empty() {
            assert_eq!(certificate.fatal, smallest_fatal[..witnesses], "{code}");
            assert_eq!(certificate.fatal_count, smallest_fatal.len() as u64, "{code}");
        }
        // For wide codes only the first levels are tried set by set.
        let tried = certificate.levels.iter().take_while(|level| level.sets <= 5_000).count();
        assert!(certificate.tolerance() >= code.claim().tolerance.min(tried), "{code}");
        if code.claim().mds && tried > code.claim().tolerance {
            assert_eq!(certificate.tolerance(), code.claim().tolerance, "{code}");
        }
    }
}

#[test]
fn plans_for_lost_cells_of_any_shape_are_sound_and_right() {
    for code in all_codes(200) {
        let codec = Codec::new(&code);
        let whole = painted(&codec, LEN, 3);
        let mut random = Random(code.fingerprint());
        assert!(codec.encode_plan().is_sound(&code, &CellSet::of_cells(&code, code.parity())), "{code}");
        for _ in 0..12 {
            let count = random.between(1, code.parity().len().max(1) + 1);
            let mut lost = CellSet::empty(&code);
            (0..count).for_each(|_| lost.insert(CellIndex(random.below(code.cell_count()) as u32)));
            let mut wanted: Vec<CellIndex> = code.cells().filter(|_| random.below(2) == 0).collect();
            wanted.extend(lost.iter().filter(|c| !wanted.contains(c)).take(1).collect::<Vec<_>>());
            let mut costs = Costs::uniform();
            (0..code.columns()).for_each(|c| {
                if random.below(4) == 0 {
                    costs.set(c, random.between(0, 9) as u32);
                }
            });
            let Ok(recovery) = codec.recovery(&lost, &wanted, &costs) else { continue };
            let plan = recovery.plan();
            assert!(plan.is_sound(&code, &lost), "{code}: lost {lost:?}, wanted {wanted:?}: {plan:?}");
            assert_eq!(plan.outputs, wanted, "{code}");
            let cost: u64 = plan.reads.iter().map(|&c| costs.of(code.column_of(c))).sum();
            assert_eq!(plan.cost, cost, "{code}");
            // Only cells that the plan reads have their content.
            let mut cells = whole.clone();
            for cell in code.cells().filter(|c| !plan.reads.contains(c)) {
                cells[cell.usize()].fill(0x5a);
            }
            recovery.run(&mut views(&mut cells)).unwrap();
            for cell in &wanted {
                assert!(cells[cell.usize()] == whole[cell.usize()], "{code}: cell {cell:?} is wrong");
            }
        }
    }
}

#[test]
fn an_update_equals_an_encode() {
    for code in all_codes(60) {
        let codec = Codec::new(&code);
        let mut cells = painted(&codec, LEN, 5);
        let mut random = Random(code.fingerprint());
        for _ in 0..6 {
            let position = random.below(code.data().len());
            let new: Vec<u8> = (0..LEN).map(|_| random.next() as u8).collect();
            codec.update(&mut views(&mut cells), position, &new).unwrap();
            let mut again = cells.clone();
            codec.encode(&mut views(&mut again)).unwrap();
            assert!(again == cells, "{code}: update of {position} differs from a full encode");
            assert!(cells[code.data()[position].usize()] == new);
        }
    }
}

#[test]
fn update_plans_keep_parity_true_healthy_and_degraded() {
    use pantile::gf::Gf;
    use pantile::plan::Content;
    for code in all_codes(60) {
        let codec = Codec::new(&code);
        let mut random = Random(code.fingerprint() ^ 1);
        for degraded in [false, true] {
            let old = painted(&codec, 1, 11);
            let written: Vec<CellIndex> =
                code.data().iter().copied().filter(|_| random.below(3) == 0).collect();
            if written.is_empty() {
                continue;
            }
            let mut lost = CellSet::empty(&code);
            if degraded {
                lost = CellSet::of_columns(&code, &[random.below(code.columns())]);
            }
            let Ok(plan) = codec.planner().update(&written, &lost, &Costs::uniform()) else { continue };
            assert!(plan.old.is_sound(&code, &lost), "{code}");
            let mut new = old.clone();
            written.iter().for_each(|c| new[c.usize()][0] = random.next() as u8);
            codec.encode(&mut views(&mut new)).unwrap();
            // The old content of the cells that the plan reads or recovers; new content comes from
            // the user or from a step.
            let mut had = vec![None; code.cell_count()];
            plan.old.reads.iter().for_each(|c| had[c.usize()] = Some(Gf(old[c.usize()][0])));
            for step in &plan.old.steps {
                let sum = step.terms.iter().map(|&(c, f)| f * had[c.usize()].unwrap()).sum();
                had[step.target.usize()] = Some(sum);
            }
            let mut made = vec![None; code.cell_count()];
            written.iter().for_each(|c| made[c.usize()] = Some(Gf(new[c.usize()][0])));
            for (target, terms) in &plan.steps {
                let value = |content: Content| match content {
                    Content::Old(cell) => had[cell.usize()].unwrap(),
                    Content::New(cell) => made[cell.usize()].unwrap(),
                };
                made[target.usize()] = Some(terms.iter().map(|&(content, f)| f * value(content)).sum());
            }
            for cell in &plan.writes {
                assert!(!lost.contains(*cell), "{code}: writes a lost cell");
                assert_eq!(made[cell.usize()], Some(Gf(new[cell.usize()][0])), "{code}: {plan:?}");
            }
            for cell in code.cells().filter(|&c| !lost.contains(c) && new[c.usize()] != old[c.usize()]) {
                assert!(plan.writes.contains(&cell), "{code}: a changed cell is not written");
            }
        }
    }
}

#[test]
fn a_clean_stripe_is_clean_and_one_flipped_byte_is_found() {
    for code in all_codes(60) {
        let codec = Codec::new(&code);
        let whole = painted(&codec, LEN, 9);
        let checker = codec.checker(&CellSet::empty(&code)).unwrap();
        assert_eq!(checker.first_fault(&shared(&whole)).unwrap(), None, "{code}");
        assert!(checker.locate(&shared(&whole)).unwrap().is_empty(), "{code}");
        let covered = |cell: CellIndex| code.equations().iter().any(|e| !e.coefficient(cell).is_zero());
        for cell in code.cells().filter(|&c| covered(c)).take(40) {
            let mut cells = whole.clone();
            cells[cell.usize()][41] ^= 0x80;
            assert_eq!(checker.first_fault(&shared(&cells)).unwrap(), Some(41), "{code}, {cell:?}");
        }
    }
}

/// Otherwise `./test` would test the fastest kernel again under the name of another one.
#[test]
fn a_forced_kernel_is_the_one_that_runs() {
    match Tier::forced() {
        Ok(forced) => {
            assert!(forced.is_none_or(|tier| tier == Tier::best()), "{forced:?}, not {:?}", Tier::best())
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn buffers_that_are_not_a_stripe_are_refused() {
    let codec = Codec::parse("raid6:4").unwrap();
    let mut cells = painted(&codec, 64, 1);
    let before = cells.clone();
    let error = codec.encode(&mut views(&mut cells)[..5]).unwrap_err();
    assert!(error.to_string().contains("6 cells, 5 buffers"), "{error}");
    cells[3].truncate(63);
    let error = codec.encode(&mut views(&mut cells)).unwrap_err();
    assert!(error.to_string().contains("cell 3 has 63 bytes"), "{error}");
    assert!(codec.reconstruct(&mut views(&mut cells), &[0]).is_err());
    assert!(codec.update(&mut views(&mut cells), 0, &[0; 64]).is_err());
    assert!(codec.checker(&CellSet::empty(codec.code())).unwrap().locate(&shared(&cells)).is_err());
    assert!(cells[0] == before[0] && cells[5] == before[5]);
}
