//! Progress of a long run on standard error: a live line on a terminal, else a line every few
//! seconds, never the same one twice.
//!
//! A short run prints nothing. A separate thread prints, so that a computation that rarely reports
//! is silent for two seconds at most.

use crate::terminal::Terminal;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time before a terminal shows progress; a short run does not flicker.
const FIRST_LIVE: Duration = Duration::from_millis(500);
/// Without a terminal: time before the first line, and between the others.
const FIRST_LINE: Duration = Duration::from_secs(1);
const NEXT_LINES: Duration = Duration::from_secs(2);
/// Time between two changes on a terminal.
pub const LIVE_TICK: Duration = Duration::from_millis(200);

/// Shows progress until it is dropped.
pub struct Progress {
    state: Arc<Mutex<State>>,
    shown: Shown,
}

#[derive(Default)]
struct State {
    message: String,
    unit: &'static str,
    done: u64,
    of: u64,
}

enum Shown {
    Live { bar: ProgressBar, _speaker: Speaker },
    Lines { _speaker: Speaker },
}

/// A thread that prints at intervals until it is dropped.
pub struct Speaker {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Speaker {
    /// Calls `speak` after `first`, then after each interval that it returns.
    pub fn start(first: Duration, mut speak: impl FnMut() -> Duration + Send + 'static) -> Speaker {
        let (end, ended) = channel::<()>();
        let run = move || {
            let mut pause = first;
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = speak();
            }
        };
        // Without a thread no lines are printed, and the run continues.
        Speaker { end: Some(end), thread: std::thread::Builder::new().spawn(run).ok() }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        drop(self.end.take());
        // The thread only prints; its failure does not matter.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Progress {
    /// Shows `message` until `set` is called.
    pub fn start(terminal: &Terminal, message: impl Into<String>) -> Progress {
        let state = Arc::new(Mutex::new(State { message: message.into(), ..State::default() }));
        let shown = match terminal.progress {
            true => live(&state),
            false => lines(Arc::clone(&state)),
        };
        Progress { state, shown }
    }

    /// Sets the current work and its progress.
    pub fn set(&self, message: impl Into<String>, unit: &'static str, done: u64, of: u64) {
        let message = message.into();
        if let Shown::Live { bar, .. } = &self.shown {
            if bar.length().is_none() {
                bar.set_style(style("{msg} {bar:20} {human_pos} of {human_len} {prefix}, {eta} left"));
                bar.set_prefix(unit);
            }
            // The screen changes with the tick; drawing at each report would cost more than the
            // work itself.
            if bar.message() != message {
                bar.set_message(message.clone());
            }
            bar.update(|state| {
                state.set_len(of);
                state.set_pos(done);
            });
        }
        *self.state.lock().unwrap_or_else(|e| e.into_inner()) = State { message, unit, done, of };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Live { bar, .. } = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn live(state: &Mutex<State>) -> Shown {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(style("{msg}, {elapsed}"));
    bar.set_message(state.lock().unwrap_or_else(|e| e.into_inner()).message.clone());
    let shown = bar.clone();
    let show = move || {
        shown.set_draw_target(ProgressDrawTarget::stderr());
        shown.enable_steady_tick(LIVE_TICK);
        Duration::MAX
    };
    Shown::Live { bar, _speaker: Speaker::start(FIRST_LIVE, show) }
}

fn lines(state: Arc<Mutex<State>>) -> Shown {
    let mut last = Last::default();
    let speak = move || {
        let line = line(&state.lock().unwrap_or_else(|e| e.into_inner()));
        last.is_new(&line).then(|| crate::failure::note(&line));
        NEXT_LINES
    };
    Shown::Lines { _speaker: Speaker::start(FIRST_LINE, speak) }
}

/// The last printed line, so that no line is repeated.
#[derive(Default)]
pub struct Last(String);

impl Last {
    /// True if a line differs from the one before.
    pub fn is_new(&mut self, line: &str) -> bool {
        let is_new = self.0 != line;
        self.0 = line.to_string();
        is_new
    }
}

fn line(state: &State) -> String {
    let State { message, unit, done, of } = state;
    match of {
        0 => format!("{message} ..."),
        _ => {
            let percent = 100.0 * *done as f64 / *of as f64;
            format!("{message}: {} of {} {unit}, {percent:.0} %", HumanCount(*done), HumanCount(*of))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_written_twice_in_a_row() {
        let mut last = Last::default();
        let written = ["a", "a", "b", "a", "a"].map(|line| last.is_new(line));
        assert_eq!(written, [true, false, true, true, false]);
    }

    #[test]
    fn a_line_says_what_and_how_far() {
        let state = State { message: "counting".into(), unit: "sets", done: 250_000, of: 1_000_000 };
        assert_eq!(line(&state), "counting: 250,000 of 1,000,000 sets, 25 %");
        assert_eq!(line(&State { message: "planning".into(), ..State::default() }), "planning ...");
    }
}
