//! Homes that can be followed: they tell cheaply which of their sessions may have changed, and how.

use std::ops::ControlFlow;

use annals_core::id::{MessageId, Millis, PartId, ProjectId, SessionId};
use annals_core::{Key, Stored};

use crate::home::{
    Found, MessageDetail, MessageRange, MessageRecord, Quarantined, Read, ReadError, SessionRecord,
};

/// A home that sync can follow.
pub trait Source: Read {
    /// Every session in the home, with evidence of its state: while the evidence stays the same, OpenCode has not changed a
    /// session that has settled. Costs a few system calls for each session, or none at all if the home as a whole shows that
    /// nothing was written to it.
    fn survey(&self) -> Result<Survey, ReadError>;

    /// A session that was sighted. `None` if it has been deleted since.
    fn sighted(&self, sighting: &Sighting) -> Result<Option<SessionRecord>, ReadError> {
        self.session(&sighting.session)
    }

    /// The messages of a session, without the documents that were last written before `_since`. `None` if the home cannot
    /// tell.
    fn look_since(
        &self,
        _session: &SessionRecord,
        _since: Millis,
        _visit: &mut dyn FnMut(Seen) -> ControlFlow<()>,
    ) -> Option<Result<Vec<Quarantined>, ReadError>> {
        None
    }

    /// The records that the messages of a session were made from, byte for byte as the agent wrote them, under
    /// [`Key::Record`]. Empty in homes whose documents are the agent's own. Problems that were reported with the messages are
    /// reported here again: while something is unreadable, it is not certain that a record is gone.
    fn records(&self, _session: &SessionRecord) -> Result<Found<Vec<Stored>>, ReadError> {
        Ok(Found::default())
    }

    /// Documents of a session that belong to no message of it: parts that OpenCode's undo left behind.
    fn orphans(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        Ok(Found::default())
    }

    /// Whether the home has a place for such a document at all. If not, its absence does not mean that it was deleted.
    fn has_place_for(&self, _key: &Key) -> bool {
        true
    }

    /// Rank of the home. Among homes in which a session was used at the same time, the one with the highest rank leads. A newer
    /// generation of an agent's storage ranks above an older one, which the agent no longer writes to.
    fn rank(&self) -> i64 {
        0
    }

    /// Evidence of the state of the home as a whole, if it is cheap to get: while it stays the same, nothing was written to the home.
    fn stamp(&self) -> Option<HomeStamp> {
        None
    }
}

/// Evidence of the state of a home as a whole.
#[derive(Debug, Clone)]
pub struct HomeStamp {
    /// The evidence.
    pub bytes: Vec<u8>,
    /// When the home was last written to.
    pub written: Millis,
}

/// A home seen from outside: its sessions, without reading them.
#[derive(Debug, Default)]
pub struct Survey {
    /// Evidence of the state of all project records together.
    pub projects: Vec<u8>,
    /// The sessions.
    pub sessions: Vec<Sighting>,
    /// Places that could not be listed. There may be sessions in them.
    pub quarantined: Vec<Quarantined>,
}

/// A session seen from outside: evidence of its state, without reading it.
#[derive(Debug, Clone)]
pub struct Sighting {
    /// Its id.
    pub session: SessionId,
    /// The project it is filed under.
    pub project: ProjectId,
    /// Evidence of its state.
    pub stamp: Vec<u8>,
    /// When it was last written to, according to the evidence.
    pub written: Millis,
    /// Whether it was sighted in one place only.
    pub is_single: bool,
}

/// A message as a look found it.
#[derive(Debug)]
pub struct Seen {
    /// Its id.
    pub id: MessageId,
    /// Its document, if it may have changed.
    pub stored: Option<Stored>,
    /// Its parts, each with its document if that may have changed.
    pub parts: Vec<(PartId, Option<Stored>)>,
    /// How many parts there are, readable or not.
    pub n_parts: usize,
    /// Whether `parts` are all parts of the message: then a part that is not among them has been deleted.
    pub is_complete: bool,
    /// Parts that could not be read.
    pub quarantined: Vec<Quarantined>,
}

impl Seen {
    fn of(record: MessageRecord) -> Option<Seen> {
        let Key::Message(_, id) = &record.stored.key else { return None };
        let id = id.clone();
        let parts = record.parts.into_iter().filter_map(|part| match &part.key {
            Key::Part(_, _, id) => Some((id.clone(), Some(part))),
            _ => None,
        });
        Some(Seen {
            id,
            stored: Some(record.stored),
            parts: parts.collect(),
            n_parts: record.n_parts,
            is_complete: record.quarantined.is_empty(),
            quarantined: record.quarantined,
        })
    }
}

/// Looks at the messages of a session: all of them, or those written since `since` if the home can tell.
pub(super) fn look(
    source: &dyn Source,
    session: &SessionRecord,
    since: Option<Millis>,
    visit: &mut dyn FnMut(Seen) -> ControlFlow<()>,
) -> Result<Vec<Quarantined>, ReadError> {
    if let Some(since) = since
        && let Some(result) = source.look_since(session, since, visit)
    {
        return result;
    }
    let mut messages = source.messages(session, &MessageRange::ALL, MessageDetail::Parts);
    for record in &mut messages {
        if let Some(seen) = Seen::of(record?)
            && visit(seen).is_break()
        {
            break;
        }
    }
    Ok(messages.into_quarantined())
}
