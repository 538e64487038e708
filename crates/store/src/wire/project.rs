//! Projects, and how a session is continued in its agent.

use annals_core::id::Millis;
use serde::Serialize;

/// A project with the number of its sessions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProjectSummary {
    /// Id of the project; `global` for everything outside of repositories.
    pub id: String,
    /// Name that the user gave it.
    pub name: Option<String>,
    /// Its working tree; `null` if there is no record of the project.
    pub worktree: Option<String>,
    /// Its version control: `git`.
    pub vcs: Option<String>,
    /// Other working trees of the same repository.
    pub sandboxes: Vec<String>,
    /// When its record was made.
    pub created: Option<Millis>,
    /// When OpenCode's `/init` ran in it.
    pub initialized: Option<Millis>,
    /// When one of its sessions was last used.
    pub updated: Option<Millis>,
    /// Number of sessions, not counting those that another session started.
    pub sessions: usize,
    /// Number of sessions that another session started.
    pub subagents: usize,
    /// Cost of all answers.
    pub cost: f64,
}

/// The command that continues a session.
#[derive(Debug, Clone, Serialize)]
pub struct ResumeCommand<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// The directory to run it in.
    pub directory: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}
