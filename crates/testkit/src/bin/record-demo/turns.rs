//! Short ways to write turns: the model's text, reasoning and tool calls.

use annals_testkit::model::Turn;
use serde_json::{Value, json};

/// A reply that begins with a text in Markdown. In the source the text may be indented like the code around
/// it and wrapped like a comment; models do neither.
pub(crate) fn say(text: &str) -> Turn {
    Turn::text(unwrap_lines(&dedent(text)))
}

/// A reply without a text, for tool calls.
pub(crate) fn silently() -> Turn {
    Turn::default()
}

/// The tools of OpenCode, called with paths relative to the working directory.
pub(crate) trait TurnExt: Sized {
    fn thinking(self, reasoning: &str) -> Turn;
    fn and(self, tool: &str, args: Value) -> Turn;

    fn read(self, path: &str) -> Turn {
        self.and("read", json!({"filePath": absolute(path)}))
    }

    fn grep(self, pattern: &str, directory: &str) -> Turn {
        self.and("grep", json!({"pattern": pattern, "path": absolute(directory)}))
    }

    fn glob(self, pattern: &str) -> Turn {
        self.and("glob", json!({"pattern": pattern}))
    }

    fn bash(self, command: &str, description: &str) -> Turn {
        self.and("bash", json!({"command": dedent(command), "description": description}))
    }

    /// Both texts are [`code`].
    fn edit(self, path: &str, old: &str, new: &str) -> Turn {
        let (old, new) = (code(old), code(new));
        self.and("edit", json!({"filePath": absolute(path), "oldString": old, "newString": new}))
    }

    fn write(self, path: &str, content: &str) -> Turn {
        self.and("write", json!({"filePath": absolute(path), "content": content}))
    }

    fn task(self, agent: &str, description: &str, prompt: &str) -> Turn {
        self.and("task", json!({"description": description, "prompt": prompt, "subagent_type": agent}))
    }

    /// The whole list, one item per line: `x` done, `>` in progress, `-` pending.
    fn todos(self, list: &str) -> Turn {
        let todos: Vec<Value> = dedent(list).lines().enumerate().map(|(idx, line)| todo(idx, line)).collect();
        self.and("todowrite", json!({"todos": todos}))
    }
}

impl TurnExt for Turn {
    fn thinking(self, reasoning: &str) -> Turn {
        Turn { reasoning: unwrap_lines(&dedent(reasoning)), ..self }
    }

    fn and(self, tool: &str, args: Value) -> Turn {
        self.and_call(tool, args)
    }
}

/// A literal piece of a line, or whole lines: in a text that begins with a line break, each line begins after a
/// `|`.
pub(crate) fn code(text: &str) -> String {
    let Some(block) = text.strip_prefix('\n') else { return text.to_owned() };
    let lines = block.trim_end().lines();
    lines.map(|line| format!("{}\n", line.split_once('|').expect("each line has a margin").1)).collect()
}

fn absolute(path: &str) -> String {
    if path == "." { "${cwd}".to_owned() } else { format!("${{cwd}}/{path}") }
}

fn todo(idx: usize, line: &str) -> Value {
    let (mark, content) = line.split_once(' ').expect("a todo is a mark and a text");
    let status = match mark {
        "x" => "completed",
        ">" => "in_progress",
        "-" => "pending",
        other => panic!("unknown mark of a todo: {other}"),
    };
    // What comes first matters most.
    let priority = ["high", "high", "medium"].get(idx).copied().unwrap_or("low");
    json!({"id": (idx + 1).to_string(), "content": content, "status": status, "priority": priority})
}

/// Removes the indentation all lines share, a line break at the beginning and blanks at the end.
fn dedent(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text).trim_end();
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let shared = text.lines().filter(|line| !line.is_empty()).map(indentation).min().unwrap_or(0);
    let lines: Vec<&str> = text.lines().map(|line| line.get(shared..).unwrap_or_default()).collect();
    lines.join("\n")
}

/// Joins the lines of each paragraph and of each item of a list. Code and tables stay unchanged.
fn unwrap_lines(markdown: &str) -> String {
    let mut text = String::new();
    let mut in_code = false;
    // Whether the line before is text that may go on.
    let mut open = false;
    for line in markdown.lines() {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        in_code ^= is_fence;
        let begins_item = trimmed.starts_with("- ") || trimmed.starts_with(|c: char| c.is_ascii_digit());
        let is_prose = !in_code && !is_fence && !trimmed.is_empty() && !trimmed.starts_with(['|', '#']);
        if open && is_prose && !begins_item {
            text.push(' ');
            text.push_str(trimmed);
        } else {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        }
        open = is_prose;
    }
    text
}
