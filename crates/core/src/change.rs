//! Changes, and the transactions they are committed in.

use std::collections::HashMap;

use crate::document::{ContentHash, Document, Key, Stored};
use crate::json::Node;
use crate::json::edit::EditError;
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

/// What a change does to its document.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Stores this content.
    Put(Document),
    /// Makes one of its strings longer.
    Append(Append),
    /// Deletes it.
    Delete,
}

/// Text that is added to the end of one string of a document. A home that can store just the addition does so; the others store the
/// whole document again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The names of the members that lead to the string.
    pub field: Vec<String>,
    /// The length of the string before, in bytes of UTF-8. If the string has another length, somebody else has changed it.
    pub at: usize,
    /// The text to add.
    pub text: String,
}

/// Why text could not be appended to a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The string has another length than expected.
    #[error("`{field}` has {found} bytes, not {expected}")]
    Length {
        /// Dotted path of the string.
        field: String,
        /// Its length.
        found: usize,
        /// The expected length.
        expected: usize,
    },
    /// The field is not a string, or would be too long.
    #[error(transparent)]
    Edit(#[from] EditError),
}

impl Append {
    /// The document with the text added.
    pub fn apply(&self, document: &Document) -> Result<Document, AppendError> {
        let path: Vec<&str> = self.field.iter().map(String::as_str).collect();
        if let Some(found) = document.root().at(&path).and_then(Node::as_text).map(|text| text.to_str().len())
            && found != self.at
        {
            return Err(AppendError::Length { field: path.join("."), found, expected: self.at });
        }
        Ok(document.appended(&path, &self.text)?)
    }

    /// Takes over the text of an append that continues this one.
    fn extend(&mut self, next: &Append) -> Result<(), AppendError> {
        let found = self.at + self.text.len();
        if self.field != next.field {
            return Err(next.misplaced("another string than the one before"));
        }
        if found != next.at {
            return Err(AppendError::Length { field: next.field.join("."), found, expected: next.at });
        }
        self.text.push_str(&next.text);
        Ok(())
    }

    fn misplaced(&self, found: &'static str) -> AppendError {
        AppendError::Edit(EditError::NotAString { path: self.field.join("."), found })
    }
}

/// One put, append or delete of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which document.
    pub key: Key,
    /// The condition under which the change is made.
    pub expected: Expected,
    /// What is done to it.
    pub action: Action,
    /// Position of a message or part among its siblings, if known. OpenCode's homes ignore it: they order documents
    /// themselves.
    pub position: Option<Position>,
    /// Which program wrote the document.
    pub provenance: Provenance,
    /// A document that this one is a copy of, with other ids. A home that can keep what the two share once does so.
    pub copy_of: Option<Key>,
}

impl Change {
    /// The new content, if the change stores a whole document.
    pub fn document(&self) -> Option<&Document> {
        match &self.action {
            Action::Put(document) => Some(document),
            Action::Append(_) | Action::Delete => None,
        }
    }

    /// Whether the change deletes the document.
    pub fn is_deletion(&self) -> bool {
        self.action == Action::Delete
    }
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
        self.push(key, Expected::Absent, Action::Put(document));
    }

    /// Replaces a document, provided it still has the bytes that were read.
    pub fn replace(&mut self, old: &Stored, document: Document) {
        self.push(old.key.clone(), Expected::Unchanged(old.document.hash()), Action::Put(document));
    }

    /// Stores a document over any present content.
    pub fn put(&mut self, key: Key, document: Document) {
        self.push(key, Expected::Anything, Action::Put(document));
    }

    /// Adds text to the end of a string of a document, provided the string has the length that the append expects. Fails if an earlier
    /// change of this transaction leaves nothing to append to.
    pub fn append(&mut self, key: Key, append: Append) -> Result<(), AppendError> {
        let earlier = self.by_key.get(&key).map(|&index| &mut self.changes[index].action);
        match earlier {
            None => self.push(key, Expected::Anything, Action::Append(append)),
            Some(Action::Put(document)) => *document = append.apply(document)?,
            Some(Action::Append(first)) => first.extend(&append)?,
            Some(Action::Delete) => return Err(append.misplaced("missing")),
        }
        Ok(())
    }

    /// Sets the position and the provenance of a document that is among the changes.
    pub fn place(&mut self, key: &Key, position: Position, provenance: Provenance) {
        if let Some(&index) = self.by_key.get(key) {
            let change = &mut self.changes[index];
            (change.position, change.provenance) = (Some(position), provenance);
        }
    }

    /// Says that a document among the changes is a copy of another one, with other ids.
    pub fn copied_from(&mut self, key: &Key, original: Key) {
        if let Some(&index) = self.by_key.get(key) {
            self.changes[index].copy_of = Some(original);
        }
    }

    /// Deletes a document, provided it still has the bytes that were read.
    pub fn delete(&mut self, old: &Stored) {
        self.push(old.key.clone(), Expected::Unchanged(old.document.hash()), Action::Delete);
    }

    /// Deletes a document, whatever its content.
    pub fn delete_any(&mut self, key: Key) {
        self.push(key, Expected::Anything, Action::Delete);
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

    fn push(&mut self, key: Key, expected: Expected, action: Action) {
        let (position, provenance) = (None, Provenance::default());
        let Some(&index) = self.by_key.get(&key) else {
            self.by_key.insert(key.clone(), self.changes.len());
            self.changes.push(Change { key, expected, action, position, provenance, copy_of: None });
            return;
        };
        // The later change decides the new content, the first one the condition.
        self.changes[index].action = action;
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
        assert_eq!(change.document(), Some(&second));
    }

    fn addition(at: usize, text: &str) -> Append {
        Append { field: vec!["text".to_owned()], at, text: text.to_owned() }
    }

    #[test]
    fn appends_to_one_string_are_joined() {
        let key = Key::Todo(SessionId::parse("ses_1").unwrap());
        let mut transaction = Transaction::new("a stream");
        transaction.append(key.clone(), addition(2, "é")).unwrap();
        transaction.append(key.clone(), addition(4, "!")).unwrap();
        assert!(transaction.append(key.clone(), addition(4, "again")).is_err());
        assert_eq!(transaction.changes()[0].action, Action::Append(addition(2, "é!")));

        let document = Document::parse(br#"{"text": "a\n", "b": 1}"#.to_vec()).unwrap();
        let mut transaction = Transaction::new("a put and an append");
        transaction.put(key.clone(), document);
        transaction.append(key.clone(), addition(2, "\"\u{1}")).unwrap();
        assert_eq!(transaction.changes()[0].document().unwrap().text(), r#"{"text": "a\n\"\u0001", "b": 1}"#);
        transaction.delete_any(key.clone());
        assert!(transaction.append(key, addition(0, "x")).is_err());
    }

    #[test]
    fn an_append_fits_only_the_string_it_was_made_for() {
        let check = |document: &str, append: Append, expected: Result<&str, &str>| {
            let document = Document::parse(document.as_bytes().to_vec()).unwrap();
            let applied = append.apply(&document);
            let applied = applied.as_ref().map(Document::text).map_err(ToString::to_string);
            assert_eq!(applied, expected.map_err(str::to_owned));
        };
        check(r#"{"text":""}"#, addition(0, "x"), Ok(r#"{"text":"x"}"#));
        check(r#"{"text":"ab"}"#, addition(1, "x"), Err("`text` has 2 bytes, not 1"));
        check(
            r#"{"text":1}"#,
            addition(0, "x"),
            Err("cannot append to `text`: it is a number, not a string"),
        );
        check("{}", addition(0, "x"), Err("cannot append to `text`: it is missing, not a string"));
        check(r#"{"text":"\ud83d"}"#, addition(3, "x"), Ok(r#"{"text":"\ud83dx"}"#));
    }
}
