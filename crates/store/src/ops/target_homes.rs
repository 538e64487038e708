//! The homes that an operation on sessions changes.

use annals_core::id::SessionId;

use super::OperationError;
use crate::home::pieces::Undo;
use crate::home::{ReadError, SessionRecord, UnreadableReason};
use crate::open;
use crate::workspace::Workspace;

/// A home that an operation changes.
pub struct TargetHome {
    /// Its canonical name.
    pub url: String,
    /// The home.
    pub home: Box<dyn Undo>,
}

impl std::fmt::Debug for TargetHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TargetHome").field(&self.url).finish()
    }
}

/// The homes that an operation on some sessions changes.
#[derive(Debug, Default)]
pub struct TargetHomes {
    /// Own homes that hold any of the sessions.
    pub homes: Vec<TargetHome>,
    /// Own homes that held a session when they were last seen, and cannot be reached.
    pub vanished: Vec<String>,
}

impl TargetHomes {
    /// Finds the user's own homes that hold any of these sessions.
    pub fn of(workspace: &Workspace<'_>, sessions: &[SessionRecord]) -> Result<TargetHomes, OperationError> {
        let mut targets = TargetHomes::default();
        // The homes that had each session at the last look.
        let mut known: Vec<(&SessionId, Vec<String>)> = Vec::new();
        for record in sessions {
            known.push((&record.id, workspace.store().holders(&record.id)?));
        }
        let is_known = |url: &str| known.iter().any(|(_, holders)| holders.iter().any(|held| held == url));
        let mut opened = Vec::new();
        for path in workspace.own() {
            let url = path.display().to_string();
            let home = match open::open_undoable(path) {
                Ok(home) => home,
                Err(error) if is_known(&url) && !error.is_absent() => return Err(error.into()),
                Err(_) => continue,
            };
            opened.push(url.clone());
            let mut holds = false;
            for (id, holders) in &known {
                match home.session(id)? {
                    Some(_) => holds = true,
                    None if holders.contains(&url) => expect_listed(&url, id)?,
                    None => {}
                }
            }
            if holds {
                targets.homes.push(TargetHome { url, home });
            }
        }
        // A home that was moved or deleted is not among the paths above; the store still knows it.
        let is_absent = |url: &str| open::open_undoable(url).is_err_and(|error| error.is_absent());
        let homes = workspace.store().followed_homes()?.into_iter();
        let own = homes.filter(|home| home.is_own).map(|home| home.url);
        targets.vanished =
            own.filter(|url| is_known(url) && !opened.contains(url) && is_absent(url)).collect();
        Ok(targets)
    }

    /// The homes among these that hold a session.
    pub fn holding(&self, session: &SessionId) -> Result<Vec<&TargetHome>, OperationError> {
        let mut holding = Vec::new();
        for target in &self.homes {
            if target.home.session(session)?.is_some() {
                holding.push(target);
            }
        }
        Ok(holding)
    }
}

/// Checks that a session that the home had at the last look is really gone, and not just in a place that cannot be listed.
fn expect_listed(url: &str, session: &SessionId) -> Result<(), OperationError> {
    let survey = open::open_source(url)?.survey()?;
    match survey
        .quarantined
        .into_iter()
        .find(|problem| !matches!(problem.reason, UnreadableReason::BadName(_)))
    {
        Some(problem) => Err(ReadError::Unreadable(problem.of(session)).into()),
        None => Ok(()),
    }
}
