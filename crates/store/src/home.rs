//! Homes: the places where sessions live, and the traits to read and write them.

use std::collections::HashMap;
use std::path::PathBuf;

use annals_core::id::{Millis, SessionId};
use annals_core::lens::Part;
use annals_core::{Document, Key, Stored, Transaction};

use crate::change_log::ChangeLog;
use crate::figures::{Call, Figures};
use crate::home_url::HomeUrl;
use crate::lease::Leases;
pub use crate::messages::{MessageRange, Messages};
use crate::problem::Problem;
use crate::project::IdentityRule;
use crate::query::SessionQuery;
pub(crate) use crate::record::row_place;
pub use crate::record::{
    DamagedRows, Extent, Found, InProgress, MessageDetail, MessageRecord, Quarantined, ReadError,
    SessionRecord, UnreadableReason,
};
use crate::summary::SessionSummary;

pub(crate) mod appends;
pub(crate) mod beside;
pub mod pieces;
pub mod space;

use space::Space;

/// A home that can be read, as every home can.
///
/// Reading never changes an agent's home and never waits for the agent. A document that cannot be read is quarantined: it is
/// reported beside what could be read, and hides nothing else. Abilities that only some homes have are behind accessors.
pub trait Read: Send + Sync {
    /// The name of the home, for people and for `--home`.
    fn url(&self) -> HomeUrl;

    /// The project records.
    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError>;

    /// The sessions a query admits, in no particular order. Reads session documents only.
    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError>;

    /// One session by its id.
    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError>;

    /// Messages of a session in order, each with its parts in order.
    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h>;

    /// One document by its key.
    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError>;

    /// The keys of everything that belongs to a session, including documents that nothing refers to any more.
    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError>;

    /// Totals that the home has without reading messages.
    fn summaries(&self) -> Option<&dyn Summaries> {
        None
    }

    /// Diagnosis of the home as a whole.
    fn inspect(&self) -> Option<&dyn Inspect> {
        None
    }

    /// The files that lie beside the documents.
    fn files(&self) -> Option<&dyn SessionFiles> {
        None
    }

    /// The home's revisions.
    fn history(&self) -> Option<&dyn History> {
        None
    }

    /// Questions about the past, if this is a home as it was at an earlier moment.
    fn past(&self) -> Option<&dyn Past> {
        None
    }

    /// The log of changes that the home's agent keeps itself.
    fn change_log(&self) -> Option<&dyn ChangeLog> {
        None
    }
}

/// Totals of sessions that a home has without reading messages.
pub trait Summaries: Send + Sync {
    /// Each of these sessions in numbers; `None` for a session whose numbers the home would have to add up.
    fn summarize(&self, sessions: &[&SessionRecord]) -> Result<Vec<Option<SessionSummary>>, ReadError>;

    /// When the first message of each session was made, as far as the home knows without reading messages.
    fn beginnings(&self) -> Result<HashMap<SessionId, Millis>, ReadError>;

    /// Figures of each message of a session. In order, unless `detail` asks for tool calls.
    fn figures(
        &self,
        session: &SessionRecord,
        detail: MessageDetail,
    ) -> Result<Found<Vec<Figures>>, ReadError>;
}

/// Diagnosis of a home as a whole.
pub trait Inspect: Send + Sync {
    /// Reads everything and reports problems. `now` tells an answer that is being written from one that was interrupted;
    /// `progress` is called with each session that is done.
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError>;

    /// Size of the home's contents, without reading them.
    fn extent(&self) -> Result<Extent, ReadError>;

    /// Contents of the home that annals does not read, in words: for example the tables of a later version.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The files that lie beside the documents of a home.
pub trait SessionFiles: Send + Sync {
    /// The directory with the files that a session's documents name: `tool-output/`.
    fn data_directory(&self, session: &SessionRecord) -> Option<PathBuf>;
}

/// A home as it was at an earlier moment.
pub trait Past: Send + Sync {
    /// Documents of a session that were being written at that moment. Their text at that moment is not kept: [`Read::document`] and
    /// [`Read::messages`] give them without what came later.
    fn in_progress(&self, id: &SessionId) -> Result<Vec<InProgress>, ReadError>;
}

/// Visits the figures of each message of a session: from the home's totals, or else from the documents. In order, unless the home has
/// totals and `detail` asks for tool calls. Returns unreadable documents that belong to no message.
pub(crate) fn visit_figures(
    home: &(impl Read + ?Sized),
    session: &SessionRecord,
    detail: MessageDetail,
    visit: &mut dyn FnMut(Figures),
) -> Result<Vec<Quarantined>, ReadError> {
    if let Some(summaries) = home.summaries() {
        let found = summaries.figures(session, detail)?;
        found.value.into_iter().for_each(visit);
        return Ok(found.quarantined);
    }
    let mut messages = home.messages(session, &MessageRange::ALL, detail);
    for message in &mut messages {
        visit(figures_of(message?));
    }
    Ok(messages.into_quarantined())
}

/// Figures of each message of a session, from the documents.
pub(crate) fn read_figures(
    home: &(impl Read + ?Sized),
    session: &SessionRecord,
    detail: MessageDetail,
) -> Result<Found<Vec<Figures>>, ReadError> {
    let mut messages = home.messages(session, &MessageRange::ALL, detail);
    let value = messages.by_ref().map(|message| message.map(figures_of)).collect::<Result<_, _>>()?;
    Ok(Found { value, quarantined: messages.into_quarantined() })
}

fn figures_of(message: MessageRecord) -> Figures {
    let mut figures = Figures::of(&message.stored.document.lens(), message.made);
    figures.n_parts = message.n_parts;
    figures.provenance = message.stored.provenance;
    figures.quarantined = message.quarantined;
    for part in &message.parts {
        if let Part::Tool(part) = part.document.lens::<Part<'_>>() {
            figures.calls.extend(Call::of(&part));
        }
    }
    figures
}

/// A home that keeps history.
///
/// Revisions are ordered by time, and by number within a millisecond. Their numbers grow with every commit; only a revision that
/// was learnt of later has a high number and an early time.
pub trait History: Send + Sync {
    /// Revisions, the latest first.
    fn log(&self, query: &LogQuery) -> Result<Vec<Revision>, ReadError>;

    /// One revision by its number.
    fn revision(&self, number: i64) -> Result<Option<Revision>, ReadError>;

    /// The changes that a revision made.
    fn changes(&self, revision: i64) -> Result<Vec<Changed>, ReadError>;

    /// The home as it was, or `None` if no revision has the number. Documents that were in progress then are without what came
    /// later; [`Past::in_progress`] names them.
    fn at(&self, at: At) -> Result<Option<Box<dyn Read + '_>>, ReadError>;
}

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub number: i64,
    /// When it was committed.
    pub time: Millis,
    /// Why it was committed.
    pub reason: String,
    /// The home that sync found the changes in; `None` for a commit to this home.
    pub home: Option<String>,
    /// The sessions it touched.
    pub touched: Vec<Touched>,
}

/// Changes of a revision to one session, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The session; `None` for project records.
    pub session: Option<SessionId>,
    /// Documents written.
    pub written: usize,
    /// Documents deleted.
    pub deleted: usize,
}

/// Filter for revisions.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// That touched this session.
    pub session: Option<SessionId>,
    /// At this time or later.
    pub since: Option<Millis>,
    /// Before this time.
    pub until: Option<Millis>,
    /// With a greater number than this.
    pub after: Option<i64>,
    /// Committed here, not found by sync.
    pub own: bool,
    /// Upper bound on their number.
    pub limit: Option<usize>,
}

/// A moment in the history of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Just after this revision.
    Revision(i64),
    /// At this time.
    Time(Millis),
}

/// Change of a document.
#[derive(Debug, Clone)]
pub struct Changed {
    /// Which document.
    pub key: Key,
    /// The document before; `None` if it did not exist.
    pub before: Option<Document>,
    /// The document after; `None` if it was deleted.
    pub after: Option<Document>,
    /// Whether the state before is not kept: it was in progress, or was pruned since.
    pub is_step: bool,
}

/// A home that can be changed.
pub trait Write: Read {
    /// Makes all changes of a transaction, or none. When this returns without error they are on the disk.
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError>;

    /// The form in which this home would hold a document of another home.
    fn native(&self, key: &Key, document: Document) -> Native;

    /// The documents of a message, first the message and then its parts, in terms that the program which uses this home knows.
    fn in_its_terms(&self, documents: Vec<Stored>) -> Vec<Stored> {
        documents
    }

    /// The rule by which the OpenCode that uses this home tells projects apart.
    fn identity_rule(&self) -> IdentityRule;

    /// The space that the home takes.
    fn space(&self) -> Option<&dyn Space> {
        None
    }

    /// Leases of sessions, for writers that work on one for a while.
    fn leases(&self) -> Option<Box<dyn Leases>> {
        None
    }
}

/// Form in which a home would hold a document.
#[derive(Debug, Clone)]
pub enum Native {
    /// The document in the home's own form.
    Held {
        /// The document.
        document: Document,
        /// Members that the home has no place for.
        lost: Vec<String>,
    },
    /// The home holds nothing, which means the same: an empty todo list, where each item is a row.
    Implied,
    /// The home holds nothing, because it has no place for the document.
    NotHeld,
}

/// Receipt of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Documents written.
    pub written: usize,
    /// Documents deleted.
    pub deleted: usize,
    /// The number of the revision, in a home that keeps history; `None` if nothing had to be changed.
    pub revision: Option<i64>,
    /// Documents that were completed when they were written, because the home's OpenCode requires members that they lacked.
    pub completed: Vec<Completion>,
}

/// Members that were added to a document, or repaired in it, when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Which document.
    pub key: Key,
    /// Paths of the members.
    pub fields: Vec<String>,
}

/// Error of a commit that was not made. Unless the variant says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A document is not as the transaction expects it. Read it again and decide again.
    #[error("{key} {what} ({place})")]
    Conflict {
        /// Which document.
        key: Box<Key>,
        /// Where it is.
        place: String,
        /// What happened to it.
        what: ConflictKind,
    },
    /// A place that an operation changed was changed again since, so the operation cannot be undone there.
    #[error("{place} {what}")]
    Altered {
        /// A file or row.
        place: String,
        /// The session it belongs to.
        session: Option<SessionId>,
        /// What happened to it.
        what: ConflictKind,
    },
    /// Another process kept the home locked.
    #[error("{path} is locked by another process")]
    Busy {
        /// The lock.
        path: String,
    },
    /// A process has the database open and has lost its locks on it. Writing could crash that process and lose what it writes.
    #[error("process {process} has {path} open but has lost its locks on it; writing now could crash it")]
    Endangered {
        /// The database.
        path: String,
        /// The process.
        process: u32,
    },
    /// The home cannot be written to.
    #[error("cannot write to {path}: {source}")]
    ReadOnly {
        /// What was to be written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Writing failed before the transaction was decided, for example because the disk is full. Prepared files are removed.
    #[error("nothing was changed: cannot write {path}: {source}")]
    Failed {
        /// What was to be written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The transaction is decided and on the disk, but not all of it has reached its place. The next process that opens
    /// the home finishes it.
    #[error("the change is recorded but could not be finished: {path}: {source}")]
    Unfinished {
        /// Where it stopped.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk failed while the transaction was made durable, and again while it was cancelled: the change may show up later.
    #[error("it is not certain whether {path} was changed: {source}")]
    Uncertain {
        /// The home.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Annals only reads this home, or this part of it.
    #[error("{0}")]
    Unsupported(String),
    /// The database has a schema that is not known, so it is only read.
    #[error("{path} has {found}; annals writes databases of OpenCode 1.2.0 to {supported}")]
    UnknownSchema {
        /// The database.
        path: String,
        /// What was found there.
        found: String,
        /// The newest version whose schema is known.
        supported: &'static str,
    },
    /// The home cannot hold a document.
    #[error("{key} cannot be stored: {what} ({place})")]
    Refused {
        /// Which document.
        key: Box<Key>,
        /// Where it would be.
        place: String,
        /// Why not.
        what: String,
    },
}

/// Change of a document since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// It exists already.
    Exists,
    /// It was changed.
    Changed,
    /// It was deleted.
    Gone,
    /// A document of another session has its id.
    Taken,
}

impl std::fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ConflictKind::Exists => "exists already",
            ConflictKind::Changed => "was changed by someone else since it was read",
            ConflictKind::Gone => "was deleted by someone else since it was read",
            ConflictKind::Taken => "has the id of a document of another session",
        })
    }
}
