//! Turns: the writing side of an agent.
//!
//! A turn is a prompt and the answers to it. An agent opens it, streams what its model says, runs the tools that the model calls, and finishes it:
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let store = annals::Store::open(directory.path().join("annals.db"))?;
//! use annals::turn::{StepEnd, ToolOutput, Turn};
//! use serde_json::json;
//!
//! let session = store.create_session("/home/me/shop").title("Fix the empty cart").save()?;
//! let prompt = session.prompt("The cart crashes when it is empty.").model("anthropic/claude-sonnet-4-5");
//! let mut turn = Turn::begin(&prompt)?;
//!
//! let mut answer = turn.answer()?;
//! answer.step_start(None)?;
//! let mut text = answer.text()?;
//! for delta in ["Let me ", "look."] {
//!     text.push(delta)?;
//! }
//! text.finish()?;
//! let call = answer.call("bash", "call_1")?;
//! let call = call.run(json!({ "command": "cat cart.js" }))?;
//! call.complete(ToolOutput::new("first(items)").title("cat cart.js"))?;
//! answer.step_finish(&StepEnd::new("tool-calls").tokens(120.0, 17.0).cost(0.0004))?;
//! answer.finish()?;
//!
//! let mut answer = turn.answer()?;
//! answer.step_start(None)?;
//! answer.write("An empty cart has no first item.")?;
//! answer.step_finish(&StepEnd::new("stop"))?;
//! answer.finish()?;
//! turn.finish()?;
//! # let told: Vec<String> = session.messages().map(|message| message.map(|message| message.text())).collect::<Result<_, _>>()?;
//! # assert_eq!(told, ["The cart crashes when it is empty.", "Let me look.", "An empty cart has no first item."]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When a call returns, what it says is on the disk. Only the pieces of a text ([`TextStream::push`]) are collected for up to
//! [`TurnOptions::flush_every`], and a failure to store them is reported by the next push. In a home of OpenCode's the documents are what that
//! OpenCode would write. A turn that is dropped before it is finished is aborted.
//!
//! The life cycle of a tool call is in its types: a call that is complete cannot run again.
//!
//! ```compile_fail
//! # let directory = tempfile::tempdir().unwrap();
//! # let store = annals::Store::open(directory.path().join("annals.db")).unwrap();
//! # let session = store.create_session("/home/me/shop").save().unwrap();
//! # let mut turn = annals::turn::Turn::begin(&session.prompt("Go.").model("a/b")).unwrap();
//! # let answer = turn.answer().unwrap();
//! let running = answer.call("bash", "call_1").unwrap().run(serde_json::json!({})).unwrap();
//! running.complete(annals::turn::ToolOutput::new("done")).unwrap();
//! running.progress(None, None).unwrap(); // The call was used up when it was completed.
//! ```

mod answer;
mod call;
mod changes;
mod error;
pub mod event;
mod event_writer;
mod open_text;
mod piece;
mod stream;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use annals_core::id::MessageId;
use annals_core::json::edit::EditError;
use annals_core::json::{JsonError, Style};
use annals_core::lens::{FileDiff, MessageSummary, SessionSummary, Todo};
use annals_core::{AppendError, Document, Key};

use crate::facade::{CreateError, Prompt, PromptError, Session};
use crate::home::{CommitError, ReadError};
use crate::ids;
use crate::interrupted::{self, Activity, InterruptedError};
use crate::lease::{Lease, LeaseError};

pub use answer::{Answer, AnswerOptions, StepEnd};
pub use call::{PendingCall, RunningCall, ToolOutput};
pub use error::AnswerError;
pub use event::TurnEvent;
pub use event_writer::{AppliedEvent, EventError, EventWriter};
pub use piece::Piece;
pub use stream::TextStream;
use writer::{Flusher, TurnFacts, Writer};

/// A turn that is being written.
#[derive(Debug)]
pub struct Turn {
    writer: Arc<Writer>,
    _flusher: Flusher,
}

/// Options of a turn.
#[derive(Debug, Clone)]
pub struct TurnOptions {
    /// How long pieces of a text are collected before they are stored.
    pub flush_every: Duration,
    /// Whether to go on with a session whose last answer has no end, although it changed a short while ago, so that an OpenCode may be at
    /// work on it.
    pub take_over: bool,
}

impl Default for TurnOptions {
    fn default() -> TurnOptions {
        TurnOptions { flush_every: Duration::from_millis(100), take_over: false }
    }
}

/// Why a turn could not go on. What was acknowledged before is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// Another writer works on the session, or its lease cannot be taken.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The last answer of the session has no end, and changed a short while ago.
    #[error("session {session} may be in use: its last answer has no end and is of a short while ago")]
    Busy {
        /// The session.
        session: String,
        /// When it last changed, in milliseconds since 1970.
        changed: i64,
    },
    /// The home keeps no leases, so nobody could be kept out.
    #[error("{home} cannot be written to by an agent")]
    NoLeases {
        /// The home.
        home: String,
    },
    /// The turn, the answer or the text was ended before.
    #[error("{what} has ended")]
    Ended {
        /// What has ended.
        what: &'static str,
    },
    /// The answer before has not been finished.
    #[error("the answer before has not ended: finish it first")]
    AnswerOpen,
    /// Texts or calls of the answer have not been finished.
    #[error("the answer cannot end yet: {} not ended", open.join(", "))]
    Unfinished {
        /// Their names.
        open: Vec<String>,
    },
    /// The session has no such prompt.
    #[error("session {session} has no prompt {message}")]
    NoPrompt {
        /// The session.
        session: String,
        /// The message that was to be answered.
        message: String,
    },
    /// The prompt could not be stored.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A session could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// An earlier turn of the session could not be closed.
    #[error(transparent)]
    Interrupted(#[from] InterruptedError),
    /// A document would be too long or too deep.
    #[error("it cannot be written: {0}")]
    Document(#[from] JsonError),
    /// A document has another shape than expected.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A text is not as this turn has left it.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The home refused the commit.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Pieces of a text could not be stored when their time had come. They are kept, and stored with the next call that succeeds.
    #[error("pieces of a text could not be stored: {0}")]
    Flush(String),
    /// The thread that stores pieces of text could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl Turn {
    /// Stores a prompt and opens the turn that answers it. An earlier turn of the session that was interrupted is closed first.
    pub fn begin(prompt: &Prompt<'_>) -> Result<Turn, TurnError> {
        Turn::begin_with(prompt, &TurnOptions::default())
    }

    /// Stores a prompt and opens the turn that answers it, with options.
    pub fn begin_with(prompt: &Prompt<'_>, options: &TurnOptions) -> Result<Turn, TurnError> {
        let session = prompt.session();
        let lease = take_lease(session)?;
        close_interrupted(session, &lease, options.take_over)?;
        let stored = prompt.store()?;
        Turn::open(session, lease, TurnFacts::of(session, stored), options)
    }

    /// Opens a turn on a prompt that is stored already, such as one whose turn was interrupted.
    pub fn resume(session: &Session, prompt: &MessageId, options: &TurnOptions) -> Result<Turn, TurnError> {
        let lease = take_lease(session)?;
        close_interrupted(session, &lease, options.take_over)?;
        let facts = TurnFacts::read(session, prompt)?;
        Turn::open(session, lease, facts, options)
    }

    fn open(
        session: &Session,
        lease: Lease,
        facts: TurnFacts,
        options: &TurnOptions,
    ) -> Result<Turn, TurnError> {
        let writer = Arc::new(Writer::new(session.clone(), facts, lease, options.flush_every));
        let flusher = Flusher::start(&writer).map_err(TurnError::Thread)?;
        Ok(Turn { writer, _flusher: flusher })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        self.writer.session()
    }

    /// The id of the prompt.
    pub fn prompt(&self) -> &MessageId {
        &self.writer.facts().prompt
    }

    /// Begins an answer: one call of the model. The answer before must have ended.
    pub fn answer(&mut self) -> Result<Answer, TurnError> {
        self.answer_with(&AnswerOptions::default())
    }

    /// Begins an answer by another agent or model than the prompt's.
    pub fn answer_with(&mut self, options: &AnswerOptions) -> Result<Answer, TurnError> {
        Answer::begin(&self.writer, options)
    }

    /// Replaces the session's todo list.
    pub fn set_todos(&self, todos: &[Todo<'_>]) -> Result<(), TurnError> {
        let document = Document::written(Style::Pretty, &todos.to_vec())?;
        self.writer.put(Key::Todo(self.session().id().clone()), document, "todos")
    }

    /// Notes which files the turn changed: in its prompt, in the session's summary, and as the differences of the session.
    pub fn set_changes(&self, diffs: &[FileDiff<'_>]) -> Result<(), TurnError> {
        let diffs = &changes::in_dialect(diffs, self.writer.dialect());
        let number = |of: fn(&FileDiff<'_>) -> Option<f64>| diffs.iter().filter_map(of).sum::<f64>();
        let summary = SessionSummary {
            additions: Some(number(|diff| diff.additions)),
            deletions: Some(number(|diff| diff.deletions)),
            files: Some(diffs.len() as f64),
            diffs: None,
        };
        let of_prompt = MessageSummary { diffs: Some(diffs.to_vec()), ..Default::default() };
        self.writer.note_changes(&summary, &of_prompt, diffs)
    }

    /// Stores the pieces of text that were collected.
    pub fn flush(&self) -> Result<(), TurnError> {
        let mut state = self.writer.lock()?;
        self.writer.flush(&mut state)
    }

    /// Ends the turn. Its answers must have ended; if one has not, the turn is aborted.
    pub fn finish(self) -> Result<(), TurnError> {
        self.end()
    }

    /// Ends the turn, which stays open if this fails.
    fn end(&self) -> Result<(), TurnError> {
        self.writer.end()
    }

    /// Ends the turn as aborted: the open answer, its texts and its calls end as OpenCode ends them when the user aborts.
    pub fn abort(self) -> Result<(), TurnError> {
        self.writer.abort()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Err(error) = self.writer.abort() {
            tracing::warn!(%error, "a turn that was dropped could not be closed");
        }
    }
}

fn take_lease(session: &Session) -> Result<Lease, TurnError> {
    let home = session.store().home();
    let leases = home.leases().ok_or_else(|| TurnError::NoLeases { home: home.url().to_string() })?;
    Ok(leases.lease(session.id())?)
}

/// Closes an earlier turn of a session that was interrupted. The caller holds the session's lease.
fn close_interrupted(session: &Session, lease: &Lease, take_over: bool) -> Result<(), TurnError> {
    let home = session.store().home();
    let Some(record) = home.session(session.id())? else { return Ok(()) };
    let now = ids::now();
    let closing = interrupted::closing(home, &record, session.store().dialect(), now, &ids::new_message())?;
    if closing.is_empty() {
        return Ok(());
    }
    if let Activity::Recent(changed) = closing.activity(lease.state_before(), now, None)
        && !take_over
    {
        return Err(TurnError::Busy { session: session.id().to_string(), changed });
    }
    home.commit(closing.transaction("close an interrupted turn"))?;
    Ok(())
}
