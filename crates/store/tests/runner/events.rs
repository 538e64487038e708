//! OpenCode's log of changes: it leads to what the tables hold, whatever else is in it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use annals::change_log::{ChangeLog, LogRead, RecordedChange};
use annals::home::{Quarantined, Read, UnreadableReason};
use annals::homes::opencode::arrange;
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::model::id::SessionId;
use annals::model::lens::Session;
use annals::model::{Document, Key};
use annals_testkit::Fixture;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::kit::{PROJECT, empty_database, open_db, query, session_id, sql};

/// The fixtures that have a log.
const LOGGED: [&str; 2] = ["small-1.18.33", "opencode-1.18.33"];

const SESSION: &str = "ses_ef4b559faffevk22QaJnyopmVh";
const NOW: i64 = 1_791_190_803_973;

fn log_after(
    home: &OpencodeDatabase,
    session: &SessionId,
    after: Option<i64>,
) -> (Vec<RecordedChange>, LogRead) {
    let mut recorded = Vec::new();
    let read = home.changes(session, after, &mut |change| {
        recorded.push(change);
        ControlFlow::Continue(())
    });
    (recorded, read.unwrap())
}

fn log(home: &OpencodeDatabase, session: &SessionId) -> (Vec<RecordedChange>, LogRead) {
    log_after(home, session, None)
}

/// The logs of a home by their sessions, with nothing amiss.
fn logs(home: &OpencodeDatabase) -> BTreeMap<String, (Vec<RecordedChange>, LogRead)> {
    let mut logs = BTreeMap::new();
    for (session, last) in home.positions().unwrap() {
        let (recorded, read) = log(home, &session);
        assert!(read.quarantined.is_empty(), "{:?}", read.quarantined);
        assert_eq!(read.last, Some(last));
        assert!(recorded.is_sorted_by(|a, b| a.seq < b.seq));
        logs.insert(session.to_string(), (recorded, read));
    }
    logs
}

/// What a log leads to: the documents that are left.
fn outcome(recorded: &[RecordedChange]) -> BTreeMap<String, (Key, Document)> {
    let mut documents = BTreeMap::new();
    for RecordedChange { key, document, .. } in recorded {
        match document {
            Some(document) => {
                documents.insert(format!("{key:?}"), (key.clone(), document.clone()));
            }
            None => documents.retain(|_, (held, _)| match (key, held) {
                (Key::Message(_, removed), Key::Part(_, message, _)) => message != removed,
                (Key::Session(..), _) => false,
                (key, held) => held != key,
            }),
        }
    }
    documents
}

/// Adds rows to a log: id, position, type and data. Position and data may be of any kind.
fn record(path: &Path, session: &str, rows: &[(&str, Value, &str, Value)]) {
    let mut connection = Connection::open(path).unwrap();
    let transaction = connection.transaction().unwrap();
    for (id, seq, kind, data) in rows {
        let last = "INSERT INTO event_sequence VALUES (?1, ?2, NULL) ON CONFLICT DO UPDATE SET seq = ?2";
        transaction.execute(last, params![session, seq]).unwrap();
        let row = "INSERT INTO event (id, aggregate_id, seq, type, data) VALUES (?1, ?2, ?3, ?4, ?5)";
        transaction.execute(row, params![id, session, seq, kind, data]).unwrap();
    }
    transaction.commit().unwrap();
}

/// Events of a session at the positions 0, 1, 2, …
fn record_all(path: &Path, session: &str, events: &[(&str, String)]) {
    let rows: Vec<(String, &str, &str)> = events
        .iter()
        .enumerate()
        .map(|(n, (kind, data))| (format!("evt_{n}"), *kind, data.as_str()))
        .collect();
    let rows: Vec<_> = rows
        .iter()
        .zip(0..)
        .map(|((id, kind, data), seq)| {
            (id.as_str(), Value::Integer(seq), *kind, Value::Text((*data).to_owned()))
        })
        .collect();
    record(path, session, &rows);
}

fn created(title: &str) -> String {
    format!(
        r#"{{"sessionID":"{SESSION}","info":{{"id":"{SESSION}","slug":"nimble-moon","projectID":"{PROJECT}","directory":"/home/dev/shop","title":"{title}","version":"1.18.33","time":{{"created":{NOW},"updated":{NOW}}}}}}}"#
    )
}

fn message(id: &str, created: i64) -> String {
    format!(
        r#"{{"sessionID":"{SESSION}","info":{{"id":"{id}","sessionID":"{SESSION}","role":"user","time":{{"created":{created}}}}}}}"#
    )
}

fn text(message: &str, part: &str, text: &str, time: i64) -> String {
    format!(
        r#"{{"sessionID":"{SESSION}","part":{{"id":"{part}","sessionID":"{SESSION}","messageID":"{message}","type":"text","text":"{text}"}},"time":{time}}}"#
    )
}

fn keys(recorded: &[RecordedChange]) -> Vec<String> {
    recorded.iter().map(|change| change.key.to_string()).collect()
}

#[test]
fn real_logs_end_at_what_the_rows_say() {
    let mut n_same_text = BTreeMap::new();
    let mut n_same_value = BTreeMap::new();
    let mut others = Vec::new();
    for fixture in LOGGED {
        let fixture = Fixture::unpack(fixture);
        let home = open_db(&fixture.home().join("opencode.db"));
        for (recorded, _) in logs(&home).values() {
            for (key, document) in outcome(recorded).into_values() {
                let held = home.document(&key).unwrap().unwrap_or_else(|| panic!("{key} is gone")).document;
                if held == document {
                    *n_same_text.entry(key.noun()).or_insert(0) += 1;
                } else if arrange::is_same(&key, &held, &document) {
                    *n_same_value.entry(key.noun()).or_insert(0) += 1;
                } else {
                    others.push((key.to_string(), difference(&document, &held)));
                }
            }
        }
    }
    // Members that are known stand in the order of OpenCode's schema. In a row they stand as the program had them.
    assert_eq!(n_same_text, BTreeMap::from([("message", 2), ("part", 477), ("session", 121)]));
    assert_eq!(n_same_value, BTreeMap::from([("message", 525), ("part", 774), ("session", 1)]));
    others.sort();
    let expected = [
        // OpenCode writes members that its own schema does not know, and events hold none of them.
        ("part prt_10b4ae76b006pMv7pNyC4OUaa8", "synthetic: true, not none"),
        ("part prt_12f80e3c10015Ap8gjlpFw1FsY", "state.raw: \"\", not none"),
        // What is done through the second HTTP API is no `session.updated`.
        (
            "session ses_ec9ee81d6ffe1ozyFI2DcRNam3",
            "model.id: \"lab-small\", not \"lab-large\"; time.updated: 1791908479358, not 1791908478520",
        ),
        // Unsharing is told by a session without `share`, which does not empty the column.
        (
            "session ses_ec9eed6b0ffeghpkW1WyQq06zO",
            "share: {\"url\":\"https://share.example/s/0cecc320\"}, not none",
        ),
        // The last message was removed, and with it what it had cost; nothing came after that.
        (
            "session ses_ec9ef1d4bffePKiJd6YfOo5LiF",
            "cost: 0.011955, not 0.0363876; tokens.cache.read: 5120, not 15232; tokens.input: 3463, not 10371; tokens.output: 2, not 47",
        ),
        // A fork: it costs what was copied into it, and nothing came after that.
        (
            "session ses_ed9e24785ffeG6yIxTA2y3Dl3t",
            "cost: 0.0364236, not 0; tokens.cache.read: 15232, not 0; tokens.input: 10383, not 0; tokens.output: 47, not 0",
        ),
    ];
    assert_eq!(others, expected.map(|(key, what)| (key.to_owned(), what.to_owned())));
}

/// Where two documents differ, and what the row says there.
fn difference(event: &Document, row: &Document) -> String {
    fn collect(path: &str, event: &serde_json::Value, row: &serde_json::Value, found: &mut Vec<String>) {
        let (Some(event_members), Some(row_members)) = (event.as_object(), row.as_object()) else {
            let shown = |value: &serde_json::Value| match value {
                serde_json::Value::Null => "none".to_owned(),
                value => value.to_string(),
            };
            if event != row {
                found.push(format!("{path}: {}, not {}", shown(row), shown(event)));
            }
            return;
        };
        let mut names: Vec<&String> = event_members.keys().chain(row_members.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect(&path, &event[name], &row[name], found);
        }
    }
    let parse = |document: &Document| serde_json::from_slice(document.bytes()).unwrap();
    let mut found = Vec::new();
    collect("", &parse(event), &parse(row), &mut found);
    found.join("; ")
}

#[test]
fn real_logs_lead_to_the_documents_that_are_there() {
    for fixture in LOGGED {
        let fixture = Fixture::unpack(fixture);
        let path = fixture.home().join("opencode.db");
        let home = open_db(&path);
        let logs = logs(&home);
        let n_events: usize = logs.values().map(|(recorded, read)| recorded.len() + read.n_skipped).sum();
        assert_eq!(query(&path, "SELECT count(*) FROM event"), [n_events.to_string()]);
        for (session, (recorded, read)) in logs {
            let mut expected = Vec::new();
            for key in home.session_keys(&session_id(&session)).unwrap() {
                let is_recorded = match key {
                    Key::Session(..) => true,
                    // Those of the second HTTP API are told in its own way.
                    Key::Message(..) | Key::Part(..) => read.n_skipped == 0,
                    _ => false,
                };
                expected.extend(is_recorded.then(|| format!("{key:?}")));
            }
            expected.sort();
            let found: Vec<String> = outcome(&recorded).into_keys().collect();
            assert_eq!(found, expected, "{session}");
        }
    }
}

#[test]
fn real_events_are_dated() {
    for fixture in LOGGED {
        let fixture = Fixture::unpack(fixture);
        let home = open_db(&fixture.home().join("opencode.db"));
        for (session, (recorded, _)) in logs(&home) {
            assert!(recorded.is_sorted_by_key(|change| change.time), "{session}");
            let record = home.session(&session_id(&session)).unwrap().unwrap();
            let first = recorded.first().unwrap().time - record.info.created().unwrap();
            assert!((0..100).contains(&first), "{session}: {first} ms");
            // However much of the log is read.
            let middle = recorded.len() / 2;
            let (rest, _) = log_after(&home, &session_id(&session), Some(recorded[middle].seq));
            let summary = |change: &RecordedChange| (change.seq, change.time, change.key.clone());
            let expected: Vec<_> = recorded[middle + 1..].iter().map(summary).collect();
            assert_eq!(rest.iter().map(summary).collect::<Vec<_>>(), expected, "{session}");
        }
    }
}

/// Reverted, then prompted again: eight messages are gone from the tables, and not from the log.
#[test]
fn what_a_revert_removed_is_recorded() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let home = open_db(&fixture.home().join("opencode.db"));
    let session = session_id("ses_ed9e229a6ffeMNnekO75HDWDZB");
    let (recorded, _) = log(&home, &session);
    let is_removed = |change: &&RecordedChange| change.document.is_none();
    let removed: Vec<&RecordedChange> = recorded.iter().filter(is_removed).collect();
    assert_eq!(removed.iter().map(|change| change.seq).collect::<Vec<_>>(), (113..=120).collect::<Vec<_>>());
    for change in &removed {
        assert!(home.document(&change.key).unwrap().is_none(), "{}", change.key);
    }
    let before: Vec<RecordedChange> = recorded.iter().filter(|change| change.seq < 113).cloned().collect();
    let before = outcome(&before);
    assert!(removed.iter().all(|change| before.contains_key(&format!("{:?}", change.key))));
    let n_parts = |documents: &BTreeMap<String, (Key, Document)>| {
        documents.values().filter(|(key, _)| matches!(key, Key::Part(..))).count()
    };
    let after: Vec<RecordedChange> = recorded.iter().filter(|change| change.seq <= 120).cloned().collect();
    assert_eq!((n_parts(&before), n_parts(&outcome(&after))), (34, 11));
    let prompt = before.values().find(|(key, _)| matches!(key, Key::Part(_, message, _) if message.as_str() == "msg_1261ddcf2001xv40fzAtr4gK9J"));
    assert!(prompt.unwrap().1.text().contains("\"type\":\"text\""), "{prompt:?}");
}

#[test]
fn a_database_without_a_log_has_no_events() {
    for fixture in Fixture::DATABASES.iter().filter(|name| !LOGGED.contains(name)) {
        let fixture = Fixture::unpack(fixture);
        let home = open_db(&fixture.home().join("opencode.db"));
        assert_eq!(home.positions().unwrap(), []);
        let (recorded, read) = log(&home, &session_id(SESSION));
        assert!(recorded.is_empty() && read.last.is_none() && read.quarantined.is_empty());
    }
    // A table of that name that is something else.
    let (_dir, home) = empty_database(Generation::Portable);
    sql(home.path(), "CREATE TABLE event (id TEXT, data TEXT)");
    let home = open_db(home.path());
    assert_eq!(home.positions().unwrap(), []);
    assert!(log(&home, &session_id(SESSION)).0.is_empty());
}

#[test]
fn positions_are_counted_where_they_are_not_kept() {
    let fixture = Fixture::unpack("opencode-1.18.33");
    let path = fixture.home().join("opencode.db");
    let sorted = |home: &OpencodeDatabase| {
        let mut positions = home.positions().unwrap();
        positions.sort_by_key(|(session, _)| session.to_string());
        positions
    };
    let kept = sorted(&open_db(&path));
    assert_eq!(kept.len(), 122);
    sql(&path, "DROP TABLE event_sequence");
    assert_eq!(sorted(&open_db(&path)), kept);
    // Whoever wants to know whether there is more gets told that there is.
    sql(&path, &format!("UPDATE event SET seq = 'many' WHERE aggregate_id = '{}' AND seq = 3", kept[0].0));
    sql(&path, "INSERT INTO event VALUES ('evt_1', 'workspace', 0, 'session.created.1', '{}')");
    assert_eq!(sorted(&open_db(&path))[0], (kept[0].0.clone(), i64::MAX));
    assert_eq!(sorted(&open_db(&path))[1..], kept[1..]);
}

#[test]
fn whatever_is_wrong_with_an_event_the_others_are_read() {
    let (_dir, home) = empty_database(Generation::Latest);
    let good = text("msg_1", "prt_1", "hello", NOW + 5);
    let nested = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let with = |from: &str, to: &str| Value::Text(good.replace(from, to));
    let bad_parts: Vec<(Value, &str)> = vec![
        (Value::Null, "expected JSON, found no text"),
        // A column of texts makes a text of it.
        (Value::Integer(5), "expected an object, found a number"),
        (Value::Text(String::new()), "the document is empty"),
        (Value::Text(good[..good.len() - 9].to_owned()), "ends"),
        (Value::Text("[1]".to_owned()), "expected an object, found an array"),
        (Value::Blob(vec![b'{', 0xff, b'}']), "UTF-8"),
        (Value::Text("{}".to_owned()), "it has no `part`"),
        (Value::Text(r#"{"part":null}"#.to_owned()), "expected an object, found null"),
        (Value::Text(r#"{"part":"prt_1"}"#.to_owned()), "expected an object, found a string"),
        (Value::Text(format!(r#"{{"part":{nested}}}"#)), "expected an object, found an array"),
        (Value::Text(r#"{"part":{}}"#.to_owned()), "it has no `messageID`"),
        (with("\"msg_1\"", "1"), "expected an id, found a number"),
        (with("\"msg_1\"", "\"../msg\""), "is not a message id"),
        (with("\"prt_1\"", "\"\\ud83d\""), "is not a part id"),
        (with(SESSION, "ses_other"), "it is about session ses_other"),
        (
            with(
                &format!("\"sessionID\":\"{SESSION}\",\"messageID\""),
                "\"sessionID\":\"ses_2\",\"messageID\"",
            ),
            "it is about session ses_2",
        ),
        (
            with(&format!("\"sessionID\":\"{SESSION}\",\"part\""), "\"sessionID\":[],\"part\""),
            "expected an id, found an array",
        ),
    ];
    let bad_others = [
        (
            "session.created.1",
            r#"{"info":{"id":"ses_other","projectID":"global"}}"#,
            "it is about session ses_other",
        ),
        ("session.updated.1", r#"{"info":[]}"#, "expected an object, found an array"),
        ("session.updated.1", r#"{"info":{"title":"What?"}}"#, "the log has no earlier state of the session"),
        ("session.deleted.1", r#"{"info":{"projectID":"../x"}}"#, "is not a project id"),
        ("message.updated.1", r#"{"info":{"role":"user"}}"#, "it has no `id`"),
        ("message.removed.1", r#"{"sessionID":"ses_ef4b559faffevk22QaJnyopmVh"}"#, "it has no `messageID`"),
        ("message.part.removed.1", r#"{"messageID":"msg_1"}"#, "it has no `partID`"),
    ];
    // The table's own constraint would refuse the first.
    sql(
        home.path(),
        "UPDATE sqlite_schema SET sql = replace(sql, '`data` text NOT NULL', '`data` text') WHERE name = 'event'",
    );
    let mut rows = Vec::new();
    let mut expected = Vec::new();
    let mut seq = 0;
    let mut add = |kind: &'static str, data: Value, reason: Option<&'static str>| {
        let id = format!("evt_{seq}x");
        expected.extend(reason.map(|reason| (format!("event[{id}]"), reason)));
        rows.push((id, Value::Integer(seq), kind, data));
        seq += 1;
    };
    for (kind, data, reason) in bad_others {
        add(kind, Value::Text(data.to_owned()), Some(reason));
        add("message.part.updated.1", Value::Text(good.clone()), None);
    }
    for (data, reason) in bad_parts {
        add("message.part.updated.1", data, Some(reason));
        add("message.part.updated.1", Value::Text(good.clone()), None);
    }
    for kind in ["session.next.prompted.1", "message.part.updated.2", "message.part.updated", "", "\u{0}'--"]
    {
        add(kind, Value::Blob(vec![0xff]), None);
    }
    add("session.created.1", Value::Text(created("A good one")), None);
    // Half a position, and none; the column takes them, being SQLite's.
    for (id, at) in [
        ("evt_half", Value::Real(2.5)),
        ("evt_none", Value::Text("two".into())),
        ("evt_bytes", Value::Blob(vec![0xff])),
    ] {
        expected.push((format!("event[{id}]"), "its position is not a whole number"));
        rows.push((id.to_owned(), at, "message.part.updated.1", Value::Text(good.clone())));
    }
    let rows: Vec<_> =
        rows.iter().map(|(id, seq, kind, data)| (id.as_str(), seq.clone(), *kind, data.clone())).collect();
    record(home.path(), SESSION, &rows);
    let home = open_db(home.path());
    let (recorded, LogRead { last, n_skipped, quarantined }) = log(&home, &session_id(SESSION));
    assert_eq!((last, n_skipped), (Some(seq - 1), 5));
    assert_eq!(recorded.len(), 7 + 17 + 1);
    let (session, parts) = recorded.split_last().unwrap();
    assert_eq!(session.document.as_ref().unwrap().lens::<Session<'_>>().title.unwrap(), "A good one");
    for part in parts {
        assert_eq!(
            part.document.as_ref().unwrap().text(),
            format!(
                r#"{{"type":"text","text":"hello","id":"prt_1","sessionID":"{SESSION}","messageID":"msg_1"}}"#
            )
        );
        assert_eq!(part.time, NOW + 5);
    }
    let mut found: Vec<&Quarantined> = quarantined.iter().collect();
    assert!(found.iter().all(|problem| problem.session == Some(session_id(SESSION))));
    found.sort_by_key(|problem| problem.place.clone());
    expected.sort();
    assert_eq!(found.len(), expected.len());
    for (found, (place, reason)) in found.iter().zip(&expected) {
        assert_eq!(found.place, *place);
        assert!(found.reason.to_string().contains(reason), "{found} is not {reason}");
    }
}

#[test]
fn removals_are_recorded() {
    let (_dir, home) = empty_database(Generation::Latest);
    let gone = |members: &str| format!(r#"{{"sessionID":"{SESSION}"{members}}}"#);
    record_all(
        home.path(),
        SESSION,
        &[
            ("session.created.1", created("One")),
            ("message.updated.1", message("msg_1", NOW)),
            ("message.part.updated.1", text("msg_1", "prt_1", "a", NOW + 10)),
            ("message.part.removed.1", gone(r#","messageID":"msg_1","partID":"prt_1""#)),
            ("message.removed.1", gone(r#","messageID":"msg_1""#)),
            ("session.deleted.1", gone("")),
            ("session.deleted.1", gone(r#","info":{"projectID":"other"}"#)),
            ("session.deleted.1", gone(r#","info":{}"#)),
        ],
    );
    let (recorded, read) = log(&home, &session_id(SESSION));
    assert!(read.quarantined.is_empty(), "{:?}", read.quarantined);
    let session = &format!("session {SESSION}");
    assert_eq!(
        keys(&recorded),
        [session, "message msg_1", "part prt_1", "part prt_1", "message msg_1", session, session, session]
    );
    assert!(recorded[..3].iter().all(|change| change.document.is_some()));
    assert!(recorded[3..].iter().all(|change| change.document.is_none()));
    let projects: Vec<&str> =
        recorded[5..].iter().map(|change| change.key.project().unwrap().as_str()).collect();
    assert_eq!(projects, [PROJECT, "other", "global"]);
    // Ids without a time: what the events say, or what the ones before them said.
    let times: Vec<i64> = recorded.iter().map(|change| change.time - NOW).collect();
    assert_eq!(times, [0, 0, 10, 10, 10, 10, 10, 10]);
}

/// As versions before 1.16 recorded it.
#[test]
fn what_changed_of_a_session_is_applied_to_it() {
    let (_dir, home) = empty_database(Generation::Latest);
    let changed = |info: &str| format!(r#"{{"sessionID":"{SESSION}","info":{info}}}"#);
    record_all(
        home.path(),
        SESSION,
        &[
            ("session.created.1", created("One")),
            ("session.updated.1", changed(&format!(r#"{{"title":"Two","time":{{"updated":{}}}}}"#, NOW + 1))),
            (
                "session.updated.1",
                changed(
                    r#"{"share":{"url":"https://s"},"summary":{"additions":3},"revert":{"messageID":"msg_1"}}"#,
                ),
            ),
            (
                "session.updated.1",
                changed(r#"{"share":null,"revert":null,"time":{"archived":7},"theme":"dark"}"#),
            ),
            ("session.updated.1", changed(r#"{"summary":null,"permission":[],"time":{"archived":null}}"#)),
            ("message.updated.1", message("msg_1", NOW)),
            ("session.updated.1", created("Whole").replace("\"slug\":\"nimble-moon\",", "")),
        ],
    );
    let (recorded, read) = log(&home, &session_id(SESSION));
    assert!(read.quarantined.is_empty(), "{:?}", read.quarantined);
    let session = |members: &str, rest: &str, times: &str| {
        format!(
            r#"{{"id":"{SESSION}",{members},"version":"1.18.33",{rest}"time":{{"created":{NOW},"updated":{}{times}}}}}"#,
            if members.contains("Two") { NOW + 1 } else { NOW }
        )
    };
    let named = |title: &str| {
        format!(
            r#""slug":"nimble-moon","projectID":"{PROJECT}","directory":"/home/dev/shop","title":"{title}""#
        )
    };
    let summary = r#""summary":{"additions":3,"deletions":0,"files":0},"#;
    let expected = [
        session(&named("One"), "", ""),
        session(&named("Two"), "", ""),
        session(
            &named("Two"),
            &format!(r#"{summary}"share":{{"url":"https://s"}},"revert":{{"messageID":"msg_1"}},"#),
            "",
        ),
        session(&named("Two"), summary, r#","archived":7"#),
        session(&named("Two"), r#""permission":[],"#, ""),
        session(&named("Whole").replace("\"slug\":\"nimble-moon\",", ""), "", ""),
    ];
    let sessions = |recorded: &[RecordedChange]| -> Vec<String> {
        let sessions = recorded.iter().filter(|change| matches!(change.key, Key::Session(..)));
        sessions.map(|change| change.document.as_ref().unwrap().text().to_owned()).collect()
    };
    assert_eq!(sessions(&recorded), expected);
    // Also by those who begin in the middle.
    for after in 0..6 {
        let (rest, read) = log_after(&home, &session_id(SESSION), Some(after));
        assert!(read.quarantined.is_empty(), "{:?}", read.quarantined);
        let n_sessions = sessions(&rest).len();
        assert_eq!(sessions(&rest), expected[expected.len() - n_sessions..]);
        assert_eq!(rest.len(), 6 - after as usize);
    }
}

#[test]
fn the_time_of_an_event_survives_the_wrap_of_ids() {
    const WRAP: i64 = 1_786_706_395_136;
    let removed = format!(r#"{{"sessionID":"{SESSION}","messageID":"msg_1"}}"#);
    let times = |events: &[(&str, &str, String)], session: Option<i64>| -> Vec<i64> {
        let (_dir, home) = empty_database(Generation::Latest);
        let rows: Vec<_> = events
            .iter()
            .zip(0..)
            .map(|((id, kind, data), seq)| (*id, Value::Integer(seq), *kind, Value::Text(data.clone())))
            .collect();
        record(home.path(), SESSION, &rows);
        if let Some(updated) = session {
            sql(
                home.path(),
                &format!(
                    "INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated)
                     VALUES ('{SESSION}', 'global', '', '/', '', '', 0, {updated})"
                ),
            );
        }
        log(&home, &session_id(SESSION)).0.iter().map(|change| change.time - WRAP).collect()
    };
    let (before, after) = ("evt_fffffffff001AAAAAAAAAAAAAA", "evt_000000005001AAAAAAAAAAAAAA");
    let prompt = |created: i64| message("msg_1", WRAP + created);
    let part = |time: i64| text("msg_1", "prt_1", "a", WRAP + time);
    const DAYS: i64 = 24 * 60 * 60 * 1000;
    const ERA: i64 = 1 << 36;
    for (events, session, expected) in [
        // On both sides, told by what was changed and by what was there before.
        (
            vec![(before, "message.updated.1", prompt(-9)), (after, "message.removed.1", removed.clone())],
            None,
            vec![-1, 5],
        ),
        (
            vec![
                (before, "message.part.updated.1", part(-1)),
                ("evt_000000000001A", "message.part.updated.1", part(1)),
            ],
            None,
            vec![-1, 0],
        ),
        // A message may be changed two years after it was written, and not before.
        (vec![(after, "message.updated.1", prompt(-700 * DAYS))], None, vec![5]),
        (vec![(after, "message.updated.1", prompt(10))], None, vec![5]),
        (vec![(after, "message.updated.1", prompt(2 * DAYS))], None, vec![5 + ERA]),
        // An id that is far from the time of its own event was made up.
        (vec![(after, "message.part.updated.1", part(40 * DAYS))], None, vec![40 * DAYS]),
        (vec![("evt_1", "message.part.updated.1", part(3))], None, vec![3]),
        (vec![("evt_1", "message.updated.1", prompt(4))], None, vec![4]),
        // With nothing else to go by: the session, or else that there were no logs before March 2026.
        (vec![(after, "message.removed.1", removed.clone())], Some(WRAP + ERA + 9), vec![5 + ERA]),
        (vec![(after, "message.removed.1", removed.clone())], None, vec![5]),
        (vec![("evt_1", "message.removed.1", removed)], Some(WRAP + 7), vec![7]),
    ] {
        assert_eq!(times(&events, session), expected, "{events:?}");
    }
    // Whatever numbers stand there.
    for time in ["-1e308", "9e15", "1e400", "\"now\"", "null", "{}", "-8640000000000000"] {
        let data = part(0).replace(&format!("\"time\":{WRAP}"), &format!("\"time\":{time}"));
        assert_eq!(times(&[(after, "message.part.updated.1", data)], None).len(), 1);
        let data = prompt(0).replace(&WRAP.to_string(), time);
        assert_eq!(times(&[(after, "message.updated.1", data)], None).len(), 1);
    }
}

#[test]
fn a_long_log_is_read_in_pages() {
    const N: i64 = 10_000;
    let (_dir, home) = empty_database(Generation::Latest);
    let events: Vec<(&str, String)> = (0..N)
        .map(|n| match n % 10 {
            9 => ("session.next.text.ended.1", "{".to_owned()),
            _ => (
                "message.part.updated.1",
                text("msg_1", &format!("prt_{}", n / 100), &n.to_string(), NOW + n),
            ),
        })
        .collect();
    record_all(home.path(), SESSION, &events);
    // A log of another session in between.
    record(
        home.path(),
        "ses_2",
        &[("evt_other", Value::Integer(5000), "message.part.updated.1", Value::Text("{}".into()))],
    );
    let session = session_id(SESSION);
    let (recorded, read) = log(&home, &session);
    assert_eq!((recorded.len(), read.n_skipped, read.last), (9_000, 1_000, Some(N - 1)));
    assert!(read.quarantined.is_empty());
    for (change, seq) in recorded.iter().zip((0..N).filter(|seq| seq % 10 != 9)) {
        assert_eq!((change.seq, change.time), (seq, NOW + seq));
        assert!(change.document.as_ref().unwrap().text().contains(&format!("\"text\":\"{seq}\"")));
    }
    // From anywhere on.
    for after in [-5, 0, 62, 63, 64, 65, 4_998, 9_997, N - 1, N, i64::MAX] {
        let (rest, read) = log_after(&home, &session, Some(after));
        assert_eq!(rest.len(), recorded.iter().filter(|change| change.seq > after).count());
        assert_eq!(read.last, (after < N - 1).then_some(N - 1));
    }
    // Up to anywhere.
    let mut n_visited = 0;
    let read = home.changes(&session, None, &mut |change| {
        n_visited += 1;
        if change.seq == 128 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let read = read.unwrap();
    assert_eq!((n_visited, read.last, read.n_skipped), (117, Some(128), 12));
    // Nobody is kept waiting, and what is added meanwhile is read as well.
    let mut last = None;
    let read = home.changes(&session, Some(9_000), &mut |change| {
        if change.seq == 9_500 {
            let data = Value::Text(text("msg_1", "prt_late", "late", NOW + N));
            record(home.path(), SESSION, &[("evt_late", Value::Integer(N), "message.part.updated.1", data)]);
        }
        last = Some(change);
        ControlFlow::Continue(())
    });
    assert_eq!(read.unwrap().last, Some(N));
    assert_eq!(last.unwrap().key.to_string(), "part prt_late");
}

#[test]
fn large_events_make_small_pages() {
    let (_dir, home) = empty_database(Generation::Latest);
    let long = "x".repeat(3 << 20);
    let events: Vec<_> = (0..20)
        .map(|n| ("message.part.updated.1", text("msg_1", &format!("prt_{n}"), &long, NOW + n)))
        .collect();
    record_all(home.path(), SESSION, &events);
    let mut n_visited = 0;
    let read = home.changes(&session_id(SESSION), None, &mut |change| {
        assert_eq!(change.key.to_string(), format!("part prt_{n_visited}"));
        assert!(change.document.unwrap().bytes().len() > long.len());
        n_visited += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((n_visited, read.unwrap().last), (20, Some(19)));
}

#[test]
fn a_damaged_log_is_read_up_to_the_damage() {
    const PAGE: usize = 4096;
    let fixture = Fixture::unpack("opencode-1.18.33");
    let path = fixture.home().join("opencode.db");
    let whole = logs(&open_db(&path));
    let n_whole: usize = whole.values().map(|(recorded, _)| recorded.len()).sum();
    let bytes = std::fs::read(&path).unwrap();
    let root = |name: &str| -> usize {
        query(&path, &format!("SELECT rootpage FROM sqlite_schema WHERE name = '{name}'"))[0].parse().unwrap()
    };
    let roots = [root("event"), root("event_aggregate_seq_idx"), root("event_sequence")];
    // Leaves of the table: 13, in the byte each page begins with.
    let leaves = (1..bytes.len() / PAGE).filter(|page| bytes[page * PAGE] == 13).map(|page| page + 1);
    let smashed: Vec<Vec<usize>> =
        roots.into_iter().map(|page| vec![page]).chain([leaves.step_by(7).collect()]).collect();
    for pages in smashed {
        let mut bytes = bytes.clone();
        for page in &pages {
            bytes[(page - 1) * PAGE..page * PAGE].fill(0x5a);
        }
        let path = fixture.home().join("damaged.db");
        std::fs::write(&path, bytes).unwrap();
        let home = open_db(&path);
        let positions = home.positions();
        if let Err(error) = &positions {
            assert!(error.to_string().contains("damaged.db"), "{error}");
        }
        let (mut n_read, mut n_damaged) = (0, 0);
        for (session, (expected, _)) in &whole {
            let (recorded, read) = log(&home, &session_id(session));
            n_read += recorded.len();
            for problem in &read.quarantined {
                assert!(matches!(problem.reason, UnreadableReason::Damaged(_)), "{problem}");
                assert_eq!((&*problem.place, &problem.session), ("event", &Some(session_id(session))));
                n_damaged += 1;
            }
            assert!(recorded.len() == expected.len() || n_damaged > 0, "{session}: something is missing");
            for (found, expected) in recorded.iter().zip(expected) {
                assert_eq!(
                    (found.seq, &found.key, &found.document),
                    (expected.seq, &expected.key, &expected.document)
                );
            }
        }
        if pages == [roots[2]] {
            assert_eq!((positions.unwrap().len(), n_read, n_damaged), (122, n_whole, 0));
        } else {
            assert!(n_damaged > 0 && n_read < n_whole, "{pages:?}: {n_read} read");
        }
    }
}
