//! What sync notes in the store: homes, where sessions come from, how far each look went.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::{Document, Key, arrange};
use rusqlite::{Connection, OptionalExtension};

use super::Annals;
use super::codec::Hash;
use super::derived;
use super::facts::Prepared;
use super::kind::Kind;
use super::read::{below, latest, number};
use super::revise::{Put, Revising, State, note_said, state};
use super::text_index::entry::Entry;
use crate::figures::Figures;
use crate::home::{Quarantined, ReadError};
use crate::summary::SessionSummary;

/// How deep a look at a session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    /// The session's own document; its messages and parts were counted.
    Messages = 1,
    /// The same, with what each message took and each call.
    Calls = 2,
    /// Everything.
    Parts = 3,
}

impl Depth {
    fn from_number(number: i64) -> Depth {
        match number {
            3.. => Depth::Parts,
            2 => Depth::Calls,
            _ => Depth::Messages,
        }
    }
}

/// A home as the store knows it.
#[derive(Debug, Clone)]
pub(crate) struct KnownHome {
    pub(crate) n: i64,
    pub(crate) stamp: Vec<u8>,
}

/// What is known of a session in a home.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) session: i64,
    pub(crate) updated: Millis,
    pub(crate) stamp: Vec<u8>,
    pub(crate) looked: Millis,
    pub(crate) settled: bool,
    pub(crate) depth: Depth,
    pub(crate) events: Option<i64>,
    pub(crate) is_gone: bool,
    /// Whether something of it could not be read.
    pub(crate) has_unreadable: bool,
}

/// A change that a look found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// A document is new or has changed; with what the text index is to know of it. One that the store has nothing of was
    /// let go already: many of them wait to be stored.
    Put(Key, Option<Document>, Box<Prepared>, Text),
    /// A document is gone.
    Delete(Key),
    /// The home has another form of the same document; the store keeps the one it has.
    Same(Key, Hash),
    /// The home has a document in an older state than the store.
    Older(Key, Box<Prepared>),
}

/// Where the numbers of a session come from after a look.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// From its documents, which are here.
    Stored,
    /// From its home, which has counted them; with those of its messages if the look went that deep.
    Counted(Box<SessionSummary>, Vec<Figures>),
    /// From where they came before: another home has it in a later state.
    AsBefore,
}

/// How a look at a session ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stamp: Vec<u8>,
    pub(crate) place: String,
    pub(crate) updated: Millis,
    pub(crate) looked: Millis,
    pub(crate) settled: bool,
    pub(crate) depth: Depth,
    pub(crate) numbers: Numbers,
    pub(crate) quarantined: Vec<Quarantined>,
    /// Whether the look covered everything, so that what it did not find unreadable is readable.
    pub(crate) is_whole: bool,
}

impl Annals {
    pub(crate) fn known_home(&self, url: &str) -> Result<Option<KnownHome>, ReadError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT n, stamp FROM home WHERE url = ?1")?
                .query_row([url], |row| {
                    Ok(KnownHome { n: row.get(0)?, stamp: row.get::<_, Option<_>>(1)?.unwrap_or_default() })
                })
                .optional()
        })
    }

    /// Everything known of the sessions of a home.
    pub(crate) fn origins(&self, home: i64) -> Result<HashMap<SessionId, Origin>, ReadError> {
        self.read(|connection| {
            // The index has the ids; the rows of the sessions are all over the file.
            let ids: HashMap<i64, String> = below(connection, 0, Kind::Session)?.into_iter().collect();
            let mut statement = connection.prepare_cached(
                "SELECT session, updated, stamp, looked, settled, stage, events, gone IS NOT NULL \
                 FROM origin WHERE home = ?1",
            )?;
            let mut unreadable = connection.prepare_cached(
                "SELECT DISTINCT session FROM quarantine WHERE home = ?1 AND session NOTNULL",
            )?;
            let unreadable: HashSet<String> =
                unreadable.query_map([home], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let mut rows = statement.query([home])?;
            let mut origins = HashMap::new();
            while let Some(row) = rows.next()? {
                let session: i64 = row.get(0)?;
                let Some(Ok(id)) = ids.get(&session).map(|id| SessionId::parse(id)) else { continue };
                let origin = Origin {
                    session,
                    updated: row.get(1)?,
                    stamp: row.get::<_, Option<_>>(2)?.unwrap_or_default(),
                    looked: row.get(3)?,
                    settled: row.get(4)?,
                    depth: Depth::from_number(row.get(5)?),
                    events: row.get(6)?,
                    is_gone: row.get(7)?,
                    has_unreadable: unreadable.contains(id.as_str()),
                };
                origins.insert(id, origin);
            }
            Ok(origins)
        })
    }

    /// Whether an answer or a call of a session has not ended, as far as the store knows.
    pub(crate) fn is_open(&self, session: i64) -> Result<bool, ReadError> {
        self.read(|connection| {
            let answers = "SELECT 1 FROM message WHERE session = ?1 AND role = 2 AND state = 3";
            // Calls of a message that was deleted may have been left behind. Nobody will end them.
            let calls = "SELECT 1 FROM call c JOIN message m ON m.session = c.session AND m.n = c.message \
                         WHERE c.session = ?1 AND c.ms IS NULL AND NOT c.failed";
            Ok(connection.prepare_cached(answers)?.exists([session])?
                || connection.prepare_cached(calls)?.exists([session])?)
        })
    }

    /// Whether this is noted of a home as unreadable, and nothing else that is of no session in the store.
    pub(crate) fn is_home_quarantine(
        &self,
        home: i64,
        quarantined: &[Quarantined],
    ) -> Result<bool, ReadError> {
        let noted: Vec<(String, String, bool)> = self.read(|connection| {
            let sql = format!("SELECT place, reason, {OF_NO_SESSION} FROM quarantine WHERE home = ?1");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map([home], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })?;
        let found: HashSet<(&str, String)> =
            quarantined.iter().map(|problem| (problem.place.as_str(), problem.reason.to_string())).collect();
        let is_found =
            |(place, reason, _): &(String, String, bool)| found.contains(&(place.as_str(), reason.clone()));
        let n_found = noted.iter().filter(|noted| is_found(noted)).count();
        Ok(n_found == found.len() && noted.iter().all(|noted| !noted.2 || is_found(noted)))
    }

    /// The sessions that were forgotten.
    pub(crate) fn forgotten(&self) -> Result<HashSet<Vec<u8>>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT hash FROM forgotten")?;
            let hashes = statement.query_map([], |row| row.get(0))?;
            hashes.collect()
        })
    }

    /// The numbers of all sessions that the store has a place for, by their ids.
    pub(crate) fn session_numbers(&self) -> Result<HashMap<String, i64>, ReadError> {
        let sessions = self.read(|connection| below(connection, 0, Kind::Session))?;
        Ok(sessions.into_iter().map(|(n, id)| (id, n)).collect())
    }

    /// Whether the store has, or had, any message of a session.
    pub(crate) fn has_messages(&self, session: i64) -> Result<bool, ReadError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT 1 FROM document WHERE owner = ?1 AND kind = ?2 LIMIT 1")?
                .exists((session, Kind::Message.number()))
        })
    }

    /// Where a home stands among all that hold a session, if the session was used there at `updated`.
    pub(crate) fn standing(
        &self,
        session: &SessionId,
        home: i64,
        updated: Millis,
    ) -> Result<Standing, ReadError> {
        self.read(|connection| {
            let Some(n) = number(connection, 0, Kind::Session, session.as_str())? else {
                return Ok(Standing::Only);
            };
            let rank: (bool, String) = connection
                .prepare_cached("SELECT by_time, url FROM home WHERE n = ?1")?
                .query_row([home], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut statement = connection.prepare_cached(
                "SELECT o.updated, h.by_time, h.url, o.gone IS NULL FROM origin o JOIN home h ON h.n = o.home \
                 WHERE o.session = ?1 AND o.home <> ?2",
            )?;
            let mut rows = statement.query((n, home))?;
            let mut standing = Standing::Only;
            while let Some(row) = rows.next()? {
                let (other, is_there): (Millis, bool) = (row.get(0)?, row.get(3)?);
                let other_rank: (bool, String) = (row.get(1)?, row.get(2)?);
                standing = standing.min(match updated.cmp(&other) {
                    Ordering::Greater => Standing::Newest,
                    // It is gone there, and what was taken from there stays.
                    _ if !is_there => Standing::Latest,
                    Ordering::Equal if rank > other_rank => Standing::Latest,
                    Ordering::Equal => Standing::Level,
                    Ordering::Less => Standing::Older,
                });
            }
            Ok(standing)
        })
    }
}

/// Where a home stands among those that hold the same session. The session is what it is where it was used last. Where it
/// was used at the same time, as after OpenCode's own migration, it is everything there is anywhere; and of a document that
/// differs nevertheless, the one in a database, for that is what OpenCode uses from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It was used later elsewhere: what differs is older.
    Older,
    /// It was used at the same time elsewhere, and what that says goes first.
    Level,
    /// It goes first, but does not take away what others have.
    Latest,
    /// It was used here after everybody else: what is not here is no longer so.
    Newest,
    /// No other home has ever had it.
    Only,
}

/// What a home says, held against what the store has. Nothing is written here.
pub(crate) struct Comparing<'s> {
    pub(crate) store: &'s Annals,
    pub(crate) session: SessionId,
    pub(crate) home: i64,
    pub(crate) standing: Standing,
    /// Whether the store has nothing of the session yet.
    pub(crate) is_new: bool,
    /// Whether it has any of its messages.
    pub(crate) has_messages: bool,
}

impl Comparing<'_> {
    /// Compares a document. None if there is nothing to do about it.
    pub(crate) fn document(
        &self,
        key: Key,
        document: &Document,
        converted: bool,
        text: impl FnOnce(&Key, &Document) -> Text,
    ) -> Result<Option<Finding>, ReadError> {
        let put = |key: Key, is_new: bool| {
            let prepared = Box::new(Prepared::new(&key, document, converted));
            let text = text(&key, document);
            Some(Finding::Put(key, (!is_new).then(|| document.clone()), prepared, text))
        };
        if self.is_new || (!self.has_messages && matches!(key, Key::Message(..) | Key::Part(..))) {
            return Ok(put(key, true));
        }
        let hash = Hash::of(document.bytes());
        let known = self.store.read(|connection| self.known(connection, &key, hash, document))?;
        Ok(match known {
            Known::Unchanged => None,
            Known::Same => Some(Finding::Same(key, hash)),
            Known::Nothing if self.standing >= Standing::Level => put(key, true),
            Known::Differs if self.standing >= Standing::Latest => put(key, false),
            Known::Nothing | Known::Differs => {
                let prepared = Box::new(Prepared::new(&key, document, converted));
                Some(Finding::Older(key, prepared))
            }
        })
    }

    fn known(
        &self,
        connection: &Connection,
        key: &Key,
        hash: Hash,
        document: &Document,
    ) -> rusqlite::Result<Known> {
        let Some(state) = state_of(connection, key)? else { return Ok(Known::Nothing) };
        let is_ours = state.home == Some(self.home);
        if state.hash == Some(hash) || (is_ours && self.standing >= Standing::Latest) {
            let is_same = state.hash == Some(hash) && !state.is_elsewhere(key);
            return Ok(if is_same { Known::Unchanged } else { Known::Differs });
        }
        // What the home said when it was last looked at was dealt with then.
        let source: Option<Option<Vec<u8>>> = connection
            .prepare_cached("SELECT hash FROM source WHERE document = ?1 AND home = ?2")?
            .query_row((state.n, self.home), |row| row.get(0))
            .optional()?;
        if source.flatten().and_then(|bytes| Hash::read(&bytes)) == Some(hash) {
            return Ok(Known::Unchanged);
        }
        if !is_ours
            && let Some(ours) = latest(connection, state.n)?
            && arrange::is_same(key, &ours, document)
        {
            return Ok(Known::Same);
        }
        Ok(Known::Differs)
    }

    /// The parts of a message that came from this home and are not there any more.
    pub(crate) fn lost_parts(
        &self,
        message: &MessageId,
        present: &HashSet<PartId>,
    ) -> Result<Vec<Finding>, ReadError> {
        if !self.has_messages || self.standing < Standing::Latest {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let Some(session) = number(connection, 0, Kind::Session, self.session.as_str())? else {
                return Ok(Vec::new());
            };
            let Some(n) = number(connection, session, Kind::Message, message.as_str())? else {
                return Ok(Vec::new());
            };
            let mut lost = Vec::new();
            for (part, id) in below(connection, n, Kind::Part)? {
                let Ok(id) = PartId::parse(&id) else { continue };
                if !present.contains(&id) && self.is_from_here(connection, part)? {
                    lost.push(Finding::Delete(Key::Part(self.session.clone(), message.clone(), id)));
                }
            }
            Ok(lost)
        })
    }

    /// The messages that came from this home and are not there any more.
    pub(crate) fn lost_messages(&self, present: &HashSet<MessageId>) -> Result<Vec<Finding>, ReadError> {
        if self.is_new || self.standing < Standing::Latest {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let Some(session) = number(connection, 0, Kind::Session, self.session.as_str())? else {
                return Ok(Vec::new());
            };
            let mut lost = Vec::new();
            for (message, id) in below(connection, session, Kind::Message)? {
                let Ok(id) = MessageId::parse(&id) else { continue };
                if !present.contains(&id) && self.is_from_here(connection, message)? {
                    lost.push(Finding::Delete(Key::Message(self.session.clone(), id)));
                }
            }
            Ok(lost)
        })
    }

    /// What stood beside the session in this home and does not any more.
    pub(crate) fn lost_beside(&self, present: &[Key]) -> Result<Vec<Finding>, ReadError> {
        if self.is_new || self.standing < Standing::Latest {
            return Ok(Vec::new());
        }
        let mut lost = Vec::new();
        let id = &self.session;
        for key in [
            Key::Todo(id.clone()),
            Key::Diff(id.clone()),
            Key::Share(id.clone()),
            Key::LegacyShare(id.clone()),
        ] {
            let is_lost = !present.contains(&key)
                && self.store.read(|connection| match state_of(connection, &key)? {
                    Some(state) => self.is_from_here(connection, state.n),
                    None => Ok(false),
                })?;
            if is_lost {
                lost.push(Finding::Delete(key));
            }
        }
        Ok(lost)
    }

    /// Whether a document that this home does not have is gone with that: it was here when the home was last looked at,
    /// or it comes from a home that is out of date. What was changed in the store is nobody's to delete.
    fn is_from_here(&self, connection: &Connection, n: i64) -> rusqlite::Result<bool> {
        let was_here = "SELECT 1 FROM document d WHERE n = ?1 AND hash NOTNULL AND home NOTNULL AND (home = ?2 OR ?3 \
                        OR EXISTS (SELECT 1 FROM source s WHERE s.document = d.n AND s.home = ?2 AND s.hash NOTNULL))";
        let is_newest = self.standing == Standing::Newest;
        connection.prepare_cached(was_here)?.exists((n, self.home, is_newest))
    }
}

enum Known {
    Nothing,
    Unchanged,
    Same,
    Differs,
}

/// The latest state of the document with a key.
fn state_of(connection: &Connection, key: &Key) -> rusqlite::Result<Option<State>> {
    let session = match key {
        Key::Project(id) => return state(connection, 0, Kind::Project, id.as_str()),
        Key::Session(_, id) => return state(connection, 0, Kind::Session, id.as_str()),
        key => key.session(),
    };
    let Some(session) = session else { return Ok(None) };
    let Some(session) = number(connection, 0, Kind::Session, session.as_str())? else { return Ok(None) };
    match key {
        Key::Message(_, id) => state(connection, session, Kind::Message, id.as_str()),
        Key::Part(_, message, id) => match number(connection, session, Kind::Message, message.as_str())? {
            Some(message) => state(connection, message, Kind::Part, id.as_str()),
            None => Ok(None),
        },
        key => state(connection, session, Kind::of(key), ""),
    }
}

/// The number of a home, given to it now if it has none.
pub(crate) fn home_number(connection: &Connection, url: &str, by_time: bool) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO home (url, by_time) VALUES (?1, ?2)")?
        .execute((url, by_time))?;
    connection.prepare_cached("SELECT n FROM home WHERE url = ?1")?.query_row([url], |row| row.get(0))
}

/// Notes evidence of the state of a whole home, and when that was.
pub(crate) fn note_home(
    connection: &Connection,
    home: i64,
    stamp: &[u8],
    now: Millis,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE home SET stamp = ?2, synced = ?3 WHERE n = ?1")?
        .execute((home, stamp, now))
        .map(drop)
}

/// When a session was last looked at in a home.
pub(crate) fn looked(connection: &Connection, session: i64, home: i64) -> rusqlite::Result<Option<Millis>> {
    connection
        .prepare_cached("SELECT looked FROM origin WHERE session = ?1 AND home = ?2")?
        .query_row((session, home), |row| row.get(0))
        .optional()
}

/// Moves the cursor of a session: what was found is in the same transaction.
pub(crate) fn note_look(
    connection: &Connection,
    session: i64,
    id: &SessionId,
    home: i64,
    ended: &Ended,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO origin (session, home, place, updated, stamp, looked, settled, stage) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET place = ?3, updated = ?4, stamp = ?5, \
             looked = ?6, settled = ?7, stage = ?8, gone = NULL",
        )?
        .execute((
            session,
            home,
            &ended.place,
            ended.updated,
            &ended.stamp,
            ended.looked,
            ended.settled,
            ended.depth as i64,
        ))?;
    if ended.is_whole {
        connection
            .prepare_cached("DELETE FROM quarantine WHERE home = ?1 AND session = ?2")?
            .execute((home, id.as_str()))?;
    }
    note_quarantine(connection, home, &ended.quarantined, ended.looked)
}

/// What could not be read and is of no session in the store, as a condition.
pub(super) const OF_NO_SESSION: &str = "(quarantine.session IS NULL OR NOT EXISTS \
    (SELECT 1 FROM document d WHERE d.owner = 0 AND d.kind = 2 AND d.id = quarantine.session AND d.hash NOT NULL))";

/// Notes what could not be read of a home and is of no session in the store. What was noted before is read by now, or gone.
pub(crate) fn note_home_quarantine(
    connection: &Connection,
    home: i64,
    quarantined: &[Quarantined],
    now: Millis,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!("DELETE FROM quarantine WHERE home = ?1 AND {OF_NO_SESSION}"))?
        .execute([home])?;
    note_quarantine(connection, home, quarantined, now)
}

fn note_quarantine(
    connection: &Connection,
    home: i64,
    quarantined: &[Quarantined],
    now: Millis,
) -> rusqlite::Result<()> {
    for problem in quarantined {
        connection
            .prepare_cached(
                "INSERT INTO quarantine (home, place, reason, session, since) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT DO UPDATE SET reason = ?3, session = ?4",
            )?
            .execute((
                home,
                &problem.place,
                problem.reason.to_string(),
                problem.session.as_ref().map(SessionId::as_str),
                now,
            ))?;
    }
    Ok(())
}

/// Notes that a session is not where it was. What was taken from it stays.
pub(crate) fn note_gone(
    connection: &Connection,
    revising: &mut Revising<'_>,
    session: i64,
    home: i64,
    now: Millis,
) -> rusqlite::Result<()> {
    revising.note(session)?;
    connection
        .prepare_cached(
            "DELETE FROM quarantine WHERE home = ?1 AND session = (SELECT id FROM document WHERE n = ?2)",
        )?
        .execute((home, session))?;
    connection
        .prepare_cached("UPDATE origin SET gone = ?3, stamp = NULL WHERE session = ?1 AND home = ?2")?
        .execute((session, home, now))
        .map(drop)
}

/// Notes how far OpenCode's log of a session was read.
pub(crate) fn note_events(
    connection: &Connection,
    session: i64,
    home: i64,
    reached: Option<i64>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE origin SET events = ?3 WHERE session = ?1 AND home = ?2")?
        .execute((session, home, reached))
        .map(drop)
}

/// What the text index is to know of what was committed.
#[derive(Debug)]
pub(crate) struct ToIndex {
    pub(crate) n: i64,
    pub(crate) session: i64,
    /// Nothing where there is nothing to be found in it.
    pub(crate) text: Option<Box<Entry>>,
}

/// What the text index is to know of a document.
#[derive(Debug)]
pub(crate) enum Text {
    /// That is found out later.
    Unknown,
    Known(Option<Box<Entry>>),
}

/// Makes a change that a look found. `to_index` is none as soon as something was changed of which the text index is to find
/// out by itself.
pub(crate) fn apply(
    connection: &Connection,
    revising: &mut Revising<'_>,
    home: i64,
    updated: Millis,
    finding: Finding,
    to_index: &mut Option<Vec<ToIndex>>,
) -> rusqlite::Result<bool> {
    match finding {
        Finding::Put(key, document, prepared, text) => {
            let Put::Written(n) = revising.put(&key, &prepared, document.as_ref())? else { return Ok(false) };
            match (text, key.session(), &mut *to_index) {
                _ if !Kind::of(&key).has_text() => {}
                (Text::Known(text), Some(session), Some(to_index)) => {
                    to_index.push(ToIndex { n, session: revising.session(session)?, text });
                }
                _ => *to_index = None,
            }
            Ok(true)
        }
        Finding::Delete(key) => {
            *to_index = None;
            revising.delete(&key)
        }
        Finding::Same(key, hash) => {
            if let Some(state) = revising.state(&key)? {
                note_said(connection, state.n, home, Some(hash))?;
            }
            Ok(false)
        }
        Finding::Older(key, prepared) => {
            *to_index = None;
            let mut earlier =
                Revising::of_the_past(connection, updated, "an older state in another home", home);
            earlier.put_past(&key, Some(&prepared))?;
            earlier.finish()?;
            revising.end_past(&key)?;
            if let Some(state) = revising.state(&key)? {
                note_said(connection, state.n, home, Some(prepared.packed.hash))?;
            }
            Ok(true)
        }
    }
}

/// Notes the numbers of a session of which the messages are not here yet, or that from now on they are.
pub(crate) fn note_numbers(connection: &Connection, session: i64, numbers: &Numbers) -> rusqlite::Result<()> {
    match numbers {
        Numbers::Counted(summary, figures) => {
            derived::store(connection, session, Some(&summary.title), summary, true)?;
            derived::store_figures(connection, session, figures)
        }
        Numbers::Stored => {
            let n_brief = connection
                .prepare_cached("UPDATE session SET brief = 0, stale = 1 WHERE n = ?1 AND brief")?
                .execute([session])?;
            match n_brief {
                0 => Ok(()),
                _ => derived::store_figures(connection, session, &[]),
            }
        }
        Numbers::AsBefore => Ok(()),
    }
}

/// Adds up the numbers of what was changed.
pub(crate) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    derived::refresh(connection)
}
