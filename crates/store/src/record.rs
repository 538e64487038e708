//! The types of reading: a session, a message, what was found and what could not be read.

use std::collections::BTreeMap;

use annals_core::id::{Millis, ProjectId, SessionId};
use annals_core::json::JsonError;
use annals_core::{Key, SessionInfo, Stored};

use crate::home_url::HomeUrl;

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

/// A value that was read, and the documents that could not be.
#[derive(Debug, Default)]
pub struct Found<T> {
    /// What could be read.
    pub value: T,
    /// What could not be read.
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
    /// What the document says about the session.
    pub info: SessionInfo,
    /// The homes that hold it, the one it was read from first.
    pub origins: Vec<HomeUrl>,
    /// When it was found that none of the homes it came from has it any more.
    pub gone: Option<Millis>,
}

impl SessionRecord {
    /// A session that is in these homes.
    pub fn new(project: ProjectId, id: SessionId, stored: Stored, origins: Vec<HomeUrl>) -> SessionRecord {
        let info = SessionInfo::of(&stored.document);
        SessionRecord { id, project, stored, info, origins, gone: None }
    }
}

/// How much of each message is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageDetail {
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
    /// Its parts in order, as many as the [`MessageDetail`] asked for.
    pub parts: Vec<Stored>,
    /// How many parts there are, readable or not.
    pub n_parts: usize,
    /// Parts that could not be read.
    pub quarantined: Vec<Quarantined>,
}

/// A document that was still being written at a moment in the past.
#[derive(Debug, Clone)]
pub struct InProgress {
    /// The document when it was finished.
    pub became: Stored,
    /// The last revision before or at that moment that wrote it.
    pub written: i64,
}

/// A document that could not be read, with its place and the reason.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// Path inside the home.
    pub place: String,
    /// Why it could not be read.
    pub reason: UnreadableReason,
    /// The session it belongs to, where that is known.
    pub session: Option<SessionId>,
}

impl Quarantined {
    /// This problem, attributed to `session`.
    pub(crate) fn of(self, session: &SessionId) -> Quarantined {
        self.of_session(Some(session))
    }

    /// The damaged rows that this problem stands for, if it is not about a single document.
    pub fn damaged_rows(&self) -> Option<DamagedRows> {
        DamagedRows::parse(&self.place)
    }

    pub(crate) fn of_session(self, session: Option<&SessionId>) -> Quarantined {
        Quarantined { session: session.cloned(), ..self }
    }
}

/// Rows of a table that cannot be read because the database is damaged there. Their contents are not known, nor whether each
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

    /// Upper bound on the damaged rows of each table, each row counted once.
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
            reason @ (UnreadableReason::Json(_) | UnreadableReason::Noted(_))
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
        Key::Record(_, id) => format!("record[{id}]"),
    }
}

/// Why a document could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableReason {
    /// Its text is not JSON.
    #[error(transparent)]
    Json(JsonError),
    /// It is JSON, but of another kind than expected.
    #[error("expected {wanted}, found {found}")]
    WrongKind {
        /// The expected kind.
        wanted: &'static str,
        /// The kind that was found.
        found: &'static str,
    },
    /// Something other than a file is at its path.
    #[error("{0}, not a file")]
    NotAFile(&'static str),
    /// It is a link that leads out of the home.
    #[error("a link that leads out of the home is not followed")]
    LeavesHome,
    /// Its name is not an id.
    #[error(transparent)]
    BadName(annals_core::id::IdError),
    /// The operating system refused.
    #[error("{0}")]
    Refused(String),
    /// The database is damaged at its place.
    #[error("the database is damaged there ({0})")]
    Damaged(String),
    /// A column holds something that cannot be used.
    #[error("{0}")]
    Column(String),
    /// The reason that was noted at the last attempt to read it.
    #[error("{0}")]
    Noted(String),
}

/// Error of a home that could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused something that is needed to read the home.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file or directory to be read.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// SQLite refused something that is needed to read the home.
    #[error("cannot read {path}: {what}")]
    Database {
        /// The database.
        path: String,
        /// What SQLite said.
        what: String,
    },
    /// The requested document is unreadable.
    #[error("{0}")]
    Unreadable(Quarantined),
}

impl From<Quarantined> for ReadError {
    fn from(quarantined: Quarantined) -> ReadError {
        ReadError::Unreadable(quarantined)
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
            reason: UnreadableReason::Damaged("x".to_owned()),
            session: None,
        });
        let counts = DamagedRows::count(&quarantined);
        assert_eq!(counts, BTreeMap::from([("message".to_owned(), 169), ("part".to_owned(), 281)]));
        for place in &places[..4] {
            assert_eq!(DamagedRows::parse(place).unwrap().to_string(), *place);
        }
    }
}
