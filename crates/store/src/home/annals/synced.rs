//! What sync notes in the store: homes, where sessions come from, how far each look went.

use std::collections::{HashMap, HashSet};

use annals_core::id::{MessageId, Millis, PartId, SessionId};
use annals_core::json::same_value;
use annals_core::{Document, Key};
use rusqlite::{Connection, OptionalExtension};

use super::Annals;
use super::codec::{self, Hash};
use super::derived;
use super::facts::Prepared;
use super::kind::Kind;
use super::read::{below, documents_of, latest, number};
use super::revise::{Put, Revising, State, note_said, state};
use super::text_index::entry::Entry;
use crate::figures::Figures;
use crate::home::{Quarantined, ReadError};
use crate::summary::SessionSummary;
use crate::sync::compare::{self, Cursor, Depth, Known, Leaders, Look, Origin, Verdict};

/// A home as the store knows it.
#[derive(Debug, Clone)]
pub(crate) struct KnownHome {
    pub(crate) n: i64,
    pub(crate) stamp: Vec<u8>,
    /// Whether everything in it was taken over once.
    pub(crate) is_complete: bool,
}

/// A change that a look found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// A document is shown from now on; with what the text index is to know of it. The document itself is left out where the
    /// store has nothing of it yet: many of them wait to be stored.
    Show(Key, Option<Document>, Box<Prepared>, Text),
    /// A document is not shown any more.
    Remove(Key),
    /// The home says this. It is what is shown, in the same form or in another.
    Note(Key, Hash),
    /// The home has a state that is not shown.
    Keep(Key, Box<Prepared>),
    /// The home does not have the document any more; another home does.
    Unsay(Key),
}

impl Finding {
    /// Whether a document was found otherwise than the store has it.
    pub(crate) fn is_import(&self) -> bool {
        matches!(self, Finding::Show(..) | Finding::Keep(..))
    }
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
    pub(crate) cursor: Cursor,
    pub(crate) place: String,
    pub(crate) looked: Millis,
    pub(crate) numbers: Numbers,
    pub(crate) quarantined: Vec<Quarantined>,
    /// Whether the look covered everything, so that what it did not find unreadable is readable.
    pub(crate) is_whole: bool,
}

impl Annals {
    pub(crate) fn known_home(&self, url: &str) -> Result<Option<KnownHome>, ReadError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT n, stamp, complete FROM home WHERE url = ?1")?
                .query_row([url], |row| {
                    Ok(KnownHome {
                        n: row.get(0)?,
                        stamp: row.get::<_, Option<_>>(1)?.unwrap_or_default(),
                        is_complete: row.get(2)?,
                    })
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
                "SELECT session, updated, stamp, looked, settled, stage, events, gone IS NOT NULL, turn \
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
                let cursor = Cursor {
                    stamp: row.get::<_, Option<_>>(2)?.unwrap_or_default(),
                    updated: row.get(1)?,
                    settled: row.get(4)?,
                    depth: Depth::from_number(row.get(5)?),
                    has_unreadable: unreadable.contains(id.as_str()),
                };
                let origin = Origin {
                    session,
                    cursor,
                    looked: row.get(3)?,
                    turn: row.get(8)?,
                    events: row.get(6)?,
                    is_gone: row.get(7)?,
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

    /// The number of a session, if the store has a place for it.
    pub(crate) fn session_number(&self, session: &SessionId) -> Result<Option<i64>, ReadError> {
        self.read(|connection| number(connection, 0, Kind::Session, session.as_str()))
    }

    /// Whether the store has, or had, any message of a session.
    pub(crate) fn has_messages(&self, session: i64) -> Result<bool, ReadError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT 1 FROM document WHERE owner = ?1 AND kind = ?2 LIMIT 1")?
                .exists((session, Kind::Message.number()))
        })
    }

    /// The last look at a session in each home.
    pub(crate) fn looks(&self, session: i64) -> Result<Vec<Look>, ReadError> {
        self.read(|connection| looks(connection, session))
    }
}

/// The last look at a session in each home.
pub(crate) fn looks(connection: &Connection, session: i64) -> rusqlite::Result<Vec<Look>> {
    let mut statement = connection.prepare_cached(
        "SELECT o.home, o.updated, h.by_time, h.own, o.turn, o.gone IS NULL, o.stage \
         FROM origin o JOIN home h ON h.n = o.home WHERE o.session = ?1 ORDER BY o.home",
    )?;
    let looks = statement.query_map([session], |row| {
        Ok(Look {
            home: row.get(0)?,
            updated: row.get(1)?,
            is_database: row.get(2)?,
            is_own: row.get(3)?,
            turn: row.get(4)?,
            is_there: row.get(5)?,
            is_deep: Depth::from_number(row.get(6)?) == Depth::Parts,
        })
    })?;
    looks.collect()
}

/// A look at one session, held against what the store has. Nothing is written here.
pub(crate) struct Comparing<'s> {
    pub(crate) store: &'s Annals,
    pub(crate) session: SessionId,
    pub(crate) home: i64,
    pub(crate) leaders: Leaders,
    /// Whether other homes have the session too, or had it.
    pub(crate) is_shared: bool,
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
        let hash = Hash::of(document.bytes());
        let has_items = || document.root().items().next().is_some();
        // No list and an empty one are the same.
        let is_implied = matches!(key, Key::Todo(_)) && !has_items();
        let is_unknown =
            self.is_new || (!self.has_messages && matches!(key, Key::Message(..) | Key::Part(..)));
        let (verdict, is_known) = match is_unknown {
            true => {
                let leads = is_implied || self.leads(&key, None);
                (compare::present(None, self.home, leads, hash, || false), false)
            }
            false => self.store.read(|connection| {
                let found = self.known(connection, &key)?;
                let known = found.as_ref().map(|(_, known)| known);
                let leads = self.leads(&key, known) || (is_implied && known.is_none());
                let is_same = || {
                    let shown = found.as_ref().and_then(|(n, _)| latest(connection, *n).ok().flatten());
                    shown.is_some_and(|shown| same_value(shown.root(), document.root()))
                };
                Ok((compare::present(known, self.home, leads, hash, is_same), known.is_some()))
            })?,
        };
        let prepared = || Box::new(Prepared::new(&key, document, converted));
        Ok(match verdict {
            Verdict::Show => {
                let (prepared, text) = (prepared(), text(&key, document));
                Some(Finding::Show(key, is_known.then(|| document.clone()), prepared, text))
            }
            Verdict::Keep => {
                let prepared = prepared();
                Some(Finding::Keep(key, prepared))
            }
            Verdict::Note => Some(Finding::Note(key, hash)),
            Verdict::Nothing | Verdict::Remove | Verdict::Unsay => None,
        })
    }

    /// What is known of a document. None for one that is only named by others.
    fn known(&self, connection: &Connection, key: &Key) -> rusqlite::Result<Option<(i64, Known)>> {
        let Some(state) = state_of(connection, key)?.filter(|state| state.since != 0) else {
            return Ok(None);
        };
        let mut known = Known {
            // Filed under another project it is not what is shown.
            shown: state.hash.filter(|_| !state.is_elsewhere(key)),
            from: state.home,
            ..Known::default()
        };
        if (self.is_shared || state.home != Some(self.home))
            && let Some((hash, kept)) = said(connection, state.n, self.home)?
        {
            known.said = hash;
            known.kept = kept;
        }
        Ok(Some((state.n, known)))
    }

    fn leads(&self, key: &Key, known: Option<&Known>) -> bool {
        // Not every home has a place for these: whichever has one leads in them.
        let is_optional = matches!(key, Key::Diff(_) | Key::LegacyShare(_));
        let is_others = known.is_some_and(|known| known.shown.is_some() && known.from != Some(self.home));
        self.leaders.is(self.home, matches!(key, Key::Session(..))) || (is_optional && !is_others)
    }

    /// What to do about a document that the home does not have.
    fn lost(&self, connection: &Connection, key: Key) -> rusqlite::Result<Option<Finding>> {
        let Some((_, known)) = self.known(connection, &key)? else { return Ok(None) };
        let leads = self.leads(&key, Some(&known));
        Ok(match compare::absent(&known, self.home, leads) {
            Verdict::Remove => Some(Finding::Remove(key)),
            Verdict::Unsay => Some(Finding::Unsay(key)),
            _ => None,
        })
    }

    /// The parts of a message that this home does not have.
    pub(crate) fn lost_parts(
        &self,
        message: &MessageId,
        present: &HashSet<PartId>,
    ) -> Result<Vec<Finding>, ReadError> {
        if !self.has_messages {
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
            for (_, id) in below(connection, n, Kind::Part)? {
                let Ok(id) = PartId::parse(&id) else { continue };
                if !present.contains(&id) {
                    lost.extend(self.lost(connection, Key::Part(self.session.clone(), message.clone(), id))?);
                }
            }
            Ok(lost)
        })
    }

    /// The messages that this home does not have, whether they are shown or not.
    pub(crate) fn missing_messages(&self, present: &HashSet<MessageId>) -> Result<Vec<MessageId>, ReadError> {
        if self.is_new {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let Some(session) = number(connection, 0, Kind::Session, self.session.as_str())? else {
                return Ok(Vec::new());
            };
            let all = below(connection, session, Kind::Message)?;
            let ids = all.into_iter().filter_map(|(_, id)| MessageId::parse(&id).ok());
            Ok(ids.filter(|id| !present.contains(id)).collect())
        })
    }

    /// What to do about documents that the home does not have.
    pub(crate) fn lost_documents(&self, keys: &[Key]) -> Result<Vec<Finding>, ReadError> {
        if self.is_new || keys.is_empty() {
            return Ok(Vec::new());
        }
        self.store.read(|connection| {
            let mut lost = Vec::new();
            for key in keys {
                // No list and an empty one are the same.
                let is_empty = matches!(key, Key::Todo(_))
                    && match state_of(connection, key)? {
                        Some(state) => latest(connection, state.n)?
                            .is_some_and(|list| list.root().items().next().is_none()),
                        None => false,
                    };
                if !is_empty {
                    lost.extend(self.lost(connection, key.clone())?);
                }
            }
            Ok(lost)
        })
    }
}

/// What a home said of a document when it was last looked at, and the state in the store that says the same.
fn said(
    connection: &Connection,
    document: i64,
    home: i64,
) -> rusqlite::Result<Option<(Option<Hash>, Option<Hash>)>> {
    let hash = |row: &rusqlite::Row<'_>, column: usize| -> rusqlite::Result<Option<Hash>> {
        Ok(row.get_ref(column)?.as_bytes_or_null()?.and_then(Hash::read))
    };
    connection
        .prepare_cached("SELECT hash, kept FROM source WHERE document = ?1 AND home = ?2")?
        .query_row((document, home), |row| Ok((hash(row, 0)?, hash(row, 1)?)))
        .optional()
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

/// Notes evidence of the state of a whole home, and when that was.
pub(crate) fn note_home(
    connection: &Connection,
    home: i64,
    stamp: &[u8],
    is_complete: bool,
    now: Millis,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE home SET stamp = ?2, synced = ?3, complete = complete OR ?4 WHERE n = ?1")?
        .execute((home, stamp, now, is_complete))
        .map(drop)
}

/// The number of the next look.
pub(crate) fn next_turn(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO meta (name, value) VALUES ('turn', 1) ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value",
        )?
        .query_row([], |row| row.get(0))
}

/// Notes that a session was looked at just now, for those who look at it at the same time.
pub(crate) fn note_turn(connection: &Connection, session: i64, home: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE origin SET turn = ?3 WHERE session = ?1 AND home = ?2")?
        .execute((session, home, next_turn(connection)?))
        .map(drop)
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
            "INSERT INTO origin (session, home, place, updated, stamp, looked, settled, stage, turn) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO UPDATE SET place = ?3, updated = ?4, stamp = ?5, \
             looked = ?6, settled = ?7, stage = ?8, turn = ?9, gone = NULL",
        )?
        .execute((
            session,
            home,
            &ended.place,
            ended.cursor.updated,
            &ended.cursor.stamp,
            ended.looked,
            ended.cursor.settled,
            ended.cursor.depth as i64,
            next_turn(connection)?,
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
        .prepare_cached(
            "UPDATE origin SET gone = ?3, stamp = NULL, turn = ?4 WHERE session = ?1 AND home = ?2",
        )?
        .execute((session, home, now, next_turn(connection)?))
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

/// Makes a change that a look found. `leaders` are those of the session after the look. `to_index` is none as soon as something was
/// changed of which the text index is to find out by itself. True if documents were changed.
pub(crate) fn apply(
    connection: &Connection,
    revising: &mut Revising<'_>,
    look: &Applied,
    finding: Finding,
    to_index: &mut Option<Vec<ToIndex>>,
) -> rusqlite::Result<bool> {
    let home = look.home;
    match finding {
        Finding::Show(key, document, prepared, text) => {
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
        Finding::Remove(key) => {
            *to_index = None;
            let is_removed = revising.delete(&key)?;
            if let Some(state) = revising.state(&key)? {
                unsay(connection, state.n, home)?;
            }
            Ok(is_removed)
        }
        Finding::Note(key, hash) => {
            if let Some(state) = revising.state(&key)? {
                let kept = state.hash.filter(|shown| *shown != hash);
                note_said(connection, state.n, home, Some(hash), kept)?;
            }
            Ok(false)
        }
        Finding::Keep(key, prepared) => {
            *to_index = None;
            hand_over(connection, revising, look, &key)?;
            let mut earlier =
                Revising::of_the_past(connection, look.updated, "an older state in another home", home);
            earlier.put_past(&key, Some(&prepared))?;
            earlier.finish()?;
            revising.end_past(&key, look.leader(&key))?;
            if let Some(state) = revising.state(&key)? {
                note_said(connection, state.n, home, Some(prepared.packed.hash), None)?;
            }
            Ok(true)
        }
        Finding::Unsay(key) => {
            hand_over(connection, revising, look, &key)?;
            if let Some(state) = revising.state(&key)? {
                unsay(connection, state.n, home)?;
            }
            Ok(false)
        }
    }
}

/// The look whose findings are applied.
pub(crate) struct Applied {
    pub(crate) home: i64,
    /// When the session was used in this home before what the look found.
    pub(crate) updated: Millis,
    pub(crate) leaders: Leaders,
}

impl Applied {
    /// The home that leads in a document.
    fn leader(&self, key: &Key) -> Option<i64> {
        if matches!(key, Key::Session(..)) { self.leaders.session } else { self.leaders.rest }
    }
}

/// A home that does not lead has given the state that is shown, and changes its mind: the leader says the same, so from now on the
/// state is the leader's.
fn hand_over(
    connection: &Connection,
    revising: &mut Revising<'_>,
    look: &Applied,
    key: &Key,
) -> rusqlite::Result<()> {
    let Some(leader) = look.leader(key).filter(|leader| *leader != look.home) else { return Ok(()) };
    let Some(state) = revising.state(key)?.filter(|state| state.home == Some(look.home)) else {
        return Ok(());
    };
    // If the leader says something else, it leads only since this look, and the whole session is settled after it.
    let is_leaders = said(connection, state.n, leader)?
        .is_some_and(|(hash, kept)| state.hash.is_some() && (hash == state.hash || kept == state.hash));
    if is_leaders {
        connection
            .prepare_cached("UPDATE document SET home = ?2 WHERE n = ?1")?
            .execute((state.n, leader))?;
        connection
            .prepare_cached("DELETE FROM source WHERE document = ?1 AND home = ?2 AND hash IS ?3")?
            .execute((state.n, leader, state.hash))?;
    }
    Ok(())
}

/// Notes that a home does not have a document.
pub(super) fn unsay(connection: &Connection, document: i64, home: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM source WHERE document = ?1 AND home = ?2")?
        .execute((document, home))
        .map(drop)
}

/// Shows of a session what the home has that leads by now, as far as the store knows it: another home was used later, and does not have
/// the session any more. The leader is looked at again as soon as it can be.
pub(crate) fn settle(
    connection: &Connection,
    now: Millis,
    session: i64,
    leaders: Leaders,
    gone: Option<i64>,
) -> rusqlite::Result<()> {
    for (is_session, leader) in [(true, leaders.session), (false, leaders.rest)] {
        let Some(leader) = leader else { continue };
        let mut revising = Revising::new(connection, now, "now as another home has it", Some(leader))?;
        for (n, key) in documents_of(connection, session)? {
            if matches!(key, Key::Session(..)) == is_session {
                settle_document(connection, &mut revising, n, &key, leader)?;
            }
        }
        revising.finish()?;
        connection
            .prepare_cached("UPDATE origin SET stamp = NULL, settled = 0 WHERE session = ?1 AND home = ?2")?
            .execute((session, leader))?;
    }
    if let Some(gone) = gone {
        for (n, _) in documents_of(connection, session)? {
            unsay(connection, n, gone)?;
        }
    }
    Ok(())
}

fn settle_document(
    connection: &Connection,
    revising: &mut Revising<'_>,
    n: i64,
    key: &Key,
    leader: i64,
) -> rusqlite::Result<()> {
    let Some(state) = revising.state(key)?.filter(|state| state.since != 0) else { return Ok(()) };
    // What was changed in the store stands, and what the leader gave is right.
    let Some(from) = state.home.filter(|from| *from != leader) else { return Ok(()) };
    // What the home that led says by now is noted already.
    let noted = said(connection, n, from)?;
    match said(connection, n, leader)? {
        Some((Some(hash), kept)) => {
            let wanted = kept.unwrap_or(hash);
            if state.hash == Some(wanted) {
                connection
                    .prepare_cached("UPDATE document SET home = ?2 WHERE n = ?1")?
                    .execute((n, leader))?;
                return if kept.is_none() { unsay(connection, n, leader) } else { Ok(()) };
            }
            if let Some(document) = state_with(connection, n, wanted)? {
                revising.put(key, &Prepared::new(key, &document, false), None)?;
            }
        }
        _ => {
            // Kinds of documents that a home has no place for are not missing there.
            if !matches!(key, Key::Diff(_) | Key::LegacyShare(_)) {
                revising.delete(key)?;
            }
        }
    }
    match noted {
        Some((hash, kept)) => note_said(connection, n, from, hash, kept),
        None => Ok(()),
    }
}

/// An earlier state of a document, by its hash. None if it is not kept.
fn state_with(connection: &Connection, n: i64, wanted: Hash) -> rusqlite::Result<Option<Document>> {
    let mut statement = connection
        .prepare_cached("SELECT hash, form, size, data, since, project FROM past WHERE document = ?1")?;
    let mut rows = statement.query([n])?;
    while let Some(row) = rows.next()? {
        let (since, project): (i64, Option<String>) = (row.get(4)?, row.get(5)?);
        let bound = row.get_ref(0)?.as_bytes_or_null()?.and_then(Hash::read);
        if bound.map(|hash| hash.bound(n, since, project.as_deref())) != Some(wanted) {
            continue;
        }
        let form: i64 = row.get(1)?;
        let size: i64 = row.get::<_, Option<i64>>(2)?.unwrap_or(0);
        let data = row.get_ref(3)?.as_bytes_or_null()?.unwrap_or_default();
        if let Ok(text) = codec::unpack(form, size, data, wanted) {
            return Ok(Document::parse(text).ok());
        }
    }
    Ok(None)
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
