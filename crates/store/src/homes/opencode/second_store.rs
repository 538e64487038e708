//! OpenCode's second transcript store, seen as the first.
//!
//! Since 1.14 OpenCode's database has a table `session_message`: a row for each message, with all that it consists of
//! inside. A session made through the second HTTP API has rows there and none in `message` and `part`. [`convert`]
//! makes the messages and parts from them that the first store would hold, so that code that shows, counts or copies
//! sessions need not know of the second.
//!
//! Every document made here has what OpenCode 1.18's HTTP layer insists on, for one missing field in one message makes
//! it refuse the whole session. What a row says in a way not known here becomes a text marked `synthetic`, with the
//! JSON as it stands: it is not understood, but it is not lost either.

mod parts;
mod row;

use annals_core::document::Document;
use annals_core::id::{MessageId, PartId, SessionId};
use annals_core::json::{Kind, Node, Text};
use annals_core::lens::{AssistantMessage, MessagePath, ModelRef, Tokens, UserMessage};

use parts::{Parts, document};
pub use row::SecondStoreRow;
use row::{
    cost, described, ended, full_tokens, listed, model, present, prose, text, time, tokens, unknown_error,
    unknown_model,
};

/// A message in the shape of the first store, with its parts in order.
#[derive(Debug, Clone)]
pub struct Converted {
    /// Its id, which is the row's.
    pub id: MessageId,
    /// The message.
    pub message: Document,
    /// Its parts. Their ids are made from the message's and are the same each time.
    pub parts: Vec<(PartId, Document)>,
}

/// Converts the rows of one session, which come in order of `seq`. `directory` is the session's.
pub fn convert(session: &SessionId, directory: &str, rows: &[SecondStoreRow]) -> Vec<Converted> {
    let mut conversation = SessionConverter { session, directory, prompt: None, agent: None, model: None };
    rows.iter().zip(answers(rows)).filter_map(|(row, answer)| conversation.row(row, answer)).collect()
}

/// The next assistant's row after each row. It names the agent and the model that a prompt went to; the prompt does not.
fn answers(rows: &[SecondStoreRow]) -> Vec<Option<&SecondStoreRow>> {
    let mut next = None;
    let mut answers: Vec<_> = Vec::with_capacity(rows.len());
    for row in rows.iter().rev() {
        answers.push(next);
        if row.kind == "assistant" {
            next = Some(row);
        }
    }
    answers.reverse();
    answers
}

/// Metadata of a text with which OpenCode brings the system prompt up to date: the model gets such texts in another form than those
/// of the user.
const SYSTEM_TEXT: &str = r#"{"opencode":{"type":"system"}}"#;

/// The conversion of a session, with what earlier rows say about later ones.
struct SessionConverter<'a> {
    session: &'a SessionId,
    directory: &'a str,
    /// The last prompt of the user. Texts that OpenCode adds between a prompt and its answer do not count.
    prompt: Option<&'a MessageId>,
    agent: Option<Text<'a>>,
    model: Option<ModelRef<'a>>,
}

impl<'a> SessionConverter<'a> {
    fn row(&mut self, row: &'a SecondStoreRow, answer: Option<&'a SecondStoreRow>) -> Option<Converted> {
        let data = row.data.root();
        match row.kind.as_str() {
            _ if data.kind() != Kind::Object => Some(self.unknown(row, answer)),
            "agent-switched" | "model-switched" => {
                self.remember(data);
                None
            }
            "user" => Some(self.user(row, answer)),
            "synthetic" => Some(self.added(row, answer, prose(data.get("text")), None)),
            "system" => Some(self.added(row, answer, prose(data.get("text")), Some(SYSTEM_TEXT))),
            "assistant" => Some(self.assistant(row)),
            "shell" => Some(self.shell(row)),
            "compaction" => Some(self.compaction(row)),
            _ => Some(self.unknown(row, answer)),
        }
    }

    /// Keeps the agent and the model that a row names.
    fn remember(&mut self, data: Node<'a>) {
        self.agent = text(data, "agent").or(self.agent.take());
        self.model = model(data).or(self.model.take());
    }

    fn agent(&self) -> Text<'a> {
        self.agent.clone().unwrap_or(Text::from("build"))
    }

    fn model(&self) -> ModelRef<'a> {
        self.model.clone().unwrap_or_else(unknown_model)
    }

    fn user(&mut self, row: &'a SecondStoreRow, answer: Option<&'a SecondStoreRow>) -> Converted {
        self.prompt = Some(&row.id);
        let data = row.data.root();
        let mut parts = Parts::new(self.session, row);
        parts.text(prose(data.get("text")), None);
        listed(data, "files").for_each(|file| parts.file(file));
        listed(data, "agents").for_each(|agent| parts.agent(agent));
        parts.finish(self.user_message(row, answer))
    }

    /// A text that OpenCode put into the conversation, which the first store holds as a user's message.
    fn added(
        &self,
        row: &'a SecondStoreRow,
        answer: Option<&'a SecondStoreRow>,
        text: Text<'_>,
        metadata: Option<&str>,
    ) -> Converted {
        let mut parts = Parts::new(self.session, row);
        parts.added_text(text, metadata);
        parts.finish(self.user_message(row, answer))
    }

    fn unknown(&self, row: &'a SecondStoreRow, answer: Option<&'a SecondStoreRow>) -> Converted {
        self.added(row, answer, described(&row.kind, row.data.root()), None)
    }

    fn user_message(&self, row: &'a SecondStoreRow, answer: Option<&'a SecondStoreRow>) -> Document {
        let spare = UserMessage {
            id: Some(Text::from(&row.id)),
            session_id: Some(Text::from(self.session)),
            time: Some(time(row.data.root())),
            agent: Some(Text::from("build")),
            model: Some(unknown_model()),
            ..UserMessage::default()
        };
        let answer = answer.map(|answer| answer.data.root());
        let message = UserMessage {
            agent: Some(answer.and_then(|answer| text(answer, "agent")).unwrap_or_else(|| self.agent())),
            model: Some(answer.and_then(model).unwrap_or_else(|| self.model())),
            ..spare.clone()
        };
        document(&message, &spare)
    }

    fn assistant(&mut self, row: &'a SecondStoreRow) -> Converted {
        let data = row.data.root();
        self.remember(data);
        let spare = self.spare_answer(row);
        let finish = present(data, "finish").map(|finish| prose(Some(finish)));
        let message = AssistantMessage {
            error: present(data, "error").map(unknown_error),
            finish: finish.clone(),
            cost: Some(cost(data)),
            tokens: Some(tokens(data)),
            ..self.answer(self.agent(), self.model(), &spare)
        };
        let mut parts = Parts::new(self.session, row);
        parts.step_start(data);
        listed(data, "content").for_each(|item| parts.content(item));
        if let Some(finish) = finish {
            parts.step_finish(data, finish);
        }
        parts.finish(document(&message, &spare))
    }

    /// A command that the user ran. No model was asked, so none is named.
    fn shell(&self, row: &'a SecondStoreRow) -> Converted {
        let spare = self.spare_answer(row);
        let message = AssistantMessage {
            time: Some(ended(row.data.root())),
            ..self.answer(Text::from("build"), unknown_model(), &spare)
        };
        let mut parts = Parts::new(self.session, row);
        parts.shell(row.data.root());
        parts.finish(document(&message, &spare))
    }

    /// The summary of a compaction. What the row holds as `recent` is left out: it repeats the messages before it.
    fn compaction(&self, row: &'a SecondStoreRow) -> Converted {
        let data = row.data.root();
        let spare = self.spare_answer(row);
        let message = AssistantMessage {
            time: Some(ended(data)),
            error: present(data, "error").map(unknown_error),
            summary: Some(true),
            cost: Some(cost(data)),
            tokens: Some(tokens(data)),
            ..self.answer(Text::from("compaction"), model(data).unwrap_or_else(|| self.model()), &spare)
        };
        let mut parts = Parts::new(self.session, row);
        parts.text(prose(data.get("summary")), None);
        parts.finish(document(&message, &spare))
    }

    /// An assistant's message with all that it must have.
    fn answer(
        &self,
        agent: Text<'a>,
        model: ModelRef<'a>,
        spare: &AssistantMessage<'a>,
    ) -> AssistantMessage<'a> {
        AssistantMessage {
            model_id: model.model_id,
            provider_id: model.provider_id,
            variant: model.variant,
            mode: Some(agent.clone()),
            agent: Some(agent),
            path: Some(path(self.directory)),
            ..spare.clone()
        }
    }

    /// An assistant's message without anything that could be long: it replaces a message that is too large to be written.
    fn spare_answer(&self, row: &'a SecondStoreRow) -> AssistantMessage<'a> {
        let model = unknown_model();
        AssistantMessage {
            id: Some(Text::from(&row.id)),
            session_id: Some(Text::from(self.session)),
            time: Some(time(row.data.root())),
            parent_id: Some(Text::from(self.prompt.unwrap_or(&row.id))),
            model_id: model.model_id,
            provider_id: model.provider_id,
            mode: Some(Text::from("build")),
            agent: Some(Text::from("build")),
            path: Some(path("")),
            cost: Some(0.0),
            tokens: Some(full_tokens(Tokens::default())),
            ..AssistantMessage::default()
        }
    }
}

fn path(directory: &str) -> MessagePath<'_> {
    MessagePath { cwd: Some(Text::from(directory)), root: Some(Text::from(directory)) }
}

#[cfg(test)]
mod tests {
    use super::parts::{part_id, timed};
    use super::*;
    use annals_core::json::Tape;
    use annals_core::lens::{Message, Part};
    use proptest::prelude::*;

    const SESSION: &str = "ses_ec9ee8c31ffe4R6M6IWRpmngLE";
    const MESSAGE: &str = "msg_1361176560013lEOgDWqWsoSms";

    fn row(id: &str, kind: &str, data: &str) -> SecondStoreRow {
        let data = Document::parse(data.as_bytes().to_vec()).unwrap();
        SecondStoreRow { id: MessageId::parse_opencode(id).unwrap(), kind: kind.to_owned(), data }
    }

    fn converted(rows: &[SecondStoreRow]) -> Vec<Converted> {
        convert(&SessionId::parse_opencode(SESSION).unwrap(), "/home/dev/shop", rows)
    }

    /// The one message that a row becomes: it without its ids, and its parts without theirs.
    fn one(kind: &str, data: &str) -> (String, Vec<String>) {
        let messages = converted(&[row(MESSAGE, kind, data)]);
        let [message] = messages.as_slice() else { panic!("{messages:?}") };
        assert_acceptable(message);
        let parts = message.parts.iter().map(|(_, part)| from(part, "\"type\":")).collect();
        (from(&message.message, "\"role\":"), parts)
    }

    /// The members of a document from one on.
    fn from(document: &Document, start: &str) -> String {
        let text = document.text().strip_suffix('}').unwrap();
        text[text.find(start).unwrap()..].to_owned()
    }

    fn parts_of(kind: &str, data: &str) -> Vec<String> {
        one(kind, data).1
    }

    /// The state of the only tool call in an assistant's row.
    fn state_of(members: &str) -> String {
        let data = format!(r#"{{"time":{{"created":9}},"content":[{{"type":"tool",{members}}}]}}"#);
        let parts = parts_of("assistant", &data);
        parts[1].split_once("\"state\":").unwrap().1.to_owned()
    }

    /// Checks what OpenCode 1.18 requires of messages and parts, and that the ids of the parts are in order.
    fn assert_acceptable(converted: &Converted) {
        let message = converted.message.root();
        let place = converted.message.text();
        assert_eq!(message.get("id").and_then(Node::as_text).unwrap(), converted.id.as_str());
        assert_eq!(message.get("sessionID").and_then(Node::as_text).unwrap(), SESSION);
        assert_time(message, &["time", "created"]);
        assert_text(message, &["agent"]);
        match converted.message.lens::<Message<'_>>() {
            Message::User(_) => {
                assert_text(message, &["model", "providerID"]);
                assert_text(message, &["model", "modelID"]);
            }
            Message::Assistant(_) => {
                for path in [["parentID"], ["modelID"], ["providerID"], ["mode"]] {
                    assert_text(message, &path);
                }
                assert_text(message, &["path", "cwd"]);
                assert_text(message, &["path", "root"]);
                assert_usage(message);
            }
            Message::Other(_) => panic!("{place}"),
        }
        assert!(converted.parts.is_sorted_by(|(a, _), (b, _)| a.as_str() < b.as_str()), "{place}");
        converted.parts.iter().for_each(|(id, part)| assert_acceptable_part(&converted.id, id, part));
    }

    fn assert_acceptable_part(message: &MessageId, id: &PartId, document: &Document) {
        let part = document.root();
        assert!(id.as_str().starts_with("prt_"));
        for (key, value) in [("id", id.as_str()), ("sessionID", SESSION), ("messageID", message.as_str())] {
            assert_eq!(part.get(key).and_then(Node::as_text).unwrap(), value);
        }
        match document.lens::<Part<'_>>() {
            Part::Text(_) => assert_text(part, &["text"]),
            Part::Reasoning(_) => {
                assert_text(part, &["text"]);
                assert_time(part, &["time", "start"]);
            }
            Part::File(_) => {
                assert_text(part, &["mime"]);
                assert_text(part, &["url"]);
            }
            Part::Agent(_) => assert_text(part, &["name"]),
            Part::StepStart(_) => {}
            Part::StepFinish(_) => {
                assert_text(part, &["reason"]);
                assert_usage(part);
            }
            Part::Tool(_) => {
                assert_text(part, &["callID"]);
                assert_text(part, &["tool"]);
                assert_acceptable_state(part.get("state").unwrap());
            }
            other => panic!("{other:?}"),
        }
    }

    fn assert_acceptable_state(state: Node<'_>) {
        assert_eq!(state.get("input").unwrap().kind(), Kind::Object);
        let status = state.get("status").and_then(Node::as_text).unwrap();
        let (texts, times): (&[&str], &[&str]) = match &*status.to_str() {
            "pending" => (&["raw"], &[]),
            "running" => (&[], &["start"]),
            "completed" => (&["output", "title"], &["start", "end"]),
            "error" => (&["error"], &["start", "end"]),
            other => panic!("{other}"),
        };
        texts.iter().for_each(|key| assert_text(state, &[key]));
        times.iter().for_each(|key| assert_time(state, &["time", key]));
        match state.get("metadata") {
            Some(metadata) => assert_eq!(metadata.kind(), Kind::Object),
            None => assert!(status != "completed"),
        }
        for file in state.get("attachments").into_iter().flat_map(Node::items) {
            assert!(file.get("id").and_then(Node::as_text).unwrap().to_str().starts_with("prt_"));
            assert_text(file, &["url"]);
        }
    }

    fn assert_text(node: Node<'_>, path: &[&str]) {
        assert_eq!(node.at(path).map(Node::kind), Some(Kind::String), "{path:?} of {}", node.raw());
    }

    fn assert_time(node: Node<'_>, path: &[&str]) {
        let time = node.at(path).unwrap_or_else(|| panic!("{path:?} of {}", node.raw()));
        assert!(time.raw().bytes().all(|byte| byte.is_ascii_digit()), "{path:?} of {}", node.raw());
    }

    fn assert_usage(node: Node<'_>) {
        let paths: [&[&str]; 6] = [
            &["cost"],
            &["tokens", "input"],
            &["tokens", "output"],
            &["tokens", "reasoning"],
            &["tokens", "cache", "read"],
            &["tokens", "cache", "write"],
        ];
        for path in paths {
            assert_eq!(node.at(path).map(Node::kind), Some(Kind::Number), "{path:?} of {}", node.raw());
        }
    }

    /// Rows of a session that 1.18.33 wrote, the tool's text cut.
    fn real_rows() -> Vec<SecondStoreRow> {
        vec![
            row(
                "msg_1361176560013lEOgDWqWsoSms",
                "user",
                r#"{"time":{"created":1791908476503},"text":"What is this? [[scenario:v2]]"}"#,
            ),
            row(
                "msg_1361177c300107fbDJy6amohpe",
                "assistant",
                r##"{"time":{"created":1791908476867,"completed":1791908477214},"agent":"build","model":{"id":"lab-large","providerID":"lab","variant":"default"},"content":[{"type":"reasoning","id":"reasoning-0","text":"Second API.","time":{"created":1791908476870,"completed":1791908476874}},{"type":"text","id":"text-0","text":"Looking."},{"type":"tool","id":"call_774c71e79f572d3f38b428","name":"read","provider":{"executed":false},"state":{"status":"completed","input":{"path":"README.md"},"content":[],"outputPaths":[],"structured":{"uri":"file:///home/dev/projects/shop-api/README.md","name":"README.md","content":"# shop-api\n","encoding":"utf8","mime":"text/markdown"}},"time":{"created":1791908477109,"ran":1791908477121,"completed":1791908477164}}],"snapshot":{"start":"6ecdce13","end":"6ecdce14","files":[]},"finish":"tool-calls","cost":0,"tokens":{"input":1328,"output":15,"reasoning":2,"cache":{"read":1920,"write":0}}}"##,
            ),
            row(
                "msg_136117a2a001hoOUlaWPknsDAf",
                "assistant",
                r#"{"time":{"created":1791908477482,"completed":1791908477589},"agent":"build","model":{"id":"lab-large","providerID":"lab","variant":"default"},"content":[{"type":"text","id":"text-0","text":"It is the order service."}],"snapshot":{"start":"6ecdce13","end":"6ecdce13","files":[]},"finish":"stop","cost":0,"tokens":{"input":1478,"output":6,"reasoning":0,"cache":{"read":1920,"write":0}}}"#,
            ),
        ]
    }

    #[test]
    fn real_rows_become_messages_and_parts() {
        let messages = converted(&real_rows());
        messages.iter().for_each(assert_acceptable);
        let user = r#"{"id":"msg_1361176560013lEOgDWqWsoSms","sessionID":"ses_ec9ee8c31ffe4R6M6IWRpmngLE","role":"user","time":{"created":1791908476503},"agent":"build","model":{"providerID":"lab","modelID":"lab-large"}}"#;
        assert_eq!(messages[0].message.text(), user);
        let assistant = r#"{"id":"msg_1361177c300107fbDJy6amohpe","sessionID":"ses_ec9ee8c31ffe4R6M6IWRpmngLE","role":"assistant","time":{"created":1791908476867,"completed":1791908477214},"parentID":"msg_1361176560013lEOgDWqWsoSms","modelID":"lab-large","providerID":"lab","mode":"build","agent":"build","path":{"cwd":"/home/dev/shop","root":"/home/dev/shop"},"cost":0,"tokens":{"input":1328,"output":15,"reasoning":2,"cache":{"read":1920,"write":0}},"finish":"tool-calls"}"#;
        assert_eq!(messages[1].message.text(), assistant);
        let parts: Vec<_> = messages[1].parts.iter().map(|(_, part)| from(part, "\"type\":")).collect();
        assert_eq!(
            parts,
            [
                r#""type":"step-start","snapshot":"6ecdce13""#,
                r#""type":"reasoning","text":"Second API.","time":{"start":1791908476870,"end":1791908476874}"#,
                r#""type":"text","text":"Looking.""#,
                r##""type":"tool","callID":"call_774c71e79f572d3f38b428","tool":"read","state":{"status":"completed","input":{"path":"README.md"},"output":"# shop-api\n","title":"","metadata":{"structured":{"uri":"file:///home/dev/projects/shop-api/README.md","name":"README.md","content":"# shop-api\n","encoding":"utf8","mime":"text/markdown"},"outputPaths":[]},"time":{"start":1791908477121,"end":1791908477164}}"##,
                r#""type":"step-finish","reason":"tool-calls","snapshot":"6ecdce14","cost":0,"tokens":{"input":1328,"output":15,"reasoning":2,"cache":{"read":1920,"write":0}}"#,
            ]
        );
        assert_eq!(messages[0].parts[0].0.as_str(), "prt_1361176560010000gDWqWsoSms");
        assert_eq!(messages[1].parts[4].0.as_str(), "prt_1361177c30010004DJy6amohpe");
        assert_eq!(messages[2].message.lens::<AssistantMessage<'_>>().parent_id.unwrap(), MESSAGE);
    }

    /// The other real session: the model is switched after an answer that failed.
    #[test]
    fn a_prompt_has_the_agent_and_model_of_its_answer() {
        let failed = r#"{"time":{"created":1791908478826,"completed":1791908478829},"agent":"plan","model":{"id":"lab-large","providerID":"lab","variant":"default"},"content":[],"snapshot":{"start":"6ecdce13"},"finish":"error","error":{"type":"unknown","message":"Provider request failed with HTTP 400: {\"error\": {}}"}}"#;
        let switched = r#"{"time":{"created":1791908479358},"model":{"id":"lab-small","providerID":"lab"}}"#;
        let answer = r#"{"time":{"created":1791908479778},"agent":"plan","model":{"id":"lab-small","providerID":"lab","variant":"high"},"content":[]}"#;
        let messages = converted(&[
            row("msg_136117e4f001SgKrOhOjBbR9So", "user", r#"{"text":"Please answer"}"#),
            row("msg_136117f6a001ukgYV6oyrlQZvd", "assistant", failed),
            row("msg_13611817e001xhzPsgF1qfPoxc", "model-switched", switched),
            row("msg_136118188001AAAAAAAAAAAAAA", "system", r#"{"text":"The date has changed."}"#),
            row("msg_136118189001tiZ5CCAG4X0ep5", "user", r#"{"text":"And now?"}"#),
            row("msg_13611818a001AAAAAAAAAAAAAA", "system", r#"{"text":"The date has changed."}"#),
            row("msg_136118322001dPKVh98WfI5GgV", "assistant", answer),
            row(
                "msg_136118323001AAAAAAAAAAAAAA",
                "model-switched",
                r#"{"model":{"id":"m","providerID":"p"}}"#,
            ),
            row("msg_136118324001AAAAAAAAAAAAAA", "user", r#"{"text":"Not answered."}"#),
        ]);
        messages.iter().for_each(assert_acceptable);
        let (large, small) = (
            r#"{"providerID":"lab","modelID":"lab-large"}"#,
            r#"{"providerID":"lab","modelID":"lab-small","variant":"high"}"#,
        );
        let models: Vec<_> = messages
            .iter()
            .filter_map(|message| message.message.root().get("model"))
            .map(Node::raw)
            .collect();
        assert_eq!(models, [large, small, small, small, r#"{"providerID":"p","modelID":"m"}"#]);
        let agents = messages.iter().map(|message| message.message.root().get("agent").unwrap().raw());
        assert!(agents.eq([r#""plan""#; 7]));
        let answer = messages[5].message.lens::<AssistantMessage<'_>>();
        assert_eq!(answer.parent_id.unwrap(), "msg_136118189001tiZ5CCAG4X0ep5");
        assert_eq!(answer.variant.unwrap(), "high");

        let failed = &messages[1];
        let error = r#"{"name":"UnknownError","data":{"message":"Provider request failed with HTTP 400: {\"error\": {}}"}}"#;
        assert_eq!(failed.message.root().get("error").unwrap().raw(), error);
        let finish = from(&failed.parts[1].1, "\"type\":");
        assert_eq!(
            finish,
            r#""type":"step-finish","reason":"error","cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#
        );
    }

    #[test]
    fn files_and_agents_of_a_prompt_become_parts() {
        let (message, parts) = one(
            "user",
            r#"{"time":{"created":5},"text":"See \ud83d @a","files":[{"uri":"file:///a.md","mime":"text/markdown","name":"a.md"},{"url":"http://b","mimeType":"image/png","filename":"b"},"file:///c",{"data":"QQ==","mime":"text/plain"},7],"agents":[{"name":"plan"},"general",{}]}"#,
        );
        assert_eq!(
            message,
            r#""role":"user","time":{"created":5},"agent":"build","model":{"providerID":"unknown","modelID":"unknown"}"#
        );
        assert_eq!(
            parts,
            [
                r#""type":"text","text":"See \ud83d @a""#,
                r#""type":"file","mime":"text/markdown","filename":"a.md","url":"file:///a.md""#,
                r#""type":"file","mime":"image/png","filename":"b","url":"http://b""#,
                r#""type":"file","mime":"application/octet-stream","url":"file:///c""#,
                r#""type":"file","mime":"text/plain","url":"data:text/plain;base64,QQ==""#,
                r#""type":"text","text":"[file] 7","synthetic":true"#,
                r#""type":"agent","name":"plan""#,
                r#""type":"agent","name":"general""#,
                r#""type":"text","text":"[agent] {}","synthetic":true"#,
            ]
        );
    }

    #[test]
    fn what_opencode_adds_is_a_synthetic_text_of_the_user() {
        for kind in ["synthetic", "system"] {
            let (message, parts) = one(kind, r#"{"time":{"created":5},"text":"The date has changed."}"#);
            assert!(message.starts_with(r#""role":"user","time":{"created":5},"#), "{message}");
            let metadata =
                if kind == "system" { r#","metadata":{"opencode":{"type":"system"}}"# } else { "" };
            let text = r#""type":"text","text":"The date has changed.","synthetic":true"#;
            assert_eq!(parts, [format!("{text}{metadata}")]);
        }
    }

    #[test]
    fn a_command_of_the_user_is_a_call_of_bash() {
        let (message, parts) = one(
            "shell",
            r#"{"time":{"created":5,"completed":8},"callID":"c1","command":"ls","output":"a\nb\n"}"#,
        );
        assert_eq!(
            message,
            r#""role":"assistant","time":{"created":5,"completed":8},"parentID":"msg_1361176560013lEOgDWqWsoSms","modelID":"unknown","providerID":"unknown","mode":"build","agent":"build","path":{"cwd":"/home/dev/shop","root":"/home/dev/shop"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#
        );
        assert_eq!(
            parts,
            [
                r#""type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"a\nb\n","title":"","metadata":{},"time":{"start":5,"end":8}}"#
            ]
        );
    }

    #[test]
    fn a_compaction_is_a_summary() {
        let data =
            r#"{"time":{"created":5},"reason":"auto","summary":"They sell carts.","recent":"user: hi"}"#;
        let (message, parts) = one("compaction", data);
        assert!(message.contains(r#""time":{"created":5,"completed":5}"#), "{message}");
        assert!(message.contains(r#""mode":"compaction","agent":"compaction""#), "{message}");
        assert!(message.contains(r#""summary":true"#), "{message}");
        assert_eq!(parts, [r#""type":"text","text":"They sell carts.""#]);
        assert_eq!(parts_of("compaction", r#"{"summary":["a"]}"#), [r#""type":"text","text":"[\"a\"]""#]);
    }

    #[test]
    fn what_is_not_known_is_shown_as_it_is() {
        for (kind, data, text) in [
            ("idle", r#"{"outcome":"failed"}"#, r#"[idle] {\"outcome\":\"failed\"}"#),
            ("user", "[1]", "[user] [1]"),
            ("agent-switched", "null", "[agent-switched] null"),
        ] {
            let (message, parts) = one(kind, data);
            assert!(message.starts_with(r#""role":"user","time":{"created":0}"#), "{message}");
            assert_eq!(parts, [format!(r#""type":"text","text":"{text}","synthetic":true"#)]);
        }
        let parts = parts_of("assistant", r#"{"content":[{"type":"image","x":1},"bare"]}"#);
        assert_eq!(
            parts[1..],
            [
                r#""type":"text","text":"[image] {\"type\":\"image\",\"x\":1}","synthetic":true"#,
                r#""type":"text","text":"[content] \"bare\"","synthetic":true"#
            ]
        );
    }

    #[test]
    fn reasoning_without_times_has_those_of_its_message() {
        let item = r#"{"type":"reasoning","text":"Hm.","providerMetadata":{"lab":{"signature":"s"}}}"#;
        for (time, expected) in [
            (r#"{"created":5,"completed":9}"#, r#"{"start":5,"end":5}"#),
            (r#"{"created":5}"#, r#"{"start":5}"#),
            ("{}", r#"{"start":0}"#),
        ] {
            let parts = parts_of("assistant", &format!(r#"{{"time":{time},"content":[{item}]}}"#));
            let reasoning = r#""type":"reasoning","text":"Hm.","metadata":{"lab":{"signature":"s"}},"time":"#;
            assert_eq!(parts[1], format!("{reasoning}{expected}"));
        }
    }

    #[test]
    fn tool_calls_keep_their_state() {
        for (state, expected) in [
            (r#"{"status":"pending","input":"{\"pa"}"#, r#"{"status":"pending","input":{},"raw":"{\"pa"}"#),
            (r#"{"status":"streaming","input":""}"#, r#"{"status":"pending","input":{},"raw":""}"#),
            (
                r#"{"status":"running","input":{"a":1},"structured":{},"content":[]}"#,
                r#"{"status":"running","input":{"a":1},"metadata":{"structured":{}},"time":{"start":2}}"#,
            ),
            (r#"{"status":"running"}"#, r#"{"status":"running","input":{},"time":{"start":2}}"#),
            (
                r#"{"status":"completed","input":{},"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                r#"{"status":"completed","input":{},"output":"a\nb","title":"","metadata":{},"time":{"start":2,"end":3}}"#,
            ),
            (
                r#"{"status":"completed","input":[1],"structured":{"n":1},"outputPaths":["/x"]}"#,
                r#"{"status":"completed","input":{},"raw":"[1]","output":"{\"n\":1}","title":"","metadata":{"structured":{"n":1},"outputPaths":["/x"]},"time":{"start":2,"end":3}}"#,
            ),
            (
                r#"{"status":"completed","input":{},"content":[{"type":"text","text":"ok"},{"type":"sound"}],"metadata":{"exit":0}}"#,
                r#"{"status":"completed","input":{},"output":"ok\n{\"type\":\"sound\"}","title":"","metadata":{"exit":0},"time":{"start":2,"end":3}}"#,
            ),
            (
                r#"{"status":"error","input":{},"content":[{"type":"text","text":"half"}],"error":{"type":"unknown","message":"No."}}"#,
                r#"{"status":"error","input":{},"error":"No.","metadata":{"output":"half"},"time":{"start":2,"end":3}}"#,
            ),
            (
                r#"{"status":"error","input":{},"error":"No."}"#,
                r#"{"status":"error","input":{},"error":"No.","time":{"start":2,"end":3}}"#,
            ),
            (r#"{"status":"lost"}"#, r#"{"status":"pending","input":{},"raw":"{\"status\":\"lost\"}"}"#),
        ] {
            let time = r#""time":{"created":1,"ran":2,"completed":3}"#;
            assert_eq!(state_of(&format!(r#""id":"c","name":"n","state":{state},{time}"#)), expected);
        }
    }

    #[test]
    fn tool_calls_without_times_have_those_of_their_message() {
        let state = r#""state":{"status":"completed","content":"x"}"#;
        for (time, expected) in [
            ("{}", r#"{"start":9,"end":9}"#),
            (r#"{"created":1}"#, r#"{"start":1,"end":1}"#),
            (r#"{"created":1,"completed":2,"pruned":4}"#, r#"{"start":1,"end":2,"compacted":4}"#),
            (r#"{"created":-1.5,"completed":"x","ran":1e300}"#, r#"{"start":0,"end":0}"#),
        ] {
            let state = state_of(&format!(r#"{state},"time":{time}"#));
            assert!(state.ends_with(&format!(r#""time":{expected}}}"#)), "{state}");
        }
    }

    #[test]
    fn files_that_a_tool_gave_are_attached_to_its_call() {
        let file = r#"{"type":"file","uri":"data:image/png;base64,QQ==","mime":"image/png","name":"a.png"}"#;
        let state = state_of(&format!(
            r#""state":{{"status":"completed","content":[{{"type":"text","text":"Read it."}},{file}]}}"#
        ));
        assert!(state.contains(r#""output":"Read it.""#), "{state}");
        let attached = r#""attachments":[{"id":"prt_1361176560010002gDWqWsoSms","sessionID":"ses_ec9ee8c31ffe4R6M6IWRpmngLE","messageID":"msg_1361176560013lEOgDWqWsoSms","type":"file","mime":"image/png","filename":"a.png","url":"data:image/png;base64,QQ=="}]"#;
        assert!(state.contains(attached), "{state}");
    }

    #[test]
    fn part_ids_ascend_and_differ() {
        let long = format!("msg_{}", "a".repeat(64));
        let ids =
            [MESSAGE, "msg_00000000000000000000000001", "msg_00000000000000000000000002", "msg_1", &long];
        let mut seen = std::collections::HashSet::new();
        for id in ids {
            let message = MessageId::parse_opencode(id).unwrap();
            let numbers = [0, 1, 9_999, 10_000, 99_999, 100_000, 999_999_999];
            let made = numbers.map(|number| part_id(&message, number));
            assert!(made.is_sorted_by(|a, b| a.as_str() < b.as_str()), "{made:?}");
            if timed(&message).is_some() {
                assert!(made.iter().all(|id| id.as_str().len() == 30), "{made:?}");
                assert_eq!(made[6].moment(0), message.moment(0));
            }
            assert!(made.into_iter().all(|id| seen.insert(id)));
        }
        let made = part_id(&MessageId::parse_opencode(MESSAGE).unwrap(), 12_345);
        assert_eq!(made.as_str(), "prt_136117656001z000012345oSms");
    }

    #[test]
    fn what_is_too_large_is_replaced() {
        let deep = "[".repeat(Tape::MAX_DEPTH) + &"]".repeat(Tape::MAX_DEPTH);
        let deep = Document::parse(deep.into_bytes()).unwrap();
        assert_eq!(document(&vec![deep], &"spare").text(), r#""spare""#);
    }

    /// Any JSON, with the words that rows are made of.
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e400",
            "1791908476503",
            r#""""#,
            r#""\ud83d""#,
            r#""x""#,
            r#""default""#,
            r#""text""#,
            r#""file""#,
            r#""completed""#,
            "{}",
            "[]",
        ])
        .prop_map(str::to_owned);
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                members(inner).prop_map(|members| format!("{{{members}}}")),
            ]
        })
    }

    fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "time",
            "created",
            "completed",
            "ran",
            "pruned",
            "text",
            "files",
            "agents",
            "agent",
            "model",
            "id",
            "providerID",
            "variant",
            "content",
            "snapshot",
            "start",
            "end",
            "finish",
            "cost",
            "tokens",
            "input",
            "cache",
            "read",
            "error",
            "message",
            "type",
            "state",
            "status",
            "structured",
            "outputPaths",
            "metadata",
            "attachments",
            "name",
            "uri",
            "mime",
            "data",
            "provider",
            "providerMetadata",
            "command",
            "output",
            "callID",
            "summary",
        ]);
        let member = (key, value).prop_map(|(key, value)| format!(r#""{key}":{value}"#));
        prop::collection::vec(member, 0..8).prop_map(|members| members.join(","))
    }

    /// Rows that are nearly right, or not at all.
    fn any_row() -> impl Strategy<Value = SecondStoreRow> {
        let kinds = [
            "user",
            "assistant",
            "shell",
            "synthetic",
            "system",
            "compaction",
            "agent-switched",
            "model-switched",
            "new",
        ];
        let statuses = ["pending", "streaming", "running", "completed", "error", "new"];
        let item = (
            prop::sample::select(vec!["text", "reasoning", "tool", "new"]),
            prop::sample::select(statuses.to_vec()),
            members(json()),
            members(json()),
        )
            .prop_map(|(kind, status, state, rest)| {
                format!(
                    r#"{{{rest}{}"type":"{kind}","state":{{{state}{}"status":"{status}"}}}}"#,
                    comma(&rest),
                    comma(&state)
                )
            });
        let data = (members(json()), prop::collection::vec(item, 0..4)).prop_map(|(rest, items)| {
            format!(r#"{{{rest}{}"content":[{}]}}"#, comma(&rest), items.join(","))
        });
        (prop::sample::select(kinds.to_vec()), prop_oneof![data, json()])
            .prop_map(|(kind, data)| row(MESSAGE, kind, &data))
    }

    fn comma(members: &str) -> &'static str {
        if members.is_empty() { "" } else { "," }
    }

    proptest! {
        /// Whatever rows hold, OpenCode takes what they are converted to, and each that is no switch is there.
        #[test]
        fn hostile_rows_become_acceptable_documents(rows in prop::collection::vec(any_row(), 0..4)) {
            let messages = converted(&rows);
            messages.iter().for_each(assert_acceptable);
            let switches = rows.iter().filter(|row| row.kind.ends_with("-switched") && row.data.root().kind() == Kind::Object);
            prop_assert_eq!(messages.len(), rows.len() - switches.count());
        }
    }
}
