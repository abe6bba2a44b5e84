//! All tests of this crate that need no separate process: they are built as one program.

mod the_shard_page_says_what_the_code_does;
mod volume_common;
mod volume_damage_is_never_overlooked;
mod volume_page_shows_every_byte;
mod volume_structures_are_read_back_as_written;
mod volume_zones_touch_and_never_overlap;
