//! Entries of the text index, made from documents.

use std::cell::RefCell;

use annals_core::id::Millis;
use annals_core::json::Node;
use annals_core::lens::{Message, Session};
use annals_core::search::text::{searchable, weight};
use annals_core::{Document, Key};
use rusqlite::{Connection, OptionalExtension};
use tantivy::TantivyDocument;
use tantivy::schema::{Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};

use super::super::content;
use super::super::kind::Kind;
use super::super::numbers::{DocumentRow, SessionRow};
use crate::figures::{Figures, Role};

/// The name under which the tokenizer is known to tantivy.
pub(super) const TOKENIZER: &str = "annals";

/// Columns: the number of the document, that of its session, when its message was made, the weight of a hit in it.
pub(in super::super) const NUMBER: &str = "n";
pub(in super::super) const SESSION: &str = "session";
pub(in super::super) const MADE: &str = "made";
pub(in super::super) const WEIGHT: &str = "weight";

/// The fields, in the order in which [`schema`] has them.
const NUMBER_FIELD: Field = Field::from_field_id(0);
const SESSION_FIELD: Field = Field::from_field_id(1);
const MADE_FIELD: Field = Field::from_field_id(2);
const WEIGHT_FIELD: Field = Field::from_field_id(3);
/// The properties of a document, `role:user` and such.
pub(in super::super) const PROPERTY: Field = Field::from_field_id(4);
pub(in super::super) const TEXT: Field = Field::from_field_id(5);

/// Upper bound on the indexed beginning of a text; scanning finds the rest. OpenCode cuts the output of tools at 50 KB.
const MAX_TEXT: usize = 16 << 20;
/// Memory that an entry takes beside its text.
const ROOM: usize = 256;
/// Upper bound on a text buffer that is kept for the next document.
const MAX_SCRATCH: usize = 1 << 20;

pub(super) fn schema() -> Schema {
    let mut schema = Schema::builder();
    let column = || NumericOptions::default().set_fast();
    let text = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_fieldnorms(true)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let property = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic);
    schema.add_u64_field(NUMBER, column());
    schema.add_u64_field(SESSION, column());
    schema.add_i64_field(MADE, column());
    schema.add_u64_field(WEIGHT, column());
    schema.add_text_field("property", TextOptions::default().set_indexing_options(property));
    schema.add_text_field("text", TextOptions::default().set_indexing_options(text));
    schema.build()
}

/// A document as the index takes it, without its numbers.
#[derive(Debug)]
pub(crate) struct IndexEntry {
    document: TantivyDocument,
    /// The length of its text.
    pub(super) n_bytes: usize,
}

/// The properties that the parts of one message share; these parts come one after the other.
#[derive(Debug)]
pub(crate) struct IndexContext {
    message: DocumentRow,
    session: SessionRow,
    role: Role,
    made: Millis,
    properties: Vec<String>,
}

impl IndexContext {
    /// The context that a message gives. Its numbers are not known yet.
    pub(crate) fn of(figures: &Figures) -> IndexContext {
        let mut properties = Vec::new();
        match figures.role {
            Role::User => properties.push("role:user".to_owned()),
            Role::Assistant => properties.push("role:assistant".to_owned()),
            Role::Other => {}
        }
        properties.extend(figures.agent.as_ref().map(|agent| format!("agent:{}", agent.to_lowercase())));
        if let (Some(provider), Some(model)) = (&figures.provider, &figures.model) {
            properties.push(format!("model:{}/{}", provider.to_lowercase(), model.to_lowercase()));
        }
        IndexContext {
            message: DocumentRow::NO_OWNER,
            session: SessionRow::NONE,
            role: figures.role,
            made: figures.made,
            properties,
        }
    }
}

impl IndexEntry {
    /// The entry of a document. None if it has no text to be found. `context` is of the message that the document is, or
    /// belongs to.
    pub(crate) fn of(key: &Key, document: &Document, context: Option<&IndexContext>) -> Option<IndexEntry> {
        thread_local! {
            static TEXT_OF_DOCUMENT: RefCell<String> = const { RefCell::new(String::new()) };
        }
        TEXT_OF_DOCUMENT.with_borrow_mut(|text| {
            text.clear();
            searchable(key, document, &mut |piece| {
                let room = MAX_TEXT.saturating_sub(text.len());
                text.push_str(&piece[..piece.floor_char_boundary(room)]);
                text.push('\n');
            });
            let entry = (!text.is_empty()).then(|| IndexEntry::with_text(key, document, context, text));
            if text.capacity() > MAX_SCRATCH {
                *text = String::new();
            }
            entry
        })
    }

    fn with_text(key: &Key, document: &Document, context: Option<&IndexContext>, text: &str) -> IndexEntry {
        let mut entry = TantivyDocument::with_capacity(text.len() + ROOM);
        entry.add_text(TEXT, text);
        for property in context.iter().flat_map(|context| &context.properties) {
            entry.add_text(PROPERTY, property);
        }
        let mut made = context.map_or(0, |context| context.made);
        match key {
            Key::Part(..) => {
                for name in ["type", "tool"] {
                    if let Some(value) = document.root().get(name).and_then(Node::as_text) {
                        entry.add_text(PROPERTY, format!("{name}:{}", value.to_str().to_lowercase()));
                    }
                }
            }
            Key::Session(..) => {
                made = document.lens::<Session<'_>>().time.and_then(|time| time.updated).unwrap_or(0);
                entry.add_text(PROPERTY, "type:title");
            }
            _ => entry.add_text(PROPERTY, "type:message"),
        }
        let message = context.and_then(|context| match context.role {
            Role::User => Some(Message::User(Box::default())),
            Role::Assistant => Some(Message::Assistant(Box::default())),
            Role::Other => None,
        });
        entry.add_i64(MADE_FIELD, made);
        entry.add_u64(WEIGHT_FIELD, weight(key, document, message.as_ref()) as u64);
        IndexEntry { document: entry, n_bytes: text.len() }
    }

    /// This entry with the document's numbers, which it gets when it is stored.
    pub(super) fn numbered(self, n: DocumentRow, session: SessionRow) -> TantivyDocument {
        let mut document = self.document;
        document.add_u64(NUMBER_FIELD, n.0.unsigned_abs());
        document.add_u64(SESSION_FIELD, session.0.unsigned_abs());
        document
    }
}

/// The entry of a stored document, and the number of its session. None if the document has no text to be found.
pub(super) fn entry(
    connection: &Connection,
    n: DocumentRow,
    context: &mut Option<IndexContext>,
) -> rusqlite::Result<Option<(SessionRow, IndexEntry)>> {
    let row = connection
        .prepare_cached("SELECT kind, owner, hash, form, size, data FROM document WHERE n = ?1")?
        .query_row([n], |row| {
            Ok((
                Kind::from_number(row.get(0)?),
                row.get::<_, DocumentRow>(1)?,
                content::document(connection, n, row, 2)?,
            ))
        })
        .optional()?;
    let Some((Some(kind), owner, Some(document))) = row else { return Ok(None) };
    let message = match kind {
        Kind::Session => {
            return Ok(IndexEntry::of(&kind.any_key(), &document, None).map(|entry| (n.into(), entry)));
        }
        Kind::Message => n,
        Kind::Part => owner,
        _ => return Ok(None),
    };
    if context.as_ref().is_none_or(|context| context.message != message) {
        *context = context_of(connection, message)?;
    }
    let session = context.as_ref().map_or(SessionRow::NONE, |context| context.session);
    Ok(IndexEntry::of(&kind.any_key(), &document, context.as_ref()).map(|entry| (session, entry)))
}

fn context_of(connection: &Connection, message: DocumentRow) -> rusqlite::Result<Option<IndexContext>> {
    connection
        .prepare_cached(
            "SELECT m.session, m.role, m.made, m.agent, m.provider, m.model FROM document d \
             JOIN message m ON m.session = d.owner AND m.n = d.n WHERE d.n = ?1",
        )?
        .query_row([message], |row| {
            let figures = Figures {
                agent: row.get(3)?,
                provider: row.get(4)?,
                model: row.get(5)?,
                ..Figures::bare(Role::from_number(row.get(1)?), row.get(2)?)
            };
            Ok(IndexContext { message, session: row.get(0)?, ..IndexContext::of(&figures) })
        })
        .optional()
}
