//! The `pantile-lab` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pantile_cli::pantile_lab()
}
