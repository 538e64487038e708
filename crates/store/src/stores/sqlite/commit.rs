//! Committing: one transaction of SQLite is one revision.

use std::collections::HashMap;

use annals_core::id::SessionId;
use annals_core::{Action, Append, AppendError, Change, Document, Expected, Key, Transaction};
use rusqlite::Connection;

use super::codec::Packed;
use super::content::latest;
use super::facts::Prepared;
use super::held::{self, LocalChange, Standing};
use super::numbers::SessionRow;
use super::revise::{Put, Revising};
use super::rows::{number_of, session_row};
use super::state::State;
use super::{SqliteStore, operations, origin, sharing};
use crate::home::{CommitError, ConflictKind, Native, Receipt, Write};
use crate::lease::{LeaseDirectory, Leases};
use crate::project::IdentityRule;
use crate::sqlite;

/// The end of the name of the directory with leases, beside the store.
const LEASES: &str = "-leases";

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

    fn leases(&self) -> Option<Box<dyn Leases>> {
        Some(Box::new(LeaseDirectory::at(sqlite::beside(self.path(), LEASES))))
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
                let prepared = Prepared::new(&change.key, change.document()?);
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
            if let Action::Append(append) = &change.action
                && operation.is_none()
                && let Some(appended) = revising.append(&change.key, append).map_err(failed)?
            {
                appended.map_err(|error| self.append_error(&change.key, &error))?;
                receipt.written += 1;
                continue;
            }
            let known = revising.state(&change.key).map_err(failed)?;
            self.expect(known.as_ref(), &change.key, &change.expected)?;
            if going.takes(&change.key) {
                receipt.deleted += usize::from(known.is_some_and(|known| known.is_present));
                continue;
            }
            let local = Local::begin(&writing, known.as_ref(), operation).map_err(failed)?;
            match (&change.action, prepared) {
                (Action::Put(document), Some(prepared)) => {
                    let shared = self.shared(&mut revising, change, document).map_err(failed)?;
                    let shared = shared.map(|packed| Prepared { packed, ..prepared.clone() });
                    let prepared = shared.as_ref().unwrap_or(prepared);
                    let put = revising.put_over(known, &change.key, prepared, document).map_err(failed)?;
                    receipt.written += usize::from(put != Put::Unchanged);
                }
                (Action::Append(append), _) => {
                    let document = self.appended(&writing, known.as_ref(), &change.key, append)?;
                    let prepared = Prepared {
                        provenance: change.provenance,
                        position: change.position,
                        ..Prepared::new(&change.key, &document)
                    };
                    let put = revising.put_over(known, &change.key, &prepared, &document).map_err(failed)?;
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

    /// A copy of another document, in the form in which the two share their text.
    fn shared(
        &self,
        revising: &mut Revising<'_>,
        change: &Change,
        document: &Document,
    ) -> rusqlite::Result<Option<Packed>> {
        let Some(original) = &change.copy_of else { return Ok(None) };
        let original = revising.state(original)?.filter(|original| original.is_present);
        original.map_or(Ok(None), |original| sharing::share(revising.connection(), original.n, document))
    }

    /// Lets copies share their texts with their originals.
    pub(super) fn share_all(&self, copies: &[(Key, Key)]) -> Result<usize, CommitError> {
        let writing = self.write()?;
        let share = |(copy, original): &(Key, Key)| -> rusqlite::Result<bool> {
            let rows = number_of(&writing, copy)?.zip(number_of(&writing, original)?);
            rows.map_or(Ok(false), |(copy, original)| sharing::share_stored(&writing, original, copy))
        };
        let mut n_shared = 0;
        for pair in copies {
            n_shared += usize::from(share(pair).map_err(|error| self.commit_error(&error))?);
        }
        self.finish(writing)?;
        Ok(n_shared)
    }

    /// A document with text appended to it, to be put as a whole.
    fn appended(
        &self,
        connection: &Connection,
        known: Option<&State>,
        key: &Key,
        append: &Append,
    ) -> Result<Document, CommitError> {
        let known = known.filter(|known| known.is_present);
        let document = known.map_or(Ok(None), |known| latest(connection, known.n));
        let document = document.map_err(|error| self.commit_error(&error))?;
        let gone = || self.conflict(key, ConflictKind::Gone);
        append.apply(&document.ok_or_else(gone)?).map_err(|error| self.append_error(key, &error))
    }

    fn append_error(&self, key: &Key, error: &AppendError) -> CommitError {
        match error {
            AppendError::Length { .. } => self.conflict(key, ConflictKind::Changed),
            error => CommitError::Refused {
                key: Box::new(key.clone()),
                place: self.shown(),
                what: error.to_string(),
            },
        }
    }

    fn conflict(&self, key: &Key, what: ConflictKind) -> CommitError {
        CommitError::Conflict { key: Box::new(key.clone()), place: self.shown(), what }
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
        Err(self.conflict(key, what))
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
            if let (Key::Session(_, id), true) = (&change.key, change.is_deletion())
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
            if known.is_followed(connection)? {
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
