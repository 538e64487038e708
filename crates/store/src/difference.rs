//! Two versions of one document, the target's and the source's, and which of them may replace the other.
//!
//! `time.updated` of a session says when it was last prompted. Neither OpenCode nor annals moves it on a rename or on an
//! edit of a part, so it does not tell which version of a document is the later one. A document of the target is therefore
//! replaced only where the documents themselves prove that it is the earlier version (`later`). Every other difference
//! is a decision for the user ([`OnDifference`]).

use crate::homes::opencode::arrange;
use annals_core::id::{Millis, SessionId};
use annals_core::json::{Node, same_value};
use annals_core::lens::{Part, Session};
use annals_core::{Document, Key, stream};

use crate::history::{Changed, History, LogQuery};
use crate::home::ReadError;

/// What happens to a document of the target that differs from the source's, where neither is provably the later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDifference {
    /// The target's version stays, and the difference is reported.
    #[default]
    Report,
    /// The target's version stays.
    Ours,
    /// The source's version replaces it.
    Theirs,
}

/// A document of which target and source have different versions. The target's was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// Which document, as the target names it.
    pub key: Key,
    /// What the target has.
    pub target: Gist,
    /// What the source has.
    pub source: Gist,
}

/// What a version of a document says, in short. Fields that do not apply to the kind of document are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gist {
    /// Title of a session.
    pub title: Option<String>,
    /// When a session was last used.
    pub updated: Option<Millis>,
    /// When a session was archived.
    pub archived: Option<Millis>,
    /// The first words of a text, from where the two versions begin to differ.
    pub text: Option<String>,
}

/// Which version of a document is provably the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// The target's.
    Target,
    /// The source's.
    Source,
    /// Neither; one of them, or both, was changed on its own.
    Unknown,
}

/// When the two sides used the session last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastUse {
    pub(crate) target: Option<Millis>,
    pub(crate) source: Option<Millis>,
}

/// Whether two versions say the same, as far as either home can hold it. Whether a session is archived is the user's word,
/// and a home that has no such mark says that it is not.
pub(crate) fn is_same(key: &Key, a: &Document, b: &Document) -> bool {
    let archived = |document: &Document| {
        document
            .root()
            .at(&["time", "archived"])
            .is_some_and(|time| time.as_f64().is_some_and(|time| time != 0.0))
    };
    arrange::is_same(key, a, b) && (!matches!(key, Key::Session(..)) || archived(a) == archived(b))
}

/// Which of two versions is provably the later one. The proofs:
///
/// - One is an earlier step of the other: an answer that had not ended, a tool call that was pending or running, a text
///   that was being streamed. OpenCode never goes back from a later step.
/// - Both are versions of what OpenCode alone maintains (counters and times of a session, the summary of a prompt, the diff
///   of a session), and the side with the later version has used the session later.
pub(crate) fn later(key: &Key, target: &Document, source: &Document, used: LastUse) -> Later {
    let proves = |old: &Document, new: &Document, is_used_later: bool| {
        is_earlier_step(key, old, new) || (is_used_later && is_maintained(key, old, new))
    };
    if used.source >= used.target && proves(target, source, used.source > used.target) {
        return Later::Source;
    }
    match proves(source, target, used.target > used.source) {
        true => Later::Target,
        false => Later::Unknown,
    }
}

/// Whether `old` is a step on the way to `new` that a model or a tool was still writing.
fn is_earlier_step(key: &Key, old: &Document, new: &Document) -> bool {
    let is_being_written = match key {
        Key::Message(..) => stream::is_open(key, old) && !stream::is_open(key, new),
        // A text without a start was typed by someone, so a longer version of it is an edit and no stream.
        Key::Part(..) => stream::is_open(key, old) || old.root().at(&["time", "start"]).is_some(),
        _ => false,
    };
    is_being_written && stream::continues(key, old, new)
}

/// Whether `old` and `new` differ only in what OpenCode itself keeps up to date, never a person.
fn is_maintained(key: &Key, old: &Document, new: &Document) -> bool {
    match key {
        Key::Session(..) => is_same_session(old.root(), new.root()),
        Key::Part(..) => is_cleared(old, new) && stream::continues(key, old, new),
        Key::Message(..) => {
            let is_prompt = old.root().get("role").and_then(Node::as_text).is_some_and(|role| role == "user");
            is_prompt && stream::continues(key, old, new)
        }
        Key::Diff(_) => stream::continues(key, old, new),
        _ => false,
    }
}

/// Whether the output of a tool call was cleared from the model's view.
fn is_cleared(old: &Document, new: &Document) -> bool {
    let mark = |part: &Document| part.root().at(&["state", "time", "compacted"]).is_some();
    !mark(old) && mark(new)
}

/// Members of a session document that OpenCode maintains, or that follow from where it is filed.
const MAINTAINED: [&str; 9] =
    ["time", "summary", "cost", "tokens", "agent", "model", "path", "version", "projectID"];

/// Whether two session documents say the same of everything that a person decides: title, archive mark, undo, share and so
/// on. A title that OpenCode gave at creation counts as none.
fn is_same_session(old: Node<'_>, new: Node<'_>) -> bool {
    let is_empty = |node: Option<Node<'_>>| node.is_none_or(|node| node.is_null() || node.raw() == "\"\"");
    let is_same = |old: Option<Node<'_>>, new: Option<Node<'_>>| match (old, new) {
        (Some(old), Some(new)) => same_value(old, new),
        (old, new) => is_empty(old) && is_empty(new),
    };
    let is_kept = |name: &str| {
        let is_untitled = name == "title"
            && old.get(name).and_then(Node::as_text).is_some_and(|title| is_placeholder(&title.to_str()));
        MAINTAINED.contains(&name) || is_untitled || is_same(old.get(name), new.get(name))
    };
    let names = old.members().chain(new.members()).map(|(name, _)| name.to_string());
    let is_same_time = |name: &str| is_same(old.at(&["time", name]), new.at(&["time", name]));
    names.into_iter().all(|name| is_kept(&name)) && is_same_time("created") && is_same_time("archived")
}

/// Whether a title is the one that OpenCode gives a session until its first prompt is summarised, such as
/// `New session - 2026-02-24T16:20:00.000Z`.
fn is_placeholder(title: &str) -> bool {
    let time = ["New session - ", "Child session - "].iter().find_map(|start| title.strip_prefix(start));
    let is_in_time = |c: char| c.is_ascii_digit() || "-:.TZ".contains(c);
    time.is_some_and(|time| time.len() == 24 && time.chars().all(is_in_time))
}

/// Earlier states of the documents of one session: from the history of the source, and from what its agent wrote.
#[derive(Default)]
pub(crate) struct EarlierStates {
    states: Vec<(Key, Document)>,
}

impl EarlierStates {
    /// Adds what a home that keeps history has seen of a session before.
    pub(crate) fn add_history(
        &mut self,
        history: &dyn History,
        session: &SessionId,
    ) -> Result<(), ReadError> {
        let query = LogQuery { session: Some(session.clone()), ..LogQuery::default() };
        for revision in history.log(&query)? {
            for Changed { key, before, .. } in history.changes(revision.number)? {
                if key.session() == Some(session) {
                    self.states.extend(before.map(|before| (key, before)));
                }
            }
        }
        Ok(())
    }

    /// Adds the todo lists that the agent of a session wrote, as its tool calls say.
    pub(crate) fn add_todo_lists<'d>(&mut self, documents: impl Iterator<Item = (&'d Key, &'d Document)>) {
        for (key, document) in documents {
            let (Key::Part(session, ..), Part::Tool(part)) = (key, document.lens::<Part<'_>>()) else {
                continue;
            };
            if part.tool.is_none_or(|tool| tool != "todowrite") {
                continue;
            }
            let list =
                document.root().at(&["state", "input", "todos"]).map(|list| list.raw().as_bytes().to_vec());
            if let Some(Ok(list)) = list.map(Document::parse) {
                self.states.push((Key::Todo(session.clone()), list));
            }
        }
    }

    /// Whether a document equals one of these states.
    pub(crate) fn has(&self, key: &Key, document: &Document) -> bool {
        let is_of = |other: &Key| match (key, other) {
            // The same session may be filed under another project.
            (Key::Session(_, a), Key::Session(_, b)) => a == b,
            (key, other) => key == other,
        };
        self.states.iter().any(|(other, state)| is_of(other) && is_same(key, state, document))
    }
}

impl Differing {
    pub(crate) fn new(key: &Key, target: &Document, source: &Document) -> Differing {
        let mut sides = [target, source].map(|document| gist(key, document));
        let start = match [&sides[0].text, &sides[1].text] {
            [Some(a), Some(b)] => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        for side in &mut sides {
            side.text = side.text.take().map(|text| excerpt(&text, start));
        }
        let [target, source] = sides;
        Differing { key: key.clone(), target, source }
    }
}

/// Characters of a text in a gist.
const GIST_LENGTH: usize = 60;
/// Characters of a gist that stand before the first difference.
const GIST_LEAD: usize = 16;

fn excerpt(text: &str, difference: usize) -> String {
    let skipped = if difference + GIST_LEAD > GIST_LENGTH { difference.saturating_sub(GIST_LEAD) } else { 0 };
    let mut rest = text.chars().skip(skipped);
    let mut words: String = rest.by_ref().take(GIST_LENGTH).collect();
    if rest.next().is_some() {
        words.push('…');
    }
    if skipped > 0 { format!("…{words}") } else { words }
}

/// What a document says. Share records hold a secret, so nothing of them is told.
fn gist(key: &Key, document: &Document) -> Gist {
    let of_text = |text: String| Gist { text: Some(text), ..Gist::default() };
    match key {
        Key::Session(..) => {
            let session = document.lens::<Session<'_>>();
            let time = session.time.unwrap_or_default();
            Gist {
                title: session.title.map(|title| title.to_string()),
                updated: time.updated,
                archived: time.archived,
                text: None,
            }
        }
        Key::Part(..) => match document.lens::<Part<'_>>() {
            Part::Text(part) => of_text(part.text.map(|text| text.to_string()).unwrap_or_default()),
            Part::Reasoning(part) => of_text(part.text.map(|text| text.to_string()).unwrap_or_default()),
            Part::Tool(part) => {
                let tool = part.tool.map(|tool| tool.to_string()).unwrap_or_default();
                let state = document.root().get("state");
                of_text(format!("{tool} {}", state.map(|state| state.raw()).unwrap_or_default()))
            }
            _ => of_text(document.text().to_owned()),
        },
        Key::Share(_) | Key::LegacyShare(_) => Gist::default(),
        _ => of_text(document.text().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use annals_core::id::{MessageId, PartId, ProjectId};

    use super::*;

    fn session() -> SessionId {
        SessionId::parse("ses_1").unwrap()
    }

    fn message() -> MessageId {
        MessageId::parse("msg_1").unwrap()
    }

    #[track_caller]
    fn check(
        key: &Key,
        [target, source]: [&str; 2],
        [target_used, source_used]: [Millis; 2],
        expected: Later,
    ) {
        let [target, source] = [target, source].map(|text| Document::parse(text.into()).unwrap());
        let used = LastUse { target: Some(target_used), source: Some(source_used) };
        assert_eq!(later(key, &target, &source, used), expected, "{} ← {}", target.text(), source.text());
        // Seen from the other side the answer is the same.
        let mirrored = LastUse { target: Some(source_used), source: Some(target_used) };
        let expected = match expected {
            Later::Target => Later::Source,
            Later::Source => Later::Target,
            Later::Unknown => Later::Unknown,
        };
        assert_eq!(later(key, &source, &target, mirrored), expected, "{} → {}", source.text(), target.text());
    }

    #[test]
    fn a_later_use_proves_only_what_opencode_maintains() {
        let key = Key::Session(ProjectId::global(), session());
        let one = r#"{"title":"a","time":{"created":1,"updated":2},"cost":1}"#;
        let used = r#"{"title":"a","time":{"created":1,"updated":3},"cost":2,"summary":{"files":1}}"#;
        check(&key, [one, used], [2, 3], Later::Source);
        let renamed = r#"{"title":"b","time":{"created":1,"updated":3}}"#;
        check(&key, [one, renamed], [2, 3], Later::Unknown);
        check(&key, [one, renamed], [2, 2], Later::Unknown);
        let archived = r#"{"title":"a","time":{"created":1,"updated":3,"archived":4}}"#;
        check(&key, [one, archived], [2, 3], Later::Unknown);
        let reverted = r#"{"title":"a","time":{"created":1,"updated":3},"revert":{"messageID":"msg_1"}}"#;
        check(&key, [one, reverted], [2, 3], Later::Unknown);
        let untitled =
            r#"{"title":"New session - 2026-02-24T16:20:00.000Z","time":{"created":1,"updated":2}}"#;
        check(&key, [untitled, renamed], [2, 3], Later::Source);
        let odd = r#"{"title":"New session - my notes","time":{"created":1,"updated":2}}"#;
        check(&key, [odd, renamed], [2, 3], Later::Unknown);
    }

    #[test]
    fn a_step_of_a_stream_is_earlier_whatever_the_clock_says() {
        let key = Key::Part(session(), message(), PartId::parse("prt_1").unwrap());
        let running = r#"{"type":"tool","callID":"c","state":{"status":"running","input":{"a":1}}}"#;
        let done =
            r#"{"type":"tool","callID":"c","state":{"status":"completed","input":{"a":1},"output":"x"}}"#;
        check(&key, [running, done], [2, 2], Later::Source);
        check(&key, [running, done], [2, 3], Later::Source);
        let streamed = r#"{"type":"text","text":"The cart","time":{"start":1}}"#;
        let ended = r#"{"type":"text","text":"The cart is","time":{"start":1,"end":2}}"#;
        check(&key, [streamed, ended], [2, 2], Later::Source);
        let typed = r#"{"type":"text","text":"speed it up"}"#;
        let edited = r#"{"type":"text","text":"speed it up and add tests"}"#;
        check(&key, [typed, edited], [2, 2], Later::Unknown);
        check(&key, [typed, edited], [2, 3], Later::Unknown);
        let other = r#"{"type":"text","text":"Your cart is","time":{"start":1,"end":2}}"#;
        check(&key, [ended, other], [2, 3], Later::Unknown);
    }

    #[test]
    fn an_answer_that_ended_is_later_than_one_that_had_not() {
        let key = Key::Message(session(), message());
        let open = r#"{"role":"assistant","parentID":"msg_0","time":{"created":1},"cost":0}"#;
        let ended = r#"{"role":"assistant","parentID":"msg_0","time":{"created":1,"completed":2},"cost":1}"#;
        check(&key, [open, ended], [2, 2], Later::Source);
        let costly = r#"{"role":"assistant","parentID":"msg_0","time":{"created":1,"completed":2},"cost":9}"#;
        check(&key, [ended, costly], [2, 3], Later::Unknown);
        let prompt = r#"{"role":"user","agent":"build"}"#;
        let summed_up = r#"{"role":"user","agent":"build","summary":{"diffs":[]}}"#;
        check(&key, [prompt, summed_up], [2, 3], Later::Source);
        check(&key, [prompt, summed_up], [2, 2], Later::Unknown);
    }

    #[test]
    fn a_gist_shows_where_two_texts_part() {
        let key = Key::Part(session(), message(), PartId::parse("prt_1").unwrap());
        let text = |end: &str| {
            Document::parse(format!(r#"{{"type":"text","text":"{}{end}"}}"#, "word ".repeat(40)).into())
                .unwrap()
        };
        let differing = Differing::new(&key, &text("one"), &text("two"));
        assert_eq!(differing.target.text.as_deref(), Some("… word word word one"));
        assert_eq!(differing.source.text.as_deref(), Some("… word word word two"));
    }
}
