//! The store that coding-agent conversations deserve: transactional, durable, with history and search, in OpenCode's own
//! format.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # std::env::set_current_dir(directory.path())?;
//! let store = annals::Store::open("annals.db")?; // Or a home of OpenCode's.
//! for session in store.sessions().limit(10) {
//!     println!("{}", session?.title());
//! }
//! let session = store.create_session("/home/me/shop").title("Fix the empty cart").save()?;
//! session.prompt("The cart crashes when it is empty.").model("anthropic/claude-sonnet-4-5").save()?;
//! for hit in store.search("cart crash")? {
//!     println!("{}", hit?.snippet());
//! }
//! # let found: Vec<_> = store.search("cart crash")?.collect::<Result<_, _>>()?;
//! # assert_eq!(found[0].snippet(), "The cart crashes when it is empty.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Store`] looks after ids, times, keys, projects and the text index. In a home of OpenCode's it writes what that OpenCode
//! would write, so that `opencode run --session ID` goes on with the session.
//!
//! # What is underneath
//!
//! A [`home`] is a place where sessions live: a store of annals ([`SqliteStore`], `annals.db`), or a directory or database of
//! OpenCode's. All are read through [`home::Read`] and changed through [`home::Write`], which [`Store::home`] gives; a store
//! also keeps [`history`], can be [searched](search) and [subscribed to](events), and [follows](sync) the homes of agents.
//! Documents are kept byte for byte; [`model`] has the lenses through which they are read and from which new ones are written.
//!
//! # Anything in a transaction
//!
//! What an agent has to say goes through [`home::Write`], any number of documents at a time:
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let store = annals::Store::open(directory.path().join("annals.db"))?;
//! # let session = store.create_session("/home/me/shop").save()?;
//! # let prompt = session.prompt("The cart crashes when it is empty.").model("anthropic/claude-sonnet-4-5").save()?;
//! use annals::ids;
//! use annals::model::lens::{AssistantMessage, MessageTime, TextPart};
//! use annals::model::{Document, Key, Transaction};
//!
//! let (id, message, part) = (session.id(), ids::new_message(), ids::new_part());
//! let mut answer = Transaction::new("an answer");
//! answer.insert(
//!     Key::Message(id.clone(), message.clone()),
//!     Document::new(&AssistantMessage {
//!         id: Some((&message).into()),
//!         session_id: Some(id.into()),
//!         parent_id: Some((&prompt).into()),
//!         time: Some(MessageTime { created: Some(ids::now()), completed: None }),
//!         ..Default::default()
//!     }),
//! );
//! answer.insert(
//!     Key::Part(id.clone(), message.clone(), part.clone()),
//!     Document::new(&TextPart {
//!         id: Some((&part).into()),
//!         session_id: Some(id.into()),
//!         message_id: Some((&message).into()),
//!         text: Some("An empty cart has no first item.".into()),
//!         ..Default::default()
//!     }),
//! );
//! store.home().commit(answer)?; // Both documents are on the disk now, or none.
//!
//! for message in store.session("last")?.messages() {
//!     let message = message?;
//!     println!("{}: {}", message.role(), message.text());
//! }
//! # assert_eq!(store.session("last")?.messages().last().unwrap()?.text(), "An empty cart has no first item.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # History: changing, looking back, undoing
//!
//! ```
//! # use annals::{SqliteStore, ids, home::{Read, Write}, model::{Document, Key, Transaction, id::ProjectId, lens::Session}};
//! # let directory = tempfile::tempdir()?;
//! # let store = SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
//! # let session = ids::new_session();
//! # let mut transaction = Transaction::new("a session");
//! # let key = Key::Session(ProjectId::global(), session.clone());
//! # transaction.insert(key.clone(), Document::new(&Session { title: Some("Draft".into()), ..Default::default() }));
//! # store.commit(transaction)?;
//! use annals::history::{self, At, History};
//!
//! let stored = store.document(&key)?.expect("it was stored");
//! let mut rename = Transaction::new("a better title");
//! rename.replace(&stored, stored.document.with(&["title"], "Fix the empty cart")?); // Unless someone else was faster.
//! let revision = store.commit(rename)?.revision.expect("something has changed");
//!
//! let before = store.at(At::Revision(revision - 1))?.expect("there is such a revision");
//! let then = before.session(&session)?.expect("it was there");
//! assert_eq!(then.info.title(), "Draft");
//!
//! store.commit(history::undo(&store, &store, revision)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Following an agent, and searching
//!
//! ```
//! use annals::homes::opencode::directory::OpencodeDirectory;
//! use annals::model::search::query;
//! use annals::search::{Search, SearchRequest, Wanted};
//! use annals::sync::{self, Stage, SyncOptions};
//! # let directory = tempfile::tempdir()?;
//! # let opencode = OpencodeDirectory::open_or_create(&directory.path().join("opencode"))?;
//!
//! let store = annals::SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
//! let options = SyncOptions { stage: Stage::Text, full: false, events: false, own: true };
//! let outcome = sync::sync(&store, &[&opencode], options, &())?; // Only what has changed is read.
//! println!("{} of {} sessions are new", outcome.new, outcome.sessions);
//!
//! let found = store.search(&SearchRequest::new(Wanted::Words(query::parse("\"empty cart\" role:user")?)))?;
//! for hit in &found.hits {
//!     println!("{} {}: {}", hit.session, hit.title, hit.snippet.text);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

pub mod change_log;
pub mod check;
pub mod compaction;
pub mod copy;
pub mod difference;
mod draft;
pub mod events;
pub mod facade;
pub mod family;
pub mod figures;
pub mod find;
pub mod follow;
pub mod fork;
pub mod history;
pub mod home;
pub mod home_url;
pub mod homes;
pub mod ids;
pub mod import;
pub mod interrupted;
pub mod lease;
pub mod llm;
pub mod messages;
pub mod open;
pub mod ops;
mod parallel;
mod platform;
pub mod problem;
pub mod project;
pub mod query;
pub mod record;
pub mod remains;
pub mod remove;
pub mod replay;
pub mod revert;
pub mod scratch;
pub mod search;
pub mod session_changes;
mod slug;
pub mod snapshot;
mod sqlite;
mod state_hash;
pub mod stats;
pub mod store;
pub mod stores;
pub mod summarize;
pub mod summary;
pub mod sync;
pub mod turn;
pub mod turns;
pub mod upkeep;
pub mod wire;
pub mod workspace;

pub use annals_core as model;
pub use facade::{Message, Session, Store};
pub use home_url::HomeUrl;
pub use open::open;
pub use stores::sqlite::SqliteStore;

/// The Rust in the README is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
