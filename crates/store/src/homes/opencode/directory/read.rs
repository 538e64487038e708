//! Reading: what is in the trees, and in which order.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals_core::id::{IdError, MessageId, Millis, PartId, ProjectId, SessionId};
use annals_core::lens::{Message, Session};
use annals_core::{Key, Position, Stored, position};
use rayon::prelude::*;

use super::files::{DirectoryEntry, DocumentShape};
use super::journal::Mark;
use super::layout::{Layout, flat_path, stem};
use super::{OpencodeDirectory, Tree};
use crate::check::Problem;
use crate::home::{
    Extent, Found, Inspect, MessageDetail, MessageRange, MessageRecord, Messages, Quarantined, Read,
    ReadError, SessionFiles, SessionRecord, UnreadableReason,
};
use crate::home_url::HomeUrl;
use crate::parallel;
use crate::platform::Folder;
use crate::query::SessionQuery;

/// Message documents of one session are kept between sorting and visiting up to this size; beyond it they are read
/// again, so that a session of any length fits in memory.
const KEPT_MESSAGE_BYTES: usize = 16 << 20;
/// Messages whose parts are read in parallel, as one batch.
const BATCH: usize = 32;
/// How often a batch is read again at most because transactions came in between.
const MAX_TRIES: usize = 20;

impl Read for OpencodeDirectory {
    fn url(&self) -> HomeUrl {
        HomeUrl::from(self.path())
    }

    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        let mut found = Found::default();
        let Some(tree) = self.flat_tree() else { return Ok(found) };
        for (name, path) in documents(&tree, "project")? {
            let read = match ProjectId::parse(&name) {
                Ok(project) => read_document(&tree, &path, DocumentShape::Object, Key::Project(project)),
                Err(error) => Err(bad_name(&tree, &path, error)),
            };
            found.take(read, Vec::push);
        }
        Ok(found)
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError> {
        let mut found: Found<Vec<SessionRecord>> = Found::default();
        let mut seen = HashSet::new();
        for tree in self.trees() {
            let mut records: Found<Vec<SessionRecord>> = Found::default();
            let located = list_sessions(&tree, query, &mut records.quarantined)?;
            let unseen =
                located.into_iter().filter(|located| !seen.contains(&located.session)).collect::<Vec<_>>();
            let read: Vec<_> = parallel::run(|| {
                unseen.into_par_iter().map(|located| self.read_session(&tree, located)).collect()
            });
            for read in read {
                records.take(read, Vec::push);
            }
            records.value.retain(|record| query.admits(record));
            // A session filed under two projects is still one: the copy that was used last.
            records.value.sort_by_cached_key(|record| std::cmp::Reverse(precedence(record)));
            records.value.retain(|record| seen.insert(record.id.clone()));
            found.value.append(&mut records.value);
            found.quarantined.append(&mut records.quarantined);
        }
        Ok(found)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        let mut unreadable = None;
        for tree in self.trees() {
            let mut copies = Vec::new();
            for located in locate(&tree, id)? {
                match self.read_session(&tree, located) {
                    Ok(record) => copies.extend(record),
                    Err(problem) => unreadable = unreadable.or(Some(problem)),
                }
            }
            if let Some(best) = copies.into_iter().max_by_key(precedence) {
                return Ok(Some(best));
            }
        }
        unreadable.map_or(Ok(None), |problem| Err(problem.into()))
    }

    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h> {
        let Some(root) = self.root_of(&session.stored.place) else { return Messages::none() };
        let mut mark = Mark::now(&root.files);
        let mut tree = root.tree();
        let (pending, unlisted) = sorted_messages(&tree, session);
        let mut pending = range.of(pending, |pending| pending.id.as_str()).into_iter();
        let mut unlisted = Some(unlisted);
        Messages::in_batches(move || {
            let mut batch: Vec<Pending> = pending.by_ref().take(BATCH).collect();
            if batch.is_empty() && unlisted.is_none() {
                return Ok(None);
            }
            let mut tries = 0;
            let records = loop {
                let records: Vec<_> = match detail {
                    MessageDetail::Parts | MessageDetail::ToolCalls if batch.len() > 4 => {
                        parallel::run(|| {
                            batch
                                .par_iter_mut()
                                .map(|pending| complete(&tree, session, pending, detail))
                                .collect()
                        })
                    }
                    _ => batch.iter_mut().map(|pending| complete(&tree, session, pending, detail)).collect(),
                };
                // A message with its parts is what one transaction left, not a mixture of two. Against writers that
                // never pause, though, reading must come to an end.
                let mark_before = std::mem::replace(&mut mark, Mark::now(&root.files));
                if mark == mark_before || tries == MAX_TRIES {
                    break records;
                }
                tries += 1;
                tree = root.tree();
            };
            let mut found = Found { value: Vec::new(), quarantined: unlisted.take().unwrap_or_default() };
            for record in records {
                match record {
                    Ok(record) => found.value.extend(record),
                    Err(problem) => found.quarantined.push(problem),
                }
            }
            Ok(Some(found))
        })
    }

    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        for tree in self.trees() {
            let path = match (tree.layout, key) {
                (Layout::Flat, _) => flat_path(key),
                (layout, Key::Session(project, session)) => layout.session(project, session),
                (layout, Key::Message(session, message)) => {
                    format!("{}/{message}.json", layout.messages(session))
                }
                (layout, Key::Part(session, message, part)) => {
                    format!("{}/{part}.json", layout.parts(session, message))
                }
                _ => continue,
            };
            let shape = match key {
                Key::Todo(_) | Key::Diff(_) => DocumentShape::Array,
                _ => DocumentShape::Object,
            };
            if let Some(stored) = read_document(&tree, &path, shape, key.clone())? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError> {
        let Some(tree) = self.flat_tree() else { return Ok(Vec::new()) };
        let mut keys: Vec<Key> =
            locate(&tree, id)?.into_iter().map(|located| Key::Session(located.project, id.clone())).collect();
        let mut messages = HashSet::new();
        let of = |problem: Quarantined| problem.of(id);
        for (name, _) in documents(&tree, &tree.layout.messages(id)).map_err(of)? {
            if let Ok(message) = MessageId::parse_opencode(&name) {
                keys.push(Key::Message(id.clone(), message.clone()));
                messages.insert(message);
            }
        }
        let orphans = self.orphan_parts().found.into_iter();
        let orphans = orphans.filter(|orphans| orphans.session.as_ref() == Some(id));
        messages.extend(orphans.map(|orphans| orphans.message));
        for message in messages {
            for (name, _) in documents(&tree, &tree.layout.parts(id, &message)).map_err(of)? {
                if let Ok(part) = PartId::parse_opencode(&name) {
                    keys.push(Key::Part(id.clone(), message.clone(), part));
                }
            }
        }
        let beside = [
            Key::Todo(id.clone()),
            Key::Diff(id.clone()),
            Key::Share(id.clone()),
            Key::LegacyShare(id.clone()),
        ];
        keys.extend(beside.into_iter().filter(|key| tree.view.exists(&flat_path(key))));
        Ok(keys)
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn files(&self) -> Option<&dyn SessionFiles> {
        Some(self)
    }
}

impl Inspect for OpencodeDirectory {
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError> {
        self.check_all(now, progress)
    }

    fn extent(&self) -> Result<Extent, ReadError> {
        parallel::run(|| self.measure_all())
    }
}

impl SessionFiles for OpencodeDirectory {
    fn data_directory(&self, _session: &SessionRecord) -> Option<PathBuf> {
        self.own_data_directory()
    }
}

impl OpencodeDirectory {
    /// The data directory, also where the home was opened by the path of its `storage`.
    pub(super) fn own_data_directory(&self) -> Option<PathBuf> {
        match self.path.join("storage").is_dir() {
            true => Some(self.path.clone()),
            false => self.path.canonicalize().ok()?.parent().map(Path::to_owned),
        }
    }

    fn measure_all(&self) -> Result<Extent, ReadError> {
        let mut extent = Extent::default();
        for tree in self.trees() {
            match tree.layout {
                Layout::Flat => {
                    for (directory, levels) in [
                        ("project", 1),
                        ("session", 2),
                        ("todo", 1),
                        ("session_diff", 1),
                        ("session_share", 1),
                        ("share", 1),
                    ] {
                        extent.bytes += measure(&tree, directory, levels).1;
                    }
                    extent.add(measure(&tree, "message", 2), measure(&tree, "part", 2));
                }
                Layout::PerProject(_) => {
                    extent.bytes += measure(&tree, "session/info", 1).1;
                    extent.add(measure(&tree, "session/message", 2), measure(&tree, "session/part", 3));
                }
                Layout::PerSession => {
                    for located in list_sessions(&tree, &SessionQuery::default(), &mut Vec::new())? {
                        let of_session = |what: &str| format!("session/{}/{what}", located.session);
                        extent.add(
                            measure(&tree, &of_session("message"), 1),
                            measure(&tree, &of_session("part"), 2),
                        );
                    }
                }
            }
        }
        Ok(extent)
    }
}

impl Extent {
    fn add(&mut self, messages: (usize, u64), parts: (usize, u64)) {
        self.messages += messages.0;
        self.parts += parts.0;
        self.bytes += messages.1 + parts.1;
    }
}

/// How many documents are `levels` below a directory, and their size. What cannot be listed counts as nothing.
fn measure(tree: &Tree<'_>, directory: &str, levels: usize) -> (usize, u64) {
    let listed = tree.view.list(directory).unwrap_or_default().into_par_iter().map(|entry| {
        let path = format!("{directory}/{}", entry.name);
        match (levels, entry.is_dir) {
            (1, false) if stem(tree.layout, &entry.name).is_some() => {
                (1, tree.view.files.dir.symlink_metadata(&path).map_or(0, |metadata| metadata.len()))
            }
            (2.., true) => measure(tree, &path, levels - 1),
            _ => (0, 0),
        }
    });
    listed.reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

/// Where a session document is in a tree.
#[derive(Debug)]
pub(super) struct LocatedSession {
    pub(super) session: SessionId,
    pub(super) project: ProjectId,
    pub(super) path: String,
}

impl OpencodeDirectory {
    pub(super) fn read_session(
        &self,
        tree: &Tree<'_>,
        located: LocatedSession,
    ) -> Result<Option<SessionRecord>, Quarantined> {
        let LocatedSession { session: id, mut project, path } = located;
        let key = Key::Session(project.clone(), id.clone());
        let Some(mut stored) = read_document(tree, &path, DocumentShape::Object, key)? else {
            return Ok(None);
        };
        if *tree.layout == Layout::PerSession {
            // Its path names no project, so here the document has to.
            let named = stored.document.lens::<Session<'_>>().project_id;
            if let Some(Ok(named)) = named.map(|named| ProjectId::parse(&named.to_str())) {
                project = named;
                stored.key = Key::Session(project.clone(), id.clone());
            }
        }
        Ok(Some(SessionRecord::new(project, id, stored, vec![self.url()])))
    }
}

impl<T> Found<Vec<T>> {
    /// Adds what was read to the value, or what could not be to the quarantine.
    fn take(&mut self, read: Result<Option<T>, Quarantined>, add: impl FnOnce(&mut Vec<T>, T)) {
        match read {
            Ok(Some(item)) => add(&mut self.value, item),
            Ok(None) => {}
            Err(problem) => self.quarantined.push(problem),
        }
    }
}

/// Every place of a tree where a session's document is.
pub(super) fn locate(tree: &Tree<'_>, id: &SessionId) -> Result<Vec<LocatedSession>, Quarantined> {
    let projects = match tree.layout {
        Layout::PerProject(project) => vec![project.clone()],
        Layout::PerSession => vec![ProjectId::global()],
        Layout::Flat => {
            let listed = entries(tree, "session")?.into_iter().filter(|entry| entry.is_dir);
            listed.filter_map(|entry| ProjectId::parse(&entry.name).ok()).collect()
        }
    };
    let located = projects.into_iter().map(|project| {
        let path = tree.layout.session(&project, id);
        LocatedSession { session: id.clone(), project, path }
    });
    Ok(located.filter(|located| tree.view.exists(&located.path)).collect())
}

/// The sessions of a tree that belong to a wanted project, as far as their paths tell.
pub(super) fn list_sessions(
    tree: &Tree<'_>,
    query: &SessionQuery,
    quarantined: &mut Vec<Quarantined>,
) -> Result<Vec<LocatedSession>, ReadError> {
    let wanted = |project: &ProjectId| query.projects.is_empty() || query.projects.contains(project);
    let mut located = Vec::new();
    let mut directories: Vec<(ProjectId, String)> = Vec::new();
    if let Layout::PerProject(project) = tree.layout {
        directories.push((project.clone(), "session/info".to_owned()));
    } else {
        for entry in entries(tree, "session")?.into_iter().filter(|entry| entry.is_dir) {
            let path = format!("session/{}", entry.name);
            let meta = format!("{path}/meta.json");
            // A directory named like a session is one of the per-session layout if it says so itself.
            let per_session = SessionId::parse_opencode(&entry.name).ok().filter(|_| tree.view.exists(&meta));
            match (tree.layout, per_session) {
                (Layout::PerSession, Some(session)) => {
                    located.push(LocatedSession { session, project: ProjectId::global(), path: meta });
                }
                (Layout::Flat, None) => match ProjectId::parse(&entry.name) {
                    Ok(project) => directories.push((project, path)),
                    Err(error) => quarantined.push(bad_name(tree, &path, error)),
                },
                _ => {}
            }
        }
    }
    for (project, directory) in directories.into_iter().filter(|(project, _)| wanted(project)) {
        for (name, path) in documents(tree, &directory).unwrap_or_else(|problem| {
            quarantined.push(problem);
            Vec::new()
        }) {
            match SessionId::parse_opencode(&name) {
                Ok(session) => located.push(LocatedSession { session, project: project.clone(), path }),
                Err(error) => quarantined.push(bad_name(tree, &path, error)),
            }
        }
    }
    Ok(located)
}

/// Which copy of a session counts: the one used last, then the one that stands where its document says.
fn precedence(record: &SessionRecord) -> (Millis, bool) {
    let session = record.stored.document.lens::<Session<'_>>();
    (record.info.updated().unwrap_or(0), session.project_id.is_some_and(|id| id == record.project.as_str()))
}

/// A message that is to be visited.
struct Pending {
    position: Position,
    id: MessageId,
    path: String,
    made: Millis,
    /// `None` where keeping it would take too much memory.
    stored: Option<Stored>,
}

/// The messages of a session in order.
fn sorted_messages(tree: &Tree<'_>, session: &SessionRecord) -> (Vec<Pending>, Vec<Quarantined>) {
    let mut quarantined = Vec::new();
    let mut messages = Vec::new();
    let mut kept_bytes = 0;
    let listed = open_documents(tree, &tree.layout.messages(&session.id));
    let (folder, listed) = listed.unwrap_or_else(|problem| {
        quarantined.push(problem.of(&session.id));
        (None, Vec::new())
    });
    for (name, path) in listed {
        let id = match MessageId::parse_opencode(&name) {
            Ok(id) => id,
            Err(error) => {
                quarantined.push(bad_name(tree, &path, error).of(&session.id));
                continue;
            }
        };
        let key = Key::Message(session.id.clone(), id.clone());
        match read_document_in(tree, folder.as_ref(), &path, DocumentShape::Object, key) {
            Err(problem) => quarantined.push(problem),
            Ok(None) => {}
            Ok(Some(stored)) => {
                let created = Message::created_in(stored.document.root());
                let made = created
                    .or_else(|| session.info.created())
                    .or_else(|| tree.view.modified(&path))
                    .unwrap_or(0);
                kept_bytes += stored.document.bytes().len();
                let stored = (kept_bytes <= KEPT_MESSAGE_BYTES).then_some(stored);
                messages.push(Pending { position: Position::by_id(&id, made), id, path, made, stored });
            }
        }
    }
    position::sort(&mut messages, |message| (message.position, message.id.as_str()));
    (messages, quarantined)
}

/// Adds to a message what is wanted of its parts. `None` if it was deleted since it was sorted in.
fn complete(
    tree: &Tree<'_>,
    session: &SessionRecord,
    pending: &mut Pending,
    detail: MessageDetail,
) -> Result<Option<MessageRecord>, Quarantined> {
    let key = Key::Message(session.id.clone(), pending.id.clone());
    let stored = match pending.stored.take() {
        Some(stored) => stored,
        None => match read_document(tree, &pending.path, DocumentShape::Object, key)? {
            Some(stored) => stored,
            None => return Ok(None),
        },
    };
    let made = pending.made;
    let stored = stored.at(pending.position);
    let mut record = MessageRecord { stored, made, parts: Vec::new(), n_parts: 0, quarantined: Vec::new() };
    let directory = tree.layout.parts(&session.id, &pending.id);
    if detail == MessageDetail::PartCounts {
        match tree.view.count(&directory, |name| stem(tree.layout, name).is_some()) {
            Ok(n_parts) => record.n_parts = n_parts,
            Err(reason) => {
                let place = tree.place(&directory);
                record.quarantined.push(Quarantined { place, reason, session: Some(session.id.clone()) });
            }
        }
        return Ok(Some(record));
    }
    let (folder, names) = match open_documents(tree, &directory) {
        Ok(listed) => listed,
        Err(problem) => {
            record.quarantined.push(problem.of(&session.id));
            return Ok(Some(record));
        }
    };
    record.n_parts = names.len();
    let mut parts: Vec<(Position, PartId, String)> = Vec::with_capacity(names.len());
    for (name, path) in names {
        match PartId::parse_opencode(&name) {
            Ok(id) => parts.push((Position::of_part(&id, made), id, path)),
            Err(error) => record.quarantined.push(bad_name(tree, &path, error).of(&session.id)),
        }
    }
    position::sort(&mut parts, |(position, id, _)| (*position, id.as_str()));
    for (position, id, path) in parts {
        let key = Key::Part(session.id.clone(), pending.id.clone(), id);
        match read_document_in(tree, folder.as_ref(), &path, DocumentShape::Object, key) {
            Ok(Some(stored)) => record.parts.push(stored.at(position)),
            Ok(None) => {}
            Err(problem) => record.quarantined.push(problem),
        }
    }
    Ok(Some(record))
}

/// The entries of a directory, or the directory itself as unreadable.
pub(super) fn entries(tree: &Tree<'_>, directory: &str) -> Result<Vec<DirectoryEntry>, Quarantined> {
    Ok(open_entries(tree, directory)?.1)
}

fn open_entries(
    tree: &Tree<'_>,
    directory: &str,
) -> Result<(Option<Folder>, Vec<DirectoryEntry>), Quarantined> {
    let problem = |reason| Quarantined { place: tree.place(directory), reason, session: None };
    tree.view.open_listed(directory).map_err(problem)
}

/// A directory, if it is there, and its documents: ids and paths.
type Listing = (Option<Folder>, Vec<(String, String)>);

/// The documents of a directory: the id in each name, and the path. A directory with the name of a document is among
/// them: reading it reports what is wrong.
pub(super) fn documents(tree: &Tree<'_>, directory: &str) -> Result<Vec<(String, String)>, Quarantined> {
    Ok(open_documents(tree, directory)?.1)
}

/// The documents of a directory as [`documents`] gives them, and the directory itself if it exists.
fn open_documents(tree: &Tree<'_>, directory: &str) -> Result<Listing, Quarantined> {
    let (folder, entries) = open_entries(tree, directory)?;
    let named = entries.into_iter().filter_map(|entry| {
        let id = stem(tree.layout, &entry.name)?.to_owned();
        let is_document = !entry.is_dir || entry.name.ends_with(".json");
        is_document.then(|| (id, [directory, "/", &entry.name].concat()))
    });
    Ok((folder, named.collect()))
}

/// Reads one document and says which it is.
pub(super) fn read_document(
    tree: &Tree<'_>,
    path: &str,
    shape: DocumentShape,
    key: Key,
) -> Result<Option<Stored>, Quarantined> {
    read_document_in(tree, None, path, shape, key)
}

/// Reads one document as [`read_document`] does, from its directory if that is open.
fn read_document_in(
    tree: &Tree<'_>,
    folder: Option<&Folder>,
    path: &str,
    shape: DocumentShape,
    key: Key,
) -> Result<Option<Stored>, Quarantined> {
    let place = tree.place(path);
    match tree.view.read_in(folder, path, shape) {
        Ok(None) => Ok(None),
        Ok(Some(document)) => Ok(Some(Stored::new(key, document, place))),
        Err(reason) => Err(Quarantined { place, reason, session: key.session().cloned() }),
    }
}

fn bad_name(tree: &Tree<'_>, path: &str, error: IdError) -> Quarantined {
    Quarantined { place: tree.place(path), reason: UnreadableReason::BadName(error), session: None }
}
