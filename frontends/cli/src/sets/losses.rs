//! Sentences about losses: of a source, of a device, of files that are too large for their parity.

use super::name;
use crate::describe::count;
use pantile_seal::{DiskLoss, Losses};
use std::fmt::Write;

/// Returns [`disk_losses`] of several sources: a single one is lost with its disk, as parity beside
/// it means.
pub fn several_disk_losses(losses: &[DiskLoss]) -> String {
    let sources = losses.iter().filter(|loss| loss.device.is_none()).count();
    if sources > 1 { disk_losses(losses) } else { String::new() }
}

/// Returns a sentence for each source or device whose loss would cost files.
pub fn disk_losses(losses: &[DiskLoss]) -> String {
    let mut out = String::new();
    for loss in losses.iter().filter(|loss| loss.files_lost > 0) {
        let what = match (loss.device, &loss.sources[..]) {
            (None, [source]) => format!("If {} is lost as a whole", name(source)),
            (_, [source]) => format!(
                "If the device of {} is lost, with {} on it",
                name(source),
                count(loss.shards as usize, "shard")
            ),
            (_, sources) => {
                let shards = match loss.shards {
                    0 => String::new(),
                    shards => format!(" and {}", count(shards as usize, "shard")),
                };
                format!("If the device is lost on which {}{shards} lie", count(sources.len(), "source"))
            }
        };
        let _ = writeln!(
            out,
            "\n{what}, {} of its {} do not come back.",
            loss.files_lost,
            count(loss.files as usize, "file")
        );
    }
    out
}

/// Names the files that parity alone does not bring back, if there are any.
pub fn exposed(files: &[String], all: u64) -> String {
    const FILES_MOST: usize = 3;
    if all == 0 {
        return String::new();
    }
    let names: Vec<String> = files.iter().take(FILES_MOST).map(|file| name(file)).collect();
    let more = if all > names.len() as u64 { ", ..." } else { "" };
    format!(
        "\n{} too large for this parity: damage in it is repaired, but if it is lost as a whole it does not come back \
         ({}{more}).\n",
        match all {
            1 => "1 file is".to_string(),
            all => format!("{all} files are each"),
        },
        names.join(", ")
    )
}

/// Says which losses cannot be repaired, and which columns would help.
pub fn losses(losses: Option<&Losses>) -> String {
    losses.map_or_else(
        || "damaged, and some of it cannot be repaired with certainty".to_string(),
        |losses| name(losses.to_string().trim_end_matches('.')),
    )
}
