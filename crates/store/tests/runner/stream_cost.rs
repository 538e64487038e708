//! What a streamed text costs on annals.db, counted in bytes written: the text, not the text times its pieces.

use std::path::Path;
use std::process::{Command, Stdio};

use annals::Store;
use annals::turn::{Turn, TurnOptions};

const PATH: &str = "ANNALS_TEST_STREAM_STORE";
const PIECES: usize = 10_000;
const PIECE: usize = 100;

/// The bytes that this process has handed to the system.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// A piece of text that cannot be compressed much.
fn piece(n: usize) -> String {
    let mut word = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut piece = String::new();
    while piece.len() < PIECE {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        piece.push_str(&format!("{:x} ", word >> 16));
    }
    piece.truncate(PIECE);
    piece
}

/// The streams that are counted: not a test, but what the test starts this binary for.
#[test]
fn stream_that_gets_counted() {
    let Ok(path) = std::env::var(PATH) else { return };
    let store = Store::open(Path::new(&path)).unwrap();
    let session = store.create_session("/tmp").save().unwrap();
    let begin = written();
    let mut turn = Turn::begin(&session.prompt("Tell me all.").model("lab/lab-large")).unwrap();
    let answer = turn.answer().unwrap();
    let mut text = answer.text().unwrap();
    for n in 0..PIECES {
        text.push(&piece(n)).unwrap();
    }
    text.finish().unwrap();
    answer.finish().unwrap();
    turn.finish().unwrap();
    println!("collected {}", written() - begin);

    let options = TurnOptions { flush_every: std::time::Duration::from_secs(3600), ..TurnOptions::default() };
    let mut turn = Turn::begin_with(&session.prompt("And again."), &options).unwrap();
    let answer = turn.answer().unwrap();
    let mut text = answer.text().unwrap();
    let mut last = written();
    for n in 0..PIECES {
        text.push(&piece(n)).unwrap();
        text.flush().unwrap();
        if n % (PIECES / 5) == PIECES / 5 - 1 {
            println!("fifth {}", written() - last);
            last = written();
        }
    }
    text.finish().unwrap();
    answer.finish().unwrap();
    turn.finish().unwrap();
    let said = session.messages().last().unwrap().unwrap().text();
    assert_eq!(said.trim_end(), (0..PIECES).map(piece).collect::<String>().trim_end());
}

#[test]
fn a_piece_costs_as_much_at_the_end_of_a_text_as_at_its_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runner::stream_cost::stream_that_gets_counted", "--nocapture", "--test-threads=1"])
        .env(PATH, directory.path().join("annals.db"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    let output = String::from_utf8(output.stdout).unwrap();
    let figures = |name: &str| -> Vec<f64> {
        let found = output.lines().filter_map(|line| line.split_once(name)?.1.trim().parse().ok());
        found.collect()
    };
    let text = (PIECES * PIECE) as f64;
    let [collected] = figures("collected")[..] else { panic!("{output}") };
    assert!(collected < 4.0 * text, "{collected} bytes were written for {text} bytes of text");
    let fifths = figures("fifth");
    assert_eq!(fifths.len(), 5, "{output}");
    // The log is written back to the file now and then, which is not the same in each fifth.
    assert!(fifths[4] < 1.5 * fifths[0], "{fifths:?}");
    println!("{collected} bytes written for {text} bytes of text; with a commit for each piece {fifths:?}");
}
