//! Homes on the disk: where they are, what they hold, and every byte of them. Reads OpenCode's formats by itself, so that
//! nothing of annals decides what is expected of annals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Map, Value, json};

use super::content::{Content, Session};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `storage/`, up to OpenCode 1.1.
    Directory,
    /// `opencode.db` with the schema of 1.2.27.
    Database12,
    /// `opencode.db` with the schema of 1.18.33.
    Database18,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Found below XDG_DATA_HOME.
    Own,
    /// Elsewhere; taken over with `sync --home`.
    Foreign,
}

/// Every file, or every row of every table, by name.
pub(crate) type Bytes = BTreeMap<String, Vec<u8>>;

/// A home, and what annals saw of it last.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) owner: Owner,
    /// The directory `storage` or the file `opencode.db`, wherever it is at the moment.
    pub(super) place: PathBuf,
    /// Whether annals cannot find it.
    pub(super) is_away: bool,
    /// What it held when annals looked last.
    pub(super) look: Content,
    /// What it held earlier and did not hold then, as annals saw it last.
    pub(super) lost: Content,
}

impl Kind {
    pub(super) fn is_database(self) -> bool {
        self != Kind::Directory
    }

    /// Whether a text that is changed long after it was written leaves a trace beside it. Elsewhere annals promises to find
    /// that with `sync --full` only.
    pub(super) fn tells_edits(self) -> bool {
        self == Kind::Database18
    }

    /// Its name in OpenCode's data directory.
    pub(super) fn file_name(self) -> &'static str {
        if self.is_database() { "opencode.db" } else { "storage" }
    }
}

impl Home {
    pub(super) fn new(name: &'static str, kind: Kind, owner: Owner, data: &Path) -> Home {
        let place = data.join(kind.file_name());
        Home { name, kind, owner, place, is_away: false, look: Content::new(), lost: Content::new() }
    }

    /// Whether annals works on it without being told to.
    pub(super) fn is_at_hand(&self) -> bool {
        self.owner == Owner::Own && !self.is_away
    }

    /// What it holds now.
    pub(super) fn read(&self) -> Content {
        if self.kind.is_database() { read_database(&self.place) } else { read_directory(&self.place) }
    }

    /// Annals looks at it.
    pub(super) fn see(&mut self) {
        let seen = self.read();
        let earlier = std::mem::replace(&mut self.look, seen);
        self.lost.extend(earlier);
        self.lost.retain(|id, _| !self.look.contains_key(id));
    }

    /// Everything in it, except what annals keeps there for itself.
    pub(super) fn bytes(&self) -> Bytes {
        if self.kind.is_database() { rows(&self.place) } else { files(&self.place) }
    }
}

fn parse(path: &Path) -> Option<Value> {
    let bytes = std::fs::read(path).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Names of the JSON files in a directory, without their ending. None if there is no such directory.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| !name.starts_with('.'))
        .map(|name| name.trim_end_matches(".json").to_owned())
        .collect()
}

fn read_directory(storage: &Path) -> Content {
    let mut content = Content::new();
    for project in names(&storage.join("session")) {
        let directory = storage.join("session").join(&project);
        for id in names(&directory) {
            let mut session =
                Session { info: parse(&directory.join(format!("{id}.json"))).unwrap(), ..Session::default() };
            let messages = storage.join("message").join(&id);
            for message in names(&messages) {
                session
                    .messages
                    .insert(message.clone(), parse(&messages.join(format!("{message}.json"))).unwrap());
                let parts = storage.join("part").join(&message);
                for part in names(&parts) {
                    let value = parse(&parts.join(format!("{part}.json"))).unwrap();
                    session.parts.insert((message.clone(), part), value);
                }
            }
            session.todos = parse(&storage.join("todo").join(format!("{id}.json")));
            content.insert(id, session);
        }
    }
    let is_known = |message: &str| content.values().any(|session| session.messages.contains_key(message));
    let orphaned: Vec<String> =
        names(&storage.join("part")).into_iter().filter(|message| !is_known(message)).collect();
    for message in orphaned {
        let directory = storage.join("part").join(message);
        for part in names(&directory) {
            let part = parse(&directory.join(format!("{part}.json"))).unwrap();
            if let Some(session) = part["sessionID"].as_str().and_then(|id| content.get_mut(id)) {
                session.orphans.push(part);
            }
        }
    }
    content
}

pub(crate) fn files(root: &Path) -> Bytes {
    let is_ours = |path: &PathBuf| path.components().any(|part| part.as_os_str() == ".annals");
    let files = annals_testkit::files_below(root).into_iter().filter(|path| !is_ours(path));
    files
        .map(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (name, bytes)
        })
        .collect()
}

fn open(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection
}

/// A row as a JSON object: column by column, null where it is null.
fn object(columns: &[String], row: &Row<'_>) -> Map<String, Value> {
    let mut object = Map::new();
    for (n, column) in columns.iter().enumerate() {
        let value = match row.get_ref(n).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(n) => json!(n),
            ValueRef::Real(n) => json!(n),
            ValueRef::Text(text) => json!(std::str::from_utf8(text).unwrap()),
            ValueRef::Blob(blob) => json!(format!("{blob:?}")),
        };
        object.insert(column.clone(), value);
    }
    object
}

fn select(connection: &Connection, sql: &str) -> Vec<Map<String, Value>> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| Ok(object(&columns, row))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn text(row: &Map<String, Value>, column: &str) -> String {
    row[column].as_str().unwrap_or_else(|| panic!("{column}: {row:?}")).to_owned()
}

fn data(row: &Map<String, Value>, ids: &[(&str, &str)]) -> Value {
    let mut value: Value = serde_json::from_str(&text(row, "data")).unwrap();
    for (member, column) in ids {
        value[*member] = row[*column].clone();
    }
    value
}

fn read_database(path: &Path) -> Content {
    let connection = open(path);
    // One snapshot for all tables.
    connection.execute_batch("BEGIN").unwrap();
    let mut content = Content::new();
    for row in select(&connection, "SELECT * FROM session") {
        content.insert(text(&row, "id"), Session { info: session_document(&row), ..Session::default() });
    }
    let mut owner = BTreeMap::new();
    for row in select(&connection, "SELECT * FROM message") {
        let (id, session) = (text(&row, "id"), text(&row, "session_id"));
        let value = data(&row, &[("id", "id"), ("sessionID", "session_id")]);
        owner.insert(id.clone(), session.clone());
        content.get_mut(&session).unwrap().messages.insert(id, value);
    }
    for row in select(&connection, "SELECT * FROM part") {
        let (id, message) = (text(&row, "id"), text(&row, "message_id"));
        let value = data(&row, &[("id", "id"), ("sessionID", "session_id"), ("messageID", "message_id")]);
        content.get_mut(&owner[&message]).unwrap().parts.insert((message, id), value);
    }
    for row in select(&connection, "SELECT * FROM todo ORDER BY session_id, position") {
        let session = content.get_mut(&text(&row, "session_id")).unwrap();
        let todo = json!({"content": row["content"], "status": row["status"], "priority": row["priority"]});
        session.todos.get_or_insert_with(|| json!([])).as_array_mut().unwrap().push(todo);
    }
    content
}

/// The session document that OpenCode makes of a row.
fn session_document(row: &Map<String, Value>) -> Value {
    let null = Value::Null;
    let column = |name: &str| row.get(name).unwrap_or(&null).clone();
    let parsed =
        |name: &str| column(name).as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    let mut info = Map::new();
    let plain = [
        ("id", "id"),
        ("slug", "slug"),
        ("projectID", "project_id"),
        ("workspaceID", "workspace_id"),
        ("directory", "directory"),
        ("path", "path"),
        ("parentID", "parent_id"),
        ("title", "title"),
        ("agent", "agent"),
        ("version", "version"),
        ("cost", "cost"),
    ];
    for (member, name) in plain {
        info.insert(member.to_owned(), column(name));
    }
    for (member, name) in
        [("model", "model"), ("metadata", "metadata"), ("permission", "permission"), ("revert", "revert")]
    {
        info.insert(member.to_owned(), parsed(name));
    }
    if row.contains_key("tokens_input") {
        let cache = json!({"read": column("tokens_cache_read"), "write": column("tokens_cache_write")});
        let tokens = json!({"input": column("tokens_input"), "output": column("tokens_output"),
            "reasoning": column("tokens_reasoning"), "cache": cache});
        info.insert("tokens".to_owned(), tokens);
    }
    if let Some(url) = column("share_url").as_str() {
        info.insert("share".to_owned(), json!({"url": url}));
    }
    let counts = ["summary_additions", "summary_deletions", "summary_files"].map(column);
    if counts.iter().any(|count| !count.is_null()) {
        let [additions, deletions, files] = counts.map(|count| json!(count.as_i64().unwrap_or(0)));
        let mut summary = json!({"additions": additions, "deletions": deletions, "files": files});
        let diffs = parsed("summary_diffs");
        if !diffs.is_null() {
            summary["diffs"] = diffs;
        }
        info.insert("summary".to_owned(), summary);
    }
    let mut time = Map::new();
    for name in ["created", "updated", "compacting", "archived"] {
        time.insert(name.to_owned(), column(&format!("time_{name}")));
    }
    time.retain(|_, value| !value.is_null());
    info.insert("time".to_owned(), Value::Object(time));
    info.retain(|_, value| !value.is_null());
    Value::Object(info)
}

/// Every row of every table, named by its table and primary key.
pub(crate) fn rows(path: &Path) -> Bytes {
    let connection = open(path);
    connection.execute_batch("BEGIN").unwrap();
    let mut bytes = Bytes::new();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    for table in select(&connection, tables) {
        let table = text(&table, "name");
        let columns = select(&connection, &format!("PRAGMA table_info(\"{table}\")"));
        let keys: Vec<String> =
            columns.iter().filter(|column| column["pk"] != 0).map(|column| text(column, "name")).collect();
        for row in select(&connection, &format!("SELECT rowid AS row_number, * FROM \"{table}\"")) {
            let key = match keys.is_empty() {
                true => row["row_number"].to_string(),
                false => keys.iter().map(|key| row[key].to_string()).collect::<Vec<_>>().join(" "),
            };
            let mut row = row;
            // A row that is deleted and brought back may get another number.
            row.remove("row_number");
            bytes.insert(format!("{table} {key}"), Value::Object(row).to_string().into_bytes());
        }
    }
    bytes
}
