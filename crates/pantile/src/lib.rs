//! The facade people import: encode, reconstruct, update, verify, locate.
