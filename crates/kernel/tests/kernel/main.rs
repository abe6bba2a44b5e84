//! All tests of the crate that need no process of their own: one program to build.

mod common;
#[cfg(feature = "fft")]
mod every_fft_gives_what_its_definition_says;
#[cfg(feature = "fft")]
mod every_network_gives_what_its_steps_say;
mod every_program_gives_the_portable_bytes;
mod every_tier_gives_the_portable_bytes;
mod every_word_map_gives_the_portable_bytes;
mod no_modules_import_in_a_circle;
mod packets_give_what_pieces_give;
