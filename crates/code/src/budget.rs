//! A limit on the work of reading the text of a code.
//!
//! Work is counted in products of two symbols and never timed: the same text is read or refused on
//! every machine, however busy the machine is. Options and messages count it in steps of about a
//! microsecond on a slow machine.

use std::fmt;

/// The work that remains for reading code texts from untrusted sources.
///
/// One budget can be passed from text to text; it then limits the work of all of them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    steps: u64,
    left_products: u64,
}

/// An error: reading a text needs more work than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overspent {
    /// The task that needs more work.
    pub what: &'static str,
    /// The steps that were allowed for everything that shares the budget.
    pub allowed_steps: u64,
    /// A number of steps that is enough whatever the text contains.
    pub suffices_steps: u64,
}

impl Budget {
    /// The default number of steps: less than a second on a slow machine.
    pub const DEFAULT_STEPS: u64 = 1_000_000;

    /// The products per step. A product with its sum takes 0.5 to 1.5 ns if the matrix fits a
    /// cache, and up to 5 ns on a busy machine if it does not.
    pub const PRODUCTS_PER_STEP: u64 = 200;

    /// Returns a budget of `steps` steps.
    pub fn of_steps(steps: u64) -> Budget {
        Budget { steps, left_products: steps.saturating_mul(Budget::PRODUCTS_PER_STEP) }
    }

    /// Subtracts the cost of a task before the task is done.
    ///
    /// Errors: the remaining budget does not cover it. `at_most` is the most that the whole work
    /// can cost; the error message advises it.
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
