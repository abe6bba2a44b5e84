//! Files under shards: seal, verify, heal, unseal. Reports are JSON here; `pantile/__init__.py`
//! makes objects of them.

use crate::code::CodeLike;
use crate::error::SealError;
use crate::interrupt::interruptible;
use pantile_seal as files;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The progress of the work: its phase, bytes done, bytes in all.
type Far = (&'static str, u64, u64);

/// Tells the caller's thread how far the work is, and hears from it that it is to end.
struct Told<'t> {
    far: &'t Mutex<Option<Far>>,
    ended: &'t AtomicBool,
}

impl files::Progress for Told<'_> {
    fn phase(&mut self, name: &'static str, total_bytes: u64) {
        *self.far.lock().unwrap_or_else(|e| e.into_inner()) = Some((name, 0, total_bytes));
    }

    fn advance(&mut self, bytes: u64) {
        if let Some((_, done, _)) = &mut *self.far.lock().unwrap_or_else(|e| e.into_inner()) {
            *done += bytes;
        }
    }

    fn cancelled(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Does the work, reports its progress regularly to `progress`, and returns its report as JSON.
fn reported<R: Serialize + Send>(
    py: Python<'_>,
    progress: Option<Bound<'_, PyAny>>,
    work: impl FnOnce(&mut dyn files::Progress) -> Result<R, files::Fault> + Send,
) -> PyResult<String> {
    let far = Mutex::new(None);
    let mut said: Option<Far> = None;
    let result = interruptible(
        py,
        |ended| work(&mut Told { far: &far, ended }),
        |_| {
            let now = *far.lock().unwrap_or_else(|e| e.into_inner());
            let (Some(progress), Some(now)) = (&progress, now.filter(|now| Some(*now) != said)) else {
                return Ok(());
            };
            said = Some(now);
            progress.call1(now).map(|_| ())
        },
    )?;
    match result {
        Ok(report) => {
            serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))
        }
        Err(files::Fault { kind: files::FaultKind::Cancelled, .. }) => Err(PyKeyboardInterrupt::new_err(())),
        Err(error) => Err(SealError::new_err(error.to_string())),
    }
}

fn mode(text: Option<&str>) -> PyResult<Option<files::Mode>> {
    match text {
        None => Ok(None),
        Some("full") => Ok(Some(files::Mode::Full)),
        Some("beside") => Ok(Some(files::Mode::Beside)),
        Some(other) => Err(PyValueError::new_err(format!("mode is '{other}'; say 'full' or 'beside'"))),
    }
}

/// Which set a call is about.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SetArguments {
    paths: Vec<PathBuf>,
    name: Option<String>,
    disks: Vec<(OsString, PathBuf)>,
    pin: Option<PathBuf>,
}

impl From<SetArguments> for files::SetPaths {
    fn from(set: SetArguments) -> files::SetPaths {
        let SetArguments { paths, name, disks, pin } = set;
        let disks = disks.into_iter().map(|(name, path)| files::DiskAt { name, path }).collect();
        files::SetPaths { paths, name, disks, pin, ..files::SetPaths::default() }
    }
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
pub fn seal(
    py: Python<'_>,
    sources: Vec<PathBuf>,
    out: PathBuf,
    code: Option<CodeLike>,
    name: Option<OsString>,
    mode: Option<&str>,
    checksums: Option<bool>,
    exclude: Option<Vec<String>>,
    dry_run: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let mut options = files::SealOptions::new(sources, out);
    options.code = code.map(CodeLike::code).transpose()?;
    options.mode = self::mode(mode)?;
    (options.name, options.checksums) = (name, checksums);
    options.left_out = exclude.map(|patterns| files::LeftOut { patterns, other_systems: false });
    options.dry_run = dry_run;
    reported(py, progress, move |heard| files::seal(&options, heard))
}

#[pyfunction]
pub fn verify(
    py: Python<'_>,
    set: SetArguments,
    ignore_checksums: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = files::VerifyOptions { set: set.into(), ignore_checksums, share: None };
    reported(py, progress, move |heard| files::verify(&options, heard))
}

#[pyfunction]
pub fn heal(
    py: Python<'_>,
    set: SetArguments,
    ignore_checksums: bool,
    out: Option<PathBuf>,
    guess: bool,
    modes: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = files::HealOptions {
        set: set.into(),
        ignore_checksums,
        out,
        guess,
        modes,
        ..files::HealOptions::default()
    };
    reported(py, progress, move |heard| files::heal(&options, heard))
}

#[pyfunction]
pub fn unseal(
    py: Python<'_>,
    set: SetArguments,
    target: PathBuf,
    overwrite: bool,
    patterns: Vec<String>,
    modes: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let select = files::Select { patterns, ..files::Select::default() };
    let options = files::UnsealOptions { set: set.into(), target, overwrite, select, modes };
    reported(py, progress, move |heard| files::unseal(&options, heard))
}
