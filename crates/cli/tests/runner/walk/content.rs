//! The sessions that a home holds, as plain JSON values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Sessions by id.
pub(super) type Content = BTreeMap<String, Session>;

/// One session with all its documents.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Session {
    /// The session document, in the shape of `opencode export`.
    pub(super) info: Value,
    /// Messages by id.
    pub(super) messages: BTreeMap<String, Value>,
    /// Parts by message and id. Parts of messages that do not exist are not here.
    pub(super) parts: BTreeMap<(String, String), Value>,
    pub(super) todos: Option<Value>,
    /// Parts that a directory still has of messages that were deleted. They are shown nowhere, but a search may find them.
    pub(super) orphans: Vec<Value>,
}

/// Money and tokens of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cost: f64,
    /// Input, output, reasoning, cache read, cache write.
    pub(super) tokens: [f64; 5],
}

impl Session {
    pub(super) fn title(&self) -> &str {
        self.info["title"].as_str().unwrap_or_default()
    }

    pub(super) fn updated(&self) -> i64 {
        self.info["time"]["updated"].as_i64().unwrap_or_default()
    }

    pub(super) fn archived(&self) -> Option<i64> {
        self.info["time"]["archived"].as_i64()
    }

    pub(super) fn parent(&self) -> Option<&str> {
        self.info["parentID"].as_str()
    }

    /// Message ids in the order in which OpenCode shows them.
    pub(super) fn order(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.messages.keys().map(String::as_str).collect();
        ids.sort_by_key(|id| (self.messages[*id]["time"]["created"].as_i64().unwrap_or_default(), *id));
        ids
    }

    /// Parts of a message, in order.
    pub(super) fn parts_of(&self, message: &str) -> Vec<&Value> {
        let parts = self.parts.iter().filter(|((owner, _), _)| owner == message);
        parts.map(|(_, part)| part).collect()
    }

    /// The session as `annals export` and `opencode export` print it.
    pub(super) fn exported(&self) -> Value {
        let messages = self
            .order()
            .into_iter()
            .map(|id| serde_json::json!({"info": self.messages[id].clone(), "parts": self.parts_of(id)}));
        serde_json::json!({"info": self.info.clone(), "messages": messages.collect::<Vec<_>>()})
    }

    /// Whether a word is in the title or in a text.
    pub(super) fn says(&self, word: &str) -> bool {
        let texts = self.parts.values().filter_map(|part| part["text"].as_str());
        texts.chain([self.title()]).any(|text| has_word(text, word))
    }

    /// Whether a word is in a part without a message.
    pub(super) fn said(&self, word: &str) -> bool {
        self.orphans.iter().filter_map(|part| part["text"].as_str()).any(|text| has_word(text, word))
    }

    /// What the answers took.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for message in self.messages.values().filter(|message| message["role"] == "assistant") {
            let number = |value: &Value| value.as_f64().unwrap_or_default();
            usage.cost += number(&message["cost"]);
            for (sum, value) in usage.tokens.iter_mut().zip(tokens(&message["tokens"])) {
                *sum += number(value);
            }
        }
        usage
    }

    /// What the session document says it took; if that is nothing, what its answers took.
    pub(super) fn stated_usage(&self) -> Usage {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let stated =
            Usage { cost: number(&self.info["cost"]), tokens: tokens(&self.info["tokens"]).map(number) };
        let is_nothing = stated.cost == 0.0 && stated.tokens.iter().all(|n| *n == 0.0);
        if is_nothing { self.usage() } else { stated }
    }
}

impl Usage {
    pub(super) fn add(&mut self, other: Usage) {
        self.cost += other.cost;
        for (sum, n) in self.tokens.iter_mut().zip(other.tokens) {
            *sum += n;
        }
    }

    pub(super) fn is_close_to(&self, other: &Usage) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        close(self.cost, other.cost) && self.tokens.iter().zip(other.tokens).all(|(a, b)| close(*a, b))
    }

    /// The usage that a JSON object of annals states in `cost` and `tokens`.
    pub(super) fn of_json(value: &Value) -> Usage {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        Usage { cost: number(&value["cost"]), tokens: tokens(&value["tokens"]).map(number) }
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|other| other == word)
}

fn tokens(value: &Value) -> [&Value; 5] {
    let cache = &value["cache"];
    [&value["input"], &value["output"], &value["reasoning"], &cache["read"], &cache["write"]]
}

/// A session and the sessions it started, directly or through others, as one home has them.
pub(super) fn family(content: &Content, session: &str) -> BTreeSet<String> {
    let mut family = BTreeSet::from([session.to_owned()]);
    loop {
        let more: Vec<String> = content
            .iter()
            .filter(|(id, child)| {
                !family.contains(*id) && child.parent().is_some_and(|parent| family.contains(parent))
            })
            .map(|(id, _)| id.clone())
            .collect();
        if more.is_empty() {
            return family;
        }
        family.extend(more);
    }
}

/// Whether two values are the same JSON: `0` and `0.0` are, the order of keys does not matter.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            // The last digit of a fraction depends on who parses it.
            _ => a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= 1e-12 * a.abs()),
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Where two values differ first, as a path with both sides.
pub(super) fn difference(expected: &Value, got: &Value) -> String {
    fn cut(value: &Value) -> String {
        value.to_string().chars().take(160).collect()
    }
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) if same(a, b) => {}
                    (Some(a), Some(b)) => return format!(".{key}{}", difference(a, b)),
                    (Some(a), None) => return format!(".{key}: expected {}, got nothing", cut(a)),
                    (_, b) => {
                        return format!(".{key}: expected nothing, got {}", b.map(cut).unwrap_or_default());
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                if !same(a, b) {
                    return format!("[{n}]{}", difference(a, b));
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let ids = |items: &[Value]| {
                let id = |item: &Value| {
                    item["info"]["id"].as_str().or(item["id"].as_str()).unwrap_or("?").to_owned()
                };
                items.iter().map(id).collect::<Vec<_>>().join(" ")
            };
            return format!(": expected {} items ({}), got {} ({})", a.len(), ids(a), b.len(), ids(b));
        }
        _ => {}
    }
    format!(": expected {}, got {}", cut(expected), cut(got))
}
