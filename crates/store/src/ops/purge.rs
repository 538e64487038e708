//! Erases sessions from everywhere: `purge`.
//!
//! A deletion leaves much behind: the store's copy, deleted text in unused pages and in the write-ahead log of a database, lines in logs, the
//! files of long tool output, snapshots of the working tree. Here all of that goes, and nothing can bring it back.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use annals_core::id::{ProjectId, SessionId};
use annals_core::lens::Part;
use annals_core::{Document, Key};

use super::remove::{self, RemovalPlan};
use super::{OperationError, OperationRequest, Report};
use crate::history::LogQuery;
use crate::home::space::ClearedRemains;
use crate::home::{Read, ReadError, SessionRecord};
use crate::homes::opencode::agent_files::{self, LOGS};
use crate::open;
use crate::query::SessionQuery;
use crate::remains::Words;
use crate::scratch;
use crate::snapshot::erasing;
use crate::store::Store;
use crate::upkeep::{ForgetError, Forgotten};
use crate::workspace::Workspace;

/// Plan of a purge.
#[derive(Debug)]
pub struct PurgePlan {
    /// What is deleted from homes.
    pub removal: RemovalPlan,
    /// The sessions to erase, also those that only the store still has.
    pub sessions: Vec<SessionId>,
    /// Long tool output in files of its own.
    pub tool_outputs: BTreeSet<PathBuf>,
    /// Those of the sessions that the store knows, or knew.
    known: Vec<SessionId>,
    words: Words,
    prompts: HashSet<String>,
    snapshots: HashSet<String>,
    projects: HashSet<ProjectId>,
}

/// Places beside the user's homes and store in which a purge erases as well.
#[derive(Debug, Clone, Default)]
pub struct PurgePlaces {
    /// OpenCode's state directory, which has the prompts as they were typed.
    pub state: Option<PathBuf>,
    /// Backups of the store.
    pub backups: Vec<PathBuf>,
}

/// Outcome of a purge.
#[derive(Debug, Default)]
pub struct Purged {
    /// The deletion from homes.
    pub removal: Report,
    /// What the store forgot. `None` if it had nothing.
    pub forgotten: Option<Forgotten>,
    /// The homes whose files were cleared of remains.
    pub cleared: Vec<(String, ClearedRemains)>,
    /// Files that were deleted: long tool output.
    pub files: Vec<PathBuf>,
    /// Logs and histories, each with the number of lines that were erased.
    pub lines: Vec<(PathBuf, usize)>,
    /// Number of objects that were erased from snapshot repositories.
    pub snapshot_objects: usize,
    /// Backups of the store from which sessions were erased.
    pub backups: Vec<PathBuf>,
    /// What could not be erased: where, and why.
    pub left: Vec<(String, String)>,
}

/// Plans to erase sessions, with those that they started. `forgotten` are sessions that only the past of the store has, or that were forgotten
/// before: what is left of them is erased. Changes nothing.
pub fn plan_purge(
    workspace: &Workspace<'_>,
    read: &dyn Read,
    sessions: &[SessionRecord],
    forgotten: &[SessionRecord],
    again: &[SessionId],
) -> Result<PurgePlan, OperationError> {
    let mut removal = remove::plan_removal(workspace, read, sessions)?;
    let mut family = Vec::new();
    for session in sessions {
        family.extend(crate::remove::plan(read, session.clone())?.sessions);
    }
    // The store forgets what it has; nothing has to be deleted there first.
    removal.store = None;
    let records: Vec<&SessionRecord> = removal.sessions.iter().chain(&family).chain(forgotten).collect();
    let mut plan = PurgePlan {
        sessions: Vec::new(),
        tool_outputs: BTreeSet::new(),
        known: Vec::new(),
        words: Words::default(),
        prompts: HashSet::new(),
        snapshots: HashSet::new(),
        projects: records.iter().map(|record| record.project.clone()).collect(),
        removal: RemovalPlan::default(),
    };
    let mut seen = HashSet::new();
    let ids = records.iter().map(|record| &record.id).chain(again);
    plan.sessions.extend(ids.filter(|id| seen.insert((*id).clone())).cloned());
    let store = workspace.store();
    for id in &plan.sessions.clone() {
        plan.words.add_id(id.as_str());
        plan.gather(store, id)?;
        let log = store.log(&LogQuery { session: Some(id.clone()), ..LogQuery::default() })?;
        if !log.is_empty() || store.session(id)?.is_some() || store.is_forgotten(id)? {
            plan.known.push(id.clone());
        }
        for revision in log {
            for changed in store.changes(revision.number)? {
                if changed.key.session() == Some(id) {
                    changed.before.iter().chain(&changed.after).for_each(|then| plan.add(&changed.key, then));
                }
            }
        }
        for target in removal.targets() {
            plan.gather(target.home.as_write(), id)?;
        }
    }
    plan.removal = removal;
    Ok(plan)
}

/// The places in which nothing of erased sessions may be left: the homes of a workspace with what lies beside them, and the store.
pub fn places_to_search(workspace: &Workspace<'_>, places: &PurgePlaces) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in workspace.own() {
        let Ok(home) = open::open_undoable(path) else { continue };
        let Some(space) = home.space() else { continue };
        found.extend(space.files());
        found.extend(space.data_directory().iter().flat_map(|data| agent_files::contents(data)));
    }
    if let Some(store) = workspace.store().url().path() {
        found.extend(files_beside(store));
        found.extend(files_beside(&store.with_extension("index")));
        found.extend(scratch::remaining(scratch::parent_of(store)));
    }
    found.extend(places.state.clone());
    found.extend(places.backups.iter().flat_map(|backup| files_beside(backup)));
    found.sort();
    // A directory stands for all that is in it.
    found.dedup_by(|later, earlier| later.starts_with(&*earlier));
    found
}

/// Whether a path is one of git's objects. They are compressed, so nothing is found in their bytes.
pub fn is_git_object(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "objects")
        && path.parent().is_some_and(|git| git.join("HEAD").is_file())
}

impl PurgePlan {
    /// Words by which the sessions would be recognised in the bytes of files.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Adds the documents that a home has of a session.
    fn gather(&mut self, home: &dyn Read, session: &SessionId) -> Result<(), ReadError> {
        let record = home.session(session)?;
        let data =
            record.as_ref().and_then(|record| home.files().and_then(|files| files.data_directory(record)));
        for key in home.session_keys(session)? {
            match home.document(&key) {
                Ok(Some(stored)) => {
                    self.add(&key, &stored.document);
                    let file = data
                        .as_deref()
                        .and_then(|data| agent_files::tool_output(data, &key, &stored.document));
                    self.tool_outputs.extend(file);
                }
                // What cannot be read is deleted nevertheless.
                Ok(None) | Err(ReadError::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &Key, document: &Document) {
        self.words.add(key, document);
        self.snapshots.extend(erasing::named_in(key, document));
        if let (Key::Part(..), Part::Text(part)) = (key, document.lens())
            && let Some(text) = part.text
        {
            self.prompts.insert(text.to_string().trim().to_owned());
        }
    }
}

/// Erases sessions from the user's homes, the store, and everything beside them. What cannot be erased is in the outcome; the plan can be carried
/// out again.
pub fn purge(
    workspace: &Workspace<'_>,
    request: &OperationRequest,
    plan: PurgePlan,
    places: &PurgePlaces,
) -> Result<Purged, OperationError> {
    let mut purged = Purged::default();
    let store = workspace.store();
    let PurgePlan { removal, sessions, tool_outputs, known, words, prompts, snapshots, projects } = plan;
    if !removal.homes.is_empty() {
        purged.removal = remove::remove(workspace, request.clone(), removal)?;
    }
    if !known.is_empty() {
        purged.forgotten = Some(store.forget(&known)?);
        store.note_final(request)?;
    }
    let data = purged.clear_homes(workspace);
    let erasing = Erasing { store, words: &words, purged: &mut purged };
    erasing.run(&data, places, &Beside { tool_outputs, prompts, snapshots, projects });
    purged.erase_from_backups(&sessions, &places.backups);
    Ok(purged)
}

impl Purged {
    /// Whether everything was erased that was tried.
    pub fn is_complete(&self) -> bool {
        let is_forgotten = self.forgotten.as_ref().is_none_or(|forgotten| {
            forgotten.not_rewritten.is_none() && forgotten.index_left.is_none() && forgotten.log_emptied
        });
        is_forgotten
            && self.left.is_empty()
            && self.removal.still_in.is_empty()
            && self.cleared.iter().all(|(_, cleared)| cleared.is_complete())
    }

    /// Clears homes of remains. Returns their data directories.
    fn clear_homes(&mut self, workspace: &Workspace<'_>) -> Vec<PathBuf> {
        let mut data = Vec::new();
        for path in workspace.own() {
            let place = path.display().to_string();
            let home = match open::open_undoable(path) {
                Ok(home) => home,
                Err(error) if error.is_absent() => continue,
                Err(error) => {
                    self.left.push((place, error.to_string()));
                    continue;
                }
            };
            let Some(space) = home.space() else { continue };
            data.extend(space.data_directory().filter(|directory| !data.contains(directory)));
            match space.clear_remains() {
                Ok(cleared) => self.cleared.push((place, cleared)),
                Err(error) => self.left.push((place, error.to_string())),
            }
        }
        data
    }

    fn note_failure(&mut self, place: &Path, error: impl std::fmt::Display) {
        self.left.push((place.display().to_string(), error.to_string()));
    }

    /// Erases sessions from backups of the store.
    fn erase_from_backups(&mut self, sessions: &[SessionId], named: &[PathBuf]) {
        let beside = self.forgotten.iter().flat_map(|forgotten| forgotten.copies.clone());
        let mut backups: Vec<PathBuf> = named.iter().cloned().chain(beside).collect();
        backups.sort();
        backups.dedup();
        for backup in backups {
            match erase_from_backup(&backup, sessions) {
                Ok(true) => self.backups.push(backup),
                Ok(false) => {}
                Err(why) => self.left.push((backup.display().to_string(), why)),
            }
        }
    }
}

/// What is erased beside homes and the store.
struct Beside {
    tool_outputs: BTreeSet<PathBuf>,
    prompts: HashSet<String>,
    snapshots: HashSet<String>,
    projects: HashSet<ProjectId>,
}

/// Erases what lies beside homes. The store has forgotten the sessions by now: what it still says is not theirs alone.
struct Erasing<'e> {
    store: &'e dyn Store,
    words: &'e Words,
    purged: &'e mut Purged,
}

impl Erasing<'_> {
    fn run(mut self, data: &[PathBuf], places: &PurgePlaces, beside: &Beside) {
        for data in data {
            if let Err(error) = self.blank_logs(&data.join(LOGS)) {
                self.purged.note_failure(&data.join(LOGS), error);
            }
            if let Err((place, why)) = self.erase_snapshots(data, beside) {
                self.purged.left.push((place, why));
            }
        }
        if let Some(state) = &places.state
            && let Err(error) = self.erase_prompts(state, &beside.prompts)
        {
            self.purged.note_failure(state, error);
        }
        self.delete_tool_outputs(&beside.tool_outputs);
    }

    /// Words found in files that are those of the erased sessions alone.
    fn own_words_in(&self, places: &[PathBuf]) -> Result<Words, ReadError> {
        let found = self.words.searcher().search(places, &|_| false);
        Ok(found.without_words_of(self.store)?.words())
    }

    fn blank_logs(&mut self, logs: &Path) -> Result<(), io::Error> {
        let places = [logs.to_owned()];
        let words = self.own_words_in(&places).map_err(io::Error::other)?;
        if words.is_empty() {
            return Ok(());
        }
        let searcher = words.searcher();
        for log in agent_files::files_below(logs) {
            let n_blanked = agent_files::blank_lines(&log, &searcher)?;
            if n_blanked > 0 {
                self.purged.lines.push((log, n_blanked));
            }
        }
        Ok(())
    }

    fn erase_prompts(&mut self, state: &Path, prompts: &HashSet<String>) -> Result<(), io::Error> {
        let words = self.own_words_in(&[state.to_owned()]).map_err(io::Error::other)?;
        self.purged.lines.extend(agent_files::remove_prompts(state, prompts, &words.searcher())?);
        Ok(())
    }

    fn delete_tool_outputs(&mut self, files: &BTreeSet<PathBuf>) {
        let name = |file: &PathBuf| file.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let mut words = Words::default();
        files.iter().for_each(|file| words.add_id(&String::from_utf8_lossy(&name(file))));
        // A fork names the same file as its origin.
        let said = match words.said_in(self.store) {
            Ok(said) => said,
            Err(error) => return files.iter().for_each(|file| self.purged.note_failure(file, &error)),
        };
        for file in files.iter().filter(|file| !said.contains(&name(file))) {
            match std::fs::remove_file(file) {
                Ok(()) => self.purged.files.push(file.clone()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.purged.note_failure(file, error),
            }
        }
    }

    fn erase_snapshots(&mut self, data: &Path, beside: &Beside) -> Result<(), (String, String)> {
        let place = data.join("snapshot").display().to_string();
        let repositories: Vec<PathBuf> = beside
            .projects
            .iter()
            .flat_map(|project| erasing::repositories(data, Some(project.as_str())))
            .collect();
        if beside.snapshots.is_empty() || repositories.is_empty() {
            return Ok(());
        }
        let users: BTreeSet<u32> =
            self.purged.cleared.iter().flat_map(|(_, cleared)| cleared.users.iter().copied()).collect();
        if let Some(pid) = users.first() {
            return Err((place, format!("process {pid} may be using the snapshots")));
        }
        let failed = |error: &dyn std::fmt::Display| (place.clone(), error.to_string());
        let kept = snapshots_named_in(self.store, &beside.projects).map_err(|error| failed(&error))?;
        for repository in repositories {
            let erased = erasing::erase(&repository, &beside.snapshots, &kept);
            self.purged.snapshot_objects += erased.map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

/// The snapshots that sessions of some projects name.
pub(crate) fn snapshots_named_in(
    home: &dyn Read,
    projects: &HashSet<ProjectId>,
) -> Result<HashSet<String>, ReadError> {
    let mut named = HashSet::new();
    for session in home.sessions(&SessionQuery::default())?.value {
        if !projects.contains(&session.project) {
            continue;
        }
        let stored = &session.stored;
        named.extend(erasing::named_in(&stored.key, &stored.document));
        for key in home.session_keys(&session.id)? {
            if !matches!(key, Key::Part(..)) {
                continue;
            }
            match home.document(&key) {
                Ok(stored) => {
                    named.extend(stored.iter().flat_map(|stored| erasing::named_in(&key, &stored.document)));
                }
                Err(ReadError::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(named)
}

/// Erases sessions from a backup of the store. False if it has none of them. A backup of earlier tables is upgraded first.
fn erase_from_backup(backup: &Path, sessions: &[SessionId]) -> Result<bool, String> {
    let before: HashSet<PathBuf> = files_beside(backup);
    let store = open::open_store(backup).map_err(|error| error.to_string())?;
    let mut is_erased = false;
    let mut failed = None;
    for session in sessions {
        match store.forget(std::slice::from_ref(session)) {
            Ok(forgotten) => {
                is_erased = true;
                let why =
                    forgotten.not_rewritten.or((!forgotten.log_emptied).then(|| "it is in use".to_owned()));
                failed = failed.or(why);
            }
            Err(ForgetError::NotFound(_)) => {}
            Err(error) => failed = failed.or(Some(error.to_string())),
        }
    }
    drop(store);
    // The files of a store that is in use, and the copy from before an upgrade, were made just now.
    for made in files_beside(backup).difference(&before) {
        // SQLite removes its own files when the last connection is closed.
        let is_sqlites = ["-wal", "-shm"].iter().any(|end| made.to_string_lossy().ends_with(end));
        let _ = match (is_sqlites, made.is_dir()) {
            (true, _) => Ok(()),
            (_, true) => std::fs::remove_dir_all(made),
            (_, false) => std::fs::remove_file(made),
        };
    }
    match failed {
        Some(why) => Err(why),
        None => Ok(is_erased),
    }
}

/// The files whose names begin with that of a file.
fn files_beside(path: &Path) -> HashSet<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_beside = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&name);
    entries.filter(is_beside).map(|entry| entry.path()).collect()
}
