//! The facade over every kind of home: what it lists, finds and writes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use annals::facade::{FindTextError, PromptError};
use annals::find::FindError;
use annals::home::ReadError;
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::json::Node;
use annals::model::{Document, Key};
use annals::query::Archived;
use annals::sync::{self, Stage, SyncOptions};
use annals::{Session, SqliteStore, Store};
use annals_testkit::Fixture;

use super::kit::{empty_database, empty_home, write};

const SHOP: &str = "/home/me/shop";
const PROMPT: &str = "The cart crashes when it is empty.";
const MODEL: &str = "anthropic/claude-sonnet-4-5";

/// An empty home of every kind.
fn stores() -> Vec<(&'static str, tempfile::TempDir, Store)> {
    let annals = tempfile::tempdir().unwrap();
    let store = Store::open(annals.path().join("annals.db")).unwrap();
    let (files, directory) = empty_home();
    let (portable, portable_database) = empty_database(Generation::Portable);
    let (latest, latest_database) = empty_database(Generation::Latest);
    vec![
        ("annals.db", annals, store),
        ("a directory", files, directory.into()),
        ("a database of 1.2.27", portable, portable_database.into()),
        ("a database of 1.18.33", latest, latest_database.into()),
    ]
}

fn titles(sessions: annals::facade::Sessions) -> Vec<String> {
    sessions.map(|session| session.unwrap().title().to_owned()).collect()
}

#[test]
fn a_session_is_made_prompted_listed_found_and_searched_in_every_home() {
    for (kind, _dir, store) in stores() {
        assert_eq!(store.sessions().count(), 0, "{kind}");
        let before = SystemTime::now() - Duration::from_secs(1);
        let made = store.create_session(SHOP).title("Fix the empty cart").save().unwrap();
        let message = made.prompt(PROMPT).model(MODEL).save().unwrap();
        assert_eq!(made.title(), "Fix the empty cart", "{kind}");
        assert_eq!((made.directory(), made.parent(), made.archived()), (Some(SHOP), None, None), "{kind}");
        assert_eq!(titles(store.sessions()), ["Fix the empty cart"], "{kind}");

        for wanted in ["last", made.id().as_str(), &made.id().as_str()[..12], "empty CART"] {
            let found = store.session(wanted).unwrap();
            assert_eq!(found.id(), made.id(), "{kind}: {wanted}");
            assert!(found.updated() >= made.created().unwrap() && found.updated() > before, "{kind}");
        }
        assert!(matches!(store.session("nothing"), Err(FindError::NoMatch { .. })), "{kind}");

        let [said] = &made.messages().collect::<Result<Vec<_>, _>>().unwrap()[..] else { panic!("{kind}") };
        assert_eq!(
            (said.id(), said.role().as_str(), said.text().as_str()),
            (&message, "user", PROMPT),
            "{kind}"
        );
        assert!(said.created() > before && said.unreadable().is_empty(), "{kind}");

        let hits: Vec<_> = store.search("cart crash").unwrap().map(Result::unwrap).collect();
        let [hit] = &hits[..] else { panic!("{kind}: {hits:?}") };
        assert_eq!(
            (hit.snippet(), hit.title(), hit.session_id()),
            (PROMPT, made.title(), made.id()),
            "{kind}"
        );
        assert_eq!((hit.message_id(), hit.session().unwrap().id()), (Some(&message), made.id()), "{kind}");
        assert_eq!(&hit.snippet()[hit.highlights()[0].clone()], "cart", "{kind}");
        assert_eq!(store.search("empty type:title").unwrap().count(), 1, "{kind}");
        assert!(matches!(store.search("("), Err(FindTextError::Query(_))), "{kind}");
        assert!(matches!(store.search("cart since:7d"), Err(FindTextError::Filter { .. })), "{kind}");
    }
}

#[test]
fn sessions_are_listed_as_they_are_wanted() {
    for (kind, _dir, store) in stores() {
        let parent = store.create_session(SHOP).title("Parent").save().unwrap();
        let child = store.create_session(format!("{SHOP}/web")).parent(&parent).save().unwrap();
        assert!(child.title().starts_with("Child session - 20") && child.title().ends_with('Z'), "{kind}");
        let other = store.create_session("/home/me/shop-copy").save().unwrap();
        assert!(other.title().starts_with("New session - 20"), "{kind}");
        // The parent becomes the one that was used last.
        std::thread::sleep(Duration::from_millis(5));
        parent.prompt(PROMPT).model(MODEL).save().unwrap();
        let ids = |sessions: annals::facade::Sessions| -> Vec<String> {
            sessions.map(|session| session.unwrap().id().to_string()).collect()
        };
        let [p, c, o] = [&parent, &child, &other].map(|session| session.id().to_string());
        assert_eq!(ids(store.sessions())[0], p, "{kind}");
        assert_eq!(ids(store.sessions().limit(1)), [p.as_str()], "{kind}");
        let in_shop: BTreeSet<_> = ids(store.sessions().directory(SHOP)).into_iter().collect();
        assert_eq!(in_shop, BTreeSet::from([p.clone(), c.clone()]), "{kind}");
        assert_eq!(ids(store.sessions().title("PAREN")), [p.as_str()], "{kind}");
        let roots: BTreeSet<_> = ids(store.sessions().roots()).into_iter().collect();
        assert_eq!(roots, BTreeSet::from([p, o]), "{kind}");
        assert_eq!(ids(store.sessions().project("global")).len(), 3, "{kind}");
        assert_eq!(ids(store.sessions().project("elsewhere")).len(), 0, "{kind}");
        assert_eq!(ids(store.sessions().archived(Archived::Only)).len(), 0, "{kind}");
        let hour = Duration::from_secs(3600);
        assert_eq!(ids(store.sessions().since(SystemTime::now() + hour)).len(), 0, "{kind}");
        assert_eq!(ids(store.sessions().until(SystemTime::now() + hour)).len(), 3, "{kind}");
        assert_eq!(child.parent().as_ref(), Some(parent.id()), "{kind}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error_after_everything_else() {
    let (dir, directory) = empty_home();
    let store = Store::from(directory);
    let session = store.create_session(SHOP).title("Whole").save().unwrap();
    let message = session.prompt(PROMPT).model(MODEL).save().unwrap();
    write(dir.path(), "storage/session/global/ses_torn.json", "{");
    let listed: Vec<_> = store.sessions().limit(1).collect();
    assert!(matches!(&listed[..], [Ok(_), Err(ReadError::Unreadable(_))]), "{listed:?}");

    write(dir.path(), &format!("storage/part/{message}/prt_torn.json"), "{");
    write(dir.path(), &format!("storage/message/{}/msg_torn.json", session.id()), "{");
    let messages: Vec<_> = session.messages().collect();
    assert!(matches!(&messages[..], [Ok(_), Err(ReadError::Unreadable(_))]), "{messages:?}");
    assert_eq!(messages[0].as_ref().unwrap().unreadable().len(), 1);
    let hits: Vec<_> = store.search("cart").unwrap().collect();
    assert_eq!(hits.iter().filter(|hit| hit.is_err()).count(), 3, "{hits:?}");
    assert_eq!(hits.iter().flatten().count(), 1, "{hits:?}");
}

#[test]
fn a_prompt_needs_a_model_that_can_be_asked() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session(SHOP).save().unwrap();
        for model in ["claude", "", "/claude", "anthropic/"] {
            let refused = session.prompt(PROMPT).model(model).save().unwrap_err();
            assert!(matches!(refused, PromptError::Model { .. }), "{kind}: {refused}");
        }
        let refused = session.prompt(PROMPT).save().unwrap_err();
        assert!(matches!(refused, PromptError::NoModel { .. }), "{kind}: {refused}");
        assert_eq!(session.messages().count(), 0, "{kind}");

        session.prompt("one").model("openrouter/meta/llama").agent("plan").save().unwrap();
        session.prompt("two").save().unwrap();
        let models: Vec<_> = session
            .messages()
            .map(|message| {
                let message = message.unwrap();
                let root = message.record().stored.document.root();
                let text = |path: &[&str]| root.at(path).unwrap().as_text().unwrap().to_string();
                (text(&["model", "providerID"]), text(&["model", "modelID"]), text(&["agent"]))
            })
            .collect();
        let expected = [("openrouter", "meta/llama", "plan"), ("openrouter", "meta/llama", "build")];
        assert_eq!(models, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())), "{kind}");

        let gone = store.create_session(SHOP).save().unwrap();
        let mut removal = annals::model::Transaction::new("remove it");
        removal.delete(&gone.record().stored);
        store.home().commit(removal).unwrap();
        let refused = gone.prompt(PROMPT).model(MODEL).save().unwrap_err();
        assert!(matches!(refused, PromptError::Gone { .. }), "{kind}: {refused}");
    }
}

#[test]
fn prompts_of_several_writers_are_all_stored() {
    for (kind, _dir, store) in stores() {
        let session = store.create_session(SHOP).save().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let session = &session;
                scope.spawn(move || {
                    for n in 0..5 {
                        session.prompt(format!("{writer} {n}")).model(MODEL).save().unwrap();
                    }
                });
            }
        });
        let said: BTreeSet<String> = session.messages().map(|message| message.unwrap().text()).collect();
        assert_eq!(said.len(), 20, "{kind}: {said:?}");
    }
}

/// The names of all members of a document, in order, those of objects inside it as `outer.inner`.
fn members(document: &Document) -> Vec<String> {
    fn add(node: Node<'_>, before: &str, found: &mut Vec<String>) {
        for (name, value) in node.members() {
            let name = format!("{before}{name}");
            add(value, &format!("{name}."), found);
            found.push(name);
        }
    }
    let mut found = Vec::new();
    add(document.root(), "", &mut found);
    found
}

/// The documents of a session: its own, and those of its prompts and their texts.
fn documents(session: &Session) -> [Vec<Document>; 3] {
    let mut found = [vec![session.record().stored.document.clone()], Vec::new(), Vec::new()];
    for message in session.messages().flatten().filter(|message| message.role() == "user") {
        found[1].push(message.record().stored.document.clone());
        found[2].extend(message.record().parts.iter().map(|part| part.document.clone()));
    }
    found
}

/// Members that OpenCode adds after it has made a document, or for what the facade does not offer.
fn is_made_later(name: &str) -> bool {
    let later =
        ["summary", "revert", "share", "permission", "format", "tools", "system", "variant", "metadata"];
    later.contains(&name.split('.').next().unwrap_or(name))
        || ["time.archived", "time.initialized"].contains(&name)
}

#[test]
fn documents_have_the_members_that_the_real_one_writes_in_its_order() {
    for fixture in ["opencode-1.1.65", "opencode-1.2.27", "opencode-1.18.33"] {
        let home = Fixture::unpack(fixture);
        let store = Store::open(home.home()).unwrap();
        let mut real: [BTreeSet<Vec<String>>; 3] = Default::default();
        for session in store.sessions().roots() {
            for (forms, documents) in real.iter_mut().zip(documents(&session.unwrap())) {
                forms.extend(documents.iter().map(|document| {
                    members(document).into_iter().filter(|name| !is_made_later(name)).collect()
                }));
            }
        }
        let session = store.create_session(SHOP).save().unwrap();
        session.prompt(PROMPT).model(MODEL).save().unwrap();
        let session = store.session(session.id().as_str()).unwrap();
        for ((noun, forms), ours) in ["session", "prompt", "text"].iter().zip(real).zip(documents(&session)) {
            let [ours] = &ours[..] else { panic!("{fixture}: {noun}: {ours:?}") };
            assert!(
                forms.contains(&members(ours)),
                "{fixture}: {noun}: {:?} is none of {forms:?}",
                members(ours)
            );
        }
        let version = session.record().info.version().unwrap();
        assert_eq!(format!("opencode-{version}"), fixture);
    }
}

#[test]
fn a_project_gets_the_record_that_the_real_one_writes() {
    let home = Fixture::unpack("opencode-1.1.65");
    let real = Store::open(home.home()).unwrap();
    let forms = |is_global: bool| -> BTreeSet<Vec<String>> {
        let records = real.home().projects().unwrap().value;
        let records = records.iter().filter(|record| record.key.project().unwrap().is_global() == is_global);
        let names = |document: &Document| members(document).into_iter().filter(|name| !is_made_later(name));
        records.map(|record| names(&record.document).collect()).collect()
    };
    let repository = tempfile::tempdir().unwrap();
    let path = repository.path().canonicalize().unwrap();
    let is_done = Command::new("git").args(["init", "-q"]).current_dir(&path).status().unwrap().success();
    assert!(is_done);
    std::fs::write(path.join(".git/opencode"), super::kit::PROJECT).unwrap();
    std::fs::create_dir(path.join("web")).unwrap();
    for (kind, _dir, store) in stores() {
        let plain = store.create_session(SHOP).save().unwrap();
        let inside = store.create_session(path.join("web")).save().unwrap();
        let again = store.create_session(&path).save().unwrap();
        assert!(plain.project().is_global(), "{kind}");
        assert_eq!(
            (inside.project().as_str(), again.project().as_str()),
            (super::kit::PROJECT, super::kit::PROJECT)
        );
        assert_eq!(store.sessions().project(path.to_str().unwrap()).count(), 2, "{kind}");
        for session in [plain, inside] {
            let key = Key::Project(session.project().clone());
            let record = store.home().document(&key).unwrap().unwrap().document;
            let worktree = record.root().get("worktree").unwrap().as_text().unwrap().to_string();
            let is_global = session.project().is_global();
            assert_eq!(worktree, if is_global { "/" } else { path.to_str().unwrap() }, "{kind}");
            if kind == "a directory" {
                assert!(forms(is_global).contains(&members(&record)), "{kind}: {record:?}");
            }
        }
    }
}

/// The index and the reading of documents agree about what a query finds.
#[test]
fn a_home_is_searched_as_its_store_would_be() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let opencode = OpencodeDirectory::open(fixture.home()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let annals = SqliteStore::open_or_create(&dir.path().join("annals.db")).unwrap();
    sync::sync(&annals, &[&opencode], SyncOptions::to(Stage::Text), &()).unwrap();
    let (indexed, read) = (Store::from(annals), Store::from(opencode));
    for query in [
        "shop",
        "read*",
        "\"projects shop\" -read",
        "\"shop api do\"*",
        "docs/note-1.md OR README.md",
        "the -shop role:assistant",
        "tool:bash",
        "type:title",
        "agent:build model:lab-large error",
    ] {
        let found = |store: &Store| -> BTreeSet<String> {
            let hits = store.search(query).unwrap().map(|hit| hit.unwrap().hit().clone());
            // A store also finds what OpenCode left behind: parts of messages that were deleted.
            let in_conversation = hits.filter(|hit| hit.message.is_none() || hit.role.is_some());
            let shown = |hit: annals::search::Hit| {
                format!("{} {:?} {:?} {:?} {:?}", hit.session, hit.message, hit.part, hit.role, hit.snippet)
            };
            in_conversation.map(shown).collect()
        };
        let (by_index, by_reading) = (found(&indexed), found(&read));
        let differing: Vec<_> = by_index.symmetric_difference(&by_reading).take(3).collect();
        assert!(differing.is_empty(), "{query}: {} and {}: {differing:#?}", by_index.len(), by_reading.len());
        assert!(!by_index.is_empty(), "{query}");
    }
    // More than one page of the index.
    assert!(indexed.search("the").unwrap().count() > 100);
}

#[test]
fn a_path_is_opened_as_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let is_absent = |path: &Path| Store::open(path).is_err_and(|error| error.is_absent());
    assert!(is_absent(&at("opencode.db")) && is_absent(&at("missing")) && is_absent(dir.path()));
    assert!(Store::open_existing(at("annals.db")).is_err() && Store::open_existing(at("diary.db")).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");

    // A store may have any name, and be in a directory that is not there yet.
    for name in ["annals.db", "deep/er/diary.db"] {
        let session = Store::open(at(name)).unwrap().create_session(SHOP).save().unwrap();
        let store = Store::open(at(name)).unwrap();
        assert!(store.annals().is_some());
        assert_eq!(store.session("last").unwrap().id(), session.id());
    }

    // The files are what OpenCode uses until there is a database.
    let data = at("opencode");
    let files = OpencodeDirectory::open_or_create(&data).unwrap();
    Store::from(files).create_session(SHOP).title("In a file").save().unwrap();
    assert_eq!(titles(Store::open(&data).unwrap().sessions()), ["In a file"]);
    let database = OpencodeDatabase::open_or_create(&data.join("opencode.db"), Generation::Latest).unwrap();
    Store::from(database).create_session(SHOP).title("In a row").save().unwrap();
    for (path, expected) in [
        (data.clone(), "In a row"),
        (data.join("opencode.db"), "In a row"),
        (data.join("storage"), "In a file"),
    ] {
        let store = Store::open(&path).unwrap();
        assert_eq!(titles(store.sessions()), [expected], "{}", path.display());
        assert!(store.annals().is_none());
    }
}
