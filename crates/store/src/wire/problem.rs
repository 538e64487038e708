//! Problems that a check found, and documents that could not be read.

use annals_core::id::{Millis, SessionId};
use serde::Serialize;

use super::OperationEffect;
use crate::home::Quarantined;
use crate::ops::{self, LeftReason};
use crate::problem;

/// The result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport<'a> {
    /// The problems; empty if none were found. With `--fix`, those that are left.
    pub problems: Vec<Problem<'a>>,
    /// What `--fix` did. The field is left out without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<FixReport>,
}

/// Turns that were interrupted, and what was done about them.
#[derive(Debug, Clone, Serialize)]
pub struct FixReport {
    /// Turns that were closed.
    pub closed: Vec<ClosedTurn>,
    /// Turns that were left as they are.
    pub left: Vec<LeftTurn>,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
}

/// The interrupted turns of a session that were closed in one home.
#[derive(Debug, Clone, Serialize)]
pub struct ClosedTurn {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The home or store.
    pub home: String,
    /// Number of answers that got an end.
    pub answers: usize,
    /// Number of tool calls that got an end.
    pub calls: usize,
}

/// The interrupted turns of a session that were not closed in one home.
#[derive(Debug, Clone, Serialize)]
pub struct LeftTurn {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The home or store.
    pub home: String,
    /// Why not: `held` by a writer, changed in the last ten minutes (`recent`), or `refused` by the home.
    pub reason: &'static str,
    /// The reason in words.
    pub detail: String,
    /// When the session last changed; `null` if that is not the reason.
    pub changed: Option<Millis>,
}

impl From<&ops::Fixed> for FixReport {
    fn from(fixed: &ops::Fixed) -> FixReport {
        let closed = fixed.closed.iter().map(|turn| ClosedTurn {
            session_id: turn.session.to_string(),
            home: turn.place.clone(),
            answers: turn.answers,
            calls: turn.calls,
        });
        let left = fixed.left.iter().map(|turn| LeftTurn {
            session_id: turn.session.to_string(),
            home: turn.place.clone(),
            reason: match turn.reason {
                LeftReason::Held(_) => "held",
                LeftReason::Recent(_) => "recent",
                LeftReason::Refused(_) => "refused",
            },
            detail: turn.reason.to_string(),
            changed: match turn.reason {
                LeftReason::Recent(changed) => Some(changed),
                _ => None,
            },
        });
        FixReport { closed: closed.collect(), left: left.collect(), effect: (&fixed.report).into() }
    }
}

/// Something that is wrong in a home or in the store.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Problem<'a> {
    /// Kind of the problem.
    pub kind: &'static str,
    /// The file or row that has the problem.
    pub path: &'a str,
    /// Id of the document that has the problem.
    pub id: Option<&'a str>,
    /// What is wrong, in words.
    pub detail: &'a str,
    /// What can be done about it, in words.
    pub repair: &'static str,
    /// The session that the document belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: Option<&'a str>,
    /// The home or store that has the problem.
    pub home: &'a str,
    /// How bad it is: `error` (something cannot be read, or OpenCode fails on it), `warning`, or `note` (remains of something that was
    /// interrupted or deleted). Notes alone do not change the exit code.
    pub severity: &'static str,
}

impl<'a> Problem<'a> {
    /// A problem of a home.
    pub fn of(problem: &'a problem::Problem, home: &'a str) -> Problem<'a> {
        Problem {
            kind: problem.kind.name(),
            path: &problem.place,
            id: problem.id.as_deref(),
            detail: &problem.detail,
            repair: problem.kind.repair(),
            session_id: problem.session.as_ref().map(SessionId::as_str),
            home,
            severity: problem.kind.severity().name(),
        }
    }
}

/// Documents that could not be read, one text each: the place and the reason. `line` makes a text safe to show.
pub(super) fn texts(quarantined: &[Quarantined], line: impl Fn(&str) -> String) -> Vec<String> {
    quarantined.iter().map(|quarantined| line(&quarantined.to_string())).collect()
}
