//! Subscriptions: told of every revision after it was committed, whichever process committed it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use annals_core::Key;

use super::SqliteStore;
use super::file::head;
use super::rows::{listed, placed};
use crate::history::{History, Revision};
use crate::home::ReadError;

/// Other processes tell nobody, so every now and then one has to look.
const LOOK: Duration = Duration::from_millis(100);
/// So many revisions are fetched at once.
const BATCH: usize = 256;

/// What subscribers get after a commit: they can read what they are told about.
#[derive(Debug, Clone)]
pub struct Event {
    /// The revision that was committed.
    pub revision: Revision,
    /// Documents it wrote or deleted, except for those that later revisions have written again: they come with these.
    pub keys: Vec<Key>,
}

/// An endless supply of events, in the order of commits, none left out and none twice.
///
/// ```
/// use annals::SqliteStore;
/// use annals::home::Write;
/// use annals::model::{Document, Key, Transaction, id::ProjectId};
/// use std::time::Duration;
///
/// let directory = tempfile::tempdir()?;
/// let store = SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
/// let mut subscription = store.subscribe()?;
/// let mut transaction = Transaction::new("a project");
/// transaction.insert(Key::Project(ProjectId::global()), Document::parse(b"{}".to_vec())?);
/// store.commit(transaction)?;
/// let event = subscription.next(Duration::from_secs(5))?.expect("something was committed");
/// assert_eq!(event.revision.reason, "a project");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription<'s> {
    store: &'s SqliteStore,
    reached: i64,
    ready: VecDeque<Event>,
}

impl SqliteStore {
    /// Subscribes to what is committed from now on.
    pub fn subscribe(&self) -> Result<Subscription<'_>, ReadError> {
        let reached = self.head()?;
        Ok(self.subscribe_after(reached))
    }

    /// Subscribes to everything after a revision: where an earlier subscription had got to, for instance.
    pub fn subscribe_after(&self, revision: i64) -> Subscription<'_> {
        Subscription { store: self, reached: revision, ready: VecDeque::new() }
    }

    /// The number of the last revision, 0 if there is none.
    pub fn head(&self) -> Result<i64, ReadError> {
        self.read(head)
    }
}

impl Subscription<'_> {
    /// The next event. None if there is none within the time given.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>, ReadError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.reached = event.revision.number;
                return Ok(Some(event));
            }
            // Looked for while commits of this process wait for the lock, so that none slips through.
            let (lock, committed) = &self.store.committed;
            let guard = lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            self.fetch()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ready.is_empty() {
                if left.is_zero() {
                    return Ok(None);
                }
                drop(committed.wait_timeout(guard, left.min(LOOK)));
            }
        }
    }

    fn fetch(&mut self) -> Result<(), ReadError> {
        let numbers: Vec<i64> = self.store.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT n FROM revision WHERE n > ?1 ORDER BY n LIMIT ?2")?;
            statement.query_map((self.reached, BATCH), |row| row.get(0))?.collect()
        })?;
        for number in numbers {
            let Some(revision) = self.store.revision(number)? else { continue };
            let keys = self.store.read(|connection| {
                let written = connection
                    .prepare_cached("SELECT documents FROM revision WHERE n = ?1")?
                    .query_row([number], |row| Ok(listed(row.get_ref(0)?)))?;
                let mut keys = Vec::new();
                for n in written {
                    keys.extend(placed(connection, n)?.map(|placed| placed.key));
                }
                Ok(keys)
            })?;
            self.ready.push_back(Event { revision, keys });
        }
        Ok(())
    }
}
