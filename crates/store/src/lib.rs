//! The store that coding-agent conversations deserve: transactional, durable, with history and search, in OpenCode's own
//! format.
//!
//! A [`home`] is a place where sessions live: a store of annals ([`SqliteStore`], `annals.db`), or a directory or database of
//! OpenCode's. [`open()`] opens any of them by its path. All are read through [`home::Read`] and changed through
//! [`home::Write`]; a store also keeps [`history`], can be [searched](search) and [subscribed to](events), and
//! [follows](sync) the homes of agents. Documents are kept byte for byte; [`model`] has the lenses through which they are
//! read and from which new ones are written.
//!
//! # An agent stores a turn
//!
//! ```
//! use annals::home::{Read, Write};
//! use annals::model::id::ProjectId;
//! use annals::model::lens::{MessageTime, Session, SessionTime, TextPart, UserMessage};
//! use annals::model::{Document, Key, Transaction};
//! use annals::{SqliteStore, ids};
//!
//! let directory = tempfile::tempdir()?;
//! let store = SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
//! let (project, now) = (ProjectId::global(), ids::now());
//! let (session, message, part) = (ids::new_session(), ids::new_message(), ids::new_part());
//!
//! let mut turn = Transaction::new("a prompt arrives");
//! turn.insert(
//!     Key::Session(project.clone(), session.clone()),
//!     Document::new(&Session {
//!         id: Some((&session).into()),
//!         project_id: Some((&project).into()),
//!         directory: Some("/home/me/shop".into()),
//!         title: Some("Fix the empty cart".into()),
//!         time: Some(SessionTime { created: Some(now), updated: Some(now), ..Default::default() }),
//!         ..Default::default()
//!     }),
//! );
//! turn.insert(
//!     Key::Message(session.clone(), message.clone()),
//!     Document::new(&UserMessage {
//!         id: Some((&message).into()),
//!         session_id: Some((&session).into()),
//!         time: Some(MessageTime { created: Some(now), completed: None }),
//!         agent: Some("build".into()),
//!         ..Default::default()
//!     }),
//! );
//! turn.insert(
//!     Key::Part(session.clone(), message.clone(), part.clone()),
//!     Document::new(&TextPart {
//!         id: Some((&part).into()),
//!         session_id: Some((&session).into()),
//!         message_id: Some((&message).into()),
//!         text: Some("The cart crashes when it is empty.".into()),
//!         ..Default::default()
//!     }),
//! );
//! let receipt = store.commit(turn)?; // All three documents are on the disk now, or none.
//! assert_eq!(receipt.revision, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To have OpenCode itself go on with the session, commit the same transaction to one of its homes:
//! [`homes::opencode::directory::OpencodeDirectory`] or [`homes::opencode::database::OpencodeDatabase`].
//!
//! # Reading it back
//!
//! ```
//! # use annals::{SqliteStore, home::{Read, Write}, model::{Document, Key, Transaction, id::ProjectId}};
//! # let directory = tempfile::tempdir()?;
//! # let url = directory.path().join("annals.db").display().to_string();
//! # SqliteStore::open_or_create(url.as_ref())?;
//! use annals::home::{MessageRange, Want};
//! use annals::model::lens::Part;
//!
//! let home = annals::open(&url)?; // A store, or a home of OpenCode's: reading is the same.
//! for record in home.sessions(&Default::default())?.value {
//!     println!("{} {}", record.id, record.info.title());
//!     // A message at a time, so memory stays flat however long the session is.
//!     for message in home.messages(&record, &MessageRange::ALL, Want::Parts) {
//!         for part in &message?.parts {
//!             if let Part::Text(part) = part.document.lens() {
//!                 println!("  {}", part.text.unwrap_or_else(|| "".into()));
//!             }
//!         }
//!     }
//! }
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
//! use annals::search::{Request, Wanted};
//! use annals::sync::{self, Options, Stage};
//! # let directory = tempfile::tempdir()?;
//! # let opencode = OpencodeDirectory::open_or_create(&directory.path().join("opencode"))?;
//!
//! let store = annals::SqliteStore::open_or_create(&directory.path().join("annals.db"))?;
//! let options = Options { stage: Stage::Text, full: false, events: false, own: true };
//! let account = sync::sync(&store, &[&opencode], options, &())?; // Only what has changed is read.
//! println!("{} of {} sessions are new", account.new, account.sessions);
//!
//! let found = store.search(&Request::new(Wanted::Words(query::parse("\"empty cart\" role:user")?)))?;
//! for hit in &found.hits {
//!     println!("{} {}: {}", hit.session, hit.title, hit.snippet.text);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

pub mod check;
pub mod copy;
pub mod difference;
pub mod events;
pub mod family;
pub mod figures;
pub mod find;
pub mod history;
pub mod home;
pub mod homes;
pub mod ids;
pub mod import;
pub mod messages;
pub mod open;
pub mod ops;
mod parallel;
mod platform;
pub mod problem;
pub mod project;
pub mod query;
pub mod record;
pub mod remove;
pub mod scratch;
pub mod search;
mod sqlite;
pub mod stats;
pub mod stores;
pub mod summarize;
pub mod summary;
pub mod sync;
pub mod wire;
pub mod workspace;

pub use annals_core as model;
pub use open::open;
pub use stores::sqlite::SqliteStore;

/// The Rust in the README is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
