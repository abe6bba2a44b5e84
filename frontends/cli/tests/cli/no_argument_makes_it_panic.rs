//! Random arguments, drawn by a seed and limited in number: every status is documented, and a fault
//! is one clean line.

use crate::common::*;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// Number of runs of one test.
const RUNS: u64 = 250;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Returns a valid text with characters changed, omitted, doubled or inserted.
    fn spoiled(&mut self, text: &str) -> String {
        const ODD: &[&str] = &[
            "-",
            ",",
            ".",
            "=",
            "+",
            ":",
            "0",
            "7",
            "99",
            "18446744073709551616",
            "1e9",
            "NaN",
            " ",
            "\t",
            "\n",
            "\u{feff}",
            "\u{202e}",
            "\u{1f9f1}",
            "\u{0661}",
            "x",
            "raw",
            "'",
            "\"",
            "\\",
            "%s",
            "{}",
            "$HOME",
            "\x1b[2J",
        ];
        let mut characters: Vec<String> = text.chars().map(String::from).collect();
        for _ in 0..[0, 0, 0, 1, 1, 2][self.below(6)] {
            let at = self.below(characters.len() + 1);
            match self.below(4) {
                0 if at < characters.len() => characters[at] = self.of(ODD).to_string(),
                1 if at < characters.len() => {
                    characters.remove(at);
                }
                2 if at < characters.len() => characters.insert(at, characters[at].clone()),
                _ => characters.insert(at, self.of(ODD).to_string()),
            }
        }
        characters.concat()
    }
}

/// Small codes, so that a valid request is answered soon.
const CODES: &[&str] = &[
    "raid0:3",
    "mirror:3",
    "raid5:4",
    "raid6:4",
    "raidq:4+3",
    "raidq:4+4,x125",
    "raidq:3+4,b=0xfc",
    "cauchy:4+3",
    "rs:4+2",
    "lch:4+3",
    "crs:4+2,w=3",
    "rs:5+4,vandermonde",
    "shec:6,4,3",
    "shec:6,4,c=2",
    "lrc:6,2,2",
    "xorbas:4,4,2",
    "slpg:6,4,3",
    "dcode:7",
    "dcode:9,raw",
    "xcode:5",
    "rdp:6",
    "evenodd:5",
    "hcode:6",
    "hdp:6",
    "liberation:4,w=7",
    "blaumroth:3,w=7",
    "liber8tion:3",
    "raidp:5",
    "raidp:4,stack=2",
    "ceph:plugin=isa k=4 m=2",
    "ceph:plugin=jerasure technique=liberation k=4 w=7 packetsize=8",
    "ceph:plugin=lrc k=4 m=2 l=3",
    "hdfs:RS-LEGACY-6-3-1k",
    "klauspost:RS(4,2) cauchy",
    "RS(4,2)",
    "shec:k=6,m=4,l=3",
    "raidz2:6",
    "raid1:3",
    "./no.code",
];

fn arguments(random: &mut Random) -> Vec<String> {
    let code = random.of(CODES);
    let code = random.spoiled(code);
    let list = random.of(&["0", "0,1", "0-2", "0.0", "1,0.0", "0-1,0.2", ""]);
    let list = random.spoiled(list);
    let words: Vec<String> = match random.below(9) {
        0 => vec!["show".into(), code, random.of(&["--json", "--text", "--all", "--svg=-"]).into()],
        1 => vec!["explain".into(), code, "--lost".into(), list],
        2 => vec!["plan".into(), code, "--lost".into(), list, "--json".into()],
        3 => {
            let cost = random.spoiled("0=5,1-2=3");
            vec!["plan".into(), code, "--lost".into(), list, "--cost".into(), cost, "--effort=fast".into()]
        }
        4 => {
            let want = random.of(&["data", "lost", "0", "1-2,0.0"]);
            vec!["plan".into(), code, "--want".into(), random.spoiled(want), "--lost".into(), list]
        }
        5 => vec!["plan".into(), code, "--write".into(), list, "--effort".into(), random.spoiled("fast")],
        6 => {
            let number = random.spoiled("100");
            let option = random.of(&["--sample", "--seed", "--witnesses", "--sets"]);
            vec!["prove".into(), code, "--max-lost=2".into(), option.into(), number, "--work=1000000".into()]
        }
        7 => {
            let (length, chunk) = (random.spoiled("100"), random.spoiled("4K"));
            let by = random.of(&["--as", "--code"]).to_string();
            let options = [by, code, "--chunk".into(), chunk, "--length".into(), length];
            ["decode", "src", "--out", "-"].map(String::from).into_iter().chain(options).collect()
        }
        _ => vec!["compare".into(), code, random.of(CODES).into(), "--effort".into(), random.spoiled("100")],
    };
    words.into_iter().map(|word| word.replace('\0', "")).collect()
}

fn hold(arguments: &[OsString], what: &str) -> i32 {
    let output = Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(arguments)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .output()
        .expect("the built command can be run");
    let status = output.status.code().unwrap_or(-1);
    let run = Run {
        status,
        stdout: String::from_utf8(output.stdout).expect("answers are UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("faults are UTF-8"),
    };
    match status {
        0 | 1 => assert!(!run.stdout.is_empty(), "{what}: no answer\n{}", run.stderr),
        2..=4 => assert_fault(&run, status, &[], what),
        _ => panic!("{what}: status {status}\n{}", run.stderr),
    }
    for text in [&run.stdout, &run.stderr] {
        assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None, "{what}: {text:?}");
    }
    status
}

#[test]
fn random_arguments_are_answered_or_refused() {
    let mut seen = [0; 5];
    for seed in 0..RUNS {
        let arguments = arguments(&mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let status = hold(&words, &format!("seed {seed}: {arguments:?}"));
        seen[status as usize] += 1;
    }
    assert!(seen[0] > RUNS / 6 && seen[2] > RUNS / 5, "{seen:?}");
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    for words in [
        vec![bytes(b"\xff\xfe")],
        vec![bytes(b"show"), bytes(b"dcode:\xff")],
        vec![bytes(b"plan"), bytes(b"dcode:7"), bytes(b"--lost"), bytes(b"\x80")],
        vec![bytes(b"prove"), bytes(b"./\xf0\x28.code")],
        vec![bytes(b"show"), vec![b'9'; 100_000].into_iter().map(char::from).collect::<String>().into()],
    ] {
        assert_eq!(hold(&words, &format!("{:?}", words.last())), 2);
    }
}
