//! State shared by all threads of a server: the counters, the record of requests, and the ways to wait for them.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::request::ModelRequest;
use super::select::Selector;
use super::{RequestContext, ServerState};

/// Interval at which a hanging stream checks whether its client is still connected.
const PEER_CHECK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Desk {
    pub(super) port: u16,
    pub(super) pace: Duration,
    ledger: Mutex<Ledger>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) selector: Selector,
    pub(super) requests: Vec<ModelRequest>,
    pub(super) context: RequestContext,
    pub(super) n_shares: usize,
    active: usize,
    hanging: usize,
    /// Counts calls of `release`, so that a stream which hangs later is not let go by an earlier one.
    n_releases: u64,
    last_activity: Instant,
    stopping: bool,
    connections: HashMap<u64, TcpStream>,
    next_connection: u64,
}

impl Ledger {
    pub(super) fn state(&self) -> ServerState {
        ServerState {
            requests: self.requests.len(),
            active: self.active,
            hanging: self.hanging,
            idle: self.last_activity.elapsed(),
        }
    }
}

impl Desk {
    pub(super) fn new(port: u16, pace: Duration, selector: Selector) -> Desk {
        let ledger = Ledger {
            selector,
            requests: Vec::new(),
            context: RequestContext::default(),
            n_shares: 0,
            active: 0,
            hanging: 0,
            n_releases: 0,
            last_activity: Instant::now(),
            stopping: false,
            connections: HashMap::new(),
            next_connection: 0,
        };
        Desk { port, pace, ledger: Mutex::new(ledger), changed: Condvar::new() }
    }

    /// The counters. They are still readable after a thread panicked.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request as active until the returned guard is dropped.
    pub(super) fn begin(&self) -> Active<'_> {
        self.update(|ledger| ledger.active += 1);
        Active(self)
    }

    /// Waits on behalf of a stream. Fails once the server stops.
    pub(super) fn pause(&self, duration: Duration) -> io::Result<()> {
        self.pause_while(duration, |_| true)
    }

    /// Keeps a stream waiting until the next release. Fails once its client has gone or the server stops.
    pub(super) fn hang(&self, stream: &TcpStream) -> io::Result<()> {
        let n_before = self.update(|ledger| {
            ledger.hanging += 1;
            ledger.n_releases
        });
        let wait = || {
            while self.ledger().n_releases == n_before {
                if peer_has_gone(stream) {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                self.pause_while(PEER_CHECK, |ledger| ledger.n_releases == n_before)?;
            }
            Ok(())
        };
        let ended = wait();
        self.update(|ledger| ledger.hanging -= 1);
        ended
    }

    fn pause_while(&self, limit: Duration, waiting: impl Fn(&Ledger) -> bool) -> io::Result<()> {
        let waiting = |ledger: &mut Ledger| !ledger.stopping && waiting(ledger);
        let waited = self.changed.wait_timeout_while(self.ledger(), limit, waiting);
        let (ledger, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if ledger.stopping { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    pub(super) fn release(&self) {
        self.update(|ledger| ledger.n_releases += 1);
    }

    /// Waits until `reached` holds. Returns the last state as an error if it does not hold in time.
    pub(super) fn wait_until(
        &self,
        timeout: Duration,
        reached: impl Fn(&ServerState) -> bool,
    ) -> Result<(), ServerState> {
        // Idle time passes without a notification, hence the short steps.
        const STEP: Duration = Duration::from_millis(20);
        let deadline = Instant::now() + timeout;
        let mut ledger = self.ledger();
        loop {
            let state = ledger.state();
            if reached(&state) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(state);
            }
            ledger = self.changed.wait_timeout(ledger, STEP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Registers a connection so that `stop` can end it. `None` when the server is stopping already.
    pub(super) fn connect(&self, stream: &TcpStream) -> io::Result<Option<u64>> {
        let stream = stream.try_clone()?;
        let mut ledger = self.ledger();
        if ledger.stopping {
            return Ok(None);
        }
        let id = ledger.next_connection;
        ledger.next_connection += 1;
        ledger.connections.insert(id, stream);
        Ok(Some(id))
    }

    pub(super) fn disconnect(&self, id: u64) {
        self.ledger().connections.remove(&id);
    }

    pub(super) fn stop(&self) {
        self.update(|ledger| {
            ledger.stopping = true;
            for stream in ledger.connections.values() {
                // It fails if the client closed first, which is as good.
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.ledger().stopping
    }

    fn update<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut ledger = self.ledger();
        ledger.last_activity = Instant::now();
        let result = change(&mut ledger);
        drop(ledger);
        self.changed.notify_all();
        result
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Active<'a>(&'a Desk);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.update(|ledger| ledger.active -= 1);
    }
}

fn peer_has_gone(stream: &TcpStream) -> bool {
    let peek = || -> io::Result<usize> {
        stream.set_nonblocking(true)?;
        let seen = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        seen
    };
    match peek() {
        Ok(n_bytes) => n_bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
