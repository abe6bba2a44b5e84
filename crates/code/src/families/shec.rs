//! Shingled erasure codes: each parity covers only some neighbouring data chunks, and the ranges
//! overlap like shingles, so that a lost chunk is repaired from few others.
//!
//! Two definitions of the ranges are in use, and both are here.
//!
//! - `shec:k,m,l` (or by name, `shec:k=6,m=4,l=3`), the paper's: parity i covers the l data chunks
//!   from ceil(i k / m) on, cyclically.
//! - `shec:k,m,c=C`, Ceph's plugin `shec`: C is the number of chunks that may always be lost.
//!   `single` gives parity i the chunks floor(i k / m) .. floor((i + C) k / m) - 1. The default
//!   technique `multiple` splits the m parities into two such groups, (m1, c1) and (m2, c2), tried
//!   in Ceph's order; the first with the strictly least recovery cost wins. Here the cost is
//!   compared as a fraction with common denominator k + m, in integers, which decides as Ceph does.
//!
//! Coefficients in both: [`reed_sol_van`] of (k, m), set to zero outside the range; nothing is
//! renormalised.
//!
//! Limits: Ceph's for its form (k <= 12, k + m <= 20, C <= m <= k); l <= k, m <= k, k + m <= 256
//! for the paper's.
//!
//! Claims. Ceph's form: C, except for nine layouts that lose some set of C columns, for which it is
//! C - 1 (`WEAKER`). Zeroing entries of a matrix without vanishing minors can make one vanish, and
//! does there: shec:10,7,c=6,single cannot recover columns {1,3,5,11,14,16}, in Ceph either. Both
//! the claims and the list are counted set by set, over all 602 layouts within the limits
//! (`tests/code/claims_are_true_where_small.rs`). The paper's form promises nothing by
//! construction: `shec:5,3,3` has a fatal pair. Its tolerance is counted when it is built. It is at
//! most the number of parities that cover a data chunk, since losing the chunk and all of them is
//! fatal. Sets are tried up to that size, within a bound on the work; a wide code claims the level
//! reached. The tolerance of Ceph's form over larger fields (`w=16`, `w=32`: 2 or 4 rows, the bytes
//! of little-endian words, [`crate::words`]) is counted likewise, up to C.
//!
//! With l = k, or C = m, every parity covers everything and the code is Reed-Solomon, MDS by
//! construction.
//!
//! Source: T. Miyamae, T. Nakao, K. Shiozawa, "Erasure code with shingled local parity groups for
//! efficient recovery from multiple disk failures" (HotDep 2014). The paper shifts by ceil and Ceph
//! by floor: mirror images. The paper's (6,4,3) is `shec:6,4,c=2,single` seen in a mirror, not
//! Ceph's `k=6 m=4 c=3`.

use super::{Family, Width, long_words};
use crate::parts::binary_field::BinaryField;
use crate::parts::reed_sol_van::{reed_sol_van, reed_sol_van_over};
use crate::parts::{one_row, tolerance};
use crate::words::of_coefficients;
use crate::{Arguments, Claim, Code, CodeError};
use pantile_gf::{Gf, Matrix};

pub(super) const FAMILY: Family = Family {
    name: "shec",
    summary: "shingled parities: cheap repair of one or two columns, fewer guaranteed losses than parities",
    forms: &["shec:k,m,l", "shec:k,m,c=C", "shec:k,m,c=C,single", "shec:k,m,c=C,w=W"],
    examples: &["shec:6,4,3", "shec:10,6,5", "shec:6,4,c=3", "shec:6,4,c=2,single"],
    small: &["shec:4,3,3", "shec:5,3,3", "shec:7,4,3", "shec:4,3,c=2,w=16"],
    width: Width::Undecided(choices),
    source: "Miyamae, Nakao, Shiozawa, Erasure code with shingled local parity groups (HotDep 2014); Ceph plugin shec",
    build,
};

/// Lists the specs with one and two parities more than columns that can be lost; Ceph's layouts up
/// to their limits.
fn choices(disks: usize, survive: usize) -> Vec<String> {
    let shape = |m: usize| {
        let k = disks.checked_sub(m).filter(|&k| k >= m && survive > 0)?;
        Some(match is_cephs_size(k, m) {
            true => format!("shec:{k},{m},c={survive}"),
            // So wide that each data column is covered as often.
            false => format!("shec:{k},{m},{}", (k * survive).div_ceil(m)),
        })
    };
    (survive + 1..=survive + 2).filter_map(shape).collect()
}

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = match arguments.count_value("k", 1, 255, "k + m is at most 256")? {
        Some(k) => k,
        None => arguments.count("k, the number of data columns,", 1, 255, "k + m is at most 256")?,
    };
    let m = match arguments.count_value("m", 1, k, "m is at most k")? {
        Some(m) => m,
        None => arguments.count("m, the number of parities,", 1, k, "m is at most k")?,
    };
    let words = long_words(arguments)?;
    let l = match arguments.count_value("l", 1, k, "a parity covers each at most once")? {
        None => arguments.optional_count(),
        named => named,
    };
    match (l, words) {
        (Some(l), None) => paper(arguments, k, m, l),
        (Some(_), Some(_)) => {
            Err(arguments.unsuitable("w=16 and w=32 are Ceph's: write shec:k,m,c=C,w=16".into()))
        }
        (None, words) => ceph(arguments, (k, m), words),
    }
}

fn paper(arguments: &mut Arguments, k: usize, m: usize, l: usize) -> Result<Code, CodeError> {
    arguments.finish()?;
    arguments.in_range("l, the data columns that a parity covers,", l, 1, k, "a parity covers each at most once")?;
    arguments.in_range("k + m", k + m, 2, 256, "GF(2^8) has no more elements")?;
    let ranges: Vec<(usize, usize)> = (0..m).map(|i| ((i * k).div_ceil(m), l)).collect();
    let mut code = one_row::systematic(&shingled(k, &ranges));
    let spec = format!("shec:{k},{m},{l}");
    let meant = format!("the paper's (k, m, l): a parity covers l={l} data columns");
    code.remark(match l <= m && is_cephs_size(k, m) {
        true => format!("{meant}; Ceph's k={k} m={m} c={l} is shec:{k},{m},c={l}"),
        false => meant,
    });
    if l == k {
        return Ok(code.finish(spec, "shec", Claim { tolerance: m, mds: true }));
    }
    let covering = |j: usize| ranges.iter().filter(|&&range| covers(range, k, j)).count();
    let most = (0..k).map(covering).min().unwrap_or(0);
    Ok(code.finish_proven(spec, "shec", |draft| tolerance::proven(draft, 0, most, tolerance::WORK_MAX)))
}

/// The layouts (k, m, C, single) that do not survive every set of C losses.
const WEAKER: [(usize, usize, usize, bool); 9] = [
    (10, 7, 6, true),
    (10, 8, 7, true),
    (10, 9, 8, false),
    (10, 9, 8, true),
    (10, 10, 9, false),
    (10, 10, 9, true),
    (11, 8, 7, true),
    (11, 9, 8, true),
    (12, 8, 7, true),
];

fn ceph(
    arguments: &mut Arguments,
    (k, m): (usize, usize),
    words: Option<BinaryField>,
) -> Result<Code, CodeError> {
    let single = arguments.flag("single");
    let multiple = arguments.flag("multiple");
    let c = arguments.count_value("c", 1, m, "no more can be lost than there are parities")?;
    arguments.finish()?;
    let Some(c) = c else {
        return Err(arguments.missing("l or c=C"));
    };
    if single && multiple {
        return Err(arguments.unsuitable("the techniques single and multiple exclude each other".into()));
    }
    arguments.in_range("k, the number of data columns,", k, 1, 12, "Ceph's limit; shec:k,m,l goes further")?;
    arguments.in_range("k + m", k + m, 2, 20, "Ceph's limit; shec:k,m,l goes further")?;
    let groups = if single { vec![(m, c)] } else { cheapest_groups(k, m, c) };
    let ranges: Vec<(usize, usize)> = groups.iter().flat_map(|&(m, c)| floor_ranges(k, m, c)).collect();
    let spec = format!("shec:{k},{m},c={c}{}", if single { ",single" } else { "" });
    if let Some(field) = words {
        let mut rows = reed_sol_van_over(&field, k, m);
        for (row, &range) in rows.iter_mut().zip(&ranges) {
            row.iter_mut().enumerate().filter(|&(j, _)| !covers(range, k, j)).for_each(|(_, entry)| *entry = 0);
        }
        let tolerance = match c == m {
            true => m,
            false => tolerance::proven_of_words(&field, &rows, c, tolerance::WORK_MAX),
        };
        let spec = format!("{spec},w={}", field.word());
        return Ok(of_coefficients(&field, &rows).finish(spec, "shec", Claim { tolerance, mds: c == m }));
    }
    let tolerance = if WEAKER.contains(&(k, m, c, single)) { c - 1 } else { c };
    let claim = Claim { tolerance, mds: c == m };
    let mut code = one_row::systematic(&shingled(k, &ranges));
    let technique = if single { "single" } else { "multiple" };
    code.remark(format!(
        "Ceph's (k, m, c), technique {technique}: c={c} columns are meant to be lost; the paper's l={c} is shec:{k},{m},{c}"
    ));
    Ok(code.finish(spec, "shec", claim))
}

fn is_cephs_size(k: usize, m: usize) -> bool {
    k <= 12 && k + m <= 20
}

/// Reed-Solomon coefficients inside each parity's (first, width), cyclically; zero outside.
fn shingled(k: usize, ranges: &[(usize, usize)]) -> Matrix {
    let full = reed_sol_van(k, ranges.len());
    Matrix::from_fn(ranges.len(), k, |i, j| {
        if covers(ranges[i], k, j) { full.get(i, j) } else { Gf::ZERO }
    })
}

/// True if a parity's (first, width) covers data column j of k.
fn covers((first, width): (usize, usize), k: usize, j: usize) -> bool {
    (j + k - first % k) % k < width
}

fn floor_ranges(k: usize, m: usize, c: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..m).map(move |i| (i * k / m, (i + c) * k / m - i * k / m))
}

/// Ceph's choice for the technique `multiple`: the groups (parities, losses) with the least
/// recovery cost.
fn cheapest_groups(k: usize, m: usize, c: usize) -> Vec<(usize, usize)> {
    let mut best: Option<(usize, Vec<(usize, usize)>)> = None;
    for c1 in 0..=c / 2 {
        for m1 in 0..=m {
            let groups = [(m1, c1), (m - m1, c - c1)];
            if groups.iter().any(|&(m, c)| m < c || (m == 0) != (c == 0)) {
                continue;
            }
            let groups: Vec<(usize, usize)> = groups.into_iter().filter(|&(m, _)| m > 0).collect();
            let cost = recovery_cost(k, &groups);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, groups));
            }
        }
    }
    best.expect("c1 = 0 always offers the single group").1
}

/// The sum of all widths and, over data chunks, of the smallest width that covers it: Ceph's
/// measure times k + m.
fn recovery_cost(k: usize, groups: &[(usize, usize)]) -> usize {
    let ranges: Vec<(usize, usize)> = groups.iter().flat_map(|&(m, c)| floor_ranges(k, m, c)).collect();
    let smallest = |j: usize| {
        let covering = ranges.iter().filter(|&&range| covers(range, k, j));
        covering.map(|&(_, width)| width).min().expect("a group covers every data chunk")
    };
    ranges.iter().map(|&(_, width)| width).sum::<usize>() + (0..k).map(smallest).sum::<usize>()
}
