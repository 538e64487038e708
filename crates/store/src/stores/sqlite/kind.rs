//! The kinds of documents, and their numbers in the store.

use annals_core::Key;
use annals_core::id::{MessageId, PartId, ProjectId, RecordId, SessionId};

/// A kind of document. The numbers are part of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Project = 1,
    Session = 2,
    Message = 3,
    Part = 4,
    Todo = 5,
    Diff = 6,
    Share = 7,
    LegacyShare = 8,
    Record = 9,
}

impl Kind {
    pub(super) const BESIDE: [Kind; 4] = [Kind::Todo, Kind::Diff, Kind::Share, Kind::LegacyShare];

    pub(super) fn of(key: &Key) -> Kind {
        match key {
            Key::Project(_) => Kind::Project,
            Key::Session(..) => Kind::Session,
            Key::Message(..) => Kind::Message,
            Key::Part(..) => Kind::Part,
            Key::Todo(_) => Kind::Todo,
            Key::Diff(_) => Kind::Diff,
            Key::Share(_) => Kind::Share,
            Key::LegacyShare(_) => Kind::LegacyShare,
            Key::Record(..) => Kind::Record,
        }
    }

    pub(super) fn number(self) -> i64 {
        self as i64
    }

    pub(super) fn from_number(number: i64) -> Option<Kind> {
        [
            Kind::Project,
            Kind::Session,
            Kind::Message,
            Kind::Part,
            Kind::Todo,
            Kind::Diff,
            Kind::Share,
            Kind::LegacyShare,
            Kind::Record,
        ]
        .into_iter()
        .find(|kind| kind.number() == number)
    }

    /// Whether documents of this kind are in the text index.
    pub(super) fn has_text(self) -> bool {
        matches!(self, Kind::Session | Kind::Message | Kind::Part)
    }

    /// A key of this kind, for callers that ignore its ids.
    pub(super) fn any_key(self) -> Key {
        self.key("xx_0", Some("msg_0"), Some("ses_0"), None).expect("these are ids")
    }

    /// The key of a document of this kind, from its ids. None if they are not valid ids.
    pub(super) fn key(
        self,
        id: &str,
        message: Option<&str>,
        session: Option<&str>,
        project: Option<&str>,
    ) -> Option<Key> {
        let session_id = || SessionId::parse(session?).ok();
        Some(match self {
            Kind::Project => Key::Project(ProjectId::parse(id).ok()?),
            Kind::Session => {
                let project = project.and_then(|project| ProjectId::parse(project).ok());
                Key::Session(project.unwrap_or_else(ProjectId::global), SessionId::parse(id).ok()?)
            }
            Kind::Message => Key::Message(session_id()?, MessageId::parse(id).ok()?),
            Kind::Part => Key::Part(session_id()?, MessageId::parse(message?).ok()?, PartId::parse(id).ok()?),
            Kind::Todo => Key::Todo(session_id()?),
            Kind::Diff => Key::Diff(session_id()?),
            Kind::Share => Key::Share(session_id()?),
            Kind::LegacyShare => Key::LegacyShare(session_id()?),
            Kind::Record => Key::Record(session_id()?, RecordId::parse(id).ok()?),
        })
    }
}
