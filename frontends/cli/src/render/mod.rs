//! Answers as text and pictures.

pub mod stripe;
pub mod svg;
pub mod table;
