//! Macros that pick a kernel by the shape of its sums or its system.

/// Picks the `dot` of a module for a way of storing, with the number of columns for each number of
/// outputs. `None` for numbers of outputs that are not listed.
macro_rules! pick_dot {
    ($shape:expr, $stores:ident by $columns:ident; $($m:literal)*) => {
        match ($shape.outputs, $shape.ones) {
            $(
                ($m, false) => Some(dot::<$m, { $columns[$m] }, false, $stores, PLAIN> as Kernel<_>),
                ($m, true) => Some(dot::<$m, { $columns[$m] }, true, $stores, PLAIN> as Kernel<_>),
            )*
            _ => None,
        }
    };
}

/// Picks the `dot` that solves before it stores, with bits added to its form.
macro_rules! pick_solving {
    ($shape:expr, $stores:ident by $columns:ident, $added:expr; $($m:literal)*) => {
        match ($shape.outputs, $shape.ones, $shape.last_by_sum) {
            $(
                ($m, false, false) => Some(dot::<$m, { $columns[$m] }, false, $stores, { SOLVED | $added }> as Kernel<_>),
                ($m, true, false) => Some(dot::<$m, { $columns[$m] }, true, $stores, { SOLVED | $added }> as Kernel<_>),
                ($m, true, true) => Some(dot::<$m, { $columns[$m] }, true, $stores, { LAST_BY_SUM | $added }> as Kernel<_>),
            )*
            _ => None,
        }
    };
}

/// Picks the `dot` of an expanded system.
macro_rules! pick_expanded {
    ($outputs:expr, $stores:ident by $columns:ident; $($m:literal)*) => {
        match $outputs {
            $($m => Some(dot::<$m, { $columns[$m] }, true, $stores, EXPANDED> as Kernel<_>),)*
            _ => None,
        }
    };
}
