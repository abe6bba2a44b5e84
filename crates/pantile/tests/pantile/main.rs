//! All tests of the crate that need no separate process, in one program.

mod a_recovery_writes_what_it_says;
mod bad_requests_are_refused;
mod chunks_are_those_of_their_system;
mod common;
mod decoders_of_dense_codes;
mod every_code_keeps_the_same_laws;
mod evidence_is_judged_over_whole_stretches;
mod given_buffers_are_enough;
mod lies_are_located;
mod packets_keep_the_laws;
mod plans_are_made_once;
mod shards_come_back;
mod the_speed_table_is_from_the_record;
mod the_table_of_operations_is_true;
mod wrong_chunks_are_gone_round;
