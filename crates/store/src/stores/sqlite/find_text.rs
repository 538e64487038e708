//! Answering searches: words from the text index, everything else from the documents themselves.

use std::collections::{BinaryHeap, HashSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use annals_core::id::Millis;
use annals_core::json::Node;
use annals_core::lens::Session;
use annals_core::search::query::{Filter, FilterField, Match, Query, QueryWords};
use annals_core::search::snippet::{self, Snippet};
use annals_core::search::text::searchable;
use annals_core::{Document, Key};
use rayon::prelude::*;
use regex::Regex;
use rusqlite::{Connection, OptionalExtension};
use tantivy::collector::{Count, FilterCollector, TopDocs};
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, Occur, PhrasePrefixQuery, PhraseQuery, Query as IndexQuery,
    RegexQuery, TermQuery,
};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Score, SegmentReader, Term};

use super::SqliteStore;
use super::content::{self, latest};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::rows::{Placed, placed, session_row};
use super::text_index::entry::{MADE, NUMBER, PROPERTY, SESSION, TEXT, WEIGHT};
use crate::home::{Read, ReadError};
use crate::parallel;
use crate::query::SessionQuery;
use crate::search::{Hit, Hits, Indexed, Search, SearchError, SearchRequest, Wanted};

/// How much a hit counts, by the numbers of `Weight`: titles, prompts, answers, thoughts, tools, the rest.
const BOOST: [f32; 6] = [4.0, 3.0, 2.0, 1.2, 1.0, 0.8];
/// How much another form of a word counts, compared with the word itself.
const OTHER_FORM: f32 = 0.6;
/// Age in milliseconds at which a hit counts half as much.
const HALF_LIFE: f64 = 180.0 * 24.0 * 60.0 * 60.0 * 1000.0;
/// Upper bound on the words that a prefix can stand for.
const MAX_EXPANSIONS: u32 = 256;
/// Number of documents that one thread scans at a time.
const BATCH: i64 = 512;

/// The number of documents of a batch that match, and the matches: when each was made, and its number.
type ScannedBatch = (usize, Vec<(Millis, DocumentRow)>);

impl Search for SqliteStore {
    fn search(&self, request: &SearchRequest) -> Result<Hits, SearchError> {
        let sessions = self.wanted_sessions(&request.sessions)?;
        match &request.wanted {
            Wanted::Words(query) => {
                // If a file was damaged after it was verified, tantivy may panic.
                let search = AssertUnwindSafe(|| self.search_words(request, query, sessions));
                panic::catch_unwind(search).unwrap_or_else(|_| {
                    self.distrust_index();
                    let path = self.index_path().display().to_string();
                    Err(SearchError::Index { path, what: "it is damaged".to_owned() })
                })
            }
            Wanted::Substring { .. } | Wanted::Regex { .. } => match request.wanted.pattern()? {
                Some(pattern) => self.search_documents(request, &pattern, sessions.as_ref()),
                None => Ok(Hits::default()),
            },
        }
    }

    fn similar(&self, word: &str, limit: usize) -> Result<Vec<String>, SearchError> {
        self.similar_words(word, limit)
    }

    fn filter_values(&self, field: FilterField) -> Result<Vec<String>, SearchError> {
        let sql = match field {
            FilterField::Agent => "SELECT DISTINCT agent FROM message WHERE agent IS NOT NULL ORDER BY 1",
            FilterField::Model => {
                "SELECT DISTINCT provider || '/' || model AS name FROM message WHERE name IS NOT NULL ORDER BY 1"
            }
            FilterField::Tool => "SELECT DISTINCT tool FROM call ORDER BY 1",
            _ => return Ok(Vec::new()),
        };
        Ok(self.read(|connection| {
            connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()
        })?)
    }

    fn update_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        self.update_text_index(progress)
    }

    fn rebuild_index(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Indexed, SearchError> {
        self.rebuild_text_index(progress)
    }

    fn index_bytes(&self) -> Option<u64> {
        let entries = std::fs::read_dir(self.index_path()).ok()?;
        let files = entries.filter_map(|entry| entry.ok()?.metadata().ok());
        Some(files.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum())
    }
}

impl SqliteStore {
    /// The numbers of the sessions that a query admits. None if it admits all.
    fn wanted_sessions(&self, query: &SessionQuery) -> Result<Option<HashSet<u64>>, ReadError> {
        if query.admits_all() {
            return Ok(None);
        }
        let records = self.sessions(query)?.value;
        self.read(|connection| {
            let mut numbers = HashSet::new();
            for record in &records {
                let n = session_row(connection, record.id.as_str())?;
                numbers.extend(n.map(|session| session.0.unsigned_abs()));
            }
            Ok(Some(numbers))
        })
    }

    fn search_words(
        &self,
        request: &SearchRequest,
        query: &Query,
        sessions: Option<HashSet<u64>>,
    ) -> Result<Hits, SearchError> {
        let (searcher, unindexed) = self.search_index()?;
        let Some(searcher) = searcher else { return Ok(Hits { hits: Vec::new(), total: 0, unindexed }) };
        let failed =
            |what: String| SearchError::Index { path: self.index_path().display().to_string(), what };
        let mut clauses = vec![(Occur::Must, translate(query)?)];
        for filter in &request.filters {
            clauses.push((Occur::Must, property(filter)?));
        }
        let query_for_index: Box<dyn IndexQuery> = match clauses.len() {
            1 => clauses.remove(0).1,
            _ => Box::new(BooleanQuery::new(clauses)),
        };
        let (since, until) = (request.since.unwrap_or(Millis::MIN), request.until.unwrap_or(Millis::MAX));
        let sessions = sessions.map(Arc::new);
        let now = request.now;
        let ranked = TopDocs::with_limit(request.limit.max(1)).and_offset(request.offset).tweak_score(
            move |segment: &SegmentReader| {
                let made = segment.fast_fields().i64(MADE).ok();
                let weight = segment.fast_fields().u64(WEIGHT).ok();
                move |document: DocId, score: Score| {
                    let weight = weight.as_ref().and_then(|column| column.first(document)).unwrap_or(5);
                    let made = made.as_ref().and_then(|column| column.first(document)).unwrap_or(0);
                    let age = (now - made).max(0) as f64;
                    let recency = HALF_LIFE / (HALF_LIFE + age);
                    score * BOOST.get(weight as usize).copied().unwrap_or(1.0) * (0.5 + 0.5 * recency as f32)
                }
            },
        );
        let in_time = move |made: i64| made >= since && made < until;
        let in_sessions =
            move |session: u64| sessions.as_ref().is_none_or(|wanted| wanted.contains(&session));
        let is_narrowed =
            request.since.is_some() || request.until.is_some() || !request.sessions.admits_all();
        let (total, found) = match is_narrowed {
            true => {
                let collector = FilterCollector::new(MADE.to_owned(), in_time, (Count, ranked));
                let collector = FilterCollector::new(SESSION.to_owned(), in_sessions, collector);
                searcher.search(&*query_for_index, &collector)
            }
            false => searcher.search(&*query_for_index, &(Count, ranked)),
        }
        .map_err(|error| failed(error.to_string()))?;
        let found = match request.limit {
            0 => Vec::new(),
            _ => found,
        };
        let terms = query.highlights();
        let mut hits = Vec::new();
        for (score, address) in found {
            let column = searcher.segment_reader(address.segment_ord).fast_fields().u64(NUMBER);
            let n = column.ok().and_then(|column| column.first(address.doc_id));
            let Some(n) = n.and_then(|n| i64::try_from(n).ok()).map(DocumentRow) else { continue };
            let located = self.read(|connection| locate(connection, n))?;
            // A document that has changed since it was indexed is shown as it is now, or not at all.
            let Some(located) = located else { continue };
            let snippet =
                snippet::of_document(&located.key, &located.document, &terms, request.snippet_width)
                    .unwrap_or_default();
            hits.push(located.hit(score, snippet));
        }
        Ok(Hits { hits, total, unindexed })
    }

    /// Reads every document and keeps the latest that match.
    fn search_documents(
        &self,
        request: &SearchRequest,
        pattern: &Regex,
        sessions: Option<&HashSet<u64>>,
    ) -> Result<Hits, SearchError> {
        let filters: Vec<&Filter> = request.filters.iter().collect();
        if let Some(filter) = filters.iter().find(|filter| is_about_session(filter.field)) {
            return Err(SearchError::Nested(format!("{}:", filter.field.name())));
        }
        let last: i64 = self.read(|connection| {
            connection.query_row("SELECT coalesce(max(n), 0) FROM document", [], |row| row.get(0))
        })?;
        let wanted = request.offset.saturating_add(request.limit);
        let batches: Vec<i64> = (0..=last / BATCH).collect();
        let scanned: Result<Vec<ScannedBatch>, ReadError> = parallel::run(|| {
            let scan = |batch: &i64| self.scan_batch(batch * BATCH, request, pattern, sessions);
            batches.par_iter().map(scan).collect()
        });
        let mut total = 0;
        let mut latest: BinaryHeap<std::cmp::Reverse<(Millis, DocumentRow)>> = BinaryHeap::new();
        for (count, found) in scanned? {
            total += count;
            for place in found {
                latest.push(std::cmp::Reverse(place));
                if latest.len() > wanted {
                    latest.pop();
                }
            }
        }
        let mut latest: Vec<(Millis, DocumentRow)> =
            latest.into_iter().map(|std::cmp::Reverse(place)| place).collect();
        latest.sort_unstable_by(|a, b| b.cmp(a));
        let mut hits = Vec::new();
        for (_, n) in latest.into_iter().skip(request.offset) {
            let Some(located) = self.read(|connection| locate(connection, n))? else { continue };
            let mut snippet = None;
            searchable(&located.key, &located.document, &mut |text| {
                if snippet.is_none()
                    && let Some(found) = pattern.find(text)
                {
                    snippet = Some(around(text, found.range(), request.snippet_width));
                }
            });
            hits.push(located.hit(0.0, snippet.unwrap_or_default()));
        }
        Ok(Hits { hits, total, unindexed: 0 })
    }

    fn scan_batch(
        &self,
        first: i64,
        request: &SearchRequest,
        pattern: &Regex,
        sessions: Option<&HashSet<u64>>,
    ) -> Result<ScannedBatch, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT d.n, d.kind, d.hash, d.form, d.size, d.data, \
                 CASE d.kind WHEN 2 THEN d.n WHEN 3 THEN d.owner ELSE o.owner END, m.made \
                 FROM document d LEFT JOIN document o ON o.n = d.owner AND d.kind = 4 \
                 LEFT JOIN message m ON m.session = CASE d.kind WHEN 3 THEN d.owner ELSE o.owner END \
                 AND m.n = CASE d.kind WHEN 3 THEN d.n ELSE d.owner END \
                 WHERE d.n >= ?1 AND d.n < ?2 AND d.kind BETWEEN 2 AND 4 AND d.hash IS NOT NULL",
            )?;
            let mut rows = statement.query((first, first + BATCH))?;
            let mut total = 0;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let session = row.get::<_, Option<SessionRow>>(6)?.unwrap_or(SessionRow::NONE);
                if sessions.is_some_and(|wanted| !wanted.contains(&session.0.unsigned_abs())) {
                    continue;
                }
                let made = row.get::<_, Option<Millis>>(7)?.unwrap_or(0);
                if request.since.is_some_and(|since| made < since)
                    || request.until.is_some_and(|until| made >= until)
                {
                    continue;
                }
                let Some(kind) = Kind::from_number(row.get(1)?) else { continue };
                let n: DocumentRow = row.get(0)?;
                let Some(document) = content::document(connection, n, row, 2)? else { continue };
                let mut is_match = false;
                searchable(&kind.any_key(), &document, &mut |text| {
                    is_match = is_match || pattern.is_match(text);
                });
                if is_match
                    && (request.filters.is_empty() || has_properties(connection, n, &request.filters)?)
                {
                    total += 1;
                    found.push((made, n));
                }
            }
            Ok((total, found))
        })
    }
}

/// A query in the terms of the index.
fn translate(query: &Query) -> Result<Box<dyn IndexQuery>, SearchError> {
    Ok(match query {
        Query::All(items) => {
            let mut clauses = Vec::new();
            for item in items {
                clauses.push(match item {
                    Query::Not(excluded) => (Occur::MustNot, translate(excluded)?),
                    item => (Occur::Must, translate(item)?),
                });
            }
            Box::new(BooleanQuery::new(clauses))
        }
        Query::Any(items) => {
            let clauses: Result<Vec<_>, _> = items.iter().map(translate).collect();
            Box::new(BooleanQuery::new(clauses?.into_iter().map(|clause| (Occur::Should, clause)).collect()))
        }
        Query::Not(excluded) => Box::new(BooleanQuery::new(vec![
            (Occur::Must, Box::new(AllQuery) as Box<dyn IndexQuery>),
            (Occur::MustNot, translate(excluded)?),
        ])),
        Query::Words(words) => any_of(words),
        Query::Filter(filter) => property(filter)?,
    })
}

fn any_of(words: &QueryWords) -> Box<dyn IndexQuery> {
    let mut ways: Vec<Box<dyn IndexQuery>> = words.matches().iter().map(one_way).collect();
    match ways.len() {
        1 => ways.remove(0),
        _ => Box::new(BooleanQuery::new(ways.into_iter().map(|way| (Occur::Should, way)).collect())),
    }
}

fn one_way(way: &Match) -> Box<dyn IndexQuery> {
    let term = |text: &str| Term::from_field_text(TEXT, text);
    match way {
        Match::Term(word) => Box::new(TermQuery::new(term(word), IndexRecordOption::WithFreqs)),
        Match::Form(word) => {
            let query = TermQuery::new(term(word), IndexRecordOption::WithFreqs);
            Box::new(BoostQuery::new(Box::new(query), OTHER_FORM))
        }
        Match::Phrase(words) => Box::new(PhraseQuery::new(words.iter().map(|word| term(word)).collect())),
        Match::Prefix(beginning) => {
            let pattern = format!("{}.*", regex::escape(beginning));
            match RegexQuery::from_pattern(&pattern, TEXT) {
                Ok(query) => Box::new(query),
                Err(_) => Box::new(TermQuery::new(term(beginning), IndexRecordOption::WithFreqs)),
            }
        }
        Match::PhrasePrefix(words) => {
            let mut query = PhrasePrefixQuery::new(words.iter().map(|word| term(word)).collect());
            query.set_max_expansions(MAX_EXPANSIONS);
            Box::new(query)
        }
    }
}

/// A property in the terms of the index.
fn property(filter: &Filter) -> Result<Box<dyn IndexQuery>, SearchError> {
    let name = filter.field.name();
    let value = filter.value.to_lowercase();
    if is_about_session(filter.field) {
        return Err(SearchError::Nested(format!("{name}:")));
    }
    // A piece of a model's name is enough; there are few of them.
    if filter.field == FilterField::Model {
        let pattern = format!("model:.*{}.*", regex::escape(&value));
        return match RegexQuery::from_pattern(&pattern, PROPERTY) {
            Ok(query) => Ok(Box::new(query)),
            Err(error) => Err(SearchError::Pattern(error.to_string())),
        };
    }
    let term = Term::from_field_text(PROPERTY, &format!("{name}:{value}"));
    Ok(Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
}

/// Whether a property belongs to the session. The index does not know those: a session can change while its documents
/// stay the same.
fn is_about_session(field: FilterField) -> bool {
    matches!(field, FilterField::Project | FilterField::Directory | FilterField::Since | FilterField::Until)
}

/// A piece of a text in one line, with a range of it highlighted.
fn around(text: &str, place: std::ops::Range<usize>, width: usize) -> Snippet {
    let room = width.saturating_sub(text[place.clone()].chars().count().min(width));
    let before = room / 3;
    let from = text[..place.start].char_indices().rev().nth(before.saturating_sub(1)).map_or(0, |(at, _)| at);
    let to = text[place.start..]
        .char_indices()
        .nth(width - before.min(width))
        .map_or(text.len(), |(at, _)| place.start + at);
    let mut snippet = Snippet {
        is_cut_before: from > 0,
        is_cut_after: to < text.len(),
        distinct: 1,
        hits: 1,
        ..Snippet::default()
    };
    let (mut begin, mut end) = (None, 0);
    for (at, c) in text[from..to].char_indices().map(|(at, c)| (from + at, c)) {
        // Runs of white space are one space, as in other snippets.
        let is_space = c.is_whitespace();
        if !(is_space && (snippet.text.is_empty() || snippet.text.ends_with(' '))) {
            if at >= place.start && begin.is_none() && at < place.end {
                begin = Some(snippet.text.len());
            }
            snippet.text.push(if is_space { ' ' } else { c });
        }
        if at < place.end {
            end = snippet.text.len();
        }
    }
    if let Some(begin) = begin.filter(|begin| *begin < end) {
        snippet.highlights.push(begin..end);
    }
    snippet
}

/// A document that was found, with properties of its message and session.
struct LocatedDocument {
    key: Key,
    document: Document,
    title: String,
    role: Option<String>,
    agent: Option<String>,
    model: Option<String>,
    made: Option<Millis>,
}

impl LocatedDocument {
    fn kind(&self) -> String {
        match self.key {
            Key::Part(..) => {
                let kind = self.document.root().get("type").and_then(Node::as_text);
                kind.map(|kind| kind.to_string()).unwrap_or_default()
            }
            Key::Message(..) => "message".to_owned(),
            _ => "title".to_owned(),
        }
    }

    fn tool(&self) -> Option<String> {
        match self.key {
            Key::Part(..) => {
                self.document.root().get("tool").and_then(Node::as_text).map(|tool| tool.to_string())
            }
            _ => None,
        }
    }

    fn has(&self, filter: &Filter) -> bool {
        let is = |value: Option<&str>| value.is_some_and(|value| value.eq_ignore_ascii_case(&filter.value));
        match filter.field {
            FilterField::Role => is(self.role.as_deref()),
            FilterField::Tool => is(self.tool().as_deref()),
            FilterField::Type => is(Some(&self.kind())),
            FilterField::Agent => is(self.agent.as_deref()),
            FilterField::Model => {
                let wanted = filter.value.to_lowercase();
                self.model.as_ref().is_some_and(|model| model.to_lowercase().contains(&wanted))
            }
            _ => true,
        }
    }

    fn hit(self, score: f32, snippet: Snippet) -> Hit {
        let (kind, tool) = (self.kind(), self.tool());
        let (session, message, part) = match self.key {
            Key::Part(session, message, part) => (session, Some(message), Some(part)),
            Key::Message(session, message) => (session, Some(message), None),
            Key::Session(_, session) => (session, None, None),
            _ => unreachable!("only these are looked up"),
        };
        Hit {
            session,
            title: self.title,
            message,
            part,
            role: self.role,
            kind,
            tool,
            time: self.made,
            score,
            snippet,
        }
    }
}

fn has_properties(connection: &Connection, n: DocumentRow, filters: &[Filter]) -> rusqlite::Result<bool> {
    let located = locate(connection, n)?;
    Ok(located.is_some_and(|located| filters.iter().all(|filter| located.has(filter))))
}

/// A session, message or part by its number, if it is there.
fn locate(connection: &Connection, n: DocumentRow) -> rusqlite::Result<Option<LocatedDocument>> {
    let Some(Placed { key, session, message }) = placed(connection, n)? else { return Ok(None) };
    let Some(document) = latest(connection, n)? else { return Ok(None) };
    // The title comes from the session's document: the column of that name may be out of date.
    let session_document = match session.document() == n {
        true => Some(document.clone()),
        false => latest(connection, session.document())?,
    };
    let title = session_document.as_ref().and_then(|document| document.lens::<Session<'_>>().title);
    let title = title.map(|title| title.to_string()).unwrap_or_default();
    let mut located =
        LocatedDocument { key, document, title, role: None, agent: None, model: None, made: None };
    if let Some(message) = message {
        connection
            .prepare_cached(
                "SELECT role, made, agent, provider, model FROM message WHERE session = ?1 AND n = ?2",
            )?
            .query_row((session, message), |row| {
                let role = match row.get::<_, i64>(0)? {
                    1 => Some("user"),
                    2 => Some("assistant"),
                    _ => None,
                };
                located.role = role.map(str::to_owned);
                located.made = row.get(1)?;
                located.agent = row.get(2)?;
                let (provider, model): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
                located.model = provider.zip(model).map(|(provider, model)| format!("{provider}/{model}"));
                Ok(())
            })
            .optional()?;
    }
    Ok(Some(located))
}
