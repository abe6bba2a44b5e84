//! Several processes, one after another, and the medians over them.
//!
//! The pages of a process and the load by its neighbours stay the same within a run and differ from
//! run to run. Turns within one run do not average them.

use std::process::Command;

use serde_json::{Map, Value, json};

use crate::rounded;

/// The records of so many runs of this program with these arguments; each is in a file beside `out`
/// until it is read.
///
/// Errors: a run cannot be started, fails, or leaves no record.
pub fn records(runs: usize, arguments: &[String], out: &str) -> Result<Vec<Value>, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    (1..=runs)
        .map(|run| {
            eprintln!("run {run} of {runs}");
            let part = format!("{out}.run{run}");
            let status = Command::new(&program).args(arguments).arg(&part).status();
            match status {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("run {run} of {runs} ended with {status}")),
                Err(error) => return Err(format!("run {run} of {runs} cannot be started: {error}")),
            }
            let text = std::fs::read_to_string(&part).map_err(|error| format!("{part}: {error}"))?;
            let record = serde_json::from_str(&text).map_err(|error| format!("{part}: {error}"))?;
            std::fs::remove_file(&part).map_err(|error| format!("{part}: {error}"))?;
            Ok(record)
        })
        .collect()
}

/// One record of several: each figure is the median over the runs; `between_runs` is the distance
/// of the quartiles over it.
///
/// Errors: the records are not of the same cells and libraries.
pub fn merged(records: &[Value]) -> Result<Value, String> {
    let mut merged = records[0].clone();
    merged["runs"] = json!(records.len());
    let cells = merged["cells"].as_array_mut().expect("a record has cells");
    for (i, cell) in cells.iter_mut().enumerate() {
        let of_runs: Vec<&Value> = records.iter().map(|record| &record["cells"][i]).collect();
        if !of_runs.iter().all(|other| is_same_cell(cell, other)) {
            return Err(format!("cell {i} is not of the same libraries in all runs: {}", cell["code"]));
        }
        for limit in ["limit_gb_per_s", "column_limit_gb_per_s"] {
            if cell.get(limit).is_some() {
                cell[limit] = json!(quartiles(&of_runs, |cell| &cell[limit]).1);
            }
        }
        let mut results = Map::new();
        for name in cell["results"].as_object().expect("a cell has results").keys() {
            let (low, rate, high) = quartiles(&of_runs, |cell| &cell["results"][name]["gb_per_s"]);
            let (_, spread, _) = quartiles(&of_runs, |cell| &cell["results"][name]["spread"]);
            let between = rounded((high - low) / rate, 3);
            results
                .insert(name.clone(), json!({ "gb_per_s": rate, "spread": spread, "between_runs": between }));
        }
        cell["results"] = Value::Object(results);
    }
    Ok(merged)
}

fn is_same_cell(a: &Value, b: &Value) -> bool {
    let names =
        |cell: &Value| cell["results"].as_object().map(|results| results.keys().cloned().collect::<Vec<_>>());
    let what = ["code", "chunk_len_bytes", "layout", "op", "losses", "planning"];
    what.iter().all(|what| a[what] == b[what]) && names(a) == names(b)
}

/// The lower quartile, the median and the upper quartile of a figure of the same cell of each run.
fn quartiles<'a>(cells: &[&'a Value], figure: impl Fn(&'a Value) -> &'a Value) -> (f64, f64, f64) {
    let mut figures: Vec<f64> = cells.iter().map(|cell| figure(cell).as_f64().expect("a figure")).collect();
    figures.sort_by(f64::total_cmp);
    let n = figures.len();
    (figures[n / 4], figures[n / 2], figures[3 * n / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rate: f64, other: f64) -> Value {
        let results = json!({ "pantile": { "gb_per_s": rate, "spread": rate / 100.0 }, "other": { "gb_per_s": other, "spread": 0.0 } });
        json!({ "repeats": 9, "cells": [{ "code": "raid6:4", "op": "encode", "limit_gb_per_s": 2.0 * rate, "results": results }] })
    }

    #[test]
    fn figures_are_medians_each_for_itself() {
        let merged = merged(&[record(30.0, 5.0), record(10.0, 7.0), record(20.0, 6.0)]).unwrap();
        let cell = &merged["cells"][0];
        let of = |name: &str| cell["results"][name].clone();
        assert_eq!(of("pantile"), json!({ "gb_per_s": 20.0, "spread": 0.2, "between_runs": 1.0 }));
        assert_eq!(
            (of("other")["gb_per_s"].as_f64(), cell["limit_gb_per_s"].as_f64()),
            (Some(6.0), Some(40.0))
        );
        assert_eq!((merged["runs"].as_u64(), merged["repeats"].as_u64()), (Some(3), Some(9)));
    }

    #[test]
    fn records_of_other_cells_are_not_mixed() {
        let mut other = record(1.0, 1.0);
        other["cells"][0]["code"] = json!("raid6:6");
        assert!(merged(&[record(1.0, 1.0), other]).unwrap_err().starts_with("cell 0 "));
    }
}
