//! Columns and the JSON objects they stand for.
//!
//! OpenCode keeps sessions, projects and shares in columns and rebuilds the object from them. Each table here lists the
//! columns in the order of the rebuilt object, with the place of each in it.

use annals_core::Document;
use annals_core::json::{JsWriter, JsonError, Kind as JsonKind, Node, Style, Text};
use rusqlite::types::{Value, ValueRef};

/// A column, and where its value stands in the object.
#[derive(Debug)]
pub(super) struct DocumentColumn {
    pub(super) name: &'static str,
    pub(super) path: &'static [&'static str],
    kind: ColumnKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Text,
    Number,
    /// Text that holds JSON.
    Json,
}

const fn text(name: &'static str, path: &'static [&'static str]) -> DocumentColumn {
    DocumentColumn { name, path, kind: ColumnKind::Text }
}

const fn number(name: &'static str, path: &'static [&'static str]) -> DocumentColumn {
    DocumentColumn { name, path, kind: ColumnKind::Number }
}

const fn json(name: &'static str, path: &'static [&'static str]) -> DocumentColumn {
    DocumentColumn { name, path, kind: ColumnKind::Json }
}

/// Columns of `session` in any version; which ones there are is found out.
pub(super) const SESSION: &[DocumentColumn] = &[
    text("id", &["id"]),
    text("slug", &["slug"]),
    text("project_id", &["projectID"]),
    text("workspace_id", &["workspaceID"]),
    text("directory", &["directory"]),
    text("path", &["path"]),
    text("parent_id", &["parentID"]),
    text("title", &["title"]),
    text("agent", &["agent"]),
    json("model", &["model"]),
    text("version", &["version"]),
    number("summary_additions", &["summary", "additions"]),
    number("summary_deletions", &["summary", "deletions"]),
    number("summary_files", &["summary", "files"]),
    json("summary_diffs", &["summary", "diffs"]),
    number("cost", &["cost"]),
    number("tokens_input", &["tokens", "input"]),
    number("tokens_output", &["tokens", "output"]),
    number("tokens_reasoning", &["tokens", "reasoning"]),
    number("tokens_cache_read", &["tokens", "cache", "read"]),
    number("tokens_cache_write", &["tokens", "cache", "write"]),
    text("share_url", &["share", "url"]),
    json("metadata", &["metadata"]),
    json("revert", &["revert"]),
    json("permission", &["permission"]),
    number("time_created", &["time", "created"]),
    number("time_updated", &["time", "updated"]),
    number("time_compacting", &["time", "compacting"]),
    number("time_archived", &["time", "archived"]),
];

/// Columns of `project`.
pub(super) const PROJECT: &[DocumentColumn] = &[
    text("id", &["id"]),
    text("worktree", &["worktree"]),
    text("vcs", &["vcs"]),
    text("name", &["name"]),
    text("icon_url", &["icon", "url"]),
    text("icon_url_override", &["icon", "override"]),
    text("icon_color", &["icon", "color"]),
    json("commands", &["commands"]),
    number("time_created", &["time", "created"]),
    number("time_updated", &["time", "updated"]),
    number("time_initialized", &["time", "initialized"]),
    json("sandboxes", &["sandboxes"]),
];

/// Columns of `session_share`.
pub(super) const SHARE: &[DocumentColumn] =
    &[text("id", &["id"]), text("secret", &["secret"]), text("url", &["url"])];

/// Columns of a row of `todo`.
pub(super) const TODO: &[DocumentColumn] =
    &[text("content", &["content"]), text("status", &["status"]), text("priority", &["priority"])];

/// Numbers that are 0 rather than missing once their object is there.
const ZERO_IN_SUMMARY: [&str; 3] = ["summary_additions", "summary_deletions", "summary_files"];

/// Writes the object that a row stands for. A column whose content cannot be used is left out and given to `unusable`.
pub(super) fn write_object(
    writer: &mut JsWriter,
    columns: &[&DocumentColumn],
    row: &rusqlite::Row<'_>,
    unusable: &mut dyn FnMut(&'static str, String),
) -> rusqlite::Result<()> {
    let mut values = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        values.push(match column_json(column, row.get_ref(index)?) {
            Ok(value) => value,
            Err(reason) => {
                unusable(column.name, reason);
                None
            }
        });
    }
    write_values(writer, columns, values);
    Ok(())
}

/// The object that a row would stand for after another object was written into it, column by column. What that one says
/// nothing of stays as it was before, what it says is null goes away, and what no column holds is left out.
pub(super) fn written(
    columns: &[&DocumentColumn],
    before: Option<&Document>,
    object: Node<'_>,
) -> Result<Document, JsonError> {
    let values = columns.iter().map(|column| {
        // A null stands for everything below it.
        let said = column.path.iter().try_fold(object, |node, name| match node.is_null() {
            true => Some(node),
            false => node.get(name),
        });
        let node = said.or_else(|| before?.root().at(column.path));
        let value = node.map_or(Value::Null, |node| column_value(column, node));
        column_json(column, ValueRef::from(&value)).unwrap_or_default()
    });
    let mut writer = JsWriter::new(Style::Compact, 0);
    write_values(&mut writer, columns, values.collect());
    Document::parse(writer.finish())
}

/// Writes the object of the columns that have values.
fn write_values(writer: &mut JsWriter, columns: &[&DocumentColumn], mut values: Vec<Option<String>>) {
    let has_summary = columns
        .iter()
        .zip(&values)
        .any(|(column, value)| ZERO_IN_SUMMARY.contains(&column.name) && value.is_some());
    for (column, value) in columns.iter().zip(&mut values) {
        if has_summary && value.is_none() && ZERO_IN_SUMMARY.contains(&column.name) {
            *value = Some("0".to_owned());
        } else if !has_summary && column.path[0] == "summary" {
            *value = None;
        }
    }
    let present: Vec<(&[&str], &str)> = columns
        .iter()
        .zip(&values)
        .filter_map(|(column, value)| Some((column.path, value.as_deref()?)))
        .collect();
    write_members(writer, &present, 0);
}

/// Writes an object from values at paths; those below one member stand side by side.
fn write_members(writer: &mut JsWriter, values: &[(&[&str], &str)], depth: usize) {
    writer.begin(b'{');
    let mut rest = values;
    while let Some((path, value)) = rest.first() {
        let name = path[depth];
        let n_same = rest.iter().take_while(|(path, _)| path[depth] == name).count();
        writer.key(name);
        if path.len() == depth + 1 {
            writer.raw(value);
        } else {
            write_members(writer, &rest[..n_same], depth + 1);
        }
        rest = &rest[n_same..];
    }
    writer.end(b'}');
}

/// The JSON text of a value, or why there is none.
fn column_json(column: &DocumentColumn, value: ValueRef<'_>) -> Result<Option<String>, String> {
    let written = |write: &dyn Fn(&mut JsWriter)| {
        let mut writer = JsWriter::new(Style::Compact, 0);
        write(&mut writer);
        String::from_utf8(writer.finish()).expect("the writer writes UTF-8")
    };
    let json_string = |text: &str| written(&|writer| writer.text(&Text::from(text)));
    match (column.kind, value) {
        (_, ValueRef::Null) => Ok(None),
        (ColumnKind::Number, ValueRef::Integer(number)) => Ok(Some(number.to_string())),
        (ColumnKind::Number, ValueRef::Real(number)) => Ok(Some(written(&|writer| writer.number(number)))),
        (ColumnKind::Number, ValueRef::Text(_) | ValueRef::Blob(_)) => Err("it is not a number".to_owned()),
        (ColumnKind::Text, ValueRef::Integer(number)) => Ok(Some(json_string(&number.to_string()))),
        (ColumnKind::Text, ValueRef::Real(number)) => Ok(Some(json_string(&number.to_string()))),
        (ColumnKind::Text, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => match std::str::from_utf8(bytes)
        {
            Ok(text) => Ok(Some(json_string(text))),
            Err(_) => Err("it is not UTF-8".to_owned()),
        },
        (ColumnKind::Json, ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            match Document::parse(bytes.to_vec()) {
                Ok(document) if document.root().is_null() => Ok(None),
                Ok(document) => Ok(Some(document.text().to_owned())),
                Err(error) => Err(format!("it is not JSON: {error}")),
            }
        }
        (ColumnKind::Json, ValueRef::Integer(_) | ValueRef::Real(_)) => {
            Err("it is a number, not JSON".to_owned())
        }
    }
}

/// What a document says for each column, and the members that no column holds.
pub(super) fn values_of<'c>(
    columns: &[&'c DocumentColumn],
    document: &Document,
) -> (Vec<(&'c DocumentColumn, Value)>, Vec<String>) {
    let root = document.root();
    let mut values = Vec::with_capacity(columns.len());
    let mut lost = Vec::new();
    for column in columns {
        let value = root.at(column.path).map_or(Value::Null, |node| column_value(column, node));
        if matches!(value, Value::Null) && root.at(column.path).is_some_and(|node| !node.is_null()) {
            lost.push(column.path.join("."));
        }
        values.push((*column, value));
    }
    collect_lost(columns, root, &mut Vec::new(), &mut lost);
    (values, lost)
}

fn column_value(column: &DocumentColumn, node: Node<'_>) -> Value {
    match column.kind {
        _ if node.is_null() => Value::Null,
        ColumnKind::Json => {
            let text = JsWriter::document(Style::Compact, &node);
            Value::Text(String::from_utf8(text).expect("the writer writes UTF-8"))
        }
        ColumnKind::Text => match node.as_text() {
            Some(text) => Value::Text(text.to_str().into_owned()),
            None => Value::Null,
        },
        ColumnKind::Number => match node.as_f64() {
            Some(number) if number.fract() == 0.0 && number.abs() < 9e15 => Value::Integer(number as i64),
            Some(number) if number.is_finite() => Value::Real(number),
            _ => Value::Null,
        },
    }
}

/// The members that stand at no column's path.
fn collect_lost(columns: &[&DocumentColumn], node: Node<'_>, path: &mut Vec<String>, lost: &mut Vec<String>) {
    for (name, value) in node.members() {
        path.push(name.to_string());
        let leads_to = |column: &&&DocumentColumn| column.path.iter().zip(path.iter()).all(|(a, b)| a == b);
        let nearest = columns.iter().filter(leads_to).map(|column| column.path.len()).max();
        match nearest {
            None if value.is_null() => {}
            None => lost.push(path.join(".")),
            Some(length) if length > path.len() && value.kind() == JsonKind::Object => {
                collect_lost(columns, value, path, lost);
            }
            Some(_) => {}
        }
        path.pop();
    }
}
