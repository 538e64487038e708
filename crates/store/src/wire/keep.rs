//! Maintenance of a store: backups, pruning, forgetting.

use std::path::Path;

use annals_core::id::SessionId;
use serde::Serialize;

use crate::upkeep::{self, BackupReport, Forgotten, Pruned};

/// A backup of a store.
#[derive(Debug, Clone, Serialize)]
pub struct Backup {
    /// The file of the store.
    pub store: String,
    /// The file of the backup.
    pub file: String,
    /// Size of the copy.
    pub bytes: u64,
    /// Number of documents, without deleted ones.
    pub documents: usize,
    /// Number of revisions.
    pub revisions: usize,
}

impl Backup {
    /// The backup of a store that was made as `file`.
    pub fn of(store: &str, file: &Path, report: &BackupReport) -> Backup {
        let BackupReport { bytes, documents, revisions } = *report;
        let (store, file) = (store.to_owned(), file.display().to_string());
        Backup { store, file, bytes, documents, revisions }
    }
}

/// A backup that was restored in place of a store.
#[derive(Debug, Clone, Serialize)]
pub struct RestoredBackup {
    /// The backup.
    #[serde(flatten)]
    pub backup: Backup,
    /// The file that the previous store was kept as; `null` if there was no store.
    pub kept: Option<String>,
}

impl RestoredBackup {
    /// The backup `file`, restored in place of a store.
    pub fn of(store: &Path, file: &Path, restored: &upkeep::RestoredBackup) -> RestoredBackup {
        let upkeep::RestoredBackup { bytes, documents, revisions, ref kept } = *restored;
        RestoredBackup {
            backup: Backup::of(
                &store.display().to_string(),
                file,
                &BackupReport { bytes, documents, revisions },
            ),
            kept: kept.as_ref().map(|kept| kept.display().to_string()),
        }
    }
}

/// Earlier states that were pruned, or would be.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneReport<'a> {
    /// Number of states.
    pub states: usize,
    /// Size of these states.
    pub bytes: u64,
    /// The states by session, the largest first.
    pub sessions: Vec<PrunedSession<'a>>,
    /// Whether the states were pruned; `false` if they only would be.
    pub pruned: bool,
    /// Number of files and rows kept from before old operations.
    pub operation_states: usize,
    /// Size of these files and rows.
    pub operation_bytes: u64,
}

/// Earlier states of a session.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PrunedSession<'a> {
    /// Id of the session; `null` for project records.
    #[serde(rename = "sessionID")]
    pub session_id: Option<&'a str>,
    /// Number of states.
    pub states: usize,
    /// Size of these states.
    pub bytes: u64,
}

impl<'a> PruneReport<'a> {
    /// The report of what was pruned, or would be.
    pub fn of(pruned: &'a Pruned, is_done: bool) -> PruneReport<'a> {
        PruneReport {
            states: pruned.states(),
            bytes: pruned.bytes(),
            sessions: pruned.sessions.iter().map(PrunedSession::from).collect(),
            pruned: is_done,
            operation_states: pruned.operation_states,
            operation_bytes: pruned.operation_bytes,
        }
    }
}

impl<'a> From<&'a upkeep::PrunedSession> for PrunedSession<'a> {
    fn from(pruned: &'a upkeep::PrunedSession) -> PrunedSession<'a> {
        PrunedSession {
            session_id: pruned.session.as_ref().map(SessionId::as_str),
            states: pruned.states,
            bytes: pruned.bytes,
        }
    }
}

/// Sessions that were erased from a store.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForgetReport<'a> {
    /// Ids of the sessions.
    pub sessions: Vec<&'a str>,
    /// Number of documents.
    pub documents: usize,
    /// Number of their earlier states.
    pub states: usize,
    /// Number of revisions that have lost their reasons.
    pub revisions: usize,
    /// Whether the file was rewritten. If not, it may still contain remains.
    pub rewritten: bool,
    /// Whether the log of the file was emptied. If not, it may still contain remains.
    pub log_emptied: bool,
    /// Files and directories beside the store that may still hold the sessions.
    pub copies: Vec<String>,
    /// OpenCode's databases from which the sessions were deleted. Their unused pages and their log may hold remains until
    /// OpenCode overwrites them.
    pub remains: Vec<String>,
}

impl<'a> ForgetReport<'a> {
    /// What forgetting these sessions did. `remains` are databases from which the sessions were deleted.
    pub fn of(sessions: &'a [SessionId], forgotten: &Forgotten, remains: Vec<String>) -> ForgetReport<'a> {
        ForgetReport {
            sessions: sessions.iter().map(SessionId::as_str).collect(),
            documents: forgotten.n_documents,
            states: forgotten.n_states,
            revisions: forgotten.n_revisions,
            rewritten: forgotten.not_rewritten.is_none(),
            log_emptied: forgotten.log_emptied,
            copies: forgotten.copies.iter().map(|path| path.display().to_string()).collect(),
            remains,
        }
    }
}
