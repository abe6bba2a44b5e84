//! One definition of every byte that Pantile stores.
