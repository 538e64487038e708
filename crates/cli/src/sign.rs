//! Signs: one symbol for each state of a session, with one meaning everywhere.

use annals::interrupted::STILL_RUNNING;
use annals::summary::{SessionState, SessionSummary};

use crate::output::Painter;

/// What the symbols on the screens mean, for the help of commands that show them.
pub(crate) const LEGEND: &str = "\
Symbols:
  ✓ done   ✗ failed   ● at work   ◌ unfinished: interrupted, or it has not ended
  ↳ started by another session   ∴ reasoning   … something is cut off here";

/// The state of a session, as a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Nothing was asked yet.
    Empty,
    /// The last answer has ended.
    Done,
    /// The last answer ended with an error.
    Failed,
    /// The last answer is being written.
    AtWork,
    /// The last answer has no end, and nobody seems to be writing it.
    Unfinished,
}

impl Sign {
    /// The sign of a session at a time.
    pub(crate) fn of(session: &SessionSummary, now: i64) -> Sign {
        match session.state {
            SessionState::Empty => Sign::Empty,
            SessionState::Done => Sign::Done,
            SessionState::Failed => Sign::Failed,
            SessionState::Open if session.gone.is_some() => Sign::Unfinished,
            SessionState::Open => {
                match session.updated.is_some_and(|updated| now - updated < STILL_RUNNING) {
                    true => Sign::AtWork,
                    false => Sign::Unfinished,
                }
            }
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Sign::Empty => "·",
            Sign::Done => "✓",
            Sign::Failed => "✗",
            Sign::AtWork => "●",
            Sign::Unfinished => "◌",
        }
    }

    /// The symbol in its colour.
    pub(crate) fn painted(self, paint: Painter) -> String {
        match self {
            Sign::Empty => paint.dim(self.symbol()),
            Sign::Done | Sign::AtWork => paint.good(self.symbol()),
            Sign::Failed => paint.bad(self.symbol()),
            Sign::Unfinished => paint.warn(self.symbol()),
        }
    }
}
