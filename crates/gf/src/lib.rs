//! Arithmetic you can hold next to a textbook: GF(2^8), matrices, rank, inverse.
