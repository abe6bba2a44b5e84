//! Progress of the commands on sealed sets, by phase.

use super::bytes;
use crate::failure::note;
use crate::interrupt;
use crate::progress::{LIVE_TICK, Last, Speaker};
use crate::terminal::Terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pantile_seal::Progress;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Shows phases: a bar on a terminal, else a line for each on standard error, and another one after
/// two silent seconds.
pub struct Shown {
    lively: Lively,
}

enum Lively {
    Nothing,
    Bar(ProgressBar),
    Lines { phase: Arc<Mutex<Phase>>, speaker: Option<Speaker> },
}

/// A phase of the work, and the time of its last line.
struct Phase {
    name: &'static str,
    of: u64,
    done: u64,
    said: Instant,
}

impl Phase {
    fn line(&self) -> String {
        match self.of {
            0 => format!("{} ...", self.name),
            of => {
                let done = self.done.min(of);
                let percent = 100.0 * done as f64 / of as f64;
                format!("{}: {} of {}, {percent:.0} %", self.name, bytes(done), bytes(of))
            }
        }
    }
}

/// Text before the first phase, while sources are listed and shards opened.
const BEFORE: &str = "looking at what is there";
const SILENT_MOST: Duration = Duration::from_secs(2);

impl Shown {
    /// Begins the progress of a command unless it is quiet.
    pub fn unless(quiet: bool, terminal: &Terminal) -> Shown {
        interrupt::listen();
        match quiet {
            true => Shown { lively: Lively::Nothing },
            false => Shown::new(terminal),
        }
    }

    fn new(terminal: &Terminal) -> Shown {
        let lively = match terminal.progress {
            true => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                restyle(&bar, "{msg:24} {elapsed}");
                bar.set_message(BEFORE);
                bar.enable_steady_tick(LIVE_TICK);
                Lively::Bar(bar)
            }
            false => {
                let phase = Phase { name: BEFORE, of: 0, done: 0, said: Instant::now() };
                let phase = Arc::new(Mutex::new(phase));
                let speaker = Some(Speaker::start(SILENT_MOST, speak(Arc::clone(&phase))));
                Lively::Lines { phase, speaker }
            }
        };
        Shown { lively }
    }

    /// Ends the output of progress.
    pub fn end(&mut self) {
        match &mut self.lively {
            Lively::Nothing => {}
            Lively::Bar(bar) => bar.finish_and_clear(),
            Lively::Lines { speaker, .. } => drop(speaker.take()),
        }
    }
}

/// Prints the progress of a phase from a thread, after every two silent seconds.
fn speak(phase: Arc<Mutex<Phase>>) -> impl FnMut() -> Duration + Send + 'static {
    let mut last = Last::default();
    move || {
        let mut phase = phase.lock().unwrap_or_else(|e| e.into_inner());
        let silent = phase.said.elapsed();
        if silent >= SILENT_MOST {
            let line = phase.line();
            last.is_new(&line).then(|| note(&line));
            phase.said = Instant::now();
        }
        SILENT_MOST.saturating_sub(phase.said.elapsed())
    }
}

fn restyle(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

impl Progress for Shown {
    fn phase(&mut self, name: &'static str, total_bytes: u64) {
        match &self.lively {
            Lively::Nothing => {}
            Lively::Bar(bar) => {
                // The length is set before the style that shows it, so that no other phase's length
                // appears.
                if total_bytes > 0 {
                    bar.set_length(total_bytes);
                }
                bar.set_position(0);
                restyle(
                    bar,
                    match total_bytes {
                        0 => "{msg:24} {elapsed}",
                        _ => {
                            "{msg:24} {bar:32} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
                        }
                    },
                );
                bar.set_message(name);
                bar.reset_eta();
            }
            Lively::Lines { phase, .. } => {
                let mut phase = phase.lock().unwrap_or_else(|e| e.into_inner());
                match total_bytes {
                    0 => note(name),
                    _ => note(&format!("{name}, {}", bytes(total_bytes))),
                }
                *phase = Phase { name, of: total_bytes, done: 0, said: Instant::now() };
            }
        }
    }

    fn advance(&mut self, bytes: u64) {
        match &self.lively {
            Lively::Nothing => {}
            Lively::Bar(bar) => bar.inc(bytes),
            Lively::Lines { phase, .. } => phase.lock().unwrap_or_else(|e| e.into_inner()).done += bytes,
        }
    }

    fn warn(&self, text: &str) {
        match &self.lively {
            Lively::Nothing => {}
            Lively::Bar(bar) => bar.suspend(|| note(&format!("warning: {text}"))),
            Lively::Lines { .. } => note(&format!("warning: {text}")),
        }
    }

    fn cancelled(&self) -> bool {
        interrupt::asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_silent_for_two_seconds_at_most() {
        let Some(long_ago) = Instant::now().checked_sub(SILENT_MOST) else { return };
        let phase = Phase { name: "sealing", of: 4 << 20, done: 1 << 20, said: long_ago };
        assert_eq!(phase.line(), "sealing: 1.00 MiB of 4.00 MiB, 25 %");
        let phase = Arc::new(Mutex::new(phase));
        let mut speak = speak(Arc::clone(&phase));
        let pause = speak();
        assert!(pause <= SILENT_MOST && pause > SILENT_MOST / 2, "{pause:?}");
        assert!(phase.lock().unwrap().said > long_ago, "it was said");
        let said = phase.lock().unwrap().said;
        assert!(speak() <= SILENT_MOST && phase.lock().unwrap().said == said, "it was said just now");
        let before = Phase { name: "syncing", of: 0, done: 0, said: Instant::now() };
        assert_eq!(before.line(), "syncing ...");
    }
}
