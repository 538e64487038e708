//! A progress bar that only shows up for work that takes a while.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Anything shorter needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// A progress bar and when it started.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    enabled: bool,
    shown: AtomicBool,
}

impl Progress {
    pub(crate) fn new(total: usize, what: &'static str, enabled: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg} {bar:30} {human_pos}/{human_len}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
        bar.set_message(what);
        let enabled = enabled && std::io::stderr().is_terminal();
        Progress { bar, started: Instant::now(), enabled, shown: AtomicBool::new(false) }
    }

    /// Adds `more` to the total.
    pub(crate) fn expect(&self, more: usize) {
        self.bar.inc_length(more as u64);
    }

    /// Counts one more as done.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
        self.show();
    }

    /// Changes the label of the bar.
    pub(crate) fn rename(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Sets the bar to `done` of `total`.
    pub(crate) fn reach(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.show();
    }

    fn show(&self) {
        if self.enabled && self.started.elapsed() > PATIENCE && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
