//! RAIDP: two copies plus a small add-on per disk, which together tolerate as many lost disks as
//! three copies.
//!
//! Each of the N disks has N - 1 *superchunks*, and every pair of disks shares exactly one, of
//! which both store a copy. Disk i's add-on holds the sum of the superchunks of disk i. So disks
//! are the vertices of a complete graph, superchunks its edges. If two disks are lost, only the
//! superchunk that they share has lost both copies; either add-on recovers it.
//!
//! - plain: the add-on is the XOR. A lost triple of disks leaves a triangle of unknown edges. The
//!   three add-ons give three equations of rank 2, so the loss is always fatal.
//! - `weighted`: in the add-on of a disk, a superchunk has coefficient 1 if the other disk has a
//!   higher number, and 2 if it has a lower number. For disks i < j < k the triangle (ij, ik, jk)
//!   has the rows (1,1,0), (2,0,1), (0,2,2). Its determinant 2 + 4 = 6 is not zero, whatever the
//!   numbers: **all triples survive**, at the same storage and traffic.
//! - `stack=2`: a second add-on per disk, in which a superchunk has the coefficient 2^(number of
//!   the other disk); the first add-on is weighted. All quadruples survive. The coefficients depend
//!   on the numbers of the disks alone, so one check of all quadruples of 64 disks holds for every
//!   N (`tests/code/claims_are_true_where_small.rs`).
//!
//! Layout (circulant): superchunk (t, i), t = 1 .. floor(N / 2), is stored on disk i at row
//! 2(t - 1) and on disk (i + t) mod N at row 2(t - 1) + 1. For even N and t = N / 2 only i < N / 2
//! exist, and both copies are at row N - 2. The copy on disk i is data. User order: t, then i.
//! Equations: mirrors in that order, then first add-ons, then second.
//!
//! The claimed tolerances count all columns, add-ons included: 2, 3 and 4. With one add-on per
//! disk, losing two disks and both of their add-ons, four columns, is fatal. Only raidp:3,weighted
//! is MDS: its redundancy of 6 elements is exactly three disks.
//!
//! Limits: N = 3 .. 64. Source: E. Rosenfeld, A. Zuck, N. Amit, M. Factor, D. Tsafrir, "RAIDP:
//! replication with intra-disk parity" (EuroSys 2020), as described in its slides; the circulant
//! layout gives their figure for N = 5. They describe the plain form; the weights and the second
//! add-on are Pantile's.

use super::{Family, Width};
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError, Hint};
use pantile_gf::Gf;

pub(super) const FAMILY: Family = Family {
    name: "raidp",
    summary: "two copies and a small parity add-on per disk: any 2 columns lost, weighted 3, stack=2 4",
    forms: &["raidp:N", "raidp:N,weighted", "raidp:N,stack=2"],
    examples: &["raidp:5", "raidp:8,weighted", "raidp:8,stack=2"],
    small: &["raidp:3", "raidp:6", "raidp:5,weighted", "raidp:4,stack=2"],
    width: Width::Disks,
    source: "Rosenfeld, Zuck, Amit, Factor, Tsafrir, RAIDP: replication with intra-disk parity (EuroSys 2020)",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let hint = Hint { below: "two disks alone are mirror:2", above: "a disk has N - 1 superchunks, which gets unwieldy" };
    let disks = arguments.count("N, the number of disks,", 3, 64, hint)?;
    let weighted = arguments.flag("weighted");
    let stack = arguments.count_value("stack", 1, 2, "no larger stack is proven to help")?.unwrap_or(1);
    arguments.finish()?;
    let mut rows = vec![disks - 1; disks];
    rows.resize(disks * (1 + stack), 1);
    let mut code = CodeBuilder::ragged(&rows);
    let superchunks = superchunks(disks);
    superchunks.iter().for_each(|s| code.define_xor(s.copy, [s.data]));
    code.user_order(superchunks.iter().map(|s| s.data));
    for level in 0..stack {
        let weight = |disk: usize, partner: usize| match (level, weighted || stack == 2) {
            (1, _) => Gf::alpha_pow(partner as i64),
            (_, true) if partner < disk => Gf(2),
            _ => Gf::ONE,
        };
        for disk in 0..disks {
            let column = disks * (1 + level) + disk;
            code.add_on(column, disk);
            code.define((0, column), superchunks.iter().filter_map(|s| {
                let (cell, partner) = s.on(disk)?;
                Some((cell, weight(disk, partner)))
            }));
        }
    }
    let (option, tolerance) = match (weighted, stack) {
        (_, 2) => (",stack=2", 4),
        (true, _) => (",weighted", 3),
        _ => ("", 2),
    };
    let mds = disks == 3 && tolerance == 3;
    Ok(code.finish(format!("raidp:{disks}{option}"), "raidp", Claim { tolerance, mds }))
}

/// One superchunk: the cells (row, disk) of its data and of its copy.
struct Superchunk {
    data: (usize, usize),
    copy: (usize, usize),
}

impl Superchunk {
    /// Returns the cell of the superchunk on `disk` and the number of the other disk; `None` if
    /// `disk` does not store it.
    fn on(&self, disk: usize) -> Option<((usize, usize), usize)> {
        match disk {
            _ if self.data.1 == disk => Some((self.data, self.copy.1)),
            _ if self.copy.1 == disk => Some((self.copy, self.data.1)),
            _ => None,
        }
    }
}

/// All superchunks in user order.
fn superchunks(disks: usize) -> Vec<Superchunk> {
    let mut all = Vec::new();
    for t in 1..=disks / 2 {
        let halfway = 2 * t == disks;
        for i in 0..if halfway { t } else { disks } {
            let row = 2 * (t - 1);
            let copy_row = if halfway { row } else { row + 1 };
            all.push(Superchunk { data: (row, i), copy: (copy_row, (i + t) % disks) });
        }
    }
    all
}
