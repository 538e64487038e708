//! One turn: a prompt and the steps the model takes to answer it.

use serde_json::{Value, json};

use super::GenerateError;
use super::ids::Kind;
use super::lookup::read_output;
use super::record::{self, Created, PartBody, UserSummary};
use super::rng::Rng;
use super::session::{Conversation, DENIED, Task};
use super::step::End;

/// When the context is this full, the person has it summarised before going on.
const CONTEXT_LIMIT: u64 = 150_000;

/// How a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Answer,
    Aborted,
    Failed,
    CutOff,
}

impl Ending {
    pub(crate) fn draw(rng: &mut Rng, cut_off: bool) -> Self {
        if cut_off {
            return Ending::CutOff;
        }
        rng.weighted(&[(960, Ending::Answer), (25, Ending::Aborted), (15, Ending::Failed)])
    }
}

/// Steps of each turn of a root session, so that prompts and steps together are `n_messages`.
pub(crate) fn lengths(rng: &mut Rng, n_messages: usize, delegates: bool) -> Vec<usize> {
    let mut turns = Vec::new();
    let mut left = n_messages;
    while left > 0 {
        let mut n_steps = rng.size(3.4, 0.8, 1, 40).min(left - 1);
        // A prompt alone at the end would have no answer.
        if left == n_steps + 2 {
            n_steps += 1;
        }
        turns.push(n_steps);
        left -= n_steps + 1;
    }
    // Calls are made by all steps of a turn but the last.
    if delegates && turns.iter().all(|&n_steps| n_steps < 2) {
        turns[0] = 2;
    }
    turns
}

impl Conversation<'_, '_> {
    /// Writes the turn and says what the answer was. `calling_left` is the number of steps that can make
    /// calls, from this turn to the end of the session: the children not yet started must fit into them.
    pub(crate) fn turn(
        &mut self,
        n_steps: usize,
        mut calling_left: usize,
        ending: Ending,
        task: Option<&Task>,
    ) -> Result<String, GenerateError> {
        let created = self.clock;
        let id = self.mint.id(Kind::Message, created, &mut self.rng);
        self.prompt(&id, task)?;
        for _ in 1..n_steps {
            let n_tasks = self.tasks_now(calling_left);
            self.step(&id, End::Calls { n_tasks })?;
            calling_left -= 1;
        }
        let answer = self.step(&id, End::Turn(ending))?;
        let title = self.author.title(&mut self.rng);
        let summary = UserSummary { title: Some(title), diffs: self.workspace.take_turn() };
        let tools =
            task.map(|_| DENIED.iter().map(|&tool| (tool.to_owned(), json!(false))).collect::<Value>());
        self.user(&id, created, Some(summary), tools)?;
        Ok(answer)
    }

    /// A summary of everything so far, after which the model reads only that.
    pub(crate) fn compact_if_full(&mut self) -> Result<(), GenerateError> {
        if self.context + self.unread < CONTEXT_LIMIT {
            return Ok(());
        }
        let created = self.clock;
        let id = self.mint.id(Kind::Message, created, &mut self.rng);
        self.part(&id, &PartBody::Compaction { auto: false })?;
        self.user(&id, created, None, None)?;
        let agent = std::mem::replace(&mut self.agent, "compaction");
        self.step(&id, End::Summary)?;
        self.agent = agent;
        self.context = 0;
        self.unread = self.rng.between(11_000, 16_000);
        self.clock += 800;
        Ok(())
    }

    fn tasks_now(&mut self, calling_left: usize) -> usize {
        let n_children = self.children.len();
        match calling_left {
            0 | 1 => n_children,
            _ if self.rng.chance(n_children as f64 / calling_left as f64) => 1,
            _ => 0,
        }
    }

    fn user(
        &mut self,
        id: &str,
        created: u64,
        summary: Option<UserSummary>,
        tools: Option<Value>,
    ) -> Result<(), GenerateError> {
        let message = record::User {
            id,
            session_id: &self.id,
            role: "user",
            time: Created { created },
            summary,
            agent: self.agent,
            model: self.model.name,
            tools,
        };
        self.home.message(&self.id, id, &message)
    }

    fn prompt(&mut self, id: &str, task: Option<&Task>) -> Result<(), GenerateError> {
        let mut text = match task {
            Some(task) => task.prompt.clone(),
            None => self.author.prompt(&mut self.rng),
        };
        self.unread += text.len() as u64 / 4;
        if task.is_some() || !self.rng.chance(0.05) {
            self.text(id, text, None)?;
        } else {
            let start = text.encode_utf16().count() + 1;
            let file = self.workspace.any_file(&mut self.rng);
            text.push_str(&format!(" @{file}"));
            self.text(id, text, None)?;
            self.attachment(id, file, start)?;
        }
        self.clock += self.rng.between(3, 30);
        Ok(())
    }

    /// A file mentioned in the prompt is read at once: the call and its result are texts that the user did not type.
    fn attachment(&mut self, id: &str, file: &str, start: usize) -> Result<(), GenerateError> {
        let path = self.workspace.project.absolute(file);
        let call = format!("Called the Read tool with the following input: {}", json!({"filePath": path}));
        self.text(id, call, Some(true))?;
        let lines = self.workspace.lines(file);
        let output = read_output(&path, lines, 0..lines.len(), self.clock);
        self.unread += output.len() as u64 / 4;
        self.text(id, output, Some(true))?;
        let value = format!("@{file}");
        let end = start + value.len();
        let source =
            json!({"text": {"value": value, "start": start, "end": end}, "type": "file", "path": file});
        let body = PartBody::File {
            mime: "text/plain",
            filename: file.to_owned(),
            url: format!("file://{path}"),
            source,
        };
        self.part(id, &body)
    }

    fn text(&mut self, id: &str, text: String, synthetic: Option<bool>) -> Result<(), GenerateError> {
        self.part(id, &PartBody::Text { text, synthetic, time: None, metadata: None })
    }

    /// Writes a part that is made now.
    pub(crate) fn part(&mut self, message: &str, body: &PartBody) -> Result<(), GenerateError> {
        let id = self.mint.id(Kind::Part, self.clock, &mut self.rng);
        self.home.part(&self.id, message, &id, body)
    }
}
