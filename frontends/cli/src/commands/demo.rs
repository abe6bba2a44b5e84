//! `pantile demo`: the life of a volume, in commands that a user would type.

use crate::failure::{Failure, Outcome, Verdict};
use crate::terminal::{Terminal, print};
use clap::Args;
use serde_json::Value;
use std::collections::HashSet;
use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes that the demonstration writes.
const DATA_BYTES: usize = 40 << 20;

/// Watch a volume survive lost and damaged disks
///
/// Answers: does it really work? Makes a volume of six files, serves it over NBD, writes real data,
/// removes two disks, kills the server, reads everything back, rebuilds both disks, changes a byte
/// behind the volume's back, and finds and repairs it. Every step is a command that you could type.
#[derive(Args)]
#[command(after_long_help = "\
nbdkit and nbdcopy must be installed (Debian: apt-get install nbdkit libnbd-bin).

Examples:
  pantile demo
  pantile demo --code rs:4+3 --keep        and leave the folder to be looked at")]
pub struct Demo {
    /// The code; it must have at least five devices and tolerate the loss of any two.
    #[arg(long, value_name = "CODE", default_value = "raid6:4")]
    code: String,
    /// Keep the folder of the volume.
    #[arg(long)]
    keep: bool,
}

/// Folder and terminal of the demonstration.
struct Stage<'t> {
    terminal: &'t Terminal,
    program: PathBuf,
    root: PathBuf,
}

impl Demo {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let begun = Instant::now();
        for tool in ["nbdkit", "nbdcopy"] {
            if Command::new(tool)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_err()
            {
                return Err(Failure::Input(format!(
                    "{tool} is not installed; the demonstration needs it (Debian: apt-get install nbdkit libnbd-bin)."
                )));
            }
        }
        let program = std::env::current_exe()
            .map_err(|error| Failure::System(format!("cannot find this program: {error}.")))?;
        let root = std::env::temp_dir().join(format!("pantile-demo-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&root);
        made.map_err(|error| Failure::file("make", &root, &error))?;
        let stage = Stage { terminal, program, root: root.clone() };
        let told = stage.play(&self.code);
        if told.is_err() {
            // The server is stopped after an error as well.
            let _ = stage.quietly(&["stop", "vol"]);
        }
        if self.keep {
            print(&format!("\nThe folder {} is left for you.\n", root.display()))?;
        } else {
            std::fs::remove_dir_all(&root).map_err(|error| Failure::file("remove", &root, &error))?;
        }
        told?;
        print(&format!(
            "\nDone in {:.0} s: nothing that was flushed was lost.\n",
            begun.elapsed().as_secs_f64()
        ))?;
        Ok(Verdict::Good)
    }
}

impl Stage<'_> {
    fn play(&self, code: &str) -> Result<(), Failure> {
        self.say("A volume on six files; each could be a disk. Any two can fail.")?;
        self.command(&["create", "vol", "--code", code, "--size", "64M"], &[0])?;
        self.say("It is served over NBD, which qemu, nbdcopy, fio and the kernel speak.")?;
        let (uri, pid) = self.serve()?;
        self.say("40 MB of data are written and flushed.")?;
        let data = pseudorandom(DATA_BYTES);
        std::fs::write(self.root.join("data"), &data)
            .map_err(|error| Failure::file("write", &self.root.join("data"), &error))?;
        self.other(Command::new("nbdcopy").args(["--flush", "data", &uri]))?;
        self.say("Two disks die, and then the server: killed, with no chance to tidy up.")?;
        self.command(&["fail", "vol", "1"], &[0])?;
        self.command(&["fail", "vol", "4"], &[0])?;
        for lost in ["vol/device-01.pantile", "vol/device-04.pantile"] {
            let path = self.root.join(lost);
            std::fs::remove_file(&path).map_err(|error| Failure::file("remove", &path, &error))?;
        }
        self.other(Command::new("kill").args(["-9", &pid.to_string()]))?;
        self.say("It is served again, from the four that are left. What is its state?")?;
        let (uri, _) = self.serve()?;
        self.command(&["status", "vol"], &[1])?;
        self.same(&uri, "Everything is read back and compared.")?;
        self.say("Two new disks take their places. Their content is rebuilt, at the least cost that the code allows.")?;
        for (index, new) in [("1", "new-1"), ("4", "new-4")] {
            self.blank(new)?;
            self.command(&["replace", "vol", index, new], &[0])?;
        }
        self.command(&["rebuild", "vol", "--wait"], &[0])?;
        self.command(&["status", "vol"], &[0])?;
        self.say("Now a disk lies: one byte changes behind the volume's back.")?;
        self.command(&["stop", "vol"], &[0])?;
        self.flip(&data)?;
        let (uri, _) = self.serve()?;
        self.say("The scrub finds which disk it was, and writes the right bytes again.")?;
        self.command(&["scrub", "vol", "--repair", "--wait"], &[1])?;
        self.command(&["scrub", "vol", "--wait"], &[0])?;
        // The volume is whole again, with a warning: the device with the wrong byte is named.
        self.command(&["status", "vol"], &[1])?;
        self.same(&uri, "And everything is read back once more.")?;
        self.command(&["stop", "vol"], &[0]).map(drop)
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        print(&format!("\n{}\n", self.terminal.bold(text)))
    }

    /// Runs a command of this program, prints it with its output, and checks its status against the
    /// expected ones.
    fn command(&self, arguments: &[&str], expected: &[i32]) -> Result<String, Failure> {
        print(&format!("{}\n", self.terminal.dim(format!("$ pantile {}", arguments.join(" ")))))?;
        let (status, text) = self.quietly(arguments)?;
        print(&text)?;
        if !expected.contains(&status) {
            return Err(Failure::System(format!(
                "pantile {} ended with status {status}.",
                arguments.join(" ")
            )));
        }
        Ok(text)
    }

    fn quietly(&self, arguments: &[&str]) -> Result<(i32, String), Failure> {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::System(format!("cannot run this program: {error}.")))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.code().unwrap_or(-1), text))
    }

    /// Serves the volume; returns the URI and the server's process.
    fn serve(&self) -> Result<(String, u64), Failure> {
        print(&format!("{}\n", self.terminal.dim("$ pantile serve vol")))?;
        let (status, text) = self.quietly(&["serve", "vol", "--json"])?;
        let answer: Option<Value> = serde_json::from_str(&text).ok();
        let uri = answer.as_ref().and_then(|answer| answer["uri"].as_str()).map(str::to_owned);
        let pid = answer.as_ref().and_then(|answer| answer["pid"].as_u64());
        match (uri, pid) {
            (Some(uri), Some(pid)) if status == 0 => {
                print(&format!("{uri}\n"))?;
                Ok((uri, pid))
            }
            _ => Err(Failure::System(format!("the volume is not served: {}", text.trim()))),
        }
    }

    fn other(&self, command: &mut Command) -> Result<(), Failure> {
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        print(&format!("{}\n", self.terminal.dim(format!("$ {}", words.join(" ")))))?;
        let status = command.current_dir(&self.root).stdin(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::System(format!("{} ended with {status}.", words[0]))),
            Err(error) => Err(Failure::System(format!("cannot run {}: {error}.", words[0]))),
        }
    }

    /// Reads everything back and compares it with the written data.
    fn same(&self, uri: &str, text: &str) -> Result<(), Failure> {
        self.say(text)?;
        self.other(Command::new("nbdcopy").args([uri, "back"]))?;
        let path = self.root.join("data");
        let data = std::fs::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
        let path = self.root.join("back");
        let back = std::fs::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
        if !back.starts_with(&data) {
            return Err(Failure::System("data read differ from those written: please report this.".into()));
        }
        print("identical\n")
    }

    /// Makes an empty file as long as the devices.
    fn blank(&self, name: &str) -> Result<(), Failure> {
        let folder = self.root.join("vol");
        let entries = std::fs::read_dir(&folder).map_err(|error| Failure::file("read", &folder, &error))?;
        let lengths = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
        let longest = lengths.max().unwrap_or(0);
        let path = self.root.join(name);
        let made = File::create(&path).and_then(|file| file.set_len(longest));
        made.map_err(|error| Failure::file("make", &path, &error))
    }

    /// Changes one byte in the first block of the user's data that device 2 holds.
    fn flip(&self, data: &[u8]) -> Result<(), Failure> {
        let path = self.root.join("vol").join("device-02.pantile");
        let failure = |error: std::io::Error| Failure::file("change", &path, &error);
        let known: HashSet<&[u8]> = data.chunks_exact(4096).map(|block| &block[..16]).collect();
        let mut file = File::options().read(true).write(true).open(&path).map_err(failure)?;
        let mut block = vec![0; 4096];
        let mut at = 0;
        loop {
            file.read_exact(&mut block).map_err(failure)?;
            if known.contains(&block[..16]) {
                break;
            }
            at += block.len() as u64;
        }
        let changed = at + 1234;
        file.seek(SeekFrom::Start(changed)).map_err(failure)?;
        file.write_all(&[!block[1234]]).map_err(failure)?;
        file.sync_all().map_err(failure)?;
        print(&format!("(byte {changed} of {} is {:#04x} from now on)\n", shown(&path), !block[1234]))
    }
}

fn shown(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns bytes without a pattern, the same in each run.
fn pseudorandom(len: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
