//! All tests of this crate that need no separate process: they are built as one program.

mod a_device_that_strays_is_seen;
mod a_reader_waits_only_so_long;
mod every_op_agrees_with_a_model;
mod faults_become_the_right_error;
mod the_pool_keeps_its_promises;
mod the_ring_does_what_threads_do;
