//! What a long run says on standard error while it works: a live line on a terminal, else a line every few seconds.
//!
//! A short run says nothing. The line comes from a thread of its own, so that a computation that reports rarely is not
//! silent for long.

use crate::terminal::Terminal;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Where there is no terminal: when the first line comes, and when the others.
const FIRST_LINE: Duration = Duration::from_secs(1);
const NEXT_LINES: Duration = Duration::from_secs(5);
const LIVE_TICK: Duration = Duration::from_millis(200);

/// Speaks until it is dropped.
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
    Live(ProgressBar),
    Lines { end: Option<Sender<()>>, thread: Option<JoinHandle<()>> },
}

impl Progress {
    /// Says `message` until it is told more.
    pub fn start(terminal: &Terminal, message: impl Into<String>) -> Progress {
        let state = Arc::new(Mutex::new(State { message: message.into(), ..State::default() }));
        let shown = match terminal.progress {
            true => Shown::Live(live(&state)),
            false => lines(Arc::clone(&state)),
        };
        Progress { state, shown }
    }

    /// What is done, and how far.
    pub fn set(&self, message: impl Into<String>, unit: &'static str, done: u64, of: u64) {
        let message = message.into();
        if let Shown::Live(bar) = &self.shown {
            if bar.length().is_none() {
                bar.set_style(style("{msg} {bar:20} {human_pos} of {human_len} {prefix}, {eta} left"));
                bar.set_prefix(unit);
            }
            // What is shown changes with the tick; drawing at each report would cost more than what is reported.
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
        match &mut self.shown {
            Shown::Live(bar) => bar.finish_and_clear(),
            Shown::Lines { end, thread } => {
                drop(end.take());
                // The thread only prints; that it could have failed at that is no matter here.
                thread.take().map(JoinHandle::join);
            }
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn live(state: &Mutex<State>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{msg}, {elapsed}"));
    bar.set_message(state.lock().unwrap_or_else(|e| e.into_inner()).message.clone());
    bar.enable_steady_tick(LIVE_TICK);
    bar
}

fn lines(state: Arc<Mutex<State>>) -> Shown {
    let (end, ended) = channel::<()>();
    let speak = move || {
        let mut pause = FIRST_LINE;
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            crate::failure::note(&line(&state.lock().unwrap_or_else(|e| e.into_inner())));
            pause = NEXT_LINES;
        }
    };
    // Without a thread there are no lines, and the run goes on.
    let thread = std::thread::Builder::new().spawn(speak).ok();
    Shown::Lines { end: Some(end), thread }
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
    fn a_line_says_what_and_how_far() {
        let state = State { message: "counting".into(), unit: "sets", done: 250_000, of: 1_000_000 };
        assert_eq!(line(&state), "counting: 250,000 of 1,000,000 sets, 25 %");
        assert_eq!(line(&State { message: "planning".into(), ..State::default() }), "planning ...");
    }
}
