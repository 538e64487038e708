//! Copying sessions from any home to any other.
//!
//! A session goes over with everything that belongs to it, and the sessions it started go along. Nothing is ever deleted.
//! What the target lacks is added. A document that differs is replaced only where the target's version is provably the
//! earlier one ([`crate::difference`]); otherwise it stays and is reported, unless the caller has decided
//! ([`CopyOptions::on_difference`]). Sessions are committed a few at a time: a copy that is cut short has copied some of them,
//! and the next one goes on.
//!
//! Documents are written through [`Write::commit`] alone. The few files that belong to no document (long tool output, the
//! cached id of a repository) are written by `NewFile` alone and listed in [`CopyOutcome::files`].

mod account;
mod gathered;
mod new_file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use annals_core::id::{Millis, ProjectId, SessionId};
use annals_core::lens::{Message, Project, Session};
use annals_core::{Document, Key, Position, Provenance, SessionInfo, Stored, Transaction};
use rayon::prelude::*;

pub use crate::difference::{Differing, Gist, OnDifference};
use crate::difference::{EarlierStates, LastUse, Later, is_same, later};
use crate::home::{
    CommitError, MessageDetail, MessageRange, Native, Quarantined, Read, ReadError, SessionRecord,
    UnreadableReason, Write,
};
use crate::homes::opencode::agent_files::TOOL_OUTPUT;
use crate::parallel;
use crate::project::{IdentityRule, RepositoryIds, new_project};
pub use account::{CopiedSession, CopyError, CopyFailure, CopyOutcome, Tally};
use gathered::{Gathered, gather};
use new_file::{FileContent, NewFile};

/// Sessions that are read in parallel, as one group.
const READ_AT_ONCE: usize = 16;
/// Upper bound on the groups that are read and wait to be stored.
const READ_AHEAD: usize = 4;
/// Document bytes at which a batch is committed.
const COMMIT_BYTES: usize = 16 << 20;
/// Sessions at which a batch is committed.
const COMMIT_SESSIONS: usize = 64;

/// How to copy.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// Find out what would be done, and do nothing.
    pub dry_run: bool,
    /// Also add missing documents to a session that was used more recently in the target. Without this such a session is
    /// left as it is: the missing documents may have been undone there.
    pub merge: bool,
    /// What happens to documents that differ, where neither version is provably the later one.
    pub on_difference: OnDifference,
    /// The current time, for records that have to be made.
    pub now: Millis,
    /// The program to ask about repositories.
    pub git: PathBuf,
}

/// Copies sessions. `progress` is called with each session that is done.
pub fn copy(
    from: &dyn Read,
    to: &dyn Write,
    sessions: Vec<SessionRecord>,
    options: &CopyOptions,
    progress: &(dyn Fn() + Sync),
) -> Result<CopyOutcome, CopyError> {
    let mut copier = Copier {
        from,
        to,
        options,
        account: CopyOutcome::default(),
        filing: HashMap::new(),
        batch: CopyBatch::default(),
    };
    match copier.run(sessions, progress) {
        Ok(()) => Ok(copier.account),
        Err(cause) => {
            // Sessions that were read and not stored count as not seen: the next copy sees them.
            for tally in [&mut copier.account.sessions, &mut copier.account.documents] {
                tally.seen = tally.accounted();
            }
            Err(CopyError { account: Box::new(copier.account), cause })
        }
    }
}

/// Sessions that are committed together.
#[derive(Default)]
struct CopyBatch {
    sessions: Vec<PreparedSession>,
    bytes: usize,
}

/// A session that is ready to be stored.
struct PreparedSession {
    session: CopiedSession,
    changes: Vec<PlannedDocument>,
}

/// A session as the target has it beside the source's version: what decides which documents may be replaced.
struct Comparison<'s> {
    id: &'s SessionId,
    used: LastUse,
    /// Whether the target does not have the session.
    is_new: bool,
    /// States that the source knows to be earlier, read when they are first needed.
    earlier: EarlierStates,
    is_history_read: bool,
    differing: Vec<Differing>,
}

/// A document to be stored, and what the target has in its place.
#[derive(Clone)]
struct PlannedDocument {
    key: Key,
    document: Document,
    position: Position,
    provenance: Provenance,
    old: Option<Stored>,
}

/// Where the sessions of a project are filed in the target.
#[derive(Clone)]
struct Filing {
    id: ProjectId,
    worktree: Option<String>,
}

struct Copier<'c> {
    from: &'c dyn Read,
    to: &'c dyn Write,
    options: &'c CopyOptions,
    account: CopyOutcome,
    filing: HashMap<ProjectId, Filing>,
    batch: CopyBatch,
}

impl Copier<'_> {
    fn run(&mut self, sessions: Vec<SessionRecord>, progress: &(dyn Fn() + Sync)) -> Result<(), CopyFailure> {
        let from = self.from;
        std::thread::scope(|scope| {
            // One thread reads ahead while this one stores, by about as much as is stored at once: memory stays flat.
            let (sender, receiver) = mpsc::sync_channel::<Result<Vec<Gathered>, ReadError>>(READ_AHEAD);
            scope.spawn(move || {
                for group in sessions.chunks(READ_AT_ONCE) {
                    let gathered: Result<Vec<_>, ReadError> =
                        parallel::run(|| group.par_iter().map(|record| gather(from, record)).collect());
                    let is_end = gathered.is_err();
                    if sender.send(gathered).is_err() || is_end {
                        return;
                    }
                }
            });
            for group in receiver {
                for gathered in group? {
                    self.add(gathered)?;
                    progress();
                }
            }
            self.flush()
        })
    }

    /// Compares a session with what the target has, and puts what is to be stored into the batch.
    fn add(&mut self, gathered: Gathered) -> Result<(), CopyFailure> {
        let Gathered { record, documents, quarantined, n_converted, tool_outputs } = gathered;
        let documents = self.in_terms_of_target(documents);
        self.account.sessions.seen += 1;
        self.account.documents.seen += 1 + documents.len() + quarantined.len();
        self.account.documents.quarantined += quarantined.len();
        self.account.quarantined.extend(quarantined);
        self.account.converted += n_converted;
        let held = self.to.session(&record.id)?;
        if let Some(held) = &held
            && !self.options.merge
            && updated(&held.info) > updated(&record.info)
        {
            self.account.newer_in_target.push(record.id.clone());
            self.account.sessions.unchanged += 1;
            self.account.documents.unchanged += 1 + documents.len();
            return Ok(());
        }
        let mut theirs = match &held {
            Some(held) => self.held_documents(held)?,
            // OpenCode leaves the todo list of a session that it deletes, and both homes of a data directory share differences.
            None => self.held_beside(&record.id),
        };
        let mut changes = Vec::new();
        let filing = self.filing(&record, &documents)?;
        let mut comparison = Comparison {
            id: &record.id,
            used: LastUse {
                target: held.as_ref().and_then(|held| updated(&held.info)),
                source: updated(&record.info),
            },
            is_new: held.is_none(),
            earlier: EarlierStates::default(),
            is_history_read: false,
            differing: Vec::new(),
        };
        if held.is_some() {
            comparison.earlier.add_todo_lists(documents.iter().map(|stored| (&stored.key, &stored.document)));
        }
        let session = self.refiled(&record, &filing);
        let project = match &held {
            // A session that is known stays under the project it is filed under.
            Some(held) => held.project.clone(),
            None => filing.id,
        };
        let session = Stored::new(Key::Session(project, record.id.clone()), session, "");
        for stored in std::iter::once(session).chain(documents) {
            let old = match &stored.key {
                Key::Session(..) => held.as_ref().map(|held| held.stored.clone()),
                key => theirs.remove(key),
            };
            self.plan(stored, old, &mut comparison, &mut changes)?;
        }
        self.account.only_in_target += theirs.keys().filter(|key| matches!(key, Key::Message(..))).count();
        let differing = comparison.differing;
        self.account.documents.differing += differing.len();
        let is_differing = !differing.is_empty();
        self.account.differing.extend(differing);
        self.copy_tool_outputs(&record, &tool_outputs);
        if changes.is_empty() {
            match is_differing {
                true => self.account.sessions.differing += 1,
                false => self.account.sessions.unchanged += 1,
            }
            return Ok(());
        }
        self.batch.bytes += changes.iter().map(|change| change.document.bytes().len()).sum::<usize>();
        let session = CopiedSession { title: record.info.title().to_owned(), id: record.id };
        self.batch.sessions.push(PreparedSession { session, changes });
        if self.batch.bytes >= COMMIT_BYTES || self.batch.sessions.len() >= COMMIT_SESSIONS {
            self.flush()?;
        }
        Ok(())
    }

    /// Documents in terms that the target's agent knows, message by message.
    fn in_terms_of_target(&self, documents: Vec<Stored>) -> Vec<Stored> {
        let mut translated = Vec::with_capacity(documents.len());
        let mut message: Vec<Stored> = Vec::new();
        for stored in documents {
            if !matches!(stored.key, Key::Part(..)) {
                translated.extend(self.to.in_its_terms(std::mem::take(&mut message)));
            }
            message.push(stored);
        }
        translated.extend(self.to.in_its_terms(message));
        translated
    }

    /// Copies the files of long tool output. OpenCode itself removes them after a week, so a file that cannot be copied is
    /// only counted.
    fn copy_tool_outputs(&mut self, record: &SessionRecord, files: &[PathBuf]) {
        let target =
            self.to.files().and_then(|files| files.data_directory(record)).map(|data| data.join(TOOL_OUTPUT));
        for file in files {
            let Some((directory, name)) = target.as_ref().zip(file.file_name()) else {
                self.account.tool_outputs_left += 1;
                continue;
            };
            match self.write_file(&NewFile { path: &directory.join(name), content: FileContent::Of(file) }) {
                Ok(true) => self.account.tool_outputs += 1,
                Ok(false) => {}
                Err(_) => self.account.tool_outputs_left += 1,
            }
        }
    }

    /// Writes a file that is not a document, and lists it. `false` if the file exists already.
    fn write_file(&mut self, file: &NewFile<'_>) -> std::io::Result<bool> {
        if file.path.exists() {
            return Ok(false);
        }
        if !self.options.dry_run && !file.write()? {
            return Ok(false);
        }
        self.account.files.push(file.path.to_owned());
        Ok(true)
    }

    /// Decides what becomes of one document.
    fn plan(
        &mut self,
        stored: Stored,
        old: Option<Stored>,
        comparison: &mut Comparison<'_>,
        changes: &mut Vec<PlannedDocument>,
    ) -> Result<(), ReadError> {
        let Stored { key, document, position, provenance, .. } = stored;
        // What came from OpenCode's second store is written in the shape of the first, and is read as such from now on.
        let provenance = match provenance {
            Provenance::OpencodeSecondStore => Provenance::Opencode,
            other => other,
        };
        let (document, lost) = match self.to.native(&key, document) {
            Native::Held { document, lost } => (document, lost),
            Native::Implied if old.is_none() => {
                self.account.documents.unchanged += 1;
                return Ok(());
            }
            // The target still has items of a list that is empty in the source; an empty list replaces them.
            Native::Implied => (Document::new(&Vec::<bool>::new()), Vec::new()),
            // A document that the target has no place for stays in the source, and is reported by its kind.
            Native::NotHeld => {
                *self.account.not_held.entry(key.noun()).or_default() += 1;
                self.account.documents.seen -= 1;
                return Ok(());
            }
        };
        if let Some(old) = &old {
            let is_kept = is_same(&key, &old.document, &document)
                || match self.later(comparison, &old.key, &old.document, &document)? {
                    Later::Target => true,
                    Later::Source => false,
                    Later::Unknown => match self.options.on_difference {
                        OnDifference::Report => {
                            let differing = Differing::new(&old.key, &old.document, &document);
                            comparison.differing.push(differing);
                            return Ok(());
                        }
                        OnDifference::Ours => true,
                        OnDifference::Theirs => false,
                    },
                };
            if is_kept {
                self.account.documents.unchanged += 1;
                return Ok(());
            }
        }
        for member in lost {
            *self.account.lost.entry(format!("{} {member}", key.noun())).or_default() += 1;
        }
        changes.push(PlannedDocument { key, document, position, provenance, old });
        Ok(())
    }

    /// Which version of a document is provably the later one: by itself, or by what a history has seen before.
    fn later(
        &self,
        comparison: &mut Comparison<'_>,
        key: &Key,
        target: &Document,
        source: &Document,
    ) -> Result<Later, ReadError> {
        // The leftovers of a deleted session are not visible anywhere.
        if comparison.is_new && !matches!(key, Key::Diff(_)) {
            return Ok(Later::Source);
        }
        let used = comparison.used;
        match later(key, target, source, used) {
            Later::Unknown if used.source > used.target => {
                if !comparison.is_history_read
                    && let Some(history) = self.from.history()
                {
                    comparison.earlier.add_history(history, comparison.id)?;
                }
                comparison.is_history_read = true;
                let is_earlier = comparison.earlier.has(key, target);
                Ok(if is_earlier { Later::Source } else { Later::Unknown })
            }
            decided => Ok(decided),
        }
    }

    /// Everything the target has of a session.
    fn held_documents(&self, held: &SessionRecord) -> Result<HashMap<Key, Stored>, ReadError> {
        let mut documents = HashMap::new();
        for message in self.to.messages(held, &MessageRange::ALL, MessageDetail::Parts) {
            let message = message?;
            let all = std::iter::once(message.stored).chain(message.parts);
            documents.extend(all.map(|stored| (stored.key.clone(), stored)));
        }
        documents.extend(self.held_beside(&held.id));
        Ok(documents)
    }

    /// Documents that the target has beside a session. They may be left over from a session that was deleted.
    fn held_beside(&self, session: &SessionId) -> HashMap<Key, Stored> {
        let stored = |key| Some((Key::clone(&key), self.to.document(&key).ok()??));
        Key::beside(session).into_iter().filter_map(stored).collect()
    }

    /// Under which project a session is filed in the target; makes its record if the target has none.
    fn filing(&mut self, record: &SessionRecord, documents: &[Stored]) -> Result<Filing, CopyFailure> {
        if let Some(filing) = self.filing.get(&record.project) {
            return Ok(filing.clone());
        }
        let source = self.from.document(&Key::Project(record.project.clone())).unwrap_or(None);
        let named = source.as_ref().and_then(|stored| {
            stored.document.lens::<Project<'_>>().worktree.map(|worktree| worktree.to_string())
        });
        let worktree =
            named.or_else(|| root_of(documents)).or_else(|| record.info.directory().map(ToOwned::to_owned));
        let repository = worktree
            .as_deref()
            .filter(|_| !record.project.is_global())
            .and_then(|worktree| RepositoryIds::of(Path::new(worktree), &self.options.git))
            .filter(|ids| ids.contains(&record.project));
        let rule = self.to.identity_rule();
        let id = repository.as_ref().and_then(|ids| ids.by(rule)).unwrap_or(&record.project).clone();
        if id != record.project {
            self.account.refiled.insert(record.project.clone(), id.clone());
        }
        if let Some(ids) = &repository {
            self.cache_id(ids, &id, rule);
        }
        let filing = Filing { id: id.clone(), worktree: worktree.clone() };
        self.filing.insert(record.project.clone(), filing.clone());
        let key = Key::Project(id.clone());
        if self.to.document(&key)?.is_some() {
            self.account.documents.seen += usize::from(source.is_some());
            self.account.documents.unchanged += usize::from(source.is_some());
            return Ok(filing);
        }
        let document = match source {
            Some(stored) if id == record.project => stored.document,
            Some(stored) => stored.document.with(&["id"], id.as_str()).unwrap_or(stored.document),
            None => new_project(&id, worktree.as_deref(), self.options.now),
        };
        let Native::Held { document, lost } = self.to.native(&key, document) else { return Ok(filing) };
        for member in lost {
            *self.account.lost.entry(format!("project {member}")).or_default() += 1;
        }
        self.account.documents.seen += 1;
        self.account.documents.copied += 1;
        if !self.options.dry_run {
            let mut transaction = Transaction::new("copy a project");
            transaction.insert(key, document);
            match self.to.commit(transaction) {
                // Somebody else has made the record meanwhile.
                Ok(_) | Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filing)
    }

    /// Tells OpenCode the id that sessions were filed under, in OpenCode's own cache file, if that file is missing. A version
    /// that goes by remotes moves the sessions of a cached id to the id it computes; without the file it would not find them.
    fn cache_id(&mut self, ids: &RepositoryIds, id: &ProjectId, rule: IdentityRule) {
        let is_needed = rule == IdentityRule::RootCommit
            && ids.cached.is_none()
            && ids.by(IdentityRule::Remote).is_some_and(|later| later != id);
        if !is_needed {
            return;
        }
        let file = NewFile { path: &ids.cache, content: FileContent::Text(id.as_str()) };
        if self.write_file(&file).is_ok_and(|is_written| is_written) {
            self.account.cached_ids.push(ids.cache.clone());
        }
    }

    /// The session's document as it is filed in the target.
    fn refiled(&self, record: &SessionRecord, filing: &Filing) -> Document {
        let mut document = record.stored.document.clone();
        let named = document.root().get("projectID").and_then(|id| id.as_text());
        if named.is_none_or(|named| named != filing.id.as_str())
            && let Ok(edited) = document.with(&["projectID"], filing.id.as_str())
        {
            document = edited;
        }
        // Sessions from before 0.6 do not say where they were opened.
        if document.lens::<Session<'_>>().directory.is_none()
            && let Some(worktree) = &filing.worktree
            && let Ok(edited) = document.with(&["directory"], worktree.as_str())
        {
            document = edited;
        }
        document
    }

    /// Stores the batch.
    fn flush(&mut self) -> Result<(), CopyFailure> {
        let CopyBatch { sessions, .. } = std::mem::take(&mut self.batch);
        if sessions.is_empty() {
            return Ok(());
        }
        match self.store(sessions.iter().flat_map(|session| &session.changes)) {
            Ok(()) => {
                for session in sessions {
                    self.account.sessions.copied += 1;
                    self.account.documents.copied += session.changes.len();
                    self.account.copied.push(session.session);
                }
                Ok(())
            }
            // One session has a document that cannot be stored. Each is stored alone, so that the others are not held up.
            Err(CommitError::Conflict { .. } | CommitError::Refused { .. }) => {
                sessions.into_iter().try_for_each(|session| self.store_alone(session))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Stores one session, without the documents that cannot be stored.
    fn store_alone(&mut self, mut session: PreparedSession) -> Result<(), CopyFailure> {
        let mut n_refused = 0;
        let mut is_first = true;
        loop {
            let (key, reason) = match self.store(&session.changes) {
                Ok(()) => break,
                Err(CommitError::Conflict { .. })
                    if std::mem::take(&mut is_first) && self.find_leftovers(&mut session.changes)? =>
                {
                    continue;
                }
                Err(CommitError::Conflict { key, what, .. }) => (key, format!("its key {what}")),
                Err(CommitError::Refused { key, what, .. }) => (key, what),
                Err(error) => return Err(error.into()),
            };
            // A message takes its parts along, a session everything.
            let goes = |other: &Key| match (&*key, other) {
                (Key::Session(..), _) => true,
                (Key::Message(_, message), Key::Part(_, of, _)) if of == message => true,
                (key, other) => key == other,
            };
            let (gone, kept): (Vec<_>, Vec<_>) =
                std::mem::take(&mut session.changes).into_iter().partition(|change| goes(&change.key));
            session.changes = kept;
            n_refused += gone.len();
            for change in &gone {
                let reason = if change.key == *key { reason.clone() } else { format!("it belongs to {key}") };
                self.account.quarantined.push(Quarantined {
                    place: change.key.to_string(),
                    reason: UnreadableReason::Refused(reason),
                    session: Some(session.session.id.clone()),
                });
            }
            if gone.is_empty() || session.changes.is_empty() {
                break;
            }
        }
        self.account.documents.quarantined += n_refused;
        self.account.documents.copied += session.changes.len();
        match session.changes.is_empty() {
            true => self.account.sessions.quarantined += 1,
            false => {
                self.account.sessions.copied += 1;
                self.account.copied.push(session.session);
            }
        }
        Ok(())
    }

    /// Finds parts in the target whose messages the target lacks: OpenCode 1.1 deletes a message and leaves its parts. They are not
    /// visible anywhere, so they are replaced. True if there are any.
    fn find_leftovers(&self, changes: &mut [PlannedDocument]) -> Result<bool, ReadError> {
        let mut is_any = false;
        for change in changes.iter_mut().filter(|change| change.old.is_none()) {
            let Key::Part(session, message, _) = &change.key else { continue };
            if self.to.document(&Key::Message(session.clone(), message.clone()))?.is_none() {
                change.old = self.to.document(&change.key)?;
                is_any |= change.old.is_some();
            }
        }
        Ok(is_any)
    }

    fn store<'p>(
        &mut self,
        changes: impl IntoIterator<Item = &'p PlannedDocument>,
    ) -> Result<(), CommitError> {
        if self.options.dry_run {
            return Ok(());
        }
        let mut transaction = Transaction::new("copy sessions");
        for PlannedDocument { key, document, position, provenance, old } in changes {
            match old {
                Some(old) => transaction.replace(old, document.clone()),
                None => transaction.insert(key.clone(), document.clone()),
            }
            transaction.place(key, *position, *provenance);
        }
        let receipt = self.to.commit(transaction)?;
        self.account.completed.extend(receipt.completed);
        Ok(())
    }
}

/// The root of the working tree in which the first answer ran.
fn root_of(documents: &[Stored]) -> Option<String> {
    documents.iter().find_map(|stored| match (&stored.key, stored.document.lens::<Message<'_>>()) {
        (Key::Message(..), Message::Assistant(answer)) => Some(answer.path?.root?.to_string()),
        _ => None,
    })
}

fn updated(info: &SessionInfo) -> Option<Millis> {
    info.updated().or(info.created())
}
