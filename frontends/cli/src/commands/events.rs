//! `pantile events`: prints the events of a volume.

use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::sets;
use crate::terminal::{print, print_json};
use crate::volumes;
use clap::Args;
use pantile_host::{EventReport, when};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Time between two looks of --follow.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Print the events of a volume: losses, rebuilds, scrubs, and when
///
/// Answers: what happened to it, also before the last restart? The devices keep the events, the
/// latest some hundred; nothing is written. 'pantile status VOL --events' prints the same.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile events /srv/tank
  pantile events /srv/tank --follow         go on with each new event until Ctrl-C
  pantile events /srv/tank --json | jq -r '.events[] | select(.device == 2) | .text'")]
pub struct Events {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// Go on with each new event until Ctrl-C.
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct EventsJson {
    output_version: u32,
    events: Vec<EventReport>,
}

impl Events {
    pub fn run(self) -> Outcome {
        let reached = volumes::look(&self.folder)?;
        let (report, served) = (reached.status(), reached.is_served());
        let ended = reached.end();
        let events = report?.events;
        ended?;
        if self.json {
            print_json(&EventsJson { output_version: OUTPUT_VERSION, events })?;
            return Ok(Verdict::Good);
        }
        if self.follow && !served {
            return Err(Failure::Input(format!(
                "--follow: nothing happens to a volume that is not served; 'pantile serve {}' serves it",
                sets::quoted(&self.folder)
            )));
        }
        print(&text(&events))?;
        match self.follow {
            true => self.follow(events),
            false => Ok(Verdict::Good),
        }
    }

    fn follow(&self, mut known: Vec<EventReport>) -> Outcome {
        interrupt::listen();
        loop {
            std::thread::sleep(LOOK_EVERY);
            if interrupt::asked() {
                return Ok(Verdict::Good);
            }
            let reached = volumes::look(&self.folder)?;
            let report = reached.status();
            reached.end()?;
            let events = report?.events;
            print(&text(new(&known, &events)))?;
            known = events;
        }
    }
}

/// Returns the events after the last known one; the oldest can be forgotten meanwhile.
fn new<'e>(known: &[EventReport], events: &'e [EventReport]) -> &'e [EventReport] {
    let last = known.last().and_then(|last| events.iter().rposition(|event| event == last));
    &events[last.map_or(0, |last| last + 1)..]
}

/// Returns a line for each event.
pub fn text(events: &[EventReport]) -> String {
    events.iter().map(|event| format!("{}  {}\n", when(event.at), sets::name(&event.text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_followed_once() {
        let event = |at: i64| EventReport { at, text: "A scrub began.".into(), device: None, path: None };
        let events: Vec<EventReport> = [1, 2, 3].map(event).into();
        assert_eq!(new(&events[..2], &events), &events[2..]);
        assert_eq!(new(&events, &events), []);
        assert_eq!(new(&[], &events), events);
        assert_eq!(new(&[event(1), event(2)], &events[1..]), &events[2..], "the oldest was forgotten");
    }
}
