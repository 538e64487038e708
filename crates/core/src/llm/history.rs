//! A stored history: messages with their parts, and how they were at an earlier moment.

use std::borrow::Cow;

use crate::document::Document;
use crate::id::Millis;
use crate::lens::{AssistantMessage, CompactionPart, Message, Part, UserMessage};
use crate::provenance::Provenance;

/// A message of a history, with its parts in order.
#[derive(Debug, Clone)]
pub struct HistoryMessage {
    /// The message's document.
    pub info: Document,
    /// The documents of its parts.
    pub parts: Vec<Document>,
    /// Which program wrote it.
    pub provenance: Provenance,
}

impl HistoryMessage {
    /// A message that OpenCode wrote.
    pub fn new(info: Document, parts: Vec<Document>) -> HistoryMessage {
        HistoryMessage { info, parts, provenance: Provenance::Opencode }
    }

    /// Its id; empty if the document has none.
    pub fn id(&self) -> Cow<'_, str> {
        self.info.root().get("id").and_then(|id| id.as_text()).map(|id| id.to_str()).unwrap_or_default()
    }

    /// When it was made.
    pub fn created(&self) -> Option<Millis> {
        Message::created_in(self.info.root())
    }

    /// The prompt, if it is one.
    pub fn user(&self) -> Option<Box<UserMessage<'_>>> {
        match self.info.lens() {
            Message::User(user) => Some(user),
            _ => None,
        }
    }

    /// The answer, if it is one.
    pub fn assistant(&self) -> Option<Box<AssistantMessage<'_>>> {
        match self.info.lens() {
            Message::Assistant(assistant) => Some(assistant),
            _ => None,
        }
    }

    /// Its parts.
    pub fn lenses(&self) -> impl Iterator<Item = Part<'_>> {
        self.parts.iter().map(|part| part.lens())
    }

    /// The part that asks for a compaction.
    pub(super) fn compaction(&self) -> Option<Box<CompactionPart<'_>>> {
        self.user()?;
        self.lenses().find_map(|part| match part {
            Part::Compaction(part) => Some(part),
            _ => None,
        })
    }

    /// The id of the compaction's request, if this is its summary, finished or not.
    pub(super) fn summarised_request(&self) -> Option<String> {
        let answer = self.assistant()?;
        let parent = answer.parent_id.filter(|_| answer.summary == Some(true))?;
        Some(parent.to_str().into_owned())
    }
}

/// Takes back what happened to messages after a moment, as far as they tell when it did: an answer that ended later, a call that
/// ended later, a result that was pruned later, the tail of a compaction that was not answered yet. `messages` are those that were
/// there at that moment.
pub(super) fn at_moment(messages: &mut [HistoryMessage], moment: Millis) {
    let answered: Vec<String> = messages.iter().filter_map(HistoryMessage::summarised_request).collect();
    for message in messages {
        let ended = message.assistant().and_then(|answer| answer.time?.completed);
        if ended.is_some_and(|ended| ended > moment) {
            for path in [&["error"][..], &["finish"], &["time", "completed"]] {
                remove(&mut message.info, path);
            }
        }
        let is_answered = answered.contains(&message.id().into_owned());
        for part in &mut message.parts {
            match part.lens() {
                Part::Tool(tool) => {
                    let time = tool.state.and_then(|state| state.time).unwrap_or_default();
                    if time.compacted.is_some_and(|pruned| pruned > moment) {
                        remove(part, &["state", "time", "compacted"]);
                    }
                    // The agent was aborted, and prompted again before the call had ended.
                    if time.end.is_some_and(|end| end > moment)
                        && let Ok(running) = part.with(&["state", "status"], "running")
                    {
                        *part = running;
                    }
                }
                Part::Compaction(compaction) if compaction.tail_start_id.is_some() && !is_answered => {
                    remove(part, &["tail_start_id"]);
                }
                _ => {}
            }
        }
    }
}

/// Takes away prompts that came after the one that an answer is to. The agent answers the last prompt that it has read: later ones
/// were written while it prepared the request.
pub(super) fn without_unseen_prompts(messages: &mut Vec<HistoryMessage>, answered: &str) {
    let Some(place) = messages.iter().position(|message| message.id() == answered) else { return };
    let mut seen = 0;
    messages.retain(|message| {
        seen += 1;
        seen <= place + 1 || message.user().is_none()
    });
}

/// Removes a member. A document that cannot be changed stays as it is.
fn remove(document: &mut Document, path: &[&str]) {
    if let Ok(without) = document.without(path) {
        *document = without;
    }
}

/// Takes away what a revert hides: the messages from `message` on, or the parts from `part` on and all later messages.
pub fn without_reverted(messages: &mut Vec<HistoryMessage>, message: &str, part: Option<&str>) {
    let Some(place) = messages.iter().position(|known| known.id() == message) else { return };
    let Some(part) = part else { return messages.truncate(place) };
    messages.truncate(place + 1);
    if let Some(cut) = messages.last_mut() {
        let is_part = |document: &Document| {
            document.root().get("id").and_then(|id| id.as_text()).is_some_and(|id| id == part)
        };
        cut.parts.truncate(cut.parts.iter().position(is_part).unwrap_or(cut.parts.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(info: &str, parts: &[&str]) -> HistoryMessage {
        let document = |text: &str| Document::parse(text.as_bytes().to_vec()).unwrap();
        HistoryMessage::new(document(info), parts.iter().map(|part| document(part)).collect())
    }

    #[test]
    fn what_ended_later_was_not_ended_yet() {
        let answer = r#"{"id":"a","role":"assistant","time":{"created":1,"completed":9},"error":{"name":"MessageAbortedError"},"finish":"x"}"#;
        let call = r#"{"type":"tool","tool":"bash","state":{"status":"error","input":{},"error":"Tool execution aborted","time":{"start":2,"end":8}}}"#;
        let mut messages = [message(answer, &[call])];
        at_moment(&mut messages, 9);
        assert_eq!((messages[0].info.text(), messages[0].parts[0].text()), (answer, call));
        at_moment(&mut messages, 7);
        assert_eq!(messages[0].info.text(), r#"{"id":"a","role":"assistant","time":{"created":1}}"#);
        assert_eq!(messages[0].parts[0].text(), call.replace(r#""error","input""#, r#""running","input""#));
    }

    #[test]
    fn an_answer_is_to_the_last_prompt_that_was_read() {
        let (user, answer) = (r#""role":"user"}"#, r#""role":"assistant"}"#);
        let made = [("u1", user), ("a2", answer), ("u3", user), ("a4", answer), ("u5", user)];
        let mut messages: Vec<_> =
            made.iter().map(|(id, rest)| message(&format!(r#"{{"id":"{id}",{rest}"#), &[])).collect();
        without_unseen_prompts(&mut messages, "u3");
        let ids: Vec<_> = messages.iter().map(HistoryMessage::id).collect();
        assert_eq!(ids, ["u1", "a2", "u3", "a4"]);
    }

    #[test]
    fn a_revert_hides_messages_or_the_parts_of_one() {
        let history = || {
            let part = |id: &str| format!(r#"{{"id":"{id}","type":"text","text":"x"}}"#);
            let parts = [part("p1"), part("p2")];
            let parts = [parts[0].as_str(), parts[1].as_str()];
            vec![
                message(r#"{"id":"a"}"#, &parts),
                message(r#"{"id":"b"}"#, &parts),
                message(r#"{"id":"c"}"#, &[]),
            ]
        };
        let left = |message: &str, part: Option<&str>| {
            let mut messages = history();
            without_reverted(&mut messages, message, part);
            messages.iter().map(|message| message.parts.len()).collect::<Vec<_>>()
        };
        assert_eq!(left("b", None), [2]);
        assert_eq!(left("b", Some("p2")), [2, 1]);
        assert_eq!(left("x", None), [2, 2, 0]);
    }
}
