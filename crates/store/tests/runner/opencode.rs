//! Sessions made with the library, in the hands of the real OpenCode; and what it thinks of directories.

use annals::home::Read;
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::id::ProjectId;
use annals::query::SessionQuery;
use annals_testkit::model::{ModelServer, Playbook, RequestKind, Turn};
use annals_testkit::opencode::{Lab, OpenCode};

use super::kit::{Sample, export, messages, open, session};

fn lab(version: &str) -> (ModelServer, Lab) {
    let playbook = Playbook::builtin()
        .scenario("recall", [Turn::text("You said it.")])
        .prompt("What did I say", "recall");
    let model = ModelServer::start(playbook).unwrap();
    let lab = Lab::new(&OpenCode::version(version));
    lab.configure(&model);
    (model, lab)
}

#[test]
fn a_session_made_here_is_listed_exported_and_continued() {
    for version in ["1.0.185", "1.1.65"] {
        let (model, lab) = lab(version);
        let repository = lab.repo("shop", &[("README.md", "# Shop\n")]);
        let identity = annals::project::identify(&repository, "git".as_ref()).unwrap();
        let home = OpencodeDirectory::open_or_create(&lab.data()).unwrap();
        let mut sample = Sample::new(annals::ids::new_session(), repository.to_str().unwrap());
        sample.project = identity.id;
        sample.store(&home, "Remember the number 4711.", "I will.");
        let id = sample.session.as_str();
        let listed = lab.session_list(&repository);
        assert_eq!(listed[0]["id"], id, "{version}: {listed}");
        assert_eq!(listed[0]["title"], "A sample");
        assert_eq!(
            String::from_utf8_lossy(&lab.export(&repository, id)),
            String::from_utf8_lossy(&export(&home, id))
        );
        lab.run(&repository, &["--session", id, "--model", "lab/lab-large", "What did I say?"]);
        let chat = model.requests().into_iter().find(|request| request.kind == RequestKind::Chat).unwrap();
        let sent = chat.conversation().text();
        assert!(sent.contains("Remember the number 4711.") && sent.contains("I will."), "{version}: {sent}");
        let home = open(&lab.data());
        let (messages, quarantined) = messages(&home, &session(&home, id));
        assert!(quarantined.is_empty());
        assert_eq!(messages.len(), 4, "{version}");
        assert!(messages[3].parts.iter().any(|part| part.document.text().contains("You said it.")));
        assert_eq!(
            String::from_utf8_lossy(&lab.export(&repository, id)),
            String::from_utf8_lossy(&export(&home, id))
        );
    }
}

/// Each directory's sessions land in the project that we, too, would look for.
#[test]
fn directories_belong_to_the_projects_the_real_one_puts_them_in() {
    let (_model, lab) = lab("1.1.65");
    let main = lab.repo("main", &[("README.md", "x")]);
    lab.git(&main, &["worktree", "add", "-q", "../linked", "-b", "hotfix"]);
    std::fs::create_dir_all(main.join("deep/er")).unwrap();
    let fresh = lab.directory("fresh", &[("a.txt", "x")]);
    lab.git(&fresh, &["init", "-q"]);
    let plain = lab.directory("plain", &[("a.txt", "x")]);
    let two_roots = lab.repo("roots", &[("README.md", "y")]);
    lab.git(&two_roots, &["checkout", "-q", "--orphan", "other"]);
    lab.git(&two_roots, &["commit", "-q", "-m", "another root"]);
    let linked = main.parent().unwrap().join("linked");
    for directory in [main.join("deep/er"), linked, fresh, plain, two_roots] {
        let id = lab.run(&directory, &["--model", "lab/lab-large", "--title", "where am I", "hello"]);
        let home = open(&lab.data());
        let identity = annals::project::identify(&directory, "git".as_ref()).unwrap();
        assert_eq!(session(&home, &id).project, identity.id, "{}", directory.display());
        let project = home.document(&annals::model::Key::Project(identity.id.clone())).unwrap().unwrap();
        let worktree = project.document.root().get("worktree").unwrap().as_text().unwrap().to_string();
        assert_eq!(worktree, identity.worktree.display().to_string(), "{}", directory.display());
    }
    let home = open(&lab.data());
    let global = SessionQuery { projects: vec![ProjectId::global()], ..Default::default() };
    assert_eq!(home.sessions(&global).unwrap().value.len(), 2);
}
