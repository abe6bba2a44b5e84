//! `pantile info`: which set lies there.

use crate::describe::{count, directories};
use crate::failure::{Outcome, Verdict};
use crate::sets::{self, SetArgs, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{SetInfo, open_set};
use std::fmt::Write;

/// Show a sealed set: code, sources, and shards that are present
///
/// Answers: what is in these shards? Only headers and one manifest are read; 'pantile verify' reads
/// everything. Nothing is written: a change that was cut off after it was decided is named, and not
/// finished.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile info shards
  pantile info /disk3/photos.02.shard --json | jq -r .code")]
pub struct Info {
    #[command(flatten)]
    set: SetArgs,
    /// Print JSON: the set and its shards.
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let info = open_set(&self.set.into_paths()?).map_err(|error| sets::failure(&error))?;
        match self.json {
            true => print_json(&Versioned::new(&info))?,
            false => print(&text(&info, terminal))?,
        }
        Ok(if info.survival.is_unborne { Verdict::Bad } else { Verdict::Good })
    }
}

fn text(info: &SetInfo, terminal: &Terminal) -> String {
    let mut out = format!("{}\n\n", terminal.bold(sets::name(&info.name)));
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "  {what:<10} {value}");
    };
    line("set", format!("{}, generation {}", info.set, info.generation));
    line("code", info.code.clone());
    line(
        "mode",
        match info.mode.as_str() {
            "beside" => "beside: parity only, the original files are the data".to_string(),
            _ => "full: the shards hold the data too".to_string(),
        },
    );
    line("checksums", if info.checksums { "yes" } else { "no" }.to_string());
    let names = match info.hard_links {
        0 => String::new(),
        names => format!(", {}", count(names as usize, "hard link")),
    };
    line(
        "content",
        format!(
            "{} ({}), {}, {}",
            count(info.files as usize, "file"),
            sets::bytes(info.file_bytes),
            directories(info.dirs),
            count(info.links as usize, "link")
        ) + &names,
    );
    line(
        "layout",
        format!("{} stripes of {} data blocks of {}", info.stripes, info.lanes, sets::bytes(info.block_len)),
    );
    for (disk, source) in info.disk_names.iter().zip(&info.sources) {
        line("disk", format!("{}, sealed from {}", sets::name(disk), sets::name(source)));
    }
    for pattern in &info.left_out {
        line("left out", sets::name(pattern));
    }
    if info.one_file_system {
        line("left out", "other file systems below the sources".into());
    }
    for journal in &info.pending {
        let what = "a change that was decided is not finished; 'pantile heal' does, or 'pantile seal'";
        let _ = writeln!(out, "  {:<10} {}: {what}", "pending", sets::name(journal));
    }
    out.push_str(&sets::exposed(&info.exposed, info.exposed_count));
    out.push_str(&sets::survival(&info.survival, (&info.code, &info.mode)));
    out.push('\n');
    out.push_str(&sets::shards(&info.shards, true, terminal));
    out
}
