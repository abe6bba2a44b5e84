//! The volume itself in small worlds: a power failure after every step of a few requests, with
//! every subset of unflushed writes up to a bound, both with all devices and with each of them
//! lost.

use crate::real::small::run;
use crate::real::{hush, number};
use pantile_sim::Exhausted;

/// `SIM_STATES=4096` tries more subsets at each step, `SIM_SEEDS=10` more scripts.
#[test]
fn no_power_failure_of_a_small_volume_loses_what_was_flushed() {
    hush();
    let (seeds, states_most) = (number("SIM_SEEDS", 4), number("SIM_STATES", 64));
    let codes = ["mirror:2", "raid5:2", "raid6:2"];
    let total = |code: &'static str| {
        let mut total = Exhausted::default();
        for seed in 0..seeds {
            total += run(code, seed, states_most).unwrap_or_else(|failure| panic!("{code}: {failure}"));
        }
        println!("{code}: {total:?}");
        assert!(total.points_by_sector > 0 && total.points_by_block > 0, "{code}: {total:?}");
    };
    std::thread::scope(|scope| {
        let threads = codes.map(|code| scope.spawn(move || total(code)));
        for thread in threads {
            thread.join().expect("no state loses anything");
        }
    });
}
