//! Moves bytes fast and exactly like the portable version.
