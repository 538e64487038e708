//! Reports of a copy and of an import.

use std::collections::BTreeMap;

use annals_core::id::{ProjectId, SessionId};
use serde::Serialize;

use crate::copy::{self, Tally};
use crate::import;
use crate::ops::Report;
use crate::wire::document::DifferingDocument;
use crate::wire::operation::OperationEffect;
use crate::wire::problem;

/// The report of a copy that was made, or would be.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyReport<'a> {
    /// Number of documents in the source: `copied`, `unchanged`, `quarantined` and the length of `differing` together.
    pub seen: usize,
    /// Number of documents written, or that would be.
    pub copied: usize,
    /// Number of documents that the target had already, or has a newer version of.
    pub unchanged: usize,
    /// Number of documents that could not be read or stored.
    pub quarantined: usize,
    /// Counts of sessions.
    pub sessions: CopyTally,
    /// Whether nothing was written because of `--dry-run`.
    pub dry_run: bool,
    /// Number of documents that were adapted to what OpenCode 1.18 requires.
    pub completed: usize,
    /// Number of messages that came from OpenCode's second transcript store.
    pub converted: usize,
    /// Ids of sessions that were used more recently in the target, and left alone.
    pub newer_in_target: Vec<&'a str>,
    /// Number of messages that only the target has.
    pub only_in_target: usize,
    /// Fields that the target cannot hold, and how often each occurred.
    pub lost: &'a BTreeMap<String, usize>,
    /// Kinds of documents that the target cannot hold, and the number of each. These are not in `seen`.
    pub not_held: &'a BTreeMap<&'static str, usize>,
    /// Ids of projects that have another id in the target, each with that id.
    pub refiled: BTreeMap<&'a str, &'a str>,
    /// Number of files of long tool output that were copied.
    pub tool_outputs: usize,
    /// Number of files of long tool output that were left behind.
    pub tool_outputs_left: usize,
    /// Documents that could not be read or stored, one text each.
    pub problems: Vec<String>,
    /// Documents that differ; the target kept its own version. They are not failures.
    pub differing: Vec<DifferingDocument<'a>>,
    /// The sessions of which something was copied, or would be.
    pub copied_sessions: Vec<CopiedSession<'a>>,
    /// Other files that were written.
    pub files: Vec<String>,
    /// Number of the operation, which `annals undo` takes; `null` if nothing had to be changed or no store records it.
    pub operation: Option<i64>,
}

/// Counts of the sessions in a copy.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CopyTally {
    /// Number of sessions in the source: the sum of the other four.
    pub seen: usize,
    /// Number of sessions of which something was copied, or would be.
    pub copied: usize,
    /// Number of sessions that the target had already, or has in a newer state.
    pub unchanged: usize,
    /// Number of sessions with documents that differ, and nothing else to copy.
    pub differing: usize,
    /// Number of sessions that could not be copied at all.
    pub quarantined: usize,
}

/// A session of which something was copied.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CopiedSession<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// Title of the session in the source.
    pub title: &'a str,
}

impl<'a> CopyReport<'a> {
    /// The report of a copy as this operation. `line` makes a text safe to show.
    pub fn of(
        account: &'a copy::CopyOutcome,
        is_dry_run: bool,
        operation: Option<i64>,
        line: impl Fn(&str) -> String,
    ) -> CopyReport<'a> {
        let Tally { seen, copied, unchanged, quarantined, .. } = account.documents;
        let refiled = |(from, to): (&'a ProjectId, &'a ProjectId)| (from.as_str(), to.as_str());
        CopyReport {
            seen,
            copied,
            unchanged,
            quarantined,
            sessions: account.sessions.into(),
            dry_run: is_dry_run,
            completed: account.completed.len(),
            converted: account.converted,
            newer_in_target: account.newer_in_target.iter().map(SessionId::as_str).collect(),
            only_in_target: account.only_in_target,
            lost: &account.lost,
            not_held: &account.not_held,
            refiled: account.refiled.iter().map(refiled).collect(),
            tool_outputs: account.tool_outputs,
            tool_outputs_left: account.tool_outputs_left,
            problems: problem::texts(&account.quarantined, line),
            differing: account.differing.iter().map(DifferingDocument::from).collect(),
            copied_sessions: account.copied.iter().map(CopiedSession::from).collect(),
            files: account.files.iter().map(|path| path.display().to_string()).collect(),
            operation,
        }
    }
}

impl From<Tally> for CopyTally {
    fn from(Tally { seen, copied, unchanged, differing, quarantined }: Tally) -> CopyTally {
        CopyTally { seen, copied, unchanged, differing, quarantined }
    }
}

impl<'a> From<&'a copy::CopiedSession> for CopiedSession<'a> {
    fn from(session: &'a copy::CopiedSession) -> CopiedSession<'a> {
        CopiedSession { id: session.id.as_str(), title: &session.title }
    }
}

/// The report of an import.
#[derive(Debug, Clone, Serialize)]
pub struct ImportReport<'a> {
    /// Number of documents in the file: `imported`, `unchanged`, `quarantined` and the length of `differing` together.
    pub seen: usize,
    /// Number of documents written.
    pub imported: usize,
    /// Number of documents that were there already, or of which the home has a newer version.
    pub unchanged: usize,
    /// Always 0: an import is checked as a whole before anything is written.
    pub quarantined: usize,
    /// Ids of the sessions in the file.
    pub sessions: Vec<&'a str>,
    /// Number of documents that were adapted to what OpenCode 1.18 requires.
    pub completed: usize,
    /// What was done.
    #[serde(flatten)]
    pub effect: OperationEffect,
    /// Documents that differ; the home kept its own version. They are not failures.
    pub differing: Vec<DifferingDocument<'a>>,
}

impl<'a> ImportReport<'a> {
    /// The report of an import as an operation.
    pub fn of(account: &'a import::ImportOutcome, report: &Report) -> ImportReport<'a> {
        ImportReport {
            seen: account.seen,
            imported: account.imported,
            unchanged: account.unchanged,
            quarantined: 0,
            sessions: account.sessions.iter().map(SessionId::as_str).collect(),
            completed: account.completed,
            effect: report.into(),
            differing: account.differing.iter().map(DifferingDocument::from).collect(),
        }
    }
}
