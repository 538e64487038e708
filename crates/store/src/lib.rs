//! A store for coding-agent conversations, in OpenCode's own format.
//!
//! A [`home`] is a place where sessions live. [`open()`] one, ask it ([`home::Read`]), change it ([`home::Write`]).
//! Documents are kept byte for byte; [`model`] has the lenses through which they are read and from which new ones are
//! written.
//!
//! An agent that stores a turn so that OpenCode 1.1 can go on with it:
//!
//! ```
//! use annals::home::{Read, Write, Want, opencode_dir::OpencodeDir};
//! use annals::ids;
//! use annals::model::id::ProjectId;
//! use annals::model::lens::{MessageTime, ModelRef, Session, SessionTime, TextPart, UserMessage};
//! use annals::model::{Document, Key, Transaction};
//! use std::ops::ControlFlow;
//!
//! let directory = tempfile::tempdir()?;
//! let home = OpencodeDir::open_or_create(directory.path())?;
//! let (project, now) = (ProjectId::global(), ids::now());
//! let (session, message, part) = (ids::new_session(), ids::new_message(), ids::new_part());
//!
//! let mut transaction = Transaction::new("a prompt arrives");
//! transaction.insert(
//!     Key::Session(project.clone(), session.clone()),
//!     Document::new(&Session {
//!         id: Some((&session).into()),
//!         version: Some("1.1.65".into()),
//!         project_id: Some((&project).into()),
//!         directory: Some("/home/me/shop".into()),
//!         title: Some("Fix the empty cart".into()),
//!         time: Some(SessionTime { created: Some(now), updated: Some(now), ..Default::default() }),
//!         ..Default::default()
//!     }),
//! );
//! transaction.insert(
//!     Key::Message(session.clone(), message.clone()),
//!     Document::new(&UserMessage {
//!         id: Some((&message).into()),
//!         session_id: Some((&session).into()),
//!         time: Some(MessageTime { created: Some(now), completed: None }),
//!         agent: Some("build".into()),
//!         model: Some(ModelRef { provider_id: Some("acme".into()), model_id: Some("large".into()), variant: None }),
//!         ..Default::default()
//!     }),
//! );
//! transaction.insert(
//!     Key::Part(session.clone(), message.clone(), part.clone()),
//!     Document::new(&TextPart {
//!         id: Some((&part).into()),
//!         session_id: Some((&session).into()),
//!         message_id: Some((&message).into()),
//!         text: Some("The cart crashes when it is empty.".into()),
//!         ..Default::default()
//!     }),
//! );
//! home.commit(transaction)?; // All three documents are on the disk now, or none.
//!
//! let record = home.session(&session)?.expect("it was just stored");
//! assert_eq!(record.stored.document.lens::<Session>().title.unwrap(), "Fix the empty cart");
//! home.messages(&record, Want::Parts, &mut |message| {
//!     assert_eq!(message.parts[0].document.lens::<annals::model::lens::TextPart>().text.unwrap(), "The cart crashes when it is empty.");
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

pub mod check;
pub mod copy;
pub mod figures;
pub mod find;
pub mod history;
pub mod home;
pub mod ids;
pub mod import;
pub mod open;
mod parallel;
mod platform;
pub mod project;
pub mod query;
pub mod remove;
pub mod search;
mod sqlite;
pub mod stats;
pub mod summary;
pub mod sync;

pub use annals_core as model;
pub use open::open;

/// The Rust in the README is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
