//! What can be wrong with a home: the kinds of problems, their names and what would mend them.

use annals_core::id::SessionId;

use crate::record::{Quarantined, ReadError};

/// Something that is not as it should be.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What kind of thing.
    pub kind: ProblemKind,
    /// Path inside the home.
    pub place: String,
    /// Id of the entity, where there is one.
    pub id: Option<String>,
    /// The session it belongs to, where that is known.
    pub session: Option<SessionId>,
    /// What is wrong, in words.
    pub detail: String,
}

/// The kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A document cannot be read.
    Unreadable,
    /// Parts whose message is gone.
    OrphanParts,
    /// Messages whose session is gone.
    OrphanMessages,
    /// A todo list, diff or share whose session is gone.
    OrphanBeside,
    /// A document says it is another than its name says.
    IdMismatch,
    /// A session is filed under another project than it names.
    ProjectMismatch,
    /// A session is filed under several projects.
    DuplicateSession,
    /// A project has sessions but no record.
    MissingProject,
    /// A session or message that another one names does not exist.
    MissingParent,
    /// A tool call that will never end.
    StuckTool,
    /// An answer that was cut short.
    UnfinishedMessage,
    /// A file that is not a document.
    Leftover,
    /// A transaction that could not be finished.
    UnfinishedTransaction,
    /// The database file is damaged.
    Damaged,
    /// A row refers to one that does not exist.
    DanglingRow,
    /// A column holds what makes OpenCode fail.
    BadColumn,
    /// Derived data of the store does not agree with the documents.
    Derived,
    /// The store has two places for one document, so one of them is never seen.
    DuplicateDocument,
    /// A document lacks what the server of OpenCode 1.18 requires, so that it refuses the whole session.
    Unservable,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Something cannot be read, or OpenCode fails on it.
    Error,
    /// Something is not as it should be, and may be in the way.
    Warning,
    /// Remains of something that was interrupted or deleted. Nothing is in the way.
    Note,
}

impl Severity {
    /// The name of the severity in machine output.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

impl ProblemKind {
    /// How bad it is.
    pub fn severity(self) -> Severity {
        match self {
            ProblemKind::Unreadable
            | ProblemKind::Damaged
            | ProblemKind::BadColumn
            | ProblemKind::Unservable
            | ProblemKind::UnfinishedTransaction
            | ProblemKind::DuplicateDocument => Severity::Error,
            ProblemKind::IdMismatch
            | ProblemKind::ProjectMismatch
            | ProblemKind::DuplicateSession
            | ProblemKind::MissingProject
            | ProblemKind::MissingParent
            | ProblemKind::OrphanMessages
            | ProblemKind::DanglingRow
            | ProblemKind::Derived => Severity::Warning,
            ProblemKind::OrphanParts
            | ProblemKind::OrphanBeside
            | ProblemKind::StuckTool
            | ProblemKind::UnfinishedMessage
            | ProblemKind::Leftover => Severity::Note,
        }
    }

    /// The name of the kind in machine output.
    pub fn name(self) -> &'static str {
        match self {
            ProblemKind::Unreadable => "unreadable",
            ProblemKind::OrphanParts => "orphan-parts",
            ProblemKind::OrphanMessages => "orphan-messages",
            ProblemKind::OrphanBeside => "orphan-file",
            ProblemKind::IdMismatch => "id-mismatch",
            ProblemKind::ProjectMismatch => "project-mismatch",
            ProblemKind::DuplicateSession => "duplicate-session",
            ProblemKind::MissingProject => "missing-project",
            ProblemKind::MissingParent => "missing-parent",
            ProblemKind::StuckTool => "stuck-tool",
            ProblemKind::UnfinishedMessage => "unfinished-message",
            ProblemKind::Leftover => "leftover",
            ProblemKind::UnfinishedTransaction => "unfinished-transaction",
            ProblemKind::Damaged => "damaged",
            ProblemKind::DanglingRow => "dangling-row",
            ProblemKind::BadColumn => "bad-column",
            ProblemKind::Derived => "derived",
            ProblemKind::DuplicateDocument => "duplicate-document",
            ProblemKind::Unservable => "unservable",
        }
    }

    /// What would mend it.
    pub fn repair(self) -> &'static str {
        match self {
            ProblemKind::Unreadable => "restore it from a backup, or remove it",
            ProblemKind::OrphanParts | ProblemKind::OrphanMessages | ProblemKind::OrphanBeside => {
                "remove what belongs to nothing: `annals housekeeping --free orphans`"
            }
            ProblemKind::IdMismatch | ProblemKind::ProjectMismatch => {
                "make the document say what its path says"
            }
            ProblemKind::DuplicateSession => "remove the copy that was used less recently",
            ProblemKind::MissingProject => "open the project once with OpenCode, or write its record",
            ProblemKind::MissingParent => "none; the reference leads nowhere",
            ProblemKind::StuckTool => "close the call: `annals check --fix`",
            ProblemKind::UnfinishedMessage => "close the turn: `annals check --fix`",
            ProblemKind::Leftover => "delete the file",
            ProblemKind::UnfinishedTransaction => "make the home writable, then open it again",
            ProblemKind::Damaged => {
                "copy what can be read into a new database: `annals copy --from THIS --to NEW.db`"
            }
            ProblemKind::Derived => "rebuild it: `annals reindex`",
            ProblemKind::DuplicateDocument => "restore the store from a backup",
            ProblemKind::DanglingRow => {
                "copy the sessions into a new database, which leaves it out: `annals copy --from THIS --to NEW.db`"
            }
            ProblemKind::BadColumn | ProblemKind::Unservable => {
                "copy the session into a new database, which mends it: `annals copy --from THIS --to NEW.db`"
            }
        }
    }
}

impl Problem {
    /// A place that could not be read at all, and why.
    pub(crate) fn of_error(place: &str, error: &ReadError) -> Problem {
        match error {
            ReadError::Unreadable(quarantined) => unreadable(quarantined.clone()),
            error => Problem {
                kind: ProblemKind::Unreadable,
                place: place.to_owned(),
                id: None,
                session: None,
                detail: error.to_string(),
            },
        }
    }
}

/// Sorts problems, drops duplicates, and fills in the session of a problem whose id is a session's.
pub(crate) fn arranged(mut problems: Vec<Problem>) -> Vec<Problem> {
    for problem in &mut problems {
        let named = problem.id.as_deref().filter(|id| id.starts_with("ses"));
        if problem.session.is_none() {
            problem.session = named.and_then(|id| SessionId::parse(id).ok());
        }
    }
    problems.sort_by(|a, b| (a.kind, &a.place, &a.detail).cmp(&(b.kind, &b.place, &b.detail)));
    // A place that several sessions need is unreadable for each of them.
    problems.dedup_by(|a, b| (a.kind, &a.place, &a.detail) == (b.kind, &b.place, &b.detail));
    problems
}

pub(crate) fn unreadable(quarantined: Quarantined) -> Problem {
    Problem {
        kind: ProblemKind::Unreadable,
        place: quarantined.place,
        id: quarantined.session.as_ref().map(|session| session.to_string()),
        session: quarantined.session,
        detail: quarantined.reason.to_string(),
    }
}
