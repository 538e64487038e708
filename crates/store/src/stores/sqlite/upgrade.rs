//! Upgrading the tables of an earlier version: after a backup, and all at once.

use annals_core::Position;
use annals_core::id::{ERA_MILLIS, Millis};
use rusqlite::{Connection, OptionalExtension};

use super::OpenStoreError;
use super::backup::Draft;
use super::derived::rederive_states;
use super::file::{BeginError, StoreFile};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::restore::unused;
use super::rows::LEADER_FIRST;
use crate::upkeep::BackupError;

/// Upgrades a store. `upgrades` lead from each version to the next, beginning with version 1. A step after which
/// earlier versions of annals would read the store wrongly also raises `reader` in `meta`.
pub(super) fn upgrade(file: &StoreFile, upgrades: &[&str]) -> Result<(), OpenStoreError> {
    let path = file.path();
    let failed = |error: rusqlite::Error| OpenStoreError::sqlite(path, &error);
    let latest = 1 + upgrades.len() as i64;
    let writing = file.write().map_err(|error| match error {
        BeginError::ReadOnly => OpenStoreError::io(path, &std::io::ErrorKind::PermissionDenied.into()),
        BeginError::Queue(error) => OpenStoreError::io(path, &error),
        BeginError::Sqlite(error) => failed(error),
    })?;
    // Another process may have been faster.
    let found: Option<i64> = writing
        .query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| row.get(0))
        .optional()
        .map_err(failed)?;
    let (n_done, steps) = match found.and_then(|found| usize::try_from(found - 1).ok()) {
        Some(n_done) if n_done < upgrades.len() => (n_done, &upgrades[n_done..]),
        Some(_) => return Ok(()),
        None => {
            let what = "the version of its tables is not valid".to_owned();
            return Err(OpenStoreError::Damaged { path: path.display().to_string(), what });
        }
    };
    tracing::info!(store = ?path, from = n_done + 1, to = latest, "upgrade the tables of a store");
    // No other process writes now, so the backup is of the state that is upgraded.
    let kept = unused(path, &format!(".before-schema-{latest}"));
    let draft = Draft::beside(path).map_err(|error| unsaved(file, error))?;
    file.read(|connection| draft.copy(connection, &|_, _| {})).map_err(failed)?;
    draft.place_new(&kept).map_err(|error| unsaved(file, error))?;
    let done = run(&writing, n_done, steps, latest).and_then(|()| writing.commit());
    if let Err(error) = done {
        // Nothing has changed, so the backup is not needed.
        let _ = std::fs::remove_file(&kept);
        return Err(match failed(error) {
            OpenStoreError::Refused { path, what } => {
                let what = format!("its tables cannot be upgraded, and are unchanged: {what}");
                OpenStoreError::Refused { path, what }
            }
            other => other,
        });
    }
    Ok(())
}

fn run(connection: &Connection, n_done: usize, steps: &[&str], latest: i64) -> rusqlite::Result<()> {
    for step in steps {
        connection.execute_batch(step)?;
    }
    if n_done < TO_POSITIONS {
        place_messages(connection)?;
    }
    // Since schema 4 an answer that ended with tool calls is not the end of a turn.
    rederive_states(connection)?;
    connection.execute("UPDATE meta SET value = ?1 WHERE name = 'schema'", [latest]).map(drop)
}

/// The number of steps up to the one that introduces positions.
const TO_POSITIONS: usize = 5;

/// Computes the positions of messages and parts from the eras that the column still holds: they keep their order from before schema 6.
fn place_messages(connection: &Connection) -> rusqlite::Result<()> {
    let sessions: Vec<SessionRow> = connection
        .prepare("SELECT n FROM document WHERE owner = 0 AND kind = ?1")?
        .query_map([Kind::Session.number()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let by_time = format!(
        "SELECT h.rank FROM origin o JOIN home h ON h.n = o.home WHERE o.session = ?1 ORDER BY {LEADER_FIRST} LIMIT 1"
    );
    for session in sessions {
        let is_by_time: Option<bool> =
            connection.prepare_cached(&by_time)?.query_row([session], |row| row.get(0)).optional()?;
        let messages: Vec<(DocumentRow, String, i64, Option<Millis>)> = connection
            .prepare_cached(
                "SELECT d.n, d.id, d.position, m.made FROM document d \
                 LEFT JOIN message m ON m.session = d.owner AND m.n = d.n WHERE d.owner = ?1 AND d.kind = ?2",
            )?
            .query_map((session, Kind::Message.number()), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (n, id, era, made) in messages {
            let position = match made {
                Some(made) if is_by_time == Some(true) => Position::new(made),
                // Only the id of a message that is gone tells when it was made.
                _ => Position::in_era(era, &id),
            };
            let era = made.map_or(era, |made| made.div_euclid(ERA_MILLIS));
            connection
                .prepare_cached("UPDATE document SET position = ?2 WHERE n = ?1")?
                .execute((n, position.number()))?;
            connection
                .prepare_cached(
                    "UPDATE document SET position = position - ?3 WHERE owner = ?1 AND kind = ?2",
                )?
                .execute((n, Kind::Part.number(), era))?;
        }
    }
    Ok(())
}

/// The error for a failed backup, after which nothing is upgraded.
fn unsaved(file: &StoreFile, error: BackupError) -> OpenStoreError {
    let path = file.path().display().to_string();
    match error {
        BackupError::NoRoom { .. } => OpenStoreError::NoRoom { path },
        BackupError::Damaged { what, .. } => OpenStoreError::Damaged { path, what },
        error => OpenStoreError::Refused { path, what: format!("no backup could be made: {error}") },
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use annals_core::id::ProjectId;
    use annals_core::{Document, Key, Transaction};

    use crate::store::Store;
    use crate::upkeep::Upkeep;

    use super::super::{OpenStoreError, SCHEMA, SqliteStore, UPGRADES};
    use crate::events::{EventChange, Events, Start};
    use crate::history::{History, LogQuery};
    use crate::home::{CommitError, Inspect, Read, Write};

    /// All versions, with two that do not exist. The last is one that this version of annals cannot read.
    fn steps() -> Vec<&'static str> {
        let next =
            "ALTER TABLE home ADD COLUMN colour TEXT; UPDATE revision SET reason = reason || ', upgraded'";
        let last = "CREATE TABLE flavour (n INTEGER PRIMARY KEY) STRICT; UPDATE meta SET value = value + 2 WHERE name = 'reader'";
        [UPGRADES, &[next, last]].concat()
    }

    /// All versions, with one more.
    fn next() -> Vec<&'static str> {
        steps()[..UPGRADES.len() + 1].to_vec()
    }

    /// The name of the backup before an upgrade to this many versions after the current one.
    fn backup(n_newer: i64) -> String {
        format!("annals.db.before-schema-{}", SCHEMA + n_newer)
    }

    const STORE: &str = "ANNALS_TEST_UPGRADE_STORE";

    fn store() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("annals.db");
        commit(&SqliteStore::open_or_create(&path).unwrap(), "a").unwrap();
        (directory, path)
    }

    fn key() -> Key {
        Key::Project(ProjectId::global())
    }

    fn commit(store: &SqliteStore, text: &str) -> Result<(), CommitError> {
        let mut transaction = Transaction::new(format!("say {text}"));
        transaction.put(key(), Document::parse(format!("{text:?}").into_bytes()).unwrap());
        store.commit(transaction).map(drop)
    }

    fn text(store: &SqliteStore) -> String {
        store.document(&key()).unwrap().unwrap().document.text().to_owned()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !["-wal", "-shm", "-lock"].iter().any(|end| name.ends_with(end)));
        names.sort();
        names
    }

    #[test]
    fn a_store_is_brought_up_to_date_after_a_backup() {
        let (directory, path) = store();
        let upgraded = SqliteStore::open_with(&path, &steps()).unwrap();
        assert_eq!(text(&upgraded), "\"a\"");
        let log = upgraded.log(&LogQuery::default()).unwrap();
        assert_eq!(log[0].reason, "say a, upgraded");
        commit(&upgraded, "b").unwrap();
        drop(upgraded);
        assert_eq!(names(directory.path()), ["annals.db", &backup(2)]);
        // Once is enough.
        drop(SqliteStore::open_with(&path, &steps()).unwrap());
        assert_eq!(names(directory.path()).len(), 2);
        // The backup is the store as it was.
        let before = SqliteStore::open(&directory.path().join(backup(2))).unwrap();
        assert_eq!(text(&before), "\"a\"");
        assert!(before.check(0, &|| {}).unwrap().is_empty());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(before.path()).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    /// The SQL that turns a store of this version into one of version 1.
    const BACK_TO_1: &str =
        concat!(include_str!("../../../tests/back-to-5.sql"), include_str!("../../../tests/back-to-1.sql"));

    /// Before schema 6, messages were in the order of time where the session's home was a database, and of ids elsewhere.
    #[test]
    fn messages_keep_the_order_they_had() {
        use annals_core::id::{MessageId, PartId, SessionId};

        use crate::home::{MessageDetail, MessageRange};

        let (_directory, path) = store();
        let opened = SqliteStore::open(&path).unwrap();
        let sessions = ["ses_files", "ses_rows"].map(|id| SessionId::parse(id).unwrap());
        let noon = 1_770_000_000_000_i64;
        let document = |text: String| Document::parse(text.into_bytes()).unwrap();
        for session in &sessions {
            let mut turn = Transaction::new("turns");
            turn.insert(Key::Session(ProjectId::global(), session.clone()), document("{}".to_owned()));
            // The later id has the earlier time.
            for (id, made) in [("msg_c2bf3f000001", noon + 5), ("msg_c2bf3f001001", noon)] {
                let message = MessageId::parse(id).unwrap();
                let info = format!(r#"{{"role":"user","time":{{"created":{made}}}}}"#);
                turn.insert(Key::Message(session.clone(), message.clone()), document(info));
                let part = PartId::parse(&id.replace("msg", "prt")).unwrap();
                turn.insert(Key::Part(session.clone(), message, part), document("{}".to_owned()));
            }
            opened.commit(turn).unwrap();
        }
        let writing = opened.write().unwrap();
        writing
            .execute_batch(
                "INSERT INTO home (n, url, rank) VALUES (7, '/x', 1);
                 INSERT INTO origin (session, home, place, updated, looked, settled, stage)
                   SELECT n, 7, 'x', 1, 1, 1, 2 FROM document WHERE id = 'ses_rows';",
            )
            .unwrap();
        writing.execute_batch(include_str!("../../../tests/back-to-5.sql")).unwrap();
        writing.commit().unwrap();
        drop(opened);
        let upgraded = SqliteStore::open(&path).unwrap();
        let ids = |session: &SessionId| {
            let record = upgraded.session(session).unwrap().unwrap();
            let messages = upgraded.messages(&record, &MessageRange::ALL, MessageDetail::Parts);
            messages.map(|message| message.unwrap().stored.key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&sessions[0]), ["message msg_c2bf3f000001", "message msg_c2bf3f001001"]);
        assert_eq!(ids(&sessions[1]), ["message msg_c2bf3f001001", "message msg_c2bf3f000001"]);
        assert!(upgraded.check(0, &|| {}).unwrap().is_empty());
    }

    #[test]
    fn a_store_of_version_1_says_the_same_of_every_revision() {
        let (directory, path) = store();
        let store = SqliteStore::open(&path).unwrap();
        let sessions = [crate::ids::new_session(), crate::ids::new_session()];
        for wanted in [&sessions[..1], &sessions[..], &sessions[1..]] {
            let mut transaction = Transaction::new("say it");
            for id in wanted {
                let text = format!(r#"{{"id":"{id}","said":{}}}"#, store.head().unwrap());
                let document = Document::parse(text.into_bytes()).unwrap();
                transaction.put(Key::Session(ProjectId::global(), id.clone()), document);
            }
            store.commit(transaction).unwrap();
        }
        let logs = |store: &SqliteStore| {
            let queries = [None, Some(sessions[0].clone()), Some(sessions[1].clone())];
            let query = |session| LogQuery { session, ..LogQuery::default() };
            queries.map(|session| format!("{:?}", store.log(&query(session)).unwrap()))
        };
        let before = logs(&store);
        let writing = store.write().unwrap();
        writing.execute_batch(BACK_TO_1).unwrap();
        writing.commit().unwrap();
        drop(store);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(logs(&store), before);
        let mut events = store.subscribe(Start::After(0)).unwrap();
        let event = events.next(std::time::Duration::ZERO).unwrap().unwrap();
        assert_eq!(event.revision.number, 1);
        assert_eq!(event.changes, [EventChange::Put(key())]);
        // Tables of version 1 do not list this document here, because revision 3 wrote it again. Its past still shows it.
        let event = events.next(std::time::Duration::ZERO).unwrap().unwrap();
        let session = Key::Session(ProjectId::global(), sessions[0].clone());
        assert_eq!((event.revision.number, event.changes.clone()), (2, vec![EventChange::Put(session)]));
        assert!(store.check(0, &|| {}).unwrap().is_empty());
        commit(&store, "b").unwrap();
        assert_eq!(names(directory.path()), ["annals.db", &backup(0)]);
    }

    /// Before schema 4, a store took an answer that ended with tool calls for the end of a turn.
    #[test]
    fn states_of_sessions_are_told_by_the_new_rule() {
        use annals_core::id::{MessageId, SessionId};

        use crate::query::SessionQuery;
        use crate::summarize::summarize;
        use crate::summary::SessionState;

        let (_directory, path) = store();
        let session = SessionId::parse("ses_1").unwrap();
        let document = |text: &str| Document::parse(text.into()).unwrap();
        let mut turn = Transaction::new("a turn");
        turn.insert(Key::Session(ProjectId::global(), session.clone()), document(r#"{"title":"x"}"#));
        turn.insert(
            Key::Message(session, MessageId::parse("msg_1").unwrap()),
            document(r#"{"role":"assistant","finish":"tool-calls","time":{"created":1,"completed":2}}"#),
        );
        let opened = SqliteStore::open(&path).unwrap();
        opened.commit(turn).unwrap();
        drop(opened);
        let connection = crate::sqlite::open_ours(&path, crate::sqlite::Ours::Written).unwrap();
        connection.execute_batch("UPDATE message SET state = 1; UPDATE session SET state = 1").unwrap();
        super::rederive_states(&connection).unwrap();
        drop(connection);
        let opened = SqliteStore::open(&path).unwrap();
        let records = opened.sessions(&SessionQuery::default()).unwrap().value;
        let summaries = summarize(&opened, &records, &|| {}).unwrap().value;
        assert_eq!(summaries[0].state, SessionState::Open);
        assert_eq!(opened.check(10, &|| {}).unwrap().len(), 0);
    }

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let (directory, path) = store();
        std::fs::write(directory.path().join(backup(1)), "mine").unwrap();
        drop(SqliteStore::open_with(&path, &next()).unwrap());
        let names = names(directory.path());
        assert_eq!(names, ["annals.db", &backup(1), &format!("{}-2", backup(1))]);
        assert_eq!(std::fs::read(directory.path().join(backup(1))).unwrap(), b"mine");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let (directory, path) = store();
        let error = SqliteStore::open_with(
            &path,
            &[&next()[..], &["CREATE TABLE x (y); INSERT INTO nowhere VALUES (1)"]].concat(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("are unchanged: no such table: nowhere"), "{error}");
        assert_eq!(names(directory.path()), ["annals.db"]);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(text(&store), "\"a\"");
        assert!(store.check(0, &|| {}).unwrap().is_empty());
        commit(&store, "b").unwrap();
        drop(store);
        // A later upgrade that works starts from the beginning.
        assert_eq!(text(&SqliteStore::open_with(&path, &steps()).unwrap()), "\"b\"");
    }

    #[test]
    fn an_older_annals_reads_what_it_can_and_writes_nothing() {
        let (_directory, path) = store();
        drop(SqliteStore::open_with(&path, &next()).unwrap());
        let store = SqliteStore::open(&path).unwrap();
        assert!(store.is_read_only());
        assert_eq!(text(&store), "\"a\"");
        let error = commit(&store, "b").unwrap_err();
        assert!(matches!(error, CommitError::Unsupported(_)), "{error}");
        let error = store.prune(i64::MAX, None, false).unwrap_err();
        assert!(matches!(error, CommitError::Unsupported(_)), "{error}");
        drop(store);
        drop(SqliteStore::open_with(&path, &steps()).unwrap());
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, OpenStoreError::Newer { known: SCHEMA, .. }), "{error}");
        let error = SqliteStore::open_or_create(&path).unwrap_err();
        assert!(matches!(error, OpenStoreError::Newer { .. }), "{error}");
    }

    #[test]
    fn a_version_that_is_none_is_damage() {
        let (_directory, path) = store();
        let writing = SqliteStore::open(&path).unwrap();
        let writing = writing.write().unwrap();
        writing.execute_batch("UPDATE meta SET value = 0 WHERE name = 'schema'").unwrap();
        writing.commit().unwrap();
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, OpenStoreError::Damaged { .. }), "{error}");
    }

    /// One of the processes that upgrade: not a test, but the part that the test starts this binary for.
    #[test]
    fn upgrader_among_others() {
        let Ok(path) = std::env::var(STORE) else { return };
        let store = SqliteStore::open_with(Path::new(&path), &steps()).unwrap();
        commit(&store, &format!("by {}", std::process::id())).unwrap();
    }

    #[test]
    fn several_processes_upgrade_at_once_and_one_does() {
        let (directory, path) = store();
        let upgraders: Vec<_> = (0..6)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "stores::sqlite::upgrade::tests::upgrader_among_others"])
                    .env(STORE, &path)
                    .stdout(std::process::Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut upgrader in upgraders {
            assert!(upgrader.wait().unwrap().success());
        }
        assert_eq!(names(directory.path()), ["annals.db", &backup(2)]);
        let store = SqliteStore::open_with(&path, &steps()).unwrap();
        assert_eq!(store.head().unwrap(), 7);
        assert!(store.check(0, &|| {}).unwrap().is_empty());
    }
}
