//! Delivery of messages by installed programs: `sendmail`, `curl` for SMTP and webhooks, and the
//! user's own. Each has a time limit, so that a server that hangs delays nothing else.

use crate::json::OUTPUT_VERSION;
use crate::machine::conditions::{Change, Memory};
use crate::machine::config::{Config, Mail};
use serde::Serialize;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Most changes that wait for a channel; older ones are dropped.
const PENDING_MOST: usize = 1000;

/// Most changes that one mail lists.
const LINES_MOST: usize = 100;

/// A channel of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Mail,
    Command,
    Webhook,
}

#[derive(Serialize)]
struct MessageJson<'m> {
    output_version: u32,
    host: &'m str,
    /// The complete text, in the field that chat servers show.
    text: &'m str,
    changes: &'m [Change],
}

/// Returns the channels of a configuration.
pub fn channels(config: &Config) -> Vec<Channel> {
    let mut all = Vec::new();
    all.extend(config.mail.is_some().then_some(Channel::Mail));
    all.extend((!config.hooks.command.is_empty()).then_some(Channel::Command));
    all.extend(config.hooks.webhook.is_some().then_some(Channel::Webhook));
    all
}

/// Adds changes to those that wait for each channel, and delivers them. A channel that fails keeps
/// its changes for the next run. Returns the reason of each failure.
pub fn deliver(memory: &mut Memory, config: &Config, changes: &[Change]) -> Vec<String> {
    let channels = channels(config);
    memory.pending.retain(|name, _| channels.iter().any(|channel| channel.name() == name));
    let mut failed = Vec::new();
    for channel in channels {
        let pending = memory.pending.entry(channel.name().into()).or_default();
        pending.extend_from_slice(changes);
        pending.drain(..pending.len().saturating_sub(PENDING_MOST));
        if pending.is_empty() {
            continue;
        }
        match channel.send(config, pending) {
            Ok(()) => pending.clear(),
            Err(why) => failed.push(format!("{}: {why} It is tried again.", channel.name())),
        }
    }
    failed
}

impl Channel {
    pub fn name(self) -> &'static str {
        match self {
            Channel::Mail => "mail",
            Channel::Command => "command",
            Channel::Webhook => "webhook",
        }
    }

    /// Sends changes as one message. Errors: the program's message.
    pub fn send(self, config: &Config, changes: &[Change]) -> Result<(), String> {
        let (host, patience) = (host(), Duration::from_secs(config.monitor.patience));
        let text = text(changes, &config.all_word());
        let message = MessageJson { output_version: OUTPUT_VERSION, host: &host, text: &text, changes };
        match (self, &config.mail) {
            (Channel::Mail, Some(mail)) => {
                send_mail(mail, &host, (&subject(&host, changes), &text), patience)
            }
            (Channel::Mail, None) => Ok(()),
            (Channel::Command, _) => {
                let Some((program, arguments)) = config.hooks.command.split_first() else { return Ok(()) };
                run(Command::new(program).args(arguments), crate::json::text(&message).as_bytes(), patience)
            }
            (Channel::Webhook, _) => {
                let url = config.hooks.webhook.as_deref().unwrap_or_default();
                // The URL can hold a secret, so it is in curl's configuration, not in its
                // arguments.
                let lines = format!(
                    "url = {}\nheader = \"Content-Type: application/json\"\ndata-raw = {}\n",
                    quoted(url),
                    quoted(&crate::json::text(&message))
                );
                run(curl().args(["--fail", "--config", "-"]), lines.as_bytes(), patience)
            }
        }
    }
}

fn curl() -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--disable", "--silent", "--show-error", "--output", "/dev/null"]);
    curl
}

/// Returns a text in the syntax of curl's configuration.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn send_mail(
    mail: &Mail,
    host: &str,
    (subject, text): (&str, &str),
    patience: Duration,
) -> Result<(), String> {
    let from = mail.from.clone().unwrap_or_else(|| format!("pantile@{host}"));
    let date =
        Command::new("date").arg("-R").output().ok().and_then(|said| String::from_utf8(said.stdout).ok());
    let date = date.map(|date| format!("Date: {}\r\n", date.trim())).unwrap_or_default();
    let body = text.replace('\n', "\r\n");
    let letter = format!(
        "From: {from}\r\nTo: {}\r\n{date}Subject: {subject}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; \
         charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\nAuto-Submitted: auto-generated\r\n\r\n{body}",
        mail.to.join(", ")
    );
    let Some(server) = &mail.smtp else {
        let sendmail = ["/usr/sbin/sendmail", "/usr/lib/sendmail", "/usr/bin/sendmail"];
        let found = sendmail.iter().find(|path| Path::new(path).exists()).ok_or(
            "no sendmail is installed; install one (Debian: apt-get install msmtp-mta), or give smtp = \"smtp://HOST\".",
        )?;
        return run(
            Command::new(found).args(["-oi", "-t"]),
            letter.replace("\r\n", "\n").as_bytes(),
            patience,
        );
    };
    let mut curl = curl();
    curl.args(["--url", server, "--mail-from", &from, "--upload-file", "-"]);
    mail.to.iter().for_each(|to| {
        curl.args(["--mail-rcpt", to]);
    });
    if let Some(netrc) = &mail.netrc {
        curl.arg("--netrc-file").arg(netrc).arg("--ssl");
    }
    run(&mut curl, letter.as_bytes(), patience)
}

fn subject(host: &str, changes: &[Change]) -> String {
    let is_wrong = |change: &&Change| change.is == "wrong";
    let Some(first) = changes.iter().find(is_wrong).or(changes.first()) else {
        return format!("{host}: pantile");
    };
    let short: String = first.text.chars().filter(|c| c.is_ascii() && !c.is_control()).take(80).collect();
    let about: String = first.about.chars().filter(|c| c.is_ascii_graphic()).take(60).collect();
    match changes.len() {
        1 => format!("{host}: pantile {about}: {short}"),
        more => format!("{host}: pantile {about}: {short} (and {} more)", more - 1),
    }
}

/// Returns a message; `all` is the option by which commands work on everything that is watched.
fn text(changes: &[Change], all: &str) -> String {
    let line = |change: &Change| {
        let when = pantile_host::when(i64::try_from(change.at).unwrap_or(0));
        format!("{when}  {}: {}\n", crate::sets::name(&change.about), crate::sets::name(&change.text))
    };
    let mut out: String = changes.iter().take(LINES_MOST).map(line).collect();
    if changes.len() > LINES_MOST {
        out.push_str(&format!(
            "... and {} more; 'pantile status {all}' has what is wrong now.\n",
            changes.len() - LINES_MOST
        ));
    }
    out
}

/// Returns the name of this machine.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).collect();
    if plain.is_empty() { "localhost".into() } else { plain }
}

/// Runs a program with a text as its input, and kills it with its children when its time is over.
fn run(command: &mut Command, input: &[u8], patience: Duration) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let begun =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0).spawn();
    let mut child = begun.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{program} is not installed."),
        _ => format!("cannot start {program}: {error}."),
    })?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let input = input.to_vec();
    // Both threads end with the program: the pipe then has no reader, or no writer.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stderr.map(|stderr| stderr.take(4096).read_to_end(&mut said));
        String::from_utf8_lossy(&said).into_owned()
    });
    let status = wait(&mut child, patience)?;
    let Some(status) = status else {
        end_group(child.id());
        let _ = child.wait();
        return Err(format!("{program} took longer than {} s.", patience.as_secs()));
    };
    if status.success() {
        return Ok(());
    }
    // A child that still runs can hold the pipe open.
    end_group(child.id());
    let said = said.join().unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("{program} failed: {}.", last.trim().trim_end_matches('.')))
}

fn wait(child: &mut Child, patience: Duration) -> Result<Option<std::process::ExitStatus>, String> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(Some(status)),
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(format!("cannot wait for a program: {error}.")),
        }
    }
    Ok(None)
}

/// Kills the process group of a child.
pub fn end_group(process: u32) {
    let group = format!("-{process}");
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Change {
        Change { at: 1, about: "/srv/tank".into(), is: "wrong".into(), text: text.into() }
    }

    #[test]
    fn a_channel_that_fails_keeps_its_changes_and_sends_them_with_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("there/message");
        let script = format!("cat >{}", place.display());
        let mut config = Config::default();
        config.hooks.command = ["sh", "-c", &script].map(String::from).into();
        let mut memory = Memory::default();
        let failed = deliver(&mut memory, &config, &[change("Device 1 is lost.")]);
        assert_eq!((failed.len(), memory.pending["command"].len()), (1, 1), "{failed:?}");
        std::fs::create_dir(folder.path().join("there")).expect("a folder");
        assert_eq!(deliver(&mut memory, &config, &[change("Device 2 is lost.")]), Vec::<String>::new());
        assert_eq!(memory.pending["command"], []);
        let message: serde_json::Value =
            serde_json::from_slice(&std::fs::read(place).expect("a message")).expect("JSON");
        let texts: Vec<_> =
            message["changes"].as_array().expect("a list").iter().map(|c| &c["text"]).collect();
        assert_eq!(texts, ["Device 1 is lost.", "Device 2 is lost."]);
    }

    #[test]
    fn no_text_ends_a_header_or_a_line_of_curls_configuration() {
        let odd = change("a\r\nBcc: x@example.org\u{e9}");
        assert_eq!(subject("h", &[odd]), "h: pantile /srv/tank: aBcc: x@example.org");
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
