//! `pantile monitor`: watches volumes and sets, and reports each change once.

use crate::failure::{Failure, Outcome, Verdict, note};
use crate::interrupt;
use crate::machine::all::now;
use crate::machine::conditions::{Change, Memory, conditions, watched};
use crate::machine::config::Config;
use crate::machine::look::KnownShards;
use crate::machine::{deliver, look, metrics, page};
use crate::sets;
use crate::terminal::print;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Watch volumes and sets, and report faults and repairs
///
/// Answers: who notices when a disk dies at night? Checks the volumes of the configuration, the
/// attached volumes, and the last runs of 'seal --all' and 'verify --all'. Each change is printed
/// and sent once: by mail, to a program, to a webhook. Undelivered messages are sent later. With
/// 'listen' a status page is served at /, and the numbers for Prometheus at /metrics. Without a
/// configuration, attached volumes are watched and changes are printed.
#[derive(Args)]
#[command(after_long_help = "\
Mail leaves by the machine's sendmail, or by curl to an SMTP server; webhooks leave by curl. 'pantile check-config --help' \
shows a configuration.
Exit status: of --once 0 nothing is wrong, 1 something is.

Examples:
  systemctl enable --now pantile-monitor
  pantile monitor --once                    look once, say what changed since the last look, and end
  pantile monitor --test                    send a test message by every channel")]
pub struct Monitor {
    /// The configuration; /etc/pantile/pantile.toml unless given.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Look once and end, for cron.
    #[arg(long)]
    once: bool,
    /// Send a test message by every channel and end.
    #[arg(long, conflicts_with = "once")]
    test: bool,
    /// Print the text for Prometheus and end; nothing is sent or remembered.
    #[arg(long, conflicts_with_all = ["once", "test"])]
    metrics: bool,
}

impl Monitor {
    pub fn run(self) -> Outcome {
        let config = Config::load_or_default(self.config.as_deref())?;
        if self.test {
            return test(&config);
        }
        if self.metrics {
            let pending = Memory::read(&memory_of(&config)).undelivered();
            print(&metrics::text(&look::look(&config, &mut KnownShards::default()), pending))?;
            return Ok(Verdict::Good);
        }
        interrupt::listen();
        let path = memory_of(&config);
        let mut memory = Memory::read(&path);
        let pages = Arc::new(Mutex::new(Pages::default()));
        if let Some(listen) = config.monitor.listen.filter(|_| !self.once) {
            serve(listen, Arc::clone(&pages))?;
        }
        let mut known_shards = KnownShards::default();
        let mut failed_before: Vec<String> = Vec::new();
        loop {
            let begun = Instant::now();
            let looked = look::look(&config, &mut known_shards);
            let wrong = conditions(&looked, &config.thresholds);
            let status = page::text(&looked, &wrong, Some(config.monitor.every));
            let known = memory.clone();
            let changes = memory.take(looked.at, wrong, &watched(&looked));
            let line =
                |change: &Change| format!("{}: {}\n", sets::name(&change.about), sets::name(&change.text));
            print(&changes.iter().map(line).collect::<String>())?;
            let publish = |memory: &Memory| {
                let metrics = metrics::text(&looked, memory.undelivered());
                *pages.lock().unwrap_or_else(PoisonError::into_inner) =
                    Pages { status: status.clone(), metrics };
            };
            publish(&memory);
            let failed = deliver::deliver(&mut memory, &config, &changes);
            failed.iter().filter(|why| !failed_before.contains(why)).for_each(|why| note(why));
            publish(&memory);
            if !changes.is_empty() || memory != known || !path.exists() {
                memory.write(&path)?;
            }
            if self.once {
                let is_well = memory.reported.is_empty() && failed.is_empty();
                return Ok(if is_well { Verdict::Good } else { Verdict::Bad });
            }
            failed_before = failed;
            let every = Duration::from_secs(config.monitor.every);
            while begun.elapsed() < every {
                if interrupt::asked() {
                    return Ok(Verdict::Good);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Returns the file of what was reported, and of messages that are not delivered yet.
fn memory_of(config: &Config) -> PathBuf {
    config.state.join("monitor.json")
}

fn test(config: &Config) -> Outcome {
    let text = "This is a test of 'pantile monitor --test'; nothing is wrong.".into();
    let change = Change { at: now(), about: "monitor".into(), is: "test".into(), text };
    let channels = deliver::channels(config);
    if channels.is_empty() {
        return Err(Failure::Input(
            "the configuration has no [mail] and no [hooks]; 'pantile check-config --help' shows both."
                .into(),
        ));
    }
    let mut failed = 0;
    for channel in channels {
        match channel.send(config, std::slice::from_ref(&change)) {
            Ok(()) => print(&format!("{}: sent\n", channel.name()))?,
            Err(why) => {
                failed += 1;
                print(&format!("{}: not sent: {}\n", channel.name(), sets::name(&why)))?;
            }
        }
    }
    match failed {
        0 => Ok(Verdict::Good),
        _ => Err(Failure::System("a test message could not be sent.".into())),
    }
}

/// The pages at `/` and at `/metrics`.
#[derive(Clone, Default)]
struct Pages {
    status: String,
    metrics: String,
}

/// Serves the pages from a thread, for the life of the process.
fn serve(listen: SocketAddr, pages: Arc<Mutex<Pages>>) -> Result<(), Failure> {
    let server = tiny_http::Server::http(listen).map_err(|error| {
        Failure::System(format!("cannot listen on {listen}: {error}; give another address with 'listen'."))
    })?;
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let Pages { status, metrics } = pages.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (code, kind, text) = match request.url().split('?').next() {
                Some("/") => (200, page::CONTENT_TYPE, status),
                Some("/metrics") => (200, metrics::CONTENT_TYPE, metrics),
                _ => (404, "text/plain", "The status is at /, the numbers are at /metrics.\n".to_string()),
            };
            let mut response = tiny_http::Response::from_string(text).with_status_code(code);
            if let Ok(header) = tiny_http::Header::from_bytes("Content-Type", kind) {
                response.add_header(header);
            }
            // A client that has disconnected gets no answer.
            let _ = request.respond(response);
        }
    });
    Ok(())
}
