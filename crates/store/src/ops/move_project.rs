//! Attaches sessions to the place to which their directory was moved: `move-project`.
//!
//! OpenCode lists sessions by their project and opens each in the directory that it names. After a directory was moved or renamed, both lead
//! nowhere. Here sessions get their new directory, and the project to which the home's OpenCode counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use annals_core::id::{Millis, ProjectId, SessionId};
use annals_core::json::Text;
use annals_core::lens::{Part, Project, Session};
use annals_core::{Document, Key, Stored, Transaction};

use super::plan::OperationPlan;
use super::running::{ChangedExtent, Running};
use super::{OperationError, OperationRequest, Report};
use crate::home::beside::FilesBeside;
use crate::home::pieces::{Exchange, Undo, hash_of};
use crate::home::space::Space;
use crate::home::{MessageDetail, MessageRange, Read, SessionRecord, Write};
use crate::homes::opencode::dialect::Dialect;
use crate::project::{self, ProjectIdentity};
use crate::query::SessionQuery;
use crate::workspace::Workspace;
use crate::{ids, open, snapshot};

/// Plan of a move: the sessions that it attaches to another directory.
#[derive(Debug, Default)]
pub struct MovePlan {
    /// The homes that change.
    pub homes: Vec<MoveInHome>,
    /// The sessions, in any of the homes.
    pub sessions: BTreeMap<String, SessionRecord>,
}

/// What a move changes in one home.
pub struct MoveInHome {
    /// The home.
    pub url: String,
    /// The sessions whose directory changes.
    pub sessions: Vec<SessionRecord>,
    /// Projects that sessions are filed under from now on, each with its sessions' number.
    pub projects: BTreeMap<String, usize>,
    home: Box<dyn Undo>,
}

impl std::fmt::Debug for MoveInHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MoveInHome").field(&self.url).finish()
    }
}

/// A directory and everything below it, at another place.
#[derive(Debug, Clone)]
struct Moved<'m> {
    old: &'m Path,
    new: &'m Path,
}

impl Moved<'_> {
    /// The new place of a path; `None` if it is not below the old one.
    fn place_of(&self, path: &str) -> Option<String> {
        let rest = Path::new(path).strip_prefix(self.old).ok()?;
        let place = if rest.as_os_str().is_empty() { self.new.to_owned() } else { self.new.join(rest) };
        place.into_os_string().into_string().ok()
    }
}

/// Plans to attach the sessions of a directory that was moved. Both paths are absolute. Changes nothing.
pub fn plan_move(workspace: &Workspace<'_>, old: &Path, new: &Path) -> Result<MovePlan, OperationError> {
    let moved = Moved { old, new };
    let mut plan = MovePlan::default();
    for path in workspace.own() {
        let home = match open::open_undoable(path) {
            Ok(home) => home,
            Err(error) if error.is_absent() => continue,
            Err(error) => return Err(error.into()),
        };
        let mut sessions = home.sessions(&SessionQuery::default())?.value;
        sessions.retain(|record| record.info.directory().is_some_and(|dir| moved.place_of(dir).is_some()));
        if sessions.is_empty() {
            continue;
        }
        let mut projects = BTreeMap::new();
        for record in &sessions {
            let project =
                new_project(&moved, home.as_write(), record)?.map_or(record.project.clone(), |to| to.id);
            *projects.entry(project.to_string()).or_default() += 1;
            plan.sessions.entry(record.id.to_string()).or_insert_with(|| record.clone());
        }
        plan.homes.push(MoveInHome { url: path.display().to_string(), sessions, projects, home });
    }
    Ok(plan)
}

/// The project of a session's new directory, by the rule of the home's OpenCode. `None` if the directory does not exist, so that nothing is
/// known of it.
fn new_project(
    moved: &Moved<'_>,
    home: &dyn Write,
    record: &SessionRecord,
) -> Result<Option<ProjectIdentity>, OperationError> {
    let place = record.info.directory().and_then(|directory| moved.place_of(directory));
    let Some(place) = place.map(PathBuf::from).filter(|place| place.is_dir()) else { return Ok(None) };
    Ok(Some(project::identify_by(&place, home.identity_rule())?))
}

/// Carries out a move.
pub fn move_sessions(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    plan: MovePlan,
    old: &Path,
    new: &Path,
) -> Result<Report, OperationError> {
    let moved = Moved { old, new };
    let ids: Vec<SessionId> = plan.sessions.values().map(|record| record.id.clone()).collect();
    let mut homes = plan.homes;
    let mut planned = Vec::new();
    for moving in &homes {
        planned.push(transaction_for(&moved, moving, &request.words)?);
    }
    let files = snapshot_links(&moved, &homes);
    let commits = homes.len() + usize::from(!files.is_empty());
    let mut running =
        Running::begin(workspace, request, OperationPlan { commits: Some(commits), then: None })?;
    for moving in &mut homes {
        running.note_commits(&mut *moving.home, &moving.url);
    }
    running.change_homes(|running| {
        if !files.is_empty() {
            running.exchange_files(FilesBeside::Created, &files)?;
        }
        for (moving, transaction) in homes.iter().zip(planned) {
            running.commit(moving.home.as_write(), &moving.url, transaction)?;
        }
        Ok(())
    })?;
    running.done(&ids, ChangedExtent::Everything)
}

/// The transaction that gives the sessions of a home their new directories.
fn transaction_for(
    moved: &Moved<'_>,
    moving: &MoveInHome,
    words: &str,
) -> Result<Transaction, OperationError> {
    let home = moving.home.as_write();
    let now = ids::now();
    let mut transaction = Transaction::new(words);
    let mut recorded: BTreeSet<ProjectId> = BTreeSet::new();
    for stored in home.projects()?.value {
        let Key::Project(id) = &stored.key else { continue };
        recorded.insert(id.clone());
        if let Some(document) = moved_project(moved, &stored, now)? {
            transaction.replace(&stored, document);
        }
    }
    for record in &moving.sessions {
        let identity = new_project(moved, home, record)?;
        let project = identity.as_ref().map_or(&record.project, |identity| &identity.id);
        if let Some(identity) = identity.as_ref().filter(|identity| recorded.insert(identity.id.clone())) {
            transaction.insert(Key::Project(identity.id.clone()), identity.record(now));
        }
        let is_in_files = open::dialect_of(home) == Some(Dialect::V1_1);
        add_session(moved, record, project, is_in_files, &mut transaction)?;
        add_patches(moved, home, record, &mut transaction)?;
    }
    Ok(transaction)
}

/// Adds a session with its new directory, and under its new project.
fn add_session(
    moved: &Moved<'_>,
    record: &SessionRecord,
    project: &ProjectId,
    is_in_files: bool,
    transaction: &mut Transaction,
) -> Result<(), OperationError> {
    let stored = &record.stored;
    let Some(place) = record.info.directory().and_then(|directory| moved.place_of(directory)) else {
        return Ok(());
    };
    let mut document = stored.document.with(&["directory"], place.as_str())?;
    let path = document.lens::<Session<'_>>().path.map(|path| path.to_string());
    if path.is_some() && (*project != record.project || project.is_global()) {
        // A home that has it computes it from the directory.
        document = document.without(&["path"])?;
    }
    if *project == record.project {
        transaction.replace(stored, document);
        return Ok(());
    }
    let document = document.with(&["projectID"], project.as_str())?;
    transaction.put(Key::Session(project.clone(), record.id.clone()), document);
    // Files are in a directory for each project; a row says which project it belongs to.
    if is_in_files {
        transaction.delete(stored);
    }
    Ok(())
}

/// Adds the lists of files that steps changed, at their new places: with these a revert finds the files. What was said and done stays as it is.
fn add_patches(
    moved: &Moved<'_>,
    home: &dyn Read,
    record: &SessionRecord,
    transaction: &mut Transaction,
) -> Result<(), OperationError> {
    for message in home.messages(record, &MessageRange::ALL, MessageDetail::Parts) {
        for stored in message?.parts {
            let Part::Patch(patch) = stored.document.lens() else { continue };
            let files: Vec<String> =
                patch.files.unwrap_or_default().iter().map(|file| file.to_string()).collect();
            let places: Vec<String> =
                files.iter().map(|file| moved.place_of(file).unwrap_or_else(|| file.clone())).collect();
            if places != files && stored.provenance.is_verbatim() {
                let places: Vec<Text<'_>> = places.iter().map(|place| place.as_str().into()).collect();
                transaction.replace(&stored, stored.document.with(&["files"], &places)?);
            }
        }
    }
    Ok(())
}

/// The record of a project with its working trees at their new places, if any of them was moved.
fn moved_project(
    moved: &Moved<'_>,
    stored: &Stored,
    now: Millis,
) -> Result<Option<Document>, OperationError> {
    let project = stored.document.lens::<Project<'_>>();
    let mut document = stored.document.clone();
    let mut is_changed = false;
    if let Some(place) = project.worktree.and_then(|worktree| moved.place_of(&worktree.to_str())) {
        document = document.with(&["worktree"], place.as_str())?;
        is_changed = true;
    }
    let sandboxes: Vec<String> =
        project.sandboxes.unwrap_or_default().iter().map(|sandbox| sandbox.to_string()).collect();
    let places: Vec<String> =
        sandboxes.iter().map(|sandbox| moved.place_of(sandbox).unwrap_or_else(|| sandbox.clone())).collect();
    if places != sandboxes {
        let places: Vec<Text<'_>> = places.iter().map(|place| place.as_str().into()).collect();
        document = document.with(&["sandboxes"], &places)?;
        is_changed = true;
    }
    match is_changed {
        // As OpenCode does whenever it opens a project.
        true => Ok(Some(document.with(&["time", "updated"], &now)?)),
        false => Ok(None),
    }
}

/// Since 1.16 OpenCode keeps the snapshots of each working tree in a repository that is named for its path. A new repository there that refers to the
/// objects of the old one makes them known under the new path.
fn snapshot_links(moved: &Moved<'_>, homes: &[MoveInHome]) -> Vec<Exchange> {
    let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for moving in homes {
        let home = moving.home.as_write();
        let data = home.space().and_then(Space::data_directory);
        let is_named_for_path = open::dialect_of(home).is_some_and(Dialect::has_repository_of_worktree);
        let Some(data) = data.filter(|_| is_named_for_path) else { continue };
        for record in &moving.sessions {
            let Ok(Some(identity)) = new_project(moved, home, record) else { continue };
            let Ok(rest) = identity.sandbox.strip_prefix(moved.new) else { continue };
            let old = if rest.as_os_str().is_empty() { moved.old.to_owned() } else { moved.old.join(rest) };
            let from = snapshot::repository_of(&data, &record.project, &old);
            let to = snapshot::repository_of(&data, &identity.id, &identity.sandbox);
            files.extend(snapshot::link(&from, &to, &identity.sandbox));
        }
    }
    let exchange = |(path, bytes): (PathBuf, Vec<u8>)| {
        let before = std::fs::read(&path).ok();
        let expected = hash_of(before.as_ref());
        Some(Exchange { place: path.to_str()?.to_owned(), session: None, expected, bytes: Some(bytes) })
    };
    files.into_iter().filter_map(exchange).collect()
}

/// Projects whose working tree does not exist, with the sessions that were opened below it: those that may have been moved.
pub fn missing_projects(home: &dyn Read) -> Result<Vec<(Stored, usize)>, OperationError> {
    let sessions = home.sessions(&SessionQuery::default())?.value;
    let mut missing = Vec::new();
    for stored in home.projects()?.value {
        let worktree = stored.document.lens::<Project<'_>>().worktree.map(|worktree| worktree.to_string());
        let Some(worktree) = worktree.filter(|worktree| worktree != "/" && !Path::new(worktree).exists())
        else {
            continue;
        };
        let is_below = |record: &&SessionRecord| {
            record.gone.is_none()
                && record.info.directory().is_some_and(|dir| Path::new(dir).starts_with(&worktree))
        };
        let n_sessions = sessions.iter().filter(is_below).count();
        if n_sessions > 0 {
            missing.push((stored, n_sessions));
        }
    }
    Ok(missing)
}
