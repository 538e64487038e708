//! Deletes sessions with everything that belongs to them: `rm`.

use annals_core::Transaction;
use annals_core::id::SessionId;

use super::plan::{Intent, OperationPlan, Sessions};
use super::running::{ChangedExtent, Running};
use super::target_homes::{TargetHome, TargetHomes};
use super::{OperationError, OperationRequest, Report};
use crate::home::{Read, SessionRecord, Write};
use crate::remove::{self, Removal};
use crate::workspace::Workspace;

/// Upper bound on the rounds that delete what an agent has added meanwhile.
const MAX_ROUNDS: usize = 3;

/// Plan of a deletion: what it would delete.
#[derive(Debug, Default)]
pub struct RemovalPlan {
    /// The sessions, and all sessions that they started.
    pub sessions: Vec<SessionRecord>,
    /// The homes, each with what would be deleted there.
    pub homes: Vec<(String, Removal)>,
    /// What would be deleted from the store, because no home has it.
    pub store: Option<Removal>,
    /// Own homes that cannot be reached.
    pub vanished: Vec<String>,
    targets: TargetHomes,
}

impl RemovalPlan {
    /// The homes that are changed.
    pub(super) fn targets(&self) -> &[TargetHome] {
        &self.targets.homes
    }
}

/// Plans the deletion of sessions and of the sessions that they started, as `read` has them. Changes nothing.
pub fn plan_removal(
    workspace: &Workspace<'_>,
    read: &dyn Read,
    sessions: &[SessionRecord],
) -> Result<RemovalPlan, OperationError> {
    let store = workspace.store();
    let mut all: Vec<SessionRecord> = Vec::new();
    for session in sessions {
        let family = remove::plan(read, session.clone())?.sessions;
        all.extend(
            family.into_iter().filter(|record| !sessions_contain(&all, &record.id)).collect::<Vec<_>>(),
        );
    }
    let targets = TargetHomes::of(workspace, &all)?;
    let mut homes = Vec::new();
    let mut missing = all.clone();
    for target in &targets.homes {
        let mut removal = Removal { sessions: Vec::new(), keys: Vec::new() };
        for record in &all {
            let Some(held) = target.home.session(&record.id)? else { continue };
            removal.keys.extend(target.home.session_keys(&record.id)?);
            removal.sessions.push(held);
            missing.retain(|other| other.id != record.id);
        }
        homes.push((target.url.clone(), removal));
    }
    // The store has the only copy of a session that no home has: it is deleted only if the user named that session.
    missing.retain(|record| sessions_contain(sessions, &record.id));
    all.retain(|record| {
        sessions_contain(&missing, &record.id)
            || homes
                .iter()
                .any(|(_, removal): &(String, Removal)| sessions_contain(&removal.sessions, &record.id))
    });
    let store = match missing.is_empty() {
        true => None,
        false => {
            let mut keys = Vec::new();
            for record in &missing {
                keys.extend(store.session_keys(&record.id)?);
            }
            Some(Removal { sessions: missing, keys }).filter(|removal| !removal.keys.is_empty())
        }
    };
    Ok(RemovalPlan { sessions: all, homes, store, vanished: targets.vanished.clone(), targets })
}

fn sessions_contain(sessions: &[SessionRecord], id: &SessionId) -> bool {
    sessions.iter().any(|record| record.id == *id)
}

/// Carries out a deletion. The store keeps what homes held, marked as gone.
pub fn remove(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    plan: RemovalPlan,
) -> Result<Report, OperationError> {
    let ids =
        |sessions: &[SessionRecord]| sessions.iter().map(|record| record.id.clone()).collect::<Vec<_>>();
    let then =
        plan.store.as_ref().map(|removal| Intent::Remove { sessions: Sessions(ids(&removal.sessions)) });
    let commits = plan.homes.iter().filter(|(_, removal)| !removal.keys.is_empty()).count();
    let planned = OperationPlan { commits: Some(commits), then };
    let mut running = Running::begin(workspace, request, planned)?;
    running.report().vanished = plan.vanished;
    let words = running.words().to_owned();
    let mut targets = plan.targets;
    for target in &mut targets.homes {
        running.note_commits(&mut *target.home, &target.url);
    }
    running.change_homes(|running| {
        let homes = targets.homes.iter().zip(&plan.homes);
        homes.into_iter().try_for_each(|(target, (_, removal))| {
            remove_from(running, target.home.as_write(), &target.url, removal, &words)
        })
    })?;
    let mut report = running.done(&ids(&plan.sessions), ChangedExtent::Everything)?;
    for session in &plan.sessions {
        let holders = workspace.store().holders(&session.id)?;
        report
            .still_in
            .extend(holders.into_iter().filter(|home| !report.still_in.contains(home)).collect::<Vec<_>>());
    }
    Ok(report)
}

/// Deletes sessions from a home in rounds, since an agent that is still running goes on writing. Each round deletes what appeared during
/// the last one; if the agent never pauses, the rest stays for `check` to find.
fn remove_from(
    running: &mut Running<'_>,
    home: &dyn Write,
    url: &str,
    removal: &Removal,
    words: &str,
) -> Result<(), OperationError> {
    let mut keys = removal.keys.clone();
    for _ in 0..MAX_ROUNDS {
        if keys.is_empty() {
            break;
        }
        let mut transaction = Transaction::new(words);
        keys.into_iter().for_each(|key| transaction.delete_any(key));
        running.commit(home, url, transaction)?;
        keys = Vec::new();
        for session in &removal.sessions {
            keys.extend(home.session_keys(&session.id)?);
        }
    }
    Ok(())
}
