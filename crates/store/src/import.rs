//! Taking exported sessions back.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use annals_core::format::Imported;
use annals_core::id::{Millis, ProjectId, SessionId};
use annals_core::json::Node;
use annals_core::lens::{Message, Session};
use annals_core::{Document, Key, Transaction};

pub use crate::difference::{Differing, Gist, OnDifference};
use crate::difference::{EarlierStates, LastUse, Later, is_same, later};
use crate::home::{CommitError, Native, ReadError, SessionRecord, Write};

/// What happens to a session that the home already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The import is refused.
    Refuse,
    /// What is missing is added. What differs is replaced where the home's version is provably the earlier one; the given
    /// choice decides about the rest.
    Merge(OnDifference),
}

/// What an import did, in documents. `seen = imported + unchanged + differing`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Documents in the file.
    pub seen: usize,
    /// Documents written.
    pub imported: usize,
    /// Documents that were there already, or that the home has a newer version of.
    pub unchanged: usize,
    /// Documents that differ and were kept as they are in the home.
    pub differing: Vec<Differing>,
    /// The sessions in the file.
    pub sessions: Vec<SessionId>,
    /// Documents that were adapted to what the home's OpenCode requires.
    pub completed: usize,
}

/// An import was not made; nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The home has the session already.
    #[error("session {session} is already in {home}")]
    Exists {
        /// Which session.
        session: SessionId,
        /// Which home.
        home: String,
    },
    /// There is no session in the file.
    #[error("the file holds no session")]
    Empty,
    /// A document refers to another session or message than the one it is in.
    #[error("{key}: its `{field}` is {found}, but it stands in {expected}")]
    Inconsistent {
        /// Which document.
        key: Box<Key>,
        /// Which field.
        field: &'static str,
        /// What the field says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// A document is not an object, or a todo list is not an array.
    #[error("{key} is {found}")]
    Shape {
        /// Which document.
        key: Box<Key>,
        /// What it is.
        found: &'static str,
    },
    /// The home could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The import could not be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Stores sessions in one transaction, after all of it was found to be in order.
pub fn import(
    home: &dyn Write,
    imported: Imported,
    existing: Existing,
    now: Millis,
) -> Result<ImportOutcome, ImportError> {
    let documents = imported.documents;
    for (key, document) in &documents {
        check(key, document)?;
    }
    let sessions: BTreeSet<String> = documents
        .iter()
        .filter_map(
            |(key, _)| if let Key::Session(_, session) = key { Some(session.to_string()) } else { None },
        )
        .collect();
    let sessions: Vec<SessionId> = sessions.iter().filter_map(|id| SessionId::parse(id).ok()).collect();
    if sessions.is_empty() {
        return Err(ImportError::Empty);
    }
    let mut account = ImportOutcome { seen: documents.len(), sessions, ..ImportOutcome::default() };
    let mut known = Vec::new();
    for session in &account.sessions {
        match (home.session(session)?, existing) {
            (Some(_), Existing::Refuse) => {
                return Err(ImportError::Exists { session: session.clone(), home: home.url().to_string() });
            }
            (Some(record), Existing::Merge(_)) => known.push(record),
            (None, _) => {}
        }
    }
    let mut transaction = Transaction::new(format!("import {} session(s)", account.sessions.len()));
    for (project, record) in project_records(&documents, now) {
        let key = Key::Project(project);
        let in_file = documents.iter().any(|(other, _)| *other == key);
        if !in_file && home.document(&key)?.is_none() {
            transaction.insert(key, record);
        }
    }
    let on_difference = match existing {
        Existing::Merge(on_difference) => on_difference,
        Existing::Refuse => OnDifference::Report,
    };
    let used = last_uses(&documents, &known);
    let mut earlier = EarlierStates::default();
    if !known.is_empty() {
        earlier.add_todo_lists(documents.iter().map(|(key, document)| (key, document)));
    }
    for (key, document) in &documents {
        // A session that is known stays under the project it is filed under.
        let filed = known.iter().find(|record| matches!(key, Key::Session(_, id) if *id == record.id));
        let key = filed.map_or(key, |record| &record.stored.key);
        let Some(old) = home.document(key)? else {
            transaction.insert(key.clone(), document.clone());
            continue;
        };
        let native = match home.native(key, document.clone()) {
            Native::Held { document, .. } => document,
            Native::Implied | Native::NotHeld => document.clone(),
        };
        if is_same(key, &old.document, &native) || matches!(key, Key::Project(_)) {
            account.unchanged += 1;
            continue;
        }
        let used = key.session().and_then(|session| used.get(session)).copied().unwrap_or_default();
        let is_known = known.iter().any(|record| Some(&record.id) == key.session());
        let decided = match later(key, &old.document, &native, used) {
            // The leftovers of a deleted session are not visible anywhere.
            _ if !is_known && !matches!(key, Key::Diff(_)) => Later::Source,
            Later::Unknown if used.source > used.target && earlier.has(key, &old.document) => Later::Source,
            decided => decided,
        };
        match (decided, on_difference) {
            (Later::Source, _) | (Later::Unknown, OnDifference::Theirs) => {
                transaction.replace(&old, document.clone());
            }
            (Later::Target, _) | (Later::Unknown, OnDifference::Ours) => account.unchanged += 1,
            (Later::Unknown, OnDifference::Report) => {
                account.differing.push(Differing::new(key, &old.document, &native));
            }
        }
    }
    account.imported = account.seen - account.unchanged - account.differing.len();
    if transaction.is_empty() {
        return Ok(account);
    }
    account.completed = home.commit(transaction)?.completed.len();
    Ok(account)
}

/// When each session was last used, in the home and in the file.
fn last_uses(documents: &[(Key, Document)], known: &[SessionRecord]) -> HashMap<SessionId, LastUse> {
    let updated = |document: &Document| document.lens::<Session<'_>>().time.and_then(|time| time.updated);
    let mut uses: HashMap<SessionId, LastUse> = HashMap::new();
    for (key, document) in documents {
        if let Key::Session(_, id) = key {
            uses.entry(id.clone()).or_default().source = updated(document);
        }
    }
    for record in known {
        uses.entry(record.id.clone()).or_default().target = updated(&record.stored.document);
    }
    uses
}

/// Files an import under another project, as if the sessions had been opened in `directory`.
pub fn refile(imported: Imported, project: &ProjectId, directory: &Path) -> Imported {
    let refile_one = |(key, document): (Key, Document)| match key {
        Key::Session(_, session) => {
            let directory = directory.display().to_string();
            let edited = document.with(&["projectID"], project.as_str());
            let edited = edited.and_then(|document| document.with(&["directory"], directory.as_str()));
            (Key::Session(project.clone(), session), edited.unwrap_or(document))
        }
        key => (key, document),
    };
    let others = imported.documents.into_iter().filter(|(key, _)| !matches!(key, Key::Project(_)));
    Imported { documents: others.map(refile_one).collect() }
}

/// Records for the projects of imported sessions. OpenCode counts only sessions of projects it has a record of, and its
/// later versions take over no others.
fn project_records(documents: &[(Key, Document)], now: Millis) -> Vec<(ProjectId, Document)> {
    let root_of = |session: &SessionId| {
        documents.iter().find_map(|(key, document)| match (key, document.lens::<Message<'_>>()) {
            (Key::Message(of, _), Message::Assistant(answer)) if of == session => {
                Some(answer.path?.root?.to_str().into_owned())
            }
            _ => None,
        })
    };
    let mut records: Vec<(ProjectId, Document)> = Vec::new();
    for (key, document) in documents {
        let Key::Session(project, session) = key else { continue };
        if records.iter().any(|(known, _)| known == project) {
            continue;
        }
        let directory =
            document.lens::<Session<'_>>().directory.map(|directory| directory.to_str().into_owned());
        let worktree = match project.is_global() {
            true => "/".to_owned(),
            false => root_of(session).or(directory).unwrap_or_else(|| "/".to_owned()),
        };
        let record = crate::project::new_project(project, Some(&worktree), now);
        records.push((project.clone(), record));
    }
    records
}

/// Checks that a document is of the right kind and that its references agree with where it stands.
fn check(key: &Key, document: &Document) -> Result<(), ImportError> {
    use annals_core::json::Kind;
    let root = document.root();
    let wanted = if matches!(key, Key::Todo(_) | Key::Diff(_)) { Kind::Array } else { Kind::Object };
    if root.kind() != wanted {
        return Err(ImportError::Shape { key: Box::new(key.clone()), found: root.kind().with_article() });
    }
    let expected: &[(&'static str, &str)] = match key {
        Key::Message(session, _) => &[("sessionID", session.as_str())],
        Key::Part(session, message, _) => &[("sessionID", session.as_str()), ("messageID", message.as_str())],
        _ => &[],
    };
    for (field, expected) in expected {
        if let Some(found) = root.get(field).and_then(Node::as_text)
            && found != *expected
        {
            return Err(ImportError::Inconsistent {
                key: Box::new(key.clone()),
                field,
                found: found.to_string(),
                expected: (*expected).to_owned(),
            });
        }
    }
    Ok(())
}
