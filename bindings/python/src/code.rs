//! Codes and their proofs.

use crate::error;
use crate::interrupt::interruptible;
use pantile::code::custom::TEXT_LEN_BYTES_MAX;
use pantile::code::{Labels, Purpose};
use pantile::plan::{Method, ProveOptions};
use pantile::{CellIndex, plan};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// A cell: row and column, both from 0.
pub type Place = (usize, usize);

/// A cell and its coefficient in a sum.
pub type Term = (Place, u8);

/// A redundancy scheme: the shape of a stripe and the equations that its cells satisfy.
///
/// >>> import pantile
/// >>> code = pantile.Code("dcode:5")
/// >>> code.columns, len(code.data), len(code.parity), code.tolerance
/// (5, 15, 10, 2)
/// >>> code.equations[0]
/// Equation('1': P[3][3] = D[0][0] + D[0][1] + D[0][2])
/// >>> pantile.Code("rs:10+400")
/// Traceback (most recent call last):
/// pantile.CodeError: ...
#[pyclass(frozen, module = "pantile", from_py_object)]
#[derive(Clone)]
pub struct Code {
    pub inner: pantile::Code,
}

/// Every core that there is.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

pub fn place(code: &pantile::Code, cell: CellIndex) -> Place {
    let at = code.cell(cell);
    (at.row, at.column)
}

pub fn terms(code: &pantile::Code, all: &[(CellIndex, pantile::gf::Gf)]) -> Vec<Term> {
    all.iter().map(|&(cell, coefficient)| (place(code, cell), coefficient.0)).collect()
}

/// A code, or the spec of one, as an argument.
pub enum CodeLike {
    /// A code.
    Code(Code),
    /// Its spec.
    Spec(String),
}

impl FromPyObject<'_, '_> for CodeLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<CodeLike> {
        if let Ok(code) = object.extract() {
            return Ok(CodeLike::Code(code));
        }
        object.extract().map(CodeLike::Spec).map_err(|_| {
            let kind = object.get_type();
            PyTypeError::new_err(format!("{kind} names no code; give a Code, or a spec such as \"rs:10+4\""))
        })
    }
}

impl CodeLike {
    /// Errors: the spec names no code.
    pub fn code(self) -> PyResult<pantile::Code> {
        match self {
            CodeLike::Code(code) => Ok(code.inner),
            CodeLike::Spec(spec) => pantile::Code::parse(&spec).map_err(error::of_code),
        }
    }
}

#[pymethods]
impl Code {
    /// The code that a spec names, such as ``dcode:7`` or ``rs:10+4``; ``CodeError`` says the limit
    /// where there is none.
    #[new]
    fn new(py: Python<'_>, spec: String) -> PyResult<Code> {
        // A large code is checked for some seconds.
        let inner = interruptible(py, move |_| pantile::Code::parse(&spec), |_| Ok(()))?;
        inner.map(|inner| Code { inner }).map_err(error::of_code)
    }

    /// A code of your own, from the text of a code file (docs/code-files.md).
    ///
    /// >>> pantile.Code.from_text('''pantile-code 1
    /// ... name pair
    /// ... columns 2
    /// ... rows 1
    /// ... [0][1] = 7*[0][0]
    /// ... ''').tolerance
    /// 1
    #[classmethod]
    fn from_text(_class: &Bound<'_, PyType>, py: Python<'_>, text: String) -> PyResult<Code> {
        let inner = interruptible(py, move |_| pantile::Code::from_text(&text), |_| Ok(()))?;
        inner.map(|inner| Code { inner }).map_err(error::of_code)
    }

    /// A code of your own, from a code file.
    #[classmethod]
    fn from_file(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Code> {
        let name = path.display().to_string();
        let read = py.detach(|| {
            // A pipe would wait for ever for a writer.
            if !path.metadata()?.is_file() {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            File::open(&path)?.take(TEXT_LEN_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        });
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                let what = format!("{name} is not a file; a code file is a text file");
                return Err(error::of_code(what));
            }
            Err(error) => {
                let error: std::io::Error = error;
                let code = error.raw_os_error();
                return Err(PyOSError::new_err((code, system_words(&error), name)));
            }
        };
        let text = String::from_utf8(bytes)
            .map_err(|_| error::of_code(format!("{name} is not UTF-8; a code file is a text file")))?;
        let made = interruptible(py, move |_| pantile::Code::from_text(&text), |_| Ok(()))?;
        made.map(|inner| Code { inner }).map_err(|error| error::of_code(format!("{name}: {error}")))
    }

    /// The canonical text form.
    #[getter]
    fn spec(&self) -> &str {
        self.inner.spec()
    }

    /// The family's name, ``custom`` for a code file.
    #[getter]
    fn family(&self) -> &str {
        self.inner.family()
    }

    /// The number of columns: one for each device.
    #[getter]
    fn columns(&self) -> usize {
        self.inner.columns()
    }

    /// The number of cells of each column.
    #[getter]
    fn rows(&self) -> Vec<usize> {
        (0..self.inner.columns()).map(|column| self.inner.rows(column)).collect()
    }

    /// All cells as (row, column), column by column.
    #[getter]
    fn cells(&self) -> Vec<Place> {
        self.inner.cells().map(|cell| place(&self.inner, cell)).collect()
    }

    /// The data cells in user order: element i of the user's data lies in the i-th of them.
    #[getter]
    fn data(&self) -> Vec<Place> {
        self.inner.data().iter().map(|&cell| place(&self.inner, cell)).collect()
    }

    /// The parity cells.
    #[getter]
    fn parity(&self) -> Vec<Place> {
        self.inner.parity().iter().map(|&cell| place(&self.inner, cell)).collect()
    }

    /// The equations, each with its label.
    #[getter]
    fn equations(&self) -> Vec<Equation> {
        let labels = Labels::new(&self.inner);
        let all = self.inner.equations().iter().enumerate();
        all.map(|(i, equation)| Equation {
            label: labels.of[i].text.clone(),
            parity: labels.defines[i].map(|cell| place(&self.inner, cell)),
            terms: terms(&self.inner, equation.terms()),
            words: {
                let (left, terms) = pantile_lab::words::solved(&self.inner, equation, labels.defines[i]);
                format!("{left} = {}", pantile_lab::words::sum(&self.inner, &terms, 24))
            },
        })
        .collect()
    }

    /// The labels of the equations that each cell is in, by cell, as drawings show them.
    #[getter]
    fn labels(&self) -> std::collections::BTreeMap<Place, Vec<String>> {
        let labels = Labels::new(&self.inner);
        let of = |cell: CellIndex| labels.in_cell(cell).into_iter().map(|e| labels.of[e].text.clone());
        self.inner.cells().map(|cell| (place(&self.inner, cell), of(cell).collect())).collect()
    }

    /// Any set of this many columns can be lost, as the construction claims; ``prove``
    /// counts.
    #[getter]
    fn tolerance(&self) -> usize {
        self.inner.claim().tolerance
    }

    /// True if no code does better at this rate.
    #[getter]
    fn is_mds(&self) -> bool {
        self.inner.claim().mds
    }

    /// True if every coefficient is 1.
    #[getter]
    fn is_xor(&self) -> bool {
        self.inner.is_xor()
    }

    /// User bytes per stored byte.
    #[getter]
    fn rate(&self) -> f64 {
        self.inner.rate()
    }

    /// Why the code must not store, if it is here to be studied only.
    #[getter]
    fn study_reason(&self) -> Option<&'static str> {
        match self.inner.purpose() {
            Purpose::Storage => None,
            Purpose::Study(reason) => Some(reason),
        }
    }

    /// A digest of shape, user order and equations: equal codes have equal fingerprints.
    #[getter]
    fn fingerprint(&self) -> u64 {
        self.inner.fingerprint()
    }

    /// The code as a code file, to be edited and read back.
    fn to_text(&self) -> String {
        self.inner.to_text()
    }

    /// Counts which sets of lost columns are survivable, on all cores; Ctrl-C ends it.
    ///
    /// Level by level, up to ``lost_most`` columns or until nothing survives. A level of more sets
    /// than ``sets_most`` is sampled, and says so.
    ///
    /// >>> proof = pantile.Code("shec:6,4,3").prove()
    /// >>> proof.tolerance, proof.is_exact, proof.holds, proof.witness
    /// (2, True, True, [0, 1, 6])
    #[pyo3(signature = (*, lost_most=None, sets_most=20_000_000))]
    fn prove(&self, py: Python<'_>, lost_most: Option<usize>, sets_most: u64) -> PyResult<Proof> {
        let options = ProveOptions { lost_most, sets_most, threads: threads(), ..ProveOptions::default() };
        let code = &self.inner;
        let certificate = interruptible(
            py,
            |ended| plan::prove(code, &options, &|_, _, _| !ended.load(Ordering::Relaxed)),
            |_| Ok(()),
        )?;
        Ok(Proof::of(code, certificate))
    }

    /// The stripe as a standalone SVG picture.
    fn svg(&self) -> String {
        pantile_lab::drawing::stripe(&self.inner)
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }

    fn __repr__(&self) -> String {
        format!("Code('{}')", self.inner.spec())
    }

    fn __str__(&self) -> &str {
        self.inner.spec()
    }

    fn __eq__(&self, other: &Code) -> bool {
        self.inner == other.inner
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.inner.spec(), self.inner.fingerprint()).hash(&mut hasher);
        hasher.finish()
    }

    /// A code is pickled as its spec, or as the text of its file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<Code>();
        match self.inner.definition() {
            None => Ok((class.into_any(), PyTuple::new(py, [self.inner.spec()])?)),
            Some(text) => Ok((class.getattr("from_text")?, PyTuple::new(py, [text])?)),
        }
    }
}

/// Returns the message of the system, without the number that Python shows beside it.
fn system_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

/// One linear relation: the sum of coefficient times cell is zero.
#[pyclass(frozen, get_all, module = "pantile")]
#[derive(Clone)]
pub struct Equation {
    /// Its name in drawings.
    label: String,
    /// The parity cell that it defines.
    parity: Option<Place>,
    /// Cells and coefficients, ascending by cell.
    terms: Vec<Term>,
    /// It is solved for the parity, in words.
    words: String,
}

#[pymethods]
impl Equation {
    fn __repr__(&self) -> String {
        format!("Equation('{}': {})", self.label, self.words)
    }
}

/// All sets of a number of lost columns.
#[pyclass(frozen, get_all, module = "pantile")]
#[derive(Clone)]
pub struct Level {
    /// Columns lost.
    lost: usize,
    /// The number of such sets.
    sets: u64,
    /// How many are survivable; of a sample, how many of those drawn.
    survived: u64,
    /// The number drawn, if this is a sample.
    drawn: Option<u64>,
    /// With 95 % confidence the share of fatal sets is at most this, if this is a sample.
    fatal_share_most: Option<f64>,
}

#[pymethods]
impl Level {
    fn __repr__(&self) -> String {
        let of = match self.drawn {
            None => format!("{}", self.sets),
            Some(drawn) => format!("{drawn} drawn of {}", self.sets),
        };
        format!("Level({} lost: {} of {of} survived)", self.lost, self.survived)
    }
}

/// The proof of a code's tolerance.
#[pyclass(frozen, get_all, module = "pantile")]
pub struct Proof {
    /// The canonical spec.
    code: String,
    /// Any set of this many columns can be lost, proved exactly.
    tolerance: usize,
    /// The tolerance that the construction claims.
    claimed: usize,
    /// True if no set within the claim was found fatal.
    holds: bool,
    /// True if every level was counted exactly.
    is_exact: bool,
    /// True if higher levels were left out, as asked.
    is_cut: bool,
    /// Level by level, from one lost column.
    levels: Vec<Level>,
    /// A smallest set of columns whose loss is fatal, if one was met.
    witness: Option<Vec<usize>>,
    /// The smallest fatal sets, the first thousand of them.
    fatal: Vec<Vec<usize>>,
    /// How many of the smallest size there are (of a sample: were met).
    fatal_count: u64,
}

impl Proof {
    fn of(code: &pantile::Code, certificate: plan::Certificate) -> Proof {
        let level = |level: &plan::Level| {
            let (drawn, fatal_share_most) = match level.method {
                Method::Exact => (None, None),
                Method::Sampled { drawn, fatal_share_most } => (Some(drawn), Some(fatal_share_most)),
            };
            Level { lost: level.lost, sets: level.sets, survived: level.survived, drawn, fatal_share_most }
        };
        Proof {
            tolerance: certificate.tolerance(),
            claimed: code.claim().tolerance,
            holds: !certificate.contradicts(code.claim()),
            is_exact: certificate.is_exact(),
            is_cut: certificate.cut,
            levels: certificate.levels.iter().map(level).collect(),
            witness: certificate.fatal.first().cloned(),
            fatal: certificate.fatal,
            fatal_count: certificate.fatal_count,
            code: certificate.code,
        }
    }
}

#[pymethods]
impl Proof {
    fn __repr__(&self) -> String {
        let witness = match &self.witness {
            Some(set) => format!("; fatal, for one: {set:?}"),
            None => String::new(),
        };
        let exact = if self.is_exact { "" } else { ", sampled beyond" };
        format!("Proof({}: any {} columns may be lost{exact}{witness})", self.code, self.tolerance)
    }
}
