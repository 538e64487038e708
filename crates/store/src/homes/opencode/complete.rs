//! Completing documents so that OpenCode's server serves them.
//!
//! OpenCode 1.18 checks messages and parts on their way out, and one that it refuses turns the answer for its whole
//! session into HTTP 400. What older versions wrote lacks fields that were invented later, so a document is completed
//! when it is written into a row: what is missing is filled in, what is refused is mended, all else stays byte for byte.

mod shape;
mod tables;

use std::borrow::Cow;
use std::collections::BTreeMap;

use annals_core::document::Document;
use annals_core::id::{MessageId, Millis, PartId};
use annals_core::json::{JsWriter, Kind, Node, Tape, Text, ToJs, same_value};

use shape::{
    Absence, Fill, Kinds, MAX_SAFE_INTEGER, MemberRule, Remedy, ServedShape, accepts, accepts_members,
    excerpt, json,
};
use tables::{MESSAGE, MESSAGE_ID, PART, SESSION_ID};

/// What a document can be completed from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// When the message was made.
    pub created: Millis,
    /// The message an answer answers.
    pub parent: Option<&'a str>,
    /// Agent of the turn, where known.
    pub agent: Option<&'a str>,
    /// Provider of the turn's model, where known.
    pub provider: Option<&'a str>,
    /// Model of the turn, where known.
    pub model: Option<&'a str>,
    /// The session's directory.
    pub directory: &'a str,
    /// The root of the session's working tree.
    pub worktree: &'a str,
}

/// A document that the server accepts, and what had to be done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completed {
    /// The server accepts the document.
    AsItIs,
    /// The server accepts this one instead.
    Edited {
        /// The completed document.
        document: Document,
        /// What was added, mended or removed, as dotted paths: `agent`, `path.cwd`, `state.time.end`.
        fields: Vec<String>,
    },
    /// No document of this kind can be served, for the reason given.
    Unservable(String),
}

/// A message, as the server accepts it. Where the document names itself, its id is checked as well.
pub fn message(document: &Document, around: &Surroundings<'_>) -> Completed {
    let root = document.root();
    let id = root.get("id");
    if let Some(id) = id
        && !accepts(MESSAGE_ID, id)
    {
        return Completed::Unservable(format!("its id {} does not begin with `msg`", excerpt(id.raw())));
    }
    let id = id.and_then(Node::as_text).map(|id| id.to_str()).unwrap_or_default();
    let is_prompt = root.get("role").and_then(Node::as_text).is_some_and(|role| role == "user");
    let Some(renamed) = is_prompt.then(|| renamed(document, "format", KEPT_FORMAT)).flatten() else {
        return complete(document, &MESSAGE, &Completer { root, id, around });
    };
    let format = || "format".to_owned();
    match complete(&renamed, &MESSAGE, &Completer { root, id, around }) {
        Completed::AsItIs => Completed::Edited { document: renamed, fields: vec![format()] },
        Completed::Edited { document, fields } => {
            Completed::Edited { document, fields: [format()].into_iter().chain(fields).collect() }
        }
        unservable => unservable,
    }
}

/// A part, as the server accepts it.
pub fn part(document: &Document, id: &PartId, around: &Surroundings<'_>) -> Completed {
    if !id.as_str().starts_with(PartId::PREFIX) {
        return Completed::Unservable(format!("its id {id} does not begin with `prt`"));
    }
    let id = Cow::Borrowed(id.as_str());
    complete(document, &PART, &Completer { root: document.root(), id, around })
}

/// Whether `held`, a row's document, is what `source` becomes when it is completed: equal but for members (at the places
/// this module fills in or mends) that were added or mended.
///
/// What was filled in from a document's surroundings is not compared, because the surroundings of then are not known.
pub fn covers(held: &Document, source: &Document) -> bool {
    let (as_it_was, source_as_it_was) = (restored(held), restored(source));
    let held = as_it_was.as_ref().unwrap_or(held).root();
    let source = source_as_it_was.as_ref().unwrap_or(source).root();
    let covered = |fields| covers_members(fields, held, source);
    same_value(held, source)
        || [MESSAGE, PART].iter().any(|kinds| kinds.fields_of(source).is_some_and(covered))
}

/// The name under which a row keeps the requested form of an answer. 1.18.33 stores `format` and then refuses to serve it:
/// it requires an instance of a class there, and nothing that is read from the database is one.
const KEPT_FORMAT: &str = "annals:format";

/// A message of a row with `format` under its own name again; `None` if the row keeps no `format`.
pub fn restored(document: &Document) -> Option<Document> {
    renamed(document, KEPT_FORMAT, "format")
}

/// A document in which the outermost members called `from` are called `to`, every other byte as it is; `None` if there are
/// no such members.
fn renamed(document: &Document, from: &str, to: &str) -> Option<Document> {
    let mut text = String::new();
    let mut copied = 0;
    let mut members = document.root().members();
    while let Some((name, _)) = members.next_nodes() {
        if name.as_text().is_some_and(|name| name == from) {
            text.push_str(&document.text()[copied..name.range().start]);
            text.push_str(&json(to));
            copied = name.range().end;
        }
    }
    if copied == 0 {
        return None;
    }
    text.push_str(&document.text()[copied..]);
    Document::parse(text.into_bytes()).ok()
}

/// The completion of one document.
struct Completer<'a> {
    root: Node<'a>,
    /// The document's own id; empty if it is not known.
    id: Cow<'a, str>,
    around: &'a Surroundings<'a>,
}

/// A field of a document that is put (as JSON text) or removed.
struct MemberEdit {
    path: Vec<&'static str>,
    value: Option<String>,
}

fn complete(document: &Document, kinds: &Kinds, completion: &Completer<'_>) -> Completed {
    let root = document.root();
    let Some(fields) = kinds.fields_of(root) else {
        return Completed::Unservable(kinds.complaint("it", root));
    };
    if accepts_members(fields, root) {
        return Completed::AsItIs;
    }
    match completion.edited(fields, document) {
        Ok((document, fields)) => Completed::Edited { document, fields },
        Err(reason) => Completed::Unservable(reason),
    }
}

impl Completer<'_> {
    /// A document with what its fields lack, and the names of the fields; or why there can be none.
    fn edited(&self, fields: &[MemberRule], document: &Document) -> Result<(Document, Vec<String>), String> {
        let mut edits = Vec::new();
        self.collect(fields, document.root(), &mut Vec::new(), &mut edits)?;
        let mut edited = document.clone();
        for edit in &edits {
            let next = match &edit.value {
                Some(value) => edited.with(&edit.path, &Verbatim(value)),
                None => edited.without(&edit.path),
            };
            edited = next.map_err(|error| error.to_string())?;
        }
        Ok((edited, edits.iter().map(|edit| edit.path.join(".")).collect()))
    }

    fn collect(
        &self,
        fields: &[MemberRule],
        object: Node<'_>,
        path: &mut Vec<&'static str>,
        edits: &mut Vec<MemberEdit>,
    ) -> Result<(), String> {
        for field in fields {
            path.push(field.key);
            self.collect_field(field, object.get(field.key), path, edits)?;
            path.pop();
        }
        Ok(())
    }

    fn collect_field(
        &self,
        field: &MemberRule,
        value: Option<Node<'_>>,
        path: &mut Vec<&'static str>,
        edits: &mut Vec<MemberEdit>,
    ) -> Result<(), String> {
        let value = match field.remedy(value) {
            Remedy::None => return Ok(()),
            Remedy::Members(fields, object) => return self.collect(fields, object, path, edits),
            Remedy::GiveUp => return Err(field.complaint(value)),
            Remedy::Remove => None,
            Remedy::Fill(fill) => Some(self.filling(field, fill)),
            Remedy::Put(text) => Some(text),
            Remedy::Items(item, list) => Some(self.items(*item, list)?),
        };
        edits.push(MemberEdit { path: path.clone(), value });
        Ok(())
    }

    /// An array with its items mended, without those that cannot be.
    fn items(&self, shape: ServedShape, list: Node<'_>) -> Result<String, String> {
        let mut items: Vec<Cow<'_, str>> = Vec::new();
        for item in list.items() {
            if accepts(shape, item) {
                items.push(Cow::Borrowed(item.raw()));
                continue;
            }
            match shape.mend("value", item) {
                Some(Remedy::Put(text)) => items.push(Cow::Owned(text)),
                Some(Remedy::Members(fields, object)) => {
                    let item = Document::parse(object.raw().into()).map_err(|error| error.to_string())?;
                    items.push(Cow::Owned(self.edited(fields, &item)?.0.text().to_owned()));
                }
                _ => {}
            }
        }
        Ok(format!("[{}]", items.join(",")))
    }

    /// What stands in for a member, as JSON text.
    fn filling(&self, field: &MemberRule, fill: Fill) -> String {
        let around = self.around;
        let text = match fill {
            Fill::Json(text) => return text.to_owned(),
            Fill::Members => return self.members(field.shape),
            Fill::Created => return json(&around.created.clamp(0, MAX_SAFE_INTEGER)),
            Fill::Agent => match self.own("agent").or_else(|| self.own("mode")) {
                Some(own) => return json(&own),
                None => around.agent.unwrap_or("build"),
            },
            Fill::Provider => around.provider.unwrap_or("unknown"),
            Fill::Model => around.model.unwrap_or("unknown"),
            Fill::Directory => around.directory,
            Fill::Worktree => around.worktree,
            Fill::Id => &self.id,
            Fill::Parent => {
                let of_message = |id: &&str| id.starts_with(MessageId::PREFIX);
                around.parent.into_iter().chain([&*self.id]).find(of_message).unwrap_or("msg_unknown")
            }
            Fill::Message => return self.owner("messageID", MESSAGE_ID, "msg_unknown"),
            Fill::Session => return self.owner("sessionID", SESSION_ID, "ses_unknown"),
        };
        json(text)
    }

    /// An object of what stands in for its members.
    fn members(&self, shape: ServedShape) -> String {
        let ServedShape::Object(fields) = shape else { return "{}".to_owned() };
        let members = fields.iter().filter_map(|field| match field.absence {
            Absence::Filled(fill) => Some(format!("{}:{}", json(field.key), self.filling(field, fill))),
            _ => None,
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// A string of the document itself.
    fn own(&self, key: &str) -> Option<Text<'_>> {
        self.root.get(key)?.as_text()
    }

    /// An id that the document names, where it is one that the server accepts.
    fn owner(&self, key: &str, shape: ServedShape, unknown: &str) -> String {
        match self.root.get(key) {
            Some(id) if accepts(shape, id) => json(&id),
            _ => json(unknown),
        }
    }
}

fn covers_members(fields: &[MemberRule], held: Node<'_>, source: Node<'_>) -> bool {
    let (others, source_others) = (others(fields, held), others(fields, source));
    held.kind() == Kind::Object
        && fields.iter().all(|field| covers_field(field, held.get(field.key), source.get(field.key)))
        && others.len() == source_others.len()
        && others.iter().zip(&source_others).all(|(a, b)| a.0 == b.0 && same_value(*a.1, *b.1))
}

/// The members of an object that `fields` does not name; of duplicates the last.
fn others<'a>(fields: &[MemberRule], object: Node<'a>) -> BTreeMap<Vec<u8>, Node<'a>> {
    let is_other = |(key, _): &(Text<'_>, Node<'_>)| !fields.iter().any(|field| *key == field.key);
    object.members().filter(is_other).map(|(key, value)| (key.to_wtf8().into_owned(), value)).collect()
}

fn covers_field(field: &MemberRule, held: Option<Node<'_>>, source: Option<Node<'_>>) -> bool {
    if same(held, source) {
        return true;
    }
    match (field.remedy(source), held) {
        (Remedy::Remove, None) => true,
        (Remedy::Fill(_), Some(held)) => accepts(field.shape, held),
        (Remedy::Put(text), Some(held)) => says(held, &text),
        (Remedy::Members(fields, source), Some(held)) => covers_members(fields, held, source),
        (Remedy::Items(item, source), Some(held)) => covers_items(*item, held, source),
        _ => false,
    }
}

fn covers_items(shape: ServedShape, held: Node<'_>, source: Node<'_>) -> bool {
    let mut held = held.items();
    let mended = source.items().all(|item| {
        if accepts(shape, item) {
            return held.next().is_some_and(|held| same_value(held, item));
        }
        match shape.mend("value", item) {
            Some(Remedy::Put(text)) => held.next().is_some_and(|held| says(held, &text)),
            Some(Remedy::Members(fields, item)) => {
                held.next().is_some_and(|held| covers_members(fields, held, item))
            }
            _ => true,
        }
    });
    mended && held.next().is_none()
}

fn same(a: Option<Node<'_>>, b: Option<Node<'_>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same_value(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Whether a value is the one that a JSON text says.
fn says(value: Node<'_>, text: &str) -> bool {
    Tape::scan(text).is_ok_and(|tape| same_value(value, Node::root(text, &tape)))
}

/// JSON text that is written as it is, so that no byte of what it was made from changes.
struct Verbatim<'a>(&'a str);

impl ToJs for Verbatim<'_> {
    fn write_js(&self, writer: &mut JsWriter) {
        writer.raw(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AROUND: Surroundings<'_> = Surroundings {
        created: 77,
        parent: Some("msg_0"),
        agent: Some("plan"),
        provider: Some("lab"),
        model: Some("lab-large"),
        directory: "/d",
        worktree: "/w",
    };
    const NOWHERE: Surroundings<'_> = Surroundings {
        created: -5,
        parent: None,
        agent: None,
        provider: None,
        model: None,
        directory: "",
        worktree: "",
    };

    const USER: &str = r#"{"role":"user","id":"msg_1","time":{"created":5.5},"agent":"a","model":{"providerID":"p","modelID":"m","variant":"v"},"summary":{"title":"t","body":"b","diffs":[{"file":"f","patch":"p","additions":1,"deletions":2,"status":"added","before":null}]},"system":"s","tools":{"a":true},"variant":null}"#;
    const ASSISTANT: &str = r#"{"role":"assistant","id":"msg_1","time":{"created":5,"completed":6},"error":{"name":"APIError","data":{"message":"m","isRetryable":false,"statusCode":400,"responseHeaders":{"a":"b"},"responseBody":"x","metadata":{"a":"b"}}},"parentID":"msg_1","modelID":"m","providerID":"p","mode":"b","agent":"b","path":{"cwd":"/","root":"/"},"summary":true,"cost":-0.5,"tokens":{"total":9,"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"structured":null,"variant":"v","finish":"stop","system":["x"]}"#;
    const COMPLETED_TOOL: &str = r#"{"type":"tool","callID":"c","tool":"t","state":{"status":"completed","input":{"a":null},"output":"o","title":"t","metadata":{"a":1e400},"time":{"start":1,"end":2,"compacted":3},"attachments":[{"id":"prt_2","sessionID":"ses_1","messageID":"msg_1","type":"file","mime":"m","filename":"f","url":"u"}]},"metadata":{"a":1}}"#;

    /// Documents with every member that the server knows, and the members that may be missing: those with a star may
    /// also be null.
    const WHOLE: [(&str, &str); 19] = [
        (USER, "id summary summary.title summary.body model.variant system tools tools.a variant*"),
        (
            ASSISTANT,
            "id time.completed error error.data.statusCode error.data.responseHeaders error.data.responseHeaders.a error.data.responseBody error.data.metadata error.data.metadata.a summary tokens.total structured* variant finish system*",
        ),
        (
            r#"{"type":"text","text":"x","synthetic":true,"ignored":true,"time":{"start":1,"end":2},"metadata":{"a":1}}"#,
            "synthetic ignored time time.end metadata metadata.a*",
        ),
        (
            r#"{"type":"reasoning","text":"x","metadata":{"a":1},"time":{"start":1,"end":2}}"#,
            "metadata metadata.a* time.end",
        ),
        (
            r#"{"type":"file","mime":"m","filename":"f","url":"u","source":{"type":"file","path":"p","text":{"value":"v","start":-0.5,"end":1}}}"#,
            "filename source",
        ),
        (
            r#"{"type":"file","mime":"m","url":"u","source":{"type":"symbol","path":"p","name":"n","kind":1,"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"text":{"value":"v","start":0,"end":1}}}"#,
            "source",
        ),
        (
            r#"{"type":"file","mime":"m","url":"u","source":{"type":"resource","clientName":"c","uri":"u","text":{"value":"v","start":0,"end":1}}}"#,
            "source",
        ),
        (r#"{"type":"snapshot","snapshot":"s"}"#, ""),
        (r#"{"type":"patch","hash":"h","files":["f"]}"#, ""),
        (r#"{"type":"agent","name":"n","source":{"value":"v","start":0,"end":1}}"#, "source"),
        (
            r#"{"type":"retry","attempt":1,"error":{"name":"APIError","data":{"message":"m","isRetryable":true}},"time":{"created":1}}"#,
            "",
        ),
        (
            r#"{"type":"compaction","auto":true,"overflow":true,"tail_start_id":"msg_1"}"#,
            "overflow tail_start_id",
        ),
        (
            r#"{"type":"subtask","prompt":"p","description":"d","agent":"a","model":{"providerID":"p","modelID":"m"},"command":"c"}"#,
            "model command",
        ),
        (r#"{"type":"step-start","snapshot":"s"}"#, "snapshot"),
        (
            r#"{"type":"step-finish","reason":"r","snapshot":"s","cost":0,"tokens":{"total":3,"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}"#,
            "snapshot tokens.total",
        ),
        (
            r#"{"type":"tool","callID":"c","tool":"t","state":{"status":"pending","input":{"a":1},"raw":""},"metadata":{"a":1}}"#,
            "metadata metadata.a* state.input.a*",
        ),
        (
            r#"{"type":"tool","callID":"c","tool":"t","state":{"status":"running","input":{},"title":"t","metadata":{"a":1},"time":{"start":1,"end":null}}}"#,
            "state.title state.metadata state.metadata.a* state.time.end*",
        ),
        (
            COMPLETED_TOOL,
            "metadata metadata.a* state.input.a* state.metadata.a* state.time.compacted state.attachments",
        ),
        (
            r#"{"type":"tool","callID":"c","tool":"t","state":{"status":"error","input":{},"error":"e","metadata":{"a":1},"time":{"start":1,"end":2}}}"#,
            "state.metadata state.metadata.a*",
        ),
    ];

    fn parse(text: &str) -> Document {
        Document::parse(text.as_bytes().to_vec()).unwrap()
    }

    fn completed(document: &Document, around: &Surroundings<'_>) -> Completed {
        match document.root().get("role") {
            Some(_) => message(document, around),
            None => part(document, &PartId::parse_opencode("prt_1").unwrap(), around),
        }
    }

    /// Completes a document, with `AsItIs` as itself, and checks what holds for every completion.
    fn check(document: &Document) -> Completed {
        let result = completed(document, &AROUND);
        assert!(covers(document, document));
        if let Completed::Edited { document: edited, fields } = &result {
            assert!(!fields.is_empty());
            assert_eq!(completed(edited, &AROUND), Completed::AsItIs, "{document:?} became {edited:?}");
            assert!(covers(edited, document), "{document:?} became {edited:?}");
        }
        result
    }

    fn expect(input: &str, expected: &str, expected_fields: &str) {
        match check(&parse(input)) {
            Completed::Edited { document, fields } => {
                assert!(
                    same_value(document.root(), parse(expected).root()),
                    "{} of {input}",
                    document.text()
                );
                assert_eq!(fields.join(" "), expected_fields, "{input}");
            }
            other => panic!("{input} is {other:?}"),
        }
    }

    fn paths(object: Node<'_>, above: &[String], found: &mut Vec<Vec<String>>) {
        for (key, value) in object.members() {
            let path = [above, &[key.to_string()]].concat();
            found.push(path.clone());
            paths(value, &path, found);
        }
    }

    #[test]
    fn what_the_server_accepts_stays_as_it_is() {
        for (text, _) in WHOLE {
            assert_eq!(check(&parse(text)), Completed::AsItIs, "{text}");
        }
        for text in [
            r#"{"role":"x","role":"user","time":{"created":-1},"time":{"created":0},"agent":"","model":{"providerID":"","modelID":""}}"#,
            r#"{"role":"user","time":{"created":1e20},"\u0061gent":"a","model":{"providerID":"p","modelID":"m"}}"#,
            r#"{"type":"text","text":"\ud83d","time":{"start":5e3,"end":1.0},"unknown":1e400}"#,
            r#"{"type":"patch","hash":"","files":[]}"#,
        ] {
            assert_eq!(check(&parse(text)), Completed::AsItIs, "{text}");
        }
    }

    /// The server of 1.18.33 was asked all of these.
    #[test]
    fn what_is_missing_or_null_is_mended_exactly_where_the_server_minds() {
        for (text, optional) in WHOLE {
            let document = parse(text);
            let optional: Vec<&str> = optional.split(' ').collect();
            let mut found = Vec::new();
            paths(document.root(), &[], &mut found);
            for path in found {
                let (dotted, free) = (path.join("."), path.join(".") + "*");
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let is_free = optional.contains(&&*free);
                let without = check(&document.without(&path).unwrap());
                let may_miss = is_free || optional.contains(&&*dotted);
                assert_eq!(without == Completed::AsItIs, may_miss, "{text} without {dotted}: {without:?}");
                let nulled = check(&document.with(&path, &None::<bool>).unwrap());
                assert_eq!(nulled == Completed::AsItIs, is_free, "{text} with a null {dotted}: {nulled:?}");
            }
        }
    }

    #[test]
    fn messages_are_completed() {
        expect(
            r#"{"id":"msg_1","role":"user","time":{"created":5}}"#,
            r#"{"id":"msg_1","role":"user","time":{"created":5},"agent":"plan","model":{"providerID":"lab","modelID":"lab-large"}}"#,
            "agent model",
        );
        expect(
            r#"{"id":"msg_1","role":"assistant","mode":"build","modelID":"m","providerID":"p","path":{"cwd":"/x"},"time":{"created":5},"tokens":{"input":3,"cache":null}}"#,
            r#"{"id":"msg_1","role":"assistant","mode":"build","agent":"build","modelID":"m","providerID":"p","path":{"cwd":"/x","root":"/w"},"time":{"created":5},"parentID":"msg_0","cost":0,"tokens":{"input":3,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}"#,
            "parentID agent path.root cost tokens.output tokens.reasoning tokens.cache",
        );
        expect(
            r#"{"id":"msg_1","role":"assistant","agent":"\ud83d"}"#,
            r#"{"id":"msg_1","role":"assistant","agent":"\ud83d","time":{"created":77},"parentID":"msg_0","modelID":"lab-large","providerID":"lab","mode":"\ud83d","path":{"cwd":"/d","root":"/w"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}}"#,
            "time parentID modelID providerID mode path cost tokens",
        );
    }

    #[test]
    fn where_nothing_is_known_there_are_defaults() {
        let check = |text: &str, path: &[&str], expected: &str| {
            let Completed::Edited { document, .. } = completed(&parse(text), &NOWHERE) else {
                panic!("{text}")
            };
            assert_eq!(document.root().at(path).map(Node::raw), Some(expected), "{text}");
        };
        let assistant = r#"{"id":"msg_1","role":"assistant"}"#;
        check(assistant, &["agent"], r#""build""#);
        check(assistant, &["mode"], r#""build""#);
        check(assistant, &["modelID"], r#""unknown""#);
        check(assistant, &["providerID"], r#""unknown""#);
        check(assistant, &["parentID"], r#""msg_1""#);
        check(assistant, &["time", "created"], "0");
        check(r#"{"role":"assistant"}"#, &["parentID"], r#""msg_unknown""#);
        check(r#"{"role":"user"}"#, &["model"], r#"{"providerID":"unknown","modelID":"unknown"}"#);
        check(r#"{"type":"tool","state":{"status":"pending"}}"#, &["callID"], r#""prt_1""#);
        let elsewhere = Surroundings { parent: Some("message_0"), ..NOWHERE };
        let Completed::Edited { document, .. } = message(&parse(assistant), &elsewhere) else { panic!() };
        assert_eq!(document.root().get("parentID").map(Node::raw), Some(r#""msg_1""#));
    }

    #[test]
    fn parts_are_completed() {
        let check = |input: &str, expected: &str, fields: &str| {
            expect(&format!("{{{input}}}"), &format!("{{{expected}}}"), fields);
        };
        check(
            r#""type":"step-finish","cost":null"#,
            r#""type":"step-finish","cost":0,"reason":"unknown","tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#,
            "reason cost tokens",
        );
        check(r#""type":"compaction""#, r#""type":"compaction","auto":false"#, "auto");
        check(
            r#""type":"reasoning","text":"x","time":{"end":2}"#,
            r#""type":"reasoning","text":"x","time":{"start":77,"end":2}"#,
            "time.start",
        );
        check(
            r#""type":"retry","attempt":2.5,"error":{"name":"UnknownError","data":{"message":"m"}},"time":{"created":-1}"#,
            r#""type":"retry","attempt":2,"error":{"name":"APIError","data":{"message":"m","isRetryable":true}},"time":{"created":0}"#,
            "attempt error time.created",
        );
        check(
            r#""type":"file","url":"u","source":{"type":"elsewhere"}"#,
            r#""type":"file","url":"u","mime":"application/octet-stream""#,
            "mime source",
        );
        check(
            r#""type":"file","mime":"m","url":"u","source":{"type":"file","text":"x"}"#,
            r#""type":"file","mime":"m","url":"u","source":{"type":"file","path":"","text":{"value":"","start":0,"end":0}}"#,
            "source.text source.path",
        );
        check(
            r#""type":"subtask","prompt":"p","description":"d","agent":"a","model":{"modelID":"m"},"command":null"#,
            r#""type":"subtask","prompt":"p","description":"d","agent":"a","model":{"modelID":"m","providerID":"lab"}"#,
            "model.providerID command",
        );
    }

    #[test]
    fn tool_calls_are_completed() {
        let check = |input: &str, expected: &str, fields: &str| {
            let whole = |state: &str| {
                format!(
                    r#"{{"sessionID":"ses_1","messageID":"msg_1","type":"tool","callID":"c","tool":"t","state":{{{state}}}}}"#
                )
            };
            expect(&whole(input), &whole(expected), fields);
        };
        check(r#""status":"pending""#, r#""status":"pending","input":{},"raw":"""#, "state.input state.raw");
        check(
            r#""status":"running","input":"ls","time":{"start":1e400}"#,
            r#""status":"running","input":{"input":"ls"},"time":{"start":77}"#,
            "state.input state.time.start",
        );
        check(
            r#""status":"completed","input":{},"output":{"a":[1, 2]},"time":{"start":5,"compacted":null}"#,
            r#""status":"completed","input":{},"output":"{\"a\":[1,2]}","title":"","metadata":{},"time":{"start":5,"end":77}"#,
            "state.output state.title state.metadata state.time.end state.time.compacted",
        );
        check(
            r#""status":"error","input":{},"error":null,"time":{"start":1.9,"end":-0.1}"#,
            r#""status":"error","input":{},"error":"","time":{"start":1,"end":0}"#,
            "state.error state.time.start state.time.end",
        );
        check(
            r#""status":"completed","input":{},"output":"","title":"","metadata":{},"time":{"start":5,"end":5},"attachments":[1,{"id":"part_1","type":"file","mime":"m","url":"u","filename":null},{"id":"prt_2","sessionID":"ses_2","messageID":"msg_2","type":"file","mime":"m","url":"u"}]"#,
            r#""status":"completed","input":{},"output":"","title":"","metadata":{},"time":{"start":5,"end":5},"attachments":[{"id":"prt_1","type":"file","mime":"m","url":"u","sessionID":"ses_1","messageID":"msg_1"},{"id":"prt_2","sessionID":"ses_2","messageID":"msg_2","type":"file","mime":"m","url":"u"}]"#,
            "state.attachments",
        );
    }

    #[test]
    fn prompts_keep_what_can_be_kept() {
        let check = |input: &str, expected: &str, fields: &str| {
            let whole = |members: &str| {
                format!(
                    r#"{{"role":"user","time":{{"created":5}},"agent":"a","model":{{"providerID":"p","modelID":"m"}}{members}}}"#
                )
            };
            expect(&whole(input), &whole(expected), fields);
        };
        check(r#","summary":true"#, "", "summary");
        check(r#","summary":{"title":"t"}"#, r#","summary":{"title":"t","diffs":[]}"#, "summary.diffs");
        check(
            r#","summary":{"diffs":[{"file":"a.bin","before":"","additions":null,"deletions":null},{"additions":1,"deletions":1,"status":"renamed"}]}"#,
            r#","summary":{"diffs":[{"file":"a.bin","before":"","additions":0,"deletions":0},{"additions":1,"deletions":1}]}"#,
            "summary.diffs",
        );
        check(r#","format":{"type":"text"}"#, r#","annals:format":{"type":"text"}"#, "format");
        check(r#","tools":{"a":1},"system":null"#, "", "system tools");
    }

    #[test]
    fn refused_errors_keep_their_message() {
        for (error, message) in [
            (r#"{"name":"ProviderInitError","data":{"message":"m"}}"#, "m"),
            (r#"{"name":"APIError","data":{"message":"m"}}"#, "m"),
            (r#"{"name":"APIError","data":{"message":"m","isRetryable":true,"metadata":{"a":1}}}"#, "m"),
            (r#"{"name":"AI_Error","message":"\"m\""}"#, r#"\"m\""#),
            (r#"{ "name": "UnknownError" }"#, r#"{\"name\":\"UnknownError\"}"#),
            (r#""m""#, "m"),
            ("[1]", "[1]"),
        ] {
            let expected = format!(r#"{{"name":"UnknownError","data":{{"message":"{message}"}}}}"#);
            let refused = parse(ASSISTANT).with(&["error"], &Verbatim(error)).unwrap();
            let Completed::Edited { document, fields } = check(&refused) else { panic!("{error}") };
            assert_eq!(document.root().get("error").map(Node::raw), Some(&*expected));
            assert_eq!(fields, ["error"]);
        }
    }

    #[test]
    fn an_edit_leaves_every_other_byte() {
        let text = "{\n  \"type\": \"text\",\n  \"text\": \"\\ud83d\\u0041\",\n  \"big\": 1e400,\n  \"ignored\": null,\n  \"big\": -0\n}";
        let Completed::Edited { document, .. } = check(&parse(text)) else { panic!() };
        assert_eq!(document.text(), text.replace("  \"ignored\": null,\n", ""));
    }

    #[test]
    fn what_cannot_be_served_says_why() {
        for (text, reason) in [
            ("[1]", "it is an array, not an object"),
            (r#"{"role":"system"}"#, r#"it has the role "system", which OpenCode does not know"#),
            (r#"{"role":7}"#, "it has the role 7, which OpenCode does not know"),
            (r#"{"role":"user","id":"message_1"}"#, r#"its id "message_1" does not begin with `msg`"#),
            (r#"{"text":"x"}"#, "it has no type"),
            (r#"{"type":"thinking"}"#, r#"it has the type "thinking", which OpenCode does not know"#),
            (r#"{"type":"tool"}"#, "it has no state"),
            (r#"{"type":"tool","state":"done"}"#, "its state is a string, not an object"),
            (r#"{"type":"tool","state":{}}"#, "its state has no status"),
            (
                r#"{"type":"tool","state":{"status":"done"}}"#,
                r#"its state has the status "done", which OpenCode does not know"#,
            ),
        ] {
            assert_eq!(check(&parse(text)), Completed::Unservable(reason.to_owned()), "{text}");
        }
        let other = PartId::parse_opencode("part_1").unwrap();
        assert_eq!(
            part(&parse(r#"{"type":"text","text":""}"#), &other, &AROUND),
            Completed::Unservable("its id part_1 does not begin with `prt`".to_owned())
        );
    }

    #[test]
    fn a_row_covers_what_it_was_completed_from_and_nothing_else() {
        let source = r#"{"type":"tool","callID":"c","tool":"t","state":{"status":"completed","input":{},"output":"o","time":{"start":1.5}},"x":1}"#;
        let row = r#"{"x":1.0,"type":"tool","callID":"c","tool":"t","state":{"status":"completed","input":{},"output":"o","title":"T","metadata":{"a":1},"time":{"start":1,"end":9}}}"#;
        assert!(covers(&parse(row), &parse(source)));
        assert!(covers(&parse(row), &parse(row)));
        assert!(!covers(&parse(source), &parse(row)), "what was said is gone");
        for (from, to) in [
            (r#""output":"o""#, r#""output":"p""#),
            (r#""tool":"t","#, ""),
            (r#""tool":"t","#, r#""tool":null,"#),
            (r#""status":"completed""#, r#""status":"error""#),
            (r#""x":1.0,"#, ""),
            (r#""x":1.0,"#, r#""x":1,"y":2,"#),
            (r#""x":1.0,"#, r#""x":1,"metadata":{},"#),
            (r#""start":1"#, r#""start":2"#),
            (r#""end":9"#, r#""end":null"#),
            (r#""end":9"#, r#""end":9,"compacted":1"#),
        ] {
            assert!(row.contains(from));
            assert!(!covers(&parse(&row.replace(from, to)), &parse(source)), "{from} became {to}");
        }
        let without_error = parse(ASSISTANT).without(&["error"]).unwrap();
        assert!(!covers(&without_error, &parse(ASSISTANT)));
        let refused = parse(ASSISTANT).with(&["error", "name"], "Other").unwrap();
        assert!(!covers(&without_error, &refused));
        let without_diff = parse(USER).with(&["summary", "diffs"], &Vec::<bool>::new()).unwrap();
        assert!(!covers(&without_diff, &parse(USER)));
        assert!(!covers(&parse("[1]"), &parse("[2]")));
        for (a, _) in WHOLE {
            for (b, _) in WHOLE {
                assert_eq!(covers(&parse(a), &parse(b)), a == b);
            }
        }
    }

    /// Members with the keys and the words of the tables at any place, some of them twice.
    fn any_members() -> impl Strategy<Value = Vec<String>> {
        let leaf = prop::sample::select(vec![
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e400",
            "-0",
            r#""""#,
            r#""x""#,
            r#""msg_1""#,
            r#""prt_1""#,
            "[]",
            "{}",
            r#""file""#,
            r#""symbol""#,
            r#""completed""#,
            r#""error""#,
            r#""APIError""#,
            r#""added""#,
            r#""\ud83d""#,
        ]);
        let value = leaf.prop_map(str::to_owned).prop_recursive(4, 60, 8, |inner| {
            prop_oneof![
                1 => prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                4 => prop::collection::vec(member(inner), 0..8)
                    .prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        });
        prop::collection::vec(member(value), 0..8)
    }

    fn member(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "id",
            "time",
            "created",
            "start",
            "end",
            "error",
            "name",
            "data",
            "message",
            "isRetryable",
            "agent",
            "mode",
            "model",
            "modelID",
            "providerID",
            "parentID",
            "path",
            "cwd",
            "cost",
            "tokens",
            "cache",
            "read",
            "summary",
            "diffs",
            "additions",
            "status",
            "text",
            "value",
            "source",
            "range",
            "files",
            "metadata",
            "state",
            "input",
            "output",
            "title",
            "attachments",
            "tools",
            "type",
            "role",
            "\\u0061gent",
            "\\ud83d",
            "",
        ]);
        (key, value).prop_map(|(key, value)| format!("\"{key}\": {value}"))
    }

    proptest! {
        #[test]
        fn anything_is_completed_once_and_covered(members in any_members(), kind in 0..WHOLE.len()) {
            let members = members.join(",");
            check(&parse(&format!("{{{members}}}")));
            let (text, _) = WHOLE[kind];
            // Behind the one member that says of which kind the object is, and behind all, some of which are replaced.
            let ends = [text.find(','), text.rfind('}')];
            for end in ends.into_iter().flatten().filter(|_| !members.is_empty()) {
                check(&parse(&format!("{},{members}}}", &text[..end])));
            }
        }
    }
}
