//! All tests of the crate that need no separate process, in one program.

mod bad_code_files_are_refused;
mod chunks_in_packets_are_reproduced;
mod claims_are_true_where_small;
mod codes_are_read_as_typed;
mod codes_built_by_hand_are_checked;
mod common;
mod every_family_has_its_page;
mod every_vector_is_reproduced;
mod foreign_chunks_are_reproduced;
mod limits_of_plank_rows_are_proven;
mod names_of_others_are_understood;
mod reading_is_bounded_by_a_budget;
mod shortening_is_frozen;
mod specs_print_and_parse;
