//! Arithmetic you can hold next to a textbook: GF(2^8), its extensions as matrices, rank and inverse.
//!
//! The field is F2[x] / (x^8 + x^4 + x^3 + x^2 + 1), polynomial 0x11d, the field of Linux RAID-6 and of every
//! code in Pantile. Its generator is a = x = 0x02, of order 255.
//!
//! Extension fields appear only as matrices over GF(2^8) ([`Matrix::companion`]): a code over GF(2^16) or
//! GF(2^24) is a code over GF(2^8) with 2 or 3 rows per column, so nothing above this crate needs a second field.
//!
//! What is deliberately not here: speed on long buffers (that is the kernel's), and any notion of a code.
#![forbid(unsafe_code)]

mod field;
mod matrix;

pub use field::{ALPHA, Gf, ORDER, POLYNOMIAL};
pub use matrix::{Echelon, Matrix, eliminate};
