//! `annals resume` starts the real OpenCode on the right session, and says what is in the way where it cannot.

use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode};

use super::kit::{AnnalsCommand, User, plain};

/// annals in the surroundings of an OpenCode.
fn annals(lab: &Lab, arguments: &[&str]) -> AnnalsCommand {
    let command = plain(lab.root(), arguments);
    lab.env().into_iter().fold(command, |command, (name, value)| command.env(&name, value))
}

#[test]
fn the_real_opencode_continues_the_session() {
    for version in ["1.1.65", "1.2.27", "1.18.33"] {
        let playbook = Playbook::builtin()
            .scenario("first", [Turn::text("The cart is empty.")])
            .scenario("other", [Turn::text("Something else.")])
            .scenario("second", [Turn::text("It is fixed now.")])
            .prompt("What about the cart", "first")
            .prompt("Another matter", "other")
            .prompt("Please mend it", "second");
        let model = ModelServer::start(playbook).unwrap();
        let lab = Lab::new(&OpenCode::version(version));
        lab.configure(&model);
        let shop = lab.repo("shop", &[("README.md", "# shop\n")]);
        let notes = lab.repo("notes", &[("README.md", "# notes\n")]);
        let session = lab.run(&shop, &["--model", "lab/lab-large", "What about the cart?"]);
        let other = lab.run(&notes, &["--model", "lab/lab-large", "Another matter."]);
        assert_ne!(session, other);

        let binary = lab.opencode().binary().to_str().unwrap().to_owned();
        let printed = annals(&lab, &["resume", &session, "--print", "--program", &binary]).run().ok().text();
        assert_eq!(printed.trim_end(), format!("cd {} && {binary} --session {session}", shop.display()));
        let n_before = model.requests().len();
        let ran = annals(&lab, &["resume", "--program", &binary, &session, "Please mend it."]).run();
        assert_eq!(ran.code, 0, "{version}: {ran}");
        let sent = model.requests().into_iter().skip(n_before).map(|request| request.conversation().text());
        let sent: Vec<String> = sent.collect();
        assert!(sent.iter().any(|text| text.contains("What about the cart?")), "{version}: {sent:?}");
        let shown = annals(&lab, &["show", &session]).run().ok().text();
        assert!(shown.contains("It is fixed now."), "{version}: {shown}");
        let untouched = annals(&lab, &["show", &other]).run().ok().text();
        assert!(!untouched.contains("It is fixed now."), "{version}: {untouched}");
    }
}

#[test]
fn what_is_in_the_way_is_said() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Fix the cart", "Look", "Done");
    let gone = user.annals(&["resume", "last"]).run();
    assert_eq!(gone.code, 1, "{gone}");
    assert!(gone.stderr.contains("does not exist") && gone.stderr.contains("--dir"), "{gone}");
    let dir = user.root().to_str().unwrap().to_owned();
    let missing = user.annals(&["resume", "last", "--dir", &dir, "--program", "no-such-agent"]).run();
    assert_eq!(missing.code, 1, "{missing}");
    assert!(missing.stderr.contains("cannot find no-such-agent"), "{missing}");
    let json = user.annals(&["resume", "last", "--dir", &dir, "--json"]).run().ok().json();
    assert_eq!(json["command"], serde_json::json!(["opencode", "--session", "ses_36aaaaffe1"]));
    let _ = user.annals(&["rm", "--yes", "last"]).run().ok();
    let deleted = user.annals(&["resume", "ses_36aaaaffe1", "--dir", &dir]).run();
    assert!(deleted.stderr.contains("annals restore ses_36aaaaffe1"), "{deleted}");
    // Nobody can be asked, so a session must be named.
    let unnamed = user.annals(&["resume"]).run();
    assert_eq!(unnamed.code, 2, "{unnamed}");
}
