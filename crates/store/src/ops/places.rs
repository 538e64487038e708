//! Where an operation on a session goes.

use std::path::Path;

use annals_core::id::SessionId;

use super::OperationError;
use crate::home::SessionRecord;
use crate::home::pieces::Undo;
use crate::open;
use crate::workspace::Workspace;

/// A home that an operation goes to.
pub struct Place {
    /// Its canonical name.
    pub url: String,
    /// The home.
    pub home: Box<dyn Undo>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.url).finish()
    }
}

/// The homes that an operation on some sessions goes to.
#[derive(Debug, Default)]
pub struct Places {
    /// Own homes that hold any of the sessions.
    pub homes: Vec<Place>,
    /// Own homes that held a session when they were last seen, and cannot be reached.
    pub vanished: Vec<String>,
}

impl Places {
    /// Finds the user's own homes that hold any of these sessions.
    pub fn of(workspace: &Workspace<'_>, sessions: &[SessionRecord]) -> Result<Places, OperationError> {
        let mut places = Places::default();
        for path in workspace.own() {
            let url = path.display().to_string();
            match open::open_undoable(&url) {
                Ok(home) => {
                    let holds =
                        |record: &SessionRecord| Ok::<_, OperationError>(home.session(&record.id)?.is_some());
                    if sessions.iter().map(holds).collect::<Result<Vec<_>, _>>()?.contains(&true) {
                        places.homes.push(Place { url, home });
                    }
                }
                Err(error) if path.exists() && is_origin(&url, sessions) => return Err(error.into()),
                Err(_) => {}
            }
        }
        // A home that is not where it was is not found by looking where homes are.
        for url in workspace.store().own_homes()? {
            let is_reached = places.homes.iter().any(|place| place.url == url);
            if !is_reached && !Path::new(&url).exists() && is_origin(&url, sessions) {
                places.vanished.push(url);
            }
        }
        Ok(places)
    }

    /// The homes among these that hold a session.
    pub fn holding(&self, session: &SessionId) -> Result<Vec<&Place>, OperationError> {
        let mut holding = Vec::new();
        for place in &self.homes {
            if place.home.session(session)?.is_some() {
                holding.push(place);
            }
        }
        Ok(holding)
    }
}

fn is_origin(url: &str, sessions: &[SessionRecord]) -> bool {
    sessions.iter().any(|record| record.origins.iter().any(|origin| origin == url))
}
