//! Homes that real OpenCode wrote are read as real OpenCode reads them.

use annals::home::Read;
use annals::model::Document;
use annals::query::SessionQuery;
use annals_testkit::Fixture;

use super::kit::{export, open};

/// Byte for byte, which is more than the same values in the same order.
#[test]
fn every_export_is_what_the_real_one_printed() {
    for name in Fixture::FLAT.into_iter().chain(["opencode-0.5.29"]) {
        let fixture = Fixture::unpack(name);
        let home = open(fixture.home());
        let mut n_refused = 0;
        for (id, expected) in fixture.exports() {
            let ours = export(&home, &id);
            // OpenCode finds a session only from its repository; where that is gone it refuses. We do not.
            if expected.is_empty() {
                n_refused += 1;
                continue;
            }
            assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&expected), "{name} {id}");
        }
        assert_eq!(n_refused, if name == "opencode-0.5.29" { 0 } else { 1 }, "{name}");
    }
}

#[test]
fn every_document_can_be_read_and_written_back_byte_for_byte() {
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        let files = fixture.stored_files();
        let documents: Vec<_> =
            files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
        assert!(documents.len() > 1900, "{name}: {}", documents.len());
        for path in documents {
            let bytes = std::fs::read(path).unwrap();
            let document =
                Document::parse(bytes.clone()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(document.bytes(), bytes);
            // What we would write for the same value is what OpenCode wrote.
            assert_eq!(Document::new(&document).bytes(), bytes, "{}", path.display());
        }
    }
}

#[test]
fn the_sessions_are_those_the_real_server_lists() {
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        let home = open(fixture.home());
        let found = home.sessions(&SessionQuery::default()).unwrap();
        assert!(found.quarantined.is_empty());
        let counts: serde_json::Value =
            serde_json::from_slice(&std::fs::read(fixture.home().join("counts.json")).unwrap()).unwrap();
        assert_eq!(found.value.len() as u64, counts["sessions"].as_u64().unwrap(), "{name}");
    }
}

/// Lenses know every field that OpenCode writes, and its order: a document looked at and written again is the same text.
#[test]
fn lenses_know_every_field_and_its_order() {
    use annals::model::lens::{FileDiff, Message, Part, Project, Session, Todo};
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        let mut n_documents = 0;
        for path in fixture.stored_files() {
            let Ok(document) = Document::parse(std::fs::read(&path).unwrap()) else { continue };
            let kind =
                path.strip_prefix(fixture.home().join("storage")).unwrap().components().next().unwrap();
            let again = match kind.as_os_str().to_str().unwrap() {
                "project" => Document::new(&document.lens::<Project<'_>>()),
                "session" => Document::new(&document.lens::<Session<'_>>()),
                "message" => Document::new(&document.lens::<Message<'_>>()),
                "part" => Document::new(&document.lens::<Part<'_>>()),
                "todo" => Document::new(&document.lens::<Vec<Todo<'_>>>()),
                "session_diff" => Document::new(&document.lens::<Vec<FileDiff<'_>>>()),
                _ => continue,
            };
            n_documents += 1;
            // Fields of projects and sessions that were set later stand where they were first set.
            if ["project", "session"].contains(&kind.as_os_str().to_str().unwrap()) {
                assert!(annals::model::json::same_value(again.root(), document.root()), "{}", path.display());
            } else {
                assert_eq!(again.text(), document.text(), "{}", path.display());
            }
        }
        assert!(n_documents > 1900, "{n_documents}");
    }
}
