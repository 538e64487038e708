//! OpenCode at work: writes sessions the way its versions do.
//!
//! A directory's files are rewritten in place. A database gets rows with their times and, since 1.16, an event for each
//! change. Prompts, reverts and cleanups move `time.updated` of a session; edits of parts and deleted messages do not.
//! Renames and archiving do in 1.2 and do not in 1.1 and 1.18.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::{Value, json};

use super::content::{Session, family};
use super::homes::{Home, Kind};
use super::random::Random;

/// The project of all sessions that the walk makes: that of the small fixtures.
pub(super) const PROJECT: &str = "ae67b791ac8545d7e09020e477c5b197aba61ea6";
const DIRECTORY: &str = "/home/dev/projects/pocket";

/// One thing that OpenCode writes.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Session(Value),
    Message(Value),
    Part(Value),
    DeleteMessage {
        session: String,
        message: String,
        /// In a directory parts are files of their own, which OpenCode sometimes leaves behind.
        leave_parts: bool,
    },
    /// With the sessions it started.
    DeleteSession(String),
    Todos(String, Vec<Value>),
    /// Only directories have these.
    Diff(String, Value),
}

/// Makes ids, words and documents.
#[derive(Debug)]
pub(super) struct Author {
    pub(super) random: Random,
    pub(super) now: i64,
    n_ids: u64,
    /// Words that occur nowhere else, in the order in which they were made.
    pub(super) words: Vec<String>,
}

impl Author {
    pub(super) fn new(now: i64) -> Author {
        Author { random: Random::new(0), now, n_ids: 0, words: Vec::new() }
    }

    /// An id as OpenCode makes it: 48 bits of time and count, 14 random characters.
    fn id(&mut self, prefix: &str) -> String {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        self.n_ids += 1;
        let mut value = (self.now as u64) << 12 | (self.n_ids & 0xfff);
        if prefix == "ses" {
            value = !value;
        }
        let tail: String = (0..14).map(|_| char::from(DIGITS[self.random.below(62)])).collect();
        format!("{prefix}_{:012x}{tail}", value & 0xffff_ffff_ffff)
    }

    /// A word of its own, all of the same length, so that none is the beginning of another.
    fn word(&mut self) -> String {
        let mut n = self.words.len();
        let mut word = String::from("zq");
        for _ in 0..5 {
            word.push(char::from(b'a' + (n % 26) as u8));
            n /= 26;
        }
        word.push('x');
        self.words.push(word.clone());
        word
    }

    /// A title with a word of its own.
    pub(super) fn title(&mut self) -> String {
        let adjective = *self.random.pick(&["Tidy", "Broken", "Fast", "Élan 🎉", "\"Quoted\""]).unwrap();
        format!("{adjective} title {}", self.word())
    }

    /// A text with a word of its own.
    fn text(&mut self) -> String {
        let mut text = format!("Some words and {} among them.", self.word()).replace('.', " .");
        for _ in 0..self.random.below(4) {
            text.push_str("\nA line with \\ and \" and ü and a\ttab .");
        }
        text
    }

    fn step(&mut self) -> i64 {
        self.now += 1 + self.random.below(40) as i64;
        self.now
    }

    pub(super) fn new_session(&mut self, parent: Option<&str>) -> (String, Vec<Write>) {
        let now = self.step();
        let id = self.id("ses");
        let title = self.title();
        let mut info = json!({"id": id, "slug": "brave-otter", "version": "1.1.65", "projectID": PROJECT,
            "directory": DIRECTORY});
        if let Some(parent) = parent {
            info["parentID"] = json!(parent);
        }
        info["title"] = json!(title);
        info["time"] = json!({"created": now, "updated": now});
        let session = Session { info: info.clone(), ..Session::default() };
        let mut writes = vec![Write::Session(info)];
        writes.extend(self.prompt(&session));
        (id, writes)
    }

    /// A prompt and its answer. A revert that is pending is carried out first.
    pub(super) fn prompt(&mut self, session: &Session) -> Vec<Write> {
        let id = session.info["id"].as_str().unwrap();
        let mut info = session.info.clone();
        let mut writes = Vec::new();
        if let Some(revert) = info.as_object_mut().unwrap().remove("revert") {
            let order = session.order();
            let from =
                order.iter().position(|message| *message == revert["messageID"]).unwrap_or(order.len());
            for message in &order[from..] {
                writes.push(Write::DeleteMessage {
                    session: id.to_owned(),
                    message: (*message).to_owned(),
                    leave_parts: true,
                });
            }
        }
        let now = self.step();
        let prompt = self.id("msg");
        writes.push(Write::Message(
            json!({"id": prompt, "sessionID": id, "role": "user", "time": {"created": now},
            "agent": "build", "model": {"providerID": "lab", "modelID": "lab-large"}}),
        ));
        let text = self.text();
        writes.push(self.part(id, &prompt, json!({"type": "text", "text": text})));
        info["time"]["updated"] = json!(now);
        writes.push(Write::Session(info));
        writes.extend(self.answer(id, &prompt));
        writes
    }

    /// An answer in its last state.
    fn answer(&mut self, session: &str, prompt: &str) -> Vec<Write> {
        let start = self.step();
        let id = self.id("msg");
        let (cost, input, output) =
            (self.random.below(64) as f64 / 1024.0, self.random.below(5000), self.random.below(500));
        let tokens = json!({"input": input, "output": output, "reasoning": output / 4,
            "cache": {"read": input / 2, "write": 0}});
        let mut parts = vec![self.part(session, &id, json!({"type": "step-start"}))];
        if self.random.one_in(3) {
            let (text, end) = (self.text(), self.step());
            let time = json!({"start": start, "end": end});
            parts.push(self.part(session, &id, json!({"type": "reasoning", "text": text, "time": time})));
        }
        if self.random.one_in(3) {
            let end = self.step();
            let state = json!({"status": "completed", "input": {"command": "ls"}, "output": "a\nb\n", "title": "ls",
                "metadata": {"exit": 0}, "time": {"start": start, "end": end}});
            let call = format!("call_{}", self.n_ids);
            let tool = json!({"type": "tool", "callID": call, "tool": "bash", "state": state});
            parts.push(self.part(session, &id, tool));
        }
        let (text, end) = (self.text(), self.step());
        let time = json!({"start": end, "end": end});
        parts.push(self.part(session, &id, json!({"type": "text", "text": text, "time": time})));
        let finish = json!({"type": "step-finish", "reason": "stop", "cost": cost, "tokens": tokens});
        parts.push(self.part(session, &id, finish));
        let message = json!({"id": id, "sessionID": session, "role": "assistant",
            "time": {"created": start, "completed": self.step()}, "parentID": prompt, "modelID": "lab-large",
            "providerID": "lab", "mode": "build", "agent": "build", "path": {"cwd": DIRECTORY, "root": DIRECTORY},
            "cost": cost, "tokens": tokens, "finish": "stop"});
        std::iter::once(Write::Message(message)).chain(parts).collect()
    }

    fn part(&mut self, session: &str, message: &str, mut body: Value) -> Write {
        let id = self.id("prt");
        let mut part = json!({"id": id, "sessionID": session, "messageID": message});
        part.as_object_mut().unwrap().append(body.as_object_mut().unwrap());
        Write::Part(part)
    }

    /// The states of an answer that grows: each is written, and somebody may look in between.
    pub(super) fn stream(&mut self, session: &Session) -> Vec<Vec<Write>> {
        let mut whole = self.prompt(session);
        let answer = whole.iter().rposition(|write| matches!(write, Write::Message(_))).unwrap();
        let last = whole.split_off(answer);
        let mut first = last[0].clone();
        if let Write::Message(message) = &mut first {
            message["time"].as_object_mut().unwrap().remove("completed");
            message.as_object_mut().unwrap().remove("finish");
            message["cost"] = json!(0);
            message["tokens"] =
                json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
        }
        whole.push(first);
        let mut states = vec![whole];
        let text = last.iter().find_map(|write| match write {
            Write::Part(part) if part["type"] == "text" => Some(part.clone()),
            _ => None,
        });
        let mut text = text.unwrap();
        let full: Vec<char> = text["text"].as_str().unwrap().chars().collect();
        for n in 1..=1 + self.random.below(2) {
            let length = full.len() * n / 4;
            text["text"] = json!(full[..length].iter().collect::<String>());
            text.as_object_mut().unwrap().remove("time");
            states.push(vec![Write::Part(text.clone())]);
        }
        states.push(last);
        states
    }

    /// Another text in one of the parts of a session.
    pub(super) fn edit_part(&mut self, session: &Session) -> Option<Vec<Write>> {
        self.step();
        let texts: Vec<&Value> = session.parts.values().filter(|part| part["type"] == "text").collect();
        let mut part = (*self.random.pick(&texts)?).clone();
        part["text"] = json!(self.text());
        Some(vec![Write::Part(part)])
    }

    pub(super) fn rename(&mut self, session: &Session) -> Vec<Write> {
        self.step();
        let mut info = session.info.clone();
        info["title"] = json!(self.title());
        vec![Write::Session(info)]
    }

    pub(super) fn archive(&mut self, session: &Session) -> Vec<Write> {
        let now = self.step();
        let mut info = session.info.clone();
        info["time"]["archived"] = json!(now);
        vec![Write::Session(info)]
    }

    pub(super) fn delete_message(&mut self, session: &Session) -> Option<Vec<Write>> {
        self.step();
        let message = (*self.random.pick(&session.order())?).to_owned();
        let session = session.info["id"].as_str().unwrap().to_owned();
        Some(vec![Write::DeleteMessage { session, message, leave_parts: self.random.one_in(2) }])
    }

    /// Marks what came after a prompt as reverted. The next prompt deletes it.
    pub(super) fn revert(&mut self, session: &Session) -> Option<Vec<Write>> {
        let now = self.step();
        let prompts: Vec<&str> =
            session.order().into_iter().filter(|id| session.messages[*id]["role"] == "user").collect();
        let message = self.random.pick(&prompts)?;
        let mut info = session.info.clone();
        info["revert"] = json!({"messageID": message});
        info["time"]["updated"] = json!(now);
        Some(vec![Write::Session(info)])
    }

    /// A prompt that is answered with a todo list.
    pub(super) fn todos(&mut self, session: &Session) -> Vec<Write> {
        let mut writes = self.prompt(session);
        let n_todos = 1 + self.random.below(3);
        let todos = (0..n_todos).map(|n| {
            let status = *self.random.pick(&["pending", "in_progress", "completed"]).unwrap();
            json!({"content": format!("Do {n} at {}", self.now), "status": status, "priority": "high"})
        });
        let todos = todos.collect();
        writes.push(Write::Todos(session.info["id"].as_str().unwrap().to_owned(), todos));
        writes
    }

    /// A prompt after which files have changed.
    pub(super) fn diff(&mut self, session: &Session) -> Vec<Write> {
        let mut writes = self.prompt(session);
        let now = self.step();
        let diff = json!([{"file": "src/main.rs", "before": "", "after": format!("{now}\n"), "additions": 1, "deletions": 0}]);
        writes.push(Write::Diff(session.info["id"].as_str().unwrap().to_owned(), diff));
        writes
    }

    /// Writes to a home.
    pub(super) fn write(&mut self, home: &Home, writes: &[Write]) {
        if home.kind.is_database() {
            write_rows(home, self, writes);
            for suffix in ["", "-wal"] {
                date(Path::new(&format!("{}{suffix}", home.place.display())), self.now);
            }
        } else {
            let content = home.read();
            for write in writes {
                for path in write_file(&home.place, &content, write) {
                    date(&path, self.now);
                    date(path.parent().unwrap(), self.now);
                }
            }
        }
    }

    /// Takes a whole session over into another home, as OpenCode's migration does.
    pub(super) fn take_over(&mut self, home: &Home, session: &Session) {
        let id = session.info["id"].as_str().unwrap().to_owned();
        let mut writes = vec![Write::Session(session.info.clone())];
        writes.extend(session.order().into_iter().map(|id| Write::Message(session.messages[id].clone())));
        writes.extend(session.parts.values().cloned().map(Write::Part));
        if let Some(todos) = &session.todos {
            writes.push(Write::Todos(id, todos.as_array().unwrap().clone()));
        }
        self.write(home, &writes);
    }
}

/// Gives a file or directory the time that the walk takes for the present, if it exists. Annals compares the times of files
/// with its clock, and both are of this world.
pub(super) fn date(path: &Path, now: i64) {
    if let Ok(file) = std::fs::File::open(path) {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(u64::try_from(now).unwrap());
        file.set_modified(time).unwrap();
    }
}

/// Rewrites a file as OpenCode does: over the old bytes, then cut to its new length.
fn write_in_place(path: &Path, value: &Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = serde_json::to_string_pretty(value).unwrap();
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_len(text.len() as u64).unwrap();
}

/// Writes to a directory. Gives the files that it wrote and removed.
fn write_file(storage: &Path, content: &super::content::Content, write: &Write) -> Vec<PathBuf> {
    let text = |value: &Value, member: &str| value[member].as_str().unwrap().to_owned();
    let session_file = |info: &Value| {
        let project = info["projectID"].as_str().unwrap_or("global");
        storage.join(format!("session/{project}/{}.json", text(info, "id")))
    };
    let message_file =
        |session: &str, message: &str| storage.join(format!("message/{session}/{message}.json"));
    let (path, value) = match write {
        Write::Session(info) => (session_file(info), info.clone()),
        Write::Message(message) => {
            (message_file(&text(message, "sessionID"), &text(message, "id")), message.clone())
        }
        Write::Part(part) => {
            let path = format!("part/{}/{}.json", text(part, "messageID"), text(part, "id"));
            (storage.join(path), part.clone())
        }
        Write::Todos(session, todos) => (storage.join(format!("todo/{session}.json")), json!(todos)),
        Write::Diff(session, diff) => (storage.join(format!("session_diff/{session}.json")), diff.clone()),
        Write::DeleteMessage { session, message, leave_parts } => {
            let (path, parts) = (message_file(session, message), storage.join("part").join(message));
            if !leave_parts {
                let _ = std::fs::remove_dir_all(&parts);
            }
            std::fs::remove_file(&path).unwrap();
            return vec![path, parts];
        }
        // Todo lists and differences stay behind.
        Write::DeleteSession(session) => {
            let mut removed = Vec::new();
            for id in family(content, session).iter().rev() {
                let session = &content[id];
                for message in session.messages.keys() {
                    let parts = storage.join("part").join(message);
                    let _ = std::fs::remove_dir_all(&parts);
                    let path = message_file(id, message);
                    std::fs::remove_file(&path).unwrap();
                    removed.extend([path, parts]);
                }
                let path = session_file(&session.info);
                std::fs::remove_file(&path).unwrap();
                removed.push(path);
            }
            return removed;
        }
    };
    write_in_place(&path, &value);
    vec![path]
}

fn write_rows(home: &Home, author: &mut Author, writes: &[Write]) {
    let content = home.read();
    let mut connection = Connection::open(&home.place).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON")
        .unwrap();
    // A server that goes on running leaves its log; one that ends takes it away.
    let goes_on = author.random.one_in(2);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, goes_on).unwrap();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    for write in writes {
        write_row(&transaction, home.kind, author, &content, write);
    }
    transaction.commit().unwrap();
}

fn write_row(
    connection: &Connection,
    kind: Kind,
    author: &mut Author,
    content: &super::content::Content,
    write: &Write,
) {
    let now = author.now;
    let is_late = kind == Kind::Database18;
    match write {
        Write::Session(info) => {
            let exists = put_session(connection, kind, now, info);
            let name = if exists { "session.updated.1" } else { "session.created.1" };
            let id = info["id"].as_str().unwrap();
            event(connection, kind, author, id, name, &json!({"sessionID": id, "info": info}));
        }
        Write::Message(message) => {
            let (id, session) = (message["id"].as_str().unwrap(), message["sessionID"].as_str().unwrap());
            let created = message["time"]["created"].as_i64().unwrap();
            let sql = "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (id) DO UPDATE SET time_updated = ?4, data = ?5";
            let body = body(message, &["id", "sessionID"]);
            connection.execute(sql, params![id, session, created, now, body]).unwrap();
            event(
                connection,
                kind,
                author,
                session,
                "message.updated.1",
                &json!({"sessionID": session, "info": message}),
            );
            if is_late {
                add_up(connection, session);
            }
        }
        Write::Part(part) => {
            let [id, session, message] =
                ["id", "sessionID", "messageID"].map(|name| part[name].as_str().unwrap());
            let sql = "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data)
                VALUES (?1, ?2, ?3, ?4, ?4, ?5) ON CONFLICT (id) DO UPDATE SET time_updated = ?4, data = ?5";
            let body = body(part, &["id", "sessionID", "messageID"]);
            connection.execute(sql, params![id, message, session, now, body]).unwrap();
            let data = json!({"sessionID": session, "part": part, "time": now});
            event(connection, kind, author, session, "message.part.updated.1", &data);
        }
        Write::DeleteMessage { session, message, .. } => {
            connection.execute("DELETE FROM message WHERE id = ?1", [message]).unwrap();
            let data = json!({"sessionID": session, "messageID": message});
            event(connection, kind, author, session, "message.removed.1", &data);
            if is_late {
                add_up(connection, session);
            }
        }
        Write::DeleteSession(session) => {
            for id in family(content, session) {
                connection.execute("DELETE FROM session WHERE id = ?1", [&id]).unwrap();
                if is_late {
                    connection.execute("DELETE FROM event_sequence WHERE aggregate_id = ?1", [&id]).unwrap();
                }
            }
        }
        Write::Todos(session, todos) => {
            connection.execute("DELETE FROM todo WHERE session_id = ?1", [session]).unwrap();
            for (position, todo) in todos.iter().enumerate() {
                let [content, status, priority] =
                    ["content", "status", "priority"].map(|name| todo[name].as_str().unwrap());
                let sql = "INSERT INTO todo (session_id, content, status, priority, position, time_created, time_updated)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
                let position = i64::try_from(position).unwrap();
                connection.execute(sql, params![session, content, status, priority, position, now]).unwrap();
            }
        }
        Write::Diff(..) => {}
    }
}

/// The JSON of a row: the document without what stands in columns.
fn body(document: &Value, columns: &[&str]) -> String {
    let mut body = document.clone();
    for column in columns {
        body.as_object_mut().unwrap().shift_remove(*column);
    }
    body.to_string()
}

/// Inserts or updates the row of a session. Says whether it was there.
fn put_session(connection: &Connection, kind: Kind, now: i64, info: &Value) -> bool {
    let id = info["id"].as_str().unwrap();
    let project = info["projectID"].as_str().unwrap_or("global");
    let text = |member: &str| info[member].as_str().map(str::to_owned);
    let json = |member: &str| info.get(member).map(Value::to_string);
    let count = |member: &str| info["summary"][member].as_i64();
    let sql = "INSERT OR IGNORE INTO project (id, worktree, time_created, time_updated, sandboxes) VALUES (?1, '/', 1, 1, '[]')";
    connection.execute(sql, [project]).unwrap();
    let exists: bool =
        connection.query_row("SELECT count(*) FROM session WHERE id = ?1", [id], |row| row.get(0)).unwrap();
    // 1.2 notes the time of every change of a row, and that is `time.updated`.
    let updated = match exists && kind == Kind::Database12 {
        true => Some(now),
        false => info["time"]["updated"].as_i64(),
    };
    let sql = "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, summary_additions,
            summary_deletions, summary_files, revert, permission, time_created, time_updated, time_archived, share_url)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
        ON CONFLICT (id) DO UPDATE SET title = ?6, summary_additions = ?8, summary_deletions = ?9, summary_files = ?10,
            revert = ?11, permission = ?12, time_updated = ?14, time_archived = ?15, share_url = ?16";
    let values = params![
        id,
        project,
        text("parentID"),
        text("slug").unwrap_or_default(),
        text("directory").unwrap_or_default(),
        text("title").unwrap_or_default(),
        text("version").unwrap_or_default(),
        count("additions"),
        count("deletions"),
        count("files"),
        json("revert"),
        json("permission"),
        info["time"]["created"].as_i64(),
        updated,
        info["time"]["archived"].as_i64(),
        info["share"]["url"].as_str(),
    ];
    connection.execute(sql, values).unwrap();
    if kind == Kind::Database18 && !exists {
        connection.execute("UPDATE session SET path = '' WHERE id = ?1", [id]).unwrap();
    }
    exists
}

/// Since 1.14.49 the row of a session says what its answers took.
fn add_up(connection: &Connection, session: &str) {
    let sum = |path: &str| {
        format!(
            "(SELECT coalesce(sum(json_extract(data, '$.{path}')), 0) FROM message
              WHERE session_id = ?1 AND json_extract(data, '$.role') = 'assistant')"
        )
    };
    let sql = format!(
        "UPDATE session SET cost = {}, tokens_input = {}, tokens_output = {}, tokens_reasoning = {},
            tokens_cache_read = {}, tokens_cache_write = {} WHERE id = ?1",
        sum("cost"),
        sum("tokens.input"),
        sum("tokens.output"),
        sum("tokens.reasoning"),
        sum("tokens.cache.read"),
        sum("tokens.cache.write")
    );
    connection.execute(&sql, [session]).unwrap();
}

/// One more entry in the log of changes that 1.16 and later keep.
fn event(connection: &Connection, kind: Kind, author: &mut Author, session: &str, name: &str, data: &Value) {
    if kind != Kind::Database18 {
        return;
    }
    let sql = "INSERT INTO event_sequence (aggregate_id, seq) VALUES (?1, 0)
        ON CONFLICT (aggregate_id) DO UPDATE SET seq = seq + 1 RETURNING seq";
    let seq: i64 = connection.query_row(sql, [session], |row| row.get(0)).unwrap();
    let sql = "INSERT INTO event (id, aggregate_id, seq, type, data) VALUES (?1, ?2, ?3, ?4, ?5)";
    let id = author.id("evt");
    connection.execute(sql, params![id, session, seq, name, data.to_string()]).unwrap();
}
