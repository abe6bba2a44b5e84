//! Decides what to read and compute, as data that can be printed, counted and checked.
