//! Turns: a prompt and the messages that answer it.

use std::collections::HashMap;

use annals_core::id::MessageId;
use annals_core::lens::Message;
use annals_core::{Key, Stored};

/// A prompt and what answers it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// The prompt; none if it is not among the messages: it was deleted, or stands on an earlier page.
    pub prompt: Option<MessageId>,
    /// The messages that answer it, in the order of the conversation.
    pub answers: Vec<MessageId>,
}

/// Groups messages, which are in the order of the conversation, into turns.
///
/// An answer belongs to the prompt that its `parentID` names, wherever that prompt stands. An answer without one (before OpenCode
/// 0.15.14) belongs to the turn before it. Answers to a prompt that is not there are a turn without a prompt. Documents that are no
/// messages are left out.
pub fn turns<'s>(messages: impl IntoIterator<Item = &'s Stored>) -> Vec<Turn> {
    let mut turns = Turns::default();
    let mut last: Option<usize> = None;
    for stored in messages {
        let Key::Message(_, id) = &stored.key else { continue };
        let turn = match stored.document.lens() {
            Message::User(_) => {
                let turn = turns.led_by(id.as_str());
                turns.all[turn].prompt = Some(id.clone());
                turn
            }
            Message::Assistant(answer) | Message::Other(answer) => {
                let turn = match (&answer.parent_id, last) {
                    (Some(parent), _) => turns.led_by(&parent.to_str()),
                    (None, Some(last)) => last,
                    (None, None) => turns.add(),
                };
                turns.all[turn].answers.push(id.clone());
                // An answer may name the answer before it.
                turns.by_leader.insert(id.to_string(), turn);
                turn
            }
        };
        last = Some(turn);
    }
    turns.all
}

/// Turns in the order in which they begin.
#[derive(Default)]
struct Turns {
    all: Vec<Turn>,
    /// The turn of each message that an answer can name as its parent.
    by_leader: HashMap<String, usize>,
}

impl Turns {
    fn add(&mut self) -> usize {
        self.all.push(Turn::default());
        self.all.len() - 1
    }

    /// The turn that a message leads or is part of.
    fn led_by(&mut self, message: &str) -> usize {
        if let Some(known) = self.by_leader.get(message) {
            return *known;
        }
        let turn = self.add();
        self.by_leader.insert(message.to_owned(), turn);
        turn
    }
}

#[cfg(test)]
mod tests {
    use annals_core::Document;
    use annals_core::id::SessionId;

    use super::*;

    /// `u1` is a prompt, `a2` an answer without parent, `a3:u1` an answer to `u1`, `s4` a message of another role.
    fn messages(text: &str) -> Vec<Stored> {
        let message = |word: &str| {
            let (name, parent) =
                word.split_once(':').map_or((word, None), |(name, parent)| (name, Some(parent)));
            let role = match &name[..1] {
                "u" => "user",
                "a" => "assistant",
                _ => "system",
            };
            let parent = parent.map(|parent| format!(r#","parentID":"msg_{parent}""#)).unwrap_or_default();
            let document = Document::parse(format!(r#"{{"role":"{role}"{parent}}}"#).into_bytes()).unwrap();
            let session = SessionId::parse("ses_1").unwrap();
            let id = MessageId::parse(&format!("msg_{name}")).unwrap();
            Stored::new(Key::Message(session, id), document, "")
        };
        text.split_whitespace().map(message).collect()
    }

    /// Turns as `u1[a2 a3]`, `-` for no prompt.
    fn check(text: &str, expected: &str) {
        let name = |id: &MessageId| id.as_str()[4..].to_owned();
        let shown = |turn: &Turn| {
            let answers: Vec<String> = turn.answers.iter().map(name).collect();
            format!("{}[{}]", turn.prompt.as_ref().map_or("-".to_owned(), name), answers.join(" "))
        };
        let found: Vec<String> = turns(&messages(text)).iter().map(shown).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn answers_follow_their_prompts() {
        check("", "");
        check("u1", "u1[]");
        check("u1 a2:u1 a3:u1 u4 a5:u4", "u1[a2 a3] u4[a5]");
        check("u1 u2 a3:u1 a4:u2", "u1[a3] u2[a4]");
        check("a2:u1 u1 a3:u1", "u1[a2 a3]");
    }

    #[test]
    fn answers_without_a_parent_go_by_order() {
        check("u1 a2 a3 u4 a5", "u1[a2 a3] u4[a5]");
        check("a1 a2 u3 a4", "-[a1 a2] u3[a4]");
        check("u1 a2:u1 s3 u4 a5", "u1[a2 s3] u4[a5]");
        check("u1 u2 a3:u1 a4", "u1[a3 a4] u2[]");
    }

    #[test]
    fn answers_to_a_prompt_that_is_not_there_stay_together() {
        check("a1:u0 a2:u0 u3 a4:u3 a5:u0", "-[a1 a2 a5] u3[a4]");
        check("a1:u0 a2:u9", "-[a1] -[a2]");
        check("u1 a2:u1 a3:a2", "u1[a2 a3]");
    }

    #[test]
    fn only_messages_count() {
        let mut documents = messages("u1 a2:u1");
        documents[1].key = Key::Todo(SessionId::parse("ses_1").unwrap());
        assert_eq!(turns(&documents).len(), 1);
        assert!(turns(&documents)[0].answers.is_empty());
    }
}
