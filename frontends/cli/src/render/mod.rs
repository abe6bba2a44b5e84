//! Answers as text.

pub mod stripe;
pub mod table;
