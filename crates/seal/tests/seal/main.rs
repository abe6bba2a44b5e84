//! All tests of the crate that need no process of their own: one program to build.

mod a_copy_is_no_rename;
mod a_lost_source_comes_back;
mod attacks_by_other_users_fail;
mod common;
mod damage_is_found_and_repaired;
mod damage_is_repaired_in_place;
mod disks_are_known_by_name;
mod everyday_commands_work;
mod evidence_decides_on_writes;
mod hard_links_are_kept_as_links;
mod killed_at_any_moment_nothing_is_lost;
mod metadata_is_used_in_parts;
mod odd_trees_and_shards_do_not_stop_the_work;
mod one_flipped_byte_loses_nothing;
mod originals_and_states_are_judged_fairly;
mod other_users_are_no_obstacle;
mod pins_resist_a_forger;
mod random_losses_within_tolerance_come_back;
mod rights_are_never_wider;
mod sealed_trees_are_restored;
mod sets_hold_exactly_their_sources;
mod sets_that_lie_never_panic;
mod shards_are_spread_over_disks;
mod shares_cover_the_set_in_turn;
mod the_loss_of_disks_is_foretold;
mod unreadable_paths_are_named;
