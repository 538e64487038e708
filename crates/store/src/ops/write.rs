//! Operations that bring sessions into one home: `import`, `copy`.

use annals_core::id::SessionId;

use super::running::Running;
use super::{OperationError, Report, Request};
use crate::home::Write;
use crate::home::annals::Annals;
use crate::open;
use crate::workspace::Workspace;

/// Where sessions are brought.
#[derive(Debug, Clone, Copy)]
pub enum Target<'t> {
    /// A home of OpenCode's, by its name.
    Home(&'t str),
    /// The workspace's store.
    Store,
}

/// Has something write sessions to a home or to the store, as one operation. `work` gets the target, and says which sessions it was
/// about; every transaction that it commits is part of the operation, also if it fails later.
pub fn write<T>(
    workspace: &Workspace<'_>,
    request: Request,
    target: Target<'_>,
    work: impl FnOnce(&dyn Write) -> (T, Vec<SessionId>),
) -> Result<(T, Report), OperationError> {
    let mut running = Running::begin(workspace, request)?;
    let (done, sessions) = match target {
        Target::Home(url) => {
            let mut home = open::open_undoable(url)?;
            let name = open::canonical(&open::path_of(url)?).display().to_string();
            running.note_commits(&mut *home, &name);
            let done = work(home.as_write());
            if running.number().is_some() {
                running.reached(&name);
            }
            done
        }
        Target::Store => {
            let operation = running.begin_now()?;
            let store = Annals::open(workspace.store().path()).map_err(open::OpenError::from)?;
            let store = store.with_clock(workspace.store().clock()).for_operation(operation);
            running.report().store_only = true;
            work(&store)
        }
    };
    let report = running.finish(&sessions)?;
    Ok((done, report))
}
