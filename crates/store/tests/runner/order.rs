//! Messages and parts come in the order they were made, also across the wrap of OpenCode's ids.

use annals::model::id::IdGenerator;

use super::kit::{empty_home, messages, session, write};

const WRAP: i64 = 1_786_706_395_136;

/// A session that was used for two minutes around the wrap: comparing ids as strings would put the second half first.
#[test]
fn a_session_that_spans_the_wrap_reads_in_order() {
    let (dir, home) = empty_home();
    let mut ids = IdGenerator::new();
    let session_id = ids.session(WRAP - 60_000, [1; 14]);
    write(
        dir.path(),
        &format!("storage/session/global/{session_id}.json"),
        format!(
            r#"{{"id":"{session_id}","time":{{"created":{},"updated":{}}}}}"#,
            WRAP - 60_000,
            WRAP + 60_000
        ),
    );
    for n in 0..12 {
        let made = WRAP - 55_000 + n * 10_000;
        let message = ids.message(made, [n as u8; 14]);
        // The time in the document is a little later than the id's.
        let text = format!(
            r#"{{"id":"{message}","sessionID":"{session_id}","role":"user","time":{{"created":{}}},"n":{n}}}"#,
            made + 7
        );
        write(dir.path(), &format!("storage/message/{session_id}/{message}.json"), text);
        for m in 0..3 {
            let part = ids.part(made + m * 4_000, [m as u8; 14]);
            let text = format!(r#"{{"id":"{part}","type":"text","text":"{n}.{m}"}}"#);
            write(dir.path(), &format!("storage/part/{message}/{part}.json"), text);
        }
    }
    let (messages, _) = messages(&home, &session(&home, session_id.as_str()));
    let numbers: Vec<_> =
        messages.iter().map(|m| m.stored.document.root().get("n").unwrap().raw().to_owned()).collect();
    assert_eq!(numbers, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
    let first_of_new_era = messages.iter().position(|m| m.stored.place.contains("msg_0000")).unwrap();
    assert_eq!(first_of_new_era, 6);
    for (n, message) in messages.iter().enumerate() {
        let texts: Vec<_> = message
            .parts
            .iter()
            .map(|part| part.document.root().get("text").unwrap().raw().to_owned())
            .collect();
        assert_eq!(texts, [0, 1, 2].map(|m| format!("\"{n}.{m}\"")));
    }
}

/// A fork copies old messages, with their times, under new ids.
#[test]
fn a_fork_of_an_old_session_reads_in_order() {
    let (dir, home) = empty_home();
    let forked = WRAP + 90 * 86_400_000;
    let mut ids = IdGenerator::new();
    let session_id = ids.session(forked, [1; 14]);
    write(
        dir.path(),
        &format!("storage/session/global/{session_id}.json"),
        format!(r#"{{"id":"{session_id}","time":{{"created":{forked},"updated":{forked}}}}}"#),
    );
    // Three years of conversation, copied at once.
    for n in 0..30 {
        let message = ids.message(forked + n / 10, [9; 14]);
        let made = forked - (30 - n) * 35 * 86_400_000;
        let text = format!(r#"{{"id":"{message}","role":"user","time":{{"created":{made}}},"n":{n}}}"#);
        write(dir.path(), &format!("storage/message/{session_id}/{message}.json"), text);
    }
    let (messages, _) = messages(&home, &session(&home, session_id.as_str()));
    let numbers: Vec<i64> = messages
        .iter()
        .map(|m| m.stored.document.root().get("n").unwrap().as_f64().unwrap() as i64)
        .collect();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
}

/// Clients may send ids of their own. OpenCode puts them where their letters put them, and so do we.
#[test]
fn ids_made_by_others_stand_where_opencode_puts_them() {
    let (dir, home) = empty_home();
    write(
        dir.path(),
        "storage/session/global/ses_1.json",
        r#"{"id":"ses_1","time":{"created":1771950003278}}"#,
    );
    let mut names = vec![
        "msg_36f8cabb1ffeInitByUser0001",
        "msg_c90735466001Yg1qUJr6tMGcfZ",
        "msg_custom1",
        "msg_0001",
        "msg_Zebra",
        "msg_c90735466002AAAAAAAAAAAAAA",
    ];
    for (n, name) in names.iter().enumerate() {
        let text =
            format!(r#"{{"id":"{name}","role":"user","time":{{"created":{}}}}}"#, 1_771_950_003_278 + n);
        write(dir.path(), &format!("storage/message/ses_1/{name}.json"), text);
    }
    names.sort_unstable();
    let (messages, _) = messages(&home, &session(&home, "ses_1"));
    let found: Vec<_> = messages
        .iter()
        .map(|m| m.stored.place.rsplit('/').next().unwrap().trim_end_matches(".json").to_owned())
        .collect();
    assert_eq!(found, names);
}
