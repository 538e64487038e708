//! Problems that a check found, and documents that could not be read.

use annals_core::id::SessionId;
use serde::Serialize;

use crate::home::Quarantined;
use crate::problem;

/// The result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport<'a> {
    /// The problems; empty if none were found.
    pub problems: Vec<Problem<'a>>,
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
        }
    }
}

/// Documents that could not be read, one text each: the place and the reason. `line` makes a text safe to show.
pub(super) fn texts(quarantined: &[Quarantined], line: impl Fn(&str) -> String) -> Vec<String> {
    quarantined.iter().map(|quarantined| line(&quarantined.to_string())).collect()
}
