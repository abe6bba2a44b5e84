//! All tests of this crate that need no separate process: they are built as one program.

mod a_device_is_what_its_superblock_says;
mod a_device_that_works_is_replaced;
mod a_device_whose_reads_fail_is_taken_out;
mod a_file_and_its_loop_device_are_one;
mod a_folder_is_a_volume;
mod a_full_log_is_patched;
mod a_member_is_overwritten;
mod a_running_volume_gives_back_what_was_written;
mod a_slow_device_is_gone_around;
mod a_volume_of_clay_is_rebuilt;
mod common;
mod epochs_of_delayed_parity;
mod memory_is_bounded;
mod other_users_cannot_take_the_locks;
mod readers_go_to_the_devices_themselves;
mod reading_needs_no_session;
mod reports_of_a_volume_are_true;
