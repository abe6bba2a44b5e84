//! All tests of the crate that need no process of their own, in one program.

mod a_scrub_reports_its_findings;
mod bad_superblocks_and_devices_are_refused_or_read_right;
mod common;
mod copies_share_reads;
mod devices_that_were_away_go_on;
mod epochs_end_whole_or_leave_no_trace;
mod flushed_content_is_never_taken_back;
mod metadata_that_lies_never_panics;
mod reading_needs_no_session;
mod real;
mod reports_outlive_power_failures;
mod rows_are_rebuilt_ahead_of_others;
mod single_blocks_go_home_as_patches;
mod small_volumes_are_tried_exhaustively;
mod small_worlds_are_tried_exhaustively;
mod sound_toys_pass_and_planted_bugs_are_caught;
mod superblocks_and_maps_are_made_again;
mod the_log_is_cleaned_by_need_and_age;
mod the_margin_counts_bad_blocks;
mod the_scrub_of_one_device_reads_no_other;
mod the_volume_loses_nothing;
