//! Runs the built command and returns its answer.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `pantile` with these arguments, or `pantile-lab` if that is the first one, without a
/// terminal.
pub fn pantile(arguments: &[&str]) -> Run {
    pantile_in(Path::new("."), arguments)
}

/// Runs `pantile` in a directory.
pub fn pantile_in(directory: &Path, arguments: &[&str]) -> Run {
    run(directory, &[], arguments)
}

/// Runs `pantile` with environment variables.
pub fn pantile_with(variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    run(Path::new("."), variables, arguments)
}

/// Returns the program that these arguments name, with the rest of the arguments.
pub fn command(arguments: &[&str]) -> Command {
    let (program, arguments) = match arguments.split_first() {
        Some((&"pantile-lab", rest)) => (env!("CARGO_BIN_EXE_pantile-lab"), rest),
        _ => (env!("CARGO_BIN_EXE_pantile"), arguments),
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn run(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    let output = command(arguments)
        .current_dir(directory)
        .envs(variables.iter().copied())
        .env_remove("NO_COLOR")
        // The records of sets that tests seal are kept out of the user's state directory.
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .output()
        .expect("the built command can be run");
    Run {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("answers are UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("faults are UTF-8"),
    }
}

/// A folder in which a user works.
pub struct Place {
    pub directory: tempfile::TempDir,
}

impl Place {
    /// Makes an empty folder.
    pub fn empty() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        pantile_in(self.directory.path(), arguments)
    }

    /// Runs a command that must succeed, and returns its answer.
    pub fn good(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.status, 0, "{arguments:?}: {}{}", run.stdout, run.stderr);
        run.stdout
    }

    /// Runs a program that uses the records of the sets that tests seal.
    pub fn shell(&self, program: &str, arguments: &[&str]) -> Output {
        let mut shell = Command::new(program);
        shell.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR")).args(arguments);
        shell.current_dir(self.directory.path()).output().expect("a shell")
    }

    /// Runs the quoted commands of an answer in a shell, as a user would copy them; returns their
    /// number.
    pub fn follow(&self, text: &str) -> usize {
        let proposed: Vec<&str> = text.split('\'').filter(|part| part.starts_with("pantile ")).collect();
        for command in &proposed {
            let line = command.replacen("pantile", env!("CARGO_BIN_EXE_pantile"), 1);
            let output = self.shell("sh", &["-c", &line]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command}: {said}");
        }
        proposed.len()
    }
}

/// Starts the command in a folder, without input and with its output captured.
pub fn begun_in(directory: &Path, arguments: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(arguments.split(' '))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command can be run")
}

/// Returns the output of a run that must succeed.
pub fn text(arguments: &[&str]) -> String {
    let run = pantile(arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    assert!(!run.stdout.contains('\x1b'), "{arguments:?} colours a pipe");
    run.stdout
}

/// Returns the answer as JSON, with any status.
pub fn json(arguments: &[&str]) -> Value {
    let run = pantile(arguments);
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{}{}", run.stdout, run.stderr))
}

/// Returns the names of an object's fields in their written order.
pub fn keys_as_written(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("  \"")?.split_once('"').map(|(key, _)| key.to_string()))
        .collect()
}

/// Asserts that a run ended with this status and one clean line about it.
pub fn assert_fault(run: &Run, status: i32, needles: &[&str], what: &str) {
    assert_eq!(run.status, status, "{what}: status {}\n{}{}", run.status, run.stdout, run.stderr);
    // On a slow machine there can also be lines of progress.
    let is_progress = |line: &str| line.ends_with(" %");
    let lines: Vec<&str> = run.stderr.lines().filter(|l| !l.is_empty() && !is_progress(l)).collect();
    assert_eq!(lines.len(), 1, "{what}: one line expected, not\n{}", run.stderr);
    let line = lines[0];
    let is_named = line.starts_with("pantile: ") || line.starts_with("pantile-lab: ");
    assert!(is_named && line.ends_with(['.', '?']), "{what}: {line}");
    assert!(line.len() < 500, "{what}: too long: {line}");
    for bad in ["panicked", "backtrace", "RUST_", "Err(", "unwrap", ".rs:", "  "] {
        assert!(!line.contains(bad), "{what}: {line}");
    }
    for needle in needles {
        assert!(line.contains(needle), "{what}: '{needle}' is missing in: {line}");
    }
    assert!(run.stdout.is_empty(), "{what}: an answer beside the fault: {}", run.stdout);
}

/// Returns the path of a file of `tests/golden`.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}
