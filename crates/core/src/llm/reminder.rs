//! Reminders of the agents `plan` and `build`. OpenCode adds them to the last prompt of a request and stores them nowhere.

use super::history::HistoryMessage;
use super::rules::Rules;
use crate::document::Document;
use crate::lens::TextPart;

/// What the agent `plan` is told with every request. The texts below `texts/` are OpenCode's (MIT licence, see
/// `texts/NOTICE`).
const PLAN: &str = include_str!("texts/plan.txt");
const PLAN_OF_1_0: &str = include_str!("texts/plan-1.0.txt");
/// What the agent `build` is told if `plan` worked before it.
const BUILD_AFTER_PLAN: &str = include_str!("texts/build-switch.txt");

/// Adds the reminder that a request of this agent has, if any, to the last prompt that the model sees.
pub(super) fn add(visible: &mut [HistoryMessage], agent: &str, rules: Rules) {
    let was_planned = || {
        let mut answers = visible.iter().filter_map(HistoryMessage::assistant);
        answers.any(|answer| answer.agent.is_some_and(|agent| agent == "plan"))
    };
    let text = match agent {
        "plan" if rules.has_misspelt_plan() => PLAN_OF_1_0,
        "plan" => PLAN,
        "build" if was_planned() => BUILD_AFTER_PLAN,
        _ => return,
    };
    let Some(prompt) = visible.iter_mut().rfind(|message| message.user().is_some()) else { return };
    let part = TextPart { text: Some(text.into()), synthetic: Some(true), ..TextPart::default() };
    prompt.parts.push(Document::new(&part));
}
