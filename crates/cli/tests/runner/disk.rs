//! Disks that are full, read-only, or slow to die: nothing is lost and the message says what to do.
//!
//! Each test runs in a mount namespace of its own, where it may mount what it needs.

use std::path::Path;
use std::process::{Command, Output};

use annals_testkit::Fixture;

use super::kit::NOW;

/// Runs a script with `A` as the program and `D` as a directory to mount on.
pub(super) fn in_namespace(directory: &Path, script: &str) -> Output {
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "bash", "-euo", "pipefail", "-c", script])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("A", env!("CARGO_BIN_EXE_annals"))
        .env("D", directory)
        .env("HOME", directory)
        .env("ANNALS_NOW", NOW)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

pub(super) fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_read_only_home_can_be_read_and_says_why_it_cannot_be_changed() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let script = r#"
        mount --bind "$D" "$D"
        mount -o remount,bind,ro "$D"
        "$A" --home "$D" list --json | grep -c '"id"'
        "$A" --home "$D" export 385744ad0 | wc -l
        "$A" --home "$D" check --json > /dev/null; echo "check: exit $?"
        for change in 'rename 385744ad0 x' 'archive 385744ad0' 'rm --yes 385744ad0' 'import /dev/stdin'; do
            echo '{"info":{"id":"ses_9"},"messages":[]}' | "$A" --home "$D" $change && echo unexpected || echo "$change: exit $?"
        done
    "#;
    let (stdout, stderr) = text(&in_namespace(fixture.home(), script));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], "121");
    assert_eq!(
        lines[2..],
        [
            "check: exit 0",
            "rename 385744ad0 x: exit 1",
            "archive 385744ad0: exit 1",
            "rm --yes 385744ad0: exit 1",
            "import /dev/stdin: exit 1"
        ]
    );
    assert_eq!(stderr.matches("cannot write to").count(), 4, "{stderr}");
    assert!(
        stderr.contains("Read-only file system") && stderr.contains("the home must be writable"),
        "{stderr}"
    );
}

/// The disk fills up while an import is being written. Nothing of it shows, everything else is as it was, and when there
/// is room again the same import succeeds.
#[test]
fn a_full_disk_in_the_middle_of_a_transaction_loses_nothing() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let script = r#"
        "$A" --home "$D" export 37f7f1c80 --format jsonl -o "$D/big.jsonl"
        "$A" --home "$D" export 385744ad0 --format jsonl -o "$D/small.jsonl"
        mkdir "$D/mnt"
        mount -t tmpfs -o size=300k tmpfs "$D/mnt"
        "$A" --home "$D/mnt/home" import "$D/small.jsonl"
        "$A" --home "$D/mnt/home" export 385744ad0 > "$D/before"
        find "$D/mnt/home/storage" -type f | grep -v .annals | sort > "$D/files-before"
        "$A" --home "$D/mnt/home" import "$D/big.jsonl" && echo unexpected || echo "exit $?"
        find "$D/mnt/home/storage" -type f | grep -v .annals | sort | diff "$D/files-before" - && echo same files
        "$A" --home "$D/mnt/home" export 385744ad0 | cmp - "$D/before" && echo same export
        "$A" --home "$D/mnt/home" check && echo in order
        ls "$D/mnt/home/storage/.annals"
        mount -o remount,size=20m "$D/mnt"
        "$A" --home "$D/mnt/home" import "$D/big.jsonl"
        "$A" --home "$D/mnt/home" list --json | grep -c '"id"'
    "#;
    let (stdout, stderr) = text(&in_namespace(fixture.home(), script));
    assert_eq!(
        stdout, "exit 1\nsame files\nsame export\n✓ no problems in 1 session\nin order\nlast\nlock\n2\n",
        "{stderr}"
    );
    assert!(stderr.contains("nothing was changed") && stderr.contains("No space left on device"), "{stderr}");
    assert!(stderr.contains("hint: make room on the disk"), "{stderr}");
}

/// A transaction that was decided when the disk became read-only is seen as a whole, and finished when it can be.
#[test]
fn a_transaction_cut_short_on_a_read_only_disk_is_seen_whole() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let path = "storage/session/15e401e64f208f230e2422540fb7c58e13fb0681/ses_385744ad0ffeWgvBCB6JclCZJ1.json";
    let hash = |bytes: &[u8]| annals::model::ContentHash::of(bytes).to_string();
    let was = hash(&std::fs::read(fixture.home().join(path)).unwrap());
    let staged = std::fs::read_to_string(fixture.home().join(path)).unwrap().replace("rounding", "wholeness");
    let todo = r#"[{"content":"both or none","status":"pending","priority":"high","id":"1"}]"#;
    let (becomes_todo, becomes) = (hash(todo.as_bytes()), hash(staged.as_bytes()));
    let journal = format!(
        r#"{{"version":1,"transaction":"t1","reason":"test","steps":[{{"path":"todo/ses_385744ad0ffeWgvBCB6JclCZJ1.json","staged":"0","becomes":"{becomes_todo}"}},{{"path":"{}","staged":"1","was":"{was}","becomes":"{becomes}"}}]}}"#,
        path.trim_start_matches("storage/")
    );
    super::kit::write(fixture.home(), "storage/.annals/tx-t1/0", todo);
    super::kit::write(fixture.home(), "storage/.annals/tx-t1/1", staged);
    super::kit::write(fixture.home(), "storage/.annals/journal", journal);
    let script = r#"
        mount --bind "$D" "$D"
        mount -o remount,bind,ro "$D"
        "$A" --home "$D" list --json | grep -c wholeness
        "$A" --home "$D" todo 385744ad0
        "$A" --home "$D" check | grep -c 'changes wait to be finished'
        mount -o remount,bind,rw "$D"
        "$A" --home "$D" list --json | grep -c wholeness
        ls "$D/storage/.annals"
        grep -c wholeness "$D"/storage/session/*/ses_385744ad0ffeWgvBCB6JclCZJ1.json
    "#;
    let script = script.replace("\"$A\" --home \"$D\" check |", "(\"$A\" --home \"$D\" check || true) |");
    let (stdout, _) = text(&in_namespace(fixture.home(), &script));
    assert_eq!(stdout, "1\n○ both or none [high]\n1\n1\nlast\nlock\n1\n");
}

/// A user without permissions gets a message, not a mess.
#[test]
fn unreadable_files_are_named() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    // As root nothing is unreadable, so the command runs as somebody else.
    let script = r#"
        chmod 700 "$D" "$D/storage/session/906364ab6e8e845d9d28ebffa41d227898293669"
        chmod 755 "$D"
        chmod 600 "$D"/storage/session/15e401e64f208f230e2422540fb7c58e13fb0681/ses_385744ad0ffeWgvBCB6JclCZJ1.json
        cp "$A" "$D/annals"
        setpriv --reuid 65534 --regid 65534 --clear-groups "$D/annals" --home "$D" list --json > "$D/out" 2> "$D/err" && echo unexpected || echo "exit $?"
        grep -c '"id"' "$D/out"
        cat "$D/err"
    "#;
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .env("A", env!("CARGO_BIN_EXE_annals"))
        .env("D", fixture.home())
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let (stdout, stderr) = text(&output);
    assert!(stdout.starts_with("exit 3\n119\n"), "{stdout}\n{stderr}");
    assert!(stdout.contains("2 documents could not be read"), "{stdout}");
    assert_eq!(stdout.matches("Permission denied").count(), 2, "{stdout}");
}
