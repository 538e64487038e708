//! Carries out events: the sessions of a stream, and the turn that is open in each.

mod given;
mod open_turn;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use annals_core::id::{MessageId, PartId, SessionId};

use super::event::{self, EventParseError, TurnEvent};
use super::{Turn, TurnError, TurnOptions};
use crate::facade::{CreateError, PromptError, Session, Store};
use crate::home::ReadError;
use crate::lease::LeaseError;
use given::prompt_of;
use open_turn::OpenTurn;

/// An event writer flushes by itself, so that it can tell what is stored. This keeps turns from doing so.
const NEVER: Duration = Duration::from_secs(86_400);

/// Carries out events in one store. Several sessions may have an open turn at once.
#[derive(Debug)]
pub struct EventWriter {
    store: Store,
    /// The session of events that name none.
    default: Option<SessionId>,
    /// The directory of sessions that name none.
    directory: PathBuf,
    flush_every: Duration,
    /// Names that the stream gave to sessions.
    names: HashMap<String, SessionId>,
    sessions: HashMap<SessionId, OpenSession>,
}

/// What an event did.
#[derive(Debug, Clone, Default)]
pub struct AppliedEvent {
    /// The session that the event was about.
    pub session: Option<SessionId>,
    /// The message that was made or ended.
    pub message: Option<MessageId>,
    /// The part that was made or changed.
    pub part: Option<PartId>,
    /// The session of a subagent that was created.
    pub child: Option<SessionId>,
    /// Whether it is not stored yet: a piece of text. Everything else is, with all pieces of the same session that came before.
    pub is_pending: bool,
}

/// Why an event was refused. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// It is no event.
    #[error(transparent)]
    Parse(#[from] EventParseError),
    /// A member has a value that does not fit.
    #[error("{0}")]
    BadValue(String),
    /// The event names no session, and the stream has none.
    #[error("no session: name one, or create one first")]
    NoSession,
    /// There is no such session.
    #[error("there is no session {0:?}")]
    UnknownSession(String),
    /// The name is used for another session.
    #[error("{0:?} cannot name a session: choose a name of your own, and each only once")]
    BadName(String),
    /// No turn is open in the session.
    #[error("no turn is open in session {0}")]
    NoTurn(SessionId),
    /// A turn is open in the session.
    #[error("a turn is open in session {0}: finish it first")]
    TurnOpen(SessionId),
    /// No answer is open in the session.
    #[error("no answer is open in session {0}")]
    NoAnswer(SessionId),
    /// No such text is open.
    #[error("no {what} {}is open", named(id))]
    NoText {
        /// Text or thought.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// A text of that name is open.
    #[error("a {what} {}is open: give the new one another `id`", named(id))]
    TextOpen {
        /// Text or thought.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// No such call is open.
    #[error("no call {0:?} is open")]
    NoCall(String),
    /// A call of that name is open.
    #[error("a call {0:?} is open")]
    CallOpen(String),
    /// The call does not run yet.
    #[error("call {0:?} does not run yet: send `tool-run` first")]
    NotRunning(String),
    /// The call runs already.
    #[error("call {0:?} runs already")]
    Running(String),
    /// The session could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The prompt could not be stored.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The turn could not go on.
    #[error(transparent)]
    Turn(#[from] TurnError),
}

/// A name in a message, if there is one.
fn named(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!("{id:?} ") }
}

impl EventError {
    /// The kind of the error in machine output.
    pub fn kind(&self) -> &'static str {
        match self {
            EventError::Parse(EventParseError::NotJson(_)) => "not-json",
            EventError::Parse(EventParseError::UnknownType(_)) => "unknown-event",
            EventError::Parse(_) | EventError::BadValue(_) | EventError::BadName(_) => "bad-event",
            EventError::NoSession | EventError::UnknownSession(_) => "no-session",
            EventError::NoTurn(_) => "no-turn",
            EventError::TurnOpen(_) => "turn-open",
            EventError::NoAnswer(_) => "no-answer",
            EventError::NoText { .. } => "no-text",
            EventError::TextOpen { .. } => "text-open",
            EventError::NoCall(_) => "no-call",
            EventError::CallOpen(_) => "call-open",
            EventError::NotRunning(_) => "not-running",
            EventError::Running(_) => "running",
            EventError::Turn(TurnError::Lease(LeaseError::Held { .. })) => "held",
            EventError::Turn(TurnError::Busy { .. }) => "busy",
            EventError::Turn(TurnError::AnswerOpen) => "answer-open",
            EventError::Turn(TurnError::Unfinished { .. }) => "unfinished",
            EventError::Turn(TurnError::NoPrompt { .. }) => "no-prompt",
            EventError::Prompt(PromptError::Model { .. } | PromptError::NoModel { .. })
            | EventError::Turn(TurnError::Prompt(PromptError::Model { .. } | PromptError::NoModel { .. })) => {
                "bad-event"
            }
            EventError::Create(_) | EventError::Prompt(_) | EventError::Read(_) | EventError::Turn(_) => {
                "not-stored"
            }
        }
    }
}

/// A session of the stream.
#[derive(Debug)]
struct OpenSession {
    session: Session,
    turn: Option<OpenTurn>,
}

impl EventWriter {
    /// A writer of events to a store. Events that name no session are about `session`, or else about the first one that is created.
    pub fn new(store: Store, session: Option<Session>, directory: PathBuf, options: &TurnOptions) -> Self {
        let default = session.as_ref().map(|session| session.id().clone());
        let sessions =
            session.into_iter().map(|session| (session.id().clone(), OpenSession { session, turn: None }));
        EventWriter {
            store,
            default,
            directory,
            flush_every: options.flush_every,
            names: HashMap::new(),
            sessions: sessions.collect(),
        }
    }

    /// Carries out an event. When this returns, it is stored, unless it is a piece of text.
    pub fn apply(&mut self, event: &TurnEvent) -> Result<AppliedEvent, EventError> {
        if let TurnEvent::CreateSession(create) = event {
            return self.create(create);
        }
        let id = self.resolve(event.session())?;
        let applied = match event {
            TurnEvent::StartTurn(start) => self.start_turn(&id, start),
            TurnEvent::ResumeTurn(resume) => self.resume_turn(&id, resume),
            TurnEvent::AddPrompt(prompt) => self.add_prompt(&id, prompt),
            TurnEvent::StartChild(child) => self.start_child(&id, child),
            TurnEvent::FinishTurn(_) => {
                self.turn(&id)?.end()?;
                self.close(&id)
            }
            TurnEvent::AbortTurn(_) => {
                self.turn(&id)?;
                self.close(&id)
            }
            _ => {
                let turn = self.turn(&id)?;
                let applied = turn.apply(&id, event)?;
                turn.note_pending(applied.is_pending);
                Ok(applied)
            }
        }?;
        Ok(AppliedEvent { session: Some(id), ..applied })
    }

    /// When collected pieces of text have to be stored: call [`EventWriter::flush`] then.
    pub fn due(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|open| open.turn.as_ref()?.due()).min()
    }

    /// Stores the pieces of text that were collected, in every session that has some.
    pub fn flush(&mut self) -> Vec<(SessionId, Result<(), TurnError>)> {
        let mut flushed = Vec::new();
        for (id, open) in &mut self.sessions {
            if let Some(turn) = open.turn.as_mut().filter(|turn| turn.due().is_some()) {
                flushed.push((id.clone(), turn.flush()));
            }
        }
        flushed
    }

    /// Aborts all turns that are open, and says how that went.
    pub fn abort(&mut self) -> Vec<(SessionId, Result<(), TurnError>)> {
        let open = self.sessions.iter_mut().filter_map(|(id, open)| Some((id.clone(), open.turn.take()?)));
        open.map(|(id, turn)| (id, turn.abort())).collect()
    }

    fn resolve(&mut self, named: Option<&str>) -> Result<SessionId, EventError> {
        let id = match named {
            None => self.default.clone().ok_or(EventError::NoSession)?,
            Some(name) => match self.names.get(name) {
                Some(id) => id.clone(),
                None => SessionId::parse(name).map_err(|_| EventError::UnknownSession(name.to_owned()))?,
            },
        };
        if !self.sessions.contains_key(&id) {
            let session = self.store.session_by_id(&id)?;
            let session = session.ok_or_else(|| EventError::UnknownSession(id.to_string()))?;
            self.sessions.insert(id.clone(), OpenSession { session, turn: None });
        }
        Ok(id)
    }

    fn turn(&mut self, id: &SessionId) -> Result<&mut OpenTurn, EventError> {
        let open = self.sessions.get_mut(id).and_then(|open| open.turn.as_mut());
        open.ok_or_else(|| EventError::NoTurn(id.clone()))
    }

    /// Ends a turn that has ended, or aborts it.
    fn close(&mut self, id: &SessionId) -> Result<AppliedEvent, EventError> {
        if let Some(open) = self.sessions.get_mut(id).and_then(|open| open.turn.take()) {
            open.abort()?;
        }
        Ok(AppliedEvent::default())
    }

    /// Checks a name that the stream gives to a session.
    fn check_name(&self, name: Option<&String>) -> Result<(), EventError> {
        let is_bad = |name: &&String| {
            name.is_empty() || name.starts_with("ses") || self.names.contains_key(name.as_str())
        };
        match name.filter(is_bad) {
            Some(name) => Err(EventError::BadName(name.clone())),
            None => Ok(()),
        }
    }

    fn add_session(&mut self, session: Session, name: Option<&String>) -> AppliedEvent {
        let id = session.id().clone();
        if let Some(name) = name {
            self.names.insert(name.clone(), id.clone());
        }
        self.default.get_or_insert_with(|| id.clone());
        self.sessions.insert(id.clone(), OpenSession { session, turn: None });
        AppliedEvent { session: Some(id), ..AppliedEvent::default() }
    }

    fn create(&mut self, event: &event::CreateSession) -> Result<AppliedEvent, EventError> {
        self.check_name(event.name.as_ref())?;
        let directory = match &event.directory {
            Some(directory) => self.directory.join(directory),
            None => self.directory.clone(),
        };
        let mut new = self.store.create_session(directory);
        if let Some(title) = &event.title {
            new = new.title(title);
        }
        if let Some(parent) = &event.parent {
            let parent = self.resolve(Some(parent))?;
            new = new.parent(self.session(&parent)?);
        }
        let session = new.save()?;
        Ok(self.add_session(session, event.name.as_ref()))
    }

    fn start_child(&mut self, id: &SessionId, event: &event::StartChild) -> Result<AppliedEvent, EventError> {
        self.check_name(event.name.as_ref())?;
        let call = self.turn(id)?.running(&event.call)?;
        let (part, child) = (call.id().clone(), call.child(&event.description, &event.agent)?);
        let child = self.add_session(child, event.name.as_ref()).session;
        Ok(AppliedEvent { part: Some(part), child, ..AppliedEvent::default() })
    }

    /// Stores a prompt without opening a turn.
    fn add_prompt(&mut self, id: &SessionId, event: &event::AddPrompt) -> Result<AppliedEvent, EventError> {
        if let Ok(turn) = self.turn(id) {
            turn.flush()?;
        }
        let session = self.session(id)?;
        let message = Some(prompt_of!(session, event)?.save()?);
        Ok(AppliedEvent { message, ..AppliedEvent::default() })
    }

    fn start_turn(&mut self, id: &SessionId, event: &event::StartTurn) -> Result<AppliedEvent, EventError> {
        let session = self.session_without_turn(id)?;
        let turn = Turn::begin_with(&prompt_of!(session, event)?, &options(event.take_over))?;
        self.open(id, turn)
    }

    fn resume_turn(&mut self, id: &SessionId, event: &event::ResumeTurn) -> Result<AppliedEvent, EventError> {
        let session = self.session_without_turn(id)?;
        let message = MessageId::parse(&event.message);
        let message = message.map_err(|error| EventError::BadValue(error.to_string()))?;
        let turn = Turn::resume(session, &message, &options(event.take_over))?;
        self.open(id, turn)
    }

    fn open(&mut self, id: &SessionId, turn: Turn) -> Result<AppliedEvent, EventError> {
        let message = Some(turn.prompt().clone());
        if let Some(open) = self.sessions.get_mut(id) {
            open.turn = Some(OpenTurn::new(turn, self.flush_every));
        }
        Ok(AppliedEvent { message, ..AppliedEvent::default() })
    }

    fn session(&self, id: &SessionId) -> Result<&Session, EventError> {
        let open = self.sessions.get(id).ok_or_else(|| EventError::UnknownSession(id.to_string()))?;
        Ok(&open.session)
    }

    fn session_without_turn(&self, id: &SessionId) -> Result<&Session, EventError> {
        match self.sessions.get(id).is_some_and(|open| open.turn.is_some()) {
            true => Err(EventError::TurnOpen(id.clone())),
            false => self.session(id),
        }
    }
}

fn options(take_over: Option<bool>) -> TurnOptions {
    TurnOptions { flush_every: NEVER, take_over: take_over.unwrap_or(false) }
}
