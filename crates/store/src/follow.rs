//! Following homes: what sync needs of a store.
//!
//! A store that follows homes knows which ones, and how far it has looked at each of their sessions. It compares the documents that a look finds with
//! what it has, and commits the differences together with how far the look went. Sync does the rest: it surveys homes, decides what to look at,
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

    /// Recognises a home that the store knows at another place, because it was moved or is reached through a link. Also notes that a home is the
    /// user's own, if it is.
    fn recognise(&self, home: &dyn Source, is_own: bool) -> Result<(), SyncError>;

    /// Adds a home that is followed from now on.
    fn add_home(&self, home: &dyn Source, is_own: bool) -> Result<HomeNumber, SyncError>;

    /// What is known of a home as a whole. None if it was never followed.
    fn known_home(&self, url: &HomeUrl) -> Result<Option<KnownHome>, ReadError>;

    /// All homes that were ever followed.
    fn followed_homes(&self) -> Result<Vec<FollowedHome>, ReadError>;

    /// The urls of the homes that had a session when they were last looked at.
    fn holders(&self, session: &SessionId) -> Result<Vec<String>, ReadError>;

    /// What is known of each session of a home.
    fn origins(&self, home: HomeNumber) -> Result<HashMap<SessionId, Origin>, ReadError>;

    /// The sessions that were forgotten and must not be taken over again.
    fn forgotten(&self) -> Result<ForgottenSessions, ReadError>;

    /// Begins to compare the sessions of a home with what the store has. With `with_text`, findings also hold what the text index is to know.
    fn compare(&self, home: ComparedHome, with_text: bool) -> Result<Box<dyn Compare + '_>, ReadError>;

    /// Commits what looks have found, until there is nothing more, in one transaction.
    fn commit_looks(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        looks: &mut dyn Iterator<Item = LookPiece<'_>>,
    ) -> Result<CommittedLooks, CommitError>;

    /// Commits project records. A record that another home gave first stays as it is.
    fn commit_projects(
        &self,
        home: HomeNumber,
        reason: &CommitReason,
        projects: &[Stored],
    ) -> Result<Taken, CommitError>;

    /// Commits session documents alone, of sessions of which nothing else has changed. False if one of the sessions has to be looked at instead,
    /// or another home leads in it by now. The next sync looks at these sessions, so that other changes are still found.
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

    /// Commits that sessions are not where they were, of all homes at once: so a session that is gone from several becomes nothing else in between.
    fn commit_gone(&self, reason: &CommitReason, gone: &[GoneFrom]) -> Result<CommittedGone, CommitError>;

    /// Commits states of the past that a home's own log tells of. Gives the number of states that are new.
    fn commit_past(
        &self,
        home: HomeNumber,
        words: &str,
        states: Vec<PastState>,
    ) -> Result<usize, CommitError>;

    /// Commits since when documents of a session are what they are, and how far the home's log of it was read.
    fn commit_log_position(
        &self,
        home: HomeNumber,
        words: &str,
        session: &SessionId,
        read: LoggedUpTo,
    ) -> Result<(), CommitError>;

    /// Begins to add to the text index. While another process does, this one waits.
    fn begin_indexing(&self) -> Result<Box<dyn Indexing + '_>, SearchError>;

    /// Notes evidence of the state of a whole home, and what of it could not be read and belongs to no session.
    fn note_home(&self, home: HomeNumber, state: &HomeState<'_>) -> Result<(), SyncError>;

    /// Damage in homes that was noted when they were last looked at: the url of each home, and what could not be read there.
    fn noted_damage(&self) -> Result<Vec<(String, Quarantined)>, ReadError>;

    /// Notes where the store is, once it has found its homes: a store that was moved or copied looks for them again.
    fn note_place(&self) -> Result<(), SyncError>;
}

/// The sessions of one home, held against what the store has. Shared by the threads that look at them.
pub trait Compare: Send + Sync {
    /// Begins a look at a session that was last used at `updated`.
    fn session(
        &self,
        session: &SessionId,
        updated: Millis,
        depth: Depth,
    ) -> Result<Box<dyn Comparison + '_>, ReadError>;
}

/// A look at one session, held against what the store has. Nothing is written here: differences are collected until they are taken.
pub trait Comparison {
    /// What the look says about the session as a whole.
    fn look(&self) -> Look;

    /// Tells of which message the documents that follow are, as far as the message could be read.
    fn begin_message(&mut self, message: Option<&Message<'_>>);

    /// Compares a document with what the home had at the last look.
    fn document(&mut self, stored: Stored) -> Result<(), ReadError>;

    /// Finds the parts that messages have lost, given the parts that each has now.
    fn lost_parts(&mut self, messages: &[(MessageId, HashSet<PartId>)]) -> Result<(), ReadError>;

    /// Finds which of some documents the home had and does not have any more.
    fn lost_documents(&mut self, keys: &[Key]) -> Result<(), ReadError>;

    /// The messages in the store that are not among these, whether they are shown or not.
    fn missing_messages(&self, present: &HashSet<MessageId>) -> Result<Vec<MessageId>, ReadError>;

    /// The records in the store that are not among these, whether they are shown or not.
    fn missing_records(&self, present: &HashSet<Key>) -> Result<Vec<Key>, ReadError>;

    /// The parts that the store has of a message, whether they are shown or not.
    fn known_parts(&self, message: &MessageId) -> Result<Vec<Key>, ReadError>;

    /// Whether an answer or a call of the session has not ended, as far as the store knows.
    fn is_open(&self) -> Result<bool, ReadError>;

    /// Takes the differences found since the last time.
    fn take(&mut self) -> Result<Findings, ReadError>;
}

/// Adds to a text index what looks have committed.
pub trait Indexing {
    /// Adds what was just committed. A failure shows when indexing is finished, so that it stops no commit.
    fn add(&mut self, committed: Indexable);

    /// Adds everything else that was committed since the index was last written, and makes it durable. Gives the number of documents added.
    fn finish(self: Box<Self>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<usize, SearchError>;
}

/// A sync ended early. What was done until then is committed.
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
    /// Whether everything in it was taken over once.
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
    /// What could not be read and belongs to no session.
    pub unreadable: &'h [Quarantined],
    /// Whether everything in the home was taken over.
    pub is_complete: bool,
    /// When the home was surveyed.
    pub surveyed: Millis,
}

/// Why something is committed: a sync found it, or an operation made it.
#[derive(Debug, Clone)]
pub struct CommitReason {
    /// The reason in words.
    pub words: String,
    /// The number of the operation.
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

/// What the last look at a session in one home found out about the session as a whole.
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
    /// Counts all looks, whatever the clock says.
    pub turn: i64,
    /// Whether the home still has the session.
    pub is_there: bool,
    /// Whether messages and parts were looked at.
    pub is_deep: bool,
}

/// How far the last look at a session in a home went, as far as that decides what to do at the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Evidence of the session's state.
    pub stamp: Vec<u8>,
    /// When the session was last used, as its document says.
    pub updated: Millis,
    /// Whether nothing changes any more without the stamp changing.
    pub settled: bool,
    /// How deep the look went.
    pub depth: Depth,
    /// Whether something could not be read.
    pub has_unreadable: bool,
}

/// What is known of a session in a home.
#[derive(Debug, Clone)]
pub struct Origin {
    /// How far the last look went.
    pub cursor: Cursor,
    /// When that was.
    pub looked: Millis,
    /// The number of that look among all looks.
    pub turn: i64,
    /// How far the home's own log of the session was read.
    pub log_position: Option<i64>,
    /// Whether the home does not have the session any more.
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

/// Differences between a session in a home and what the store has of it. Only the store that found them can read them.
#[derive(Debug)]
pub struct Findings {
    /// How many differences there are.
    pub n_found: usize,
    /// How many of the documents that were compared are not otherwise than the store has them.
    pub n_unchanged: usize,
    content: Box<dyn Any + Send>,
}

impl Findings {
    /// Differences in a form of the store's own.
    pub fn new(n_found: usize, n_unchanged: usize, content: impl Any + Send) -> Findings {
        Findings { n_found, n_unchanged, content: Box::new(content) }
    }

    /// The differences. None if another kind of store has found them.
    pub fn content<T: Any>(self) -> Option<T> {
        self.content.downcast().ok().map(|content| *content)
    }
}

/// What a text index is to know of a commit. Only the store that made it can read it.
#[derive(Debug)]
pub struct Indexable(Box<dyn Any + Send>);

impl Indexable {
    /// What the index is to know, in a form of the store's own.
    pub fn new(content: impl Any + Send) -> Indexable {
        Indexable(Box::new(content))
    }

    /// What the index is to know. None if another kind of store has made it.
    pub fn content<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|content| *content)
    }
}

/// A piece of what a look has found in a session. Long sessions come in several.
#[derive(Debug)]
pub struct LookPiece<'j> {
    /// The session.
    pub session: &'j SessionId,
    /// What was known of it in this home when the look began.
    pub known: Option<&'j Origin>,
    /// What the look says about the session as a whole.
    pub look: Look,
    /// The differences.
    pub findings: Findings,
    /// With the last piece of a session.
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
    /// Whether the look covered everything, so that what it did not find unreadable is readable.
    pub is_whole: bool,
}

/// Where the numbers of a session come from after a look.
#[derive(Debug)]
pub enum Numbers {
    /// From its documents, which are in the store.
    Stored,
    /// From its home, which has counted them; with those of its messages if the look went that deep.
    Counted(Box<SessionSummary>, Vec<Figures>),
}

/// What became of the pieces of looks that were committed.
#[derive(Debug, Default)]
pub struct CommittedLooks {
    /// One for each piece, in order.
    pub applied: Vec<Applied>,
    /// What the text index is to know; none if it has to find out by itself.
    pub to_index: Option<Indexable>,
}

/// What became of a piece of a look.
#[derive(Debug)]
pub enum Applied {
    /// Nothing: another process has looked at the session since the look began, so what it was compared with is out of date.
    Overtaken,
    /// It was applied.
    Done(AppliedPiece),
}

/// What applying a piece of a look did.
#[derive(Debug, Default)]
pub struct AppliedPiece {
    /// Documents taken over, and found to be as they were.
    pub taken: Taken,
    /// Documents that the home does not have any more.
    pub deleted: usize,
    /// Whether the home leads in the session, so that its numbers count.
    pub leads: bool,
    /// Sessions in which another home leads by now, whose messages have to be counted there.
    pub uncounted: Vec<(HomeNumber, SessionId)>,
    /// What could not be read.
    pub quarantined: Vec<Quarantined>,
}

/// Documents that were offered to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Taken over, new or changed.
    pub imported: usize,
    /// Found as they were.
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

/// Sessions that a home does not have any more, each with what was known of it.
#[derive(Debug)]
pub struct GoneFrom {
    /// The home.
    pub home: HomeNumber,
    /// The sessions.
    pub sessions: Vec<(SessionId, Origin)>,
}

/// What came of noting that sessions are gone.
#[derive(Debug, Default)]
pub struct CommittedGone {
    /// The sessions that were noted. Those that another process has looked at since are not.
    pub gone: Vec<SessionId>,
    /// Sessions in which another home leads by now, whose messages have to be counted there.
    pub uncounted: Vec<(HomeNumber, SessionId)>,
}

/// What a document was from some time on.
#[derive(Debug)]
pub struct PastState {
    /// Since when.
    pub time: Millis,
    /// Which document.
    pub key: Key,
    /// None: it was deleted then.
    pub document: Option<Document>,
}

/// How far a home's own log of a session was read.
#[derive(Debug, Default)]
pub struct LoggedUpTo {
    /// The last position.
    pub position: Option<i64>,
    /// Documents that are in the store as the log left them, each with the time since when.
    pub latest: Vec<(Key, Millis)>,
}
