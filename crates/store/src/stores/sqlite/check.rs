//! Checking the store: every page, every hash, every reference, everything derived.
//!
//! No problem keeps the rest from being checked. A page that SQLite refuses to read is itself a problem.

mod named;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use annals_core::Document;
use annals_core::id::{Millis, SessionId};
use rayon::prelude::*;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::codec;
use super::facts::{FIGURES, Facts, figures_of, usage_of};
use super::kind::Kind;
use super::numbers::DocumentRow;
use super::past::TOUCHED;
use super::read::View;
use super::rows::{listed, session_row};
use super::scan::{EXAMINED, Examined, StateTable, examine};
use super::tail;
use super::{SqliteStore, derived};
use crate::check::{Problem, ProblemKind, arranged, check_session, plural, unreadable};
use crate::figures::{Call, Figures};
use crate::home::{Read, ReadError, SessionRecord};
use crate::parallel;
use crate::query::SessionQuery;
use crate::sqlite::salvage::Unreadable;
use crate::summary::SessionState;
use named::{DocumentEntry, DocumentIndex, NamedDocument};

/// Upper bound on the damaged places of the file that are named.
const MOST_DAMAGE: usize = 100;
/// Upper bound on the documents in damaged pages that are named.
const MOST_NAMED: usize = 1000;

/// The place of problems of the file as a whole.
const FILE: &str = "the database file";

impl SqliteStore {
    pub(super) fn check_all(
        &self,
        view: &View<'_>,
        now: Millis,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Problem>, ReadError> {
        let mut problems = Vec::new();
        // The file is the same for every moment, so only the view of now checks it.
        if view.at.is_none() {
            let mut take = |place: &str, found: rusqlite::Result<Vec<Problem>>| {
                problems.extend(found.unwrap_or_else(|error| vec![damage(place, error.to_string())]));
            };
            take(FILE, self.file.read(pages));
            take("document", self.documents());
            take("past", self.past());
            take("revision", self.file.read(unlisted));
            take("dictionary", self.file.read(dictionary));
            take(FILE, self.file.read(dangling));
            for (place, kind, sql, what) in REFERENCES {
                take(place, self.file.read(|connection| counted(connection, place, *kind, sql, what)));
            }
        }
        if let Some(lost) = self.lost.clone().filter(|_| view.at.is_none()) {
            problems.push(damage(FILE, missing(&lost)));
        }
        let (records, found) = self.all_sessions(view);
        problems.extend(found);
        let known: HashSet<SessionId> = records.iter().map(|record| record.id.clone()).collect();
        let check = |record: &SessionRecord| {
            let failed = |error: &dyn std::fmt::Display| Problem {
                session: None,
                kind: ProblemKind::Unreadable,
                place: record.stored.place.clone(),
                id: Some(record.id.to_string()),
                detail: error.to_string(),
            };
            let checked = check_session(view, record, &known, now);
            let mut problems = checked.unwrap_or_else(|error| vec![failed(&error)]);
            if view.at.is_none() {
                match self.file.read(|connection| numbers(connection, record)) {
                    Ok(found) => problems.extend(found),
                    Err(error) => problems.push(failed(&error)),
                }
            }
            for problem in &mut problems {
                problem.session = Some(record.id.clone());
            }
            progress();
            problems
        };
        let checked: Vec<Vec<Problem>> = parallel::run(|| records.par_iter().map(check).collect());
        problems.extend(checked.into_iter().flatten());
        // Several checks find the same unreadable document: those that look for it, and those that come across it.
        Ok(arranged(problems))
    }

    /// All sessions that can be read, and the problems with the others.
    fn all_sessions(&self, view: &View<'_>) -> (Vec<SessionRecord>, Vec<Problem>) {
        let error = match view.sessions(&SessionQuery::default()) {
            Ok(found) => return (found.value, found.quarantined.into_iter().map(unreadable).collect()),
            Err(error) => error,
        };
        // They cannot be read together, so they are read one by one.
        let mut problems = vec![damage(FILE, error.to_string())];
        let mut ids = Vec::new();
        let sessions = |_: &Connection, row: &Row<'_>| {
            let is_session = row.get_ref(0)?.as_i64() == Ok(Kind::Session.number());
            let id = row.get_ref(1)?.as_str().ok().and_then(|id| SessionId::parse(id).ok());
            Ok(id.filter(|_| is_session))
        };
        // The unreadable rows of the table have been reported before.
        let _ = self.scan_states(StateTable::Document, "x.kind, x.id", &sessions, &mut |id| ids.extend(id));
        let mut records = Vec::new();
        for id in ids {
            match view.session(&id) {
                Ok(record) => records.extend(record),
                Err(ReadError::Unreadable(quarantined)) => problems.push(unreadable(quarantined)),
                Err(error) => problems.push(Problem {
                    session: None,
                    kind: ProblemKind::Unreadable,
                    place: format!("session[{id}]"),
                    id: Some(id.to_string()),
                    detail: error.to_string(),
                }),
            }
        }
        (records, problems)
    }

    /// Checks every document: its text, its owner, its derived data.
    fn documents(&self) -> rusqlite::Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let mut orphans: BTreeMap<(i64, i64), usize> = BTreeMap::new();
        let columns = format!("x.n, x.kind, x.id, x.owner, x.since, x.revision, x.home, {EXAMINED}");
        let unreadable =
            self.scan_states(StateTable::Document, &columns, &document, &mut |looked: Looked| {
                problems.extend(looked.problems);
                if let Some(orphan) = looked.orphan {
                    *orphans.entry(orphan).or_default() += 1;
                }
            })?;
        problems.extend(self.file.read(|connection| orphaned(connection, &orphans))?);
        problems.extend(self.hidden(StateTable::Document, &unreadable));
        Ok(problems)
    }

    /// Checks every earlier state.
    fn past(&self) -> rusqlite::Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let look = |connection: &Connection, row: &Row<'_>| {
            let since = row.get_ref(1)?.as_i64().unwrap_or(0);
            let n = row.get_ref(0)?.as_i64().unwrap_or(0);
            let what = match examine(connection, row, 3, Some((DocumentRow(n), since)))? {
                Examined::Flawed(what) => what,
                _ if is_untouched(connection, n, since) => "that revision did not write it".to_owned(),
                _ => match row.get_ref(2)?.as_i64() {
                    Ok(written) if written <= since || is_untouched(connection, n, written) => {
                        format!("revision {written} did not finish it")
                    }
                    _ => return Ok(None),
                },
            };
            let named = NamedDocument::of(connection, n);
            let place = format!("{} since revision {since}", named.place);
            Ok(Some(Problem {
                session: None,
                kind: ProblemKind::Unreadable,
                place,
                id: named.session,
                detail: what,
            }))
        };
        let columns = format!("x.document, x.since, x.written, {EXAMINED}");
        let unreadable =
            self.scan_states(StateTable::Past, &columns, &look, &mut |problem| problems.extend(problem))?;
        problems.extend(self.hidden(StateTable::Past, &unreadable));
        Ok(problems)
    }

    /// Rows in damaged pages, and their documents, as far as the index tells.
    fn hidden(&self, table: StateTable, ranges: &[Unreadable]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for Unreadable { first, last, what } in ranges {
            let place = match first == last {
                true => format!("{}, document {first}", table.name()),
                false => format!("{}, documents {first} to {last}", table.name()),
            };
            problems.push(damage(&place, what.clone()));
        }
        if ranges.is_empty() {
            return problems;
        }
        let is_hidden = |n: i64| ranges.iter().any(|range| (range.first..=range.last).contains(&n));
        let index =
            self.file.read(|connection| DocumentIndex::read(connection, &is_hidden)).unwrap_or_default();
        for n in index.wanted.iter().take(MOST_NAMED) {
            let Some(named) = index.name(*n) else { continue };
            let detail = match table {
                StateTable::Document => "the page that it is in is damaged",
                StateTable::Past => "earlier states of it may be in a damaged page",
            };
            let (kind, detail) = (ProblemKind::Unreadable, detail.to_owned());
            problems.push(Problem { session: None, kind, place: named.place, id: named.session, detail });
        }
        if index.wanted.len() > MOST_NAMED {
            let detail =
                format!("{} more documents may be in damaged pages", index.wanted.len() - MOST_NAMED);
            problems.push(damage(table.name(), detail));
        }
        problems
    }
}

/// References that SQLite does not know of: the table, the kind of problem, a query that counts wrong rows, their description.
const REFERENCES: &[(&str, ProblemKind, &str, &str)] = &[
    (
        "revision",
        ProblemKind::DanglingRow,
        "SELECT count(*) FROM revision WHERE session <> 0 AND session NOT IN (SELECT n FROM document)",
        "of a session that does not exist",
    ),
    (
        "revision",
        ProblemKind::Damaged,
        "SELECT count(*) FROM (SELECT time < lag(time) OVER (ORDER BY n) AS is_back FROM revision WHERE NOT learnt) WHERE is_back",
        "dated before the one that it follows",
    ),
    (
        "touched",
        ProblemKind::DanglingRow,
        "SELECT count(*) FROM touched WHERE session <> 0 AND session NOT IN (SELECT n FROM document)",
        "of a session that does not exist",
    ),
    (
        "origin",
        ProblemKind::DanglingRow,
        "SELECT count(*) FROM origin WHERE session NOT IN (SELECT n FROM document)",
        "of a session that does not exist",
    ),
    (
        "document",
        ProblemKind::DuplicateDocument,
        "SELECT count(*) FROM (SELECT 1 FROM document GROUP BY owner, kind, id HAVING count(*) > 1)",
        "with the id of another one",
    ),
    (
        "session",
        ProblemKind::Derived,
        "SELECT count(*) FROM session WHERE n NOT IN (SELECT n FROM document WHERE kind = 2)",
        "of a session that does not exist",
    ),
    (
        "message",
        ProblemKind::Derived,
        "SELECT count(*) FROM message x LEFT JOIN document d ON d.n = x.n AND d.kind = 3 AND d.owner = x.session \
         WHERE CASE WHEN x.n > 0 THEN d.hash IS NULL ELSE x.session NOT IN (SELECT n FROM session WHERE brief) END",
        "of a message that does not exist",
    ),
    (
        "call",
        ProblemKind::Derived,
        "SELECT count(*) FROM call x LEFT JOIN document d ON d.n = x.n AND d.kind = 4 \
         LEFT JOIN document m ON m.n = d.owner AND m.owner = x.session AND m.n = x.message \
         WHERE CASE WHEN x.n > 0 THEN d.hash IS NULL OR m.n IS NULL \
         ELSE x.session NOT IN (SELECT n FROM session WHERE brief) END",
        "of a part that does not exist",
    ),
];

fn damage(place: &str, detail: String) -> Problem {
    Problem { session: None, kind: ProblemKind::Damaged, place: place.to_owned(), id: None, detail }
}

/// The message about missing revisions.
fn missing(lost: &RangeInclusive<i64>) -> String {
    let (first, last) = (lost.start(), lost.end());
    let which = match first == last {
        true => format!("revision {first} was committed and is missing"),
        false => format!("revisions {first} to {last} were committed and are missing"),
    };
    format!("{which}: its log was cut or deleted")
}

/// The problems that SQLite finds in the file.
fn pages(connection: &Connection) -> rusqlite::Result<Vec<Problem>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MOST_DAMAGE})"))?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    // SQLite stops where it cannot go on, but what it has found until then counts.
    let lines = rows.map(|line| line.unwrap_or_else(|error| error.to_string()));
    Ok(lines.filter(|line| line != "ok").map(|line| damage(FILE, line)).collect())
}

/// Documents for which the last revision that lists them is not the one that wrote them last.
fn unlisted(connection: &Connection) -> rusqlite::Result<Vec<Problem>> {
    let mut last: HashMap<i64, i64> = HashMap::new();
    let mut statement = connection.prepare("SELECT n, documents FROM revision ORDER BY n")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let revision = row.get(0)?;
        last.extend(listed(row.get_ref(1)?).into_iter().map(|n| (n.0, revision)));
    }
    let mut problems = Vec::new();
    let mut statement = connection.prepare("SELECT n, revision FROM document WHERE revision <> 0")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (n, revision): (i64, i64) = (row.get(0)?, row.get(1)?);
        let detail = match last.get(&n) {
            Some(last) if *last == revision => continue,
            Some(last) => format!("revision {last} says it wrote it, and it is of revision {revision}"),
            None => format!("revision {revision} does not say that it wrote it"),
        };
        let named = NamedDocument::of(connection, n);
        let kind = ProblemKind::DanglingRow;
        problems.push(Problem { session: None, kind, place: named.place, id: named.session, detail });
    }
    Ok(problems)
}

/// Checks the dictionary in the store: other programs need it to read the store.
fn dictionary(connection: &Connection) -> rusqlite::Result<Vec<Problem>> {
    let found: Option<Vec<u8>> = connection
        .query_row("SELECT bytes FROM dictionary WHERE id = ?1", [codec::DICTIONARY], |row| row.get(0))
        .optional()?;
    let detail = match found {
        Some(bytes) if bytes == codec::DICTIONARY_BYTES => return Ok(Vec::new()),
        Some(_) => "it is not the dictionary that documents are compressed with",
        None => "the dictionary that documents are compressed with is missing",
    };
    Ok(vec![damage("dictionary", detail.to_owned())])
}

/// Rows that refer to missing rows, counted by table.
fn dangling(connection: &Connection) -> rusqlite::Result<Vec<Problem>> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        *counts.entry((row.get(0)?, row.get(2)?)).or_default() += 1;
    }
    let problems = counts.into_iter().map(|((table, parent), n)| Problem {
        session: None,
        kind: ProblemKind::DanglingRow,
        place: table,
        id: None,
        detail: format!("{} of a {parent} that does not exist", plural(n, "row")),
    });
    Ok(problems.collect())
}

fn counted(
    connection: &Connection,
    place: &str,
    kind: ProblemKind,
    sql: &str,
    what: &str,
) -> rusqlite::Result<Vec<Problem>> {
    let n: usize = connection.query_row(sql, [], |row| row.get(0))?;
    let detail = format!("{} {what}", plural(n, "row"));
    let problem = Problem { session: None, kind, place: place.to_owned(), id: None, detail };
    Ok(Some(problem).filter(|_| n > 0).into_iter().collect())
}

/// The findings about one document.
struct Looked {
    problems: Vec<Problem>,
    /// The document's owner, if that is missing: the number of the owner, and the kind of the document.
    orphan: Option<(i64, i64)>,
}

/// Checks one row of `document`. Damage elsewhere is no reason to call this row damaged.
fn document(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Looked> {
    let mut looked = Looked { problems: Vec::new(), orphan: None };
    let number = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_i64().unwrap_or(-1));
    let (n, kind, owner) = (number(0)?, number(1)?, number(3)?);
    let mut add = |kind: ProblemKind, detail: String| {
        let named = NamedDocument::of(connection, n);
        looked.problems.push(Problem { session: None, kind, place: named.place, id: named.session, detail });
    };
    let (mut is_clear, mut document) = (true, None);
    match examine(connection, row, 7, None)? {
        Examined::Absent => {}
        Examined::Text(text) => match Document::parse(text) {
            Ok(parsed) if codec::is_open(number(8)?) => {
                match tail::complete(connection, DocumentRow(n), &parsed, None)? {
                    Ok(whole) => document = whole,
                    Err(damage) => {
                        is_clear = false;
                        add(ProblemKind::Unreadable, damage.to_string());
                    }
                }
            }
            Ok(parsed) => document = Some(parsed),
            Err(error) => {
                is_clear = false;
                add(ProblemKind::Unreadable, error.to_string());
            }
        },
        Examined::Flawed(what) => {
            is_clear = false;
            add(ProblemKind::Unreadable, what);
        }
        // Only earlier states are pruned.
        Examined::Pruned => {
            is_clear = false;
            add(ProblemKind::Unreadable, codec::Damage::Pruned.to_string());
        }
    }
    let id = row.get_ref(2)?.as_str().unwrap_or_default();
    let is_known = Kind::from_number(kind).is_some();
    let above = if owner == 0 { Ok(None) } else { DocumentEntry::of(connection, owner) };
    match (Kind::from_number(kind), &above) {
        (None, _) => add(ProblemKind::Damaged, format!("{kind} is no kind of document")),
        (Some(Kind::Project | Kind::Session), _) if owner == 0 => {}
        (Some(Kind::Part), Ok(Some(above))) if above.kind == Kind::Message.number() => {}
        (
            Some(Kind::Message | Kind::Todo | Kind::Diff | Kind::Share | Kind::LegacyShare | Kind::Record),
            Ok(Some(above)),
        ) if above.kind == Kind::Session.number() => {}
        // The owner cannot be read, so it is unknown whether this is the document that is asked for.
        (_, Err(error)) => {
            add(ProblemKind::Unreadable, format!("what it belongs to cannot be read: {error}"));
        }
        (_, Ok(None)) => add(ProblemKind::DanglingRow, "what it belongs to does not exist".to_owned()),
        (_, Ok(Some(_))) => {
            add(ProblemKind::DanglingRow, "it belongs to a document of the wrong kind".to_owned());
        }
    }
    for revision in [number(4)?, number(5)?] {
        if revision != 0 && is_missing(connection, "SELECT 1 FROM revision WHERE n = ?1", [revision]) {
            add(ProblemKind::DanglingRow, format!("revision {revision} that wrote it does not exist"));
        } else if revision != 0 && is_untouched(connection, n, revision) {
            add(ProblemKind::DanglingRow, format!("revision {revision} did not write it"));
        }
    }
    if let Ok(home) = row.get_ref(6)?.as_i64()
        && is_missing(connection, "SELECT 1 FROM home WHERE n = ?1", [home])
    {
        add(ProblemKind::DanglingRow, format!("home {home} that it came from does not exist"));
    }
    let above = above.ok().flatten();
    if is_known && document.is_some() && above.as_ref().is_some_and(|above| !above.is_there) {
        looked.orphan = Some((owner, kind));
    }
    // The data that would be derived from an unreadable document is not known.
    if is_clear
        && let Some(above) = above
        && let Some(detail) = underived(connection, n, kind, id, owner, &above, document.as_ref())
    {
        let named = NamedDocument::of(connection, n);
        let kind = ProblemKind::Derived;
        looked.problems.push(Problem { session: None, kind, place: named.place, id: named.session, detail });
    }
    Ok(looked)
}

/// Whether a row is known not to exist.
fn is_missing(connection: &Connection, sql: &str, values: impl Params) -> bool {
    let exists = connection.prepare_cached(sql).and_then(|mut statement| statement.exists(values));
    exists.is_ok_and(|exists| !exists)
}

/// Whether a revision is known not to have touched the session of a document, so that one of the numbers is wrong. Nothing
/// else tells a wrong number from a right one.
fn is_untouched(connection: &Connection, n: i64, revision: i64) -> bool {
    let standing = |n: i64| DocumentEntry::of(connection, n).ok().flatten();
    let Some(this) = standing(n) else { return false };
    let session = match Kind::from_number(this.kind) {
        None => return false,
        Some(Kind::Project) => 0,
        Some(Kind::Session) => n,
        Some(Kind::Part) => match standing(this.owner) {
            Some(message) => message.owner,
            None => return false,
        },
        Some(_) => this.owner,
    };
    let sql = format!("SELECT 1 FROM {TOUCHED} WHERE session = ?1 AND revision = ?2");
    is_missing(connection, &sql, [session, revision])
}

/// The problem with the data derived from a message or part, if any.
fn underived(
    connection: &Connection,
    n: i64,
    kind: i64,
    id: &str,
    owner: i64,
    above: &DocumentEntry,
    document: Option<&Document>,
) -> Option<String> {
    let kind = Kind::from_number(kind)?;
    let session = match kind {
        Kind::Message => owner,
        Kind::Part => above.owner,
        _ => return None,
    };
    // The facts do not depend on the ids of the message and the session.
    let key = kind.key(id, Some("msg_0"), Some("ses_0"), None)?;
    let expected = document.map_or(Facts::None, |document| Facts::of(&key, document));
    let figures = figures(connection, session, n).ok()?;
    let call = call(connection, session, n).ok()?;
    let detail = match (expected, figures, call) {
        (Facts::None, None, None) => return None,
        (Facts::Message(expected), Some(found), None) if is_same(&expected, &found) => return None,
        (Facts::Call(expected), None, Some(found)) if expected == found => return None,
        (Facts::Message(_), None, _) | (Facts::Call(_), _, None) => "its figures are missing",
        (Facts::None, ..) => "figures are stored for it, and it has none",
        _ => "its figures are not what it says",
    };
    Some(detail.to_owned())
}

fn figures(connection: &Connection, session: i64, n: i64) -> rusqlite::Result<Option<Figures>> {
    let sql = format!("SELECT {FIGURES} FROM message m WHERE m.session = ?1 AND m.n = ?2");
    connection.prepare_cached(&sql)?.query_row((session, n), figures_of).optional()
}

fn call(connection: &Connection, session: i64, n: i64) -> rusqlite::Result<Option<Call>> {
    connection
        .prepare_cached("SELECT tool, failed, ms FROM call WHERE session = ?1 AND n = ?2")?
        .query_row((session, n), |row| {
            Ok(Call { tool: row.get(0)?, failed: row.get(1)?, duration: row.get(2)? })
        })
        .optional()
}

fn is_same(a: &Figures, b: &Figures) -> bool {
    (a.role, a.made, a.state, a.usage) == (b.role, b.made, b.state, b.usage)
        && (&a.agent, &a.provider, &a.model, &a.cwd) == (&b.agent, &b.provider, &b.model, &b.cwd)
}

/// Documents whose message or session is missing, grouped by that owner.
fn orphaned(
    connection: &Connection,
    orphans: &BTreeMap<(i64, i64), usize>,
) -> rusqlite::Result<Vec<Problem>> {
    let problems = orphans.iter().map(|((owner, kind), n)| {
        let named = NamedDocument::of(connection, *owner);
        let (kind, detail) = match Kind::from_number(*kind) {
            Some(Kind::Part) => {
                (ProblemKind::OrphanParts, format!("{} of a message that is gone", plural(*n, "part")))
            }
            Some(Kind::Message) => {
                (ProblemKind::OrphanMessages, format!("{} of a session that is gone", plural(*n, "message")))
            }
            _ => (ProblemKind::OrphanBeside, format!("{} of a session that is gone", plural(*n, "document"))),
        };
        Problem { session: None, kind, place: named.place, id: named.session, detail }
    });
    Ok(problems.collect())
}

/// The problems with the numbers of a session.
fn numbers(connection: &Connection, record: &SessionRecord) -> rusqlite::Result<Vec<Problem>> {
    let Some(n) = session_row(connection, record.id.as_str())? else { return Ok(Vec::new()) };
    let problem = |detail: String| Problem {
        session: None,
        kind: ProblemKind::Derived,
        place: record.stored.place.clone(),
        id: Some(record.id.to_string()),
        detail,
    };
    let stored = connection
        .prepare_cached(
            "SELECT parts, messages, cost, input, output, reasoning, cache_read, cache_write, models, agents, state \
             FROM session WHERE n = ?1 AND NOT stale AND NOT brief",
        )?
        .query_row([n], |row| {
            let usage = usage_of(row, 2)?;
            let lists = [derived::names(row.get_ref(8)?.as_str()?), derived::names(row.get_ref(9)?.as_str()?)];
            let state = SessionState::from_number(row.get(10)?);
            Ok((row.get::<_, usize>(0)?, row.get::<_, usize>(1)?, usage, lists, state))
        })
        .optional()?;
    let Some((parts, messages, usage, lists, state)) = stored else {
        let is_there = !is_missing(connection, "SELECT 1 FROM session WHERE n = ?1", [n]);
        // Stale numbers are added up when they are asked for, and brief ones cannot be added up yet.
        let problem = Some(problem("its numbers are missing".to_owned())).filter(|_| !is_there);
        return Ok(problem.into_iter().collect());
    };
    let mut problems = Vec::new();
    let right = derived::add_up(connection, n, record)?;
    for (right, noted, noun) in [(right.messages, messages, "message"), (right.parts, parts, "part")] {
        if right != noted {
            problems.push(problem(format!("it has {}, and {noted} are noted", plural(right, noun))));
        }
    }
    if (right.usage, [right.models, right.agents], right.state) != (usage, lists, state) {
        problems.push(problem("what is noted of it is not what its messages say".to_owned()));
    }
    Ok(problems)
}
