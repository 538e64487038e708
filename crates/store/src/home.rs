//! Homes: the places where sessions live, and what can be asked of any of them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;

use annals_core::id::{MessageId, Millis, ProjectId, SessionId};
use annals_core::json::JsonError;
use annals_core::{Document, Key, Stored, Transaction};

use crate::check::Problem;
use crate::figures::{self, Figures};
use crate::history::History;
pub use crate::parallel::Work;
use crate::project::IdentityRule;
use crate::query::SessionQuery;
use crate::summary::SessionSummary;

pub mod pieces;

/// What every home can do: tell what is in it.
///
/// Reading never changes an OpenCode home and never waits for OpenCode. A document that cannot be read is quarantined:
/// it is reported beside what could be read, and hides nothing else.
pub trait Read: Send + Sync {
    /// The name of the home, for people and for `--home`.
    fn url(&self) -> String;

    /// The project records.
    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError>;

    /// The sessions a query admits, in no particular order. Reads session documents only.
    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError>;

    /// One session by its id.
    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError>;

    /// The messages of a session in order, each with its parts in order, one at a time: memory stays flat however long
    /// the session is. `visit` may stop early. Returns what was unreadable and belongs to no message that was visited.
    fn messages(
        &self,
        session: &SessionRecord,
        want: Want,
        visit: &mut dyn FnMut(MessageRecord) -> ControlFlow<()>,
    ) -> Result<Vec<Quarantined>, ReadError>;

    /// One document by its key.
    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError>;

    /// The keys of everything that belongs to a session, also of what nothing refers to any more.
    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError>;

    /// Documents of a session that were in progress at the moment at which the home is looked at. What they said at that moment
    /// is not kept: [`Read::document`] and [`Read::messages`] give them without what came later. None in a home as it is now.
    fn in_progress(&self, _id: &SessionId) -> Result<Vec<InProgress>, ReadError> {
        Ok(Vec::new())
    }

    /// Looks at everything and tells what is wrong. `now` tells an answer that is being written from one that was cut
    /// short; `progress` is called with each session that is done.
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError>;

    /// How much there is, without reading it.
    fn extent(&self) -> Result<Extent, ReadError>;

    /// OpenCode's data directory of a session, where files lie that its documents name: `tool-output/`.
    fn data_directory(&self, _session: &SessionRecord) -> Option<PathBuf> {
        None
    }

    /// What each message of a session amounts to, in order, unless calls are wanted: whoever counts those adds all up. A home
    /// that has it at hand reads no documents for it.
    fn figures(
        &self,
        session: &SessionRecord,
        want: Want,
        visit: &mut dyn FnMut(Figures) -> ControlFlow<()>,
    ) -> Result<Vec<Quarantined>, ReadError> {
        figures::read(self, session, want, visit)
    }

    /// A page of the messages of a session, in order. A home that can goes straight to it.
    fn page(
        &self,
        session: &SessionRecord,
        page: &Page,
        want: Want,
    ) -> Result<Found<Vec<MessageRecord>>, ReadError> {
        let mut last: VecDeque<MessageRecord> = VecDeque::new();
        let mut is_found = page.before.is_none();
        let quarantined = self.messages(session, want, &mut |record| {
            if let (Some(before), Key::Message(_, id)) = (&page.before, &record.stored.key)
                && before == id
            {
                is_found = true;
                return ControlFlow::Break(());
            }
            last.push_back(record);
            if last.len() > page.limit {
                last.pop_front();
            }
            ControlFlow::Continue(())
        })?;
        Ok(Found { value: if is_found { last.into() } else { Vec::new() }, quarantined })
    }

    /// What each of these sessions amounts to, where the home has it at hand.
    fn summaries(&self, sessions: &[&SessionRecord]) -> Result<Vec<Option<SessionSummary>>, ReadError> {
        Ok(vec![None; sessions.len()])
    }

    /// The home's revisions, if it keeps any.
    fn history(&self) -> Option<&dyn History> {
        None
    }

    /// What reading several sessions at once consists of.
    fn work(&self) -> Work {
        Work::Waiting
    }

    /// What of the home is not read, in words: the tables of a later version, for instance.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Which messages of a session are wanted: the last so many, or the last so many before one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// None for the end of the session. Before a message that is not there is nothing.
    pub before: Option<MessageId>,
    /// How many messages at most.
    pub limit: usize,
}

/// How much a home holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Messages.
    pub messages: usize,
    /// Parts.
    pub parts: usize,
    /// Bytes of all documents.
    pub bytes: u64,
    /// Whether the home is damaged, so that messages and parts are only those that can still be counted.
    pub is_damaged: bool,
}

/// A home that can be changed.
pub trait Write: Read {
    /// Makes all changes of a transaction, or none. When this returns without error they are on the disk.
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError>;

    /// What the home would hold for a document of another home.
    fn native(&self, key: &Key, document: Document) -> Native;

    /// By which rule the OpenCode that uses this home tells projects apart.
    fn identity_rule(&self) -> IdentityRule;
}

/// What a home would hold for a document.
#[derive(Debug, Clone)]
pub enum Native {
    /// The document in the home's own form.
    Held {
        /// What it would say.
        document: Document,
        /// Members that the home has no place for.
        lost: Vec<String>,
    },
    /// Nothing, which says the same: an empty todo list, where each item is a row.
    Implied,
    /// Nothing, because there is no place for it.
    NotHeld,
}

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Documents written.
    pub written: usize,
    /// Documents deleted.
    pub deleted: usize,
    /// The number of the revision, in a home that keeps history; none if nothing had to be changed.
    pub revision: Option<i64>,
    /// Documents that were completed in writing, because the home's OpenCode requires what they lack.
    pub completed: Vec<Completion>,
}

/// What was added to a document, or mended in it, when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Which document.
    pub key: Key,
    /// Paths of the members.
    pub fields: Vec<String>,
}

/// What could be read, and what could not.
#[derive(Debug, Default)]
pub struct Found<T> {
    /// What could be read.
    pub value: T,
    /// What could not.
    pub quarantined: Vec<Quarantined>,
}

/// A session as a home holds it.
#[derive(Debug, Clone)]
pub struct SessionRecord {
    /// Its id, from where it is stored.
    pub id: SessionId,
    /// The project that owns it, from where it is stored: after an import the document may say otherwise.
    pub project: ProjectId,
    /// Its document.
    pub stored: Stored,
    /// The homes that hold it, the one it was read from first.
    pub origins: Vec<String>,
    /// When it was found to be in none of the homes it came from any more.
    pub gone: Option<Millis>,
}

impl SessionRecord {
    /// When the session was made.
    pub fn created(&self) -> Option<Millis> {
        let session = self.stored.document.lens::<annals_core::lens::Session<'_>>();
        session.time.and_then(|time| time.created)
    }
}

/// How much of each message is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The message documents, and how many parts each has.
    PartCounts,
    /// The message documents, how many parts each has, and those parts that are tool calls. Others may be there as well;
    /// a home that can tell without reading them leaves them out.
    ToolCalls,
    /// The message documents and all parts.
    Parts,
}

/// A message with its parts.
#[derive(Debug, Clone)]
pub struct MessageRecord {
    /// Its document.
    pub stored: Stored,
    /// When it was made.
    pub made: Millis,
    /// Its parts in order, as far as they were wanted.
    pub parts: Vec<Stored>,
    /// How many parts there are, readable or not.
    pub n_parts: usize,
    /// Parts that could not be read.
    pub quarantined: Vec<Quarantined>,
    /// Whether it comes from OpenCode's second transcript store, in the shape of the first. `opencode export` and
    /// `opencode stats` do not see such messages.
    pub converted: bool,
}

/// A document that was in progress at a moment of the past.
#[derive(Debug, Clone)]
pub struct InProgress {
    /// The document when it was finished.
    pub became: Stored,
    /// The last revision up to that moment that wrote it.
    pub written: i64,
}

/// A document that could not be read, with its place and the reason.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// Path inside the home.
    pub place: String,
    /// Why.
    pub reason: Reason,
    /// The session it belongs to, where that is known.
    pub session: Option<SessionId>,
}

impl Quarantined {
    /// The same, known to belong to a session.
    pub(crate) fn of(self, session: &SessionId) -> Quarantined {
        self.of_session(Some(session))
    }

    /// The damaged rows that it stands for, if it is not a single document.
    pub fn damaged_rows(&self) -> Option<DamagedRows> {
        DamagedRows::parse(&self.place)
    }

    pub(crate) fn of_session(self, session: Option<&SessionId>) -> Quarantined {
        Quarantined { session: session.cloned(), ..self }
    }
}

/// Rows of a table that cannot be read because the database is damaged there. What they held is not known, nor whether each
/// of the numbers was in use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedRows {
    /// Which table.
    pub table: String,
    /// The number of the first row.
    pub first: i64,
    /// The number of the last row.
    pub last: i64,
}

impl std::fmt::Display for DamagedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DamagedRows { table, first, last } = self;
        match first == last {
            true => write!(f, "{table}, row {first}"),
            false => write!(f, "{table}, rows {first} to {last}"),
        }
    }
}

impl DamagedRows {
    /// The rows that a place names. A store keeps places as text.
    fn parse(place: &str) -> Option<DamagedRows> {
        let (table, rows) = place.split_once(", row")?;
        let (first, last) = match rows.strip_prefix("s ") {
            Some(range) => range.split_once(" to ")?,
            None => (rows.trim_start(), rows.trim_start()),
        };
        Some(DamagedRows { table: table.to_owned(), first: first.parse().ok()?, last: last.parse().ok()? })
    }

    /// How many rows of each table are damaged at most, each counted once.
    pub fn count<'q>(quarantined: impl IntoIterator<Item = &'q Quarantined>) -> BTreeMap<String, u64> {
        let mut rows: Vec<DamagedRows> =
            quarantined.into_iter().filter_map(Quarantined::damaged_rows).collect();
        rows.sort();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut seen: Option<(String, i64)> = None;
        for DamagedRows { table, first, last } in rows {
            let first = match &seen {
                Some((of, until)) if *of == table => first.max(until.saturating_add(1)),
                _ => first,
            };
            if first <= last {
                *counts.entry(table.clone()).or_default() += last.abs_diff(first) + 1;
                seen = Some((table, last));
            }
        }
        counts
    }
}

impl std::fmt::Display for Quarantined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.place)?;
        match &self.reason {
            // A place in the document continues the path, as compilers write it.
            reason @ (Reason::Json(_) | Reason::Noted(_))
                if reason.to_string().starts_with(|c: char| c.is_ascii_digit()) =>
            {
                write!(f, ":{reason}")
            }
            reason => write!(f, ": {reason}"),
        }?;
        match &self.session {
            Some(session) => write!(f, " (session {session})"),
            None => Ok(()),
        }
    }
}

/// The place of a document in a database, for people: its table and its id.
pub(crate) fn row_place(key: &Key) -> String {
    match key {
        Key::Project(id) => format!("project[{id}]"),
        Key::Session(_, id) => format!("session[{id}]"),
        Key::Message(_, id) => format!("message[{id}]"),
        Key::Part(_, _, id) => format!("part[{id}]"),
        Key::Todo(id) => format!("todo[{id}]"),
        Key::Diff(id) => format!("session_diff[{id}]"),
        Key::Share(id) | Key::LegacyShare(id) => format!("session_share[{id}]"),
    }
}

/// Why a document could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Its text is not JSON.
    #[error("{0}")]
    Json(JsonError),
    /// It is JSON, but not what stands there.
    #[error("expected {wanted}, found {found}")]
    WrongKind {
        /// What should stand there.
        wanted: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// Something else than a file has its name.
    #[error("{0}, not a file")]
    NotAFile(&'static str),
    /// It is a link that leads out of the home.
    #[error("a link that leads out of the home is not followed")]
    LeavesHome,
    /// Its name is no id.
    #[error("{0}")]
    BadName(annals_core::id::IdError),
    /// The operating system refused.
    #[error("{0}")]
    Refused(String),
    /// The database is damaged where it is.
    #[error("the database is damaged there ({0})")]
    Damaged(String),
    /// A column holds something that cannot be used.
    #[error("{0}")]
    Column(String),
    /// As it was noted when it was last tried.
    #[error("{0}")]
    Noted(String),
}

/// A home could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused something a home cannot do without.
    #[error("cannot read {path}: {source}")]
    Io {
        /// What was to be read.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// SQLite refused something a home cannot do without.
    #[error("cannot read {path}: {what}")]
    Database {
        /// The database.
        path: String,
        /// What SQLite said.
        what: String,
    },
    /// What was asked for is unreadable.
    #[error("{0}")]
    Unreadable(Quarantined),
}

impl From<Quarantined> for ReadError {
    fn from(quarantined: Quarantined) -> ReadError {
        ReadError::Unreadable(quarantined)
    }
}

/// Why a commit was not made. Unless the variant says otherwise nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A document is not as the transaction expects it. Read again and decide anew.
    #[error("{key} {what} ({place})")]
    Conflict {
        /// Which document.
        key: Box<Key>,
        /// Where it is.
        place: String,
        /// What happened to it.
        what: ConflictKind,
    },
    /// What an operation left in a place was changed since, so it cannot be taken back.
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
    /// A process has the database open and has lost its locks on it. Writing could crash it, and lose what it writes.
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
    /// Writing failed before the decision, a full disk for instance; what had been prepared is removed.
    #[error("nothing was changed: cannot write {path}: {source}")]
    Failed {
        /// What was to be written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The transaction is decided and on the disk, but not all of it has reached its place. Whoever opens the home next
    /// finishes it.
    #[error("the change is recorded but could not be finished: {path}: {source}")]
    Unfinished {
        /// Where it stopped.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk failed while the transaction was made durable, and again when it was to be made void: it may show up later.
    #[error("it is not certain whether {path} was changed: {source}")]
    Uncertain {
        /// The home.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// This home, or this part of it, is only read.
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

/// What happened to a document since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// It exists already.
    Exists,
    /// It was changed.
    Changed,
    /// It was deleted.
    Gone,
    /// Its id is that of a document of another session.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_rows_are_counted_once() {
        let places = [
            "part, rows 541 to 819",
            "part, rows 541 to 820",
            "part, row 822",
            "message, rows 200 to 368",
            "message[msg_1]",
            "storage/message/ses_1/msg, rowing.json",
        ];
        let quarantined = places.map(|place| Quarantined {
            place: place.to_owned(),
            reason: Reason::Damaged("x".to_owned()),
            session: None,
        });
        let counts = DamagedRows::count(&quarantined);
        assert_eq!(counts, BTreeMap::from([("message".to_owned(), 169), ("part".to_owned(), 281)]));
        for place in &places[..4] {
            assert_eq!(DamagedRows::parse(place).unwrap().to_string(), *place);
        }
    }
}
