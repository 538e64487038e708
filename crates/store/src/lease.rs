//! Leases: one writer at a time in a session.
//!
//! A writer holds the lease of its session as long as it lives. The lease is a file, locked by the kernel: when the writer dies, in whatever way,
//! the lock is free. The file says who holds it: the process, its machine, since when, and when it last gave a sign of life. Where the kernel
//! cannot see the lock, on a disk that several machines share, the sign of life decides.

use std::fs::File;
use std::io::{self, Read as _, Seek, Write as _};
use std::path::PathBuf;

use annals_core::id::{Millis, SessionId};
use serde::{Deserialize, Serialize};

use crate::{ids, platform};

/// How often a holder gives a sign of life.
pub(crate) const HEARTBEAT: std::time::Duration = std::time::Duration::from_secs(5);
/// A holder on another machine that gave no sign of life for this long is gone.
const GONE_AFTER: u64 = 60_000;
/// How often a file is opened again because its holder removed it meanwhile.
const MAX_TRIES: usize = 100;
/// How often a lease that seems to be held is looked at again, and after how long.
const MAX_LOOKS: usize = 3;
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(5);
/// Upper bound on the length of a lease file that is read.
const MAX_BYTES: u64 = 4096;

/// A home in which sessions can be leased.
pub trait Leases: Send + Sync {
    /// Takes the lease of a session.
    fn lease(&self, session: &SessionId) -> Result<Lease, LeaseError>;

    /// Whether somebody holds the lease of a session.
    fn state(&self, session: &SessionId) -> Result<LeaseState, LeaseError>;
}

/// Whether somebody holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody does, or ever did since it was last given back.
    Free,
    /// A writer does.
    Held(Holder),
    /// A writer did and is gone, without giving it back.
    Abandoned(Option<Holder>),
}

/// Who holds a lease. The names are part of the stored bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of the process.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// When the lease was taken.
    pub since: Millis,
    /// When the holder last gave a sign of life.
    pub heartbeat: Millis,
}

impl Holder {
    fn this_process(now: Millis) -> Holder {
        Holder { pid: std::process::id(), host: host(), since: now, heartbeat: now }
    }

    fn unknown(now: Millis) -> Holder {
        Holder { pid: 0, host: String::new(), since: now, heartbeat: now }
    }

    /// Whether the holder is on another machine and may be alive.
    fn may_live_elsewhere(&self, now: Millis) -> bool {
        self.host != host() && now.abs_diff(self.heartbeat) < GONE_AFTER
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Holder { pid, host, .. } = self;
        match host.is_empty() {
            true => write!(f, "process {pid}"),
            false => write!(f, "process {pid} on {host}"),
        }
    }
}

/// The lease of a session. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    file: File,
    holder: Holder,
    /// The state of the lease before it was taken.
    before: LeaseState,
    /// Whether the file stays, so that the next holder knows that this one did not end its work.
    is_abandoned: bool,
}

/// Why a session could not be leased.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another writer works on it.
    #[error("{holder} is writing to session {session}")]
    Held {
        /// The session.
        session: SessionId,
        /// The other writer.
        holder: Holder,
    },
    /// The lease's file could not be used.
    #[error("cannot lease session {session}: {path}: {source}")]
    Io {
        /// The session.
        session: SessionId,
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Leases that are files in one directory, named after their sessions.
#[derive(Debug)]
pub(crate) struct LeaseDirectory {
    path: PathBuf,
}

impl LeaseDirectory {
    pub(crate) fn at(path: PathBuf) -> LeaseDirectory {
        LeaseDirectory { path }
    }

    fn file_of(&self, session: &SessionId) -> PathBuf {
        self.path.join(session.as_str())
    }
}

impl Leases for LeaseDirectory {
    fn lease(&self, session: &SessionId) -> Result<Lease, LeaseError> {
        let path = self.file_of(session);
        let failed =
            |source| LeaseError::Io { session: session.clone(), path: path.display().to_string(), source };
        let mut n_looks = 0;
        for _ in 0..MAX_TRIES {
            platform::create_private_directory(&self.path).map_err(failed)?;
            let mut file = match platform::open_own_file(&path) {
                // The last holder has just removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            let now = ids::now();
            match file.try_lock() {
                Ok(()) if !platform::is_at(&file, &path) => continue,
                Ok(()) => {}
                // Somebody may just be looking at the state of the lease, which takes no time.
                Err(std::fs::TryLockError::WouldBlock) if n_looks < MAX_LOOKS => {
                    n_looks += 1;
                    std::thread::sleep(LOOK_AGAIN);
                    continue;
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    // The holder may just be writing down who it is.
                    let holder = read(&mut file).unwrap_or_else(|| Holder::unknown(now));
                    return Err(LeaseError::Held { session: session.clone(), holder });
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
            }
            let last = read(&mut file);
            if let Some(holder) = last.clone().filter(|holder| holder.may_live_elsewhere(now)) {
                return Err(LeaseError::Held { session: session.clone(), holder });
            }
            // A holder that gives its lease back removes the file, so this one was just made, or was left.
            let is_new = file.metadata().map_err(failed)?.len() == 0;
            let before = if is_new { LeaseState::Free } else { LeaseState::Abandoned(last) };
            let holder = Holder::this_process(now);
            let mut lease = Lease { path: path.clone(), file, holder, before, is_abandoned: false };
            lease.write().map_err(failed)?;
            return Ok(lease);
        }
        Err(failed(io::Error::other("others take and give it back all the time")))
    }

    fn state(&self, session: &SessionId) -> Result<LeaseState, LeaseError> {
        let path = self.file_of(session);
        let failed =
            |source| LeaseError::Io { session: session.clone(), path: path.display().to_string(), source };
        let mut file = match platform::open_to_read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LeaseState::Free),
            Err(error) => return Err(failed(error)),
        };
        let holder = read(&mut file);
        match file.try_lock_shared() {
            // Nobody on this machine holds it.
            Ok(()) => Ok(match holder {
                Some(holder) if holder.may_live_elsewhere(ids::now()) => LeaseState::Held(holder),
                holder => LeaseState::Abandoned(holder),
            }),
            Err(std::fs::TryLockError::WouldBlock) => {
                Ok(LeaseState::Held(holder.unwrap_or_else(|| Holder::unknown(ids::now()))))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

impl Lease {
    /// The state of the lease before it was taken.
    pub fn state_before(&self) -> &LeaseState {
        &self.before
    }

    /// Gives the lease back as that of a holder that died: something is left to be closed.
    pub(crate) fn abandon(mut self) {
        self.is_abandoned = true;
    }

    /// Gives a sign of life.
    pub(crate) fn renew(&mut self) -> io::Result<()> {
        self.holder.heartbeat = ids::now();
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.holder)?;
        self.file.rewind()?;
        self.file.write_all(&text)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        // Still locked: who opens the file before it is removed finds out that it is not there any more.
        let _ = std::fs::remove_file(&self.path);
        // Only the last one can be removed with the directory.
        if let Some(directory) = self.path.parent() {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The machine's name; empty if it has none.
pub fn host() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_holder() {
        let directory = tempfile::tempdir().unwrap();
        let leases = LeaseDirectory::at(directory.path().join("leases"));
        let session = SessionId::parse("ses_1").unwrap();
        assert_eq!(leases.state(&session).unwrap(), LeaseState::Free);
        let mut lease = leases.lease(&session).unwrap();
        let Err(LeaseError::Held { holder, .. }) = leases.lease(&session) else { panic!("it is held") };
        assert_eq!((holder.pid, holder.host), (std::process::id(), host()));
        lease.renew().unwrap();
        assert_eq!(leases.state(&session).unwrap(), LeaseState::Held(lease.holder.clone()));
        leases.lease(&SessionId::parse("ses_2").unwrap()).unwrap();
        drop(lease);
        assert_eq!(leases.state(&session).unwrap(), LeaseState::Free);
        leases.lease(&session).unwrap();
    }

    #[test]
    fn a_dead_holder_holds_nothing_unless_it_may_live_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leases");
        let leases = LeaseDirectory::at(path.clone());
        let session = SessionId::parse("ses_1").unwrap();
        let now = ids::now();
        let leave = |host: &str, heartbeat: Millis| {
            let holder = Holder { pid: 1, host: host.to_owned(), since: 0, heartbeat };
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("ses_1"), serde_json::to_vec(&holder).unwrap()).unwrap();
        };
        for (name, heartbeat, is_held) in
            [(&host()[..], now, false), ("far-away", now, true), ("far-away", now - 100_000, false)]
        {
            leave(name, heartbeat);
            let is_told = matches!(leases.state(&session).unwrap(), LeaseState::Held(_));
            assert_eq!(is_told, is_held, "{name} {heartbeat}");
            assert_eq!(leases.lease(&session).is_err(), is_held, "{name} {heartbeat}");
        }
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("ses_1"), "not JSON").unwrap();
        // A lease that is given back leaves nothing; one that is abandoned says so.
        drop(leases.lease(&session).unwrap());
        assert!(!path.exists());
        leases.lease(&session).unwrap().abandon();
        assert!(matches!(leases.state(&session).unwrap(), LeaseState::Abandoned(Some(_))));
        let again = leases.lease(&session).unwrap();
        assert!(
            matches!(again.state_before(), LeaseState::Abandoned(Some(holder)) if holder.pid == std::process::id())
        );
    }
}
