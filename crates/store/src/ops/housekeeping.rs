//! Housekeeping: what takes the space in the user's homes, and freeing it.
//!
//! What deletes conversations is an operation like `rm`, and can be undone. Logs, caches and unused pages are freed for good; what a log of
//! changes tells of the past is imported into the store first. Beside a running agent only what cannot disturb it is freed, and the rest is
//! reported.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use annals_core::id::{Millis, ProjectId, SessionId};

use super::plan::OperationPlan;
use super::remove;
use super::running::Running;
use super::{OperationError, OperationRequest, Report};
use crate::home::pieces::{Exchange, Undo};
use crate::home::space::{ClearedRemains, Space, SpaceKind, SpaceUse, TrimmedLog};
use crate::home::{ReadError, SessionRecord};
use crate::homes::opencode::agent_files::{self, FileUse};
use crate::open;
use crate::query::SessionQuery;
use crate::snapshot::{self, erasing};
use crate::sync::{self, Stage, SyncOptions};
use crate::workspace::Workspace;

/// What can be freed, in the order in which it is.
pub const FREEABLE: [SpaceKind; 8] = [
    SpaceKind::Sessions,
    SpaceKind::Migrated,
    SpaceKind::Orphans,
    SpaceKind::Events,
    SpaceKind::Snapshots,
    SpaceKind::ToolOutput,
    SpaceKind::Logs,
    SpaceKind::Unused,
];

/// A log of changes is left alone while its session was used this recently.
const AT_REST: Millis = 60 * 60 * 1000;
/// OpenCode itself removes long tool output after a week.
const TOOL_OUTPUT_KEPT: Millis = 7 * 24 * 60 * 60 * 1000;

/// The space of one place: a home, or a data directory.
#[derive(Debug, Clone)]
pub struct PlaceSpace {
    /// The place.
    pub place: String,
    /// Whether it is a home; otherwise it is what lies beside homes.
    pub is_home: bool,
    /// What the space is used for, the largest use first.
    pub uses: Vec<FreeableSpace>,
    /// Other processes that have it open.
    pub users: Vec<u32>,
}

/// Space that serves one use, and how much of it can be freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeableSpace {
    /// What it is used for.
    pub space: SpaceUse,
    /// Bytes that can be freed, as far as that can be told before.
    pub freeable: u64,
}

/// The space that the user's homes take, and their sessions by size.
#[derive(Debug, Clone, Default)]
pub struct SpaceSurvey {
    /// The places.
    pub places: Vec<PlaceSpace>,
    /// The bytes that each session takes in all homes, the largest first.
    pub sessions: Vec<(SessionId, u64)>,
    /// Places that could not be measured, and why.
    pub failed: Vec<(String, String)>,
}

/// What to free.
#[derive(Debug, Clone)]
pub struct FreeOptions {
    /// The kinds of space.
    pub kinds: Vec<SpaceKind>,
    /// Sessions that were last used before this time are deleted, if sessions are to be freed.
    pub sessions_before: Option<Millis>,
    /// The current time.
    pub now: Millis,
    /// Only report what would be freed.
    pub dry_run: bool,
}

impl FreeOptions {
    fn frees(&self, kind: SpaceKind) -> bool {
        self.kinds.contains(&kind)
    }
}

/// What was freed, or would be.
#[derive(Debug, Clone, Default)]
pub struct Freed {
    /// By place and kind.
    pub items: Vec<FreedSpace>,
    /// Operations that can be undone.
    pub operations: Vec<Report>,
    /// What could not be freed: where, and why.
    pub left: Vec<(String, String)>,
}

/// Space that was freed in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreedSpace {
    /// The place.
    pub place: String,
    /// What it was used for.
    pub kind: SpaceKind,
    /// How many things: sessions, entries, files.
    pub items: usize,
    /// How many bytes. Those of deleted rows are given back to the disk when unused pages are freed.
    pub bytes: u64,
}

/// A home of the workspace.
struct OpenHome {
    path: PathBuf,
    url: String,
    home: Box<dyn Undo>,
}

impl OpenHome {
    fn space(&self) -> Option<&dyn Space> {
        self.home.space()
    }
}

fn open_homes(workspace: &Workspace<'_>, failed: &mut Vec<(String, String)>) -> Vec<OpenHome> {
    let mut homes = Vec::new();
    for path in workspace.own() {
        let url = path.display().to_string();
        match open::open_undoable(path) {
            Ok(home) => homes.push(OpenHome { path: path.clone(), url, home }),
            Err(error) if error.is_absent() => {}
            Err(error) => failed.push((url, error.to_string())),
        }
    }
    homes
}

/// The data directories of homes, each with the homes in it.
fn data_directories(homes: &[OpenHome]) -> Vec<PathBuf> {
    let directories: BTreeSet<PathBuf> =
        homes.iter().filter_map(|home| home.space()?.data_directory()).collect();
    directories.into_iter().collect()
}

/// Measures the space that the user's homes take. Changes nothing.
pub fn survey_space(workspace: &Workspace<'_>, now: Millis) -> Result<SpaceSurvey, OperationError> {
    let mut survey = SpaceSurvey::default();
    let homes = open_homes(workspace, &mut survey.failed);
    let mut sizes: HashMap<SessionId, u64> = HashMap::new();
    for home in &homes {
        let Some(space) = home.space() else { continue };
        match measure(&homes, home, space, now) {
            Ok(place) => survey.places.push(place),
            Err(error) => survey.failed.push((home.url.clone(), error.to_string())),
        }
        for (session, bytes) in space.session_sizes().unwrap_or_default() {
            *sizes.entry(session).or_default() += bytes;
        }
    }
    for data in data_directories(&homes) {
        let files = BesideHomes::of(workspace, &homes, &data)?;
        let mut uses = Vec::new();
        for (kind, found) in agent_files::uses(&data) {
            let bytes = found.iter().map(|file| file.bytes).sum();
            let freeable = files.freeable(kind, found.clone(), now).iter().map(|file| file.bytes).sum();
            let space = SpaceUse { kind, bytes, items: Some(found.len()) };
            uses.push(FreeableSpace { space, freeable });
        }
        uses.retain(|space| space.space.bytes > 0);
        uses.sort_by_key(|space| std::cmp::Reverse(space.space.bytes));
        let place = data.display().to_string();
        survey.places.push(PlaceSpace { place, is_home: false, uses, users: Vec::new() });
    }
    survey.sessions = sizes.into_iter().collect();
    survey.sessions.sort_by(|a, b| (b.1, a.0.as_str()).cmp(&(a.1, b.0.as_str())));
    Ok(survey)
}

fn measure(
    homes: &[OpenHome],
    home: &OpenHome,
    space: &dyn Space,
    now: Millis,
) -> Result<PlaceSpace, OperationError> {
    let mut uses: Vec<FreeableSpace> = Vec::new();
    for used in space.uses()? {
        let freeable = match used.kind {
            SpaceKind::Events => {
                let trimmed = space.trim_change_log(now - AT_REST, true)?;
                let all = trimmed.entries + trimmed.kept;
                // Entries take more than their contents: a share of the pages.
                used.bytes * trimmed.entries as u64 / all.max(1) as u64
            }
            SpaceKind::Unused | SpaceKind::Orphans => used.bytes,
            _ => 0,
        };
        uses.push(FreeableSpace { space: used, freeable });
    }
    let migrated = migrated_sessions(homes, home)?;
    if !migrated.is_empty() {
        let sizes = space.session_sizes()?;
        let bytes = migrated.iter().filter_map(|record| sizes.get(&record.id)).sum();
        let of_sessions = uses.iter_mut().find(|space| space.space.kind == SpaceKind::Sessions);
        if let Some(sessions) = of_sessions {
            sessions.space.bytes = sessions.space.bytes.saturating_sub(bytes);
            sessions.space.items = sessions.space.items.map(|n| n.saturating_sub(migrated.len()));
        }
        let space = SpaceUse { kind: SpaceKind::Migrated, bytes, items: Some(migrated.len()) };
        uses.push(FreeableSpace { space, freeable: bytes });
    }
    uses.retain(|space| space.space.bytes > 0);
    uses.sort_by_key(|space| std::cmp::Reverse(space.space.bytes));
    Ok(PlaceSpace { place: home.url.clone(), is_home: true, uses, users: space.users() })
}

/// The sessions in files that a database beside them has as well, used there at least as recently: OpenCode since 1.2 reads the database.
fn migrated_sessions(homes: &[OpenHome], home: &OpenHome) -> Result<Vec<SessionRecord>, ReadError> {
    if !home.path.is_dir() {
        return Ok(Vec::new());
    }
    let databases: Vec<&OpenHome> = homes
        .iter()
        .filter(|other| other.path.is_file() && other.path.parent() == Some(&home.path))
        .collect();
    let mut migrated = Vec::new();
    if databases.is_empty() {
        return Ok(migrated);
    }
    for record in home.home.sessions(&SessionQuery::default())?.value {
        for database in &databases {
            let held = database.home.session(&record.id)?;
            if held.is_some_and(|held| held.info.last_used() >= record.info.last_used()) {
                migrated.push(record);
                break;
            }
        }
    }
    Ok(migrated)
}

/// Frees space. What fails in one place does not keep other places from being freed.
pub fn free_space(
    workspace: &Workspace<'_>,
    request: &OperationRequest,
    options: &FreeOptions,
) -> Result<Freed, OperationError> {
    let mut freed = Freed::default();
    let homes = open_homes(workspace, &mut freed.left);
    if options.frees(SpaceKind::Sessions)
        && let Some(before) = options.sessions_before
    {
        freed.old_sessions(workspace, request, before, options.dry_run)?;
    }
    for home in &homes {
        let Some(space) = home.space() else { continue };
        if options.frees(SpaceKind::Migrated) {
            freed.migrated(workspace, request, &homes, home, options.dry_run)?;
        }
        if options.frees(SpaceKind::Orphans) {
            freed.orphans(workspace, request, home, space, options.dry_run)?;
        }
        if options.frees(SpaceKind::Events) {
            freed.events(workspace, home, space, options)?;
        }
    }
    for data in data_directories(&homes) {
        freed.beside(&BesideHomes::of(workspace, &homes, &data)?, options)?;
    }
    if options.frees(SpaceKind::Unused) {
        for home in &homes {
            freed.unused(home, options.dry_run)?;
        }
    }
    let is_final = |kind: &SpaceKind| {
        matches!(
            kind,
            SpaceKind::Events
                | SpaceKind::Snapshots
                | SpaceKind::ToolOutput
                | SpaceKind::Logs
                | SpaceKind::Unused
        )
    };
    if !options.dry_run && freed.items.iter().any(|item| is_final(&item.kind)) {
        let request = OperationRequest { kind: super::OperationKind::Free, ..request.clone() };
        workspace.store().note_final(&request)?;
    }
    Ok(freed)
}

impl Freed {
    fn add(&mut self, place: &str, kind: SpaceKind, items: usize, bytes: u64) {
        if items > 0 || bytes > 0 {
            self.items.push(FreedSpace { place: place.to_owned(), kind, items, bytes });
        }
    }

    /// Deletes sessions that were not used for long. The store keeps them.
    fn old_sessions(
        &mut self,
        workspace: &Workspace<'_>,
        request: &OperationRequest,
        before: Millis,
        dry_run: bool,
    ) -> Result<(), OperationError> {
        let store = workspace.store();
        let all = store.sessions(&SessionQuery::default())?.value;
        // A session goes with those that it started, so the last use of all of them counts.
        let family = crate::family::Family::of(&all);
        let old: Vec<SessionRecord> = all
            .iter()
            .filter(|record| record.info.is_root() && record.gone.is_none())
            .filter(|record| {
                let members = family.with_descendants(vec![(*record).clone()]);
                members.iter().all(|member| member.info.last_used() < before)
            })
            .cloned()
            .collect();
        let mut plan = remove::plan_removal(workspace, store, &old)?;
        plan.store = None;
        for (url, removal) in &plan.homes {
            let sizes = open::open_undoable(Path::new(url))
                .ok()
                .and_then(|home| home.space().and_then(|space| space.session_sizes().ok()))
                .unwrap_or_default();
            let bytes = removal.sessions.iter().filter_map(|record| sizes.get(&record.id)).sum();
            self.add(url, SpaceKind::Sessions, removal.sessions.len(), bytes);
        }
        if !dry_run && !plan.homes.is_empty() {
            self.operations.push(remove::remove(workspace, request.clone(), plan)?);
        }
        Ok(())
    }

    /// Deletes sessions from files that the database beside them has.
    fn migrated(
        &mut self,
        workspace: &Workspace<'_>,
        request: &OperationRequest,
        homes: &[OpenHome],
        home: &OpenHome,
        dry_run: bool,
    ) -> Result<(), OperationError> {
        let migrated = migrated_sessions(homes, home)?;
        if migrated.is_empty() {
            return Ok(());
        }
        let sizes = home.space().map(Space::session_sizes).transpose()?.unwrap_or_default();
        let bytes = migrated.iter().filter_map(|record| sizes.get(&record.id)).sum();
        self.add(&home.url, SpaceKind::Migrated, migrated.len(), bytes);
        if !dry_run {
            let only_here = Workspace::new(workspace.store(), std::slice::from_ref(&home.path));
            let mut plan = remove::plan_removal(&only_here, &*home.home, &migrated)?;
            plan.store = None;
            // A subagent's session may be in files alone.
            let is_migrated: HashSet<&SessionId> = migrated.iter().map(|record| &record.id).collect();
            for (_, removal) in &mut plan.homes {
                removal.sessions.retain(|record| is_migrated.contains(&record.id));
                removal.keys.retain(|key| key.session().is_some_and(|session| is_migrated.contains(session)));
            }
            plan.sessions.retain(|record| is_migrated.contains(&record.id));
            self.operations.push(remove::remove(&only_here, request.clone(), plan)?);
        }
        Ok(())
    }

    /// Deletes what belongs to nothing.
    fn orphans(
        &mut self,
        workspace: &Workspace<'_>,
        request: &OperationRequest,
        home: &OpenHome,
        space: &dyn Space,
        dry_run: bool,
    ) -> Result<(), OperationError> {
        let orphans = space.orphans()?;
        if orphans.is_empty() {
            return Ok(());
        }
        let used = space.uses()?;
        let bytes = used.iter().find(|used| used.kind == SpaceKind::Orphans).map_or(0, |used| used.bytes);
        self.add(&home.url, SpaceKind::Orphans, orphans.len(), bytes);
        if !dry_run {
            let report = delete_pieces(workspace, request.clone(), &home.path, &orphans)?;
            self.operations.push(report);
        }
        Ok(())
    }

    /// Trims the log of changes, after importing what it tells of the past.
    fn events(
        &mut self,
        workspace: &Workspace<'_>,
        home: &OpenHome,
        space: &dyn Space,
        options: &FreeOptions,
    ) -> Result<(), OperationError> {
        let before = options.now - AT_REST;
        let trimmed = match options.dry_run {
            true => space.trim_change_log(before, true)?,
            false if space.trim_change_log(before, true)?.entries == 0 => TrimmedLog::default(),
            false => {
                let source = open::open_source(&home.path)?;
                let imported = SyncOptions { events: true, ..SyncOptions::to(Stage::Parts) };
                sync::sync(workspace.store(), &[&*source], imported, &())?;
                drop(source);
                match space.trim_change_log(before, false) {
                    Ok(trimmed) => trimmed,
                    Err(error) => {
                        self.left.push((home.url.clone(), error.to_string()));
                        return Ok(());
                    }
                }
            }
        };
        self.add(&home.url, SpaceKind::Events, trimmed.entries, trimmed.bytes);
        Ok(())
    }

    /// Gives unused pages back to the disk.
    fn unused(&mut self, home: &OpenHome, dry_run: bool) -> Result<(), OperationError> {
        let Some(space) = home.space() else { return Ok(()) };
        let used = space.uses()?;
        let bytes = used.iter().find(|used| used.kind == SpaceKind::Unused).map_or(0, |used| used.bytes);
        if bytes == 0 {
            return Ok(());
        }
        if let [pid, ..] = space.users()[..] {
            let why = format!("process {pid} has it open; its unused pages are used again as it goes on");
            self.left.push((home.url.clone(), why));
            return Ok(());
        }
        if dry_run {
            self.add(&home.url, SpaceKind::Unused, 0, bytes);
            return Ok(());
        }
        match space.clear_remains() {
            Ok(ClearedRemains { bytes_before, bytes_after, .. }) => {
                self.add(&home.url, SpaceKind::Unused, 0, bytes_before.saturating_sub(bytes_after));
            }
            Err(error) => self.left.push((home.url.clone(), error.to_string())),
        }
        Ok(())
    }

    /// Deletes files beside homes.
    fn beside(&mut self, beside: &BesideHomes, options: &FreeOptions) -> Result<(), OperationError> {
        let place = beside.data.display().to_string();
        for (kind, found) in agent_files::uses(&beside.data) {
            if !options.frees(kind) {
                continue;
            }
            let (mut n_deleted, mut bytes) = (0, 0);
            if kind == SpaceKind::Snapshots && !options.dry_run {
                if let Some(pid) = beside.users.first() {
                    self.left.push((place.clone(), format!("process {pid} may be using the snapshots")));
                    continue;
                }
                bytes += self.collect_garbage(&beside.data);
            }
            let freeable = beside.freeable(kind, found, options.now);
            for file in freeable {
                let deleted = match (options.dry_run, file.path.is_dir()) {
                    (true, _) => Ok(()),
                    (false, true) => std::fs::remove_dir_all(&file.path),
                    (false, false) => std::fs::remove_file(&file.path),
                };
                match deleted {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        self.left.push((file.path.display().to_string(), error.to_string()));
                    }
                    _ => {
                        n_deleted += 1;
                        bytes += file.bytes;
                    }
                }
            }
            self.add(&place, kind, n_deleted, bytes);
        }
        Ok(())
    }
}

impl Freed {
    /// Has git remove old snapshots, as OpenCode does while it runs in a project. Returns the bytes that this gave back.
    fn collect_garbage(&mut self, data: &Path) -> u64 {
        let mut bytes = 0;
        for repository in erasing::repositories(data, None) {
            let before = agent_files::size_below(&repository);
            match snapshot::collect_garbage(&repository) {
                Ok(()) => bytes += before.saturating_sub(agent_files::size_below(&repository)),
                Err(error) => self.left.push((repository.display().to_string(), error.to_string())),
            }
        }
        bytes
    }
}

/// Deletes files of a home that belong to nothing, as an operation.
fn delete_pieces(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    path: &Path,
    pieces: &[Exchange],
) -> Result<Report, OperationError> {
    let mut home = open::open_undoable(path)?;
    let url = path.display().to_string();
    let plan = OperationPlan { commits: Some(1), then: None };
    let mut running = Running::begin(workspace, request, plan)?;
    running.note_commits(&mut *home, &url);
    running.change_homes(|running| running.exchange(&*home, &url, pieces))?;
    let sessions: BTreeSet<&str> =
        pieces.iter().filter_map(|piece| piece.session.as_ref()).map(SessionId::as_str).collect();
    let sessions: Vec<SessionId> = sessions.into_iter().filter_map(|id| SessionId::parse(id).ok()).collect();
    running.finish(&sessions)
}

/// The files in a data directory, and what the homes in it still need of them.
struct BesideHomes {
    data: PathBuf,
    /// The projects that sessions belong to.
    projects: HashSet<ProjectId>,
    /// Processes that have a home in the directory open.
    users: Vec<u32>,
}

impl BesideHomes {
    fn of(workspace: &Workspace<'_>, homes: &[OpenHome], data: &Path) -> Result<BesideHomes, OperationError> {
        let mut projects: HashSet<ProjectId> = HashSet::new();
        let mut users = Vec::new();
        for home in homes {
            if home.space().and_then(Space::data_directory).as_deref() == Some(data) {
                let sessions = home.home.sessions(&SessionQuery::default())?.value;
                projects.extend(sessions.into_iter().map(|record| record.project));
                users.extend(home.space().map(Space::users).unwrap_or_default());
            }
        }
        // What was deleted can come back, and its snapshots are needed then.
        let stored = workspace.store().sessions(&SessionQuery::default())?.value;
        projects.extend(stored.into_iter().map(|record| record.project));
        Ok(BesideHomes { data: data.to_owned(), projects, users })
    }

    /// Those among some files that nothing needs any more.
    fn freeable(&self, kind: SpaceKind, mut files: Vec<FileUse>, now: Millis) -> Vec<FileUse> {
        match kind {
            SpaceKind::Snapshots => {
                files.retain(|file| {
                    let project = file.path.file_name().and_then(|name| name.to_str());
                    project
                        .is_some_and(|project| !self.projects.iter().any(|known| known.as_str() == project))
                });
            }
            SpaceKind::Logs => {
                // The latest is being written, or is the one to look at.
                files.sort_by_key(|file| std::cmp::Reverse(file.modified));
                files = files.split_off(files.len().min(1));
                files.retain(|file| crate::platform::users_of(&file.path).is_empty());
            }
            SpaceKind::ToolOutput => files.retain(|file| now - file.modified > TOOL_OUTPUT_KEPT),
            _ => files.clear(),
        }
        files
    }
}
