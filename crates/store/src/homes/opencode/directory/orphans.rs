//! Parts whose message no longer exists.

use std::collections::HashSet;

use annals_core::id::{MessageId, SessionId};

use super::OpencodeDirectory;
use super::files::DocumentShape;
use super::read::{documents, entries};
use crate::home::{Quarantined, UnreadableReason};

/// The parts of a message that no longer exists.
#[derive(Debug)]
pub(super) struct OrphanParts {
    pub(super) message: MessageId,
    /// The session its parts name.
    pub(super) session: Option<SessionId>,
    pub(super) place: String,
    pub(super) n_parts: usize,
}

/// All parts without a message.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    pub(super) found: Vec<OrphanParts>,
    /// Directories of messages or parts that could not be listed.
    pub(super) unlisted: Vec<Quarantined>,
}

impl OpencodeDirectory {
    /// Directories of parts whose message is gone: OpenCode's undo leaves them.
    pub(super) fn orphan_parts(&self) -> Orphans {
        let mut orphans = Orphans::default();
        let Some(tree) = self.flat_tree() else { return orphans };
        let mut messages = HashSet::new();
        // A session whose messages cannot be listed may have any message, so none of its parts is an orphan for sure.
        let mut unlisted: HashSet<SessionId> = HashSet::new();
        let sessions = match entries(&tree, "message") {
            Ok(sessions) => sessions,
            Err(problem) => {
                orphans.unlisted.push(problem);
                return orphans;
            }
        };
        for entry in sessions {
            let session = SessionId::parse_opencode(&entry.name).ok();
            match documents(&tree, &format!("message/{}", entry.name)) {
                Ok(listed) => messages.extend(listed.into_iter().map(|(name, _)| name)),
                Err(problem) => {
                    orphans.unlisted.push(problem.of_session(session.as_ref()));
                    unlisted.extend(session);
                }
            }
        }
        let listed = entries(&tree, "part").unwrap_or_else(|problem| {
            orphans.unlisted.push(problem);
            Vec::new()
        });
        for entry in listed {
            let Ok(message) = MessageId::parse_opencode(&entry.name) else { continue };
            if messages.contains(&entry.name) {
                continue;
            }
            let path = format!("part/{message}");
            let parts = match documents(&tree, &path) {
                Ok(parts) => parts,
                Err(problem) => {
                    orphans.unlisted.push(problem);
                    continue;
                }
            };
            let named = |document: &annals_core::Document| {
                SessionId::parse_opencode(&document.root().get("sessionID")?.as_text()?.to_str()).ok()
            };
            let mut session = None;
            for (_, path) in &parts {
                match tree.view.read(path, DocumentShape::Object) {
                    Ok(document) => session = document.as_ref().and_then(named),
                    Err(reason @ UnreadableReason::Refused(_)) => {
                        orphans.unlisted.push(Quarantined { place: tree.place(path), reason, session: None });
                    }
                    Err(_) => {}
                }
                if session.is_some() {
                    break;
                }
            }
            let may_have_message = match &session {
                Some(session) => unlisted.contains(session),
                None => !unlisted.is_empty(),
            };
            if !may_have_message {
                let place = tree.place(&path);
                orphans.found.push(OrphanParts { message, session, place, n_parts: parts.len() });
            }
        }
        orphans
    }
}
