//! Limit on the work for reading the text of a code.
//!
//! Work is counted in products of two symbols and never timed: the same text is read or refused on
//! every machine, however busy the machine is. Options and messages count it in steps of about a
//! microsecond on a slow machine.

use std::fmt;

/// Work left for reading codes that other people wrote.
///
/// One budget may be handed from text to text, so that many texts together cost no more than one
/// may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    steps: u64,
    left_products: u64,
}

/// Refusal to read a text to its end: it needs more work than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overspent {
    /// Task that ran out of work.
    pub what: &'static str,
    /// The steps that were allowed for everything that shares the budget.
    pub allowed_steps: u64,
    /// Number of steps that is enough for any content of the text.
    pub suffices_steps: u64,
}

impl Budget {
    /// Default allowance: less than a second on a slow machine.
    pub const DEFAULT_STEPS: u64 = 1_000_000;

    /// A product with its sum takes 0.5 to 1.5 ns where the matrix fits a cache, and up to 5 ns
    /// where it does not and the machine is busy with something else.
    pub const PRODUCTS_PER_STEP: u64 = 200;

    /// Returns a budget of `steps` steps.
    pub fn of_steps(steps: u64) -> Budget {
        Budget { steps, left_products: steps.saturating_mul(Budget::PRODUCTS_PER_STEP) }
    }

    /// Takes the cost of something before it is done.
    ///
    /// Errors: the rest of the budget does not cover it. `at_most` is the cost of the whole work at
    /// most, for the advice.
    pub(crate) fn spend(&mut self, what: &'static str, products: u64, at_most: u64) -> Result<(), Overspent> {
        match self.left_products.checked_sub(products) {
            Some(left) => {
                self.left_products = left;
                Ok(())
            }
            None => {
                let suffices_steps = at_most.div_ceil(Budget::PRODUCTS_PER_STEP).saturating_add(self.steps);
                Err(Overspent { what, allowed_steps: self.steps, suffices_steps })
            }
        }
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::of_steps(Budget::DEFAULT_STEPS)
    }
}

impl fmt::Display for Overspent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overspent { what, allowed_steps, suffices_steps } = self;
        write!(
            out,
            "{what} takes more than the {allowed_steps} steps (of about a microsecond) that are allowed; if you trust \
             the text, --effort {suffices_steps} allows all that it may take"
        )
    }
}
