//! Text that several documents share: a fork's documents are those of its origin with other ids.
//!
//! The table `shared` has such a text once, with nothing in the places of the ids. A document's row has the number of the text and its own ids.

use annals_core::Document;
use annals_core::json::Node;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{self, Damage, Packed};
use crate::state_hash::StateHash;

/// The members that differ between a document and its copy in a fork.
const IDS: [&str; 3] = ["id", "sessionID", "messageID"];

/// The text of a document that shares it, checked against its hash. `bytes` is the content of the document's row.
pub(super) fn unpack(
    connection: &Connection,
    bytes: &[u8],
    hash: StateHash,
) -> rusqlite::Result<Result<Vec<u8>, Damage>> {
    let Ok((number, ids)) = serde_json::from_slice::<(i64, Vec<String>)>(bytes) else {
        return Ok(Err(Damage::Shared));
    };
    let text = connection
        .prepare_cached("SELECT hash, form, size, data FROM shared WHERE n = ?1")?
        .query_row([number], |row| {
            let hash = row.get_ref(0)?.as_bytes_or_null()?.and_then(StateHash::read);
            let data = row.get_ref(3)?.as_bytes_or_null()?.unwrap_or_default();
            Ok(hash.and_then(|hash| codec::unpack(row.get(1).ok()?, row.get(2).ok()?, data, hash).ok()))
        })
        .optional()?
        .flatten();
    let whole = text.and_then(|text| Document::parse(text).ok()).and_then(|text| filled(&text, &ids));
    Ok(whole.filter(|whole| StateHash::of(whole) == hash).ok_or(Damage::Shared))
}

/// The content of the row of a document that shares a text.
pub(super) fn reference(number: i64, ids: &[String], document: &Document) -> Packed {
    let bytes = serde_json::to_vec(&(number, ids)).unwrap_or_default();
    let hash = StateHash::of(document.bytes());
    Packed { hash, form: codec::SHARED, size: document.bytes().len(), bytes }
}

/// The places of the ids in a document, in the order of its text: the range inside the quotes of each.
fn places(document: &Document) -> Vec<std::ops::Range<usize>> {
    let root = document.root();
    let mut places: Vec<std::ops::Range<usize>> = IDS
        .iter()
        .filter_map(|name| root.get(name))
        .filter(|value| value.as_text().is_some())
        .map(|value: Node<'_>| value.range().start + 1..value.range().end - 1)
        .collect();
    places.sort_by_key(|place| place.start);
    places
}

/// A document's text without its ids, and the ids as its text has them.
pub(super) fn cut(document: &Document) -> Option<(String, Vec<String>)> {
    let (text, places) = (document.text(), places(document));
    let mut rest = String::with_capacity(text.len());
    let mut ids = Vec::new();
    let mut end = 0;
    for place in places {
        rest.push_str(&text[end..place.start]);
        ids.push(text[place.clone()].to_owned());
        end = place.end;
    }
    rest.push_str(&text[end..]);
    // A text in which the ids are found elsewhere when they are empty cannot be put together again.
    let without = Document::parse(rest.clone().into_bytes()).ok()?;
    (filled(&without, &ids).as_deref() == Some(document.bytes())).then_some((rest, ids))
}

/// A text with ids in their places.
fn filled(text: &Document, ids: &[String]) -> Option<Vec<u8>> {
    let places = places(text);
    if places.len() != ids.len() {
        return None;
    }
    let mut whole = String::with_capacity(text.text().len() + 100);
    let mut end = 0;
    for (place, id) in places.iter().zip(ids) {
        whole.push_str(&text.text()[end..place.start]);
        whole.push_str(id);
        end = place.end;
    }
    whole.push_str(&text.text()[end..]);
    Some(whole.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_cut_out_and_put_back() {
        for text in [
            r#"{"id":"prt_1","sessionID":"ses_1","messageID":"msg_1","text":"id"}"#,
            r#"{"text": "x", "messageID": "m\u00e9", "id": "", "state": {"id": "kept"}}"#,
            r#"{"id":1,"sessionID":null}"#,
            "[]",
        ] {
            let document = Document::parse(text.as_bytes().to_vec()).unwrap();
            let (rest, ids) = cut(&document).unwrap();
            let rest = Document::parse(rest.into_bytes()).unwrap();
            assert_eq!(filled(&rest, &ids).unwrap(), text.as_bytes());
        }
        let document = Document::parse(br#"{"id":"a","id":"b"}"#.to_vec()).unwrap();
        assert_eq!(cut(&document).unwrap(), (r#"{"id":"a","id":""}"#.to_owned(), vec!["b".to_owned()]));
    }
}
