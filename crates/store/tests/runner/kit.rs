//! What the tests of this crate share.

use std::collections::BTreeMap;
use std::path::Path;

use annals::home::{MessageDetail, MessageRange, MessageRecord, Quarantined, Read, SessionRecord};
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::format::opencode::ExportWriter;
use annals::model::id::SessionId;
pub(crate) use annals_testkit::sample::{PROJECT, Sample};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

/// Opens a home.
pub(crate) fn open(path: &Path) -> OpencodeDirectory {
    OpencodeDirectory::open(path).unwrap_or_else(|error| panic!("{error}"))
}

/// An empty home in a directory of its own.
pub(crate) fn empty_home() -> (tempfile::TempDir, OpencodeDirectory) {
    let dir = tempfile::tempdir().unwrap();
    let home = OpencodeDirectory::open_or_create(dir.path()).unwrap();
    (dir, home)
}

/// Opens a database.
pub(crate) fn open_db(path: &Path) -> OpencodeDatabase {
    OpencodeDatabase::open(path).unwrap_or_else(|error| panic!("{error}"))
}

/// A new database in a directory of its own.
pub(crate) fn empty_database(generation: Generation) -> (tempfile::TempDir, OpencodeDatabase) {
    let dir = tempfile::tempdir().unwrap();
    let home = OpencodeDatabase::open_or_create(&dir.path().join("opencode.db"), generation).unwrap();
    (dir, home)
}

/// Changes a database as nobody should: no references are checked, and the schema can be written to.
pub(crate) fn sql(path: &Path, batch: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.pragma_update(None, "writable_schema", true).unwrap();
    connection.execute_batch(batch).unwrap_or_else(|error| panic!("{error}: {batch}"));
}

/// The first column of the rows of a query, as text.
pub(crate) fn query(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let rows = statement.query_map([], |row| row.get::<_, Value>(0)).unwrap();
    rows.map(|value| match value.unwrap() {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("{bytes:?}"),
    })
    .collect()
}

/// Every row of every table of a database.
pub(crate) fn rows(path: &Path) -> BTreeMap<String, Vec<String>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        .into_iter()
        .map(|table| {
            let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY rowid")).unwrap();
            let n_columns = statement.column_count();
            let rows = statement.query_map([], |row| {
                let values: rusqlite::Result<Vec<Value>> = (0..n_columns).map(|n| row.get(n)).collect();
                Ok(format!("{:?}", values?))
            });
            (table, rows.unwrap().map(Result::unwrap).collect())
        })
        .collect()
}

/// Writes a file of a home, making the directories above it.
pub(crate) fn write(home: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A session that must be there.
pub(crate) fn session(home: &dyn Read, id: &str) -> SessionRecord {
    home.session(&session_id(id)).unwrap().unwrap_or_else(|| panic!("no session {id}"))
}

pub(crate) fn session_id(id: &str) -> SessionId {
    SessionId::parse(id).unwrap()
}

/// All messages of a session with their parts, and all that was unreadable.
pub(crate) fn messages(home: &dyn Read, session: &SessionRecord) -> (Vec<MessageRecord>, Vec<Quarantined>) {
    let mut read = home.messages(session, &MessageRange::ALL, MessageDetail::Parts);
    let mut messages: Vec<MessageRecord> = read.by_ref().map(Result::unwrap).collect();
    let mut quarantined = read.into_quarantined();
    for message in &mut messages {
        quarantined.append(&mut message.quarantined);
    }
    (messages, quarantined)
}

/// The export of a session.
pub(crate) fn export(home: &dyn Read, id: &str) -> Vec<u8> {
    let session = session(home, id);
    let mut writer = ExportWriter::new(&session.stored.document);
    for message in messages(home, &session).0 {
        writer.message(&message.stored.document, message.parts.iter().map(|part| &part.document));
    }
    writer.finish()
}

/// Every file below a directory with its bytes, `.annals` left out.
pub(crate) fn snapshot(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    annals_testkit::files_below(directory)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            (name, std::fs::read(&path).unwrap_or_default())
        })
        .filter(|(name, _)| !name.contains("/.annals/"))
        .collect()
}
