//! The order in which each generation of OpenCode writes the members of messages and parts.
//!
//! Until 1.15 OpenCode lays out every document by its schema, whenever it writes it. Later versions write an object as their code made it:
//! each kind has an order of its own, a member that is set later comes last, and one that is replaced keeps its place.

use annals_core::Document;
use annals_core::json::{JsWriter, Kind, Node, Style};

use super::dialect::Dialect;

/// An order of members. Members that it does not name follow in the order they have.
#[derive(Debug, Clone, Copy)]
struct Order {
    members: &'static [&'static str],
    /// Orders of members that are objects, or arrays of objects.
    inside: &'static [(&'static str, Order)],
}

impl Order {
    const fn of(members: &'static [&'static str]) -> Order {
        Order { members, inside: &[] }
    }

    fn inside(&self, name: &str) -> Option<&Order> {
        self.inside.iter().find(|(known, _)| *known == name).map(|(_, order)| order)
    }
}

/// A document that was just made, in the order in which OpenCode would have made it.
pub(crate) fn of_new(dialect: Dialect, document: Document) -> Document {
    match dialect >= Dialect::V1_18 {
        true => rearranged(document, made_order),
        false => rearranged(document, schema_order),
    }
}

/// A document that was edited, in the order in which OpenCode would have it after the same edit.
pub(crate) fn of_edited(dialect: Dialect, document: Document) -> Document {
    match dialect >= Dialect::V1_18 {
        true => rearranged(document, |root| root.at(&["tokens", "total"]).map(|_| &COUNTED)),
        false => rearranged(document, schema_order),
    }
}

const USER: Order = Order::of(&[
    "id",
    "sessionID",
    "role",
    "time",
    "format",
    "summary",
    "agent",
    "model",
    "system",
    "tools",
    "variant",
]);
const ASSISTANT: Order = Order::of(&[
    "id",
    "sessionID",
    "role",
    "time",
    "error",
    "parentID",
    "modelID",
    "providerID",
    "mode",
    "agent",
    "path",
    "summary",
    "cost",
    "tokens",
    "structured",
    "variant",
    "finish",
]);
const CALL: Order = Order {
    members: &["id", "sessionID", "messageID", "type", "callID", "tool", "state", "metadata"],
    inside: &[(
        "state",
        Order::of(&["status", "input", "raw", "output", "error", "title", "metadata", "time", "attachments"]),
    )],
};

/// The order of a document by the schemas of 1.1 and 1.2, as far as an edit can change it.
fn schema_order(document: Node<'_>) -> Option<&'static Order> {
    let is = |member: &str, value: &str| is_text(document, member, value);
    match () {
        () if is("role", "user") => Some(&USER),
        () if is("role", "assistant") => Some(&ASSISTANT),
        () if is("type", "tool") => Some(&CALL),
        () => None,
    }
}

/// Token counts of a step that has ended, since 1.16.
const COUNTS: Order = Order {
    members: &["total", "input", "output", "reasoning", "cache"],
    inside: &[("cache", Order::of(&["write", "read"]))],
};
/// The change to the order that the end of a step makes.
const COUNTED: Order = Order { members: &[], inside: &[("tokens", COUNTS)] };
const MADE_USER: Order = Order::of(&["role", "time", "tools", "agent", "model", "system"]);
const MADE_ASSISTANT: Order = Order::of(&[
    "parentID",
    "role",
    "mode",
    "agent",
    "variant",
    "path",
    "cost",
    "tokens",
    "modelID",
    "providerID",
    "time",
]);
const MADE_SUMMARY: Order = Order {
    members: &[
        "role",
        "parentID",
        "mode",
        "agent",
        "variant",
        "summary",
        "path",
        "cost",
        "tokens",
        "modelID",
        "providerID",
        "time",
    ],
    inside: &[("tokens", Order::of(&["output", "input", "reasoning", "cache"]))],
};
const MADE_SYNTHETIC: Order = Order::of(&["type", "synthetic", "text"]);
const MADE_REASONING: Order = Order::of(&["type", "text", "time", "metadata"]);
const MADE_STEP_START: Order = Order::of(&["snapshot", "type"]);
const MADE_STEP_FINISH: Order =
    Order { members: &["reason", "snapshot", "type", "tokens", "cost"], inside: &[("tokens", COUNTS)] };
const MADE_SUBTASK: Order = Order::of(&["type", "agent", "description", "command", "model", "prompt"]);
const MADE_CALL: &[&str] = &["type", "tool", "callID", "state", "metadata"];
const MADE_RUNNING: Order = Order {
    members: MADE_CALL,
    inside: &[("state", Order::of(&["title", "metadata", "status", "input", "time"]))],
};
const MADE_COMPLETED: Order = Order {
    members: MADE_CALL,
    inside: &[(
        "state",
        Order {
            members: &["status", "input", "output", "metadata", "title", "time", "attachments"],
            inside: &[("attachments", Order::of(&["type", "mime", "filename", "url"]))],
        },
    )],
};
/// Calls that are pending or have failed.
const MADE_OTHER_CALL: Order = Order {
    members: MADE_CALL,
    inside: &[("state", Order::of(&["status", "input", "raw", "error", "metadata", "time"]))],
};

/// The order in which 1.18 makes a document.
fn made_order(document: Node<'_>) -> Option<&'static Order> {
    let is = |member: &str, value: &str| is_text(document, member, value);
    let has = |member: &str| document.get(member).is_some();
    let is_call = |status: &str| {
        is("type", "tool") && document.get("state").is_some_and(|state| is_text(state, "status", status))
    };
    match () {
        () if is("role", "user") => Some(&MADE_USER),
        () if is("role", "assistant") && has("summary") => Some(&MADE_SUMMARY),
        () if is("role", "assistant") => Some(&MADE_ASSISTANT),
        () if is("type", "text") && has("synthetic") => Some(&MADE_SYNTHETIC),
        () if is("type", "reasoning") => Some(&MADE_REASONING),
        () if is("type", "step-start") => Some(&MADE_STEP_START),
        () if is("type", "step-finish") => Some(&MADE_STEP_FINISH),
        () if is("type", "subtask") => Some(&MADE_SUBTASK),
        () if is_call("running") => Some(&MADE_RUNNING),
        () if is_call("completed") => Some(&MADE_COMPLETED),
        () if is("type", "tool") => Some(&MADE_OTHER_CALL),
        () => None,
    }
}

fn is_text(object: Node<'_>, member: &str, value: &str) -> bool {
    object.get(member).and_then(Node::as_text).is_some_and(|text| text == value)
}

fn rearranged(document: Document, order_of: impl Fn(Node<'_>) -> Option<&'static Order>) -> Document {
    let Some(order) = order_of(document.root()) else { return document };
    let mut writer = JsWriter::verbatim(Style::Pretty, 0);
    write(&mut writer, document.root(), order);
    // Only a document too deep to be laid out again cannot be read back; it stays as it is.
    Document::parse(writer.finish()).unwrap_or(document)
}

fn write(writer: &mut JsWriter, node: Node<'_>, order: &Order) {
    match node.kind() {
        Kind::Object => {
            let mut members = Vec::new();
            let mut rest = node.members();
            while let Some(member) = rest.next_nodes() {
                members.push(member);
            }
            let place = |name: Node<'_>| {
                let name = name.as_text();
                let known = |known: &&str| name.as_ref().is_some_and(|name| *name == **known);
                order.members.iter().position(known).unwrap_or(order.members.len())
            };
            members.sort_by_key(|(name, _)| place(*name));
            writer.object(|writer| {
                for (name, value) in members {
                    let known = name.as_text().map(|name| name.to_str().into_owned()).unwrap_or_default();
                    match order.inside(&known) {
                        Some(inner) => {
                            writer.key(&known);
                            write(writer, value, inner);
                        }
                        None => writer.member_node(name, value),
                    }
                }
            });
        }
        Kind::Array => writer.array(|writer| {
            for item in node.items() {
                writer.next_item();
                match item.kind() {
                    Kind::Object => write(writer, item, order),
                    // An array in an array may nest deeper than the stack.
                    _ => writer.node(item),
                }
            }
        }),
        _ => writer.node(node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dialect: Dialect, arrange: fn(Dialect, Document) -> Document, text: &str, expected: &str) {
        let document = Document::parse(text.as_bytes().to_vec()).unwrap();
        let arranged = arrange(dialect, document);
        let compact: String = arranged.text().split_whitespace().collect();
        assert_eq!(compact, expected);
    }

    #[test]
    fn members_are_where_each_generation_has_them() {
        let failed = r#"{"id":"m","sessionID":"s","role":"assistant","time":{"created":1},"parentID":"p","x":1e400,"cost":0,"error":{"name":"E"}}"#;
        check(
            Dialect::V1_1,
            of_edited,
            failed,
            r#"{"id":"m","sessionID":"s","role":"assistant","time":{"created":1},"error":{"name":"E"},"parentID":"p","cost":0,"x":1e400}"#,
        );
        check(Dialect::V1_18, of_edited, failed, failed);
        let completed = r#"{"id":"p","type":"tool","callID":"c","tool":"t","state":{"status":"completed","input":{"b":1,"a":2},"output":"","title":"T","metadata":{},"attachments":[{"id":"f","type":"file","url":"u","mime":"m"}]}}"#;
        check(Dialect::V1_2, of_new, completed, completed);
        check(
            Dialect::V1_18,
            of_new,
            completed,
            r#"{"type":"tool","tool":"t","callID":"c","state":{"status":"completed","input":{"b":1,"a":2},"output":"","metadata":{},"title":"T","attachments":[{"type":"file","mime":"m","url":"u","id":"f"}]},"id":"p"}"#,
        );
    }
}
