//! `pantile._pantile`: the compiled part of the Python package `pantile`.
//!
//! This module translates: arguments in, results and exceptions out. The facade computes,
//! `pantile-seal` seals, and the laboratory compares and draws. Bytes move while the interpreter's
//! lock is released; [`memory`] says why that is sound.

#![deny(unsafe_code)]

mod code;
mod codec;
mod error;
mod interrupt;
mod memory;
mod plan;
mod sets;
mod stream;

use pyo3::prelude::*;

#[pymodule]
fn _pantile(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Of the interpreter that is the first to import this.
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add_class::<code::Code>()?;
    module.add_class::<code::Equation>()?;
    module.add_class::<code::Level>()?;
    module.add_class::<code::Proof>()?;
    module.add_class::<codec::Codec>()?;
    module.add_class::<codec::Finding>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<stream::Checked>()?;
    module.add_class::<stream::Chunks>()?;
    module.add_class::<stream::WrongColumn>()?;
    module.add_function(wrap_pyfunction!(plan::plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan::compare, module)?)?;
    module.add_function(wrap_pyfunction!(sets::seal, module)?)?;
    module.add_function(wrap_pyfunction!(sets::verify, module)?)?;
    module.add_function(wrap_pyfunction!(sets::heal, module)?)?;
    module.add_function(wrap_pyfunction!(sets::unseal, module)?)?;
    Ok(())
}
