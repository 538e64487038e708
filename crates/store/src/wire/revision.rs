//! Revisions of a store.

use annals_core::id::Millis;
use serde::Serialize;

use crate::home::{self, Receipt};

/// Changes that a store committed together.
#[derive(Debug, Clone, Serialize)]
pub struct Revision<'a> {
    /// Number of the revision.
    pub revision: i64,
    /// When it was made.
    pub time: Millis,
    /// Why it was made.
    pub reason: &'a str,
    /// The home in which a sync found the changes; `null` for changes committed to the store itself.
    pub home: Option<&'a str>,
    /// Number of documents written.
    pub written: usize,
    /// Number of documents deleted.
    pub deleted: usize,
    /// The sessions that the revision changed.
    pub sessions: Vec<RevisedSession<'a>>,
}

/// A session that a revision changed.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RevisedSession<'a> {
    /// Id of the session.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// Number of its documents written.
    pub written: usize,
    /// Number of its documents deleted.
    pub deleted: usize,
}

impl<'a> From<&'a home::Revision> for Revision<'a> {
    fn from(revision: &'a home::Revision) -> Revision<'a> {
        let sessions = revision.touched.iter().filter_map(|touched| {
            Some(RevisedSession {
                session_id: touched.session.as_ref()?.as_str(),
                written: touched.written,
                deleted: touched.deleted,
            })
        });
        Revision {
            revision: revision.number,
            time: revision.time,
            reason: &revision.reason,
            home: revision.home.as_deref(),
            written: revision.touched.iter().map(|touched| touched.written).sum(),
            deleted: revision.touched.iter().map(|touched| touched.deleted).sum(),
            sessions: sessions.collect(),
        }
    }
}

/// A revision that was undone.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UndoneRevision<'a> {
    /// Number of the revision that was undone.
    pub undone: i64,
    /// Why that revision was made.
    pub reason: &'a str,
    /// The revision that undid it; `null` if nothing had to be changed.
    pub revision: Option<i64>,
    /// Number of documents written.
    pub written: usize,
    /// Number of documents deleted.
    pub deleted: usize,
}

impl<'a> UndoneRevision<'a> {
    /// A revision, and the commit that undid it.
    pub fn of(revision: &'a home::Revision, receipt: &Receipt) -> UndoneRevision<'a> {
        UndoneRevision {
            undone: revision.number,
            reason: &revision.reason,
            revision: receipt.revision,
            written: receipt.written,
            deleted: receipt.deleted,
        }
    }
}
