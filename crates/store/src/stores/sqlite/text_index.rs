//! The text index: a directory beside the store, made of its documents by tantivy. It says which revision it has reached,
//! so it can lag, be lost or be deleted without harm.
//!
//! The next writer repairs whatever a killed writer, a failed disk or another program leaves behind: it removes files that the last
//! commit does not name, and deletes and rebuilds an index that cannot be used.

pub(crate) mod entry;
mod files;
mod numbered;
mod verified;
mod words;

use std::collections::HashSet;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use annals_core::id::Millis;
use rayon::prelude::*;
use rusqlite::OptionalExtension;
use tantivy::indexer::LogMergePolicy;
use tantivy::{Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher};

use super::SqliteStore;
use super::finding::ToIndex;
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::past::latest_of;
use crate::follow::{self, Indexable};
use crate::home::ReadError;
use crate::parallel;
use crate::platform::{self, Stamp};
use crate::search::{Indexed, SearchError};
use crate::store::Store;
use entry::{IndexEntry, NUMBER, TOKENIZER, entry, schema};
use files::{IndexFiles, META, VERIFIED};
use numbered::Numbered;
use verified::VerifyScope;
use words::{Backlog, WordTokenizer};

/// The version of the index. It changes whenever older indexes can no longer be used.
const VERSION: u64 = 3;
/// Upper bound on the memory of tantivy for data that is not yet on the disk.
const MEMORY: usize = 64 << 20;
/// Upper bound on the threads that share that memory; with less than 16 MB each they would write many small files.
const MAX_THREADS: usize = 4;
/// Files with this many documents are not merged. Merging those that a long sync makes would take longer than making
/// them, and more memory; searching some dozens takes little longer than searching one.
const MERGED: usize = 10_000;
/// Number of documents that each thread reads at once.
const BATCH: usize = 256;
/// Upper bound on the tries to open an index that another process commits to meanwhile.
const MAX_TRIES: usize = 5;

/// Whether documents of a kind can have text to be found.
fn is_indexed(kind: Kind) -> bool {
    matches!(kind, Kind::Session | Kind::Message | Kind::Part)
}

/// The text index of a store.
#[derive(Debug)]
pub(super) struct TextIndex {
    index: Index,
    files: IndexFiles,
    path: PathBuf,
    backlog: Arc<Backlog>,
}

/// The text index as it was when it was last written, kept open for the next search.
#[derive(Debug)]
pub(super) struct OpenIndex {
    searcher: Searcher,
    reached: Reached,
    /// The stamp of the file that tantivy replaces when it commits.
    stamp: Stamp,
}

/// The state of a store that an index has reached.
#[derive(Debug, PartialEq, Eq)]
struct Reached {
    revision: i64,
    /// When that revision was made. A store that has lost its last revisions gives their numbers to new ones.
    time: Millis,
    store: String,
}

impl TextIndex {
    /// Opens the index of a store to write to it. Rebuilds an index that cannot be used: all its content is in the store.
    /// Called with the lock of the index held.
    fn open(store: &SqliteStore) -> Result<TextIndex, SearchError> {
        if let Ok(opened) = TextIndex::existing(&store.index_path())
            && let Some(reached) = opened.reached()
            && store.has_reached(&reached)?
        {
            return Ok(opened);
        }
        TextIndex::create(store)
    }

    /// Makes an empty index, in place of an existing one. Called with the lock of the index held.
    fn create(store: &SqliteStore) -> Result<TextIndex, SearchError> {
        let path = store.index_path();
        let failed = |what: String| SearchError::Index { path: path.display().to_string(), what };
        IndexFiles::create(&path).map_err(|error| failed(error.to_string()))?;
        let files = IndexFiles::open(&path).map_err(failed)?;
        Index::create(files, schema(), IndexSettings::default())
            .map_err(|error| failed(error.to_string()))?;
        TextIndex::existing(&path).map_err(failed)
    }

    /// The index at a path, or why it cannot be used.
    fn existing(path: &Path) -> Result<TextIndex, String> {
        let files = IndexFiles::open(path)?;
        let index = Index::open(files.clone()).map_err(|error| error.to_string())?;
        if index.schema() != schema() {
            return Err("another version of annals made it".to_owned());
        }
        let meta = index.load_metas().map_err(|error| error.to_string())?;
        if let Some(missing) = files.missing(&meta) {
            return Err(format!("{} is missing", missing.display()));
        }
        let backlog = Arc::<Backlog>::default();
        index.tokenizers().register(TOKENIZER, WordTokenizer::new(backlog.clone()));
        Ok(TextIndex { index, files, path: path.to_owned(), backlog })
    }

    /// The state that the index has reached. None for an index that was only just made, or made by another version.
    fn reached(&self) -> Option<Reached> {
        let payload = self.index.load_metas().ok()?.payload?;
        let mut words = payload.splitn(4, ' ');
        if words.next()?.parse() != Ok(VERSION) {
            return None;
        }
        let (revision, time) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Reached { revision, time, store: words.next()?.to_owned() })
    }

    /// Opens a writer. Called with the lock of the index held. Removes the leftovers of a killed writer first, and reads
    /// all that it committed once.
    fn writer(&self, threads: usize) -> Result<IndexWriter, SearchError> {
        let was_cut_short = self.files.begin_writing().map_err(|error| self.failed(error))?;
        let meta = self.index.load_metas().map_err(|error| self.failed(error))?;
        let scope = if was_cut_short { VerifyScope::All } else { VerifyScope::Changed };
        verified::verify(&self.index, &self.files, &meta, scope).map_err(|what| self.failed(what))?;
        self.files.sweep(&meta).map_err(|error| self.failed(error))?;
        self.index.writer_with_num_threads(threads, MEMORY).map_err(|error| self.failed(error))
    }

    /// Notes that everything was written, and that the files are verified.
    fn end_writing(&self) {
        if let Ok(meta) = self.index.load_metas() {
            verified::note(&self.files, &meta);
        }
        self.files.end_writing();
    }

    fn failed(&self, error: impl std::fmt::Display) -> SearchError {
        SearchError::Index { path: self.path.display().to_string(), what: error.to_string() }
    }
}

impl SqliteStore {
    /// Where the text index is: `annals.index` beside `annals.db`.
    pub fn index_path(&self) -> PathBuf {
        self.path().with_extension("index")
    }

    /// The text index as it is, if it exists, and the number of documents that it does not know yet. Makes and removes
    /// nothing: another process may be about to make the index. An index that cannot be used is an error, unless the store
    /// has nothing to index.
    pub(super) fn search_index(&self) -> Result<(Option<Searcher>, usize), SearchError> {
        let mut kept = self.open_index.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.index_path();
        let stamp = Stamp::at(&path.join(META));
        let found = match kept.take().filter(|open| open.stamp == stamp) {
            Some(open) => Ok(open),
            None => open_latest(&path),
        };
        let found = match found {
            Ok(open) if !self.has_reached(&open.reached)? => {
                Err("it belongs to another state of the store".to_owned())
            }
            found => found,
        };
        let reached = found.as_ref().map_or(0, |open| open.reached.revision);
        let unindexed = match self.head()? > reached {
            true => self.read(|connection| {
                let changed = latest_of(connection, reached, i64::MAX, |_| true)?;
                Ok(changed.into_iter().filter(|(_, kind)| is_indexed(*kind)).count())
            })?,
            false => 0,
        };
        match found {
            Ok(open) => {
                let searcher = open.searcher.clone();
                *kept = Some(open);
                Ok((Some(searcher), unindexed))
            }
            Err(_) if unindexed == 0 => Ok((None, 0)),
            Err(what) => Err(SearchError::Index { path: path.display().to_string(), what }),
        }
    }

    /// Forgets that the files of the text index were verified: the next search verifies them all.
    pub(super) fn distrust_index(&self) {
        *self.open_index.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = files::discard(&self.index_path().join(VERIFIED));
    }

    /// Brings the text index up to date. `progress` gets the number of documents done, and of all.
    ///
    /// Waits while another process writes to the index.
    pub(super) fn update_text_index(
        &self,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Indexed, SearchError> {
        let head = self.head()?;
        if let Ok(existing) = TextIndex::existing(&self.index_path())
            && let Some(reached) = existing.reached()
            && reached.revision >= head
            && self.has_reached(&reached)?
        {
            return Ok(Indexed { documents: 0, revision: reached.revision });
        }
        self.begin_text_indexing().finish_all(progress)
    }

    /// Begins to add to the text index. Waits while another process writes to it.
    pub(super) fn begin_text_indexing(&self) -> TextIndexing<'_> {
        match self.lock_index() {
            Ok(queue) => TextIndexing { store: self, adding: Adding::open(self), queue: Some(queue) },
            Err(error) => TextIndexing { store: self, adding: Err(error), queue: None },
        }
    }

    /// Deletes the text index and rebuilds it.
    pub(super) fn rebuild_text_index(
        &self,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Indexed, SearchError> {
        let _queue = self.lock_index()?;
        Adding::empty(self)?.finish(self, progress)
    }

    /// Removes documents from the text index for good: rewrites the files that hold them. `was` is the identity that the
    /// store had while it held them. Deletes an index that cannot be changed.
    pub(super) fn remove_from_index(&self, documents: &[DocumentRow], was: &str) -> Result<(), SearchError> {
        let _queue = self.lock_index()?;
        let path = self.index_path();
        let removed = match TextIndex::existing(&path) {
            Ok(text_index) => {
                let remove = || self.remove_documents(&text_index, documents, was);
                panic::catch_unwind(AssertUnwindSafe(remove)).unwrap_or(Ok(false)).unwrap_or(false)
            }
            Err(_) => false,
        };
        match removed {
            true => Ok(()),
            false => files::discard(&path).map_err(|error| SearchError::Index {
                path: path.display().to_string(),
                what: error.to_string(),
            }),
        }
    }

    /// Removes documents from an index. False if the index is of another store, or was never filled.
    fn remove_documents(
        &self,
        text_index: &TextIndex,
        documents: &[DocumentRow],
        was: &str,
    ) -> Result<bool, SearchError> {
        let Some(reached) = text_index.reached().filter(|reached| reached.store == was) else {
            return Ok(false);
        };
        let reached = Reached { store: self.identity()?, ..reached };
        let mut writer = text_index.writer(1)?;
        text_index.remove(&writer, documents.iter().copied())?;
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
        writer.wait_merging_threads().map_err(|error| text_index.failed(error))?;
        text_index.end_writing();
        Ok(true)
    }

    /// The identity of this store, by which an index of another store is recognised as useless.
    pub(super) fn identity(&self) -> Result<String, ReadError> {
        self.read(|connection| {
            connection.query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| row.get(0))
        })
    }

    /// When a revision was made. None if the revision does not exist; 0 for the state before the first.
    fn time_of(&self, revision: i64) -> Result<Option<Millis>, ReadError> {
        if revision == 0 {
            return Ok(Some(0));
        }
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT time FROM revision WHERE n = ?1")?;
            statement.query_row([revision], |row| row.get(0)).optional()
        })
    }

    /// Whether a state is one that this store was in.
    fn has_reached(&self, reached: &Reached) -> Result<bool, ReadError> {
        Ok(self.identity()? == reached.store && self.time_of(reached.revision)? == Some(reached.time))
    }

    /// Waits until no other process writes to the index, and keeps others out until the file is closed.
    fn lock_index(&self) -> Result<File, SearchError> {
        let path = crate::sqlite::beside(self.path(), "-index-lock");
        let locked = platform::open_private_file(&path).and_then(|queue| queue.lock().map(|()| queue));
        locked.map_err(|error| SearchError::Index {
            path: self.index_path().display().to_string(),
            what: format!("cannot lock it: {error}"),
        })
    }
}

/// Opens an index to search in it. While another process commits, the files that the commit before named may vanish.
fn open_latest(path: &Path) -> Result<OpenIndex, String> {
    let mut tries = 0;
    loop {
        let stamp = Stamp::at(&path.join(META));
        let opened = open_to_search(path, stamp);
        tries += 1;
        if opened.is_ok() || tries == MAX_TRIES || stamp == Stamp::at(&path.join(META)) {
            return opened;
        }
    }
}

fn open_to_search(path: &Path, stamp: Stamp) -> Result<OpenIndex, String> {
    let text_index = TextIndex::existing(path)?;
    let reached = text_index.reached().ok_or("it is not complete")?;
    let meta = text_index.index.load_metas().map_err(|error| error.to_string())?;
    verified::verify(&text_index.index, &text_index.files, &meta, VerifyScope::Changed)?;
    // tantivy need not watch the file in the background: each search checks it.
    let builder = text_index.index.reader_builder().reload_policy(ReloadPolicy::Manual);
    let reader: IndexReader = builder.try_into().map_err(|error: tantivy::TantivyError| error.to_string())?;
    Ok(OpenIndex { searcher: reader.searcher(), reached, stamp })
}

/// The text index while documents are added to it.
pub(super) struct TextIndexing<'s> {
    store: &'s SqliteStore,
    /// The index with the documents added so far, or the error.
    adding: Result<Adding, SearchError>,
    /// The lock that a writer holds; closing the file lets the next writer in. None if it could not be locked.
    queue: Option<File>,
}

/// An index with the documents that were added since its last commit.
struct Adding {
    text_index: TextIndex,
    /// The revision that the index had reached before. None if it is new.
    reached: Option<i64>,
    /// The highest number of a document in the index. Documents with a higher one replace nothing.
    highest: DocumentRow,
    /// Made when there is something to add.
    writer: Option<IndexWriter>,
    /// Revisions whose documents were all added when they were committed.
    covered: HashSet<i64>,
    n_added: usize,
    /// The identity of the store before anything was added. If sessions are forgotten meanwhile, the identity changes, and
    /// the index is useless.
    identity: String,
}

impl follow::Indexing for TextIndexing<'_> {
    /// Adds the documents of a revision. They must be all that an index knows of that revision.
    fn add(&mut self, committed: Indexable) {
        let Some((revision, documents)) = committed.content::<(i64, Vec<ToIndex>)>() else { return };
        if let Ok(adding) = &mut self.adding
            && let Err(error) = adding.add(revision, documents)
        {
            self.adding = Err(error);
        }
    }

    fn finish(self: Box<Self>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<usize, SearchError> {
        self.finish_all(progress).map(|indexed| indexed.documents)
    }
}

impl TextIndexing<'_> {
    /// Finishes. If that fails, deletes the index and rebuilds it, once.
    fn finish_all(self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        let TextIndexing { store, adding, queue } = self;
        let done = adding.and_then(|adding| adding.finish(store, progress));
        match done {
            // Where there is no room, an index that lags is better than none.
            Err(SearchError::Index { .. }) if queue.is_some() && !is_full(store) => {
                Adding::empty(store)?.finish(store, progress)
            }
            done => done,
        }
    }
}

/// Whether the disk of a store has no room left.
fn is_full(store: &SqliteStore) -> bool {
    store.path().parent().is_some_and(platform::is_full)
}

impl Adding {
    /// Begins where the index of a store ends.
    fn open(store: &SqliteStore) -> Result<Adding, SearchError> {
        Adding::new(store, TextIndex::open(store)?)
    }

    /// Begins with an empty index, in place of an existing one.
    fn empty(store: &SqliteStore) -> Result<Adding, SearchError> {
        Adding::new(store, TextIndex::create(store)?)
    }

    fn new(store: &SqliteStore, text_index: TextIndex) -> Result<Adding, SearchError> {
        let was_empty = text_index.index.load_metas().is_ok_and(|metas| metas.segments.is_empty());
        Ok(Adding {
            reached: text_index.reached().map(|reached| reached.revision),
            text_index,
            highest: DocumentRow(if was_empty { 0 } else { i64::MAX }),
            writer: None,
            covered: HashSet::new(),
            n_added: 0,
            identity: store.identity()?,
        })
    }

    fn add(&mut self, revision: i64, documents: Vec<ToIndex>) -> Result<(), SearchError> {
        self.open_writer()?;
        let Adding { text_index, writer: Some(writer), .. } = self else { return Ok(()) };
        // If a document was stored twice, the later state counts.
        let mut seen = HashSet::with_capacity(documents.len());
        let latest: Vec<ToIndex> =
            documents.into_iter().rev().filter(|document| seen.insert(document.n)).collect();
        text_index.remove(writer, seen.into_iter().filter(|n| *n <= self.highest))?;
        self.n_added += latest.len();
        for ToIndex { n, session, text } in latest.into_iter().rev() {
            text_index.add(writer, n, text.map(|entry| (session, *entry)))?;
            self.highest = self.highest.max(n);
        }
        self.covered.insert(revision);
        Ok(())
    }

    fn open_writer(&mut self) -> Result<(), SearchError> {
        if self.writer.is_none() {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
            let writer = self.text_index.writer(threads)?;
            let mut policy = LogMergePolicy::default();
            policy.set_min_num_segments(8);
            policy.set_max_docs_before_merge(MERGED);
            writer.set_merge_policy(Box::new(policy));
            self.writer = Some(writer);
        }
        Ok(())
    }

    fn finish(
        self,
        store: &SqliteStore,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Indexed, SearchError> {
        let damaged = self.text_index.failed("it is damaged");
        // If a file was damaged after it was verified, tantivy may panic.
        let finish = AssertUnwindSafe(|| self.add_rest(store, progress));
        panic::catch_unwind(finish).unwrap_or(Err(damaged))
    }

    /// Adds the documents of the store that were not added yet, and commits.
    fn add_rest(
        mut self,
        store: &SqliteStore,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Indexed, SearchError> {
        let head = store.head()?;
        if let Some(revision) = self.reached.filter(|reached| *reached >= head) {
            return Ok(Indexed { documents: 0, revision });
        }
        let documents: Vec<DocumentRow> = store.read(|connection| {
            let is_missing = |revision: i64| !self.covered.contains(&revision);
            let changed = latest_of(connection, self.reached.unwrap_or(0), head, is_missing)?;
            let mut documents: Vec<DocumentRow> =
                changed.into_iter().filter(|(_, kind)| is_indexed(*kind)).map(|(n, _)| n).collect();
            documents.sort_unstable();
            Ok(documents)
        })?;
        let reached = Reached {
            revision: head,
            time: store.time_of(head)?.unwrap_or(0),
            store: std::mem::take(&mut self.identity),
        };
        self.open_writer()?;
        let Adding { text_index, writer: Some(mut writer), highest, n_added, .. } = self else {
            return Ok(Indexed::default());
        };
        text_index.remove(&writer, documents.iter().copied().filter(|n| *n <= highest))?;
        let done = AtomicUsize::new(0);
        let added: Result<Vec<()>, SearchError> = parallel::run(|| {
            let batches = documents.par_chunks(BATCH).map(|batch| {
                // Documents are read in one transaction, and given to tantivy after it.
                let read = store.read(|connection| {
                    let mut context = None;
                    let entries = batch.iter().map(|n| entry(connection, *n, &mut context));
                    entries.collect::<rusqlite::Result<Vec<_>>>()
                })?;
                for (n, entry) in batch.iter().zip(read) {
                    text_index.add(&writer, *n, entry)?;
                }
                progress(done.fetch_add(batch.len(), Ordering::Relaxed) + batch.len(), documents.len());
                Ok(())
            });
            batches.collect()
        });
        added?;
        text_index.commit(&mut writer, &reached)?;
        // A merge that fails leaves the commit as it is.
        let _ = writer.wait_merging_threads();
        text_index.end_writing();
        Ok(Indexed { documents: documents.len() + n_added, revision: head })
    }
}

impl TextIndex {
    /// Removes the entries of these documents.
    fn remove(
        &self,
        writer: &IndexWriter,
        documents: impl Iterator<Item = DocumentRow>,
    ) -> Result<(), SearchError> {
        let documents = Numbered::new(NUMBER, documents);
        if !documents.is_empty() {
            writer.delete_query(Box::new(documents)).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Adds a document of a session, unless it has no text to be found.
    fn add(
        &self,
        writer: &IndexWriter,
        n: DocumentRow,
        entry: Option<(SessionRow, IndexEntry)>,
    ) -> Result<(), SearchError> {
        if let Some((session, entry)) = entry {
            self.backlog.add(entry.n_bytes);
            writer.add_document(entry.numbered(n, session)).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn commit(&self, writer: &mut IndexWriter, reached: &Reached) -> Result<(), SearchError> {
        let mut prepared = writer.prepare_commit().map_err(|error| self.failed(error))?;
        let Reached { revision, time, store } = reached;
        prepared.set_payload(&format!("{VERSION} {revision} {time} {store}"));
        prepared.commit().map(drop).map_err(|error| self.failed(error))
    }
}
