//! `annals todo`

use std::io::Read as _;

use annals::home::{Read, SessionRecord};
use annals::model::json::Style;
use annals::model::lens::Todo;
use annals::model::{Document, Key};
use annals::ops::{self, OperationKind};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::homes::Homes;
use crate::text::{count, one_line, wrap};
use crate::transcript::dressed_todo;

/// Show or replace the todo list of a session
///
/// With `--set`, the list is replaced as a whole, in all your homes that hold the session and in the store; `annals undo` takes it back. The new
/// list is a JSON array of `{"content", "status", "priority"}`, or one entry a line: `[ ]` before what is pending, `[>]` in progress, `[x]`
/// completed, `[-]` cancelled, and `!` behind the bracket for a high priority.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals todo last
  annals todo 36f8c1 --json
  annals todo last --set todo.txt
  printf '[x] Find the bug\\n[ ]! Write a test\\n' | annals todo last --set -")]
pub(crate) struct TodoArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: Option<String>,
    /// Replace the list with the one in this file; `-` reads it from standard input
    #[arg(long, value_name = "FILE|-")]
    set: Option<String>,
}

pub(crate) fn run(context: &Context, args: &TodoArgs) -> CommandResult {
    let list = args.set.as_deref().map(|file| read_list(context, file)).transpose()?;
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session_or_choice(&home, args.session.as_deref())?;
    if let Some(list) = list {
        return set(context, &homes, &session, &list);
    }
    let stored = home.document(&Key::Todo(session.id.clone()))?;
    let mut output = context.plain_output();
    if context.json {
        let document = stored.as_ref().map(|stored| &stored.document);
        output.json(&wire::TodoList::of(&session.id, document).map_err(CliError::new)?)?;
        output.finish()?;
        return Ok(Outcome::Done);
    }
    let todos = stored.as_ref().map(|stored| stored.document.lens::<Vec<Todo<'_>>>()).unwrap_or_default();
    let paint = output.paint;
    for todo in &todos {
        let status = todo.status.as_ref().map(ToString::to_string).unwrap_or_default();
        let content = todo.content.as_ref().map(|content| one_line(&content.to_str())).unwrap_or_default();
        let priority = todo.priority.as_ref().filter(|priority| **priority == "high");
        let lines = wrap(&content, output.width.saturating_sub(9));
        for (n, line) in lines.iter().enumerate() {
            let (sign, line) = dressed_todo(&status, line, paint);
            let is_tagged = n + 1 == lines.len() && priority.is_some();
            let urgent = if is_tagged { format!(" {}", paint.bad("[high]")) } else { String::new() };
            output.line(format!("{} {line}{urgent}", if n == 0 { sign.as_str() } else { " " }))?;
        }
    }
    output.finish()?;
    match todos.len() {
        0 => context.note(&format!("session {} has no todo list", session.id)),
        n => {
            let done = todos
                .iter()
                .filter(|todo| todo.status.as_ref().is_some_and(|status| *status == "completed"))
                .count();
            context.note(&format!("{done} of {n} done"));
        }
    }
    Ok(Outcome::Done)
}

/// Replaces the list of a session.
fn set(context: &Context, homes: &Homes, session: &SessionRecord, list: &Document) -> CommandResult {
    let report = context.operate(homes, |workspace| {
        Ok(ops::set_todos(workspace, context.request(OperationKind::Todo), session, list)?)
    })?;
    let todos = list.root().items().count();
    if context.json {
        let mut output = context.plain_output();
        let session_id = session.id.as_str();
        output.json(&wire::ReplacedTodoList { session_id, todos, effect: (&report).into() })?;
        output.finish()?;
        return Ok(context.outcome_of(&report));
    }
    context.note(&format!("{} has a list of {}", session.id, count(todos, "todo")));
    Ok(context.report_operation(&report))
}

/// The list in a file or on standard input.
fn read_list(context: &Context, file: &str) -> Result<Document, CliError> {
    let mut text = String::new();
    let (place, read) = match file {
        "-" => ("standard input".to_owned(), std::io::stdin().read_to_string(&mut text)),
        file => {
            let path = context.current_dir.join(file);
            let opened = std::fs::File::open(&path);
            (
                one_line(&path.display().to_string()),
                opened.and_then(|mut file| file.read_to_string(&mut text)),
            )
        }
    };
    read.map_err(|error| CliError::new(format!("cannot read {place}: {error}")))?;
    let todos = match text.trim_start().starts_with('[') && !is_lines(&text) {
        true => json_list(&text),
        false => text.lines().filter(|line| !line.trim().is_empty()).map(line_todo).collect(),
    };
    let todos = todos.map_err(|what| {
        CliError::usage(format!("{place} holds no todo list: {}", one_line(&what))).hint(
            "give a JSON array of {\"content\", \"status\", \"priority\"}, or lines like `[ ] Write a test`",
        )
    })?;
    let lenses: Vec<Todo<'_>> = todos.iter().map(|todo| todo.lens()).collect();
    Document::written(Style::Pretty, &lenses).map_err(CliError::new)
}

/// Whether a text has one entry a line, and is not JSON.
fn is_lines(text: &str) -> bool {
    let first = text.trim_start();
    SIGNS.iter().any(|(sign, _)| first.starts_with(sign))
}

/// What stands before an entry in each state.
const SIGNS: [(&str, &str); 5] = [
    ("[ ]", "pending"),
    ("[>]", "in_progress"),
    ("[x]", "completed"),
    ("[X]", "completed"),
    ("[-]", "cancelled"),
];

/// An entry of the new list.
#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
struct NewTodo {
    content: String,
    #[serde(default = "pending")]
    status: String,
    #[serde(default = "medium")]
    priority: String,
    id: Option<String>,
}

fn pending() -> String {
    "pending".to_owned()
}

fn medium() -> String {
    "medium".to_owned()
}

impl NewTodo {
    fn lens(&self) -> Todo<'_> {
        Todo {
            content: Some(self.content.as_str().into()),
            status: Some(self.status.as_str().into()),
            priority: Some(self.priority.as_str().into()),
            id: self.id.as_deref().map(Into::into),
        }
    }
}

fn json_list(text: &str) -> Result<Vec<NewTodo>, String> {
    let todos: Vec<NewTodo> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    for todo in &todos {
        if todo.content.trim().is_empty() {
            return Err("an entry has no content".to_owned());
        }
        if !SIGNS.iter().any(|(_, status)| todo.status == *status) {
            return Err(format!(
                "{:?} is not a status: pending, in_progress, completed or cancelled",
                todo.status
            ));
        }
        if !["high", "medium", "low"].contains(&todo.priority.as_str()) {
            return Err(format!("{:?} is not a priority: high, medium or low", todo.priority));
        }
    }
    Ok(todos)
}

fn line_todo(line: &str) -> Result<NewTodo, String> {
    let line = line.trim();
    let line = line.strip_prefix("- ").or(line.strip_prefix("* ")).unwrap_or(line);
    let found = SIGNS.iter().find_map(|(sign, status)| Some((line.strip_prefix(sign)?, *status)));
    let Some((rest, status)) = found else { return Err(format!("{line:?} does not begin with `[ ]`")) };
    let (content, priority) = match rest.strip_prefix('!') {
        Some(rest) => (rest, "high"),
        None => (rest, "medium"),
    };
    match content.trim() {
        "" => Err(format!("{line:?} says nothing to do")),
        content => Ok(NewTodo {
            content: content.to_owned(),
            status: status.to_owned(),
            priority: priority.to_owned(),
            id: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_both_forms() {
        let todo = |content: &str, status: &str, priority: &str| NewTodo {
            content: content.to_owned(),
            status: status.to_owned(),
            priority: priority.to_owned(),
            id: None,
        };
        for (line, expected) in [
            ("[ ] Write a test", todo("Write a test", "pending", "medium")),
            ("- [x] Find it", todo("Find it", "completed", "medium")),
            ("  [>]! Now", todo("Now", "in_progress", "high")),
            ("[-] [x] Never", todo("[x] Never", "cancelled", "medium")),
        ] {
            assert_eq!(line_todo(line).unwrap(), expected, "{line}");
        }
        assert!(line_todo("Write a test").is_err() && line_todo("[ ]").is_err());
        assert!(is_lines(" [ ] a") && !is_lines("[{}]") && !is_lines("[]"));
        let list = r#"[{"content":"a"},{"content":"b","status":"completed","priority":"low"}]"#;
        assert_eq!(json_list(list).unwrap(), [todo("a", "pending", "medium"), todo("b", "completed", "low")]);
        for bad in [
            r#"[{"content":""}]"#,
            r#"[{"status":"pending"}]"#,
            r#"[{"content":"a","status":"done"}]"#,
            "{}",
            "[1]",
        ] {
            assert!(json_list(bad).is_err(), "{bad}");
        }
    }
}
