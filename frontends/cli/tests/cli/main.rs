//! All tests of the crate that need no process of their own: one program to build.

mod a_code_is_advised_for_a_trace;
mod a_room_imports_only_what_stands_above_it;
mod answers_have_their_documented_shape;
mod certificates_convince_somebody_else;
mod chunks_give_nobody_more;
mod common;
mod disks_are_written_when_told;
mod drawings_are_kept;
mod every_fault_is_one_sentence;
mod examples_of_the_help_work;
mod no_argument_makes_it_panic;
mod numbers_leave_for_other_tools;
mod outputs_stay_where_they_were_opened;
mod packages_are_made_where_the_caller_is;
mod pools_of_a_cluster_are_reported;
mod raw_chunks;
mod sealed_sets;
mod sets_day_by_day;
mod the_engine_takes_the_papers_amounts;
mod the_reference_shows_real_output;
mod typed_inputs_get_their_answers;
mod volumes;
mod what_strangers_made_costs_little;
mod what_survives_is_one_answer;
mod whatever_is_given_as_a_device;
mod wrong_chunks;
