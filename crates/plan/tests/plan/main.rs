//! All tests of the crate that need no separate process, in one program.

mod a_search_ends_however_wide_the_code_is;
mod as_many_lost_as_equations;
mod cheapest_means_cheapest;
mod devices_hold_columns_by_a_placement;
mod few_lost_of_dense_codes;
mod known_facts_hold;
mod mistakes_are_as_rare_as_derived;
mod odd_codes_are_planned;
mod parts_of_columns_repair_one;
mod proofs_say_how_they_were_made;
mod the_facts_of_the_design;
