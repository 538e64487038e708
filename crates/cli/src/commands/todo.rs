//! `annals todo`

use annals::home::Read;
use annals::model::Key;
use annals::model::lens::Todo;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::text::{one_line, wrap};
use crate::transcript::dressed_todo;

/// Show the todo list of a session
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  annals todo last
  annals todo 36f8c1 --json")]
pub(crate) struct TodoArgs {
    /// Session: an id, the beginning of one, `last`, or a piece of the title
    session: String,
}

pub(crate) fn run(context: &Context, args: &TodoArgs) -> CommandResult {
    let homes = context.open(Stage::Parts)?;
    let home = homes.read();
    let session = context.session(&home, &args.session)?;
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
        for (n, line) in wrap(&content, output.width.saturating_sub(10)).iter().enumerate() {
            let (sign, line) = dressed_todo(&status, line, paint);
            let urgent =
                if n == 0 && priority.is_some() { format!(" {}", paint.bad("high")) } else { String::new() };
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
