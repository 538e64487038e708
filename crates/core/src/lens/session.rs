//! The session document (OpenCode's `Session.Info`).

use super::{FileDiff, Json, Tokens, lens};
use crate::id::Millis;
use crate::json::Text;

lens! {
    /// A session. A new document has the fields up to `time`, in this order; later ones are appended when first set.
    pub struct Session<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Two words, not unique, since 1.1.19.
        slug "slug": Text<'a>,
        /// The version of OpenCode that made it.
        version "version": Text<'a>,
        /// The owning project. Missing in sessions from before 0.6; where it disagrees with the path, the path is right.
        project_id "projectID": Text<'a>,
        /// The directory it was opened in.
        directory "directory": Text<'a>,
        /// The session that started it, for subagents.
        parent_id "parentID": Text<'a>,
        /// Its title.
        title "title": Text<'a>,
        /// Permission rules, since 1.0.224.
        permission "permission": Vec<PermissionRule<'a>>,
        /// When it was made, changed, archived.
        time "time": SessionTime,
        /// Where it is shared.
        share "share": ShareLink<'a>,
        /// Lines and files changed.
        summary "summary": SessionSummary<'a>,
        /// A pending undo.
        revert "revert": Revert<'a>,
        /// Free-form, since 1.15.
        metadata "metadata": Json<'a>,
        /// Workspace, since 1.2.16.
        workspace_id "workspaceID": Text<'a>,
        /// Directory relative to the working tree, since 1.14.29.
        path "path": Text<'a>,
        /// Agent of the last prompt, since 1.14.34.
        agent "agent": Text<'a>,
        /// Model of the last prompt, since 1.14.34.
        model "model": SessionModel<'a>,
        /// US dollars, since 1.14.49.
        cost "cost": f64,
        /// Tokens, since 1.14.49.
        tokens "tokens": Tokens,
    }
}

lens! {
    /// The model of a session's last prompt.
    pub struct SessionModel<'a> {
        /// Model.
        id "id": Text<'a>,
        /// Provider.
        provider_id "providerID": Text<'a>,
        /// Variant.
        variant "variant": Text<'a>,
    }
}

lens! {
    /// Times of a session.
    pub struct SessionTime {
        /// Made.
        created "created": Millis,
        /// Last prompted, summarised or reverted.
        updated "updated": Millis,
        /// Being compacted, in files of 0.7.2 to 1.0.68.
        compacting "compacting": Millis,
        /// Archived, since 1.0.144.
        archived "archived": Millis,
    }
}

lens! {
    /// A rule of what the session's agent may do.
    pub struct PermissionRule<'a> {
        /// Which permission.
        permission "permission": Text<'a>,
        /// For which arguments.
        pattern "pattern": Text<'a>,
        /// `allow`, `deny` or `ask`.
        action "action": Text<'a>,
    }
}

lens! {
    /// Where a session is shared.
    pub struct ShareLink<'a> {
        /// Public address; auto-share also stores `id` and `secret` here.
        url "url": Text<'a>,
        /// See [`super::ShareRecord`].
        id "id": Text<'a>,
        /// See [`super::ShareRecord`].
        secret "secret": Text<'a>,
    }
}

lens! {
    /// What a session changed.
    pub struct SessionSummary<'a> {
        /// Lines added; `null` was written for binary files before 1.1.4.
        additions "additions": f64,
        /// Lines deleted.
        deletions "deletions": f64,
        /// Files touched, since 1.0.27.
        files "files": f64,
        /// The differences themselves, before 1.0.22.
        diffs "diffs": Vec<FileDiff<'a>>,
    }
}

lens! {
    /// A pending undo: the conversation from here on is hidden.
    pub struct Revert<'a> {
        /// First hidden message.
        message_id "messageID": Text<'a>,
        /// First hidden part of it.
        part_id "partID": Text<'a>,
        /// State of the files before the undo.
        snapshot "snapshot": Text<'a>,
        /// What the undo changed.
        diff "diff": Text<'a>,
    }
}
