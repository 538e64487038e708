//! Subscriptions to a store: one thread follows the revisions of all processes, and hands them to every subscriber.
//!
//! The thread lives as long as there are subscribers. A commit of this process wakes it; for those of other processes it looks every
//! 100 ms. It reads without any lock that a commit takes, and puts events into a queue for each subscriber. A subscriber whose
//! queue was full, or who has just come, is behind: it reads from the database by itself until it has read all, and takes from its
//! queue again. Numbers of revisions have no gaps, so a subscriber knows the next event by its number, and neither misses one
//! nor takes one twice on the way from one source to the other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::SqliteStore;
use super::events::{Broken, EventEntry, RevisionPosition, Stretch, read_after};
use super::file::{StoreFile, head};
use crate::events::{Event, Events, NextError, Start, SubscribeError, Subscription, Supply};
use crate::home::ReadError;

/// How often the thread looks for commits of other processes, which do not announce them.
const LOOK: Duration = Duration::from_millis(100);
/// Upper bound on the events in the queue of a subscriber, counted in changes. A single larger event fits as well.
const QUEUE: usize = 4096;

/// The feed of the subscribers of one open store.
#[derive(Debug)]
pub(super) struct Feed {
    file: Arc<StoreFile>,
    tail: Mutex<Tail>,
    /// Wakes the thread: something was committed, or the last subscriber left.
    woken: Condvar,
}

/// The state of a feed. Never locked while the database is read: a commit takes this lock.
#[derive(Debug, Default)]
struct Tail {
    queues: Vec<Arc<Queue>>,
    /// Whether the thread runs, and has not decided to end.
    is_followed: bool,
    /// Whether there may be something new.
    is_due: bool,
}

/// The events that wait for one subscriber.
#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Debug)]
struct Waiting {
    entries: VecDeque<EventEntry>,
    weight: usize,
    /// Whether the subscriber has to read from the database. Then nothing is put into the queue.
    is_behind: bool,
}

impl Events for SqliteStore {
    fn subscribe(&self, start: Start) -> Result<Subscription, SubscribeError> {
        let (reached, last) = self.read(|connection| {
            let head = head(connection)?;
            let reached = match start {
                Start::Now => head,
                Start::After(number) => number.max(0),
            };
            Ok((RevisionPosition::of(connection, reached)?, RevisionPosition::of(connection, head)?))
        })?;
        if reached.number > last.number {
            let (after, head) = (reached.number, last.number);
            return Err(SubscribeError::Ahead { path: self.shown(), after, head });
        }
        let queue =
            self.feed.join(last).map_err(|source| SubscribeError::Thread { path: self.shown(), source })?;
        let feed = Arc::clone(&self.feed);
        Ok(Subscription::new(Subscriber { feed, queue, reached, read: VecDeque::new() }))
    }
}

impl Feed {
    pub(super) fn new(file: Arc<StoreFile>) -> Feed {
        Feed { file, tail: Mutex::default(), woken: Condvar::new() }
    }

    /// Announces a commit of this process.
    pub(super) fn committed(&self) {
        lock(&self.tail).is_due = true;
        self.woken.notify_all();
    }

    /// A queue for a new subscriber. If the thread has to be started, it follows what comes after `last`.
    fn join(self: &Arc<Feed>, last: RevisionPosition) -> io::Result<Arc<Queue>> {
        let mut tail = lock(&self.tail);
        if !tail.is_followed {
            let feed = Arc::clone(self);
            std::thread::Builder::new().name("annals-events".to_owned()).spawn(move || feed.follow(last))?;
            tail.is_followed = true;
        }
        let waiting = Waiting { entries: VecDeque::new(), weight: 0, is_behind: true };
        let queue = Arc::new(Queue { waiting: Mutex::new(waiting), filled: Condvar::new() });
        tail.queues.push(Arc::clone(&queue));
        Ok(queue)
    }

    fn leave(&self, queue: &Arc<Queue>) {
        lock(&self.tail).queues.retain(|other| !Arc::ptr_eq(other, queue));
        self.woken.notify_all();
    }

    /// Hands on the commits after `reached`, until the last subscriber leaves.
    fn follow(&self, mut reached: RevisionPosition) {
        while self.wait() {
            let read = self.read(reached);
            if let Err(NextError::Replaced { .. }) = &read
                && let Ok(last) =
                    self.file.read(|connection| RevisionPosition::of(connection, head(connection)?))
            {
                reached = last;
            }
            // Subscribers that join after this line read these events from the database themselves.
            let queues = lock(&self.tail).queues.clone();
            match read {
                Ok(Stretch { entries, is_all }) => {
                    queues.iter().for_each(|queue| queue.give(&entries));
                    reached = entries.last().map_or(reached, EventEntry::position);
                    lock(&self.tail).is_due |= !is_all;
                }
                // Each subscriber then reads by itself, meets the error if it persists, and can report it.
                Err(_) => queues.iter().for_each(|queue| queue.fall_behind()),
            }
        }
    }

    /// Waits until there may be something new. False if no subscriber is left.
    fn wait(&self) -> bool {
        let mut tail = lock(&self.tail);
        if !tail.is_due && !tail.queues.is_empty() {
            tail = self.woken.wait_timeout(tail, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        tail.is_due = false;
        tail.is_followed = !tail.queues.is_empty();
        tail.is_followed
    }

    fn read(&self, reached: RevisionPosition) -> Result<Stretch, NextError> {
        let path = || self.file.path().display().to_string();
        let read = self.file.read(|connection| read_after(connection, reached));
        let read = read.map_err(|error| ReadError::Database { path: path(), what: error.to_string() })?;
        read.map_err(|broken| match broken {
            Broken::Replaced => NextError::Replaced { path: path(), reached: reached.number },
            Broken::Missing(missing) => NextError::Missing { path: path(), missing },
        })
    }
}

/// The answer of a queue to its subscriber.
enum Taken {
    Next(EventEntry),
    /// No event came in time.
    Nothing,
    /// The queue does not have the next event: the subscriber has to read from the database. From now on the queue is filled.
    Behind,
}

impl Queue {
    fn give(&self, entries: &[EventEntry]) {
        let mut waiting = lock(&self.waiting);
        for entry in entries {
            if waiting.is_behind {
                break;
            }
            let weight = waiting.weight + entry.weight();
            match weight > QUEUE && !waiting.entries.is_empty() {
                true => waiting.fall_behind(),
                false => {
                    waiting.weight = weight;
                    waiting.entries.push_back(entry.clone());
                }
            }
        }
        self.filled.notify_all();
    }

    fn fall_behind(&self) {
        lock(&self.waiting).fall_behind();
        self.filled.notify_all();
    }

    /// The event after the revision `reached`. Without a deadline, waits for it forever.
    fn take(&self, reached: i64, deadline: Option<Instant>) -> Taken {
        let mut waiting = lock(&self.waiting);
        loop {
            if std::mem::take(&mut waiting.is_behind) {
                return Taken::Behind;
            }
            while let Some(entry) = waiting.entries.pop_front() {
                waiting.weight -= entry.weight();
                match entry.event.revision.number - reached {
                    ..=0 => {}
                    1 => return Taken::Next(entry),
                    _ => {
                        waiting.weight += entry.weight();
                        waiting.entries.push_front(entry);
                        return Taken::Behind;
                    }
                }
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            waiting = match left {
                Some(Duration::ZERO) => return Taken::Nothing,
                Some(left) => {
                    self.filled.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Waiting {
    fn fall_behind(&mut self) {
        self.entries.clear();
        self.weight = 0;
        self.is_behind = true;
    }
}

/// One subscription.
#[derive(Debug)]
struct Subscriber {
    feed: Arc<Feed>,
    queue: Arc<Queue>,
    /// The last revision that the subscriber got.
    reached: RevisionPosition,
    /// Events that the subscriber has read from the database.
    read: VecDeque<EventEntry>,
}

impl Supply for Subscriber {
    fn next(&mut self, timeout: Duration) -> Result<Option<Arc<Event>>, NextError> {
        let deadline = Instant::now().checked_add(timeout);
        let entry = loop {
            if let Some(entry) = self.read.pop_front() {
                break entry;
            }
            match self.queue.take(self.reached.number, deadline) {
                Taken::Next(entry) => break entry,
                Taken::Nothing => return Ok(None),
                Taken::Behind => self.catch_up()?,
            }
        };
        self.reached = entry.position();
        Ok(Some(entry.event))
    }
}

impl Subscriber {
    fn catch_up(&mut self) -> Result<(), NextError> {
        let read = self.feed.read(self.reached);
        // As long as there is more to read, the queue need not fill.
        if !read.as_ref().is_ok_and(|read| read.is_all) {
            self.queue.fall_behind();
        }
        self.read.extend(read?.entries);
        Ok(())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.feed.leave(&self.queue);
    }
}

/// Locks a mutex, poisoned or not: the data behind these locks is consistent at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use annals_core::id::ProjectId;
    use annals_core::{Document, Key, Transaction};

    use super::*;
    use crate::home::Write;

    fn store() -> (tempfile::TempDir, SqliteStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
        (directory, store)
    }

    fn commit(store: &SqliteStore, n: usize) {
        let mut transaction = Transaction::new("again");
        transaction
            .put(Key::Project(ProjectId::global()), Document::parse(n.to_string().into_bytes()).unwrap());
        store.commit(transaction).unwrap();
    }

    /// Waits until a condition holds.
    #[track_caller]
    fn assert_soon(is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < deadline, "it does not happen");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_thread_lives_as_long_as_there_are_subscribers() {
        let (_directory, store) = store();
        let feed = Arc::downgrade(&store.feed);
        assert!(!lock(&store.feed.tail).is_followed);
        for _ in 0..3 {
            let (mut first, second) =
                (store.subscribe(Start::Now).unwrap(), store.subscribe(Start::Now).unwrap());
            drop(second);
            commit(&store, Arc::strong_count(&store.feed));
            assert!(first.next(Duration::MAX).unwrap().is_some());
            // Three owners: the store, the subscriber and the thread.
            assert_eq!(Arc::strong_count(&store.feed), 3);
            drop(first);
            assert_soon(|| !lock(&store.feed.tail).is_followed && Arc::strong_count(&store.feed) == 1);
            commit(&store, 0);
        }
        let left = store.subscribe(Start::Now).unwrap();
        drop(store);
        assert!(feed.upgrade().is_some());
        drop(left);
        assert_soon(|| feed.upgrade().is_none());
    }

    /// The thread is stuck with a subscriber that never lets go of its queue; commits do not notice.
    #[test]
    fn a_commit_waits_for_no_subscriber() {
        let (_directory, store) = store();
        let mut subscription = store.subscribe(Start::Now).unwrap();
        let queue = Arc::clone(&lock(&store.feed.tail).queues[0]);
        let stuck = lock(&queue.waiting);
        (1..=20).for_each(|n| commit(&store, n));
        drop(stuck);
        for number in 1..=20 {
            assert_eq!(subscription.next(Duration::MAX).unwrap().unwrap().revision.number, number);
        }
    }

    #[test]
    fn what_waits_for_a_subscriber_is_bounded() {
        let (_directory, store) = store();
        let mut subscription = store.subscribe(Start::Now).unwrap();
        let queue = Arc::clone(&lock(&store.feed.tail).queues[0]);
        // Nothing is queued for a subscriber that has never read.
        commit(&store, 0);
        std::thread::sleep(2 * LOOK);
        assert!(lock(&queue.waiting).is_behind && lock(&queue.waiting).entries.is_empty());
        assert!(subscription.next(Duration::ZERO).unwrap().is_some());
        commit(&store, 1);
        assert_soon(|| lock(&queue.waiting).entries.len() == 1);
        let entry = lock(&queue.waiting).entries[0].clone();
        let heaviest = (0..2 * QUEUE).map(|_| {
            queue.give(std::slice::from_ref(&entry));
            lock(&queue.waiting).weight
        });
        assert_eq!(heaviest.max(), Some(QUEUE));
        assert!(lock(&queue.waiting).is_behind && lock(&queue.waiting).entries.is_empty());
        let event = subscription.next(Duration::ZERO).unwrap().unwrap();
        assert_eq!(event.revision.number, 2);
        assert!(subscription.next(2 * LOOK).unwrap().is_none());
    }
}
