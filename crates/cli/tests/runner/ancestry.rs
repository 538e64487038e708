//! Where sessions come from: forks are recognised by their content, and shown with what they were made of.

use insta::assert_snapshot;
use serde_json::Value;

use super::kit::{User, write};

/// A fork as OpenCode makes it: a session that is younger than its messages.
fn write_fork(user: &User, id: &str, title: &str, created: i64, texts: &[&str]) {
    let home = user.opencode();
    let session = format!("ses_{id}");
    write(
        &home,
        &format!("storage/session/global/{session}.json"),
        format!(
            r#"{{"id":"{session}","projectID":"global","directory":"/home/dev","title":"{title}","version":"1.1.65","time":{{"created":{created},"updated":{created}}}}}"#
        ),
    );
    for (n, text) in (1..).zip(texts) {
        // Copies have the times of their originals; what was said here is later than the fork.
        let made = if n <= 2 { 1_771_950_000_000_i64 + n } else { created + n };
        user.write_message(id, n, if n % 2 == 1 { "user" } else { "assistant" }, made, text);
    }
}

#[test]
fn forks_are_recognised_by_their_content() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Door", "Where is the door", "The door is here");
    write_fork(
        &user,
        "36bbbbffe2",
        "Door (fork #1)",
        1_771_960_000_000,
        &["Where is the door", "The door is here", "And now"],
    );
    // Both have its two messages; the title decides.
    write_fork(
        &user,
        "36ccccffe3",
        "Door (fork #2)",
        1_771_970_000_000,
        &["Where is the door", "The door is here"],
    );
    // Renamed since, so that nothing decides but that the first is the oldest.
    write_fork(&user, "36ddddffe4", "Something else", 1_771_980_000_000, &["Where is the door"]);
    // The title of a fork alone makes none.
    user.write_session("36eeeeffe5", "Window (fork #1)", "Where is the window", "There");
    let other = user.opencode().join("storage/message/ses_36eeeeffe5/msg_36eeeeffe51.json");
    let text = std::fs::read_to_string(&other).unwrap().replace("1771950000001", "1771950000555");
    std::fs::write(&other, text).unwrap();
    assert_snapshot!(user.annals(&["tree", "--all"]).run(), @"
    exit 0
    ✓ 36aaaa  Door  build  $0
    ├─ ◌ 36bbbb  fork  Door (fork #1)  build  $0
    │  └─ ✓ 36cccc  fork  Door (fork #2)  build  $0
    └─ ◌ 36dddd  fork  Something else  build  $0
    ✓ 36eeee  Window (fork #1)  build  $0
    ");
    assert_snapshot!(user.annals(&["log", "--graph", "36ccccffe3"]).run(), @"
    exit 0
    ○ 36aaaa  2026-02-24 16:20  Door
    └─ ○ 36bbbb  2026-02-24 19:06  Door (fork #1)  fork after 2 messages
       └─ ● 36cccc  2026-02-24 21:53  Door (fork #2)  fork after 2 messages
    ");
    assert_snapshot!(user.annals(&["log", "--graph", "36aaaaffe1"]).run(), @"
    exit 0
    ● 36aaaa  2026-02-24 16:20  Door
    └─ ○ 36bbbb  2026-02-24 19:06  Door (fork #1)  fork after 2 messages
    └─ ○ 36dddd  2026-02-25 00:40  Something else  fork after 1 message
    ");
    let graph = user.annals(&["log", "--graph", "36bbbbffe2", "--json"]).run().ok().json();
    let told: Vec<(&Value, &Value, &Value)> =
        graph.as_array().unwrap().iter().map(|row| (&row["id"], &row["descent"], &row["fromID"])).collect();
    let [a, b, c] = ["ses_36aaaaffe1", "ses_36bbbbffe2", "ses_36ccccffe3"].map(Value::from);
    let (opened, fork) = (Value::from("opened"), Value::from("fork"));
    assert_eq!(told, [(&a, &opened, &Value::Null), (&b, &fork, &a), (&c, &fork, &b)]);
    let alone = user.annals(&["log", "--graph"]).run();
    assert_eq!(alone.code, 2, "{alone}");
}
