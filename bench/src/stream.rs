//! A streamed answer: bytes written and time for a long text in many small pieces, in every kind of home and beside the real OpenCode; and
//! how many steps of a turn are made durable in a second.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use annals::Store;
use annals::homes::opencode::database::{Generation, OpencodeDatabase};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::lens::TextPart;
use annals::model::{Document, Key, Transaction};
use annals::turn::{ToolOutput, Turn, TurnOptions};
use annals_testkit::model::{self, ModelServer, Playbook};
use annals_testkit::opencode::{Lab, OpenCode};
use serde_json::json;

/// What to measure.
#[derive(Debug, Clone)]
pub struct StreamMeasurement {
    /// Number of pieces.
    pub deltas: usize,
    /// Length of the whole text, in bytes.
    pub bytes: usize,
    /// Number of durable steps.
    pub steps: usize,
    /// Versions of OpenCode to measure beside annals.
    pub opencode: Vec<String>,
}

/// A model says something this often.
const PACE: Duration = Duration::from_millis(1);
const MODEL: &str = "lab/lab-large";

/// What a process wrote.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// Bytes handed to the system.
    handed: u64,
    /// Bytes that go to the disk.
    disk: u64,
}

impl Written {
    fn by(process: &str) -> Result<Written, Box<dyn Error>> {
        let text = std::fs::read_to_string(format!("/proc/{process}/io"))?;
        let number = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let missing = || format!("/proc/{process}/io does not say");
        Ok(Written {
            handed: number("wchar:").ok_or_else(missing)?,
            disk: number("write_bytes:").ok_or_else(missing)?,
        })
    }
}

/// Measures everything and returns a report in Markdown.
pub fn measure(scratch: &Path, measurement: &StreamMeasurement) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(scratch)?;
    let mut report = format!(
        "{} bytes of text in {} pieces:\n\n| where | how | commits | time | handed to the system | to the disk |\n|---|---|---|---|---|---|\n",
        measurement.bytes, measurement.deltas
    );
    let pieces = pieces(measurement);
    for (kind, how, pace, flush_every) in [
        ("annals.db", "appended, every piece durable", None, None),
        ("annals.db", "appended, every 100 ms", Some(PACE), Some(Duration::from_millis(100))),
        ("files of 1.1", "rewritten every 100 ms", Some(PACE), Some(Duration::from_millis(100))),
        ("database of 1.2", "rewritten every 100 ms", Some(PACE), Some(Duration::from_millis(100))),
        ("database of 1.18", "rewritten every 100 ms", Some(PACE), Some(Duration::from_millis(100))),
    ] {
        let directory = tempfile::tempdir_in(scratch)?;
        let store = open(directory.path(), kind)?;
        add_row(&mut report, kind, how, || stream(&store, &pieces, pace, flush_every))?;
    }
    let directory = tempfile::tempdir_in(scratch)?;
    let store = open(directory.path(), "annals.db")?;
    add_row(&mut report, "annals.db", "the whole part put for every piece", || rewrite(&store, &pieces))?;
    for version in &measurement.opencode {
        real(&mut report, version, measurement)?;
    }
    report.push_str("\n| durable steps of a turn | a second |\n|---|---|\n");
    for kind in ["annals.db", "files of 1.1", "database of 1.2", "database of 1.18"] {
        let directory = tempfile::tempdir_in(scratch)?;
        let store = open(directory.path(), kind)?;
        let took = steps(&store, measurement.steps)?;
        let a_second = measurement.steps as f64 / took.as_secs_f64();
        writeln!(report, "| {kind} | {a_second:.0} |")?;
    }
    Ok(report)
}

/// The pieces of a text. Words that differ, so that nothing is gained by compressing the same ones.
fn pieces(measurement: &StreamMeasurement) -> Vec<String> {
    let size = (measurement.bytes / measurement.deltas.max(1)).max(1);
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x} ", word >> 40)
    };
    let piece = |_| {
        let mut piece = String::new();
        while piece.len() < size {
            piece.push_str(&next());
        }
        piece.truncate(size);
        piece
    };
    (0..measurement.deltas).map(piece).collect()
}

fn open(directory: &Path, kind: &str) -> Result<Store, Box<dyn Error>> {
    let database = directory.join("opencode.db");
    Ok(match kind {
        "annals.db" => Store::open(directory.join("annals.db"))?,
        "files of 1.1" => OpencodeDirectory::open_or_create(directory)?.into(),
        "database of 1.2" => OpencodeDatabase::open_or_create(&database, Generation::Portable)?.into(),
        _ => OpencodeDatabase::open_or_create(&database, Generation::Latest)?.into(),
    })
}

fn add_row(
    report: &mut String,
    kind: &str,
    how: &str,
    work: impl FnOnce() -> Result<usize, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (before, began) = (Written::by("self")?, Instant::now());
    let commits = work()?;
    let (took, after) = (began.elapsed(), Written::by("self")?);
    row(report, kind, how, &commits.to_string(), took, (before, after))
}

fn row(
    report: &mut String,
    kind: &str,
    how: &str,
    commits: &str,
    took: Duration,
    (before, after): (Written, Written),
) -> Result<(), Box<dyn Error>> {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    writeln!(
        report,
        "| {kind} | {how} | {commits} | {:.1} s | {} | {} |",
        took.as_secs_f64(),
        megabytes(after.handed - before.handed),
        megabytes(after.disk - before.disk)
    )?;
    Ok(())
}

/// Streams a text. Without `flush_every`, each piece is made durable by itself. Gives the number of commits.
fn stream(
    store: &Store,
    pieces: &[String],
    pace: Option<Duration>,
    flush_every: Option<Duration>,
) -> Result<usize, Box<dyn Error>> {
    let session = store.create_session("/tmp").save()?;
    let options = TurnOptions {
        flush_every: flush_every.unwrap_or(Duration::from_secs(3600)),
        ..TurnOptions::default()
    };
    let mut turn = Turn::begin_with(&session.prompt("Tell me all.").model(MODEL), &options)?;
    let answer = turn.answer()?;
    let mut text = answer.text()?;
    let began = Instant::now();
    for piece in pieces {
        text.push(piece)?;
        match pace {
            Some(pace) => std::thread::sleep(pace),
            None => text.flush()?,
        }
    }
    let commits = match flush_every {
        Some(every) => (began.elapsed().as_millis() / every.as_millis().max(1)) as usize,
        None => pieces.len(),
    };
    text.finish()?;
    answer.finish()?;
    turn.finish()?;
    Ok(commits)
}

/// Stores the whole part for every piece, as a program does that knows no appends.
fn rewrite(store: &Store, pieces: &[String]) -> Result<usize, Box<dyn Error>> {
    let session = store.create_session("/tmp").save()?;
    let mut turn = Turn::begin(&session.prompt("Tell me all.").model(MODEL))?;
    let answer = turn.answer()?;
    let part = annals::ids::new_part();
    let key = Key::Part(session.id().clone(), answer.id().clone(), part.clone());
    let mut said = String::new();
    for piece in pieces {
        said.push_str(piece);
        let document = Document::new(&TextPart {
            id: Some((&part).into()),
            session_id: Some(session.id().into()),
            message_id: Some(answer.id().into()),
            text: Some(said.as_str().into()),
            ..Default::default()
        });
        let mut transaction = Transaction::new("the whole part");
        transaction.put(key.clone(), document);
        store.home().commit(transaction)?;
    }
    answer.finish()?;
    turn.finish()?;
    Ok(pieces.len())
}

/// Tool calls, each of which is three durable steps: pending, running, completed.
fn steps(store: &Store, steps: usize) -> Result<Duration, Box<dyn Error>> {
    let session = store.create_session("/tmp").save()?;
    let mut turn = Turn::begin(&session.prompt("Go.").model(MODEL))?;
    let answer = turn.answer()?;
    let began = Instant::now();
    for n in 0..steps / 3 {
        let call = answer.call("bash", &format!("call_{n}"))?;
        let call = call.run(json!({ "command": "cat cart.js" }))?;
        call.complete(ToolOutput::new("first(items)").title("cat cart.js"))?;
    }
    let took = began.elapsed();
    answer.finish()?;
    turn.finish()?;
    Ok(took)
}

/// The same text from the scripted model, stored by the real OpenCode.
fn real(report: &mut String, version: &str, measurement: &StreamMeasurement) -> Result<(), Box<dyn Error>> {
    let size = (measurement.bytes / measurement.deltas.max(1)).max(1);
    let turn = model::Turn {
        text: pieces(measurement).concat(),
        chunk: size,
        delay_ms: PACE.as_millis() as u64,
        ..model::Turn::default()
    };
    let playbook = Playbook::builtin().scenario("all", [turn]).prompt("Tell me all", "all");
    let server = ModelServer::start(playbook)?;
    let mut lab = Lab::new(&OpenCode::version(version));
    lab.set_timeout(Duration::from_secs(900));
    lab.configure(&server);
    let project = lab.repo("shop", &[("README.md", "# Shop\n")]);
    let opencode = lab.serve(&project);
    let session = opencode.post("/session", &json!({ "title": "All" }));
    let id = session["id"].as_str().ok_or("no session")?.to_owned();
    let process = opencode.process_id().to_string();
    let (before, began) = (Written::by(&process)?, Instant::now());
    let body = json!({
        "parts": [{ "type": "text", "text": "Tell me all." }],
        "model": { "providerID": "lab", "modelID": "lab-large" },
    });
    opencode.post(&format!("/session/{id}/message"), &body);
    let (took, after) = (began.elapsed(), Written::by(&process)?);
    opencode.stop();
    row(report, &format!("OpenCode {version}"), "its own way", "", took, (before, after))
}
