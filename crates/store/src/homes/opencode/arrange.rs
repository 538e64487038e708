//! The two forms in which OpenCode keeps the same documents: files until 1.1, rows since 1.2.
//!
//! | | file | row |
//! |---|---|---|
//! | message, part | ids first, then the fields | the fields as `data`, ids in columns |
//! | session | creation order, later fields appended | columns; the object is rebuilt from them |
//! | layout | indented | compact |

use super::complete;
use annals_core::document::{Document, Key};
use annals_core::json::{JsWriter, JsonError, Kind, Node, Style, Text, same_value};

/// The ids that stand in columns beside the `data` of a row.
fn column_ids(key: &Key) -> Vec<(&'static str, &str)> {
    match key {
        Key::Message(session, message) => vec![("id", message.as_str()), ("sessionID", session.as_str())],
        Key::Part(session, message, part) => {
            vec![("id", part.as_str()), ("sessionID", session.as_str()), ("messageID", message.as_str())]
        }
        _ => Vec::new(),
    }
}

/// The `data` of a message's or part's row: the document without its ids and without white space. For what OpenCode wrote
/// that is what `JSON.stringify` makes of it; numbers and strings that others wrote in another way stay as they are.
pub fn row_data(key: &Key, document: &Document) -> String {
    data_of(key, document.root())
}

fn data_of(key: &Key, object: Node<'_>) -> String {
    let ids = column_ids(key);
    let mut data = JsWriter::verbatim(Style::Compact, 0);
    if object.kind() == Kind::Object {
        data.begin(b'{');
        let mut members = object.members();
        while let Some((name, value)) = members.next_nodes() {
            if !name.as_text().is_some_and(|name| ids.iter().any(|(id, _)| name == *id)) {
                data.member_node(name, value);
            }
        }
        data.end(b'}');
    } else {
        data.node(object);
    }
    String::from_utf8(data.finish()).expect("tokens of a text are text")
}

/// The document of a message or part, rebuilt from its row: `{...data, id, sessionID, messageID}`.
pub fn from_row(key: &Key, data: &[u8]) -> Result<Document, JsonError> {
    let ids = column_ids(key);
    // Nearly always the ids can be put behind the other members, and the text be looked at once. That it was JSON before
    // shows when it is again, with the ids where they were put.
    if let Some(text) = appended(data, &ids)
        && let Ok(document) = Document::parse(text)
        && ends_with(document.root(), &ids)
    {
        return Ok(document);
    }
    let document = Document::parse(data.to_vec())?;
    if document.root().kind() != Kind::Object {
        return Ok(document);
    }
    // JavaScript's spread keeps the place of a field that is there already, and so does an edit.
    Ok(ids.into_iter().fold(document, |document, (name, id)| document.with(&[name], id).unwrap_or(document)))
}

/// The document of a message or part as its row would give it, made from an object that stands inside another document.
pub fn as_row(key: &Key, object: Node<'_>) -> Result<Document, JsonError> {
    from_row(key, data_of(key, object).as_bytes())
}

/// The text of an object with ids as further members; none if it does not look like an object with members.
fn appended(object: &[u8], ids: &[(&'static str, &str)]) -> Option<Vec<u8>> {
    let members = object.strip_prefix(b"{\"")?.strip_suffix(b"}")?;
    let length = ids.iter().map(|(name, id)| name.len() + id.len() + 6).sum::<usize>();
    let mut text = Vec::with_capacity(object.len() + length);
    text.extend_from_slice(b"{\"");
    text.extend_from_slice(members);
    for (name, id) in ids {
        // Ids are letters, digits and `_`, so they need no escapes.
        for piece in [",\"", name, "\":\"", id, "\""] {
            text.extend_from_slice(piece.as_bytes());
        }
    }
    text.push(b'}');
    Some(text)
}

/// Whether the last members of an object are these ids, and no others have their names.
fn ends_with(object: Node<'_>, ids: &[(&'static str, &str)]) -> bool {
    let n_others = object.members().count().saturating_sub(ids.len());
    object.members().enumerate().all(|(n, (name, value))| match n.checked_sub(n_others) {
        None => !ids.iter().any(|(id, _)| name == *id),
        Some(n) => name == ids[n].0 && value.as_text().is_some_and(|text| text == ids[n].1),
    })
}

/// Fields of a session that later versions keep and that follow from its messages and its directory.
const DERIVED: [&str; 5] = ["path", "agent", "model", "cost", "tokens"];

/// The order in which the JSON era creates the fields of a session; all others follow.
const SESSION_ORDER: [&str; 9] =
    ["id", "slug", "version", "projectID", "directory", "parentID", "title", "permission", "time"];

/// The order in which the JSON era creates the fields of a project; all others follow.
const PROJECT_ORDER: [&str; 5] = ["id", "worktree", "vcs", "sandboxes", "time"];

/// The document as a file of the JSON era would hold it. One that has that form already is returned as it is.
pub fn for_file(key: &Key, document: &Document) -> Result<Document, JsonError> {
    let restored = complete::restored(document);
    let document = restored.as_ref().unwrap_or(document);
    let root = document.root();
    let position = |name: &str| root.members().position(|(key, _)| key == name);
    let (order, is_file): (&[&str], bool) = match key {
        Key::Message(..) => (&["id", "sessionID"], position("id") == Some(0)),
        Key::Part(..) => (&["id", "sessionID", "messageID"], position("id") == Some(0)),
        // Files name the version before the title, rows after it.
        Key::Session(..) => {
            (&SESSION_ORDER, position("version").is_none() || position("version") < position("title"))
        }
        Key::Project(_) => {
            (&PROJECT_ORDER, position("sandboxes").is_none() || position("sandboxes") < position("time"))
        }
        Key::Share(_) => (&["id", "url", "secret"], position("url") < position("secret")),
        Key::Todo(_) => return todo_for_file(document),
        _ => return Ok(document.clone()),
    };
    if is_file || root.kind() != Kind::Object {
        return Ok(document.clone());
    }
    let dropped: &[&str] =
        if matches!(key, Key::Session(..)) && is_of_json_era(root) { &DERIVED } else { &[] };
    let mut members: Vec<(Node<'_>, Node<'_>)> = Vec::new();
    let mut rest = root.members();
    while let Some(member) = rest.next_nodes() {
        members.push(member);
    }
    let is = |name: Node<'_>, known: &str| name.as_text().is_some_and(|name| name == known);
    members.retain(|(name, _)| !dropped.iter().any(|dropped| is(*name, dropped)));
    members.sort_by_key(|(name, _)| order.iter().position(|known| is(*name, known)).unwrap_or(order.len()));
    let mut text = JsWriter::verbatim(Style::Pretty, 0);
    text.object(|text| members.into_iter().for_each(|(name, value)| text.member_node(name, value)));
    Document::parse(text.finish())
}

/// Whether a session was made by an OpenCode that kept files. What later versions derive was not in its document, so it
/// is not kept in one.
fn is_of_json_era(session: Node<'_>) -> bool {
    let Some(version) = session.get("version").and_then(Node::as_text) else { return true };
    let version = version.to_str();
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < (1, 2),
        _ => false,
    }
}

/// A todo list whose items have ids. Rows hold none, so they are numbered, as OpenCode's model does.
fn todo_for_file(document: &Document) -> Result<Document, JsonError> {
    let is_whole = |item: Node<'_>| item.kind() != Kind::Object || item.get("id").is_some();
    if document.root().kind() != Kind::Array || document.root().items().all(is_whole) {
        return Ok(document.clone());
    }
    let mut text = JsWriter::verbatim(Style::Pretty, 0);
    text.begin(b'[');
    for (n, item) in document.root().items().enumerate() {
        text.next_item();
        if is_whole(item) {
            text.node(item);
            continue;
        }
        text.begin(b'{');
        let mut members = item.members();
        while let Some((name, value)) = members.next_nodes() {
            text.member_node(name, value);
        }
        text.member("id", (n + 1).to_string().as_str());
        text.end(b'}');
    }
    text.end(b']');
    Document::parse(text.finish())
}

/// Whether two documents of one key say the same, as far as either form can hold it.
pub fn is_same(key: &Key, a: &Document, b: &Document) -> bool {
    if a == b || same_value(a.root(), b.root()) {
        return true;
    }
    match key {
        Key::Message(..) | Key::Part(..) => complete::covers(a, b) || complete::covers(b, a),
        Key::Session(..) => session_covers(a.root(), b.root()) || session_covers(b.root(), a.root()),
        Key::Todo(_) => {
            const HELD: [&str; 3] = ["content", "status", "priority"];
            let text = |item: Node<'_>, name: &str| {
                item.get(name).and_then(Node::as_text).map(|text| text.to_string())
            };
            let same = |(a, b)| HELD.iter().all(|name| text(a, name) == text(b, name));
            let (a, b) = (a.root(), b.root());
            a.items().count() == b.items().count() && a.items().zip(b.items()).all(same)
        }
        _ => false,
    }
}

/// Whether everything a session says is in another one, which may have more members if they are derived or empty. The
/// project is left out: the same session may be filed differently.
fn session_covers(more: Node<'_>, less: Node<'_>) -> bool {
    let is_empty = |node: Node<'_>| {
        node.is_null() || node.as_text().is_some_and(|text| text.is_empty()) || node.as_f64() == Some(0.0)
    };
    let is_covered = |(name, value): (Text<'_>, Node<'_>)| {
        let name = name.to_str();
        match (&*name, more.get(&name)) {
            ("projectID", _) => true,
            ("summary" | "share" | "time", Some(other)) if other.kind() == Kind::Object => {
                value.members().all(|(name, value)| match other.get(&name.to_str()) {
                    Some(other) => same_value(other, value) || (is_empty(other) && is_empty(value)),
                    None => value.is_null(),
                })
            }
            (_, Some(other)) => same_value(other, value),
            (_, None) => is_empty(value),
        }
    };
    let is_extra = |(name, value): (Text<'_>, Node<'_>)| {
        let name = name.to_str();
        less.get(&name).is_some() || DERIVED.contains(&&*name) || name == "directory" || is_empty(value)
    };
    less.members().all(is_covered) && more.members().all(is_extra)
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_core::id::{MessageId, PartId, ProjectId, SessionId};

    fn part_key() -> Key {
        let (session, message, part) = (
            SessionId::parse_opencode("ses_1"),
            MessageId::parse_opencode("msg_1"),
            PartId::parse_opencode("prt_1"),
        );
        Key::Part(session.unwrap(), message.unwrap(), part.unwrap())
    }

    fn parse(text: &str) -> Document {
        Document::parse(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_part_goes_into_a_row_and_back() {
        let file = "{\n  \"id\": \"prt_1\",\n  \"sessionID\": \"ses_1\",\n  \"messageID\": \"msg_1\",\n  \"type\": \"text\",\n  \"text\": \"\\ud83d é\"\n}";
        let data = row_data(&part_key(), &parse(file));
        assert_eq!(data, r#"{"type":"text","text":"\ud83d é"}"#);
        let rebuilt = from_row(&part_key(), data.as_bytes()).unwrap();
        assert_eq!(
            rebuilt.text(),
            r#"{"type":"text","text":"\ud83d é","id":"prt_1","sessionID":"ses_1","messageID":"msg_1"}"#
        );
        assert_eq!(for_file(&part_key(), &rebuilt).unwrap().text(), file);
    }

    #[test]
    fn a_row_has_every_token_and_no_white_space() {
        let file = "{\n  \"type\": \"text\",\n  \"text\": \"a \\\" b\\\\\",\n  \"n\": [1e400, -0,\t1.50 ],\n  \"o\": { \"id\": null }\r\n}";
        let expected = r#"{"type":"text","text":"a \" b\\","n":[1e400,-0,1.50],"o":{"id":null}}"#;
        assert_eq!(row_data(&part_key(), &parse(file)), expected);
        assert_eq!(row_data(&part_key(), &parse("{ }")), "{}");
        assert_eq!(row_data(&part_key(), &parse("[ 1, \"a b\" ]")), "[1,\"a b\"]");
    }

    #[test]
    fn ids_inside_the_data_give_way_to_the_columns() {
        let rebuilt = from_row(&part_key(), br#"{"id":"prt_9","type":"text","messageID":"msg_9"}"#).unwrap();
        assert_eq!(rebuilt.text(), r#"{"id":"prt_1","type":"text","messageID":"msg_1","sessionID":"ses_1"}"#);
        assert_eq!(
            from_row(&part_key(), b"{}").unwrap().text(),
            r#"{"id":"prt_1","sessionID":"ses_1","messageID":"msg_1"}"#
        );
        assert_eq!(from_row(&part_key(), b"[1]").unwrap().text(), "[1]");
        for torn in [
            "{",
            "{\"a\":12",
            "{\"a\":\"}",
            "{\"a\":{}",
            "{\"a\":1}}",
            "{\"a\":[1,\"}",
            "{\"a\":1,}",
            "{\"}",
            "",
        ] {
            assert!(from_row(&part_key(), torn.as_bytes()).is_err(), "{torn}");
        }
    }

    #[test]
    fn an_object_inside_a_document_becomes_what_a_row_gives() {
        let event = parse(r#"{"part": {"id": "prt_1", "messageID": "msg_1", "type": "text", "id": 2}}"#);
        let object = event.root().get("part").unwrap();
        assert_eq!(
            as_row(&part_key(), object).unwrap().text(),
            r#"{"type":"text","id":"prt_1","sessionID":"ses_1","messageID":"msg_1"}"#
        );
    }

    #[test]
    fn a_session_goes_back_to_the_order_of_its_file() {
        let key = Key::Session(ProjectId::global(), SessionId::parse_opencode("ses_1").unwrap());
        let row = r#"{"id":"ses_1","slug":"a-b","projectID":"global","directory":"/d","path":"","title":"T","agent":"build","version":"1.1.65","summary":{"additions":0,"deletions":0,"files":0},"cost":1,"tokens":{},"permission":[],"time":{"created":1,"updated":2}}"#;
        let file = for_file(&key, &parse(row)).unwrap();
        let keys: Vec<String> = file.root().members().map(|(key, _)| key.to_string()).collect();
        assert_eq!(
            keys,
            ["id", "slug", "version", "projectID", "directory", "title", "permission", "time", "summary"]
        );
        let original = parse("{\"id\":\"ses_1\",\"version\":\"1\",\"title\":\"T\",\"plugin\":1}");
        assert_eq!(for_file(&key, &original).unwrap(), original);
    }
}
