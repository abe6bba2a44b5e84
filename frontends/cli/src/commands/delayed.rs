//! `pantile delayed`: epochs of delayed parity.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes::{self, Reached};
use clap::{Args, Subcommand, ValueEnum};
use pantile_host::{Answer, EpochReport, OnTimeout, Order, nbd_uri};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Write a checkpoint now and its parity later (delayed parity)
///
/// Answers: how do I write a checkpoint as fast as to disks without parity, and lose at most the
/// checkpoint? Between start and end only data are written; end computes the parity and seals the
/// whole epoch at once. Until then no other client sees it, and a crash or an abort restores the
/// old content. If a device is lost meanwhile, only the epoch can lose data; end is then refused
/// and lists the lost ranges.
#[derive(Args)]
#[command(after_long_help = "\
The volume must be served. A writer is a client of NBD that connects to the export epoch-NUMBER, or of the library.
--json prints what a command has led to.

Examples:
  pantile delayed start vol --range 0+1G --owed-max 256M --idle 60s --on-timeout abort
  nbdcopy checkpoint 'nbd+unix:///epoch-3000001?socket=vol/nbd.sock'
  pantile delayed status vol
  pantile delayed end vol 3000001")]
pub struct Delayed {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Start(Start),
    /// Seal an epoch: compute its pending parity
    ///
    /// Answers: is my checkpoint safe? Computes the pending parity, and answers when all of the
    /// epoch would survive a crash and the loss of devices. Refused, with the lost ranges, if a
    /// failed device held some of it.
    #[command(after_long_help = "\
Exit status: 0 done, 2 refused: nothing has changed.

Examples:
  pantile delayed end vol 3000001")]
    End(Close),
    /// Restore the old content of an epoch's range
    ///
    /// Answers: how do I discard a checkpoint? The writes of the epoch are forgotten, and other
    /// clients may write to its range again.
    #[command(after_long_help = "\
Exit status: 0 done, 2 refused: nothing has changed.

Examples:
  pantile delayed abort vol 3000001")]
    Abort(Close),
    Status(Show),
}

/// Begin an epoch
///
/// Answers: where do I write to? Prints the number and the URI of the epoch. It holds whole
/// stripes: a range is widened to them. Other clients cannot write there (EPERM: NBD has no EBUSY)
/// until it ends.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile delayed start vol
  pantile delayed start vol --range 1G+512M --owed-max 64M --age-max 10s --idle 5m --on-timeout seal")]
struct Start {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The range: OFFSET+LENGTH; by default the whole volume.
    #[arg(long, value_name = "OFFSET+LEN", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Limit of data with pending parity; beyond it writers wait until some parity is computed.
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "256M")]
    owed_max: u64,
    /// Age at which pending parity is computed in advance; 0: never.
    #[arg(long, value_name = "TIME", value_parser = args::seconds, default_value = "30s")]
    age_max: u64,
    /// Time without a request after which the epoch ends by itself; 0: never.
    #[arg(long, value_name = "TIME", value_parser = args::seconds, default_value = "5m")]
    idle: u64,
    /// End of an epoch after that time.
    #[arg(long, value_enum, default_value = "abort")]
    on_timeout: Policy,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Policy {
    Seal,
    Abort,
}

// The two uses of these arguments, in `What`, have the help of the command.
#[derive(Args)]
struct Close {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The epoch's number; not necessary if only one is open.
    #[arg(value_name = "EPOCH")]
    epoch: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Show the open epochs: pending parity, and lost data
///
/// Answers: what would be lost if a device failed now? Bytes and stripes without parity, and the
/// age of the oldest.
#[derive(Args)]
#[command(after_long_help = "\
Exit status: 0 nothing is lost, 1 something of an epoch is.

Examples:
  pantile delayed status vol --json | jq '.epochs[].owed_bytes'")]
struct Show {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// Number of one epoch; by default all are shown.
    #[arg(value_name = "EPOCH")]
    epoch: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct StartJson<'u> {
    output_version: u32,
    epoch: u64,
    offset: u64,
    len_bytes: u64,
    export: &'u str,
    uri: Option<&'u str>,
}

#[derive(Serialize)]
struct EpochsJson<'r> {
    output_version: u32,
    epochs: Vec<&'r EpochReport>,
    wasted_stripes: u64,
}

impl Delayed {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        match self.what {
            What::Start(start) => start.run(),
            What::End(close) => close.run(true),
            What::Abort(close) => close.run(false),
            What::Status(show) => show.run(terminal),
        }
    }
}

/// Returns the volume if it is served: only a server has epochs.
fn served(folder: &Path) -> Result<Reached, Failure> {
    let reached = volumes::look(folder)?;
    if reached.is_served() {
        return Ok(reached);
    }
    reached.end()?;
    Err(Failure::Input(format!(
        "{} is not served, and an epoch lives in its server; 'pantile serve {}' starts it.",
        folder.display(),
        sets::quoted(folder)
    )))
}

impl Start {
    fn run(self) -> Outcome {
        let reached = served(&self.folder)?;
        let order = Order::DelayedStart {
            offset: self.range.map(|(offset, _)| offset),
            len_bytes: self.range.map(|(_, len)| len),
            owed_bytes_max: Some(self.owed_max),
            age_max_s: Some(self.age_max),
            idle_max_s: Some(self.idle),
            on_timeout: Some(match self.on_timeout {
                Policy::Seal => OnTimeout::Seal,
                Policy::Abort => OnTimeout::Abort,
            }),
            detached: true,
        };
        let Answer::Epoch { epoch, offset, len_bytes } = reached.order(&order)? else {
            return Err(volumes::other_version());
        };
        let export = format!("epoch-{epoch}");
        let socket = volumes::absolute(&self.folder)?.join("nbd.sock");
        let uri = socket.exists().then(|| nbd_uri("nbd", &export, &socket));
        match self.json {
            true => print_json(&StartJson {
                output_version: OUTPUT_VERSION,
                epoch,
                offset,
                len_bytes,
                export: &export,
                uri: uri.as_deref(),
            })?,
            false => {
                let to = uri.unwrap_or(format!("the export {export}"));
                print(&format!(
                    "Epoch {epoch} holds {} from byte {offset} on.\n{to}\n",
                    sets::bytes(len_bytes)
                ))?;
            }
        }
        Ok(Verdict::Good)
    }
}

impl Close {
    fn run(self, seal: bool) -> Outcome {
        let reached = served(&self.folder)?;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => match &reached.status()?.epochs[..] {
                [only] => only.epoch,
                epochs => {
                    let names: Vec<String> = epochs.iter().map(|epoch| epoch.epoch.to_string()).collect();
                    return Err(Failure::Input(match names.is_empty() {
                        true => "no epoch is open.".into(),
                        false => format!("epochs {} are open; say which.", names.join(", ")),
                    }));
                }
            },
        };
        let order = if seal { Order::DelayedEnd { epoch } } else { Order::DelayedAbort { epoch } };
        let Answer::Done { text } = reached.order(&order)? else { return Err(volumes::other_version()) };
        volumes::print_done(&text, true, self.json)
    }
}

impl Show {
    fn run(self, _terminal: &Terminal) -> Outcome {
        let reached = volumes::look(&self.folder)?;
        let report = reached.status();
        let ended = reached.end();
        let report = report?;
        ended?;
        let is_meant = |epoch: &&EpochReport| self.epoch.is_none_or(|meant| meant == epoch.epoch);
        let epochs: Vec<&EpochReport> = report.epochs.iter().filter(is_meant).collect();
        if let (Some(epoch), true) = (self.epoch, epochs.is_empty()) {
            return Err(Failure::Input(format!("there is no epoch {epoch}: it has ended or was aborted.")));
        }
        let lost = epochs.iter().any(|epoch| !epoch.lost.is_empty());
        match self.json {
            true => {
                let wasted_stripes = report.wasted_stripes;
                print_json(&EpochsJson { output_version: OUTPUT_VERSION, epochs, wasted_stripes })?;
            }
            false if epochs.is_empty() => print("No epoch is open.\n")?,
            false => print(&epochs.into_iter().map(text).collect::<String>())?,
        }
        Ok(if lost { Verdict::Bad } else { Verdict::Good })
    }
}

/// Returns lines on an epoch: pending parity, time limit, lost ranges.
pub fn text(epoch: &EpochReport) -> String {
    let mut out = format!(
        "Epoch {} is {}: {} from byte {}; {} in {} of {} stripes without parity (at most {})",
        epoch.epoch,
        sets::name(&epoch.state),
        sets::bytes(epoch.len_bytes),
        epoch.offset,
        sets::bytes(epoch.owed_bytes),
        epoch.owed_stripes,
        epoch.stripes,
        sets::bytes(epoch.owed_bytes_max)
    );
    if let Some(oldest) = epoch.oldest_s {
        let _ = write!(out, ", the oldest for {oldest} s");
    }
    let policy = match epoch.on_timeout {
        OnTimeout::Seal => "sealed",
        OnTimeout::Abort => "aborted",
    };
    match epoch.idle_max_s {
        Some(most) => {
            let _ = writeln!(out, "; silent for {} s, {policy} at {most} s.", epoch.idle_s);
        }
        None => out.push_str(".\n"),
    }
    if !epoch.lost.is_empty() {
        let ranges = epoch.lost.iter().take(8).map(|lost| format!("{}+{}", lost.offset, lost.len_bytes));
        let ranges: Vec<String> = ranges.collect();
        let more = if epoch.lost.len() > 8 { ", ..." } else { "" };
        let _ = writeln!(
            out,
            "Lost with a device: {}{more}. Write that again and end the epoch, or abort it.",
            ranges.join(", ")
        );
    }
    out
}

/// Reads a range such as `0+1G`.
pub fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "expected OFFSET+LENGTH, such as 0+1G or 512M+64M".to_string();
    let (offset, len) = text.split_once('+').ok_or_else(wrong)?;
    match (args::size(offset)?, args::size(len)?) {
        (_, 0) => Err("the length is 0; give at least 1".into()),
        range => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("4K+1M"), Ok((4096, 1 << 20)));
        for wrong in ["1G", "+1G", "1G+", "1G+0", "1+2+3"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
