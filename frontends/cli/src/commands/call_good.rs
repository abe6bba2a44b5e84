//! `pantile call-good`: what only a person decides about a volume.

use crate::commands::delayed::range;
use crate::devices::DeviceName;
use crate::failure::Outcome;
use crate::volumes::run_order;
use clap::Args;
use pantile_host::Order;
use std::path::PathBuf;

/// Clear the warning of suspect data, or of a device that erred
///
/// Answers: I have compared them with a copy; how do I get rid of the warning? After a crash with a
/// device missing a volume of policy inplace cannot tell whether what that device held is right,
/// and calls it suspect until it is written again or a person says that it is good. Lost data stay
/// lost.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile status vol --lost
  pantile call-good vol --range 1048576+65536
  pantile call-good vol                       all that is suspect
  pantile call-good vol --device 3            its errors are known: count them from now on")]
pub struct CallGood {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The data: OFFSET+LENGTH in bytes, as 'pantile status --lost' prints them; all unless given.
    #[arg(long, value_name = "OFFSET+LEN", value_parser = range)]
    range: Option<(u64, u64)>,
    /// Not data but a device: its errors are known, and counted from now on.
    #[arg(long, value_name = "DEVICE", conflicts_with = "range")]
    device: Option<DeviceName>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CallGood {
    pub fn run(self) -> Outcome {
        if let Some(device) = &self.device {
            let device = device.number(&self.folder)?;
            return run_order(&self.folder, &Order::CallDeviceGood { device }, self.json);
        }
        let (offset, len_bytes) = self.range.map_or((0, None), |(offset, len)| (offset, Some(len)));
        run_order(&self.folder, &Order::CallGood { offset, len_bytes }, self.json)
    }
}
