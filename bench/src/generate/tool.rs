//! Tool calls with their arguments and results, in the shapes of OpenCode's own tools. The read-only tools are in
//! [`lookup`](super::lookup).

use serde_json::{Value, json};

use super::ids::{Kind, Mint};
use super::json;
use super::record::Todo;
use super::rng::Rng;
use super::shell;
use super::text::Author;
use super::workspace::Workspace;

/// Longer output is cut, and the whole kept outside of the storage.
const OUTPUT_LIMIT: usize = 50 * 1024;

/// The shell's output is stored a second time, but no more of it than this.
const PREVIEW_LIMIT: usize = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Read,
    Bash,
    Grep,
    Glob,
    List,
    Webfetch,
    Edit,
    Write,
    Todowrite,
}

const LOOKING: [(u64, Tool); 6] = [
    (38, Tool::Read),
    (26, Tool::Bash),
    (18, Tool::Grep),
    (12, Tool::Glob),
    (3, Tool::List),
    (3, Tool::Webfetch),
];

const CHANGING: [(u64, Tool); 8] = [
    (28, Tool::Read),
    (28, Tool::Bash),
    (11, Tool::Grep),
    (6, Tool::Glob),
    (1, Tool::List),
    (1, Tool::Webfetch),
    (19, Tool::Edit),
    (5, Tool::Write),
];

impl Tool {
    pub(crate) fn draw(rng: &mut Rng, edits: bool) -> Self {
        if edits { rng.weighted(&CHANGING) } else { rng.weighted(&LOOKING) }
    }
}

/// Everything a call can look at or change.
#[derive(Debug)]
pub(crate) struct Desk<'a, 'w> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) author: &'a Author<'w>,
    pub(crate) workspace: &'a mut Workspace<'w>,
    pub(crate) todos: &'a mut Vec<Todo>,
    pub(crate) mint: &'a mut Mint,
    pub(crate) now: u64,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) input: Value,
    pub(crate) outcome: Outcome,
    pub(crate) millis: u64,
    /// The file it changed.
    pub(crate) changed: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Completed { output: String, title: String, metadata: Value },
    Error(String),
}

impl Call {
    pub(crate) fn completed(
        tool: &'static str,
        input: Value,
        title: impl Into<String>,
        output: String,
        metadata: Value,
    ) -> Self {
        let outcome = Outcome::Completed { output, title: title.into(), metadata };
        Self { tool, input, outcome, millis: 0, changed: None }
    }
}

impl Desk<'_, '_> {
    pub(crate) fn call(&mut self, tool: Tool) -> Call {
        let mut call = match tool {
            _ if self.rng.chance(0.035) => self.failure(),
            Tool::Read => self.read(),
            Tool::Bash => self.bash(),
            Tool::Grep => self.grep(),
            Tool::Glob => self.glob(),
            Tool::List => self.list(),
            Tool::Webfetch => self.webfetch(),
            Tool::Edit => self.edit(),
            Tool::Write => self.write(),
            Tool::Todowrite => self.todowrite(),
        };
        if call.millis == 0 {
            call.millis = self.rng.size(12.0, 0.7, 2, 3000) as u64;
        }
        call
    }

    fn failure(&mut self) -> Call {
        let path = self.workspace.project.absolute(self.workspace.any_file(self.rng));
        let (tool, input, error) = match self.rng.below(5) {
            0 | 1 => ("read", json!({"filePath": path}), format!("Error: File not found: {path}")),
            2 => {
                let (old, new) = (self.author.phrase(self.rng, 6), self.author.phrase(self.rng, 6));
                let input = json!({"filePath": path, "oldString": old, "newString": new});
                ("edit", input, "Error: Could not find oldString in the file.".to_owned())
            }
            3 => {
                let input = json!({"url": self.url(), "format": "markdown"});
                ("webfetch", input, "Error: Request failed with status code: 404".to_owned())
            }
            _ => {
                let command = shell::run(self.rng, self.author, self.workspace, self.now);
                let input = json!({"command": command.line, "description": command.description});
                (
                    "bash",
                    input,
                    "Error: The user rejected permission to use this specific tool call.".to_owned(),
                )
            }
        };
        Call { tool, input, outcome: Outcome::Error(error), millis: 0, changed: None }
    }

    fn bash(&mut self) -> Call {
        let shell::Command { line, description, mut output, exit, millis } =
            shell::run(self.rng, self.author, self.workspace, self.now);
        let mut preview = output.clone();
        if cut(&mut preview, PREVIEW_LIMIT) {
            preview.push_str("\n\n...");
        }
        let mut metadata =
            json!({"output": preview, "exit": exit, "description": description, "truncated": false});
        if cut(&mut output, OUTPUT_LIMIT) {
            let id = self.mint.id(Kind::ToolOutput, self.now, self.rng);
            let path = format!("/home/dev/.local/share/opencode/tool-output/{id}");
            output.push_str(&format!("\n\nThe rest of the output is in {path}"));
            metadata["truncated"] = json!(true);
            metadata["outputPath"] = json!(path);
        }
        let input = json!({"command": line, "description": description});
        Call { millis, ..Call::completed("bash", input, description, output, metadata) }
    }

    fn edit(&mut self) -> Call {
        let edit = self.workspace.edit(self.rng);
        let path = self.workspace.project.absolute(&edit.file);
        let input = json!({"filePath": path, "oldString": edit.old, "newString": edit.new});
        let metadata = json!({
            "diagnostics": {},
            "diff": edit.diff,
            "filediff": {
                "file": path,
                "before": edit.before,
                "after": edit.after,
                "additions": edit.additions,
                "deletions": edit.deletions,
            },
            "truncated": false,
        });
        let output = "Edit applied successfully.".to_owned();
        Call { changed: Some(path), ..Call::completed("edit", input, edit.file, output, metadata) }
    }

    fn write(&mut self) -> Call {
        let (file, content) = self.workspace.create(self.rng);
        let path = self.workspace.project.absolute(&file);
        let input = json!({"filePath": path, "content": content});
        let metadata = json!({"diagnostics": {}, "filepath": path, "exists": false, "truncated": false});
        let output = "Wrote file successfully.".to_owned();
        Call { changed: Some(path), ..Call::completed("write", input, file, output, metadata) }
    }

    /// Makes the list at first, and then ticks off one item a call.
    fn todowrite(&mut self) -> Call {
        if self.todos.is_empty() {
            for nth in 1..=self.rng.between(3, 8) {
                let priority = self.rng.weighted(&[(4, "high"), (4, "medium"), (2, "low")]);
                let content = self.author.title(self.rng);
                self.todos.push(Todo { content, status: "pending", priority, id: nth.to_string() });
            }
        } else if let Some(todo) = self.todos.iter_mut().find(|todo| todo.status == "in_progress") {
            todo.status = if self.rng.chance(0.95) { "completed" } else { "cancelled" };
        }
        if let Some(todo) = self.todos.iter_mut().find(|todo| todo.status == "pending") {
            todo.status = "in_progress";
        }
        let n_open = self.todos.iter().filter(|todo| todo.status != "completed").count();
        let output = String::from_utf8(json::to_vec(&self.todos)).expect("JSON is UTF-8");
        let input = json!({"todos": &*self.todos});
        let metadata = json!({"todos": &*self.todos, "truncated": false});
        Call::completed("todowrite", input, format!("{n_open} todos"), output, metadata)
    }
}

/// Whether there was anything to cut off.
fn cut(text: &mut String, limit: usize) -> bool {
    let long = text.len() > limit;
    if long {
        text.truncate(text.floor_char_boundary(limit));
    }
    long
}
