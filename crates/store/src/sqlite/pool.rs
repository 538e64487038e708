//! Connections that read, kept for the next reader.

use std::borrow::Borrow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

/// How often something is read again because the files were changed or replaced meanwhile.
const MAX_TRIES: usize = 20;

/// The connections to one file that are not in use at the moment.
#[derive(Debug)]
pub(crate) struct Pool<R> {
    idle: Mutex<Vec<R>>,
}

impl<R> Default for Pool<R> {
    fn default() -> Pool<R> {
        Pool { idle: Mutex::default() }
    }
}

impl<R: Borrow<Connection>> Pool<R> {
    /// Reads something in one transaction, with a connection of the pool or one that `open` makes. If the connection is not
    /// sound afterwards, the result may be of two states at once, and everything is read again.
    pub(crate) fn read<T>(
        &self,
        open: impl Fn() -> rusqlite::Result<R>,
        is_sound: impl Fn(&R, &rusqlite::Result<T>) -> bool,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut tries = 0;
        loop {
            let idle = lock(&self.idle).pop();
            let reader = match idle {
                Some(reader) => reader,
                None => open()?,
            };
            let transaction = reader.borrow().unchecked_transaction();
            let result = transaction.and_then(|transaction| {
                let result = work(&transaction)?;
                transaction.finish()?;
                Ok(result)
            });
            if is_sound(&reader, &result) {
                lock(&self.idle).push(reader);
                return result;
            }
            // The other connections to the file are not sound either.
            self.clear();
            tries += 1;
            if tries == MAX_TRIES {
                return result;
            }
        }
    }

    /// Closes all connections.
    pub(crate) fn clear(&self) {
        lock(&self.idle).clear();
    }
}

/// What a mutex holds is whole even if a thread died with it: connections are taken out, used and put back.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
