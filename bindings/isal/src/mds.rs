//! The trap of `gf_gen_rs_matrix`: from some sizes on its code does not survive the loss of any
//! m - k blocks.
//!
//! Row r of its parity is the powers of 2^r. A singular square part of these rows is a set of
//! losses that cannot be recovered, in this code and in every larger one: so the smallest of them
//! decide, and are listed here. A test proves that no smaller part is singular.

/// Parity rows and data blocks of a singular part.
struct Singular {
    rows: &'static [usize],
    blocks: &'static [usize],
}

/// The smallest singular parts: a code without one of them is MDS. The last two exist because the
/// powers repeat.
const SINGULAR: [Singular; 6] = [
    Singular { rows: &[0, 1, 3], blocks: &[0, 10, 21] },
    Singular { rows: &[0, 3, 4], blocks: &[0, 2, 5] },
    Singular { rows: &[0, 3, 5], blocks: &[0, 1, 4] },
    Singular { rows: &[0, 10, 21], blocks: &[0, 1, 3] },
    Singular { rows: &[0, 1], blocks: &[0, 255] },
    Singular { rows: &[0, 255], blocks: &[0, 1] },
];

/// Returns a fatal set of at most `parity` lost blocks of the code of `k` data and `parity` parity
/// blocks, counted from 0 with data before parity; `None` if there is no such set.
pub fn fatal_losses(k: usize, parity: usize) -> Option<Vec<usize>> {
    let within = |part: &&Singular| {
        part.blocks.iter().all(|&block| block < k) && part.rows.iter().all(|&row| row < parity)
    };
    let part = SINGULAR.iter().find(within)?;
    let lost_parity = (0..parity).filter(|row| !part.rows.contains(row)).map(|row| k + row);
    Some(part.blocks.iter().copied().chain(lost_parity).collect())
}

/// Reports, once per process and only if asked for, that a code is not MDS.
pub fn warn(k: usize, parity: usize) {
    static SAID: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    if !crate::refuse::is_asked() {
        return;
    }
    let Some(losses) = fatal_losses(k, parity) else { return };
    if SAID.swap(true, std::sync::atomic::Ordering::Relaxed) {
        return;
    }
    crate::refuse::say(format_args!(
        "gf_gen_rs_matrix(m = {}, k = {k}) does not survive the loss of any {parity} blocks: {} cannot be \
         recovered; use gf_gen_cauchy1_matrix for new data",
        k + parity,
        Blocks(&losses),
    ));
}

/// Block numbers, of which at most eight are printed.
struct Blocks<'a>(&'a [usize]);

impl std::fmt::Display for Blocks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 8;
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(usize::to_string).collect();
        write!(f, "blocks {}", shown.join(" "))?;
        match self.0.len() {
            0..=SHOWN => Ok(()),
            _ => write!(f, " .. {} ({} in all)", self.0[self.0.len() - 1], self.0.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_gf::{Gf, Matrix};

    /// The block's row of the generator.
    fn row(block: usize, k: usize) -> Vec<Gf> {
        let entry = |column| match block.checked_sub(k) {
            Some(parity) => Gf::alpha_pow((parity * column) as i64),
            None => Gf(u8::from(block == column)),
        };
        (0..k).map(entry).collect()
    }

    fn survives(lost: &[usize], k: usize, parity: usize) -> bool {
        let kept: Vec<_> = (0..k + parity).filter(|b| !lost.contains(b)).map(|b| row(b, k)).collect();
        Matrix::from_fn(kept.len(), k, |r, c| kept[r][c]).rank() == k
    }

    fn subsets(of: usize, size: usize, at: usize, chosen: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
        if chosen.len() == size {
            return visit(chosen);
        }
        for next in at..of {
            chosen.push(next);
            subsets(of, size, next + 1, chosen, visit);
            chosen.pop();
        }
    }

    #[test]
    fn losses_called_fatal_are_fatal() {
        for (k, parity) in [(22, 4), (6, 5), (5, 6), (5, 9), (4, 22), (100, 30), (300, 2), (2, 256)] {
            let lost = fatal_losses(k, parity).expect("not MDS");
            assert!(lost.len() <= parity && !survives(&lost, k, parity), "{k} {parity} {lost:?}");
        }
    }

    #[test]
    fn matrices_without_fatal_losses_survive_every_loss() {
        for (k, parity) in [(21, 4), (5, 5), (4, 21), (3, 24), (30, 3), (30, 2), (40, 1)] {
            assert_eq!(fatal_losses(k, parity), None);
            subsets(k + parity, parity, 0, &mut Vec::new(), &mut |lost| {
                assert!(survives(lost, k, parity), "{k} {parity} {lost:?}");
            });
        }
        for (k, parity) in [(255, 3), (3, 252), (1, 1000), (1000, 1), (0, 0)] {
            assert_eq!(fatal_losses(k, parity), None);
        }
    }
}
