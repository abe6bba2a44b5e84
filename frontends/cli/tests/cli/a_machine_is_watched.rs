//! One configuration with several sets, and the monitor: mail to an SMTP server, posts to a web
//! server, and servers that hang.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// An SMTP server on loopback, and its letters.
fn smtp() -> (u16, Receiver<String>) {
    let (listener, (sender, letters)) = (TcpListener::bind("127.0.0.1:0").expect("a port"), channel());
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Some(letter) = letter(client) else { continue };
            let _ = sender.send(letter);
        }
    });
    (port, letters)
}

/// The recipients and the text of a letter.
fn letter(client: TcpStream) -> Option<String> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    let say = |text: &str| (&client).write_all(format!("{text}\r\n").as_bytes()).ok();
    let mut all = String::new();
    say("220 test")?;
    loop {
        let line = lines.next()?.ok()?;
        match line.get(..4)? {
            "DATA" => say("354 go on")?,
            "QUIT" => {
                say("221 bye")?;
                return Some(all);
            }
            "MAIL" | "RCPT" => {
                all.push_str(&format!("{line}\n"));
                say("250 ok")?;
                continue;
            }
            _ => {
                say("250 ok")?;
                continue;
            }
        }
        loop {
            let line = lines.next()?.ok()?;
            if line == "." {
                break;
            }
            all.push_str(&format!("{line}\n"));
        }
        say("250 taken")?;
    }
}

/// A web server on loopback, and the bodies of its posts.
fn web() -> (u16, Receiver<serde_json::Value>) {
    let (listener, (sender, posts)) = (TcpListener::bind("127.0.0.1:0").expect("a port"), channel());
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut reader = BufReader::new(client.try_clone().expect("a connection"));
            let mut len = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    len = value.trim().parse().expect("a length");
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; len];
            reader.read_exact(&mut body).expect("a body");
            (&client).write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("an answer");
            let _ = sender.send(serde_json::from_slice(&body).expect("JSON"));
        }
    });
    (port, posts)
}

/// A folder with two disks beside their parity, and its configuration.
fn machine(more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for disk in ["films", "music"] {
        std::fs::create_dir(at.join(disk)).expect("a folder");
        std::fs::write(at.join(disk).join("file"), vec![7; 9000]).expect("a file");
    }
    let place = at.display();
    let text = format!(
        "state = '{place}/state'\n[set.pool]\nbeside = true\ncode = 'raid6'\nout = ['{place}/parity']\n\
         disks = {{ films = '{place}/films', music = '{place}/music' }}\n{more}"
    );
    std::fs::write(at.join("pantile.toml"), text).expect("a file");
    folder
}

fn at(folder: &Path, arguments: &str) -> Run {
    pantile_in(folder, &arguments.split(' ').collect::<Vec<_>>())
}

/// Returns status and output of one look of the monitor.
fn looks(folder: &Path) -> (i32, String) {
    let run = at(folder, "monitor pantile.toml --once");
    (run.status, format!("{}{}", run.stdout, run.stderr))
}

#[test]
fn damage_is_mailed_and_posted_once_and_again_when_it_is_mended() {
    let ((smtp, letters), (web, posts)) = (smtp(), web());
    let folder = machine(&format!(
        "[mail]\nto = ['ann@example.org', 'bob@example.org']\nsmtp = 'smtp://127.0.0.1:{smtp}'\n\
         [hooks]\nwebhook = 'http://127.0.0.1:{web}/hook'\n"
    ));
    let folder = folder.path();
    let all = format!("--all={}/pantile.toml", folder.display());
    let soon = Duration::from_secs(20);
    for command in ["seal", "verify"] {
        let run = at(folder, &format!("{command} --all=pantile.toml"));
        assert_eq!(run.status, 0, "{}{}", run.stdout, run.stderr);
    }
    assert_eq!(looks(folder), (0, String::new()));

    std::fs::remove_file(folder.join("films/file")).expect("it goes");
    let run = at(folder, "verify --all=pantile.toml");
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    let (status, said) = looks(folder);
    assert!(
        status == 1 && said.contains(&format!("pool: 'pantile verify {all}' ended with status 1")),
        "{said}"
    );
    let letter = letters.recv_timeout(soon).expect("a letter");
    for part in
        ["RCPT TO:<ann@example.org>", "RCPT TO:<bob@example.org>", "To: ann@example.org, bob@example.org"]
    {
        assert!(letter.contains(part), "{part}: {letter}");
    }
    assert!(letter.contains("Subject: ") && letter.contains("ended with status 1"), "{letter}");
    let post = posts.recv_timeout(soon).expect("a post");
    assert_eq!((&post["changes"][0]["about"], &post["changes"][0]["is"]), (&"pool".into(), &"wrong".into()));
    assert_eq!(looks(folder), (1, String::new()), "it is said once");
    assert!(letters.try_recv().is_err() && posts.try_recv().is_err());

    let disk = format!("--disk films={}/films", folder.display());
    let run = at(folder, &format!("heal parity {disk}"));
    assert_eq!(run.status, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(at(folder, "verify --all=pantile.toml").status, 0);
    let (status, said) = looks(folder);
    assert!(status == 0 && said.contains(&format!("pool: No longer: 'pantile verify {all}'")), "{said}");
    assert!(letters.recv_timeout(soon).is_ok_and(|letter| letter.contains("No longer")));
    assert_eq!(posts.recv_timeout(soon).expect("a post")["changes"][0]["is"], "mended");
}

#[test]
fn a_server_that_hangs_delays_messages_and_loses_none() {
    let hangs = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = hangs.local_addr().expect("an address").port();
    let (web, posts) = web();
    let folder = machine(&format!(
        "[monitor]\npatience = '2s'\n[mail]\nto = ['root']\nsmtp = 'smtp://127.0.0.1:{port}'\n\
         [hooks]\nwebhook = 'http://127.0.0.1:{web}/'\n"
    ));
    let folder = folder.path();
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
    std::fs::remove_file(folder.join("films/file")).expect("it goes");
    assert_eq!(at(folder, "verify --all=pantile.toml").status, 1);
    let begun = Instant::now();
    let (status, said) = looks(folder);
    assert!(status == 1 && said.contains("mail: curl took longer than 2 s"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(posts.recv_timeout(Duration::from_secs(20)).is_ok(), "the other channel has it");
    drop(hangs);
    let (smtp, letters) = smtp();
    let text = std::fs::read_to_string(folder.join("pantile.toml")).expect("a file");
    std::fs::write(folder.join("pantile.toml"), text.replace(&format!(":{port}'"), &format!(":{smtp}'")))
        .expect("it writes");
    looks(folder);
    let letter = letters.recv_timeout(Duration::from_secs(20)).expect("a letter");
    assert!(letter.contains("RCPT TO:<root>") && letter.contains("pool"), "{letter}");
    assert!(posts.try_recv().is_err(), "nothing is posted twice");
}

/// A volume whose server is the test, with two disks of this machine, and `smartctl` that answers
/// with the files beside it and counts its calls.
fn with_smartctl(folder: &Path) -> impl Fn(&str) -> (i32, String) + use<> {
    let disk =
        std::fs::read_dir("/sys/class/block").expect("a folder").flatten().next().expect("a block device");
    let disk = disk.file_name().into_string().expect("a name");
    assert_eq!(at(folder, "create tank --size 8M --code mirror:2").status, 0);
    let mut status: serde_json::Value =
        serde_json::from_str(&at(folder, "status tank --json").stdout).expect("JSON");
    status["answer"] = "status".into();
    status["disks"]["disks"] =
        serde_json::json!([{ "name": disk, "model": "EVO", "serial": "S1", "devices": [1] }]);
    let socket = UnixListener::bind(folder.join("tank/control.sock")).expect("it listens");
    std::thread::spawn(move || {
        for client in socket.incoming().flatten() {
            let _ = BufReader::new(&client).read_line(&mut String::new());
            let _ = writeln!(&client, "{status}");
        }
    });
    let place = folder.display();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{place}/calls\ncase $(cat {place}/answer) in hang) exec sleep 60;; esac\n\
         cat {place}/answer; exit 4\n"
    );
    let program = folder.join("smartctl");
    std::fs::write(&program, script).expect("a file");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let path = format!("{place}:{}", std::env::var("PATH").unwrap_or_default());
    let folder = folder.to_path_buf();
    move |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = command(&arguments).current_dir(&folder).env("PATH", &path).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8(said).expect("a text"))
    }
}

#[test]
fn a_disk_that_fails_soon_is_reported_and_asked_each_half_hour() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let run = with_smartctl(folder);
    let place = folder.display();
    let text = format!("state = '{place}/state'\n[volume.tank]\nfolder = '{place}/tank'\n");
    std::fs::write(folder.join("pantile.toml"), text).expect("a file");
    let answers = |passed: bool, pending: u64| {
        let text = serde_json::json!({
            "smartctl": { "version": [7, 4], "exit_status": 0 },
            "device": { "type": "sat", "protocol": "ATA" },
            "smart_status": { "passed": passed },
            "ata_smart_attributes": { "table": [{ "id": 197, "name": "Current_Pending_Sector",
                "raw": { "value": pending, "string": pending.to_string() } }] },
            "temperature": { "current": 36 },
        });
        std::fs::write(folder.join("answer"), text.to_string()).expect("a file");
    };
    let calls = || std::fs::read_to_string(folder.join("calls")).unwrap_or_default().lines().count();
    let set_back = || {
        let path = folder.join("state/smart.json");
        let mut state: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
        for last in state.as_object_mut().expect("an object").values_mut() {
            last["asked_at"] = (last["asked_at"].as_u64().expect("a time") - 1800).into();
        }
        std::fs::write(path, state.to_string()).expect("it writes");
    };
    answers(true, 0);
    assert_eq!(run("monitor pantile.toml --once"), (0, String::new()));
    answers(false, 8);
    assert_eq!(run("monitor pantile.toml --once"), (0, String::new()), "the half hour is not over");
    assert_eq!(calls(), 1);
    set_back();
    let (status, said) = run("monitor pantile.toml --once");
    assert!(status == 1 && said.contains("(device 1) expects to fail soon; 'pantile replace"), "{said}");
    assert!(said.contains("has 8 sectors that cannot be read;"), "{said}");
    assert_eq!(run("monitor pantile.toml --once"), (1, String::new()), "it is said once");
    let (_, page) = run("monitor pantile.toml --metrics");
    for line in
        ["pantile_disk_healthy{", "pantile_disk_pending_sectors{", "pantile_disk_temperature_celsius{"]
    {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert_eq!(calls(), 2);
    // A disk that sleeps keeps its last numbers.
    let asleep = serde_json::json!({ "smartctl": { "exit_status": 2, "messages": [
        { "string": "Device is in STANDBY mode, exit(2)", "severity": "information" }] } });
    std::fs::write(folder.join("answer"), asleep.to_string()).expect("a file");
    set_back();
    assert_eq!(run("monitor pantile.toml --once"), (1, String::new()));
    answers(true, 0);
    set_back();
    let (status, said) = run("monitor pantile.toml --once");
    assert!(status == 0 && said.matches("No longer: ").count() == 2, "{said}");

    // The command asks at once.
    let (status, said) = run("status tank");
    assert!(status == 0 && said.contains("36 °C"), "{said}");
    answers(false, 8);
    let (_, said) = run("status tank");
    assert!(
        said.contains("failing, 8 bad sectors, 36 °C") && said.contains("expects to fail soon;"),
        "{said}"
    );
    let (_, json) = run("status tank --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["smart"][0]["pending_sectors"], &json["smart"][0]["devices"][0]),
        (&8.into(), &1.into())
    );
    let asked = std::fs::read_to_string(folder.join("calls")).expect("a file");
    assert!(
        asked.lines().all(|line| line.contains("--nocheck=standby") && line.contains(" /dev/")),
        "{asked}"
    );
    std::fs::write(folder.join("answer"), "hang").expect("a file");
    let begun = Instant::now();
    let (status, said) = run("status tank");
    assert!(status == 0 && !said.contains("disk health"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    std::fs::remove_file(folder.join("smartctl")).expect("it goes");
    let (status, said) = run("status tank");
    assert!(status == 0 && !said.contains("smart"), "{said}");
}

#[test]
fn the_status_of_the_machine_begins_with_what_is_wrong() {
    let folder = machine("");
    let folder = folder.path();
    for (vol, code) in [("tank", "raid6:2"), ("pond", "mirror:2")] {
        assert_eq!(at(folder, &format!("create {vol} --size 8M --code {code}")).status, 0);
    }
    let place = folder.display();
    let path = folder.join("pantile.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    let volumes = format!("[volume.tank]\nfolder = '{place}/tank'\n[volume.pond]\nfolder = '{place}/pond'\n");
    std::fs::write(&path, format!("{text}{volumes}")).expect("it writes");
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
    assert_eq!(at(folder, "fail tank 1").status, 0);
    let run = at(folder, "status --all=pantile.toml");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((run.status, lines[0]), (1, "4 things are wrong with 2 volumes and 1 set:"), "{}", run.stdout);
    assert!(lines[1].contains("tank: Device 1 is lost"), "the worst is first: {}", run.stdout);
    for part in ["Device 1 is lost", "degraded, not served", "clean, not served", "never by --all"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let run = at(folder, "status --all=pantile.toml --json");
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((run.status, json["wrong"].as_array().map(Vec::len)), (1, Some(4)), "{json:#}");
    let tank = json["volumes"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|volume| volume["folder"].as_str().is_some_and(|folder| folder.ends_with("/tank")));
    let tank = tank.expect("it is listed");
    assert_eq!(
        (&tank["served"], &tank["status"]["margin"]["any_more"]),
        (&false.into(), &1.into()),
        "{tank:#}"
    );
    assert_eq!(
        (&json["sets"][0]["sealed"]["status"], json["sets"][0]["verified"].is_null()),
        (&0.into(), true)
    );
    let run = at(folder, "status --all=pantile.toml --html all.html");
    assert_eq!((run.status, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    let page = std::fs::read_to_string(folder.join("all.html")).expect("a page");
    let body = page.split_once("<body>\n").expect("a body").1;
    assert!(body.starts_with("<h1 class=\"bad\">4 things are wrong</h1>"), "{body}");
    assert!(!page.contains("<script") && !page.contains("http://"), "{page}");
    let run = at(folder, "status pond --html pond.html");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(folder.join("pond.html")).expect("a page");
    assert!(page.contains("Nothing is wrong</h1>") && page.contains("1 more device can fail"), "{page}");
    assert_fault(&at(folder, "status --all --lost"), 2, &["--lost"], "status");
}

#[test]
fn numbers_are_served_on_loopback() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let folder = machine(&format!("[monitor]\nlisten = '127.0.0.1:{port}'\n"));
    at(folder.path(), "seal --all=pantile.toml");
    at(folder.path(), "verify --all=pantile.toml");
    let mut monitor = begun_in(folder.path(), "monitor pantile.toml");
    let page = |path: &str| {
        let begun = Instant::now();
        let mut client = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(client) => break client,
                Err(error) if begun.elapsed() > Duration::from_secs(20) => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.write_all(ask.as_bytes()).expect("it writes");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let begun = Instant::now();
    let answer = loop {
        let answer = page("/metrics");
        if answer.contains("pantile_set_seal_status{set=\"pool\"}")
            || begun.elapsed() > Duration::from_secs(20)
        {
            break answer;
        }
    };
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains("pantile_set_seal_status{set=\"pool\"} 0\n"), "{answer}");
    let status = page("/");
    assert!(status.starts_with("HTTP/1.1 200 ") && status.contains("text/html; charset=utf-8"), "{status}");
    assert!(
        status.contains("<h1 class=\"good\">Nothing is wrong</h1>") && status.contains("pool"),
        "{status}"
    );
    assert!(page("/else").starts_with("HTTP/1.1 404 "));
    monitor.kill().expect("it ends");
    monitor.wait().expect("it ends");
}

/// The answer covers the shards of sets, and sets that were never verified.
#[test]
fn a_set_without_shards_or_verification_is_not_well() {
    let folder = machine("");
    let folder = folder.path();
    let place = folder.display();
    let all = format!("--all={place}/pantile.toml");
    let status = || at(folder, "status --all=pantile.toml");
    let says = |run: &Run, text: &str| {
        assert!(run.status == 1 && run.stdout.contains(text), "'{text}' is missing in: {}", run.stdout);
    };
    says(&status(), &format!("pool: The set is not sealed; 'pantile seal {all}' seals it."));
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
    says(&status(), &format!("pool: The set was never verified by '--all'; run 'pantile verify {all}'"));
    assert_eq!(at(folder, "verify --all=pantile.toml").status, 0);
    let run = status();
    assert_eq!(
        (run.status, run.stdout.starts_with("Nothing is wrong with 1 set.")),
        (0, true),
        "{}",
        run.stdout
    );
    assert_eq!(looks(folder), (0, String::new()));

    let shard = folder.join("parity/pool.02.shard");
    let whole = std::fs::read(&shard).expect("a shard");
    std::fs::write(&shard, &whole[..whole.len() / 2]).expect("it writes");
    says(&status(), "pool: 1 of 2 shards are missing or bad: ");
    std::fs::remove_file(&shard).expect("it goes");
    let heal =
        format!("heal {place}/parity --name pool --disk films={place}/films --disk music={place}/music");
    let missing =
        format!("1 of 2 shards are missing or bad: {} (missing); 'pantile {heal}' repairs", shard.display());
    says(&status(), &missing);
    let json: serde_json::Value =
        serde_json::from_str(&at(folder, "status --all=pantile.toml --json").stdout).expect("JSON");
    assert_eq!(
        (&json["sets"][0]["shards"], &json["sets"][0]["bad_shards"][0]["column"]),
        (&2.into(), &2.into())
    );
    // The second look confirms the condition, so it is reported.
    looks(folder);
    let (_, said) = looks(folder);
    assert!(said.contains(&missing), "{said}");
    assert_eq!(at(folder, &heal).status, 0);
    assert_eq!(status().status, 0);
    let (_, said) = looks(folder);
    assert!(said.contains("No longer: 1 of 2 shards"), "{said}");

    std::fs::rename(folder.join("parity"), folder.join("elsewhere")).expect("it is moved");
    std::fs::create_dir(folder.join("parity")).expect("a folder");
    says(&status(), "pool: None of its shards is there: mount their disks");
}

#[test]
fn values_that_no_command_takes_are_named_by_check_config() {
    let folder = machine("[thresholds]\nremoved_max = '5%'\n");
    let folder = folder.path();
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
    assert_eq!(at(folder, "check-config pantile.toml").status, 0);
    let path = folder.join("pantile.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    for (from, to, says) in [
        ("code = 'raid6'", "code = 'raid66:2'", "[set.pool] code: "),
        ("'5%'", "'150%'", "[thresholds] removed_max: expected a number of files"),
        ("beside = true", "beside = true\nexclude = ['']", "[set.pool] exclude: "),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text);
        std::fs::write(&path, wrong).expect("it writes");
        assert_fault(&at(folder, "check-config pantile.toml"), 2, &[says], to);
    }
}

#[test]
fn messages_that_wait_are_counted_by_every_look_at_the_numbers() {
    let folder = machine("[hooks]\ncommand = ['/bin/false']\n");
    let folder = folder.path();
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
    let (status, said) = looks(folder);
    assert!(status == 1 && said.contains("It is tried again"), "{said}");
    let page = at(folder, "monitor pantile.toml --metrics").stdout;
    assert!(page.contains("\npantile_pending_messages 1\n"), "{page}");
}

#[test]
fn one_set_that_fails_does_not_stop_the_others() {
    let folder = machine("");
    let folder = folder.path();
    let place = folder.display();
    let path = folder.join("pantile.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    let gone = format!("[set.gone]\ncode = 'rs:2+1'\npaths = ['{place}/gone']\nout = ['{place}/out']\n");
    std::fs::write(&path, format!("{text}{gone}")).expect("it writes");
    let run = at(folder, "check-config pantile.toml");
    assert_eq!(run.status, 1, "{}", run.stdout);
    assert!(run.stdout.contains(&format!("[set.gone]: {place}/gone is not there.")), "{}", run.stdout);
    let run = at(folder, "seal --all=pantile.toml --quiet");
    assert_eq!(run.status, 2, "--all stands alone: {}", run.stderr);
    let run = at(folder, "seal --all=pantile.toml");
    assert!(run.stderr.contains("seal: 1 of 2 ended with a fault: gone"), "{}", run.stderr);
    assert!(folder.join("parity/pool.02.shard").exists(), "the second was sealed");
    let run = at(folder, "scrub --all=pantile.toml");
    assert_fault(&run, 2, &["has no [volume.NAME]"], "scrub");
}

/// Deleted files beside parity disks that are not mounted would be forgotten by a new set.
#[test]
fn a_set_of_which_no_shard_is_there_is_not_begun_again_by_the_night() {
    let folder = machine("");
    let folder = folder.path();
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
    std::fs::rename(folder.join("parity"), folder.join("unmounted")).expect("moved");
    std::fs::create_dir(folder.join("parity")).expect("a bare mount point");
    let nights = [(); 2].map(|()| at(folder, "seal --all=pantile.toml"));
    for run in &nights {
        assert_eq!(run.status, 3, "{}", run.stderr);
        assert!(run.stderr.contains("is it mounted?"), "{}", run.stderr);
    }
    let [_, run] = nights;
    assert_eq!(std::fs::read_dir(folder.join("parity")).expect("a folder").count(), 0);
    // The printed command begins the set again, and the seals of later nights succeed.
    let command = run.stderr.split("'pantile ").nth(1).and_then(|rest| rest.split("' begins it").next());
    assert_eq!(at(folder, command.expect("a command")).status, 0, "{}", run.stderr);
    assert_eq!(at(folder, "seal --all=pantile.toml").status, 0);
}
