//! Clay codes as Ceph's plug-in `clay` writes them. They are MDS, and repair one lost column from
//! 1/q of each of d other columns, q = d - k + 1.
//!
//! A column has q^t elements, one for each *plane* z = (z_0, .., z_{t-1}), with digits in base q,
//! z_0 the most significant. There are q t nodes: k of data, nu = -(k + m) mod q virtual nodes
//! whose elements are all zero, and m of parity. Node y q + x is node x of group y. An element C(x,
//! y; z) with x != z_y is coupled with another element: that of node z_y in the same group, in the
//! plane whose digit z_y is replaced by x. The uncoupled elements of such a pair are
//!
//! ```text
//! U  = C + C*               of the one with the larger x
//! U* = C + 0x8f C*          of the other
//! ```
//!
//! ([`reed_sol_van`] of (2, 2)); an element with x = z_y equals its uncoupled element. In each
//! plane the uncoupled elements are a codeword of [`reed_sol_van`] of (k + nu, m). Other matrices
//! are possible ([`Scalar`]), because the (2, 2) matrix of each is regular and has no zero.
//!
//! **Hidden elements are not needed.** A virtual element is zero, and an uncoupled element is a sum
//! of one or two stored elements. Substituted into the m checks of each plane, they leave m q^t
//! equations over stored elements alone: as many as there are parity elements.
//!
//! **Any m columns can be lost.** Call the score of a plane the number of groups y whose node at
//! z_y is lost. Planes are solved by ascending score. The uncoupled elements of all surviving nodes
//! are known, because the partner of each survives or is lost in a plane of lower score. The checks
//! give the uncoupled elements of the lost nodes. A lost element follows from its own uncoupled
//! element and its partner, or from both uncoupled ones, because the 2 x 2 matrix is regular and
//! has no zero.
//!
//! **Repair of one column** (x, y) reads, of d columns that include all others of group y, the
//! q^(t-1) planes with z_y = x. Apart from these elements, the checks of these planes contain only
//! elements of the lost column and of the m - q columns that are not read; the checks determine all
//! of them.
//!
//! Limits: Ceph's, k >= 2, k <= d <= k + m - 1, k + nu + m <= 254; and at most so many planes that
//! all equations fit the matrix limit of code files.
//!
//! Source: M. Vajha et al., "Clay codes: moulding MDS codes to yield an MSR code" (FAST 2018);
//! Ceph, plug-in clay with scalar_mds=jerasure and isa.

use super::rs::{cauchy1, isa_vandermonde, vandermonde_limit};
use super::{Family, Width};
use crate::custom::MATRIX_SYMBOLS_MAX;
use crate::parts::reed_sol_van::reed_sol_van;
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError, Hint, PartialRepair};
use pantile_gf::{Gf, Matrix};

pub(super) const FAMILY: Family = Family {
    name: "clay",
    summary: "any m columns lost as with Reed-Solomon, and one repaired from a part of each of d others",
    forms: &["clay:k,m,d", "clay:k,m,d,vandermonde", "clay:k,m,d,cauchy1", "clay:k,2,d,raid6"],
    examples: &["clay:4,2,5", "clay:3,3,5", "clay:6,3,8"],
    small: &["clay:2,2,3", "clay:3,2,4", "clay:4,2,4", "clay:3,3,4", "clay:2,1,2", "clay:3,2,4,vandermonde", "clay:3,2,4,cauchy1", "clay:3,2,4,raid6"],
    width: Width::Undecided(choices),
    source: "Vajha et al., Clay codes: moulding MDS codes to yield an MSR code (FAST 2018); Ceph plugin clay",
    build,
};

/// Lists the spec that repairs from all other columns, which is Ceph's default.
fn choices(disks: usize, survive: usize) -> Vec<String> {
    let k = disks.saturating_sub(survive);
    if survive == 0 || k < 2 { Vec::new() } else { vec![format!("clay:{k},{survive},{}", disks - 1)] }
}

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let few = Hint { below: "Ceph's least", above: "Ceph's limit on k + m" };
    let k = arguments.count("k, the number of data columns,", 2, 253, few)?;
    let m = arguments.count("m, the number of parities,", 1, 252, "Ceph's limit on k + m")?;
    let hint = Hint { below: "a repair needs k columns", above: "no more are left than k + m - 1" };
    let d = arguments.count("d, the columns that a repair reads,", k, k + m - 1, hint)?;
    let named: Vec<Scalar> = SCALARS.into_iter().filter(|scalar| arguments.flag(scalar.name())).collect();
    arguments.finish()?;
    if named.len() > 1 {
        return Err(arguments.unsuitable("a code has one matrix: vandermonde, cauchy1 or raid6".into()));
    }
    let scalar = named.first().copied().unwrap_or(Scalar::Jerasure);
    let shape = Shape::new(k, m, d, scalar);
    arguments.in_range("k + m with virtual columns", shape.nodes(), 3, 254, "Ceph's limit")?;
    match scalar {
        Scalar::Vandermonde if shape.nodes() - m > vandermonde_limit(m) => {
            return Err(arguments.unsuitable(format!(
                "ISA-L's Vandermonde matrix with {m} parities holds up to {} columns, and here are {} with virtual \
                 ones; use clay:k,m,d",
                vandermonde_limit(m),
                shape.nodes() - m
            )));
        }
        Scalar::Raid6 if m != 2 => return Err(arguments.unsuitable("raid6 has m=2".into())),
        _ => {}
    }
    match shape.planes_within_bound() {
        Some(_) => Ok(shape.code()),
        None => Err(arguments.unsuitable(format!(
            "a column would have {q}^{t} elements, which are too many equations; a smaller d has fewer",
            q = shape.q,
            t = shape.t
        ))),
    }
}

/// The matrix for each plane and for each pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    /// Ceph's scalar_mds=jerasure, technique reed_sol_van.
    Jerasure,
    /// Ceph's scalar_mds=isa, technique reed_sol_van.
    Vandermonde,
    /// Ceph's scalar_mds=isa, technique cauchy.
    Cauchy1,
    /// Ceph's scalar_mds=jerasure, technique reed_sol_r6_op.
    Raid6,
}

/// The matrices that a spec can name; the remaining one is the default.
const SCALARS: [Scalar; 3] = [Scalar::Vandermonde, Scalar::Cauchy1, Scalar::Raid6];

impl Scalar {
    fn name(self) -> &'static str {
        match self {
            Scalar::Jerasure => "",
            Scalar::Vandermonde => "vandermonde",
            Scalar::Cauchy1 => "cauchy1",
            Scalar::Raid6 => "raid6",
        }
    }

    fn matrix(self, k: usize, m: usize) -> Matrix {
        match self {
            Scalar::Jerasure => reed_sol_van(k, m),
            // For one parity Ceph's isa uses the XOR.
            Scalar::Cauchy1 if m > 1 => Matrix::from_fn(m, k, |r, j| cauchy1(k, r, j)),
            Scalar::Vandermonde | Scalar::Cauchy1 | Scalar::Raid6 => Matrix::from_fn(m, k, isa_vandermonde),
        }
    }
}

/// The grid of nodes: t groups of q.
struct Shape {
    k: usize,
    m: usize,
    d: usize,
    q: usize,
    t: usize,
    scalar: Scalar,
}

impl Shape {
    fn new(k: usize, m: usize, d: usize, scalar: Scalar) -> Shape {
        let q = d - k + 1;
        Shape { k, m, d, q, t: (k + m).div_ceil(q), scalar }
    }

    fn nodes(&self) -> usize {
        self.q * self.t
    }

    /// The column of a node, `None` for a virtual one.
    fn column(&self, node: usize) -> Option<usize> {
        let first_parity = self.nodes() - self.m;
        match node < self.k {
            true => Some(node),
            false => node.checked_sub(first_parity).map(|parity| self.k + parity),
        }
    }

    /// Returns the number of elements of a column; `None` if all equations exceed the matrix limit
    /// of code files.
    ///
    /// A spec is untrusted: q^t and products with it can overflow.
    fn planes_within_bound(&self) -> Option<usize> {
        let planes = self.q.checked_pow(u32::try_from(self.t).ok()?)?;
        let equations = self.m.checked_mul(planes)?;
        let cells = (self.k + self.m).checked_mul(planes)?;
        (equations.checked_mul(cells)? <= MATRIX_SYMBOLS_MAX).then_some(planes)
    }

    /// Returns the number of elements of a column, for a shape within the bound.
    fn planes(&self) -> usize {
        self.q.pow(self.t as u32)
    }

    /// Returns the weight of a group's digit in the number of a plane.
    fn place(&self, group: usize) -> usize {
        self.q.pow((self.t - 1 - group) as u32)
    }

    fn digit(&self, plane: usize, group: usize) -> usize {
        plane / self.place(group) % self.q
    }

    /// Returns an uncoupled element as a sum of stored elements: (plane, node) and coefficient of
    /// each.
    fn uncoupled(&self, plane: usize, node: usize, pair: &Matrix) -> Vec<((usize, usize), Gf)> {
        let (x, group) = (node % self.q, node / self.q);
        let partner = self.digit(plane, group);
        if partner == x {
            return vec![((plane, node), Gf::ONE)];
        }
        let own = usize::from(x < partner);
        let partners_plane = plane + x * self.place(group) - partner * self.place(group);
        vec![
            ((plane, node), pair.get(own, own)),
            ((partners_plane, group * self.q + partner), pair.get(own, 1 - own)),
        ]
    }

    fn code(&self) -> Code {
        let &Shape { k, m, d, .. } = self;
        let planes = self.planes();
        let checks = self.scalar.matrix(self.nodes() - m, m);
        let pair = self.scalar.matrix(2, 2);
        let mut code = CodeBuilder::uniform(k + m, planes);
        for (parity, plane) in (0..m).flat_map(|parity| (0..planes).map(move |plane| (parity, plane))) {
            code.parity_cell((plane, k + parity));
        }
        for (plane, check) in (0..planes).flat_map(|plane| (0..m).map(move |check| (plane, check))) {
            let of_data = (0..self.nodes() - m).map(|node| (node, checks.get(check, node)));
            let own = (self.nodes() - m + check, Gf::ONE);
            code.equation(of_data.chain([own]).flat_map(|(node, coefficient)| {
                let uncoupled = self.uncoupled(plane, node, &pair).into_iter();
                uncoupled.filter_map(move |((plane, node), factor)| {
                    Some(((plane, self.column(node)?), coefficient * factor))
                })
            }));
        }
        code.user_order((0..k).flat_map(|column| (0..planes).map(move |plane| (plane, column))));
        for node in (0..self.nodes()).filter(|_| self.q > 1) {
            let Some(column) = self.column(node) else { continue };
            let (x, group) = (node % self.q, node / self.q);
            let others = (group * self.q..(group + 1) * self.q).filter(|&other| other != node);
            code.partial_repair(column, PartialRepair {
                rows: (0..planes).filter(|&plane| self.digit(plane, group) == x).collect(),
                helpers: d,
                among: others.filter_map(|other| self.column(other)).collect(),
            });
        }
        let option = match self.scalar {
            Scalar::Jerasure => String::new(),
            named => format!(",{}", named.name()),
        };
        code.finish(format!("clay:{k},{m},{d}{option}"), "clay", Claim { tolerance: m, mds: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Specs for which q^t or a product with it once wrapped around 2^64, so that 2^63 elements of
    /// a column seemed few.
    #[test]
    fn more_elements_than_can_be_counted_are_refused() {
        for spec in ["clay:124,2,125", "clay:124,2,125,vandermonde", "clay:124,2,125,raid6", "clay:200,2,201"] {
            assert!(matches!(Code::parse(spec), Err(CodeError::Unsuitable { .. })), "{spec}");
        }
        let planes_most = MATRIX_SYMBOLS_MAX as u128;
        let mut within = 0;
        for (k, m) in (2..=253).flat_map(|k| (1..=252).map(move |m| (k, m))) {
            for shape in (k..k + m).map(|d| Shape::new(k, m, d, Scalar::Jerasure)) {
                // The power is not multiplied further above the bound, so it stays below 2^128.
                let powers = (0..shape.t).try_fold(1, |power: u128, _| {
                    (power <= planes_most).then_some(power * shape.q as u128)
                });
                let symbols = powers.map(|planes| planes * planes * (m * (k + m)) as u128);
                let bounded = powers.filter(|_| symbols.is_some_and(|symbols| symbols <= planes_most));
                assert_eq!(shape.planes_within_bound().map(|planes| planes as u128), bounded, "{k} {m}");
                within += usize::from(bounded.is_some());
            }
        }
        assert!(within > 1000, "{within}");
    }
}
