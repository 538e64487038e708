//! The text index: a directory beside the store, made of its documents by tantivy. It says which revision it has reached,
//! so it can lag, be lost or be thrown away without harm.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use annals_core::id::Millis;
use annals_core::lens::{Message, Session};
use annals_core::search::text::{Weight, searchable, weight};
use annals_core::search::token::Tokens;
use annals_core::{Document, Key};
use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension};
use tantivy::indexer::LogMergePolicy;
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexWriter, TantivyDocument, Term};

use super::Annals;
use super::codec;
use super::kind::Kind;
use super::synced::{Text, ToIndex};
use crate::figures::{Figures, Role};
use crate::home::ReadError;
use crate::search::{Indexed, SearchError};
use crate::{parallel, platform};

/// Changes whenever an index that was made before cannot be used any more.
const VERSION: u64 = 1;
/// What tantivy may use for what is not yet on the disk.
const MEMORY: usize = 48 << 20;
/// So many documents are read at once by each thread.
const BATCH: usize = 256;
/// So many bytes of text are given to tantivy before it is waited for.
const MAX_AHEAD: usize = 24 << 20;
/// The name under which the tokenizer is known to tantivy.
const TOKENIZER: &str = "annals";

/// The fields of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    /// The number of the document.
    pub(super) n: Field,
    /// The number of its session.
    pub(super) session: Field,
    /// When its message was made.
    pub(super) made: Field,
    /// How much a hit in it counts.
    pub(super) weight: Field,
    /// Its properties, `role:user` and such.
    pub(super) property: Field,
    pub(super) text: Field,
}

/// The text index of a store.
#[derive(Debug)]
pub(super) struct TextIndex {
    pub(super) index: Index,
    pub(super) fields: Fields,
    path: PathBuf,
}

/// Where an index is, and of what.
#[derive(Debug, PartialEq, Eq)]
struct Reached {
    revision: i64,
    store: String,
}

impl TextIndex {
    /// Opens the index of a store. One that cannot be used is made anew: there is nothing in it that is not in the store.
    fn open(store: &Annals) -> Result<TextIndex, SearchError> {
        let path = store.index_path();
        let failed = |what: String| SearchError::Index { path: path.display().to_string(), what };
        if let Some(opened) = TextIndex::existing(&path) {
            let reached = opened.reached();
            if reached.is_some_and(|reached| store.identity().is_ok_and(|store| store == reached.store)) {
                return Ok(opened);
            }
        }
        let _ = std::fs::remove_dir_all(&path);
        platform::create_private_directory(&path).map_err(|error| failed(error.to_string()))?;
        let (schema, _) = schema();
        Index::create_in_dir(&path, schema).map_err(|error| failed(error.to_string()))?;
        TextIndex::existing(&path).ok_or_else(|| failed("it was just made and cannot be opened".to_owned()))
    }

    /// The index at a path, if it is one.
    fn existing(path: &Path) -> Option<TextIndex> {
        let index = Index::open_in_dir(path).ok()?;
        let (expected, fields) = schema();
        if index.schema() != expected {
            return None;
        }
        index.tokenizers().register(TOKENIZER, Words::default());
        Some(TextIndex { index, fields, path: path.to_owned() })
    }

    /// How far it has got. None for an index that was only just made, or by another version.
    fn reached(&self) -> Option<Reached> {
        let payload = self.index.load_metas().ok()?.payload?;
        let (version, rest) = payload.split_once(' ')?;
        let (revision, store) = rest.split_once(' ')?;
        (version.parse() == Ok(VERSION))
            .then_some(Reached { revision: revision.parse().ok()?, store: store.to_owned() })
    }

    fn failed(&self, error: impl std::fmt::Display) -> SearchError {
        SearchError::Index { path: self.path.display().to_string(), what: error.to_string() }
    }
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let text = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_fieldnorms(true)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let property = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic);
    let fields = Fields {
        n: schema.add_u64_field("n", INDEXED | FAST),
        session: schema.add_u64_field("session", NumericOptions::default().set_fast()),
        made: schema.add_i64_field("made", NumericOptions::default().set_fast()),
        weight: schema.add_u64_field("weight", NumericOptions::default().set_fast()),
        property: schema.add_text_field("property", TextOptions::default().set_indexing_options(property)),
        text: schema.add_text_field("text", TextOptions::default().set_indexing_options(text)),
    };
    (schema.build(), fields)
}

impl Annals {
    /// Where the text index is: `annals.index` beside `annals.db`.
    pub fn index_path(&self) -> PathBuf {
        self.path().with_extension("index")
    }

    /// The text index as it is, and how many documents it does not know yet.
    pub(super) fn text_index(&self) -> Result<(TextIndex, usize), SearchError> {
        let text_index = TextIndex::open(self)?;
        let reached = text_index.reached().map_or(0, |reached| reached.revision);
        let behind = match self.head()? > reached {
            true => self.read(|connection| {
                connection
                    .prepare_cached("SELECT count(*) FROM document WHERE revision > ?1 AND kind <= 4")?
                    .query_row([reached], |row| row.get(0))
            })?,
            false => 0,
        };
        Ok((text_index, behind))
    }

    /// Brings the text index up to date. `progress` is told how many documents of how many are done.
    ///
    /// While another process does the same, this one waits.
    pub fn update_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        let head = self.head()?;
        let existing = TextIndex::existing(&self.index_path());
        if let Some(Reached { revision, store }) = existing.as_ref().and_then(TextIndex::reached)
            && revision >= head
            && self.identity()? == store
        {
            return Ok(Indexed { documents: 0, revision });
        }
        self.begin_indexing()?.finish(progress)
    }

    /// Begins to add to the text index. While another process does, this one waits.
    pub(crate) fn begin_indexing(&self) -> Result<Indexing<'_>, SearchError> {
        let queue = self.index_queue()?;
        queue.lock().map_err(|error| SearchError::Index {
            path: self.index_path().display().to_string(),
            what: error.to_string(),
        })?;
        let text_index = TextIndex::open(self)?;
        let reached = text_index.reached().map_or(0, |reached| reached.revision);
        let was_empty = text_index.index.load_metas().is_ok_and(|metas| metas.segments.is_empty());
        Ok(Indexing {
            store: self,
            text_index,
            reached,
            was_empty,
            writer: None,
            added: HashMap::new(),
            ahead: 0,
            identity: self.identity()?,
            _queue: queue,
        })
    }

    /// Throws the text index away and makes it anew.
    pub fn reindex_text(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        let queue = self.index_queue()?;
        let failed = |error: std::io::Error| SearchError::Index {
            path: self.index_path().display().to_string(),
            what: error.to_string(),
        };
        queue.lock().map_err(failed)?;
        match std::fs::remove_dir_all(self.index_path()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        queue.unlock().map_err(failed)?;
        self.update_index(progress)
    }

    /// Removes documents from the text index for good: the files that hold them are written anew without them.
    pub(super) fn remove_from_index(&self, documents: &[i64]) -> Result<(), SearchError> {
        let queue = self.index_queue()?;
        if documents.is_empty() || queue.lock().is_err() {
            return Ok(());
        }
        let Some(text_index) = TextIndex::existing(&self.index_path()) else { return Ok(()) };
        let Some(reached) = text_index.reached() else { return Ok(()) };
        let reached = Reached { store: self.identity()?, ..reached };
        let mut writer: IndexWriter =
            text_index.index.writer_with_num_threads(1, MEMORY).map_err(|error| text_index.failed(error))?;
        for n in documents {
            writer.delete_term(Term::from_field_u64(text_index.fields.n, n.unsigned_abs()));
        }
        text_index.commit(&mut writer, &reached)?;
        let segments: Vec<_> = text_index
            .index
            .load_metas()
            .map_err(|error| text_index.failed(error))?
            .segments
            .into_iter()
            .filter(|segment| segment.num_deleted_docs() > 0)
            .map(|segment| segment.id())
            .collect();
        if !segments.is_empty() {
            writer.merge(&segments).wait().map_err(|error| text_index.failed(error))?;
            text_index.commit(&mut writer, &reached)?;
        }
        writer.garbage_collect_files().wait().map_err(|error| text_index.failed(error))?;
        writer.wait_merging_threads().map_err(|error| text_index.failed(error))
    }

    /// The name of this store, made when it was: an index of another one is of no use.
    fn identity(&self) -> Result<String, ReadError> {
        self.read(|connection| {
            connection.query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| row.get(0))
        })
    }

    /// The file at which those queue who write to the index.
    fn index_queue(&self) -> Result<std::fs::File, SearchError> {
        let path = crate::sqlite::beside(self.path(), "-index-lock");
        platform::open_private_file(&path)
            .map_err(|error| SearchError::Index { path: path.display().to_string(), what: error.to_string() })
    }
}

/// The text index while something is added to it.
pub(crate) struct Indexing<'s> {
    store: &'s Annals,
    text_index: TextIndex,
    /// The revision it had reached before.
    reached: i64,
    /// Whether it was empty then: there is nothing to be replaced.
    was_empty: bool,
    /// Made when there is something to add.
    writer: Option<IndexWriter>,
    /// Documents added as they were when they were stored, with the revision of that.
    added: HashMap<i64, i64>,
    /// Bytes of text that tantivy may not have dealt with yet. It takes any number of documents and lets them wait in
    /// memory, so every now and then they are waited for.
    ahead: usize,
    identity: String,
    /// Whoever has it locked writes; closing it lets the next one in.
    _queue: std::fs::File,
}

impl Indexing<'_> {
    /// Adds a document that was just committed.
    pub(crate) fn add(&mut self, to_index: ToIndex, revision: i64) -> Result<(), SearchError> {
        let ToIndex { n, session, text } = to_index;
        let entry = match text {
            Text::Entry(entry) => Some(Entry { session, ..*entry }),
            Text::None | Text::Unknown => None,
        };
        self.open_writer()?;
        let Indexing { text_index, writer: Some(writer), reached, was_empty, .. } = self else {
            return Ok(());
        };
        self.ahead += entry.as_ref().map_or(0, |entry| entry.text.len());
        let is_known = !*was_empty || self.added.contains_key(&n);
        text_index.put(writer, n, entry, is_known)?;
        self.added.insert(n, revision);
        if self.ahead >= MAX_AHEAD {
            self.ahead = 0;
            text_index.commit(writer, &Reached { revision: *reached, store: self.identity.clone() })?;
        }
        Ok(())
    }

    fn open_writer(&mut self) -> Result<(), SearchError> {
        if self.writer.is_none() {
            let writer: IndexWriter = self
                .text_index
                .index
                .writer_with_num_threads(1, MEMORY)
                .map_err(|error| self.text_index.failed(error))?;
            let mut policy = LogMergePolicy::default();
            policy.set_min_num_segments(8);
            writer.set_merge_policy(Box::new(policy));
            self.writer = Some(writer);
        }
        Ok(())
    }

    /// Adds whatever else was committed since the index was last written, and makes it all durable.
    pub(crate) fn finish(mut self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        let store = self.store;
        let head = store.head()?;
        let was_new = self.text_index.reached().is_none();
        if self.reached >= head && !was_new {
            return Ok(Indexed { documents: 0, revision: self.reached });
        }
        let reached = self.reached;
        // Windows of documents that are given to tantivy before it is waited for.
        let windows: Vec<Vec<i64>> = store.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT n, revision, coalesce(size, 0) FROM document \
                 WHERE revision > ?1 AND revision <= ?2 AND kind BETWEEN 2 AND 4 ORDER BY n",
            )?;
            let mut rows = statement.query((reached, head))?;
            let mut windows: Vec<Vec<i64>> = vec![Vec::new()];
            let mut n_bytes = 0;
            while let Some(row) = rows.next()? {
                let (n, revision, size): (i64, i64, usize) = (row.get(0)?, row.get(1)?, row.get(2)?);
                if self.added.get(&n) == Some(&revision) {
                    continue;
                }
                n_bytes += size;
                if n_bytes > MAX_AHEAD {
                    n_bytes = size;
                    windows.push(Vec::new());
                }
                windows.last_mut().expect("there is one from the start").push(n);
            }
            Ok(windows)
        })?;
        self.open_writer()?;
        let Indexing { text_index, writer: Some(mut writer), added, identity, was_empty, .. } = self else {
            return Ok(Indexed::default());
        };
        let total: usize = windows.iter().map(Vec::len).sum();
        let done = AtomicUsize::new(0);
        for (index, window) in windows.iter().enumerate() {
            let replaced: Result<Vec<()>, SearchError> =
                parallel::run_as(crate::home::Work::Computing, || {
                    let batches = window.par_chunks(BATCH).map(|batch| {
                        // Read in one transaction, given to tantivy after it.
                        let read = store.read(|connection| {
                            let mut context = None;
                            let entries = batch.iter().map(|n| entry(connection, *n, &mut context));
                            entries.collect::<rusqlite::Result<Vec<_>>>()
                        })?;
                        for (n, entry) in batch.iter().zip(read) {
                            text_index.put(&writer, *n, entry, !was_empty || added.contains_key(n))?;
                        }
                        progress(done.fetch_add(batch.len(), Ordering::Relaxed) + batch.len(), total);
                        Ok(())
                    });
                    batches.collect()
                });
            replaced?;
            if index + 1 < windows.len() {
                text_index.commit(&mut writer, &Reached { revision: reached, store: identity.clone() })?;
            }
        }
        text_index.commit(&mut writer, &Reached { revision: head, store: identity })?;
        writer.wait_merging_threads().map_err(|error| text_index.failed(error))?;
        Ok(Indexed { documents: total + added.len(), revision: head })
    }
}

impl TextIndex {
    /// Adds a document, in place of what the index knows of it.
    fn put(
        &self,
        writer: &IndexWriter,
        n: i64,
        entry: Option<Entry>,
        is_known: bool,
    ) -> Result<(), SearchError> {
        if is_known {
            writer.delete_term(Term::from_field_u64(self.fields.n, n.unsigned_abs()));
        }
        if let Some(entry) = entry {
            writer.add_document(entry.document(n, &self.fields)).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn commit(&self, writer: &mut IndexWriter, reached: &Reached) -> Result<(), SearchError> {
        let mut prepared = writer.prepare_commit().map_err(|error| self.failed(error))?;
        prepared.set_payload(&format!("{VERSION} {} {}", reached.revision, reached.store));
        prepared.commit().map(drop).map_err(|error| self.failed(error))
    }
}

/// A document as the index takes it.
#[derive(Debug)]
pub(crate) struct Entry {
    session: i64,
    made: Millis,
    weight: Weight,
    properties: Vec<String>,
    text: String,
}

/// What parts of one message have in common; they come one after the other.
#[derive(Debug)]
pub(crate) struct Context {
    message: i64,
    session: i64,
    role: Role,
    made: Millis,
    properties: Vec<String>,
}

impl Context {
    /// What a message tells. Its numbers are not known yet.
    pub(crate) fn of(figures: &Figures) -> Context {
        let mut properties = Vec::new();
        match figures.role {
            Role::User => properties.push("role:user".to_owned()),
            Role::Assistant => properties.push("role:assistant".to_owned()),
            Role::Other => {}
        }
        properties.extend(figures.agent.as_ref().map(|agent| format!("agent:{}", agent.to_lowercase())));
        if let (Some(provider), Some(model)) = (&figures.provider, &figures.model) {
            properties.push(format!("model:{}/{}", provider.to_lowercase(), model.to_lowercase()));
        }
        Context { message: 0, session: 0, role: figures.role, made: figures.made, properties }
    }
}

impl Entry {
    fn document(self, n: i64, fields: &Fields) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_u64(fields.n, n.unsigned_abs());
        document.add_u64(fields.session, self.session.unsigned_abs());
        document.add_i64(fields.made, self.made);
        document.add_u64(fields.weight, self.weight as u64);
        for property in &self.properties {
            document.add_text(fields.property, property);
        }
        document.add_text(fields.text, self.text);
        document
    }
}

/// What the index is to know of a document. None if there is nothing in it to be found.
fn entry(connection: &Connection, n: i64, context: &mut Option<Context>) -> rusqlite::Result<Option<Entry>> {
    let row = connection
        .prepare_cached("SELECT kind, owner, hash, form, size, data FROM document WHERE n = ?1")?
        .query_row([n], |row| {
            Ok((Kind::from_number(row.get(0)?), row.get::<_, i64>(1)?, codec::document(row, 2)?))
        })
        .optional()?;
    let Some((Some(kind), owner, Some(document))) = row else { return Ok(None) };
    let message = match kind {
        Kind::Session => {
            let entry = Entry::of(&kind.any_key(), &document, None);
            return Ok(entry.map(|entry| Entry { session: n, ..entry }));
        }
        Kind::Message => n,
        Kind::Part => owner,
        _ => return Ok(None),
    };
    if context.as_ref().is_none_or(|context| context.message != message) {
        *context = context_of(connection, message)?;
    }
    Ok(Entry::of(&kind.any_key(), &document, context.as_ref()))
}

impl Entry {
    /// What the index is to know of a document; none if there is nothing in it to be found. `context` is the message that
    /// it is, or is a part of.
    pub(crate) fn of(key: &Key, document: &Document, context: Option<&Context>) -> Option<Entry> {
        let mut text = String::new();
        searchable(key, document, &mut |piece| {
            text.push_str(piece);
            text.push('\n');
        });
        if text.is_empty() {
            return None;
        }
        let message = context.and_then(|context| match context.role {
            Role::User => Some(Message::User(Box::default())),
            Role::Assistant => Some(Message::Assistant(Box::default())),
            Role::Other => None,
        });
        let mut properties = context.map(|context| context.properties.clone()).unwrap_or_default();
        let mut made = context.map_or(0, |context| context.made);
        let root = document.root();
        match key {
            Key::Part(..) => {
                for name in ["type", "tool"] {
                    let value = root.get(name).and_then(annals_core::json::Node::as_text);
                    properties.extend(value.map(|value| format!("{name}:{}", value.to_str().to_lowercase())));
                }
            }
            Key::Session(..) => {
                made = document.lens::<Session<'_>>().time.and_then(|time| time.updated).unwrap_or(0);
                properties.push("type:title".to_owned());
            }
            _ => properties.push("type:message".to_owned()),
        }
        let session = context.map_or(0, |context| context.session);
        Some(Entry { session, made, weight: weight(key, document, message.as_ref()), properties, text })
    }
}

fn context_of(connection: &Connection, message: i64) -> rusqlite::Result<Option<Context>> {
    connection
        .prepare_cached(
            "SELECT m.session, m.role, m.made, m.agent, m.provider, m.model FROM document d \
             JOIN message m ON m.session = d.owner AND m.n = d.n WHERE d.n = ?1",
        )?
        .query_row([message], |row| {
            let figures = Figures {
                agent: row.get(3)?,
                provider: row.get(4)?,
                model: row.get(5)?,
                ..Figures::bare(Role::from_number(row.get(1)?), row.get(2)?)
            };
            Ok(Context { message, session: row.get(0)?, ..Context::of(&figures) })
        })
        .optional()
}

/// Words as the index has them.
#[derive(Debug, Clone, Default)]
struct Words {
    token: Token,
}

/// The words of one text.
struct WordStream<'a> {
    tokens: Tokens<'a>,
    token: &'a mut Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream { tokens: Tokens::new(text), token: &mut self.token }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        if !self.tokens.advance() {
            return false;
        }
        let token = self.tokens.token();
        self.token.text.clear();
        self.token.text.push_str(token.text);
        self.token.position = token.position;
        self.token.offset_from = token.from;
        self.token.offset_to = token.to;
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
