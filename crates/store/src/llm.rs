//! The model's view of a session: the request that an answer was the answer to, or the one that would be sent next.
//!
//! ```no_run
//! use annals::llm::{self, RequestOptions};
//! use annals::model::json::Style;
//! use annals::model::llm::{Format, Wire};
//!
//! let home = annals::open("/home/me/.local/share/opencode/opencode.db")?;
//! let session = annals::find::session(&*home, "last")?;
//! let chat = Format::Wire(Wire::Chat);
//! let found = llm::request(&*home, &session, &RequestOptions::of(chat))?;
//! println!("{}", String::from_utf8(found.value.json(chat, Style::Pretty)?)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod past;

use annals_core::Key;
use annals_core::id::MessageId;
use annals_core::json::JsonError;
use annals_core::lens::{Message, Session};
use annals_core::llm::{
    CompactionTail, Format, HistoryMessage, Modalities, Reminders, Request, Rules, Sdk, Target, history,
};

use crate::find;
use crate::home::{
    Found, MessageDetail, MessageRange, MessageRecord, Quarantined, Read, ReadError, SessionRecord, Write,
};
use crate::open;
use past::{KnownTail, SessionPast};

/// Which request is wanted, and for which model.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// A message, by its id or a unique beginning of it. An answer stands for the request that it was the answer to; a prompt
    /// for the history up to and including it. Without one, the request that would be sent next.
    pub until: Option<String>,
    /// The rules. Those of the release that made the session, unless given.
    pub rules: Option<Rules>,
    /// The model. The one that gave the answer, or else the one that was prompted last, unless given.
    pub model: Option<ModelName>,
    /// The SDK through which the model is asked. A guess from the provider, unless given.
    pub sdk: Option<Sdk>,
    /// What the model can read besides text.
    pub input: Modalities,
    /// The member beside an answer's text under which the model wants its reasoning back.
    pub interleaved: Option<String>,
    /// Whether to add reminders that are not stored.
    pub reminders: Reminders,
    /// The tokens that a compaction keeps, if OpenCode's configuration sets them (`compaction.preserve_recent_tokens`). Needed
    /// only for the request of a summary whose end is not stored.
    pub tail_tokens: Option<usize>,
}

impl RequestOptions {
    /// The request that would be sent next, through the SDK that a format belongs to.
    pub fn of(format: Format) -> RequestOptions {
        RequestOptions {
            until: None,
            rules: None,
            model: None,
            sdk: format.sdk(),
            input: Modalities::ALL,
            interleaved: None,
            reminders: Reminders::None,
            tail_tokens: None,
        }
    }
}

/// The name of a model: its provider's id and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

impl ModelName {
    /// Reads `provider/model`. The model's id may contain more slashes.
    pub fn parse(name: &str) -> Option<ModelName> {
        let (provider, model) = name.split_once('/')?;
        let is_complete = !provider.is_empty() && !model.is_empty();
        is_complete.then(|| ModelName { provider: provider.to_owned(), model: model.to_owned() })
    }

    /// The model that a message was given by or is for.
    fn of(message: &HistoryMessage) -> Option<ModelName> {
        let (provider, model) = match message.info.lens() {
            Message::User(user) => {
                let model = user.model?;
                (model.provider_id?, model.model_id?)
            }
            Message::Assistant(answer) | Message::Other(answer) => (answer.provider_id?, answer.model_id?),
        };
        Some(ModelName { provider: provider.to_string(), model: model.to_string() })
    }
}

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The session has no such message.
    #[error("no message of session {session} begins with {wanted:?}")]
    NoMessage {
        /// What was asked for.
        wanted: String,
        /// The session.
        session: String,
    },
    /// The message belongs to another session.
    #[error("message {message} belongs to session {owner}, not to {session}")]
    OtherSession {
        /// The message.
        message: String,
        /// The session it belongs to.
        owner: String,
        /// The session that was asked.
        session: String,
    },
    /// Several messages fit.
    #[error("{wanted:?} is the beginning of {} messages of session {session}", candidates.len())]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The session.
        session: String,
        /// Their ids.
        candidates: Vec<String>,
    },
    /// No message names a model, and none was given.
    #[error("session {session} names no model")]
    NoModel {
        /// The session.
        session: String,
    },
    /// The request is too large to be made.
    #[error("the request would be too large: {0}")]
    TooLarge(#[from] JsonError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Makes the request that is wanted of a session, and names what could not be read of it.
///
/// The history is taken as it was when the request was made, as far as the home tells: from the log that OpenCode keeps since 1.16, of
/// this home or of the one that a store has the session from. Without a log, documents that were deleted or edited later are missing
/// or as they are now.
pub fn request(
    home: &dyn Read,
    session: &SessionRecord,
    options: &RequestOptions,
) -> Result<Found<Request>, RequestError> {
    let Found { value: rows, mut quarantined } = rows(home, session)?;
    let rules = options.rules.unwrap_or_else(|| rules_of(session));
    let Some(wanted) = &options.until else {
        let mut messages: Vec<HistoryMessage> = rows.into_iter().map(history_message).collect();
        let document = session.stored.document.lens::<Session<'_>>();
        if let Some((message, part)) =
            document.revert.and_then(|revert| Some((revert.message_id?, revert.part_id)))
        {
            let part = part.as_ref().map(|part| part.to_str());
            history::without_reverted(&mut messages, &message.to_str(), part.as_deref());
        }
        let target = target(None, &messages, session, options)?;
        let value = Request::next(messages, rules, target, options.reminders);
        return Ok(Found { value, quarantined });
    };
    let origin = if home.change_log().is_none() { open_origin(home, session) } else { None };
    let log = origin.as_deref().map_or(home.change_log(), |origin| origin.change_log());
    let past = SessionPast { session, rows, log };
    let id = past.find(wanted)?.ok_or_else(|| missing(home, session, wanted))?;
    let moment = past.before(&id, &mut quarantined)?;
    let Some(moment) = moment else { return Err(missing(home, session, wanted)) };
    let target = target(Some(&moment.message), &moment.before, session, options)?;
    let value = match moment.message.assistant() {
        Some(_) => Request::answered_by(
            &moment.message,
            moment.before,
            match &moment.tail {
                KnownTail::Stored(tail) => CompactionTail::Stored(tail.as_deref()),
                KnownTail::Lost => CompactionTail::NotStored { tokens: options.tail_tokens },
            },
            rules,
            target,
            options.reminders,
        )?,
        None => {
            let mut messages = moment.before;
            messages.push(moment.message);
            Request::next(messages, rules, target, options.reminders)
        }
    };
    Ok(Found { value, quarantined })
}

/// The rules of the release that made a session.
pub fn rules_of(session: &SessionRecord) -> Rules {
    let document = session.stored.document.lens::<Session<'_>>();
    Rules::of_session(document.version.as_ref().map(|version| version.to_str()).as_deref())
}

fn rows(home: &dyn Read, session: &SessionRecord) -> Result<Found<Vec<MessageRecord>>, ReadError> {
    let mut messages = home.messages(session, &MessageRange::ALL, MessageDetail::Parts);
    let mut quarantined: Vec<Quarantined> = Vec::new();
    let mut value = Vec::new();
    for message in &mut messages {
        let mut message = message?;
        quarantined.append(&mut message.quarantined);
        value.push(message);
    }
    quarantined.extend(messages.into_quarantined());
    Ok(Found { value, quarantined })
}

fn history_message(record: MessageRecord) -> HistoryMessage {
    HistoryMessage {
        provenance: record.stored.provenance,
        info: record.stored.document,
        parts: record.parts.into_iter().map(|part| part.document).collect(),
    }
}

/// The model that a request is for: the given one, the one of the message, or else the one prompted last.
fn target(
    message: Option<&HistoryMessage>,
    before: &[HistoryMessage],
    session: &SessionRecord,
    options: &RequestOptions,
) -> Result<Target, RequestError> {
    let named = || {
        let of_prompt =
            before.iter().rev().filter(|message| message.user().is_some()).find_map(ModelName::of);
        of_prompt.or_else(|| before.iter().rev().find_map(ModelName::of))
    };
    let name = options.model.clone().or_else(|| message.and_then(ModelName::of)).or_else(named);
    let ModelName { provider, model } =
        name.ok_or_else(|| RequestError::NoModel { session: session.id.to_string() })?;
    let sdk = options.sdk.unwrap_or_else(|| Sdk::guess(&provider));
    Ok(Target { provider, model, sdk, input: options.input, interleaved: options.interleaved.clone() })
}

/// The home that a store has a session from, if it can be opened. Its log may tell what the store does not know.
fn open_origin(home: &dyn Read, session: &SessionRecord) -> Option<Box<dyn Write>> {
    let here = home.url();
    let origins = session.origins.iter().filter(|origin| **origin != here);
    let opened = origins.filter_map(|origin| open::open(origin).ok());
    opened.into_iter().find(|origin| {
        origin.change_log().is_some() && origin.session(&session.id).is_ok_and(|found| found.is_some())
    })
}

/// Why a message was not found.
fn missing(home: &dyn Read, session: &SessionRecord, wanted: &str) -> RequestError {
    let elsewhere = MessageId::parse(wanted).ok().and_then(|id| find::message(home, &id).ok().flatten());
    match elsewhere {
        Some((owner, stored)) => RequestError::OtherSession {
            message: match stored.key {
                Key::Message(_, id) => id.to_string(),
                _ => wanted.to_owned(),
            },
            owner: owner.id.to_string(),
            session: session.id.to_string(),
        },
        None => RequestError::NoMessage { wanted: wanted.to_owned(), session: session.id.to_string() },
    }
}
