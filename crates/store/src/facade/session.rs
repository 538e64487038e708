//! A session: the facts in its document, its messages, and prompts to it.

use std::time::SystemTime;

use annals_core::id::{ProjectId, SessionId};

use super::{Messages, Prompt, Store, system_time};
use crate::home::SessionRecord;

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

    /// A new prompt from the user. Nothing is written before [`Prompt::save`].
    pub fn prompt(&self, text: impl Into<String>) -> Prompt<'_> {
        Prompt::new(self, text.into())
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
