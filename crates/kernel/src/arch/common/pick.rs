//! Macros that unroll loops over outputs, and that pick a kernel by the shape of its work.

/// Unrolls a loop over outputs 0..M. The compiler does not unroll nested loops of this size, and
/// then keeps the sums in memory, not in registers: 31 instead of 55 GB/s with four outputs.
macro_rules! for_each_output {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7)
    };
    (@ $o:ident $m:ident $body:block $($n:literal)*) => {
        $(if $n < $m {
            #[allow(non_upper_case_globals)]
            const $o: usize = $n;
            $body
        })*
    };
}

/// Works like [`for_each_output`], for the columns of a visit.
macro_rules! for_each_column {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
}

/// Works like [`for_each_output`], for the states of Horner's rule and of an FFT.
macro_rules! for_each_state {
    ($p:ident $body:block) => {
        for_each_state!(@ $p $body 0 1 2 3)
    };
    (@ $p:ident $body:block $($n:literal)*) => {
        $({
            #[allow(non_upper_case_globals)]
            const $p: usize = $n;
            $body
        })*
    };
}

/// Picks the `change` of a module; `None` for numbers of outputs that are not listed.
macro_rules! pick_change {
    ($outputs:expr, $ones:expr; $($m:literal)*) => {
        match ($outputs, $ones) {
            $(
                ($m, false) => Some(change::<$m, false> as Kernel<_>),
                ($m, true) => Some(change::<$m, true> as Kernel<_>),
            )*
            _ => None,
        }
    };
}
