//! What a purge has erased, and what is left.

use annals_core::id::SessionId;
use serde::Serialize;

use crate::home::space::ClearedRemains;
use crate::ops::{PurgePlan, Purged};
use crate::remains::{Remains, SearchedFiles};

/// Sessions that were erased from everywhere.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgeReport<'a> {
    /// Ids of the sessions.
    pub sessions: Vec<&'a str>,
    /// The homes they were deleted from.
    pub homes: Vec<&'a str>,
    /// Number of documents that the store forgot.
    pub documents: usize,
    /// Number of their earlier states.
    pub states: usize,
    /// The homes whose files were cleared of remains.
    pub cleared: Vec<ClearedHome<'a>>,
    /// Files that were deleted: long tool output.
    pub files: Vec<String>,
    /// Logs and histories from which lines were erased.
    pub lines: Vec<ErasedLines>,
    /// Number of objects that were erased from snapshots of working trees.
    pub snapshot_objects: usize,
    /// Backups of the store that were erased from.
    pub backups: Vec<String>,
    /// Homes that still have the sessions because they are not the user's own, or cannot be reached.
    pub still_in: Vec<&'a str>,
    /// What could not be erased.
    pub left: Vec<NotErased<'a>>,
    /// Number of files that were searched for remains afterwards.
    pub searched: usize,
    /// Files in which words of the sessions were found, and of nothing else.
    pub remains: Vec<FoundRemains>,
    /// Whether it was done; `false` if it only would be.
    pub done: bool,
    /// Whether nothing is left.
    pub complete: bool,
}

/// A home whose files were cleared of remains.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClearedHome<'a> {
    /// The home.
    pub home: &'a str,
    /// Size of its files before; 0 if deleted files leave nothing behind.
    pub bytes_before: u64,
    /// Size of its files now.
    pub bytes_after: u64,
    /// Ids of processes that have the home open. Because of them it was not rewritten, and remains may be left.
    pub users: &'a [u32],
    /// Whether a reader kept the write-ahead log from being emptied.
    pub log_left: bool,
}

/// A log or history from which lines were erased.
#[derive(Debug, Clone, Serialize)]
pub struct ErasedLines {
    /// The file.
    pub file: String,
    /// Number of lines.
    pub lines: usize,
}

/// Something that could not be erased.
#[derive(Debug, Clone, Serialize)]
pub struct NotErased<'a> {
    /// Where.
    pub place: &'a str,
    /// Why not.
    pub why: &'a str,
}

/// A file in which words of erased sessions were found.
#[derive(Debug, Clone, Serialize)]
pub struct FoundRemains {
    /// The file.
    pub file: String,
    /// Number of different words.
    pub words: usize,
}

impl<'a> PurgeReport<'a> {
    /// The report of a purge, and of the search for remains after it.
    pub fn of(sessions: &'a [SessionId], purged: &'a Purged, searched: &SearchedFiles) -> PurgeReport<'a> {
        let shown = |path: &std::path::Path| path.display().to_string();
        let forgotten = purged.forgotten.as_ref();
        PurgeReport {
            sessions: sessions.iter().map(SessionId::as_str).collect(),
            homes: purged.removal.places.iter().map(String::as_str).collect(),
            documents: forgotten.map_or(0, |forgotten| forgotten.n_documents),
            states: forgotten.map_or(0, |forgotten| forgotten.n_states),
            cleared: purged.cleared.iter().map(|(home, cleared)| ClearedHome::of(home, cleared)).collect(),
            files: purged.files.iter().map(|file| shown(file)).collect(),
            lines: purged
                .lines
                .iter()
                .map(|(file, lines)| ErasedLines { file: shown(file), lines: *lines })
                .collect(),
            snapshot_objects: purged.snapshot_objects,
            backups: purged.backups.iter().map(|file| shown(file)).collect(),
            still_in: purged.removal.still_in.iter().map(String::as_str).collect(),
            left: purged.left.iter().map(|(place, why)| NotErased { place, why }).collect(),
            searched: searched.files,
            remains: searched.remains.iter().map(FoundRemains::from).collect(),
            done: true,
            complete: purged.is_complete() && searched.remains.is_empty(),
        }
    }

    /// What a purge would do, as far as that is known before.
    pub fn planned(plan: &'a PurgePlan) -> PurgeReport<'a> {
        PurgeReport {
            sessions: plan.sessions.iter().map(SessionId::as_str).collect(),
            homes: plan.removal.homes.iter().map(|(home, _)| home.as_str()).collect(),
            documents: 0,
            states: 0,
            cleared: Vec::new(),
            files: plan.tool_outputs.iter().map(|file| file.display().to_string()).collect(),
            lines: Vec::new(),
            snapshot_objects: 0,
            backups: Vec::new(),
            still_in: Vec::new(),
            left: Vec::new(),
            searched: 0,
            remains: Vec::new(),
            done: false,
            complete: false,
        }
    }
}

impl<'a> ClearedHome<'a> {
    fn of(home: &'a str, cleared: &'a ClearedRemains) -> ClearedHome<'a> {
        ClearedHome {
            home,
            bytes_before: cleared.bytes_before,
            bytes_after: cleared.bytes_after,
            users: &cleared.users,
            log_left: cleared.is_log_left,
        }
    }
}

impl From<&Remains> for FoundRemains {
    fn from(remains: &Remains) -> FoundRemains {
        FoundRemains { file: remains.path.display().to_string(), words: remains.words.len() }
    }
}
