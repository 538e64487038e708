//! Documents that are still being written, and which of their states are no more than steps on the way to the next.
//!
//! An answer reaches its document in hundreds of states, each saying all that the one before said. A history that kept
//! every one of them would be the answer times its length.

use crate::document::{Document, Key};
use crate::id::Millis;
use crate::json::{Node, same_value};
use crate::lens::Lens;

/// Whether a document says of itself that it is not finished: an answer without an end, a tool that runs.
pub fn is_open(key: &Key, document: &Document) -> bool {
    let root = document.root();
    match key {
        Key::Message(..) => {
            let is_prompt = root.get("role").and_then(Node::as_text).is_some_and(|role| role == "user");
            let has_failed = root.get("error").is_some_and(|error| !error.is_null());
            let completed = root.at(&["time", "completed"]).and_then(Millis::look);
            !is_prompt && !has_failed && completed.is_none()
        }
        Key::Part(..) => {
            let is_tool = root.get("type").and_then(Node::as_text).is_some_and(|kind| kind == "tool");
            let status = || root.at(&["state", "status"]).and_then(Node::as_text);
            is_tool && status().is_some_and(|status| status == "pending" || status == "running")
        }
        _ => false,
    }
}

/// Whether `new` says everything that `old` said, but for what was bound to change: then history need not keep `old`.
pub fn continues(key: &Key, old: &Document, new: &Document) -> bool {
    let (old, new) = (old.root(), new.root());
    match key {
        Key::Part(..) => part_continues(old, new),
        Key::Message(..) => {
            let is_same = |field: &str| same_at(old, new, &[field]);
            match old.get("role").and_then(Node::as_text) {
                Some(role) if role == "assistant" => {
                    old.at(&["time", "completed"]).is_none() && is_same("role") && is_same("parentID")
                }
                // OpenCode adds to a prompt what its turn changed.
                _ => same_but(old, new, &["summary"]),
            }
        }
        Key::Session(..) => {
            same_but(old, new, &["time", "summary", "cost", "tokens"])
                && same_at(old, new, &["time", "created"])
                && same_at(old, new, &["time", "archived"])
        }
        Key::Project(_) => same_but(old, new, &["time"]),
        // Computed by OpenCode from the states of files, again and again.
        Key::Diff(_) => new.items().next().is_some() || old.items().next().is_none(),
        Key::Todo(_) | Key::Share(_) | Key::LegacyShare(_) => false,
    }
}

fn part_continues(old: Node<'_>, new: Node<'_>) -> bool {
    if !same_at(old, new, &["type"]) {
        return false;
    }
    let kind = old.get("type").and_then(Node::as_text);
    let is_a = |name: &str| kind.as_ref().is_some_and(|kind| kind == name);
    if is_a("tool") {
        let status = |part: Node<'_>, name: &str| {
            part.at(&["state", "status"]).and_then(Node::as_text).is_some_and(|status| status == name)
        };
        if status(old, "pending") {
            return same_at(old, new, &["callID"]);
        }
        if status(old, "running") {
            return same_at(old, new, &["callID"]) && same_at(old, new, &["state", "input"]);
        }
        // A finished call changes only by being cleared from the model's view.
        let without_mark = |part: Node<'_>| part.at(&["state", "time", "compacted"]).is_none();
        return without_mark(old)
            && same_but(old, new, &["state"])
            && old.get("state").zip(new.get("state")).is_some_and(|(old, new)| {
                same_but(old, new, &["time"])
                    && same_at(old, new, &["time", "start"])
                    && same_at(old, new, &["time", "end"])
            });
    }
    if is_a("text") || is_a("reasoning") {
        let before = old.get("text").and_then(Node::as_text);
        let after = new.get("text").and_then(Node::as_text);
        let (Some(before), Some(after)) = (before, after) else { return false };
        // The end of a stream is trimmed.
        let (before, after) = (before.to_str(), after.to_str());
        return old.at(&["time", "end"]).is_none() && after.starts_with(before.trim_end());
    }
    false
}

fn same_at(old: Node<'_>, new: Node<'_>, path: &[&str]) -> bool {
    match (old.at(path), new.at(path)) {
        (Some(old), Some(new)) => same_value(old, new),
        (old, new) => old.is_none() == new.is_none(),
    }
}

/// Whether two objects have the same members, except for those named.
fn same_but(old: Node<'_>, new: Node<'_>, except: &[&str]) -> bool {
    let counts = |name: &crate::json::Text<'_>| !except.iter().any(|other| name == *other);
    let has_all_of = |a: Node<'_>, b: Node<'_>| {
        a.members()
            .filter(|(name, _)| counts(name))
            .all(|(name, value)| b.get(&name.to_str()).is_some_and(|other| same_value(value, other)))
    };
    has_all_of(old, new) && has_all_of(new, old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{MessageId, PartId, ProjectId, SessionId};

    fn part_key() -> Key {
        let id = |text: &str| SessionId::parse(text).unwrap();
        Key::Part(id("ses_1"), MessageId::parse("msg_1").unwrap(), PartId::parse("prt_1").unwrap())
    }

    fn session_key() -> Key {
        Key::Session(ProjectId::global(), SessionId::parse("ses_1").unwrap())
    }

    fn check(key: &Key, old: &str, new: &str, expected: bool) {
        let [old, new] = [old, new].map(|text| Document::parse(text.into()).unwrap());
        assert_eq!(continues(key, &old, &new), expected, "{} → {}", old.text(), new.text());
    }

    #[test]
    fn a_growing_text_is_one_text() {
        let key = part_key();
        let growing = r#"{"type":"text","text":"The cart ","time":{"start":1}}"#;
        check(&key, growing, r#"{"type":"text","text":"The cart is","time":{"start":1}}"#, true);
        check(&key, growing, r#"{"type":"text","text":"The cart","time":{"start":2,"end":3}}"#, true);
        check(&key, growing, r#"{"type":"text","text":"A cart","time":{"start":1}}"#, false);
        check(
            &key,
            r#"{"type":"text","text":"a","time":{"end":1}}"#,
            r#"{"type":"text","text":"ab"}"#,
            false,
        );
    }

    #[test]
    fn a_tool_call_goes_through_its_states() {
        let key = part_key();
        let pending = r#"{"type":"tool","callID":"c","state":{"status":"pending","input":{}}}"#;
        let running = r#"{"type":"tool","callID":"c","state":{"status":"running","input":{"a":1}}}"#;
        let done = r#"{"type":"tool","callID":"c","state":{"status":"completed","input":{"a":1},"output":"x","time":{"start":1,"end":2}}}"#;
        let cleared = r#"{"type":"tool","callID":"c","state":{"status":"completed","input":{"a":1},"output":"x","time":{"start":1,"end":2,"compacted":9}}}"#;
        let edited = r#"{"type":"tool","callID":"c","state":{"status":"completed","input":{"a":1},"output":"y","time":{"start":1,"end":2}}}"#;
        check(&key, pending, running, true);
        check(&key, running, done, true);
        check(&key, done, cleared, true);
        check(&key, cleared, done, false);
        check(&key, done, edited, false);
    }

    #[test]
    fn what_people_change_in_a_session_is_kept() {
        let key = session_key();
        let before = r#"{"title":"a","time":{"created":1,"updated":2}}"#;
        check(&key, before, r#"{"title":"a","time":{"created":1,"updated":3},"summary":{"files":1}}"#, true);
        check(&key, before, r#"{"title":"b","time":{"created":1,"updated":3}}"#, false);
        check(&key, before, r#"{"title":"a","time":{"created":1,"updated":2,"archived":5}}"#, false);
        check(&key, before, r#"{"title":"a","time":{"created":1,"updated":3},"revert":{}}"#, false);
    }
}
