//! The writer of a turn: what all its handles share, and the thread that stores pieces of text when their time has come.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::json::{Style, ToJs, same_value};
use annals_core::lens::{FileDiff, Message, MessageSummary, Part, SessionSummary};
use annals_core::{Append, Document, Key, Stored, Transaction};

use super::TurnError;
use super::open_text::OpenText;
use crate::facade::{Session, StoredPrompt, part_document};
use crate::home::{CommitError, ConflictKind, Write};
use crate::homes::opencode::dialect::Dialect;
use crate::homes::opencode::order;
use crate::interrupted::close_part;
use crate::lease::{HEARTBEAT, Lease};
use crate::{ids, project};

/// How often a document that another program changes at the same time is edited again.
const MAX_TRIES: usize = 20;
/// Upper bound on the bytes of text that are collected, in a home that stores only what was appended.
const MAX_PENDING: usize = 64 << 10;

/// What does not change during a turn.
#[derive(Debug)]
pub(super) struct TurnFacts {
    pub(super) prompt: MessageId,
    pub(super) agent: String,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) variant: Option<String>,
    /// The session's directory, and the root of the working tree it is in.
    pub(super) directory: String,
    pub(super) root: String,
}

impl TurnFacts {
    pub(super) fn of(session: &Session, prompt: StoredPrompt) -> TurnFacts {
        let directory = session.directory().unwrap_or("/").to_owned();
        let identity = project::identify(Path::new(&directory), Path::new("git"));
        let root = identity.map(|identity| identity.sandbox.to_string_lossy().into_owned());
        let StoredPrompt { id, agent, provider, model, variant } = prompt;
        let root = root.unwrap_or_else(|_| directory.clone());
        TurnFacts { prompt: id, agent, provider, model, variant, directory, root }
    }

    /// The facts of a prompt that is stored already.
    pub(super) fn read(session: &Session, prompt: &MessageId) -> Result<TurnFacts, TurnError> {
        let key = Key::Message(session.id().clone(), prompt.clone());
        let missing =
            || TurnError::NoPrompt { session: session.id().to_string(), message: prompt.to_string() };
        let stored = session.store().home().document(&key)?.ok_or_else(missing)?;
        let Message::User(user) = stored.document.lens::<Message<'_>>() else { return Err(missing()) };
        let model = user.model.unwrap_or_default();
        let text = |text: Option<annals_core::json::Text<'_>>| text.map(|text| text.to_string());
        let prompt = StoredPrompt {
            id: prompt.clone(),
            agent: text(user.agent).unwrap_or_else(|| "build".to_owned()),
            provider: text(model.provider_id).unwrap_or_default(),
            model: text(model.model_id).unwrap_or_default(),
            variant: text(model.variant.or(user.variant)),
        };
        Ok(TurnFacts::of(session, prompt))
    }
}

/// The writer of a turn.
#[derive(Debug)]
pub(super) struct Writer {
    session: Session,
    facts: TurnFacts,
    flush_every: Duration,
    state: Mutex<WriterState>,
    /// Wakes the flusher: there is something to store later, or the turn has ended.
    woken: Condvar,
}

/// The part of a writer that changes.
#[derive(Debug)]
pub(super) struct WriterState {
    /// Given back when the turn ends.
    lease: Option<Lease>,
    pub(super) answer: Option<OpenAnswer>,
    /// When collected pieces of text have to be stored.
    due: Option<Instant>,
    /// Why they could not be stored when they were due.
    failed: Option<TurnError>,
    is_ended: bool,
}

/// An answer that is being written.
#[derive(Debug)]
pub(super) struct OpenAnswer {
    pub(super) id: MessageId,
    /// The message as it is stored.
    pub(super) document: Document,
    pub(super) texts: HashMap<PartId, OpenText>,
    /// The calls that have not ended, as they are stored, each with its tool.
    pub(super) calls: HashMap<PartId, OpenCall>,
}

/// A tool call that has not ended.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) tool: String,
    pub(super) document: Document,
}

impl Writer {
    pub(super) fn new(session: Session, facts: TurnFacts, lease: Lease, flush_every: Duration) -> Writer {
        let state =
            WriterState { lease: Some(lease), answer: None, due: None, failed: None, is_ended: false };
        Writer { session, facts, flush_every, state: Mutex::new(state), woken: Condvar::new() }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn facts(&self) -> &TurnFacts {
        &self.facts
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.session.store().dialect()
    }

    pub(super) fn session_id(&self) -> &SessionId {
        self.session.id()
    }

    fn home(&self) -> &dyn Write {
        self.session.store().home()
    }

    /// The state, for a turn that has not ended.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, WriterState>, TurnError> {
        let state = self.lock_anyway();
        match state.is_ended {
            true => Err(TurnError::Ended { what: "the turn" }),
            false => Ok(state),
        }
    }

    fn lock_anyway(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn message_key(&self, message: &MessageId) -> Key {
        Key::Message(self.session_id().clone(), message.clone())
    }

    pub(super) fn part_key(&self, message: &MessageId, part: &PartId) -> Key {
        Key::Part(self.session_id().clone(), message.clone(), part.clone())
    }

    /// A part as a document.
    pub(super) fn part_document(
        &self,
        part: &Part<'_>,
        message: &MessageId,
        id: &PartId,
    ) -> Result<Document, TurnError> {
        Ok(part_document(part, self.session_id(), message, id, self.dialect())?)
    }

    /// Commits changes, together with all text that was collected before them.
    pub(super) fn commit(&self, state: &mut WriterState, changes: Changes) -> Result<(), TurnError> {
        let mut transaction = Transaction::new(changes.reason);
        let flushed = self.add_pending(state, &mut transaction)?;
        for (key, document) in changes.new {
            transaction.insert(key, document);
        }
        for (key, known, document) in changes.replaced {
            let stored = self.stored(&key, &known)?;
            transaction.replace(&stored, order::of_edited(self.dialect(), document));
        }
        for (key, document) in changes.put {
            transaction.put(key, document);
        }
        if !transaction.is_empty() {
            match self.home().commit(transaction) {
                // It is decided and on the disk. Whoever opens the home next finishes it.
                Err(error @ CommitError::Unfinished { .. }) => tracing::warn!(%error, "a commit of a turn"),
                done => drop(done?),
            }
        }
        state.mark_stored(&flushed);
        Ok(())
    }

    /// A document that this turn wrote, as the home has it. It must say what this turn wrote.
    fn stored(&self, key: &Key, known: &Document) -> Result<Stored, TurnError> {
        let conflict = |what| CommitError::Conflict {
            key: Box::new(key.clone()),
            place: self.home().url().to_string(),
            what,
        };
        let stored = self.home().document(key)?.ok_or_else(|| conflict(ConflictKind::Gone))?;
        match same_value(stored.document.root(), known.root()) {
            true => Ok(stored),
            false => Err(conflict(ConflictKind::Changed).into()),
        }
    }

    /// Adds collected text to a transaction. Returns the texts, each with its length after the commit.
    fn add_pending(
        &self,
        state: &WriterState,
        transaction: &mut Transaction,
    ) -> Result<Vec<(PartId, usize)>, TurnError> {
        let Some(answer) = &state.answer else { return Ok(Vec::new()) };
        let mut flushed = Vec::new();
        for (part, text) in &answer.texts {
            let key = self.part_key(&answer.id, part);
            match text.pending() {
                "" => continue,
                _ if !text.is_stored() => {
                    let document = text.document(self.session_id(), &answer.id, part, self.dialect())?;
                    transaction.insert(key, document);
                }
                pending => {
                    let (field, at) = (vec!["text".to_owned()], text.stored_length());
                    transaction.append(key, Append { field, at, text: pending.to_owned() })?;
                }
            }
            flushed.push((part.clone(), text.length()));
        }
        Ok(flushed)
    }

    /// Stores the text that was collected.
    pub(super) fn flush(&self, state: &mut WriterState) -> Result<(), TurnError> {
        self.commit(state, Changes::new("more of an answer"))
    }

    /// Notes that text was added, and stores it at once if there is much of it. An error says that text could not be stored; it is kept,
    /// and tried again.
    pub(super) fn text_added(&self, state: &mut WriterState) -> Result<(), TurnError> {
        let pending: usize = state
            .answer
            .iter()
            .flat_map(|answer| answer.texts.values())
            .map(|text| text.pending().len())
            .sum();
        // Where a piece costs as much as the whole, only time decides.
        if pending >= MAX_PENDING
            && self.session.store().annals().is_some()
            && let Err(error) = self.flush(state)
        {
            state.failed = Some(error);
        }
        if state.due.is_none() && pending > 0 {
            state.due = Some(Instant::now() + self.flush_every);
            self.woken.notify_all();
        }
        match state.failed.take() {
            Some(error) => Err(TurnError::Flush(error.to_string())),
            None => Ok(()),
        }
    }

    /// Puts a document beside the session.
    pub(super) fn put(&self, key: Key, document: Document, reason: &'static str) -> Result<(), TurnError> {
        let mut state = self.lock()?;
        let changes = Changes { put: vec![(key, document)], ..Changes::new(reason) };
        self.commit(&mut state, changes)
    }

    /// Notes the files that the turn changed.
    pub(super) fn note_changes(
        &self,
        summary: &SessionSummary<'_>,
        of_prompt: &MessageSummary<'_>,
        diffs: &[FileDiff<'_>],
    ) -> Result<(), TurnError> {
        let mut state = self.lock()?;
        self.flush(&mut state)?;
        let home = self.home();
        let key = self.message_key(&self.facts.prompt);
        let diff = Document::written(Style::Pretty, &diffs.to_vec())?;
        for n_tries in 1.. {
            let mut transaction = Transaction::new("what the turn changed");
            if let Some(session) = home.session(self.session_id())? {
                let document = session.stored.document.with(&["summary"], summary)?;
                transaction.replace(&session.stored, document.with(&["time", "updated"], &ids::now())?);
            }
            if let Some(prompt) = home.document(&key)? {
                let document = prompt.document.with(&["summary"], of_prompt)?;
                transaction.replace(&prompt, order::of_edited(self.dialect(), document));
            }
            if !matches!(
                home.native(&Key::Diff(self.session_id().clone()), diff.clone()),
                crate::home::Native::NotHeld
            ) {
                transaction.put(Key::Diff(self.session_id().clone()), diff.clone());
            }
            match home.commit(transaction) {
                Err(CommitError::Conflict { .. }) if n_tries < MAX_TRIES => {}
                done => return done.map(drop).map_err(Into::into),
            }
        }
        Ok(())
    }

    /// Ends the turn. Its answer must have ended.
    pub(super) fn end(&self) -> Result<(), TurnError> {
        let mut state = self.lock()?;
        if state.answer.is_some() {
            return Err(TurnError::AnswerOpen);
        }
        self.close(&mut state);
        Ok(())
    }

    /// Ends the turn as aborted. Does nothing if it has ended.
    pub(super) fn abort(&self) -> Result<(), TurnError> {
        let mut state = self.lock_anyway();
        if state.is_ended {
            return Ok(());
        }
        let aborted = self.abort_answer(&mut state);
        if let (Err(_), Some(lease)) = (&aborted, state.lease.take()) {
            // Who writes to the session next closes what this turn could not.
            lease.abandon();
        }
        self.close(&mut state);
        aborted
    }

    /// Ends an answer as aborted, if it is the open one.
    pub(super) fn abort_if_open(&self, message: &MessageId) -> Result<(), TurnError> {
        let mut state = self.lock_anyway();
        match state.answer.as_ref().is_some_and(|answer| answer.id == *message) {
            true => self.abort_answer(&mut state),
            false => Ok(()),
        }
    }

    fn abort_answer(&self, state: &mut WriterState) -> Result<(), TurnError> {
        let error = self.dialect().aborted();
        self.end_answer(state, Some(&error))
    }

    /// Ends the open answer: what is open in it ends as an abort ends it, and the message gets an end, and an error if there was one.
    pub(super) fn end_answer(
        &self,
        state: &mut WriterState,
        error: Option<&dyn ToJs>,
    ) -> Result<(), TurnError> {
        self.flush(state)?;
        let Some(answer) = &state.answer else { return Ok(()) };
        let (now, dialect) = (ids::now(), self.dialect());
        let mut changes = Changes::new("an answer ends");
        for (part, text) in answer.texts.iter().filter(|(_, text)| text.is_stored()) {
            let document = text.document(self.session_id(), &answer.id, part, self.dialect())?;
            changes.close(self.part_key(&answer.id, part), document, dialect, now)?;
        }
        for (part, call) in &answer.calls {
            changes.close(self.part_key(&answer.id, part), call.document.clone(), dialect, now)?;
        }
        let mut ended = answer.document.with(&["time", "completed"], &now)?;
        if let Some(error) = error {
            ended = ended.with(&["error"], &error)?;
        }
        changes.replaced.push((self.message_key(&answer.id), answer.document.clone(), ended));
        self.commit(state, changes)?;
        state.answer = None;
        Ok(())
    }

    fn close(&self, state: &mut WriterState) {
        state.is_ended = true;
        state.lease = None;
        state.due = None;
        self.woken.notify_all();
    }
}

impl WriterState {
    /// The open answer, if it is the one with this id.
    pub(super) fn answer_mut(&mut self, id: &MessageId) -> Result<&mut OpenAnswer, TurnError> {
        let answer = self.answer.as_mut().filter(|answer| answer.id == *id);
        answer.ok_or(TurnError::Ended { what: "the answer" })
    }

    fn mark_stored(&mut self, flushed: &[(PartId, usize)]) {
        (self.due, self.failed) = (None, None);
        for (part, length) in flushed {
            if let Some(text) = self.answer.as_mut().and_then(|answer| answer.texts.get_mut(part)) {
                text.mark_stored(*length);
            }
        }
    }
}

/// Changes that a turn makes at one of its boundaries.
#[derive(Debug)]
pub(super) struct Changes {
    reason: &'static str,
    /// Documents that do not exist yet.
    pub(super) new: Vec<(Key, Document)>,
    /// Documents of this turn: as this turn stored them, and as they become.
    pub(super) replaced: Vec<(Key, Document, Document)>,
    /// Documents that replace whatever there is.
    put: Vec<(Key, Document)>,
}

impl Changes {
    pub(super) fn new(reason: &'static str) -> Changes {
        Changes { reason, new: Vec::new(), replaced: Vec::new(), put: Vec::new() }
    }

    /// One new document.
    pub(super) fn adding(reason: &'static str, key: Key, document: Document) -> Changes {
        Changes { new: vec![(key, document)], ..Changes::new(reason) }
    }

    /// Adds the end that an abort gives to a part.
    fn close(
        &mut self,
        key: Key,
        document: Document,
        dialect: Dialect,
        now: Millis,
    ) -> Result<(), TurnError> {
        let stored = Stored::new(key.clone(), document.clone(), "");
        if let Some(closed) = close_part(&stored, true, dialect, now)? {
            self.replaced.push((key, document, closed));
        }
        Ok(())
    }
}

/// The thread that stores collected text when its time has come, and keeps the lease alive.
#[derive(Debug)]
pub(super) struct Flusher {
    writer: Arc<Writer>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(super) fn start(writer: &Arc<Writer>) -> std::io::Result<Flusher> {
        let weak = Arc::downgrade(writer);
        let thread = std::thread::Builder::new().name("annals-turn".to_owned()).spawn(move || run(&weak))?;
        Ok(Flusher { writer: Arc::clone(writer), thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // The turn has ended by now, which has woken the thread.
        self.writer.woken.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(writer: &Weak<Writer>) {
    let mut renewed = Instant::now();
    while let Some(writer) = writer.upgrade() {
        let mut state = writer.lock_anyway();
        if state.is_ended {
            return;
        }
        let now = Instant::now();
        let next = state.due.unwrap_or(renewed + HEARTBEAT).min(renewed + HEARTBEAT);
        if next > now {
            state = writer.woken.wait_timeout(state, next - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_ended {
            return;
        }
        if state.due.is_some_and(|due| due <= Instant::now()) {
            state.due = None;
            if let Err(error) = writer.flush(&mut state) {
                state.failed = Some(error);
                state.due = Some(Instant::now() + writer.flush_every);
            }
        }
        if renewed.elapsed() >= HEARTBEAT {
            renewed = Instant::now();
            if let Some(Err(error)) = state.lease.as_mut().map(Lease::renew) {
                tracing::warn!(%error, "the lease of a session could not be renewed");
            }
        }
    }
}
