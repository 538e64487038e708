//! The text index: a directory beside the store, made of its documents by tantivy. It says which revision it has reached,
//! so it can lag, be lost or be thrown away without harm.

pub(crate) mod entry;
mod files;
mod numbered;
mod words;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use rayon::prelude::*;
use tantivy::directory::MmapDirectory;
use tantivy::indexer::LogMergePolicy;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher};

use super::Annals;
use super::kind::Kind;
use super::past::latest_of;
use super::synced::ToIndex;
use crate::home::ReadError;
use crate::search::{Indexed, SearchError};
use crate::{parallel, platform};
use entry::{Entry, NUMBER, TOKENIZER, entry, schema};
use files::IndexFiles;
use numbered::Numbered;
use words::{Backlog, Words};

/// Changes whenever an index that was made before cannot be used any more.
const VERSION: u64 = 2;
/// What tantivy may use for what is not yet on the disk.
const MEMORY: usize = 64 << 20;
/// So many threads share that; with less than 16 MB each they would write many small files.
const MAX_THREADS: usize = 4;
/// Files of so many documents are left as they are. To merge those that a long sync makes would take longer than to make
/// them, and more memory; to search some dozens takes little longer than one.
const MERGED: usize = 10_000;
/// So many documents are read at once by each thread.
const BATCH: usize = 256;

/// Whether there can be something to be found in a document.
fn is_indexed(kind: Kind) -> bool {
    matches!(kind, Kind::Session | Kind::Message | Kind::Part)
}

/// The text index of a store.
#[derive(Debug)]
pub(super) struct TextIndex {
    index: Index,
    path: PathBuf,
    backlog: Arc<Backlog>,
}

/// The text index as it was when it was last written, kept open for the next search.
#[derive(Debug)]
pub(super) struct OpenIndex {
    searcher: Searcher,
    reached: Reached,
    /// Of the file that tantivy puts in place of the last when it commits.
    stamp: platform::Stamp,
}

/// Where an index is, and of what.
#[derive(Debug, PartialEq, Eq)]
struct Reached {
    revision: i64,
    store: String,
}

impl TextIndex {
    /// Opens the index of a store to write to it. One that cannot be used is made anew: there is nothing in it that is not in
    /// the store.
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
        Index::create_in_dir(&path, schema()).map_err(|error| failed(error.to_string()))?;
        TextIndex::existing(&path).ok_or_else(|| failed("it was just made and cannot be opened".to_owned()))
    }

    /// The index at a path, if it is one.
    fn existing(path: &Path) -> Option<TextIndex> {
        let index = Index::open(IndexFiles(MmapDirectory::open(path).ok()?)).ok()?;
        if index.schema() != schema() {
            return None;
        }
        let backlog = Arc::<Backlog>::default();
        index.tokenizers().register(TOKENIZER, Words::new(backlog.clone()));
        Some(TextIndex { index, path: path.to_owned(), backlog })
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

impl Annals {
    /// Where the text index is: `annals.index` beside `annals.db`.
    pub fn index_path(&self) -> PathBuf {
        self.path().with_extension("index")
    }

    /// The text index as it is, if there is one, and how many documents it does not know yet. Nothing is made or removed
    /// here: another process may be about to make it.
    pub(super) fn search_index(&self) -> Result<(Option<Searcher>, usize), SearchError> {
        let mut kept = self.open_index.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.index_path();
        let stamp = platform::Stamp::at(&path.join("meta.json"));
        let identity = self.identity()?;
        let mut open = kept.take().filter(|open| open.stamp == stamp);
        if open.is_none()
            && let Some(text_index) = TextIndex::existing(&path)
            && let Some(reached) = text_index.reached()
        {
            // Nobody is to watch the file in the background: it is looked at here.
            let builder = text_index.index.reader_builder().reload_policy(ReloadPolicy::Manual);
            let reader: IndexReader = builder.try_into().map_err(|error| text_index.failed(error))?;
            open = Some(OpenIndex { searcher: reader.searcher(), reached, stamp });
        }
        let open = open.filter(|open| open.reached.store == identity);
        let reached = open.as_ref().map_or(0, |open| open.reached.revision);
        let unindexed = match self.head()? > reached {
            true => self.read(|connection| {
                let changed = latest_of(connection, reached, i64::MAX, |_| true)?;
                Ok(changed.into_iter().filter(|(_, kind)| is_indexed(*kind)).count())
            })?,
            false => 0,
        };
        let searcher = open.as_ref().map(|open| open.searcher.clone());
        *kept = open;
        Ok((searcher, unindexed))
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
            highest: if was_empty { 0 } else { i64::MAX },
            writer: None,
            covered: HashSet::new(),
            n_added: 0,
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
    /// Documents with a higher number than this are not in it, so there is nothing to be replaced.
    highest: i64,
    /// Made when there is something to add.
    writer: Option<IndexWriter>,
    /// Revisions of which everything was added when they were committed.
    covered: HashSet<i64>,
    n_added: usize,
    identity: String,
    /// Whoever has it locked writes; closing it lets the next one in.
    _queue: std::fs::File,
}

impl Indexing<'_> {
    /// Adds what was just committed. These must be all documents of the revision that an index knows.
    pub(crate) fn add(&mut self, revision: i64, documents: Vec<ToIndex>) -> Result<(), SearchError> {
        self.open_writer()?;
        let Indexing { text_index, writer: Some(writer), .. } = self else { return Ok(()) };
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
            let writer: IndexWriter = self
                .text_index
                .index
                .writer_with_num_threads(threads, MEMORY)
                .map_err(|error| self.text_index.failed(error))?;
            let mut policy = LogMergePolicy::default();
            policy.set_min_num_segments(8);
            policy.set_max_docs_before_merge(MERGED);
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
        let documents: Vec<i64> = store.read(|connection| {
            let is_missing = |revision: i64| !self.covered.contains(&revision);
            let changed = latest_of(connection, self.reached, head, is_missing)?;
            let mut documents: Vec<i64> =
                changed.into_iter().filter(|(_, kind)| is_indexed(*kind)).map(|(n, _)| n).collect();
            documents.sort_unstable();
            Ok(documents)
        })?;
        self.open_writer()?;
        let Indexing { text_index, writer: Some(mut writer), highest, identity, n_added, .. } = self else {
            return Ok(Indexed::default());
        };
        text_index.remove(&writer, documents.iter().copied().filter(|n| *n <= highest))?;
        let done = AtomicUsize::new(0);
        let added: Result<Vec<()>, SearchError> = parallel::run_as(crate::home::Work::Computing, || {
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
        text_index.commit(&mut writer, &Reached { revision: head, store: identity })?;
        writer.wait_merging_threads().map_err(|error| text_index.failed(error))?;
        Ok(Indexed { documents: documents.len() + n_added, revision: head })
    }
}

impl TextIndex {
    /// Removes what was added of these documents before.
    fn remove(&self, writer: &IndexWriter, documents: impl Iterator<Item = i64>) -> Result<(), SearchError> {
        let documents = Numbered::new(NUMBER, documents);
        if !documents.is_empty() {
            writer.delete_query(Box::new(documents)).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Adds a document of a session, unless there is nothing in it to be found.
    fn add(&self, writer: &IndexWriter, n: i64, entry: Option<(i64, Entry)>) -> Result<(), SearchError> {
        if let Some((session, entry)) = entry {
            self.backlog.add(entry.n_bytes);
            writer.add_document(entry.numbered(n, session)).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn commit(&self, writer: &mut IndexWriter, reached: &Reached) -> Result<(), SearchError> {
        let mut prepared = writer.prepare_commit().map_err(|error| self.failed(error))?;
        prepared.set_payload(&format!("{VERSION} {} {}", reached.revision, reached.store));
        prepared.commit().map(drop).map_err(|error| self.failed(error))
    }
}
