//! What has changed, told by the times and sizes of files.
//!
//! OpenCode rewrites a session's document whenever it is prompted, summarised, renamed, archived, shared or reverted, and
//! adds or removes an entry of its message directory with every message. So these two are looked at, two system calls for
//! a session. What changes neither is: an answer that is being written, which says so itself; marks that are set and
//! summaries that are added to messages moments after the last answer, which is why a session counts as settled only after
//! a while; and edits and removals of single parts through the HTTP API, long after. Those are found by a full sync.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::lens::Message;
use annals_core::{Key, Position, Stored};

use super::files::DocumentShape;
use super::layout::{Layout, stem};
use super::read::{self, LocatedSession};
use super::{OpencodeDirectory, Tree};
use crate::home::{Found, Quarantined, Read, ReadError, SessionRecord, UnreadableReason};
use crate::platform::{self, Stamp};
use crate::query::SessionQuery;
use crate::sync::source::{Seen, Sighting, Source, Survey};

impl Source for OpencodeDirectory {
    fn survey(&self) -> Result<Survey, ReadError> {
        let mut survey = Survey::default();
        // A session in two places is one session; a change in either place counts.
        let mut places: HashMap<SessionId, usize> = HashMap::new();
        for tree in self.trees() {
            let stamps = Stamps { files: &tree.view.files.dir };
            if *tree.layout == Layout::Flat {
                let mut projects = stamps.below("project").unwrap_or_default();
                projects.sort();
                for (name, stamp) in projects {
                    survey.projects.extend_from_slice(name.as_bytes());
                    survey.projects.extend_from_slice(&stamp.to_bytes());
                }
            }
            // A directory that cannot be listed gives no evidence. Everything in it is looked at, and the reader reports why.
            let below = |directory: &str| -> HashMap<String, Stamp> {
                stamps.below(directory).unwrap_or_default().into_iter().collect()
            };
            let messages = match tree.layout {
                Layout::Flat => Some("message"),
                Layout::PerProject(_) => Some("session/message"),
                Layout::PerSession => None,
            };
            // A system call for every session, and another for its document: half of them in another thread.
            let (messages, located, documents) = std::thread::scope(|scope| {
                let messages = scope.spawn(|| messages.map(below).unwrap_or_default());
                let located = read::list_sessions(&tree, &SessionQuery::default(), &mut survey.quarantined)?;
                let mut documents: HashMap<String, HashMap<String, Stamp>> = HashMap::new();
                for LocatedSession { path, .. } in &located {
                    let directory = directory_of(path);
                    if !documents.contains_key(directory) {
                        documents.insert(directory.to_owned(), below(directory));
                    }
                }
                Ok::<_, ReadError>((messages.join().unwrap_or_default(), located, documents))
            })?;
            for LocatedSession { session, project, path } in located {
                let name = path.rsplit('/').next().unwrap_or_default();
                let in_directory = documents.get(directory_of(&path));
                let document = in_directory.and_then(|stamps| stamps.get(name)).copied();
                let messages = match tree.layout {
                    Layout::PerSession => stamps.of(&tree.layout.messages(&session)),
                    _ => messages.get(session.as_str()).copied(),
                };
                let mut stamp = Vec::with_capacity(48);
                let mut written = 0;
                for part in [document, messages].into_iter().map(Option::unwrap_or_default) {
                    stamp.extend_from_slice(&part.to_bytes());
                    written = written.max(part.written());
                }
                match places.get(&session) {
                    Some(&place) => {
                        let known: &mut Sighting = &mut survey.sessions[place];
                        known.stamp.append(&mut stamp);
                        known.written = known.written.max(written);
                        known.is_single = false;
                    }
                    None => {
                        places.insert(session.clone(), survey.sessions.len());
                        survey.sessions.push(Sighting { session, project, stamp, written, is_single: true });
                    }
                }
            }
        }
        Ok(survey)
    }

    fn sighted(&self, sighting: &Sighting) -> Result<Option<SessionRecord>, ReadError> {
        // The document is most likely where it was; looking everywhere takes a system call for each project.
        if sighting.is_single
            && let Some(tree) = self.flat_tree()
        {
            let Sighting { session, project, .. } = sighting;
            let path = tree.layout.session(project, session);
            let located = LocatedSession { session: session.clone(), project: project.clone(), path };
            if let Some(record) = self.read_session(&tree, located)? {
                return Ok(Some(record));
            }
        }
        self.session(&sighting.session)
    }

    fn look_since(
        &self,
        session: &SessionRecord,
        since: Millis,
        visit: &mut dyn FnMut(Seen) -> ControlFlow<()>,
    ) -> Option<Result<Vec<Quarantined>, ReadError>> {
        let root = self.root_of(&session.stored.place)?;
        let tree = root.tree();
        // A transaction of ours that is under way is not in the times of files.
        if !tree.view.overlay.is_empty() {
            return None;
        }
        let since =
            Since { tree: &tree, session: &session.id, created: session.info.created(), instant: since };
        let mut quarantined = Vec::new();
        let messages = tree.layout.messages(&session.id);
        // A directory that cannot be listed is not empty: the reader reports why.
        for (name, stamp) in since.stamps().below(&messages).ok()? {
            let Some(id) = stem(tree.layout, &name) else { continue };
            let path = format!("{messages}/{name}");
            let seen = match MessageId::parse_opencode(id) {
                Ok(id) => since.message(id, &path, stamp, &mut quarantined),
                Err(error) => {
                    quarantined.push(since.problem(&path, UnreadableReason::BadName(error)));
                    continue;
                }
            };
            if seen.is_some_and(|seen| visit(seen).is_break()) {
                break;
            }
        }
        Some(Ok(quarantined))
    }

    fn orphans(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        let Some(tree) = self.flat_tree() else { return Ok(Found::default()) };
        let orphans = self.orphan_parts();
        let mut found = Found { value: Vec::new(), quarantined: orphans.unlisted };
        for orphans in orphans.found {
            let Some(session) = orphans.session else { continue };
            let listed = read::documents(&tree, &tree.layout.parts(&session, &orphans.message));
            let listed = listed.unwrap_or_else(|problem| {
                found.quarantined.push(problem.of(&session));
                Vec::new()
            });
            for (name, path) in listed {
                let Ok(part) = PartId::parse_opencode(&name) else { continue };
                let key = Key::Part(session.clone(), orphans.message.clone(), part);
                match read::read_document(&tree, &path, DocumentShape::Object, key) {
                    Ok(stored) => found.value.extend(stored),
                    // Only what may be readable next time is worth another try; `check` finds what is damaged.
                    Err(problem) if matches!(problem.reason, UnreadableReason::Refused(_)) => {
                        found.quarantined.push(problem);
                    }
                    Err(_) => {}
                }
            }
        }
        Ok(found)
    }
}

/// A look at the documents of a session that were written since an instant.
struct Since<'l> {
    tree: &'l Tree<'l>,
    session: &'l SessionId,
    /// When the session was made.
    created: Option<Millis>,
    instant: Millis,
}

impl Since<'_> {
    fn stamps(&self) -> Stamps<'_> {
        Stamps { files: &self.tree.view.files.dir }
    }

    fn problem(&self, path: &str, reason: UnreadableReason) -> Quarantined {
        Quarantined { place: self.tree.place(path), reason, session: Some(self.session.clone()) }
    }

    /// A message and its parts; none if the message was removed meanwhile.
    fn message(
        &self,
        id: MessageId,
        path: &str,
        stamp: Stamp,
        quarantined: &mut Vec<Quarantined>,
    ) -> Option<Seen> {
        let mut seen = Seen {
            id,
            stored: None,
            parts: Vec::new(),
            n_parts: 0,
            is_complete: true,
            quarantined: Vec::new(),
        };
        // Of a message that is not read only its id tells when it was made.
        let made = seen.id.moment(self.instant).map_or(self.instant, |moment| moment.millis);
        if stamp.is_since(self.instant) {
            let key = Key::Message(self.session.clone(), seen.id.clone());
            match read::read_document(self.tree, path, DocumentShape::Object, key) {
                Ok(Some(stored)) => {
                    let made = Message::created_in(stored.document.root()).or(self.created).unwrap_or(made);
                    let position = Position::by_id(&seen.id, made);
                    seen.stored = Some(stored.at(position));
                }
                Ok(None) => return None,
                Err(problem) => quarantined.push(problem),
            }
        }
        let parts = self.tree.layout.parts(self.session, &seen.id);
        match self.stamps().below(&parts) {
            Ok(listed) => {
                for (name, stamp) in &listed {
                    self.part(&mut seen, &parts, (name, *stamp), made);
                }
            }
            Err(error) => {
                seen.quarantined.push(self.problem(&parts, UnreadableReason::Refused(error.to_string())));
            }
        }
        seen.is_complete = seen.quarantined.is_empty();
        Some(seen)
    }

    fn part(&self, seen: &mut Seen, directory: &str, (name, stamp): (&str, Stamp), made: Millis) {
        let Some(part) = stem(self.tree.layout, name) else { return };
        seen.n_parts += 1;
        let path = format!("{directory}/{name}");
        let part = match PartId::parse_opencode(part) {
            Ok(part) => part,
            Err(error) => {
                seen.quarantined.push(self.problem(&path, UnreadableReason::BadName(error)));
                return;
            }
        };
        if !stamp.is_since(self.instant) {
            seen.parts.push((part, None));
            return;
        }
        let key = Key::Part(self.session.clone(), seen.id.clone(), part.clone());
        match read::read_document(self.tree, &path, DocumentShape::Object, key) {
            Ok(Some(stored)) => {
                let position = Position::of_part(&part, made);
                seen.parts.push((part, Some(stored.at(position))));
            }
            Ok(None) => {}
            Err(problem) => {
                // It is there, only unreadable.
                seen.parts.push((part, None));
                seen.quarantined.push(problem);
            }
        }
    }
}

/// The directory that a document stands in.
fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Times and sizes of what is in a tree.
struct Stamps<'t> {
    files: &'t cap_std::fs::Dir,
}

impl Stamps<'_> {
    /// Those of the entries of a directory. One that does not exist has none.
    fn below(&self, directory: &str) -> io::Result<Vec<(String, Stamp)>> {
        let mut found = Vec::new();
        match platform::list_stamps(self.files, directory, |name, stamp| found.push((name.to_owned(), stamp)))
        {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(found),
        }
    }

    fn of(&self, path: &str) -> Option<Stamp> {
        self.files.symlink_metadata(path).ok().map(|metadata| Stamp::of(&metadata))
    }
}
