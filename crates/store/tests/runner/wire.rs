//! JSON shapes: docs/json.md has a table of the fields of each, made from the comments in `src/wire`, and they serialize as it says.

mod examples;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;

/// A struct of `src/wire`.
struct Shape {
    purpose: String,
    fields: Vec<Field>,
}

struct Field {
    /// Name in JSON.
    name: String,
    /// Type in Rust, without references and lifetimes.
    rust: String,
    meaning: String,
    /// Whether the fields of its type stand in its place.
    is_flat: bool,
}

/// The shapes by name, as the source has them.
fn shapes() -> BTreeMap<String, Shape> {
    let root = annals_testkit::workspace().join("crates/store/src/wire");
    let mut shapes = BTreeMap::new();
    for file in annals_testkit::files_below(&root) {
        let text = std::fs::read_to_string(&file).unwrap();
        let n_known = shapes.len();
        read_shapes(&text, &mut shapes);
        let n_structs = text.matches("Serialize)]").count();
        assert_eq!(shapes.len() - n_known, n_structs, "{}: not every struct was read", file.display());
    }
    shapes
}

fn read_shapes(text: &str, shapes: &mut BTreeMap<String, Shape>) {
    let (mut comment, mut attributes) = (Vec::new(), String::new());
    let mut shape: Option<(String, Shape, bool)> = None;
    for line in text.lines().map(str::trim) {
        if let Some(line) = line.strip_prefix("/// ") {
            comment.push(line);
            continue;
        }
        if line.starts_with("#[") {
            attributes.push_str(line);
            continue;
        }
        let words = comment.join(" ");
        if let Some(name) = line.strip_prefix("pub struct ") {
            let name = name.split(['<', ' ']).next().unwrap_or_default().to_owned();
            let is_camel = attributes.contains("rename_all = \"camelCase\"");
            shape = Some((name, Shape { purpose: words, fields: Vec::new() }, is_camel));
        } else if line == "}"
            && let Some((name, shape, _)) = shape.take()
        {
            shapes.insert(name, shape);
        } else if let (Some((_, shape, is_camel)), Some(field)) = (&mut shape, line.strip_prefix("pub ")) {
            let (name, rust) = field.trim_end_matches(',').split_once(": ").unwrap();
            let renamed = attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
            shape.fields.push(Field {
                name: match renamed {
                    Some(renamed) => renamed.to_owned(),
                    None if *is_camel => camel(name),
                    None => name.to_owned(),
                },
                rust: rust.replace("&'static ", "").replace("&'a ", "").replace("<'a>", ""),
                meaning: words,
                is_flat: attributes.contains("flatten"),
            });
        }
        comment.clear();
        attributes.clear();
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| format!("{name}{}{}", word[..1].to_uppercase(), &word[1..]))
}

/// A type as JSON has it.
enum Type<'r> {
    Text,
    Number,
    Time,
    Boolean,
    Stored,
    OrNull(Box<Type<'r>>),
    Array(Box<Type<'r>>),
    Map(Box<Type<'r>>),
    Shape(&'r str),
}

fn type_of(rust: &str) -> Type<'_> {
    let inside = |name: &str| rust.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
    let boxed = |rust| Box::new(type_of(rust));
    if let Some(inner) = inside("Option") {
        return Type::OrNull(boxed(inner));
    }
    if let Some(inner) = inside("Vec") {
        return Type::Array(boxed(inner));
    }
    if let Some(inner) = inside("BTreeMap") {
        return Type::Map(boxed(inner.split_once(", ").unwrap().1));
    }
    if let Some(inner) = rust.strip_prefix('[').and_then(|rust| rust.strip_suffix(']')) {
        return Type::Array(boxed(inner.split(';').next().unwrap_or_default()));
    }
    match rust {
        "str" | "String" => Type::Text,
        "bool" => Type::Boolean,
        "Millis" => Type::Time,
        "RawValue" => Type::Stored,
        "usize" | "u32" | "u64" | "i64" | "f32" | "f64" => Type::Number,
        shape => Type::Shape(shape),
    }
}

impl Type<'_> {
    fn words(&self) -> String {
        match self {
            Type::Text => "string".to_owned(),
            Type::Number => "number".to_owned(),
            Type::Time => "time".to_owned(),
            Type::Boolean => "boolean".to_owned(),
            Type::Stored => "JSON as stored".to_owned(),
            Type::OrNull(inner) => format!("{} or null", inner.words()),
            Type::Array(inner) => format!("array of {}", inner.words()),
            Type::Map(inner) => format!("object of {}", inner.words()),
            Type::Shape(name) => format!("[{name}](#{})", name.to_lowercase()),
        }
    }
}

const BEGIN: &str = "<!-- shape ";
const END: &str = "<!-- end of shape -->";

/// What stands in the documentation about a shape.
fn section(shapes: &BTreeMap<String, Shape>, sections: &BTreeSet<&str>, name: &str) -> String {
    let shape = shapes.get(name).unwrap_or_else(|| panic!("docs/json.md has {name}, which is no shape"));
    let mut text = format!("### {name}\n\n{}\n\n| field | type | meaning |\n|---|---|---|\n", shape.purpose);
    add_rows(&mut text, shapes, sections, shape);
    text
}

fn add_rows(text: &mut String, shapes: &BTreeMap<String, Shape>, sections: &BTreeSet<&str>, shape: &Shape) {
    for Field { name, rust, meaning, is_flat } in &shape.fields {
        let words = type_of(rust).words();
        let _ = match is_flat {
            false => writeln!(text, "| `{name}` | {words} | {meaning} |"),
            true if sections.contains(rust.as_str()) => {
                writeln!(text, "| the fields of {words} | | {meaning} |")
            }
            true => {
                add_rows(text, shapes, sections, &shapes[rust]);
                continue;
            }
        };
    }
}

#[test]
fn docs_list_every_field() {
    let path = annals_testkit::workspace().join("docs/json.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let shapes = shapes();
    let named: Vec<&str> =
        written.split(BEGIN).skip(1).map(|rest| rest.split(" -->").next().unwrap_or_default()).collect();
    let sections: BTreeSet<&str> = named.iter().copied().collect();
    assert_eq!(sections.len(), named.len(), "a shape is described twice: {named:?}");
    assert_eq!(written.matches(END).count(), named.len(), "a description has no beginning");
    let fields = || shapes.values().flat_map(|shape| &shape.fields);
    for name in shapes.keys() {
        let is_inlined = fields().any(|field| field.is_flat && field.rust == *name);
        assert!(sections.contains(name.as_str()) || is_inlined, "docs/json.md has no section for {name}");
    }
    let mut pieces = written.split(BEGIN);
    let mut made = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once(" -->").unwrap();
        let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("the section of {name} has no end"));
        let _ = write!(made, "{BEGIN}{name} -->\n{}{END}{after}", section(&shapes, &sections, name));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    } else {
        assert!(written == made, "run UPDATE_DOCS=1 cargo test -p annals docs_list_every_field");
    }
}

/// Asserts that a value has exactly the fields of a shape, in order, and notes which shapes it shows.
fn expect_shape(shapes: &BTreeMap<String, Shape>, seen: &mut BTreeSet<String>, name: &str, value: &Value) {
    let object = value.as_object().unwrap_or_else(|| panic!("{name} is no object: {value}"));
    let fields = flat_fields(shapes, seen, name);
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(object.keys().collect::<Vec<_>>(), names, "{name}");
    for (field, value) in fields.iter().zip(object.values()) {
        expect_type(shapes, seen, &type_of(&field.rust), value, &format!("{name}.{}", field.name));
    }
}

fn flat_fields<'s>(
    shapes: &'s BTreeMap<String, Shape>,
    seen: &mut BTreeSet<String>,
    name: &str,
) -> Vec<&'s Field> {
    seen.insert(name.to_owned());
    let mut fields = Vec::new();
    for field in &shapes[name].fields {
        match field.is_flat {
            true => fields.extend(flat_fields(shapes, seen, &field.rust)),
            false => fields.push(field),
        }
    }
    fields
}

/// Asserts that a value is of a type. It must be filled, so that all of the type is seen.
fn expect_type(
    shapes: &BTreeMap<String, Shape>,
    seen: &mut BTreeSet<String>,
    kind: &Type<'_>,
    value: &Value,
    place: &str,
) {
    let is_right = match kind {
        Type::Text => value.is_string(),
        Type::Number | Type::Time => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::Stored => true,
        Type::OrNull(inner) => return expect_type(shapes, seen, inner, value, place),
        Type::Array(inner) => value.as_array().is_some_and(|items| {
            items.iter().for_each(|item| expect_type(shapes, seen, inner, item, place));
            // A tree ends somewhere.
            !items.is_empty() || seen.contains(inner.shape())
        }),
        Type::Map(inner) => value.as_object().is_some_and(|members| {
            members.values().for_each(|member| expect_type(shapes, seen, inner, member, place));
            !members.is_empty()
        }),
        Type::Shape(name) => {
            expect_shape(shapes, seen, name, value);
            true
        }
    };
    assert!(is_right, "{place} is {value}, not {}", kind.words());
}

impl Type<'_> {
    fn shape(&self) -> &str {
        if let Type::Shape(name) = self { name } else { "" }
    }
}

#[test]
fn shapes_serialize_as_documented() {
    let shapes = shapes();
    let mut seen = BTreeSet::new();
    for (name, value) in examples::examples() {
        expect_shape(&shapes, &mut seen, name, &value);
    }
    let all: BTreeSet<String> = shapes.into_keys().collect();
    assert_eq!(seen, all, "a shape without an example");
}
