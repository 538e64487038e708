//! Operations: a change that a user asked for, carried out in every home that it concerns and in the store, and undone on request.
//!
//! An operation finds out what it would change, notes that in the store byte for byte, commits to each home, and has the store look at
//! the result. So it can be undone exactly, and the next command completes or takes back an operation that was interrupted. See
//! [`Workspace`](crate::workspace::Workspace) for which homes an operation changes.

mod compact;
mod edit;
mod fix;
mod fork;
mod housekeeping;
mod intent;
mod move_project;
pub mod plan;
mod purge;
pub mod record;
mod recover;
mod remove;
mod restore;
mod revert;
mod running;
mod session_change;
mod session_diff;
mod session_edit;
mod step_target;
mod target_homes;
mod todo;
mod undo;
mod write;

use annals_core::id::{Millis, SessionId};
use annals_core::json::JsonError;
use annals_core::json::edit::EditError;

use crate::compaction::MarkError;
use crate::fork::ForkError;
use crate::home::{CommitError, ReadError};
use crate::interrupted::InterruptedError;
use crate::lease::LeaseError;
use crate::open::OpenError;
use crate::project::IdentityError;
use crate::snapshot::SnapshotError;
use crate::sync::SyncError;
use crate::upkeep::ForgetError;
pub use compact::{CompactOptions, Compacted, compact, prune_calls};
pub use edit::edit;
pub use fix::{ClosedTurn, FixOptions, Fixed, LeftReason, LeftTurn, close_interrupted};
pub use fork::{Forked, fork};
pub use housekeeping::{
    FREEABLE, FreeOptions, FreeableSpace, Freed, FreedSpace, PlaceSpace, SpaceSurvey, free_space,
    survey_space,
};
pub use move_project::{MoveInHome, MovePlan, missing_projects, move_sessions, plan_move};
pub use purge::{PurgePlaces, PurgePlan, Purged, is_git_object, places_to_search, plan_purge, purge};
pub use recover::{Recovered, recover};
pub use remove::{RemovalPlan, plan_removal, remove};
pub use restore::{Restored, restore};
pub use revert::{RevertTarget, Reverted, Unreverted, WorkingTree, revert, unrevert};
pub use running::Running;
pub use session_edit::{RevertNote, SessionEdit};
pub use target_homes::{TargetHome, TargetHomes};
pub use todo::set_todos;
pub use undo::{Undone, undo};
pub use write::{WriteTarget, Written, write};

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// A session gets another title.
    Rename,
    /// A session is marked as archived, or the mark is removed.
    Archive,
    /// Sessions are deleted.
    Remove,
    /// Exported sessions are imported.
    Import,
    /// Sessions are copied from another home.
    Copy,
    /// A session is restored to an earlier state.
    Restore,
    /// A session is created.
    New,
    /// Turns that were interrupted are closed.
    Fix,
    /// A session is forked.
    Fork,
    /// A session is reverted to an earlier message or part.
    Revert,
    /// The revert of a session is taken back.
    Unrevert,
    /// A session is compacted, or the results of its old calls are hidden from the model.
    Compact,
    /// The todo list of a session is replaced.
    Todo,
    /// Sessions are erased from the store. This cannot be undone.
    Forget,
    /// Sessions are erased from everywhere. This cannot be undone.
    Purge,
    /// Sessions are attached to the place to which their directory was moved.
    MoveProject,
    /// Old sessions, or documents that belong to nothing, are deleted from homes.
    Housekeeping,
    /// Logs and unused space of homes are freed. This cannot be undone.
    Free,
    /// An operation is taken back.
    Undo,
}

impl OperationKind {
    /// Whether an operation of this kind can be undone.
    pub fn is_final(name: &str) -> bool {
        [OperationKind::Forget, OperationKind::Purge, OperationKind::Free]
            .iter()
            .any(|kind| kind.name() == name)
    }

    /// The name in `annals log`. It is part of the stored bytes.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Rename => "rename",
            OperationKind::Archive => "archive",
            OperationKind::Remove => "rm",
            OperationKind::Import => "import",
            OperationKind::Copy => "copy",
            OperationKind::Restore => "restore",
            OperationKind::New => "new",
            OperationKind::Fix => "fix",
            OperationKind::Fork => "fork",
            OperationKind::Revert => "revert",
            OperationKind::Unrevert => "unrevert",
            OperationKind::Compact => "compact",
            OperationKind::Todo => "todo",
            OperationKind::Forget => "forget",
            OperationKind::Purge => "purge",
            OperationKind::MoveProject => "move-project",
            OperationKind::Housekeeping => "housekeeping",
            OperationKind::Free => "free",
            OperationKind::Undo => "undo",
        }
    }
}

/// A request to carry out an operation: what, and by whom.
#[derive(Debug, Clone)]
pub struct OperationRequest {
    /// The kind of operation.
    pub kind: OperationKind,
    /// The command as it was given.
    pub words: String,
    /// The user's name.
    pub user: Option<String>,
    /// The machine's name.
    pub host: Option<String>,
    /// The id of the process.
    pub pid: u32,
    /// The operation that this one takes back.
    pub undoes: Option<i64>,
}

/// How far an operation got. The numbers are part of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    /// It is being carried out, or was interrupted.
    Underway = 0,
    /// It is done.
    Done = 1,
    /// It was interrupted or refused before anything had changed.
    Dropped = 2,
    /// It was interrupted, and something was changed since: part of it is done.
    Partial = 3,
}

impl OperationState {
    pub(crate) fn from_number(number: i64) -> OperationState {
        match number {
            1 => OperationState::Done,
            2 => OperationState::Dropped,
            3 => OperationState::Partial,
            _ => OperationState::Underway,
        }
    }
}

/// An operation as the store recorded it.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its number.
    pub number: i64,
    /// When it began.
    pub time: Millis,
    /// The name of its kind.
    pub kind: String,
    /// The command as it was given.
    pub words: String,
    /// The user who gave it.
    pub user: Option<String>,
    /// The machine it was given on.
    pub host: Option<String>,
    /// The id of the process that carried it out.
    pub pid: Option<u32>,
    /// How far it got.
    pub state: OperationState,
    /// The operation that it took back.
    pub undoes: Option<i64>,
    /// The operation that took it back.
    pub undone_by: Option<i64>,
    /// The homes it changed.
    pub places: Vec<String>,
    /// The sessions it was about.
    pub sessions: Vec<SessionId>,
    /// The revisions of the store that belong to it.
    pub revisions: Vec<i64>,
}

/// The words of an operation on sessions that were erased since.
pub(crate) const FORGOTTEN: &str = "forgotten";

impl Operation {
    /// Whether everything that the operation was about was erased since.
    pub fn is_forgotten(&self) -> bool {
        self.sessions.is_empty() && self.words == FORGOTTEN
    }
}

/// Filter for operations.
#[derive(Debug, Clone, Default)]
pub struct OperationQuery {
    /// About this session.
    pub session: Option<SessionId>,
    /// At this time or later.
    pub since: Option<Millis>,
    /// Before this time.
    pub until: Option<Millis>,
    /// With a greater number than this.
    pub after: Option<i64>,
    /// Upper bound on their number.
    pub limit: Option<usize>,
}

/// Report of what an operation did.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Its number; `None` if there was nothing to do, or no store to record it in.
    pub operation: Option<i64>,
    /// The homes it changed.
    pub places: Vec<String>,
    /// Whether it changed the store alone.
    pub store_only: bool,
    /// Own homes that hold a session but cannot be reached now.
    pub vanished: Vec<String>,
    /// Homes that still have a deleted session because they were not written to: other people's, and own ones that cannot be reached.
    pub still_in: Vec<String>,
    /// Documents that were completed because the home's OpenCode requires what they lack.
    pub completed: usize,
    /// Why the store does not show the result yet, although the operation is done.
    pub not_followed: Option<String>,
}

/// Error of an operation that was not carried out. Unless the variant says otherwise, nothing has changed anywhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// A home refused the commit.
    #[error("{place}: {source}")]
    Commit {
        /// The home.
        place: String,
        /// What happened.
        source: CommitError,
    },
    /// The operation failed halfway, and the part that was done could not be taken back. The next command tries again.
    #[error("{error}; {}", already_done(.done))]
    Half {
        /// Why it could not go on.
        error: Box<OperationError>,
        /// The homes in which it is done.
        done: Vec<String>,
        /// Its number.
        operation: i64,
    },
    /// A home could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written to.
    #[error(transparent)]
    Store(#[from] CommitError),
    /// The store could not forget sessions.
    #[error(transparent)]
    Forget(#[from] ForgetError),
    /// The store could not look at the result.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The session was deleted meanwhile.
    #[error("session {0} was deleted in the meantime")]
    Gone(SessionId),
    /// An edit does not fit the document.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The session cannot be forked.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// Snapshots of the working tree cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A writer holds the session's lease, or it cannot be told whether one does.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The last answer of the session has no end, and changed a short while ago.
    #[error("session {session} is busy: its last answer has no end and is of a short while ago")]
    Busy {
        /// The session.
        session: SessionId,
        /// When the session last changed.
        changed: Millis,
    },
    /// It cannot be told whether somebody writes to the session.
    #[error(transparent)]
    Interrupted(#[from] InterruptedError),
    /// The session does not have the message or part to revert to.
    #[error("session {session} has no message or part {wanted}")]
    NoTarget {
        /// The session.
        session: SessionId,
        /// The message or part.
        wanted: String,
    },
    /// The session is not reverted.
    #[error("session {0} is not reverted")]
    NotReverted(SessionId),
    /// A session without a prompt cannot be compacted.
    #[error("session {0} has no prompt, so there is nothing to compact")]
    NothingToCompact(SessionId),
    /// The project of a directory could not be determined.
    #[error(transparent)]
    Project(#[from] IdentityError),
    /// A new document would not be valid.
    #[error("it cannot be written: {0}")]
    Document(#[from] JsonError),
    /// There is no such operation.
    #[error("there is no operation {0}")]
    NoOperation(i64),
    /// Nothing can be undone.
    #[error("there is no operation to undo")]
    NothingToUndo,
    /// The operation was undone before.
    #[error("operation {operation} was already undone by operation {by}")]
    UndoneBefore {
        /// Which.
        operation: i64,
        /// The one that took it back.
        by: i64,
    },
    /// This kind of operation cannot be undone.
    #[error("operation {operation} ({kind}) cannot be undone")]
    Final {
        /// Which.
        operation: i64,
        /// Its kind.
        kind: String,
    },
    /// Everything that the operation was about was erased since.
    #[error("operation {0} was about sessions that were erased since")]
    Erased(i64),
    /// A home that the operation changed is no longer one of the user's own.
    #[error("operation {operation} changed {place}, which is not one of your homes here")]
    NotYours {
        /// Which.
        operation: i64,
        /// The home.
        place: String,
    },
    /// The contents from before the operation were pruned.
    #[error("the contents of {place} from before operation {operation} are no longer kept")]
    NotKept {
        /// Which.
        operation: i64,
        /// The file, row or document.
        place: String,
    },
    /// Something that the operation changed was changed again since.
    #[error("operation {operation} cannot be undone: {place} {what}")]
    ChangedSince {
        /// Which.
        operation: i64,
        /// The file, row or document, with its home.
        place: String,
        /// How it was changed, in words.
        what: String,
        /// The session it belongs to.
        session: Option<SessionId>,
        /// Sessions of the operation that are as it left them.
        untouched: Vec<SessionId>,
    },
    /// History does not allow it.
    #[error(transparent)]
    History(#[from] crate::history::UndoError),
    /// The file with which operations lock each other out cannot be used.
    #[error("cannot lock {path}: {source}")]
    Lock {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl From<MarkError> for OperationError {
    fn from(error: MarkError) -> OperationError {
        match error {
            MarkError::Read(error) => error.into(),
            MarkError::Edit(error) => error.into(),
        }
    }
}

fn already_done(places: &[String]) -> String {
    match places.is_empty() {
        true => "it may or may not have taken effect".to_owned(),
        false => format!("it has already taken effect in {}", places.join(", ")),
    }
}
