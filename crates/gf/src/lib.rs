//! Arithmetic in textbook form: GF(2^8), matrices, rank and inverse, and binomial coefficients.
//!
//! The field is F2[x] / (x^8 + x^4 + x^3 + x^2 + 1), polynomial 0x11d, the field of Linux RAID-6
//! and of every code in Pantile. Its generator is a = x = 0x02, of order 255.
//!
//! Extension fields are not here: a code over GF(2^16) or GF(2^24) is a code over GF(2^8) with 2 or
//! 3 rows per column. Only one family has such codes; `plank` in `pantile-code` computes their
//! coefficients in extension fields and returns matrices over GF(2^8).
//!
//! Deliberately not here: fast arithmetic on long buffers (see `pantile-kernel`), and any notion of
//! a code.
#![forbid(unsafe_code)]

mod count;
mod field;
mod matrix;

pub use count::{choose, next_set};
pub use field::{ALPHA, Gf, ORDER, POLYNOMIAL};
pub use matrix::{Echelon, Matrix, eliminate};
