//! Operations that bring sessions into one home: `import`, `copy`.

use std::path::PathBuf;

use annals_core::id::SessionId;

use super::plan::OperationPlan;
use super::running::Running;
use super::{OperationError, OperationRequest, Report};
use crate::home::Write;
use crate::home_url::HomeUrl;
use crate::open;
use crate::workspace::Workspace;

/// Where sessions are written to.
#[derive(Debug, Clone, Copy)]
pub enum WriteTarget<'t> {
    /// A home of OpenCode's, by its name.
    Home(&'t HomeUrl),
    /// The workspace's store.
    Store,
}

/// Result of the work that wrote sessions.
#[derive(Debug)]
pub struct Written<T> {
    /// The caller's own result.
    pub value: T,
    /// The sessions that were written.
    pub sessions: Vec<SessionId>,
    /// Files that were created beside the home.
    pub files: Vec<PathBuf>,
}

/// Runs `work`, which writes sessions to a home or to the store, as one operation. Every transaction that `work` commits to the target is
/// part of the operation, even if `work` fails later.
pub fn write<T>(
    workspace: &Workspace<'_>,
    request: OperationRequest,
    target: WriteTarget<'_>,
    work: impl FnOnce(&dyn Write) -> Written<T>,
) -> Result<(T, Report), OperationError> {
    let mut running = Running::begin(workspace, request, OperationPlan::default())?;
    let written = match target {
        WriteTarget::Home(url) => {
            let mut home = open::open_undoable(url)?;
            let name = open::canonical(open::path_of(url)?).display().to_string();
            running.note_commits(&mut *home, &name);
            let written = work(home.as_write());
            if running.number().is_some() {
                running.reached(&name);
            }
            written
        }
        WriteTarget::Store => {
            let operation = running.begin_now()?;
            running.report().store_only = true;
            work(&*workspace.store().for_operation(operation))
        }
    };
    running.note_files(&written.files)?;
    let report = running.finish(&written.sessions)?;
    Ok((written.value, report))
}
