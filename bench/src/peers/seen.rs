//! What a program saw, read from its output: a program that found nothing is not measured.

use serde_json::Value;

/// Reads an output and returns what the program saw in a few words; `None` if it saw nothing or does not say.
pub(super) type Seen = fn(&str) -> Option<String>;

pub(super) fn annals_sync(said: &str) -> Option<String> {
    Some(last_line(said).to_owned())
}

pub(super) fn annals_stats(said: &str) -> Option<String> {
    let said = json(said)?;
    let tokens = &said["tokens"];
    let n_tokens =
        sum(tokens, &["input", "output", "reasoning"])? + sum(&tokens["cache"], &["read", "write"])?;
    Some(format!("{} sessions, {n_tokens} tokens", some(&said["sessions"])?))
}

pub(super) fn annals_search(said: &str) -> Option<String> {
    let said = json(said)?;
    let results = said.as_array().or_else(|| said.as_object()?.values().find_map(Value::as_array))?;
    (!results.is_empty()).then(|| format!("{} results", results.len()))
}

pub(super) fn agentsview(said: &str) -> Option<String> {
    let database = last_line(said).strip_prefix("Database: ")?;
    (!database.starts_with("0 ")).then(|| database.to_owned())
}

pub(super) fn ccusage(said: &str) -> Option<String> {
    Some(format!("{} tokens", some(&json(said)?["totals"]["totalTokens"])?))
}

pub(super) fn fast_resume(said: &str) -> Option<String> {
    Some(format!("{} sessions", some(&json(said)?["meta"]["total"])?))
}

pub(super) fn tokscale(said: &str) -> Option<String> {
    let said = json(said)?;
    let kinds = ["input", "output", "reasoning", "cacheRead", "cacheWrite"];
    let n_tokens: Option<u64> = said["entries"].as_array()?.iter().map(|model| sum(model, &kinds)).sum();
    Some(format!("{} answers, {} tokens", some(&said["totalMessages"])?, n_tokens?))
}

fn json(said: &str) -> Option<Value> {
    serde_json::from_str(said).ok()
}

fn last_line(said: &str) -> &str {
    said.trim_end().lines().next_back().unwrap_or_default()
}

fn some(number: &Value) -> Option<u64> {
    number.as_u64().filter(|number| *number > 0)
}

fn sum(object: &Value, members: &[&str]) -> Option<u64> {
    members.iter().map(|member| object[member].as_u64()).sum()
}
