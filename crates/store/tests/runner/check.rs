//! A check finds what is wrong, and nothing else.

use annals::check::ProblemKind;
use annals::home::Read;
use annals_testkit::Fixture;

use super::kit::{PROJECT, Sample, empty_home, messages, open, session, write};

fn kinds(home: &dyn Read, now: i64) -> Vec<(ProblemKind, String)> {
    home.check(now, &|| {}).unwrap().into_iter().map(|problem| (problem.kind, problem.place)).collect()
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
