//! Documents that are written step by step: which states are only steps towards the next one, and what is known of a document
//! at an earlier step.
//!
//! An answer is written to its document in hundreds of states, and each contains all of the one before. A history of every
//! state would grow with the square of the answer. So history keeps the last state and the revision of the first one, and
//! [`earlier`] removes from the last state what was not there yet.
//!
//! A change by a person must never count as a step. A change that could be either is not a step: history is then larger than
//! necessary, but correct.

use crate::document::{Document, Key};
use crate::id::Millis;
use crate::json::{Node, ToJs, same_value};
use crate::lens::{CacheTokens, Lens, Tokens};

/// Whether a document is marked as unfinished: an answer without an end, a running tool.
pub fn is_open(key: &Key, document: &Document) -> bool {
    let root = document.root();
    match key {
        Key::Message(..) => {
            !is_prompt(root) && !has(root, &["error"]) && millis(root, &["time", "completed"]).is_none()
        }
        Key::Part(..) => is_a(root, "tool") && (has_status(root, "pending") || has_status(root, "running")),
        _ => false,
    }
}

/// Whether `new` is the next step of `old`: it contains everything in `old`, except for values that OpenCode itself counts and
/// computes. Then history need not keep `old`.
///
/// For a text part that has no end yet ([`is_unended_text`]), the caller must check its message as well.
pub fn continues(key: &Key, old: &Document, new: &Document) -> bool {
    let (old, new) = (old.root(), new.root());
    match key {
        Key::Part(..) => part_continues(old, new),
        Key::Message(..) if is_prompt(old) => prompt_continues(old, new),
        Key::Message(..) => answer_continues(old, new),
        Key::Session(..) => {
            same_but(old, new, &["time", "summary", "cost", "tokens"])
                && same_below(old, new, "time", &["updated", "compacting"])
        }
        Key::Project(_) => same_but(old, new, &["time"]) && same_below(old, new, "time", &["updated"]),
        // OpenCode recomputes the diff from the states of files, again and again.
        Key::Diff(_) => new.items().next().is_some() || old.items().next().is_none(),
        Key::Todo(_) | Key::Share(_) | Key::LegacyShare(_) | Key::Record(..) => false,
    }
}

/// Whether a document is a text or reasoning part that has begun and has no end. In an unfinished message it is still being
/// written. In a finished message it was interrupted, and any change to it is an edit.
pub fn is_unended_text(key: &Key, document: &Document) -> bool {
    matches!(key, Key::Part(..)) && is_being_written(document.root())
}

/// Whether the steps of a document are OpenCode's own bookkeeping: times and sums of a session, the summary of a prompt. The
/// steps of all other documents are answers being written.
pub fn is_bookkeeping(key: &Key, document: &Document) -> bool {
    match key {
        Key::Message(..) => is_prompt(document.root()),
        Key::Part(..) => false,
        _ => true,
    }
}

/// A document at an earlier step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierState {
    /// The document without the content that came later.
    pub document: Document,
    /// Whether that is its whole content at the time. Otherwise it was in progress, and its content is not kept.
    pub is_whole: bool,
}

/// The known content of a document at `time`, when it was one of the steps that led to `document`.
///
/// The result is for reading only. No program ever wrote it, so it must not be stored.
pub fn earlier(key: &Key, document: &Document, time: Millis) -> EarlierState {
    let root = document.root();
    let is_cleared = has(root, &["state", "time", "compacted"]);
    let tool_ended = millis(root, &["state", "time", "end"]);
    if matches!(key, Key::Part(..)) && is_cleared && tool_ended.is_some_and(|end| end <= time) {
        // Only the mark came later.
        return EarlierState {
            document: without(document, &[&["state", "time", "compacted"]]),
            is_whole: true,
        };
    }
    let document = match key {
        Key::Message(..) if is_prompt(root) => without(document, &[&["summary"]]),
        Key::Message(..) => {
            let late: [&[&str]; 4] = [&["time", "completed"], &["finish"], &["error"], &["structured"]];
            // An answer begins with these at zero, and OpenCode reads no answer without them.
            let tokens = Tokens {
                input: Some(0.0),
                output: Some(0.0),
                reasoning: Some(0.0),
                cache: Some(CacheTokens { read: Some(0.0), write: Some(0.0) }),
                ..Default::default()
            };
            let document = replaced(without(document, &late), &["cost"], &0.0);
            replaced(document, &["tokens"], &tokens)
        }
        Key::Part(..) if is_a(root, "tool") => {
            let late: [&[&str]; 9] = [
                &["metadata"],
                &["state", "output"],
                &["state", "error"],
                &["state", "title"],
                &["state", "metadata"],
                &["state", "attachments"],
                &["state", "raw"],
                &["state", "time", "end"],
                &["state", "time", "compacted"],
            ];
            let document = without(document, &late);
            match millis(root, &["state", "time", "start"]) {
                Some(start) if start <= time => replaced(document, &["state", "status"], "running"),
                // The model was still writing the arguments.
                _ => {
                    let document = without(&document, &[&["state", "time"]]);
                    let document = replaced(document, &["state", "input"], &literal("{}"));
                    replaced(document, &["state", "status"], "pending")
                }
            }
        }
        Key::Part(..) if is_a(root, "text") || is_a(root, "reasoning") => {
            // Before 1.2 the end of a text also overwrites its start.
            let late: &[&[&str]] = match millis(root, &["time", "start"]) {
                Some(start) if start <= time => &[&["time", "end"], &["metadata"]],
                _ => &[&["time"], &["metadata"]],
            };
            replaced(without(document, late), &["text"], "")
        }
        Key::Session(..) => {
            let late: [&[&str]; 4] = [&["time", "compacting"], &["summary"], &["cost"], &["tokens"]];
            let document = without(document, &late);
            // OpenCode reads no session without `updated`, which equals `created` in a new session.
            match millis(root, &["time", "created"]) {
                Some(created) => replaced(document, &["time", "updated"], &created),
                None => without(&document, &[&["time", "updated"]]),
            }
        }
        Key::Project(_) => without(document, &[&["time", "updated"]]),
        Key::Diff(_) => literal("[]"),
        Key::Part(..) | Key::Todo(_) | Key::Share(_) | Key::LegacyShare(_) | Key::Record(..) => {
            document.clone()
        }
    };
    EarlierState { document, is_whole: false }
}

/// Whether a member exists and is not null.
fn has(node: Node<'_>, path: &[&str]) -> bool {
    node.at(path).is_some_and(|found| !found.is_null())
}

fn millis(node: Node<'_>, path: &[&str]) -> Option<Millis> {
    node.at(path).and_then(Millis::look)
}

fn literal(text: &str) -> Document {
    Document::parse(text.into()).expect("it is JSON")
}

fn is_prompt(message: Node<'_>) -> bool {
    message.get("role").and_then(Node::as_text).is_some_and(|role| role == "user")
}

fn is_a(part: Node<'_>, kind: &str) -> bool {
    part.get("type").and_then(Node::as_text).is_some_and(|found| found == kind)
}

fn has_status(tool: Node<'_>, status: &str) -> bool {
    tool.at(&["state", "status"]).and_then(Node::as_text).is_some_and(|found| found == status)
}

/// Whether a part is text or reasoning that has begun and not ended. Text from a user has no times.
fn is_being_written(part: Node<'_>) -> bool {
    (is_a(part, "text") || is_a(part, "reasoning"))
        && has(part, &["time", "start"])
        && !has(part, &["time", "end"])
}

/// OpenCode adds to a prompt the changes of its turn and a title from a model.
fn prompt_continues(old: Node<'_>, new: Node<'_>) -> bool {
    let goes_on = |name: &str| !has(old, &["summary", name]) || same_at(old, new, &["summary", name]);
    same_but(old, new, &["summary"]) && goes_on("title") && goes_on("body")
}

fn answer_continues(old: Node<'_>, new: Node<'_>) -> bool {
    let late = ["time", "finish", "cost", "tokens", "error", "structured"];
    !has(old, &["time", "completed"])
        && same_but(old, new, &late)
        && same_below(old, new, "time", &["completed"])
        && (!has(old, &["error"]) || same_at(old, new, &["error"]))
}

fn part_continues(old: Node<'_>, new: Node<'_>) -> bool {
    if !same_at(old, new, &["type"]) {
        return false;
    }
    if is_a(old, "tool") {
        return tool_continues(old, new);
    }
    if !is_being_written(old) || !same_but(old, new, &["text", "time", "metadata"]) {
        return false;
    }
    if !has(new, &["time", "end"]) && !same_at(old, new, &["time", "start"]) {
        return false;
    }
    let before = old.get("text").and_then(Node::as_text);
    let after = new.get("text").and_then(Node::as_text);
    let (Some(before), Some(after)) = (before, after) else { return false };
    // The end of a stream is trimmed.
    after.to_str().starts_with(before.to_str().trim_end())
}

fn tool_continues(old: Node<'_>, new: Node<'_>) -> bool {
    if has_status(old, "pending") {
        // A call of an unknown tool becomes a call of the tool `invalid`.
        return same_but(old, new, &["state", "tool", "metadata"]);
    }
    if has_status(old, "running") {
        // The output so far is in the metadata, also when the tool fails.
        let has_metadata = |part: Node<'_>| has(part, &["state", "metadata"]);
        return same_but(old, new, &["state", "metadata"])
            && same_at(old, new, &["state", "input"])
            && (has_metadata(new) || !has_metadata(old));
    }
    // A finished call changes only by being cleared from the model's view.
    let (Some(before), Some(after)) = (old.get("state"), new.get("state")) else { return false };
    !has(before, &["time", "compacted"])
        && same_but(old, new, &["state"])
        && same_but(before, after, &["time"])
        && same_below(before, after, "time", &["compacted"])
}

/// A document without the members at these paths.
fn without(document: &Document, paths: &[&[&str]]) -> Document {
    let mut left = document.clone();
    for path in paths {
        if left.root().at(path).is_some() {
            left = left.without(path).unwrap_or(left);
        }
    }
    left
}

/// A document with another value for a member, if it has that member.
fn replaced(document: Document, path: &[&str], value: &(impl ToJs + ?Sized)) -> Document {
    match document.root().at(path) {
        Some(_) => document.with(path, value).unwrap_or(document),
        None => document,
    }
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

/// Whether a member of two objects has the same members in both, except for those named.
fn same_below(old: Node<'_>, new: Node<'_>, member: &str, except: &[&str]) -> bool {
    match (old.get(member), new.get(member)) {
        (Some(old), Some(new)) => same_but(old, new, except),
        (Some(one), None) | (None, Some(one)) => {
            one.members().all(|(name, _)| except.iter().any(|other| name == *other))
        }
        (None, None) => true,
    }
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

    fn message_key() -> Key {
        Key::Message(SessionId::parse("ses_1").unwrap(), MessageId::parse("msg_1").unwrap())
    }

    #[track_caller]
    fn check_earlier(key: &Key, document: &str, time: Millis, expected: &str) {
        let shown = earlier(key, &Document::parse(document.into()).unwrap(), time);
        assert_eq!(shown.document.text(), expected);
        assert!(!shown.is_whole);
    }

    /// Seed rows 40, 58 and 96: text from a user has no times, and is never a stream.
    #[test]
    fn a_longer_prompt_is_an_edit() {
        let key = part_key();
        let typed = r#"{"type":"text","text":"speed it up"}"#;
        check(&key, typed, r#"{"type":"text","text":"speed it up and add tests"}"#, false);
        check(&key, typed, r#"{"type":"text","text":"speed it up","synthetic":true}"#, false);
        let timed = r#"{"type":"text","text":"speed it up","time":{"start":1,"end":1}}"#;
        check(&key, timed, r#"{"type":"text","text":"speed it up now","time":{"start":1,"end":1}}"#, false);
        check(&key, typed, timed, false);
        // A stream goes on as the same stream.
        let streamed = r#"{"type":"text","text":"speed","time":{"start":1}}"#;
        check(&key, streamed, r#"{"type":"text","text":"speed it","time":{"start":2}}"#, false);
        check(&key, streamed, r#"{"type":"text","text":"speed it"}"#, false);
        check(
            &key,
            streamed,
            r#"{"type":"text","text":"speed it","ignored":true,"time":{"start":1}}"#,
            false,
        );
        check(
            &key,
            r#"{"type":"reasoning","text":"","time":{"start":1,"end":null}}"#,
            r#"{"type":"reasoning","text":"Hm","metadata":{"a":1},"time":{"start":1,"end":3}}"#,
            true,
        );
    }

    #[test]
    fn what_people_change_in_messages_is_kept() {
        let key = message_key();
        let prompt = r#"{"role":"user","agent":"build"}"#;
        check(&key, prompt, r#"{"role":"user","agent":"build","summary":{"diffs":[]}}"#, true);
        check(&key, prompt, r#"{"role":"user","agent":"plan"}"#, false);
        let titled = r#"{"role":"user","summary":{"title":"Fix it","diffs":[]}}"#;
        check(&key, titled, r#"{"role":"user","summary":{"title":"Fix it","diffs":[1]}}"#, true);
        check(&key, titled, r#"{"role":"user","summary":{"title":"Fixed","diffs":[]}}"#, false);
        check(&key, titled, r#"{"role":"user"}"#, false);
        let begun = r#"{"role":"assistant","parentID":"msg_0","modelID":"a","cost":0,"time":{"created":1}}"#;
        let ended = r#"{"role":"assistant","parentID":"msg_0","modelID":"a","cost":1,"finish":"stop","time":{"created":1,"completed":2}}"#;
        check(&key, begun, ended, true);
        check(&key, ended, begun, false);
        check(&key, begun, &begun.replace("\"a\"", "\"b\""), false);
        check(&key, begun, &begun.replace("\"created\":1", "\"created\":2"), false);
        check(&key, begun, &begun.replace("\"cost\":0", "\"cost\":0,\"error\":{\"name\":\"x\"}"), true);
        let failed = begun.replace("\"cost\":0", "\"error\":{\"name\":\"x\"}");
        check(&key, &failed, &failed.replace("\"x\"", "\"y\""), false);
        // Seed row 107: a time of null counts as missing.
        check(&key, &begun.replace("\"created\":1", "\"created\":1,\"completed\":null"), ended, true);
    }

    #[test]
    fn a_project_that_was_set_up_was_not_so_before() {
        let key = Key::Project(ProjectId::global());
        let before = r#"{"worktree":"/a","time":{"created":1,"updated":2}}"#;
        check(&key, before, r#"{"worktree":"/a","time":{"created":1,"updated":3}}"#, true);
        check(&key, before, r#"{"worktree":"/a","time":{"created":1,"updated":3,"initialized":3}}"#, false);
    }

    #[test]
    fn an_earlier_step_shows_nothing_of_what_came_later() {
        let key = part_key();
        let text =
            r#"{"type":"text","text":"The cart is empty.","time":{"start":10,"end":20},"metadata":{"a":1}}"#;
        check_earlier(&key, text, 15, r#"{"type":"text","text":"","time":{"start":10}}"#);
        check_earlier(&key, text, 5, r#"{"type":"text","text":""}"#);
        let tool = r#"{"type":"tool","callID":"c","tool":"bash","state":{"status":"completed","input":{"a":1},"output":"x","title":"t","metadata":{"output":"x"},"time":{"start":10,"end":20,"compacted":90}}}"#;
        check_earlier(
            &key,
            tool,
            15,
            r#"{"type":"tool","callID":"c","tool":"bash","state":{"status":"running","input":{"a":1},"time":{"start":10}}}"#,
        );
        check_earlier(
            &key,
            tool,
            5,
            r#"{"type":"tool","callID":"c","tool":"bash","state":{"status":"pending","input":{}}}"#,
        );
        // Finished, and not cleared yet: all of it was there.
        let shown = earlier(&key, &Document::parse(tool.into()).unwrap(), 30);
        assert!(shown.is_whole);
        assert_eq!(shown.document.text(), tool.replace(",\"compacted\":90", ""));
        check_earlier(
            &message_key(),
            r#"{"role":"assistant","cost":0.5,"tokens":{"total":3,"input":1,"output":2},"finish":"stop","error":{"name":"x"},"time":{"created":1,"completed":2}}"#,
            1,
            r#"{"role":"assistant","cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"time":{"created":1}}"#,
        );
        check_earlier(&message_key(), r#"{"role":"user","summary":{"diffs":[]}}"#, 1, r#"{"role":"user"}"#);
        check_earlier(
            &session_key(),
            r#"{"title":"a","cost":3,"summary":{"files":1},"time":{"created":1,"updated":9}}"#,
            5,
            r#"{"title":"a","time":{"created":1,"updated":1}}"#,
        );
        check_earlier(&Key::Diff(SessionId::parse("ses_1").unwrap()), r#"[{"file":"a"}]"#, 1, "[]");
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
        let error = r#"{"type":"tool","callID":"c","state":{"status":"error","input":{"a":1},"error":"x"}}"#;
        let printing = r#"{"type":"tool","callID":"c","state":{"status":"running","input":{"a":1},"metadata":{"output":"1"}}}"#;
        check(&key, running, error, true);
        check(&key, running, printing, true);
        check(&key, printing, error, false);
        check(&key, running, &running.replace("\"a\":1", "\"a\":2"), false);
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
