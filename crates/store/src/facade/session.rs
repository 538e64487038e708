//! A session: the facts in its document, its messages, and prompts to it.

use std::time::SystemTime;

use annals_core::Key;
use annals_core::id::{ProjectId, SessionId};
use annals_core::llm::Request;

use super::{Messages, Prompt, Store, system_time};
use crate::fork::{Fork, ForkError, ForkOptions};
use crate::home::{CommitError, ConflictKind, Found, ReadError, SessionRecord};
use crate::homes::opencode::dialect::Dialect;
use crate::ids;
use crate::llm::{self, RequestError, RequestOptions};

/// Why a session was not forked. Nothing has changed, unless [`CommitError`] says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkSessionError {
    /// The fork could not be made.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The fork could not be stored.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// A session as it was when it was read. [`Store::session`] reads it again.
#[derive(Debug, Clone)]
pub struct Session {
    store: Store,
    record: SessionRecord,
}

impl Session {
    pub(super) fn new(store: Store, record: SessionRecord) -> Session {
        Session { store, record }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.record.id
    }

    /// Its title; empty if it has none.
    pub fn title(&self) -> &str {
        self.record.info.title()
    }

    /// The directory it was opened in. Sessions from before OpenCode 0.6 do not say.
    pub fn directory(&self) -> Option<&str> {
        self.record.info.directory()
    }

    /// The project that owns it.
    pub fn project(&self) -> &ProjectId {
        &self.record.project
    }

    /// The session that started it.
    pub fn parent(&self) -> Option<SessionId> {
        self.record.info.parent()
    }

    /// When it was made.
    pub fn created(&self) -> Option<SystemTime> {
        self.record.info.created().map(system_time)
    }

    /// When it was last used; the beginning of 1970 if its document does not say.
    pub fn updated(&self) -> SystemTime {
        system_time(self.record.info.last_used())
    }

    /// When it was archived.
    pub fn archived(&self) -> Option<SystemTime> {
        self.record.info.archived().map(system_time)
    }

    /// Its messages as they are now, in order.
    pub fn messages(&self) -> Messages<'_> {
        Messages::new(self.store.home(), &self.record)
    }

    /// The request that one of its answers was the answer to, or the one that would be sent next: see [`llm::request`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let store = annals::Store::open(directory.path().join("annals.db"))?;
    /// # let session = store.create_session("/home/me/shop").save()?;
    /// # session.prompt("The cart crashes when it is empty.").model("anthropic/claude-sonnet-4-5").save()?;
    /// use annals::llm::RequestOptions;
    /// use annals::model::json::Style;
    /// use annals::model::llm::Format;
    ///
    /// let request = session.request(&RequestOptions::of(Format::AiSdk))?.value;
    /// let json = request.json(Format::AiSdk, Style::Compact)?;
    /// # assert_eq!(
    /// #     String::from_utf8(json)?,
    /// #     r#"[{"role":"user","content":[{"type":"text","text":"The cart crashes when it is empty."}]}]"#
    /// # );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request(&self, options: &RequestOptions) -> Result<Found<Request>, RequestError> {
        llm::request(self.store.home(), &self.record, options)
    }

    /// A new prompt from the user. Nothing is written before [`Prompt::save`].
    pub fn prompt(&self, text: impl Into<String>) -> Prompt<'_> {
        Prompt::new(self, text.into())
    }

    /// Forks the session in its home: a new session that begins with a copy of its messages. An annals store keeps the texts of both once.
    pub fn fork(&self, options: &ForkOptions) -> Result<Session, ForkSessionError> {
        let home = self.store.home();
        let fork = Fork::of(home, &self.record, options, ids::now())?;
        let dialect = match self.store.annals() {
            Some(_) => Dialect::of_version(self.record.info.version()),
            None => self.store.dialect(),
        };
        home.commit(fork.transaction(home, &self.record.project, dialect, "fork a session")?)?;
        let record = home.session(&fork.id)?;
        let gone = || CommitError::Conflict {
            key: Box::new(Key::Session(self.record.project.clone(), fork.id.clone())),
            place: home.url().to_string(),
            what: ConflictKind::Gone,
        };
        Ok(Session::new(self.store.clone(), record.ok_or_else(gone)?))
    }

    /// The record underneath: the document itself, where it is stored, and which homes hold it.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// The store it was read from.
    pub fn store(&self) -> &Store {
        &self.store
    }
}
