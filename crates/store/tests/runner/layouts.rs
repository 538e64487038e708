//! The layouts there have been, and homes that hold several of them.

use annals::home::{CommitError, Read, Write};
use annals::model::Transaction;
use annals::query::SessionQuery;
use annals_testkit::Fixture;

use super::kit::{export, messages, open, session, snapshot, write};

#[test]
fn the_layout_before_0_6_is_read() {
    let fixture = Fixture::unpack("opencode-0.5.29");
    let home = open(fixture.home());
    let found = home.sessions(&SessionQuery::default()).unwrap();
    assert!(found.quarantined.is_empty());
    assert_eq!(
        found.value.len(),
        7,
        "six of a repository and one outside, which OpenCode's migration would lose"
    );
    let projects: std::collections::BTreeSet<_> =
        found.value.iter().map(|record| record.project.to_string()).collect();
    assert_eq!(projects.into_iter().collect::<Vec<_>>(), ["global", "home-dev-legacy-shop"]);
    let listed = fixture.expected_json("session-list-1.1.65.json");
    for row in listed.as_array().unwrap() {
        let record = session(&home, row["id"].as_str().unwrap());
        let title = record.stored.document.root().get("title").unwrap().as_text().unwrap().to_string();
        assert_eq!(title, row["title"].as_str().unwrap());
    }
}

#[test]
fn the_layout_before_0_6_is_not_written() {
    let fixture = Fixture::unpack("opencode-0.5.29");
    let home = open(fixture.home());
    let before = snapshot(fixture.home());
    let record = session(&home, "ses_e1f2d88b1ffe5yDSXCJwBZiFD9");
    let mut transaction = Transaction::new("rename");
    transaction.replace(&record.stored, record.stored.document.with(&["title"], "x").unwrap());
    assert!(matches!(home.commit(transaction), Err(CommitError::Unsupported(_))));
    assert_eq!(snapshot(fixture.home()), before);
}

/// OpenCode's migration copies sessions and leaves the old files in place.
#[test]
fn a_migrated_session_is_one_session_and_stays_gone_when_deleted() {
    let fixture = Fixture::unpack("opencode-0.5.29");
    let id = "ses_e1f2d88b1ffe5yDSXCJwBZiFD9";
    let old = fixture.home().join("project/home-dev-legacy-shop/storage/session");
    let new = fixture.home().join("storage");
    write(fixture.home(), "storage/migration", "2");
    write(
        &new,
        &format!("session/abc123/{id}.json"),
        std::fs::read(old.join(format!("info/{id}.json"))).unwrap(),
    );
    for message in std::fs::read_dir(old.join("message").join(id)).unwrap() {
        let path = message.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        write(&new, &format!("message/{id}/{name}"), std::fs::read(&path).unwrap());
    }
    let home = open(fixture.home());
    let all = home.sessions(&SessionQuery::default()).unwrap().value;
    assert_eq!(all.len(), 7);
    let record = session(&home, id);
    assert_eq!(record.project.as_str(), "abc123", "the copy that OpenCode uses counts");
    let removal = annals::remove::plan(&home, record).unwrap();
    annals::remove::carry_out(&home, &removal, "test").unwrap();
    let home = open(fixture.home());
    assert!(home.session(&super::kit::session_id(id)).unwrap().is_none());
    assert_eq!(home.sessions(&SessionQuery::default()).unwrap().value.len(), 6);
    let left: Vec<String> = snapshot(fixture.home())
        .into_keys()
        .filter(|name| name.contains(id) && !name.contains("expected"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

/// The layout that was described before OpenCode's own: a directory for each session, files without extension.
#[test]
fn the_per_session_layout_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let base = "session/session_44c5abc15ffe";
    write(
        dir.path(),
        &format!("{base}/meta.json"),
        r#"{"id":"session_44c5abc15ffe","title":"Learning","time":{"created":1736708258000,"updated":1736708275000}}"#,
    );
    write(
        dir.path(),
        &format!("{base}/message/msg_01abc123"),
        r#"{"id":"msg_01abc123","sessionID":"session_44c5abc15ffe","role":"user","agent":"build","time":{"created":1736708258000}}"#,
    );
    write(
        dir.path(),
        &format!("{base}/message/msg_02def456"),
        r#"{"id":"msg_02def456","role":"assistant","parentID":"msg_01abc123","time":{"created":1736708260000,"completed":null},"finish":"end-turn"}"#,
    );
    write(
        dir.path(),
        &format!("{base}/part/msg_01abc123/part_01xyz"),
        r#"{"id":"part_01xyz","type":"text","text":"help me"}"#,
    );
    write(
        dir.path(),
        &format!("{base}/part/msg_02def456/part_02aaa"),
        r#"{"id":"part_02aaa","type":"thinking","thinking":"hm"}"#,
    );
    write(
        dir.path(),
        &format!("{base}/part/msg_02def456/part_02bbb"),
        r#"{"id":"part_02bbb","type":"tool_use","name":"read_file","input":{"path":"x"}}"#,
    );
    let home = open(dir.path());
    let found = home.sessions(&SessionQuery::default()).unwrap();
    assert!(found.quarantined.is_empty(), "{:?}", found.quarantined);
    assert_eq!(found.value.len(), 1);
    let record = session(&home, "session_44c5abc15ffe");
    let (messages, quarantined) = messages(&home, &record);
    assert!(quarantined.is_empty());
    let places: Vec<_> =
        messages.iter().flat_map(|m| m.parts.iter().map(|part| part.place.clone())).collect();
    assert_eq!(
        places,
        ["part/msg_01abc123/part_01xyz", "part/msg_02def456/part_02aaa", "part/msg_02def456/part_02bbb"]
            .map(|p| format!("{base}/{p}"))
    );
    let exported = String::from_utf8(export(&home, "session_44c5abc15ffe")).unwrap();
    assert!(exported.contains("\"completed\": null"));
}

/// The path of `storage` itself is as good as that of the directory above it.
#[test]
fn the_storage_directory_itself_can_be_given() {
    let fixture = Fixture::unpack("opencode-1.0.185");
    let home = open(&fixture.home().join("storage"));
    assert_eq!(home.sessions(&SessionQuery::default()).unwrap().value.len(), 112);
}

/// What plugins keep in the same place is none of our business.
#[test]
fn unknown_directories_are_left_alone() {
    let (dir, home) = super::kit::empty_home();
    write(dir.path(), "storage/agent-usage-reminder/ses_1.json", "not json");
    write(dir.path(), "storage/rules-injector/x/y.json", "{}");
    write(dir.path(), "storage/session/global/ses_1.json", r#"{"id":"ses_1"}"#);
    let before = snapshot(dir.path());
    let removal = annals::remove::plan(&home, session(&home, "ses_1")).unwrap();
    annals::remove::carry_out(&home, &removal, "test").unwrap();
    let mut expected = before;
    expected.remove("storage/session/global/ses_1.json");
    assert_eq!(snapshot(dir.path()), expected);
}

/// `opencode import` files a session under the current project and leaves the document naming another.
#[test]
fn where_path_and_document_disagree_the_path_is_right() {
    let (dir, home) = super::kit::empty_home();
    write(dir.path(), "storage/session/here/ses_1.json", r#"{"id":"ses_1","projectID":"elsewhere"}"#);
    assert_eq!(session(&home, "ses_1").project.as_str(), "here");
    let query = |project: &str| SessionQuery {
        projects: vec![annals::model::id::ProjectId::parse(project).unwrap()],
        ..Default::default()
    };
    assert_eq!(home.sessions(&query("here")).unwrap().value.len(), 1);
    assert_eq!(home.sessions(&query("elsewhere")).unwrap().value.len(), 0);
}

/// A session filed under two projects is listed under each, and once in all.
#[test]
fn a_session_under_two_projects_is_one_session() {
    let (dir, home) = super::kit::empty_home();
    write(
        dir.path(),
        "storage/session/a/ses_1.json",
        r#"{"id":"ses_1","projectID":"a","title":"older","time":{"updated":1}}"#,
    );
    write(
        dir.path(),
        "storage/session/b/ses_1.json",
        r#"{"id":"ses_1","projectID":"a","title":"newer","time":{"updated":2}}"#,
    );
    let all = home.sessions(&SessionQuery::default()).unwrap().value;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].project.as_str(), "b");
    for project in ["a", "b"] {
        let query = SessionQuery {
            projects: vec![annals::model::id::ProjectId::parse(project).unwrap()],
            ..Default::default()
        };
        assert_eq!(home.sessions(&query).unwrap().value.len(), 1);
    }
}
