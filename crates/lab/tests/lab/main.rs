//! All tests of the crate that need no process of their own: one program to build.

mod delayed_parity_in_one_page;
mod driven_replays_equal_counted_plans;
mod durability_is_found_two_ways;
mod raidp_is_run_beside_copies;
mod the_exascale_simulation_counts_exactly;
mod the_exascale_simulation_fits_the_volume;
mod the_lab_tells_the_truth_about_the_volume;
mod the_page_has_the_exascale_table;
mod the_papers_are_reproduced;
mod the_papers_are_run_on_the_engine;
mod traces_are_read_whatever_they_are;
