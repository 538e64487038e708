//! Committing: one transaction of SQLite is one revision.

use annals_core::{Document, Expected, Key, Transaction};

use super::Annals;
use super::facts::Prepared;
use super::revise::{Put, Revising, State};
use crate::home::{CommitError, ConflictKind, Native, Receipt, Write};
use crate::project::IdentityRule;

impl Write for Annals {
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError> {
        self.commit_as(transaction, self.operation)
    }

    fn native(&self, _key: &Key, document: Document) -> Native {
        Native::Held { document, lost: Vec::new() }
    }

    fn identity_rule(&self) -> IdentityRule {
        IdentityRule::Remote
    }
}

impl Annals {
    /// Commits a transaction as part of an operation.
    pub(crate) fn commit_as(
        &self,
        transaction: Transaction,
        operation: Option<i64>,
    ) -> Result<Receipt, CommitError> {
        let (reason, changes) = transaction.into_parts();
        // Compressing and hashing come first: nobody waits for them.
        let prepared: Vec<Option<Prepared>> = changes
            .iter()
            .map(|change| Some(Prepared::new(&change.key, change.document.as_ref()?, false)))
            .collect();
        let failed = |error: rusqlite::Error| self.commit_error(&error);
        let writing = self.write()?;
        let mut receipt = Receipt::default();
        let revising = Revising::new(&writing, self.now(), &reason, None).map_err(failed)?;
        let mut revising = revising.of_operation(operation);
        for (change, prepared) in changes.iter().zip(&prepared) {
            let known = revising.state(&change.key).map_err(failed)?;
            self.expect(known.as_ref(), &change.key, &change.expected)?;
            match (&change.document, prepared) {
                (Some(document), Some(prepared)) => {
                    let put = revising.put_over(known, &change.key, prepared, document).map_err(failed)?;
                    receipt.written += usize::from(put != Put::Unchanged);
                }
                _ => receipt.deleted += usize::from(revising.delete(&change.key).map_err(failed)?),
            }
        }
        receipt.revision = revising.finish().map_err(failed)?;
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
