//! `pantile-lab raidq`: limits, and tables of speed by kernel. A process has one kernel, so this
//! program runs itself again for each other one.

use crate::commands::shown::Shown;
use crate::failure::{Failure, Outcome, Verdict};
use crate::terminal::print_json;
use clap::Args;
use pantile_kernel::Tier;
use pantile_lab::papers::raidq_speed::{LOOK_UPS, Speeds, measure};
use std::process::{Command, Stdio};

#[derive(Args)]
pub struct Raidq {
    #[command(flatten)]
    pub shown: Shown,
    /// Compute only the limits and measure nothing, so that every run gives the same.
    #[arg(long)]
    limits_only: bool,
    /// Kernels to measure, one after the other: by default this machine's best, the look-up kernel
    /// (avx2), and portable.
    #[arg(long, value_delimiter = ',', value_name = "KERNEL", value_parser = kernel, conflicts_with = "limits_only")]
    kernels: Vec<Tier>,
    /// Measure only the kernel of this process, which PANTILE_KERNEL chooses, and print the results
    /// as JSON.
    #[arg(long, conflicts_with_all = ["limits_only", "kernels"])]
    pub speeds: bool,
}

fn kernel(text: &str) -> Result<Tier, String> {
    Tier::from_name(text).filter(|tier| tier.is_available()).ok_or_else(|| {
        let names: Vec<&str> = Tier::available().into_iter().map(Tier::name).collect();
        format!("{text:?} is no kernel of this machine, which has {}", names.join(", "))
    })
}

/// Returns this machine's best kernel, the look-up kernel if available, and the portable one.
pub fn usual() -> Vec<Tier> {
    let mut kernels = vec![Tier::best(), LOOK_UPS, Tier::Portable];
    kernels.retain(|kernel| kernel.is_available());
    kernels.dedup();
    kernels
}

impl Raidq {
    /// Returns the kernels to measure; `None` if nothing is measured.
    pub fn kernels(&self) -> Option<Vec<Tier>> {
        match (self.limits_only, self.kernels.is_empty()) {
            (true, _) => None,
            (false, true) => Some(usual()),
            (false, false) => Some(self.kernels.clone()),
        }
    }
}

/// Measures kernels, each except that of this process in a process of its own.
pub fn speeds(kernels: &[Tier]) -> Result<Vec<Speeds>, Failure> {
    kernels
        .iter()
        .map(|&kernel| if kernel == Tier::best() { Ok(measure()) } else { of_other(kernel) })
        .collect()
}

fn of_other(kernel: Tier) -> Result<Speeds, Failure> {
    let say = |what: String| Failure::System(format!("cannot measure the kernel {kernel}: {what}."));
    let program = std::env::current_exe().map_err(|error| say(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["raidq", "--speeds"]).env("PANTILE_KERNEL", kernel.name()).stdin(Stdio::null());
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| say(error.to_string()))?;
    if !output.status.success() {
        return Err(say(format!("the process that measured it ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| say(error.to_string()))
}

/// Prints the speeds of this process's kernel for the process that started it.
pub fn print_speeds() -> Outcome {
    print_json(&measure())?;
    Ok(Verdict::Good)
}
