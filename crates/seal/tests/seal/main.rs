//! All tests of the crate that need no process of their own: one program to build.

mod a_copy_is_no_rename;
mod a_lost_source_comes_back;
mod common;
mod damage_is_found_and_repaired;
mod damage_is_repaired_in_place;
mod disks_are_known_by_name;
mod evidence_decides_what_is_written;
mod hard_links_are_kept_as_links;
mod killed_at_any_moment_nothing_is_lost;
mod metadata_is_used_in_parts;
mod nobody_gets_in;
mod odd_trees_and_shards_do_not_stop_the_work;
mod one_flipped_byte_loses_nothing;
mod originals_and_states_are_judged_fairly;
mod other_users_are_no_obstacle;
mod pins_resist_a_forger;
mod random_losses_within_tolerance_come_back;
mod rights_are_never_wider;
mod sets_that_lie_never_panic;
mod shards_are_spread_over_disks;
mod the_loss_of_disks_is_foretold;
mod unreadable_paths_are_named;
mod what_is_sealed_is_restored;
mod what_is_there_is_what_is_sealed;
mod what_people_do_every_day;
