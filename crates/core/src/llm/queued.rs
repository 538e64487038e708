//! Prompts that came while the agent was working. Releases up to 1.17.8 wrap them in a reminder on their way to the model.
//!
//! The wrapper is not stored, and neither is what it depends on: whether the request was the first one after a prompt. Both
//! follow from the history.

use super::history::HistoryMessage;
use crate::json::{Text, ToJs};
use crate::lens::{AssistantMessage, Part};

const BEFORE: &str = "<system-reminder>\nThe user sent the following message:\n";
const AFTER: &str = "\n\nPlease address this message and continue with your tasks.\n</system-reminder>";

/// Wraps the prompts that came after the last finished answer. `visible` is what the model sees.
pub(super) fn wrap(visible: &mut [HistoryMessage]) {
    let is_finished = |message: &&HistoryMessage| {
        message.assistant().is_some_and(|answer| answer.finish.is_some_and(|finish| !finish.is_empty()))
    };
    let Some(last) = visible.iter().rfind(is_finished).map(|message| message.id().into_owned()) else {
        return;
    };
    for message in visible.iter_mut().filter(|message| message.user().is_some() && *message.id() > *last) {
        for part in &mut message.parts {
            let wrapped = match part.lens() {
                Part::Text(part) if part.ignored != Some(true) && part.synthetic != Some(true) => part
                    .text
                    .filter(|text| !text.is_blank())
                    .map(|text| Text::joined(&[BEFORE.into(), text, AFTER.into()], "")),
                _ => None,
            };
            if let Some(wrapped) = wrapped
                && let Ok(document) = part.with(&["text"], &wrapped as &dyn ToJs)
            {
                *part = document;
            }
        }
    }
}

/// Whether the request that an answer belongs to went on with work that had begun: it was not the first one that the agent
/// made after it was prompted. `before` are the messages before the answer.
pub(super) fn continues_work(before: &[HistoryMessage], answer: &AssistantMessage<'_>) -> bool {
    let Some(previous) = before.iter().rfind(|message| message.assistant().is_some()) else { return false };
    let Some(earlier) = previous.assistant() else { return false };
    let Some(parent) = &answer.parent_id else { return false };
    if earlier.parent_id.as_ref() == Some(parent) {
        return true;
    }
    // An answer that failed ends the work.
    let Some(prompt) = before.iter().find(|message| *parent == *message.id()) else { return false };
    if earlier.error.is_some() {
        return false;
    }
    match Work::of(previous, before) {
        // A command that the user ran is no work of the agent; prompts that came meanwhile are a beginning.
        Work::Shell => false,
        // After these the agent prompts itself and goes on.
        Work::AutomaticSummary => true,
        Work::Subtask if is_synthetic(prompt) => true,
        Work::Subtask | Work::Call => {
            let completed = earlier.time.and_then(|time| time.completed);
            prompt.created().zip(completed).is_some_and(|(created, completed)| created <= completed)
        }
    }
}

/// What an assistant's message is the outcome of.
enum Work {
    /// A request to a model.
    Call,
    /// The summary of a compaction that the size of the conversation asked for.
    AutomaticSummary,
    /// Work that a command gave to a subagent.
    Subtask,
    /// A command that the user ran.
    Shell,
}

impl Work {
    fn of(message: &HistoryMessage, before: &[HistoryMessage]) -> Work {
        if let Some(request) = message.summarised_request() {
            let request = before.iter().find(|message| message.id() == request);
            let is_automatic =
                request.and_then(HistoryMessage::compaction).is_some_and(|part| part.auto == Some(true));
            return if is_automatic { Work::AutomaticSummary } else { Work::Call };
        }
        let is_call = message.lenses().any(|part| matches!(part, Part::StepStart(_)));
        let mut tools = message.lenses().filter_map(|part| match part {
            Part::Tool(tool) => tool.tool,
            _ => None,
        });
        match (is_call, tools.next(), tools.next()) {
            (false, Some(tool), None) if tool == "task" => Work::Subtask,
            (false, Some(tool), None) if tool == "bash" => Work::Shell,
            _ => Work::Call,
        }
    }
}

/// Whether a prompt was written by the agent itself.
fn is_synthetic(prompt: &HistoryMessage) -> bool {
    let is_synthetic = |part: Part<'_>| matches!(part, Part::Text(part) if part.synthetic == Some(true));
    !prompt.parts.is_empty() && prompt.lenses().all(is_synthetic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn message(info: &str, parts: &[&str]) -> HistoryMessage {
        let document = |text: &str| Document::parse(text.as_bytes().to_vec()).unwrap();
        HistoryMessage::new(document(info), parts.iter().map(|part| document(part)).collect())
    }

    fn prompt(id: &str, created: i64, part: &str) -> HistoryMessage {
        message(&format!(r#"{{"id":"{id}","role":"user","time":{{"created":{created}}}}}"#), &[part])
    }

    const STEP: &str = r#"{"type":"step-start"}"#;
    const TYPED: &str = r#"{"type":"text","text":"hurry"}"#;
    const SYNTHETIC: &str =
        r#"{"type":"text","text":"Summarize the task tool output above.","synthetic":true}"#;
    const TASK: &str = r#"{"type":"tool","tool":"task","state":{"status":"completed"}}"#;
    const SHELL: &str = r#"{"type":"tool","tool":"bash","state":{"status":"completed"}}"#;

    fn answer(id: &str, parent: &str, rest: &str, part: &str) -> HistoryMessage {
        let info = format!(
            r#"{{"id":"{id}","role":"assistant","parentID":"{parent}","time":{{"created":2,"completed":9}}{rest}}}"#
        );
        message(&info, &[part])
    }

    /// Whether the answer to `m4` goes on with work after `previous`.
    fn continues(previous: HistoryMessage, prompt: HistoryMessage) -> bool {
        let first = super::tests::prompt("m1", 1, r#"{"type":"compaction","auto":true}"#);
        let next = answer("m5", "m4", "", STEP);
        continues_work(&[first, previous, prompt], &next.assistant().unwrap())
    }

    #[test]
    fn work_goes_on_after_the_agents_own_prompts_and_with_queued_ones() {
        let called = || answer("m2", "m1", r#","finish":"tool-calls""#, STEP);
        assert!(continues(called(), prompt("m4", 9, TYPED)), "queued");
        assert!(!continues(called(), prompt("m4", 10, TYPED)), "typed later");
        let failed = answer("m2", "m1", r#","error":{"name":"MessageAbortedError"}"#, STEP);
        assert!(!continues(failed, prompt("m4", 5, TYPED)), "an abort ends the work");
        let unfinished =
            message(r#"{"id":"m2","role":"assistant","parentID":"m1","time":{"created":2}}"#, &[]);
        assert!(!continues(unfinished, prompt("m4", 5, TYPED)), "a crash ends the work");
        let subtask = || answer("m2", "m1", r#","finish":"tool-calls""#, TASK);
        assert!(continues(subtask(), prompt("m4", 10, SYNTHETIC)), "after a command's subtask");
        assert!(!continues(subtask(), prompt("m4", 10, TYPED)), "typed after a subtask");
        assert!(continues(subtask(), prompt("m4", 9, TYPED)), "queued during a subtask");
        let summary = answer("m2", "m1", r#","finish":"stop","summary":true"#, STEP);
        assert!(continues(summary, prompt("m4", 10, TYPED)), "replayed after an automatic compaction");
        assert!(
            !continues(answer("m2", "m1", "", SHELL), prompt("m4", 5, TYPED)),
            "queued during a shell command"
        );
        let step = answer("m5", "m1", "", STEP);
        assert!(
            continues_work(&[prompt("m1", 1, TYPED), called()], &step.assistant().unwrap()),
            "a second step"
        );
        assert!(!continues_work(&[prompt("m1", 1, TYPED)], &step.assistant().unwrap()), "the first step");
    }

    #[test]
    fn only_what_was_typed_after_the_last_finished_answer_is_wrapped() {
        let ignored = r#"{"type":"text","text":"x","ignored":true}"#;
        let mut visible = [
            prompt("m1", 1, TYPED),
            answer("m2", "m1", r#","finish":"tool-calls""#, STEP),
            message(
                r#"{"id":"m3","role":"user"}"#,
                &[SYNTHETIC, ignored, r#"{"type":"text","text":" "}"#, TYPED],
            ),
        ];
        wrap(&mut visible);
        assert_eq!(visible[0].parts[0].text(), TYPED);
        assert_eq!(visible[2].parts[0].text(), SYNTHETIC);
        assert_eq!(visible[2].parts[1].text(), ignored);
        assert_eq!(
            visible[2].parts[3].text(),
            r#"{"type":"text","text":"<system-reminder>\nThe user sent the following message:\nhurry\n\nPlease address this message and continue with your tasks.\n</system-reminder>"}"#
        );
    }
}
