//! A scripted stand-in for a hosted language model.
//!
//! [`ModelServer`] listens on the loopback interface and speaks three wire protocols, all of them as
//! server-sent events: OpenAI's chat completions and responses, and Anthropic's messages. Nothing is
//! generated: every reply is a [`Turn`] looked up in a [`Playbook`], and the same playbook and the same
//! requests always give the same bytes back.
//!
//! The prompts of a request decide its [`RequestKind`]. For [`RequestKind::Chat`], the last user message that
//! carries a tag, `[[scenario:NAME]]`, or matches one of [`Playbook::prompts`] decides on the scenario. The turn
//! is the number of replies since that message: a tool call in turn 0 is followed by turn 1 when its result comes
//! back. Beyond the last turn, the last one without tool calls is repeated.
//!
//! ```
//! use annals_testkit::model::{ModelServer, Playbook, Turn};
//!
//! let playbook = Playbook::builtin().scenario("greet", [Turn::text("Good morning.")]);
//! let server = ModelServer::start(playbook)?;
//! assert!(server.base_url().ends_with("/v1"));
//! assert!(server.requests().is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Besides completions it serves `/v1/models`, pages to fetch below `/pages/` (`guide.html`, `notes.txt`,
//! `data.json`, `pixel.png`, `table-<n>.txt` of 48 kB), a share service below `/api/share`, and for clients
//! in another process `GET /_ctl/state`, `POST /_ctl/release` and `POST /_ctl/context`.

mod desk;
pub(crate) mod http;
mod pages;
mod playbook;
mod reply;
mod request;
mod select;
mod service;
mod stream;

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Deserialize;

use desk::Desk;
pub use playbook::{Answer, Failure, Playbook, PlaybookEntry, RepeatText, ToolCall, Turn, TurnUsage};
pub use request::{
    ExchangeTokens, ModelRequest, Protocol, RequestConversation, RequestKind, RequestMessage, RequestRole,
    SessionSource,
};
use select::Selector;

/// A running server. Dropping it closes all connections and ends its threads.
#[derive(Debug)]
pub struct ModelServer {
    desk: Arc<Desk>,
    acceptor: Option<JoinHandle<()>>,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerState {
    /// Requests for a completion so far.
    pub requests: usize,
    /// Replies under way, hanging ones included.
    pub active: usize,
    /// Replies that wait at their `hang_after`.
    pub hanging: usize,
    /// Time since a reply last began, ended or hung.
    pub idle: Duration,
}

/// Attribution of requests that do not name a session themselves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestContext {
    pub session: Option<String>,
    pub label: Option<String>,
}

impl ModelServer {
    /// Starts a server on a free port of the loopback interface. A pattern in the playbook that is not a
    /// regex is an error of kind `InvalidInput`.
    pub fn start(playbook: Playbook) -> io::Result<ModelServer> {
        let pace = Duration::from_millis(playbook.pace_ms);
        let selector =
            Selector::new(playbook).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let desk = Arc::new(Desk::new(listener.local_addr()?.port(), pace, selector));
        let acceptor = thread::Builder::new().name("model-server".to_owned()).spawn({
            let desk = Arc::clone(&desk);
            move || accept(&desk, &listener)
        })?;
        Ok(ModelServer { desk, acceptor: Some(acceptor) })
    }

    pub fn port(&self) -> u16 {
        self.desk.port
    }

    /// The root of the server, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// The base URL of the model's provider, for the configuration of clients.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// All requests for a completion, in order of arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.desk.ledger().requests.clone()
    }

    pub fn state(&self) -> ServerState {
        self.desk.ledger().state()
    }

    /// Attributes later requests that name no session.
    pub fn set_context(&self, context: RequestContext) {
        self.desk.ledger().context = context;
    }

    /// Lets all hanging replies continue.
    pub fn release(&self) {
        self.desk.release();
    }

    /// Waits until at least `count` replies hang.
    ///
    /// # Panics
    /// If they do not within `timeout`.
    #[track_caller]
    pub fn wait_hanging(&self, count: usize, timeout: Duration) {
        if let Err(state) = self.desk.wait_until(timeout, |state| state.hanging >= count) {
            panic!("waited {timeout:?} for {count} hanging replies; {state:?}");
        }
    }

    /// Waits until nothing has happened for the time `quiet` and only hanging replies are under way.
    ///
    /// # Panics
    /// If that does not happen within `timeout`.
    #[track_caller]
    pub fn wait_idle(&self, quiet: Duration, timeout: Duration) {
        let idle = |state: &ServerState| state.active == state.hanging && state.idle >= quiet;
        if let Err(state) = self.desk.wait_until(timeout, idle) {
            panic!("waited {timeout:?} for {quiet:?} of quiet; {state:?}");
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.desk.stop();
        // The acceptor only notices once a client connects. If connecting fails, it is left behind: waiting for it
        // would never end.
        let woken = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            // A panic in there has been reported already, and one more while dropping would abort.
            let _ = acceptor.join();
        }
    }
}

/// Gives each connection a thread, and waits for all of them at the end.
fn accept(desk: &Arc<Desk>, listener: &TcpListener) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for connection in listener.incoming() {
        if desk.is_stopping() {
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        // The server goes on after a client that gave up before it was accepted.
        let Ok(connection) = connection else { continue };
        let Ok(Some(id)) = desk.connect(&connection) else { continue };
        let desk = Arc::clone(desk);
        threads.push(thread::spawn(move || {
            // Errors here are connections that ended early, which clients and turns do on purpose.
            let _ = service::serve(&desk, &connection);
            let _ = connection.shutdown(Shutdown::Both);
            desk.disconnect(id);
        }));
    }
    for thread in threads {
        let _ = thread.join();
    }
}
