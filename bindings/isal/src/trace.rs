//! `PANTILE_ISAL_TRACE=1`: counts of calls, printed when the process ends. Tests use them to prove
//! that these functions ran and not those of another library.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        /// The counted functions. A function and its forms for one instruction set are counted as
        /// one.
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types, reason = "ISA-L's own names")]
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is passed on there"))]
        pub enum Call { $($name),* }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

counters!(
    ec_init_tables,
    ec_encode_data,
    ec_encode_data_update,
    gf_mul,
    gf_inv,
    gf_gen_rs_matrix,
    gf_gen_cauchy1_matrix,
    gf_invert_matrix,
    gf_vect_mul_init,
    gf_vect_mul,
    gf_vect_dot_prod,
    gf_vect_mad,
    xor_gen,
    pq_gen,
    xor_check,
    pq_check,
    passed_on,
);

static CALLS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("PANTILE_ISAL_TRACE").is_some_and(|value| value == "1"))
}

/// Counts a call if `PANTILE_ISAL_TRACE` asks for it.
pub fn count(call: Call) {
    if is_on() {
        CALLS[call as usize].fetch_add(1, Relaxed);
    }
}

extern "C" fn print() {
    if !is_on() {
        return;
    }
    let counts = NAMES.iter().zip(&CALLS).map(|(name, calls)| (name, calls.load(Relaxed)));
    let counts = counts.filter(|&(_, calls)| calls > 0).map(|(name, calls)| format!(" {name}={calls}"));
    let counts: String = counts.collect();
    // A child that only inherited the variable prints nothing.
    if !counts.is_empty() {
        crate::refuse::say(format_args!("calls:{counts}"));
    }
}

#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = print;
