//! Documents beside a session: todos, file differences, shares.

use super::lens;
use crate::json::Text;

lens! {
    /// One entry of a todo list.
    pub struct Todo<'a> {
        /// What to do.
        content "content": Text<'a>,
        /// `pending`, `in_progress`, `completed` or `cancelled`, by convention.
        status "status": Text<'a>,
        /// `high`, `medium` or `low`, by convention.
        priority "priority": Text<'a>,
        /// Its id in the list.
        id "id": Text<'a>,
    }
}

lens! {
    /// How one file changed.
    pub struct FileDiff<'a> {
        /// Path relative to the working tree. Before 1.1.37 git may have quoted it.
        file "file": Text<'a>,
        /// Whole text before; empty for binary files.
        before "before": Text<'a>,
        /// Whole text after; empty for binary files.
        after "after": Text<'a>,
        /// A patch instead of both texts, since 1.4.0.
        patch "patch": Text<'a>,
        /// Lines added.
        additions "additions": f64,
        /// Lines deleted.
        deletions "deletions": f64,
        /// `added`, `deleted` or `modified`, since 1.1.49.
        status "status": Text<'a>,
    }
}

lens! {
    /// The share record of a session. The legacy form has no id.
    pub struct ShareRecord<'a> {
        /// Name at the share service.
        id "id": Text<'a>,
        /// The secret that allows changing the share.
        secret "secret": Text<'a>,
        /// Public address.
        url "url": Text<'a>,
    }
}
