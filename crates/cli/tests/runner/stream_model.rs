//! What a stream of events leads to, for tests that disturb the writer.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::kit::text;

/// A turn with two answers: thoughts, texts in many pieces, two calls at once.
pub(super) fn events(turn: usize) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "turn-start", "text": format!("Turn {turn}."), "model": "lab/lab-large"})];
    for answer in 0..2 {
        events.push(json!({"type": "answer-start"}));
        events.push(json!({"type": "step-start"}));
        for (kind, n_pieces) in [("reasoning", 15), ("text", 40)] {
            events.push(json!({"type": format!("{kind}-start")}));
            for piece in 0..n_pieces {
                let delta = format!("{kind} {piece} of answer {answer} in turn {turn} é\u{1F6D2}. ");
                events.push(json!({"type": format!("{kind}-delta"), "delta": delta}));
            }
            events.push(json!({"type": format!("{kind}-end")}));
        }
        let reason = if answer == 0 { "tool-calls" } else { "stop" };
        for call in ["a", "b"].iter().filter(|_| answer == 0) {
            events.push(json!({"type": "tool-call", "call": call, "tool": "bash"}));
        }
        for call in ["b", "a"].iter().filter(|_| answer == 0) {
            events.push(
                json!({"type": "tool-run", "call": call, "input": {"command": format!("echo {call}")}}),
            );
        }
        for call in ["a", "b"].iter().filter(|_| answer == 0) {
            events.push(json!({"type": "tool-complete", "call": call, "output": *call, "title": "echo"}));
        }
        events.push(json!({"type": "step-finish", "reason": reason, "tokens": {"input": 10, "output": 5}}));
        events.push(json!({"type": "answer-finish"}));
    }
    events.push(json!({"type": "turn-finish"}));
    events
}

/// Asserts that everything is there that the events up to the last acknowledged line say, but for those that were refused.
pub(super) fn assert_all_is_there(export: &Value, events: &[Value], answers: &[Value], place: &str) {
    let is_acknowledged = |answer: &&Value| answer["error"].is_null() && answer["line"].is_number();
    let by_line: HashMap<u64, &Value> =
        answers.iter().filter_map(|answer| Some((answer["line"].as_u64()?, answer))).collect();
    let covered = answers.iter().filter(is_acknowledged).filter_map(|answer| answer["line"].as_u64()).max();
    let messages = export["messages"].as_array().unwrap();
    let message = |id: &str| messages.iter().find(|message| message["info"]["id"] == id);
    let part = |id: &str| {
        messages.iter().flat_map(|message| message["parts"].as_array().unwrap()).find(|part| part["id"] == id)
    };
    // The text and the thought that are open: their parts, and what they say.
    let mut open: HashMap<&str, (String, String)> = HashMap::new();
    for (line, event) in (1..=covered.unwrap_or(0)).zip(events) {
        let answer = by_line.get(&line).copied().unwrap_or(&Value::Null);
        let kind = text(event, "type").split('-').next().unwrap();
        let is_piece = text(event, "type").ends_with("-delta");
        match answer["error"]["kind"].as_str() {
            // Pieces that could not be stored are stored later.
            Some("not-stored") if is_piece => {}
            Some(_) => continue,
            None => {}
        }
        let place = format!("{place}: line {line}");
        let known =
            |field: &str| answer[field].as_str().unwrap_or_else(|| panic!("{place}: {event}: {answer}"));
        let status = || part(known("part")).map(|part| text(&part["state"], "status").to_owned());
        match text(event, "type") {
            "turn-start" | "answer-start" => assert!(message(known("message")).is_some(), "{place}"),
            "step-start" => assert!(part(known("part")).is_some(), "{place}"),
            "text-start" | "reasoning-start" => {
                open.insert(kind, (known("part").to_owned(), String::new()));
            }
            "text-delta" | "reasoning-delta" => {
                let (_, said) = open.get_mut(kind).unwrap_or_else(|| panic!("{place}: no {kind} is open"));
                said.push_str(text(event, "delta"));
            }
            "text-end" | "reasoning-end" => {
                let (id, said) = open.remove(kind).unwrap();
                let part = part(&id).unwrap_or_else(|| panic!("{place}"));
                assert_eq!(text(part, "text").trim_end(), said.trim_end(), "{place}");
                assert!(part["time"]["end"].is_number(), "{place}");
            }
            "tool-call" => assert!(status().is_some(), "{place}"),
            "tool-run" => assert_ne!(status().unwrap(), "pending", "{place}"),
            "tool-complete" => assert_eq!(status().unwrap(), "completed", "{place}"),
            "step-finish" => {
                let last = messages.iter().rfind(|message| message["info"]["role"] == "assistant");
                let is_finish = |part: &Value| part["type"] == "step-finish";
                let has_finish = |message: &Value| message["parts"].as_array().unwrap().iter().any(is_finish);
                assert!(last.is_some() && messages.iter().any(has_finish), "{place}");
            }
            "answer-finish" => {
                let ended = message(known("message")).map(|message| &message["info"]["time"]["completed"]);
                assert!(ended.is_some_and(Value::is_number), "{place}");
            }
            _ => {}
        }
    }
    for (id, said) in open.into_values().filter(|(_, said)| !said.is_empty()) {
        let stored = part(&id).unwrap_or_else(|| panic!("{place}: {said}"));
        let stored = text(stored, "text").trim_end();
        // Pieces that were not acknowledged may be there as well.
        assert!(stored.starts_with(said.trim_end()), "{place}: {stored:?} for {said:?}");
    }
}

/// Whether anything of a session is open.
pub(super) fn has_open(export: &Value) -> bool {
    let messages = export["messages"].as_array().unwrap();
    let is_open_call = |part: &Value| {
        part["type"] == "tool" && !["completed", "error"].contains(&text(&part["state"], "status"))
    };
    messages.iter().any(|message| {
        let is_answer = message["info"]["role"] == "assistant";
        (is_answer && !message["info"]["time"]["completed"].is_number())
            || message["parts"].as_array().unwrap().iter().any(is_open_call)
    })
}

/// All texts of a session.
pub(super) fn texts(export: &Value) -> Vec<String> {
    let messages = export["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
    parts.filter_map(|part| part["text"].as_str()).map(|text| text.trim_end().to_owned()).collect()
}
