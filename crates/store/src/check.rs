//! What can be wrong with a home.

/// Something that is not as it should be.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What kind of thing.
    pub kind: ProblemKind,
    /// Path inside the home.
    pub place: String,
    /// Id of the entity, where there is one.
    pub id: Option<String>,
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
    /// A file that is no document.
    Leftover,
    /// A transaction that could not be finished.
    UnfinishedTransaction,
}

impl ProblemKind {
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
        }
    }

    /// What would mend it.
    pub fn repair(self) -> &'static str {
        match self {
            ProblemKind::Unreadable => "restore the file from a backup, or remove it",
            ProblemKind::OrphanParts | ProblemKind::OrphanMessages | ProblemKind::OrphanBeside => {
                "remove it; nothing refers to it"
            }
            ProblemKind::IdMismatch | ProblemKind::ProjectMismatch => {
                "make the document say what its path says"
            }
            ProblemKind::DuplicateSession => "remove the copy that was used less recently",
            ProblemKind::MissingProject => "open the project once with OpenCode, or write its record",
            ProblemKind::MissingParent => "none; the reference leads nowhere",
            ProblemKind::StuckTool => "mark the call as failed",
            ProblemKind::UnfinishedMessage => "mark the answer as ended",
            ProblemKind::Leftover => "remove it",
            ProblemKind::UnfinishedTransaction => "make the home writable, then open it again",
        }
    }
}
