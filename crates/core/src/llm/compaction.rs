//! The part of a history that compactions leave visible to the model.

use std::collections::HashSet;

use super::history::HistoryMessage;
use super::rules::Rules;

/// A message as far as compactions care.
struct Facts {
    id: String,
    /// The request that a summary answers, and whether the summary counts as finished.
    summary: Option<(String, bool)>,
    /// A request for a compaction, with the first message that it keeps.
    request: Option<Option<String>>,
}

impl Facts {
    fn of(message: &HistoryMessage, rules: Rules) -> Facts {
        let tail = |tail: Option<crate::json::Text<'_>>| {
            tail.filter(|tail| rules.keeps_tail() && !tail.is_empty()).map(|tail| tail.to_str().into_owned())
        };
        let summary = message.summarised_request().map(|request| {
            let answer = message.assistant().unwrap_or_default();
            let has_failed = answer.error.is_some() && rules.ignores_failed_summaries();
            (request, answer.finish.is_some_and(|finish| !finish.is_empty()) && !has_failed)
        });
        Facts {
            id: message.id().into_owned(),
            summary,
            request: message.compaction().map(|part| tail(part.tail_start_id)),
        }
    }
}

/// The messages that the model sees, in the order in which it sees them: from the request of the last finished compaction on.
/// If that kept the end of the history before it, the order is request, summary, what was kept, the rest.
pub(super) fn visible(messages: Vec<HistoryMessage>, rules: Rules) -> Vec<HistoryMessage> {
    let facts: Vec<Facts> = messages.iter().map(|message| Facts::of(message, rules)).collect();
    let first = first_visible(&facts);
    let mut visible: Vec<HistoryMessage> = messages;
    visible.drain(..first);
    let facts = &facts[first..];
    let last_kept = facts.iter().rposition(|message| matches!(message.request, Some(Some(_))));
    let Some(request) = last_kept else { return visible };
    let Some(Some(tail)) = &facts[request].request else { return visible };
    let answers = |message: &Facts| {
        message.summary.as_ref().is_some_and(|(answered, _)| *answered == facts[request].id)
    };
    let summary = facts.iter().skip(request + 1).position(answers).map(|place| place + request + 1);
    let tail = facts.iter().position(|message| message.id == *tail);
    if let (Some(summary), Some(tail)) = (summary, tail)
        && tail < request
    {
        // From `tail` on: the kept messages, the request up to its summary, the rest. The first two change places.
        visible[tail..=summary].rotate_left(request - tail);
        visible.drain(..tail);
    }
    visible
}

/// The place of the first message that is looked at: a walk from the newest to the oldest ends there.
fn first_visible(facts: &[Facts]) -> usize {
    let mut finished: HashSet<&str> = HashSet::new();
    let mut tail: Option<&str> = None;
    for (place, message) in facts.iter().enumerate().rev() {
        if let Some(tail) = tail {
            if message.id == tail {
                return place;
            }
            continue;
        }
        if let Some(request) = &message.request
            && finished.contains(message.id.as_str())
        {
            match request {
                Some(first_kept) if *first_kept != message.id => tail = Some(first_kept),
                _ => return place,
            }
        }
        if let Some((request, true)) = &message.summary {
            finished.insert(request);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    /// A history in short: `u1` a prompt, `a2` an answer, `c3` a request for a compaction, `c3>u1` one that keeps a tail,
    /// `s4=c3` its summary, `f4=c3` one that failed.
    fn history(short: &str) -> Vec<HistoryMessage> {
        let document = |text: String| Document::parse(text.into_bytes()).unwrap();
        let message = |word: &str| {
            let (id, rest) = word.split_at(word.find(['>', '=']).unwrap_or(word.len()));
            let rest = rest.get(1..).unwrap_or_default();
            let (info, part) = match &word[..1] {
                "c" => {
                    let tail =
                        if rest.is_empty() { String::new() } else { format!(r#","tail_start_id":"{rest}""#) };
                    (r#""role":"user""#.to_owned(), format!(r#"{{"type":"compaction"{tail}}}"#))
                }
                "s" | "f" => {
                    let error = if word.starts_with('f') { r#","error":{"name":"APIError"}"# } else { "" };
                    let summary = r#""role":"assistant","summary":true,"finish":"stop""#;
                    (format!(r#"{summary},"parentID":"{rest}"{error}"#), r#"{"type":"text"}"#.to_owned())
                }
                "u" => (r#""role":"user""#.to_owned(), r#"{"type":"text"}"#.to_owned()),
                _ => (r#""role":"assistant""#.to_owned(), r#"{"type":"text"}"#.to_owned()),
            };
            HistoryMessage::new(document(format!(r#"{{"id":"{id}",{info}}}"#)), vec![document(part)])
        };
        short.split(' ').map(message).collect()
    }

    #[track_caller]
    fn check(short: &str, rules: Rules, expected: &str) {
        let ids: Vec<String> =
            visible(history(short), rules).iter().map(|message| message.id().into_owned()).collect();
        assert_eq!(ids.join(" "), expected, "{short}");
    }

    #[test]
    fn a_finished_compaction_hides_what_was_before() {
        for rules in [Rules::of(1, 1, 65), Rules::of(1, 2, 27), Rules::LATEST] {
            check("u1 a2", rules, "u1 a2");
            check("u1 a2 c3 s4=c3 u5", rules, "c3 s4 u5");
            check("u1 a2 c3", rules, "u1 a2 c3");
            check("u1 c2 s3=c2 u4 c5 s6=c5 u7", rules, "c5 s6 u7");
        }
    }

    #[test]
    fn a_failed_summary_counts_only_for_old_releases() {
        check("u1 c2 f3=c2 u4", Rules::of(1, 1, 65), "c2 f3 u4");
        check("u1 c2 f3=c2 u4", Rules::LATEST, "u1 c2 f3 u4");
        // Though it failed, the messages that it keeps come after it, and those before them are hidden.
        check("u1 u2 c3>u2 f4=c3 u5", Rules::LATEST, "c3 f4 u2 u5");
    }

    #[test]
    fn a_kept_tail_moves_behind_the_summary() {
        check("u1 a2 u3 a4 c5>u3 s6=c5 u7", Rules::LATEST, "c5 s6 u3 a4 u7");
        check("u1 a2 u3 a4 c5>a4 s6=c5 u7", Rules::LATEST, "c5 s6 a4 u7");
        check("u1 a2 c3>u1 s4=c3 u5", Rules::LATEST, "c3 s4 u1 a2 u5");
        check("u1 a2 u3 a4 c5>u3 s6=c5 u7", Rules::of(1, 2, 27), "c5 s6 u7");
        check("u1 u2 c3>u9 s4=c3 u5", Rules::LATEST, "u1 u2 c3 s4 u5");
        check("u1 c2>c2 s3=c2 u4", Rules::LATEST, "c2 s3 u4");
        // The tail of the first compaction belongs to what the second one summarises.
        check("u1 u2 c3>u2 s4=c3 u5 c6>u5 s7=c6 u8", Rules::LATEST, "c6 s7 u5 u8");
        check("u1 u2 c3>u2 s4=c3 u5 c6 s7=c6 u8", Rules::LATEST, "c6 s7 u8");
        check("u1 u2 c3>u2 s4=c3 u5 c6", Rules::LATEST, "c3 s4 u2 u5 c6");
    }
}
