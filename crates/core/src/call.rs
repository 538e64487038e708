//! A tool call as a reader sees it.

use crate::id::{Millis, SessionId};
use crate::json::{JsWriter, Node, Style, Text};
use crate::lens::{Json, Lens, Todo, ToolPart, ToolState, ToolStatus};

/// A tool call, reduced to what a reader wants to see.
#[derive(Debug, Clone)]
pub struct CallView<'a> {
    /// Name of the tool.
    pub tool: String,
    /// Status of the call, if it is one of the four.
    pub status: Option<ToolStatus>,
    /// Subject of the call, from its arguments or its title: a command, a path, a pattern.
    pub subject: String,
    /// The model's own description of the call, if it adds something.
    pub remark: Option<String>,
    /// When it began to run.
    pub started: Option<Millis>,
    /// How long it took.
    pub duration: Option<Millis>,
    /// Exit code of a command.
    pub exit: Option<i64>,
    /// What it changed, as a unified diff.
    pub diff: Option<Text<'a>>,
    /// Its result, or the output of a call that was interrupted.
    pub output: Option<Text<'a>>,
    /// Why it failed.
    pub error: Option<Text<'a>>,
    /// The whole text it wrote to a file.
    pub written: Option<Text<'a>>,
    /// The todo list it stored.
    pub todos: Vec<Todo<'a>>,
    /// The session it started.
    pub child: Option<SessionId>,
    /// Whether its result was cleared from the model's view.
    pub cleared: bool,
}

impl<'a> CallView<'a> {
    /// Looks at a tool part.
    pub fn of(part: &ToolPart<'a>) -> CallView<'a> {
        let empty = ToolState::default();
        let state = part.state.as_ref().unwrap_or(&empty);
        let tool = part.tool.as_ref().map(ToString::to_string).unwrap_or_else(|| "tool".to_owned());
        let input = state.input.as_ref().and_then(Json::node);
        let metadata = state.metadata.as_ref().and_then(Json::node);
        let title = state.title.as_ref().map(ToString::to_string).filter(|title| !title.trim().is_empty());
        let subject = subject(&tool, input, title.as_deref());
        let described = input.and_then(|input| text(input, "description"));
        let time = state.time.as_ref();
        CallView {
            status: state.status(),
            remark: described.filter(|described| *described != subject),
            started: time.and_then(|time| time.start),
            duration: time.and_then(|time| Some(time.end? - time.start?)),
            exit: metadata.and_then(|metadata| metadata.get("exit")?.as_f64()).map(|exit| exit as i64),
            diff: metadata
                .and_then(|metadata| metadata.get("diff")?.as_text())
                .filter(|diff| !diff.is_empty()),
            // The output of an interrupted command is only in its metadata.
            output: state.output.clone().or_else(|| metadata?.get("output")?.as_text()),
            error: state.error.clone(),
            written: input.filter(|_| tool == "write").and_then(|input| input.get("content")?.as_text()),
            todos: input
                .filter(|_| tool == "todowrite")
                .and_then(|input| Vec::look(input.get("todos")?))
                .unwrap_or_default(),
            child: metadata.and_then(child_session),
            cleared: time.is_some_and(|time| time.compacted.is_some()),
            subject,
            tool,
        }
    }

    /// What a call of `read` gave, without the tags around it.
    pub fn text_read(&self) -> Option<String> {
        let output = self.output.as_ref().filter(|_| self.tool == "read")?.to_str();
        let (_, content) = output.split_once("<content>")?;
        let content = content.split_once("</content>").map_or(content, |(content, _)| content);
        Some(content.trim_matches('\n').to_owned())
    }

    /// The number of lines that a call of `read` gave, without the tags and remarks around them.
    pub fn lines_read(&self) -> Option<usize> {
        let output = self.output.as_ref().filter(|_| self.tool == "read")?.to_str();
        let is_numbered = |line: &&str| {
            // `1: text` since 1.1.4x, `00001| text` before.
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0
                && (line[digits..].starts_with(": ")
                    || line[digits..].starts_with("| ")
                    || line[digits..].starts_with(':'))
        };
        let content = output.split_once("<content>").map_or(&*output, |(_, content)| content);
        Some(match content.lines().filter(is_numbered).count() {
            0 => output.lines().count(),
            n => n,
        })
    }

    /// Name of the call's status.
    pub fn status_name(&self) -> &'static str {
        match self.status {
            Some(ToolStatus::Pending) => "pending",
            Some(ToolStatus::Running) => "running",
            Some(ToolStatus::Completed) => "completed",
            Some(ToolStatus::Error) => "error",
            None => "unknown",
        }
    }
}

/// OpenCode names the child session `sessionId`; plugins have used `session_id`.
fn child_session(metadata: Node<'_>) -> Option<SessionId> {
    let named = text(metadata, "sessionId").or_else(|| text(metadata, "session_id"))?;
    SessionId::parse(&named).ok()
}

fn subject(tool: &str, input: Option<Node<'_>>, title: Option<&str>) -> String {
    let argument = |key: &str| input.and_then(|input| text(input, key));
    let from_arguments = match tool {
        "bash" | "shell" => argument("command"),
        "glob" | "list" | "grep" => {
            let pattern = argument("pattern");
            let place = argument("path").or_else(|| argument("include"));
            match (pattern, place) {
                (Some(pattern), Some(place)) => Some(format!("{pattern} in {place}")),
                (pattern, place) => pattern.or(place),
            }
        }
        "webfetch" | "websearch" => argument("url").or_else(|| argument("query")),
        "task" => {
            let agent = argument("subagent_type").map(|agent| format!(" (@{agent})")).unwrap_or_default();
            argument("description").map(|description| format!("{description}{agent}"))
        }
        "apply_patch" => {
            title.map(|title| title.lines().skip(1).collect::<Vec<_>>().join(", ")).filter(|t| !t.is_empty())
        }
        "invalid" => argument("tool").map(|tool| format!("call of `{tool}`")),
        _ => None,
    };
    from_arguments
        .or_else(|| title.map(str::to_owned))
        .or_else(|| ["filePath", "path", "name", "description"].into_iter().find_map(argument))
        .unwrap_or_else(|| match input {
            Some(input) if input.members().next().is_some() => {
                String::from_utf8_lossy(&JsWriter::document(Style::Compact, &input)).into_owned()
            }
            _ => String::new(),
        })
}

fn text(object: Node<'_>, key: &str) -> Option<String> {
    Some(object.get(key)?.as_text()?.to_str().into_owned()).filter(|text| !text.is_empty())
}
