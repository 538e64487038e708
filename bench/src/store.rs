//! The store in one process: how long each stage of a sync takes, how large the store becomes, how fast it is searched and
//! written to.

use annals::search::Search;
use annals::store::Store;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annals::home::{Inspect, MessageDetail, MessageRange, Read, Write};
use annals::homes::opencode::directory::OpencodeDirectory;
use annals::model::search::{query, searchable};
use annals::model::{Document, Key, Transaction};
use annals::query::SessionQuery;
use annals::search::{SearchRequest, Wanted};
use annals::stores::sqlite::SqliteStore;
use annals::sync::{self, Stage, SyncOptions};

use crate::generate;

/// What to measure.
#[derive(Debug)]
pub struct Measurement {
    /// A home of the flat layout.
    pub home: PathBuf,
    /// Number of queries.
    pub queries: usize,
    /// Number of parts that are committed one by one.
    pub commits: usize,
    /// Where the store is made and left; `None` for a temporary place.
    pub keep: Option<PathBuf>,
}

/// Measures everything and returns a report in Markdown.
pub fn measure(measurement: &Measurement) -> Result<String, Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir_in(measurement.home.parent().unwrap_or(Path::new(".")))?;
    let mut report = String::from("| what | figure |\n|---|---|\n");
    let place = measurement.keep.as_deref().unwrap_or(scratch.path());
    let store = SqliteStore::open_or_create(&place.join("annals.db"))?;
    let source = OpencodeDirectory::open(&measurement.home)?;
    let mut stage = |name: &str,
                     store: &SqliteStore,
                     options: SyncOptions|
     -> Result<(), Box<dyn std::error::Error>> {
        let (began, cpu) = (Instant::now(), cpu_time());
        let account = sync::sync(store, &[&source], options, &())?;
        writeln!(
            report,
            "| {name} | {:.0} ms ({:.0} ms CPU), {} of {} sessions looked at, {} documents imported, {} indexed |",
            milliseconds(began.elapsed()),
            milliseconds(cpu_time() - cpu),
            account.looked,
            account.sessions,
            account.imported,
            account.indexed
        )?;
        Ok(())
    };
    let options = SyncOptions { stage: Stage::Text, full: false, events: false, own: true };
    stage("complete sync with the text index", &store, options)?;
    stage("sync, nothing changed", &store, options)?;
    stage("sync --full, nothing changed", &store, SyncOptions { full: true, ..options })?;
    let staged = SqliteStore::open_or_create(&scratch.path().join("staged.db"))?;
    stage("in stages: sessions and messages", &staged, SyncOptions { stage: Stage::Messages, ..options })?;
    stage("in stages: parts", &staged, SyncOptions { stage: Stage::Parts, ..options })?;
    stage("in stages: text index", &staged, options)?;
    let extent = store.extent()?;
    let index = size_of(&store.index_path())?;
    writeln!(
        report,
        "| size | {:.1} MB of documents: store {:.1} MB, text index {:.1} MB, together {:.2} × |",
        megabytes(extent.bytes),
        megabytes(store.bytes()),
        megabytes(index),
        (store.bytes() + index) as f64 / extent.bytes as f64
    )?;
    fts5(&mut report, &store, scratch.path())?;
    search(&mut report, &store, measurement.queries)?;
    commits(&mut report, scratch.path(), measurement.commits)?;
    writeln!(report, "| peak memory | {:.0} MB |", megabytes(peak_memory()))?;
    Ok(report)
}

/// Measures only the commits.
pub fn measure_commits(directory: &Path, n_commits: usize) -> Result<String, Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir_in(directory)?;
    let mut report = String::from("| what | figure |\n|---|---|\n");
    commits(&mut report, scratch.path(), n_commits)?;
    Ok(report)
}

/// Measures only searches, in an existing store.
pub fn measure_searches(store: &Path, n_queries: usize) -> Result<String, Box<dyn std::error::Error>> {
    let mut report = String::from("| what | figure |\n|---|---|\n");
    search(&mut report, &SqliteStore::open(store)?, n_queries)?;
    writeln!(report, "| peak memory | {:.0} MB |", megabytes(peak_memory()))?;
    Ok(report)
}

/// Measures the same texts in an FTS5 index without the texts themselves, with the words of one query of each kind.
fn fts5(report: &mut String, store: &SqliteStore, scratch: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = scratch.join("fts5.db");
    #[expect(clippy::disallowed_methods, reason = "SQLite as it is without annals, to compare with")]
    let connection = rusqlite::Connection::open(&path)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection
        .execute_batch("CREATE VIRTUAL TABLE text USING fts5(body, content='', tokenize='unicode61')")?;
    let (mut adding, mut n_texts) = (Duration::ZERO, 0_i64);
    connection.execute_batch("BEGIN")?;
    for record in store.sessions(&SessionQuery::default())?.value {
        for message in store.messages(&record, &MessageRange::ALL, MessageDetail::Parts) {
            for part in message?.parts {
                let mut text = String::new();
                searchable(&part.key, &part.document, &mut |piece| {
                    text.push_str(piece);
                    text.push('\n');
                });
                n_texts += 1;
                // Only SQLite's time counts: reading documents takes the same time for both.
                let began = Instant::now();
                let added = connection
                    .prepare_cached("INSERT INTO text (rowid, body) VALUES (?1, ?2)")
                    .and_then(|mut statement| statement.execute((n_texts, &text)));
                adding += began.elapsed();
                added?;
            }
        }
    }
    let began = Instant::now();
    connection.execute_batch("COMMIT; INSERT INTO text (text) VALUES ('optimize')")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    adding += began.elapsed();
    let vocabulary = generate::vocabulary();
    let mut times = Vec::new();
    for query in [
        &vocabulary[vocabulary.len() - 8],
        &vocabulary[1],
        &format!("\"{} {}\"", vocabulary[2], vocabulary[3]),
    ] {
        let began = Instant::now();
        let mut statement =
            connection.prepare_cached("SELECT rowid FROM text WHERE text MATCH ?1 ORDER BY rank LIMIT 20")?;
        let quoted = if query.starts_with('"') { query.clone() } else { format!("\"{query}\"") };
        statement.query_map([quoted], |row| row.get::<_, i64>(0))?.for_each(drop);
        times.push(format!("{:.1}", milliseconds(began.elapsed())));
    }
    writeln!(
        report,
        "| FTS5 on the same texts | {:.0} ms to add {n_texts}, {:.1} MB; a rare word, a common one, a phrase: {} ms |",
        milliseconds(adding),
        megabytes(std::fs::metadata(&path)?.len()),
        times.join(", ")
    )?;
    Ok(())
}

/// Runs queries of all kinds and reports their times.
fn search(
    report: &mut String,
    store: &SqliteStore,
    n_queries: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let vocabulary = generate::vocabulary();
    let word = |rank: usize| vocabulary[rank.min(vocabulary.len() - 1)].as_str();
    let queries = (0..n_queries).map(|n| match n % 5 {
        0 => ("rare", word(vocabulary.len() - 1 - n * 7).to_owned()),
        1 => ("common", word(n).to_owned()),
        2 => ("phrase", format!("\"{} {}\"", word(n), word(n + 1))),
        3 => ("prefix", format!("{}*", &word(40 + n * 3)[..word(40 + n * 3).floor_char_boundary(4)])),
        _ => ("two words", format!("{} {}", word(n), word(200 + n))),
    });
    let mut times: Vec<(Duration, &str, String)> = Vec::new();
    let mut found = 0;
    for (kind, text) in queries {
        let request = SearchRequest {
            wanted: Wanted::Words(query::parse(&text)?),
            sessions: SessionQuery::default(),
            since: None,
            until: None,
            filters: Vec::new(),
            offset: 0,
            limit: 20,
            now: annals::ids::now(),
            snippet_width: 160,
        };
        let began = Instant::now();
        let hits = store.search(&request)?;
        times.push((began.elapsed(), kind, text));
        found += hits.total;
    }
    times.sort();
    let at = |share: f64| milliseconds(times[((times.len() - 1) as f64 * share) as usize].0);
    writeln!(
        report,
        "| {} searches, {found} hits | p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, worst {:.1} ms (`{}`) |",
        times.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0),
        times[times.len() - 1].2
    )?;
    for kind in ["rare", "common", "phrase", "prefix", "two words"] {
        let of_kind: Vec<f64> = times
            .iter()
            .filter(|(_, other, _)| *other == kind)
            .map(|(time, _, _)| milliseconds(*time))
            .collect();
        writeln!(
            report,
            "| – {kind} | p50 {:.1} ms, worst {:.1} ms |",
            of_kind[of_kind.len() / 2],
            of_kind[of_kind.len() - 1]
        )?;
    }
    Ok(())
}

/// Commits parts one by one, compared with a loop that only inserts rows with the same settings. They take turns, because the
/// speed of a shared disk changes from moment to moment.
fn commits(report: &mut String, scratch: &Path, n_commits: usize) -> Result<(), Box<dyn std::error::Error>> {
    const TURN: usize = 100;
    let text = "The cart crashes when it is empty, because the total of no items is asked for. ".repeat(8);
    let session = annals::ids::new_session();
    let message = annals::ids::new_message();
    let part = |n: usize| {
        format!(
            r#"{{"id":"prt_{n:026}","sessionID":"{session}","messageID":"{message}","type":"text","text":"{text}"}}"#
        )
    };
    let store = SqliteStore::open_or_create(&scratch.join("commits.db"))?;
    let mut transaction = Transaction::new("a session");
    transaction.insert(
        Key::Session(annals::model::id::ProjectId::global(), session.clone()),
        Document::parse(format!(r#"{{"id":"{session}"}}"#).into_bytes())?,
    );
    transaction.insert(
        Key::Message(session.clone(), message.clone()),
        Document::parse(
            format!(r#"{{"id":"{message}","role":"assistant","time":{{"created":1}}}}"#).into_bytes(),
        )?,
    );
    store.commit(transaction)?;
    #[expect(clippy::disallowed_methods, reason = "SQLite as it is without annals, to compare with")]
    let connection = rusqlite::Connection::open(scratch.join("bare.db"))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE part (id TEXT PRIMARY KEY, message TEXT, data TEXT)")?;
    let (mut ours, mut bare, mut ratios) = (Duration::ZERO, Duration::ZERO, Vec::new());
    for turn in 0..n_commits.div_ceil(TURN) {
        let numbers = turn * TURN..(turn + 1) * TURN;
        let began = Instant::now();
        for n in numbers.clone() {
            let mut transaction = Transaction::new("a part");
            let id = annals::model::id::PartId::parse(&format!("prt_{n:026}"))?;
            transaction.insert(
                Key::Part(session.clone(), message.clone(), id),
                Document::parse(part(n).into_bytes())?,
            );
            store.commit(transaction)?;
        }
        let our_turn = began.elapsed();
        let began = Instant::now();
        for n in numbers {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            connection.prepare_cached("INSERT INTO part VALUES (?1, ?2, ?3)")?.execute((
                format!("prt_{n:026}"),
                message.as_str(),
                part(n),
            ))?;
            connection.execute_batch("COMMIT")?;
        }
        let bare_turn = began.elapsed();
        ours += our_turn;
        bare += bare_turn;
        ratios.push(bare_turn.as_secs_f64() / our_turn.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let a_second = |time: Duration| (ratios.len() * TURN) as f64 / time.as_secs_f64();
    writeln!(
        report,
        "| durable commits of one part | {:.0} a second, a bare SQLite loop {:.0}: {:.2} × (median of {} turns; {:.2} × over all) |",
        a_second(ours),
        a_second(bare),
        ratios[ratios.len() / 2],
        ratios.len(),
        bare.as_secs_f64() / ours.as_secs_f64()
    )?;
    Ok(())
}

fn size_of(directory: &Path) -> io::Result<u64> {
    std::fs::read_dir(directory)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The processor time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    // Counted from the state, which comes after the name: user and system time in hundredths of a second.
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Peak memory of this process.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
