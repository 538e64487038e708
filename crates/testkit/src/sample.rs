//! Documents of one conversation, as an agent would write them.

use annals::home::Write;
use annals::model::id::{MessageId, PartId, ProjectId, SessionId};
use annals::model::lens::{
    AssistantMessage, CacheTokens, MessagePath, MessageTime, ModelRef, Session, SessionTime, TextPart,
    Tokens, ToolPart, ToolState, ToolTime, UserMessage,
};
use annals::model::{Document, Key, Millis, Transaction};

/// The project of the sample sessions.
pub const PROJECT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Documents of one conversation, as an agent would write them.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The project that owns the session.
    pub project: ProjectId,
    /// The session.
    pub session: SessionId,
    /// Where it was opened.
    pub directory: String,
}

impl Sample {
    /// A session of the sample project.
    pub fn new(session: SessionId, directory: &str) -> Sample {
        Sample {
            project: ProjectId::parse(PROJECT).expect("it is an id"),
            session,
            directory: directory.to_owned(),
        }
    }

    /// The key of the session.
    pub fn session_key(&self) -> Key {
        Key::Session(self.project.clone(), self.session.clone())
    }

    /// The document of the session.
    pub fn session_document(&self, title: &str, now: Millis) -> Document {
        Document::new(&Session {
            id: Some((&self.session).into()),
            slug: Some("quiet-harbor".into()),
            version: Some("1.1.65".into()),
            project_id: Some((&self.project).into()),
            directory: Some(self.directory.as_str().into()),
            title: Some(title.into()),
            time: Some(SessionTime { created: Some(now), updated: Some(now), ..Default::default() }),
            ..Default::default()
        })
    }

    /// A message of the user.
    pub fn prompt(&self, message: &MessageId, now: Millis) -> (Key, Document) {
        let document = Document::new(&UserMessage {
            id: Some(message.into()),
            session_id: Some((&self.session).into()),
            time: Some(MessageTime { created: Some(now), completed: None }),
            agent: Some("build".into()),
            model: Some(ModelRef {
                provider_id: Some("lab".into()),
                model_id: Some("lab-large".into()),
                variant: None,
            }),
            ..Default::default()
        });
        (Key::Message(self.session.clone(), message.clone()), document)
    }

    /// A message that answers another.
    pub fn answer(&self, message: &MessageId, parent: &MessageId, now: Millis) -> (Key, Document) {
        let document = Document::new(&AssistantMessage {
            id: Some(message.into()),
            session_id: Some((&self.session).into()),
            time: Some(MessageTime { created: Some(now), completed: Some(now + 5) }),
            parent_id: Some(parent.into()),
            model_id: Some("lab-large".into()),
            provider_id: Some("lab".into()),
            mode: Some("build".into()),
            agent: Some("build".into()),
            path: Some(MessagePath {
                cwd: Some(self.directory.as_str().into()),
                root: Some(self.directory.as_str().into()),
            }),
            cost: Some(0.0123),
            tokens: Some(Tokens {
                total: None,
                input: Some(10.0),
                output: Some(20.0),
                reasoning: Some(0.0),
                cache: Some(CacheTokens { read: Some(0.0), write: Some(0.0) }),
            }),
            finish: Some("stop".into()),
            ..Default::default()
        });
        (Key::Message(self.session.clone(), message.clone()), document)
    }

    /// A part with text.
    pub fn text(&self, message: &MessageId, part: &PartId, text: &str) -> (Key, Document) {
        let document = Document::new(&TextPart {
            id: Some(part.into()),
            session_id: Some((&self.session).into()),
            message_id: Some(message.into()),
            text: Some(text.into()),
            ..Default::default()
        });
        (Key::Part(self.session.clone(), message.clone(), part.clone()), document)
    }

    /// A part with a tool call that has ended.
    pub fn call(&self, message: &MessageId, part: &PartId, tool: &str, now: Millis) -> (Key, Document) {
        let document = Document::new(&ToolPart {
            id: Some(part.into()),
            session_id: Some((&self.session).into()),
            message_id: Some(message.into()),
            call_id: Some("call_1".into()),
            tool: Some(tool.into()),
            state: Some(ToolState {
                status: Some("completed".into()),
                output: Some("done".into()),
                title: Some(tool.into()),
                time: Some(ToolTime { start: Some(now), end: Some(now + 3), compacted: None }),
                ..Default::default()
            }),
            ..Default::default()
        });
        (Key::Part(self.session.clone(), message.clone(), part.clone()), document)
    }

    /// Stores a session with one prompt and its answer.
    pub fn store(&self, home: &dyn Write, prompt: &str, answer: &str) {
        let now = annals::ids::now();
        let mut transaction = Transaction::new("store a sample");
        let (user, assistant) = (annals::ids::new_message(), annals::ids::new_message());
        for (key, document) in [
            self.prompt(&user, now),
            self.text(&user, &annals::ids::new_part(), prompt),
            self.answer(&assistant, &user, now),
            self.text(&assistant, &annals::ids::new_part(), answer),
            (self.session_key(), self.session_document("A sample", now)),
        ] {
            transaction.insert(key, document);
        }
        home.commit(transaction).unwrap_or_else(|error| panic!("{error}"));
    }
}
