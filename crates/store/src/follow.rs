//! Following homes: the interface that sync needs of a store.
//!
//! A store that follows homes knows which homes, and how far it has looked at each of their sessions. It compares the documents that a look finds
//! with its own, and commits the differences together with how far the look went. Sync does the rest: it surveys homes, decides what to look at,
//! and reads.

use std::any::Any;
use std::collections::{HashMap, HashSet};

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::lens::Message;
use annals_core::{ContentHash, Document, Key, Stored};

use crate::figures::Figures;
use crate::home::{CommitError, Quarantined, Read, ReadError, SessionRecord};
use crate::home_url::HomeUrl;
use crate::search::SearchError;
use crate::summary::SessionSummary;
use crate::sync::source::Source;

/// A store that can follow homes.
pub trait Follow: Read {
    /// The time by the store's clock.
    fn now(&self) -> Millis;

    /// Recognises a home that the store knows under another path, because it was moved or is reached through a link. If `is_own`, also notes that
    /// the home is the user's own.
    fn recognise(&self, home: &dyn Source, is_own: bool) -> Result<(), SyncError>;

    /// Adds a home to follow from now on.
    fn add_home(&self, home: &dyn Source, is_own: bool) -> Result<HomeNumber, SyncError>;

    /// What the store knows of a home as a whole. `None` if it never followed the home.
    fn known_home(&self, url: &HomeUrl) -> Result<Option<KnownHome>, ReadError>;

    /// All homes that the store follows or ever followed.
    fn followed_homes(&self) -> Result<Vec<FollowedHome>, ReadError>;

    /// The urls of the homes that had a session when they were last looked at.
    fn holders(&self, session: &SessionId) -> Result<Vec<String>, ReadError>;

    /// What the store knows of each session of a home.
    fn origins(&self, home: HomeNumber) -> Result<HashMap<SessionId, Origin>, ReadError>;

    /// The sessions that were forgotten and must not be imported again.
    fn forgotten(&self) -> Result<ForgottenSessions, ReadError>;

    /// Begins to compare the sessions of a home with the store. With `with_text`, findings also hold the entries for the text index.
    fn compare(&self, home: ComparedHome, with_text: bool) -> Result<Box<dyn Compare + '_>, ReadError>;

    /// Commits the findings of looks in one transaction, until `looks` ends.
    fn commit_looks(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        looks: &mut dyn Iterator<Item = LookPiece<'_>>,
    ) -> Result<CommittedLooks, CommitError>;

    /// Commits project records. A record that came from another home first stays as it is.
    fn commit_projects(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        projects: &[Stored],
    ) -> Result<Taken, CommitError>;

    /// Commits only the documents of sessions in which nothing else has changed. False if one of the sessions has to be looked at instead,
    /// or another home leads in it by now. The next sync looks at these sessions, so that it still finds other changes.
    fn commit_sessions(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        sessions: &[SessionRecord],
    ) -> Result<bool, SyncError>;

    /// Commits parts that belong to no message.
    fn commit_orphans(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        orphans: &[Stored],
    ) -> Result<Taken, SyncError>;

    /// Commits that homes no longer have sessions. All homes come at once, so that a session that is gone from several never shows a state in between.
    fn commit_gone(&self, reason: &CommitReason, gone: &[GoneFrom]) -> Result<CommittedGone, CommitError>;

    /// Commits earlier states from a home's own log. Returns the number of states that are new.
    fn commit_past(
        &self,
        home: HomeNumber,
        words: &str,
        states: Vec<PastState>,
    ) -> Result<usize, CommitError>;

    /// Commits since when documents of a session have their current state, and how far the home's log of the session was read.
    fn commit_log_position(
        &self,
        home: HomeNumber,
        words: &str,
        session: &SessionId,
        read: LoggedUpTo,
    ) -> Result<(), CommitError>;

    /// Begins to add to the text index, after waiting for any other process that does.
    fn begin_indexing(&self) -> Result<Box<dyn Indexing + '_>, SearchError>;

    /// Notes evidence of the state of a whole home, and its unreadable documents that belong to no session.
    fn note_home(&self, home: HomeNumber, state: &HomeState<'_>) -> Result<(), SyncError>;

    /// Damage in homes, as of the last look: the url of each home, and a document that could not be read there.
    fn noted_damage(&self) -> Result<Vec<(String, Quarantined)>, ReadError>;

    /// Notes the store's own path, once it has found its homes: a store that was moved or copied looks for them again.
    fn note_place(&self) -> Result<(), SyncError>;
}

/// Comparison of one home's sessions with the store. Shared by the threads that look at them.
pub trait Compare: Send + Sync {
    /// Begins a look at a session that was last used at `updated`.
    fn session(
        &self,
        session: &SessionId,
        updated: Millis,
        depth: Depth,
    ) -> Result<Box<dyn Comparison + '_>, ReadError>;
}

/// Comparison of one session with the store. Writes nothing: it collects differences until they are taken.
pub trait Comparison {
    /// Facts about the session as a whole.
    fn look(&self) -> Look;

    /// Says to which message the next documents belong. `None` if the message was not read.
    fn begin_message(&mut self, message: Option<&Message<'_>>);

    /// Compares a document with its state in the home at the last look.
    fn document(&mut self, stored: Stored) -> Result<(), ReadError>;

    /// Finds the parts that messages no longer have, given the parts that each has now.
    fn lost_parts(&mut self, messages: &[(MessageId, HashSet<PartId>)]) -> Result<(), ReadError>;

    /// Finds which of these documents the home had and no longer has.
    fn lost_documents(&mut self, keys: &[Key]) -> Result<(), ReadError>;

    /// The messages in the store that are not among these, whether they are shown or not.
    fn missing_messages(&self, present: &HashSet<MessageId>) -> Result<Vec<MessageId>, ReadError>;

    /// The records in the store that are not among these, whether they are shown or not.
    fn missing_records(&self, present: &HashSet<Key>) -> Result<Vec<Key>, ReadError>;

    /// The parts that the store has of a message, whether they are shown or not.
    fn known_parts(&self, message: &MessageId) -> Result<Vec<Key>, ReadError>;

    /// Whether the store has an answer or a call of the session that has not ended.
    fn is_open(&self) -> Result<bool, ReadError>;

    /// Takes the differences found since the last time.
    fn take(&mut self) -> Result<Findings, ReadError>;
}

/// Writer of a text index, which adds what looks have committed.
pub trait Indexing {
    /// Adds what was just committed. An error is reported by [`Indexing::finish`], so that it stops no commit.
    fn add(&mut self, committed: Indexable);

    /// Adds everything else that was committed since the index was last written, and makes it durable. Returns the number of documents added.
    fn finish(self: Box<Self>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<usize, SearchError>;
}

/// Error that ended a sync early. Everything done until then is committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The store could not be written to.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The text index could not be written.
    #[error(transparent)]
    Index(#[from] SearchError),
}

/// The number that a store has for a home it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct HomeNumber(pub(crate) i64);

/// A home that is or was followed.
#[derive(Debug, Clone)]
pub struct FollowedHome {
    /// Its url.
    pub url: String,
    /// Whether it is, or was, the user's own.
    pub is_own: bool,
}

/// A home as the store knows it.
#[derive(Debug, Clone)]
pub struct KnownHome {
    /// Its number.
    pub number: HomeNumber,
    /// Evidence of its state when it was last surveyed.
    pub stamp: Vec<u8>,
    /// Whether everything in it was imported once.
    pub is_complete: bool,
}

/// A home whose sessions are compared.
#[derive(Debug, Clone, Copy)]
pub struct ComparedHome {
    /// Its number.
    pub number: HomeNumber,
    /// See [`Source::rank`].
    pub rank: i64,
    /// Whether it is the user's own.
    pub is_own: bool,
}

/// Evidence of the state of a whole home.
#[derive(Debug)]
pub struct HomeState<'h> {
    /// The evidence. It was gathered before anything was read, so what was written meanwhile is found next time.
    pub stamp: &'h [u8],
    /// Unreadable documents that belong to no session.
    pub unreadable: &'h [Quarantined],
    /// Whether everything in the home was imported.
    pub is_complete: bool,
    /// When the home was surveyed.
    pub surveyed: Millis,
}

/// Reason for a commit: a sync found the change, or an operation made it.
#[derive(Debug, Clone)]
pub struct CommitReason {
    /// The reason in words.
    pub words: String,
    /// The number of the operation, if there was one.
    pub operation: Option<i64>,
}

/// How deep a look at a session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The session's own document; its messages and parts were counted.
    Messages = 1,
    /// Also the usage of each message and each tool call.
    Calls = 2,
    /// Everything.
    Parts = 3,
}

impl Depth {
    pub(crate) fn from_number(number: i64) -> Depth {
        match number {
            3.. => Depth::Parts,
            2 => Depth::Calls,
            _ => Depth::Messages,
        }
    }
}

/// Facts about a session as a whole that the last look at it in one home found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The home.
    pub home: HomeNumber,
    /// When the session was last used there, as its document says.
    pub updated: Millis,
    /// The rank of the home: see [`Source::rank`].
    pub rank: i64,
    /// Whether the home is the user's own.
    pub is_own: bool,
    /// Number of the look among all looks, independent of the clock.
    pub turn: i64,
    /// Whether the home still has the session.
    pub is_there: bool,
    /// Whether messages and parts were looked at.
    pub is_deep: bool,
}

/// How far the last look at a session in a home went. Decides what the next look has to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Evidence of the session's state.
    pub stamp: Vec<u8>,
    /// When the session was last used, as its document says.
    pub updated: Millis,
    /// Whether the session cannot change any more without the stamp changing.
    pub settled: bool,
    /// How deep the look went.
    pub depth: Depth,
    /// Whether something could not be read.
    pub has_unreadable: bool,
}

/// What the store knows of a session in a home.
#[derive(Debug, Clone)]
pub struct Origin {
    /// How far the last look went.
    pub cursor: Cursor,
    /// When the last look began.
    pub looked: Millis,
    /// The number of the last look among all looks.
    pub turn: i64,
    /// How far the home's own log of the session was read.
    pub log_position: Option<i64>,
    /// Whether the home no longer has the session.
    pub is_gone: bool,
}

/// The sessions that were forgotten. Only hashes of their ids are known.
#[derive(Debug, Default)]
pub struct ForgottenSessions(pub(crate) HashSet<Vec<u8>>);

impl ForgottenSessions {
    /// Whether a session was forgotten.
    pub fn contains(&self, session: &SessionId) -> bool {
        !self.0.is_empty() && self.0.contains(&ContentHash::of(session.as_str().as_bytes()).as_bytes()[..16])
    }
}

/// Differences between a session in a home and in the store. Only the store that found them can read them.
#[derive(Debug)]
pub struct Findings {
    /// How many differences there are.
    pub n_found: usize,
    /// How many of the compared documents are the same in the store.
    pub n_unchanged: usize,
    content: Box<dyn Any + Send>,
}

impl Findings {
    /// Differences in a form of the store's own.
    pub fn new(n_found: usize, n_unchanged: usize, content: impl Any + Send) -> Findings {
        Findings { n_found, n_unchanged, content: Box::new(content) }
    }

    /// The differences. `None` if another kind of store found them.
    pub fn content<T: Any>(self) -> Option<T> {
        self.content.downcast().ok().map(|content| *content)
    }
}

/// Entries for a text index from one commit. Only the store that made them can read them.
#[derive(Debug)]
pub struct Indexable(Box<dyn Any + Send>);

impl Indexable {
    /// Entries in a form of the store's own.
    pub fn new(content: impl Any + Send) -> Indexable {
        Indexable(Box::new(content))
    }

    /// The entries. `None` if another kind of store made them.
    pub fn content<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|content| *content)
    }
}

/// Piece of a look's findings in a session. Long sessions come in several pieces.
#[derive(Debug)]
pub struct LookPiece<'j> {
    /// The session.
    pub session: &'j SessionId,
    /// What the store knew of the session in this home when the look began.
    pub known: Option<&'j Origin>,
    /// Facts about the session as a whole.
    pub look: Look,
    /// The differences.
    pub findings: Findings,
    /// Set in the last piece of a session.
    pub end: Option<LookEnd>,
}

/// How a look at a session ended.
#[derive(Debug)]
pub struct LookEnd {
    /// How far it went.
    pub cursor: Cursor,
    /// Where the session's document is.
    pub place: String,
    /// When it began.
    pub looked: Millis,
    /// Where the numbers of the session come from.
    pub numbers: Numbers,
    /// What could not be read.
    pub quarantined: Vec<Quarantined>,
    /// Whether the look covered everything: then only the documents in `quarantined` are unreadable.
    pub is_whole: bool,
}

/// Where the numbers of a session come from after a look.
#[derive(Debug)]
pub enum Numbers {
    /// From its documents, which are in the store.
    Stored,
    /// From a count in its home; with the numbers of its messages if the look went that deep.
    Counted(Box<SessionSummary>, Vec<Figures>),
}

/// Outcome of a commit of looks.
#[derive(Debug, Default)]
pub struct CommittedLooks {
    /// One for each piece, in order.
    pub applied: Vec<Applied>,
    /// Entries for the text index; `None` if the index has to find them itself.
    pub to_index: Option<Indexable>,
}

/// Outcome of a commit for one piece of a look.
#[derive(Debug)]
pub enum Applied {
    /// Not applied: another process has looked at the session since the look began, so the comparison is out of date.
    Overtaken,
    /// It was applied.
    Done(AppliedPiece),
}

/// Changes made by one piece of a look.
#[derive(Debug, Default)]
pub struct AppliedPiece {
    /// Documents imported, and documents unchanged.
    pub taken: Taken,
    /// Documents that the home no longer has.
    pub deleted: usize,
    /// Whether the home leads in the session, so that its numbers count.
    pub leads: bool,
    /// Sessions in which another home leads by now, whose messages have to be counted there.
    pub uncounted: Vec<(HomeNumber, SessionId)>,
    /// What could not be read.
    pub quarantined: Vec<Quarantined>,
}

/// Counts of documents that were offered to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Imported, new or changed.
    pub imported: usize,
    /// Not changed.
    pub unchanged: usize,
}

impl Taken {
    /// Counts one more document.
    pub fn count(&mut self, is_imported: bool) {
        match is_imported {
            true => self.imported += 1,
            false => self.unchanged += 1,
        }
    }
}

/// Sessions that a home no longer has, each with what the store knows of it.
#[derive(Debug)]
pub struct GoneFrom {
    /// The home.
    pub home: HomeNumber,
    /// The sessions.
    pub sessions: Vec<(SessionId, Origin)>,
}

/// Outcome of a commit that sessions are gone.
#[derive(Debug, Default)]
pub struct CommittedGone {
    /// The sessions that were marked as gone. Those that another process has looked at since are left out.
    pub gone: Vec<SessionId>,
    /// Sessions in which another home leads by now, whose messages have to be counted there.
    pub uncounted: Vec<(HomeNumber, SessionId)>,
}

/// Earlier state of a document.
#[derive(Debug)]
pub struct PastState {
    /// When the state began.
    pub time: Millis,
    /// Which document.
    pub key: Key,
    /// The document; `None` if it was deleted then.
    pub document: Option<Document>,
}

/// How far a home's own log of a session was read.
#[derive(Debug, Default)]
pub struct LoggedUpTo {
    /// The last position.
    pub position: Option<i64>,
    /// Documents that the store has as the log left them, each with the time since when.
    pub latest: Vec<(Key, Millis)>,
}
