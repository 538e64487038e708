//! One step: a single call of the model, which is one assistant message with its parts.

use serde_json::{Map, Value, json};

use super::GenerateError;
use super::catalog;
use super::ids::Kind;
use super::record::{self, Completed, PartBody, Paths, Span, Tokens, ToolState};
use super::session::{Conversation, Task};
use super::tool::{Call, Desk, Outcome, Tool};
use super::turn::Ending;

/// Why a step is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The model wants tools run, some of them tasks for child sessions, and is called again with the results.
    Calls {
        n_tasks: usize,
    },
    Turn(Ending),
    /// It has summarised the conversation.
    Summary,
}

impl End {
    fn finish(self) -> Option<&'static str> {
        match self {
            End::Calls { .. } => Some("tool-calls"),
            End::Turn(Ending::Answer) | End::Summary => Some("stop"),
            End::Turn(_) => None,
        }
    }
}

/// The sums of a step.
#[derive(Debug, Default)]
struct Tally {
    written: usize,
    reasoned: usize,
    returned: usize,
    /// The tree before the step, which is what its patch starts from.
    snapshot: Option<String>,
    changed: Vec<String>,
}

impl<'w> Conversation<'w, '_> {
    pub(crate) fn step(&mut self, user: &str, end: End) -> Result<String, GenerateError> {
        let created = self.clock;
        let id = self.mint.id(Kind::Message, created, &mut self.rng);
        self.clock += self.rng.size(1400.0, 0.6, 200, 30_000) as u64;
        let mut tally = Tally::default();
        let mut answer = String::new();
        if end != End::Turn(Ending::Failed) {
            answer = self.parts(&id, end, &mut tally)?;
        }
        let (tokens, cost) = match end.finish() {
            Some(reason) => self.step_finish(&id, reason, tally)?,
            None => (Tokens::default(), 0.0),
        };
        self.clock += self.rng.between(5, 60);
        let project = self.workspace.project;
        let message = record::Assistant {
            id: &id,
            session_id: &self.id,
            role: "assistant",
            time: Completed { created, completed: (end != End::Turn(Ending::CutOff)).then_some(self.clock) },
            error: error(end),
            parent_id: user,
            model_id: self.model.name.model,
            provider_id: self.model.name.provider,
            mode: self.agent,
            agent: self.agent,
            path: Paths { cwd: &project.directory, root: &project.worktree },
            summary: (end == End::Summary).then_some(true),
            cost,
            tokens,
            finish: end.finish(),
        };
        self.home.message(&self.id, &id, &message)?;
        self.clock += self.rng.between(3, 40);
        Ok(answer)
    }

    fn parts(&mut self, id: &str, end: End, tally: &mut Tally) -> Result<String, GenerateError> {
        tally.snapshot = self.workspace.snapshot();
        self.part(id, &PartBody::StepStart { snapshot: tally.snapshot.clone() })?;
        self.clock += self.rng.between(1, 20);
        if end != End::Summary && self.rng.chance(self.model.thinks) {
            self.reasoning(id, tally)?;
        }
        let answer = match end {
            End::Summary => self.author.answer(&mut self.rng, 12),
            End::Turn(Ending::Answer) => {
                let n_blocks = self.rng.size(5.0, 0.7, 1, 30);
                self.author.answer(&mut self.rng, n_blocks)
            }
            _ if self.rng.chance(0.45) => {
                let n_sentences = self.rng.between(1, 3) as usize;
                self.author.paragraph(&mut self.rng, n_sentences)
            }
            _ => String::new(),
        };
        if !answer.is_empty() {
            tally.written += answer.len();
            let part = self.mint.id(Kind::Part, self.clock, &mut self.rng);
            self.clock += answer.len() as u64 * 3;
            // OpenCode sets both times when the text has ended.
            let time = Some(Span::new(self.clock, self.clock));
            let metadata = self.model.item_metadata(&mut self.rng, "msg");
            let body = PartBody::Text { text: answer.clone(), synthetic: None, time, metadata };
            self.home.part(&self.id, id, &part, &body)?;
        }
        match end {
            End::Calls { n_tasks } => self.calls(id, n_tasks, tally)?,
            End::Turn(Ending::Aborted) => {
                let now = self.clock;
                let input = json!({"command": "sleep 600", "description": self.author.title(&mut self.rng)});
                let error = "Tool execution aborted".to_owned();
                self.broken_call(id, "bash", ToolState::Error { input, error, time: Span::new(now, now) })?;
            }
            End::Turn(Ending::CutOff) if self.rng.chance(0.5) => {
                let input = json!({"command": "make all", "description": self.author.title(&mut self.rng)});
                self.broken_call(
                    id,
                    "bash",
                    ToolState::Running { input, time: Span::open(self.clock + 300) },
                )?;
            }
            End::Turn(Ending::CutOff) => {
                self.broken_call(id, "write", ToolState::Pending { input: Map::new(), raw: "" })?;
            }
            End::Turn(_) | End::Summary => {}
        }
        Ok(answer)
    }

    fn reasoning(&mut self, id: &str, tally: &mut Tally) -> Result<(), GenerateError> {
        let text = self.author.thought(&mut self.rng);
        tally.reasoned += text.len();
        let part = self.mint.id(Kind::Part, self.clock, &mut self.rng);
        let start = self.clock;
        self.clock += text.len() as u64 * 3;
        let metadata = self.model.reasoning_metadata(&mut self.rng);
        let body = PartBody::Reasoning { text, metadata, time: Span::new(start, self.clock) };
        self.home.part(&self.id, id, &part, &body)
    }

    fn calls(&mut self, id: &str, n_tasks: usize, tally: &mut Tally) -> Result<(), GenerateError> {
        for _ in 0..n_tasks {
            self.task(id, tally)?;
        }
        let n_tools = match n_tasks {
            0 => self.rng.weighted(&[(74, 1), (16, 2), (7, 3), (3, 5)]),
            _ => 0,
        };
        let mut last_end = self.clock;
        for nth in 0..n_tools {
            let tool = if nth == 0 && self.plans && (self.todos.is_empty() || self.rng.chance(0.12)) {
                Tool::Todowrite
            } else {
                Tool::draw(&mut self.rng, self.edits)
            };
            let part = self.mint.id(Kind::Part, self.clock, &mut self.rng);
            self.clock += self.rng.size(350.0, 0.8, 20, 20_000) as u64;
            let mut desk = Desk {
                rng: &mut self.rng,
                author: &self.author,
                workspace: &mut self.workspace,
                todos: &mut self.todos,
                mint: self.mint,
                now: self.clock,
            };
            let call = desk.call(tool);
            // Calls of one step run side by side.
            last_end = last_end.max(self.clock + call.millis);
            self.write_call(id, &part, call, tally)?;
        }
        self.clock = self.clock.max(last_end);
        Ok(())
    }

    fn write_call(
        &mut self,
        id: &str,
        part: &str,
        call: Call,
        tally: &mut Tally,
    ) -> Result<(), GenerateError> {
        let Call { tool, input, outcome, millis, changed } = call;
        tally.written += input.to_string().len();
        tally.changed.extend(changed.filter(|file| !tally.changed.contains(file)));
        let time = Span::new(self.clock, self.clock + millis);
        let state = match outcome {
            Outcome::Completed { output, title, metadata } => {
                tally.returned += output.len();
                ToolState::Completed { input, output, title, metadata, time }
            }
            Outcome::Error(error) => ToolState::Error { input, error, time },
        };
        let (call_id, metadata) =
            (self.model.call_id(&mut self.rng), self.model.item_metadata(&mut self.rng, "fc"));
        self.home.part(&self.id, id, part, &PartBody::Tool { call_id, tool, state, metadata })
    }

    fn broken_call(&mut self, id: &str, tool: &'static str, state: ToolState) -> Result<(), GenerateError> {
        let (call_id, metadata) =
            (self.model.call_id(&mut self.rng), self.model.item_metadata(&mut self.rng, "fc"));
        self.part(id, &PartBody::Tool { call_id, tool, state, metadata })
    }

    /// A call that starts a child session and waits for its answer.
    fn task(&mut self, id: &str, tally: &mut Tally) -> Result<(), GenerateError> {
        let outline = self.children.pop().expect("no more tasks are asked for than there are children");
        let part = self.mint.id(Kind::Part, self.clock, &mut self.rng);
        let agent = catalog::subagent(&mut self.rng);
        let description = self.author.title(&mut self.rng);
        let prompt = self.author.prompt(&mut self.rng);
        let input = json!({"description": description, "prompt": prompt, "subagent_type": agent});
        self.clock += self.rng.between(400, 3000);
        let started = self.clock;
        let task = Task { parent: self.id.clone(), description: description.clone(), prompt };
        let mut child = Conversation::new(
            self.world,
            self.workspace.project,
            self.home,
            self.mint,
            outline,
            self.clock + self.rng.between(2, 9),
        );
        child.agent = agent;
        child.model = self.model;
        let done = child.write(outline.n_messages, Some(&task))?;
        let model = json!({"modelID": self.model.name.model, "providerID": self.model.name.provider});
        let call = Call::completed(
            "task",
            input,
            description,
            format!(
                "task_id: {} (for resuming to continue this task if needed)\n\n<task_result>\n{}\n</task_result>",
                done.id, done.answer
            ),
            json!({"sessionId": done.id, "model": model, "truncated": false}),
        );
        let call = Call { millis: done.clock - started, ..call };
        self.write_call(id, &part, call, tally)?;
        self.clock = done.clock;
        Ok(())
    }

    fn step_finish(
        &mut self,
        id: &str,
        reason: &'static str,
        tally: Tally,
    ) -> Result<(Tokens, f64), GenerateError> {
        let output = tally.written as u64 / 4 + 20;
        let reasoning = tally.reasoned as u64 / 4;
        let (tokens, cost) = self.model.usage(self.context, self.unread, output, reasoning);
        self.context += self.unread + output;
        self.unread = tally.returned as u64 / 4;
        self.part(id, &PartBody::StepFinish { reason, snapshot: self.workspace.snapshot(), cost, tokens })?;
        if let (Some(hash), false) = (tally.snapshot, tally.changed.is_empty()) {
            self.clock += self.rng.between(5, 50);
            self.part(id, &PartBody::Patch { hash, files: tally.changed })?;
        }
        Ok((tokens, cost))
    }
}

fn error(end: End) -> Option<Value> {
    match end {
        End::Turn(Ending::Aborted) => {
            Some(json!({"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}))
        }
        End::Turn(Ending::Failed) => Some(json!({
            "name": "APIError",
            "data": {
                "message": "Credit balance too low",
                "statusCode": 400,
                "isRetryable": false,
                "responseHeaders": {"content-type": "application/json"},
                "responseBody": "{\"error\":{\"message\":\"Credit balance too low\"}}",
                "metadata": {"url": "https://api.example.com/v1/messages"},
            },
        })),
        _ => None,
    }
}
