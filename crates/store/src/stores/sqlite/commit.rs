//! Committing: one transaction of SQLite is one revision.

use std::collections::HashMap;

use annals_core::id::SessionId;
use annals_core::{Change, Document, Expected, Key, Transaction};
use rusqlite::Connection;

use super::facts::Prepared;
use super::held::{self, LocalChange, Standing};
use super::numbers::SessionRow;
use super::revise::{Put, Revising};
use super::rows::session_row;
use super::state::State;
use super::{SqliteStore, operations, origin};
use crate::home::{CommitError, ConflictKind, Native, Receipt, Write};
use crate::project::IdentityRule;

impl Write for SqliteStore {
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError> {
        self.commit_in(transaction, self.operation)
    }

    fn native(&self, _key: &Key, document: Document) -> Native {
        Native::Held { document, lost: Vec::new() }
    }

    fn identity_rule(&self) -> IdentityRule {
        IdentityRule::Remote
    }
}

impl SqliteStore {
    /// Commits a transaction as part of an operation.
    pub(super) fn commit_in(
        &self,
        transaction: Transaction,
        operation: Option<i64>,
    ) -> Result<Receipt, CommitError> {
        let (reason, changes) = transaction.into_parts();
        // Compressing and hashing come first, while no writer waits for this one.
        let prepared: Vec<Option<Prepared>> = changes
            .iter()
            .map(|change| {
                let prepared = Prepared::new(&change.key, change.document.as_ref()?);
                Some(Prepared { position: change.position, provenance: change.provenance, ..prepared })
            })
            .collect();
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut receipt = Receipt::default();
        let revising = Revising::new(&writing, self.now(), &reason, None).map_err(failed)?;
        let mut revising = revising.of_operation(operation);
        let going = Going::of(&writing, &changes).map_err(failed)?;
        for (change, prepared) in changes.iter().zip(&prepared) {
            let known = revising.state(&change.key).map_err(failed)?;
            self.expect(known.as_ref(), &change.key, &change.expected)?;
            if going.takes(&change.key) {
                receipt.deleted += usize::from(known.is_some_and(|known| known.is_present));
                continue;
            }
            let local = Local::begin(&writing, known.as_ref(), operation).map_err(failed)?;
            match (&change.document, prepared) {
                (Some(document), Some(prepared)) => {
                    let put = revising.put_over(known, &change.key, prepared, document).map_err(failed)?;
                    receipt.written += usize::from(put != Put::Unchanged);
                }
                _ => receipt.deleted += usize::from(revising.delete(&change.key).map_err(failed)?),
            }
            local.end(&mut revising, &change.key, operation).map_err(failed)?;
        }
        receipt.revision = revising.finish().map_err(failed)?;
        for session in going.sessions.values() {
            held::settle(&writing, self.now(), *session, operation).map_err(failed)?;
        }
        self.finish(writing)?;
        Ok(receipt)
    }

    /// Checks that a document is as a transaction expects it.
    fn expect(&self, known: Option<&State>, key: &Key, expected: &Expected) -> Result<(), CommitError> {
        let known = known.filter(|known| known.is_present);
        let what = match (expected, known) {
            (Expected::Absent, Some(known)) if !known.is_elsewhere(key) => ConflictKind::Exists,
            (Expected::Unchanged(_), None) => ConflictKind::Gone,
            (Expected::Unchanged(hash), Some(known)) if known.hash != Some(hash.into()) => {
                ConflictKind::Changed
            }
            _ => return Ok(()),
        };
        Err(CommitError::Conflict { key: Box::new(key.clone()), place: self.shown(), what })
    }
}

/// Sessions that homes have or had, and that are deleted as a whole. Their documents are hidden with the session's own, and come back with it.
struct Going {
    sessions: HashMap<SessionId, SessionRow>,
}

impl Going {
    fn of(connection: &Connection, changes: &[Change]) -> rusqlite::Result<Going> {
        let mut sessions = HashMap::new();
        for change in changes {
            if let (Key::Session(_, id), None) = (&change.key, &change.document)
                && let Some(n) = session_row(connection, id.as_str())?
                && !origin::looks(connection, n)?.is_empty()
            {
                sessions.insert(id.clone(), n);
            }
        }
        Ok(Going { sessions })
    }

    fn takes(&self, key: &Key) -> bool {
        !matches!(key, Key::Session(..))
            && key.session().is_some_and(|session| self.sessions.contains_key(session))
    }
}

/// A change of one document, made in the store and in no home.
struct Local {
    /// The document before the change, if homes have or had it.
    followed: Option<State>,
    /// The change that was made to the document before, if it is needed.
    before: Option<LocalChange>,
}

impl Local {
    fn begin(
        connection: &Connection,
        known: Option<&State>,
        operation: Option<i64>,
    ) -> rusqlite::Result<Local> {
        let (mut followed, mut before) = (None, None);
        if let Some(known) = known.filter(|known| known.since != 0) {
            if held::is_followed(connection, known)? {
                followed = Some(known.clone());
            }
            if operation.is_some() {
                before = LocalChange::of_document(connection, known)?;
            }
        }
        Ok(Local { followed, before })
    }

    fn end(self, revising: &mut Revising<'_>, key: &Key, operation: Option<i64>) -> rusqlite::Result<()> {
        let connection = revising.connection();
        if let Some(before) = &self.followed {
            let session = revising.session_of(key)?;
            let standing = Standing::of(connection, session)?;
            held::note_change(revising, &standing, key, before)?;
        }
        if let Some(operation) = operation
            && let Some(document) = revising.state(key)?
        {
            let after = LocalChange::of_document(connection, &document)?;
            operations::note_change(connection, operation, document.n, self.before.as_ref(), after.as_ref())?;
        }
        Ok(())
    }
}
