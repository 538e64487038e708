//! docs/append.md lists every event and value that `src/turn/event.rs` declares.

use std::fmt::Write;

use annals::turn::TurnEvent;

/// A member of an event, or of a value that an event has.
struct Member {
    name: String,
    rust: String,
    meaning: String,
}

/// An event, or a value that an event has.
struct Declared {
    name: String,
    meaning: String,
    members: Vec<Member>,
}

fn source() -> String {
    std::fs::read_to_string(annals_testkit::workspace().join("crates/store/src/turn/event.rs")).unwrap()
}

fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}

/// The events, as the macro declares them.
fn events(source: &str) -> Vec<Declared> {
    let block = source.split("\nevents! {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut events: Vec<Declared> = Vec::new();
    let mut comment = Vec::new();
    for line in block.lines().map(str::trim) {
        if let Some(line) = line.strip_prefix("/// ") {
            comment.push(line);
        } else if line.contains(" = \"") {
            let name = quoted(line).unwrap().to_owned();
            events.push(Declared { name, meaning: comment.join(" "), members: Vec::new() });
            comment.clear();
        } else if let (Some((head, rust)), Some(event)) = (line.split_once("\": "), events.last_mut()) {
            let name = head.split('"').nth(1).unwrap().to_owned();
            let rust = rust.trim_end_matches(',').to_owned();
            event.members.push(Member { name, rust, meaning: comment.join(" ") });
            comment.clear();
        }
    }
    events
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| format!("{name}{}{}", word[..1].to_uppercase(), &word[1..]))
}

/// The values: structs, and the variants of the pieces of a prompt.
fn values(source: &str) -> Vec<Declared> {
    let mut values: Vec<Declared> = Vec::new();
    let (mut comment, mut attributes) = (Vec::new(), String::new());
    let (mut is_camel, mut is_default) = (false, false);
    let begin = source.find("/// A piece of a prompt.").unwrap();
    let end = source.find("/// Why a line is no event.").unwrap();
    for line in source[begin..end].lines().map(str::trim) {
        if let Some(line) = line.strip_prefix("/// ") {
            comment.push(line);
            continue;
        }
        if line.starts_with("#[") {
            attributes.push_str(line);
            continue;
        }
        let is_variant = line.ends_with(" {") && !line.starts_with("pub ");
        if let Some(name) = line.strip_prefix("pub struct ") {
            is_camel = attributes.contains("camelCase");
            is_default = attributes.contains("serde(default");
            let name = name.trim_end_matches(" {").trim_end_matches("Input").to_owned();
            values.push(Declared { name, meaning: comment.join(" "), members: Vec::new() });
        } else if is_variant {
            (is_camel, is_default) = (false, false);
            let name = format!("Prompt part `{}`", line.trim_end_matches(" {").to_lowercase());
            let kind = line.trim_end_matches(" {").to_lowercase();
            let meaning = comment.join(" ");
            let tag = Member { name: "type".to_owned(), rust: String::new(), meaning: format!("`{kind}`") };
            values.push(Declared { name, meaning, members: vec![tag] });
        } else if let (Some((field, rust)), Some(value)) =
            (line.trim_start_matches("pub ").split_once(": "), values.last_mut())
        {
            let renamed = attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
            let name = match renamed {
                Some(renamed) => renamed.to_owned(),
                None if is_camel => camel(field),
                None => field.to_owned(),
            };
            let rust = rust.trim_end_matches(',');
            let is_optional = is_default || attributes.contains("serde(default)");
            let rust = match is_optional && !rust.starts_with("Option<") {
                true => format!("Option<{rust}>"),
                false => rust.to_owned(),
            };
            value.members.push(Member { name, rust, meaning: comment.join(" ") });
        }
        comment.clear();
        attributes.clear();
    }
    values
}

/// A type in words.
fn words(rust: &str) -> String {
    let inside = |name: &str| rust.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
    if let Some(inner) = inside("Option") {
        return format!("{}, optional", words(inner));
    }
    if let Some(inner) = inside("Vec") {
        return format!("array of {}", words(inner));
    }
    match rust {
        "" | "String" | "Piece" => "string".to_owned(),
        "bool" => "boolean".to_owned(),
        "u16" | "u32" | "usize" | "f64" => "number".to_owned(),
        "Box<RawValue>" => "JSON".to_owned(),
        "(usize, Option<usize>)" => "array of two numbers, the second or null".to_owned(),
        "BTreeMap<String, bool>" => "object of booleans".to_owned(),
        "BTreeMap<String, String>" => "object of strings".to_owned(),
        "PromptInput" => "prompt parts".to_owned(),
        input => {
            let name = input.strip_suffix("Input").unwrap_or_else(|| panic!("no words for {input}"));
            format!("[{name}](#{})", name.to_lowercase())
        }
    }
}

fn sections(declared: &[Declared], quote: &str) -> String {
    let mut text = String::new();
    for Declared { name, meaning, members } in declared {
        let _ = write!(text, "\n### {quote}{name}{quote}\n\n{meaning}\n");
        if !members.is_empty() {
            text.push_str("\n| member | type | meaning |\n|---|---|---|\n");
        }
        for Member { name, rust, meaning } in members {
            let _ = writeln!(text, "| `{name}` | {} | {meaning} |", words(rust));
        }
    }
    text
}

#[test]
fn docs_list_every_event() {
    let path = annals_testkit::workspace().join("docs/append.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let source = source();
    let events = events(&source);
    let declared: Vec<(&str, Vec<&str>)> = events
        .iter()
        .map(|event| (&event.name[..], event.members.iter().map(|member| &member.name[..]).collect()))
        .collect();
    let known: Vec<(&str, Vec<&str>)> =
        TurnEvent::KINDS.iter().map(|(kind, members)| (*kind, members.to_vec())).collect();
    assert_eq!(declared, known);
    let mut made = written.clone();
    for (name, sections) in [("events", sections(&events, "`")), ("values", sections(&values(&source), ""))] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = made.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        made = format!("{before}{begin}{sections}{end}{after}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    } else {
        assert!(written == made, "run UPDATE_DOCS=1 cargo test -p annals docs_list_every_event");
    }
}

#[test]
fn docs_name_every_kind_of_error() {
    let source = annals_testkit::workspace().join("crates/store/src/turn/event_writer.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let kinds = source.split("pub fn kind(&self)").nth(1).unwrap().split("\n    }\n").next().unwrap();
    let kinds: Vec<&str> = kinds.split('"').skip(1).step_by(2).collect();
    assert!(kinds.len() > 18, "{kinds:?}");
    let docs = std::fs::read_to_string(annals_testkit::workspace().join("docs/append.md")).unwrap();
    for kind in kinds {
        assert!(docs.contains(&format!("`{kind}`")), "docs/append.md does not name {kind}");
    }
}
