//! The text index: a directory beside the store, made of its documents by tantivy. It says which revision it has reached,
//! so it can lag, be lost or be thrown away without harm.
//!
//! Whatever state a killed writer, a failed disk or somebody else leaves it in, the next writer mends: files that the last commit
//! does not name are removed, and an index that cannot be used is thrown away and built again.

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

/// Changes whenever an index that was made before cannot be used any more.
const VERSION: u64 = 3;
/// What tantivy may use for what is not yet on the disk.
const MEMORY: usize = 64 << 20;
/// So many threads share that; with less than 16 MB each they would write many small files.
const MAX_THREADS: usize = 4;
/// Files of so many documents are left as they are. To merge those that a long sync makes would take longer than to make
/// them, and more memory; to search some dozens takes little longer than one.
const MERGED: usize = 10_000;
/// So many documents are read at once by each thread.
const BATCH: usize = 256;
/// How often an index is opened again because somebody has committed to it meanwhile.
const MAX_TRIES: usize = 5;

/// Whether there can be something to be found in a document.
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
    /// Of the file that tantivy puts in place of the last when it commits.
    stamp: Stamp,
}

/// A state of a store: how far an index has got, and of what.
#[derive(Debug, PartialEq, Eq)]
struct Reached {
    revision: i64,
    /// When that revision was made. A store that has lost its last revisions gives their numbers to others.
    time: Millis,
    store: String,
}

impl TextIndex {
    /// Opens the index of a store to write to it. One that cannot be used is made anew: there is nothing in it that is not in
    /// the store. Called with the lock of the index held.
    fn open(store: &SqliteStore) -> Result<TextIndex, SearchError> {
        if let Ok(opened) = TextIndex::existing(&store.index_path())
            && let Some(reached) = opened.reached()
            && store.has_reached(&reached)?
        {
            return Ok(opened);
        }
        TextIndex::create(store)
    }

    /// Makes an empty index, in the place of what is there. Called with the lock of the index held.
    fn create(store: &SqliteStore) -> Result<TextIndex, SearchError> {
        let path = store.index_path();
        let failed = |what: String| SearchError::Index { path: path.display().to_string(), what };
        IndexFiles::create(&path).map_err(|error| failed(error.to_string()))?;
        let files = IndexFiles::open(&path).map_err(failed)?;
        Index::create(files, schema(), IndexSettings::default())
            .map_err(|error| failed(error.to_string()))?;
        TextIndex::existing(&path).map_err(failed)
    }

    /// The index at a path, or why there is none that can be used.
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

    /// How far it has got. None for an index that was only just made, or by another version.
    fn reached(&self) -> Option<Reached> {
        let payload = self.index.load_metas().ok()?.payload?;
        let mut words = payload.splitn(4, ' ');
        if words.next()?.parse() != Ok(VERSION) {
            return None;
        }
        let (revision, time) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Reached { revision, time, store: words.next()?.to_owned() })
    }

    /// Opens a writer. Called with the lock of the index held. What a writer that was killed has left is removed first, and
    /// all that it committed is read through once.
    fn writer(&self, threads: usize) -> Result<IndexWriter, SearchError> {
        let was_cut_short = self.files.begin_writing().map_err(|error| self.failed(error))?;
        let meta = self.index.load_metas().map_err(|error| self.failed(error))?;
        let scope = if was_cut_short { VerifyScope::All } else { VerifyScope::Changed };
        verified::verify(&self.index, &self.files, &meta, scope).map_err(|what| self.failed(what))?;
        self.files.sweep(&meta).map_err(|error| self.failed(error))?;
        self.index.writer_with_num_threads(threads, MEMORY).map_err(|error| self.failed(error))
    }

    /// Notes that everything was written, and that the files hold it.
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

    /// The text index as it is, if there is one, and how many documents it does not know yet. Nothing is made or removed
    /// here: another process may be about to make it. An index that cannot be used is an error, unless there is nothing that
    /// it would have to know.
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
                Err("it is of another state of the store".to_owned())
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

    /// Forgets that the files of the text index were verified: the next search compares them all.
    pub(super) fn distrust_index(&self) {
        *self.open_index.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = files::discard(&self.index_path().join(VERIFIED));
    }

    /// Brings the text index up to date. `progress` is told how many documents of how many are done.
    ///
    /// While another process does the same, this one waits.
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

    /// Begins to add to the text index. While another process does, this one waits.
    pub(super) fn begin_text_indexing(&self) -> TextIndexing<'_> {
        match self.lock_index() {
            Ok(queue) => TextIndexing { store: self, adding: Adding::open(self), queue: Some(queue) },
            Err(error) => TextIndexing { store: self, adding: Err(error), queue: None },
        }
    }

    /// Throws the text index away and makes it anew.
    pub(super) fn rebuild_text_index(
        &self,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Indexed, SearchError> {
        let _queue = self.lock_index()?;
        Adding::anew(self)?.finish(self, progress)
    }

    /// Removes documents from the text index for good: the files that hold them are written anew without them. `was` is the
    /// identity that the store had while it held them. An index that cannot be changed is thrown away.
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

    /// False if the index is of another store, or was never filled.
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

    /// The name of this store, made when it was: an index of another one is of no use.
    pub(super) fn identity(&self) -> Result<String, ReadError> {
        self.read(|connection| {
            connection.query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| row.get(0))
        })
    }

    /// When a revision was made. None if there is no such revision; 0 for the state before the first.
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

    /// Waits until nobody else writes to the index, and keeps it so until the file is closed.
    fn lock_index(&self) -> Result<File, SearchError> {
        let path = crate::sqlite::beside(self.path(), "-index-lock");
        let locked = platform::open_private_file(&path).and_then(|queue| queue.lock().map(|()| queue));
        locked.map_err(|error| SearchError::Index {
            path: self.index_path().display().to_string(),
            what: format!("cannot lock it: {error}"),
        })
    }
}

/// Opens an index to search in it. While somebody commits to it, the files that the commit before named may vanish.
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
    // Nobody is to watch the file in the background: it is looked at here.
    let builder = text_index.index.reader_builder().reload_policy(ReloadPolicy::Manual);
    let reader: IndexReader = builder.try_into().map_err(|error: tantivy::TantivyError| error.to_string())?;
    Ok(OpenIndex { searcher: reader.searcher(), reached, stamp })
}

/// The text index while something is added to it.
pub(super) struct TextIndexing<'s> {
    store: &'s SqliteStore,
    /// What was added so far, or what went wrong.
    adding: Result<Adding, SearchError>,
    /// Whoever has it locked writes; closing it lets the next one in. None if it could not be locked.
    queue: Option<File>,
}

/// An index with what was added to it since its last commit.
struct Adding {
    text_index: TextIndex,
    /// The revision it had reached before. None if it is new.
    reached: Option<i64>,
    /// Documents with a higher number than this are not in it, so there is nothing to be replaced.
    highest: DocumentRow,
    /// Made when there is something to add.
    writer: Option<IndexWriter>,
    /// Revisions of which everything was added when they were committed.
    covered: HashSet<i64>,
    n_added: usize,
    /// The identity of the store before anything was added. Should sessions be forgotten meanwhile, it is another one
    /// afterwards, and the index is of no use.
    identity: String,
}

impl follow::Indexing for TextIndexing<'_> {
    /// The documents must be all of the revision that an index knows.
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
    /// Finishes. If that fails, the index is thrown away and built again, once.
    fn finish_all(self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        let TextIndexing { store, adding, queue } = self;
        let done = adding.and_then(|adding| adding.finish(store, progress));
        match done {
            // Where there is no room, an index that lags is better than none.
            Err(SearchError::Index { .. }) if queue.is_some() && !is_full(store) => {
                Adding::anew(store)?.finish(store, progress)
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

    /// Begins with an empty index, in the place of what is there.
    fn anew(store: &SqliteStore) -> Result<Adding, SearchError> {
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
        // Of a document that was stored twice, the later state counts.
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
        // Should a file be damaged since it was verified, tantivy may panic.
        let finish = AssertUnwindSafe(|| self.add_rest(store, progress));
        panic::catch_unwind(finish).unwrap_or(Err(damaged))
    }

    /// Adds what was committed and not added yet, and commits.
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
                // Read in one transaction, given to tantivy after it.
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
        // A merge that fails leaves what was committed as it is.
        let _ = writer.wait_merging_threads();
        text_index.end_writing();
        Ok(Indexed { documents: documents.len() + n_added, revision: head })
    }
}

impl TextIndex {
    /// Removes what was added of these documents before.
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

    /// Adds a document of a session, unless there is nothing in it to be found.
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
