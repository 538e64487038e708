//! Homes and the store, with their counts and sizes.

use std::collections::HashSet;

use annals_core::id::{Millis, ProjectId};
use serde::Serialize;

use crate::find;
use crate::home::{Extent, Found, SessionRecord};

/// Overview of the homes, the store, and the latest sessions.
#[derive(Debug, Clone, Serialize)]
pub struct Overview {
    /// OpenCode's homes that were found or named.
    pub homes: Vec<Home>,
    /// The store that commands answer from; `null` if `--home` names one of OpenCode's homes.
    pub store: Option<Store>,
    /// Number of sessions that commands answer from.
    pub sessions: usize,
    /// Number of projects that have these sessions.
    pub projects: usize,
    /// The five sessions that were used last, not counting those that another session started.
    pub latest: Vec<LatestSession>,
    /// The project of the current directory; `null` if it has no sessions.
    pub here: Option<HereProject>,
    /// What was used since Monday.
    pub week: UsedSince,
    /// Number of sessions used in the last seven days whose last answer failed.
    pub failed: usize,
    /// Number of sessions used in the last seven days whose last answer has not ended.
    pub open: usize,
    /// Directories with sessions that the database beside them lacks.
    pub rescue: Vec<Rescue>,
    /// Sessions of the repository here that are attached to a directory that is gone; `null` if there are none.
    pub moved: Option<MovedHere>,
}

/// Sessions of the repository here that are attached to a directory that is gone: `annals move-project` brings them here.
#[derive(Debug, Clone, Serialize)]
pub struct MovedHere {
    /// The directory that is gone.
    pub from: String,
    /// The working tree here.
    pub to: String,
    /// Number of sessions.
    pub sessions: usize,
}

/// The project of the current directory.
#[derive(Debug, Clone, Serialize)]
pub struct HereProject {
    /// Id of the project.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Number of its sessions, not counting those that another session started.
    pub sessions: usize,
    /// The five of these that were used last.
    pub latest: Vec<LatestSession>,
}

/// What was used since a time.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct UsedSince {
    /// The time.
    pub since: Millis,
    /// Number of sessions with a message since then.
    pub sessions: usize,
    /// Cost of the answers since then.
    pub cost: f64,
}

/// Number of the latest sessions that are named.
const LATEST: usize = 5;

impl Overview {
    /// An overview of these homes and this store. `sessions` are all sessions, the last used first.
    pub fn of(
        homes: Vec<Home>,
        store: Option<Store>,
        sessions: &[SessionRecord],
        rescue: Vec<Rescue>,
    ) -> Overview {
        Overview {
            homes,
            store,
            sessions: sessions.len(),
            projects: n_projects(sessions),
            latest: latest(sessions),
            here: None,
            week: UsedSince::default(),
            failed: 0,
            open: 0,
            rescue,
            moved: None,
        }
    }
}

impl HereProject {
    /// A project with some sessions, the last used first. `None` without any.
    pub fn of(project: &ProjectId, sessions: &[SessionRecord]) -> Option<HereProject> {
        let n_roots = sessions.iter().filter(|record| record.info.is_root()).count();
        (n_roots > 0).then(|| HereProject {
            project_id: project.to_string(),
            sessions: n_roots,
            latest: latest(sessions),
        })
    }
}

/// The first sessions that no other session started.
fn latest(sessions: &[SessionRecord]) -> Vec<LatestSession> {
    let roots = sessions.iter().filter(|record| record.info.is_root());
    roots.take(LATEST).map(LatestSession::from).collect()
}

/// A home, and how much is in it.
#[derive(Debug, Clone, Serialize)]
pub struct Home {
    /// Where the home is.
    pub url: String,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of projects that have sessions.
    pub projects: usize,
    /// Number of messages; `null` if the home is damaged.
    pub messages: Option<usize>,
    /// Number of parts; `null` if the home is damaged.
    pub parts: Option<usize>,
    /// Size of all documents.
    pub bytes: u64,
    /// When a session was last used.
    pub updated: Option<Millis>,
    /// Number of sessions that could not be read.
    pub problems: usize,
    /// Remarks on content of the home that is not read. The field is left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Whether the database is so damaged that its rows cannot be counted. Then the exit code is 3.
    pub damaged: bool,
}

impl Home {
    /// A home with these sessions.
    pub fn of(url: String, found: &Found<Vec<SessionRecord>>, extent: &Extent, remarks: Vec<String>) -> Home {
        let known = |n: usize| (!extent.is_damaged).then_some(n);
        Home {
            url,
            sessions: found.value.len(),
            projects: n_projects(&found.value),
            messages: known(extent.messages),
            parts: known(extent.parts),
            bytes: extent.bytes,
            updated: found.value.iter().map(find::updated).max(),
            problems: found.quarantined.len(),
            remarks,
            damaged: extent.is_damaged,
        }
    }
}

/// The store that commands answer from.
#[derive(Debug, Clone, Serialize)]
pub struct Store {
    /// The file of the store.
    pub path: String,
    /// Size of the file and its log.
    pub bytes: u64,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of sessions that are in no home any more.
    pub gone: usize,
    /// Number of the last revision.
    pub revision: i64,
    /// When the last revision was made.
    pub revised: Option<Millis>,
    /// Whether the store was just brought up to date.
    pub synced: bool,
    /// The text index; `null` before the first search or `annals sync`.
    pub index: Option<TextIndex>,
}

/// The text index of a store.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TextIndex {
    /// Size of its files.
    pub bytes: u64,
}

/// A session that was used lately.
#[derive(Debug, Clone, Serialize)]
pub struct LatestSession {
    /// Id of the session.
    pub id: String,
    /// Title of the session.
    pub title: String,
    /// When the session was last used.
    pub updated: Millis,
}

impl From<&SessionRecord> for LatestSession {
    fn from(record: &SessionRecord) -> LatestSession {
        LatestSession {
            id: record.id.to_string(),
            title: record.info.title().to_owned(),
            updated: find::updated(record),
        }
    }
}

/// A directory with sessions that the database beside it lacks. `annals rescue` brings them over.
#[derive(Debug, Clone, Serialize)]
pub struct Rescue {
    /// Number of sessions that the database lacks.
    pub sessions: usize,
    /// The directory.
    pub from: String,
    /// The database.
    pub to: String,
}

/// The sample home that `annals demo` has unpacked.
#[derive(Debug, Clone, Serialize)]
pub struct SampleHome {
    /// The directory of the home.
    pub home: String,
}

/// Number of different projects that have these sessions.
fn n_projects(records: &[SessionRecord]) -> usize {
    records.iter().map(|record| &record.project).collect::<HashSet<_>>().len()
}
