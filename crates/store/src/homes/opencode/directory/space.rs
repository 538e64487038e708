//! The space that a directory takes: by session, and what belongs to nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use annals_core::id::{MessageId, Millis, SessionId};

use super::files::FilesView;
use super::layout::{Layout, stem};
use super::pieces::files_below;
use super::{OpencodeDirectory, journal};
use crate::check::ProblemKind;
use crate::home::pieces::{Exchange, Undo, hash_of};
use crate::home::space::{ClearedRemains, Space, SpaceKind, SpaceUse, TrimmedLog};
use crate::home::{CommitError, ReadError};
use crate::ids;

impl Space for OpencodeDirectory {
    fn uses(&self) -> Result<Vec<SpaceUse>, ReadError> {
        let mut uses = Vec::new();
        let sizes = self.session_sizes()?;
        let sessions: u64 = sizes.values().sum();
        uses.push(SpaceUse { kind: SpaceKind::Sessions, bytes: sessions, items: Some(sizes.len()) });
        let orphans = self.orphans()?;
        let bytes = orphans.iter().map(|orphan| self.size_of(&orphan.place)).sum();
        uses.push(SpaceUse { kind: SpaceKind::Orphans, bytes, items: Some(orphans.len()) });
        uses.retain(|space| space.bytes > 0);
        uses.sort_by_key(|space| std::cmp::Reverse(space.bytes));
        Ok(uses)
    }

    fn session_sizes(&self) -> Result<HashMap<SessionId, u64>, ReadError> {
        let mut sizes: HashMap<SessionId, u64> = HashMap::new();
        for tree in self.trees() {
            let mut add = |session: &SessionId, bytes| *sizes.entry(session.clone()).or_default() += bytes;
            match tree.layout {
                Layout::Flat => add_flat(&tree.view, &mut add),
                Layout::PerProject(_) | Layout::PerSession => {
                    let sessions = match tree.layout {
                        Layout::PerSession => "session",
                        _ => "session/message",
                    };
                    for entry in tree.view.list(sessions).unwrap_or_default() {
                        let Ok(session) = SessionId::parse_opencode(&entry.name) else { continue };
                        let places = match tree.layout {
                            Layout::PerSession => vec![format!("session/{session}")],
                            _ => vec![
                                format!("session/info/{session}.json"),
                                format!("session/message/{session}"),
                                format!("session/part/{session}"),
                            ],
                        };
                        for place in places {
                            add(&session, size_below(&tree.view, &place));
                        }
                    }
                }
            }
        }
        Ok(sizes)
    }

    fn files(&self) -> Vec<PathBuf> {
        let roots = self.roots.iter().map(|root| root.files.path.clone());
        let mut files: Vec<PathBuf> = roots.collect();
        files.dedup();
        files
    }

    fn data_directory(&self) -> Option<PathBuf> {
        self.own_data_directory()
    }

    /// None that could be harmed: a process of OpenCode opens each file for a moment.
    fn users(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Deleted files are gone. The journal of the last transaction names them, so it goes too.
    fn clear_remains(&self) -> Result<ClearedRemains, CommitError> {
        if let Some(root) = self.flat() {
            match root.files.dir.remove_file(journal::LAST) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let path = root.files.absolute(journal::LAST);
                    return Err(CommitError::Failed { path, source: error });
                }
                _ => {}
            }
        }
        Ok(ClearedRemains::default())
    }

    fn orphans(&self) -> Result<Vec<Exchange>, ReadError> {
        let Some(root) = self.flat() else { return Ok(Vec::new()) };
        let mut places = Vec::new();
        for problem in self.check_all(ids::now(), &|| {})? {
            let is_orphan = matches!(
                problem.kind,
                ProblemKind::OrphanParts | ProblemKind::OrphanMessages | ProblemKind::OrphanBeside
            );
            if let Some(path) = problem.place.strip_prefix(&root.prefix).filter(|_| is_orphan) {
                let files = files_below(root, path);
                if problem.kind == ProblemKind::OrphanMessages {
                    let messages = files.iter().filter_map(|file| {
                        let id = stem(&Layout::Flat, Path::new(file).file_name()?.to_str()?)?;
                        MessageId::parse_opencode(id).ok()
                    });
                    let parts = messages.flat_map(|message| files_below(root, &format!("part/{message}")));
                    places.extend(parts.map(|file| (file, problem.session.clone())));
                }
                places.extend(files.into_iter().map(|file| (file, problem.session.clone())));
            }
        }
        places.sort_by(|a, b| a.0.cmp(&b.0));
        places.dedup_by(|a, b| a.0 == b.0);
        let places: Vec<_> =
            places.into_iter().map(|(file, session)| ([&root.prefix, &file[..]].concat(), session)).collect();
        let stored = self.stored(&places.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>())?;
        let exchanges = places.into_iter().zip(stored).map(|((place, session), bytes)| Exchange {
            place,
            session,
            expected: hash_of(bytes.as_ref()),
            bytes: None,
        });
        Ok(exchanges.collect())
    }

    /// There is none in files.
    fn trim_change_log(&self, _: Millis, _: bool) -> Result<TrimmedLog, CommitError> {
        Ok(TrimmedLog::default())
    }
}

impl OpencodeDirectory {
    fn size_of(&self, place: &str) -> u64 {
        std::fs::symlink_metadata(self.path.join(place)).map_or(0, |metadata| metadata.len())
    }
}

/// Adds the files of the flat layout to their sessions.
fn add_flat(view: &FilesView<'_>, add: &mut dyn FnMut(&SessionId, u64)) {
    let list = |path: &str| view.list(path).unwrap_or_default();
    for project in list("session") {
        for entry in list(&format!("session/{}", project.name)) {
            let id = stem(&Layout::Flat, &entry.name).and_then(|id| SessionId::parse_opencode(id).ok());
            let Some(session) = id else { continue };
            add(&session, size_below(view, &format!("session/{}/{}", project.name, entry.name)));
            for message in list(&format!("message/{session}")) {
                add(&session, size_below(view, &format!("message/{session}/{}", message.name)));
                if let Some(id) = stem(&Layout::Flat, &message.name) {
                    add(&session, size_below(view, &format!("part/{id}")));
                }
            }
            for directory in ["todo", "session_diff", "session_share", "share"] {
                add(&session, size_below(view, &format!("{directory}/{session}.json")));
            }
        }
    }
}

/// The bytes of a file, or of all files in a directory.
fn size_below(view: &FilesView<'_>, path: &str) -> u64 {
    match view.files.dir.symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let entries = view.list(path).unwrap_or_default();
            entries.iter().map(|entry| size_below(view, &format!("{path}/{}", entry.name))).sum()
        }
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    }
}
