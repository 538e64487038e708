//! Changes, and the transactions they are committed in.

use std::collections::HashMap;

use crate::document::{ContentHash, Document, Key, Stored};
use crate::position::Position;
use crate::provenance::Provenance;

/// The condition on a document under which a change to it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The document does not exist.
    Absent,
    /// The document still has exactly the bytes that were read.
    Unchanged(ContentHash),
    /// No condition: the change is made over any present content.
    Anything,
}

/// One put or delete of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which document.
    pub key: Key,
    /// The condition under which the change is made.
    pub expected: Expected,
    /// The new content; `None` deletes the document.
    pub document: Option<Document>,
    /// Position of a message or part among its siblings, if known. OpenCode's homes ignore it: they order documents
    /// themselves.
    pub position: Option<Position>,
    /// Which program wrote the document.
    pub provenance: Provenance,
}

/// Changes that are committed together or not at all, with the reason for them.
///
/// A transaction is a value: a home's `commit` consumes it, and dropping it changes nothing.
///
/// ```
/// use annals_core::{Document, Key, Transaction, id::{ProjectId, SessionId}, lens::Session};
///
/// let session = SessionId::parse("ses_1")?;
/// let document = Document::new(&Session { id: Some((&session).into()), ..Default::default() });
/// let mut transaction = Transaction::new("store a session");
/// transaction.insert(Key::Session(ProjectId::global(), session), document);
/// assert_eq!(transaction.changes().len(), 1);
/// # Ok::<(), annals_core::id::IdError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    reason: String,
    changes: Vec<Change>,
    by_key: HashMap<Key, usize>,
}

impl Transaction {
    /// An empty transaction.
    pub fn new(reason: impl Into<String>) -> Transaction {
        Transaction { reason: reason.into(), changes: Vec::new(), by_key: HashMap::new() }
    }

    /// Adds a document that does not exist yet.
    pub fn insert(&mut self, key: Key, document: Document) {
        self.push(key, Expected::Absent, Some(document));
    }

    /// Replaces a document, provided it still has the bytes that were read.
    pub fn replace(&mut self, old: &Stored, document: Document) {
        self.push(old.key.clone(), Expected::Unchanged(old.document.hash()), Some(document));
    }

    /// Stores a document over any present content.
    pub fn put(&mut self, key: Key, document: Document) {
        self.push(key, Expected::Anything, Some(document));
    }

    /// Sets the position and the provenance of a document that is among the changes.
    pub fn place(&mut self, key: &Key, position: Position, provenance: Provenance) {
        if let Some(&index) = self.by_key.get(key) {
            let change = &mut self.changes[index];
            (change.position, change.provenance) = (Some(position), provenance);
        }
    }

    /// Deletes a document, provided it still has the bytes that were read.
    pub fn delete(&mut self, old: &Stored) {
        self.push(old.key.clone(), Expected::Unchanged(old.document.hash()), None);
    }

    /// Deletes a document, whatever its content.
    pub fn delete_any(&mut self, key: Key) {
        self.push(key, Expected::Anything, None);
    }

    /// Why the changes are made.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The changes, one for each key.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The reason and the changes.
    pub fn into_parts(self) -> (String, Vec<Change>) {
        (self.reason, self.changes)
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn push(&mut self, key: Key, expected: Expected, document: Option<Document>) {
        let (position, provenance) = (None, Provenance::default());
        match self.by_key.get(&key) {
            // The later change decides the new content, the first one the condition.
            Some(&index) => self.changes[index].document = document,
            None => {
                self.by_key.insert(key.clone(), self.changes.len());
                self.changes.push(Change { key, expected, document, position, provenance });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionId;

    #[test]
    fn of_two_changes_of_one_document_the_later_one_counts() {
        let key = Key::Todo(SessionId::parse("ses_1").unwrap());
        let [first, second] = ["[1]", "[2]"].map(|text| Document::parse(text.into()).unwrap());
        let mut transaction = Transaction::new("twice");
        transaction.insert(key.clone(), first);
        transaction.put(key.clone(), second.clone());
        let [change] = transaction.changes() else { panic!("one change") };
        assert_eq!((&change.key, &change.expected), (&key, &Expected::Absent));
        assert_eq!(change.document, Some(second));
    }
}
