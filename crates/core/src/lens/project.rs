//! The project record.

use super::lens;
use crate::id::Millis;
use crate::json::Text;

lens! {
    /// A project: a repository, or `global`.
    pub struct Project<'a> {
        /// Root commit, or `global`.
        id "id": Text<'a>,
        /// The main working tree; `/` outside git.
        worktree "worktree": Text<'a>,
        /// `git`, if there is a repository.
        vcs "vcs": Text<'a>,
        /// Other working trees of the same repository, since 1.1.1.
        sandboxes "sandboxes": Vec<Text<'a>>,
        /// When it was first and last opened.
        time "time": ProjectTime,
        /// Name given by the user, since 1.0.141.
        name "name": Text<'a>,
        /// Icon, since 1.0.141.
        icon "icon": ProjectIcon<'a>,
        /// Scripts, since 1.1.32.
        commands "commands": ProjectCommands<'a>,
        /// The `.git` directory, in records of 1.0.116 to 1.0.140.
        vcs_dir "vcsDir": Text<'a>,
    }
}

lens! {
    /// Times of a project.
    pub struct ProjectTime {
        /// First opened.
        created "created": Millis,
        /// Last opened.
        updated "updated": Millis,
        /// When `/init` ran.
        initialized "initialized": Millis,
    }
}

lens! {
    /// Icon of a project.
    pub struct ProjectIcon<'a> {
        /// Found by OpenCode; may be a `data:` URI.
        url "url": Text<'a>,
        /// Chosen by the user, since 1.1.26.
        overridden "override": Text<'a>,
        /// Colour name.
        color "color": Text<'a>,
    }
}

lens! {
    /// Scripts of a project.
    pub struct ProjectCommands<'a> {
        /// Run in new workspaces.
        start "start": Text<'a>,
    }
}
