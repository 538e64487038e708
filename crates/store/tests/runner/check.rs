//! A check finds what is wrong, and nothing else.

use annals::check::ProblemKind;
use annals::home::Read;
use annals_testkit::Fixture;

use super::kit::{PROJECT, Sample, empty_home, messages, open, session, write};

fn kinds(home: &dyn Read, now: i64) -> Vec<(ProblemKind, String)> {
    home.inspect()
        .unwrap()
        .check(now, &|| {})
        .unwrap()
        .into_iter()
        .map(|problem| (problem.kind, problem.place))
        .collect()
}

#[test]
fn a_home_in_order_has_no_problems() {
    let (dir, home) = empty_home();
    Sample::new(annals::ids::new_session(), "/home/dev/shop").store(&home, "a", "b");
    write(dir.path(), &format!("storage/project/{PROJECT}.json"), "{}");
    assert_eq!(kinds(&home, annals::ids::now() + 86_400_000), []);
}

#[test]
fn each_kind_of_problem_is_found_with_its_place() {
    let (dir, home) = empty_home();
    let sample = Sample::new(annals::ids::new_session(), "/home/dev/shop");
    sample.store(&home, "a", "b");
    let id = &sample.session;
    let answer = messages(&home, &session(&home, id.as_str())).0[1].stored.place.clone();
    let message = answer.rsplit('/').next().unwrap().trim_end_matches(".json").to_owned();
    write(dir.path(), &format!("storage/part/{message}/prt_1.json"), "");
    write(
        dir.path(),
        &format!("storage/part/{message}/prt_2.json"),
        format!(
            r#"{{"id":"prt_other","sessionID":"{id}","messageID":"{message}","type":"tool","tool":"bash","state":{{"status":"running"}}}}"#
        ),
    );
    write(
        dir.path(),
        "storage/part/msg_gone/prt_1.json",
        r#"{"id":"prt_1","sessionID":"ses_gone","type":"text"}"#,
    );
    write(dir.path(), "storage/message/ses_gone/msg_1.json", "{}");
    write(dir.path(), "storage/todo/ses_gone.json", "[]");
    write(dir.path(), "storage/todo/ses_x.json.tmp", "[]");
    write(
        dir.path(),
        "storage/session/elsewhere/ses_2.json",
        r#"{"id":"ses_2","projectID":"there","parentID":"ses_gone"}"#,
    );
    write(
        dir.path(),
        "storage/message/ses_2/msg_5.json",
        r#"{"id":"msg_5","sessionID":"ses_2","role":"assistant","parentID":"msg_4","time":{"created":1}}"#,
    );
    write(
        dir.path(),
        &format!("storage/session/elsewhere/{id}.json"),
        format!(r#"{{"id":"{id}","projectID":"elsewhere","time":{{"updated":1}}}}"#),
    );
    let mut found: Vec<ProblemKind> =
        kinds(&home, annals::ids::now() + 86_400_000).into_iter().map(|(kind, _)| kind).collect();
    found.dedup();
    use ProblemKind::*;
    assert_eq!(
        found,
        [
            Unreadable,
            OrphanParts,
            OrphanMessages,
            OrphanBeside,
            IdMismatch,
            ProjectMismatch,
            DuplicateSession,
            MissingProject,
            MissingParent,
            StuckTool,
            UnfinishedMessage,
            Leftover
        ]
    );
    let places = kinds(&home, annals::ids::now() + 86_400_000);
    let place = |wanted: ProblemKind| places.iter().find(|(kind, _)| *kind == wanted).unwrap().1.clone();
    assert_eq!(place(Unreadable), format!("storage/part/{message}/prt_1.json"));
    assert_eq!(place(OrphanParts), "storage/part/msg_gone");
    assert_eq!(place(StuckTool), format!("storage/part/{message}/prt_2.json"));
}

/// An answer without an end is being written, until its session has rested for a while.
#[test]
fn an_agent_at_work_is_not_a_problem() {
    let (dir, home) = empty_home();
    let now = annals::ids::now();
    write(dir.path(), "storage/project/global.json", "{}");
    write(
        dir.path(),
        "storage/session/global/ses_1.json",
        format!(r#"{{"id":"ses_1","projectID":"global","time":{{"created":{now},"updated":{now}}}}}"#),
    );
    let message = annals::ids::new_message();
    write(
        dir.path(),
        &format!("storage/message/ses_1/{message}.json"),
        format!(r#"{{"id":"{message}","sessionID":"ses_1","role":"assistant","time":{{"created":{now}}}}}"#),
    );
    assert_eq!(kinds(&home, now + 60_000), []);
    assert_eq!(kinds(&home, now + 3_600_000).len(), 1);
}

/// What the real 1.1.65 leaves behind after undo, delete and kill.
#[test]
fn the_traces_of_real_opencode_are_recognised() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = open(fixture.home());
    let found = kinds(&home, 1_772_000_000_000);
    let n = |kind| found.iter().filter(|(found, _)| *found == kind).count();
    use ProblemKind::*;
    assert_eq!(
        [n(Unreadable), n(OrphanParts), n(OrphanBeside), n(StuckTool), n(UnfinishedMessage)],
        [0, 10, 4, 6, 9],
    );
    assert_eq!(found.len(), 29, "and nothing else: {found:?}");
}

/// How a session ends whose last answer asked for a tool.
#[test]
fn an_answer_that_ended_with_tool_calls_is_not_the_end_of_a_turn() {
    use annals::model::lens::Session;
    use annals::query::SessionQuery;
    use annals::summarize::summarize;
    use annals::summary::SessionState;

    let fixture = Fixture::unpack("opencode-1.1.65");
    let home = open(fixture.home());
    // The agent was killed between two steps.
    let mut found = home.sessions(&SessionQuery::default()).unwrap().value;
    found.retain(|record| {
        record.stored.document.lens::<Session<'_>>().title.is_some_and(|title| title == "Health route plan")
    });
    let killed = found[0].id.clone();
    let steps = messages(&home, &found[0]).0;
    let last = &steps[steps.len() - 1].stored.place;
    std::fs::remove_file(fixture.home().join(last)).unwrap();

    let states = |home: &dyn Read| {
        let records = home.sessions(&SessionQuery::default()).unwrap().value;
        let summaries = summarize(home, &records, &|| {}).unwrap().value;
        summaries.into_iter().map(|summary| (summary.id.to_string(), summary.state)).collect::<Vec<_>>()
    };
    let dir = tempfile::tempdir().unwrap();
    let store = annals::SqliteStore::open_or_create(&dir.path().join("annals.db")).unwrap();
    let options = annals::sync::SyncOptions::to(annals::sync::Stage::Parts);
    annals::sync::sync(&store, &[&home], options, &()).unwrap();
    let expected = [
        (killed.as_str(), SessionState::Open),
        // The user refused a permission, or dismissed a question.
        ("ses_3857407d6ffetC6gjmI7BG3RNM", SessionState::Open),
        ("ses_3761c1250ffeqkrdlX4AiNm6Ak", SessionState::Open),
        ("ses_36f8c5301ffeTaTUqAB5YzSgoj", SessionState::Open),
        // Structured output was captured.
        ("ses_36f8c3ffbffeP3Kdv9WQ7SB1jy", SessionState::Done),
    ];
    for home in [&home as &dyn Read, &store] {
        let states = states(home);
        for (id, state) in expected {
            assert!(states.contains(&(id.to_owned(), state)), "{id} in {}", home.url());
        }
        let problems = home.inspect().unwrap().check(1_999_999_999_999, &|| {}).unwrap();
        let between_steps: Vec<_> =
            problems.iter().filter(|problem| problem.detail.contains("between two steps")).collect();
        assert_eq!(between_steps.len(), 1, "{between_steps:?}");
        assert_eq!(between_steps[0].kind, ProblemKind::UnfinishedMessage);
        assert_eq!(between_steps[0].session.as_ref(), Some(&killed));
        // It may be at work as long as the session has not rested.
        let made = steps[steps.len() - 2].made;
        let problems = home.inspect().unwrap().check(made + 60_000, &|| {}).unwrap();
        assert!(!problems.iter().any(|problem| problem.detail.contains("between two steps")));
    }
}
