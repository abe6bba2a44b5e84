//! Exceptions: the library's message, under a name for each kind of cause.
//!
//! The classes are Python's (`pantile/_errors.py`), as most of them have two bases. They are
//! looked up once in a process: another interpreter of the process has others, and is refused by
//! `pantile/__init__.py`.

use pantile::{PlanError, ShardError, StripeError};
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, Python, import_exception};
use std::fmt::Display;

import_exception!(pantile._errors, BusyError);
import_exception!(pantile._errors, CodeError);
import_exception!(pantile._errors, Error);
import_exception!(pantile._errors, NotLocated);
import_exception!(pantile._errors, NotRecoverable);
import_exception!(pantile._errors, SealError);
import_exception!(pantile._errors, ShapeError);

/// A code that cannot be made, or must not store.
pub fn of_code(error: impl Display) -> PyErr {
    CodeError::new_err(error.to_string())
}

/// Buffers that are not a stripe.
pub fn of_stripe(error: StripeError) -> PyErr {
    ShapeError::new_err(error.to_string())
}

/// Too much is lost, or a cell or column is named that is not there.
pub fn of_plan(error: PlanError) -> PyErr {
    match error {
        PlanError::NotRecoverable(_) => NotRecoverable::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// Shards that are not a stripe, or too few.
pub fn of_shards(error: ShardError) -> PyErr {
    match error {
        ShardError::Plan(error) => of_plan(error),
        error => ShapeError::new_err(error.to_string()),
    }
}

/// A stream that cannot be coded. An exception of a file object goes on as it is, with a note that
/// names the shard.
pub fn of_stream(py: Python<'_>, error: ShardError) -> PyErr {
    let whose = match &error {
        ShardError::Shard { column, .. } => format!("the shard of column {column}"),
        _ => "the data".to_string(),
    };
    match error {
        ShardError::Doubt(_) => NotLocated::new_err(error.to_string()),
        ShardError::Data(raised) | ShardError::Shard { error: raised, .. }
            if raised.get_ref().is_some_and(|inner| inner.is::<PyErr>()) =>
        {
            let raised = PyErr::from(raised);
            // Without the note it is the same error.
            let _ = raised.add_note(py, whose);
            raised
        }
        error => of_shards(error),
    }
}
