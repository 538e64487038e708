//! Sessions made with the facade, in the hands of the real OpenCode.

use annals::Store;
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::{Document, Key};
use annals_testkit::model::{ModelServer, Playbook, RequestKind, Turn};
use annals_testkit::opencode::{Lab, OpenCode};

use super::kit::export;

const PROMPT: &str = "Remember the number 4711.";

fn lab(version: &str) -> (ModelServer, Lab) {
    let playbook = Playbook::builtin()
        .scenario("recall", [Turn::text("You said it.")])
        .prompt("What did I say", "recall");
    let model = ModelServer::start(playbook).unwrap();
    let lab = Lab::new(&OpenCode::version(version));
    lab.configure(&model);
    (model, lab)
}

/// Continues a session of the facade's with the real OpenCode, in the home that `make` makes.
fn continued_by(version: &str, make: impl Fn(&Lab) -> Store) {
    let (model, lab) = lab(version);
    let repository = lab.repo("shop", &[("README.md", "# Shop\n")]);
    // By this address OpenCode 1.18 knows the repository; earlier versions go by its first commit.
    lab.git(&repository, &["remote", "add", "origin", "https://github.com/acme/shop.git"]);
    let store = make(&lab);
    let session = store.create_session(&repository).title("A number").save().unwrap();
    let prompt = session.prompt(PROMPT).model("lab/lab-large").save().unwrap();
    let id = session.id().as_str();

    let listed = lab.session_list(&repository);
    assert_eq!(
        (&listed[0]["id"], &listed[0]["title"]),
        (&id.into(), &"A number".into()),
        "{version}: {listed}"
    );
    let exported = lab.export(&repository, id);
    assert_eq!(
        String::from_utf8_lossy(&exported),
        String::from_utf8_lossy(&export(store.home(), id)),
        "{version}"
    );

    lab.run(&repository, &["--session", id, "--model", "lab/lab-large", "What did I say?"]);
    let chat = model.requests().into_iter().find(|request| request.kind == RequestKind::Chat).unwrap();
    assert!(chat.conversation().text().contains(PROMPT), "{version}");
    let store = Store::open(store.home().url().path().unwrap()).unwrap();
    let continued = store.session(id).unwrap();
    let messages: Vec<_> = continued.messages().map(Result::unwrap).collect();
    let said: Vec<_> = messages.iter().map(|message| (message.role(), message.text())).collect();
    let [(first, asked), (second, again), (third, answer)] = &said[..] else { panic!("{version}: {said:?}") };
    assert_eq!([first, second, third], ["user", "user", "assistant"], "{version}");
    assert_eq!((messages[0].id(), asked.as_str()), (&prompt, PROMPT), "{version}");
    assert!(again.contains("What did I say?") && answer.contains("You said it."), "{version}: {said:?}");
    assert_eq!(continued.title(), "A number", "{version}");

    // What OpenCode writes itself has the same members, but for those that it adds later.
    let names = |document: &Document| -> Vec<String> {
        let names = document.root().members().map(|(name, _)| name.to_string());
        names.filter(|name| !["summary", "permission"].contains(&name.as_str())).collect()
    };
    let [ours, theirs] = [0, 1].map(|n| messages[n].record());
    assert_eq!(names(&ours.stored.document), names(&theirs.stored.document), "{version}");
    assert_eq!(names(&ours.parts[0].document), names(&theirs.parts[0].document), "{version}");
    let id = lab.run(&repository, &["--model", "lab/lab-large", "--title", "Its own", "hello"]);
    let own = store.session(&id).unwrap();
    assert_eq!(own.project(), session.project(), "{version}");
    assert_eq!(
        (own.directory(), own.record().info.version()),
        (session.directory(), Some(version)),
        "{version}"
    );
    assert_eq!(session.record().info.version(), Some(version));
    let ours = &continued.record().stored.document;
    assert_eq!(names(ours), names(&own.record().stored.document), "{version}");
    assert_eq!(store.home().projects().unwrap().value.len(), 1, "{version}");
    assert!(store.home().document(&Key::Project(own.project().clone())).unwrap().is_some(), "{version}");

    // Outside of any repository.
    let plain = lab.directory("plain", &[("a.txt", "x")]);
    let session = store.create_session(&plain).save().unwrap();
    session.prompt(PROMPT).model("lab/lab-large").save().unwrap();
    let exported = lab.export(&plain, session.id().as_str());
    assert_eq!(exported, export(store.home(), session.id().as_str()), "{version}");
}

#[test]
fn a_session_of_the_facade_is_continued_in_files() {
    continued_by("1.1.65", |lab| OpencodeDirectory::open_or_create(&lab.data()).unwrap().into());
}

#[test]
fn a_session_of_the_facade_is_continued_in_a_database_of_1_2() {
    continued_by("1.2.27", |lab| {
        let path = lab.data().join("opencode.db");
        OpencodeDatabase::open_or_create(&path, Generation::Portable).unwrap().into()
    });
}

#[test]
fn a_session_of_the_facade_is_continued_in_a_database_of_1_18() {
    continued_by("1.18.33", |lab| {
        let path = lab.data().join("opencode.db");
        OpencodeDatabase::open_or_create(&path, Generation::Latest).unwrap().into()
    });
}
